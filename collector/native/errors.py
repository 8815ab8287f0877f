"""Turns the status of a native call into the exception that callers can act on."""

from __future__ import annotations

from collector.errors import LimitExceeded, MalformedInput, NativeError, PermanentError, Refused
from collector.lean import Any, NoReturn
from collector.native.library import ffi, lib


def new_error() -> Any:
    """Return an ss_error for a call to fill."""
    return ffi.new("ss_error *")


def fail(status: int, where: str, error: Any = None) -> NoReturn:
    """Raise the exception for status; error, when given, adds the reason and the byte offset."""
    reason = ""
    offset = 0
    if error is not None and error.reason != ffi.NULL:
        reason = ffi.string(error.reason).decode()
        offset = int(error.offset)
    text = reason or ffi.string(lib.ss_status_text(status)).decode()
    if status == lib.SS_ERR_MALFORMED:
        raise MalformedInput(f"{where}: {text} at byte {offset}", status, offset)
    if status == lib.SS_ERR_LIMIT:
        raise LimitExceeded(f"{where}: {text} at byte {offset}", status, offset)
    if status == lib.SS_ERR_REFUSED:
        raise Refused(f"{where}: {text}")
    raise NativeError(f"{where}: {text}", status, offset)


def check(status: int, where: str, error: Any = None) -> None:
    """Raise unless status is SS_OK."""
    if status != lib.SS_OK:
        fail(status, where, error)


def raise_verdict(verdict: Any) -> None:
    """Raise what an ss_verdict other than success means to the one who pushed the request."""
    if verdict.code == lib.SS_CODE_OK:
        return
    message = ffi.string(verdict.message).decode(errors="replace")
    if verdict.code in (lib.SS_CODE_UNAVAILABLE, lib.SS_CODE_RESOURCE_EXHAUSTED):
        delay = verdict.retry_delay_ms / 1000 if verdict.has_retry_delay else None
        raise Refused(message, delay, code=int(verdict.code))
    raise PermanentError(message, code=int(verdict.code))
