"""What attributes and resource must do, written slowly and plainly on protobuf objects: the oracle of their tests."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import re
import struct
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.config.attributes import Action, Attribute, MatchProperties
from collector.ids import Signal
from collector.processors import attributes, resource
from tests.support import otlp

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def process(signal: Signal, request: Any, config: attributes.Config | resource.Config) -> Any:
    """Return the request that config makes of request, without resources and scopes that hold no items."""
    result = copy.deepcopy(request)
    if isinstance(config, resource.Config):
        for container in containers(result):
            if any(True for _ in items_of(container)):
                _apply(container.resource.attributes, config.attributes)
    else:
        for container in containers(result):
            for scope, metric, item in items_of(container):
                if _is_chosen(signal, config, container, scope, metric, item):
                    _apply(item.attributes, config.actions)
    return without_empty(result)


def without_empty(request: Any) -> Any:
    """Return request without resources and scopes that hold no items."""
    for field, scopes in (
        ("resource_spans", "scope_spans"),
        ("resource_metrics", "scope_metrics"),
        ("resource_logs", "scope_logs"),
    ):
        for container in list(getattr(request, field, ())):
            for scope in list(getattr(container, scopes)):
                if not any(True for _ in rows_of(scope)):
                    getattr(container, scopes).remove(scope)
            if not getattr(container, scopes):
                getattr(request, field).remove(container)
    return request


def containers(request: Any) -> Iterator[Any]:
    """Yield the resources of a request, with what belongs to them."""
    for field in ("resource_spans", "resource_metrics", "resource_logs"):
        yield from getattr(request, field, ())


def items_of(container: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (scope, metric or None, item)."""
    for field in ("scope_spans", "scope_metrics", "scope_logs"):
        for scope in getattr(container, field, ()):
            for metric, item in rows_of(scope):
                yield scope, metric, item


def rows_of(scope: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (metric or None, item)."""
    for item in [*getattr(scope, "spans", ()), *getattr(scope, "log_records", ())]:
        yield None, item
    for metric in getattr(scope, "metrics", ()):
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points if kind else ():
            yield metric, point


# ------------------------------------------------------------------------------------------------ actions


def _find(pairs: Any, key: str) -> Any:
    return next((pair for pair in pairs if pair.key == key), None)


def _apply(pairs: Any, actions: tuple[Action, ...]) -> None:
    for action in actions:
        verb = action.action.lower()
        pair = _find(pairs, action.key)
        if verb in ("insert", "update", "upsert"):
            _put(pairs, pair, action, verb)
        elif verb in ("delete", "hash"):
            change = pairs.remove if verb == "delete" else _hash
            if pair is not None:
                change(pair)
            for other in list(pairs) if verb == "delete" else pairs:
                if action.pattern and re.search(action.pattern, other.key):
                    change(other)
        elif verb == "extract":
            text = (
                pair.value.string_value if pair is not None and _kind(pair.value) == "string_value" else None
            )
            found = None if text is None else re.search(action.pattern, text)
            for name, part in (found.groupdict() if found else {}).items():
                target = _find(pairs, name)
                (pairs.add(key=name) if target is None else target).value.CopyFrom(
                    AnyValue(string_value=part or "")
                )
        elif pair is not None:
            _convert(pair, action.converted_type)


def _put(pairs: Any, pair: Any, action: Action, verb: str) -> None:
    value: AnyValue | None = None
    if action.value is not None:
        value = any_value(action.value)
    elif action.from_attribute and (source := _find(pairs, action.from_attribute)) is not None:
        value = copy.deepcopy(source.value)
    elif action.default_value is not None:
        value = any_value(action.default_value)
    if value is None:
        return
    if pair is None and verb != "update":
        pairs.append(KeyValue(key=action.key, value=value))
    elif pair is not None and verb != "insert":
        pair.value.CopyFrom(value)


def _hash(pair: Any) -> None:
    kind = _kind(pair.value)
    content = {
        "string_value": lambda: pair.value.string_value.encode(),
        "bool_value": lambda: bytes([pair.value.bool_value]),
        "int_value": lambda: struct.pack("<q", pair.value.int_value),
        "double_value": lambda: struct.pack("<d", pair.value.double_value),
    }.get(kind)
    pair.value.CopyFrom(
        AnyValue(string_value=hashlib.sha256(content()).hexdigest() if content is not None else "")
    )


def _convert(pair: Any, target: str) -> None:
    kind = _kind(pair.value)
    if target == "string":
        if kind != "string_value":
            pair.value.CopyFrom(AnyValue(string_value=text_of(pair.value)))
        return
    number: float | None = None
    if kind == "bool_value":
        number = int(pair.value.bool_value)
    elif kind in ("int_value", "double_value"):
        number = getattr(pair.value, kind)
    elif kind == "string_value":
        number = _parse(pair.value.string_value, target)
    if number is None or kind == f"{target}_value":
        return
    if target == "double":
        pair.value.CopyFrom(AnyValue(double_value=float(number)))
    else:
        nearest = 0 if math.isnan(number) else max(INT_MIN, min(INT_MAX, number))
        pair.value.CopyFrom(AnyValue(int_value=int(nearest)))


def _parse(text: str, target: str) -> float | None:
    if target == "int":
        if re.fullmatch(r"[-+]?[0-9]+", text) and INT_MIN <= int(text) <= INT_MAX:
            return int(text)
        return None
    return float(text) if re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text) else None


# ------------------------------------------------------------------------------------------------ include, exclude


def _is_chosen(
    signal: Signal, config: attributes.Config, container: Any, scope: Any, metric: Any, item: Any
) -> bool:
    def meets(properties: MatchProperties) -> bool:
        if signal is Signal.METRICS:
            resource = container.resource.attributes
            return _meets_any(properties, properties.metric_names, metric.name) and all(
                _meets_condition(properties, each, resource) for each in properties.resources
            )
        return _meets(signal, properties, container, scope, item)

    included = config.include is None or meets(config.include)
    return included and not (config.exclude is not None and meets(config.exclude))


def _meets_text(properties: MatchProperties, wanted: str, text: str) -> bool:
    return re.search(wanted, text) is not None if properties.match_type == "regexp" else wanted == text


def _meets_any(properties: MatchProperties, wanted: tuple[str, ...], text: str) -> bool:
    return not wanted or any(_meets_text(properties, each, text) for each in wanted)


def _meets(signal: Signal, properties: MatchProperties, container: Any, scope: Any, item: Any) -> bool:
    resource = container.resource.attributes
    name = _find(resource, "service.name")
    service = "<nil-service-name>" if name is None else text_of(name.value)
    severity = properties.log_severity_number
    if signal is Signal.TRACES:
        own = (
            _meets_any(properties, properties.services, service)
            and _meets_any(properties, properties.span_names, item.name)
            and _meets_any(properties, properties.span_kinds, Span.SpanKind.Name(item.kind))
        )
    else:
        own = (
            _meets_any(properties, properties.log_bodies, text_of(item.body))
            and _meets_any(properties, properties.log_severity_texts, item.severity_text)
            and (
                severity is None
                or (
                    item.severity_number >= severity.min if item.severity_number else severity.match_undefined
                )
            )
        )
    return (
        own
        and all(
            _meets_text(properties, library.name, scope.scope.name)
            and (library.version is None or _meets_text(properties, library.version, scope.scope.version))
            for library in properties.libraries
        )
        and all(_meets_condition(properties, each, resource) for each in properties.resources)
        and all(_meets_condition(properties, each, item.attributes) for each in properties.attributes)
    )


def _meets_condition(properties: MatchProperties, condition: Attribute, pairs: Any) -> bool:
    pair = _find(pairs, condition.key)
    if pair is None or condition.value is None:
        return pair is not None
    kind = _kind(pair.value)
    if properties.match_type == "regexp":
        if kind not in ("string_value", "bool_value", "int_value", "double_value"):
            return False
        return _meets_text(properties, condition.value, match_text_of(pair.value))
    return bool(_comparable(any_value(condition.value)) == _comparable(pair.value))


def _comparable(value: Any) -> Any:
    kind = _kind(value)
    if kind == "array_value":
        return kind, [_comparable(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return kind, {pair.key: _comparable(pair.value) for pair in value.kvlist_value.values}
    return kind, getattr(value, kind) if kind else None


# ------------------------------------------------------------------------------------------------ values


def _kind(value: Any) -> str:
    return value.WhichOneof("value") or ""


def any_value(content: Any) -> AnyValue:
    """Return the value that content, as it stands in YAML, means."""
    if content is None:
        return AnyValue()
    if isinstance(content, dict):
        pairs = [KeyValue(key=key, value=any_value(each)) for key, each in content.items()]
        return AnyValue(kvlist_value={"values": pairs})
    if isinstance(content, list | tuple):
        return AnyValue(array_value={"values": [any_value(each) for each in content]})
    return otlp.attribute("", content).value


def text_of(value: Any) -> str:
    """Return the text that the Collector makes of value."""
    kind = _kind(value)
    if kind in ("array_value", "kvlist_value"):
        try:
            return _json_of(value)
        except ValueError:
            return ""
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if kind == "double_value" and not math.isfinite(value.double_value):
        number = value.double_value
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return "" if not kind else _scalar_text(value, kind)


def _scalar_text(value: Any, kind: str) -> str:
    content = getattr(value, kind)
    if kind == "bool_value":
        return "true" if content else "false"
    return _number_text(content, 21) if kind == "double_value" else str(content)


def match_text_of(value: Any) -> str:
    """Return the text of a scalar that patterns are compared with."""
    if _kind(value) == "double_value":
        number = value.double_value
        if math.isnan(number):
            return "NaN"
        if math.isinf(number):
            return "+Inf" if number > 0 else "-Inf"
        return _number_text(number, 400)
    return _scalar_text(value, _kind(value))


def _number_text(number: float, plain_up_to: int) -> str:
    """Return the shortest text: plain from 1e-6, or the inverse of all others, up to a power of ten."""
    mantissa, _, power = f"{abs(number):.17e}".partition("e")
    for precision in range(17):
        mantissa, _, power = f"{abs(number):.{precision}e}".partition("e")
        if float(f"{mantissa}e{power}") == abs(number):
            break
    sign = "-" if math.copysign(1, number) < 0 else ""
    digits, exponent = mantissa.replace(".", "").rstrip("0") or "0", int(power)
    if number and not -7 < exponent < 21 and not plain_up_to > 21:
        fraction = f".{digits[1:]}" if digits[1:] else ""
        return f"{sign}{digits[0]}{fraction}e{'+' if exponent > 0 else '-'}{abs(exponent)}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return sign + (f"{whole}.{digits[exponent + 1 :]}" if digits[exponent + 1 :] else whole)


def _json_of(value: Any) -> str:
    kind = _kind(value)
    if kind == "kvlist_value":
        pairs = {pair.key: pair.value for pair in value.kvlist_value.values}
        ordered = sorted(pairs.items(), key=lambda item: item[0].encode())
        return "{" + ",".join(f"{_quoted(key)}:{_json_of(each)}" for key, each in ordered) + "}"
    if kind == "array_value":
        return "[" + ",".join(map(_json_of, value.array_value.values)) + "]"
    if kind == "string_value":
        return _quoted(value.string_value)
    if kind == "bytes_value":
        return _quoted(text_of(value)) if value.bytes_value else "null"
    if kind == "double_value" and not math.isfinite(value.double_value):
        raise ValueError("JSON has no such number")
    return _scalar_text(value, kind) if kind else "null"


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
