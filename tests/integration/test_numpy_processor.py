"""The processor in numpy of collector/README.md, from there, in a pipeline of a real collector."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.integration.harness import Client, arrived, h2_backend, make_config, start, write
from tests.support import otlp
from tests.test_docs import ROOT, blocks

MS = 1_000_000


CALL = {"kind": Span.SPAN_KIND_CLIENT, "start_time_unix_nano": 1}
FAST = {"end_time_unix_nano": 2 * MS}


def test_readme_processor_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippet, installed under its entry point, drops fast client spans that did not fail, and edits the others."""
    install(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    failed = {"http.response.status_code": 503, "http.route": "/users/7", "user.email": "a@b.c"}
    spans = [
        otlp.span(span_id=b"fastcall", **{**CALL, **FAST}),
        otlp.span(span_id=b"slowcall", **CALL, end_time_unix_nano=50 * MS),
        otlp.span("GET user", attributes=failed, span_id=b"failcall", **{**CALL, **FAST}),
        otlp.span(span_id=b"fastwork", **{**CALL, **FAST, "kind": Span.SPAN_KIND_SERVER}),
    ]
    output = tmp_path / "spans.jsonl"
    config = make_config(1, processors={"drop_fast_calls": {"faster_than": "20ms"}, "batch": {}})
    config["exporters"] = {"file": {"path": str(output)}}
    for pipeline in config["service"]["pipelines"].values():
        pipeline["exporters"] = ["file"]
    with start(tmp_path / "config.yaml", config) as spansieve, Client(spansieve.grpc) as client:
        client.export(otlp.traces(*spans).SerializeToString())
        assert 0 == spansieve.stop()
    (line,) = output.read_text().splitlines()
    arrived = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {b"slowcall", b"failcall", b"fastwork"} == {bytes.fromhex(span["spanId"]) for span in arrived}
    (edited,) = [span["attributes"] for span in arrived if span["name"] == "GET user"]
    assert [
        {"key": "http.response.status_code", "value": {"intValue": "503"}},
        {"key": "http.route", "value": {"stringValue": "/users/{id}"}},
    ] == edited


FAILING = """
import sys
from collector.component import Factory, Stability, TableProcessor
from collector.config.fields import section
from collector.ids import Signal


@section
class Config:
    pass


class Failing(TableProcessor):
    def __init__(self, config, settings):
        pass

    def process(self, table):
        if table.name[0] == "bad":
            sys.exit("enough")


factory = Factory(config=Config, create=Failing, signals=frozenset(Signal), stability=Stability.ALPHA)
"""


def test_client_is_told_that_the_processor_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sys.exit fails one request for good; the next one arrives, and the log says where it happened."""
    put_plugin(tmp_path / "site", "failing", FAILING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    with h2_backend() as backend:
        config = make_config(backend.server_address[1], processors={"failing": {}})
        with start(tmp_path / "config.yaml", config) as spansieve, Client(spansieve.grpc) as client:
            with pytest.raises(grpc.RpcError) as caught:
                client.export(otlp.traces(otlp.span("bad")).SerializeToString())
            client.export(otlp.traces(otlp.span("good")).SerializeToString())
            assert 0 == spansieve.stop()
        assert grpc.StatusCode.INTERNAL is caught.value.code()
        assert "processor failed: SystemExit: enough" == caught.value.details()
        (line,) = [line for line in spansieve.log if "processor failed" in line]
        assert "failing.py" in line and "in process" in line
        assert 1 == len(arrived(backend))


@pytest.mark.parametrize(
    "fault", ["raise ValueError('no luck')", "sys.exit(3)", "1 +", "import no_such_module"]
)
def test_broken_plugin_is_named_and_the_rest_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """One that no configuration names costs a warning; one that is named, the reason with its place."""
    put_plugin(tmp_path / "site", "broken", f"import sys\n\n{fault}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    for command in ("components", "docs", "schema"):
        done = spansieve(command)
        assert 0 == done.returncode
        assert "batch" in done.stdout
        assert re.search(
            r'^Warning: processor "broken" is left out: .+\(.*broken.py:3', done.stderr, re.MULTILINE
        ), done.stderr
    config = make_config(1, processors={"broken": None})
    done = spansieve("validate", "--config", str(write(tmp_path / "config.yaml", config)))
    assert 1 == done.returncode
    assert re.search(r'processor "broken" cannot be loaded: .+\(.*broken.py:3', done.stderr), done.stderr
    config = make_config(1, processors={"batch": None})
    assert 0 == spansieve("validate", "--config", str(write(tmp_path / "config.yaml", config))).returncode


def spansieve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "collector", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def put_plugin(site: Path, name: str, code: str, target: str | None = None) -> None:
    """Put a module with a processor and its entry point where PYTHONPATH finds them, as pip would."""
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{name}.py").write_text(code)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    entry_point = target or f"processors.{name} = {name}:factory"
    (metadata / "entry_points.txt").write_text(f"[spansieve.components]\n{entry_point}\n")


def install(site: Path) -> None:
    """Install the README's module."""
    (code,) = blocks(ROOT / "collector" / "README.md", "python")
    (entry_point,) = blocks(ROOT / "collector" / "README.md", "toml")
    put_plugin(site, "drop_fast_calls", code, entry_point.splitlines()[1].replace('"', ""))
