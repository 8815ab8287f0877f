"""OpenTelemetry SDK exporters against the receiver: what an application hands over arrives, all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from opentelemetry.exporter.otlp.proto.grpc import _log_exporter as grpc_logs
from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as grpc_metrics
from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as grpc_traces
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http import _log_exporter as http_logs
from opentelemetry.exporter.otlp.proto.http import metric_exporter as http_metrics
from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_traces
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from collector.ids import Signal
from collector.native.library import has_net
from tests.conformance.bodies import HTTP_PATHS, MESSAGES
from tests.conformance.harness import Collector

SPANS = 1000
RESOURCE = Resource({"service.name": "checkout"})


@pytest.fixture(scope="module", params=["native", "grpcio"])
def shared_collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    """A collector on each transport."""
    if request.param == "native" and not has_net():
        pytest.skip("built without the native transport")
    with Collector(request.param) as collector:
        yield collector


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest) -> str:
    """The exporter's protocol."""
    name: str = request.param
    return name


@pytest.fixture(params=["none", "gzip"])
def options(request: pytest.FixtureRequest, protocol: str, shared_collector: Collector) -> dict[str, Any]:
    """Return the exporter options for an endpoint and a compression."""
    if protocol == "grpc":
        host, port = shared_collector.grpc
        compression = {"none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}[request.param]
        return {"endpoint": f"{host}:{port}", "insecure": True, "compression": compression}
    host, port = shared_collector.http
    return {"endpoint": f"http://{host}:{port}", "compression": Compression(request.param)}


def _options(options: dict[str, Any], protocol: str, signal: Signal) -> dict[str, Any]:
    if protocol == "grpc":
        return options
    return {**options, "endpoint": options["endpoint"] + HTTP_PATHS[signal]}


def _received(collector: Collector, signal: Signal) -> list[Message]:
    return [MESSAGES[signal].FromString(body) for body in collector.take(signal)]


def test_all_spans_arrive(shared_collector: Collector, protocol: str, options: dict[str, Any]) -> None:
    """Every span of a batching application arrives once, with its name and attributes."""
    exporters = {"grpc": grpc_traces.OTLPSpanExporter, "http": http_traces.OTLPSpanExporter}
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    exporter = exporters[protocol](**_options(options, protocol, Signal.TRACES))
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=SPANS))
    tracer = provider.get_tracer("test")
    for number in range(SPANS):
        with tracer.start_as_current_span(f"span {number}") as span:
            span.set_attribute("number", number)
    provider.shutdown()

    spans = [
        span
        for request in _received(shared_collector, Signal.TRACES)
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]
    assert {f"span {number}": number for number in range(SPANS)} == {
        span.name: span.attributes[0].value.int_value for span in spans
    }
    assert SPANS == len(spans)


def test_all_data_points_arrive(shared_collector: Collector, protocol: str, options: dict[str, Any]) -> None:
    """Every series of a meter arrives with its value."""
    exporters = {"grpc": grpc_metrics.OTLPMetricExporter, "http": http_metrics.OTLPMetricExporter}
    exporter = exporters[protocol](**_options(options, protocol, Signal.METRICS))
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
    provider = MeterProvider([reader], resource=RESOURCE, shutdown_on_exit=False)
    counter = provider.get_meter("test").create_counter("requests")
    for number in range(100):
        counter.add(number + 1, {"number": number})
    provider.force_flush()
    provider.shutdown()

    points = {
        point.attributes[0].value.int_value: point.as_int
        for request in _received(shared_collector, Signal.METRICS)
        for resource_metrics in request.resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
        for point in metric.sum.data_points
    }
    assert {number: number + 1 for number in range(100)} == points


def test_all_log_records_arrive(shared_collector: Collector, protocol: str, options: dict[str, Any]) -> None:
    """Every record of a logger arrives with its body."""
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    exporters = {"grpc": grpc_logs.OTLPLogExporter, "http": http_logs.OTLPLogExporter}
    exporter = exporters[protocol](**_options(options, protocol, Signal.LOGS))
    provider = LoggerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = provider.get_logger("test")
    for number in range(200):
        logger.emit(LogRecord(body=f"record {number}", severity_number=SeverityNumber.INFO))
    provider.shutdown()

    bodies = [
        record.body.string_value
        for request in _received(shared_collector, Signal.LOGS)
        for resource_logs in request.resource_logs
        for scope_logs in resource_logs.scope_logs
        for record in scope_logs.log_records
    ]
    assert sorted(f"record {number}" for number in range(200)) == sorted(bodies)
