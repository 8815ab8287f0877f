"""The native transport server: OTLP over gRPC and HTTP, and admin requests that Python answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collector.ids import Signal
from collector.lean import Any, NamedTuple, field, record
from collector.native.errors import check, fail, new_error
from collector.native.library import ffi, lib
from collector.native.pipeline import Receiver
from collector.native.runtime import Runtime


@record
class Listener:
    """A listening socket and the limits of its connections.

    Attributes:
        fd: bound and listening; the server duplicates it and the caller closes its own.
        protocol: `grpc` (HTTP/2 with prior knowledge) or `http` (HTTP/1.1).
        is_admin: every request waits for `Server.reply`; protocol `http` only.
        max_message_bytes: of a request, before and after decompression.
        idle_timeout_s: connections without traffic are closed after it; 0 means never.
        read_timeout_s: a request must be complete within it; 0 means no limit.
        paths: URL paths other than the default `/v1/...`.
    """

    fd: int
    protocol: str
    is_admin: bool = False
    max_message_bytes: int = 4 << 20
    max_concurrent_streams: int = 200
    initial_window_bytes: int = 2 << 20
    idle_timeout_s: float = 0.0
    read_timeout_s: float = 0.0
    paths: Mapping[Signal, str] = field(factory=dict)


class AdminRequest(NamedTuple):
    """A request to an admin listener, to be answered under its token."""

    token: int
    method: str
    path: str
    query: str


class Server:
    """Event loops in threads of their own, which never hold the GIL.

    A server that is dropped without `shutdown` ends at once.

    Args:
        receiver: takes the requests; None with admin listeners only.
        event_loops: threads.
        accept: a C function of type `ss_accept_fn` in place of the receiver's own.

    Raises:
        NativeError: a listener cannot be served.
    """

    def __init__(
        self,
        runtime: Runtime,
        listeners: Sequence[Listener],
        receiver: Receiver | None = None,
        *,
        event_loops: int = 1,
        accept: Any = None,
    ) -> None:
        transports = {"grpc": lib.SS_TRANSPORT_GRPC, "http": lib.SS_TRANSPORT_HTTP}
        texts: list[Any] = []
        entries = []
        for listener in listeners:
            paths = [ffi.NULL] * lib.SS_N_SIGNALS
            for signal, path in listener.paths.items():
                paths[signal.number] = ffi.new("char[]", path.encode())
            texts.extend(paths)
            entries.append(
                {
                    "fd": listener.fd,
                    "transport": transports[listener.protocol],
                    "is_admin": listener.is_admin,
                    "max_message_bytes": listener.max_message_bytes,
                    "max_concurrent_streams": listener.max_concurrent_streams,
                    "initial_window_bytes": listener.initial_window_bytes,
                    "idle_timeout_ns": int(listener.idle_timeout_s * 1e9),
                    "read_timeout_ns": int(listener.read_timeout_s * 1e9),
                    "paths": paths,
                }
            )
        array = ffi.new("ss_listener_config[]", entries)
        config = ffi.new(
            "ss_server_config *",
            {"listeners": array, "n_listeners": len(entries), "n_event_loops": event_loops},
        )
        if receiver is not None:
            config.accept = accept or ffi.addressof(lib, "ss_receiver_accept")
            config.has_signal = ffi.cast(
                "bool (*)(const void *, ss_signal)", ffi.addressof(lib, "ss_receiver_has_signal")
            )
            config.receiver = receiver.pointer
        error = new_error()
        pointer = lib.ss_server_new(runtime.pointer, config, error)
        if pointer == ffi.NULL:
            fail(error.code, "server", error)
        self._pointer = ffi.gc(pointer, lib.ss_server_free)
        self._keep = (runtime, receiver, accept)

    def shutdown(self, timeout_s: float) -> bool:
        """Refuse new requests, let those in flight finish; False when timeout_s was not enough for all.

        May be called again.
        The listening sockets stay open for whoever else holds them.
        """
        return bool(lib.ss_server_shutdown(self._pointer, int(timeout_s * 1e9)) == lib.SS_OK)

    def stats(self) -> Any:
        """Return an ss_server_stats of this moment."""
        stats = ffi.new("ss_server_stats *")
        lib.ss_server_read_stats(self._pointer, stats)
        return stats

    @property
    def request_fd(self) -> int:
        """A file descriptor that is readable while admin requests wait; -1 without an admin listener."""
        return int(lib.ss_server_request_fd(self._pointer))

    def next_request(self) -> AdminRequest | None:
        """Return the oldest admin request that waits, or None; never blocks."""
        request = ffi.new("ss_admin_request *")
        if lib.ss_server_next_request(self._pointer, request) != lib.SS_OK:
            return None
        method, path, query = (
            ffi.string(text).decode("latin-1") for text in (request.method, request.path, request.query)
        )
        return AdminRequest(int(request.token), method, path, query)

    def reply(self, token: int, status: int, content_type: str, body: bytes) -> None:
        """Answer the admin request with token; any thread. A client that is gone by then is no error."""
        result = lib.ss_server_reply(self._pointer, token, status, content_type.encode(), body, len(body))
        check(result, "admin reply")
