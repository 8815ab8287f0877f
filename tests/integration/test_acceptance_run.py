"""What an operator tries: overload, outages, second thoughts. Nothing acknowledged is lost, and the sum holds."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest

from collector.native.library import has_net
from deploy.demo.processes import Spansieve
from tests.integration.harness import WAIT_S, Client, make_config, start, wait_for, write
from tests.integration.load import Backend, Load, Sender, total

TRANSPORTS = ["native", "grpcio"] if has_net() else ["grpcio"]
RETRY = {"initial_interval": "20ms", "max_interval": "100ms", "max_elapsed_time": 0}
IS_SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
WAITING = ("spansieve_processor_pending_items", "otelcol_exporter_queue_size")
GONE = (
    "spansieve_processor_dropped_items",
    "spansieve_processor_failed_items",
    "otelcol_exporter_sent_spans",
    "otelcol_exporter_send_failed_spans",
)


def make(backend: Backend, transport: str = "native", **exporter: Any) -> dict[str, Any]:
    """Return a configuration with a quick batch and quick retries."""
    config = make_config(
        backend.port,
        processors={"batch": {"timeout": "20ms", "send_batch_size": 100}},
        otlp_grpc={"retry_on_failure": RETRY, **exporter},
    )
    config["receivers"]["otlp"]["transport"] = transport
    return config


def reload(
    spansieve: Spansieve, path: Path, config: dict[str, Any], answer: str = "Configuration reloaded."
) -> None:
    """Replace the configuration and wait for what the log says to it."""
    before = "".join(spansieve.log).count(answer)
    write(path, config)
    spansieve.send(signal.SIGHUP)
    wait_for(lambda: "".join(spansieve.log).count(answer) > before)


def settle(spansieve: Spansieve) -> None:
    """Wait until nothing is on its way, then hold received = sampled out + filtered + sent + failed."""
    wait_for(lambda: not total(spansieve, *WAITING))
    assert total(spansieve, *GONE) == total(spansieve, "otelcol_receiver_accepted_spans")


def is_open(port: int) -> bool:
    """Tell whether somebody listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_later_sigterm_ends_at_once(tmp_path: Path) -> None:
    """Who does not want to wait for a backend that hangs need not."""
    ends = threading.Event()
    with Backend() as backend:
        backend.answer = lambda context: ends.wait(60)
        with start(tmp_path / "c", make(backend)) as spansieve, Sender(spansieve.grpc) as sender:
            assert sender.send()
            wait_for(lambda: total(spansieve, "otelcol_exporter_in_flight_requests"))
            spansieve.send(signal.SIGTERM)
            wait_for(lambda: "Starting shutdown..." in "".join(spansieve.log))
            threading.Event().wait(1.1)  # what comes sooner is the same wish
            assert spansieve.stop() == 1
        ends.set()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_pipelines_may_change_under_load(tmp_path: Path, transport: str) -> None:
    """A processor and a pipeline come and go, the exporter gets another server, the receiver another limit."""
    path = tmp_path / "config.yaml"
    with Backend() as first, Backend() as second:
        config = make(first, transport)
        pipelines = config["service"]["pipelines"]
        with start(path, config) as spansieve, Load(spansieve.grpc) as load:
            load.wait_for(50)
            config["processors"]["low_value_filter"] = {"rules": ["name"]}
            pipelines["traces"]["processors"].insert(0, "low_value_filter")
            logs = pipelines.pop("logs")
            reload(spansieve, path, config)
            load.wait_for(50)
            config["exporters"]["otlp_grpc"]["endpoint"] = f"127.0.0.1:{second.port}"
            pipelines["logs"] = logs
            reload(spansieve, path, config)
            for n_streams in (50, 60):
                load.wait_for(50)
                config["receivers"]["otlp"]["protocols"]["grpc"]["max_concurrent_streams"] = n_streams
                reload(spansieve, path, config)
            load.wait_for(50)
            load.stop()
            settle(spansieve)
            # grpcio ends calls that reach a server which is being stopped; clients repeat those, by either code.
            ended = {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}
            allowed = set() if transport == "native" else ended
            assert {error.code() for error in load.refusals} <= allowed
            arrived = first.spans + second.spans
            assert load.acknowledged <= arrived.keys()
            assert second.n_spans > 0
            assert total(spansieve, "otelcol_receiver_accepted_spans") == arrived.total()


def test_component_that_cannot_start_changes_nothing(tmp_path: Path) -> None:
    """A port that is taken shows only at the start of the new receiver; the old one serves on."""
    path = tmp_path / "config.yaml"
    with Backend() as backend, socket.create_server(("127.0.0.1", 0)) as taken:
        config = make(backend)
        with start(path, config) as spansieve, Load(spansieve.grpc) as load:
            http = config["receivers"]["otlp"]["protocols"]["http"]
            http["endpoint"] = f"127.0.0.1:{taken.getsockname()[1]}"
            reload(spansieve, path, config, "configuration not reloaded; the running one stays")
            assert "address already in use" in "".join(spansieve.log)
            load.wait_for(50)
            load.stop()
            assert not list(load.refusals)
            assert spansieve.stop() == 0
            assert load.acknowledged == backend.spans.keys()


def test_receiver_moves_to_another_address(tmp_path: Path) -> None:
    """The new address serves when the reload is done, the old one refuses soon after."""
    path = tmp_path / "config.yaml"
    with Backend() as backend:
        config = make(backend)
        protocols = config["receivers"]["otlp"]["protocols"]
        del protocols["http"]
        with start(path, config) as spansieve:
            old_port = int(spansieve.grpc.rpartition(":")[2])
            protocols["grpc"]["endpoint"] = "127.0.0.2:0"
            reload(spansieve, path, config)
            assert spansieve.grpc.startswith("127.0.0.2:")
            with Client(spansieve.grpc) as client:
                client.send()
            wait_for(lambda: not is_open(old_port))


def test_outage_of_the_backend_pushes_back_and_loses_nothing(tmp_path: Path) -> None:
    """Queue and batch fill, clients get UNAVAILABLE with a delay, memory stays; after the outage all arrives."""
    with Backend() as backend:
        config = make(backend, sending_queue={"queue_size": 5, "num_consumers": 2})
        with start(tmp_path / "c", config) as spansieve, Load(spansieve.grpc, n_spans=20) as load:
            load.wait_for(100)
            backend.stop()
            wait_for(lambda: next(load.refusals, None))
            refusal = next(load.refusals)
            assert refusal.code() is grpc.StatusCode.UNAVAILABLE
            assert b"google.rpc.RetryInfo" in dict(refusal.trailing_metadata())["grpc-status-details-bin"]
            before = spansieve.peak_rss_bytes()
            load.wait_for(1000)
            assert IS_SANITIZED or spansieve.peak_rss_bytes() - before < 4 << 20
            n_before = backend.n_spans
            backend.start()
            wait_for(lambda: backend.n_spans > n_before + 200)
            load.stop()
            settle(spansieve)
            assert load.acknowledged <= backend.spans.keys()
            assert total(spansieve, "otelcol_receiver_accepted_spans") == len(load.acknowledged)


def test_capture_in_one_request_leaves_in_messages_that_every_server_takes(
    tmp_path: Path, hipstershop: bytes
) -> None:
    """23.8 MB in one HTTP body become messages below 4 MiB, with every span once."""
    with Backend() as backend:
        config = make(backend)
        config["processors"]["batch"] = {"timeout": "20ms"}
        config["receivers"]["otlp"]["protocols"]["http"]["max_request_body_size"] = 32 << 20
        with start(tmp_path / "c", config) as spansieve:
            headers = {"Content-Type": "application/x-protobuf"}
            connection = http.client.HTTPConnection(spansieve.http, timeout=WAIT_S)
            connection.request("POST", "/v1/traces", hipstershop, headers)
            assert connection.getresponse().status == 200
            connection.close()
            assert spansieve.stop() == 0
            assert backend.n_spans == 86_583
            assert max(backend.sizes) < 4 << 20


@pytest.mark.skipif(IS_SANITIZED, reason="the resident set is mostly the sanitizer's")
def test_memory_limiter_refuses_until_there_is_room(tmp_path: Path) -> None:
    """While the backend hangs, requests are refused with a delay; then all that was taken arrives."""
    ends = threading.Event()
    with Backend() as backend:
        backend.answer = lambda context: ends.wait(60)
        config = make(backend, timeout="30s", compression="none")  # so that memory is what ends first
        limits = {"check_interval": "20ms", "limit_mib": 60, "spike_limit_mib": 10}
        config["processors"] = {"memory_limiter": limits, "batch": {"timeout": "20ms"}}
        config["service"]["pipelines"]["traces"]["processors"] = ["memory_limiter", "batch"]
        with start(tmp_path / "c", config) as spansieve, Sender(spansieve.grpc) as sender:
            while sender.send(50, attribute_bytes=10_000):
                pass
            assert sender.refusals[0].code() is grpc.StatusCode.UNAVAILABLE
            assert sender.refusals[0].details() == "data refused due to high memory usage"
            assert spansieve.peak_rss_bytes() < 60 << 20
            ends.set()
            wait_for(lambda: sender.send(1))
            refused = total(spansieve, "otelcol_processor_memory_limiter_refused_spans")
            assert refused == total(spansieve, "otelcol_receiver_refused_spans") > 0
            assert spansieve.stop() == 0
            assert sender.acknowledged <= backend.spans.keys()
