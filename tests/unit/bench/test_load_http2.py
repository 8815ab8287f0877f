"""The load generator's own HTTP/2, against a peer that writes its frames by hand: what RFC 9113 allows, and more."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import hpack
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.support import otlp
from tests.support.load import load, load_command, needs_tools, write_bodies

pytestmark = needs_tools

MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]
MESSAGE = bytes(5)
LARGE = otlp.traces(otlp.span("a span", attributes={"padding": "x" * 40_000})).SerializeToString()
SMALL = otlp.traces(otlp.span("a span")).SerializeToString()


class Peer:
    """One connection of the server's side.

    Attributes:
        messages: requests that have come, each with its prefix of five bytes.
        headers: of each request.
        answer: called with the stream of a request that has come whole; returns the bytes to be written.
    """

    def __init__(
        self, connection: socket.socket, settings: dict[int, int], answer: Answer, step: int
    ) -> None:
        self.messages: list[bytes] = []
        self.headers: list[list[tuple[str, str]]] = []
        self.encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._connection = connection
        self._settings = settings
        self._answer = answer
        self._step = step

    def serve(self) -> None:
        """Read until the other side has closed."""
        with self._connection.makefile("rb") as reader:
            self._serve(reader)

    def _serve(self, reader: BinaryIO) -> None:
        assert MAGIC == reader.read(len(MAGIC))
        self.write(SettingsFrame(0, settings=self._settings).serialize())
        bodies: dict[int, bytes] = defaultdict(bytes)
        while head := reader.read(9):
            frame, length = Frame.parse_frame_header(memoryview(head))
            frame.parse_body(memoryview(reader.read(length)))
            if isinstance(frame, SettingsFrame) and "ACK" in frame.flags:
                table_bytes = self._settings.get(SettingsFrame.HEADER_TABLE_SIZE, 4096)
                self._decoder.max_allowed_table_size = table_bytes
            elif isinstance(frame, HeadersFrame):
                self.headers.append(list(self._decoder.decode(frame.data)))
            elif isinstance(frame, DataFrame):
                bodies[frame.stream_id] += frame.data
                for stream in (0, frame.stream_id):
                    self.write(WindowUpdateFrame(stream, window_increment=length).serialize())
                if "END_STREAM" in frame.flags:
                    self.messages.append(bodies.pop(frame.stream_id))
                    self.write(self._answer(self, frame.stream_id))

    def write(self, data: bytes) -> None:
        """Write in pieces of step bytes; 0: at once."""
        for start in range(0, len(data), self._step or max(1, len(data))):
            self._connection.sendall(data[start : start + (self._step or len(data))])

    def fields(self, fields: list[tuple[str, str]]) -> bytes:
        """Return a header block."""
        return bytes(self.encoder.encode(fields))


Answer = Callable[[Peer, int], bytes]


def plain(peer: Peer, stream: int) -> bytes:
    """Return an answer as servers write it."""
    return b"".join(
        (
            HeadersFrame(stream, peer.fields(HEADERS), flags=["END_HEADERS"]).serialize(),
            DataFrame(stream, MESSAGE).serialize(),
            HeadersFrame(stream, peer.fields(TRAILERS), flags=["END_HEADERS", "END_STREAM"]).serialize(),
        )
    )


def odd(peer: Peer, stream: int) -> bytes:
    """Return an answer with all that is allowed: padding, priority, continuations, a ping, an unknown frame."""
    headers, trailers = peer.fields(HEADERS), peer.fields(TRAILERS)
    middle = len(headers) // 2
    unknown = struct.pack(">I", 3 << 8 | 0x2A) + bytes(5) + b"abc"
    first = HeadersFrame(stream, headers[:middle], pad_length=7, flags=["PADDED", "PRIORITY"])
    return b"".join(
        (
            PingFrame(0, b"12345678").serialize(),
            unknown,
            first.serialize(),
            ContinuationFrame(stream, headers[middle:]).serialize(),
            ContinuationFrame(stream, b"", flags=["END_HEADERS"]).serialize(),
            DataFrame(stream, MESSAGE[:2], pad_length=200, flags=["PADDED"]).serialize(),
            DataFrame(stream, b"").serialize(),
            DataFrame(stream, MESSAGE[2:]).serialize(),
            HeadersFrame(stream, b"", flags=["END_STREAM"]).serialize(),
            ContinuationFrame(stream, trailers, flags=["END_HEADERS"]).serialize(),
            RstStreamFrame(stream, error_code=0).serialize(),
        )
    )


@contextlib.contextmanager
def serving(answer: Answer, settings: dict[int, int] | None = None, step: int = 0) -> Iterator[Served]:
    """Serve until the block ends."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        served = Served(f"127.0.0.1:{listener.getsockname()[1]}", [])

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    peer = Peer(connection, settings or {}, answer, step)
                    served.peers.append(peer)
                    thread = threading.Thread(target=serve, args=(peer, connection), daemon=True)
                    thread.start()
                    threads.append(thread)

        def serve(peer: Peer, connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                peer.serve()

        threads: list[threading.Thread] = []
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield served
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in [accepting, *threads]:
                thread.join()


class Served:
    """A server that runs."""

    def __init__(self, address: str, peers: list[Peer]) -> None:
        self.address = address
        self.peers = peers


@pytest.fixture
def bodies(tmp_path: Path) -> Path:
    """Requests of 40 KB: more than a frame, less than the first window."""
    return write_bodies(tmp_path / "bodies", [LARGE])


def run(address: str, bodies: Path, **choices: Any) -> tuple[int, dict[str, Any]]:
    """Run a load that may fail; return its exit code and what it says."""
    command = load_command(address, bodies, "--keep-ids", connections=1, **choices)
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, json.loads(result.stdout)


@pytest.mark.parametrize(
    ("settings", "request_bytes"),
    [
        ({}, LARGE),
        ({SettingsFrame.HEADER_TABLE_SIZE: 0}, SMALL),
        ({SettingsFrame.HEADER_TABLE_SIZE: 64}, SMALL),
        ({SettingsFrame.INITIAL_WINDOW_SIZE: 3}, SMALL),
        ({SettingsFrame.INITIAL_WINDOW_SIZE: 2_000}, LARGE),
        ({SettingsFrame.MAX_CONCURRENT_STREAMS: 2}, LARGE),
        ({SettingsFrame.MAX_FRAME_SIZE: 65_536, SettingsFrame.INITIAL_WINDOW_SIZE: 1 << 20}, LARGE),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else str(len(value)),
)
@pytest.mark.parametrize("answer", [plain, odd])
def test_every_peer_that_keeps_to_the_rules_is_sent_whole_requests(
    tmp_path: Path, answer: Answer, settings: dict[int, int], request_bytes: bytes
) -> None:
    """Whatever it asks for, and however its answers are cut: bodies and headers arrive as they are."""
    path = write_bodies(tmp_path / "bodies", [request_bytes])
    with serving(answer, settings) as served:
        sent = load(served.address, path, "--keep-ids", connections=1, streams=5, requests=20, timeout=60)
    assert (20, 0) == (sent["ok"], sent["failed"])
    messages = [message for peer in served.peers for message in peer.messages]
    assert [struct.pack(">BI", 0, len(request_bytes)) + request_bytes] * 20 == messages
    headers = [dict(each) for peer in served.peers for each in peer.headers]
    assert [headers[0]] * 20 == headers
    assert "application/grpc" == headers[0]["content-type"]
    assert "trailers" == headers[0]["te"]


def test_answers_may_come_byte_by_byte(bodies: Path) -> None:
    """A frame is read when it has come whole."""
    with serving(odd, step=1) as served:
        sent = load(served.address, bodies, connections=1, streams=3, requests=12)
    assert (12, 0) == (sent["ok"], sent["failed"])


def test_a_peer_that_says_goodbye_is_connected_to_anew(bodies: Path) -> None:
    """What it has answered counts; what comes next goes over another connection."""

    def leave(peer: Peer, stream: int) -> bytes:
        return plain(peer, stream) + GoAwayFrame(0, last_stream_id=stream).serialize()

    with serving(leave) as served:
        sent = load(served.address, bodies, connections=1, requests=4)
    assert (4, 0) == (sent["ok"], sent["failed"])
    assert 4 == len(served.peers)


def test_requests_that_a_leaving_peer_has_not_looked_at_have_failed(bodies: Path) -> None:
    """They are not waited for."""

    def leave(_peer: Peer, _stream: int) -> bytes:
        return GoAwayFrame(0, last_stream_id=0).serialize()

    with serving(leave) as served:
        code, sent = run(served.address, bodies, requests=2)
    assert (1, 2, 0) == (code, sent["failed"], sent["ok"])


def head(length: int, kind: int, flags: int, stream: int) -> bytes:
    """Return the head of a frame."""
    return struct.pack(">IBI", length << 8 | kind, flags, stream)


@pytest.mark.parametrize(
    "broken",
    [
        lambda stream: head(16_385, 0, 0, stream) + bytes(16_385),
        lambda stream: head(0xFFFFFF, 0, 0, stream),
        lambda stream: head(1, 0, 0x8, stream) + b"\x01",
        lambda stream: head(0, 0, 0x8, stream),
        lambda stream: head(3, 1, 0x24, stream) + b"abc",
        lambda stream: head(5, 1, 0x4, stream) + b"\xff\xff\xff\xff\xff",
        lambda stream: head(1, 1, 0, stream) + b"\x88" + DataFrame(stream, b"").serialize(),
        lambda stream: head(1, 9, 0x4, stream) + b"\x88",
        lambda stream: head(3, 3, 0, stream) + b"abc",
        lambda _: head(5, 4, 0, 0) + b"abcde",
        lambda _: SettingsFrame(0, settings={SettingsFrame.MAX_FRAME_SIZE: 3}).serialize(),
        lambda _: SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 1 << 31}).serialize(),
        lambda stream: head(6, 5, 0x4, stream) + b"\0\0\0\2\x88\x88",
        lambda _: head(3, 6, 0, 0) + b"abc",
        lambda _: head(3, 7, 0, 0) + b"abc",
        lambda _: head(3, 8, 0, 0) + b"abc",
        lambda _: 2 * WindowUpdateFrame(0, window_increment=(1 << 31) - 1).serialize(),
    ],
)
def test_a_broken_frame_ends_the_connection(bodies: Path, broken: Callable[[int], bytes]) -> None:
    """Its request has failed, at once and not by a timeout; the next one goes over another connection."""
    with serving(lambda _, stream: broken(stream)) as served:
        code, sent = run(served.address, bodies, requests=2, timeout=60)
    assert (1, 2, 0) == (code, sent["failed"], sent["ok"])
    assert sent["seconds"] < 10


def test_a_refused_stream_has_failed_and_the_connection_goes_on(bodies: Path) -> None:
    """Only its own request is lost."""

    def refuse(peer: Peer, stream: int) -> bytes:
        if len(peer.messages) == 1:
            return RstStreamFrame(stream, error_code=7).serialize()
        return plain(peer, stream)

    with serving(refuse) as served:
        sent = load(served.address, bodies, connections=1, requests=5)
    assert (4, 1) == (sent["ok"], sent["failed"])
    assert 1 == len(served.peers)
