"""Bytes that leave: requests gathered into batches and compressed, by the parts that the otlp exporter uses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from bench import bodies, recut
from bench.figures import OURS, Figure
from bench.place import Place
from collector.errors import Refused
from collector.ids import Signal
from collector.native.pipeline import Batch, Queue, QueueItem
from collector.native.runtime import Runtime, Worker
from collector.processors.batch import Config

BATCH_SPANS = 8192


def steps() -> int:
    """Return how often measure will say what it does."""
    return 2 * (1 + bodies.are_captured())


def measure(place: Place) -> Iterator[Figure]:
    """Yield bytes a span after zstd, for batches without and with the default limit of bytes.

    Generated requests give the same sizes wherever the same libzstd is used.
    """
    for captured in (False, True)[: 1 + bodies.are_captured()]:
        requests = recut.for_export(captured=captured)
        what = "captured" if captured else "generated"
        limit = Config().send_batch_max_bytes
        for name, max_bytes in (("no byte limit", 0), (f"at most {limit:,} B", limit)):
            place.say(f"batches of {what} spans, {name}")
            plain, packed, spans, batches = compress(requests, max_bytes)
            yield Figure(
                kind="packed",
                scenario=f"{what} spans in batches, {name}",
                system=OURS,
                values=(packed / spans,),
                items=BATCH_SPANS,
                note=f"{batches} batches, {plain / packed:.1f} : 1",
            )


def compress(requests: Sequence[bytes], max_bytes: int) -> tuple[int, int, int, int]:
    """Return bytes before and after, spans and batches.

    Args:
        max_bytes: most bytes of a batch; 0 for no limit.
    """
    runtime = Runtime()
    worker = Worker(runtime)
    queue = Queue(runtime, Signal.TRACES, sizer="requests", capacity=1_000_000)
    queue.set_compression("zstd", 0)
    batch = Batch(
        runtime,
        Signal.TRACES,
        [queue],
        timeout_s=60,
        send_batch_size=BATCH_SPANS,
        send_batch_max_size=BATCH_SPANS,
        send_batch_max_bytes=max_bytes,
    )
    for request in requests:
        _push(batch, worker, request)
    batch.drain(timeout_s=60)
    queue.close()
    plain = packed = spans = batches = 0
    while (item := _pop(queue)) is not None:
        plain += item.original_length
        packed += len(item.view)
        spans += item.item_count
        batches += 1
        queue.done(item)
    return plain, packed, spans, batches


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
