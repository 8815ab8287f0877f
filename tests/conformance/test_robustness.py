"""Peers that break off, crawl or flood: they lose their own connection at most, and the next client is served."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from collector.ids import Signal
from tests.conformance import bodies, differences
from tests.conformance.bodies import GOLDEN, GRPC_PATHS
from tests.conformance.harness import Collector, Sink
from tests.conformance.peers import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    TIMEOUT_S,
    GrpcPeer,
    HttpPeer,
    RawPeer,
    call_headers,
    connect,
    exchange,
    frame,
    grpc_frame,
    header_block,
    http_request,
    is_ended,
)

TRACES = GRPC_PATHS[Signal.TRACES]
GOLDEN_TRACES = GOLDEN[Signal.TRACES]
PROTOBUF = ("Content-Type", "application/x-protobuf")
POST = http_request("/v1/traces", GOLDEN_TRACES, [PROTOBUF])
CONNECTIONS = 200


def _call(collector: Collector) -> int | None:
    with GrpcPeer(collector.grpc) as peer:
        return peer.call(call_headers(TRACES), grpc_frame(GOLDEN_TRACES)).status


def _post(collector: Collector) -> int:
    return exchange(collector.http, POST).status


def _assert_serves(collector: Collector) -> None:
    """Check that both protocols answer a new client and nothing else was taken."""
    assert 0 == _call(collector)
    assert 200 == _post(collector)
    assert [GOLDEN_TRACES] * 2 == collector.take()


# ----------------------------------------------------------------------------------------------- many peers


def test_many_grpc_connections_are_all_served(collector: Collector) -> None:
    """200 clients at once, each with two calls under way, are each answered."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(GrpcPeer(collector.grpc)) for _ in range(CONNECTIONS)]
        streams = [[peer.open(call_headers(TRACES)) for _ in range(2)] for peer in peers]
        for peer, own in zip(peers, streams, strict=True):
            for stream in reversed(own):
                peer.send(stream, grpc_frame(GOLDEN_TRACES))
        for peer, own in zip(peers, streams, strict=True):
            assert [0, 0] == [peer.answer(stream).status for stream in own]
    assert [GOLDEN_TRACES] * (2 * CONNECTIONS) == collector.take()


def test_many_http_connections_are_all_served(collector: Collector) -> None:
    """200 clients at once, their requests sent half by half, are each answered."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(HttpPeer(collector.http)) for _ in range(CONNECTIONS)]
        for part in (POST[:100], POST[100:]):
            for peer in peers:
                peer.send(part)
        assert [200] * CONNECTIONS == [peer.answer().status for peer in peers]
    assert [GOLDEN_TRACES] * CONNECTIONS == collector.take()


def test_several_event_loops_share_the_connections(transport: str) -> None:
    """More threads change nothing for a client, and lose nothing."""
    with Collector(transport, event_loops=3) as collector:
        senders = [threading.Thread(target=lambda: [_call(collector) for _ in range(20)]) for _ in range(6)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        assert [GOLDEN_TRACES] * 120 == collector.take()


# ----------------------------------------------------------------------------------------------- slow peers


def test_request_byte_by_byte_is_served(collector: Collector) -> None:
    """HTTP/1.1 split anywhere is the same request."""
    with HttpPeer(collector.http) as peer:
        for position in range(len(POST)):
            peer.send(POST[position : position + 1])
        assert 200 == peer.answer().status
    assert [GOLDEN_TRACES] == collector.take()


def test_http2_byte_by_byte_is_served(collector: Collector) -> None:
    """HTTP/2 split anywhere, preface and frame heads included, is the same call."""
    wire = (
        PREFACE
        + frame(SETTINGS, 0, 0)
        + frame(HEADERS, END_HEADERS, 1, header_block(TRACES))
        + frame(DATA, END_STREAM, 1, grpc_frame(GOLDEN_TRACES))
    )
    with connect(collector.grpc) as connection:
        for position in range(len(wire)):
            connection.sendall(wire[position : position + 1])
        _wait_for(lambda: [GOLDEN_TRACES] == collector.take())


def test_slow_peers_hold_up_nobody(collector: Collector) -> None:
    """50 half-sent requests of each protocol leave the server free for the next client."""
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(HttpPeer(collector.http)).send(POST[:-1])
            peer = stack.enter_context(GrpcPeer(collector.grpc))
            peer.send(peer.open(call_headers(TRACES)), grpc_frame(GOLDEN_TRACES)[:-1], end_stream=False)
        _assert_serves(collector)


def test_request_slower_than_read_timeout_is_cut_off(transport: str) -> None:
    """With a read_timeout, a body that does not come ends its connection."""
    with Collector(transport, http={"read_timeout": 0.2}) as collector, HttpPeer(collector.http) as peer:
        peer.send(POST[:-1])
        assert peer.is_ended()
        assert [] == collector.take()


def test_idle_connection_is_closed_after_idle_timeout(transport: str) -> None:
    """With an idle_timeout, a connection that asks for nothing more ends."""
    with Collector(transport, http={"idle_timeout": 0.2}) as collector, HttpPeer(collector.http) as peer:
        peer.send(POST)
        assert 200 == peer.answer().status
        assert peer.is_ended()


# ------------------------------------------------------------------------------------- peers that break off


def test_connection_lost_in_a_request_delivers_nothing(collector: Collector) -> None:
    """Half a request is none, whether the peer closes or resets, in either protocol."""
    half_call = (
        PREFACE
        + frame(SETTINGS, 0, 0)
        + frame(HEADERS, END_HEADERS, 1, header_block(TRACES))
        + frame(DATA, 0, 1, grpc_frame(GOLDEN_TRACES)[:-1])
    )
    for address, half in ((collector.http, POST[:-1]), (collector.grpc, half_call)):
        for linger in (None, struct.pack("ii", 1, 0)):
            connection = connect(address)
            connection.sendall(half)
            if linger is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()
    _assert_serves(collector)


def test_stream_reset_in_a_message_spares_its_neighbours(collector: Collector) -> None:
    """RST_STREAM in mid-body ends that call only."""
    with GrpcPeer(collector.grpc) as peer:
        lost = peer.open(call_headers(TRACES))
        other = peer.open(call_headers(TRACES))
        peer.send(lost, grpc_frame(GOLDEN_TRACES)[:-1], end_stream=False)
        peer.send(other, grpc_frame(GOLDEN_TRACES)[:10], end_stream=False)
        peer.reset(lost)
        peer.send(other, grpc_frame(GOLDEN_TRACES)[10:])
        assert 0 == peer.answer(other).status
    assert [GOLDEN_TRACES] == collector.take()


def test_more_streams_than_allowed_are_refused_singly(transport: str) -> None:
    """A stream above max_concurrent_streams is not served, the others are."""
    with Collector(transport, grpc={"max_concurrent_streams": 2}) as collector:
        with RawPeer(collector.grpc) as peer:
            block = header_block(TRACES)
            opened = b"".join(frame(HEADERS, END_HEADERS, stream, block) for stream in (1, 3, 5))
            ends = b"".join(frame(DATA, END_STREAM, stream, grpc_frame(GOLDEN_TRACES)) for stream in (1, 3))
            peer.send(opened + ends)
            _wait_for(lambda: 2 == collector.metrics()["otelcol_receiver_accepted_spans", "grpc", ""])
        assert [GOLDEN_TRACES] * 2 == collector.take()


# --------------------------------------------------------------------------------------------------- floods


def _pings() -> Iterator[bytes]:
    return itertools.repeat(frame(PING, 0, 0, bytes(8)) * 100, 2000)


def _settings() -> Iterator[bytes]:
    return itertools.repeat(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 100, 2000)


def _resets() -> Iterator[bytes]:
    block = header_block(TRACES)
    for stream in range(1, 400_001, 2):
        yield frame(HEADERS, END_HEADERS, stream, block) + frame(RST_STREAM, 0, stream, struct.pack(">I", 8))


def _continuations() -> Iterator[bytes]:
    yield frame(HEADERS, 0, 1, header_block(TRACES))
    # Literals without indexing: a header of 1 and a value of 100 bytes, again and again.
    field = b"\x00\x01x\x64" + b"y" * 100
    yield from itertools.repeat(frame(CONTINUATION, 0, 1, field * 100), 5000)


def _empty_continuations() -> Iterator[bytes]:
    yield frame(HEADERS, 0, 1, header_block(TRACES))
    yield from itertools.repeat(frame(CONTINUATION, 0, 1) * 1000, 1000)


def _empty_data() -> Iterator[bytes]:
    yield frame(HEADERS, END_HEADERS, 1, header_block(TRACES))
    yield from itertools.repeat(frame(DATA, 0, 1) * 1000, 1000)


FLOODS = {
    "ping": _pings,
    "settings": _settings,
    "rapid reset": _resets,
    "continuation": _continuations,
    "empty continuation": _empty_continuations,
    "empty data": _empty_data,
}


@pytest.mark.parametrize("name", FLOODS)
def test_flood_ends_its_connection_and_nothing_else(name: str, transport: str, collector: Collector) -> None:
    """A peer that makes work without an end is cut off; the next client is served."""
    is_listed = differences.of(transport, f"flood: {name}") is not None
    with RawPeer(collector.grpc) as peer:
        is_cut_off = peer.flood(FLOODS[name](), 0.0 if is_listed else TIMEOUT_S)
    assert is_cut_off or is_listed
    _assert_serves(collector)


BROKEN = {
    "http/1.1 on the gRPC port": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a preface with a fault": PREFACE[:-1] + b"X" + bytes(100),
    "data before settings": PREFACE + frame(DATA, 0, 0, b"x"),
    "data of no stream": PREFACE + frame(SETTINGS, 0, 0) + frame(DATA, 0, 1, b"x"),
    "a short ping": PREFACE + frame(SETTINGS, 0, 0) + frame(PING, 0, 0, b"short"),
    "continuation of nothing": PREFACE + frame(SETTINGS, 0, 0) + frame(CONTINUATION, END_HEADERS, 1),
    "an even stream": PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 2, b"\x82"),
    "hpack that is none": PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, b"\xff" * 6),
    "a frame of 16 MiB": PREFACE + frame(SETTINGS, 0, 0) + b"\xff\xff\xff" + bytes(6),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_http2_ends_the_connection_only(name: str, transport: str, collector: Collector) -> None:
    """What is no HTTP/2 is cut off, and the next client is served."""
    difference = differences.of(transport, f"http2: {name}")
    with connect(collector.grpc) as connection:
        connection.sendall(BROKEN[name])
        if difference is None:
            assert is_ended(connection)
        _assert_serves(collector)


def test_http2_on_the_http_port_is_cut_off(collector: Collector) -> None:
    """A gRPC client on the wrong port learns so at once."""
    with connect(collector.http) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
        assert is_ended(connection)
    _assert_serves(collector)


# ------------------------------------------------------------------------------------------------- shutdown


def test_shutdown_ends_idle_connections_and_refuses_new_ones(transport: str) -> None:
    """After shutdown nothing is open, and it has not waited for its deadline, which is an hour away."""
    collector = Collector(transport)
    with collector, HttpPeer(collector.http) as http, GrpcPeer(collector.grpc) as grpc:
        http.send(POST)
        assert 200 == http.answer().status
        assert 0 == grpc.call(call_headers(TRACES), grpc_frame(GOLDEN_TRACES)).status
        addresses = [collector.http, collector.grpc]
        stopping = threading.Thread(target=collector.stop, args=(3600.0,))
        stopping.start()
        assert grpc.is_told_to_go()
        assert http.is_ended()
        stopping.join()
        for address in addresses:
            with pytest.raises(OSError, match="refused"):
                connect(address)


def test_shutdown_gives_up_on_a_crawling_request_at_its_deadline(transport: str) -> None:
    """A request that never completes cannot hold up a shutdown beyond its deadline."""
    collector = Collector(transport)
    with collector, HttpPeer(collector.http) as http, GrpcPeer(collector.grpc) as grpc:
        http.send(POST[:-1])
        grpc.send(grpc.open(call_headers(TRACES)), grpc_frame(GOLDEN_TRACES)[:-1], end_stream=False)
        assert 200 == _post(collector)
        collector.stop(0.3)
        assert http.is_ended()


def test_restart_serves_again(transport: str) -> None:
    """Start after shutdown works, as a reload of the component does it."""
    collector = Collector(transport)
    sink = Sink(collector.runtime, Signal.TRACES)
    try:
        collector.receiver.publish(Signal.TRACES, sink.queue)
        for _ in range(2):
            collector.receiver.start()
            assert 0 == _call(collector)
            assert 200 == _post(collector)
            collector.receiver.shutdown(5.0)
        assert [GOLDEN_TRACES] * 4 == sink.take()
    finally:
        collector.stop()


def test_route_changes_between_requests_without_loss(transport: str) -> None:
    """Requests under way while routes change end in the old or the new consumer, none nowhere."""
    with Collector(transport) as collector:
        sinks = [collector.sinks[Signal.TRACES], Sink(collector.runtime, Signal.TRACES)]
        statuses: list[int | None] = []
        sender = threading.Thread(target=lambda: statuses.extend(_call(collector) for _ in range(100)))
        sender.start()
        for sink in itertools.cycle(reversed(sinks)):
            collector.receiver.publish(Signal.TRACES, sink.queue)
            if not sender.is_alive():
                break
        sender.join()
        assert [0] * 100 == statuses
        assert 100 == sum(len(sink.take()) for sink in sinks)


def test_large_message_within_the_limit_flows_through_the_windows(transport: str) -> None:
    """A message many times the initial window arrives whole."""
    body = bodies.of_size(16 << 20)
    with (
        Collector(transport, grpc={"max_recv_msg_size_mib": 16, "initial_window_size": 65535}) as collector,
        GrpcPeer(collector.grpc) as peer,
    ):
        assert 0 == peer.call(call_headers(TRACES), grpc_frame(body)).status
        assert [body] == collector.take()


def _wait_for(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Return once condition holds; what it waits for happens on the server's threads."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        pause.wait(0.005)
