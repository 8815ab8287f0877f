"""The real Collector and spansieve side by side: the same configuration, ports apart, and a sink behind each."""

from __future__ import annotations

import dataclasses
import http.server
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGHUP, SIGSTOP
from typing import Any, NamedTuple, Self

import yaml
from prometheus_client.parser import text_string_to_metric_families

from collector.ids import Signal
from deploy.demo.http_client import get
from tests.conformance.peers import Address
from tests.support import otlp

ROOT = Path(__file__).parents[2]
COLLECTOR = os.environ.get("SPANSIEVE_INTEROP_COLLECTOR", "")
"""The binary that build_collector.sh made."""

SIDES = {"collector": [COLLECTOR], "spansieve": [sys.executable, "-m", "collector"]}
_START_S = 60.0
_STOP_S = 120.0
_STARTS = 3


class Ports(NamedTuple):
    """Free ports of one process, and the sink's."""

    grpc: int
    http: int
    metrics: int
    sink: int

    @classmethod
    def find(cls, sink: int) -> Self:
        """Return ports that were free just now; the Collector does not say which it has taken when asked for 0."""
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        numbers = [listening.getsockname()[1] for listening in sockets]
        for listening in sockets:
            listening.close()
        return cls(*numbers, sink)


Config = Callable[[Ports], dict[str, Any]]


def base(ports: Ports, **sections: Any) -> dict[str, Any]:
    """Return a configuration with one receiver for both transports and the metrics page, and these sections.

    Args:
        sections: `processors`, `exporters`, `connectors`, `pipelines`; `grpc` and `http`, keys of the protocols.
    """
    reader = {
        "pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": ports.metrics, **_PLAIN_NAMES}}}
    }
    return {
        "receivers": {
            "otlp": {
                "protocols": {
                    "grpc": {"endpoint": f"127.0.0.1:{ports.grpc}", **sections.get("grpc", {})},
                    "http": {"endpoint": f"127.0.0.1:{ports.http}", **sections.get("http", {})},
                }
            }
        },
        **{kind: sections[kind] for kind in ("processors", "exporters", "connectors") if kind in sections},
        "service": {"pipelines": sections["pipelines"], "telemetry": {"metrics": {"readers": [reader]}}},
    }


_PLAIN_NAMES = {"without_scope_info": True, "without_units": True, "without_type_suffix": True}


def to_sink(ports: Ports, path: str = "", **keys: Any) -> dict[str, Any]:
    """Return an `otlp_http` exporter that sends plain protobuf to path of the sink, in order, and does not give up."""
    return {
        "endpoint": f"http://127.0.0.1:{ports.sink}{path}",
        "compression": "none",
        "sending_queue": {"num_consumers": 1, "queue_size": 100_000},
        **keys,
    }


class Process:
    """One of the two, running."""

    def __init__(
        self, side: str, config: Config, sink: int, folder: Path, ports: Ports | None = None
    ) -> None:
        self._path = folder / f"{side}.yaml"
        self.log: list[str] = []
        for attempt in range(_STARTS):
            self._ports = ports or Ports.find(sink)
            self._path.write_text(yaml.safe_dump(config(self._ports)))
            if self._start(SIDES[side]):
                return
            text = "".join(self.log)
            if "address already in use" not in text.lower() or attempt + 1 == _STARTS:
                raise RuntimeError(f"{side} did not start:\n{text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def grpc(self) -> Address:
        """Where gRPC is served."""
        return "127.0.0.1", self._ports.grpc

    @property
    def http(self) -> Address:
        """Where HTTP is served."""
        return "127.0.0.1", self._ports.http

    def kill(self) -> None:
        """End it on the spot."""
        self._process.kill()
        self.stop()

    def suspend(self) -> None:
        """Let it do nothing from now on: what is sent to it stays unread."""
        self._process.send_signal(SIGSTOP)

    def terminate(self) -> None:
        """Ask it to end, once, and do not wait: a second time would cut its end short."""
        if not self._is_ending:
            self._is_ending = True
            self._process.terminate()

    def reload(self, config: Config) -> None:
        """Give it another configuration and tell it, and do not wait."""
        self._path.write_text(yaml.safe_dump(config(self._ports)))
        self._process.send_signal(SIGHUP)

    def stop(self) -> None:
        """Let it send what it holds, and end it; safe twice."""
        if self._process.poll() is None:
            self.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise
        self._process.wait()
        self._reader.join()

    def samples(self, pattern: str = "") -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Return the samples of its metrics page whose name matches pattern, by name and sorted labels."""
        return {
            (name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.page())
            for sample in family.samples
            if re.search(pattern, name := sample.name.removesuffix("_total"))
        }

    def page(self) -> str:
        """Return its metrics page."""
        return get(f"127.0.0.1:{self._ports.metrics}", "/metrics")

    def _start(self, command: Sequence[str]) -> bool:
        self.log = []
        self._process = subprocess.Popen(
            [*command, "--config", str(self._path)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        has_started = threading.Event()
        self._is_ready = self._is_ending = False
        self._reader = threading.Thread(target=self._read, args=(has_started,), daemon=True)
        self._reader.start()
        has_started.wait(_START_S)
        if not self._is_ready:
            self.stop()
        return self._is_ready

    def _read(self, has_started: threading.Event) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                self.log.append(line)
                if "Everything is ready" in line:
                    self._is_ready = True
                    has_started.set()
        has_started.set()


class Answer(NamedTuple):
    """What a sink says to a request; only what it answers with success it keeps."""

    status: int = 200
    body: bytes = b""


class Sink(http.server.ThreadingHTTPServer):
    """An OTLP/HTTP backend that keeps the requests it is sent, by path.

    Attributes:
        scripts: what it answers under a path, in turn; the last for good. A path without one is answered with success.
        gates: a request under such a path is not answered before its event is set.
        waiting: how many requests have come to a gate.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SinkHandler)
        self.requests: dict[str, list[bytes]] = {}
        self.scripts: dict[str, list[Answer]] = {}
        self.gates: dict[str, threading.Event] = {}
        self.waiting: dict[str, int] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def take(self, path: str, body: bytes) -> Answer:
        """Keep a request if the answer, which is returned, is a success."""
        if gate := self.gates.get(path):
            with self._lock:
                self.waiting[path] = self.waiting.get(path, 0) + 1
            gate.wait(_STOP_S)
        with self._lock:
            script = self.scripts.get(path, [Answer()])
            answer = script.pop(0) if len(script) > 1 else script[0]
            if answer.status == 200:
                self.requests.setdefault(path, []).append(body)
        return answer

    def close_gate(self, path: str) -> threading.Event:
        """Let requests to path wait for their answer until the event that is returned is set."""
        return self.gates.setdefault(path, threading.Event())

    def received(self, path: str) -> list[bytes]:
        """Return the requests so far for path, in their order."""
        with self._lock:
            return list(self.requests.get(path, ()))

    def handle_error(self, *_: object) -> None:
        """Say nothing: a process that ends leaves requests behind."""


class _SinkHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Sink)
        answer = self.server.take(self.path, body)
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """Both processes and their sinks.

    Attributes:
        processes, sinks: by side, `collector` first.
    """

    processes: dict[str, Process]
    sinks: dict[str, Sink]

    def each(self, action: Callable[[Process], Any]) -> dict[str, Any]:
        """Do the same with both and return what came of it, by side."""
        return {side: action(process) for side, process in self.processes.items()}

    def drain(self) -> None:
        """Stop both, after which their sinks hold all that they will get."""
        for process in self.processes.values():
            process.stop()

    def received(self, path: str) -> dict[str, list[bytes]]:
        """Return the requests that the sinks have got for path, by side."""
        return {side: sink.received(path) for side, sink in self.sinks.items()}


@contextmanager
def run_both(config: Config, folder: Path) -> Iterator[Pair]:
    """Run the Collector and spansieve with config."""
    with Sink() as sink_a, Sink() as sink_b:
        sinks = dict(zip(SIDES, (sink_a, sink_b), strict=True))
        with (
            Process("collector", config, sink_a.server_port, folder) as collector,
            Process("spansieve", config, sink_b.server_port, folder) as spansieve,
        ):
            yield Pair({"collector": collector, "spansieve": spansieve}, sinks)


_IDS = frozenset({"trace_id", "span_id", "parent_span_id"})


def normalise(message: Any) -> Any:
    """Take away, in place, what means the same as nothing, and return the message.

    That is empty sub-messages, but for those in a oneof, where an empty list is a value; and ids of zeros.
    """
    for field, value in message.ListFields():
        if field.message_type is None:
            if field.name in _IDS and not any(value):
                message.ClearField(field.name)
            continue
        if field.is_repeated:
            for item in value:
                normalise(item)
        else:
            normalise(value)
            if not value.ByteSize() and field.containing_oneof is None:
                message.ClearField(field.name)
    return message


def items_by_name(signal: Signal, requests: Sequence[bytes]) -> Mapping[str, bytes]:
    """Return the items of all requests as canonical bytes, by their name: a span's name, a record's severity text.

    Attributes are a map: they are sorted by key.

    Raises:
        AssertionError: an item came twice.
    """
    found: dict[str, bytes] = {}
    for request in requests:
        for item in otlp.items(otlp.decode(signal, request)):
            name = item.name if signal is Signal.TRACES else item.severity_text
            assert name not in found, f"{name} came twice"
            item.attributes.sort(key=lambda pair: pair.key)
            found[name] = normalise(item).SerializeToString(deterministic=True)
    return found
