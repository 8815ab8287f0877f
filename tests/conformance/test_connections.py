"""The life of connections, and what is not OTLP at their edge: ages, pings, health, unix sockets."""

from __future__ import annotations

import http.client
import pathlib
import socket
import stat
import threading
from collections.abc import Iterator

import grpc
import pytest

from collector.config.fields import Duration
from collector.config.grpc import Keepalive, KeepaliveEnforcementPolicy, KeepaliveServerParameters
from collector.config.network import Network
from collector.ids import Signal
from collector.native.pipeline import Discard
from tests.conformance.bodies import GOLDEN, GRPC_PATHS
from tests.conformance.harness import Collector
from tests.conformance.peers import (
    PING,
    PREFACE,
    SETTINGS,
    GrpcPeer,
    HttpPeer,
    call_headers,
    connect,
    frame,
    grpc_frame,
    http_request,
)

TRACES = GOLDEN[Signal.TRACES]
EXPORT = GRPC_PATHS[Signal.TRACES]
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def _service(name: str) -> bytes:
    return b"\x0a" + bytes([len(name)]) + name.encode()


def _life(**seconds: float) -> dict[str, Keepalive]:
    parameters = {name: Duration(value) for name, value in seconds.items()}
    return {"keepalive": Keepalive(server_parameters=KeepaliveServerParameters(**parameters))}


# ------------------------------------------------------------------------------------------------- ages and pings


def test_old_connection_is_replaced_without_a_lost_call(transport: str) -> None:
    """A client that calls all the time sees connections end at their age, and not one call fail."""
    with (
        Collector(transport, grpc=_life(max_connection_age=0.2)) as collector,
        grpc.insecure_channel(collector.receiver.addresses["grpc"]) as channel,
    ):
        export = channel.unary_unary(EXPORT)
        n_calls = 0
        changes = _States(channel)
        while changes.n_leavings < 2:
            export(TRACES, timeout=60.0)
            n_calls += 1
        assert n_calls == len(collector.take())


class _States:
    """Counts how often a channel is idle again."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.n_leavings = 0
        channel.subscribe(self._take)

    def _take(self, state: grpc.ChannelConnectivity) -> None:
        self.n_leavings += state is grpc.ChannelConnectivity.IDLE


def test_call_on_an_old_connection_ends_with_its_grace(transport: str) -> None:
    """A call that does not end does not keep its connection for longer than the grace."""
    keys = _life(max_connection_age=0.1, max_connection_age_grace=0.1)
    with Collector(transport, grpc=keys) as collector, GrpcPeer(collector.grpc) as peer:
        stream = peer.open(call_headers(EXPORT))
        with pytest.raises(Exception, match=r"closed|reset|terminat|RECV"):
            peer.answer(stream)


def test_idle_connection_is_told_to_go(transport: str) -> None:
    """After max_connection_idle without a call."""
    with (
        Collector(transport, grpc=_life(max_connection_idle=0.1)) as collector,
        GrpcPeer(collector.grpc) as peer,
    ):
        assert 0 == peer.call(call_headers(EXPORT), grpc_frame(TRACES)).status
        assert peer.is_told_to_go()


def test_peer_that_does_not_answer_pings_is_ended() -> None:
    """A client that is gone without a word does not keep its connection."""
    with Collector("native", grpc=_life(time=0.2, timeout=0.2)) as collector, connect(collector.grpc) as raw:
        raw.sendall(PREFACE + frame(SETTINGS, 0, 0))
        seen = b""
        while piece := raw.recv(65536):
            seen += piece
        assert frame(PING, 0, 0)[:5] in seen


def test_too_many_pings_end_a_connection() -> None:
    """With the words that make clients of gRPC ping less; a policy that permits them lets them be."""
    pings = frame(PING, 0, 0, b"12345678") * 4
    with Collector("native") as collector, connect(collector.grpc) as raw:
        raw.sendall(PREFACE + frame(SETTINGS, 0, 0) + pings)
        seen = b""
        while piece := raw.recv(65536):
            seen += piece
        assert seen.endswith(b"\x00\x00\x00\x0btoo_many_pings")


def test_permitted_pings_are_answered() -> None:
    """Without calls, as often as min_time says."""
    policy = KeepaliveEnforcementPolicy(min_time=Duration(1e-9), permit_without_stream=True)
    with (
        Collector("native", grpc={"keepalive": Keepalive(enforcement_policy=policy)}) as collector,
        connect(collector.grpc) as raw,
    ):
        raw.sendall(PREFACE + frame(SETTINGS, 0, 0))
        for number in range(20):
            opaque = b"%08d" % number
            raw.sendall(frame(PING, 0, 0, opaque))
            seen = b""
            while frame(PING, 1, 0, opaque) not in seen:
                piece = raw.recv(65536)
                assert piece
                seen += piece


def test_ping_of_a_client_of_grpc_is_judged_as_by_its_own_server() -> None:
    """grpcio's keepalive is put off by the default policy, and calls go on all the same."""
    options = [
        ("grpc.keepalive_time_ms", 100),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    with (
        Collector("native") as collector,
        grpc.insecure_channel(collector.receiver.addresses["grpc"], options) as channel,
    ):
        export = channel.unary_unary(EXPORT)
        states = _States(channel)
        is_told = threading.Event()
        channel.subscribe(lambda state: is_told.set() if states.n_leavings else None)
        export(TRACES, timeout=60.0)
        assert is_told.wait(60.0)
        export(TRACES, timeout=60.0)
        assert 2 == len(collector.take())


# ---------------------------------------------------------------------------------------------------------- health


def test_health_check_answers_by_what_is_served(transport: str) -> None:
    """A probe of Kubernetes, which names no service, and one that names a signal's."""
    routes = {Signal.METRICS: Discard(Signal.METRICS)}
    with (
        Collector(transport, consumers=lambda runtime: routes) as collector,
        grpc.insecure_channel(collector.receiver.addresses["grpc"]) as channel,
    ):
        check = channel.unary_unary(CHECK)
        assert SERVING == check(b"", timeout=60.0)
        metrics, traces = (GRPC_PATHS[signal].split("/")[1] for signal in (Signal.METRICS, Signal.TRACES))
        assert SERVING == check(_service(metrics), timeout=60.0)
        assert NOT_SERVING == check(_service(traces), timeout=60.0)
        with pytest.raises(grpc.RpcError) as caught:
            check(_service("other"), timeout=60.0)
        assert grpc.StatusCode.NOT_FOUND is caught.value.code()
        collector.receiver.publish(Signal.METRICS, None)
        assert NOT_SERVING == check(b"", timeout=60.0)


def test_health_can_be_off(transport: str) -> None:
    """Then it is a service that is not known, as on the Collector."""
    with (
        Collector(transport, grpc={"health_service": False}) as collector,
        grpc.insecure_channel(collector.receiver.addresses["grpc"]) as channel,
    ):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(CHECK)(b"", timeout=60.0)
        assert grpc.StatusCode.UNIMPLEMENTED is caught.value.code()


def test_health_watch_tells_of_changes_and_of_the_end() -> None:
    """A watcher is told at once and at each change; shutdown does not wait for it."""
    with (
        Collector("native") as collector,
        grpc.insecure_channel(collector.receiver.addresses["grpc"]) as channel,
    ):
        watch: Iterator[bytes] = channel.unary_stream(WATCH)(b"", timeout=60.0)
        other: Iterator[bytes] = channel.unary_stream(WATCH)(_service("other"), timeout=60.0)
        assert (SERVING, SERVICE_UNKNOWN) == (next(watch), next(other))
        for signal in Signal:
            collector.receiver.publish(signal, None)
        assert NOT_SERVING == next(watch)
        collector.receiver.publish(Signal.LOGS, collector.sinks[Signal.LOGS].queue)
        assert SERVING == next(watch)
        collector.receiver.shutdown(10.0)
        assert NOT_SERVING == next(watch)
        for watcher in (watch, other):
            with pytest.raises(grpc.RpcError) as caught:
                next(watcher)
            assert grpc.StatusCode.UNAVAILABLE is caught.value.code()


def test_reflection_is_off(transport: str) -> None:
    """A server says of itself what it must: as on the Collector."""
    with Collector(transport) as collector, GrpcPeer(collector.grpc) as peer:
        path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        assert 12 == peer.call(call_headers(path), grpc_frame(b"")).status


# -------------------------------------------------------------------------------------------------- other clients


def test_grpc_client_at_the_http_port_is_told() -> None:
    """Its error says what the port speaks, not just that something failed."""
    with (
        Collector("native") as collector,
        grpc.insecure_channel(collector.receiver.addresses["http"]) as channel,
    ):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(EXPORT)(TRACES, timeout=60.0)
        assert grpc.StatusCode.UNAVAILABLE is caught.value.code()


def test_http_client_at_the_grpc_port_is_told() -> None:
    """An answer that it can show."""
    with Collector("native") as collector:
        client = http.client.HTTPConnection(*collector.grpc, timeout=60.0)
        client.request("POST", "/v1/traces", TRACES, {"Content-Type": "application/x-protobuf"})
        answer = client.getresponse()
        assert (400, True) == (answer.status, b"this port speaks gRPC" in answer.read())
        client.close()


def test_unix_sockets_serve_both_protocols(transport: str, tmp_path: pathlib.Path) -> None:
    """Real clients over paths; only the owner can connect; files of the dead are in no one's way."""
    paths = {protocol: str(tmp_path / f"{protocol}.sock") for protocol in ("grpc", "http")}
    for path in paths.values():
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(path)
    keys = {protocol: {"endpoint": path, "transport": Network.UNIX} for protocol, path in paths.items()}
    with (
        Collector(transport, grpc=keys["grpc"], http=keys["http"]) as collector,
        grpc.insecure_channel(f"unix:{paths['grpc']}") as channel,
        socket.socket(socket.AF_UNIX) as client,
    ):
        channel.unary_unary(EXPORT)(TRACES, timeout=60.0)
        client.connect(paths["http"])
        client.sendall(http_request("/v1/traces", TRACES, [("Content-Type", "application/x-protobuf")]))
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert [TRACES, TRACES] == collector.take()
        assert not stat.S_IMODE(pathlib.Path(paths["http"]).stat().st_mode) & 0o022
    assert not pathlib.Path(paths["http"]).exists()


# ------------------------------------------------------------------------------------------------ HTTP connections


def test_connection_for_one_request(transport: str) -> None:
    """keep_alives_enabled: false ends each connection with its answer, and says so."""
    with (
        Collector(transport, http={"keep_alives_enabled": False}) as collector,
        HttpPeer(collector.http) as peer,
    ):
        peer.send(http_request("/v1/traces", TRACES, [("Content-Type", "application/x-protobuf")]))
        answer = peer.answer()
        assert (200, "close") == (answer.status, answer.headers["connection"])
        assert peer.is_ended()


@pytest.mark.parametrize("says", [b"", b"POST /v1/traces HTTP/1.1\r\nHost: "])
def test_head_slower_than_read_header_timeout_is_cut_off(transport: str, says: bytes) -> None:
    """From the first moment of a connection on."""
    with (
        Collector(transport, http={"read_header_timeout": 0.2}) as collector,
        HttpPeer(collector.http) as peer,
    ):
        peer.send(says)
        assert peer.is_ended()


def test_answers_that_nobody_takes_are_given_up() -> None:
    """A client that sends and never reads is closed after write_timeout."""
    with Collector("native", http={"write_timeout": 0.2}) as collector, connect(collector.http) as raw:
        request = http_request("/nowhere" + "x" * 400, None)
        with pytest.raises(OSError, match="reset|[Bb]roken"):
            while True:
                raw.sendall(request * 1000)
