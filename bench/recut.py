"""Requests of one size, cut from captures, or from what is generated like them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from bench import bodies
from collector.ids import Signal
from collector.native.table import SpanTable

_ITEMS = 20_480  # of a source: a multiple of the greatest size
_MOST_REQUESTS = 2_048
_KERNEL_SPANS = 512
_EXPORTED_SPANS = 8_192  # of a request, where a capture has more in one
_ALL = 1 << 30


def of_items(
    signal: Signal, n_items: int, *, captured: bool | None = None, capture: str | None = None
) -> list[bytes]:
    """Return different requests of n_items each, as many as 20,480 items make, but at most 2,048.

    Args:
        captured: cut from captures; None for where these are.
        capture: the one to cut from; None for the usual one.
    """
    usual = None if captured is False else bodies.usual_capture(signal)
    source = _source(signal, capture or usual)
    requests = cut(signal, source, n_items, min(_ITEMS, _MOST_REQUESTS * n_items))
    return [request for request in requests if count(signal, request) == n_items]


def for_kernel(*, captured: bool) -> list[bytes]:
    """Return four requests of 512 spans from different parts of a large one."""
    return of_items(Signal.TRACES, _KERNEL_SPANS, captured=captured)[::10]


def for_export(capture: str | None) -> list[bytes]:
    """Return requests to gather into batches and compress, 65,000 spans and more; generated without a capture."""
    if capture is None:
        return [bodies.generate(Signal.TRACES, 128, seed) for seed in range(512)]
    requests = bodies.read_capture(bodies.CAPTURES[capture])
    return [piece for request in requests for piece in cut(Signal.TRACES, request, _EXPORTED_SPANS, _ALL)]


def count(signal: Signal, request: bytes) -> int:
    """Return the number of items in a request."""
    return len(SpanTable(signal, request))


def cut(signal: Signal, request: bytes, per_request: int, n_items: int) -> Iterator[bytes]:
    """Yield the first n_items of request in requests of per_request each, resources and scopes as they were."""
    table = SpanTable(signal, request)
    if len(table) > n_items:
        request = _rows(table, 0, n_items)
        table = SpanTable(signal, request)
    n_pieces = -(-len(table) // per_request)
    if n_pieces == 1:
        yield request
    elif n_pieces > 1:
        # By halves: taking rows out of a request costs a walk over the whole of it.
        middle = n_pieces // 2 * per_request
        first, rest = _rows(table, 0, middle), _rows(table, middle, len(table))
        del table
        yield from cut(signal, first, per_request, n_items)
        yield from cut(signal, rest, per_request, n_items)


def _rows(table: SpanTable, first: int, end: int) -> bytes:
    verdict = table.verdict
    verdict[:] = 1
    verdict[first:end] = 0
    return table.emit()


@cache
def _source(signal: Signal, capture: str | None) -> bytes:
    """Return one request with at least _ITEMS; messages one behind the other are one: resources are repeated."""
    if capture:
        return b"".join(bodies.read_capture(bodies.CAPTURES[capture]))
    return bodies.generate(signal, _ITEMS, seed=1)
