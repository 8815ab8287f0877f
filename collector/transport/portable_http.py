"""OTLP/HTTP on the standard library's HTTP server: HTTP/1.1 with keep-alive, chunked and encoded bodies.

Every length is checked before memory is taken for it, raw and decompressed. Source: OTLP specification,
"OTLP/HTTP"; RFC 9112 for the message framing.
"""

from __future__ import annotations

import contextlib
import http.server
import io
import os
import re
import socket
import threading
from collections.abc import Callable

from collector.config.values import format_address
from collector.errors import LimitExceeded, NativeError
from collector.ids import Signal
from collector.lean import TYPE_CHECKING, Any
from collector.native.library import lib
from collector.native.pipeline import Verdict
from collector.transport import Acceptor, Listener
from collector.transport.status import (
    INVALID_ARGUMENT,
    OK,
    http_status,
    response_json,
    response_protobuf,
    status_json,
    status_protobuf,
)

if TYPE_CHECKING:
    import _socket

    from collector.transport.portable import Scratch

_PROTOBUF = "application/x-protobuf"
_JSON = "application/json"
_AUTHORITY = re.compile(r"\A[A-Za-z]+://[^/]*")
_ENCODINGS = {
    "identity": "identity",
    "gzip": "gzip",
    "zstd": "zstd",
    "zlib": "zlib",
    "deflate": "zlib",
    "snappy": "snappy",
    "x-snappy-framed": "x-snappy-framed",
    "lz4": "lz4",
}
_TOO_LARGE = "http: request body too large"
_LINE_MAX = 65536
_CHUNK_LINE_MAX = 4096
_READ_PIECE = 65536
# An unwanted body up to this size is read so that the connection can go on.
_SKIP_MAX = 256 << 10
# What is read of a larger one so that the client gets to see the answer before the connection closes.
_DISCARD_MAX = 32 << 20
_DISCARD_TIMEOUT_S = 1.0


class _Invalid(Exception):
    """The request's framing is broken: answer 400 and close."""


class _TooLarge(Exception):
    """The body passes the size limit."""


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection: reads requests, one after another, and answers them."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        """Prepare the connection's streams."""
        super().setup()
        self._is_fresh = True
        if self.server.listener.network != "unix":
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle_one_request(self) -> None:
        """Read one request and answer it; any fault of the peer ends the connection."""
        self._has_unread_body = False
        self._expects_continue = False
        try:
            limit_s = self.server.listener.idle_timeout_s
            if self._is_fresh:
                limit_s = self.server.listener.header_timeout_s or limit_s
            self._is_fresh = False
            self.connection.settimeout(limit_s or None)
            self.raw_requestline = self.rfile.readline(_LINE_MAX + 1)
            if not self.raw_requestline:
                self.close_connection = True
                return
            self.server.set_busy(self.connection, True)
            listener = self.server.listener
            begun = self.server.clock()
            self._deadline = begun + listener.header_timeout_s if listener.header_timeout_s else None
            self._arm()
            if len(self.raw_requestline) > _LINE_MAX:
                self.requestline = self.request_version = self.command = ""
                self.send_error(414)
            elif self.parse_request():
                self._deadline = begun + listener.read_timeout_s if listener.read_timeout_s else None
                self._answer()
            if self._has_unread_body:
                self._discard()
        except _Invalid as error:
            self.send_error(400, str(error))
            self._discard()
        except OSError:  # timed out, reset
            self.close_connection = True
        finally:
            self.server.set_busy(self.connection, False)
            if self.server.is_closing:
                self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is no OTLP request; the connection cannot go on."""
        text = message or self.responses[http.HTTPStatus(code)][0]
        self.close_connection = True
        self._respond(int(code), "text/plain; charset=utf-8", f"{int(code)} {text}".encode())

    def handle_expect_100(self) -> bool:
        """Put `100 Continue` off until the body is wanted."""
        self._expects_continue = True
        return True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing: requests are counted, not logged."""

    def _answer(self) -> None:
        self._has_unread_body = bool(
            self.headers.get("Transfer-Encoding") or self.headers.get("Content-Length", "0") != "0"
        )
        signal = self.server.find_signal(_AUTHORITY.sub("", self.path.partition("?")[0]))
        encoding = self.headers.get("Content-Encoding", "").lower().replace("x-gzip", "gzip")
        content_type = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if not self.server.accepts(encoding):
            self._skip_body()
            kind = content_type if content_type == _PROTOBUF else _JSON
            supported = ", ".join(name for name in _ENCODINGS if name in self.server.listener.encodings)
            said = self.headers.get("Content-Encoding", "")
            verdict = Verdict(
                INVALID_ARGUMENT, f"unsupported Content-Encoding: {said}; supported: {supported}"
            )
            self._respond_status(kind, verdict, 415, {"Accept-Encoding": supported})
        elif signal is None or not self.server.acceptor.has_signal(signal):
            self._skip_body()
            self._respond(404, "text/plain; charset=utf-8", b"404 page not found\n")
        elif self.command != "POST":
            self._skip_body()
            self._respond(405, "text/plain", b"405 method not allowed, supported: [POST]")
        elif content_type not in (_PROTOBUF, _JSON):
            self._skip_body()
            supported = f"415 unsupported media type, supported: [{_JSON}, {_PROTOBUF}]"
            self._respond(415, "text/plain", supported.encode())
        else:
            self._export(signal, content_type, encoding if self.server.listener.encodings else "")

    def _export(self, signal: Signal, content_type: str, encoding: str) -> None:
        try:
            body = self._read_body(self.server.listener.max_message_bytes)
            if encoding:
                body = self.server.scratch.codec.decompress(
                    _ENCODINGS[encoding], body, self.server.listener.max_message_bytes
                )
        except (_TooLarge, LimitExceeded):
            self._fail(content_type, _TOO_LARGE)
            return
        except NativeError as error:
            self._fail(content_type, str(error))
            return
        payload = lib.SS_PAYLOAD_JSON if content_type == _JSON else lib.SS_PAYLOAD_PROTOBUF
        verdict = self.server.acceptor.accept(
            self.server.scratch.worker, signal, lib.SS_TRANSPORT_HTTP, payload, body
        )
        if verdict.code != OK:
            self._respond_status(content_type, verdict)
        elif content_type == _JSON:
            self._respond(200, _JSON, response_json(signal, verdict))
        else:
            self._respond(200, _PROTOBUF, response_protobuf(verdict))

    def _fail(self, content_type: str, message: str) -> None:
        self._respond_status(content_type, Verdict(INVALID_ARGUMENT, message))

    def _respond_status(
        self, content_type: str, verdict: Verdict, status: int = 0, headers: dict[str, str] | None = None
    ) -> None:
        status = status or http_status(verdict.code)
        headers = headers or {}
        if verdict.retry_delay_ms is not None and status in (429, 503):
            headers["Retry-After"] = str(verdict.retry_delay_ms // 1000)
        body = status_json(verdict) if content_type == _JSON else status_protobuf(verdict)
        self._respond(status, content_type, body, headers)

    def _respond(
        self, status: int, content_type: str, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        if self.server.is_closing or self._has_unread_body or self.server.listener.closes_after_answer:
            self.close_connection = True
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        for line in self.server.response_headers:
            self.send_header(*line)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _skip_body(self) -> None:
        if not self._expects_continue:
            with contextlib.suppress(_TooLarge):
                self._read_body(_SKIP_MAX)

    def _read_body(self, limit: int) -> bytes:
        lengths = self.headers.get_all("Content-Length", [])
        coding = self.headers.get("Transfer-Encoding")
        if coding is not None:
            if lengths or coding.strip().lower() != "chunked":
                raise _Invalid("Bad Request")
            self._send_continue()
            body = self._read_chunks(limit)
        else:
            length = _decimal(lengths[0]) if lengths else 0
            if any(_decimal(other) != length for other in lengths):
                raise _Invalid("Bad Request")
            if length > limit:
                raise _TooLarge
            self._send_continue()
            body = self._read(length)
        self._has_unread_body = False
        return body

    def _send_continue(self) -> None:
        if self._expects_continue:
            self.send_response_only(100)
            self.end_headers()

    def _read_chunks(self, limit: int) -> bytes:
        body = bytearray()
        while True:
            digits = self._read_line().partition(b";")[0].strip()
            if not digits or len(digits) > 16 or digits.strip(b"0123456789abcdefABCDEF"):
                raise _Invalid("Bad Request")
            length = int(digits, 16)
            if not length:
                break
            if length > limit - len(body):
                raise _TooLarge
            body += self._read(length)
            if self._read(2) != b"\r\n":
                raise _Invalid("Bad Request")
        while self._read_line():
            pass  # trailers
        return bytes(body)

    def _read_line(self) -> bytes:
        self._arm()
        line = self.rfile.readline(_CHUNK_LINE_MAX + 1)
        if not line.endswith(b"\r\n"):
            raise _Invalid("Bad Request")
        return line[:-2]

    def _read(self, length: int) -> bytes:
        body = io.BytesIO()
        while length:
            self._arm()
            piece = self.rfile.read1(min(length, _READ_PIECE))
            if not piece:
                raise ConnectionResetError
            body.write(piece)
            length -= len(piece)
        return body.getvalue()

    def _arm(self) -> None:
        """Let the next read take no longer than what is left for the request."""
        if self._deadline is not None:
            left = self._deadline - self.server.clock()
            if left <= 0:
                raise TimeoutError
            self.connection.settimeout(left)

    def _discard(self) -> None:
        """Read away what the client still sends; closing over unread bytes would reset the answer away."""
        self.connection.settimeout(_DISCARD_TIMEOUT_S)
        self.connection.shutdown(socket.SHUT_WR)
        total = 0
        while total < _DISCARD_MAX:
            piece = self.connection.recv(_READ_PIECE)
            if not piece:
                return
            total += len(piece)


class _Server(http.server.ThreadingHTTPServer):
    """One thread a connection, on a listening socket that others own."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        listener: Listener,
        listening: _socket.socket,
        acceptor: Acceptor,
        scratch: Scratch,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=os.dup(listening.fileno()))
        self.listener = listener
        self.acceptor = acceptor
        self.scratch = scratch
        self.clock = clock
        self.response_headers = [
            (name, value)
            for name, _, value in (line.partition(": ") for line in listener.response_headers.splitlines())
        ]
        self.is_closing = False
        self._connections: dict[Any, bool] = {}
        self._idle = threading.Condition()

    def find_signal(self, path: str) -> Signal | None:
        """Return the signal of the path that path is, or of the longest one above it that takes all below."""
        known = [
            (len(own), signal)
            for own, signal in zip(self.listener.paths, Signal, strict=True)
            if path == own or (own.endswith("/") and path.startswith(own))
        ]
        return max(known)[1] if known else None

    def accepts(self, encoding: str) -> bool:
        """Return whether bodies may have this Content-Encoding."""
        encodings = self.listener.encodings
        return not encodings or encoding in encodings or (encoding == "identity" and "" in encodings)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a new connection on a thread of its own."""
        with self._idle:
            self._connections[request] = False
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget and close a connection."""
        with self._idle:
            self._connections.pop(request, None)
            self._idle.notify_all()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: a connection that broke is the peer's affair, and it is closed by then."""

    def set_busy(self, connection: socket.socket, busy: bool) -> None:
        """Note that connection is inside a request, or between two."""
        with self._idle:
            if connection in self._connections:
                self._connections[connection] = busy
            self._idle.notify_all()

    def drain(self, timeout_s: float) -> None:
        """Close idle connections at once and the others after their request, or after timeout_s."""
        with self._idle:
            self.is_closing = True
            self._end([connection for connection, busy in self._connections.items() if not busy])
            self._idle.wait_for(lambda: not any(self._connections.values()), timeout_s)
            self._end(list(self._connections))

    def _end(self, connections: list[Any]) -> None:
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class HttpServer:
    """One HTTP server for one listener."""

    def __init__(
        self,
        listener: Listener,
        listening: _socket.socket,
        *,
        acceptor: Acceptor,
        scratch: Scratch,
        clock: Callable[[], float],
    ) -> None:
        self._server = _Server(listener, listening, acceptor, scratch, clock)
        self._address = format_address(listening)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="otlp-http", daemon=True
        )

    def start(self) -> str:
        """Serve; return the bound address."""
        self._thread.start()
        return self._address

    def shutdown(self, timeout_s: float) -> None:
        """Refuse new connections, let requests in flight finish within timeout_s, close."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.drain(timeout_s)


def _decimal(text: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise _Invalid("Bad Request")
    return int(text)
