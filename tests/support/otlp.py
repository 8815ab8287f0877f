"""Requests for tests: hand-made ones, and Hypothesis strategies for any shape that protobuf allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Exemplar,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
    SummaryDataPoint,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from collector.ids import Signal

REQUESTS: dict[Signal, type[Message]] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
}


def decode(signal: Signal, data: bytes) -> Any:
    """Return the request that Google's protobuf reads from data."""
    return REQUESTS[signal].FromString(data)


def items(request: Any) -> Iterator[Any]:
    """Yield the spans, data points or log records of a request in document order."""
    for resource in getattr(request, "resource_spans", ()):
        for scope in resource.scope_spans:
            yield from scope.spans
    for resource in getattr(request, "resource_logs", ()):
        for scope in resource.scope_logs:
            yield from scope.log_records
    for resource in getattr(request, "resource_metrics", ()):
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind:
                    yield from getattr(metric, kind).data_points


def attribute(key: str, value: str | float | bool) -> KeyValue:
    """Return a KeyValue for a plain value."""
    field = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}[type(value)]
    return KeyValue(key=key, value=AnyValue(**{field: value}))


def span(name: str = "work", *, attributes: dict[str, Any] | None = None, **fields: Any) -> Span:
    """Return a span with ids and times filled in where they are not given."""
    defaults: dict[str, Any] = {
        "trace_id": bytes(range(1, 17)),
        "span_id": bytes(range(1, 9)),
        "start_time_unix_nano": 1_700_000_000_000_000_000,
        "end_time_unix_nano": 1_700_000_000_100_000_000,
    }
    pairs = [attribute(key, value) for key, value in (attributes or {}).items()]
    return Span(name=name, attributes=pairs, **{**defaults, **fields})


def traces(*spans: Span, service: str = "shop") -> ExportTraceServiceRequest:
    """Return a request with spans in one scope of one resource."""
    scope = ScopeSpans(scope=InstrumentationScope(name="test"), spans=spans)
    resource = Resource(attributes=[attribute("service.name", service)])
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])])


def logs(*records: LogRecord) -> ExportLogsServiceRequest:
    """Return a request with records in one scope of one resource."""
    return ExportLogsServiceRequest(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=records)])])


def sums(name: str, *points: NumberDataPoint) -> ExportMetricsServiceRequest:
    """Return a request with one monotonic cumulative sum."""
    metric = Metric(name=name, sum=Sum(data_points=points, aggregation_temporality=2, is_monotonic=True))
    scope = ScopeMetrics(metrics=[metric])
    return ExportMetricsServiceRequest(resource_metrics=[ResourceMetrics(scope_metrics=[scope])])


_text = st.text(max_size=12)
_u64 = st.integers(0, 2**64 - 1)
_u32 = st.integers(0, 2**32 - 1)
_double = st.floats(allow_nan=False)
_trace_ids = st.one_of(st.just(b""), st.binary(min_size=16, max_size=16))
_span_ids = st.one_of(st.just(b""), st.binary(min_size=8, max_size=8))

any_values = st.recursive(
    st.one_of(
        st.builds(AnyValue),
        st.builds(AnyValue, string_value=_text),
        st.builds(AnyValue, bool_value=st.booleans()),
        st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
        st.builds(AnyValue, double_value=_double),
        st.builds(AnyValue, bytes_value=st.binary(max_size=8)),
    ),
    lambda values: st.one_of(
        st.lists(values, max_size=3).map(lambda v: AnyValue(array_value={"values": v})),
        st.lists(st.tuples(_text, values), max_size=3).map(
            lambda pairs: AnyValue(kvlist_value={"values": [KeyValue(key=k, value=v) for k, v in pairs]})
        ),
    ),
    max_leaves=4,
)
attributes = st.lists(st.builds(KeyValue, key=_text, value=any_values), max_size=4)
resources = st.one_of(st.none(), st.builds(Resource, attributes=attributes, dropped_attributes_count=_u32))
scopes = st.one_of(
    st.none(), st.builds(InstrumentationScope, name=_text, version=_text, attributes=attributes)
)
spans = st.builds(
    Span,
    trace_id=_trace_ids,
    span_id=_span_ids,
    trace_state=_text,
    parent_span_id=_span_ids,
    flags=_u32,
    name=_text,
    kind=st.integers(0, 5),
    start_time_unix_nano=_u64,
    end_time_unix_nano=_u64,
    attributes=attributes,
    dropped_attributes_count=_u32,
    events=st.lists(
        st.builds(Span.Event, name=_text, time_unix_nano=_u64, attributes=attributes), max_size=2
    ),
    links=st.lists(
        st.builds(Span.Link, trace_id=_trace_ids, span_id=_span_ids, trace_state=_text), max_size=2
    ),
    status=st.one_of(st.none(), st.builds(Status, code=st.integers(0, 2), message=_text)),
)
log_records = st.builds(
    LogRecord,
    time_unix_nano=_u64,
    observed_time_unix_nano=_u64,
    severity_number=st.integers(0, 24),
    severity_text=_text,
    body=st.one_of(st.none(), any_values),
    attributes=attributes,
    flags=_u32,
    trace_id=_trace_ids,
    span_id=_span_ids,
)
_times = {"start_time_unix_nano": _u64, "time_unix_nano": _u64, "attributes": attributes, "flags": _u32}
_exemplars = st.lists(
    st.builds(Exemplar, time_unix_nano=_u64, as_double=_double, trace_id=_trace_ids, span_id=_span_ids),
    max_size=2,
)
_counts = st.lists(_u64, max_size=4)
number_points = st.one_of(
    st.builds(NumberDataPoint, as_int=st.integers(-(2**63), 2**63 - 1), exemplars=_exemplars, **_times),
    st.builds(NumberDataPoint, as_double=_double, **_times),
)
histogram_points = st.builds(
    HistogramDataPoint,
    count=_u64,
    sum=_double,
    bucket_counts=_counts,
    explicit_bounds=st.lists(_double, max_size=3),
    exemplars=_exemplars,
    **_times,
)
_buckets = st.builds(
    ExponentialHistogramDataPoint.Buckets, offset=st.integers(-(2**31), 2**31 - 1), bucket_counts=_counts
)
exponential_points = st.builds(
    ExponentialHistogramDataPoint,
    count=_u64,
    scale=st.integers(-10, 20),
    zero_count=_u64,
    positive=_buckets,
    negative=_buckets,
    **_times,
)
summary_points = st.builds(
    SummaryDataPoint,
    count=_u64,
    sum=_double,
    quantile_values=st.lists(
        st.builds(SummaryDataPoint.ValueAtQuantile, quantile=_double, value=_double), max_size=2
    ),
    **_times,
)
metrics = st.one_of(
    st.builds(Metric, name=_text),
    st.builds(Metric, name=_text, gauge=st.builds(Gauge, data_points=st.lists(number_points, max_size=3))),
    st.builds(Metric, name=_text, sum=st.builds(Sum, data_points=st.lists(number_points, max_size=3))),
    st.builds(
        Metric, name=_text, histogram=st.builds(Histogram, data_points=st.lists(histogram_points, max_size=2))
    ),
    st.builds(
        Metric,
        name=_text,
        exponential_histogram=st.builds(
            ExponentialHistogram, data_points=st.lists(exponential_points, max_size=2)
        ),
    ),
    st.builds(
        Metric, name=_text, summary=st.builds(Summary, data_points=st.lists(summary_points, max_size=2))
    ),
)
_scope_spans = st.builds(ScopeSpans, scope=scopes, spans=st.lists(spans, max_size=3), schema_url=_text)
_scope_logs = st.builds(
    ScopeLogs, scope=scopes, log_records=st.lists(log_records, max_size=3), schema_url=_text
)
_scope_metrics = st.builds(
    ScopeMetrics, scope=scopes, metrics=st.lists(metrics, max_size=3), schema_url=_text
)
requests: dict[Signal, st.SearchStrategy[Any]] = {
    Signal.TRACES: st.builds(
        ExportTraceServiceRequest,
        resource_spans=st.lists(
            st.builds(ResourceSpans, resource=resources, scope_spans=st.lists(_scope_spans, max_size=2)),
            max_size=2,
        ),
    ),
    Signal.METRICS: st.builds(
        ExportMetricsServiceRequest,
        resource_metrics=st.lists(
            st.builds(
                ResourceMetrics, resource=resources, scope_metrics=st.lists(_scope_metrics, max_size=2)
            ),
            max_size=2,
        ),
    ),
    Signal.LOGS: st.builds(
        ExportLogsServiceRequest,
        resource_logs=st.lists(
            st.builds(ResourceLogs, resource=resources, scope_logs=st.lists(_scope_logs, max_size=2)),
            max_size=2,
        ),
    ),
}
