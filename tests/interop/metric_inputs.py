"""Metrics of all five types with what can be odd about them: the inputs of the transforms' table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
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

from tests.support import otlp

CASE = "case"
"""The resource attribute that says which input a resource is."""

START, TIME, LATER = 1_700_000_000_000_000_000, 1_700_000_060_000_000_000, 1_700_000_120_000_000_000
STALE = 1
_UNSPECIFIED, _DELTA, _CUMULATIVE = range(3)
_TEMPORALITIES = {"cumulative": _CUMULATIVE, "delta": _DELTA, "unspecified": _UNSPECIFIED}
_SERIES: list[dict[str, Any]] = [
    {"user": user, "code": code, "env": "test"} for user in ("a", "b") for code in ("200", "500")
]


def request() -> bytes:
    """Return one request with all inputs, a resource each."""
    resources = [
        ResourceMetrics(
            resource=Resource(attributes=[otlp.attribute(CASE, name)]),
            scope_metrics=[ScopeMetrics(metrics=metrics)],
        )
        for name, metrics in inputs()
    ]
    return ExportMetricsServiceRequest(resource_metrics=resources).SerializeToString()


def inputs() -> Iterator[tuple[str, list[Metric]]]:
    """Yield (name, metrics)."""
    for name, metric in _metrics():
        yield name, [metric]
    yield "no data", [Metric(name="m")]
    yield "no points", [Metric(name="m", gauge=Gauge())]
    yield "no name", [Metric(gauge=Gauge(data_points=[_number(user="a", as_int=1)]))]
    details = otlp.attribute("meta", "data")
    whole = Metric(name="m", description="d", unit="u", metadata=[details])
    whole.sum.CopyFrom(_sum(_CUMULATIVE, [_number(as_int=1, **labels) for labels in _SERIES]))
    yield "details", [whole]
    twice = Metric(name="m", gauge=Gauge(data_points=[_number(user="a", as_int=1)]))
    yield "one name twice", [twice, twice]
    for name in ("system.cpu.time", "m.n", "M", "mm", "m_2", "caf\u00e9"):
        yield f"name {name}", [Metric(name=name, gauge=Gauge(data_points=[_number(user="a", as_int=1)]))]


def _metrics() -> Iterator[tuple[str, Metric]]:
    for name, points in _number_points():
        yield f"gauge, {name}", Metric(name="m", gauge=Gauge(data_points=points))
        for word, temporality in _TEMPORALITIES.items():
            yield f"{word} sum, {name}", Metric(name="m", sum=_sum(temporality, points))
    for name, histograms in _histogram_points():
        for word, temporality in _TEMPORALITIES.items():
            data = Histogram(data_points=histograms, aggregation_temporality=temporality)  # type: ignore[arg-type]
            yield f"{word} histogram, {name}", Metric(name="m", histogram=data)
    for name, exponentials in _exponential_points():
        for word, temporality in _TEMPORALITIES.items():
            exponential = ExponentialHistogram(
                data_points=exponentials,
                aggregation_temporality=temporality,  # type: ignore[arg-type]
            )
            yield f"{word} exponential histogram, {name}", Metric(name="m", exponential_histogram=exponential)
    for name, summaries in _summary_points():
        yield f"summary, {name}", Metric(name="m", summary=Summary(data_points=summaries))


def _sum(temporality: int, points: list[NumberDataPoint]) -> Sum:
    return Sum(
        data_points=points,
        aggregation_temporality=temporality,  # type: ignore[arg-type]
        is_monotonic=True,
    )


def _fields(labels: dict[str, Any]) -> dict[str, Any]:
    return {
        "attributes": [otlp.attribute(key, value) for key, value in labels.items()],
        "start_time_unix_nano": START,
        "time_unix_nano": TIME,
    }


def _number(*, as_int: int | None = None, as_double: float | None = None, **labels: Any) -> NumberDataPoint:
    point = NumberDataPoint(**_fields(labels))
    if as_int is not None:
        point.as_int = as_int
    if as_double is not None:
        point.as_double = as_double
    return point


def _number_points() -> Iterator[tuple[str, list[NumberDataPoint]]]:
    def of(field: str, *values: Any) -> list[NumberDataPoint]:
        return [_number(**{field: value}, **labels) for value, labels in zip(values, _SERIES, strict=False)]

    yield "ints", of("as_int", 3, 5, -7, 11)
    yield "doubles", of("as_double", 1.5, 2.25, -0.125, 1e10)
    yield "one point", of("as_int", 3)
    yield "large ints", of("as_int", 2**62, 2**40 + 1)
    yield "ints beyond 64 bits", of("as_int", 2**63 - 1, 2**63 - 1)
    yield "infinities", of("as_double", math.inf, 1.0)
    yield "not a number", of("as_double", math.nan, 1.0)
    yield "ints and doubles", [_number(user="a", as_int=3), _number(user="b", as_double=1.5)]
    yield "doubles and ints", [_number(user="a", as_double=1.5), _number(user="b", as_int=3)]
    yield "a gap", [_number(user="a"), _number(user="b", as_int=3)]
    stale = _number(user="a")
    stale.flags = STALE
    yield "stale", [stale, _number(user="b", as_int=3)]
    yield "all stale", [stale, stale]
    times = of("as_int", 1, 2, 4, 8)
    times[1].time_unix_nano = times[3].time_unix_nano = LATER
    yield "other times", times
    starts = of("as_int", 1, 2, 4, 8)
    starts[1].start_time_unix_nano = START - 1
    starts[2].start_time_unix_nano = 0
    yield "other starts", starts
    exemplars = of("as_int", 1, 2)
    for point in exemplars:
        sample = point.exemplars.add(as_double=0.5, trace_id=b"t" * 16, span_id=b"s" * 8, time_unix_nano=TIME)
        sample.filtered_attributes.append(otlp.attribute("kept", "x"))
    yield "exemplars", exemplars
    yield (
        "labels of other types",
        [_number(user=user, as_int=1) for user in (7, True, 2.5, "7", "true", "", "a")],
    )
    yield (
        "labels in another order",
        [
            _number(user="a", code="200", as_int=1),
            _number(code="200", user="a", as_int=2),
        ],
    )
    yield "no labels", [_number(as_int=1), _number(as_int=2)]
    yield (
        "some without the label",
        [
            _number(code="200", as_int=1),
            _number(user="a", code="200", as_int=2),
            _number(user="", code="200", as_int=4),
        ],
    )
    twice = _number(code="200", as_int=1)
    twice.attributes.extend([otlp.attribute("user", "a"), otlp.attribute("user", "b")])
    yield "a label twice", [twice]


def _histogram_points() -> Iterator[tuple[str, list[HistogramDataPoint]]]:
    def of(labels: dict[str, Any], scale: int = 1, **fields: Any) -> HistogramDataPoint:
        whole: dict[str, Any] = {
            "count": 6 * scale,
            "sum": 10.5 * scale,
            "min": 0.5 / scale,
            "max": 4.0 * scale,
            "explicit_bounds": [1.0, 2.0],
            "bucket_counts": [1 * scale, 2 * scale, 3 * scale],
        }
        return HistogramDataPoint(**_fields(labels), **{**whole, **fields})

    a, b = {"user": "a"}, {"user": "b"}
    yield "plain", [of(labels, scale) for scale, labels in enumerate(_SERIES, 1)]
    yield "one point", [of(a)]
    yield "other bounds", [of(a), of(b, explicit_bounds=[1.0, 3.0])]
    yield "more bounds", [of(a), of(b, explicit_bounds=[1.0, 2.0, 3.0], bucket_counts=[1, 1, 1, 3])]
    yield "no buckets", [of(labels, explicit_bounds=[], bucket_counts=[]) for labels in (a, b)]
    yield "one with buckets", [of(a, explicit_bounds=[], bucket_counts=[]), of(b)]
    yield "one without sum", [of(a), of(b, sum=None)]
    yield "one without min and max", [of(a), of(b, min=None, max=None)]
    yield "none has sum, min, max", [of(labels, sum=None, min=None, max=None) for labels in (a, b)]
    empty = {"count": 0, "sum": 0.0, "min": None, "max": None, "bucket_counts": [0, 0, 0]}
    yield "one empty", [of(a), of(b, **empty)]
    yield "first empty", [of(a, **empty), of(b)]
    stale = HistogramDataPoint(**_fields(a), flags=STALE)
    yield "stale", [stale, of(b)]
    starts = [of(a), of(b)]
    starts[1].start_time_unix_nano = START - 1
    yield "other starts", starts
    yield "exemplars", [of(a, exemplars=[Exemplar(as_int=1)]), of(b, exemplars=[Exemplar(as_double=2.5)])]
    yield "negative", [of(labels, explicit_bounds=[-2.0, 2.0], min=-3.0, sum=-1.0) for labels in (a, b)]


def _exponential_points() -> Iterator[tuple[str, list[ExponentialHistogramDataPoint]]]:
    def of(labels: dict[str, Any], **fields: Any) -> ExponentialHistogramDataPoint:
        whole: dict[str, Any] = {
            "count": 7,
            "sum": 10.5,
            "min": 0.5,
            "max": 4.0,
            "scale": 2,
            "zero_count": 1,
            "positive": _buckets(3, 1, 2, 3),
        }
        return ExponentialHistogramDataPoint(**_fields(labels), **{**whole, **fields})

    a, b = {"user": "a"}, {"user": "b"}
    yield "plain", [of(labels) for labels in _SERIES]
    yield "one point", [of(a)]
    yield "other offsets", [of(a), of(b, positive=_buckets(5, 1, 2, 3))]
    yield "lower offsets", [of(a), of(b, positive=_buckets(1, 1, 2, 3))]
    yield "far offsets", [of(a), of(b, positive=_buckets(-2, 1, 2, 3))]
    yield "other scales", [of(a), of(b, scale=1)]
    yield "negative buckets", [of(labels, negative=_buckets(-1, 2, 1), count=10) for labels in (a, b)]
    yield "one without buckets", [of(a), of(b, positive=None, count=1)]
    yield "zero thresholds", [of(a, zero_threshold=0.5), of(b)]
    yield "one without sum", [of(a), of(b, sum=None)]
    yield "one without min and max", [of(a), of(b, min=None, max=None)]
    yield "one empty", [of(a), of(b, count=0, zero_count=0, sum=0.0, min=None, max=None, positive=None)]
    stale = ExponentialHistogramDataPoint(**_fields(a), flags=STALE)
    yield "stale", [stale, of(b)]
    starts = [of(a), of(b)]
    starts[1].start_time_unix_nano = START - 1
    yield "other starts", starts
    yield "exemplars", [of(a, exemplars=[Exemplar(as_int=1)]), of(b, exemplars=[Exemplar(as_double=2.5)])]
    yield "low scale", [of(labels, scale=-2, positive=_buckets(0, 1, 2, 3)) for labels in (a, b)]


def _buckets(offset: int, *counts: int) -> ExponentialHistogramDataPoint.Buckets:
    return ExponentialHistogramDataPoint.Buckets(offset=offset, bucket_counts=counts)


def _summary_points() -> Iterator[tuple[str, list[SummaryDataPoint]]]:
    def of(**labels: Any) -> SummaryDataPoint:
        point = SummaryDataPoint(**_fields(labels), count=2, sum=3.5)
        point.quantile_values.add(quantile=0.5, value=1.5)
        return point

    yield "plain", [of(**labels) for labels in _SERIES]
    yield "one point", [of(user="a")]
    yield "labels of other types", [of(user=user) for user in (7, "", "a")]
