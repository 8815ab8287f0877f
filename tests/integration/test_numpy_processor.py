"""The processor in numpy of collector/README.md, from there, in a pipeline of a real collector."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.integration.harness import Client, arrived, h2_backend, make_config, start
from tests.support import otlp
from tests.test_docs import ROOT, blocks

MS = 1_000_000


def test_readme_processor_drops_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippet, installed under its entry point, drops fast client spans and no others; the drop is counted."""
    install(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    spans = [
        otlp.span(
            span_id=b"fastcall", kind=Span.SPAN_KIND_CLIENT, start_time_unix_nano=1, end_time_unix_nano=2 * MS
        ),
        otlp.span(
            span_id=b"slowcall",
            kind=Span.SPAN_KIND_CLIENT,
            start_time_unix_nano=1,
            end_time_unix_nano=50 * MS,
        ),
        otlp.span(
            span_id=b"fastwork", kind=Span.SPAN_KIND_SERVER, start_time_unix_nano=1, end_time_unix_nano=2 * MS
        ),
    ]
    with h2_backend() as backend:
        config = make_config(
            backend.server_address[1], processors={"drop_fast_calls": {"faster_than": "20ms"}, "batch": {}}
        )
        with start(tmp_path / "config.yaml", config) as spansieve, Client(spansieve.grpc) as client:
            client.export(otlp.traces(*spans).SerializeToString())
            assert 0 == spansieve.stop()
        assert [b"fastwork".hex(), b"slowcall".hex()] == arrived(backend)


def install(site: Path) -> None:
    """Put the README's module and its entry point where PYTHONPATH finds them, as pip would."""
    (code,) = blocks(ROOT / "collector" / "README.md", "python")
    (entry_point,) = blocks(ROOT / "collector" / "README.md", "toml")
    metadata = site / "drop_fast_calls-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "drop_fast_calls.py").write_text(code)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: drop-fast-calls\nVersion: 1.0\n")
    name, target = entry_point.splitlines()[1].replace('"', "").split(" = ")
    (metadata / "entry_points.txt").write_text(f"[spansieve.components]\n{name} = {target}\n")
