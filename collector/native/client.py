"""The native gRPC client: blocking Export calls, made without the GIL, one or as many as a queue has."""

from __future__ import annotations

from collections.abc import Mapping

from collector.errors import MalformedInput
from collector.ids import Signal
from collector.lean import TYPE_CHECKING, Any, NamedTuple
from collector.native.errors import check, fail, new_error
from collector.native.library import ffi, lib
from collector.native.pipeline import Queue, QueueItem

if TYPE_CHECKING:
    from collector.native.tls import Tls

_ENCODINGS = {
    "none": lib.SS_ENCODING_IDENTITY,
    "gzip": lib.SS_ENCODING_GZIP,
    "zstd": lib.SS_ENCODING_ZSTD,
    "snappy": lib.SS_ENCODING_SNAPPY_FRAMED,
}
_NO_LIMIT = 2**64 - 1
_MANY = 2**32 - 1


class ExportResult(NamedTuple):
    """What became of one Export call.

    Attributes:
        failure: why the server did not answer, None when it did: `timeout`, `closed` or `io`.
        code: the grpc-status; valid when failure is None.
        message: the grpc-message, or what failed.
        is_answer_unreadable: the server took the request, but code and message tell of its answer.
        retry_after_s: RetryInfo's delay in seconds; None without RetryInfo.
        rejected_items: items that the server did not take, in a partial success.
        partial_message: its text; may come without rejected items, as a warning.
        bytes_sent: on the wire, framing included.
    """

    failure: str | None
    code: int
    message: str
    retry_after_s: float | None = None
    rejected_items: int = 0
    partial_message: str = ""
    bytes_sent: int = 0
    is_answer_unreadable: bool = False


class Undecided(NamedTuple):
    """A request that export_queue leaves to its caller.

    Attributes:
        item: the request, still in its place.
        result: what came of sending it; None when it was not sent.
        seconds: that this took.
    """

    item: QueueItem
    result: ExportResult | None
    seconds: float


class PartialSuccess(NamedTuple):
    """The part of a request that the server did not take, and its text."""

    rejected_items: int
    message: str


class RpcStatus(NamedTuple):
    """A google.rpc.Status; retry_after_s is None without RetryInfo."""

    code: int
    message: str
    retry_after_s: float | None


def _text(field: Any) -> str:
    text: bytes = ffi.string(field)
    return text.decode(errors="replace")


def _retry_after_s(result: Any) -> float | None:
    return result.retry_delay_ns / 1e9 if result.has_retry_delay else None


def _nanoseconds(seconds: float | None) -> int:
    return _NO_LIMIT if seconds is None else max(0, min(int(seconds * 1e9), _NO_LIMIT))


def _field(name: str, value: str) -> tuple[bytes, bytes]:
    """Return how HTTP/2 carries a header. Source: gRPC over HTTP2, "Custom-Metadata"."""
    name = name.lower()
    if not name.endswith("-bin"):
        return name.encode(), value.encode()
    import binascii  # few have any

    return name.encode(), binascii.b2a_base64(value.encode(), newline=False).rstrip(b"=")


class Client:
    """Connections to one gRPC server, made when first needed and reused; safe in any thread.

    Args:
        host: name, IPv4 or IPv6 literal without brackets, or the absolute path of a unix socket.
        port: ignored for a unix socket.
        authority: sent as :authority; empty for host:port.
        headers: sent with each call, names in any case. What a name with `-bin` at its end holds is sent as bytes.
        max_connections: calls at once; more wait for a place.
        connect_timeout_s: for one connect; a call's own limit holds too.
        tls: None for plain text.

    Raises:
        NativeError: a header or the authority is not valid HTTP.
    """

    def __init__(
        self,
        host: str,
        port: int = 0,
        *,
        authority: str = "",
        user_agent: str,
        headers: Mapping[str, str] | None = None,
        max_connections: int,
        connect_timeout_s: float = 20.0,
        tls: Tls | None = None,
    ) -> None:
        fields = (field for name, value in (headers or {}).items() for field in _field(name, value))
        strings = [ffi.new("char[]", field) for field in fields]
        values = {
            "host": ffi.new("char[]", host.encode()),
            "port": port,
            "authority": ffi.new("char[]", authority.encode()) if authority else ffi.NULL,
            "user_agent": ffi.new("char[]", user_agent.encode()),
            "headers": ffi.new("const char *[]", strings),
            "n_headers": len(strings),
            "max_connections": max_connections,
            "connect_timeout_ns": _nanoseconds(connect_timeout_s),
            "tls": ffi.NULL if tls is None else tls.pointer,
        }
        error = new_error()
        pointer = lib.ss_client_new(ffi.new("ss_client_config *", values), error)
        if pointer == ffi.NULL:
            fail(error.code, "client", error)
        self._pointer = ffi.gc(pointer, lib.ss_client_free)
        self._keep = tls
        self._failures = {
            lib.SS_OK: None,
            lib.SS_ERR_TIMEOUT: "timeout",
            lib.SS_ERR_CLOSED: "closed",
            lib.SS_ERR_CANCELLED: "cancelled",
        }

    def export(
        self,
        signal: Signal,
        encoding: str,
        message: bytes | memoryview,
        timeout_s: float | None,
        cancel_fd: int = -1,
    ) -> ExportResult:
        """Send one Export*ServiceRequest and wait for the answer.

        Args:
            encoding: what message is compressed with: `none`, `gzip`, `zstd` or `snappy`.
            message: any buffer.
            timeout_s: seconds for the whole call; None for no limit.
            cancel_fd: the call is cancelled once it is readable; -1 for never.
        """
        result = ffi.new("ss_client_result *")
        data = ffi.from_buffer(message)
        lib.ss_client_export(
            self._pointer,
            signal.number,
            _ENCODINGS[encoding],
            data,
            len(data),
            _nanoseconds(timeout_s),
            cancel_fd,
            result,
        )
        return self._read(result)

    def export_queue(
        self, queue: Queue, timeout_s: float | None, *, n_threads: int | None, reported_items: int
    ) -> Undecided:
        """Send what queue holds, and what comes into it, until a request needs a decision.

        It does when it was sent without plain success, and unsent when the queue is closed, or has changed its
        encoding since.

        Args:
            timeout_s: seconds for each call; None for no limit.
            n_threads: come back with an unsent request when so many are in flight; None for never.
            reported_items: come back with an unsent request when more than these have found no room or were
                withdrawn, though not within a tenth of a second.

        Raises:
            StopIteration: the queue was closed and is empty.
        """
        item = ffi.new("ss_queue_item *")
        attempt = ffi.new("ss_export_attempt *")
        watch = (_nanoseconds(timeout_s), _MANY if n_threads is None else n_threads, reported_items)
        status = lib.ss_client_export_queue(
            self._pointer, queue.pointer, ffi.new("ss_export_watch *", watch), item, attempt
        )
        if status == lib.SS_ERR_CLOSED:
            raise StopIteration
        if not attempt.is_made:
            return Undecided(QueueItem(item), None, 0.0)
        return Undecided(QueueItem(item), self._read(attempt.result), attempt.duration_ns / 1e9)

    def _read(self, result: Any) -> ExportResult:
        return ExportResult(
            failure=self._failures.get(result.transport_status, "io"),
            code=result.grpc_status,
            message=_text(result.message),
            retry_after_s=_retry_after_s(result),
            rejected_items=result.rejected_items,
            partial_message=_text(result.partial_message),
            bytes_sent=result.bytes_sent,
            is_answer_unreadable=result.is_answer_unreadable,
        )

    def accepted(self, encoding: str) -> int:
        """Return how many calls with messages in encoding the server has taken so far."""
        return int(lib.ss_client_accepted(self._pointer, _ENCODINGS[encoding]))

    def close(self) -> None:
        """End the calls in flight, and refuse new ones, with failure `closed`."""
        lib.ss_client_close(self._pointer)


def read_partial_success(response: bytes) -> PartialSuccess:
    """Return the partial success of a serialized Export*ServiceResponse.

    Raises:
        MalformedInput: response is something else.
    """
    result = ffi.new("ss_client_result *")
    check(lib.ss_export_response_read(ffi.from_buffer(response), len(response), result), "response")
    return PartialSuccess(result.rejected_items, _text(result.partial_message))


def read_rpc_status(status: bytes) -> RpcStatus | None:
    """Return a serialized google.rpc.Status, None when status is something else."""
    result = ffi.new("ss_client_result *")
    try:
        check(lib.ss_rpc_status_read(ffi.from_buffer(status), len(status), result), "status")
    except MalformedInput:
        return None
    return RpcStatus(result.grpc_status, _text(result.message), _retry_after_s(result))
