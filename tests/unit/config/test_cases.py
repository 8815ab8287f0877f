"""What has hurt users of collectors in their configurations, with the right values, over the real components."""

from __future__ import annotations

import re
from typing import Any

import pytest

from collector.config import elsewhere
from collector.config.document import Document
from collector.config.load import load
from collector.errors import ConfigError
from collector.ids import ComponentID, Kind
from collector.registry import Registry, UnknownType

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
    (problem,) = problems(
        "exporters: {otlp_http: {endpoint: 'http://a', headers: {token: null}}}",
        traces(exporters="otlp_http"),
    )
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


def one_problem(*layers: str) -> str:
    """Return the only thing that is wrong."""
    (problem,) = problems(*layers)
    return problem


def traces(**parts: str) -> str:
    """Return a layer over the base in which the pipeline has other parts."""
    pipeline = ", ".join(f"{key}: [{ids}]" for key, ids in parts.items())
    return f"service: {{pipelines: {{traces: {{{pipeline}}}}}}}"


class TestUnknownTypes:
    """What is said of a type that there is not: what it is, and what to do without it."""

    @pytest.mark.parametrize(
        ("section", "written", "of_today", "advice"),
        [
            ("receivers", "prometheus", "", "let Prometheus or a Collector scrape"),
            ("receivers", "hostmetrics", "host_metrics", "send OTLP to otlp"),
            ("receivers", "filelog", "file_log", "send its logs as OTLP"),
            ("receivers", "statsd", "", "let a Collector that has it send OTLP to the receiver otlp"),
            ("processors", "transform", "", "attributes and resource set, copy, hash and delete attributes"),
            ("processors", "resourcedetection", "resource_detection", "OTEL_RESOURCE_ATTRIBUTES"),
            ("processors", "k8sattributes", "k8s_attributes", "OTEL_RESOURCE_ATTRIBUTES"),
            ("processors", "filter", "", "low_value_filter"),
            ("exporters", "loki", "", "Loki takes OTLP"),
            ("exporters", "logging", "", "use the debug exporter"),
            ("exporters", "prometheusremotewrite", "prometheus_remote_write", "Prometheus takes OTLP"),
            ("connectors", "spanmetrics", "span_metrics", "make metrics of spans"),
            ("extensions", "memory_ballast", "", "remove it"),
        ],
    )
    def test_what_the_collector_has_is_known(
        self, section: str, written: str, of_today: str, advice: str
    ) -> None:
        """Under its old name and its new one, with what to do and no word that merely resembles it."""
        key = {
            "extensions": "extensions: [x/1]",
            "connectors": "pipelines: {traces: {exporters: [x/1]}}",
        }.get(section, f"pipelines: {{traces: {{{section}: [x/1]}}}}")
        for name in filter(None, (written, of_today)):
            use = f"service: {{{key}}}".replace("x/1", f"{name}/1")
            problem = one_problem(f"{section}: {{{name}/1: {{any: thing}}}}", use)
            assert problem.startswith(f'{section}::{name}/1: unknown type: "{name}"')
            assert "the Collector has this" in problem
            assert advice in problem
            assert "did you mean" not in problem
            assert (f", {of_today} today," in problem) == (name != of_today and bool(of_today))

    @pytest.mark.parametrize("kind", list(Kind), ids=str)
    def test_no_component_of_ours_is_said_to_be_missing(self, kind: Kind) -> None:
        """Every name is one, and none is of a component that is here; an advice is of a name in the list."""
        registry = Registry()
        names = list(elsewhere.types(kind))
        assert len(names) == len({name.replace("_", "") for name in names})
        for name in names:
            assert re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name)
            with pytest.raises(UnknownType):
                registry.find(kind, name)
        assert {name for of_kind, name in elsewhere.advised() if of_kind is kind} <= set(names)

    def test_an_advice_names_only_what_there_is(self) -> None:
        """A component that is recommended can be configured."""
        registry = Registry()
        ours = {type for kind in Kind for type in registry.types(kind)}
        keys = {"metrics_endpoint", "sending_queue", "retry_on_failure"}
        for kind, name in elsewhere.advised():
            found = elsewhere.find(kind, name)
            assert found is not None
            assert set(re.findall(r"[a-z]+(?:_[a-z]+)+", found.advice)) <= ours | keys

    @pytest.mark.parametrize(
        ("layer", "advice"),
        [
            ("processors: {batsh: }", "did you mean 'batch'?"),
            ("processors: {memorylimiter: }", "did you mean 'memory_limiter'?"),
            ("processors: {tailsamplng: }", "did you mean 'tail_sampling', which the Collector has"),
            ("exporters: {batch: }", "batch is one of the processors: move it there"),
            ("exporters: {otlphtp: }", "did you mean 'otlp_http'?"),
            ("processors: {spanmetrics/2: }", "the Collector has this processor, span_metrics today,"),
            ("exporters: {spanmetrics/2: }", "span_metrics is one of the Collector's"),
            ("processors: {mine: }", "(valid values: ["),
        ],
    )
    def test_a_slip_of_the_pen_is_seen(self, layer: str, advice: str) -> None:
        """And a component in the wrong section."""
        key, _, rest = layer.partition(": {")
        used = traces(**{key: rest.partition(":")[0]})
        assert advice in problems(layer, used)[0]

    def test_the_root_of_two_errors_is_told_alone(self) -> None:
        """A misspelt component is no reason to doubt the reference that spells it right, or as wrongly."""
        for written in ("batch", "bacth"):
            problem = one_problem("processors: {bacth: }", traces(processors=written))
            assert problem.startswith("processors::bacth: unknown type")
            assert "did you mean 'batch'?" in problem


class TestReferences:
    """What is said of a reference to nothing."""

    BOTH = "exporters: {otlp_grpc: {endpoint: 'a:1'}, otlp_http: {endpoint: 'http://a'}}"

    def test_an_older_name_is_known(self) -> None:
        """`otlp` was `otlp_grpc`, and nothing else."""
        problem = one_problem(self.BOTH, traces(exporters="otlp"))
        assert (
            'did you mean "otlp_grpc"? otlp is an older name of otlp_grpc, and ids must be equal' in problem
        )
        problem = one_problem(
            "exporters: {otlphttp/b: {endpoint: 'http://a'}}", traces(exporters="otlp_http/b")
        )
        assert 'did you mean "otlphttp/b"? otlphttp is an older name of otlp_http' in problem

    @pytest.mark.parametrize(
        ("parts", "advice"),
        [
            ({"exporters": "otlp_htp"}, "; did you mean 'otlp_http'?"),
            ({"exporters": "otlp_http/backend"}, "; did you mean 'otlp_http'?"),
            ({"exporters": "kafka"}, "; configured are nop, otlp_grpc, otlp_http"),
            ({"processors": "nop"}, "; nop is one of the exporters"),
            ({"processors": "metrics_transfrm"}, "not configured (yaml:1)"),
        ],
    )
    def test_advice_can_be_followed(self, parts: dict[str, str], advice: str) -> None:
        """It is of the same kind and signal: `metrics_transform` is none for traces."""
        transform = "processors: {metrics_transform: {transforms: []}}"
        assert advice in one_problem(self.BOTH, transform, traces(**parts))


class TestUnused:
    """What the Collector does not look at in a component that nothing uses does not stop a start."""

    @pytest.mark.parametrize(
        "component",
        [
            "exporters: {otlp_http: {endpoint: localhost}}",
            "exporters: {otlp_http: {endpoint: 'http://a', proxy_url: x, timeout: 5}}",
            "exporters: {otlp_grpc: {endpoint: 'a:99999', headers: {'a b': c}, auth: {authenticator: x}}}",
            "exporters: {loki: {endpoint: 'http://a'}}",
            "exporters: {file: {path: /x, group_by: {enabled: true}}}",
            "receivers: {otlp/2: {protocols: {grpc: {endpoint: localhost}}}}",
            "receivers: {filelog: {include: [/x]}}",
            "processors: {metrics_transform: {transforms: [{include: a, action: insert}]}}",
            "processors: {batch: {send_batch_size: -1}}",
            "extensions: {health_check: {endpoint: localhost}}",
            "connectors: {spanmetrics: }",
        ],
    )
    def test_is_warned_of(self, component: str) -> None:
        """By path and reason; the component is left out."""
        document = loaded(component)
        section, _, id = component.partition(": {")
        id = id.partition(":")[0]
        assert ComponentID.parse(id) not in getattr(document, section)
        assert document.warnings
        for warning in document.warnings:
            assert warning.startswith(f"{section}::{id}")
            assert warning.endswith("; nothing uses it, so it is left out")

    @pytest.mark.parametrize(
        "component",
        [
            "exporters: {otlp_http: {endpont: 'http://a'}}",
            "exporters: {otlp_http: }",
            "exporters: {otlp_http: {endpoint: 'http://a', sending_queue: {num_consumers: 0}}}",
            "exporters: {nope: }",
            "processors: {memory_limiter: }",
            "processors: {batch: {timeout: x}}",
            "connectors: {forward: []}",
        ],
    )
    def test_what_the_collector_refuses_is_refused(self, component: str) -> None:
        """Unknown types and keys, values of other types, and what its own checks find."""
        assert problems(component)

    def test_is_refused_where_something_uses_it(self) -> None:
        """And where it cannot be told, since the pipelines are faulty themselves."""
        broken = "exporters: {otlp_http: {endpoint: localhost}}"
        assert "expected a URL" in one_problem(broken, traces(exporters="otlp_http"))
        assert any("expected a URL" in problem for problem in problems(broken, traces(exporters="nope")))


class TestAcceptedExtensions:
    """What the Collector has for its operators, and nothing is lost without."""

    @pytest.mark.parametrize(
        ("extension", "warning"),
        [
            ("zpages: ", "not served yet: metrics are at localhost:8888/metrics"),
            ("zpages: {endpoint: '0.0.0.0:55679', expvar: {enabled: true}}", "not served yet"),
            ("pprof: {endpoint: ':1777', save_to_file: /x, block_profile_fraction: 3}", "for Go programs"),
            ("healthcheckv2: ", 'use "health_check" instead'),
            ("healthcheckv2: {use_v2: true, http: , grpc: {}}", "grpc: not served"),
            ("health_check: {http: {endpoint: 'localhost:1'}}", "http: has no effect without use_v2: true"),
        ],
    )
    def test_run_with_a_warning(self, extension: str, warning: str) -> None:
        """Which says what there is instead."""
        document = loaded(
            f"extensions: {{{extension}}}", f"service: {{extensions: [{extension.partition(':')[0]}]}}"
        )
        assert 1 == len(document.service.extensions)
        assert any(warning in text for text in document.warnings)

    def test_receiver_of_nothing(self) -> None:
        """It needs no warning: it does what it says."""
        document = loaded(
            "receivers: {nop: }", traces(receivers="nop"), "receivers: {otlp: {protocols: {grpc: }}}"
        )
        assert [
            "receivers::otlp: configured but not listed in any pipeline: it has no effect (yaml:1)"
        ] == list(document.warnings)


@pytest.mark.parametrize(
    "name", ["a$", "a+", "a^", "a`", "a|", "a~", "a=", "a<", "\u20ac", "\U0001f600", "a b"]
)
def test_symbols_are_no_part_of_an_id(name: str) -> None:
    """As in the Collector; letters of any script and other signs are."""
    (problem,) = problems(f"processors: {{'batch/{name}': }}")
    assert f'invalid character(s) in name "{name}"' in problem
    assert loaded("processors: {'batch/\u00e9-_.:#%/\u0301': }").processors
