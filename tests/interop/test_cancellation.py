"""Clients that go while their request waits for a backend: what becomes of it, and how both count it."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from collector.ids import Signal
from tests.conformance.bodies import GOLDEN, GRPC_PATHS
from tests.conformance.peers import GrpcPeer, HttpPeer, call_headers, grpc_frame, http_request
from tests.interop import differences
from tests.interop.harness import Pair, Ports, Process, base, run_both
from tests.interop.test_metrics_page import wait_for

CALL = call_headers(GRPC_PATHS[Signal.TRACES])
MESSAGE = grpc_frame(GOLDEN[Signal.TRACES])
POST = http_request("/v1/traces", GOLDEN[Signal.TRACES], [("Content-Type", "application/x-protobuf")])
COUNTED = {
    "otelcol_receiver_accepted_spans": "accepted",
    "otelcol_receiver_refused_spans": "refused",
    "otelcol_exporter_sent_spans": "sent",
    "otelcol_exporter_send_failed_spans": "failed",
    "otelcol_exporter_enqueue_failed_spans": "not queued",
}


class Silent:
    """A backend that answers no call, and counts those that begin and those that are cancelled."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=20))
        _, service, method = GRPC_PATHS[Signal.TRACES].split("/")
        handler = grpc.unary_unary_rpc_method_handler(self._export)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def stop(self) -> None:
        """Let the calls end, and take no more."""
        self._is_over.set()
        self._server.stop(None).wait()

    def _export(self, _message: bytes, context: grpc.ServicerContext) -> bytes:
        gone = threading.Event()
        if context.add_callback(gone.set):
            with self._lock:
                self.begun += 1
            while not gone.wait(0.01) and not self._is_over.is_set():
                pass
        with self._lock:
            self.cancelled += gone.is_set()
        return b""


class Fate(NamedTuple):
    """What a client heard, and what was counted, in words."""

    text: str
    content: tuple[bytes, ...] = ()

    def __str__(self) -> str:
        return self.text


def _call(process: Process, stack: ExitStack, timeout: str = "") -> tuple[GrpcPeer, int]:
    peer = stack.enter_context(GrpcPeer(process.grpc))
    stream = peer.open([*CALL, ("grpc-timeout", timeout)] if timeout else CALL)
    peer.send(stream, MESSAGE)
    return peer, stream


def _post(process: Process, stack: ExitStack) -> HttpPeer:
    peer = stack.enter_context(HttpPeer(process.http))
    peer.send(POST)
    return peer


Leave = Callable[[], object]


def _by_reset(process: Process, stack: ExitStack) -> Leave:
    peer, stream = _call(process, stack)
    return lambda: peer.reset(stream)


def _by_end_over_grpc(process: Process, _stack: ExitStack) -> Leave:
    own = ExitStack()
    _call(process, own)
    return own.close


def _by_end_over_http(process: Process, _stack: ExitStack) -> Leave:
    own = ExitStack()
    _post(process, own)
    return own.close


def _by_half_an_end(process: Process, stack: ExitStack) -> Leave:
    peer = _post(process, stack)

    def leave() -> str:
        peer.socket.shutdown(socket.SHUT_WR)
        answer = peer.answer()
        return f"{answer.status} code {answer.body[1]}"

    return leave


# gRPC's Go server resets a call at its deadline, unless the handler, which it tells, is faster.
_LATE = (1, 4, 14)


def _by_deadline(process: Process, stack: ExitStack) -> Leave:
    peer, stream = _call(process, stack, "500m")

    def leave() -> str:
        answer = peer.answer(stream)
        return "over" if answer.reset_code == 8 or answer.status in _LATE else str(answer)

    return leave


WAYS = {
    "reset": _by_reset,
    "end over gRPC": _by_end_over_grpc,
    "end over HTTP": _by_end_over_http,
    "half an end": _by_half_an_end,
    "deadline": _by_deadline,
}
QUEUES: dict[str, dict[str, Any]] = {
    "no queue": {"enabled": False},
    "waiting": {"wait_for_result": True},
}


@pytest.fixture
def backends() -> Iterator[dict[str, Silent]]:
    """A silent backend for each."""
    silent = {"collector": Silent(), "spansieve": Silent()}
    yield silent
    for backend in silent.values():
        backend.stop()


def _run(queue: dict[str, Any], backends: dict[str, Silent], folder: Path) -> Any:
    """Run both, each before its backend."""
    sides = iter(backends.values())

    def config(ports: Ports) -> dict[str, Any]:
        exporter = {
            "endpoint": f"127.0.0.1:{next(sides).port}",
            "tls": {"insecure": True},
            "timeout": "60s",
            "sending_queue": queue,
        }
        return base(
            ports,
            exporters={"otlp_grpc": exporter},
            pipelines={"traces": {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}},
        )

    return run_both(config, folder)


def _counts(process: Process) -> str:
    counts: dict[str, int] = {}
    for (name, _labels), value in process.samples("spans$").items():
        if name in COUNTED and value:
            counts[COUNTED[name]] = counts.get(COUNTED[name], 0) + int(value)
    return ", ".join(f"{counts[name]} {name}" for name in COUNTED.values() if name in counts)


def _refused(process: Process) -> int:
    return int(sum(process.samples("^otelcol_receiver_refused_spans$").values()))


def _held(process: Process) -> int:
    return int(sum(process.samples("^otelcol_exporter_queue_size$").values()))


def _compare(case: str, pair: Pair, backends: dict[str, Silent], said: dict[str, Any]) -> None:
    outcomes = {}
    for side, process in pair.processes.items():
        backend = backends[side]
        text = f"{_counts(process)}; {backend.begun} begun, {backend.cancelled} cancelled"
        outcomes[side] = Fate(f"{said[side]}; {text}" if said[side] else text)
    differences.check(case, outcomes)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("queue", QUEUES)
def test_request_that_is_being_sent_goes_with_its_client(
    queue: str, way: str, backends: dict[str, Silent], tmp_path: Path
) -> None:
    """Its export is cancelled, and it is not tried again."""
    with _run(QUEUES[queue], backends, tmp_path) as pair, ExitStack() as stack:
        said = {}
        for side, process in pair.processes.items():
            leave = WAYS[way](process, stack)
            wait_for(lambda side=side: backends[side].begun == 1)
            said[side] = leave()
            wait_for(lambda side=side: backends[side].cancelled == 1)
            wait_for(functools.partial(lambda p: _refused(p) > 0, process))
        _compare(f"gone: {queue}, being sent, {way}", pair, backends, said)


@pytest.mark.parametrize("way", WAYS)
def test_request_that_waits_for_its_turn_goes_with_its_client(
    way: str, backends: dict[str, Silent], tmp_path: Path
) -> None:
    """It is not sent at all, and what is before it is not affected."""
    queue = {"wait_for_result": True, "num_consumers": 1}
    with _run(queue, backends, tmp_path) as pair, ExitStack() as stack:
        said = {}
        for side, process in pair.processes.items():
            _call(process, stack)
            wait_for(lambda side=side: backends[side].begun == 1)
            leave = WAYS[way](process, stack)
            wait_for(functools.partial(lambda p: _held(p) == 2, process))
            said[side] = leave()
            wait_for(functools.partial(lambda p: _refused(p) > 0, process))
        _compare(f"gone: {way}, in its turn", pair, backends, said)


@pytest.mark.parametrize("queue", QUEUES)
def test_backend_that_is_down_is_not_tried_past_the_deadline(
    queue: str, backends: dict[str, Silent], tmp_path: Path
) -> None:
    """The client hears why at once, when the next try would come too late."""
    for backend in backends.values():
        backend.stop()
    with _run(QUEUES[queue], backends, tmp_path) as pair, ExitStack() as stack:
        said = {}
        for side, process in pair.processes.items():
            peer, stream = _call(process, stack, "1S")
            answer = peer.answer(stream)
            said[side] = f"status {answer.status} {answer.message.partition(':')[0]}"
            wait_for(functools.partial(lambda p: _refused(p) > 0, process))
        _compare(f"gone: {queue}, backend down", pair, backends, said)


@pytest.mark.usefixtures("whole_module")
def test_every_listed_difference_is_still_there() -> None:
    """A row of differences.md that no case has shown is out of date."""
    assert [] == differences.out_of_date("gone: ")
