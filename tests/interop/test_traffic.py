"""Traffic as it is: clients that trickle, stall, leave and come all at once, a stop and a reload in the middle."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from collector.ids import Signal
from tests.conformance.bodies import GOLDEN, GRPC_PATHS, HTTP_PATHS
from tests.conformance.peers import (
    GrpcPeer,
    HttpPeer,
    call_headers,
    chunked,
    exchange,
    grpc_frame,
    http_request,
)
from tests.integration.harness import wait_for
from tests.interop.harness import Pair, Ports, Process, base, run_both, to_sink
from tests.support import otlp

PROTOBUF = [("Content-Type", "application/x-protobuf")]
BODY = GOLDEN[Signal.TRACES]
PATH = HTTP_PATHS[Signal.TRACES]
CLIENTS = 32
_TRICKLE_S = 0.002
_STALL_S = 0.5


def _config(ports: Ports, **sections: Any) -> dict[str, Any]:
    pipeline = {"receivers": ["otlp"], "exporters": ["otlp_http"]}
    return base(ports, exporters={"otlp_http": to_sink(ports)}, pipelines={"traces": pipeline}, **sections)


def _batching(ports: Ports, path: str = "") -> dict[str, Any]:
    pipeline = {"receivers": ["otlp"], "processors": ["batch"], "exporters": ["otlp_http"]}
    return base(
        ports,
        processors={"batch": {"timeout": "50ms"}},
        exporters={"otlp_http": to_sink(ports, path)},
        pipelines={"traces": pipeline},
    )


def _span(name: str) -> bytes:
    return otlp.traces(otlp.span(name)).SerializeToString()


def _names(bodies: list[bytes]) -> Counter[str]:
    return Counter(item.name for body in bodies for item in otlp.items(otlp.decode(Signal.TRACES, body)))


def _accepted(process: Process) -> float:
    return sum(process.samples("^otelcol_receiver_accepted_spans$").values())


# ------------------------------------------------------------------------------------------- slow clients


def _http_byte_by_byte(process: Process) -> Any:
    with HttpPeer(process.http) as peer:
        for byte in http_request(PATH, BODY, PROTOBUF):
            peer.send(bytes([byte]))
            time.sleep(_TRICKLE_S)
        return peer.answer().status


def _http_in_chunks_of_one(process: Process) -> Any:
    with HttpPeer(process.http) as peer:
        peer.send(chunked(PATH, [bytes([byte]) for byte in BODY], PROTOBUF))
        return peer.answer().status


def _grpc_byte_by_byte(process: Process) -> Any:
    with GrpcPeer(process.grpc) as peer:
        stream = peer.open(call_headers(GRPC_PATHS[Signal.TRACES]))
        payload = grpc_frame(BODY)
        for at, byte in enumerate(payload):
            peer.send(stream, bytes([byte]), end_stream=at + 1 == len(payload))
            peer.flush()
            time.sleep(_TRICKLE_S)
        return peer.answer(stream).status


def _http_leaves_in_the_body(process: Process) -> Any:
    with HttpPeer(process.http) as peer:
        peer.send(http_request(PATH, BODY, PROTOBUF)[:-1])
    return None


def _grpc_leaves_in_the_message(process: Process) -> Any:
    with GrpcPeer(process.grpc) as peer:
        stream = peer.open(call_headers(GRPC_PATHS[Signal.TRACES]))
        peer.send(stream, grpc_frame(BODY)[:-1], end_stream=False)
        peer.flush()
    return None


def _grpc_ends_in_the_message(process: Process) -> Any:
    with GrpcPeer(process.grpc) as peer:
        return peer.call(call_headers(GRPC_PATHS[Signal.TRACES]), grpc_frame(BODY)[:-1]).status is not None


def _http_pipelines(process: Process) -> Any:
    with HttpPeer(process.http) as peer:
        peer.send(http_request(PATH, BODY, PROTOBUF) * 20)
        return [peer.answer().status for _ in range(20)]


def _http_expects_to_continue(process: Process) -> Any:
    with HttpPeer(process.http) as peer:
        request = http_request(PATH, BODY, [*PROTOBUF, ("Expect", "100-continue")])
        peer.send(request[: -len(BODY)])
        statuses = [peer.answer().status]
        peer.send(BODY)
        return [*statuses, peer.answer().status]


def _http_declares_two_lengths(process: Process) -> Any:
    return exchange(
        process.http, http_request(PATH, BODY, [*PROTOBUF, ("Content-Length", str(len(BODY) + 1))])
    ).status


@pytest.mark.parametrize(
    "behaviour",
    [
        _http_byte_by_byte,
        _http_in_chunks_of_one,
        _grpc_byte_by_byte,
        _http_leaves_in_the_body,
        _grpc_leaves_in_the_message,
        _grpc_ends_in_the_message,
        _http_pipelines,
        _http_expects_to_continue,
        _http_declares_two_lengths,
    ],
    ids=lambda behaviour: behaviour.__name__.strip("_"),
)
def test_odd_client_is_served_alike(behaviour: Callable[[Process], Any], tmp_path: Path) -> None:
    """Slow, torn and hasty: the same answers, and the same taken."""
    with run_both(_config, tmp_path) as pair:
        answers = pair.each(behaviour)
        # What comes behind has its answer only when what came before is dealt with.
        assert {"collector": 200, "spansieve": 200} == pair.each(
            lambda process: exchange(process.http, http_request(PATH, _span("last"), PROTOBUF)).status
        )
        accepted = pair.each(_accepted)
    assert answers["collector"] == answers["spansieve"]
    assert accepted["collector"] == accepted["spansieve"]


def test_stalled_client_is_cut_off_alike(tmp_path: Path) -> None:
    """With a `read_timeout`, who does not finish a request in time loses the connection, and others do not wait."""

    def config(ports: Ports) -> dict[str, Any]:
        return _config(ports, http={"read_timeout": f"{_STALL_S}s"})

    def stall(process: Process) -> tuple[bool, bool, int]:
        with HttpPeer(process.http) as peer:
            start_s = time.monotonic()
            peer.send(http_request(PATH, BODY, PROTOBUF)[:-1])
            meanwhile = exchange(process.http, http_request(PATH, BODY, PROTOBUF)).status
            is_ended = peer.is_ended()
            return is_ended, time.monotonic() - start_s > _STALL_S / 2, meanwhile

    with run_both(config, tmp_path) as pair:
        ends = pair.each(stall)
        assert dict.fromkeys(ends, (True, True, 200)) == ends
        assert {"collector": 1, "spansieve": 1} == pair.each(_accepted)


# ------------------------------------------------------------------------------------------- many, stop, reload


class Load:
    """Clients that send a span a request, each waiting for its answer, until they are told to end.

    Attributes:
        acknowledged, refused: names of the spans.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._ends = threading.Event()
        self.acknowledged: list[str] = []
        self.refused: list[str] = []

    def end(self) -> None:
        """Let each client finish what it is at."""
        self._ends.set()

    def run(self, client: int) -> None:
        """Be one client, of HTTP or gRPC."""
        send = self._http() if client % 2 else self._grpc()
        while not self._ends.is_set():
            name = f"span {client} {next(self._numbers)}"
            (self.acknowledged if send(_span(name)) else self.refused).append(name)

    def _grpc(self) -> Callable[[bytes], bool]:
        host, port = self._process.grpc
        channel = grpc.insecure_channel(f"{host}:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
        export = channel.unary_unary(GRPC_PATHS[Signal.TRACES])

        def send(body: bytes) -> bool:
            try:
                export(body, timeout=20)
            except grpc.RpcError:
                return False
            return True

        return send

    def _http(self) -> Callable[[bytes], bool]:
        def send(body: bytes) -> bool:
            try:
                return exchange(self._process.http, http_request(PATH, body, PROTOBUF)).status == 200
            except OSError:
                return False

        return send


@contextmanager
def _load(pair: Pair, clients: int = CLIENTS) -> Iterator[dict[str, Load]]:
    """Run clients against both; on leaving all have ended."""
    loads = pair.each(Load)
    with ThreadPoolExecutor(2 * clients) as pool:
        futures = [pool.submit(load.run, client) for load in loads.values() for client in range(clients)]
        try:
            yield loads
        finally:
            for load in loads.values():
                load.end()
            for future in futures:
                future.result()


def _wait_for_load(loads: dict[str, Load], more: int = 500) -> None:
    so_far = {side: len(load.acknowledged) for side, load in loads.items()}
    wait_for(lambda: all(len(load.acknowledged) >= so_far[side] + more for side, load in loads.items()))


def test_many_small_requests_at_once_all_arrive(tmp_path: Path) -> None:
    """Nothing is refused, and what was acknowledged arrives once."""
    with run_both(_batching, tmp_path) as pair:
        with _load(pair) as loads:
            _wait_for_load(loads, 2000)
        pair.drain()
        received = pair.received(PATH)
    for side, load in loads.items():
        assert [] == load.refused, side
        assert Counter(load.acknowledged) == _names(received[side]), side


def test_what_was_acknowledged_survives_a_stop_under_load(tmp_path: Path) -> None:
    """SIGTERM amid requests: all that a client was told has been taken arrives, exactly once."""
    with run_both(_batching, tmp_path) as pair:
        with _load(pair) as loads:
            _wait_for_load(loads)
            for process in pair.processes.values():
                process.terminate()
            wait_for(lambda: all(len(load.refused) > CLIENTS for load in loads.values()))
        pair.drain()
        received = pair.received(PATH)
    for side, load in loads.items():
        names = _names(received[side])
        assert set(load.acknowledged) <= set(names), side
        assert 1 == max(names.values()), side


def test_what_was_acknowledged_survives_reloads_under_load(tmp_path: Path) -> None:
    """SIGHUP amid requests: nothing acknowledged is lost, the new configuration takes over, and we refuse nobody."""
    paths = [f"/{number}" for number in range(4)]
    with run_both(lambda ports: _batching(ports, paths[0]), tmp_path) as pair:
        with _load(pair) as loads:
            for path in paths[1:]:
                _wait_for_load(loads)
                for process in pair.processes.values():
                    process.reload(lambda ports, path=path: _batching(ports, path))
                wait_for(lambda path=path: all(pair.received(path + PATH).values()))
            _wait_for_load(loads)
        pair.drain()
        received = [pair.received(path + PATH) for path in paths]
    for side, load in loads.items():
        names = sum((_names(each[side]) for each in received), Counter[str]())
        assert set(load.acknowledged) <= set(names), side
        assert 1 == max(names.values()), side
    assert [] == loads["spansieve"].refused
