"""The `sending_queue` link: a bounded native queue and the threads that empty it.

Pipelines put serialized requests in without the GIL, consumer threads take them out, send them with retry, and
free their place when the final result is known. An exporter with a native client takes out only the requests that
need a decision: its threads stay in C while all goes well. One thread waits at any time and another is started when
it gets work, up to num_consumers, so that a request in back-off never holds up the ones behind it, and an idle
exporter costs one thread.

A shutdown ends all back-offs: each request gets another try at once, and further ones in turn with the others until
the deadline. Where a reload has put another exporter in the place of this one, they go to its queue instead.

Source: OpenTelemetry Collector, exporterhelper: queue sender, obsreport sender.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from collector.component import Settings
from collector.config.fields import option, section, unserved
from collector.errors import ConsumeError, RetryableError
from collector.exporterhelper.request import Request, Send, Sent
from collector.exporterhelper.retry import RetryConfig, RetrySender
from collector.exporterhelper.timeout import attempt_limit_s
from collector.lean import Any, NamedTuple, StrEnum, suppress
from collector.native.pipeline import Queue, QueueItem, Verdict, Waited
from collector.telemetry.instruments import Instrument, Sample
from collector.threads import Lock, Thread

_OK, _INTERNAL, _UNAVAILABLE = 0, 13, 14  # google.rpc.Code
_DELAY_MAX_MS = 0xFFFFFFFF
_POP_S = 3600.0  # close ends the wait; its length does not matter
_LOST_PERIOD_S = 10.0
# Of the time for a shutdown, for threads whose attempt has been cut off, but no more than this share of it.
_GRACE_S = 0.5
_GRACE_SHARE = 0.1
_PASS_ON_S = 5.0  # the same where they have a successor, beyond that time
_SHORTEST_S = 0.05  # between two attempts of a request while shutting down


class Sizer(StrEnum):
    """The unit of queue_size."""

    REQUESTS = "requests"
    ITEMS = "items"
    BYTES = "bytes"


@section
class QueueConfig:
    """The `sending_queue` section."""

    enabled: bool = option(
        True,
        doc="Queue requests; false keeps each client waiting until its request is sent, and tells it the outcome."
        " queue_size clients may wait, and more are refused; of the batches of a `batch` processor num_consumers are"
        " taken at once. The request of a client that gives up is not sent, nor retried.",
    )
    num_consumers: int = option(10, doc="Requests sent at once.")
    queue_size: int = option(1000, doc="Capacity in units of sizer, requests being sent included.")
    sizer: Sizer = option(Sizer.REQUESTS, doc="Unit of queue_size: requests, items or bytes.")
    block_on_overflow: bool = option(False, doc="Wait for room in a full queue instead of refusing.")
    wait_for_result: bool = option(
        False,
        doc="Keep each client waiting until its request is sent, and tell it the outcome. The request of a client that"
        " gives up is not sent, nor retried.",
    )
    storage: Any = unserved("remove it to queue in memory")
    batch: Any = option(None, doc="Not supported yet.")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for what is out of bounds."""
        if self.num_consumers < 1:
            yield "num_consumers", f"`num_consumers` must be positive, got {self.num_consumers}"
        if not self.enabled:
            return
        if self.queue_size < 1:
            yield "queue_size", f"`queue_size` must be positive, got {self.queue_size}"

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for what cannot be done yet."""
        if self.enabled and self.batch is not None:
            yield "batch", "not supported yet; remove it and put the processor 'batch' into the pipeline"


def _of_items(name: str, description: str) -> dict[str, Instrument]:
    return {
        items: Instrument(
            f"otelcol_exporter_{name}_{items}", "counter", description.format(items.replace("_", " "))
        )
        for items in ("spans", "metric_points", "log_records")
    }


SENT = _of_items("sent", "Number of {} successfully sent to destination.")
_SEND_FAILED = _of_items("send_failed", "Number of {} in failed attempts to send to destination.")
_ENQUEUE_FAILED = _of_items("enqueue_failed", "Number of {} failed to be added to the sending queue.")
_QUEUE_SIZE = Instrument(
    "otelcol_exporter_queue_size", "gauge", "Current size of the sending queue, in its unit."
)
_QUEUE_ITEMS = Instrument(
    "spansieve_exporter_queue_items", "gauge", "Items in the sending queue, those being sent included."
)
_QUEUE_CAPACITY = Instrument(
    "otelcol_exporter_queue_capacity", "gauge", "Capacity of the sending queue, in its unit."
)
_IN_FLIGHT = Instrument(
    "otelcol_exporter_in_flight_requests",
    "gauge",
    "Number of export requests currently in-flight (including retry backoff).",
)
_SENT_BYTES = Instrument(
    "spansieve_exporter_sent_bytes", "counter", "Bytes sent: compressed, framing included."
)
_UNCOMPRESSED_BYTES = Instrument(
    "spansieve_exporter_uncompressed_bytes", "counter", "Bytes of the requests sent, before compression."
)
_REJECTED_ITEMS = Instrument(
    "spansieve_exporter_rejected_items",
    "counter",
    "Items sent that the destination rejected in a partial success.",
)

_CANCELLED = "request is cancelled or timed out"
_DROPPED_FIELDS = {
    "spans": "dropped_spans",
    "metric_points": "dropped_data_points",
    "log_records": "dropped_log_records",
}


class Taken(NamedTuple):
    """A request out of the queue.

    Attributes:
        item: the request, still in its place.
        first: tells what came of the attempt that was made already, in place of the first one; None when none was.
        spent_s: seconds that it took.
    """

    item: QueueItem
    first: Send | None = None
    spent_s: float = 0.0


class _Later(Exception):
    """The next attempt comes later than others, at not_before_s of the clock, or is left to a successor."""

    def __init__(self, not_before_s: float = 0.0) -> None:
        self.not_before_s = not_before_s
        super().__init__()


class _OutOfTime(ConsumeError):
    """No attempt has succeeded before the deadline of the shutdown."""

    def __init__(self) -> None:
        super().__init__("shutdown ran out of time", code=_UNAVAILABLE)


Take = Callable[[Queue, int | None, int], Taken]
"""Send what a queue holds as long as nothing is to be decided, then take out the request for which something is.

Args: the queue; the number of requests in flight at which the next is taken out unsent, None for no such number; the
number of items above which one is taken out unsent, of those that found no room or whose clients have gone.

Raises:
    StopIteration: the queue was closed and is empty.
"""


def _pop(queue: Queue, _n_threads: int | None, _reported_items: int) -> Taken:
    while (item := queue.pop(_POP_S)) is None:
        pass
    return Taken(item)


class QueueSender:
    """The sending queue of one exporter and signal, with retry and time limit behind it.

    Args:
        send: makes one attempt; called from num_consumers threads.
        take: sends in its own way what needs no decision; by default everything is left to send.
        timeout_s: of one attempt; 0 for none.
        destination: labels that say where send sends to.
        encoding: what requests are compressed with on their way into the queue; a value of native.codec.Encoding.
        level: of the compression; 0 is its default.
        abort: ends attempts in progress; called when shutdown is out of time.
        random_unit: uniform in [0, 1); for tests.
    """

    def __init__(
        self,
        settings: Settings,
        send: Send,
        *,
        queue: QueueConfig,
        retry: RetryConfig,
        timeout_s: float,
        destination: tuple[tuple[str, str], ...] = (),
        encoding: str = "identity",
        level: int = 0,
        take: Take = _pop,
        abort: Callable[[], None] = lambda: None,
        random_unit: Callable[[], float] | None = None,
    ) -> None:
        self._settings = settings
        self._signal = settings.own_signal
        self._log = settings.log
        self._clock = settings.clock
        self._send = send
        self._take = take
        self._config = queue
        self._timeout_s = timeout_s
        self._destination = destination
        self._abort = abort
        self._hint = _hint(queue, retry)
        extra = {} if random_unit is None else {"random_unit": random_unit}
        self._retry = RetrySender(retry, self._log, clock=self._clock, **extra)
        self.consumer = Queue(
            settings.runtime,
            settings.own_signal,
            sizer=queue.sizer if queue.enabled else Sizer.REQUESTS,
            capacity=queue.queue_size if queue.enabled else queue.num_consumers,
            block_on_overflow=queue.enabled and queue.block_on_overflow,
        )
        self.set_encoding(encoding, level)
        if not queue.enabled:
            self.consumer.hold_answers(waiting_max=max(queue.queue_size, queue.num_consumers))
        elif queue.wait_for_result:
            self.consumer.hold_answers()
        self._lock = Lock()
        # guarded by _lock
        self._threads: list[Thread] = []
        self._deadline: float | None = None
        self._last_failure = ""  # since there has been a deadline
        self._lost_items = 0  # for lack of time
        self._told_overflow = 0  # of the items that found no room, how many are in the log
        self._told_withdrawn = 0  # the same of those whose client has gone
        self._told_s = float("-inf")

    def set_encoding(self, encoding: str, level: int = 0) -> None:
        """Compress with encoding what comes from now on; level 0 is its default."""
        self.consumer.set_compression(encoding, level)

    def start(self) -> None:
        """Start the first consumer thread."""
        with self._lock:
            self._add_thread()

    def shutdown(self, deadline_s: float) -> None:
        """Send what is queued within deadline_s seconds, and tell what could not be.

        What can still go to a successor may take as long as an attempt that has begun.
        """
        if self.consumer.successor is not None:
            limit_s, grace_s = max(deadline_s, self._timeout_s), _PASS_ON_S
        else:
            grace_s = min(_GRACE_S, _GRACE_SHARE * deadline_s)
            limit_s = deadline_s - grace_s
        with self._lock:
            self._deadline = self._clock() + limit_s
        self.consumer.close()
        self._join(limit_s)
        with self._lock:
            is_late = any(thread.is_alive() for thread in self._threads)
        if is_late:
            self._abort()
            self._join(grace_s)
        self._report_lost(0.0)
        with self._lock:
            lost = self._lost_items + self.consumer.give_up()
            self._lost_items = 0
            error = ": ".join(filter(None, (str(_OutOfTime()), self._last_failure)))
        if lost:
            self._log.error("Exporting failed. Dropping data.", error=error, dropped_items=lost)

    def samples(self) -> Iterator[Sample]:
        """Yield the exporter's metrics as they are now."""
        stats = self.consumer.stats()
        items = self._signal.items
        exporter = (("exporter", str(self._settings.id)),)
        exporter_and_type = (*exporter, ("data_type", self._signal.value))
        yield Sample(SENT[items], (*exporter, *self._destination), int(stats.sent_items))
        # As in the Collector: a queue that is left is an enqueue that has failed, without one it was the sending.
        withdrawn = int(stats.withdrawn_items)
        failed, not_queued = (0, withdrawn) if self._config.enabled else (withdrawn, 0)
        yield Sample(_SEND_FAILED[items], (*exporter, *self._destination), int(stats.failed_items) + failed)
        yield Sample(_ENQUEUE_FAILED[items], exporter, int(stats.enqueue_failed_items) + not_queued)
        yield Sample(_QUEUE_SIZE, exporter_and_type, int(stats.size))
        yield Sample(_QUEUE_ITEMS, exporter_and_type, int(stats.items))
        yield Sample(_QUEUE_CAPACITY, exporter_and_type, int(stats.capacity))
        yield Sample(_IN_FLIGHT, exporter_and_type, int(stats.in_flight_requests))
        yield Sample(_SENT_BYTES, exporter_and_type, int(stats.sent_bytes))
        yield Sample(_UNCOMPRESSED_BYTES, exporter_and_type, int(stats.uncompressed_bytes))
        yield Sample(_REJECTED_ITEMS, exporter_and_type, int(stats.rejected_items))

    def _add_thread(self) -> None:
        """Start one more consumer thread; _lock is held."""
        thread = Thread(self._consume)
        thread.start()
        self._threads.append(thread)

    def _join(self, seconds: float) -> None:
        end = self._clock() + seconds
        while True:  # a thread may have started another before it ended
            with self._lock:
                alive = [thread for thread in self._threads if thread.is_alive()]
            left_s = end - self._clock()
            if not alive or left_s <= 0:
                return
            alive[0].join(left_s)

    def _consume(self) -> None:
        while True:
            with self._lock:
                n_threads = len(self._threads)
                is_complete = n_threads >= self._config.num_consumers
                reported_items = self._told_overflow + self._told_withdrawn
            try:
                taken = self._take(self.consumer, None if is_complete else n_threads, reported_items)
            except StopIteration:
                return
            self._keep_one_waiting()
            self._deliver(taken)

    def _keep_one_waiting(self) -> None:
        with self._lock:
            n_threads = len(self._threads)
            in_flight = int(self.consumer.stats().in_flight_requests)
            if n_threads < self._config.num_consumers and in_flight >= n_threads:
                with suppress(RuntimeError):  # no more threads to be had: those here do without
                    self._add_thread()

    def _deliver(self, taken: Taken) -> None:
        item = taken.item
        request = Request(item.view, item.item_count, item.original_length, item.encoding, item.cancel_fd)
        made = [] if taken.first is None else [taken.first]
        if not made and self.consumer.pass_on(item):
            return
        result: Sent | Exception
        try:
            self._wait_for_turn(item)
            result = self._retry.send(
                lambda: self._attempt(request, made.pop() if made else None),
                lambda seconds: self._wait(item, seconds),
                spent_s=taken.spent_s,
                deadline_s=item.deadline_s,
                longest_s=self._longest_wait_s,
            )
        except _Later as later:
            if not self.consumer.pass_on(item):
                self.consumer.put_back(item, later.not_before_s)
            return
        except Exception as error:  # noqa: BLE001 - counted and logged below; the thread must live on
            result = error
        wire_bytes = result.wire_bytes if isinstance(result, Sent) else 0
        with self._lock:  # as long as shutdown has not told what is lost
            is_counted = self.consumer.done(item, _verdict(result), wire_bytes)
            if is_counted and isinstance(result, _OutOfTime):
                self._lost_items += request.item_count
        if is_counted and not isinstance(result, _OutOfTime):
            self._report(request, result)

    def _wait_for_turn(self, item: QueueItem) -> None:
        """Wait until the next attempt for item is due, where an earlier one has put it off."""
        wait_s = item.not_before_s - self._clock()
        if wait_s > 0 and self.consumer.wait(item, wait_s, ends_with_queue=False) is Waited.CANCELLED:
            raise RetryableError(_CANCELLED)

    def _wait(self, item: QueueItem, seconds: float) -> str:
        """Wait before another attempt; return why there is none, if there is none.

        Raises:
            _Later: others have their turn before it.
        """
        left_s = self._left_s()
        if left_s is None:
            waited = self.consumer.wait(item, seconds)
            if waited is Waited.CLOSED:
                raise _Later
            return _CANCELLED if waited is Waited.CANCELLED else ""
        if left_s < 2 * _SHORTEST_S and self.consumer.successor is None:
            raise _OutOfTime
        raise _Later(self._clock() + max(seconds, _SHORTEST_S))

    def _longest_wait_s(self) -> float:
        """Return how long a request may wait for its next attempt: at the end always for one more after that."""
        left_s = self._left_s()
        return math.inf if left_s is None else max(0.0, left_s / 2)

    def _left_s(self) -> float | None:
        """Return the time until the deadline of the shutdown; None before there is one."""
        with self._lock:
            return None if self._deadline is None else self._deadline - self._clock()

    def _attempt(self, request: Request, made: Send | None) -> Sent:
        left_s = self._left_s()
        if made is None and left_s is not None and left_s <= 0:
            raise _OutOfTime
        try:
            return (made or self._send)(request, attempt_limit_s(self._timeout_s, left_s))
        except RetryableError as error:
            left_s = self._left_s()
            if left_s is not None and left_s > 0:
                self._last_failure = str(error)
            elif left_s is not None and self.consumer.successor is None:
                raise _OutOfTime from error
            raise
        finally:
            self._report_lost(_LOST_PERIOD_S)

    def _report_lost(self, period_s: float) -> None:
        """Log what found no room since the last time, and whose clients have gone, at most once in period_s.

        After each attempt, so that nobody need be woken for it: a full queue is one whose head is being sent.
        """
        with self._lock:
            stats = self.consumer.stats()
            overflow = int(stats.enqueue_failed_items) - self._told_overflow
            withdrawn = int(stats.withdrawn_items) - self._told_withdrawn
            now_s = self._clock()
            if not overflow + withdrawn or now_s - self._told_s < period_s:
                return
            self._told_overflow += overflow
            self._told_withdrawn += withdrawn
            self._told_s = now_s
        if overflow:
            self._log.error(
                "Exporting failed. Rejecting data.",
                error="sending queue is full",
                rejected_items=overflow,
                queue_size=int(stats.capacity),
            )
        if withdrawn:
            self._log.error("Exporting failed. Rejecting data.", error=_CANCELLED, rejected_items=withdrawn)

    def _report(self, request: Request, result: Sent | Exception) -> None:
        if isinstance(result, Sent):
            if result.rejected_items or result.rejected_message:
                dropped: dict[str, Any] = {_DROPPED_FIELDS[self._signal.items]: result.rejected_items}
                self._log.warning("Partial success response", message=result.rejected_message, **dropped)
            return
        hint = self._hint if isinstance(result, RetryableError) else ""
        error = str(result) if isinstance(result, ConsumeError) else repr(result)
        self._log.error(
            f"Exporting failed. Dropping data.{hint}", error=error, dropped_items=request.item_count
        )


def _verdict(result: Sent | Exception) -> Verdict:
    """Return what a client that waits for result is told: the peer's own code where there is one.

    Source: OpenTelemetry Collector, otlpreceiver's errors: else INTERNAL for what is permanent, or UNAVAILABLE.
    """
    if isinstance(result, Sent):
        return Verdict(_OK, result.rejected_message, rejected_items=result.rejected_items)
    code = result.code if isinstance(result, ConsumeError) else None
    if not isinstance(result, RetryableError):
        return Verdict(_INTERNAL if code is None else code, str(result))
    delay_s = result.retry_after_s
    delay_ms = None if delay_s is None else min(math.ceil(delay_s * 1000), _DELAY_MAX_MS)
    return Verdict(_UNAVAILABLE if code is None else code, str(result), delay_ms)


def _hint(queue: QueueConfig, retry: RetryConfig) -> str:
    if not retry.enabled:
        return " Try enabling retry_on_failure config option to retry on retryable errors."
    return "" if queue.enabled else " Try enabling sending_queue to survive temporary failures."
