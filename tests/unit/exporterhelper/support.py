"""What the tests of the exporting side share: requests, settings, recorded logs, waiting for a condition."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.component import Settings
from collector.ids import ComponentID, Signal
from collector.native.pipeline import Consumer
from collector.native.runtime import Runtime, Worker
from collector.telemetry.instruments import Sample
from collector.telemetry.logs import Log
from tests.support.timer import Timer

PATIENCE_S = 60.0


class Recorder(logging.Handler):
    """Keeps the events and fields of a logger of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[str, dict[str, Any]]] = []
        logger = logging.getLogger(f"test.{id(self)}")
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
        logger.handlers.clear()
        logger.addHandler(self)
        self.log = Log(logger)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep record."""
        self.records.append((record.getMessage(), record.__dict__["fields"]))

    def events(self) -> list[str]:
        """Return the events so far."""
        return [event for event, _ in self.records]

    @property
    def text(self) -> str:
        """Events and fields as one text."""
        return "\n".join(f"{event} {value}" for event, fields in self.records for value in fields.values())

    def fields(self, event: str) -> dict[str, Any]:
        """Return the fields of the first record of event."""
        return next(fields for name, fields in self.records if name == event)


def settings(signal: Signal, recorder: Recorder, clock: Callable[[], float] = time.monotonic) -> Settings:
    """Return what the service would give an exporter of signal."""
    component = ComponentID("test")
    return Settings(
        id=component, signal=signal, runtime=Runtime(), log=recorder.log, clock=clock, loop=Timer()
    )


def traces(n_spans: int = 1, name: str = "GET /") -> bytes:
    """Return a serialized request with n_spans spans."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    attribute = resource_spans.resource.attributes.add(key="service.name")
    attribute.value.string_value = "shop"
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "lib"
    for number in range(n_spans):
        span = scope_spans.spans.add(name=name, trace_id=bytes([number % 255 + 1]) * 16, span_id=b"12345678")
        span.attributes.add(key="http.status").value.int_value = 200
    return bytes(request.SerializeToString())


def metrics() -> bytes:
    """Return a serialized request with one gauge of two points."""
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="load")
    for value in (1, 2):
        metric.gauge.data_points.add(as_int=value)
    return bytes(request.SerializeToString())


def logs() -> bytes:
    """Return a serialized request with one log record."""
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    record.body.string_value = "hello"
    return bytes(request.SerializeToString())


def push(consumer: Consumer, runtime: Runtime, *requests: bytes) -> None:
    """Push requests as a pipeline would."""
    worker = Worker(runtime)
    for request in requests:
        consumer.push(worker, request)


def values(samples: Iterable[Sample]) -> dict[str, float]:
    """Return the value of each instrument by its name."""
    return {sample.instrument.name: sample.value for sample in samples}


def wait_until(condition: Callable[[], bool]) -> None:
    """Return once condition holds; fail after a while."""
    gone = threading.Event()
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        gone.wait(0.002)


class TracesExporter:
    """A started exporter of traces, and what its test does with it.

    Args:
        create: makes it from Settings, which hold a recorder of logs and a timer that the test drives.
    """

    def __init__(self, create: Callable[[Settings], Any]) -> None:
        self.recorder = Recorder()
        self.settings = settings(Signal.TRACES, self.recorder)
        self.exporter = create(self.settings)
        self.exporter.start()

    def push(self, request: bytes = b"") -> None:
        """Give it a request."""
        push(self.exporter.consumer, self.settings.runtime, request or traces())

    @property
    def sent(self) -> float:
        """Spans that have been taken so far."""
        return values(self.exporter.samples())["otelcol_exporter_sent_spans"]

    def pass_time(self) -> None:
        """Let the periods of all timers pass."""
        assert isinstance(self.settings.loop, Timer)
        self.settings.loop.fire()

    def stop(self) -> dict[str, float]:
        """Shut it down and return its samples."""
        self.exporter.shutdown(20)
        return values(self.exporter.samples())
