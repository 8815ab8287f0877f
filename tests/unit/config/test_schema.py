"""The JSON Schema and the decoder: what one refuses the other does, as far as a schema can say it."""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from collector.config.fields import Duration, Secret, option, section
from collector.config.load import load
from collector.config.schema import components, schema
from collector.config.syntax import parse
from collector.errors import ConfigError
from collector.ids import Kind
from collector.registry import Registry

ROOT = Path(__file__).parents[3]
CONFIGS = sorted((ROOT / "deploy" / "config").glob("*.yaml"))
READMES = [*sorted(ROOT.glob("*/README.md")), ROOT / "README.md", ROOT / "deploy" / "sampling.md"]
BLOCKS = [
    block
    for path in READMES
    for block in re.findall(r"^```yaml\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
]
ENVIRON = {"ONE": "1", "NAME": "name"}

# What only a schema is asked: its part of the decoder's messages.
STRUCTURAL = re.compile(
    "has invalid keys: |is required|unknown type: "
    "|expected (a map|a list|text|true or false|a whole number|a number|one of)"
    "|must have at least one (receiver|exporter)|unknown signal|service must have at least one pipeline"
)


@functools.cache
def validator() -> Draft202012Validator:
    """Return what checks a configuration by the schema of this installation."""
    return Draft202012Validator(schema(Registry()))


def refusals(values: Any) -> list[str]:
    """Return what the decoder has against values."""
    try:
        load([f"yaml:{json.dumps(values)}"], (), Registry(), ENVIRON)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_schema_is_one() -> None:
    """It is a valid schema of draft 2020-12, and all its references lead somewhere."""
    made = schema(Registry())
    Draft202012Validator.check_schema(made)
    references = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(made)))
    assert references == set(made["$defs"])


@pytest.mark.parametrize(
    "text",
    [
        "processors: {batch: {timeout: 1s}}",
        "exporters: {otlp_http: {tls: {insecure: true}}}",
        "service: {telemetry: {logs: {level: debug}}}",
        "service: {pipelines: {traces: {processors: [batch]}}}",
    ],
)
def test_part_of_a_configuration_may_lack_what_others_have(text: str) -> None:
    """By the schema of parts it is valid; mistakes within it are seen all the same."""
    partial = Draft202012Validator(schema(Registry(), is_partial=True))
    assert [] == list(partial.iter_errors(parse(text).value))
    assert [] != list(validator().iter_errors(parse(text).value))
    assert [] != list(partial.iter_errors(parse(f"{text}\nproccessors: {{}}").value))


@pytest.mark.parametrize("text", [path.read_text() for path in CONFIGS] + BLOCKS)
def test_examples_are_valid(text: str) -> None:
    """Every configuration that we show."""
    assert [] == list(validator().iter_errors(parse(text).value))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("processors: {batch: {timout: 1s}}", "processors/batch"),
        ("processors: {btach: {}}", "processors"),
        ("processors: {batch/: {}}", "processors"),
        ("processors: {batch: {timeout: 5}}", "processors/batch/timeout"),
        ("processors: {batch: {timeout: 5 s}}", "processors/batch/timeout"),
        ("processors: {batch: {send_batch_size: '5'}}", "processors/batch/send_batch_size"),
        ("processors: {batch: {send_batch_size: -1}}", "processors/batch/send_batch_size"),
        ("processors: {probabilistic_sampler: {mode: equalising}}", "processors/probabilistic_sampler/mode"),
        ("exporters: {otlp_grpc: {endpoint: [a]}}", "exporters/otlp_grpc/endpoint"),
        ("exporters: {debug: {verbosity: loud}}", "exporters/debug/verbosity"),
        ("receivers: {otlp: {protocols: {grcp: {}}}}", "receivers/otlp/protocols"),
        ("receviers: {}", ""),
        ("service: {pipelines: {traces: {receivers: [otlp]}}}", "service/pipelines/traces"),
        ("service: {pipelines: {spans: {receivers: [a], exporters: [b]}}}", "service/pipelines"),
        ("service: {telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {prot: 1}}}}]}}}",)
        + ("service/telemetry/metrics/readers/0/pull/exporter/prometheus",),
    ],
)
def test_mistakes_are_found_where_they_are(text: str, path: str) -> None:
    """The error points at the key, or at the map of a key that nobody knows."""
    errors = list(validator().iter_errors(parse(text).value))
    assert path in {"/".join(map(str, leaf.absolute_path)) for error in errors for leaf in leaves(error)}


def leaves(error: Any) -> Iterator[Any]:
    """Yield the errors behind an error that offered alternatives, and itself."""
    yield error
    for inner in error.context:
        yield from leaves(inner)


@pytest.mark.parametrize(
    "value",
    ["${env:ONE}", "${env:NAME}/x", "a${env:ONE}", None],
)
def test_references_and_nulls_may_stand_for_all(value: Any) -> None:
    """For numbers, durations, switches, choices, sections and lists, if the key may be left out."""
    values = {
        "receivers": {"otlp/2": {"protocols": {"grpc": {"max_concurrent_streams": value}, "http": value}}},
        "processors": {
            "batch/x": {"timeout": value},
            "probabilistic_sampler": {"mode": value, "fail_closed": value, "sampling_percentage": value},
            "low_value_filter": {"names": value},
        },
        "exporters": {"debug": value, "nop": {}},
        "extensions": value,
        "service": {"pipelines": {"traces/a": {"receivers": ["otlp/2"], "exporters": ["nop", "debug"]}}},
    }
    assert [] == list(validator().iter_errors(values))


def test_what_an_editor_shows() -> None:
    """Descriptions, defaults as YAML has them, older names and our own keys."""
    made = schema(Registry())
    batch = made["$defs"]["processors.batch.Config"]["properties"]
    assert "200ms" == batch["timeout"]["default"]
    assert batch["timeout"]["description"]
    assert batch["send_batch_max_bytes"]["x-ours"]
    assert "Not a key of the OpenTelemetry Collector." in batch["send_batch_max_bytes"]["description"]
    assert "x-ours" not in batch["timeout"]
    older = made["properties"]["exporters"]["properties"]["otlphttp"]
    assert (True, "An older name of otlp_http.") == (older["deprecated"], older["deprecationMessage"])


def test_every_kind_of_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are marked, required keys too; lists and maps of sections are followed."""

    @section
    class Inner:
        """One of many."""

        limit: int = option(doc="A limit.", minimum=1)

    @section
    class Config:
        """All of it."""

        token: Secret = option(Secret("hidden"), doc="A secret.")
        wait: Duration = option(doc="A duration.")

    # Annotations are read in the module that they were written in.
    monkeypatch.setitem(globals(), "Inner", Inner)
    from collector.config.schema import _Builder

    builder = _Builder()
    assert {"$ref": f"#/$defs/{__name__}.{Config.__qualname__}"} == builder._section(Config)
    made = next(iter(builder._definitions.values()))
    assert ["wait"] == made["required"]
    assert made["properties"]["token"]["writeOnly"]


@functools.cache
def spelled_out() -> dict[str, Any]:
    """Return a configuration with every component, its example, and every key that has a default."""
    made = schema(Registry())

    def defaults(definition: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, key in definition.get("properties", {}).items():
            if "default" in key:
                found[name] = key["default"]
            elif "$ref" in key:
                inner = defaults(made["$defs"][key["$ref"].rpartition("/")[2]])
                if inner:
                    found[name] = inner
        return found

    values: dict[str, Any] = {kind.value: {} for kind in Kind}
    for found in components(Registry()):
        factory = found.registered.factory
        example = parse(factory.example).value if factory.example else {}
        config = factory.config
        spelled = defaults(
            made["$defs"][f"{config.__module__.removeprefix('collector.')}.{config.__qualname__}"]
        )
        values[found.kind.value][found.registered.type] = {**spelled, **example}
    values["service"] = {
        "extensions": list(values["extensions"]),
        "pipelines": {"traces": {"receivers": ["otlp"], "processors": ["batch"], "exporters": ["nop"]}},
        "telemetry": defaults(made["$defs"]["config.sections.TelemetrySection"]),
    }
    return values


def test_defaults_and_examples_are_valid() -> None:
    """For the schema and for the decoder: the reference shows nothing that would be refused."""
    values = spelled_out()
    assert [] == [error.message for error in validator().iter_errors(values)]
    assert [] == refusals(values)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


NEW_VALUES = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        7,
        1.5,
        10**12,
        "",
        "1",
        "x",
        "true",
        "5s",
        "-5s",
        "1.5h3ms",
        "5",
        ".",
        "0",
        "1e3s",
    ),
    *([], ["x"], [None], [1], ["x", {}], {}, {"x": 1}, {"x": None}, {"endpoint": "a:1"}),
    *("TCP", "Detailed", "hash_seed", "HASH_SEED", "${env:ONE}", "x${env:NAME}", "$${x}", "nop,debug"),
]
NEW_KEYS = [
    "x",
    "timeout",
    "endpoint",
    "batch/2",
    " batch",
    "batch/",
    "nop/a b",
    "otlp",
    "traces/9",
    "traces/",
    "logs",
]


@given(
    place=st.sampled_from(sorted(places(spelled_out()), key=str)),
    change=st.one_of(
        st.tuples(st.just("set"), st.sampled_from(NEW_VALUES)),
        st.tuples(st.just("rename"), st.sampled_from(NEW_KEYS)),
        st.tuples(st.just("delete"), st.none()),
    ),
)
def test_schema_and_decoder_agree_on_mutations(place: tuple[Any, ...], change: tuple[str, Any]) -> None:
    """What the schema refuses the decoder refuses; what the decoder refuses for its shape the schema does too."""
    values = copy.deepcopy(spelled_out())
    parent = functools.reduce(lambda value, key: value[key], place[:-1], values)
    what, new = change
    if what == "set":
        parent[place[-1]] = new
    else:
        old = parent.pop(place[-1])
        if what == "rename" and isinstance(parent, dict):
            parent[new] = old
    problems = refusals(values)
    errors = [error.message[:200] for error in validator().iter_errors(values)]
    if errors:
        assert problems, errors
    if any(STRUCTURAL.search(problem) for problem in problems) and not (what == "set" and "$" in str(new)):
        assert errors, problems
