"""The native server: OTLP over gRPC and HTTP on event loops, and small HTTP pages answered by Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from collector.native.errors import check, fail, new_error
from collector.native.library import ffi, lib
from collector.native.pipeline import Receiver
from collector.native.runtime import Runtime

_ADMIN_BODY_MAX = 1 << 20


class Listener(NamedTuple):
    """One listening socket and the limits of its connections.

    Attributes:
        fd: bound and listening; the server keeps a duplicate.
        transport: `grpc` (HTTP/2) or `http` (HTTP/1.1).
        max_message_bytes: before and after decompression.
        max_connections: at once; 0 for no limit.
        idle_timeout_s: seconds after which an idle connection is closed; 0 for never.
        read_timeout_s: seconds within which a request must be complete; 0 for no limit.
        paths: URL path of each signal, in the order of Signal; empty for the default `/v1/...`.
        is_admin: every request goes to Server.next_request.
    """

    fd: int
    transport: str = "http"
    max_message_bytes: int = _ADMIN_BODY_MAX
    max_concurrent_streams: int = 200
    initial_window_bytes: int = 2 << 20
    max_connections: int = 0
    idle_timeout_s: float = 0
    read_timeout_s: float = 0
    paths: Sequence[str] = ()
    is_admin: bool = False


def _struct(listener: Listener, keep: list[Any]) -> dict[str, Any]:
    """Return the fields of an ss_listener_config; what it points to goes to keep."""
    paths = [ffi.new("char[]", path.encode()) for path in listener.paths]
    keep += paths
    return {
        "fd": listener.fd,
        "transport": lib.SS_TRANSPORT_GRPC if listener.transport == "grpc" else lib.SS_TRANSPORT_HTTP,
        "max_message_bytes": listener.max_message_bytes,
        "max_concurrent_streams": listener.max_concurrent_streams,
        "initial_window_bytes": listener.initial_window_bytes,
        "max_connections": listener.max_connections,
        "idle_timeout_ns": int(listener.idle_timeout_s * 1e9),
        "read_timeout_ns": int(listener.read_timeout_s * 1e9),
        "paths": paths,
        "is_admin": listener.is_admin,
    }


class Server:
    """Serves from its construction on.

    Args:
        receiver: where requests go; None with only admin listeners.
        event_loops: threads.

    Raises:
        NativeError: a thread or a descriptor could not be had, or the native transport was not built.
    """

    def __init__(
        self,
        runtime: Runtime,
        listeners: Sequence[Listener],
        receiver: Receiver | None = None,
        event_loops: int = 1,
    ) -> None:
        keep: list[Any] = []
        array = ffi.new("ss_listener_config[]", [_struct(listener, keep) for listener in listeners])
        config = ffi.new(
            "ss_server_config *",
            {"listeners": array, "n_listeners": len(listeners), "n_event_loops": event_loops},
        )
        if receiver is not None:
            config.accept = ffi.addressof(lib, "ss_receiver_accept")
            config.has_signal = ffi.cast(
                "bool (*)(const void *, ss_signal)", ffi.addressof(lib, "ss_receiver_has_signal")
            )
            config.receiver = receiver.pointer
        error = new_error()
        pointer = lib.ss_server_new(runtime.pointer, config, error)
        if pointer == ffi.NULL:
            fail(error.code, "server", error)
        self._pointer = ffi.gc(pointer, lib.ss_server_free)
        self._keep = (runtime, receiver)

    @property
    def request_fd(self) -> int:
        """Readable while admin requests wait; -1 without an admin listener."""
        return int(lib.ss_server_request_fd(self._pointer))

    def next_request(self) -> tuple[int, str, str, str] | None:
        """Take the next admin request: token, method, path, query; None when none waits."""
        request = ffi.new("ss_admin_request *")
        if lib.ss_server_next_request(self._pointer, request) != lib.SS_OK:
            return None
        texts = (ffi.string(field).decode(errors="replace") for field in (request.method, request.path, request.query))
        return (int(request.token), *texts)  # type: ignore[return-value]

    def reply(self, token: int, status: int, content_type: str, body: bytes) -> None:
        """Answer an admin request; a connection that is gone by then is no error."""
        check(
            lib.ss_server_reply(self._pointer, token, status, content_type.encode(), body, len(body)), "reply"
        )

    def shutdown(self, timeout_s: float) -> bool:
        """Stop accepting, let requests in flight finish; False when timeout_s was not enough. Safe twice."""
        return int(lib.ss_server_shutdown(self._pointer, int(timeout_s * 1e9))) == lib.SS_OK

    def stats(self) -> Any:
        """Return an ss_server_stats of this moment."""
        stats = ffi.new("ss_server_stats *")
        lib.ss_server_read_stats(self._pointer, stats)
        return stats
