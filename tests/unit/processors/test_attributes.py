"""attributes and resource: what is left is what the plain oracle leaves; configurations; and what is behind sees it."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from collector.component import Loop, Settings
from collector.config.attributes import Action, Attribute, Library, MatchProperties, SeverityNumber
from collector.config.decode import decode
from collector.errors import ConfigError
from collector.ids import ComponentID, Signal
from collector.native.pipeline import Pipeline, Queue
from collector.native.runtime import Runtime, Worker
from collector.processors import attributes, probabilistic_sampler, resource
from collector.telemetry.logs import Log
from tests.support import attributes_reference, otlp
from tests.support.sampler_harness import Timers

Config = attributes.Config | resource.Config


class Harness:
    """Processors in a pipeline of their own, in front of a queue."""

    def __init__(self, signal: Signal, *configs: Any) -> None:
        self.signal = signal
        self.timers = Timers()
        self.runtime = Runtime()
        self.worker = Worker(self.runtime)
        modules = {module.Config: module for module in (attributes, resource, probabilistic_sampler)}
        self.processors = [
            modules[type(config)].factory.create(
                config,
                Settings(
                    id=ComponentID("attributes"),
                    signal=signal,
                    runtime=self.runtime,
                    log=Log(logging.getLogger("test")),
                    loop=cast("Loop", self.timers),
                ),
            )
            for config in configs
        ]
        self.queue = Queue(self.runtime, signal, sizer="requests", capacity=10)
        self.pipeline = Pipeline(signal, [each.op for each in self.processors], self.queue)

    def run_bytes(self, request: bytes) -> bytes:
        """Return what is left of a serialized request."""
        self.pipeline.push(self.worker, request)
        item = self.queue.pop(0)
        if item is None:
            return b""
        left = bytes(item.view)
        self.queue.done(item)
        return left

    def run(self, request: Any) -> Any:
        """Return the request that is left."""
        return otlp.decode(self.signal, self.run_bytes(request.SerializeToString()))


def acting(*actions: Action, signal: Signal = Signal.TRACES, **fields: Any) -> Harness:
    """Return a harness with these actions on items."""
    return Harness(signal, attributes.Config(actions=actions, **fields))


def left_of(harness: Harness, **values: Any) -> dict[str, Any]:
    """Return the attributes that are left of a span's."""
    span = harness.run(otlp.traces(otlp.span(attributes=values))).resource_spans[0].scope_spans[0].spans[0]
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value")
        for pair in span.attributes
    }


# ------------------------------------------------------------------------------------------------ one by one


def test_rows_without_the_key_are_left_byte_for_byte() -> None:
    """Unusual encodings too: what no action finds is not written anew."""
    body = otlp.traces(otlp.span(attributes={"a": 1})).resource_spans[0].SerializeToString()
    request = bytes([0x0A, len(body) & 0x7F | 0x80, len(body) >> 7 | 0x80, 0x80, 0]) + body
    assert request == acting(Action(key="c", action="delete")).run_bytes(request)
    assert request == acting(Action(pattern="c", action="hash")).run_bytes(request)
    assert request == Harness(
        Signal.TRACES, resource.Config(attributes=(Action(key="c", action="delete"),))
    ).run_bytes(request)


def test_one_processor_sees_what_another_has_left() -> None:
    """In one pipeline, item after item, resource after resource, and the choice of items by their resource."""
    tag = Action(key="service.name", action="update", value="cart")
    chosen = MatchProperties(match_type="strict", services=("cart",), attributes=(Attribute(key="b"),))
    harness = Harness(
        Signal.TRACES,
        resource.Config(attributes=(tag,)),
        attributes.Config(actions=(Action(key="b", action="insert", from_attribute="a"),)),
        attributes.Config(actions=(Action(key="a", action="delete"),), include=chosen),
        resource.Config(attributes=(Action(key="copy", action="insert", from_attribute="service.name"),)),
    )
    left = harness.run(otlp.traces(otlp.span(attributes={"a": 1})))
    (container,) = left.resource_spans
    assert {"b": 1} == {pair.key: pair.value.int_value for pair in next(otlp.items(left)).attributes}
    names = {pair.key: pair.value.string_value for pair in container.resource.attributes}
    assert {"service.name": "cart", "copy": "cart"} == names


@pytest.mark.parametrize("priority", [0, 1])
def test_sampler_behind_sees_the_attributes_that_are_left(priority: int) -> None:
    """sampling.priority that was inserted decides, one that was deleted does not."""
    inserted = Action(key="sampling.priority", action="insert", value=priority)
    sampler = probabilistic_sampler.Config(sampling_percentage=50.0 if priority else 100.0)
    spans = [otlp.span(str(n), trace_id=n.to_bytes(16)) for n in range(1, 101)]
    request = otlp.traces(*spans)
    harness = Harness(Signal.TRACES, attributes.Config(actions=(inserted,)), sampler)
    assert 100 * priority == len(list(otlp.items(harness.run(request))))
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.attributes.append(otlp.attribute("sampling.priority", priority))
    deleted = attributes.Config(actions=(Action(key="sampling.priority", action="delete"),))
    left = len(list(otlp.items(Harness(Signal.TRACES, deleted, sampler).run(request))))
    assert 0 < left < 100 if priority else left == 100


def test_numbers_without_a_sign_keep_their_bits() -> None:
    """As in the Collector, whose attributes have a sign."""
    inserted = Action(key="a", action="insert", value={"n": [2**64 - 1, 2**63 - 1]})
    (pair,) = next(otlp.items(acting(inserted).run(otlp.traces(otlp.span())))).attributes
    assert [-1, 2**63 - 1] == [
        value.int_value for value in pair.value.kvlist_value.values[0].value.array_value.values
    ]


def test_double_of_a_long_text_stays_text() -> None:
    """128 characters are enough for any number."""
    convert = Action(key="a", action="convert", converted_type="double")
    assert {"a": 1.0} == left_of(acting(convert), a="1." + "0" * 126)
    assert {"a": "1." + "0" * 127} == left_of(acting(convert), a="1." + "0" * 127)


def _problems(signal: Signal, config: Config) -> list[tuple[str, str]]:
    return [*config.problems(), *config.problems_for(signal)]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            {"key": "a"},
            'error with key "a" (1-th action): error creating AttrProc due to unsupported action ""',
        ),
        ({"action": "insert", "value": 1}, 'missing required field "key" at the 1-th action'),
        ({"key": "a", "action": "extract", "pattern": "(a)"}, "contains at least one unnamed matcher group"),
        (
            {"key": "a", "action": "hash", "pattern": "("},
            'has invalid pattern: "(": missing closing parenthesis',
        ),
        ({"key": "a", "action": "insert", "from_context": "client.address"}, "is not supported yet"),
    ],
)
def test_bad_action_is_told_with_its_place(action: dict[str, Any], message: str) -> None:
    """In the Collector's words, of both processors, under the key of the list."""
    actions = (Action(key="b", action="delete"), Action(**action))
    for config, field in (
        (attributes.Config(actions=actions), "actions"),
        (resource.Config(attributes=actions), "attributes"),
    ):
        ((place, text),) = _problems(Signal.LOGS, config)
        assert place.startswith(f"{field}::1")
        assert message in text


@pytest.mark.parametrize("name", ["include", "exclude"])
def test_metrics_are_chosen_by_resource(name: str) -> None:
    """A resource that does not match keeps its metrics from what is done, or lets them have it."""
    choice = MatchProperties(match_type="strict", resources=(Attribute(key="service.name", value="shop"),))
    harness = acting(Action(key="k", action="delete"), signal=Signal.METRICS, **{name: choice})
    request = otlp.sums("m", NumberDataPoint(attributes=[otlp.attribute("k", "v")]))
    request.resource_metrics.append(request.resource_metrics[0])
    for container, service in zip(request.resource_metrics, ("shop", "cart"), strict=True):
        container.resource.attributes.append(otlp.attribute("service.name", service))
    left = {
        container.resource.attributes[0].value.string_value: len(
            container.scope_metrics[0].metrics[0].sum.data_points[0].attributes
        )
        for container in harness.run(request).resource_metrics
    }
    assert left == ({"shop": 0, "cart": 1} if name == "include" else {"shop": 1, "cart": 0})


def _record(body: str) -> Any:
    return otlp.logs(
        LogRecord(body=AnyValue(string_value=body), attributes=[otlp.attribute("user.email", "a@b")])
    )


@pytest.mark.parametrize(
    "pattern", [".*password.*", "password", r"(\w+ ?)+: password=\w+", r"^(line \d+ )+.*password="]
)
def test_a_long_body_is_searched_to_its_end(pattern: str) -> None:
    """Half a megabyte between the beginning and what is looked for hides nothing."""
    choice = MatchProperties(match_type="regexp", log_bodies=(pattern,))
    harness = acting(Action(key="user.email", action="delete"), signal=Signal.LOGS, include=choice)
    lines = "line 1 " * 70_000
    for body, n_left in ((f"{lines}: password=1", 0), (f"{lines}: passwort=1", 1)):
        (resource_logs,) = harness.run(_record(body)).resource_logs
        assert n_left == len(resource_logs.scope_logs[0].log_records[0].attributes)


def test_keys_of_actions_that_change_nothing_are_told() -> None:
    """What the Collector takes in silence, of both processors."""
    actions = (
        Action(key="a", action="insert", value=1, default_value=2),
        Action(key="b", action="delete", from_context="metadata.x"),
        Action(key="c", action="upsert", from_context="metadata.x", default_value=2),
    )
    for config, field in (
        (attributes.Config(actions=actions), "actions"),
        (resource.Config(attributes=actions), "attributes"),
    ):
        found = dict(config.without_effect(Signal.LOGS))
        assert {f"{field}::0::default_value", f"{field}::1::from_context"} == found.keys()


class TestGivenUp:
    """Searches that no way is found for: a back reference, in a text that makes it go back for ever."""

    PATTERN = r"^(a+)+\1!"
    TEXT = "a" * 50_000 + " !"

    def test_what_may_be_a_secret_goes(self, caplog: pytest.LogCaptureFixture) -> None:
        """A key that may match is deleted and hashed, counted, and told of."""
        harness = acting(Action(pattern=self.PATTERN, action="delete"))
        harness.processors[0].start()
        assert {"b": "c"} == left_of(harness, **{self.TEXT: "secret", "b": "c"})
        (sample,) = harness.processors[0].samples()
        assert ("spansieve_processor_given_up_searches", 1) == (sample.instrument.name, sample.value)
        harness.timers.advance(60)
        (record,) = caplog.records
        assert "given up" in record.getMessage()
        harness.processors[0].shutdown(0)
        hashing = acting(Action(pattern=self.PATTERN, action="hash"))
        assert {self.TEXT: hashlib.sha256(b"secret").hexdigest()} == left_of(hashing, **{self.TEXT: "secret"})

    @pytest.mark.parametrize(("action", "n_left"), [("delete", 0), ("insert", 1)])
    def test_what_may_be_included_is_where_something_is_hidden(self, action: str, n_left: int) -> None:
        """A body that may match is taken for one where actions delete, and for none where they do not."""
        choice = MatchProperties(match_type="regexp", log_bodies=(self.PATTERN,))
        value = {"value": 1} if action == "insert" else {}
        key = "new" if action == "insert" else "user.email"
        harness = acting(Action(key=key, action=action, **value), signal=Signal.LOGS, include=choice)
        (resource_logs,) = harness.run(_record(self.TEXT)).resource_logs
        assert n_left == len(resource_logs.scope_logs[0].log_records[0].attributes)

    def test_what_may_be_excluded_is_not(self) -> None:
        """Where actions delete, an exception must be sure."""
        choice = MatchProperties(match_type="regexp", log_bodies=(self.PATTERN,))
        harness = acting(Action(key="user.email", action="delete"), signal=Signal.LOGS, exclude=choice)
        (resource_logs,) = harness.run(_record(self.TEXT)).resource_logs
        assert not resource_logs.scope_logs[0].log_records[0].attributes


@pytest.mark.parametrize(
    ("signal", "properties", "place", "message"),
    [
        (Signal.TRACES, {}, "include", 'at least one of "attributes", "libraries",  or "resources" field'),
        (Signal.LOGS, {"services": ("a",)}, "include", "are not valid for log records"),
        (Signal.METRICS, {"services": ("a",)}, "include", "are not valid for metrics"),
        (Signal.TRACES, {"services": ("a",)}, "include::services", "unrecognized match_type: ''"),
        (
            Signal.TRACES,
            {"match_type": "regexp", "span_names": ("a", "[")},
            "include::span_names::1",
            "error creating span name filters: error parsing regexp '['",
        ),
        (
            Signal.METRICS,
            {"match_type": "expr", "metric_names": ("a",)},
            "include::match_type",
            '"expr" is not supported, and would match all metrics',
        ),
        (
            Signal.METRICS,
            {"resources": (Attribute(key="a", value="b"),)},
            "include::resources::0",
            "unrecognized match_type: ''",
        ),
        (
            Signal.LOGS,
            {"match_type": "regexp", "resources": (Attribute(key="a", value=1.5),)},
            "include::resources::0",
            'match_type=regexp for "a" only supports Str, but found Double',
        ),
    ],
)
def test_bad_choice_is_told_with_its_place(
    signal: Signal, properties: dict[str, Any], place: str, message: str
) -> None:
    """In the Collector's words, which depend on the signal."""
    config = attributes.Config(
        actions=(Action(key="a", action="delete"),), include=MatchProperties(**properties)
    )
    ((found, text),) = _problems(signal, config)
    assert place == found
    assert message in text


@pytest.mark.parametrize("is_map", [False, True])
def test_depth_of_values_has_a_limit(is_map: bool) -> None:
    """What is nested deeper could not be read by anybody, and is told before the start; what is not, can be."""
    value: Any = 1
    for _ in range(30):
        value = {"k": value} if is_map else [value]
    action = Action(key="a", action="insert", value=value)
    assert [] == _problems(Signal.TRACES, attributes.Config(actions=(action,)))
    (pair,) = next(otlp.items(acting(action).run(otlp.traces(otlp.span())))).attributes
    assert attributes_reference.any_value(value) == pair.value
    deeper = attributes.Config(actions=(Action(key="a", action="insert", value=[value]),))
    problem = ("actions::0::value", "lists and maps are nested more than 30 deep")
    assert [problem] == _problems(Signal.TRACES, deeper)


def test_nothing_to_do_is_refused() -> None:
    """With the key that is missing."""
    with pytest.raises(ConfigError, match='processors::attributes: missing required field "actions"'):
        decode(attributes.Config, {}, "processors::attributes")
    with pytest.raises(ConfigError, match='processors::resource: missing required field "attributes"'):
        decode(resource.Config, {"attributes": []}, "processors::resource")


def test_only_headers_are_asked_for() -> None:
    """Not what no header can be called, nor what authentication would say."""
    names = ("metadata.X-Tenant", "Host", "auth.subject", "metadata.a b", "metadata.", "x" * 300)
    actions = tuple(Action(key="a", action="insert", from_context=name) for name in names)
    assert ("host", "x-tenant") == attributes.Config(actions=actions).read_metadata
    assert ("host", "x-tenant") == resource.Config(attributes=actions).read_metadata


# ------------------------------------------------------------------------------------------------ the oracle

KEYS = ("", "a", "b", "user.id", "service.name", "caf\u00e9")
TEXTS = (
    "",
    "a",
    "shop",
    "7",
    "-12",
    "+3",
    "2.5",
    "1e3",
    "9223372036854775808",
    "12:34",
    "x" * 200,
    "0x1",
    " 1",
    "true",
)
PATTERNS = ("^a$", "user", "a|b", ".", "\u00e9$", "x^")
GROUPS = (r"(?P<a>\d+):(?P<hour>\d+)", "(?P<b>.)(?P<none>z)?", "^(?P<all>.*)$")

_doubles = st.one_of(st.floats(), st.sampled_from((1e21, 1e-7, 123456789.5, 5e-324, 1.7e308, -0.0, 1e300)))
_values = st.one_of(
    st.sampled_from(TEXTS).map(lambda text: AnyValue(string_value=text)),
    otlp.any_values,
    _doubles.map(lambda number: AnyValue(double_value=number)),
    st.lists(_doubles, max_size=2).map(lambda numbers: attributes_reference.any_value(numbers)),
)
_pairs = st.lists(st.builds(KeyValue, key=st.sampled_from(KEYS), value=_values), max_size=6)
_scalars = st.one_of(
    st.sampled_from(TEXTS), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)
)
_contents = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=4,
)
_some_keys = st.sampled_from(KEYS[1:])
_sources = st.one_of(
    st.fixed_dictionaries({"value": _contents}),
    st.fixed_dictionaries({"from_attribute": _some_keys, "default_value": st.one_of(st.none(), _contents)}),
    st.fixed_dictionaries({"default_value": _contents}),
)
_actions = st.one_of(
    st.builds(
        lambda verb, key, source: Action(action=verb, key=key, **source),
        st.sampled_from(("insert", "Update", "UPSERT")),
        _some_keys,
        _sources,
    ),
    st.builds(Action, action=st.sampled_from(("delete", "hash")), key=_some_keys),
    st.builds(
        Action,
        action=st.sampled_from(("delete", "hash")),
        key=st.sampled_from(KEYS),
        pattern=st.sampled_from(PATTERNS),
    ),
    st.builds(Action, action=st.just("extract"), key=_some_keys, pattern=st.sampled_from(GROUPS)),
    st.builds(
        Action,
        action=st.just("convert"),
        key=_some_keys,
        converted_type=st.sampled_from(("string", "int", "double")),
    ),
)
_action_lists = st.lists(_actions, min_size=1, max_size=4).map(tuple)


def _conditions(is_regexp: bool) -> st.SearchStrategy[Any]:
    value = st.sampled_from(PATTERNS) if is_regexp else st.one_of(st.none(), _contents)
    return st.lists(st.builds(Attribute, key=_some_keys, value=value), max_size=2).map(tuple)


def _texts(is_regexp: bool, *texts: str) -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(PATTERNS if is_regexp else texts), max_size=2).map(tuple)


@st.composite
def _matches(draw: Any, signal: Signal) -> MatchProperties | None:
    is_regexp = draw(st.booleans())
    fields: dict[str, Any] = {}
    fields["resources"] = draw(_conditions(is_regexp))
    if signal is Signal.METRICS:
        fields["metric_names"] = draw(_texts(is_regexp, "", "a", "b"))
    else:
        fields["attributes"] = draw(_conditions(is_regexp))
        version = st.one_of(st.none(), st.sampled_from(PATTERNS if is_regexp else ("", "1")))
        libraries = st.builds(
            Library, name=st.sampled_from(PATTERNS if is_regexp else ("", "a")), version=version
        )
        fields["libraries"] = tuple(draw(st.lists(libraries, max_size=1)))
    if signal is Signal.TRACES:
        fields["services"] = draw(_texts(is_regexp, "shop", "<nil-service-name>", "7"))
        fields["span_names"] = draw(_texts(is_regexp, "", "a"))
        fields["span_kinds"] = draw(_texts(is_regexp, "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT"))
    if signal is Signal.LOGS:
        fields["log_bodies"] = draw(_texts(is_regexp, "", "a", "7"))
        fields["log_severity_texts"] = draw(_texts(is_regexp, "", "a"))
        fields["log_severity_number"] = draw(
            st.one_of(
                st.none(), st.builds(SeverityNumber, min=st.integers(-1, 24), match_undefined=st.booleans())
            )
        )
    properties = MatchProperties(match_type="regexp" if is_regexp else "strict", **fields)
    is_empty = not any(value not in ((), None) for value in fields.values())
    return None if is_empty else properties


@st.composite
def _cases(draw: Any) -> tuple[Signal, Any, Config]:
    signal = draw(st.sampled_from(tuple(Signal)))
    request = draw(otlp.requests[signal])
    names = st.sampled_from(("", "a", "b", "shop"))
    for container in attributes_reference.containers(request):
        if draw(st.booleans()):
            del container.resource.attributes[:]
            container.resource.attributes.extend(draw(_pairs))
        for scope, metric, item in attributes_reference.items_of(container):
            scope.scope.name, scope.scope.version = draw(names), draw(st.sampled_from(("", "1")))
            if metric is not None:
                metric.name = draw(names)
            if hasattr(item, "name"):
                item.name = draw(names)
            if hasattr(item, "severity_text"):
                item.severity_text = draw(names)
                item.body.CopyFrom(draw(_values))
            del item.attributes[:]
            item.attributes.extend(draw(_pairs))
    if draw(st.booleans()):
        return signal, request, resource.Config(attributes=draw(_action_lists))
    include, exclude = draw(_matches(signal)), draw(_matches(signal))
    return signal, request, attributes.Config(actions=draw(_action_lists), include=include, exclude=exclude)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_cases())
def test_what_is_left_is_what_the_oracle_leaves(case: tuple[Signal, Any, Config]) -> None:
    """Any actions on any request, chosen by anything: the same attributes, in their order, and all else as it was."""
    signal, request, config = case
    expected = attributes_reference.process(signal, request, config)
    left = attributes_reference.without_empty(Harness(signal, config).run(request))
    assert expected.SerializeToString(deterministic=True) == left.SerializeToString(deterministic=True)
