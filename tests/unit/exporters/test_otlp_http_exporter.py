"""The HTTP exporter against the standard library's server."""

from __future__ import annotations

import gzip
import io
import json
import ssl
import threading
import zlib
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import zstandard
from google.rpc import status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.config.fields import Duration, Secret
from collector.exporterhelper.compression import CompressionParams
from collector.exporterhelper.queue import QueueConfig
from collector.exporterhelper.retry import RetryConfig
from collector.exporters.otlp_http import (
    Compression,
    Config,
    Encoding,
    OtlpHttp,
    parse_retry_after_s,
)
from collector.ids import Signal
from collector.native.codec import Codec
from collector.native.library import lib
from collector.native.pipeline import Receiver
from collector.native.runtime import Worker
from tests.unit.exporterhelper.support import (
    Recorder,
    logs,
    metrics,
    push,
    settings,
    traces,
    values,
    wait_until,
)

PROTOBUF = "application/x-protobuf"


class Server:
    """Keeps what it is sent and answers as told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bytes, dict[str, str]]] = []
        self.status = 200
        self.headers = {"Content-Type": PROTOBUF}
        self.body = b""
        self.connections = 0
        self.peers: list[dict[str, Any]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                owner.connections += 1
                if isinstance(self.request, ssl.SSLSocket):
                    try:
                        self.request.do_handshake()
                    except OSError:
                        self.rfile = io.BytesIO()  # nothing comes
                    owner.peers.append(self.request.getpeercert() or {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                sent = {name.lower(): value for name, value in self.headers.items()}
                owner.calls.append((self.path, body, sent))
                self.send_response(owner.status)
                for name, value in owner.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(owner.body)))
                self.end_headers()
                self.wfile.write(owner.body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS from the next connection on; `peers` are the certificates that clients show."""
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )

    def stop(self) -> None:
        """End the server and its threads."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A running server."""
    made = Server()
    yield made
    made.stop()


class Scene:
    """A started exporter."""

    def __init__(self, port: int, signal: Signal = Signal.TRACES, **keys: Any) -> None:
        self.recorder = Recorder()
        self.settings = settings(signal, self.recorder)
        keys.setdefault("retry_on_failure", RetryConfig(enabled=False))
        keys.setdefault("compression", Compression.NONE)
        self.exporter = OtlpHttp(Config(endpoint=f"http://127.0.0.1:{port}", **keys), self.settings)
        self.exporter.start()

    def deliver(self, *requests: bytes) -> dict[str, float]:
        """Push requests, shut down, return the samples by name."""
        push(self.exporter.consumer, self.settings.runtime, *requests)
        self.exporter.shutdown(20)
        return values(self.exporter.samples())


@pytest.mark.parametrize(
    ("signal", "request_bytes", "path"),
    [
        (Signal.TRACES, traces(), "/v1/traces"),
        (Signal.METRICS, metrics(), "/v1/metrics"),
        (Signal.LOGS, logs(), "/v1/logs"),
    ],
)
def test_each_signal_has_its_path(server: Server, signal: Signal, request_bytes: bytes, path: str) -> None:
    """The request arrives byte for byte, with our user agent and the configured headers."""
    tenant = "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n"
    Scene(server.port, signal, headers={"X-Tenant": Secret(tenant)}).deliver(request_bytes)
    ((called, body, headers),) = server.calls
    assert (called, body) == (path, request_bytes)
    assert headers["content-type"] == PROTOBUF
    assert headers["x-tenant"].encode("latin-1").decode() == tenant  # UTF-8; the server reads Latin-1
    assert headers["user-agent"].startswith("spansieve/")
    assert "content-encoding" not in headers


@pytest.mark.parametrize(
    ("compression", "decode"),
    [
        (Compression.GZIP, gzip.decompress),
        (Compression.ZSTD, lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body)),
        (Compression.ZLIB, zlib.decompress),
        (Compression.DEFLATE, zlib.decompress),
        # tests/interop has the Collector read these.
        (Compression.SNAPPY, lambda body: Codec().decompress("snappy", body, 1 << 20)),
        (Compression.SNAPPY_FRAMED, lambda body: Codec().decompress("x-snappy-framed", body, 1 << 20)),
        (Compression.LZ4, lambda body: Codec().decompress("lz4", body, 1 << 20)),
    ],
)
def test_body_is_compressed_as_its_header_says(server: Server, compression: Compression, decode: Any) -> None:
    """Other people's decoders read each Content-Encoding; deflate is RFC 1950, as HTTP means it."""
    request = traces(50)
    sampled = Scene(server.port, compression=compression).deliver(request)
    ((_, body, headers),) = server.calls
    assert decode(body) == request
    assert headers["content-encoding"] == compression.value
    assert sampled["spansieve_exporter_sent_bytes"] == len(body) < len(request)


def test_json_encoding(server: Server) -> None:
    """encoding: json sends OTLP/JSON."""
    Scene(server.port, encoding=Encoding.JSON).deliver(traces(2))
    ((_, body, headers),) = server.calls
    assert headers["content-type"] == "application/json"
    assert len(json.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 2


def test_connection_is_reused(server: Server) -> None:
    """Requests in a row need one connection."""
    made = Scene(server.port)
    for number in range(3):
        push(made.exporter.consumer, made.settings.runtime, traces())
        sent = number + 1
        wait_until(lambda: values(made.exporter.samples())["otelcol_exporter_sent_spans"] == sent)  # noqa: B023
    assert made.deliver()["otelcol_exporter_sent_spans"] == 3
    assert server.connections == 1


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_success(server: Server, status: int) -> None:
    """B21."""
    server.status = status
    assert Scene(server.port).deliver(traces(2))["otelcol_exporter_sent_spans"] == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 413, 500, 501, 302])
def test_other_statuses_are_permanent(server: Server, status: int) -> None:
    """B21: one attempt, although retry is on."""
    server.status = status
    made = Scene(server.port, retry_on_failure=RetryConfig())
    push(made.exporter.consumer, made.settings.runtime, traces(2))
    wait_until(lambda: values(made.exporter.samples())["otelcol_exporter_send_failed_spans"] == 2)
    made.exporter.shutdown(5)
    assert len(server.calls) == 1
    error = made.recorder.fields("Exporting failed. Dropping data.")["error"]
    assert f"responded with HTTP Status Code {status}" in error


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        ({}, "Basic dXNlcjpzM2MvcmV0"),
        ({"authorization": Secret("Bearer mine")}, "Bearer mine"),
    ],
)
def test_credentials_of_the_endpoint_are_sent_and_not_shown(
    server: Server, headers: dict[str, Secret], sent: str
) -> None:
    """As Go's client does, unless a header says otherwise; in an error they are not to be seen."""
    server.status = 401
    url = f"http://user:s3c%2Fret@127.0.0.1:{server.port}/in"
    made = Scene(server.port, traces_endpoint=url, headers=headers)
    made.deliver(traces())
    assert [sent] == [call[2]["authorization"] for call in server.calls]
    error = made.recorder.fields("Exporting failed. Dropping data.")["error"]
    assert f"request to http://***@127.0.0.1:{server.port}/in responded with" in error


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_overload_and_gateway_statuses_are_retried(server: Server, status: int) -> None:
    """B21: tried again until the server takes it."""
    server.status = status
    retry = RetryConfig(initial_interval=Duration(0.001), max_interval=Duration(0.002))
    made = Scene(server.port, retry_on_failure=retry)
    push(made.exporter.consumer, made.settings.runtime, traces())
    wait_until(lambda: len(server.calls) >= 2)
    server.status = 200
    wait_until(lambda: values(made.exporter.samples())["otelcol_exporter_sent_spans"] == 1)
    assert made.deliver()["otelcol_exporter_send_failed_spans"] == 0


@pytest.mark.parametrize(("status", "is_throttled"), [(429, True), (503, True), (502, False)])
def test_retry_after_is_honoured_on_429_and_503(server: Server, status: int, is_throttled: bool) -> None:
    """The wait is at least what the header asks for."""
    server.status = status
    server.headers["Retry-After"] = "3600"
    made = Scene(server.port, retry_on_failure=RetryConfig(max_elapsed_time=Duration(0.0)))
    push(made.exporter.consumer, made.settings.runtime, traces())
    event = "Exporting failed. Will retry the request after interval."
    wait_until(lambda: event in made.recorder.events())
    fields = made.recorder.fields(event)
    made.exporter.shutdown(5)
    assert (fields["interval_s"] == 3600.0) is is_throttled
    assert fields["error"].startswith("Throttle (3600s), error: ") is is_throttled


def test_retry_after_forms() -> None:
    """Seconds, a date, or nothing that can be read."""
    now = 1_700_000_000.0
    assert parse_retry_after_s(None, now) is None
    assert parse_retry_after_s(" 17 ", now) == 17
    assert parse_retry_after_s(formatdate(now + 90, usegmt=True), now) == 90
    assert parse_retry_after_s(formatdate(now - 90, usegmt=True), now) == 0
    far = "Mon, 01 Jan 2001 00:00:00 +" + "9" * 20
    for text in ("soon", "-5", "1.5", "", "9" * 50, far):
        assert parse_retry_after_s(text, now) is None


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", b"<html>"),
        ("application/json", b"garbage"),
        ("application/json", b"[]"),
        ("application/json", b'{"partialSuccess":{"rejectedSpans":"many"}}'),
        ("application/json", b'{"partialSuccess":{"rejectedSpans":Infinity}}'),
        ("application/json", b"[" * 60_000),
        (PROTOBUF, b"\xff\xff"),
        (PROTOBUF, b""),
        ("application/json", b""),
    ],
)
def test_2xx_with_an_unreadable_body_is_success(server: Server, content_type: str, body: bytes) -> None:
    """B27: the server has the data; sending it again would double it."""
    server.headers["Content-Type"] = content_type
    server.body = body
    sampled = Scene(server.port, retry_on_failure=RetryConfig()).deliver(traces(2))
    assert (sampled["otelcol_exporter_sent_spans"], len(server.calls)) == (2, 1)


def _partial_success() -> bytes:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 3
    response.partial_success.error_message = "x"
    return bytes(response.SerializeToString())


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (PROTOBUF, _partial_success()),
        ("application/json", b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}'),
        ("application/json", b'{"partialSuccess":{"rejectedSpans":3,"errorMessage":"x"}}'),
    ],
)
def test_partial_success_is_success(server: Server, content_type: str, body: bytes) -> None:
    """B29."""
    server.headers["Content-Type"] = content_type
    server.body = body
    made = Scene(server.port, retry_on_failure=RetryConfig())
    sampled = made.deliver(traces(10))
    assert sampled["otelcol_exporter_sent_spans"] == 10
    assert sampled["spansieve_exporter_rejected_items"] == 3
    assert made.recorder.fields("Partial success response") == {"message": "x", "dropped_spans": 3}


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (PROTOBUF, bytes(status_pb2.Status(code=3, message="bad span").SerializeToString())),
        ("application/json; charset=utf-8", b'{"code":3,"message":"bad span"}'),
        ("text/plain", b"bad span\n"),
    ],
)
def test_error_message_of_the_server_is_shown(server: Server, content_type: str, body: bytes) -> None:
    """The google.rpc.Status in either encoding, or the beginning of any other body."""
    server.status, server.body = 400, body
    server.headers["Content-Type"] = content_type
    made = Scene(server.port)
    made.deliver(traces())
    (error,) = (fields["error"] for _, fields in made.recorder.records if "error" in fields)
    assert error.endswith("responded with HTTP Status Code 400, Message=bad span")


def test_huge_response_is_not_read(server: Server) -> None:
    """64 KiB of a response are enough."""
    server.body = b"x" * 1_000_000
    assert Scene(server.port).deliver(traces())["otelcol_exporter_sent_spans"] == 1


def test_unreachable_server_is_retryable(server: Server) -> None:
    """A network error is worth another attempt; it names the URL and the reason."""
    server.stop()
    made = Scene(server.port)
    made.deliver(traces())
    fields = made.recorder.records[0][1]
    url = f"http://127.0.0.1:{server.port}/v1/traces"
    assert f'failed to make an HTTP request: Post "{url}": Connection refused' in fields["error"]
    assert "retry_on_failure" in made.recorder.events()[0]


def test_signal_endpoints_are_used_as_they_are() -> None:
    """A signal's own URL wins and gets nothing added."""
    config = Config(endpoint="http://h:4318/base/", logs_endpoint="http://h/intake")
    assert config.url(Signal.TRACES) == "http://h:4318/base/v1/traces"
    assert config.url(Signal.LOGS) == "http://h/intake"


def test_signal_without_an_endpoint_is_told() -> None:
    """The other signal's endpoint is none for this one."""
    config = Config(logs_endpoint="http://h/intake")
    assert not list(config.problems_for(Signal.LOGS))
    assert list(config.problems_for(Signal.TRACES)) == [
        ("endpoint", "either endpoint or traces_endpoint must be set")
    ]


def test_problems_hide_credentials() -> None:
    """Of a URL that is none, too."""
    for url in ("ftp://u:s3cret@h", "http://u:s3cret@h:70000", "http://u:s3/cret@h"):
        [(_, message)] = Config(endpoint=url).problems()
        assert "s3" not in message


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        (Config(), ["endpoint"]),
        (Config(endpoint="h:4318"), ["endpoint"]),
        (Config(endpoint="http://"), ["endpoint"]),
        (Config(endpoint="https://"), ["endpoint"]),
        (Config(traces_endpoint="ftp://h"), ["traces_endpoint"]),
        (Config(endpoint="https://h"), []),
        (Config(endpoint="http://h:4318"), []),
        (Config(endpoint="http://h:4318", headers={"Key": Secret("a\n")}), ["headers::Key"]),
        (
            Config(
                endpoint="http://h:4318",
                compression=Compression.SNAPPY,
                compression_params=CompressionParams(level=3),
            ),
            ["compression_params"],
        ),
        (Config(endpoint="http://b c"), ["endpoint"]),
        (Config(endpoint="http://[::1"), ["endpoint"]),
        (Config(endpoint="http://::1:4318"), ["endpoint"]),
        (Config(endpoint="http://b:70000"), ["endpoint"]),
        (Config(endpoint="http://[::1]:4318/base?x=1"), []),
        (Config(endpoint="http://user:word@b:4318"), []),
    ],
)
def test_problems_name_the_key(config: Config, fields: list[str]) -> None:
    """What cannot work is said before anything starts."""
    assert [field for field, _ in config.problems()] == fields


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (200, {}, (0, None)),
        (400, {}, (3, None)),
        (401, {}, (16, None)),
        (403, {}, (7, None)),
        (404, {}, (12, None)),
        (429, {}, (8, None)),
        (429, {"Retry-After": "7"}, (8, 7000)),
        (500, {}, (2, None)),
        (502, {"Retry-After": "7"}, (14, None)),
        (503, {"Retry-After": "0"}, (14, 0)),
        (504, {}, (14, None)),
    ],
)
def test_client_without_a_queue_is_told_the_status(
    server: Server, status: int, headers: dict[str, str], expected: tuple[int, int | None]
) -> None:
    """B19: without a sending queue the backend's answer is the client's."""
    server.status = status
    server.headers |= headers
    scene = Scene(server.port, sending_queue=QueueConfig(enabled=False))
    runtime = scene.settings.runtime
    receiver = Receiver(runtime)
    receiver.publish(Signal.TRACES, scene.exporter.consumer)
    worker = Worker(runtime)
    verdict = receiver.accept(worker, Signal.TRACES, lib.SS_TRANSPORT_GRPC, lib.SS_PAYLOAD_PROTOBUF, traces())
    receiver.publish(Signal.TRACES, None)
    scene.exporter.shutdown(1.0)
    assert expected == (verdict.code, verdict.retry_delay_ms)
