"""The OpenTelemetry SDK as each program of the shop uses it, and a ledger of the spans it has recorded.

The ledger is the demonstration's own knowledge of what was sent, written without spansieve's help.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

from opentelemetry import _logs, baggage, metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

PRIORITY = "sampling.priority"

_SPAN_DELAY_MS = 200
_METRIC_INTERVAL_MS = 1000
_QUEUE_SIZE = 1 << 16  # the SDK itself must lose nothing

Exporters = tuple[SpanExporter, MetricExporter, LogRecordExporter]


class PriorityProcessor(SpanProcessor):
    """Copies `sampling.priority` from the baggage to each span, so that all of a trace carry the same mark."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Mark span."""
        priority = baggage.get_baggage(PRIORITY, parent_context)
        if priority is not None:
            span.set_attribute(PRIORITY, int(str(priority)))


class Ledger(SpanProcessor):
    """Writes a line of JSON for each span that ended."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()  # spans end in any thread
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115 closed by shutdown

    def on_end(self, span: ReadableSpan) -> None:
        """Write span."""
        entry = {
            "trace": f"{span.context.trace_id:032x}",
            "span": f"{span.context.span_id:016x}",
            "name": span.name,
            "duration_ns": (span.end_time or 0) - (span.start_time or 0),
            "attributes": len(span.attributes or ()),
            "is_error": span.status.status_code is trace.StatusCode.ERROR,
            "has_exception": any(event.name == "exception" for event in span.events),
        }
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")

    def shutdown(self) -> None:
        """Close the file."""
        self._file.close()


class Telemetry:
    """Tracer, logger and meter of one program."""

    def __init__(self, service: str, exporters: Exporters) -> None:
        spans, points, records = exporters
        resource = Resource.create({"service.name": service, "deployment.environment.name": "demo"})
        self._tracers = TracerProvider(resource=resource)
        self._tracers.add_span_processor(PriorityProcessor())
        self._tracers.add_span_processor(Ledger(os.environ["SHOP_LEDGER"]))
        self._tracers.add_span_processor(
            BatchSpanProcessor(spans, max_queue_size=_QUEUE_SIZE, schedule_delay_millis=_SPAN_DELAY_MS)
        )
        reader = PeriodicExportingMetricReader(points, export_interval_millis=_METRIC_INTERVAL_MS)
        self._meters = MeterProvider([reader], resource)
        self._loggers = LoggerProvider(resource)
        self._loggers.add_log_record_processor(
            BatchLogRecordProcessor(records, max_queue_size=_QUEUE_SIZE, schedule_delay_millis=_SPAN_DELAY_MS)
        )
        self.tracer = self._tracers.get_tracer("shop")
        self.meter = self._meters.get_meter("shop")
        self._logger = self._loggers.get_logger("shop")

    def log(self, severity: _logs.SeverityNumber, body: str, **attributes: Any) -> None:
        """Emit a log record; it carries the ids of the current span."""
        self._logger.emit(
            timestamp=time.time_ns(), severity_number=severity, body=body, attributes=attributes
        )

    def counter(self, name: str, description: str) -> metrics.Counter:
        """Return a new counter."""
        return self.meter.create_counter(name, description=description)

    def histogram(self, name: str, unit: str, description: str) -> metrics.Histogram:
        """Return a new histogram."""
        return self.meter.create_histogram(name, unit=unit, description=description)

    def shutdown(self) -> None:
        """Send what is left."""
        self._tracers.shutdown()
        self._meters.shutdown()
        self._loggers.shutdown()
