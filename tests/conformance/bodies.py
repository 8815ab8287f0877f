"""Request bodies for the conformance tests, made with Google's protobuf or byte by byte."""

from __future__ import annotations

import gzip
import struct
import zlib

import xxhash
import zstandard
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.ids import Signal

MIB = 1 << 20
MESSAGES = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
}
HTTP_PATHS = {Signal.TRACES: "/v1/traces", Signal.METRICS: "/v1/metrics", Signal.LOGS: "/v1/logs"}
GRPC_PATHS = {
    Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    Signal.METRICS: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    Signal.LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
TRACE_ID = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")
SPAN_ID = bytes.fromhex("00f067aa0ba902b7")


def _traces() -> Message:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    attribute = resource_spans.resource.attributes.add(key="service.name")
    attribute.value.string_value = "checkout"
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "shop"
    scope_spans.spans.add(
        trace_id=TRACE_ID,
        span_id=SPAN_ID,
        name="GET /cart",
        kind=2,
        start_time_unix_nano=1_700_000_000_000_000_001,
        end_time_unix_nano=1_700_000_000_500_000_001,
    )
    return request


def _metrics() -> Message:
    request = ExportMetricsServiceRequest()
    scope_metrics = request.resource_metrics.add().scope_metrics.add()
    metric = scope_metrics.metrics.add(name="queue.length", unit="1")
    metric.gauge.data_points.add(time_unix_nano=1_700_000_000_000_000_001, as_int=3)
    return request


def _logs() -> Message:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(severity_number=9)
    record.body.string_value = "ready"
    return request


GOLDEN = {
    Signal.TRACES: _traces().SerializeToString(),
    Signal.METRICS: _metrics().SerializeToString(),
    Signal.LOGS: _logs().SerializeToString(),
}
"""The smallest honest request of each signal: one item."""


def is_parsable(signal: Signal, body: bytes) -> bool:
    """Return whether Google's protobuf can read body."""
    try:
        MESSAGES[signal]().ParseFromString(body)
    except DecodeError:
        return False
    return True


def varint(value: int) -> bytes:
    """Return value as a protobuf varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def unknown_field(length: int, number: int = 1500) -> bytes:
    """Return a field that no OTLP message has, with a value of length bytes."""
    return varint(number << 3 | 2) + varint(length) + b"u" * length


def of_size(size: int, signal: Signal = Signal.TRACES) -> bytes:
    """Return an honest request of exactly size bytes: the golden one and an unknown field."""
    golden = GOLDEN[signal]
    room = size - len(golden)
    for prefix in range(3, 12):
        body = golden + unknown_field(room - prefix)
        if len(body) == size:
            return body
    raise AssertionError(f"no request of {size} bytes")


def with_unknown_fields() -> bytes:
    """Return the golden traces with an unknown field in the request, the resource, the scope and the span."""
    request = ExportTraceServiceRequest.FromString(GOLDEN[Signal.TRACES])
    resource_spans = request.resource_spans[0]
    extra = unknown_field(7)
    for message in (
        resource_spans.scope_spans[0].spans[0],
        resource_spans.scope_spans[0],
        resource_spans.resource,
        resource_spans,
        request,
    ):
        message.MergeFromString(extra)
    body = request.SerializeToString()
    assert body.count(b"u" * 7) == 5
    return body


def gzip_members(*parts: bytes) -> bytes:
    """Return each part as a gzip member, one behind the other."""
    return b"".join(gzip.compress(part, mtime=0) for part in parts)


def zstd_frames(*parts: bytes) -> bytes:
    """Return each part as a zstd frame, one behind the other."""
    compressor = zstandard.ZstdCompressor()
    return b"".join(compressor.compress(part) for part in parts)


def snappy_block(data: bytes) -> bytes:
    """Return data in the snappy block format, as literals only."""
    out = bytearray(varint(len(data)))
    for start in range(0, len(data), 60):
        piece = data[start : start + 60]
        out.append((len(piece) - 1) << 2)
        out += piece
    return bytes(out)


def gzip_bomb(size: int) -> bytes:
    """Return about 1/1000 of size bytes of gzip that say size zeros; the trailer is missing."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = compressor.compress(bytes(MIB)) + compressor.flush(zlib.Z_FULL_FLUSH)
    # A full flush forgets the window, so the blocks of the second MiB can be said again and again.
    block = compressor.compress(bytes(MIB)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return head + block * (size // MIB - 1)


def zstd_bomb(size: int) -> bytes:
    """Return a zstd frame without a content size, of blocks that each repeat one byte 128 KiB times."""
    block_size = 128 << 10
    block = struct.pack("<I", 1 << 1 | block_size << 3)[:3] + b"\0"
    last = struct.pack("<I", 1 | 1 << 1 | block_size << 3)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd\x00" + bytes([7 << 3]) + block * (size // block_size - 1) + last


def zstd_wide_window() -> bytes:
    """Return an empty zstd frame that asks for a window of 512 MiB."""
    return b"\x28\xb5\x2f\xfd\x00" + bytes([19 << 3]) + b"\x01\x00\x00"


def zstd_large_claim() -> bytes:
    """Return an empty zstd frame that claims a content of 8 GiB."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 8 << 30) + b"\x01\x00\x00"


def lz4_frame(data: bytes) -> bytes:
    """Return data in the LZ4 frame format as one block that is not compressed."""
    descriptor = b"\x60\x40"
    checksum = xxhash.xxh32(descriptor).intdigest() >> 8 & 0xFF
    block = struct.pack("<I", len(data) | 1 << 31) + data
    return b"\x04\x22\x4d\x18" + descriptor + bytes([checksum]) + block + bytes(4)


def snappy_frames(data: bytes) -> bytes:
    """Return data in the snappy framing format as one chunk that is not compressed."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    chunk = struct.pack("<I", masked) + data
    return b"\xff\x06\x00\x00sNaPpY" + b"\x01" + struct.pack("<I", len(chunk))[:3] + chunk
