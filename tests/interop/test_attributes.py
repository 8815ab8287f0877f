"""`attributes` and `resource`: every configuration, on every input, leaves what the Collector leaves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
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
    Summary,
    SummaryDataPoint,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from collector.ids import Signal
from tests.integration.harness import wait_for
from tests.interop import differences
from tests.interop import inputs as samplers
from tests.interop.harness import Pair, Ports, base, items_by_name, normalise, run_both, to_sink
from tests.interop.test_sampler import send
from tests.support import otlp
from tests.support.attributes_reference import any_value, containers, rows_of

Keys = dict[str, Any]
Pairs = list[KeyValue]


# ------------------------------------------------------------------------------------------------ inputs


class Input(NamedTuple):
    """An item, its resource and its scope; name is the scope's, too."""

    name: str
    attributes: Pairs
    resource: Pairs
    version: str = ""
    item_name: str = "GET /"
    kind: int = 2
    body: AnyValue = AnyValue(string_value="hello")
    severity_number: int = 9
    severity_text: str = "INFO"


def _pairs(**values: Any) -> Pairs:
    return [KeyValue(key=key, value=any_value(value)) for key, value in values.items()]


_SHOP = _pairs(**{"service.name": "shop", "host": "h1"})

VALUES: dict[str, AnyValue] = {
    "empty": AnyValue(),
    "empty text": AnyValue(string_value=""),
    "text": AnyValue(string_value="caf\u00e9 <&> \u2028"),
    "long text": AnyValue(string_value="x" * 300),
    "digits": AnyValue(string_value="42"),
    "signed": AnyValue(string_value="-0042"),
    "plus": AnyValue(string_value="+7"),
    "fraction": AnyValue(string_value="2.50"),
    "power": AnyValue(string_value="1e3"),
    "hexadecimal": AnyValue(string_value="0x10"),
    "hexadecimal power": AnyValue(string_value="0x1p4"),
    "underscore": AnyValue(string_value="1_000"),
    "beyond 64 bits": AnyValue(string_value="9223372036854775808"),
    "beyond doubles": AnyValue(string_value="1e400"),
    "infinity as text": AnyValue(string_value="-Inf"),
    "space": AnyValue(string_value=" 1"),
    "time": AnyValue(string_value="12:34"),
    "true": AnyValue(bool_value=True),
    "false": AnyValue(bool_value=False),
    "int": AnyValue(int_value=7),
    "negative": AnyValue(int_value=-(2**63)),
    "zero": AnyValue(int_value=0),
    "double": AnyValue(double_value=2.75),
    "whole double": AnyValue(double_value=3.0),
    "large double": AnyValue(double_value=1.5e21),
    "small double": AnyValue(double_value=1.25e-7),
    "minus zero": AnyValue(double_value=-0.0),
    "not a number": AnyValue(double_value=math.nan),
    "infinity": AnyValue(double_value=math.inf),
    "minus infinity": AnyValue(double_value=-math.inf),
    "bytes": AnyValue(bytes_value=b"\x00\xff<"),
    "no bytes": AnyValue(bytes_value=b""),
    "array": any_value([1, 2.5, True, None, 'a"\\\n\t\b\f\x01\x7f<&>\u2028\u2029\U0001f600', [], {}]),
    "empty array": any_value([]),
    "map": any_value({"b": 1, "a": {"z": [1e21, -0.0], "": None}, "A": "x", "\u00e9": 2}),
    "empty map": any_value({}),
    "array of bytes": AnyValue(
        array_value={"values": [AnyValue(bytes_value=b"abc"), AnyValue(bytes_value=b"")]}
    ),
    "array with infinity": any_value([math.inf]),
    "map with a key twice": AnyValue(
        kvlist_value={"values": [*_pairs(a=1), *_pairs(a=2)]},
    ),
}


def _inputs() -> Iterator[Input]:
    for name, value in VALUES.items():
        pairs = [*_pairs(before=1), KeyValue(key="a", value=value), *_pairs(b="y")]
        yield Input(name, pairs, [*_SHOP, *pairs])
    yield Input("no attributes", [], _SHOP)
    yield Input("no resource", _pairs(a="x"), [])
    for name, pairs in (
        ("other keys", _pairs(**{"A": "x", "aa": "y", "user.id": "u", "user.name": "n"})),
        ("no key", [KeyValue(value=AnyValue(string_value="x")), *_pairs(a="y")]),
        ("a key twice", [*_pairs(a="x"), *_pairs(b="y"), *_pairs(a="z")]),
    ):
        yield Input(name, pairs, [*_SHOP, *pairs])
    for service in ("cart", "shop-2", 7, 2.5, True, ["shop"]):
        yield Input(f"service {service}", _pairs(a="x", n=1), _pairs(**{"service.name": service}))
    for kind in range(6):
        yield Input(f"kind {kind}", _pairs(a="x"), _SHOP, kind=kind)
    for item_name in ("", "POST /", "GET /health"):
        yield Input(f"name {item_name}", _pairs(a="x"), _SHOP, item_name=item_name)
    yield Input("version", _pairs(a="x"), _SHOP, version="1.2")
    for number in (0, 1, 8, 9, 17, 24):
        yield Input(f"severity {number}", _pairs(a="x"), _SHOP, severity_number=number)
    yield Input("severity text", _pairs(a="x"), _SHOP, severity_text="warn")
    for name in ("empty", "text", "int", "double", "array", "map", "bytes", "not a number"):
        yield Input(f"body {name}", _pairs(a="x"), _SHOP, body=VALUES[name])


INPUTS = {made.name: made for made in _inputs()}


def _points(attributes: Pairs) -> Iterator[dict[str, Any]]:
    times = {"attributes": attributes, "time_unix_nano": 5}
    yield {"gauge": Gauge(data_points=[NumberDataPoint(as_int=1, **times)])}
    yield {"sum": Sum(data_points=[NumberDataPoint(as_double=1.5, **times)], aggregation_temporality=2)}
    yield {"histogram": Histogram(data_points=[HistogramDataPoint(count=1, **times)])}
    point = ExponentialHistogramDataPoint(count=1, **times)
    yield {"exponential_histogram": ExponentialHistogram(data_points=[point])}
    yield {"summary": Summary(data_points=[SummaryDataPoint(count=1, **times)])}


def request(signal: Signal) -> bytes:
    """Return one request with all inputs, a resource each."""
    made = otlp.REQUESTS[signal]()
    for number, each in enumerate(INPUTS.values(), 1):
        containers = {
            Signal.TRACES: "resource_spans",
            Signal.METRICS: "resource_metrics",
            Signal.LOGS: "resource_logs",
        }
        container = getattr(made, containers[signal]).add()
        if each.resource:
            container.resource.CopyFrom(Resource(attributes=each.resource))
        scope = InstrumentationScope(name=each.name, version=each.version)
        ids = {"trace_id": number.to_bytes(16), "span_id": number.to_bytes(8)}
        if signal is Signal.TRACES:
            span = otlp.span(each.item_name, kind=each.kind, **ids)
            span.attributes.extend(each.attributes)
            container.scope_spans.add(scope=scope, spans=[span])
        elif signal is Signal.LOGS:
            record = LogRecord(
                time_unix_nano=number,
                severity_number=each.severity_number,  # type: ignore[arg-type]
                severity_text=each.severity_text,
                body=each.body,
                attributes=each.attributes,
                **ids,
            )
            container.scope_logs.add(scope=scope, log_records=[record])
        else:
            metrics = [Metric(name=each.item_name, **data) for data in _points(each.attributes)]
            container.scope_metrics.add(scope=scope, metrics=metrics)
    return bytes(made.SerializeToString())


# ------------------------------------------------------------------------------------------------ configurations


def _actions() -> Iterator[tuple[str, list[Keys]]]:
    for key in ("a", "before", "b", "none", "user.id"):
        yield f"delete {key}", [{"key": key, "action": "delete"}]
    for pattern in ("^a", "user", ".", "^$", "x^", "(?i)^A$"):
        escaped = pattern.replace("$", "$$")
        yield f"delete {pattern}", [{"pattern": escaped, "action": "delete"}]
        yield f"delete a and {pattern}", [{"key": "a", "pattern": escaped, "action": "DELETE"}]
    yield "hash", [{"key": "a", "action": "hash"}]
    yield "hash by pattern", [{"pattern": "^[ab]$$", "action": "hash"}]
    yield "hash twice", [{"key": "a", "pattern": "^[ab]$$", "action": "hash"}]
    for target in ("string", "int", "double"):
        yield f"convert to {target}", [{"key": "a", "action": "convert", "converted_type": target}]
    yield (
        "convert and back",
        [
            {"key": "a", "action": "convert", "converted_type": target}
            for target in ("double", "string", "int")
        ],
    )
    for verb in ("insert", "update", "upsert"):
        for key in ("a", "new"):
            for value in ("text", "", 5, 2.5, True, [1, "x", None], {"x": {"y": 1}}, [], {}):
                yield f"{verb} {key} = {value!r}", [{"key": key, "action": verb, "value": value}]
            yield f"{verb} {key} from b", [{"key": key, "action": verb, "from_attribute": "b"}]
            yield f"{verb} {key} from a", [{"key": key, "action": verb, "from_attribute": "a"}]
            yield (
                f"{verb} {key} from none, or else",
                [{"key": key, "action": verb, "from_attribute": "none", "default_value": "else"}],
            )
            yield f"{verb} {key} or else", [{"key": key, "action": verb, "default_value": [1]}]
        for source in (
            "metadata.x-tenant",
            "X-Tenant",
            "metadata.none",
            "x-many",
            "auth.subject",
            "metadata.",
        ):
            yield (
                f"{verb} from {source}",
                [{"key": "a", "action": verb, "from_context": source}],
            )
            yield (
                f"{verb} from {source}, or else",
                [{"key": "new", "action": verb, "from_context": source, "default_value": "else"}],
            )
    for pattern in (
        "(?P<hour>[0-9]+):(?P<minute>[0-9]+)",
        "(?P<a>.)",
        "(?P<b>.)(?P<none>zzz)?",
        "^(?P<all>.*)$$",
        "(?P<first>x)|(?P<second>4)",
    ):
        yield f"extract {pattern}", [{"key": "a", "action": "extract", "pattern": pattern}]
    yield (
        "in their order",
        [
            {"key": "copy", "action": "insert", "from_attribute": "a"},
            {"key": "a", "action": "delete"},
            {"key": "copy", "action": "convert", "converted_type": "string"},
            {"key": "copy", "action": "hash"},
            {"key": "a", "action": "upsert", "from_attribute": "copy"},
            {"key": "b", "action": "delete"},
            {"key": "b", "action": "insert", "value": "again"},
        ],
    )


_DELETE = [{"key": "a", "action": "delete"}]
_MARK = [{"key": "mark", "action": "upsert", "value": 1}]


def _conditions() -> Iterator[tuple[str, Keys]]:
    """Yield what both spans and log records may be chosen by."""
    for value in ("x", "", "42", 7, 2.75, True, [], {}, [1e21]):
        yield f"a = {value!r}", {"match_type": "strict", "attributes": [{"key": "a", "value": value}]}
    array = [1, 2.5, True, None, 'a"\\\n\t\b\f\x01\x7f<&>\u2028\u2029\U0001f600', [], {}]
    yield "a = array", {"match_type": "strict", "attributes": [{"key": "a", "value": array}]}
    content = {"A": "x", "a": {"": None, "z": [1e21, -0.0]}, "\u00e9": 2, "b": 1}
    yield "a = map", {"match_type": "strict", "attributes": [{"key": "a", "value": content}]}
    yield "a = map of others", {"match_type": "strict", "attributes": [{"key": "a", "value": {"b": 1}}]}
    for pattern in ("^x$", "", "^4", "e", "^1500", "0000", "^-?(NaN|Inf)", r"^\+Inf", "^(true|7)$"):
        properties = {
            "match_type": "regexp",
            "attributes": [{"key": "a", "value": pattern.replace("$", "$$")}],
        }
        yield f"a like {pattern}", properties
    yield "a", {"attributes": [{"key": "a"}]}
    yield "a and b", {"match_type": "strict", "attributes": [{"key": "a"}, {"key": "b", "value": "y"}]}
    yield "service", {"match_type": "strict", "resources": [{"key": "service.name", "value": "shop"}]}
    yield "service like", {"match_type": "regexp", "resources": [{"key": "service.name", "value": "^sh"}]}
    yield "service is 7", {"match_type": "strict", "resources": [{"key": "service.name", "value": 7}]}
    yield "host", {"match_type": "strict", "resources": [{"key": "host"}]}
    yield "scope", {"match_type": "strict", "libraries": [{"name": "int"}]}
    yield "scope like", {"match_type": "regexp", "libraries": [{"name": "^(int|double)"}, {"name": "t"}]}
    for version in ("", "1.2"):
        name = f"scope version {version!r}"
        yield name, {"match_type": "regexp", "libraries": [{"name": ".", "version": version or "^$$"}]}
    yield (
        "a and scope and service",
        {
            "match_type": "regexp",
            "attributes": [{"key": "a", "value": "^x"}],
            "libraries": [{"name": "."}],
            "resources": [{"key": "service.name", "value": "."}],
        },
    )


def _of_spans() -> Iterator[tuple[str, Keys]]:
    yield from _conditions()
    for services in (
        ["shop"],
        ["shop", "cart"],
        ["<nil-service-name>"],
        ["7"],
        ["2.5", "true"],
        ['["shop"]'],
    ):
        yield f"services {services}", {"match_type": "strict", "services": services}
    yield "services like", {"match_type": "regexp", "services": ["^shop$$", "nil"]}
    yield "names", {"match_type": "strict", "span_names": ["GET /", ""]}
    yield "names like", {"match_type": "regexp", "span_names": ["^(GET|PUT)"]}
    yield "kinds", {"match_type": "strict", "span_kinds": ["SPAN_KIND_SERVER", "SPAN_KIND_INTERNAL"]}
    yield "kinds like", {"match_type": "regexp", "span_kinds": ["UNSPEC", "ER$$"]}
    yield (
        "cached",
        {
            "match_type": "regexp",
            "regexp": {"cacheenabled": True, "cachemaxnumentries": 5},
            "services": ["s"],
        },
    )
    yield "services and names", {"match_type": "strict", "services": ["shop"], "span_names": ["GET /"]}


def _of_logs() -> Iterator[tuple[str, Keys]]:
    yield from _conditions()
    yield "bodies", {"match_type": "strict", "log_bodies": ["hello", "7", ""]}
    yield "bodies like", {"match_type": "regexp", "log_bodies": ["^\\[1", '"A":', "^2.75$$", "AP88", "NaN"]}
    yield "severity texts", {"match_type": "strict", "log_severity_texts": ["INFO"]}
    yield "severity texts like", {"match_type": "regexp", "log_severity_texts": ["(?i)^WARN"]}
    for number in (0, 1, 9, 24):
        for undefined in (True, False):
            properties = {"min": number, "match_undefined": undefined}
            yield f"severity {properties}", {"log_severity_number": properties}


def _of_metrics() -> Iterator[tuple[str, Keys]]:
    yield "names", {"match_type": "strict", "metric_names": ["GET /", ""]}
    yield "names like", {"match_type": "regexp", "metric_names": ["^POST", "health$$"]}
    yield "resources", {"match_type": "strict", "resources": [{"key": "service.name", "value": "shop"}]}


class Case(NamedTuple):
    """A processor of a signal."""

    signal: Signal
    type: str
    config: Keys


def _cases() -> Iterator[tuple[str, Case]]:
    for name, actions in _actions():
        yield f"traces: {name}", Case(Signal.TRACES, "attributes", {"actions": actions})
        yield f"resource: {name}", Case(Signal.TRACES, "resource", {"attributes": actions})
    for name in ("delete a", "delete .", "hash", "convert to string", "upsert new = 5", "in their order"):
        actions = dict(_actions())[name]
        for signal in (Signal.METRICS, Signal.LOGS):
            yield f"{signal.value}: {name}", Case(signal, "attributes", {"actions": actions})
            yield f"{signal.value}: resource: {name}", Case(signal, "resource", {"attributes": actions})
    for signal, matches in (
        (Signal.TRACES, _of_spans()),
        (Signal.LOGS, _of_logs()),
        (Signal.METRICS, _of_metrics()),
    ):
        for name, properties in matches:
            included = {"include": properties, "actions": _DELETE}
            excluded = {"exclude": properties, "actions": _MARK}
            yield f"{signal.value}: included: {name}", Case(signal, "attributes", included)
            yield f"{signal.value}: excluded: {name}", Case(signal, "attributes", excluded)
    both = {
        "include": {"match_type": "regexp", "services": ["shop"]},
        "exclude": {"match_type": "strict", "attributes": [{"key": "a", "value": "x"}]},
    }
    yield "traces: both", Case(Signal.TRACES, "attributes", {**both, "actions": [*_DELETE, *_MARK]})
    yield "traces: neither", Case(Signal.TRACES, "attributes", {"include": None, "actions": _DELETE})


CASES = dict(_cases())


def _config(ports: Ports) -> Keys:
    numbers = dict(enumerate(CASES.values()))
    return base(
        ports,
        grpc={"include_metadata": True},
        processors={f"{case.type}/{n}": case.config for n, case in numbers.items()},
        exporters={f"otlp_http/{n}": to_sink(ports, f"/{n}") for n in numbers},
        pipelines={
            f"{case.signal.value}/{n}": {
                "receivers": ["otlp"],
                "processors": [f"{case.type}/{n}"],
                "exporters": [f"otlp_http/{n}"],
            }
            for n, case in numbers.items()
        },
    )


# ------------------------------------------------------------------------------------------------ comparing


@dataclasses.dataclass(frozen=True)
class Left:
    """What a configuration leaves of an input: attributes of the item and of the resource, and all of it in bytes."""

    text: str
    content: list[bytes]

    def __str__(self) -> str:
        return self.text


def _describe(pairs: Any) -> str:
    return ", ".join(f"{pair.key}={str(pair.value).strip()}" for pair in pairs)


def _canonical(message: Any) -> bytes:
    return bytes(normalise(message).SerializeToString(deterministic=True))


def _left(container: Any, scope: Any) -> Left:
    """Attributes are a map: their order is nobody's business, but for those of one key."""
    items = [item for _, item in rows_of(scope)]
    texts = []
    for owner in (*items, container.resource):
        owner.attributes.sort(key=lambda pair: pair.key)
        for pair in owner.attributes:
            _unify(pair.value)
        texts.append(_describe(owner.attributes))
    return Left(" | ".join(texts).replace("\n", " "), [_canonical(container.resource), _canonical(scope)])


def _unify(value: Any) -> None:
    """There are many numbers that are none, and one that we compare."""
    if value.WhichOneof("value") == "double_value" and math.isnan(value.double_value):
        value.double_value = math.nan


_METADATA = (("x-tenant", "acme"), ("x-many", "one"), ("x-many", "two"))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, Left]]]:
    """What each configuration leaves of each input: by configuration, side and input."""
    with run_both(_config, tmp_path_factory.mktemp("attributes")) as pair:
        for signal in Signal:
            pair.each(lambda process, signal=signal: send(process, signal, [request(signal)], _METADATA))
        for side in pair.processes:
            wait_for(lambda side=side: _arrived(pair, side))
        return {
            name: {
                side: _by_input(case.signal, bodies) for side, bodies in pair.received(_path(n, case)).items()
            }
            for n, (name, case) in enumerate(CASES.items())
        }


def _path(number: int, case: Case) -> str:
    return f"/{number}/v1/{case.signal.value}"


def _arrived(pair: Pair, side: str) -> bool:
    return all(pair.sinks[side].received(_path(n, case)) for n, case in enumerate(CASES.values()))


def _by_input(signal: Signal, bodies: list[bytes]) -> dict[str, Left]:
    found = {}
    for body in bodies:
        for container in containers(otlp.decode(signal, body)):
            for field in ("scope_spans", "scope_metrics", "scope_logs"):
                for scope in getattr(container, field, ()):
                    name = scope.scope.name
                    found[name] = _left(container, scope)
    return found


@pytest.mark.parametrize("configuration", CASES)
def test_processor_leaves_the_same(
    configuration: str, results: dict[str, dict[str, dict[str, Left]]]
) -> None:
    """Attributes of items and resources, and all that is around them, agree, or differ as is listed."""
    left = results[configuration]
    assert all(inputs.keys() == INPUTS.keys() for inputs in left.values()), "inputs are missing"
    problems = []
    for name in INPUTS:
        outcomes = {side: inputs[name] for side, inputs in left.items()}
        problems.append(differences.find(f"attributes: {configuration}: {name}", outcomes))
    found = [problem for problem in problems if problem]
    assert not found, "not in differences.md:\n" + "\n".join(found)


@pytest.mark.usefixtures("whole_module")
def test_every_listed_difference_is_still_there() -> None:
    """A row of differences.md about attributes that no case has shown is out of date."""
    assert [] == differences.out_of_date("attributes: ")


# ------------------------------------------------------------------------------------------------ what is behind

_USER_AS_TEXT = {"key": "user", "action": "convert", "converted_type": "string"}
_SAMPLED_BY_USER = {
    "sampling_percentage": 33,
    "attribute_source": "record",
    "from_attribute": "user",
    "sampling_priority": "priority",
}

CHAINS: dict[str, tuple[Signal, list[Keys], Keys]] = {
    "priority deleted": (
        Signal.TRACES,
        [{"actions": [{"key": "sampling.priority", "action": "delete"}]}],
        {"sampling_percentage": 25},
    ),
    "priority inserted": (
        Signal.TRACES,
        [
            {
                "actions": [{"key": "sampling.priority", "action": "upsert", "value": 0}],
                "include": {"match_type": "regexp", "span_names": ["[05]$$"]},
            },
            {
                "actions": [{"key": "sampling.priority", "action": "insert", "value": "1"}],
                "exclude": {"match_type": "regexp", "span_names": ["[1-7]$$"]},
            },
        ],
        {"mode": "proportional", "sampling_percentage": 25},
    ),
    "user as text": (Signal.LOGS, [{"actions": [_USER_AS_TEXT]}], _SAMPLED_BY_USER),
    "user hashed": (
        Signal.LOGS,
        [
            {"actions": [_USER_AS_TEXT, {"key": "user", "action": "hash"}]},
            {
                "actions": [
                    {"key": "priority", "action": "delete"},
                    {"pattern": "^sampling", "action": "delete"},
                ]
            },
        ],
        _SAMPLED_BY_USER,
    ),
    "marks deleted": (
        Signal.LOGS,
        [{"actions": [{"key": "sampling.threshold", "action": "delete"}]}],
        {"mode": "equalizing", "sampling_percentage": 50},
    ),
}


def _chains(ports: Ports) -> Keys:
    processors: dict[str, Keys] = {"batch": {"send_batch_size": 1000, "send_batch_max_size": 1000}}
    pipelines = {}
    for n, (signal, changes, sampler) in enumerate(CHAINS.values()):
        before = {f"attributes/{n}.{i}": change for i, change in enumerate(changes)}
        processors |= {**before, f"probabilistic_sampler/{n}": sampler}
        pipelines[f"{signal.value}/{n}"] = {
            "receivers": ["otlp"],
            "processors": [*before, f"probabilistic_sampler/{n}", "batch"],
            "exporters": [f"otlp_http/{n}"],
        }
    return base(
        ports,
        processors=processors,
        exporters={f"otlp_http/{n}": to_sink(ports, f"/{n}") for n in range(len(CHAINS))},
        pipelines=pipelines,
    )


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Mapping[str, bytes]]]:
    """What comes out of each chain: by its name and by side, items by their name."""
    requests = {
        Signal.TRACES: samplers.requests(samplers.marked_spans(5), otlp.traces),
        Signal.LOGS: samplers.requests(samplers.records(6, "marked", marked=True), otlp.logs),
    }
    with run_both(_chains, tmp_path_factory.mktemp("chains")) as pair:
        for signal, bodies in requests.items():
            pair.each(lambda process, signal=signal, bodies=bodies: send(process, signal, bodies))
        pair.drain()
        return {
            name: {
                side: items_by_name(signal, received)
                for side, received in pair.received(f"/{n}/v1/{signal.value}").items()
            }
            for n, (name, (signal, _, _)) in enumerate(CHAINS.items())
        }


@pytest.mark.parametrize("chain", CHAINS)
def test_sampler_behind_decides_by_what_is_left(
    chain: str, ends: dict[str, dict[str, Mapping[str, bytes]]]
) -> None:
    """Through a batch, 10,000 items: the same ones come out, with the same in them."""
    theirs, ours = ends[chain]["collector"], ends[chain]["spansieve"]
    assert 500 < len(theirs) < 9_500
    different = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    assert [] == different
