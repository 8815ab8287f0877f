"""What a client sees is what the Collector shows it: status, kind of answer, and what becomes of the request."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

import pytest

from collector.ids import Signal
from tests.conformance import bodies, test_grpc, test_http
from tests.conformance.bodies import GOLDEN, GRPC_PATHS, HTTP_PATHS, MIB
from tests.conformance.peers import call_headers, grpc_frame, http_request
from tests.interop import differences, json_bodies
from tests.interop.taps import JSON, PROTOBUF, Tap, grpc_outcome, http_outcome
from tests.support import otlp

TRACES = GOLDEN[Signal.TRACES]


def _check_http(taps: dict[str, Tap], case: str, request: bytes) -> None:
    outcomes = {side: http_outcome(tap, request) for side, tap in taps.items()}
    differences.check(case, outcomes)


def _encoded(encoding: str, body: bytes) -> bytes:
    return http_request("/v1/traces", body, [PROTOBUF, ("Content-Encoding", encoding)])


def _http_cases() -> Iterator[tuple[str, bytes]]:
    for case in test_http.CASES:
        yield case.name, http_request(case.path, case.body(), case.headers, case.method)
    for method in ("DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "post"):
        yield f"method {method}", http_request("/v1/traces", TRACES, [PROTOBUF], method)
    for path in (
        "/v1/trace",
        "/v1/Traces",
        "//v1/traces",
        "/v1/./traces",
        "/v1/%74races",
        "/v1/traces%2F",
        "/v1/traces?",
        "http://localhost/v1/traces",
        "http://localhost/v1/trace",
    ):
        yield f"path {path}", http_request(path, TRACES, [PROTOBUF])
    yield "path and method", http_request("/nothing", None, method="GET")
    yield "method and type", http_request("/v1/traces", b"x", [("Content-Type", "text/plain")], "PUT")
    for type in (
        *(
            "application/protobuf",
            "application/x-protobuf;",
            "application/json;charset=latin1",
            "APPLICATION/JSON",
        ),
        *(
            "application/x-protobuf; a",
            "application/x-protobuf, application/json",
            " application/x-protobuf ",
            "*/*",
        ),
        *(
            "application/x-protobuf; a=b; a=c",
            "",
            "application/json;;",
            ";",
            'application/x-protobuf; messageType="a"',
        ),
    ):
        yield f"type {type!r}", http_request("/v1/traces", b"", [("Content-Type", type)])
    yield "two types", http_request("/v1/traces", TRACES, [("Content-Type", "text/plain"), PROTOBUF])
    yield "x-snappy-framed", _encoded("x-snappy-framed", bodies.snappy_frames(TRACES))
    yield "snappy, framed", _encoded("snappy", bodies.snappy_frames(TRACES))
    yield "x-snappy-framed, a block", _encoded("x-snappy-framed", bodies.snappy_block(TRACES))
    yield "encoding empty", _encoded("", TRACES)
    yield "encoding gzip, no body", _encoded("gzip", b"")
    yield "encoding zstd, no body", _encoded("zstd", b"")
    yield "encoding snappy, no body", _encoded("snappy", b"")
    yield "encoding zlib, no body", _encoded("zlib", b"")
    yield "encoding lz4, no body", _encoded("lz4", b"")
    yield "encoding x-gzip", _encoded("x-gzip", gzip.compress(TRACES))
    yield "gzip and garbage", _encoded("gzip", gzip.compress(TRACES) + b"garbage")
    yield (
        "two encodings",
        http_request(
            "/v1/traces", TRACES, [PROTOBUF, ("Content-Encoding", "gzip"), ("Content-Encoding", "zstd")]
        ),
    )
    yield "snappy that claims 1 GiB", _encoded("snappy", bodies.varint(1 << 30) + b"\0a")
    for size in (MIB - 1, MIB, MIB + 1, 2 * MIB):
        body = bodies.of_size(size)
        yield f"{size - MIB} over the limit", http_request("/v1/traces", body, [PROTOBUF])
        yield (
            f"{size - MIB} over the limit, json",
            http_request("/v1/traces", b"{}" + b" " * (size - 2), [JSON]),
        )
        yield f"{size - MIB} over the limit, gzip", _encoded("gzip", gzip.compress(body))
        yield f"{size - MIB} over the limit, snappy", _encoded("snappy", bodies.snappy_block(body))
        yield f"{size - MIB} over the limit, zstd", _encoded("zstd", bodies.zstd_frames(body))
        yield f"{size - MIB} over the limit, zlib", _encoded("zlib", zlib.compress(body))
        # The compressed body itself is beyond the limit; what it says is not.
        yield f"{size - MIB} over the limit, gzip of noise", _encoded("gzip", _noise_to(size))
    yield "empty json", http_request("/v1/traces", b"", [JSON])
    for signal in Signal:
        for name, body in _protobuf_bodies(signal):
            yield f"{signal.value}: {name}", http_request(HTTP_PATHS[signal], body, [PROTOBUF])


def _noise_to(size: int) -> bytes:
    """Return a gzip body of this size of a request that is smaller: stored in blocks, and padded by empty ones."""
    packer = zlib.compressobj(0, zlib.DEFLATED, 31)
    packed = packer.compress(bodies.of_size(MIB - 200)) + packer.flush(zlib.Z_FULL_FLUSH)
    tail = packer.flush()
    empty_block = b"\0\0\0\xff\xff"
    count, rest = divmod(size - len(packed) - len(tail), len(empty_block))
    assert rest >= 0 and count >= 0
    return packed + empty_block * count + tail


def _protobuf_bodies(signal: Signal) -> Iterator[tuple[str, bytes]]:
    """Yield bodies that are no request, or one of an odd make."""
    golden = GOLDEN[signal]
    for length in range(len(golden)):
        yield f"first {length} bytes", golden[:length]
    yield "golden", golden
    yield "golden twice", golden * 2
    for name, field in {
        "unknown varint": bodies.varint(100 << 3) + b"\x01",
        "unknown varint, 10 bytes": bodies.varint(100 << 3) + b"\xff" * 9 + b"\x01",
        "unknown varint, 10 bytes, too large": bodies.varint(100 << 3) + b"\xff" * 9 + b"\x7f",
        "unknown varint, 11 bytes": bodies.varint(100 << 3) + b"\xff" * 10 + b"\x01",
        "unknown fixed64": bodies.varint(100 << 3 | 1) + bytes(8),
        "unknown fixed32": bodies.varint(100 << 3 | 5) + bytes(4),
        "unknown group": bodies.varint(100 << 3 | 3) + bodies.varint(100 << 3 | 4),
        "unknown group, not ended": bodies.varint(100 << 3 | 3),
        "unknown group, other end": bodies.varint(100 << 3 | 3) + bodies.varint(101 << 3 | 4),
        "end of no group": bodies.varint(100 << 3 | 4),
        "wire type 6": bodies.varint(100 << 3 | 6),
        "wire type 7": bodies.varint(100 << 3 | 7),
        "field number 0": b"\x00\x01",
        "field number 2^29": bodies.varint(1 << 32) + b"\x01",
        "known field as a varint": b"\x08\x01",
        "known field as fixed64": b"\x09" + bytes(8),
        "length over the end": b"\x0a\x7f",
        "length of 2^31": b"\x0a" + bodies.varint(1 << 31),
        "length of 2^63": b"\x0a" + bodies.varint(1 << 63),
        "a tag in five bytes": b"\x8a\x80\x80\x80\x00\x00",
        "a length in five bytes": b"\x0a" + b"\x80" * 4 + b"\x00",
    }.items():
        yield name, golden + field
        yield f"{name}, alone", field


def _odd_spans() -> Iterator[tuple[str, bytes]]:
    """Yield traces whose ids and fields are not as OTLP wants them."""
    for length in (0, 1, 7, 8, 15, 16, 17, 32):
        yield (
            f"trace id of {length} bytes",
            otlp.traces(otlp.span(trace_id=b"t" * length)).SerializeToString(),
        )
        yield f"span id of {length} bytes", otlp.traces(otlp.span(span_id=b"s" * length)).SerializeToString()
        span = otlp.span(parent_span_id=b"p" * length)
        yield f"parent id of {length} bytes", otlp.traces(span).SerializeToString()
        linked = otlp.span()
        linked.links.add(trace_id=b"l" * length, span_id=b"l" * 8)
        yield f"linked trace id of {length} bytes", otlp.traces(linked).SerializeToString()
    good = otlp.traces(otlp.span()).SerializeToString()
    yield "negative kind", otlp.traces(otlp.span(kind=-1)).SerializeToString()
    yield "unknown kind", otlp.traces(otlp.span(kind=99)).SerializeToString()
    yield "ends before it starts", otlp.traces(otlp.span(end_time_unix_nano=1)).SerializeToString()
    yield "resource twice", good + good


HTTP_CASES = dict(_http_cases())
JSON_CASES = {
    f"{signal.value}, json: {name}": http_request(HTTP_PATHS[signal], body.encode(), [JSON])
    for signal, all_bodies in (
        (Signal.TRACES, json_bodies.traces()),
        (Signal.METRICS, json_bodies.metrics()),
        (Signal.LOGS, json_bodies.logs()),
    )
    for name, body in all_bodies
}
ODD_SPANS = dict(_odd_spans())


@pytest.mark.parametrize("case", HTTP_CASES)
def test_http_request_is_answered_alike(case: str, taps: dict[str, Tap]) -> None:
    """Methods, paths, types, encodings, sizes and bodies: the same status, kind of answer and effect."""
    _check_http(taps, f"http: {case}", HTTP_CASES[case])


@pytest.mark.parametrize("case", JSON_CASES)
def test_json_is_read_alike(case: str, taps: dict[str, Tap]) -> None:
    """What is taken, and as what, is the Collector's choice, lenient where it is, strict where it is."""
    _check_http(taps, case, JSON_CASES[case])


@pytest.mark.parametrize("case", ODD_SPANS)
def test_odd_span_is_judged_alike(case: str, taps: dict[str, Tap]) -> None:
    """Spans that break a rule of OTLP are taken or refused as by the Collector, by both transports."""
    _check_http(taps, f"http: {case}", http_request("/v1/traces", ODD_SPANS[case], [PROTOBUF]))
    _check_grpc(taps, f"grpc: {case}", call_headers(GRPC_PATHS[Signal.TRACES]), grpc_frame(ODD_SPANS[case]))


def _check_grpc(taps: dict[str, Tap], case: str, headers: list[tuple[str, str]], payload: bytes) -> None:
    outcomes = {side: grpc_outcome(tap, headers, payload) for side, tap in taps.items()}
    differences.check(case, outcomes)


def _grpc_cases() -> Iterator[tuple[str, list[tuple[str, str]], bytes]]:
    path = GRPC_PATHS[Signal.TRACES]
    for case in test_grpc.CASES:
        yield (
            case.name,
            _with(call_headers(case.path, case.encoding), "content-type", case.content_type),
            case.payload(),
        )
    good = grpc_frame(TRACES)
    for type in (
        *(
            "application/grpc;a=b",
            "application/grpc+json",
            "application/grpc+",
            "application/grpcx",
            "application/json",
        ),
        *("APPLICATION/GRPC", "application/grpc-web", "", "text/plain"),
    ):
        yield f"type {type!r}", _with(call_headers(path), "content-type", type), good
    for method in ("GET", "PUT", "OPTIONS"):
        yield f"method {method}", _with(call_headers(path), ":method", method), good
    for other in ("/", "", "/x", "/a/b/c", path + "/", path[1:], path + "?a=b", path.upper()):
        yield f"path {other!r}", _with(call_headers(path), ":path", other), good
    yield "health check", _with(call_headers(path), ":path", "/grpc.health.v1.Health/Check"), grpc_frame(b"")
    yield "without te", [pair for pair in call_headers(path) if pair[0] != "te"], good
    for timeout in ("10S", "1H", "100000000S", "x", "", "1", "1s", "0S", "-1S"):
        yield f"timeout {timeout!r}", [*call_headers(path), ("grpc-timeout", timeout)], good
    for size in (MIB - 1, MIB, MIB + 1, 2 * MIB):
        body = bodies.of_size(size)
        for encoding, pack in {"": bytes, "gzip": gzip.compress, "zstd": bodies.zstd_frames}.items():
            frame = grpc_frame(pack(body), flag=1 if encoding else 0)
            yield f"{size - MIB} over the limit, {encoding or 'plain'}", call_headers(path, encoding), frame
    yield "accept-encoding", [*call_headers(path), ("grpc-accept-encoding", "br,gzip")], good
    for signal in Signal:
        for name, body in _protobuf_bodies(signal):
            yield f"{signal.value}: {name}", call_headers(GRPC_PATHS[signal]), grpc_frame(body)


def _with(headers: list[tuple[str, str]], name: str, value: str) -> list[tuple[str, str]]:
    return [(key, value if key == name else old) for key, old in headers]


GRPC_CASES = {name: (headers, payload) for name, headers, payload in _grpc_cases()}


@pytest.mark.parametrize("case", GRPC_CASES)
def test_call_is_answered_alike(case: str, taps: dict[str, Tap]) -> None:
    """Paths, types, encodings, framing, sizes and messages: the same status and the same effect."""
    _check_grpc(taps, f"grpc: {case}", *GRPC_CASES[case])


@pytest.mark.usefixtures("whole_module")
def test_every_listed_difference_is_still_there() -> None:
    """A row of differences.md that no case has shown is out of date."""
    of_json = [f"{signal}, json: " for signal in (*(signal.value for signal in Signal), "*")]
    assert [] == differences.out_of_date("http: ", "grpc: ", *of_json)
