"""A whole configuration: what is checked, what is told, what comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from collector.config.document import Document, PipelineID
from collector.config.load import load
from collector.config.redact import redact_document
from collector.errors import ConfigError
from collector.ids import ComponentID, Signal
from collector.registry import Registry

GOOD = """
receivers:
  otlp:
    protocols:
      grpc:
      http: {endpoint: "0.0.0.0:4318"}
processors:
  batch: {timeout: 5s}
exporters:
  debug:
  otlp_http/2: {endpoint: "http://b", headers: {token: s3cret}}
extensions:
  health_check:
service:
  extensions: [health_check]
  pipelines:
    traces:
      receivers: [otlp]
      processors: [batch]
      exporters: [debug, otlp_http/2]
"""


def load_text(*texts: str, sets: tuple[str, ...] = (), **environ: str) -> Document:
    """Load texts, each over the one before, with the components of the fake tree."""
    return load(
        [f"yaml:{text}" for text in texts], sets, Registry("tests.unit.config.spansieve_fakes"), environ
    )


def problems_of(*texts: str, sets: tuple[str, ...] = (), **environ: str) -> list[str]:
    """Return all problems, without the lines."""
    with pytest.raises(ConfigError) as caught:
        load_text(*texts, sets=sets, **environ)
    return [str(problem).rpartition(" (")[0] or str(problem) for problem in caught.value.problems]


def with_pipelines(pipelines: str, connectors: str = "") -> str:
    """Return a configuration of fake components with other pipelines, given in one line."""
    return (
        "receivers: {otlp: {protocols: {grpc: {}}}}\nprocessors: {batch: {}, tail_sampling: {}}\n"
        f"exporters: {{debug: {{}}}}\nconnectors: {{{connectors}}}\nservice: {{pipelines: {{{pipelines}}}}}"
    )


def chain(length: int) -> str:
    """Return so many pipelines in a row, and one more, without processors."""
    return ", ".join(
        f"traces/{i}: {{receivers: [{f'forward/{i}' if i else 'otlp'}],"
        f" exporters: [{f'forward/{i + 1}, ' if i < length else ''}debug]}}"
        for i in range(length + 1)
    )


def connectors(count: int) -> str:
    """Return what joins them."""
    return ", ".join(f"forward/{i + 1}: {{}}" for i in range(count))


def test_good_configuration_gives_what_the_service_needs() -> None:
    """Ids, instances, order and defaults arrive."""
    document = load_text(GOOD)
    otlp, second = ComponentID("otlp"), ComponentID("otlp_http", "2")
    assert document.warnings == ()
    assert document.receivers[otlp].config.protocols.grpc.endpoint == "localhost:4317"
    assert document.receivers[otlp].config.protocols.http.endpoint == "0.0.0.0:4318"
    assert document.processors[ComponentID("batch")].config.timeout == 5.0
    assert document.exporters[second].type == "otlp_http"
    assert document.service.extensions == (ComponentID("health_check"),)
    assert document.service.pipelines == {
        PipelineID(Signal.TRACES): ((otlp,), (ComponentID("batch"),), (ComponentID("debug"), second))
    }
    assert document.service.shutdown_timeout == 25.0
    assert document.values["processors"] == {"batch": {"timeout": "5s"}}


def test_problems_of_all_sections_are_told_in_one_run(tmp_path: Path) -> None:
    """Every fault with its path and line, sorted."""
    path = tmp_path / "bad.yaml"
    path.write_text(
        "receivers:\n"
        "  otlp: {protocols: {grpc: }}\n"
        "processors:\n"
        "  batch:\n"
        "    timeout: fast\n"
        "    send_batch_size: ${env:SIZE}\n"
        "exporters:\n"
        "  otlp_http:\n"
        "    endpont: x\n"
        "service:\n"
        "  telemetry: {metrics: {level: loud}}\n"
        "  pipelines:\n"
        "    traces:\n"
        "      receivers: [otpl]\n"
    )
    with pytest.raises(ConfigError) as caught:
        load([str(path)], [], Registry("tests.unit.config.spansieve_fakes"), {"SIZE": "abc"})
    assert str(caught.value).replace(str(path), "bad.yaml").splitlines() == [
        "exporters::otlp_http: has invalid keys: endpont; did you mean 'endpoint'? (bad.yaml:9)",
        "exporters::otlp_http::endpoint: is required (bad.yaml:8)",
        "processors::batch::send_batch_size: expected a whole number, got 'abc' (bad.yaml:6, ${env:SIZE})",
        "processors::batch::timeout: expected a duration such as '200ms', got 'fast' (bad.yaml:5)",
        "service::pipelines::traces: must have at least one exporter (bad.yaml:13)",
        "service::pipelines::traces: references receiver \"otpl\" which is not configured; did you mean 'otlp'?"
        + " (bad.yaml:14)",
        "service::telemetry::metrics::level: expected one of 'none', 'basic', 'normal', 'detailed', got 'loud'"
        + " (bad.yaml:11)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "yaml: empty configuration file"),
        ("{}", "yaml: empty configuration file"),
        (GOOD + "extras: {}", "has invalid keys: extras; valid keys: receivers, processors, exporters, connectors, extensions, service"),
        (GOOD.replace("processors:\n", "procesors:\n", 1).replace("      processors: [batch]\n", ""), "has invalid keys: procesors; did you mean 'processors'?"),
        (GOOD.replace("  debug:\n", "  debgu:\n"), 'exporters::debgu: unknown type: "debgu" for id: "debgu" (valid values: [debug kafka otlp_http]); did you mean \'debug\'?'),
        (GOOD.replace("  debug:\n", "  debug:\n  debug/:\n"), 'exporters::debug/: in "debug/" id: the part after / should not be empty'),
        (GOOD.replace("  debug:\n", "  debug:\n  debug :\n").replace("debug :", "'debug ':"), 'exporters::debug : duplicate name "debug" after trimming spaces'),
        (GOOD.replace("  debug:\n", "  debug:\n  kafka:\n"), "exporters::kafka: exporter \"kafka\" cannot be loaded: needs the module 'spansieve_no_such_module', which is not installed"),
        (GOOD.replace("      grpc:\n      http: {endpoint: \"0.0.0.0:4318\"}\n", ""), "receivers::otlp: must specify at least one protocol when using the OTLP receiver"),
        (GOOD.replace("[health_check]", "[health_check, zpages]"), 'service::extensions: references extension "zpages" which is not configured; configured are health_check'),
        (GOOD.replace("[batch]", "[batch, batch]"), 'service::pipelines::traces: references processor "batch" multiple times'),
        (GOOD.replace("[batch]", "[batch/2]"), "service::pipelines::traces: references processor \"batch/2\" which is not configured; did you mean 'batch'?"),
        (GOOD.replace("[batch]", "['']"), "service::pipelines::traces::processors::0: id must not be empty"),
        (GOOD.replace("receivers: [otlp]", "receivers: []"), "service::pipelines::traces: must have at least one receiver"),
        (GOOD.replace("exporters: [debug, otlp_http/2]", "exporters:"), "service::pipelines::traces: must have at least one exporter"),
        (GOOD.replace("    traces:", "    spans:"), 'service::pipelines::spans: unknown signal "spans"; known: traces, metrics, logs'),
        (GOOD.replace("    traces:", "    traces/:"), 'service::pipelines::traces/: in "traces/" id: the part after / should not be empty'),
        (GOOD.replace("receivers: [otlp]", "receivers: {otlp: }"), "service::pipelines::traces::receivers: expected a list, got a map"),
        (GOOD.replace("processors: [batch]", "processor: [batch]"), "service::pipelines::traces: has invalid keys: processor; did you mean 'processors'?"),
        (with_pipelines(""), "service::pipelines: service must have at least one pipeline"),
        (with_pipelines("metrics: {receivers: [otlp], processors: [tail_sampling], exporters: [debug]}"), 'service::pipelines::metrics: processor "tail_sampling" does not support metrics (telemetry type is not supported)'),
        (with_pipelines("traces: {receivers: [otlp], exporters: [forward]}", "forward: {}"), 'connectors::forward: connector "forward" used as exporter in [traces] pipeline but not used in any supported receiver pipeline'),
        (with_pipelines("traces: {receivers: [forward], exporters: [debug]}", "forward: {}"), 'connectors::forward: connector "forward" used as receiver in [traces] pipeline but not used in any supported exporter pipeline'),
        (with_pipelines("traces: {receivers: [otlp, forward], exporters: [debug, forward]}", "forward: {}"), 'service::pipelines: cycle detected: pipeline "traces" -> connector "forward" -> pipeline "traces"'),
        (with_pipelines("logs: {receivers: [otlp, forward/b], exporters: [forward/a]}, logs/2: {receivers: [forward/a], exporters: [forward/b, debug]}", "forward/a: {}, forward/b: {}"), 'service::pipelines: cycle detected: pipeline "logs" -> connector "forward/a" -> pipeline "logs/2" -> connector "forward/b" -> pipeline "logs"'),
        (with_pipelines(chain(125), connectors(125)), "service::pipelines::traces/0: expected at most 250 steps in a row from here to the last exporter, got 252: each pipeline is two, each processor one; join some"),
        ("exporters: {debug: }\nservice: {pipelines: {traces: {receivers: [x], exporters: [debug]}}}", "receivers: no receiver configuration specified in config"),
        (GOOD.replace("  debug:\n", "  debug: ${s3:x}\n"), 'exporters::debug: scheme "s3" is not supported for uri "s3:x"; known: env, file, http, https, yaml'),
        (GOOD + "  shutdown_timeout: -1s", "service::shutdown_timeout: expected at least 0s, got -1s"),
    ],
)  # fmt: skip
def test_faulty_configuration_is_told(text: str, problem: str) -> None:
    """Each rule of the Collector has its words."""
    assert problem in problems_of(text)


def test_two_faulty_components_are_both_told() -> None:
    """Unknown keys of two components show in one run, with the Collector's words."""
    text = GOOD.replace("  debug:\n", "  debug: {verbosty: x}\n").replace("{timeout: 5s}", "{timout: 5s}")
    assert problems_of(text) == [
        "exporters::debug: has invalid keys: verbosty; did you mean 'verbosity'?",
        "processors::batch: has invalid keys: timout; did you mean 'timeout'?",
    ]


def test_key_of_another_section_shows_the_way() -> None:
    """A key that is valid elsewhere in the component is not only refused."""
    (problem,) = problems_of(GOOD.replace('"0.0.0.0:4318"', "x, max_recv_msg_size_mib: 4"))
    assert problem == (
        "receivers::otlp::protocols::http: has invalid keys: max_recv_msg_size_mib; it is valid under protocols::grpc"
    )


def test_faulty_component_is_no_missing_component() -> None:
    """A reference to a component that could not be decoded is not a second problem."""
    assert problems_of(GOOD.replace("{timeout: 5s}", "{timeout: x}")) == [
        "processors::batch::timeout: expected a duration such as '200ms', got 'x'"
    ]


def test_connector_id_must_be_its_own() -> None:
    """An id that is connector and exporter at once is ambiguous."""
    text = with_pipelines("traces: {receivers: [otlp], exporters: [forward]}", "forward: {}").replace(
        "{debug: {}}", "{forward: {}}"
    )
    assert any(
        'ambiguous ID: found both "forward" exporter and "forward" connector' in p for p in problems_of(text)
    )


def test_connector_joins_pipelines_of_one_signal() -> None:
    """A way through a connector that leads on is accepted."""
    document = load_text(
        with_pipelines(
            "traces: {receivers: [otlp], exporters: [forward]}, traces/2: {receivers: [forward], exporters: [debug]}",
            "forward: {}",
        )
    )
    assert document.service.pipelines[PipelineID(Signal.TRACES, "2")].receivers == (ComponentID("forward"),)


def test_connector_joins_no_other_signals() -> None:
    """Both ends are told when the signals do not fit."""
    problems = problems_of(
        with_pipelines(
            "traces: {receivers: [otlp], exporters: [forward]}, logs: {receivers: [forward], exporters: [debug]}",
            "forward: {}",
        )
    )
    assert len(problems) == 2


def test_older_name_works_with_a_warning() -> None:
    """The id keeps the name as written, the type is the current one."""
    document = load_text(GOOD.replace("otlp_http", "otlphttp"))
    entry = document.exporters[ComponentID("otlphttp", "2")]
    assert entry.type == "otlp_http"
    assert [warning.rpartition(" (")[0] for warning in document.warnings] == [
        'exporters::otlphttp/2: "otlphttp" alias is deprecated; use "otlp_http" instead'
    ]


def test_reference_needs_the_name_as_written() -> None:
    """The current name does not stand for a component that is configured under the older one."""
    text = GOOD.replace("otlp_http/2: {", "otlphttp/2: {")
    assert any('references exporter "otlp_http/2" which is not configured' in p for p in problems_of(text))


def test_unused_components_are_warned_of() -> None:
    """One warning for each component that is configured and has no effect."""
    text = GOOD.replace("[batch]", "[]").replace("extensions: [health_check]", "extensions: []")
    assert [warning.rpartition(" (")[0] for warning in load_text(text).warnings] == [
        "processors::batch: configured but not listed in any pipeline: it has no effect",
        "extensions::health_check: configured but not listed in service::extensions: it has no effect",
    ]


def test_repeated_exporter_is_used_once_with_a_warning() -> None:
    """Nothing is sent twice because an id stands twice."""
    document = load_text(GOOD.replace("[debug, otlp_http/2]", "[debug, otlp_http/2, debug]"))
    (pipeline,) = document.service.pipelines.values()
    assert pipeline.exporters == (ComponentID("debug"), ComponentID("otlp_http", "2"))
    assert 'references exporter "debug" multiple times' in document.warnings[0]


def test_sources_merge_and_sets_win() -> None:
    """A second source and `--set` change single keys."""
    document = load_text(
        GOOD, "processors: {batch: {send_batch_size: 7}}", sets=("processors.batch.timeout=2s",)
    )
    config = document.processors[ComponentID("batch")].config
    assert (config.timeout, config.send_batch_size) == (2.0, 7)


def test_values_from_variables_fit_their_fields() -> None:
    """One text is a number for a number field and stays text for a text field."""
    text = GOOD.replace("{timeout: 5s}", "{send_batch_size: '${env:N}', metadata_keys: ['${env:N}']}")
    config = load_text(text, N="010").processors[ComponentID("batch")].config
    assert (config.send_batch_size, config.metadata_keys) == (8, ("010",))


def test_whole_sections_may_come_from_variables() -> None:
    """A component or a section can be one reference."""
    text = GOOD.replace("{timeout: 5s}", "${env:BATCH}").replace(
        "extensions:\n  health_check:\n", "extensions: ${env:E}\n", 1
    )
    document = load_text(text, BATCH="timeout: 7s", E="health_check:")
    assert document.processors[ComponentID("batch")].config.timeout == 7.0
    assert list(document.extensions) == [ComponentID("health_check")]


class TestTelemetry:
    """What the collector tells about itself."""

    def test_defaults_are_those_of_the_collector(self) -> None:
        """Port 8888 on localhost, names without suffixes, logs of level info."""
        telemetry = load_text(GOOD).service.telemetry
        prometheus = telemetry.metrics.prometheus
        assert prometheus is not None
        assert (prometheus.host, prometheus.port) == ("localhost", 8888)
        assert prometheus.without_scope_info and prometheus.without_units and prometheus.without_type_suffix
        assert (telemetry.logs.level, telemetry.logs.encoding, telemetry.metrics.level) == (
            "info",
            "console",
            "normal",
        )

    @pytest.mark.parametrize(
        ("metrics", "address"),
        [
            ("{readers: [{pull: {exporter: {prometheus: {host: 0.0.0.0, port: 0}}}}]}", ("0.0.0.0", 0)),
            ("{readers: [{pull: {exporter: {prometheus: }}}]}", ("localhost", 8888)),
            ("{readers: [{periodic: {exporter: {console: {}}}}]}", ("localhost", 8888)),
            ("{level: none, readers: []}", None),
            ("{level: none, readers: [{}]}", None),
            ("{level: none}", None),
        ],
    )
    def test_readers_say_where_to_serve(self, metrics: str, address: tuple[str, int] | None) -> None:
        """A given reader counts as it is; what is only to be pushed is served; none, or level none, serves nothing."""
        prometheus = load_text(
            GOOD + f"  telemetry: {{metrics: {metrics}}}"
        ).service.telemetry.metrics.prometheus
        assert (prometheus and (prometheus.host, prometheus.port)) == address

    def test_pushed_metrics_are_warned_of(self) -> None:
        """A periodic reader is accepted, and told where the metrics are instead, if they are nowhere else."""
        push = "{periodic: {interval: 1}}"
        document = load_text(GOOD + f"  telemetry: {{metrics: {{readers: [{push}]}}}}")
        [warning] = document.warnings
        assert (
            "readers::0: a periodic reader is not supported yet: scrape localhost:8888/metrics instead"
            in warning
        )
        assert document.service.telemetry.metrics.is_stand_in
        pull = "{pull: {exporter: {prometheus: {port: 9}}}}"
        document = load_text(GOOD + f"  telemetry: {{metrics: {{readers: [{push}, {pull}]}}}}")
        [warning] = document.warnings
        assert "readers::0: a periodic reader is not supported yet: ignored" in warning
        assert not document.service.telemetry.metrics.is_stand_in

    def test_faulty_readers_are_told(self) -> None:
        """Ports, unknown exporters and a second reader."""
        reader = "{pull: {exporter: {prometheus: {port: 70000}}}}"
        other = "{pull: {exporter: {otlp: }}}"
        good = "{pull: {exporter: {prometheus: }}}"
        path = "service::telemetry::metrics::readers"
        text = GOOD + f"  telemetry: {{metrics: {{readers: [{reader}, {other}, {good}, {good}, {{}}]}}}}"
        assert problems_of(text) == [
            f"{path}::0::pull::exporter::prometheus::port: expected at most 65535, got 70000",
            f"{path}::1::pull::exporter: has invalid keys: otlp; valid keys: prometheus",
            f"{path}::3: only one pull reader is supported",
            f"{path}::4: no valid metric reader: expected 'pull' or 'periodic'",
        ]


def test_address_of_own_metrics_is_shown() -> None:
    """It is no secret; what a periodic reader pushes with may be."""
    readers = [
        {"pull": {"exporter": {"prometheus": {"host": "::", "port": 1}}}},
        {"periodic": {"exporter": {"otlp": {"headers": "x"}}}},
    ]
    values = {"service": {"telemetry": {"metrics": {"readers": readers}}}}
    shown = redact_document(values, Registry("tests.unit.config.spansieve_fakes"))
    assert shown["service"]["telemetry"]["metrics"]["readers"] == [
        readers[0],
        {"periodic": {"exporter": {"otlp": {"headers": "[REDACTED]"}}}},
    ]


def test_secrets_are_hidden_where_a_configuration_is_shown() -> None:
    """Secrets, and all of what nobody knows, are replaced; the rest is as written."""
    values: dict[str, Any] = {
        "exporters": {
            "otlp_http": {"endpoint": "http://b", "headers": {"a": "x", "b": None}, "unknown": "x"}
        },
        "receivers": {"otlp": None, "nope": {"password": ["x"]}, "": 5},
        "service": {"extensions": ["a"], "telemetry": {"resource": {"a": "x"}}},
        "other": "x",
    }
    assert redact_document(values, Registry("tests.unit.config.spansieve_fakes")) == {
        "exporters": {
            "otlp_http": {
                "endpoint": "http://b",
                "headers": {"a": "[REDACTED]", "b": None},
                "unknown": "[REDACTED]",
            }
        },
        "receivers": {"otlp": None, "nope": {"password": ["[REDACTED]"]}, "": "[REDACTED]"},
        "service": {"extensions": ["a"], "telemetry": {"resource": {"a": "x"}}},
        "other": "[REDACTED]",
    }


_NAMES = st.sampled_from(
    [
        "receivers",
        "processors",
        "exporters",
        "connectors",
        "extensions",
        "service",
        "pipelines",
        "telemetry",
        "metrics",
        "logs",
        "readers",
        "traces",
        "otlp",
        "batch",
        "debug",
        "otlp_http",
        "forward",
        "forward/2",
        "health_check",
        "protocols",
        "grpc",
        "endpoint",
        "timeout",
        "level",
        "x",
        "a/",
        "pull",
    ]
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | _NAMES
    | st.sampled_from(["${env:X}", "${env:MAP}", "5s", "${", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=25,
)


@given(st.dictionaries(_NAMES, _VALUES, max_size=6), _VALUES, _VALUES)
def test_any_configuration_is_loaded_or_told(values: dict[str, Any], service: Any, pipeline: Any) -> None:
    """No configuration gives anything but a document or problems with a message."""
    good = yaml.safe_load(GOOD)
    good["service"]["pipelines"]["traces/2"] = pipeline
    for document in (values, {**good, "service": service}, {**good, **values}, good):
        try:
            load_text(json.dumps(document), X="1", MAP="otlp: {a: 1}")
        except ConfigError as error:
            assert all(problem.message for problem in error.problems)


_SAMPLED = """\
receivers: {otlp: {protocols: {grpc: {endpoint: "localhost:0"}}}}
processors: {probabilistic_sampler: {sampling_percentage: 5, from_attribute: user}}
exporters: {debug: }
"""


@pytest.mark.parametrize(
    ("signals", "warns"), [(("traces",), True), (("logs",), False), (("traces", "logs"), False)]
)
def test_key_without_effect_in_all_pipelines_is_warned_of(signals: tuple[str, ...], warns: bool) -> None:
    """One that a pipeline of the component can use is not."""
    pipeline = "{receivers: [otlp], processors: [probabilistic_sampler], exporters: [debug]}"
    pipelines = ", ".join(f"{signal}: {pipeline}" for signal in signals)
    text = f"yaml:{_SAMPLED}service: {{pipelines: {{{pipelines}}}}}"
    document = load([text], (), Registry(), {})
    found = [text for text in document.warnings if "from_attribute: has no effect" in text]
    assert warns == bool(found)


def test_pipelines_in_a_row_up_to_the_limit_are_good() -> None:
    """What passes is served: tests/unit/native/test_nesting.py."""
    assert 125 == len(load_text(with_pipelines(chain(124), connectors(124))).service.pipelines)
