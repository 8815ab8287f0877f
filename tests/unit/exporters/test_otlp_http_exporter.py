"""The HTTP exporter against the standard library's server."""

from __future__ import annotations

import base64
import gzip
import io
import json
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
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
from collector.exporters.otlp_http import (
    Compression,
    Config,
    Encoding,
    OtlpHttp,
    Retry,
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
        self.decide: Callable[[str, dict[str, str]], int] = lambda path, headers: self.status
        """The status for a request of this path with these headers; 0 closes the connection."""
        self.keep: Callable[[list[tuple[str, str]]], None] = lambda lines: None
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
                owner.keep(self.headers.items())
                owner.calls.append((self.path, body, sent))
                status = owner.decide(self.path, sent)
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
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
        keys.setdefault("retry_on_failure", Retry(enabled=False))
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
    made = Scene(server.port, retry_on_failure=Retry())
    push(made.exporter.consumer, made.settings.runtime, traces(2))
    wait_until(lambda: values(made.exporter.samples())["otelcol_exporter_send_failed_spans"] == 2)
    made.exporter.shutdown(5)
    assert len(server.calls) == 1
    error = made.recorder.fields("Exporting failed. Dropping data.")["error"]
    assert f"responded with HTTP Status Code {status}" in error


QUICKLY = {"initial_interval": Duration(0.001), "max_interval": Duration(0.001)}


def _encodings(server: Server) -> list[str]:
    return [headers.get("content-encoding", "") for _, _, headers in server.calls]


@pytest.mark.parametrize("status", [415, 400, 403, 404, 500, 501, 502, 503, 504, 0])
@pytest.mark.parametrize("known", [{"", "gzip"}, {""}], ids=["gzip", "none"])
@pytest.mark.parametrize(
    "compression", [Compression.GZIP, Compression.ZSTD, Compression.SNAPPY, Compression.LZ4]
)
def test_a_compression_that_was_never_taken_is_given_up_for_any_failure(
    server: Server, compression: Compression, known: set[str], status: int
) -> None:
    """Nothing is lost, however the server fails what it does not know; and it is found out once."""
    if compression.value in known:
        return
    server.decide = lambda path, headers: 200 if headers.get("content-encoding", "") in known else status
    made = Scene(server.port, compression=compression, retry_on_failure=Retry(**QUICKLY))
    for number in range(1, 5):
        push(made.exporter.consumer, made.settings.runtime, traces())
        wait_until(lambda: values(made.exporter.samples())["otelcol_exporter_sent_spans"] == number)  # noqa: B023
    assert made.deliver()["otelcol_exporter_send_failed_spans"] == 0
    accepted = "gzip" if "gzip" in known else "none"
    fields = made.recorder.fields("compression not supported by the server")
    assert fields == {"refused": compression.value, "using": accepted}
    assert _encodings(server)[-2:] == [accepted.removeprefix("none")] * 2
    bodies = {gzip.decompress(body) if accepted == "gzip" else body for _, body, _ in server.calls[-2:]}
    assert bodies == {traces()}


def test_level_and_json_of_a_compression_that_is_given_up(server: Server) -> None:
    """zstd has levels that gzip has not; and JSON waits in the queue as what it is made of."""
    server.decide = lambda path, headers: 400 if headers["content-encoding"] == "zstd" else 200
    params = CompressionParams(level=11)
    made = Scene(server.port, compression=Compression.ZSTD, compression_params=params, encoding=Encoding.JSON)
    assert made.deliver(*[traces()] * 4)["otelcol_exporter_sent_spans"] == 4
    assert "resourceSpans" in json.loads(gzip.decompress(server.calls[-1][1]))
    made = Scene(server.port, compression=Compression.ZSTD, compression_params=params)
    assert made.deliver(*[traces()] * 4)["otelcol_exporter_sent_spans"] == 4


def test_throttling_is_not_about_the_compression(server: Server) -> None:
    """429 and Retry-After ask for patience: the same request is sent again."""
    server.headers["Retry-After"] = "0"
    statuses = [429, 503, 429, 200]
    server.decide = lambda path, headers: statuses[len(server.calls) - 1]
    made = Scene(server.port, compression=Compression.ZSTD, retry_on_failure=Retry(**QUICKLY))
    push(made.exporter.consumer, made.settings.runtime, traces())
    wait_until(lambda: len(server.calls) == 4)
    made.exporter.shutdown(20)
    assert _encodings(server) == ["zstd"] * 4


def test_missing_path_is_asked_for_without_compression_once(server: Server) -> None:
    """404 for plain requests too: the first is made twice, the others once."""
    server.status = 404
    made = Scene(server.port, compression=Compression.GZIP, sending_queue=QueueConfig(num_consumers=1))
    assert made.deliver(*[traces()] * 5)["otelcol_exporter_send_failed_spans"] == 5
    assert _encodings(server) == ["gzip", "", "gzip", "gzip", "gzip", "gzip"]


def test_statuses_to_retry_are_a_key(server: Server) -> None:
    """500 is tried again where it is listed, and 503 is not where it is not."""
    statuses = [500, 500, 503]
    server.decide = lambda path, headers: statuses[len(server.calls) - 1]
    made = Scene(server.port, retry_on_failure=Retry(retryable_statuses=(500,), **QUICKLY))
    push(made.exporter.consumer, made.settings.runtime, traces())
    wait_until(lambda: values(made.exporter.samples())["otelcol_exporter_send_failed_spans"] == 1)
    made.exporter.shutdown(20)
    assert len(server.calls) == 3


@pytest.mark.parametrize("status", [307, 308])
def test_redirect_is_followed_with_the_body(server: Server, status: int) -> None:
    """To the same server: with all headers; and it is told where the endpoint leads, once."""
    server.headers["Location"] = "/tenant/v1/traces"
    server.decide = lambda path, headers: status if path == "/v1/traces" else 200
    made = Scene(server.port, compression=Compression.GZIP, headers={"X-Key": Secret("s3cret")})
    assert made.deliver(traces(2), traces(3))["otelcol_exporter_sent_spans"] == 5
    taken = [call for call in server.calls if call[0] == "/tenant/v1/traces"]
    assert {len(gzip.decompress(body)) for _, body, _ in taken} == {len(traces(2)), len(traces(3))}
    assert {(sent["x-key"], sent["content-encoding"], sent["content-type"]) for _, _, sent in taken} == {
        ("s3cret", "gzip", PROTOBUF)
    }
    event = "the endpoint redirects each request; set it to where it leads"
    assert made.recorder.events().count(event) == 1
    assert made.recorder.fields(event)["leads_to"] == f"http://127.0.0.1:{server.port}/tenant/v1/traces"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_redirect_to_another_server_carries_no_credentials(server: Server, host: str) -> None:
    """Another port or another name is another server: it gets the data and none of the configured headers."""
    other = Server()
    server.status = 307
    server.headers["Location"] = f"http://{host}:{other.port}/intake"
    headers = {
        "Authorization": Secret("Bearer x"),
        "X-Key": Secret("x"),
        "Cookie": Secret("x"),
        "Host": Secret("b"),
    }
    made = Scene(server.port, headers=headers, compression=Compression.GZIP)
    sampled = made.deliver(traces(2))
    other.stop()
    assert sampled["otelcol_exporter_sent_spans"] == 2
    ((path, body, sent),) = other.calls
    assert ("/intake", traces(2)) == (path, gzip.decompress(body))
    assert not {"authorization", "x-key", "cookie"} & sent.keys()
    assert sent["host"] == f"{host}:{other.port}"
    assert server.calls[0][2]["host"] == "b"


@pytest.mark.parametrize(
    ("status", "location", "text"),
    [
        (301, "/v2/traces", "followed without the data; set the endpoint to where it leads"),
        (302, "https://sso.example/login", "Location=https://sso.example/login: "),
        (303, "/seen", "followed without the data"),
        (307, "ftp://files", "no http:// or https:// URL"),
        (307, "http://[bad", "it is no URL"),
        (308, "/v1/traces", "stopped after 10 redirects"),
    ],
)
def test_redirect_that_is_not_followed_names_its_place(
    server: Server, status: int, location: str, text: str
) -> None:
    """What cannot be followed with the body is lost, and the log says what to set."""
    server.status = status
    server.headers["Location"] = location
    made = Scene(server.port)
    assert made.deliver(traces(2))["otelcol_exporter_send_failed_spans"] == 2
    error = made.recorder.fields("Exporting failed. Dropping data.")["error"]
    assert f"HTTP Status Code {status}, Location=" in error
    assert text in error
    assert len(server.calls) == (11 if "10" in text else 1)


def test_each_header_is_sent_once(server: Server) -> None:
    """Names mean the same in any case, the last one counts; what describes the body is ours to say."""
    headers = {
        "user-agent": "mine", "content-type": "application/vnd.otlp", "content-encoding": "br", "x-a": "1", "X-A": "2",
        "content-length": "3", "Transfer-Encoding": "chunked", "accept-encoding": "gzip",
    }  # fmt: skip
    lines: list[tuple[str, str]] = []
    server.decide = lambda path, sent: 200
    server.keep = lines.extend
    secrets = {name: Secret(value) for name, value in headers.items()}
    made = Scene(server.port, headers=secrets, compression=Compression.GZIP)
    assert made.deliver(traces(2))["otelcol_exporter_sent_spans"] == 2
    names = [name.lower() for name, _ in lines]
    assert sorted(set(names)) == sorted(names)
    sent = {name.lower(): value for name, value in lines}
    assert ("mine", "application/vnd.otlp", "gzip", "2", "gzip") == (
        sent["user-agent"], sent["content-type"], sent["content-encoding"], sent["x-a"], sent["accept-encoding"],
    )  # fmt: skip
    assert "transfer-encoding" not in sent


def test_user_and_password_of_the_endpoint(server: Server) -> None:
    """They are sent as Go's client sends them, and appear in no text."""
    server.status = 400
    recorder = Recorder()
    config = Config(
        endpoint=f"http://ann:s%40me@127.0.0.1:{server.port}",
        compression=Compression.NONE,
        retry_on_failure=Retry(enabled=False),
    )
    made = settings(Signal.TRACES, recorder)
    exporter = OtlpHttp(config, made)
    exporter.start()
    push(exporter.consumer, made.runtime, traces())
    exporter.shutdown(20)
    assert server.calls[0][2]["authorization"] == "Basic " + base64.b64encode(b"ann:s@me").decode()
    assert f"request to http://127.0.0.1:{server.port}/v1/traces responded" in recorder.text
    assert "ann" not in recorder.text


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_overload_and_gateway_statuses_are_retried(server: Server, status: int) -> None:
    """B21: tried again until the server takes it."""
    server.status = status
    retry = Retry(initial_interval=Duration(0.001), max_interval=Duration(0.002))
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
    made = Scene(server.port, retry_on_failure=Retry(max_elapsed_time=Duration(0.0)))
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
        ("", b"ok"),
        ("application/json", b"{}"),
        ("application/json", b"null"),
        ("application/json", b'{"status":"ok"}'),
        ("application/json", b'{"partialSuccess":null}'),
        ("application/json", b'{"partialSuccess":{"rejectedSpans":null}}'),
        (PROTOBUF, b""),
        ("application/json", b""),
    ],
)
def test_2xx_with_an_answer_of_another_kind_or_an_empty_one_is_success(
    server: Server, content_type: str, body: bytes
) -> None:
    """B27: what does not claim to be OTLP says nothing about the data."""
    server.headers["Content-Type"] = content_type
    server.body = body
    sampled = Scene(server.port, retry_on_failure=Retry()).deliver(traces(2))
    assert (sampled["otelcol_exporter_sent_spans"], len(server.calls)) == (2, 1)


@pytest.mark.parametrize(
    ("content_type", "content_encoding", "body", "text"),
    [
        ("application/json", "", b"garbage", "no Export*ServiceResponse in application/json"),
        ("application/json; charset=utf-8", "", b"[]", "no Export*ServiceResponse"),
        ("application/json", "", b'{"partialSuccess":{"rejectedSpans":"many"}}', "no Export*ServiceResponse"),
        (
            "application/json",
            "",
            b'{"partialSuccess":{"rejectedSpans":Infinity}}',
            "no Export*ServiceResponse",
        ),
        ("application/json", "", b'{"partialSuccess":[1]}', "no Export*ServiceResponse"),
        ("application/json", "", b"[" * 60_000, "no Export*ServiceResponse"),
        (PROTOBUF, "", b"\xff\xff", "no Export*ServiceResponse in application/x-protobuf"),
        (PROTOBUF, "", b"\x0a" * 70_000, "larger than 64 KiB"),
        (PROTOBUF, "gzip", gzip.compress(bytes(1 << 20)), "larger than 64 KiB after decompression"),
        (PROTOBUF, "gzip", b"no gzip", "cannot be decompressed as gzip"),
        (PROTOBUF, "br", b"x", "Content-Encoding 'br' is not known here"),
    ],
)
def test_2xx_with_an_unreadable_otlp_answer_is_no_success(
    server: Server, content_type: str, content_encoding: str, body: bytes, text: str
) -> None:
    """Nor is it sent again: the server may have the data."""
    server.headers |= {"Content-Type": content_type, "Content-Encoding": content_encoding}
    server.body = body
    made = Scene(server.port, retry_on_failure=Retry())
    sampled = made.deliver(traces(2))
    assert (sampled["otelcol_exporter_send_failed_spans"], len(server.calls)) == (2, 1)
    assert text in made.recorder.fields("Exporting failed. Dropping data.")["error"]


def _partial_success() -> bytes:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 3
    response.partial_success.error_message = "x"
    return bytes(response.SerializeToString())


JSON_PARTIAL_SUCCESS = b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}'


@pytest.mark.parametrize(
    ("content_type", "content_encoding", "body"),
    [
        (PROTOBUF, "", _partial_success()),
        ("application/json", "", JSON_PARTIAL_SUCCESS),
        ("application/json; charset=utf-8", "identity", JSON_PARTIAL_SUCCESS),
        ("application/json", "", b'{"partialSuccess":{"rejectedSpans":3,"errorMessage":"x"}}'),
        (PROTOBUF, "gzip", gzip.compress(_partial_success())),
        ("application/json", "X-GZIP", gzip.compress(JSON_PARTIAL_SUCCESS)),
        (PROTOBUF, "zstd", zstandard.ZstdCompressor().compress(_partial_success())),
        (PROTOBUF, "deflate", zlib.compress(_partial_success())),
    ],
)
def test_partial_success_is_success(
    server: Server, content_type: str, content_encoding: str, body: bytes
) -> None:
    """B29, whatever the answer is compressed with."""
    server.headers |= {"Content-Type": content_type, "Content-Encoding": content_encoding}
    server.body = body
    made = Scene(server.port, retry_on_failure=Retry())
    sampled = made.deliver(traces(10))
    assert sampled["otelcol_exporter_sent_spans"] == 10
    assert sampled["spansieve_exporter_rejected_items"] == 3
    assert made.recorder.fields("Partial success response") == {"message": "x", "dropped_spans": 3}


STATUS = bytes(status_pb2.Status(code=3, message="bad span").SerializeToString())


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        (PROTOBUF, STATUS, "bad span"),
        ("application/json; charset=utf-8", b'{"code":3,"message":"bad span"}', "bad span"),
        ("text/plain", b"bad span\n", "bad span"),
        ("", STATUS, "bad span"),
        ("text/plain", STATUS, "bad span"),
        ("application/octet-stream", STATUS, "bad span"),
        ("", b'{"code":3,"message":"bad span"}', "bad span"),
        (PROTOBUF, b"bad span", "bad span"),
        ("application/json", b"bad span", "bad span"),
        ("", b"{bad span", "{bad span"),
        ("", b"\x00\x01\x02", "3 bytes that are neither text nor a google.rpc.Status"),
    ],
)
def test_error_message_of_the_server_is_shown(
    server: Server, content_type: str, body: bytes, message: str
) -> None:
    """The google.rpc.Status in either encoding, or the beginning of any other text, whatever its type says."""
    server.status, server.body = 400, body
    server.headers["Content-Type"] = content_type
    made = Scene(server.port)
    made.deliver(traces())
    (error,) = (fields["error"] for _, fields in made.recorder.records if "error" in fields)
    assert error.endswith(f"responded with HTTP Status Code 400, Message={message}")


def test_compressed_error_message_is_shown(server: Server) -> None:
    """Errors too are read by their own Content-Encoding."""
    server.status, server.body = 400, gzip.compress(STATUS)
    server.headers["Content-Encoding"] = "gzip"
    made = Scene(server.port)
    made.deliver(traces())
    assert "Code 400, Message=bad span" in made.recorder.text


def test_huge_response_is_not_read(server: Server) -> None:
    """64 KiB of a response are enough."""
    server.body = b"x" * 1_000_000
    server.headers["Content-Type"] = "text/plain"
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
    for url in (
        "ftp://u:s3cret@h",
        "http://u:s3cret@h:70000",
        "http://u:s3/cret@h",
        "u:s3cret@h:4318",
        "http:/u:s3@h",
    ):
        [(_, message)] = Config(endpoint=url).problems_in_use()
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
    assert [field for field, _ in (*config.problems(), *config.problems_in_use())] == fields


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
