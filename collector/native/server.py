"""The native transport server: OTLP over gRPC and HTTP, and admin requests that Python answers."""

from __future__ import annotations

from collections.abc import Sequence

from collector.lean import TYPE_CHECKING, Any, NamedTuple, record
from collector.native.errors import check, fail, new_error
from collector.native.library import ffi, lib
from collector.native.pipeline import Receiver
from collector.native.runtime import Runtime

if TYPE_CHECKING:
    from collector.native.tls import Tls


class Cors(NamedTuple):
    """What pages of other origins may do; see `ss_cors_config`."""

    origins: tuple[str, ...]
    headers: tuple[str, ...] = ()
    exposed_headers: str = ""
    max_age_s: int = 0


@record
class Rules:
    """How connections are served. Zero is no limit, and never, where nothing else is said.

    Attributes:
        max_message_bytes: of a request, before and after decompression.
        max_connections: at once; more are refused.
        idle_timeout_s: connections without a request are ended after it.
        read_timeout_s: a request must be complete within it.
        write_timeout_s: an answer must be taken within it.
        max_concurrent_streams, initial_window_bytes: of HTTP/2.
        max_age_s: gRPC connections this old end with their calls.
        max_age_grace_s: and this much later whether the calls are done or not.
        ping_after_s, ping_timeout_s: gRPC clients silent for the first are pinged, and ended after the second.
        min_ping_interval_s, pings_without_calls: how often gRPC clients may ping.
        has_health: serve `grpc.health.v1.Health`.
        metadata_names: headers that are kept with their request, in lower case.
        paths: URL path of traces, metrics and logs; one that ends in `/` with all below it.
        header_timeout_s: the head of an HTTP request must be there within it.
        closes_after_answer: an HTTP connection is for one request.
        encodings: values of Content-Encoding that are accepted, `""` for none; an empty set takes bodies as they come.
        response_headers: lines of every HTTP answer, each with its end.
        cors: for browsers; None: no word of it.
        tls: None is plain text.
        handshake_timeout_s: TLS must be agreed on within it.
    """

    max_message_bytes: int = 4 << 20
    max_connections: int = 0
    idle_timeout_s: float = 0.0
    read_timeout_s: float = 0.0
    write_timeout_s: float = 0.0
    max_concurrent_streams: int = 200
    initial_window_bytes: int = 2 << 20
    max_age_s: float = 0.0
    max_age_grace_s: float = 0.0
    ping_after_s: float = 0.0
    ping_timeout_s: float = 0.0
    min_ping_interval_s: float = 0.0
    pings_without_calls: bool = False
    has_health: bool = False
    metadata_names: tuple[str, ...] = ()
    paths: tuple[str, str, str] = ("/v1/traces", "/v1/metrics", "/v1/logs")
    header_timeout_s: float = 0.0
    closes_after_answer: bool = False
    encodings: frozenset[str] = frozenset(
        {"", "gzip", "zstd", "zlib", "deflate", "snappy", "x-snappy-framed", "lz4"}
    )
    response_headers: str = ""
    cors: Cors | None = None
    tls: Tls | None = None
    handshake_timeout_s: float = 10.0


@record
class Listener(Rules):
    """A listening socket and how it is served.

    Attributes:
        fd: bound and listening; the server duplicates it and the caller closes its own.
        protocol: `grpc` (HTTP/2 with prior knowledge) or `http` (HTTP/1.1, or HTTP/2 where TLS agrees on it).
        is_admin: every request waits for `Server.reply`; protocol `http` only.
    """

    fd: int
    protocol: str
    is_admin: bool = False


class AdminRequest(NamedTuple):
    """A request to an admin listener, to be answered under its token."""

    token: int
    method: str
    path: str
    query: str


class Refusal(NamedTuple):
    """A request or a connection that was refused: whose, and what the client did; either may be empty."""

    client: str
    text: str


class Server:
    """Event loops in threads of their own, which never hold the GIL.

    A server that is dropped without `shutdown` ends at once.

    Args:
        receiver: takes the requests; None with admin listeners only.
        event_loops: threads.
        max_held_bytes: what connections may hold in requests that are not complete and answers that are not taken, all
            together; 0 is no limit.
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
        max_held_bytes: int = 0,
        accept: Any = None,
    ) -> None:
        kept: list[Any] = []
        entries = [_listener_config(listener, kept) for listener in listeners]
        array = ffi.new("ss_listener_config[]", entries)
        config = ffi.new(
            "ss_server_config *",
            {
                "listeners": array,
                "n_listeners": len(entries),
                "n_event_loops": event_loops,
                "max_held_bytes": max_held_bytes,
            },
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
        self._keep = (runtime, receiver, accept, [listener.tls for listener in listeners])

    def strangers(self) -> dict[tuple[str, str], int]:
        """Return how many clients came to a port of a protocol (the first) and spoke another one (the second)."""
        stats = self.stats()
        return {
            (protocol, speaks): int(stats.misdirected[_TRANSPORTS[protocol]][number])
            for protocol, speaks, number in _STRANGERS
        }

    def refusals(self) -> dict[tuple[str, str], int]:
        """Return how many requests and connections were refused at the door, by protocol and reason."""
        stats = self.stats()
        return {
            (protocol, reason): int(stats.refused[number][refusal])
            for protocol, number in _TRANSPORTS.items()
            for reason, refusal in _REFUSALS.items()
        }

    def take_refusal(self, protocol: str, reason: str) -> Refusal | None:
        """Return the first refusal of its kind since the last call; None when there was none."""
        note = ffi.new("ss_refusal_note *")
        kind = _TRANSPORTS[protocol], _REFUSALS[reason]
        if not lib.ss_server_take_refusal(self._pointer, *kind, note):
            return None
        client, text = (ffi.string(field).decode("utf-8", "replace") for field in (note.client, note.text))
        return Refusal(client, text)

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


_MAX_MESSAGE_BYTES = (1 << 32) - 1  # a gRPC length prefix and the table's offsets have 32 bits
_TRANSPORTS = {"grpc": lib.SS_TRANSPORT_GRPC, "http": lib.SS_TRANSPORT_HTTP}
_STRANGERS = (
    ("grpc", "http1", lib.SS_STRANGER_HTTP1),
    ("grpc", "tls", lib.SS_STRANGER_TLS),
    ("grpc", "plain", lib.SS_STRANGER_PLAIN),
    ("http", "http2", lib.SS_STRANGER_HTTP2),
    ("http", "tls", lib.SS_STRANGER_TLS),
    ("http", "plain", lib.SS_STRANGER_PLAIN),
)
_REFUSALS = {
    "too_large": lib.SS_REFUSAL_TOO_LARGE,
    "unknown_path": lib.SS_REFUSAL_UNKNOWN_PATH,
    "no_pipeline": lib.SS_REFUSAL_NO_PIPELINE,
    "method": lib.SS_REFUSAL_METHOD,
    "media_type": lib.SS_REFUSAL_MEDIA_TYPE,
    "encoding": lib.SS_REFUSAL_ENCODING,
    "malformed": lib.SS_REFUSAL_MALFORMED,
    "protocol": lib.SS_REFUSAL_PROTOCOL,
    "headers_too_large": lib.SS_REFUSAL_HEADERS_TOO_LARGE,
    "timeout": lib.SS_REFUSAL_TIMEOUT,
    "memory": lib.SS_REFUSAL_MEMORY,
    "connections": lib.SS_REFUSAL_CONNECTIONS,
    "descriptors": lib.SS_REFUSAL_DESCRIPTORS,
    "connection_memory": lib.SS_REFUSAL_CONNECTION_MEMORY,
}
_CONTENT_ENCODINGS = {
    "": 1 << lib.SS_CONTENT_NONE | 1 << lib.SS_CONTENT_IDENTITY,
    "identity": 1 << lib.SS_CONTENT_IDENTITY,
    "gzip": 1 << lib.SS_CONTENT_GZIP,
    "zstd": 1 << lib.SS_CONTENT_ZSTD,
    "zlib": 1 << lib.SS_CONTENT_ZLIB,
    "deflate": 1 << lib.SS_CONTENT_DEFLATE,
    "snappy": 1 << lib.SS_CONTENT_SNAPPY,
    "x-snappy-framed": 1 << lib.SS_CONTENT_SNAPPY_FRAMED,
    "lz4": 1 << lib.SS_CONTENT_LZ4,
}


def _listener_config(listener: Listener, kept: list[Any]) -> dict[str, Any]:
    """Return listener as an ss_listener_config; kept holds what that points to."""

    def text(value: str) -> Any:
        kept.append(ffi.new("char[]", value.encode()))
        return kept[-1]

    def texts(values: Sequence[str]) -> Any:
        kept.append(ffi.new("char *[]", [text(value) for value in values]))
        return kept[-1]

    def nanoseconds(seconds: float) -> int:
        return int(seconds * 1e9)

    cors = ffi.NULL
    if listener.cors is not None:
        cors = ffi.new("ss_cors_config *")
        kept.append(cors)
        cors.origins, cors.n_origins = texts(listener.cors.origins), len(listener.cors.origins)
        cors.headers, cors.n_headers = texts(listener.cors.headers), len(listener.cors.headers)
        cors.exposed_headers = text(listener.cors.exposed_headers)
        cors.max_age_s = listener.cors.max_age_s
    encodings = 0
    for name in listener.encodings:
        encodings |= _CONTENT_ENCODINGS[name]
    return {
        "fd": listener.fd,
        "transport": _TRANSPORTS[listener.protocol],
        "is_admin": listener.is_admin,
        "max_message_bytes": min(listener.max_message_bytes, _MAX_MESSAGE_BYTES),
        "max_connections": listener.max_connections,
        "max_concurrent_streams": listener.max_concurrent_streams,
        "initial_window_bytes": listener.initial_window_bytes,
        "idle_timeout_ns": nanoseconds(listener.idle_timeout_s),
        "read_timeout_ns": nanoseconds(listener.read_timeout_s),
        "max_age_ns": nanoseconds(listener.max_age_s),
        "max_age_grace_ns": nanoseconds(listener.max_age_grace_s),
        "ping_after_ns": nanoseconds(listener.ping_after_s),
        "ping_timeout_ns": nanoseconds(listener.ping_timeout_s),
        "min_ping_interval_ns": nanoseconds(listener.min_ping_interval_s),
        "pings_without_calls": listener.pings_without_calls,
        "has_health": listener.has_health,
        "metadata_names": texts(listener.metadata_names),
        "n_metadata_names": len(listener.metadata_names),
        "paths": [text(path) for path in listener.paths],
        "closes_after_answer": listener.closes_after_answer,
        "ignores_encoding": not listener.encodings,
        "encodings": encodings,
        "header_timeout_ns": nanoseconds(listener.header_timeout_s),
        "write_timeout_ns": nanoseconds(listener.write_timeout_s),
        "response_headers": text(listener.response_headers),
        "cors": cors,
        "tls": ffi.NULL if listener.tls is None else listener.tls.pointer,
        "handshake_timeout_ns": nanoseconds(listener.handshake_timeout_s),
    }
