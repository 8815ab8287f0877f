"""What the programs make, in every language the same: the expected spans, records and points of so many rounds.

A program prints lines: `paused` where it was told to pause, with what it had made flushed, and goes on when it reads a
line; `flushing` before it shuts the SDK down; at last the ids of each round, as the SDK gave them: trace, root, step.
All else is fixed. A round is a server span with all types of attributes, an event, a status, and a link to the one
before; a client span in it; a log record in its context, with a structured body every other time; and one measurement
of each instrument.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.ids import Signal
from tests.support import otlp

SCOPE = ("interop", "1.2.3")
DELTA, CUMULATIVE = 1, 2
BASE = 1_700_000_000_000_000_000
BOUNDS = [0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000]
"""Of a histogram, where the user has not said otherwise."""

Made = Sequence[tuple[str, str, str]]
"""Ids of each round, in hexadecimal."""

Plain = Mapping[str, Any]
"""An item as protobuf's JSON has it, which keeps the types of numbers apart."""


def _value(value: Any) -> AnyValue:
    """Return value as SDKs send it."""
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[_value(each) for each in value]))
    if isinstance(value, dict):
        return AnyValue(kvlist_value=KeyValueList(values=_attributes(value)))
    field = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
    return AnyValue(**{field.get(type(value), "bytes_value"): value})


def _attributes(values: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in values.items()]


def _status(i: int) -> Status:
    return [Status(code=1), Status(code=2, message=f"failed {i}"), Status()][i % 3]


def _id(text: str) -> bytes:
    """Return an id; of zeros, which is none, with tracing off."""
    return bytes.fromhex(text) if text.strip("0") else b""


def spans(made: Made) -> dict[str, Plain]:
    """Return the spans by name."""
    expected = []
    for i, (trace_id, root_id, step_id) in enumerate(made):
        start = BASE + i * 1_000_000_000
        event = {"n": i, "text": "in between"}
        links = []
        if i:
            linked = {"trace_id": bytes.fromhex(made[i - 1][0]), "span_id": bytes.fromhex(made[i - 1][1])}
            links = [Span.Link(attributes=_attributes({"of": i - 1}), **linked)]
        root = Span(
            name=f"round {i}",
            trace_id=bytes.fromhex(trace_id),
            span_id=bytes.fromhex(root_id),
            kind=Span.SPAN_KIND_SERVER,
            start_time_unix_nano=start,
            end_time_unix_nano=start + 2_000_000 + i,
            attributes=_attributes(
                {
                    "string": f"round {i} \u00e4\u20ac\U0001f600",
                    "empty": "",
                    "int": 4294967296 + i,
                    "negative": -1 - i,
                    "double": i + 0.5,
                    "bool": i % 2 == 0,
                    "strings": ["a", f"b{i}"],
                    "ints": [i, -1],
                    "doubles": [0.5, i + 0.25],
                    "bools": [True, False],
                }
            ),
            events=[Span.Event(name="event", time_unix_nano=start + 1000, attributes=_attributes(event))],
            links=links,
            status=_status(i),
        )
        step = Span(
            name=f"step {i}",
            trace_id=root.trace_id,
            span_id=bytes.fromhex(step_id),
            parent_span_id=root.span_id,
            kind=Span.SPAN_KIND_CLIENT,
            start_time_unix_nano=start + 2000,
            end_time_unix_nano=start + 3000,
        )
        expected += [root, step]
    return {span.name: plain(span) for span in expected}


def records(made: Made) -> dict[str, Plain]:
    """Return the log records by the attribute `string`."""
    expected = {}
    for i, (trace_id, root_id, _) in enumerate(made):
        start = BASE + i * 1_000_000_000
        is_even = i % 2 == 0
        text = f"record {i}"
        structured = {"text": text, "n": i, "list": [1, "two", True, 0.5], "bytes": b"\x00\x01\xff"}
        values = {"string": f"log {i}", "int": i, "double": i + 0.5, "bool": is_even}
        record = LogRecord(
            time_unix_nano=start + 4000,
            observed_time_unix_nano=start + 5000,
            trace_id=_id(trace_id),
            span_id=_id(root_id),
            severity_number=9 if is_even else 17,
            severity_text="INFO" if is_even else "ERROR",
            body=_value(text if is_even else structured),
            attributes=_attributes(values),
            event_name="done",
        )
        expected[f"log {i}"] = plain(record)
    return expected


def metrics(
    rounds: int, *, temporality: int = CUMULATIVE, scales: Sequence[int] | None = None
) -> dict[str, Plain]:
    """Return the metrics at the end by name, less the times of their points.

    Args:
        temporality: of sums that only grow, and of histograms.
        scales: of the exponential histogram's points, by path; None for explicit bounds.
    """
    by_path = {"/even": range(0, rounds, 2), "/odd": range(1, rounds, 2)}
    paths = {path: members for path, members in by_path.items() if members}
    requests = [_point(sum(i + 1 for i in members), path=path) for path, members in paths.items()]
    busy = [_point(0.5 * len(members), path=path) for path, members in paths.items()]
    active = [_point(3 * len(by_path["/even"]) - len(by_path["/odd"]))]
    latency = {path: [i * 1.5 for i in members] for path, members in paths.items()}
    growing = {"aggregation_temporality": temporality, "is_monotonic": True}
    if scales is None:
        points = [_histogram(path, values) for path, values in latency.items()]
        histogram = {"histogram": Histogram(data_points=points, aggregation_temporality=temporality)}
    else:
        points = [_exponential(*item, scale) for item, scale in zip(latency.items(), scales, strict=True)]
        histogram = {
            "exponential_histogram": ExponentialHistogram(
                data_points=points, aggregation_temporality=temporality
            )
        }
    expected = [
        Metric(
            name="requests", unit="1", description="Requests served", sum=Sum(data_points=requests, **growing)
        ),
        Metric(name="busy", unit="s", sum=Sum(data_points=busy, **growing)),
        Metric(name="active", sum=Sum(data_points=active, aggregation_temporality=CUMULATIVE)),
        Metric(name="latency", unit="ms", **histogram),
        Metric(name="temperature", unit="Cel", gauge=Gauge(data_points=[_point(rounds - 0.75)])),
        Metric(name="observed", sum=Sum(data_points=[_point(rounds, by="callback")], **growing)),
    ]
    return {metric.name: plain(metric) for metric in expected}


def _point(value: float, **attributes: str) -> NumberDataPoint:
    field = "as_int" if isinstance(value, int) else "as_double"
    return NumberDataPoint(attributes=_attributes(attributes), **{field: value})


def _summary(path: str, values: Sequence[float]) -> dict[str, Any]:
    """Return what both kinds of histogram say of values."""
    return {
        "attributes": _attributes({"path": path}),
        "count": len(values),
        "sum": sum(values),
        "min": min(values),
        "max": max(values),
    }


def _histogram(path: str, values: Sequence[float]) -> HistogramDataPoint:
    counts = Counter(bisect.bisect_left(BOUNDS, value) for value in values)
    return HistogramDataPoint(
        **_summary(path, values),
        explicit_bounds=BOUNDS,
        bucket_counts=[counts[i] for i in range(len(BOUNDS) + 1)],
    )


def _exponential(path: str, values: Sequence[float], scale: int) -> ExponentialHistogramDataPoint:
    # No value is a power of two, whose bucket rounding could move.
    counts = Counter(math.ceil(math.log2(value) * 2.0**scale) - 1 for value in values if value)
    first, last = min(counts), max(counts)
    buckets = ExponentialHistogramDataPoint.Buckets(
        offset=first, bucket_counts=[counts[i] for i in range(first, last + 1)]
    )
    zero_count = sum(not value for value in values)
    return ExponentialHistogramDataPoint(
        **_summary(path, values), scale=scale, zero_count=zero_count, positive=buckets
    )


# --------------------------------------------------------------------------------------------------- what arrived


_LEFT_OUT = {
    "flags",  # of a span and a link: whether the parent is remote, on which SDKs differ; of a record: sampled
    "exemplars",  # which measurements are kept is the SDK's choice
}
_TIMES_OF_POINTS = {"start_time_unix_nano", "time_unix_nano"}


def plain(message: Any) -> Plain:
    """Return message as a dictionary; what is a set on the wire is sorted, what SDKs choose freely is left out."""
    _tidy(message)
    return MessageToDict(message)


def _tidy(message: Any) -> None:
    if message.DESCRIPTOR.name == "Buckets":
        while message.bucket_counts and not message.bucket_counts[-1]:
            del message.bucket_counts[-1]
    for field, value in message.ListFields():
        is_time = field.name in _TIMES_OF_POINTS and message.DESCRIPTOR.name.endswith("DataPoint")
        if field.name in _LEFT_OUT or is_time:
            message.ClearField(field.name)
        elif field.message_type is None:
            continue
        elif field.is_repeated:
            for each in value:
                _tidy(each)
            if field.message_type.name == "KeyValue":
                value.sort(key=lambda pair: pair.key)
            elif field.message_type.name.endswith("DataPoint"):
                value.sort(key=lambda point: str(point.attributes))
        else:
            _tidy(value)
            if not value.ByteSize() and field.name in ("status", "negative"):
                message.ClearField(field.name)


class Arrived:
    """What of the scenario is in requests that arrived.

    Attributes:
        resources: attributes of each resource seen.
        spans, records: by the name that the expected ones have.
        metrics: by name, the newest state; the others of the SDK's own are in `foreign`.
        foreign: names of scopes that are not the scenario's.
    """

    def __init__(self, requests: Mapping[Signal, Sequence[bytes]]) -> None:
        self.resources: list[dict[str, Any]] = []
        self.spans: dict[str, Plain] = {}
        self.records: dict[str, Plain] = {}
        self.metrics: dict[str, Plain] = {}
        self.foreign: set[str] = set()
        for signal, bodies in requests.items():
            for body in bodies:
                self._take(otlp.decode(signal, body))

    def _take(self, request: Any) -> None:
        for _, groups in request.ListFields():
            for group in groups:
                self.resources.append(
                    {
                        pair.key: getattr(pair.value, pair.value.WhichOneof("value"))
                        for pair in group.resource.attributes
                    }
                )
                for scope in _scopes(group):
                    self._take_scope(scope)

    def _take_scope(self, scope: Any) -> None:
        if (scope.scope.name, scope.scope.version) != SCOPE:
            self.foreign.add(scope.scope.name)
            return
        for span in getattr(scope, "spans", ()):
            assert span.name not in self.spans, f"{span.name} came twice"
            self.spans[span.name] = plain(span)
        for record in getattr(scope, "log_records", ()):
            name = next(pair.value.string_value for pair in record.attributes if pair.key == "string")
            assert name not in self.records, f"{name} came twice"
            self.records[name] = plain(record)
        for metric in getattr(scope, "metrics", ()):
            self.metrics[metric.name] = plain(metric)


def _scopes(group: Any) -> Iterable[Any]:
    for name in ("scope_spans", "scope_metrics", "scope_logs"):
        yield from getattr(group, name, ())
