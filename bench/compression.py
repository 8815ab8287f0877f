"""Bytes that leave: requests gathered into batches and compressed, by the parts that the otlp exporter uses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench import bodies, recut
from bench.figures import OURS, Figure
from bench.place import Place
from collector.errors import Refused
from collector.ids import Signal
from collector.native.pipeline import Batch, Queue, QueueItem
from collector.native.runtime import Runtime, Worker
from collector.processors.batch import Config

BATCH_SPANS = 8192
_CAPTURES = ("hipstershop", "astronomy")
_LEVELS = (1, 2, 3, 4, 5, 6, 7, 9, 12)
_REPEATS = 3  # of the CPU time; sizes repeat exactly


def _sources() -> Sequence[str | None]:
    """Return the captures that are here, and None for generated requests."""
    return (None, *_CAPTURES) if bodies.are_captured() else (None,)


def steps() -> int:
    """Return how often measure will say what it does."""
    return 2 * len(_sources())


def measure(place: Place) -> Iterator[Figure]:
    """Yield bytes a span after zstd and what that costs, for batches without and with the default limit of bytes.

    Generated requests give the same sizes wherever the same libzstd is used.
    """
    for capture in _sources():
        requests = recut.for_export(capture)
        what = capture or "generated"
        limit = Config().send_batch_max_bytes
        for name, max_bytes in (("no byte limit", 0), (f"at most {limit:,} B", limit)):
            place.say(f"batches of {what} spans, {name}")
            results = [compress(requests, max_bytes) for _ in range(_REPEATS)]
            first = results[0]
            for kind, values, note in (
                ("packed", [first.packed / first.spans], f"{first.batches} batches, {first.ratio:.1f} : 1"),
                ("packed_cpu", [result.cpu_s / result.spans * 1e6 for result in results], ""),
            ):
                yield Figure(
                    kind=kind,
                    scenario=f"{what} spans in batches, {name}",
                    system=OURS,
                    values=tuple(values),
                    items=BATCH_SPANS,
                    note=note,
                )


class Compressed(NamedTuple):
    """What came of compressing.

    Attributes:
        plain, packed: bytes before and after.
        cpu_s: CPU time of gathering and compressing.
    """

    plain: int
    packed: int
    spans: int
    batches: int
    cpu_s: float

    @property
    def ratio(self) -> float:
        """How many times less the bytes have become."""
        return self.plain / self.packed


def compress(requests: Sequence[bytes], max_bytes: int) -> Compressed:
    """Gather requests into batches and compress these.

    Args:
        max_bytes: most bytes of a batch; 0 for no limit.
    """
    batches, cpu_s = _gather(requests, max_bytes, "zstd")
    return Compressed(
        plain=sum(batch.plain for batch in batches),
        packed=sum(len(batch.data) for batch in batches),
        spans=sum(batch.spans for batch in batches),
        batches=len(batches),
        cpu_s=cpu_s,
    )


class Level(NamedTuple):
    """What a level of zstd makes of batches, an item."""

    level: int
    bytes: float
    cpu_us: float


def levels(capture: str | None) -> list[Level]:
    """Return what each level would make of the batches without a limit of bytes."""
    import zstandard

    batches, _ = _gather(recut.for_export(capture), 0, "identity")
    spans = sum(batch.spans for batch in batches)
    found = []
    for level in _LEVELS:
        compressor = zstandard.ZstdCompressor(level=level)
        began = time.process_time()
        packed = sum(len(compressor.compress(batch.data)) for batch in batches)
        found.append(Level(level, packed / spans, (time.process_time() - began) / spans * 1e6))
    return found


class Gathered(NamedTuple):
    """What an exporter would send.

    Attributes:
        plain: bytes before they were compressed.
    """

    data: bytes
    plain: int
    spans: int


def _gather(requests: Sequence[bytes], max_bytes: int, encoding: str) -> tuple[list[Gathered], float]:
    """Return what exporters would be given, and the CPU time that it took."""
    runtime = Runtime()
    worker = Worker(runtime)
    queue = Queue(runtime, Signal.TRACES, sizer="requests", capacity=1_000_000)
    queue.set_compression(encoding, 0)
    batch = Batch(
        runtime,
        Signal.TRACES,
        [queue],
        timeout_s=60,
        send_batch_size=BATCH_SPANS,
        send_batch_max_size=BATCH_SPANS,
        send_batch_max_bytes=max_bytes,
    )
    began = time.process_time()
    for request in requests:
        _push(batch, worker, request)
    batch.drain(timeout_s=60)
    cpu_s = time.process_time() - began
    queue.close()
    batches = []
    while (item := _pop(queue)) is not None:
        batches.append(Gathered(bytes(item.view), item.original_length, item.item_count))
        queue.done(item)
    return batches, cpu_s


def _push(batch: Batch, worker: Worker, request: bytes) -> None:
    while True:
        try:
            batch.push(worker, request)
            return
        except Refused:  # the batch's thread has not passed on the ones before
            time.sleep(0.001)


def _pop(queue: Queue) -> QueueItem | None:
    try:
        return queue.pop(timeout_s=1)
    except StopIteration:
        return None
