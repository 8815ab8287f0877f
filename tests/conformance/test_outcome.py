"""Clients that wait for the outcome of their request: what a backend said comes back to them, over both transports.

Source: OpenTelemetry Collector, otlpreceiver without a queue behind it; OTLP, "Partial Success" and "Retryable Response
Codes"; case B19 of public reports.
"""

from __future__ import annotations

import functools
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Self

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.ids import Signal
from collector.native.pipeline import Consumer, Fanout, Queue, QueueItem, Verdict, Waited
from collector.native.runtime import Runtime
from tests.conformance.bodies import GOLDEN, GRPC_PATHS
from tests.conformance.harness import Collector, wait_until
from tests.conformance.peers import GrpcPeer, HttpPeer, call_headers, exchange, grpc_frame, http_request
from tests.support import otlp

TRACES = GOLDEN[Signal.TRACES]
CALL = call_headers(GRPC_PATHS[Signal.TRACES]), grpc_frame(TRACES)
POST = http_request("/v1/traces", TRACES, [("Content-Type", "application/x-protobuf")])
OK = Verdict(0)
PATIENCE_S = 60.0
CLIENTS = 60


class Backend:
    """Queues whose requests the test answers, and a collector in front of them."""

    def __init__(self, transport: str, n_queues: int = 1) -> None:
        self.queues: list[Queue] = []
        self._n_queues = n_queues
        self.collector = Collector(transport, consumers=self._consumers)

    def _consumers(self, runtime: Runtime) -> Mapping[Signal, Consumer]:
        for _ in range(self._n_queues):
            self.queues.append(Queue(runtime, Signal.TRACES, sizer="requests", capacity=1))
            self.queues[-1].hold_answers(waiting_max=1000)
        return {Signal.TRACES: Fanout(Signal.TRACES, self.queues)}

    def __enter__(self) -> Self:
        self.collector.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for queue in self.queues:
            queue.close()
            while (item := _pop(queue, 0.0)) is not None:
                queue.done(item)
        self.collector.stop()

    def pop(self, queue: int = 0) -> QueueItem:
        """Return the next request of a queue."""
        item = _pop(self.queues[queue], PATIENCE_S)
        assert item is not None
        return item

    def answer(self, item: QueueItem, verdict: Verdict, queue: int = 0) -> None:
        """Say what became of it."""
        self.queues[queue].done(item, verdict)

    def answer_next(self, verdict: Verdict, queue: int = 0) -> None:
        """Say what becomes of the next request."""
        self.answer(self.pop(queue), verdict, queue)


def _pop(queue: Queue, timeout_s: float) -> QueueItem | None:
    try:
        return queue.pop(timeout_s)
    except StopIteration:
        return None


@pytest.fixture
def backend(transport: str) -> Iterator[Backend]:
    """One queue."""
    with Backend(transport) as backend:
        yield backend


class Client(threading.Thread):
    """Makes one request in a thread of its own."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self._action = action
        self._result: object = None
        self.start()

    def run(self) -> None:
        """Make the request."""
        self._result = self._action()

    def result(self) -> object:
        """Wait for what the request returned."""
        self.join(PATIENCE_S)
        assert not self.is_alive()
        return self._result


def _call(backend: Backend) -> tuple[int | None, str, bytes, bytes | None]:
    with GrpcPeer(backend.collector.grpc) as peer:
        answer = peer.call(*CALL)
    return answer.status, answer.message, answer.body, answer.details


def _post(backend: Backend) -> tuple[int, bytes, str | None]:
    answer = exchange(backend.collector.http, POST)
    return answer.status, answer.body, answer.headers.get("retry-after")


def _partial(rejected: int, message: str) -> bytes:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = rejected
    response.partial_success.error_message = message
    return response.SerializeToString()


def test_success_is_told_when_it_is_known(backend: Backend) -> None:
    """Nobody is answered, and nothing counted as accepted, before the request has been delivered."""
    for action in (_call, _post):
        client = Client(functools.partial(action, backend))
        item = backend.pop()
        assert TRACES == bytes(item.view)
        metrics = backend.collector.metrics()
        assert client.is_alive()
        backend.answer(item, OK)
        assert client.result() in ((0, "", b"", None), (200, b"", None))
        accepted = "otelcol_receiver_accepted_spans"
        after = backend.collector.metrics()
        assert 1 == sum(after[accepted, way, ""] - metrics[accepted, way, ""] for way in ("grpc", "http"))


def test_partial_success_of_the_backend_reaches_the_client(backend: Backend) -> None:
    """What it rejected, and why, in its own words."""
    verdict = Verdict(0, "too old: 3 of 10", rejected_items=3)
    client = Client(lambda: _call(backend))
    backend.answer_next(verdict)
    assert (0, "", _partial(3, "too old: 3 of 10"), None) == client.result()
    client = Client(lambda: _post(backend))
    backend.answer_next(verdict)
    assert (200, _partial(3, "too old: 3 of 10"), None) == client.result()


# google.rpc.Code -> HTTP status. Source: B19; OTLP/HTTP in the Collector.
FAILURES = {1: 503, 2: 500, 3: 400, 4: 503, 5: 500, 7: 403, 8: 429, 9: 500, 10: 503, 11: 503, 12: 404, 13: 500,
            14: 503, 15: 503, 16: 401}  # fmt: skip


@pytest.mark.parametrize("code", FAILURES)
@pytest.mark.parametrize("delay_ms", [None, 0, 2500])
def test_failure_of_the_backend_passes_through(code: int, delay_ms: int | None, backend: Backend) -> None:
    """B19: its code, its text, and its wish when to come again, in the words of each protocol."""
    verdict = Verdict(code, "backend says no", delay_ms)
    client = Client(lambda: _call(backend))
    backend.answer_next(verdict)
    status, message, body, details = client.result()  # type: ignore[misc]
    assert (code, "backend says no", b"") == (status, message, body)
    if delay_ms is None:
        assert details is None
    else:
        retry_info = error_details_pb2.RetryInfo()
        assert status_pb2.Status.FromString(details).details[0].Unpack(retry_info)
        assert delay_ms == retry_info.retry_delay.ToMilliseconds()
    client = Client(lambda: _post(backend))
    backend.answer_next(verdict)
    http_status, body, retry_after = client.result()  # type: ignore[misc]
    answered = status_pb2.Status.FromString(body)
    assert (FAILURES[code], code, "backend says no") == (http_status, answered.code, answered.message)
    has_header = delay_ms is not None and http_status in (429, 503)
    assert (str(delay_ms // 1000) if has_header and delay_ms is not None else None) == retry_after
    metrics = backend.collector.metrics()
    assert 2 == sum(metrics["otelcol_receiver_refused_spans", way, ""] for way in ("grpc", "http"))
    assert 0 == sum(metrics["otelcol_receiver_accepted_spans", way, ""] for way in ("grpc", "http"))


def test_clients_wait_without_holding_up_each_other(backend: Backend) -> None:
    """60 on one HTTP/2 connection and 20 on HTTP connections, answered in reverse, each with its own."""
    with ExitStack() as stack:
        peer = stack.enter_context(GrpcPeer(backend.collector.grpc))
        streams = {}
        for number in range(CLIENTS):
            request = otlp.traces(otlp.span(str(number))).SerializeToString()
            stream = peer.open(CALL[0])
            peer.send(stream, grpc_frame(request))
            streams[str(number)] = stream
        http = [stack.enter_context(HttpPeer(backend.collector.http)) for _ in range(20)]
        for other in http:
            other.send(POST)
        waiting = [backend.pop() for _ in range(CLIENTS + len(http))]
        for item in reversed(waiting):
            (span,) = otlp.items(otlp.decode(Signal.TRACES, bytes(item.view)))
            backend.answer(item, Verdict(0, f"warning {span.name}"))
        for name, stream in streams.items():
            assert _partial(0, f"warning {name}") == peer.answer(stream).body
        assert {200} == {other.answer().status for other in http}


def test_pipelined_requests_are_answered_in_their_order(backend: Backend) -> None:
    """The second is not looked at before the first has its answer."""
    with HttpPeer(backend.collector.http) as peer:
        peer.send(POST + POST)
        first = backend.pop()
        assert _pop(backend.queues[0], 0.0) is None
        backend.answer(first, Verdict(0, "first"))
        assert _partial(0, "first") == peer.answer().body
        backend.answer_next(Verdict(0, "second"))
        assert _partial(0, "second") == peer.answer().body


@pytest.fixture
def native_backend(transport: str, backend: Backend) -> Backend:
    """One queue behind the transport that knows that a client has gone."""
    if transport != "native":
        pytest.skip("the portable transport answers whoever has gone")
    return backend


def test_client_that_gives_up_is_forgotten(backend: Backend) -> None:
    """A reset stream and a closed connection: the answer is dropped, and the next client is served."""
    with GrpcPeer(backend.collector.grpc) as peer:
        stream = peer.open(CALL[0])
        peer.send(stream, CALL[1])
        first = backend.pop()
        peer.reset(stream)
        gone = HttpPeer(backend.collector.http)
        gone.send(POST)
        second = backend.pop()
        gone.socket.close()
        backend.answer(second, OK)
        backend.answer(first, OK)
        other = Client(lambda: peer.call(*CALL).status)
        backend.answer_next(OK)
        assert 0 == other.result()


def _reset(backend: Backend, stack: ExitStack) -> Callable[[], object]:
    peer = stack.enter_context(GrpcPeer(backend.collector.grpc))
    stream = peer.open(CALL[0])
    peer.send(stream, CALL[1])
    return lambda: peer.reset(stream)


def _close_grpc(backend: Backend, stack: ExitStack) -> Callable[[], object]:
    peer = GrpcPeer(backend.collector.grpc)
    peer.send(peer.open(CALL[0]), CALL[1])
    return lambda: peer.__exit__()


def _close_http(backend: Backend, stack: ExitStack) -> Callable[[], object]:
    peer = HttpPeer(backend.collector.http)
    peer.send(POST)
    return peer.socket.close


def _time_out(backend: Backend, stack: ExitStack) -> Callable[[], object]:
    peer = stack.enter_context(GrpcPeer(backend.collector.grpc))
    stream = peer.open([*CALL[0], ("grpc-timeout", "200m")])
    peer.send(stream, CALL[1])
    return lambda: peer.answer(stream)


LEAVING = {"reset": _reset, "end over gRPC": _close_grpc, "end over HTTP": _close_http, "deadline": _time_out}


@pytest.mark.parametrize("way", LEAVING)
def test_request_of_a_client_that_has_gone_is_not_delivered(way: str, native_backend: Backend) -> None:
    """What nobody has begun to deliver leaves the queue, and counts as refused; what is before and behind it stays."""
    backend = native_backend
    (queue,) = backend.queues
    with ExitStack() as stack:
        patient = [stack.enter_context(HttpPeer(backend.collector.http)) for _ in range(2)]
        patient[0].send(POST)
        wait_until(lambda: queue.stats().size == 1)
        leave = LEAVING[way](backend, stack)
        wait_until(lambda: queue.stats().size == 2)
        patient[1].send(POST)
        wait_until(lambda: queue.stats().size == 3)
        leave()
        wait_until(lambda: queue.stats().withdrawn_items == 1)
        backend.answer_next(OK)
        backend.answer_next(OK)
        assert [200, 200] == [peer.answer().status for peer in patient]
        assert _pop(queue, 0.0) is None
    refused = "otelcol_receiver_refused_spans"
    wait_until(lambda: sum(backend.collector.metrics()[refused, way, ""] for way in ("grpc", "http")) == 1)


@pytest.mark.parametrize("way", LEAVING)
def test_who_delivers_is_told_that_the_client_has_gone(way: str, native_backend: Backend) -> None:
    """An attempt can be cancelled, a wait for the next one ends, and the outcome counts as it is."""
    (queue,) = native_backend.queues
    with ExitStack() as stack:
        leave = LEAVING[way](native_backend, stack)
        item = native_backend.pop()
        assert Waited.TIME_IS_UP is queue.wait(item, 0.001)
        assert (way == "deadline") == (item.deadline_s < math.inf)
        leave()
        assert Waited.CANCELLED is queue.wait(item, PATIENCE_S)
        assert ([item.cancel_fd], [], []) == select.select([item.cancel_fd], [], [], 0)
        native_backend.answer(item, OK)
    accepted = "otelcol_receiver_accepted_spans"
    metrics = native_backend.collector.metrics()
    assert 1 == sum(metrics[accepted, way, ""] for way in ("grpc", "http"))
    assert 0 == queue.stats().withdrawn_items


def test_call_is_reset_at_its_deadline(native_backend: Backend) -> None:
    """As gRPC's Go server does: CANCEL, and not before; the connection goes on."""
    with GrpcPeer(native_backend.collector.grpc) as peer:
        began_s = time.monotonic()
        stream = peer.open([*CALL[0], ("grpc-timeout", "150m")])
        peer.send(stream, CALL[1])
        assert 8 == peer.answer(stream).reset_code
        assert time.monotonic() - began_s >= 0.15
        client = Client(lambda: peer.call(*CALL).status)
        native_backend.answer_next(OK)
        assert 0 == client.result()


def test_pipelined_requests_go_with_their_client(native_backend: Backend) -> None:
    """The second, which nobody has looked at yet, is not delivered either."""
    (queue,) = native_backend.queues
    with HttpPeer(native_backend.collector.http) as peer:
        peer.send(POST + POST)
        wait_until(lambda: queue.stats().size == 1)
    wait_until(lambda: queue.stats().withdrawn_items == 2)
    assert _pop(queue, 0.0) is None


def test_half_closed_connection_is_answered(native_backend: Backend) -> None:
    """Who says that it will ask nothing more counts as gone, as to Go's server, but still hears what came of it."""
    with HttpPeer(native_backend.collector.http) as peer:
        peer.send(POST)
        (queue,) = native_backend.queues
        wait_until(lambda: queue.stats().size == 1)
        peer.socket.shutdown(socket.SHUT_WR)
        answer = peer.answer()
        assert 503 == answer.status
        told = status_pb2.Status.FromString(answer.body)
        assert (1, "request is cancelled or timed out") == (told.code, told.message)
        assert peer.is_ended()


def test_faults_and_outcome_are_told_together(backend: Backend) -> None:
    """Items that we rejected and items that the backend rejected add up, and both say why."""
    body = otlp.traces(otlp.span(), otlp.span(), otlp.span(trace_id=b"t")).SerializeToString()

    def call() -> bytes:
        with GrpcPeer(backend.collector.grpc) as peer:
            return peer.call(CALL[0], grpc_frame(body)).body

    client = Client(call)
    item = backend.pop()
    assert 2 == item.item_count
    backend.answer(item, Verdict(0, "quota", rejected_items=1))
    ours = "1 of 3 spans rejected: resourceSpans[0].scopeSpans[0].spans[2].traceId: expected 16 bytes, got 1"
    assert _partial(2, f"{ours}; quota") == client.result()
    metrics = backend.collector.metrics()
    assert (2, 1) == tuple(
        metrics[f"otelcol_receiver_{verdict}_spans", "grpc", ""] for verdict in ("accepted", "refused")
    )


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_all_outputs_are_waited_for(order: tuple[int, int], transport: str) -> None:
    """A failure of any is the answer; else the larger partial success, whoever is last."""
    with Backend(transport, n_queues=2) as backend:
        for verdicts, expected in (
            ((OK, Verdict(3, "no")), (3, "no", b"")),
            (
                (Verdict(0, "a", rejected_items=2), Verdict(0, "", rejected_items=5)),
                (0, "", _partial(5, "a")),
            ),
            ((OK, OK), (0, "", b"")),
        ):
            client = Client(lambda: _call(backend)[:3])
            for queue in order:
                assert client.is_alive()
                backend.answer_next(verdicts[queue], queue)
            assert expected == client.result()


def test_request_that_is_given_up_unanswered_is_to_come_again(backend: Backend) -> None:
    """Where nobody says what became of it, the client keeps its data."""
    client = Client(lambda: _call(backend)[:2])
    backend.queues[0].done(backend.pop())
    assert (14, "collector is shutting down") == client.result()


def test_shutdown_waits_for_outcomes(transport: str) -> None:
    """A request that is being delivered is answered before its connection is closed."""
    with Backend(transport) as backend, ExitStack() as stack:
        host, port = backend.collector.grpc
        channel = stack.enter_context(grpc.insecure_channel(f"{host}:{port}"))
        export = channel.unary_unary(GRPC_PATHS[Signal.TRACES])  # h2 takes no answer behind a GOAWAY
        clients = [Client(lambda: export(TRACES, timeout=60)), Client(lambda: _post(backend)[0])]
        items = [backend.pop(), backend.pop()]
        stopping = threading.Thread(target=backend.collector.receiver.shutdown, args=(PATIENCE_S,))
        stopping.start()
        for item in items:
            backend.answer(item, OK)
        assert [b"", 200] == [client.result() for client in clients]
        stopping.join()


def test_outcome_after_shutdown_is_dropped(transport: str) -> None:
    """A backend that is slower than the deadline finds nobody, and nothing breaks."""
    with Backend(transport) as backend, ExitStack() as stack:
        peer = stack.enter_context(HttpPeer(backend.collector.http))
        peer.send(POST)
        call = stack.enter_context(GrpcPeer(backend.collector.grpc))
        call.send(call.open(CALL[0]), CALL[1])
        items = [backend.pop(), backend.pop()]
        backend.collector.receiver.shutdown(0.05)
        assert peer.is_ended()
        for item in items:
            backend.answer(item, OK)
