"""Runs a processor written with numpy: a bounded queue, and one Python thread that empties it.

What was taken in is acknowledged, so the thread keeps a request until the next consumer has it, and asks again while
that one refuses. Items are lost, counted and logged, in three cases: `process` raises, the next consumer says that
trying again cannot help, and shutdown runs out of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.component import Settings, TableProcessor
from collector.errors import ConsumeError, Refused
from collector.lean import suppress
from collector.native.pipeline import Consumer, Queue, QueueItem, join
from collector.native.runtime import Worker
from collector.telemetry.instruments import (
    DROPPED_ITEMS,
    FAILED_ITEMS,
    INCOMING_ITEMS,
    OUTGOING_ITEMS,
    PENDING_ITEMS,
    Sample,
)
from collector.threads import Event, Thread

QUEUE_BYTES = 16 << 20
"""Requests that wait for the thread; more are refused."""

_POP_S = 3600.0
_RETRY_MIN_S = 0.01
_RETRY_MAX_S = 1.0


class TableStage:
    """A stage around processor, one of its pipeline."""

    def __init__(self, processor: TableProcessor, settings: Settings) -> None:
        self._processor = processor
        self._signal = settings.own_signal
        self._runtime = settings.runtime
        self._log = settings.log
        self._clock = settings.clock
        self._labels = (("processor", str(settings.id)), ("otel_signal", settings.own_signal.value))
        self._give_up = Event()
        self._queue: Queue | None = None
        self._output: Consumer | None = None
        self._thread: Thread | None = None
        self._incoming = 0
        self._outgoing = 0
        self._dropped = 0
        self._failed = 0

    def connect(self, outputs: Sequence[Consumer]) -> Consumer:
        """Return the queue in front of the processor."""
        self._output = join(self._signal, outputs)
        self._queue = Queue(self._runtime, self._signal, sizer="bytes", capacity=QUEUE_BYTES)
        return self._queue

    def start(self) -> None:
        """Start the processor, then its thread."""
        self._processor.start()
        thread = Thread(self._run)
        thread.start()
        self._thread = thread

    def shutdown(self, deadline_s: float) -> None:
        """Process and pass on what was taken in; give up on the rest after deadline_s seconds."""
        end_s = self._clock() + deadline_s
        if self._queue is not None:
            self._queue.close()
        if self._thread is not None:
            self._thread.join(deadline_s)
            self._give_up.set()
            self._thread.join()
            self._thread = None
        self._processor.shutdown(max(0.0, end_s - self._clock()))

    def samples(self) -> Iterator[Sample]:
        """Return the stage's metrics, then the processor's own."""
        pending = 0 if self._queue is None else int(self._queue.stats().items)
        yield Sample(INCOMING_ITEMS, self._labels, self._incoming)
        yield Sample(OUTGOING_ITEMS, self._labels, self._outgoing)
        processor, signal = self._labels
        yield Sample(DROPPED_ITEMS, (processor, ("rule", "process"), signal), self._dropped)
        yield Sample(FAILED_ITEMS, self._labels, self._failed)
        yield Sample(PENDING_ITEMS, self._labels, pending)
        yield from self._processor.samples()

    def _run(self) -> None:
        queue, output = self._queue, self._output
        if queue is None or output is None:
            raise RuntimeError("started before it was connected")
        worker = Worker(self._runtime)
        with suppress(StopIteration):
            while True:
                item = queue.pop(_POP_S)
                if item is not None:
                    try:
                        self._pass_on(item, worker, output)
                    finally:
                        queue.done(item)

    def _pass_on(self, item: QueueItem, worker: Worker, output: Consumer) -> None:
        # numpy comes with the table: loaded only where a table processor is configured.
        from collector.native.table import SpanTable

        self._incoming += item.item_count
        if self._give_up.is_set():
            self._lose(item.item_count, "shutdown ran out of time")
            return
        try:
            table = SpanTable.scan(self._signal, item.view)
            self._processor.process(table)
            kept = int((table.verdict == 0).sum())
            request = table.emit() if kept else b""
        except Exception as error:  # noqa: BLE001 whatever a processor raises, the next request may be fine
            self._lose(item.item_count, repr(error))
            return
        self._dropped += item.item_count - kept
        if kept:
            self._push(request, kept, worker, output)

    def _push(self, request: bytes, item_count: int, worker: Worker, output: Consumer) -> None:
        delay_s = _RETRY_MIN_S
        while True:
            try:
                output.push(worker, request)
            except Refused as error:
                wait_s = delay_s if error.retry_after_s is None else max(delay_s, error.retry_after_s)
                if self._give_up.wait(wait_s):
                    self._lose(item_count, str(error))
                    return
                delay_s = min(2 * delay_s, _RETRY_MAX_S)
            except ConsumeError as error:
                self._lose(item_count, str(error))
                return
            else:
                self._outgoing += item_count
                return

    def _lose(self, item_count: int, error: str) -> None:
        self._failed += item_count
        self._log.error("items lost", items=item_count, error=error)
