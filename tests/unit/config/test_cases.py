"""What has hurt users of collectors in their configurations, with the right values, over the real components."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config.document import Document
from collector.config.load import load
from collector.errors import ConfigError
from collector.ids import ComponentID
from collector.registry import Registry

BASE = """
receivers: {otlp: {protocols: {grpc: }}}
exporters: {nop: }
service: {pipelines: {traces: {receivers: [otlp], exporters: [nop]}}}
"""


def loaded(*layers: str, **environ: str) -> Document:
    """Load the base with layers over it."""
    return load([f"yaml:{text}" for text in (BASE, *layers)], [], Registry(), environ)


def problems(*layers: str, **environ: str) -> list[str]:
    """Return what is wrong."""
    with pytest.raises(ConfigError) as caught:
        loaded(*layers, **environ)
    return [str(problem) for problem in caught.value.problems]


def exporter(config: str, **environ: str) -> Any:
    """Return the configuration of an `otlp_http`."""
    return loaded(f"exporters:\n otlp_http: {config}", **environ).exporters[ComponentID("otlp_http")].config


def test_references_side_by_side_are_text() -> None:
    """An endpoint of two variables is neither a map nor a number (core #6580)."""
    endpoint = "{endpoint: 'http://${env:HOST}:${env:PORT}', headers: {a: '${env:PORT}${env:PORT}'}}"
    config = exporter(endpoint, HOST="a", PORT="1")
    assert ("http://a:1", {"a": "11"}) == (config.endpoint, config.headers)


@pytest.mark.parametrize("text", ["123", "0123", "1e3", "true", "yes", "null", "0x1F", "2024-01-01", "1_000"])
def test_a_variable_in_a_text_stays_as_it_is(text: str) -> None:
    """Whatever YAML would make of it, quoted or not (core #8565, #10937)."""
    for written in ("${env:ID}", "'${env:ID}'", '"${env:ID}"'):
        config = exporter(f"\n  endpoint: http://a\n  headers:\n   x-id: {written}\n", ID=text)
        assert {"x-id": text} == config.headers


def test_a_variable_in_a_number_is_a_number() -> None:
    """Or an error with the name of the variable."""
    queue = "{endpoint: 'http://a', sending_queue: {queue_size: '${env:N}'}}"
    assert 64 == exporter(queue, N="64").sending_queue.queue_size
    (problem,) = problems(f"exporters: {{otlp_http: {queue}}}", N="abc")
    assert problem == (
        "exporters::otlp_http::sending_queue::queue_size: expected a whole number, got 'abc' (yaml:1, ${env:N})"
    )


def test_unknown_keys_of_all_components_are_told() -> None:
    """Each with its path, and where the key belongs if it is known elsewhere (oteldb #838)."""
    found = problems(
        "exporters: {otlp_http: {endpont: x}}",
        "receivers: {otlp: {protocols: {http: {max_recv_msg_size_mib: 16}}}}",
    )
    assert any(
        problem.startswith("exporters::otlp_http: has invalid keys: endpont; did you mean 'endpoint'?")
        for problem in found
    )
    assert any(
        problem.startswith(
            "receivers::otlp::protocols::http: has invalid keys: max_recv_msg_size_mib; "
            "it is valid under protocols::grpc"
        )
        for problem in found
    )


def test_older_names_are_ids_of_their_own() -> None:
    """Both names work, the old one with a warning; but an id is what is written, nothing else."""
    both = "exporters: {otlphttp: {endpoint: 'http://a'}, otlp_http: {endpoint: 'http://b'}}"
    document = loaded(both, "service: {pipelines: {traces: {exporters: [otlphttp, otlp_http]}}}")
    assert ["otlp_http"] * 2 == [document.exporters[ComponentID(id)].type for id in ("otlphttp", "otlp_http")]
    (warning,) = [text for text in document.warnings if "deprecated" in text]
    assert warning.startswith('exporters::otlphttp: "otlphttp" alias is deprecated; use "otlp_http" instead')
    (problem,) = problems(
        "exporters: {otlphttp: {endpoint: 'http://a'}}",
        "service: {pipelines: {traces: {exporters: [otlp_http]}}}",
    )
    assert 'references exporter "otlp_http" which is not configured' in problem


def test_null_where_a_value_is_needed_is_told() -> None:
    """By path and line, by validate as by a run (contrib #33486)."""
    (problem,) = problems("exporters: {otlp_http: {endpoint: 'http://a', headers: {token: null}}}")
    assert problem == "exporters::otlp_http::headers::token: expected text, got null (yaml:1)"


@pytest.mark.parametrize(
    ("resource", "attributes"),
    [
        ("{service.name: mine, service.version: null}", {"service.name": "mine", "service.version": None}),
        ("{attributes: [{name: a, value: b}, {name: n, value: 5}], schema_url: x}", {"a": "b", "n": 5}),
        ("", {}),
    ],
)
def test_resource_is_read_in_both_forms(resource: str, attributes: dict[str, Any]) -> None:
    """A list of names and values, or a map of them."""
    document = loaded(f"service: {{telemetry: {{resource: {resource}}}}}")
    assert attributes == document.service.telemetry.resource


@pytest.mark.parametrize(
    ("telemetry", "problem"),
    [
        ("{resource: {a: 5}}", 'legacy resource attribute "a" must be string or null'),
        ("{resource: {attributes: {a: b}}}", "attributes: expected a list, got a map"),
        ("{resource: {attributes: [{name: a, value: b}], c: d}}", "cannot be used together with legacy"),
        ("{resource: {attributes_list: a=b}}", "attributes_list is not currently supported"),
        ("{resource: {detectors: {a: b}}}", "detectors: not supported yet; write what they would find"),
        ("{traces: {nope: 1}}", "service::telemetry::traces: has invalid keys: nope"),
        ("{metrics: {address: 'localhost:8888'}}", "address: was replaced by readers: [{pull: "),
        ("{metrics: {readers: []}}", "metrics reader should exist when metric level is not none"),
        ("{metrics: {views: [{}]}}", "views can only be set when"),
        ("{metrics: {level: detailed, views: [{}]}}", "views: not supported yet"),
    ],
)
def test_telemetry_that_is_not_served_is_told(telemetry: str, problem: str) -> None:
    """In the Collector's words, or with the way out."""
    (found,) = problems(f"service: {{telemetry: {telemetry}}}")
    assert problem in found


def test_components_of_the_collector_come_with_what_to_do() -> None:
    """Where there is something close, or nothing is lost."""
    found = problems(
        "extensions: {pprof: , zpages: }", "processors: {filter: , batsh: }", "exporters: {logging: }"
    )
    assert all(problem.split(": ")[1] == "unknown type" for problem in found)
    for advice in (
        "profile this process",
        "localhost:8888/metrics",
        "low_value_filter",
        "did you mean 'batch'?",
    ):
        assert any(advice in problem for problem in found)


@pytest.mark.parametrize(
    "name", ["a$", "a+", "a^", "a`", "a|", "a~", "a=", "a<", "\u20ac", "\U0001f600", "a b"]
)
def test_symbols_are_no_part_of_an_id(name: str) -> None:
    """As in the Collector; letters of any script and other signs are."""
    (problem,) = problems(f"processors: {{'batch/{name}': }}")
    assert f'invalid character(s) in name "{name}"' in problem
    assert loaded("processors: {'batch/\u00e9-_.:#%/\u0301': }").processors
