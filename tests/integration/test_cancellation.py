"""Clients that give up at random in front of a backend that answers at random: nothing is lost, nothing comes twice."""

from __future__ import annotations

import contextlib
import http.client
import random
import signal
import threading
from collections import Counter
from concurrent import futures
from pathlib import Path
from typing import Any, Self

import grpc
import pytest

from deploy.demo.processes import Spansieve
from tests.integration.harness import EXPORT, make_config, start, wait_for
from tests.support import otlp

CLIENTS = 12
REQUESTS = 100
"""Of each client."""
HEADERS = {"Content-Type": "application/x-protobuf"}


class Backend:
    """Takes a request at once or late, or refuses it, and knows when its caller has gone.

    Attributes:
        delivered: names of the spans that it has answered with success.
    """

    def __init__(self, seed: int) -> None:
        self.delivered: list[str] = []
        self._random = random.Random(seed)
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=CLIENTS))
        handler = grpc.unary_unary_rpc_method_handler(self._export)
        service, method = EXPORT.strip("/").split("/")
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def _export(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        name = message.decode("latin-1").partition("<")[2].partition(">")[0]
        gone = threading.Event()
        choice = self._random.random()
        if choice < 0.1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "try again")
        if choice > 0.5 and context.add_callback(gone.set) and gone.wait(choice / 30):
            return b""
        if context.is_active():
            self.delivered.append(name)
        return b""


class Client(threading.Thread):
    """Sends over gRPC or HTTP, and gives up about half of its requests before they are answered.

    Attributes:
        acknowledged: names of the spans whose request was answered with success.
        told: how many requests were answered at all.
    """

    def __init__(self, number: int, spansieve: Spansieve) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        self._number = number
        self._random = random.Random(number)
        self._spansieve = spansieve
        self.start()

    def run(self) -> None:
        """Send all."""
        send = self._post if self._number % 3 == 0 else self._call
        with grpc.insecure_channel(self._spansieve.grpc) as channel:
            self._export = channel.unary_unary(EXPORT)
            for number in range(REQUESTS):
                name = f"{self._number}-{number}"
                if send(otlp.traces(otlp.span(f"<{name}>")).SerializeToString()):
                    self.acknowledged.append(name)

    def _call(self, body: bytes) -> bool:
        patience_s = self._random.choice([0.001, 0.005, 0.02, 10.0, 10.0])
        future = self._export.future(body, timeout=patience_s if self._random.random() < 0.5 else 10.0)
        try:
            future.result(timeout=patience_s)
        except grpc.FutureTimeoutError:
            future.cancel()
            return False
        except (grpc.RpcError, grpc.FutureCancelledError):
            return False
        return True

    def _post(self, body: bytes) -> bool:
        patience_s = self._random.choice([0.001, 0.005, 0.02, 10.0, 10.0])
        host, _, port = self._spansieve.http.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=patience_s)
        with contextlib.closing(connection):
            try:
                connection.request("POST", "/v1/traces", body, HEADERS)
                return connection.getresponse().status == 200
            except (OSError, http.client.HTTPException):
                return False


def _config(backend: Backend, queue: dict[str, Any]) -> dict[str, Any]:
    retry = {"initial_interval": "5ms", "max_interval": "20ms"}
    return make_config(
        backend.port,
        otlp_grpc={"compression": "none", "sending_queue": queue, "retry_on_failure": retry},
        service={"shutdown_timeout": "2s"},
    )


def _total(spansieve: Spansieve, *names: str) -> float:
    return sum(sample.value for sample in spansieve.samples() if sample.name in names)


QUEUES = {
    "no queue": {"enabled": False, "num_consumers": 4},
    "a queue that waits": {"wait_for_result": True, "num_consumers": 4},
}


@pytest.mark.parametrize("queue", QUEUES)
def test_every_request_has_one_fate(queue: str, tmp_path: Path) -> None:
    """What was acknowledged has been delivered; nothing twice; accepted is sent, and refused is failed or withdrawn."""
    with Backend(1) as backend, start(tmp_path / "c.yaml", _config(backend, QUEUES[queue])) as spansieve:
        clients = [Client(number, spansieve) for number in range(CLIENTS)]
        for client in clients:
            client.join()
        wait_for(lambda: _total(spansieve, "otelcol_exporter_queue_size") == 0)
        delivered = Counter(backend.delivered)
        acknowledged = {name for client in clients for name in client.acknowledged}
        assert {1} == set(delivered.values())
        assert acknowledged <= set(delivered)
        assert CLIENTS * REQUESTS / 5 < len(acknowledged) < CLIENTS * REQUESTS
        accepted = _total(spansieve, "otelcol_receiver_accepted_spans")
        refused = _total(spansieve, "otelcol_receiver_refused_spans")
        assert accepted == _total(spansieve, "otelcol_exporter_sent_spans")
        assert refused == _total(
            spansieve, "otelcol_exporter_send_failed_spans", "otelcol_exporter_enqueue_failed_spans"
        )
        assert len(acknowledged) <= accepted <= len(delivered) <= CLIENTS * REQUESTS
        assert refused > 0


def test_shutdown_in_the_midst_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Neither does it deliver anything twice, and it ends in time."""
    queue = {"enabled": False, "num_consumers": 4}
    with Backend(2) as backend, start(tmp_path / "c.yaml", _config(backend, queue)) as spansieve:
        clients = [Client(number, spansieve) for number in range(CLIENTS)]
        wait_for(lambda: len(backend.delivered) > CLIENTS * REQUESTS / 10)
        spansieve.send(signal.SIGTERM)
        assert 0 == spansieve.wait()
        for client in clients:
            client.join()
        assert {1} == set(Counter(backend.delivered).values())
        assert {name for client in clients for name in client.acknowledged} <= set(backend.delivered)


def test_outage_does_not_gather_the_requests_of_clients_that_have_gone(tmp_path: Path) -> None:
    """A backend that is down: whoever gives up, and its retry, leaves nothing behind in memory or in back-off."""
    queue = {"enabled": False, "num_consumers": 2}
    exporter = {
        "sending_queue": queue,
        "retry_on_failure": {"initial_interval": "60s", "max_interval": "60s"},
    }
    config = make_config(9, otlp_grpc=exporter)  # nobody listens there
    with (
        start(tmp_path / "c.yaml", config) as spansieve,
        grpc.insecure_channel(spansieve.grpc) as channel,
    ):
        export = channel.unary_unary(EXPORT)
        body = otlp.traces(otlp.span()).SerializeToString()
        for _ in range(3):
            pending = [export.future(body) for _ in range(50)]
            wait_for(lambda: _total(spansieve, "otelcol_exporter_queue_size") == 50)
            for call in pending:
                call.cancel()
            wait_for(lambda: _total(spansieve, "otelcol_exporter_queue_size") == 0)
        assert 150 == _total(spansieve, "otelcol_exporter_send_failed_spans")
        assert 150 == _total(spansieve, "otelcol_receiver_refused_spans")
        assert 0 == _total(spansieve, "otelcol_exporter_in_flight_requests")
