"""A running spansieve under continuous load, through reloads, outages and shutdown: nothing acknowledged is lost."""

from __future__ import annotations

import pathlib
import signal
import socket
import threading
from typing import Any

import grpc
import pytest

from collector.native.library import has_net
from tests.support.running import Backend, Client, Load, Spansieve, fetch, free_port, wait_until

TRANSPORTS = ["native", "grpcio"] if has_net() else ["grpcio"]


def config(backend: str, port: int = 0, transport: str = "native", **exporter: Any) -> dict[str, Any]:
    """Return a configuration from one receiver to one backend, in short intervals."""
    protocols = {"grpc": {"endpoint": f"127.0.0.1:{port}"}, "http": {"endpoint": "127.0.0.1:0"}}
    return {
        "receivers": {"otlp": {"transport": transport, "protocols": protocols}},
        "processors": {"batch": {"timeout": "20ms", "send_batch_size": 100}},
        "exporters": {
            "otlp_grpc": {
                "endpoint": backend,
                "tls": {"insecure": True},
                "retry_on_failure": {"initial_interval": "20ms", "max_interval": "100ms"},
                **exporter,
            }
        },
        "service": {
            "pipelines": {
                "traces": {"receivers": ["otlp"], "processors": ["batch"], "exporters": ["otlp_grpc"]}
            }
        },
    }


def is_empty(collector: Spansieve) -> bool:
    """Tell whether nothing is on its way."""
    waiting = ("spansieve_processor_pending_items", "otelcol_exporter_queue_size")
    return not any(collector.total(name) for name in waiting)


def balance(collector: Spansieve) -> int:
    """Return accepted less all that became of it, which is 0 when nothing is on its way."""
    gone = (
        "spansieve_processor_dropped_items",
        "spansieve_processor_failed_items",
        "otelcol_exporter_sent_spans",
        "otelcol_exporter_send_failed_spans",
    )
    return collector.total("otelcol_receiver_accepted_spans") - sum(map(collector.total, gone))


def is_open(port: int) -> bool:
    """Tell whether somebody listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_sigterm_delivers_what_was_acknowledged(tmp_path: pathlib.Path) -> None:
    """What waits in the batch is sent, and the exit status is 0."""
    with Backend() as backend:
        document = config(backend.endpoint)
        document["processors"]["batch"] = {"timeout": "1h"}
        with Spansieve(tmp_path, document) as collector, Client(collector.grpc) as client:
            assert all(client.send() for _ in range(10))
            assert collector.stop() == 0
            assert backend.spans.keys() == client.acknowledged


def test_second_sigterm_ends_at_once(tmp_path: pathlib.Path) -> None:
    """Who does not want to wait for a backend that hangs need not."""
    ends = threading.Event()
    with Backend() as backend:
        backend.answer = lambda context: ends.wait(30) and None
        with Spansieve(tmp_path, config(backend.endpoint)) as collector, Client(collector.grpc) as client:
            assert client.send()
            wait_until(lambda: collector.total("otelcol_exporter_in_flight_requests"))
            collector.process.terminate()
            wait_until(lambda: collector.logged("Starting shutdown..."))
            assert collector.stop() == 1
        ends.set()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_reload_under_load_loses_nothing(tmp_path: pathlib.Path, transport: str) -> None:
    """Processor, exporter, receiver and pipelines change while clients send; counters go on."""
    port = free_port()
    with Backend() as first, Backend() as second:
        document = config(first.endpoint, port, transport)
        pipelines = document["service"]["pipelines"]
        with Spansieve(tmp_path, document) as collector, Load(collector.grpc) as load:
            load.wait_for(50)
            document["processors"]["low_value_filter"] = {"rules": ["name"]}
            pipelines["traces"]["processors"].insert(0, "low_value_filter")
            collector.reload(document)
            load.wait_for(50)
            document["exporters"]["otlp_grpc"]["endpoint"] = second.endpoint
            pipelines["logs"] = {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}
            collector.reload(document)
            load.wait_for(50)
            del pipelines["logs"]
            for n_streams in (50, 60):
                document["receivers"]["otlp"]["protocols"]["grpc"]["max_concurrent_streams"] = n_streams
                collector.reload(document)
                load.wait_for(50)
            load.stop()
            wait_until(lambda: is_empty(collector))
            arrived = first.spans + second.spans
            # grpcio cancels calls that arrive while it stops; a client may repeat those.
            allowed = set() if transport == "native" else {grpc.StatusCode.CANCELLED}
            assert {error.code() for error in load.refusals} <= allowed
            assert load.acknowledged <= arrived.keys()
            assert second.n_spans > 0
            assert balance(collector) == 0
            assert collector.total("otelcol_receiver_accepted_spans") == arrived.total()


def test_broken_configuration_changes_nothing(tmp_path: pathlib.Path) -> None:
    """The log says what is wrong; faults found at the start of a component leave all as it was, too."""
    with Backend() as backend, socket.create_server(("127.0.0.1", 0)) as taken:
        document = config(backend.endpoint)
        with Spansieve(tmp_path, document) as collector, Load(collector.grpc) as load:
            document["processors"]["batch"]["timeout"] = "fast"
            collector.write(document)
            collector.process.send_signal(signal.SIGHUP)
            wait_until(lambda: collector.logged("configuration not reloaded") == 1)
            assert collector.logged(
                "processors::batch::timeout: expected a duration such as '200ms', got 'fast'"
            )
            document["processors"]["batch"]["timeout"] = "10ms"
            document["receivers"]["otlp"]["protocols"]["http"]["endpoint"] = (
                f"127.0.0.1:{taken.getsockname()[1]}"
            )
            collector.write(document)
            collector.process.send_signal(signal.SIGHUP)
            wait_until(lambda: collector.logged("configuration not reloaded") == 2)
            assert collector.logged("address already in use")
            load.wait_for(50)
            load.stop()
            assert not list(load.refusals)
            assert collector.stop() == 0
            assert backend.spans.keys() == load.acknowledged


def test_receiver_moves_to_another_address(tmp_path: pathlib.Path) -> None:
    """The new address serves before the reload is done, the old one refuses soon after."""
    old_port, new_port = free_port(), free_port()
    with Backend() as backend, Spansieve(tmp_path, config(backend.endpoint, old_port)) as collector:
        collector.reload(config(backend.endpoint, new_port))
        with Client(f"127.0.0.1:{new_port}") as client:
            assert client.send()
        wait_until(lambda: not is_open(old_port))


def test_outage_of_the_backend_pushes_back_and_loses_nothing(tmp_path: pathlib.Path) -> None:
    """Queue and batch fill, then clients get UNAVAILABLE with a delay; after the outage all arrives; the sum holds."""
    with Backend() as backend:
        document = config(
            backend.endpoint,
            sending_queue={"queue_size": 5, "num_consumers": 2},
            retry_on_failure={"initial_interval": "20ms", "max_interval": "100ms", "max_elapsed_time": 0},
        )
        with Spansieve(tmp_path, document) as collector, Load(collector.grpc, n_spans=20) as load:
            load.wait_for(100)
            backend.stop()
            wait_until(lambda: next(load.refusals, None), "a refusal")
            refusal = next(load.refusals)
            assert refusal.code() is grpc.StatusCode.UNAVAILABLE
            assert b"google.rpc.RetryInfo" in dict(refusal.trailing_metadata())["grpc-status-details-bin"]
            before = collector.rss_bytes()
            load.wait_for(1000)
            assert collector.rss_bytes() - before < 4 << 20
            backend.start()
            n_before = backend.n_spans
            wait_until(lambda: backend.n_spans > n_before + 200, "recovery")
            load.stop()
            wait_until(lambda: is_empty(collector))
            assert load.acknowledged <= backend.spans.keys()
            assert balance(collector) == 0
            assert collector.total("otelcol_receiver_accepted_spans") == len(load.acknowledged)


def test_capture_in_one_request_leaves_in_messages_that_every_server_takes(
    tmp_path: pathlib.Path, hipstershop: bytes
) -> None:
    """23.8 MB in one HTTP body become messages below 4 MiB with every span once."""
    with Backend() as backend:
        document = config(backend.endpoint)
        document["processors"]["batch"] = {"timeout": "20ms"}
        document["receivers"]["otlp"]["protocols"]["http"]["max_request_body_size"] = 32 << 20
        with Spansieve(tmp_path, document) as collector:
            headers = {"Content-Type": "application/x-protobuf"}
            assert fetch(collector.http, "/v1/traces", hipstershop, headers) == (200, b"")
            assert collector.stop() == 0
            assert backend.n_spans == 86_583
            assert max(backend.sizes) < 4 << 20
            # grpcio knows no zstd: the exporter has found that out.
            assert collector.logged("compression not supported by the server") == 1


def test_memory_limiter_refuses_until_there_is_room(tmp_path: pathlib.Path) -> None:
    """While the backend hangs, requests are refused with a delay; then all that was taken arrives."""
    ends = threading.Event()
    with Backend() as backend:
        backend.answer = lambda context: ends.wait(30) and None
        document = config(backend.endpoint, timeout="30s")
        document["processors"]["memory_limiter"] = {
            "check_interval": "20ms",
            "limit_mib": 60,
            "spike_limit_mib": 10,
        }
        document["service"]["pipelines"]["traces"]["processors"].insert(0, "memory_limiter")
        with Spansieve(tmp_path, document) as collector, Client(collector.grpc) as client:
            while client.send(50, attribute_bytes=10_000):
                pass
            assert client.refusals[0].code() is grpc.StatusCode.UNAVAILABLE
            assert client.refusals[0].details() == "data refused due to high memory usage"
            assert collector.rss_bytes() < 60 << 20
            ends.set()
            wait_until(lambda: client.send(1), "room")
            refused = collector.total("otelcol_processor_memory_limiter_refused_spans")
            assert refused == collector.total("otelcol_receiver_refused_spans") > 0
            assert collector.stop() == 0
            assert client.acknowledged <= backend.spans.keys()
