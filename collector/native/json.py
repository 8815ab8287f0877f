"""OTLP/JSON to OTLP protobuf and back, for whole requests.

Source: OTLP specification, "JSON Protobuf Encoding".
"""

from __future__ import annotations

from collector.ids import Signal
from collector.lean import Any
from collector.native.errors import check, new_error
from collector.native.library import ffi, lib


def _convert(function: Any, signal: Signal, data: bytes | memoryview, where: str) -> bytes:
    out = ffi.new("ss_buffer *")
    error = new_error()
    try:
        check(function(signal.number, ffi.from_buffer(data), len(data), out, error), where, error)
        return bytes(ffi.buffer(out.data, out.length)) if out.length else b""
    finally:
        lib.ss_buffer_free(out)


def json_to_otlp(signal: Signal, data: bytes | memoryview) -> bytes:
    """Return the protobuf bytes of an Export*ServiceRequest given as OTLP/JSON text.

    Args:
        data: UTF-8; keys in lowerCamelCase or snake_case, unknown ones are skipped.

    Raises:
        MalformedInput: with what was expected and the byte offset.
        LimitExceeded: nested too deeply.
    """
    return _convert(lib.ss_json_to_otlp, signal, data, f"otlp json {signal.value}")


def otlp_to_json(signal: Signal, data: bytes | memoryview) -> bytes:
    """Return an Export*ServiceRequest as one line of OTLP/JSON, as the Collector writes it.

    Unknown fields are left out; a string that is not UTF-8 gets U+FFFD in place of each bad byte.

    Raises:
        MalformedInput: with the byte offset.
        LimitExceeded: nested too deeply, or too many messages in pieces.
    """
    return _convert(lib.ss_otlp_to_json, signal, data, f"otlp {signal.value}")
