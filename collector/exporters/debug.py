"""Show what passes, in the collector's own log: counts, a line an item, or everything.

Source: OpenTelemetry Collector, debugexporter (keys, defaults, shape of the text). basic costs a
few microseconds a request; normal and detailed read the items from their OTLP/JSON form, Python objects an item: they
are for people, not for load.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from collector.component import Factory, Settings, Stability
from collector.config.fields import option, section, unserved
from collector.exporterhelper.queue import QueueConfig, QueueSender
from collector.exporterhelper.request import Request, Sent
from collector.exporterhelper.retry import RetryConfig
from collector.ids import Signal
from collector.lean import Any, NamedTuple, StrEnum, TextIO
from collector.telemetry.instruments import Sample

Node = dict[str, Any]


class Verbosity(StrEnum):
    """How much is shown."""

    BASIC = "basic"
    NORMAL = "normal"
    DETAILED = "detailed"


@section
class Config:
    """The exporter's keys."""

    verbosity: Verbosity = option(
        Verbosity.BASIC, doc="basic (counts), normal (a line an item) or detailed (every field)."
    )
    sampling_initial: int = option(2, doc="Accepted for compatibility: every request is shown.", minimum=0)
    sampling_thereafter: int = option(1, doc="Accepted for compatibility: every request is shown.", minimum=0)
    use_internal_logger: bool = option(
        True, doc="Accepted for compatibility: counts go to the log, items to standard error."
    )
    output_paths: Any = unserved("items are written to standard error")
    sending_queue: Any = unserved("items are written at once")


class _Shape(NamedTuple):
    """The words that a signal has for the same things, and its keys in OTLP/JSON."""

    title: str
    resource: str
    scope: str
    resources_counted: str
    items_counted: str
    resources_key: str
    scopes_key: str
    items_key: str


_SHAPES = {
    Signal.TRACES: _Shape(
        "Traces",
        "ResourceSpans",
        "ScopeSpans",
        "resource spans",
        "spans",
        "resourceSpans",
        "scopeSpans",
        "spans",
    ),
    Signal.METRICS: _Shape(
        "Metrics",
        "ResourceMetrics",
        "ScopeMetrics",
        "resource metrics",
        "data points",
        "resourceMetrics",
        "scopeMetrics",
        "metrics",
    ),
    Signal.LOGS: _Shape(
        "Logs",
        "ResourceLogs",
        "ScopeLogs",
        "resource logs",
        "log records",
        "resourceLogs",
        "scopeLogs",
        "logRecords",
    ),
}
# Field numbers that the three signals share: resource_* of the request; scope_* in it, and the items in that.
_RESOURCES, _CHILDREN = 1, 2
_POINT_KINDS = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _submessages(message: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the submessages in the field number of message, which C has checked already."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire_type = tag & 7
        if wire_type == 2:
            length, at = _varint(message, at)
            if tag >> 3 == number:
                yield message[at : at + length]
            at += length
        elif wire_type == 0:
            _, at = _varint(message, at)
        else:
            at += 8 if wire_type == 1 else 4


def text_of(value: Any) -> str:
    """Return a field of OTLP/JSON in one line: text bare, unless it holds what a line cannot show; the rest as JSON."""
    return value if isinstance(value, str) and value.isprintable() else _json(value)


def value_text(value: Node) -> str:
    """Return an AnyValue of OTLP/JSON as people read it: lists and maps as JSON."""
    for kind, inner in value.items():
        return _json_text(value) if kind in ("arrayValue", "kvlistValue") else text_of(inner)
    return ""


def _json_text(value: Node) -> str:
    """Return an AnyValue as the JSON that it stands for; of a map, keys that come twice too."""
    for kind, inner in value.items():
        if kind == "arrayValue":
            return f"[{','.join(map(_json_text, inner.get('values', [])))}]"
        if kind == "kvlistValue":
            pairs = (
                f"{_json(item.get('key', ''))}:{_json_text(item.get('value', {}))}"
                for item in inner.get("values", [])
            )
            return f"{{{','.join(pairs)}}}"
        return str(inner) if kind == "intValue" else _json(inner)
    return ""


def _json(value: Any) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else json.dumps(value, separators=(",", ":"))


def attributes_text(node: Node) -> str:
    """Return the attributes of a resource, scope or item as `key=value key=value`."""
    pairs = (
        f"{text_of(item.get('key', ''))}={value_text(item.get('value', {}))}"
        for item in node.get("attributes", [])
    )
    return " ".join(pairs)


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _metric_lines(metric: Node) -> Iterator[str]:
    for kind in _POINT_KINDS:
        for point in metric.get(kind, {}).get("dataPoints", []):
            names = ("asInt", "asDouble", "count", "sum", "min", "max")
            values = " ".join(f"{name}={text_of(point[name])}" for name in names if name in point)
            yield _join(text_of(metric.get("name", "")), attributes_text(point), values)


def _item_lines(signal: Signal, item: Node) -> Iterable[str]:
    if signal is Signal.METRICS:
        return _metric_lines(item)
    if signal is Signal.TRACES:
        head = _join(text_of(item.get("name", "")), item.get("traceId", ""), item.get("spanId", ""))
    else:
        head = value_text(item.get("body", {}))
    return [_join(head, attributes_text(item))]


def normal_lines(signal: Signal, request: Node) -> Iterator[str]:
    """Yield a line for each resource, scope and item of an OTLP/JSON request."""
    shape = _SHAPES[signal]
    for number, resource in enumerate(request.get(shape.resources_key, [])):
        yield _join(f"{shape.resource} #{number}", attributes_text(resource.get("resource", {})))
        for index, scope_items in enumerate(resource.get(shape.scopes_key, [])):
            scope = scope_items.get("scope", {})
            name = _join(text_of(scope.get("name", "")), text_of(scope.get("version", "")))
            yield _join(f"{shape.scope} #{index}", name, attributes_text(scope))
            for item in scope_items.get(shape.items_key, []):
                yield from _item_lines(signal, item)


def detailed_lines(node: Any, indent: str = "") -> Iterator[str]:
    """Yield every field of an OTLP/JSON value, one a line, nested by indentation."""
    for key, value in node.items():
        if key in ("attributes", "filteredAttributes"):
            yield f"{indent}{key}:"
            for item in value:
                yield f"{indent}     -> {text_of(item.get('key', ''))}: {value_text(item.get('value', {}))}"
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, item in enumerate(value):
                yield f"{indent}{key} #{number}"
                yield from detailed_lines(item, indent + "    ")
        elif isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from detailed_lines(value, indent + "    ")
        else:
            yield f"{indent}{key}: {text_of(value)}"


class Debug:
    """The exporter of one signal."""

    def __init__(self, config: Config, settings: Settings, stream: TextIO | None = None) -> None:
        self._verbosity = config.verbosity
        self._signal = settings.own_signal
        self._log = settings.log
        self._stream = stream
        # One consumer keeps requests in order.
        self._queue = QueueSender(
            settings,
            self._send,
            queue=QueueConfig(num_consumers=1),
            retry=RetryConfig(enabled=False),
            timeout_s=0,
        )
        self.consumer = self._queue.consumer

    def start(self) -> None:
        """Begin to show."""
        if self._verbosity is not Verbosity.BASIC:  # what _show needs, as long as its files are there
            import json  # noqa: F401

            import collector.native.json  # noqa: F401
        self._queue.start()

    def shutdown(self, deadline_s: float) -> None:
        """Show what is queued within deadline_s seconds."""
        self._queue.shutdown(deadline_s)

    def samples(self) -> Iterator[Sample]:
        """Return the exporter's metrics as they are now."""
        return self._queue.samples()

    def _send(self, request: Request, limit_s: float | None) -> Sent:
        del limit_s
        shape = _SHAPES[self._signal]
        resources = list(_submessages(memoryview(request.view), _RESOURCES))
        counts = {shape.resources_counted: len(resources)}
        if self._signal is Signal.METRICS:
            scopes = (scope for resource in resources for scope in _submessages(resource, _CHILDREN))
            counts["metrics"] = sum(1 for scope in scopes for _ in _submessages(scope, _CHILDREN))
        self._log.info(shape.title, **counts, **{shape.items_counted: request.item_count})
        if self._verbosity is not Verbosity.BASIC:
            self._show(request)
        return Sent(len(request.view))

    def _show(self, request: Request) -> None:
        import json

        from collector.native.json import otlp_to_json

        node: Node = json.loads(otlp_to_json(self._signal, request.view))
        is_detailed = self._verbosity is Verbosity.DETAILED
        lines = detailed_lines(node) if is_detailed else normal_lines(self._signal, node)
        stream = self._stream or sys.stderr
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()


factory = Factory(
    config=Config,
    create=Debug,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    example="verbosity: detailed",
)
