"""OTLP/HTTP with JSON bodies, which the Python SDK has no exporters for.

Source: OTLP specification, "JSON Protobuf Encoding": ids in hexadecimal, enums as numbers.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_IDS = frozenset({"traceId", "spanId", "parentSpanId"})
_TIMEOUT_S = 10.0


class JsonSpans(SpanExporter):
    """Sends spans."""

    def __init__(self, url: str) -> None:
        self._url = url

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        _post(self._url, encode_spans(spans))
        return SpanExportResult.SUCCESS


class JsonMetrics(MetricExporter):
    """Sends metrics."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: Any
    ) -> MetricExportResult:
        """Send metrics."""
        _post(self._url, encode_metrics(metrics_data))
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Return True: nothing is held back."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        """Nothing to close."""


class JsonLogs(LogRecordExporter):
    """Sends log records."""

    def __init__(self, url: str) -> None:
        self._url = url

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Send log records."""
        _post(self._url, encode_logs(batch))
        return LogRecordExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        """Return True: nothing is held back."""
        return True

    def shutdown(self) -> None:
        """Nothing to close."""


def _post(url: str, request: Message) -> None:
    body = json.dumps(_with_hex_ids(MessageToDict(request, use_integers_for_enums=True))).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=_TIMEOUT_S) as response:
        response.read()


def _with_hex_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_hex_ids(item) for item in value]
    if isinstance(value, dict):
        return {
            key: base64.b64decode(item).hex() if key in _IDS else _with_hex_ids(item)
            for key, item in value.items()
        }
    return value
