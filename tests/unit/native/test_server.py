"""The native server, with grpcio and the standard library as independent clients."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import select
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
import zstandard

from collector.errors import NativeError
from collector.ids import Signal
from collector.native.library import ffi, lib
from collector.native.pipeline import Discard, Receiver
from collector.native.runtime import Runtime
from collector.native.server import Listener, Server

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MESSAGE = b"\x0a\x00" * 4000


class Taken:
    """Records what is accepted, and answers with a verdict."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, int, int, bytes]] = []
        self.verdict: dict[str, Any] = {}
        self.callback = ffi.callback(
            "void(void *, ss_worker *, const ss_request *, ss_verdict *)", self._accept
        )

    def _accept(self, _receiver: Any, _worker: Any, request: Any, verdict: Any) -> None:
        message = bytes(ffi.buffer(request.bytes, request.length))
        self.messages.append((request.signal, request.transport, request.payload, message))
        for field, value in self.verdict.items():
            setattr(verdict, field, value)


class Running:
    """A server with one listener of each kind, and what it takes."""

    def __init__(self) -> None:
        self.sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in ("grpc", "http", "admin")}
        self.taken = Taken()
        self.runtime = Runtime()
        self.receiver = Receiver(self.runtime)
        self.receiver.publish(Signal.TRACES, Discard(Signal.TRACES))
        self.server = self.serve()

    def serve(self) -> Server:
        """Return one more server on the same sockets."""
        return Server(
            self.runtime,
            [
                Listener(fd=self.sockets["grpc"].fileno(), protocol="grpc", max_message_bytes=100_000),
                Listener(
                    fd=self.sockets["http"].fileno(),
                    protocol="http",
                    paths=("/custom/traces", "/v1/metrics", "/v1/logs"),
                ),
                Listener(fd=self.sockets["admin"].fileno(), protocol="http", is_admin=True),
            ],
            self.receiver,
            event_loops=2,
            accept=self.taken.callback,
        )

    def port(self, name: str) -> int:
        """The port of the listener."""
        return int(self.sockets[name].getsockname()[1])

    def channel(self, compression: grpc.Compression = grpc.Compression.NoCompression) -> grpc.Channel:
        """A client's channel to the gRPC listener."""
        return grpc.insecure_channel(f"127.0.0.1:{self.port('grpc')}", compression=compression)

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Send one request to the HTTP listener; return status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port("http"), timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()


@pytest.fixture
def running() -> Iterator[Running]:
    """A running server, shut down at the end."""
    running = Running()
    yield running
    assert running.server.shutdown(10)
    for listening in running.sockets.values():
        listening.close()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_grpcio_exports(running: Running, compression: grpc.Compression) -> None:
    """grpcio's calls arrive whole, plain and compressed, and are answered with an empty response."""
    with running.channel(compression) as channel:
        export = channel.unary_unary(EXPORT)
        for _ in range(20):
            assert export(MESSAGE, timeout=60) == b""
    assert (
        running.taken.messages
        == [(lib.SS_SIGNAL_TRACES, lib.SS_TRANSPORT_GRPC, lib.SS_PAYLOAD_PROTOBUF, MESSAGE)] * 20
    )
    stats = running.server.stats()
    assert (stats.requests, stats.protocol_errors) == (20, 0)


def test_grpcio_calls_at_once(running: Running) -> None:
    """Calls that are open at once on one connection are all answered."""
    with running.channel() as channel:
        export = channel.unary_unary(EXPORT)
        calls = [export.future(bytes([i]) * 3000, timeout=60) for i in range(100)]
        assert all(call.result() == b"" for call in calls)
    assert sorted(message[3][0] for message in running.taken.messages) == list(range(100))


@pytest.mark.parametrize(
    ("path", "body", "code", "details"),
    [
        (
            EXPORT,
            b"x" * 100_001,
            "RESOURCE_EXHAUSTED",
            "received message larger than max (100001 vs. 100000)",
        ),
        ("/grpc.health.v1.Health/Check", b"", "UNIMPLEMENTED", "unknown service grpc.health.v1.Health"),
        (EXPORT.replace("Export", "Import"), b"", "UNIMPLEMENTED", "unknown method Import for service"),
        (EXPORT.replace("trace", "logs").replace("Trace", "Logs"), b"", "UNIMPLEMENTED", "unknown service"),
    ],
)
def test_grpcio_sees_the_refusal(running: Running, path: str, body: bytes, code: str, details: str) -> None:
    """Refusals reach grpcio with status and text, and nothing is accepted."""
    with running.channel() as channel, pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary(path)(body, timeout=60)
    assert raised.value.code() is grpc.StatusCode[code]
    assert details in raised.value.details()
    assert running.taken.messages == []


def test_grpcio_sees_the_verdict(running: Running) -> None:
    """A refusal's code, text and RetryInfo reach grpcio, non-ASCII text included."""
    running.taken.verdict = {
        "code": lib.SS_CODE_UNAVAILABLE,
        "message": "voll: 100% belegt, später".encode(),
        "has_retry_delay": True,
        "retry_delay_ms": 2500,
    }
    with running.channel() as channel, pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary(EXPORT)(MESSAGE, timeout=60)
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert raised.value.details() == "voll: 100% belegt, später"
    trailers = dict(raised.value.trailing_metadata())
    assert b"google.rpc.RetryInfo" in trailers["grpc-status-details-bin"]


def test_http_bodies_arrive(running: Running) -> None:
    """JSON and protobuf, plain and compressed, arrive at a path of the configuration."""
    status, headers, body = running.post("/custom/traces", b"{}", Content_Type="application/json")
    assert (status, headers["Content-Type"], json.loads(body)) == (
        200,
        "application/json",
        {"partialSuccess": {}},
    )
    for encoding, packed in (("gzip", gzip.compress(MESSAGE)), ("zstd", zstandard.compress(MESSAGE))):
        status, headers, body = running.post(
            "/custom/traces", packed, Content_Type="application/x-protobuf", Content_Encoding=encoding
        )
        assert (status, headers["Content-Type"], body) == (200, "application/x-protobuf", b"")
    payloads = [(message[2], message[3]) for message in running.taken.messages]
    assert payloads == [(lib.SS_PAYLOAD_JSON, b"{}")] + [(lib.SS_PAYLOAD_PROTOBUF, MESSAGE)] * 2


def test_http_refusals_have_their_status(running: Running) -> None:
    """An unknown path, a wrong type and a refused request have the Collector's answers."""
    assert running.post("/v1/traces", b"", Content_Type="application/json")[0] == 404
    assert running.post("/custom/traces", b"", Content_Type="text/plain")[0] == 415
    running.taken.verdict = {
        "code": lib.SS_CODE_RESOURCE_EXHAUSTED,
        "message": b"full",
        "has_retry_delay": True,
        "retry_delay_ms": 7000,
    }
    status, headers, body = running.post("/custom/traces", b"{}", Content_Type="application/json")
    assert (status, headers["Retry-After"], json.loads(body)["message"]) == (429, "7", "full")


def test_admin_request_is_answered_by_python(running: Running) -> None:
    """A request waits until Python replies under its token."""
    connection = http.client.HTTPConnection("127.0.0.1", running.port("admin"), timeout=60)
    with contextlib.closing(connection):
        assert running.server.next_request() is None
        connection.request("GET", "/metrics?name=x")
        assert select.select([running.server.request_fd], [], [], 20)[0]
        request = running.server.next_request()
        assert request is not None
        assert request[1:] == ("GET", "/metrics", "name=x")
        running.server.reply(request.token, 200, "text/plain", b"up 1\n")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"up 1\n")
        with pytest.raises(NativeError):
            running.server.reply(request.token, 200, "text/plain\r\nX: y", b"")


def test_reload_loses_no_call(running: Running) -> None:
    """While a second server takes over the sockets, every call of an open channel succeeds."""
    with running.channel() as channel:
        export = channel.unary_unary(EXPORT)
        calls = [export.future(MESSAGE, timeout=60, wait_for_ready=True) for _ in range(50)]
        old, running.server = running.server, running.serve()
        assert old.shutdown(10)
        calls += [export.future(MESSAGE, timeout=60, wait_for_ready=True) for _ in range(50)]
        assert all(call.result() == b"" for call in calls)
    assert len(running.taken.messages) == 100


def test_unusable_listener_raises() -> None:
    """A file descriptor that is none is refused with a reason."""
    with pytest.raises(NativeError, match="file descriptor"):
        Server(Runtime(), [Listener(fd=-1, protocol="http", is_admin=True)])
