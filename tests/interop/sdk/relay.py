"""A relay between an SDK and its collector, which hands on every byte and reads the SDK's request headers."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from typing import Self

import hpack
from hyperframe.frame import ContinuationFrame, Frame, HeadersFrame

from tests.conformance.peers import PREFACE, Address

Headers = dict[str, str]
_HEAD = re.compile(rb"POST (/\S*) HTTP/1\.1\r\n(.*?)\r\n\r\n", re.DOTALL)
_FRAME_HEADER = 9


class Relay:
    """Has a port of its own; `requests` is what was asked for, once the SDK is done.

    Args:
        is_open: whether it listens from the start; if not, connections are refused until `open`.

    Attributes:
        target: where the next connection leads.
    """

    def __init__(self, target: Address, *, is_open: bool = True) -> None:
        self.target = target
        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        self._streams: list[bytearray] = []
        self._threads: list[threading.Thread] = []
        if is_open:
            self.open()

    def open(self) -> None:
        """Take connections from now on."""
        self._listening.listen()
        self._threads.append(threading.Thread(target=self._accept))
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # close() alone would leave accept() waiting; nobody waits where `open` was never called.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()

    @property
    def address(self) -> Address:
        """Where SDKs connect."""
        host, port = self._listening.getsockname()
        return host, port

    def requests(self) -> list[Headers]:
        """Return the headers of each request, `:path` among them."""
        return [
            headers
            for stream in self._streams
            for headers in (_http2 if stream.startswith(PREFACE) else _http1)(bytes(stream))
        ]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self.target)
                stream = bytearray()
                self._streams.append(stream)
                for source, sink, record in ((near, far, stream), (far, near, bytearray())):
                    thread = threading.Thread(target=_pump, args=(source, sink, record))
                    self._threads.append(thread)
                    thread.start()


def _pump(source: socket.socket, sink: socket.socket, record: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            record += data
            sink.sendall(data)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    source.close()


def _http1(stream: bytes) -> list[Headers]:
    found = []
    for match in _HEAD.finditer(stream):
        headers = {":path": match[1].decode()}
        for line in match[2].decode("latin-1").split("\r\n"):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        found.append(headers)
    return found


def _http2(stream: bytes) -> list[Headers]:
    decoder = hpack.Decoder()
    found = []
    block = b""
    at = len(PREFACE)
    while at + _FRAME_HEADER <= len(stream):
        frame, length = Frame.parse_frame_header(memoryview(stream[at : at + _FRAME_HEADER]))
        at += _FRAME_HEADER
        if isinstance(frame, (HeadersFrame, ContinuationFrame)):
            frame.parse_body(memoryview(stream[at : at + length]))
            block += frame.data
            if "END_HEADERS" in frame.flags:
                found.append({str(name): str(value) for name, value in decoder.decode(block)})
                block = b""
        at += length
    return found
