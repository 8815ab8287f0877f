"""Clients that say exactly what a test wants: HTTP/1.1 by hand, HTTP/2 on the `h2` package, frames by hand."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import ssl
import struct
import threading
import urllib.parse
from collections.abc import Iterable
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import hpack

TIMEOUT_S = 60.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4

Address = tuple[str, int]


def connect(address: Address, context: ssl.SSLContext | None = None) -> socket.socket:
    """Return a connected socket, over TLS with a context, whose reads and writes fail after TIMEOUT_S."""
    connection = socket.create_connection(address, timeout=TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection if context is None else context.wrap_socket(connection, server_hostname=address[0])


def is_ended(connection: socket.socket) -> bool:
    """Read until the server closes or resets; False when it does neither within TIMEOUT_S."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


# ---------------------------------------------------------------------------------------------- HTTP/1.1


@dataclasses.dataclass(frozen=True)
class HttpAnswer:
    """One HTTP/1.1 response; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpPeer:
    """An HTTP/1.1 client that sends the bytes it is given."""

    def __init__(self, address: Address, context: ssl.SSLContext | None = None) -> None:
        self._socket = connect(address, context)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def socket(self) -> socket.socket:
        """The connection."""
        return self._socket

    def send(self, data: bytes) -> None:
        """Send data; a server that has closed already is no error, its answer is still to be read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def answer(self) -> HttpAnswer:
        """Read one response."""
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        version, status = status_line.split(" ")[:2]
        assert version == "HTTP/1.1"
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        while len(self._buffer) < length:
            self._receive()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return HttpAnswer(int(status), headers, body)

    def is_ended(self) -> bool:
        """Return whether the server closes the connection."""
        return is_ended(self._socket)

    def _receive(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionResetError("the server closed the connection without an answer")
        self._buffer += data


def http_request(
    path: str, body: bytes | None, headers: Iterable[tuple[str, str]] = (), method: str = "POST"
) -> bytes:
    """Return the bytes of a request; Content-Length is added for a body, None is no body and no length."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def chunked(path: str, chunks: Iterable[bytes], headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return the bytes of a POST in chunks."""
    head = http_request(path, None, [*headers, ("Transfer-Encoding", "chunked")])
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def exchange(address: Address, request: bytes) -> HttpAnswer:
    """Send request on a connection of its own, from a thread so that an early answer is not missed."""
    with HttpPeer(address) as peer:
        sender = threading.Thread(target=peer.send, args=(request,))
        sender.start()
        try:
            return peer.answer()
        finally:
            with contextlib.suppress(OSError):
                peer.socket.shutdown(socket.SHUT_RDWR)
            sender.join()


# ------------------------------------------------------------------------------------------- gRPC, HTTP/2


@dataclasses.dataclass(frozen=True)
class GrpcAnswer:
    """What came back for one call; status is None where the stream was reset or was no gRPC."""

    http_status: int | None
    status: int | None
    message: str
    body: bytes
    details: bytes | None
    reset_code: int | None


def grpc_frame(message: bytes, *, flag: int = 0) -> bytes:
    """Return message with gRPC's length prefix."""
    return struct.pack(">BI", flag, len(message)) + message


def call_headers(path: str, encoding: str = "") -> list[tuple[str, str]]:
    """Return the header list of an honest call."""
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]
    return [*headers, ("grpc-encoding", encoding)] if encoding else headers


class GrpcPeer:
    """An HTTP/2 client whose header lists and payloads are free."""

    def __init__(self, address: Address, context: ssl.SSLContext | None = None) -> None:
        self._socket = connect(address, context)
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, validate_outbound_headers=False)
        )
        self._h2.initiate_connection()
        self._events: dict[int, list[h2.events.Event]] = {}
        self._ended: set[int] = set()
        self.is_going_away = False
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def open(self, headers: list[tuple[str, str]], *, end_stream: bool = False) -> int:
        """Start a call; return its stream."""
        stream = self._h2.get_next_available_stream_id()
        self._events[stream] = []
        self._h2.send_headers(stream, headers, end_stream=end_stream)
        self.flush()
        return stream

    def send(self, stream: int, data: bytes, *, end_stream: bool = True, padding: int | None = None) -> None:
        """Send data as the windows allow; stops early where the server has ended the stream."""
        at = 0
        while stream not in self._ended:
            overhead = 0 if padding is None else padding + 1
            room = self._h2.local_flow_control_window(stream)
            room = min(room, self._h2.max_outbound_frame_size) - overhead
            piece = data[at : at + max(0, room)]
            if not piece and at < len(data):
                self._receive()
                continue
            at += len(piece)
            is_last = at >= len(data)
            self._h2.send_data(stream, piece, end_stream=is_last and end_stream, pad_length=padding)
            self.flush()
            if is_last:
                return

    def reset(self, stream: int) -> None:
        """Cancel a call."""
        self._h2.reset_stream(stream, error_code=8)
        self.flush()

    def http_answer(self, stream: int) -> HttpAnswer:
        """Wait for the answer to a request that is none of gRPC."""
        headers, body, _ = self._wait(stream)
        return HttpAnswer(int(headers.pop(":status")), headers, body)

    def answer(self, stream: int) -> GrpcAnswer:
        """Wait for the end of a call."""
        headers, body, reset_code = self._wait(stream)
        details = headers.get("grpc-status-details-bin")
        return GrpcAnswer(
            http_status=int(headers[":status"]) if ":status" in headers else None,
            status=int(headers["grpc-status"]) if "grpc-status" in headers else None,
            message=urllib.parse.unquote(headers.get("grpc-message", "")),
            body=body[5:],
            details=_base64(details) if details is not None else None,
            reset_code=reset_code,
        )

    def _wait(self, stream: int) -> tuple[dict[str, str], bytes, int | None]:
        """Return headers and trailers, body, and error code of a stream that has ended."""
        while stream not in self._ended:
            self._receive()
        headers: dict[str, str] = {}
        body = b""
        reset_code = None
        for event in self._events.pop(stream):
            if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                headers.update((_text(name), _text(value)) for name, value in event.headers)
            elif isinstance(event, h2.events.DataReceived):
                body += event.data
            elif isinstance(event, h2.events.StreamReset):
                reset_code = int(event.error_code)
        return headers, body, reset_code

    def is_told_to_go(self) -> bool:
        """Wait for GOAWAY or the end, and go, as clients without a call under way do; False when neither comes."""
        try:
            while not self.is_going_away:
                self._receive()
        except TimeoutError:
            return False
        except (OSError, h2.exceptions.ProtocolError):
            pass  # h2 takes nothing after a GOAWAY, and says so
        self._socket.close()
        return True

    def call(self, headers: list[tuple[str, str]], payload: bytes) -> GrpcAnswer:
        """Make one whole call; payload holds its length prefix already."""
        stream = self.open(headers)
        self.send(stream, payload)
        return self.answer(stream)

    def flush(self) -> None:
        """Write what the protocol engine has to say."""
        data = self._h2.data_to_send()
        if data:
            self._socket.sendall(data)

    def _receive(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionResetError("the server closed the connection without an answer")
        for event in self._h2.receive_data(data):
            stream = getattr(event, "stream_id", None)
            if isinstance(event, h2.events.DataReceived):
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if isinstance(event, h2.events.ConnectionTerminated):
                self.is_going_away = True
            if stream in self._events:
                self._events[stream].append(event)
                if isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                    self._ended.add(stream)
        self.flush()


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _base64(text: str) -> bytes:
    import base64

    return base64.b64decode(text + "=" * (-len(text) % 4))


# ------------------------------------------------------------------------------------------ raw HTTP/2


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return one HTTP/2 frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header_block(path: str) -> bytes:
    """Return the HPACK block of an honest call that uses no dynamic table, so it can be said again and again."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    return bytes(encoder.encode(call_headers(path)))


class RawPeer:
    """An HTTP/2 client that sends frames as they are, and reads in the background so that no buffer fills."""

    def __init__(self, address: Address) -> None:
        self._socket = connect(address)
        self._is_ended = threading.Event()
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(TIMEOUT_S)
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send data."""
        self._socket.sendall(data)

    def flood(self, pieces: Iterable[bytes], patience_s: float = TIMEOUT_S) -> bool:
        """Send pieces until the server ends the connection; False when it took them all, and patience_s more."""
        try:
            for piece in pieces:
                if self._is_ended.is_set():
                    return True
                self._socket.sendall(piece)
        except OSError:
            return True
        return self._is_ended.wait(patience_s)

    def _read(self) -> None:
        try:
            while self._socket.recv(65536):
                pass
        except OSError:
            pass
        self._is_ended.set()
