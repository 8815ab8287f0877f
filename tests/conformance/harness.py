"""A receiver on real sockets in front of queues that the test empties."""

from __future__ import annotations

import logging
import pathlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from collector.component import Settings
from collector.ids import ComponentID, Signal
from collector.native.pipeline import Consumer, Queue
from collector.native.runtime import Runtime, Worker
from collector.receivers import otlp
from collector.service.listeners import Listeners
from collector.telemetry.logs import Log
from tests.conformance.peers import TIMEOUT_S, Address
from tests.support.timer import Timer


class Sink:
    """Where one signal ends: a queue, emptied by the test."""

    def __init__(self, runtime: Runtime, signal: Signal, capacity: int = 1 << 30) -> None:
        self.queue = Queue(runtime, signal, sizer="bytes", capacity=capacity)

    def take(self) -> list[bytes]:
        """Return the requests that arrived since the last call; an answered request has arrived."""
        requests = []
        while (item := self.queue.pop(0.0)) is not None:
            requests.append(bytes(item.view))
            self.queue.done(item)
        return requests


class Collector:
    """An `otlp` receiver on 127.0.0.1 with a sink for each signal."""

    def __init__(
        self,
        transport: str,
        *,
        grpc: Mapping[str, Any] | None = None,
        http: Mapping[str, Any] | None = None,
        consumers: Callable[[Runtime], Mapping[Signal, Consumer]] | None = None,
        component_id: str = "otlp",
        clock: Callable[[], float] = time.monotonic,
        metadata_names: tuple[str, ...] = (),
        **keys: Any,
    ) -> None:
        self.runtime = Runtime()
        self.timer = Timer()
        self.sinks: dict[Signal, Sink] = {}
        if consumers is None:
            self.sinks = {signal: Sink(self.runtime, signal) for signal in Signal}
            routes: Mapping[Signal, Consumer] = {signal: sink.queue for signal, sink in self.sinks.items()}
        else:
            routes = consumers(self.runtime)
        log = Log(logging.getLogger("test"))
        self.sockets = Listeners().view("otlp")
        config = otlp.Config(
            protocols=otlp.Protocols(
                grpc=otlp.Grpc(**{"endpoint": "127.0.0.1:0", **(grpc or {})}),
                http=otlp.Http(**{"endpoint": "127.0.0.1:0", **(http or {})}),
            ),
            transport=otlp.TransportName(transport),
            **keys,
        )
        settings = Settings(
            id=ComponentID.parse(component_id),
            signal=None,
            runtime=self.runtime,
            log=log,
            clock=clock,
            loop=self.timer,
            listeners=self.sockets,
            metadata_names=metadata_names,
        )
        self.receiver = otlp.factory.create(config, settings)
        for signal, consumer in routes.items():
            self.receiver.publish(signal, consumer)

    def __enter__(self) -> Self:
        self.receiver.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, deadline_s: float = 5.0) -> None:
        """Shut down in the order of the service."""
        self.receiver.shutdown(deadline_s)
        for signal in Signal:
            self.receiver.publish(signal, None)
        self.sockets.release()

    @property
    def grpc(self) -> Address:
        """Where gRPC is served."""
        return _address(self.receiver.addresses["grpc"])

    @property
    def http(self) -> Address:
        """Where HTTP is served."""
        return _address(self.receiver.addresses["http"])

    def take(self, signal: Signal = Signal.TRACES) -> list[bytes]:
        """Return the requests of signal that arrived since the last call."""
        return self.sinks[signal].take()

    def metrics(self) -> dict[tuple[str, str, str], float]:
        """Return the receiver's samples by (name, transport, signal); those of several reasons add up."""
        values: dict[tuple[str, str, str], float] = {}
        for sample in self.receiver.samples():
            labels = dict(sample.labels)
            key = sample.instrument.name, labels.get("transport", ""), labels.get("otel_signal", "")
            values[key] = values.get(key, 0) + sample.value
        return values


def full_queue(runtime: Runtime) -> Mapping[Signal, Consumer]:
    """Return consumers that refuse everything: queues with room for one request, which they hold."""
    from tests.conformance.bodies import GOLDEN

    worker = Worker(runtime)
    queues = {signal: Queue(runtime, signal, sizer="requests", capacity=1) for signal in Signal}
    for signal, queue in queues.items():
        queue.push(worker, GOLDEN[signal])
    return queues


def wait_until(condition: Callable[[], bool]) -> None:
    """Return once condition holds; fail after a while."""
    deadline_s = time.monotonic() + TIMEOUT_S
    gone = threading.Event()
    while not condition():
        assert time.monotonic() < deadline_s, "waited too long"
        gone.wait(0.005)


class PeakMemory:
    """Growth of the resident set's high-water mark while the context is open, in bytes."""

    growth = 0

    def __enter__(self) -> Self:
        # 5 resets the high-water mark to what is resident now.
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        self._before = _high_water()
        return self

    def __exit__(self, *_: object) -> None:
        self.growth = _high_water() - self._before


def _high_water() -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
