"""The answers of OTLP that are not empty: google.rpc.Status, RetryInfo and partial success.

Small enough to write by hand, so that the protobuf package is not loaded for them. Sources: google/rpc/status.proto
(code 1, message 2, details 3), error_details.proto (RetryInfo.retry_delay 1), duration.proto (seconds 1,
nanos 2), the OTLP Export*ServiceResponse (partial_success 1: rejected 1, error_message 2); OTLP
specification, "OTLP/HTTP Response".
"""

from __future__ import annotations

import json

from collector.ids import Signal
from collector.native.pipeline import Verdict

OK = 0
INVALID_ARGUMENT = 3

_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_REJECTED = {
    Signal.TRACES: "rejectedSpans",
    Signal.METRICS: "rejectedDataPoints",
    Signal.LOGS: "rejectedLogRecords",
}
# google.rpc.Code -> HTTP status; what is not listed is 500.
_HTTP_STATUS = {
    0: 200,
    1: 503,
    3: 400,
    4: 503,
    7: 403,
    8: 429,
    10: 503,
    11: 503,
    12: 404,
    14: 503,
    15: 503,
    16: 401,
}


def http_status(code: int) -> int:
    """Return the HTTP status for a google.rpc.Code."""
    return _HTTP_STATUS.get(code, 500)


def status_protobuf(verdict: Verdict) -> bytes:
    """Return verdict as a serialized google.rpc.Status."""
    body = _integer(1, verdict.code) + _bytes(2, verdict.message.encode())
    if verdict.retry_delay_ms is not None:
        seconds, milliseconds = divmod(verdict.retry_delay_ms, 1000)
        delay = _integer(1, seconds) + _integer(2, milliseconds * 1_000_000)
        retry_info = _tagged(1, delay)
        body += _tagged(3, _bytes(1, _RETRY_INFO.encode()) + _bytes(2, retry_info))
    return body


def status_json(verdict: Verdict) -> bytes:
    """Return verdict as a google.rpc.Status in protobuf's JSON."""
    status: dict[str, object] = {"code": verdict.code, "message": verdict.message}
    if verdict.retry_delay_ms is not None:
        seconds, milliseconds = divmod(verdict.retry_delay_ms, 1000)
        delay = f"{seconds}.{milliseconds:03}s" if milliseconds else f"{seconds}s"
        status["details"] = [{"@type": _RETRY_INFO, "retryDelay": delay}]
    return json.dumps(status, ensure_ascii=False, separators=(",", ":")).encode()


def response_protobuf(verdict: Verdict) -> bytes:
    """Return the Export*ServiceResponse of a successful verdict."""
    if not verdict.rejected_items and not verdict.message:
        return b""
    return _tagged(1, _integer(1, verdict.rejected_items) + _bytes(2, verdict.message.encode()))


def response_json(signal: Signal, verdict: Verdict) -> bytes:
    """Return the Export*ServiceResponse of a successful verdict, as OTLP/JSON."""
    partial: dict[str, str] = {}
    if verdict.rejected_items:
        partial[_REJECTED[signal]] = str(verdict.rejected_items)
    if verdict.message:
        partial["errorMessage"] = verdict.message
    return json.dumps({"partialSuccess": partial}, ensure_ascii=False, separators=(",", ":")).encode()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def _tagged(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _bytes(number: int, value: bytes) -> bytes:
    return _tagged(number, value) if value else b""
