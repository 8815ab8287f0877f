"""A spansieve process as an operator runs it, and a grpcio backend behind it, for tests over real sockets."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, Self

import grpc
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.otlp import items

PATIENCE_S = 30.0
_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def wait_until(condition: Callable[[], Any], what: str = "condition") -> None:
    """Return once condition holds; fail after a while."""
    end_s = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end_s, f"waited too long for {what}"
        pause.wait(0.005)


def free_port() -> int:
    """Return a port that was free a moment ago, for what must keep its port over a restart."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Spansieve:
    """`spansieve --config FILE` in a process of its own; the metrics page is on a free port.

    Args:
        folder: where the configuration and the log are written.
        config: as YAML would give it.
    """

    def __init__(self, folder: pathlib.Path, config: dict[str, Any], **environ: str) -> None:
        self._file = folder / "config.yaml"
        self._log = folder / "log"
        self._environ = {**os.environ, **environ}
        self.write(config)

    def write(self, config: dict[str, Any]) -> None:
        """Replace the configuration file."""
        service = config.get("service")
        if isinstance(service, dict) and "telemetry" not in service:
            reader = {"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": 0, **_AS_DEFAULT}}}}
            service["telemetry"] = {"metrics": {"readers": [reader]}}
        self._file.write_text(yaml.safe_dump(config))

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "collector", "--config", str(self._file)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, env=self._environ)
        wait_until(lambda: self.logged("Everything is ready") or self.process.poll() is not None, "the start")
        assert self.process.poll() is None, self.log()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def log(self) -> str:
        """Return what was logged so far."""
        return self._log.read_text()

    def logged(self, text: str) -> int:
        """Return how often text was logged."""
        return self.log().count(text)

    def endpoint(self, event: str, component: str = "otlp") -> str:
        """Return the endpoint that a component logged last with event."""
        found = [_fields(line) for line in self.log().splitlines() if f"\t{event}\t" in line]
        mine = [str(line["endpoint"]) for line in found if line["otelcol.component.id"] == component]
        return mine[-1]

    @property
    def grpc(self) -> str:
        """Where the receiver `otlp` serves gRPC."""
        return self.endpoint("Starting GRPC server")

    @property
    def http(self) -> str:
        """Where the receiver `otlp` serves HTTP."""
        return self.endpoint("Starting HTTP server")

    def reload(self, config: dict[str, Any]) -> None:
        """Replace the configuration and wait until it runs."""
        before = self.logged("Configuration reloaded.")
        self.write(config)
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.logged("Configuration reloaded.") > before, "the reload")

    def stop(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def metrics(self) -> dict[str, float]:
        """Return the series of the metrics page, by name with labels."""
        status, page = fetch(self.endpoint("listening", "telemetry/metrics"), "/metrics")
        assert status == 200
        lines = (line.rpartition(" ") for line in page.decode().splitlines() if not line.startswith("#"))
        return {series: float(value) for series, _, value in lines}

    def total(self, name: str, **labels: str) -> int:
        """Return the sum of the series of name that have labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return int(
            sum(
                value
                for series, value in self.metrics().items()
                if series.partition("{")[0] == name and all(pair in series for pair in wanted)
            )
        )

    def rss_bytes(self) -> int:
        """Return the resident memory of the process."""
        pages = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


_AS_DEFAULT = {"without_scope_info": True, "without_units": True, "without_type_suffix": True}


def _fields(line: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(line[line.index("{") :])
    return fields


def fetch(
    address: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Return status and body of an HTTP exchange."""
    request = urllib.request.Request(f"http://{address}{path}", body, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


class Backend(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A grpcio server that counts the ids of the spans it is sent; it can be stopped and started again."""

    def __init__(self, port: int = 0, n_threads: int = 4) -> None:
        self._port = port
        self._n_threads = n_threads
        self._lock = threading.Lock()
        self.spans: Counter[bytes] = Counter()
        self.sizes: list[int] = []
        self.answer: Callable[[grpc.ServicerContext], None] = lambda context: None
        self.start()

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._pool = futures.ThreadPoolExecutor(self._n_threads)
        self._server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers([self])
        self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
        self._server.start()

    def stop(self) -> None:
        """End the server and its threads."""
        self._server.stop(None).wait()
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._port}"

    @property
    def n_spans(self) -> int:
        """Spans that it has taken."""
        with self._lock:
            return self.spans.total()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Be grpcio's handler: bytes in and out."""
        return grpc.unary_unary_rpc_method_handler(self._export)

    def _export(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.answer(context)
        ids = [span.span_id for span in items(ExportTraceServiceRequest.FromString(request))]
        with self._lock:
            self.spans.update(ids)
            self.sizes.append(len(request))
        return b""


class Client:
    """A grpcio client of the trace service that gives each span an id of its own."""

    def __init__(self, endpoint: str, first: int = 1) -> None:
        self._channel = grpc.insecure_channel(endpoint, options=[("grpc.use_local_subchannel_pool", 1)])
        self._export = self._channel.unary_unary(_EXPORT)
        self._next = first
        self.acknowledged: set[bytes] = set()
        self.refusals: list[grpc.RpcError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def send(self, n_spans: int = 10, attribute_bytes: int = 0) -> bool:
        """Send one request; return whether it was acknowledged."""
        from tests.support.otlp import span, traces

        ids = [number.to_bytes(8, "big") for number in range(self._next, self._next + n_spans)]
        self._next += n_spans
        text = {"text": "x" * attribute_bytes} if attribute_bytes else {}
        spans = (span(trace_id=id * 2, span_id=id, attributes=text) for id in ids)
        try:
            self._export(traces(*spans).SerializeToString(), timeout=PATIENCE_S)
        except grpc.RpcError as error:
            self.refusals.append(error)
            return False
        self.acknowledged.update(ids)
        return True


class Load:
    """Clients that send without pause from threads of their own until the context ends."""

    def __init__(self, endpoint: str, n_clients: int = 3, n_spans: int = 5) -> None:
        self.clients = [Client(endpoint, first=1 + index * 10_000_000) for index in range(n_clients)]
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(client, n_spans)) for client in self.clients
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the load; safe twice."""
        self._ends.set()
        for thread in self._threads:
            thread.join()
        for client in self.clients:
            client._channel.close()

    def wait_for(self, n_more: int) -> None:
        """Return when so many more requests were answered."""
        before = self._n_answered()
        wait_until(lambda: self._n_answered() >= before + n_more, f"{n_more} more requests")

    @property
    def acknowledged(self) -> set[bytes]:
        """Ids of the spans that were acknowledged."""
        return set().union(*(client.acknowledged for client in self.clients))

    @property
    def refusals(self) -> Iterator[grpc.RpcError]:
        """What was answered instead."""
        return (error for client in self.clients for error in client.refusals)

    def _n_answered(self) -> int:
        return sum(len(client.acknowledged) + len(client.refusals) for client in self.clients)

    def _run(self, client: Client, n_spans: int) -> None:
        while not self._ends.is_set():
            client.send(n_spans)
