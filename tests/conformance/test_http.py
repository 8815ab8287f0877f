"""OTLP/HTTP over real sockets: methods, types, encodings, limits, framing. Source: OTLP, "OTLP/HTTP"; RFC 9112."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import zlib
from collections.abc import Callable

import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2 as _  # noqa: F401 what the details of a status may be
from google.rpc import status_pb2

from collector.ids import Signal
from tests.conformance import bodies
from tests.conformance.bodies import GOLDEN, HTTP_PATHS, MIB
from tests.conformance.harness import Collector, PeakMemory, Sink, full_queue
from tests.conformance.peers import HttpAnswer, HttpPeer, chunked, exchange, http_request

PROTOBUF = ("Content-Type", "application/x-protobuf")
JSON = ("Content-Type", "application/json")
INVALID_ARGUMENT, UNAVAILABLE = 3, 14
GOLDEN_TRACES = GOLDEN[Signal.TRACES]


def _json(signal: Signal) -> bytes:
    """Return the golden request as OTLP/JSON: protobuf's mapping, but ids in hexadecimal."""
    message = bodies.MESSAGES[signal].FromString(GOLDEN[signal])
    document = json_format.MessageToDict(message, use_integers_for_enums=True)
    if signal is Signal.TRACES:
        span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        span["traceId"], span["spanId"] = bodies.TRACE_ID.hex(), bodies.SPAN_ID.hex()
    return json.dumps(document).encode()


def _half(message: bytes) -> list[bytes]:
    return [message[: len(message) // 2], message[len(message) // 2 :]]


@dataclasses.dataclass(frozen=True)
class Case:
    """One request and its answer.

    Attributes:
        body: made when the case runs.
        answer: the answer's body: exact bytes, or a pattern for the message of a google.rpc.Status.
        content_type: of the answer.
        delivered: whether `request` reaches the sink.
    """

    name: str
    body: Callable[[], bytes]
    status: int
    answer: bytes | str = b""
    content_type: str = "application/x-protobuf"
    headers: tuple[tuple[str, str], ...] = (PROTOBUF,)
    path: str = "/v1/traces"
    method: str = "POST"
    delivered: Callable[[], bytes] | None = None


def _golden() -> bytes:
    return GOLDEN_TRACES


def _encoded(encoding: str, *, json: bool = False) -> tuple[tuple[str, str], ...]:
    return (JSON if json else PROTOBUF, ("Content-Encoding", encoding))


def _media_type(name: str) -> tuple[tuple[str, str], ...]:
    return (("Content-Type", name),)


def _refused(name: str, body: Callable[[], bytes], pattern: str, encoding: str = "") -> Case:
    headers = _encoded(encoding) if encoding else (PROTOBUF,)
    return Case(name, body, 400, pattern, headers=headers)


def _taken(
    name: str, body: Callable[[], bytes], encoding: str = "", delivered: Callable[[], bytes] = _golden
) -> Case:
    return Case(name, body, 200, headers=_encoded(encoding) if encoding else (PROTOBUF,), delivered=delivered)


_MEDIA_TYPES = b"415 unsupported media type, supported: [application/json, application/x-protobuf]"
_METHODS = b"405 method not allowed, supported: [POST]"
_NOT_FOUND = b"404 page not found\n"
_ENCODINGS = (
    "^unsupported Content-Encoding: {}; supported: gzip, zstd, zlib, deflate, snappy, x-snappy-framed, lz4$"
)
_TOO_LARGE = r"^http: request body too large$"

CASES = [
    _taken("plain", _golden),
    _taken("encoding identity", _golden, "identity"),
    _taken("encoding in capitals", lambda: gzip.compress(GOLDEN_TRACES), "GZIP"),
    _taken("x-gzip", lambda: gzip.compress(GOLDEN_TRACES), "X-Gzip"),
    _taken("gzip", lambda: gzip.compress(GOLDEN_TRACES), "gzip"),
    _taken("gzip, two members", lambda: bodies.gzip_members(*_half(GOLDEN_TRACES)), "gzip"),
    _taken("zstd", lambda: bodies.zstd_frames(GOLDEN_TRACES), "zstd"),
    _taken("zstd, two frames", lambda: bodies.zstd_frames(*_half(GOLDEN_TRACES)), "zstd"),
    _taken(
        "zstd, a frame to skip",
        lambda: b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + bodies.zstd_frames(GOLDEN_TRACES),
        "zstd",
    ),
    _taken("deflate is zlib", lambda: zlib.compress(GOLDEN_TRACES), "deflate"),
    _taken("zlib", lambda: zlib.compress(GOLDEN_TRACES), "zlib"),
    _taken("snappy", lambda: bodies.snappy_block(GOLDEN_TRACES), "snappy"),
    _taken("x-snappy-framed", lambda: bodies.snappy_frames(GOLDEN_TRACES), "x-snappy-framed"),
    _taken("lz4", lambda: bodies.lz4_frame(GOLDEN_TRACES), "lz4"),
    _taken("lz4, two frames", lambda: bodies.lz4_frame(GOLDEN_TRACES) + bodies.lz4_frame(b""), "lz4"),
    _taken("unknown fields survive", bodies.with_unknown_fields, delivered=bodies.with_unknown_fields),
    _taken("at the limit", lambda: bodies.of_size(MIB), delivered=lambda: bodies.of_size(MIB)),
    _taken(
        "at the limit, gzip",
        lambda: gzip.compress(bodies.of_size(MIB)),
        "gzip",
        delivered=lambda: bodies.of_size(MIB),
    ),
    Case(
        "content type with parameters",
        _golden,
        200,
        headers=(("Content-Type", "Application/X-Protobuf; charset=utf-8"),),
        delivered=_golden,
    ),
    Case(
        "json",
        lambda: _json(Signal.TRACES),
        200,
        b'{"partialSuccess":{}}',
        content_type="application/json",
        headers=(("Content-Type", "application/json; charset=utf-8"),),
        delivered=_golden,
    ),
    Case(
        "json, gzip",
        lambda: gzip.compress(_json(Signal.TRACES)),
        200,
        b'{"partialSuccess":{}}',
        content_type="application/json",
        headers=_encoded("gzip", json=True),
        delivered=_golden,
    ),
    Case("a query is not part of the path", _golden, 200, path="/v1/traces?tenant=1", delivered=_golden),
    Case("empty request", bytes, 200),
    Case(
        "empty request, json",
        lambda: b"{}",
        200,
        b'{"partialSuccess":{}}',
        content_type="application/json",
        headers=(JSON,),
    ),
    _refused("malformed", lambda: b"\x0a\x05\x0a", r"at byte \d+$"),
    Case(
        "malformed json",
        lambda: b'{"resourceSpans":[',
        400,
        r"at byte \d+$",
        content_type="application/json",
        headers=(JSON,),
    ),
    Case(
        "json, trace id of 31 digits",
        lambda: _json(Signal.TRACES).replace(bodies.TRACE_ID.hex().encode(), bodies.TRACE_ID.hex()[1:].encode()),
        400,
        rf'spans\[0\]\.traceId: expected 32 hex digits, got "{bodies.TRACE_ID.hex()[1:]}"$',
        content_type="application/json",
        headers=(JSON,),
    ),
    _refused("one over the limit", lambda: bodies.of_size(MIB + 1), _TOO_LARGE),
    _refused("one over the limit, gzip", lambda: gzip.compress(bodies.of_size(MIB + 1)), _TOO_LARGE, "gzip"),
    _refused("one over the limit, zstd", lambda: bodies.zstd_frames(bodies.of_size(MIB + 1)), _TOO_LARGE, "zstd"),
    _refused("one over the limit, zlib", lambda: zlib.compress(bodies.of_size(MIB + 1)), _TOO_LARGE, "zlib"),
    _refused(
        "one over the limit, snappy",
        lambda: bodies.snappy_block(bodies.of_size(MIB + 1)),
        r"^http: request body too large$|^snappy: decoded size exceeds max request body size$",
        "snappy",
    ),
    Case("encoding list", _golden, 415, _ENCODINGS.format("gzip, zstd"), headers=_encoded("gzip, zstd")),
    Case("encoding unknown", _golden, 415, _ENCODINGS.format("br"), headers=_encoded("br")),
    _refused("gzip that is none", _golden, r".", "gzip"),
    _refused("truncated gzip", lambda: gzip.compress(GOLDEN_TRACES)[:-9], r".", "gzip"),
    _refused("truncated zstd", lambda: bodies.zstd_frames(GOLDEN_TRACES)[:-1], r".", "zstd"),
    _refused("zstd and garbage", lambda: bodies.zstd_frames(GOLDEN_TRACES) + b"garbage", r".", "zstd"),
    _refused("raw deflate", lambda: zlib.compress(GOLDEN_TRACES)[2:-4], r".", "deflate"),
    _refused("truncated lz4", lambda: bodies.lz4_frame(GOLDEN_TRACES)[:-1], r".", "lz4"),
    _refused("truncated snappy", lambda: bodies.snappy_block(GOLDEN_TRACES)[:-1], r".", "snappy"),
    Case("GET", bytes, 405, _METHODS, content_type="text/plain", method="GET"),
    Case("PUT", _golden, 405, _METHODS, content_type="text/plain", method="PUT"),
    Case("text/plain", _golden, 415, _MEDIA_TYPES, content_type="text/plain", headers=_media_type("text/plain")),
    Case("no content type", _golden, 415, _MEDIA_TYPES, content_type="text/plain", headers=()),
    Case("gRPC", _golden, 415, _MEDIA_TYPES, content_type="text/plain", headers=_media_type("application/grpc")),
    Case("unknown path", _golden, 404, _NOT_FOUND, content_type="text/plain", path="/v1/profiles"),
    Case("path with a slash more", _golden, 404, _NOT_FOUND, content_type="text/plain", path="/v1/traces/"),
    Case("target with its host", _golden, 200, delivered=_golden, path="http://localhost:4318/v1/traces?a=//b"),
    Case("target with its host, unknown", _golden, 404, _NOT_FOUND, content_type="text/plain", path="http://a/v1/trace"),
    Case("target without a path", _golden, 404, _NOT_FOUND, content_type="text/plain", path="http://a"),
    Case("root", _golden, 404, _NOT_FOUND, content_type="text/plain", path="/"),
]  # fmt: skip


def _status(answer: HttpAnswer) -> status_pb2.Status:
    """Return the google.rpc.Status of an error, in whichever encoding it came."""
    if answer.headers["content-type"] == "application/json":
        return json_format.Parse(answer.body, status_pb2.Status())
    return status_pb2.Status.FromString(answer.body)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_request_is_answered_and_delivered_as_the_table_says(case: Case, collector: Collector) -> None:
    """B31, B33, B35: each case has its status, type and body, and leaves in the sink exactly what it should."""
    answer = exchange(collector.http, http_request(case.path, case.body(), case.headers, case.method))

    assert case.status == answer.status, answer
    assert case.content_type == answer.headers["content-type"].removesuffix("; charset=utf-8")
    if isinstance(case.answer, bytes):
        assert case.answer == answer.body
    else:
        status = _status(answer)
        assert INVALID_ARGUMENT == status.code
        assert re.search(case.answer, status.message), status.message
    assert ([case.delivered()] if case.delivered else []) == collector.take()


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
def test_each_signal_has_its_path_in_both_payloads(signal: Signal, collector: Collector) -> None:
    """Protobuf arrives as the bytes it was, JSON as the same request in protobuf."""
    path = HTTP_PATHS[signal]
    assert 200 == exchange(collector.http, http_request(path, GOLDEN[signal], [PROTOBUF])).status
    assert [GOLDEN[signal]] == collector.take(signal)
    assert 200 == exchange(collector.http, http_request(path, _json(signal), [JSON])).status
    message = bodies.MESSAGES[signal]
    assert [message.FromString(GOLDEN[signal])] == list(map(message.FromString, collector.take(signal)))


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
def test_every_truncation_is_refused_at_a_byte(signal: Signal, collector: Collector) -> None:
    """A prefix that protobuf cannot read is 400 with an offset inside it, on a connection that goes on."""
    golden = GOLDEN[signal]
    with HttpPeer(collector.http) as peer:
        for length in range(len(golden)):
            peer.send(http_request(HTTP_PATHS[signal], golden[:length], [PROTOBUF]))
            answer = peer.answer()
            if bodies.is_parsable(signal, golden[:length]):
                assert 200 == answer.status, length
                continue
            assert 400 == answer.status, length
            offset = re.search(r"at byte (\d+)$", _status(answer).message)
            assert offset is not None, answer
            assert int(offset[1]) <= length
    assert [] == collector.take(signal)


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize(
    ("encoding", "bomb"),
    [
        ("gzip", bodies.gzip_bomb),
        ("zstd", bodies.zstd_bomb),
    ],
    ids=["gzip", "zstd"],
)
def test_bomb_is_refused_within_bounded_memory(
    encoding: str, bomb: Callable[[int], bytes], is_chunked: bool, collector: Collector
) -> None:
    """B31, B33, R51: 1 GiB once expanded costs no more memory than the limit, and the next request is served."""
    body = bomb(1 << 30)[: MIB - 1]
    headers = _encoded(encoding)
    request = (
        chunked("/v1/traces", [body], headers) if is_chunked else http_request("/v1/traces", body, headers)
    )
    with PeakMemory() as memory:
        answer = exchange(collector.http, request)
    assert (400, "http: request body too large") == (answer.status, _status(answer).message)
    assert memory.growth < 16 * MIB
    assert 200 == exchange(collector.http, http_request("/v1/traces", GOLDEN_TRACES, [PROTOBUF])).status
    assert [GOLDEN_TRACES] == collector.take()


@pytest.mark.parametrize(
    "frame", [bodies.zstd_wide_window(), bodies.zstd_large_claim()], ids=["window", "size"]
)
def test_zstd_frame_header_alone_takes_no_memory(frame: bytes, collector: Collector) -> None:
    """B33, R51: a frame of a few bytes that speaks of gigabytes is answered without allocating them."""
    with PeakMemory() as memory:
        answer = exchange(collector.http, http_request("/v1/traces", frame, _encoded("zstd")))
    assert answer.status in (200, 400)
    assert memory.growth < 16 * MIB
    assert [] == collector.take()


@pytest.mark.parametrize("headers", [(PROTOBUF,), (JSON,)], ids=["protobuf", "json"])
def test_full_queue_is_503_with_retry_after(headers: tuple[tuple[str, str], ...], transport: str) -> None:
    """A refusal is retryable, says when to come back, and speaks the request's encoding."""
    body = GOLDEN_TRACES if headers == (PROTOBUF,) else _json(Signal.TRACES)
    with Collector(transport, consumers=full_queue) as collector:
        answer = exchange(collector.http, http_request("/v1/traces", body, headers))
        assert 503 == answer.status
        assert headers[0][1] == answer.headers["content-type"]
        assert int(answer.headers["retry-after"]) >= 1
        status = _status(answer)
        assert (UNAVAILABLE, "sending queue is full") == (status.code, status.message)
        assert 1 == collector.metrics()["otelcol_receiver_refused_spans", "http", ""]


def test_signal_without_a_pipeline_is_404(transport: str) -> None:
    """The path of a signal that no pipeline wants is not there; the others are."""
    with Collector(
        transport, consumers=lambda runtime: {Signal.TRACES: Sink(runtime, Signal.TRACES).queue}
    ) as collector:
        assert (
            404 == exchange(collector.http, http_request("/v1/logs", GOLDEN[Signal.LOGS], [PROTOBUF])).status
        )
        assert 200 == exchange(collector.http, http_request("/v1/traces", GOLDEN_TRACES, [PROTOBUF])).status


def test_own_paths_replace_the_defaults(transport: str) -> None:
    """A configured path, with or without its slash, is served instead of /v1/traces."""
    with Collector(transport, http={"traces_url_path": "in/spans"}) as collector:
        assert 200 == exchange(collector.http, http_request("/in/spans", GOLDEN_TRACES, [PROTOBUF])).status
        assert 404 == exchange(collector.http, http_request("/v1/traces", GOLDEN_TRACES, [PROTOBUF])).status
        assert [GOLDEN_TRACES] == collector.take()


def test_chunked_body_is_put_together(collector: Collector) -> None:
    """Chunks of any size are one body."""
    chunks = [GOLDEN_TRACES[:1], GOLDEN_TRACES[1:50], GOLDEN_TRACES[50:]]
    assert 200 == exchange(collector.http, chunked("/v1/traces", chunks, [PROTOBUF])).status
    assert [GOLDEN_TRACES] == collector.take()


def test_chunked_body_over_the_limit_is_refused(collector: Collector) -> None:
    """The sum of the chunks counts, not each alone."""
    body = bodies.of_size(MIB + 1)
    chunks = [body[start : start + 65536] for start in range(0, len(body), 65536)]
    answer = exchange(collector.http, chunked("/v1/traces", chunks, [PROTOBUF]))
    assert (400, "http: request body too large") == (answer.status, _status(answer).message)
    assert [] == collector.take()


def test_expect_100_is_answered_before_the_body_comes(collector: Collector) -> None:
    """A client that waits for 100 Continue gets it."""
    head = http_request(
        "/v1/traces",
        None,
        [PROTOBUF, ("Expect", "100-continue"), ("Content-Length", str(len(GOLDEN_TRACES)))],
    )
    with HttpPeer(collector.http) as peer:
        peer.send(head)
        assert 100 == peer.answer().status
        peer.send(GOLDEN_TRACES)
        assert 200 == peer.answer().status
    assert [GOLDEN_TRACES] == collector.take()


def test_expect_100_of_a_body_over_the_limit_is_refused_at_once(collector: Collector) -> None:
    """A body that would be refused is not asked for."""
    head = http_request(
        "/v1/traces", None, [PROTOBUF, ("Expect", "100-continue"), ("Content-Length", str(MIB + 1))]
    )
    with HttpPeer(collector.http) as peer:
        peer.send(head)
        assert 400 == peer.answer().status


def test_pipelined_requests_are_answered_in_order(collector: Collector) -> None:
    """Requests sent without waiting are each answered, in their order."""
    request = http_request("/v1/traces", GOLDEN_TRACES, [PROTOBUF])
    missing = http_request("/missing", GOLDEN_TRACES, [PROTOBUF])
    with HttpPeer(collector.http) as peer:
        peer.send((request + missing) * 20)
        assert [200, 404] * 20 == [peer.answer().status for _ in range(40)]
    assert [GOLDEN_TRACES] * 20 == collector.take()


def test_refused_request_leaves_the_connection_usable(collector: Collector) -> None:
    """An error that is no framing error ends its request only."""
    with HttpPeer(collector.http) as peer:
        for path, headers, status in (
            ("/v1/traces", [("Content-Type", "text/plain")], 415),
            ("/nothing", [PROTOBUF], 404),
            ("/v1/traces", [PROTOBUF, ("Content-Encoding", "br")], 415),
            ("/v1/traces", [PROTOBUF, ("Content-Encoding", "gzip")], 400),
            ("/v1/traces", [PROTOBUF], 200),
        ):
            peer.send(http_request(path, GOLDEN_TRACES, headers))
            assert status == peer.answer().status
    assert [GOLDEN_TRACES] == collector.take()


def test_connection_close_is_honoured(collector: Collector) -> None:
    """A client that asks for it gets its answer and then the end of the connection."""
    with HttpPeer(collector.http) as peer:
        peer.send(http_request("/v1/traces", GOLDEN_TRACES, [PROTOBUF, ("Connection", "close")]))
        assert 200 == peer.answer().status
        assert peer.is_ended()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n",
        b"POST /v1/traces\r\n\r\n",
        b"POST /v1/traces HTTP/9.9\r\n\r\n",
        b"POST /v1/traces HTTP/2.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        http_request("/v1/traces", None, [PROTOBUF, ("Content-Length", "12x")]),
        http_request("/v1/traces", None, [PROTOBUF, ("Content-Length", "-1")]),
        http_request("/v1/traces", None, [PROTOBUF, ("Content-Length", "1"), ("Content-Length", "2")]),
        http_request("/v1/traces", b"x", [PROTOBUF, ("Transfer-Encoding", "chunked")]),
        http_request("/v1/traces", None, [PROTOBUF, ("Transfer-Encoding", "gzip")]),
        http_request("/v1/traces", None, [PROTOBUF, ("Transfer-Encoding", "chunked")]) + b"zz\r\n",
        http_request("/v1/traces", None, [PROTOBUF, ("X-Long", "x" * (1 << 20))]),
    ],
    ids=[
        "a TLS hello",
        "no version",
        "a version that is none",
        "another version",
        "length no number",
        "length negative",
        "two lengths",
        "length and chunked",
        "an unknown transfer encoding",
        "a chunk size that is none",
        "a header of 1 MiB",
    ],
)
def test_broken_framing_ends_the_connection_only(request_bytes: bytes, collector: Collector) -> None:
    """What is no HTTP is refused or cut off, never taken, and the next client is served."""
    with HttpPeer(collector.http) as peer:
        peer.send(request_bytes)
        assert peer.is_ended()
    assert 200 == exchange(collector.http, http_request("/v1/traces", GOLDEN_TRACES, [PROTOBUF])).status
    assert [GOLDEN_TRACES] == collector.take()


def test_items_are_counted_by_transport(transport: str) -> None:
    """The Collector's counters say what came in, and over what."""
    with Collector(transport) as collector:
        for signal in Signal:
            exchange(collector.http, http_request(HTTP_PATHS[signal], GOLDEN[signal], [PROTOBUF]))
        exchange(collector.http, http_request("/v1/traces", b"\xff", [PROTOBUF]))
        values = collector.metrics()
        for signal in Signal:
            assert 1 == values[f"otelcol_receiver_accepted_{signal.items}", "http", ""]
            assert 0 == values[f"otelcol_receiver_accepted_{signal.items}", "grpc", ""]
        assert 2 == values["spansieve_receiver_requests", "http", "traces"]
        assert 1 == values["spansieve_receiver_malformed_requests", "http", "traces"]
