"""OTLP/gRPC over real sockets: framing, encodings, limits, statuses. Source: gRPC over HTTP/2; OTLP, "OTLP/gRPC"."""

from __future__ import annotations

import dataclasses
import gzip
import re
import struct
from collections.abc import Callable

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from collector.ids import Signal
from tests.conformance import bodies, differences
from tests.conformance.bodies import GOLDEN, GRPC_PATHS, MIB
from tests.conformance.harness import Collector, PeakMemory, full_queue
from tests.conformance.peers import GrpcPeer, call_headers, grpc_frame

OK, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 0, 3, 8, 12, 13, 14
TRACES = GRPC_PATHS[Signal.TRACES]
GOLDEN_TRACES = GOLDEN[Signal.TRACES]


@dataclasses.dataclass(frozen=True)
class Case:
    """One call and its answer.

    Attributes:
        payload: what follows the headers, length prefix included; made when the case runs.
        message: a pattern that the status message must hold.
        delivered: the request that reaches the sink, None for none.
    """

    name: str
    payload: Callable[[], bytes]
    status: int | None
    message: str = ""
    delivered: Callable[[], bytes] | None = None
    encoding: str = ""
    path: str = TRACES
    content_type: str = "application/grpc"
    padding: int | None = None


def _golden() -> bytes:
    return GOLDEN_TRACES


def _encoded(encode: Callable[[bytes], bytes], message: Callable[[], bytes] = _golden) -> Callable[[], bytes]:
    return lambda: grpc_frame(encode(message()), flag=1)


def _plain(message: Callable[[], bytes] = _golden) -> Callable[[], bytes]:
    return lambda: grpc_frame(message())


def _half(message: bytes) -> list[bytes]:
    return [message[: len(message) // 2], message[len(message) // 2 :]]


CASES = [
    Case("identity", _plain(), OK, delivered=_golden),
    Case("identity, named", _plain(), OK, delivered=_golden, encoding="identity"),
    Case("content type +proto", _plain(), OK, delivered=_golden, content_type="application/grpc+proto"),
    Case("padded data frames", _plain(), OK, delivered=_golden, padding=100),
    Case("gzip", _encoded(gzip.compress), OK, delivered=_golden, encoding="gzip"),
    Case(
        "gzip, two members",
        _encoded(lambda data: bodies.gzip_members(*_half(data))),
        OK,
        delivered=_golden,
        encoding="gzip",
    ),
    Case("zstd", _encoded(bodies.zstd_frames), OK, delivered=_golden, encoding="zstd"),
    Case(
        "zstd, two frames",
        _encoded(lambda data: bodies.zstd_frames(*_half(data))),
        OK,
        delivered=_golden,
        encoding="zstd",
    ),
    Case("snappy", _encoded(bodies.snappy_block), OK, delivered=_golden, encoding="snappy"),
    Case("encoding named, message plain", _plain(), OK, delivered=_golden, encoding="gzip"),
    Case("empty request", _plain(bytes), OK),
    Case("empty request, gzip", _encoded(gzip.compress, bytes), OK, encoding="gzip"),
    Case(
        "unknown fields survive",
        _plain(bodies.with_unknown_fields),
        OK,
        delivered=bodies.with_unknown_fields,
    ),
    Case("at the limit", _plain(lambda: bodies.of_size(MIB)), OK, delivered=lambda: bodies.of_size(MIB)),
    Case(
        "at the limit, gzip",
        _encoded(gzip.compress, lambda: bodies.of_size(MIB)),
        OK,
        delivered=lambda: bodies.of_size(MIB),
        encoding="gzip",
    ),
    Case(
        "one over the limit",
        _plain(lambda: bodies.of_size(MIB + 1)),
        RESOURCE_EXHAUSTED,
        rf"grpc: received message larger than max \({MIB + 1} vs\. {MIB}\)",
    ),
    Case(
        "one over the limit, gzip",
        _encoded(gzip.compress, lambda: bodies.of_size(MIB + 1)),
        RESOURCE_EXHAUSTED,
        r"grpc: received message after decompression larger than max",
        encoding="gzip",
    ),
    Case(
        "one over the limit, zstd",
        _encoded(bodies.zstd_frames, lambda: bodies.of_size(MIB + 1)),
        RESOURCE_EXHAUSTED,
        r"grpc: received message after decompression larger than max",
        encoding="zstd",
    ),
    Case(
        "one over the limit, snappy",
        _encoded(bodies.snappy_block, lambda: bodies.of_size(MIB + 1)),
        RESOURCE_EXHAUSTED,
        r"larger than max",
        encoding="snappy",
    ),
    Case(
        "a length prefix of 4 GiB",
        lambda: struct.pack(">BI", 0, 0xFFFFFFFF) + bytes(100),
        RESOURCE_EXHAUSTED,
        r"larger than max",
    ),
    Case(
        "malformed",
        _plain(lambda: b"\x0a\x05\x0a"),
        INVALID_ARGUMENT,
        r"at byte \d+",
    ),
    Case(
        "malformed, gzip",
        _encoded(gzip.compress, lambda: b"\xff"),
        INVALID_ARGUMENT,
        r"at byte",
        encoding="gzip",
    ),
    Case(
        "corrupt gzip",
        _encoded(lambda data: b"\x1f\x8b\x08\x00" + data),
        INTERNAL,
        r"grpc: failed to decompress the received message",
        encoding="gzip",
    ),
    Case(
        "truncated gzip",
        _encoded(lambda data: gzip.compress(data)[:-9]),
        INTERNAL,
        r"grpc: failed to decompress the received message",
        encoding="gzip",
    ),
    Case(
        "truncated zstd",
        _encoded(lambda data: bodies.zstd_frames(data)[:-1]),
        INTERNAL,
        r"grpc: failed to decompress the received message",
        encoding="zstd",
    ),
    Case(
        "compressed without an encoding",
        lambda: grpc_frame(gzip.compress(GOLDEN_TRACES), flag=1),
        INTERNAL,
        r"grpc: compressed flag set with identity or empty encoding",
    ),
    Case(
        "unknown encoding",
        _encoded(gzip.compress),
        UNIMPLEMENTED,
        r'grpc: Decompressor is not installed for grpc-encoding "br"',
        encoding="br",
    ),
    Case("unknown flag", lambda: grpc_frame(GOLDEN_TRACES, flag=2), INTERNAL),
    Case("no message", bytes, INTERNAL),
    Case("half a length prefix", lambda: b"\0\0", INTERNAL),
    Case("half a message", lambda: grpc_frame(GOLDEN_TRACES)[:-5], INTERNAL),
    Case("two messages", lambda: grpc_frame(GOLDEN_TRACES) * 2, INTERNAL),
    Case(
        "unknown service",
        _plain(),
        UNIMPLEMENTED,
        r"unknown service opentelemetry\.Nothing",
        path="/opentelemetry.Nothing/Export",
    ),
    Case(
        "unknown method",
        _plain(),
        UNIMPLEMENTED,
        r"unknown method Import for service opentelemetry\.proto\.collector\.trace\.v1\.TraceService",
        path=TRACES.replace("Export", "Import"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_call_is_answered_and_delivered_as_the_table_says(
    case: Case, transport: str, collector: Collector
) -> None:
    """Each case has its status, its message, and leaves in the sink exactly what it should."""
    headers = [
        (name, case.content_type if name == "content-type" else value)
        for name, value in call_headers(case.path, case.encoding)
    ]
    with GrpcPeer(collector.grpc) as peer:
        stream = peer.open(headers)
        peer.send(stream, case.payload(), padding=case.padding)
        answer = peer.answer(stream)

    status, message = case.status, case.message
    delivered = [case.delivered()] if case.delivered else []
    difference = differences.of(transport, f"grpc: {case.name}")
    if difference is not None:
        if not difference.is_stable:
            return
        status, message = difference.status, difference.message
        delivered = [GOLDEN_TRACES] if difference.is_delivered else []
    assert status == answer.status, answer
    assert re.search(message, answer.message), answer.message
    assert delivered == collector.take()
    assert b"" == answer.body


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_grpcio_client_is_served(signal: Signal, compression: grpc.Compression, collector: Collector) -> None:
    """An independent client gets an empty answer, and its bytes arrive unchanged."""
    host, port = collector.grpc
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        export = channel.unary_unary(GRPC_PATHS[signal])
        assert b"" == export(GOLDEN[signal], compression=compression, timeout=60)
    assert [GOLDEN[signal]] == collector.take(signal)


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
def test_every_truncation_is_refused_at_a_byte(signal: Signal, collector: Collector) -> None:
    """A prefix that protobuf cannot read is INVALID_ARGUMENT at an offset inside it; one that it can is taken."""
    golden = GOLDEN[signal]
    with GrpcPeer(collector.grpc) as peer:
        for length in range(len(golden)):
            answer = peer.call(call_headers(GRPC_PATHS[signal]), grpc_frame(golden[:length]))
            if bodies.is_parsable(signal, golden[:length]):
                assert OK == answer.status, length
                continue
            assert INVALID_ARGUMENT == answer.status, (length, answer)
            offset = re.search(r"at byte (\d+)$", answer.message)
            assert offset is not None, answer.message
            assert int(offset[1]) <= length, answer.message
    assert [] == collector.take(signal)


@pytest.mark.parametrize(
    ("encoding", "bomb"),
    [("gzip", bodies.gzip_bomb), ("zstd", bodies.zstd_bomb)],
    ids=["gzip", "zstd"],
)
def test_bomb_is_refused_within_bounded_memory(
    encoding: str, bomb: Callable[[int], bytes], transport: str, collector: Collector
) -> None:
    """What expands to 1 GiB costs no more memory than the limit allows, and the next call is served."""
    difference = differences.of(transport, f"grpc: {encoding}")
    expected = difference.status if difference else RESOURCE_EXHAUSTED
    payload = grpc_frame(bomb(1 << 30)[: MIB - 5], flag=1)
    with GrpcPeer(collector.grpc) as peer, PeakMemory() as memory:
        assert expected == peer.call(call_headers(TRACES, encoding), payload).status
    assert memory.growth < 16 * MIB
    with GrpcPeer(collector.grpc) as peer:
        assert OK == peer.call(call_headers(TRACES), grpc_frame(GOLDEN_TRACES)).status
    assert [GOLDEN_TRACES] == collector.take()


@pytest.mark.parametrize(
    "frame", [bodies.zstd_wide_window(), bodies.zstd_large_claim()], ids=["window", "size"]
)
def test_zstd_frame_header_alone_takes_no_memory(frame: bytes, collector: Collector) -> None:
    """A frame of a few bytes that speaks of gigabytes is answered without allocating them."""
    with GrpcPeer(collector.grpc) as peer, PeakMemory() as memory:
        assert 200 == peer.call(call_headers(TRACES, "zstd"), grpc_frame(frame, flag=1)).http_status
    assert memory.growth < 16 * MIB
    assert [] == collector.take()


def test_full_queue_is_unavailable_with_retry_info(transport: str) -> None:
    """A refusal is retryable and says when to come back, in the status details and on the wire only there."""
    with Collector(transport, consumers=full_queue) as collector, GrpcPeer(collector.grpc) as peer:
        answer = peer.call(call_headers(TRACES), grpc_frame(GOLDEN_TRACES))
        assert (UNAVAILABLE, "sending queue is full") == (answer.status, answer.message)
        assert answer.details is not None
        status = status_pb2.Status.FromString(answer.details)
        assert (UNAVAILABLE, answer.message) == (status.code, status.message)
        retry_info = error_details_pb2.RetryInfo()
        assert status.details[0].Unpack(retry_info)
        assert retry_info.retry_delay.ToMilliseconds() > 0
        assert 1 == collector.metrics()["otelcol_receiver_refused_spans", "grpc", ""]


def test_signal_without_a_pipeline_is_unimplemented(transport: str) -> None:
    """A service that no pipeline wants is not there; the others are."""

    def traces_only(runtime: object) -> dict[Signal, object]:
        from tests.conformance.harness import Sink

        return {Signal.TRACES: Sink(runtime, Signal.TRACES).queue}

    with Collector(transport, consumers=traces_only) as collector, GrpcPeer(collector.grpc) as peer:
        logs = peer.call(call_headers(GRPC_PATHS[Signal.LOGS]), grpc_frame(GOLDEN[Signal.LOGS]))
        assert UNIMPLEMENTED == logs.status
        assert OK == peer.call(call_headers(TRACES), grpc_frame(GOLDEN_TRACES)).status


def test_content_type_other_than_grpc_is_415(transport: str, collector: Collector) -> None:
    """What does not speak gRPC is told so, in HTTP where the transport can."""
    headers = [
        (name, "application/json" if name == "content-type" else value)
        for name, value in call_headers(TRACES)
    ]
    with GrpcPeer(collector.grpc) as peer:
        answer = peer.call(headers, b"{}")
    difference = differences.of(transport, "grpc: content type")
    if difference is None:
        assert 415 == answer.http_status
    else:
        assert difference.status == answer.status
    assert [] == collector.take()


def test_interleaved_streams_are_each_answered(collector: Collector) -> None:
    """Calls whose bytes come in turns on one connection do not mix."""
    sizes = [200 + 37 * number for number in range(50)]
    requests = [bodies.of_size(size) for size in sizes]
    with GrpcPeer(collector.grpc) as peer:
        streams = [peer.open(call_headers(TRACES)) for _ in requests]
        framed = [grpc_frame(request) for request in requests]
        for start in range(0, max(map(len, framed)), 64):
            for stream, data in zip(streams, framed, strict=True):
                piece = data[start : start + 64]
                if piece:
                    peer.send(stream, piece, end_stream=start + 64 >= len(data))
        assert [OK] * len(requests) == [peer.answer(stream).status for stream in streams]
    assert sorted(requests) == sorted(collector.take())


def test_message_split_at_every_byte_arrives_whole(collector: Collector) -> None:
    """A sender that gives one byte a DATA frame is understood."""
    with GrpcPeer(collector.grpc) as peer:
        stream = peer.open(call_headers(TRACES, "gzip"))
        payload = grpc_frame(gzip.compress(GOLDEN_TRACES), flag=1)
        for position in range(len(payload)):
            peer.send(stream, payload[position : position + 1], end_stream=position + 1 == len(payload))
        assert OK == peer.answer(stream).status
    assert [GOLDEN_TRACES] == collector.take()


def test_items_are_counted_by_transport(transport: str) -> None:
    """The Collector's counters say what came in, and over what."""
    with Collector(transport) as collector, GrpcPeer(collector.grpc) as peer:
        for signal in Signal:
            peer.call(call_headers(GRPC_PATHS[signal]), grpc_frame(GOLDEN[signal]))
        peer.call(call_headers(TRACES), grpc_frame(b"\xff"))
        values = collector.metrics()
        for signal in Signal:
            assert 1 == values[f"otelcol_receiver_accepted_{signal.items}", "grpc", ""]
            assert 0 == values[f"otelcol_receiver_accepted_{signal.items}", "http", ""]
            assert 0 == values[f"otelcol_receiver_refused_{signal.items}", "grpc", ""]
        assert 2 == values["spansieve_receiver_requests", "grpc", "traces"]
        assert 1 == values["spansieve_receiver_malformed_requests", "grpc", "traces"]
        assert len(GOLDEN_TRACES) + 1 == values["spansieve_receiver_bytes", "grpc", "traces"]
