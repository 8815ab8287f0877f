"""The hand-written answers against Google's protobuf."""

from __future__ import annotations

import json

import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.ids import Signal
from collector.native.pipeline import Verdict
from collector.transport.status import (
    http_status,
    response_json,
    response_protobuf,
    status_json,
    status_protobuf,
)

RESPONSES = {
    Signal.TRACES: ExportTraceServiceResponse,
    Signal.METRICS: ExportMetricsServiceResponse,
    Signal.LOGS: ExportLogsServiceResponse,
}
REJECTED = {
    Signal.TRACES: "rejected_spans",
    Signal.METRICS: "rejected_data_points",
    Signal.LOGS: "rejected_log_records",
}


@pytest.mark.parametrize("delay_ms", [None, 0, 1, 999, 1000, 90_061_001])
def test_status_reads_back_in_both_encodings(delay_ms: int | None) -> None:
    """Code, message and retry delay are what Google's reader sees, in protobuf and in JSON."""
    verdict = Verdict(14, 'queue "a" is full: \u00fc\n', delay_ms)
    status = status_pb2.Status.FromString(status_protobuf(verdict))
    assert (14, verdict.message) == (status.code, status.message)
    delays = []
    for detail in status.details:
        retry_info = error_details_pb2.RetryInfo()
        assert detail.Unpack(retry_info)
        delays.append(retry_info.retry_delay.ToMilliseconds())
    assert ([] if delay_ms is None else [delay_ms]) == delays
    assert status == json_format.Parse(status_json(verdict), status_pb2.Status())


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
def test_partial_success_reads_back_in_both_encodings(signal: Signal) -> None:
    """Rejected items and their reason are what Google's reader sees, in protobuf and in JSON."""
    response = RESPONSES[signal]
    verdict = Verdict(0, "no room", rejected_items=300)
    parsed = response.FromString(response_protobuf(verdict))
    assert (300, "no room") == (
        getattr(parsed.partial_success, REJECTED[signal]),
        parsed.partial_success.error_message,
    )
    assert parsed == json_format.Parse(response_json(signal, verdict), response())


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
def test_success_is_empty(signal: Signal) -> None:
    """Whole success is no bytes in protobuf and the Collector's own words in JSON."""
    assert b"" == response_protobuf(Verdict(0))
    assert {"partialSuccess": {}} == json.loads(response_json(signal, Verdict(0)))


def test_http_status_follows_the_table_of_otlp() -> None:
    """Retryable codes are 503 or 429, the others the client's or our fault."""
    expected = {
        0: 200,
        1: 503,
        2: 500,
        3: 400,
        4: 503,
        5: 500,
        6: 500,
        7: 403,
        8: 429,
        9: 500,
        10: 503,
        11: 503,
    }
    expected |= {12: 404, 13: 500, 14: 503, 15: 503, 16: 401}
    assert expected == {code: http_status(code) for code in range(17)}
