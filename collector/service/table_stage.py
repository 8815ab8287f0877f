"""Runs a processor written with numpy: a bounded queue, and one Python thread that empties it.

A client waits until its request has been processed and passed on. So whatever the processor raises becomes the answer,
as does what the next consumer says: as in the Collector, a failure of the processor is permanent. Requests that nobody
waits for, those of a batch, were acknowledged before: the thread keeps one until the next consumer has it. Their items
are lost, counted and logged, when the processor raises, when the next consumer says that trying again cannot help, and
when shutdown runs out of time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from collector.component import Settings, TableProcessor
from collector.errors import ConsumeError, RetryableError, explain, traceback_of
from collector.lean import TYPE_CHECKING
from collector.native.pipeline import Consumer, Queue, Verdict, join
from collector.telemetry.instruments import (
    DROPPED_ITEMS,
    FAILED_ITEMS,
    INCOMING_ITEMS,
    OUTGOING_ITEMS,
    PENDING_ITEMS,
    Sample,
)
from collector.threads import Event, Thread

if TYPE_CHECKING:
    from collector.native.table_worker import TableWorker

QUEUE_BYTES = 16 << 20
"""Requests that wait for the thread; more are refused."""

_POP_S = 3600.0
_RETRY_MIN_S = 0.01
_RETRY_MAX_S = 1.0
_TELL_EVERY_S = 60.0

_INTERNAL = 13
_UNAVAILABLE = 14


class TableStage:
    """A stage around processor, one of its pipeline."""

    def __init__(self, processor: TableProcessor, settings: Settings) -> None:
        self._processor = processor
        self._signal = settings.own_signal
        self._runtime = settings.runtime
        self._log = settings.log
        self._labels = (("processor", str(settings.id)), ("otel_signal", settings.own_signal.value))
        self._clock = settings.clock
        self._failures = _Failures(settings)
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
        self._queue.hold_answers()
        return self._queue

    def start(self) -> None:
        """Start the processor, then its thread."""
        if self._queue is None or self._output is None:
            raise RuntimeError("started before it was connected")
        self._processor.start()
        thread = Thread(self._run, self._queue, self._output)
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

    def _run(self, queue: Queue, output: Consumer) -> None:
        # numpy comes with the table: loaded only where a table processor is configured.
        from collector.native.table_worker import TableWorker

        worker = TableWorker(self._runtime, self._signal, queue, output)
        is_open = True
        while is_open:
            try:
                is_open = self._serve_next(worker)
            except BaseException:  # noqa: BLE001 of our own, where memory is short: it may pass
                self._give_up.wait(_RETRY_MAX_S)
        self._failures.tell()

    def _serve_next(self, worker: TableWorker) -> bool:
        """Serve one request, if one comes; return False when none will come any more."""
        try:
            if not worker.next(_POP_S):
                return True
        except StopIteration:
            return False
        verdict: Verdict | None = None
        try:
            verdict = self._serve(worker)
        finally:
            if worker.has_item():
                worker.done(verdict)
        return True

    def _serve(self, worker: TableWorker) -> Verdict | None:
        """Process a request and pass it on; return what its client is told if not success, None to come again."""
        item_count = worker.item_count
        if self._give_up.is_set():
            return None if worker.is_awaited else self._lose(item_count, "shutdown ran out of time")
        try:
            table = worker.table()
            try:
                self._processor.process(table)
                table.finish()
            finally:
                table.end()
        except BaseException as error:  # noqa: BLE001 not even SystemExit is a reason to serve nobody any more
            return self._fail(worker, error)
        kept = worker.kept_count
        failure = self._pass_on(worker)
        if failure is None:
            self._incoming += item_count
            self._outgoing += kept
            self._dropped += item_count - kept
        return failure

    def _pass_on(self, worker: TableWorker) -> Verdict | None:
        item_count = worker.item_count
        delay_s = _RETRY_MIN_S
        while True:
            try:
                worker.pass_on()
            except RetryableError as error:
                if worker.is_awaited:
                    return Verdict(error.code or _UNAVAILABLE, str(error), _delay_ms(error))
                wait_s = delay_s if error.retry_after_s is None else max(delay_s, error.retry_after_s)
                if self._give_up.wait(wait_s):
                    return self._lose(item_count, str(error))
                delay_s = min(2 * delay_s, _RETRY_MAX_S)
            except ConsumeError as error:
                if worker.is_awaited:
                    return Verdict(error.code or _INTERNAL, str(error))
                return self._lose(item_count, str(error))
            else:
                return None

    def _fail(self, worker: TableWorker, error: BaseException) -> Verdict:
        self._incoming += worker.item_count
        self._failed += worker.item_count
        self._failures.add(error, worker.item_count, is_lost=not worker.is_awaited)
        if isinstance(error, RetryableError):
            return Verdict(_UNAVAILABLE, explain(error), _delay_ms(error))
        code = _UNAVAILABLE if isinstance(error, MemoryError) else _INTERNAL
        return Verdict(code, f"processor failed: {explain(error)}")

    def _lose(self, item_count: int, error: str) -> Verdict:
        self._incoming += item_count
        self._failed += item_count
        self._log.error("items lost", items=item_count, error=error)
        return Verdict(_INTERNAL, error)


class _Failures:
    """What a processor has raised: told at once, and then once a minute."""

    def __init__(self, settings: Settings) -> None:
        self._log = settings.log
        self._clock = settings.clock
        self._told_s = -math.inf
        self._last = ""
        self._requests = 0
        self._items = 0
        self._lost = 0

    def add(self, error: BaseException, item_count: int, *, is_lost: bool) -> None:
        self._last = explain(error)
        self._requests += 1
        self._items += item_count
        self._lost += item_count if is_lost else 0
        if self._clock() - self._told_s >= _TELL_EVERY_S:
            self.tell(traceback=traceback_of(error))

    def tell(self, **more: str) -> None:
        """Tell what was not told yet."""
        if not self._requests:
            return
        self._told_s = self._clock()
        counts = {"requests": self._requests, "items": self._items, "lost_items": self._lost}
        self._requests = self._items = self._lost = 0
        self._log.error("processor failed", error=self._last, **counts, **more)


def _delay_ms(error: RetryableError) -> int | None:
    return None if error.retry_after_s is None else int(error.retry_after_s * 1000)
