"""What metrics_transform must do, written slowly and plainly on protobuf objects: the oracle of its tests."""

from __future__ import annotations

import copy
import math
import re
import statistics
from collections.abc import Callable
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.processors.metrics_transform import Config, Operation, Transform

DELTA = 1
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
MAX_BUCKETS = 160


def transform(request: Any, config: Config) -> Any:
    """Return the metrics request that config makes of request."""
    result = copy.deepcopy(request)
    for resource in result.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if points_of(metric):
                    _transform_metric(metric, config)
    return result


def points_of(metric: Any) -> Any:
    """Return the points of metric, whichever kind it is; empty when it has no data."""
    kind = metric.WhichOneof("data")
    return getattr(metric, kind).data_points if kind else []


def _transform_metric(metric: Any, config: Config) -> None:
    for each in config.transforms:
        points = points_of(metric)
        if not points or not _found(each, each.include, metric.name):
            continue
        matching = [_point_matches(each, point) for point in points]
        if not any(matching):
            continue
        all_match = all(matching)
        if each.new_name and all_match:
            metric.name = _new_name(each, metric.name)
        for operation in each.operations:
            _operate(metric, each, operation, all_match)


def _found(each: Transform, wanted: str, text: str) -> bool:
    return bool(re.search(wanted, text)) if each.match_type == "regexp" else wanted == text


def _new_name(each: Transform, name: str) -> str:
    if each.match_type != "regexp":
        return each.new_name
    match = re.search(each.include, name)
    assert match
    groups = [group or "" for group in (match[0], *match.groups())]
    expanded = re.sub(r"\$\{?(\d+)\}?", lambda number: (groups + [""] * 100)[int(number[1])], each.new_name)
    return expanded or each.new_name


def _text(point: Any, label: str) -> str | None:
    for pair in point.attributes:
        if pair.key == label:
            return pair.value.string_value if pair.value.WhichOneof("value") == "string_value" else None
    return None


def _point_matches(each: Transform, point: Any) -> bool:
    return all(
        _found(each, wanted, _text(point, label) or "")
        for label, wanted in each.experimental_match_labels.items()
    )


def _labels(point: Any) -> dict[str, AnyValue]:
    return {pair.key: pair.value for pair in point.attributes}


def _set_labels(point: Any, labels: dict[str, AnyValue]) -> None:
    pairs = [KeyValue(key=key, value=value) for key, value in labels.items()]
    del point.attributes[:]
    point.attributes.extend(pairs)


def _operate(metric: Any, each: Transform, operation: Operation, all_match: bool) -> None:
    kind = metric.WhichOneof("data")
    points = points_of(metric)
    action = operation.action
    if action in ("update_label", "toggle_scalar_data_type", "experimental_scale_value"):
        for point in points:
            if _point_matches(each, point):
                if action == "update_label":
                    _update_label(point, operation)
                elif kind in ("gauge", "sum") and point.WhichOneof("value") and not point.flags & 1:
                    _change_number(point, operation)
                elif kind.endswith("histogram") and action == "experimental_scale_value":
                    _scale_histogram(kind, point, operation.experimental_scale)
        return
    if not all_match:
        return
    if action == "add_label":
        for point in points:
            _set_labels(
                point, {operation.new_label: AnyValue(string_value=operation.new_value)} | _labels(point)
            )
    elif action == "delete_label_value":
        _keep(metric, [point for point in points if _text(point, operation.label) != operation.label_value])
    elif kind != "summary":
        _aggregate(metric, operation)


def _keep(metric: Any, kept: list[Any]) -> None:
    points = points_of(metric)
    copies = [copy.deepcopy(point) for point in kept]
    del points[:]
    points.extend(copies)


def _update_label(point: Any, operation: Operation) -> None:
    labels = _labels(point)
    if operation.label not in labels:
        return
    text = _text(point, operation.label)
    value = labels.pop(operation.label)
    for each in operation.value_actions:
        if text == each.value:
            value = AnyValue(string_value=each.new_value)
            break
    labels[operation.new_label or operation.label] = value
    _set_labels(point, labels)


def _to_int(value: float) -> int:
    if math.isnan(value):
        return 0
    return INT_MAX if value >= 2.0**63 else INT_MIN if value < -(2.0**63) else int(value)


def _change_number(point: Any, operation: Operation) -> None:
    is_int = point.WhichOneof("value") == "as_int"
    if operation.action == "toggle_scalar_data_type":
        if is_int:
            point.as_double = float(point.as_int)
        else:
            point.as_int = _to_int(point.as_double)
    elif is_int:
        point.as_int = _to_int(float(point.as_int) * operation.experimental_scale)
    else:
        point.as_double *= operation.experimental_scale


def _scale_histogram(kind: str, point: Any, factor: float) -> None:
    if factor < 0 or point.flags & 1:
        return
    if kind == "exponential_histogram":
        sides = [side for side in (point.positive, point.negative) if side.bucket_counts]
        offsets = [_scaled_offset(point.scale, side.offset, factor) for side in sides]
        if any(not -(2**31) <= offset < 2**31 for offset in offsets):
            return
        for side, offset in zip(sides, offsets, strict=True):
            side.offset = offset
        point.zero_threshold *= factor
    else:
        bounds = [bound * factor for bound in point.explicit_bounds]
        del point.explicit_bounds[:]
        point.explicit_bounds.extend(bounds)
    for field in ("sum", "min", "max"):
        if point.HasField(field):
            setattr(point, field, getattr(point, field) * factor)
    for exemplar in point.exemplars:
        if exemplar.WhichOneof("value") == "as_int":
            exemplar.as_int = _to_int(float(exemplar.as_int) * factor)
        elif exemplar.WhichOneof("value") == "as_double":
            exemplar.as_double *= factor


def _scaled_offset(scale: int, offset: int, factor: float) -> int:
    """Return the bucket in which the middle of the bucket at offset comes to lie."""
    width = 2.0**-scale
    middle = math.log1p(math.expm1(width * math.log(2)) / 2) / math.log(2)
    return offset + math.ceil((middle + math.log2(factor)) / width) - 1


def _aggregate(metric: Any, operation: Operation) -> None:
    points = points_of(metric)
    before = [_labels(point) for point in points]
    for point in points:
        labels = _labels(point)
        if operation.action == "delete_label":
            labels.pop(operation.label, None)
        elif operation.action == "aggregate_labels":
            labels = {key: value for key, value in labels.items() if key in operation.label_set}
        elif _text(point, operation.label) in operation.aggregated_values:
            labels[operation.label] = AnyValue(string_value=operation.new_value)
        _set_labels(point, labels)
    if operation.action == "delete_label" and all(operation.label not in labels for labels in before):
        return
    kind = metric.WhichOneof("data")
    data = getattr(metric, kind)
    is_delta = getattr(data, "aggregation_temporality", 0) == DELTA
    aggregation = operation.aggregation_type or ("last" if kind == "gauge" else "sum")
    _keep(metric, _merged(kind, list(points), is_delta, aggregation))


def _identity(point: Any, is_delta: bool) -> Any:
    labels = sorted(
        (key, value.SerializeToString(deterministic=True)) for key, value in _labels(point).items()
    )
    return labels, point.time_unix_nano, point.start_time_unix_nano if is_delta else None


def _shape(kind: str, point: Any) -> Any:
    if kind == "histogram":
        return list(point.explicit_bounds), len(point.bucket_counts)
    return point.zero_threshold if kind == "exponential_histogram" else None


def _is_live(kind: str, point: Any) -> bool:
    return not point.flags & 1 and (kind not in ("gauge", "sum") or point.WhichOneof("value") is not None)


def _merged(kind: str, points: list[Any], is_delta: bool, aggregation: str) -> list[Any]:
    groups: list[tuple[Any, Any, list[Any]]] = []
    rest: list[tuple[Any, Any]] = []
    for point in points:
        identity = _identity(point, is_delta)
        if not _is_live(kind, point):
            rest.append((identity, point))
            continue
        shape = _shape(kind, point)
        for known, known_shape, members in groups:
            if known == identity and known_shape == shape:
                members.append(point)
                break
        else:
            groups.append((identity, shape, [point]))
    seen = [identity for identity, _, _ in groups]
    left = []
    for identity, point in rest:
        if identity not in seen:
            seen.append(identity)
            left.append(point)
    positions = {id(point): index for index, point in enumerate(points)}
    bases = [_combined(kind, members, aggregation) for _, _, members in groups] + left
    return sorted(bases, key=lambda point: positions[id(point)])


def _combined(kind: str, members: list[Any], aggregation: str) -> Any:
    base = members[0]
    originals = copy.deepcopy(members)
    if len(members) > 1:
        base.start_time_unix_nano = min(point.start_time_unix_nano for point in originals)
        for point in originals[1:]:
            base.exemplars.extend(point.exemplars)
    if kind in ("gauge", "sum"):
        if len(members) > 1 or aggregation == "count":
            _combine_numbers(base, originals, aggregation)
    elif len(members) > 1:
        _combine_totals(kind, base, originals)
        (_combine_explicit if kind == "histogram" else _combine_exponential)(base, originals)
    return base


def _combine_numbers(base: Any, members: list[Any], aggregation: str) -> None:
    values = [getattr(point, point.WhichOneof("value")) for point in members]
    is_int = all(isinstance(value, int) for value in values)
    if not is_int:
        values = [float(value) for value in values]
    ways: dict[str, Callable[[list[Any]], Any]] = {
        "sum": _sum,
        "mean": lambda numbers: _quotient(_sum(numbers), len(numbers)),
        "min": min,
        "max": max,
        "median": _median,
        "count": len,
        "last": lambda numbers: numbers[-1],
    }
    result = ways[aggregation](values)
    if is_int and INT_MIN <= result <= INT_MAX:
        base.as_int = result
    else:
        base.as_double = float(result)


def _sum(values: list[Any]) -> Any:
    total = values[0]
    for value in values[1:]:  # not sum(): that compensates rounding errors
        total += value
    return total


def _quotient(total: Any, divisor: int) -> Any:
    if isinstance(total, int):
        return abs(total) // divisor * (1 if total >= 0 else -1)
    return total / divisor


def _median(values: list[Any]) -> Any:
    low, high = statistics.median_low(values), statistics.median_high(values)
    return low if len(values) % 2 else _quotient(low + high, 2)


def _combine_totals(kind: str, base: Any, originals: list[Any]) -> None:
    members = [point for point in originals if point.count]
    if not members:
        return
    base.count = min(sum(point.count for point in members), 2**64 - 1)
    for field, way in (("sum", _sum), ("min", min), ("max", max)):
        if all(point.HasField(field) for point in members):
            setattr(base, field, way([getattr(point, field) for point in members]))
        else:
            base.ClearField(field)
    if kind == "exponential_histogram":
        base.zero_count = min(sum(point.zero_count for point in members), 2**64 - 1)


def _combine_explicit(base: Any, members: list[Any]) -> None:
    columns = zip(*(point.bucket_counts for point in members), strict=True)
    counts = [min(sum(column), 2**64 - 1) for column in columns]
    del base.bucket_counts[:]
    base.bucket_counts.extend(counts)


def _counts_by_index(point: Any, side: str) -> dict[int, int]:
    buckets = getattr(point, side)
    return {buckets.offset + i: count for i, count in enumerate(buckets.bucket_counts) if count}


def _width(indexes: Any) -> int:
    return max(indexes) - min(indexes) + 1 if indexes else 0


def _combine_exponential(base: Any, members: list[Any]) -> None:
    sides = ("positive", "negative")
    shown = [point.scale for point in members if any(getattr(point, side).ByteSize() for side in sides)]
    if not shown:
        return
    scale = min(shown)
    limit = max(MAX_BUCKETS, *(_width(_counts_by_index(point, side)) for point in members for side in sides))
    while True:
        sums: dict[str, dict[int, int]] = {side: {} for side in sides}
        for point in members:
            for side in sides:
                for index, count in _counts_by_index(point, side).items():
                    at = index >> (point.scale - scale)
                    sums[side][at] = min(sums[side].get(at, 0) + count, 2**64 - 1)
        if all(_width(sums[side]) <= limit and min(sums[side], default=0) < 2**31 for side in sides):
            break
        scale -= 1
    base.scale = scale
    for side in sides:
        base.ClearField(side)
        if sums[side]:
            low, high = min(sums[side]), max(sums[side])
            getattr(base, side).offset = low
            getattr(base, side).bucket_counts.extend(
                sums[side].get(index, 0) for index in range(low, high + 1)
            )
