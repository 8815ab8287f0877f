"""Correctness before speed: what a system sends on is what the scenario says, as Google's protobuf reads it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bench.scenarios import Scenario
from collector.ids import Signal


def check(
    scenario: Scenario, sent: Sequence[bytes], received: Mapping[str, Sequence[bytes]]
) -> dict[str, str]:
    """Return by system what is wrong with what arrived behind it; nothing for those that do as the scenario says.

    Args:
        sent: the requests, each sent once.
        received: by system, the requests that arrived; the first system is what the others are compared with.
    """
    before = _count(scenario, sent, deletes=scenario.deletes)
    after = {system: _count(scenario, requests) for system, requests in received.items()}
    wrong = {}
    for system, items in after.items():
        problem = (
            _sums_problem(scenario.signal, sent, received[system])
            if scenario.expect == "merged"
            else _items_problem(before, items, may_lose=scenario.expect == "some")
        )
        if problem:
            wrong[system] = problem
    right = [system for system in after if system not in wrong]
    for system in right[1:]:
        only, missing = (after[system] - after[right[0]]).total(), (after[right[0]] - after[system]).total()
        if only or missing:
            wrong[system] = f"{only} items that {right[0]} does not send, {missing} missing that it does"
    return wrong


def _items_problem(before: Counter[bytes], after: Counter[bytes], *, may_lose: bool) -> str:
    if not after:
        return "lets nothing through"
    extra, lost = (after - before).total(), (before - after).total()
    if extra:
        return f"{extra} of {after.total()} items differ from those that were sent, or came twice"
    return f"{lost} of {before.total()} items are lost" if lost and not may_lose else ""


def _count(scenario: Scenario, requests: Sequence[bytes], deletes: Collection[str] = ()) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for request in requests:
        for item in items_of(scenario.signal, request):
            for field in scenario.edits:
                item[-1].ClearField(field)
            for pair in [pair for pair in item[-1].attributes if pair.key in deletes]:
                item[-1].attributes.remove(pair)
            found[_identity(item)] += 1
    return found


def _identity(item: tuple[Any, ...]) -> bytes:
    """Return the bytes of an item and of what it belongs to; attributes are a map, so their order does not count."""
    parts = []
    for message in item:
        message.attributes.sort(key=lambda pair: pair.key)
        parts.append(message.SerializeToString(deterministic=True))
    return b"\0".join(parts)


def items_of(signal: Signal, request: bytes) -> Iterator[tuple[Any, ...]]:
    """Yield (resource, item); (resource, metric without its points, point)."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    if signal is Signal.TRACES:
        for resource_spans in ExportTraceServiceRequest.FromString(request).resource_spans:
            for scope_spans in resource_spans.scope_spans:
                for span in scope_spans.spans:
                    yield resource_spans.resource, span
    elif signal is Signal.LOGS:
        for resource_logs in ExportLogsServiceRequest.FromString(request).resource_logs:
            for scope_logs in resource_logs.scope_logs:
                for record in scope_logs.log_records:
                    yield resource_logs.resource, record
    else:
        for resource_metrics in ExportMetricsServiceRequest.FromString(request).resource_metrics:
            for scope_metrics in resource_metrics.scope_metrics:
                for metric in scope_metrics.metrics:
                    kind = metric.WhichOneof("data")
                    if kind is None:
                        continue
                    points = list(getattr(metric, kind).data_points)
                    metric.ClearField(kind)
                    for point in points:
                        yield resource_metrics.resource, _Named(metric), point


class _Named:
    """A metric without its points, where an attribute list is looked for."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric
        self.attributes: list[Any] = []

    def SerializeToString(self, **options: bool) -> bytes:  # noqa: N802 - as protobuf has it
        data: bytes = self._metric.SerializeToString(**options)
        return data


def _sums_problem(signal: Signal, sent: Sequence[bytes], received: Sequence[bytes]) -> str:
    before, after = _sums(signal, sent), _sums(signal, received)
    for metric, (points, total) in before.items():
        points_after, total_after = after.get(metric, (0, 0.0))
        if points_after > points or abs(total_after - total) > 1e-9 * abs(total):
            return (
                f"{points} points that add up to {total:g} are {points_after} that add up to {total_after:g}"
            )
    if sum(points for points, _ in after.values()) >= sum(points for points, _ in before.values()):
        return "merges no points"
    return ""


def _sums(signal: Signal, requests: Sequence[bytes]) -> dict[bytes, tuple[int, float]]:
    found: dict[bytes, list[float]] = defaultdict(list)
    for request in requests:
        for resource, metric, point in items_of(signal, request):
            found[_identity((resource, metric))].append(_number(point))
    return {metric: (len(values), math.fsum(values)) for metric, values in found.items()}


def _number(point: Any) -> float:
    """Return the value of a number, or the sum of any other point."""
    if hasattr(point, "as_int"):
        return float(getattr(point, point.WhichOneof("value") or "as_int"))
    return float(point.sum)
