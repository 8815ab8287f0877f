"""The forward connector."""

from __future__ import annotations

import logging

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.component import Settings
from collector.connectors.forward import factory
from collector.ids import ComponentID, Signal
from collector.native.pipeline import Discard
from collector.native.runtime import Runtime, Worker
from collector.telemetry.logs import Log


def test_request_goes_to_every_output() -> None:
    """As it is, to each pipeline behind."""
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(name="a", trace_id=b"1" * 16, span_id=b"2" * 8)
    runtime = Runtime()
    log = Log(logging.getLogger("spansieve.test"))
    settings = Settings(id=ComponentID("forward"), signal=Signal.TRACES, runtime=runtime, log=log)
    outputs = [Discard(Signal.TRACES), Discard(Signal.TRACES)]
    consumer = factory.create(factory.config(), settings).connect(outputs)
    consumer.push(Worker(runtime), request.SerializeToString())
    assert [1, 1] == [output.items for output in outputs]


def test_only_equal_signals_are_joined() -> None:
    """Traces do not become logs."""
    assert {(signal, signal) for signal in Signal} == factory.connects
