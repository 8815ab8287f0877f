from __future__ import annotations

import zlib
from pathlib import Path

import pytest
import zstandard

from bench import bodies, recut
from bench.correctness import items_of
from collector.ids import Signal


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
def test_generated_requests_are_valid_and_repeat(signal: Signal) -> None:
    """A seed gives the same request always, with as many items as asked for, as protobuf counts them."""
    request = bodies.generate(signal, 300, seed=5)
    assert request == bodies.generate(signal, 300, seed=5)
    assert request != bodies.generate(signal, 300, seed=6)
    assert 300 == len(list(items_of(signal, request))) == recut.count(signal, request)


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
@pytest.mark.parametrize("per_request", [1, 7, 50])
def test_cuts_hold_all_items_in_order(signal: Signal, per_request: int) -> None:
    """Items are moved as they are, each once, with what they belong to; the last cut may be smaller."""
    request = bodies.generate(signal, 120, seed=1)
    cuts = list(recut.cut(signal, request, per_request, 100))
    expected = [
        tuple(part.SerializeToString() for part in item) for item in list(items_of(signal, request))[:100]
    ]
    found = [
        tuple(part.SerializeToString() for part in item) for cut in cuts for item in items_of(signal, cut)
    ]
    assert expected == found
    assert [per_request] * (100 // per_request) == [recut.count(signal, cut) for cut in cuts][
        : 100 // per_request
    ]


@pytest.mark.parametrize("n_items", [1, 10, 100, 512, 4096])
def test_every_size_that_is_measured_can_be_generated(n_items: int) -> None:
    """Without captures too, for each signal."""
    for signal in Signal:
        assert n_items == recut.count(signal, recut.of_items(signal, n_items, captured=False)[0])


def test_captures_are_used_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them or none; the messages of one are read as one request."""
    packed = zstandard.compress(
        bodies.write_framed(tmp_path / "framed", [b"\x0a\x00", b"", b"\x0a\x00"]).read_bytes()
    )
    captures = {name: tmp_path / f"{name}.zst" for name in bodies.CAPTURES}
    monkeypatch.setattr(bodies, "CAPTURES", captures)
    assert not bodies.are_captured()
    assert bodies.describe().startswith("generated")
    for path in captures.values():
        path.write_bytes(packed)
    assert bodies.are_captured()
    assert [b"\x0a\x00", b"", b"\x0a\x00"] == list(bodies.read_capture(captures["astronomy"]))


def test_requests_of_a_size_all_have_it() -> None:
    """No request is smaller than was asked for, and none is like another."""
    requests = recut.of_items(Signal.TRACES, 512, captured=False)
    assert 40 == len(requests) == len(set(requests))
    assert {512} == {recut.count(Signal.TRACES, request) for request in requests}


def test_kernel_requests_are_the_same_everywhere() -> None:
    """What instruction counts are taken over does not change unnoticed."""
    requests = recut.for_kernel(captured=False)
    assert [512] * 4 == [recut.count(Signal.TRACES, request) for request in requests]
    assert 1_846_942_866 == zlib.crc32(b"".join(requests))


def test_framed_requests_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The load generator's format: length in four bytes, big-endian, and the request; empty ones too."""
    path = bodies.write_framed(tmp_path / "bodies", [b"abc", b"", b"d"])
    assert b"\0\0\0\x03abc\0\0\0\0\0\0\0\x01d" == path.read_bytes()
    assert [b"abc", b"", b"d"] == list(bodies.read_framed(path.read_bytes()))
