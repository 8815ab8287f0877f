"""Whole collectors: `spansieve --config FILE` between real clients and real backends, over real sockets."""

from __future__ import annotations

import gzip
import http.client
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import grpc
import pytest
import zstandard
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from deploy.demo.backend import Server
from deploy.demo.json_exporters import JsonSpans
from deploy.demo.processes import ROOT
from tests.conformance.peers import GrpcPeer, HttpPeer, call_headers, grpc_frame, http_request
from tests.integration.harness import (
    EXPORT,
    WAIT_S,
    Client,
    GrpcioBackend,
    arrived,
    get_status,
    h2_backend,
    make_config,
    spans,
    start,
    wait_for,
    write,
)
from tests.support import otlp

START_MS = 5000.0  # generous: on an idle machine it is under 150


@pytest.fixture
def backend():
    """The demonstration's backend."""
    with h2_backend() as server:
        yield server


def port_of(server: Server) -> int:
    """Return the port that server listens on."""
    return int(server.server_address[1])


# ------------------------------------------------------------------------------------------------ start and stop


def test_sigterm_drains_batch_and_queue(tmp_path: Path, backend: Server) -> None:
    """What was acknowledged and still waits for its batch to fill is delivered before the process ends with 0."""
    config = make_config(port_of(backend), processors={"batch": {"timeout": "1h"}})
    with start(tmp_path / "config.yaml", config) as spansieve, Client(spansieve.grpc) as client:
        for _ in range(20):
            client.send(5)
        assert [] == arrived(backend)
        assert 0 == spansieve.stop()
        assert client.sent == arrived(backend)


def test_sigterm_refuses_new_connections_while_it_drains(tmp_path: Path, backend: Server) -> None:
    """A request that has begun is answered; who connects meanwhile is told at once, not left to wait for nobody."""
    body = otlp.traces(otlp.span()).SerializeToString()
    request = http_request("/v1/traces", body, [("Content-Type", "application/x-protobuf")])
    with start(tmp_path / "config.yaml", make_config(port_of(backend))) as spansieve:
        host, port = spansieve.http.split(":")
        with HttpPeer((host, int(port))) as peer:
            peer.send(request[:-1])
            spansieve.send(signal.SIGTERM)
            wait_for(lambda: not (_takes_connections(spansieve.http) or _takes_connections(spansieve.grpc)))
            peer.send(request[-1:])
            assert 200 == peer.answer().status
        assert 0 == spansieve.wait()
        assert 1 == len(arrived(backend))


def _takes_connections(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), WAIT_S).close()
    except ConnectionRefusedError:
        return False
    return True


def test_sigterm_answers_probes_with_503_and_ends_in_time(tmp_path: Path) -> None:
    """Probes see 503 while the collector waits for a backend that is silent; then it gives up, and says so."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = make_config(silent.getsockname()[1], service={"shutdown_timeout": "2s"})
        with start(tmp_path / "config.yaml", config) as spansieve, Client(spansieve.grpc) as client:
            assert 200 == get_status(spansieve.health)
            client.send()
            spansieve.send(signal.SIGTERM)
            wait_for(lambda: 503 == get_status(spansieve.health))
            assert 0 == spansieve.wait()
            assert "Dropping data" in "".join(spansieve.log)


def test_start_to_first_accepted_request_is_short(
    tmp_path: Path, backend: Server, record_property: Callable[[str, object], None]
) -> None:
    """A sidecar is there before the program beside it has started to send."""
    with start(tmp_path / "config.yaml", make_config(port_of(backend))) as spansieve:
        with Client(spansieve.grpc) as client:
            client.send()
        record_property("ready_ms", round(spansieve.ready_ms))
        assert spansieve.ready_ms < START_MS


def test_faulty_configuration_ends_with_1_before_a_socket_opens(tmp_path: Path, backend: Server) -> None:
    """All problems are told with their paths; the port, which is taken, is not even tried."""
    config = make_config(port_of(backend), processors={"batch": {"timeout": "fast"}})
    config["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"] = f"127.0.0.1:{port_of(backend)}"
    config["exporters"]["otlp_grpc"]["compresion"] = "zstd"
    path = write(tmp_path / "config.yaml", config)
    command = [sys.executable, "-m", "collector", "--config", str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert 1 == result.returncode
    assert "processors::batch::timeout: expected a duration such as '200ms', got 'fast'" in result.stderr
    assert "compresion" in result.stderr
    assert "compression" in result.stderr
    assert "bind" not in result.stderr


def test_taken_port_ends_with_1_and_names_it(tmp_path: Path, backend: Server) -> None:
    """A valid configuration that cannot start says which component could not, and why."""
    config = make_config(port_of(backend))
    config["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"] = f"127.0.0.1:{port_of(backend)}"
    path = write(tmp_path / "config.yaml", config)
    command = [sys.executable, "-m", "collector", "--config", str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert 1 == result.returncode
    assert 'failed to start "otlp" receiver' in result.stderr
    assert "address already in use" in result.stderr


# -------------------------------------------------------------------------------------------------------- reload


def test_reloads_under_load_refuse_nothing_and_lose_nothing(tmp_path: Path, backend: Server) -> None:
    """Clients see no error over reloads of processors, exporter and receiver, and of broken files."""
    path = tmp_path / "config.yaml"
    config = make_config(port_of(backend), processors={"batch": {"timeout": "50ms"}})
    with start(path, config) as spansieve:
        done = threading.Event()
        errors: list[grpc.RpcError] = []

        def send(client: Client) -> None:
            try:
                while not done.is_set():
                    client.send(3)
            except grpc.RpcError as error:
                errors.append(error)

        clients = [Client(spansieve.grpc) for _ in range(3)]
        threads = [threading.Thread(target=send, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()

        def reload(line: str, times: int) -> None:
            before = [len(client.sent) for client in clients]
            spansieve.send(signal.SIGHUP)
            wait_for(lambda: "".join(spansieve.log).count(line) == times)
            wait_for(lambda: errors or all(len(c.sent) > n for c, n in zip(clients, before, strict=True)))

        reloaded = "Configuration reloaded."
        config["processors"] = {"memory_limiter": {"check_interval": "1s", "limit_mib": 1000}, "batch": {}}
        config["service"]["pipelines"]["traces"]["processors"] = ["memory_limiter", "batch"]
        write(path, config)
        reload(reloaded, 1)
        config["exporters"]["otlp_grpc"]["compression"] = "gzip"
        write(path, config)
        reload(reloaded, 2)
        path.write_text("receivers: [")
        reload("configuration not reloaded; the running one stays", 1)
        write(path, {**config, "processors": {"batch": {"timeout": "fast"}}})
        reload("configuration not reloaded; the running one stays", 2)
        config["receivers"]["otlp"]["protocols"]["grpc"]["max_concurrent_streams"] = 50
        write(path, config)
        reload(reloaded, 3)
        done.set()
        for thread in threads:
            thread.join()
        for client in clients:
            client.__exit__()
        assert [] == errors
        assert 0 == spansieve.stop()
        # Each client numbers its spans from one, so what arrived is a multiset.
        assert sorted(id for client in clients for id in client.sent) == arrived(backend)
        assert "processors::batch::timeout: expected a duration" in "".join(spansieve.log)


# ----------------------------------------------------------------------------------------------- clients, backends


@pytest.mark.parametrize("way", ["grpc", "http", "json"])
def test_sdk_exports_and_backend_receives(tmp_path: Path, backend: Server, way: str) -> None:
    """The OpenTelemetry SDK's own exporters are served as by any other collector."""
    with start(tmp_path / "config.yaml", make_config(port_of(backend))) as spansieve:
        exporters: dict[str, Callable[[], SpanExporter]] = {
            "grpc": lambda: GrpcSpanExporter(spansieve.grpc, insecure=True),
            "http": lambda: HttpSpanExporter(f"http://{spansieve.http}/v1/traces"),
            "json": lambda: JsonSpans(f"http://{spansieve.http}/v1/traces"),
        }
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(exporters[way]()))
        tracer = provider.get_tracer("test")
        sent = []
        for _ in range(10):
            with tracer.start_as_current_span("work") as span:
                sent.append(f"{span.get_span_context().span_id:016x}")
        provider.shutdown()
        assert 0 == spansieve.stop()
    assert sorted(sent) == arrived(backend)


def test_grpc_client_may_compress_with_gzip(tmp_path: Path, backend: Server) -> None:
    """Grpcio's own compression is understood."""
    with start(tmp_path / "config.yaml", make_config(port_of(backend))) as spansieve:
        with Client(spansieve.grpc, grpc.Compression.Gzip) as client:
            client.send(100)
        spansieve.stop()
        assert client.sent == arrived(backend)


def test_grpc_client_may_compress_with_zstd(tmp_path: Path, backend: Server) -> None:
    """So is zstd, as Collectors send it."""
    request, ids = spans(100)
    with start(tmp_path / "config.yaml", make_config(port_of(backend))) as spansieve:
        host, port = spansieve.grpc.split(":")
        with GrpcPeer((host, int(port))) as peer:
            message = grpc_frame(zstandard.compress(request), flag=1)
            assert 0 == peer.call(call_headers(EXPORT, "zstd"), message).status
        spansieve.stop()
    assert ids == arrived(backend)


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("zstd", zstandard.compress), ("", bytes)]
)
def test_http_client_may_compress(
    tmp_path: Path, backend: Server, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    """OTLP/HTTP bodies are read in each encoding."""
    request, ids = spans(100)
    with start(tmp_path / "config.yaml", make_config(port_of(backend))) as spansieve:
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": encoding}
        with closing(http.client.HTTPConnection(spansieve.http, timeout=WAIT_S)) as connection:
            connection.request("POST", "/v1/traces", compress(request), headers)
            assert 200 == connection.getresponse().status
        spansieve.stop()
    assert ids == arrived(backend)


def test_backend_without_zstd_is_sent_gzip_and_remembered(tmp_path: Path) -> None:
    """The first request finds out that the server does not know zstd; nothing is lost, nothing is tried twice."""
    with (
        GrpcioBackend() as backend,
        start(tmp_path / "config.yaml", make_config(backend.port)) as spansieve,
        Client(spansieve.grpc) as client,
    ):
        for number in range(3):
            client.send(10)
            wait_for(lambda number=number: len(backend.spans) == 10 * (number + 1))
        assert 0 == spansieve.stop()
        assert client.sent == [id.hex() for id in backend.spans]
        assert 1 == "".join(spansieve.log).count("compression not supported by the server")


def test_backend_that_comes_late_receives_all(tmp_path: Path) -> None:
    """The queue and its retries bridge a backend that is away."""
    with GrpcioBackend() as earlier:
        port = earlier.port
    config = make_config(port)
    config["exporters"]["otlp_grpc"]["retry_on_failure"] = {
        "initial_interval": "50ms",
        "max_interval": "100ms",
    }
    with start(tmp_path / "config.yaml", config) as spansieve, Client(spansieve.grpc) as client:
        client.send(10)
        wait_for(lambda: "Will retry" in "".join(spansieve.log))
        with GrpcioBackend(port) as backend:
            wait_for(lambda: len(backend.spans) == 10)
            assert 0 == spansieve.stop()


# ------------------------------------------------------------------------------------------------- own telemetry


def test_metrics_page_has_the_collectors_names(tmp_path: Path, backend: Server) -> None:
    """A dashboard made for the Collector finds its series, with the values that were sent."""
    processors = {"memory_limiter": {"check_interval": "1s", "limit_mib": 1000}, "batch": {"timeout": "10ms"}}
    with start(tmp_path / "config.yaml", make_config(port_of(backend), processors=processors)) as spansieve:
        with Client(spansieve.grpc) as client:
            client.send(7)
        wait_for(lambda: len(arrived(backend)) == 7)

        def value(name: str, **labels: str) -> float:
            return sum(
                sample.value
                for sample in spansieve.samples()
                if sample.name == name and labels.items() <= sample.labels.items()
            )

        assert 7 == value("otelcol_receiver_accepted_spans", receiver="otlp", transport="grpc")
        assert 0 == value("otelcol_receiver_refused_spans")
        assert 7 == value("otelcol_processor_incoming_items", processor="batch", otel_signal="traces")
        assert 7 == value("otelcol_processor_memory_limiter_accepted_spans", processor="memory_limiter")
        assert 1 == value("otelcol_processor_batch_timeout_trigger_send", processor="batch")
        wait_for(lambda: 7 == value("otelcol_exporter_sent_spans", exporter="otlp_grpc"))
        assert 0 == value("otelcol_exporter_send_failed_spans")
        assert value("otelcol_exporter_queue_capacity", exporter="otlp_grpc", data_type="traces") > 0
        names = {sample.name for sample in spansieve.samples()}
        assert {
            "otelcol_process_uptime",
            "otelcol_process_cpu_seconds",
            "otelcol_process_memory_rss",
            "otelcol_exporter_queue_size",
            "target_info",
        } <= names
