"""The sending queue: native queue, real threads, attempts under the test's control."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from collector.config.decode import decode
from collector.config.fields import Duration
from collector.errors import ConfigError, PermanentError, Refused, RetryableError
from collector.exporterhelper.queue import QueueConfig, QueueSender, Sizer
from collector.exporterhelper.request import Request, Sent
from collector.exporterhelper.retry import RetryConfig
from collector.exporterhelper.timeout import attempt_limit_s
from collector.ids import Signal
from collector.lean import replace
from collector.native.library import lib
from collector.native.pipeline import Receiver
from collector.native.runtime import Runtime, Worker
from collector.threads import Thread
from tests.unit.exporterhelper.support import (
    Recorder,
    logs,
    metrics,
    push,
    settings,
    traces,
    values,
    wait_until,
)

NO_RETRY = RetryConfig(enabled=False)
# A second attempt soon, a third not before the next hour.
SELDOM = RetryConfig(
    initial_interval=Duration(0.01),
    multiplier=1e9,
    max_interval=Duration(3600.0),
    max_elapsed_time=Duration(0.0),
)
RETRIED = "Exporting failed. Will retry the request after interval."
DROPPED = "Exporting failed. Dropping data."


class Backend:
    """Takes requests, fails as told, or holds them until released."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.taken: list[bytes] = []
        self.limits: list[float | None] = []
        self.error: Exception | None = None
        self.left_failures = 1 << 30  # attempts that error is for
        self.result = Sent(7)
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def send(self, request: Request, limit_s: float | None) -> Sent:
        """Be an exporter's send function."""
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.taken.append(bytes(request.view))
            self.limits.append(limit_s)
        try:
            assert self.open.wait(60), "nobody has opened, nor aborted"
            if self.error is not None and self.left_failures > 0:
                self.left_failures -= 1
                raise self.error
            return self.result
        finally:
            with self._lock:
                self._at_once -= 1


class Scene:
    """A queue sender in front of a backend."""

    def __init__(
        self,
        signal: Signal = Signal.TRACES,
        queue: QueueConfig | None = None,
        retry: RetryConfig = NO_RETRY,
        timeout_s: float = 5.0,
        runtime: Runtime | None = None,
    ) -> None:
        self.recorder = Recorder()
        self.backend = Backend()
        made = settings(signal, self.recorder)
        self.settings = made if runtime is None else replace(made, runtime=runtime)
        self.sender = QueueSender(
            self.settings,
            self.backend.send,
            queue=queue or QueueConfig(),
            retry=retry,
            timeout_s=timeout_s,
            abort=self.backend.open.set,
        )
        self._is_shut_down = False

    def push(self, *requests: bytes) -> None:
        """Push requests as a pipeline would."""
        push(self.sender.consumer, self.settings.runtime, *requests)

    def value(self, name: str) -> float:
        """Return the value of the instrument otelcol_exporter_<name> or spansieve_exporter_<name>."""
        found = values(self.sender.samples())
        return found.get(f"otelcol_exporter_{name}", found.get(f"spansieve_exporter_{name}", -1.0))


@pytest.fixture
def scene() -> Iterator[Scene]:
    """A started traces exporter with default queue and no retry."""
    made = Scene()
    made.sender.start()
    yield made
    made.backend.open.set()
    made.sender.shutdown(5)


def test_without_further_threads_the_first_sends_all(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on threads costs speed, not requests."""

    def no_thread(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", no_thread)
    scene.push(traces(3), traces(4))
    wait_until(lambda: scene.value("sent_spans") == 7)


def test_requests_are_sent_as_they_came_and_counted(scene: Scene) -> None:
    """Bytes, items, wire bytes and uncompressed bytes are all accounted for."""
    requests = [traces(3), traces(4)]
    scene.push(*requests)
    wait_until(lambda: scene.value("sent_spans") == 7)
    assert sorted(scene.backend.taken) == sorted(requests)
    assert scene.value("sent_bytes") == 14
    assert scene.value("uncompressed_bytes") == sum(map(len, requests))
    assert scene.value("queue_size") == 0
    assert scene.value("queue_capacity") == 1000
    assert scene.value("in_flight_requests") == 0
    assert scene.backend.limits == [5.0, 5.0]


@pytest.mark.parametrize(
    ("signal", "request_bytes", "name", "items"),
    [
        (Signal.TRACES, traces(2), "sent_spans", 2),
        (Signal.METRICS, metrics(), "sent_metric_points", 2),
        (Signal.LOGS, logs(), "sent_log_records", 1),
    ],
)
def test_items_are_named_after_the_signal(
    signal: Signal, request_bytes: bytes, name: str, items: int
) -> None:
    """Each signal counts its own items under the Collector's name and labels."""
    made = Scene(signal)
    made.sender.start()
    made.push(request_bytes)
    wait_until(lambda: made.value(name) == items)
    made.sender.shutdown(5)
    labels = {sample.instrument.name: sample.labels for sample in made.sender.samples()}
    assert labels[f"otelcol_exporter_{name}"] == (("exporter", "test"),)
    assert labels["otelcol_exporter_queue_size"] == (("exporter", "test"), ("data_type", signal.value))


def test_threads_are_added_up_to_num_consumers_while_all_are_busy() -> None:
    """An idle exporter has one thread, a busy one num_consumers at most."""
    made = Scene(queue=QueueConfig(num_consumers=3))
    made.backend.open.clear()
    made.sender.start()
    assert len(made.sender._threads) == 1
    made.push(*[traces() for _ in range(8)])
    wait_until(lambda: len(made.backend.taken) == 3)
    assert made.value("in_flight_requests") == 3
    assert made.value("queue_size") == 8
    made.backend.open.set()
    wait_until(lambda: made.value("sent_spans") == 8)
    assert made.backend.most_at_once == 3
    made.sender.shutdown(5)


def test_full_queue_refuses_and_counts() -> None:
    """A queue without room answers retryably and counts the items that found none."""
    made = Scene(queue=QueueConfig(num_consumers=1, queue_size=2))
    made.push(traces(1), traces(1))
    with pytest.raises(Refused, match="sending queue is full"):
        made.push(traces(5))
    assert made.value("enqueue_failed_spans") == 5
    made.sender.start()
    made.sender.shutdown(5)
    assert made.value("sent_spans") == 2


def test_what_found_no_room_is_logged_seldom_and_all_of_it() -> None:
    """Once with the next attempt, then not for a while, and what is left at shutdown."""
    event = "Exporting failed. Rejecting data."
    made = Scene(queue=QueueConfig(num_consumers=1, queue_size=2))
    made.push(traces(1), traces(1))
    with pytest.raises(Refused):
        made.push(traces(5))
    made.sender.start()
    wait_until(lambda: made.value("sent_spans") == 2)
    expected = {"error": "sending queue is full", "rejected_items": 5, "queue_size": 2}
    assert made.recorder.fields(event) == expected
    made.backend.open.clear()
    made.push(traces(1), traces(1))
    with pytest.raises(Refused):
        made.push(traces(7))
    made.backend.open.set()
    wait_until(lambda: made.value("sent_spans") == 4)
    assert 1 == made.recorder.events().count(event)
    made.sender.shutdown(5)
    assert 2 == made.recorder.events().count(event)


def test_queue_size_is_in_units_of_the_sizer() -> None:
    """sizer: items counts items."""
    made = Scene(queue=QueueConfig(queue_size=10, sizer=Sizer.ITEMS))
    made.push(traces(6))
    assert (made.value("queue_size"), made.value("queue_capacity")) == (6, 10)
    with pytest.raises(Refused):
        made.push(traces(5))
    made.sender.start()
    made.sender.shutdown(5)


def test_disabled_queue_has_a_place_for_each_consumer() -> None:
    """enabled: false refuses what no consumer could take at once."""
    made = Scene(queue=QueueConfig(enabled=False, num_consumers=2))
    made.push(traces(), traces())
    with pytest.raises(Refused):
        made.push(traces())
    made.sender.start()
    made.sender.shutdown(5)
    assert made.value("sent_spans") == 2


def test_final_failure_is_counted_once_and_logged(scene: Scene) -> None:
    """A request that cannot be delivered is one failure, with the Collector's text and the hint."""
    scene.backend.error = RetryableError("down")
    scene.push(traces(4))
    wait_until(lambda: scene.value("send_failed_spans") == 4)
    event = (
        "Exporting failed. Dropping data."
        " Try enabling retry_on_failure config option to retry on retryable errors."
    )
    wait_until(lambda: event in scene.recorder.events())
    assert scene.recorder.fields(event) == {"error": "down", "dropped_items": 4}
    assert scene.value("sent_spans") == 0


def test_permanent_failure_has_no_hint(scene: Scene) -> None:
    """Retry would not have helped, so it is not advised."""
    scene.backend.error = PermanentError("bad")
    scene.push(traces())
    wait_until(lambda: "Exporting failed. Dropping data." in scene.recorder.events())


def test_unexpected_exception_is_a_failure_and_the_thread_lives_on(scene: Scene) -> None:
    """A bug in an exporter loses a request, not the exporter."""
    scene.backend.error = ZeroDivisionError("oops")
    scene.push(traces(2))
    wait_until(lambda: scene.value("send_failed_spans") == 2)
    scene.backend.error = None
    scene.push(traces(3))
    wait_until(lambda: scene.value("sent_spans") == 3)


def test_partial_success_counts_as_sent_and_is_told() -> None:
    """B29: all items are sent, the rejected ones have a counter of ours, the message is logged, nothing is retried."""
    made = Scene(retry=RetryConfig())
    made.backend.result = Sent(7, 3, "x")
    made.sender.start()
    made.push(traces(10))
    wait_until(lambda: "Partial success response" in made.recorder.events())
    made.sender.shutdown(5)
    assert made.recorder.fields("Partial success response") == {"message": "x", "dropped_spans": 3}
    assert (made.value("sent_spans"), made.value("rejected_items"), len(made.backend.taken)) == (10, 3, 1)


def test_shutdown_sends_what_is_queued() -> None:
    """B51: five items in the queue and a healthy backend: all are sent."""
    made = Scene(queue=QueueConfig(num_consumers=2))
    made.push(*[traces() for _ in range(5)])
    made.sender.start()
    made.sender.shutdown(20)
    assert (made.value("sent_spans"), made.value("send_failed_spans")) == (5, 0)


def in_back_off(made: Scene, n_requests: int) -> list[bytes]:
    """Push requests, all of which then wait an hour for their next attempt; return them."""
    made.backend.error = RetryableError("down")
    requests = [traces(1, f"span {number}") for number in range(n_requests)]
    made.sender.start()
    made.push(*requests)
    wait_until(lambda: made.recorder.events().count(RETRIED) == 2 * n_requests)
    made.backend.taken.clear()
    return requests


def test_shutdown_tries_at_once_what_waits_for_its_next_attempt() -> None:
    """The backend is healthy again: all that was in back-off is delivered, and nothing told as lost."""
    made = Scene(retry=SELDOM)
    requests = in_back_off(made, 5)
    made.backend.error = None
    made.sender.shutdown(60)
    assert sorted(made.backend.taken) == sorted(requests)
    assert (made.value("sent_spans"), made.value("send_failed_spans")) == (5, 0)
    assert DROPPED not in made.recorder.events()


def test_shutdown_goes_on_trying_each_in_its_turn() -> None:
    """A failure is not the end before the deadline, and holds up none of the others, though one thread has them all."""
    made = Scene(queue=QueueConfig(num_consumers=1), retry=SELDOM)
    in_back_off(made, 1)
    others = [traces(1, f"other {number}") for number in range(4)]
    made.push(*others)
    made.backend.left_failures = 12
    made.sender.shutdown(60)
    assert others == made.backend.taken[:4]
    assert [3] * 5 == [made.backend.taken[:15].count(request) for request in set(made.backend.taken)]
    assert (made.value("sent_spans"), made.value("send_failed_spans"), made.value("queue_size")) == (5, 0, 0)


def test_shutdown_tells_once_what_was_not_taken_in_time() -> None:
    """One line for all requests, with the last failure and the number of items."""
    made = Scene(queue=QueueConfig(num_consumers=2), retry=SELDOM)
    in_back_off(made, 2)
    made.push(traces(3), traces(4))
    made.sender.shutdown(0.5)
    assert 1 == made.recorder.events().count(DROPPED)
    expected = {"error": "shutdown ran out of time: down", "dropped_items": 9}
    assert expected == made.recorder.fields(DROPPED)
    assert (made.value("send_failed_spans"), made.value("queue_items")) == (9, 0)


def test_shutdown_heeds_a_wish_only_as_far_as_its_deadline_allows() -> None:
    """A backend that wants to be left alone for a year is asked again while there is time."""
    made = Scene(retry=SELDOM)
    in_back_off(made, 1)
    made.backend.error, made.backend.left_failures = RetryableError("busy", 3e7), 2
    made.sender.shutdown(2)
    assert 3 == len(made.backend.taken)
    assert made.value("sent_spans") == 1


def test_shutdown_does_not_try_again_where_it_must_not() -> None:
    """What is permanent, and all failures where retries are off, end a request, and are told each for itself."""
    for retry, error in ((SELDOM, PermanentError("bad")), (NO_RETRY, RetryableError("down"))):
        made = Scene(retry=retry)
        made.backend.error = error
        made.push(traces(3), traces(4))
        made.sender.start()
        made.sender.shutdown(60)
        told = [fields for event, fields in made.recorder.records if event.startswith(DROPPED)]
        assert [3, 4] == sorted(fields["dropped_items"] for fields in told)
        assert (made.value("send_failed_spans"), len(made.backend.taken)) == (7, 2)


def test_successor_is_given_what_could_not_be_sent() -> None:
    """What is in back-off, what is being sent, what waits in line, and what the pipelines still bring."""
    made = Scene(queue=QueueConfig(num_consumers=2), retry=SELDOM)
    successor = Scene(queue=QueueConfig(queue_size=1), runtime=made.settings.runtime)
    requests = in_back_off(made, 1)
    made.backend.open.clear()
    requests += [traces(2), traces(3), traces(4)]
    made.push(requests[1])
    wait_until(lambda: len(made.backend.taken) == 1)
    made.push(*requests[2:])
    made.sender.consumer.hand_over(successor.sender.consumer)
    successor.sender.start()
    wait_until(lambda: successor.value("sent_spans") == 8)
    made.push(traces(5))
    wait_until(lambda: successor.value("sent_spans") == 13)
    assert made.value("queue_items") == 2
    made.backend.open.set()
    made.sender.shutdown(20)
    successor.sender.shutdown(20)
    assert sorted([*requests, traces(5)]) == sorted(successor.backend.taken)
    assert (made.value("sent_spans"), made.value("send_failed_spans"), made.value("queue_items")) == (0, 0, 0)
    assert (successor.value("sent_spans"), successor.value("send_failed_spans")) == (15, 0)
    assert DROPPED not in made.recorder.events()


def test_attempt_that_never_ends_is_cut_off_for_the_successor() -> None:
    """It has the time that an attempt may take, and no longer."""
    made = Scene(retry=SELDOM, timeout_s=0.2)
    successor = Scene(runtime=made.settings.runtime)
    made.backend.open.clear()  # set by abort
    made.backend.error = RetryableError("cut off")
    made.sender.start()
    made.push(traces(3))
    wait_until(lambda: len(made.backend.taken) == 1)
    made.sender.consumer.hand_over(successor.sender.consumer)
    successor.sender.start()
    made.sender.shutdown(0)
    wait_until(lambda: successor.value("sent_spans") + made.value("send_failed_spans") == 3)
    successor.sender.shutdown(20)
    assert (successor.value("sent_spans"), made.value("queue_items")) == (3, 0)


def test_successor_that_is_at_its_end_leaves_the_work_to_the_former() -> None:
    """A reload and a shutdown right after it: nobody is left to take over, so the former tries again itself."""
    made = Scene(retry=SELDOM)
    successor = Scene(runtime=made.settings.runtime)
    requests = in_back_off(made, 2)
    successor.sender.shutdown(0)
    made.sender.consumer.hand_over(successor.sender.consumer)
    made.backend.error = None
    made.sender.shutdown(20)
    assert sorted(made.backend.taken) == sorted(requests)
    assert made.value("sent_spans") == 2


def test_shutdown_gives_up_at_its_deadline_and_counts_the_rest() -> None:
    """A backend that hangs holds shutdown no longer than told; every item is counted, as failed."""
    made = Scene(queue=QueueConfig(num_consumers=1))
    made.backend.open.clear()  # set by abort
    made.backend.error = RetryableError("cut off")
    made.push(*[traces() for _ in range(5)])
    made.sender.start()
    wait_until(lambda: len(made.backend.taken) == 1)
    made.sender.shutdown(0.2)
    assert len(made.backend.taken) == 1
    assert (made.value("sent_spans"), made.value("send_failed_spans")) == (0, 5)
    assert {"error": "shutdown ran out of time", "dropped_items": 5} == made.recorder.fields(DROPPED)
    assert 1 == made.recorder.events().count(DROPPED)


def test_shutdown_without_start_counts_what_was_queued() -> None:
    """Nothing disappears uncounted when start never came; a second shutdown changes nothing."""
    made = Scene()
    made.push(traces(3))
    made.sender.shutdown(0.1)
    made.sender.shutdown(0.1)
    assert made.value("send_failed_spans") == 3


@pytest.mark.parametrize(
    ("timeout_s", "left_s", "limit_s"), [(5, None, 5), (0, None, None), (5, 2, 2), (0, 2, 2), (5, 9, 5)]
)
def test_attempts_are_limited_by_timeout_and_shutdown(
    timeout_s: float, left_s: float | None, limit_s: float | None
) -> None:
    """The nearer of both ends an attempt; 0 is no timeout."""
    assert attempt_limit_s(timeout_s, left_s) == limit_s


def test_refuses_what_it_cannot_do() -> None:
    """storage and batch are problems with a way out, not silence; so are sizes that hold nothing."""

    def problems(**values: object) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            decode(QueueConfig, values, "q")
        return [problem.path for problem in caught.value.problems]

    assert problems(storage="file_storage") == ["q::storage"]
    assert problems(batch={}) == ["q::batch"]
    assert problems(queue_size=0, num_consumers=-1) == ["q::num_consumers", "q::queue_size"]
    assert decode(QueueConfig, {"enabled": False, "queue_size": 0, "batch": {}}, "q").enabled is False
    assert list(QueueConfig().problems()) == []


VERDICTS = {
    "sent": (Sent(10), (0, "", None, 0)),
    "partial success": (Sent(10, 3, "too old"), (0, "too old", None, 3)),
    "permanent, with the peer's code": (PermanentError("no", code=3), (3, "no", None, 0)),
    "permanent, without": (PermanentError("no"), (13, "no", None, 0)),
    "retryable, with the peer's code": (RetryableError("busy", code=8), (8, "busy", None, 0)),
    "retryable, with its wish": (RetryableError("busy", 0.0015, code=8), (8, "busy", 2, 0)),
    "retryable, without": (RetryableError("down"), (14, "down", None, 0)),
    "a wish for ever": (RetryableError("down", 1e12), (14, "down", 0xFFFFFFFF, 0)),
    "a bug": (ZeroDivisionError("oops"), (13, "oops", None, 0)),
    "a text that is no Unicode": (OSError("\udcff"), (13, "?", None, 0)),
}


@pytest.mark.parametrize("case", VERDICTS)
@pytest.mark.parametrize(
    "queue", [QueueConfig(enabled=False), QueueConfig(wait_for_result=True)], ids=["disabled", "waiting"]
)
def test_waiting_client_is_told_the_outcome(case: str, queue: QueueConfig) -> None:
    """The peer's code where there is one, else the Collector's; its wish, and what it rejected."""
    outcome, expected = VERDICTS[case]

    def send(request: Request, limit_s: float | None) -> Sent:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    recorder = Recorder()
    made = settings(Signal.TRACES, recorder)
    sender = QueueSender(made, send, queue=queue, retry=NO_RETRY, timeout_s=0)
    receiver = Receiver(made.runtime)
    receiver.publish(Signal.TRACES, sender.consumer)
    sender.start()
    body = traces(10)
    verdict = receiver.accept(
        Worker(made.runtime), Signal.TRACES, lib.SS_TRANSPORT_GRPC, lib.SS_PAYLOAD_PROTOBUF, body
    )
    receiver.publish(Signal.TRACES, None)
    sender.shutdown(1.0)
    assert expected == (verdict.code, verdict.message, verdict.retry_delay_ms, verdict.rejected_items)
