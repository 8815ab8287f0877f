from __future__ import annotations

from pathlib import Path

import pytest

from bench import bodies, recut
from collector.ids import Signal
from tests.support import otlp


@pytest.fixture(autouse=True)
def without_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing here depends on the captures."""
    monkeypatch.setattr(bodies, "CAPTURES", tmp_path / "none")


@pytest.mark.parametrize("signal", list(Signal))
def test_items_are_cut_and_none_is_lost_or_moved(signal: Signal, tmp_path: Path) -> None:
    """Requests have the size asked for, but for the last; together they are the items of the source, in order."""
    (source,) = recut.sources(signal)
    assert ("generated", signal) == (source.name, source.signal)
    path = tmp_path / "bodies"
    assert 11 == recut.write(source, 100, path, n_items=1_024)
    requests = [otlp.decode(signal, data) for data in recut.read(path)]
    assert [100] * 10 + [24] == [len(list(otlp.items(request))) for request in requests]
    whole = list(otlp.items(otlp.decode(signal, source.read())))
    assert whole[:1_024] == [item for request in requests for item in otlp.items(request)]


@pytest.mark.parametrize("per_request", recut.SIZES)
def test_every_size_divides_a_file_evenly_or_ends_with_a_smaller_request(per_request: int) -> None:
    """Each size that is measured is possible with generated data too."""
    request = recut.sources(Signal.TRACES)[0].read()
    sizes = [
        len(list(otlp.items(otlp.decode(Signal.TRACES, data))))
        for data in recut.cut(Signal.TRACES, request, per_request, n_items=5_000)
    ]
    assert 5_000 == sum(sizes)
    assert {per_request} >= set(sizes[:-1])
    assert sizes[-1] <= per_request


def test_captures_are_preferred(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A capture that is there is a source, by its name; its messages are read as one."""
    zstandard = pytest.importorskip("zstandard")
    monkeypatch.setattr(bodies, "CAPTURES", tmp_path)
    messages = [otlp.traces(otlp.span(f"span {i}")).SerializeToString() for i in range(3)]
    framed = b"".join(len(message).to_bytes(4, "big") + message for message in messages)
    (tmp_path / "astronomy-oteltraces.zst").write_bytes(zstandard.compress(framed))
    (source,) = recut.sources(Signal.TRACES)
    assert "astronomy" == source.name
    names = [span.name for span in otlp.items(otlp.decode(Signal.TRACES, source.read()))]
    assert ["span 0", "span 1", "span 2"] == names
