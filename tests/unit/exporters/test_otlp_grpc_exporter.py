"""The gRPC exporter against grpcio servers: an independent implementation of the other side."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import suppress
from typing import Any, Self

import grpc
import h2.config
import h2.connection
import h2.events
import pytest
from google.protobuf.duration_pb2 import Duration as DurationMessage
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.config.fields import Duration, Secret
from collector.config.tls import TLSClient
from collector.errors import PermanentError, RetryableError
from collector.exporterhelper.compression import CompressionParams
from collector.exporters.otlp_grpc import (
    Compression,
    Config,
    OtlpGrpc,
    Retry,
    _failure,
    parse_endpoint,
)
from collector.ids import Signal
from collector.native.client import Client, ExportResult
from collector.native.codec import Codec
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

Answer = Callable[[bytes, grpc.ServicerContext], bytes]


class Server(grpc.GenericRpcHandler):
    """A grpcio server that keeps what it is sent, as bytes, and answers as told."""

    def __init__(self, *options: tuple[str, Any], credentials: grpc.ServerCredentials | None = None) -> None:
        self.calls: list[tuple[str, bytes, dict[str, Any]]] = []
        self.answer: Answer = lambda request, context: b""
        self.serves = True
        self._pool = futures.ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool, options=options)
        self._server.add_generic_rpc_handlers([self])
        if credentials is None:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Be grpcio's handler: any method, bytes in and out."""
        if not self.serves:
            return None

        def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.calls.append((details.method, request, dict(details.invocation_metadata)))
            return self.answer(request, context)

        return grpc.unary_unary_rpc_method_handler(handle)

    def stop(self) -> None:
        """End the server and its threads."""
        self._server.stop(None).wait()
        self._pool.shutdown()


@pytest.fixture
def server() -> Iterator[Server]:
    """A running server."""
    made = Server()
    yield made
    made.stop()


class Scene:
    """A started exporter that sends to a server."""

    def __init__(self, port: int, signal: Signal = Signal.TRACES, **keys: Any) -> None:
        self.recorder = Recorder()
        self.settings = settings(signal, self.recorder)
        keys.setdefault("retry_on_failure", Retry(enabled=False))
        config = Config(
            endpoint=f"127.0.0.1:{port}", tls=TLSClient(insecure=True), timeout=Duration(20.0), **keys
        )
        self.exporter = OtlpGrpc(config, self.settings)
        self.exporter.start()

    def push(self, *requests: bytes) -> None:
        """Push requests as a pipeline would."""
        push(self.exporter.consumer, self.settings.runtime, *requests)

    def values(self) -> dict[str, float]:
        """Return the exporter's samples by name."""
        return values(self.exporter.samples())


@pytest.fixture
def scene(server: Server) -> Iterator[Scene]:
    """An exporter of plain requests."""
    made = Scene(server.port, compression=Compression.NONE)
    yield made
    made.exporter.shutdown(5)


@pytest.mark.parametrize(
    ("signal", "request_bytes", "method"),
    [
        (Signal.TRACES, traces(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
        (Signal.METRICS, metrics(), "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"),
        (Signal.LOGS, logs(), "/opentelemetry.proto.collector.logs.v1.LogsService/Export"),
    ],
)
def test_each_signal_has_its_service(
    server: Server, signal: Signal, request_bytes: bytes, method: str
) -> None:
    """The request arrives byte for byte, with our user agent and the configured metadata."""
    made = Scene(server.port, signal, compression=Compression.NONE, headers={"X-Tenant": Secret("blue")})
    made.push(request_bytes)
    made.exporter.shutdown(20)
    ((called, received, metadata),) = server.calls
    assert (called, received) == (method, request_bytes)
    assert metadata["x-tenant"] == "blue"
    assert metadata["user-agent"].startswith("spansieve/")


def test_large_requests_flow(server: Server) -> None:
    """4 MiB through the peer's default windows, several at once."""
    made = Scene(server.port, compression=Compression.NONE)
    request = traces(4, "x" * 1_000_000)
    made.push(*[request] * 6)
    made.exporter.shutdown(30)
    assert [len(received) for _, received, _ in server.calls] == [len(request)] * 6
    assert made.values()["spansieve_exporter_sent_bytes"] > 6 * len(request)


def test_gzip_is_understood(server: Server) -> None:
    """grpcio decodes what we compress."""
    made = Scene(server.port, compression=Compression.GZIP)
    request = traces(100)
    made.push(request)
    made.exporter.shutdown(20)
    assert server.calls[0][1] == request
    sampled = made.values()
    assert sampled["spansieve_exporter_sent_bytes"] < len(request) / 2
    assert sampled["spansieve_exporter_uncompressed_bytes"] == len(request)


def test_snappy_over_grpc_is_framed() -> None:
    """The Collector and its kind read the framed format under this name, as gRPC's Go encoders write it."""
    sent: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            received = b""
            while b"sNaPpY" not in received and (more := connection.recv(65536)):
                received += more
            sent.append(received)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = threading.Thread(target=serve, args=(listener,))
        peer.start()
        made = Scene(listener.getsockname()[1], compression=Compression.SNAPPY)
        made.push(traces(3))
        peer.join(60)
    made.exporter.shutdown(5)
    frame = sent[0][sent[0].index(b"\xff\x06\0\0sNaPpY") :]
    assert traces(3) == Codec().decompress("x-snappy-framed", frame, 1 << 20)


def test_unknown_compression_falls_back_and_is_remembered(server: Server) -> None:
    """grpcio knows no zstd: the first request goes as gzip in the end, and so do all later ones at once."""
    made = Scene(server.port)
    made.push(traces(1, "a"))
    wait_until(lambda: made.values()["otelcol_exporter_sent_spans"] == 1)
    made.push(traces(1, "b"))
    wait_until(lambda: made.values()["otelcol_exporter_sent_spans"] == 2)
    made.exporter.shutdown(20)
    assert [request for _, request, _ in server.calls] == [traces(1, "a"), traces(1, "b")]
    fields = made.recorder.fields("compression not supported by the server")
    assert fields == {"refused": "zstd", "using": "gzip"}
    assert made.recorder.events().count("compression not supported by the server") == 1


class Peer:
    """A server of one's own making, which fails what comes in an encoding that it does not take.

    Args:
        takes: values of grpc-encoding.
        fail: what it does with others: a grpc-status with its text, the number of an HTTP/2 error to reset the stream
            with, a bare HTTP status as text, or None to close the connection.
        answer: message that follows a success, as it is on the wire, and its grpc-encoding.
    """

    def __init__(
        self,
        takes: set[str],
        fail: tuple[int, str] | int | str | None,
        answer: tuple[bytes, str] = (b"\0\0\0\0\0", "identity"),
    ) -> None:
        self.takes = takes
        self.fail = fail
        self.encodings: list[str] = []
        self.headers: list[list[tuple[str, str]]] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, socket_: socket.socket) -> None:
        server = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        server.initiate_connection()
        encodings: dict[int, str] = {}
        with socket_, suppress(OSError):
            socket_.sendall(server.data_to_send())
            while received := socket_.recv(65536):
                for event in server.receive_data(received):
                    if isinstance(event, h2.events.RequestReceived):
                        headers = [(str(name), str(value)) for name, value in event.headers]
                        self.headers.append(headers)
                        encodings[event.stream_id] = dict(headers).get("grpc-encoding", "identity")
                    elif isinstance(event, h2.events.StreamEnded):
                        self.encodings.append(encodings[event.stream_id])
                        if not self._reply(server, event.stream_id, encodings[event.stream_id]):
                            return
                socket_.sendall(server.data_to_send())

    def _reply(self, server: h2.connection.H2Connection, stream: int, encoding: str) -> bool:
        head = [(":status", "200"), ("content-type", "application/grpc")]
        if encoding in self.takes:
            message, name = self._answer
            server.send_headers(stream, [*head, ("grpc-encoding", name)])
            server.send_data(stream, message)
            server.send_headers(stream, [("grpc-status", "0")], end_stream=True)
        elif self.fail is None:
            return False
        elif isinstance(self.fail, int):
            server.reset_stream(stream, self.fail)
        elif isinstance(self.fail, str):
            server.send_headers(stream, [(":status", self.fail)], end_stream=True)
        else:
            code, text = self.fail
            server.send_headers(
                stream, [*head, ("grpc-status", str(code)), ("grpc-message", text)], end_stream=True
            )
        return True


RESET_INTERNAL = 2
FAILURES: dict[str, tuple[int, str] | int | str | None] = {
    "internal error: grpcio until 1.80": RESET_INTERNAL,
    "protocol error": 1,
    "INTERNAL: grpcio since 1.82": (13, "Error parsing 'grpc-encoding' metadata"),
    "UNIMPLEMENTED: Go, Java, Node": (12, "grpc: Decompressor is not installed for grpc-encoding"),
    "INVALID_ARGUMENT": (3, "no protobuf"),
    "UNKNOWN": (2, "exception in the handler"),
    "PERMISSION_DENIED: a firewall": (7, "the content cannot be inspected"),
    "UNAVAILABLE: Envoy before one that resets": (14, "upstream connect error or reset before headers"),
    "a proxy's 502": "502",
    "a proxy's 415": "415",
    "closed connection": None,
}


@pytest.mark.parametrize("compression", [Compression.ZSTD, Compression.SNAPPY, Compression.GZIP])
@pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("takes", [{"gzip", "identity"}, {"identity"}], ids=["gzip", "none"])
def test_a_compression_that_was_never_taken_is_given_up_for_any_failure(
    compression: Compression, fail: tuple[int, str] | int | str | None, takes: set[str]
) -> None:
    """Nothing is lost, however the server fails what it does not know; and it is found out once."""
    if compression.value in takes:
        return
    retry = Retry(initial_interval=Duration(0.001), max_interval=Duration(0.001))
    with Peer(takes, fail) as peer:
        made = Scene(peer.port, compression=compression, retry_on_failure=retry)
        for number in range(1, 5):
            made.push(traces(1))
            wait_until(lambda: made.values()["otelcol_exporter_sent_spans"] == number)  # noqa: B023
        made.exporter.shutdown(20)
        assert made.values()["otelcol_exporter_send_failed_spans"] == 0
        accepted = "gzip" if "gzip" in takes and compression is not Compression.GZIP else "none"
        fields = made.recorder.fields("compression not supported by the server")
        assert fields == {"refused": compression.value, "using": accepted}
        assert peer.encodings[-2:] == ["identity" if accepted == "none" else accepted] * 2


def test_level_of_a_compression_is_not_that_of_the_next() -> None:
    """zstd has levels that gzip has not."""
    with Peer({"gzip"}, RESET_INTERNAL) as peer:
        made = Scene(peer.port, compression_params=CompressionParams(level=19))
        for number in range(1, 4):
            made.push(traces(1))
            wait_until(lambda: made.values()["otelcol_exporter_sent_spans"] == number)  # noqa: B023
        made.exporter.shutdown(20)
    assert "compression not supported by the server" in made.recorder.events()


def test_older_server_in_place_of_a_newer_one() -> None:
    """A compression that was taken before, and is not known any more: nothing is lost."""
    with Peer({"zstd", "gzip"}, RESET_INTERNAL) as peer:
        made = Scene(peer.port)
        for number in range(1, 101):
            if number == 50:
                peer.takes = {"gzip"}
            made.push(traces(1))
            wait_until(lambda: made.values()["otelcol_exporter_sent_spans"] == number)  # noqa: B023
        made.exporter.shutdown(20)
    assert made.values()["otelcol_exporter_send_failed_spans"] == 0
    assert peer.encodings.count("zstd") == 49 + 2


def test_server_that_takes_the_compression_is_sent_nothing_else_for_what_it_refuses() -> None:
    """INVALID_ARGUMENT after a success is about the data."""
    with Peer({"zstd"}, (3, "bad span")) as peer:
        made = Scene(peer.port)
        made.push(traces(1))
        wait_until(lambda: made.values()["otelcol_exporter_sent_spans"] == 1)
        peer.takes = set()
        made.push(traces(1), traces(1))
        made.exporter.shutdown(20)
    assert made.values()["otelcol_exporter_send_failed_spans"] == 2
    assert peer.encodings == ["zstd"] * 3


def _partial_success() -> bytes:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 3
    response.partial_success.error_message = "no room"
    return bytes(response.SerializeToString())


def _framed(message: bytes, flag: int) -> bytes:
    return bytes([flag]) + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize(
    ("encoding", "name"), [("gzip", "gzip"), ("zstd", "zstd"), ("x-snappy-framed", "snappy")]
)
def test_compressed_partial_success_is_told(encoding: str, name: str) -> None:
    """grpc-go answers in the encoding of the request, whatever grpc-accept-encoding says."""
    message = _framed(Codec().compress(encoding, _partial_success()), 1)
    with Peer({"zstd"}, None, (message, name)) as peer:
        made = Scene(peer.port)
        made.push(traces(10))
        made.exporter.shutdown(20)
    sampled = made.values()
    assert (10, 3) == (sampled["otelcol_exporter_sent_spans"], sampled["spansieve_exporter_rejected_items"])
    assert made.recorder.fields("Partial success response") == {"message": "no room", "dropped_spans": 3}


@pytest.mark.parametrize(
    ("message", "name", "text"),
    [
        (_framed(Codec().compress("gzip", bytes(1 << 20)), 1), "gzip", "larger than max"),
        (_framed(b"\xff\xff", 1), "gzip", "failed to decompress"),
        (_framed(_partial_success(), 1), "br", "not known here"),
        (_framed(b"<html>", 0), "identity", "no Export*ServiceResponse"),
    ],
)
def test_answer_that_cannot_be_read_is_no_success(message: bytes, name: str, text: str) -> None:
    """Nor is it sent again, in whatever encoding: the server may have the data."""
    with Peer({"zstd"}, None, (message, name)) as peer:
        made = Scene(peer.port, retry_on_failure=Retry())
        made.push(traces(2))
        made.exporter.shutdown(20)
        assert peer.encodings == ["zstd"]
    assert made.values()["otelcol_exporter_send_failed_spans"] == 2
    assert text in made.recorder.fields("Exporting failed. Dropping data.")["error"]


def test_statuses_to_retry_are_a_key() -> None:
    """INTERNAL is tried again where it is listed, and UNAVAILABLE is not where it is not."""
    with Peer(set(), (13, "shard is moving")) as peer:
        retry = Retry(
            retryable_statuses=("INTERNAL",), initial_interval=Duration(0.001), max_interval=Duration(0.001)
        )
        made = Scene(peer.port, compression=Compression.NONE, retry_on_failure=retry)
        made.push(traces(1))
        wait_until(lambda: len(peer.encodings) >= 3)
        peer.takes = {"identity"}
        wait_until(lambda: made.values()["otelcol_exporter_sent_spans"] == 1)
        peer.takes, peer.fail = set(), (14, "gone")
        made.push(traces(1))
        wait_until(lambda: made.values()["otelcol_exporter_send_failed_spans"] == 1)
        made.exporter.shutdown(20)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"headers": {"User-Agent": Secret("mine")}}, "mine"),
        ({"headers": {"user-agent": Secret("mine")}, "user_agent": "the key"}, "the key"),
    ],
)
def test_each_header_is_sent_once(keys: dict[str, Any], expected: str) -> None:
    """Names mean the same in any case; what gRPC writes itself cannot be set, and that is told."""
    keys["headers"] |= {
        "Content-Type": Secret("x"),
        "TE": Secret("x"),
        "X-Tenant": Secret("a"),
        "x-tenant": Secret("b"),
    }
    with Peer({"identity"}, None) as peer:
        made = Scene(peer.port, compression=Compression.NONE, **keys)
        made.push(traces(1))
        made.exporter.shutdown(20)
        (headers,) = peer.headers
    assert len(dict(headers)) == len(headers)
    values_ = dict(headers)
    assert (expected, "b") == (values_["user-agent"], values_["x-tenant"])
    assert ("application/grpc", "trailers") == (values_["content-type"], values_["te"])
    event = "headers that gRPC writes itself are not sent as configured"
    assert made.recorder.fields(event) == {"ignored": ["content-type", "te"]}


def test_binary_metadata_is_sent_as_bytes(server: Server) -> None:
    """What a name with -bin at its end holds arrives as it was written."""
    made = Scene(server.port, compression=Compression.NONE, headers={"x-Key-bin": Secret("a\u00e9?")})
    made.push(traces(1))
    made.exporter.shutdown(20)
    assert server.calls[0][2]["x-key-bin"] == "a\u00e9?".encode()


def test_missing_service_is_not_taken_for_a_missing_compression(server: Server) -> None:
    """UNIMPLEMENTED for plain requests too: the data is refused for good and the compression stays."""
    server.serves = False
    made = Scene(server.port, compression=Compression.GZIP)
    made.push(traces(2))
    made.exporter.shutdown(20)
    assert made.values()["otelcol_exporter_send_failed_spans"] == 2
    assert "compression not supported by the server" not in made.recorder.events()
    assert "Unimplemented" in made.recorder.fields("Exporting failed. Dropping data.")["error"]


def test_partial_success_is_success(server: Server, scene: Scene) -> None:
    """B29 over gRPC."""
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 3
    response.partial_success.error_message = "x"
    server.answer = lambda request, context: bytes(response.SerializeToString())
    scene.push(traces(10))
    scene.exporter.shutdown(20)
    sampled = scene.values()
    assert sampled["otelcol_exporter_sent_spans"] == 10
    assert sampled["spansieve_exporter_rejected_items"] == 3
    assert scene.recorder.fields("Partial success response") == {"message": "x", "dropped_spans": 3}
    assert len(server.calls) == 1


def test_retryable_failure_is_retried_until_it_succeeds(server: Server) -> None:
    """UNAVAILABLE twice, then success: sent once, failed never."""
    retry = Retry(initial_interval=Duration(0.001), max_interval=Duration(0.002))
    made = Scene(server.port, compression=Compression.NONE, retry_on_failure=retry)

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        if len(server.calls) < 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet: 100% caf\u00e9")
        return b""

    server.answer = answer
    made.push(traces(2))
    wait_until(lambda: made.values()["otelcol_exporter_sent_spans"] == 2)
    made.exporter.shutdown(20)
    assert made.values()["otelcol_exporter_send_failed_spans"] == 0
    error = made.recorder.fields("Exporting failed. Will retry the request after interval.")["error"]
    assert error == "rpc error: code = Unavailable desc = not yet: 100% caf\u00e9"


def _abort_with_retry_info(request: bytes, context: grpc.ServicerContext) -> bytes:
    status = status_pb2.Status(code=8, message="slow down")
    delay = DurationMessage(seconds=2, nanos=500_000_000)
    status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down")
    return b""


def test_retry_info_arrives(server: Server) -> None:
    """The delay in grpc-status-details-bin, as grpcio writes it."""
    server.answer = _abort_with_retry_info
    client = Client("127.0.0.1", server.port, user_agent="test", max_connections=1)
    result = client.export(Signal.TRACES, "none", b"", 20.0)
    assert (result.failure, result.code, result.message, result.retry_after_s) == (None, 8, "slow down", 2.5)
    client.close()


def test_message_over_the_server_limit_is_dropped_at_once() -> None:
    """B23: RESOURCE_EXHAUSTED without RetryInfo cannot succeed later."""
    server = Server(("grpc.max_receive_message_length", 1000))
    made = Scene(server.port, compression=Compression.NONE, retry_on_failure=Retry())
    made.push(traces(1, "x" * 2000))
    wait_until(lambda: made.values()["otelcol_exporter_send_failed_spans"] == 1)
    made.exporter.shutdown(5)
    server.stop()
    assert "ResourceExhausted" in made.recorder.fields("Exporting failed. Dropping data.")["error"]


def test_shutdown_cuts_off_a_hanging_server(server: Server) -> None:
    """The deadline of shutdown holds although the attempt has 20 s."""
    release = futures.Future[None]()

    def hang(request: bytes, context: grpc.ServicerContext) -> bytes:
        release.result(20)
        return b""

    server.answer = hang
    made = Scene(server.port, compression=Compression.NONE)
    made.push(traces(2))
    wait_until(lambda: len(server.calls) == 1)
    made.exporter.shutdown(0.1)
    release.set_result(None)
    assert made.values()["otelcol_exporter_send_failed_spans"] == 2


def _answered(code: int, retry_after_s: float | None = None) -> ExportResult:
    return ExportResult(None, code, "why", retry_after_s, 0, "", 0)


@pytest.mark.parametrize("code", range(1, 18))
def test_retryable_codes_are_those_of_the_specification(code: int) -> None:
    """Semantics 1.3: anything else is permanent; RESOURCE_EXHAUSTED needs RetryInfo."""
    expected = RetryableError if code in {1, 4, 10, 11, 14, 15} else PermanentError
    assert type(_failure(_answered(code), "b:4317")) is expected


@pytest.mark.parametrize(
    ("delay_s", "text"), [(0.0, "rpc error"), (1.5, "Throttle (1.5s), error: rpc error")]
)
def test_throttling_carries_the_delay(delay_s: float, text: str) -> None:
    """RetryInfo makes RESOURCE_EXHAUSTED retryable, even with a delay of zero."""
    error = _failure(_answered(8, delay_s), "b:4317")
    assert isinstance(error, RetryableError)
    assert error.retry_after_s == delay_s
    assert str(error) == f"{text}: code = ResourceExhausted desc = why"


@pytest.mark.parametrize(("failure", "code"), [("timeout", "DeadlineExceeded"), ("io", "Unavailable")])
def test_no_answer_is_retryable(failure: str, code: str) -> None:
    """What never got an answer is tried again, and tells from whom."""
    error = _failure(ExportResult(failure, 0, "why", None, 0, "", 0), "b:4317")
    assert isinstance(error, RetryableError)
    assert str(error) == f"rpc error: code = {code} desc = b:4317: why"


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("localhost:4317", ("localhost", 4317)),
        (":4317", ("localhost", 4317)),
        ("[::1]:4317", ("::1", 4317)),
        ("http://backend:4317", ("backend", 4317)),
        ("http://backend:4317/", ("backend", 4317)),
        ("https://backend:443", ("backend", 443)),
        ("dns:///backend:4317", ("backend", 4317)),
        ("dns://8.8.8.8/backend:4317", ("backend", 4317)),
        ("passthrough:///backend:4317", ("backend", 4317)),
        ("unix:///run/otel.sock", ("/run/otel.sock", 0)),
        ("unix:/run/otel.sock", ("/run/otel.sock", 0)),
    ],
)
def test_endpoints(endpoint: str, target: tuple[str, int]) -> None:
    """The forms that the Collector takes."""
    assert parse_endpoint(endpoint) == target


@pytest.mark.parametrize(
    "endpoint",
    ["backend", "backend:", "backend:x", "backend:0", "backend:65536", "::1:4317", "ftp://backend:21", "unix:run",
     "http://backend:4317/v1/traces", "backend:4317/path", "dns:///", "backend:\u0663"],
)  # fmt: skip
def test_bad_endpoints(endpoint: str) -> None:
    """Everything else is refused before any socket opens."""
    with pytest.raises(ValueError):
        parse_endpoint(endpoint)


@pytest.mark.parametrize("endpoint", ["user:s3cret@b:1", "http://user:s3cret@b:1", "ftp://user:s3cret@b:1"])
def test_credentials_in_an_endpoint_are_not_shown(endpoint: str) -> None:
    """There is no place for them in gRPC; the error does not repeat them."""
    with pytest.raises(ValueError, match=r"\*\*\*@b:1"):
        parse_endpoint(endpoint)


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        (Config(), ["endpoint"]),
        (Config(endpoint="backend:4317"), []),
        (Config(endpoint="https://backend:4317"), []),
        (
            Config(endpoint="b:1", authority="a", tls=TLSClient(server_name_override="c")),
            ["authority"],
        ),
        (Config(endpoint="https://backend:4317", tls=TLSClient(insecure=True)), []),
        (Config(endpoint="backend", tls=TLSClient(insecure=True)), ["endpoint"]),
        (Config(endpoint="backend:4317", tls=TLSClient(insecure=True)), []),
        (
            Config(endpoint="http://backend:4317", headers={"Key": Secret("a\n")}),
            ["headers::Key"],
        ),
        (Config(endpoint="http://backend:4317"), []),
        (Config(endpoint="unix:///run/otel.sock"), []),
        (Config(endpoint="http://backend:4317", balancer_name="nope"), ["balancer_name"]),
    ],
)
def test_problems_name_the_key(config: Config, fields: list[str]) -> None:
    """What cannot work is said before anything starts."""
    assert [field for field, _ in (*config.problems(), *config.problems_in_use())] == fields


@pytest.mark.parametrize(
    ("endpoint", "insecure", "uses_tls"),
    [
        ("b:1", False, True),
        ("b:1", True, False),
        ("http://b:1", False, False),
        ("https://b:1", True, True),
        ("unix:///run/otel.sock", False, False),
        ("dns:///b:1", False, True),
    ],
)
def test_scheme_and_insecure_decide_over_tls(endpoint: str, insecure: bool, uses_tls: bool) -> None:
    """TLS is the default; https:// has the last word."""
    assert uses_tls == Config(endpoint=endpoint, tls=TLSClient(insecure=insecure)).uses_tls
