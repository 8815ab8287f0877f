"""What has been acknowledged outlives a shutdown, and a reload that changes its exporter, while the backend is away.

So it does signals at the wrong moment, and a package that is taken away under the running collector.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.native import _spansieve
from deploy.demo.processes import ROOT, Spansieve
from tests.integration.harness import Client, make_config, start, wait_for, write
from tests.integration.load import Backend, Load, total
from tests.support.otlp import items

N_REQUESTS = 50
# So that whatever is delivered soon was not waited for.
SELDOM = {"initial_interval": "1h", "max_interval": "1h", "max_elapsed_time": 0}


class Outage(Protocol):
    """A backend that can be down for its clients, though it listens."""

    port: int
    is_down: bool
    n_refused: int

    def arrived(self) -> list[str]:
        """Return the ids of the spans that it has taken, sorted."""


class GrpcOutage:
    """One that speaks gRPC and answers UNAVAILABLE."""

    def __init__(self) -> None:
        self.is_down = False
        self.n_refused = 0
        self._backend = Backend()
        self._backend.answer = self._answer
        self.port = self._backend.port

    def __enter__(self) -> Outage:
        return self

    def __exit__(self, *_: object) -> None:
        self._backend.stop()

    def arrived(self) -> list[str]:
        return sorted(id.hex() for id in self._backend.spans.elements())

    def _answer(self, context: grpc.ServicerContext) -> None:
        if self.is_down:
            self.n_refused += 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "down")


class HttpOutage:
    """One that speaks HTTP and answers 503."""

    def __init__(self) -> None:
        self.is_down = False
        self.n_refused = 0
        self._spans: list[str] = []
        outage = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(outage._take(body, self.headers["content-type"]))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever).start()

    def __enter__(self) -> Outage:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def arrived(self) -> list[str]:
        return sorted(self._spans)

    def _take(self, body: bytes, media_type: str) -> int:
        if self.is_down:
            self.n_refused += 1
            return 503
        if media_type == "application/json":
            [resource] = json.loads(body)["resourceSpans"]
            self._spans += [span["spanId"] for scope in resource["scopeSpans"] for span in scope["spans"]]
        else:
            self._spans += [span.span_id.hex() for span in items(ExportTraceServiceRequest.FromString(body))]
        return 200


OUTAGES: dict[str, Callable[[], Any]] = {"otlp_grpc": GrpcOutage, "otlp_http": HttpOutage}


@pytest.fixture(params=OUTAGES)
def exporter(request: pytest.FixtureRequest) -> str:
    """Each exporter that has a backend."""
    return str(request.param)


def config_of(exporter: str, port: int, *, batch: bool = False, **keys: Any) -> dict[str, Any]:
    """Return a configuration that sends by exporter to port, with these keys of it and a shutdown_timeout."""
    timeout = keys.pop("shutdown_timeout", "60s")
    config = make_config(
        port,
        processors={"batch": {"timeout": "10ms"}} if batch else {},
        service={"shutdown_timeout": timeout},
    )
    where = {
        "otlp_grpc": {"endpoint": f"127.0.0.1:{port}", "tls": {"insecure": True}},
        "otlp_http": {"endpoint": f"http://127.0.0.1:{port}", "compression": "none"},
    }
    config["exporters"] = {exporter: {"retry_on_failure": SELDOM, **where[exporter], **keys}}
    for pipeline in config["service"]["pipelines"].values():
        pipeline["exporters"] = [exporter]
    return config


@contextmanager
def sending(path: Path, config: dict[str, Any]) -> Iterator[tuple[Spansieve, Client]]:
    """Run a collector and a client of it."""
    with start(path, config) as spansieve, Client(spansieve.grpc) as client:
        yield spansieve, client


def reload(spansieve: Spansieve, times: int = 1) -> None:
    """Have the configuration read again and wait until it runs."""
    spansieve.send(signal.SIGHUP)
    wait_for(lambda: "".join(spansieve.log).count("Configuration reloaded.") == times)


def lost_items(spansieve: Spansieve) -> list[int]:
    """Return the numbers of items in the lines that tell of a loss."""
    return [
        json.loads(line.rpartition("\t")[2])["dropped_items"]
        for line in spansieve.log
        if "dropped_items" in line
    ]


def test_sigterm_delivers_what_was_in_back_off(tmp_path: Path, exporter: str) -> None:
    """The backend is well again, and there is time: each request that it had refused is sent once more."""
    with OUTAGES[exporter]() as backend:
        backend.is_down = True
        with sending(tmp_path / "config.yaml", config_of(exporter, backend.port)) as (spansieve, client):
            for _ in range(N_REQUESTS):
                client.send()
            wait_for(lambda: backend.n_refused == 10)  # as many as there are consumers
            backend.is_down = False
            assert 0 == spansieve.stop()
            assert [] == lost_items(spansieve)
        assert client.sent == backend.arrived()


@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGTERM,), (signal.SIGTERM, signal.SIGTERM, signal.SIGINT)],
    ids=["once", "as timeout and kill; kill do"],
)
def test_shutdown_goes_on_until_the_backend_is_well(
    tmp_path: Path, exporter: str, numbers: tuple[signal.Signals, ...]
) -> None:
    """It recovers while the collector shuts down; signals that come together are one wish."""
    keys = {"retry_on_failure": {"initial_interval": "50ms"}}
    with OUTAGES[exporter]() as backend:
        backend.is_down = True
        with sending(tmp_path / "config.yaml", config_of(exporter, backend.port, **keys)) as (
            spansieve,
            client,
        ):
            for _ in range(N_REQUESTS):
                client.send()
            for number in numbers:
                spansieve.send(number)
            wait_for(lambda: "Starting shutdown..." in "".join(spansieve.log))
            refused = backend.n_refused
            wait_for(lambda: backend.n_refused > refused + 2 * N_REQUESTS)  # each had its turn
            backend.is_down = False
            assert 0 == spansieve.wait()
        assert client.sent == backend.arrived()


# Of the exporter before and after a reload: what waits need not be compressed as what comes then.
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "otlp_grpc": ({"compression": "zstd"}, {"compression": "gzip"}),
    "otlp_http": ({"compression": "gzip"}, {"encoding": "json", "compression": "none"}),
}


def test_changed_exporter_delivers_what_was_in_back_off(tmp_path: Path, exporter: str) -> None:
    """SIGHUP with another endpoint: what waited for the wrong one goes to the right one, at once."""
    path = tmp_path / "config.yaml"
    before, after = CHANGES[exporter]
    with OUTAGES[exporter]() as wrong, OUTAGES[exporter]() as right:
        wrong.is_down = True
        with sending(path, config_of(exporter, wrong.port, **before)) as (spansieve, client):
            for _ in range(N_REQUESTS):
                client.send()
            wait_for(lambda: wrong.n_refused == 10)
            write(path, config_of(exporter, right.port, **after))
            reload(spansieve)
            wait_for(lambda: client.sent == right.arrived())
            assert [] == wrong.arrived()
            wait_for(lambda: N_REQUESTS == total(spansieve, "otelcol_exporter_sent_spans"))
            assert 0 == spansieve.stop()
            assert [] == lost_items(spansieve)


def test_changed_exporter_leaves_a_backend_that_never_answers(tmp_path: Path, exporter: str) -> None:
    """What is being sent goes to the new endpoint when the attempt's time is up, the others at once."""
    path = tmp_path / "config.yaml"
    with socket.create_server(("127.0.0.1", 0)) as silent, OUTAGES[exporter]() as right:
        port = silent.getsockname()[1]
        with sending(path, config_of(exporter, port, timeout="1s")) as (spansieve, client):
            for _ in range(N_REQUESTS):
                client.send()
            write(path, config_of(exporter, right.port))
            reload(spansieve)
            wait_for(lambda: client.sent == right.arrived())
            assert 0 == spansieve.stop()


def test_reloads_and_a_backend_that_comes_and_goes_lose_nothing(tmp_path: Path, exporter: str) -> None:
    """Under load, with a batch in front and the queue full: whatever was acknowledged arrives, and only once."""
    path = tmp_path / "config.yaml"
    keys = {"retry_on_failure": {"initial_interval": "50ms"}, "sending_queue": {"queue_size": 20}}
    with (
        OUTAGES[exporter]() as backend,
        start(path, config_of(exporter, backend.port, batch=True, **keys)) as spansieve,
    ):
        with Load(spansieve.grpc) as load:
            for times in range(1, 7):
                backend.is_down = not backend.is_down
                load.wait_for(100)
                write(path, config_of(exporter, backend.port, batch=True, **keys, timeout=f"{4 + times}s"))
                reload(spansieve, times)
            backend.is_down = True
            load.wait_for(100)
        backend.is_down = False
        assert 0 == spansieve.stop()
        assert [] == lost_items(spansieve)
    assert sorted(id.hex() for id in load.acknowledged) == backend.arrived()


def test_silent_backend_is_told_of_with_each_item_once(tmp_path: Path, exporter: str) -> None:
    """It accepts and never answers: the number of items lost is told before the process ends, and that only once."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = config_of(exporter, silent.getsockname()[1], shutdown_timeout="3s")
        with sending(tmp_path / "config.yaml", config) as (spansieve, client):
            for _ in range(30):
                client.send(2)
            assert 0 == spansieve.stop()
        assert 60 == sum(lost_items(spansieve))
        assert 1 == len(lost_items(spansieve))
        assert "Shutdown complete." in "".join(spansieve.log)


def test_balance_can_be_read_at_any_time(tmp_path: Path, exporter: str) -> None:
    """What was accepted is sent, failed, or in the queue, in items."""
    with OUTAGES[exporter]() as backend:
        backend.is_down = True
        config = config_of(exporter, backend.port, shutdown_timeout="1s")
        with sending(tmp_path / "config.yaml", config) as (spansieve, client):
            for count in range(1, 8):
                client.send(count)
            wait_for(lambda: backend.n_refused == 7)
            assert 28 == total(spansieve, "otelcol_receiver_accepted_spans")
            assert 28 == total(spansieve, "spansieve_exporter_queue_items")
            assert 7 == total(spansieve, "otelcol_exporter_queue_size")


# ------------------------------------------------------------------------------------------------------- signals


def test_hangup_before_all_runs_is_obeyed_then(tmp_path: Path) -> None:
    """It comes while the configuration is read for the first time; that is read again, and nothing ends."""
    path = tmp_path / "config.yaml"
    config = json.dumps(make_config(9))
    command = [sys.executable, "-m", "collector", "--config", str(path)]
    os.mkfifo(path)
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for number in (signal.SIGHUP, signal.SIGTERM):
            with open(path, "w") as file:  # returns when it is about to be read
                path.unlink()
                os.mkfifo(path)  # for the next time
                process.send_signal(number)
                file.write(config)
        log = process.stderr.read()
        assert 0 == process.wait()
    assert 1 == log.count("Configuration reloaded.")


def test_hangups_until_the_end_do_not_end_the_process(tmp_path: Path) -> None:
    """Whenever in a shutdown it comes, up to its last moment."""
    for _ in range(3):
        with start(tmp_path / "config.yaml", make_config(9)) as spansieve:
            spansieve.send(signal.SIGTERM)
            while spansieve._process.poll() is None:
                spansieve.send(signal.SIGHUP)
                threading.Event().wait(0.0002)  # it has other things to do, too
            assert 0 == spansieve.wait()


def test_failed_reload_is_on_the_metrics_page(tmp_path: Path) -> None:
    """Until one succeeds."""
    path = tmp_path / "config.yaml"
    name = "spansieve_config_last_reload_successful"
    with start(path, make_config(9)) as spansieve:
        assert 1 == total(spansieve, name)
        path.write_text("receivers: [")
        spansieve.send(signal.SIGHUP)
        wait_for(lambda: 0 == total(spansieve, name))
        write(path, make_config(9))
        spansieve.send(signal.SIGHUP)
        wait_for(lambda: 1 == total(spansieve, name))


# -------------------------------------------------------------------------------------------- the package goes away

FAULTS = [
    "receivers: [",
    "- a list",
    "exporters: {otlp_grpc: {endpiont: x}}",
    "exporters: {nowhere: {}}",
    "processors: {batch: {timeout: fast}}",
    "exporters: {otlp_grpc/\u00fc: {}}",
]


@pytest.mark.parametrize(
    "exporters",
    [
        {"otlp_grpc": {"endpoint": "localhost:1", "tls": {"insecure": True}}},
        {"otlp_http": {"endpoint": "http://localhost:1", "encoding": "json", "timeout": "1s"}},
        {"file": {"path": "out.jsonl"}},
        {"debug": {"verbosity": "detailed"}},
    ],
    ids=lambda exporters: next(iter(exporters)),
)
def test_package_may_go_once_all_runs(tmp_path: Path, exporters: dict[str, Any]) -> None:
    """An upgrade replaces it: faults are told, changes are taken, data is sent, and the shutdown is as ever."""
    [exporter] = exporters
    site = tmp_path / "site"
    shutil.copytree(
        ROOT / "collector", site / "collector", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    shutil.copy(_spansieve.__file__, site / "collector" / "native")
    config = make_config(9, service={"shutdown_timeout": "1s"})
    config["exporters"] = exporters
    for pipeline in config["service"]["pipelines"].values():
        pipeline["exporters"] = [exporter]
    path = write(tmp_path / "config.yaml", config)
    others = [folder for folder in sys.path if folder.endswith("site-packages")]
    program = f"import sys; sys.path[:0] = {[str(site)]}; sys.path += {others}; from collector.cli import main; main()"
    # Without site: an editable installation would find the package in the checkout.
    command = [sys.executable, "-S", "-P", "-c", program, "--config", str(path)]
    with Spansieve(path, command=command, cwd=tmp_path) as spansieve, Client(spansieve.grpc) as client:
        wait_for(
            lambda: total(spansieve, "otelcol_process_uptime") >= 1
        )  # what may be needed has been read by then
        shutil.rmtree(site)
        client.send()
        for number, fault in enumerate(FAULTS, start=1):
            path.write_text(fault)
            spansieve.send(signal.SIGHUP)
            wait_for(
                lambda number=number: (
                    number
                    == "".join(spansieve.log).count("configuration not reloaded; the running one stays")
                )
            )
        config["receivers"]["otlp"]["protocols"]["grpc"]["max_concurrent_streams"] = 50
        config["exporters"][exporter] |= {"sending_queue": {"queue_size": 9}} if "otlp" in exporter else {}
        write(path, config)
        reload(spansieve)
        client.send()
        assert 2 == total(spansieve, "otelcol_receiver_accepted_spans")
        assert 0 == spansieve.stop()
        log = "".join(spansieve.log)
        assert "operation failed" not in log
        assert "Error" not in log  # no exception of Python is shown
        assert 0 == sum(lost_items(spansieve)) or "refused" in log
