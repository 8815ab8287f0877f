"""The exporters that send nothing anywhere."""

from __future__ import annotations

import io

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1 import common_pb2

from collector.exporters.debug import Config, Debug, Verbosity
from collector.exporters.nop import Config as NopConfig
from collector.exporters.nop import Nop
from collector.ids import Signal
from tests.unit.exporterhelper.support import Recorder, logs, metrics, push, settings, traces, values


def _show(signal: Signal, request: bytes, verbosity: Verbosity) -> tuple[Recorder, str]:
    """Run the debug exporter over request; return its log and its text."""
    recorder, stream = Recorder(), io.StringIO()
    made = settings(signal, recorder)
    exporter = Debug(Config(verbosity=verbosity), made, stream)
    exporter.start()
    push(exporter.consumer, made.runtime, request)
    exporter.shutdown(20)
    return recorder, stream.getvalue()


@pytest.mark.parametrize(
    ("signal", "request_bytes", "event", "fields"),
    [
        (Signal.TRACES, traces(3), "Traces", {"resource spans": 1, "spans": 3}),
        (Signal.METRICS, metrics(), "Metrics", {"resource metrics": 1, "metrics": 1, "data points": 2}),
        (Signal.LOGS, logs(), "Logs", {"resource logs": 1, "log records": 1}),
    ],
)
def test_basic_is_one_line_of_counts(
    signal: Signal, request_bytes: bytes, event: str, fields: dict[str, int]
) -> None:
    """The Collector's words and counts, and nothing else."""
    recorder, text = _show(signal, request_bytes, Verbosity.BASIC)
    assert recorder.records == [(event, fields)]
    assert text == ""


def test_normal_is_a_line_an_item() -> None:
    """Resource, scope, and each span with ids and attributes."""
    _, text = _show(Signal.TRACES, traces(2), Verbosity.NORMAL)
    assert text.splitlines() == [
        "ResourceSpans #0 service.name=shop",
        "ScopeSpans #0 lib",
        f"GET / {'01' * 16} 3132333435363738 http.status=200",
        f"GET / {'02' * 16} 3132333435363738 http.status=200",
    ]


@pytest.mark.parametrize(
    ("signal", "request_bytes", "last"),
    [(Signal.METRICS, metrics(), "load asInt=2"), (Signal.LOGS, logs(), "hello")],
)
def test_normal_of_metrics_and_logs(signal: Signal, request_bytes: bytes, last: str) -> None:
    """A point shows its value, a record its body."""
    _, text = _show(signal, request_bytes, Verbosity.NORMAL)
    assert text.splitlines()[-1] == last


def test_detailed_shows_every_field() -> None:
    """Attributes as `-> key: value`, everything else by name."""
    _, text = _show(Signal.TRACES, traces(1), Verbosity.DETAILED)
    for line in ("resourceSpans #0", "-> service.name: shop", "name: GET /", f"traceId: {'01' * 16}"):
        assert line in text


def test_nop_counts_as_sent() -> None:
    """Discarded items are sent items, counted without a thread."""
    made = settings(Signal.TRACES, Recorder())
    exporter = Nop(NopConfig(), made)
    exporter.start()
    push(exporter.consumer, made.runtime, traces(3), traces(4))
    exporter.shutdown(1)
    assert values(exporter.samples()) == {"otelcol_exporter_sent_spans": 7}


def _any(**value: object) -> common_pb2.AnyValue:
    return common_pb2.AnyValue(**value)


def _pairs(**values: common_pb2.AnyValue) -> list[common_pb2.KeyValue]:
    return [common_pb2.KeyValue(key=key, value=value) for key, value in values.items()]


def test_detailed_shows_values_as_json_has_them() -> None:
    """Numbers, truth and lists in the writing of OTLP/JSON, not in that of Python."""
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="a")
    metric.sum.is_monotonic = True
    metric.sum.data_points.add(as_double=1e22)
    metric = request.resource_metrics[0].scope_metrics[0].metrics.add(name="b\nc")
    point = metric.histogram.data_points.add(
        bucket_counts=[0, 1], explicit_bounds=[0.5], sum=float("nan"), count=1
    )
    point.exemplars.add(as_int=7, filtered_attributes=_pairs(k=_any(bool_value=False)))
    _, text = _show(Signal.METRICS, request.SerializeToString(), Verbosity.DETAILED)
    lines = [line.strip() for line in text.splitlines()]
    for line in (
        "isMonotonic: true",
        "asDouble: 1e+22",
        'name: "b\\nc"',
        'bucketCounts: ["0","1"]',
        "explicitBounds: [0.5]",
        "sum: NaN",
        "count: 1",
        "asInt: 7",
        "filteredAttributes:",
        "-> k: false",
    ):
        assert line in lines
    _, text = _show(Signal.METRICS, request.SerializeToString(), Verbosity.NORMAL)
    assert ["a asDouble=1e+22", '"b\\nc" count=1 sum=NaN'] == text.splitlines()[-2:]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (_any(string_value="a 'b' \N{GREEK SMALL LETTER BETA}"), "a 'b' \N{GREEK SMALL LETTER BETA}"),
        (_any(string_value="a\x1b[31m\n\N{RIGHT-TO-LEFT OVERRIDE}"), r'"a\u001b[31m\n\u202e"'),
        (_any(int_value=-5), "-5"),
        (_any(double_value=float("inf")), "Infinity"),
        (_any(bool_value=True), "true"),
        (_any(bytes_value=b"\xff\x00"), "/wA="),
        (_any(), ""),
        (
            _any(
                array_value=common_pb2.ArrayValue(
                    values=[_any(string_value='a"'), _any(int_value=1), _any(bytes_value=b"\0")]
                )
            ),
            r'["a\"",1,"AA=="]',
        ),
        (
            _any(
                kvlist_value=common_pb2.KeyValueList(
                    values=[*_pairs(a=_any(bool_value=True)), *_pairs(a=_any(double_value=0.5))]
                )
            ),
            '{"a":true,"a":0.5}',
        ),
    ],
)
def test_values_of_attributes_are_one_line(value: common_pb2.AnyValue, shown: str) -> None:
    """Text is bare where a line and a terminal can show it, all else is JSON."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\1" * 16, span_id=b"\1" * 8)
    span.attributes.extend([*_pairs(k=value), common_pb2.KeyValue(value=_any(int_value=1))])
    for verbosity, wanted in (
        (Verbosity.NORMAL, f"k={shown} =1"),
        (Verbosity.DETAILED, f"     -> k: {shown}"),
    ):
        _, text = _show(Signal.TRACES, request.SerializeToString(), verbosity)
        assert any(line.endswith(wanted) for line in text.split("\n"))
