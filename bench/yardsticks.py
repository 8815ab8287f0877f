"""What parts of the work cost alone, in this process, on the core that servers are measured on."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LEVEL = 1
_LEAST_CPU_S = 0.05


class Alone(NamedTuple):
    """CPU time and bytes an item."""

    cpu_us: float
    bytes: float


def compress_alone(batches: Sequence[bytes], items: int, core: int) -> Alone:
    """Return the cost of libzstd at level 1, with a context that is reused."""
    import zstandard

    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    with _on(core):
        repeats, began, size = 0, time.process_time(), 0
        while time.process_time() - began < _LEAST_CPU_S:
            size = sum(len(compressor.compress(batch)) for batch in batches)
            repeats += 1
        elapsed = time.process_time() - began
    return Alone(elapsed / repeats / items * 1e6, size / items)


def copy_alone(batches: Sequence[bytes], items: int, core: int) -> Alone:
    """Return the cost of copying the bytes once, into memory that is reused."""
    target = memoryview(bytearray(max(map(len, batches))))
    with _on(core):
        repeats, began = 0, time.process_time()
        while time.process_time() - began < _LEAST_CPU_S:
            for batch in batches:
                target[: len(batch)] = batch
            repeats += 1
        elapsed = time.process_time() - began
    return Alone(elapsed / repeats / items * 1e6, sum(map(len, batches)) / items)


@contextlib.contextmanager
def _on(core: int) -> Iterator[None]:
    """Run the block on core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
