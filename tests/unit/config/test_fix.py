"""Old configurations become those of today, in their own text."""

from __future__ import annotations

import pytest
import yaml

from collector.config.fix import REMOVED, RENAMED, Fixed, fix
from collector.config.load import load
from collector.errors import ConfigError
from collector.ids import Kind
from collector.registry import Registry, UnknownType

BASE = """\
# kept: the beginning
receivers:
  otlp: {protocols: {grpc: , http: }}
exporters:
  nop:
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [nop]}
"""

CASES = {
    "a name, where it is configured and used": (
        "exporters:\n  logging:  # kept\n  logging/2: {}\n"
        "service: {pipelines: {traces: {exporters: [logging, 'logging/2']}}}\n",
        "exporters:\n  debug:  # kept\n  debug/2: {}\n"
        "service: {pipelines: {traces: {exporters: [debug, 'debug/2']}}}\n",
    ),
    "only of its kind": (
        "receivers: {otlp: {protocols: {grpc: }}}\nexporters: {otlp: {endpoint: 'a:1'}}\n"
        "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp]}}}\n",
        "receivers: {otlp: {protocols: {grpc: }}}\nexporters: {otlp_grpc: {endpoint: 'a:1'}}\n"
        "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_grpc]}}}\n",
    ),
    "in a list that two pipelines share": (
        "exporters: {otlphttp: {endpoint: 'http://a'}}\nservice:\n  pipelines:\n"
        "    traces: {receivers: [otlp], exporters: &all [otlphttp]}\n    logs: {receivers: [otlp], exporters: *all}\n",
        "exporters: {otlp_http: {endpoint: 'http://a'}}\nservice:\n  pipelines:\n"
        "    traces: {receivers: [otlp], exporters: &all [otlp_http]}\n"
        "    logs: {receivers: [otlp], exporters: *all}\n",
    ),
    "a level": (
        'exporters:\n  logging:\n    loglevel: "DEBUG" # kept\n    sampling_initial: 5\n',
        "exporters:\n  debug:\n    verbosity: detailed # kept\n    sampling_initial: 5\n",
    ),
    "a level beside its successor": (
        "exporters:\n  debug:\n    loglevel: info\n    verbosity: basic\n",
        "exporters:\n  debug:\n    verbosity: basic\n",
    ),
    "an address": (
        "service:\n  telemetry:\n    metrics:\n      address: ':8888' # kept\n      level: basic\n",
        "service:\n  telemetry:\n    metrics:\n      readers:\n        - pull:\n            exporter:\n"
        "              prometheus:\n                host: 0.0.0.0\n                port: 8888\n"
        "                without_scope_info: true\n                without_type_suffix: true\n"
        "                without_units: true # kept\n      level: basic\n",
    ),
    "an address of references in braces": (
        "service: {telemetry: {metrics: {address: '${env:IP}:${env:PORT:-1}', level: basic}}}\n",
        "service: {telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: "
        '{host: "${env:IP}", port: "${env:PORT:-1}", without_scope_info: true, without_type_suffix: true, '
        "without_units: true}}}}], level: basic}}}\n",
    ),
    "what is gone": (
        "extensions:\n  # kept\n  memory_ballast:\n    size_mib: 1\n\n  health_check:\nprocessors:\n  queued_retry:\n"
        "service:\n  extensions: [memory_ballast, health_check]\n"
        "  pipelines:\n    traces:\n      processors:\n        - queued_retry\n",
        "extensions:\n  # kept\n\n  health_check:\nprocessors:\n"
        "service:\n  extensions: [health_check]\n"
        "  pipelines:\n    traces:\n      processors:\n",
    ),
    "what is gone, last in braces": (
        "extensions: {health_check: , memory_ballast: {size_mib: 1}}\n"
        "service: {extensions: [health_check, memory_ballast]}\n",
        "extensions: {health_check: }\nservice: {extensions: [health_check]}\n",
    ),
    "keys that have a section": (
        "exporters:\n  otlp_grpc:\n    insecure: true # kept\n    endpoint: a:1\n    # kept too\n    ca_file: ''\n",
        "exporters:\n  otlp_grpc:\n    tls:\n      insecure: true\n      ca_file: '' # kept\n    endpoint: a:1\n"
        "    # kept too\n",
    ),
    "keys that have a section, in braces": (
        "exporters: {otlp_http: {endpoint: 'http://a', insecure: true}}\n",
        "exporters: {otlp_http: {endpoint: 'http://a', tls: {insecure: true}}}\n",
    ),
    "origins": (
        "receivers:\n  otlp:\n    protocols:\n      http:\n        cors_allowed_origins: ['*']\n",
        "receivers:\n  otlp:\n    protocols:\n      http:\n        cors:\n          allowed_origins: ['*']\n",
    ),
    "a section": (
        "exporters: {otlp_grpc: {endpoint: 'a:1', tls_settings: {insecure: true}}}\n",
        "exporters: {otlp_grpc: {endpoint: 'a:1', tls: {insecure: true}}}\n",
    ),
    "a port": (
        "extensions: {health_check: {port: 13133}}\n",
        "extensions: {health_check: {endpoint: 0.0.0.0:13133}}\n",
    ),
    "a ballast": (
        "processors:\n  memory_limiter:\n    check_interval: 1s\n    ballast_size_mib: 5\n    limit_mib: 10\n",
        "processors:\n  memory_limiter:\n    check_interval: 1s\n    limit_mib: 10\n",
    ),
    "windows": (
        "exporters:\r\n  otlphttp:\r\n    insecure: true\r\n",
        "exporters:\r\n  otlp_http:\r\n    tls:\r\n      insecure: true\r\n",
    ),
}


@pytest.mark.parametrize(("old", "new"), CASES.values(), ids=CASES)
def test_only_what_is_old_is_changed(old: str, new: str) -> None:
    """The rest stays, to the last comment and quote; a second time nothing changes."""
    fixed = fix(old)
    assert new == fixed.text
    assert fixed.done
    assert Fixed(new, (), ()) == fix(new)


@pytest.mark.parametrize(("old", "new"), CASES.values(), ids=CASES)
def test_what_comes_out_is_better(old: str, new: str) -> None:
    """Over a configuration that runs it runs without a problem, save where the case lacks what must be there."""
    names = {"IP": "127.0.0.1", "PORT": "1"}
    try:
        load([f"yaml:{BASE}", f"yaml:{new}"], [], Registry(), names)
    except ConfigError as error:
        assert all("endpoint" in str(problem) for problem in error.problems)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "exporters: {logging: , debug: }\n",
            "exporters::logging: cannot be called debug, which there is already",
        ),
        (
            "exporters: {debug: {loglevel: loud}}\n",
            "exporters::debug: loglevel is called verbosity today, and 'loud' is none",
        ),
        ("service: {telemetry: {metrics: {address: '${env:A}'}}}\n", "was replaced by readers"),
        ("service: {telemetry: {metrics: {address: ':1', readers: []}}}\n", "was replaced by readers"),
        (
            "exporters: {otlp_grpc: {insecure: true, tls: {ca_file: x}}}\n",
            "moved into tls, which there is already",
        ),
        ("extensions: {health_check: {port: 1, endpoint: 'a:1'}}\n", "port is part of endpoint today"),
    ],
)
def test_what_needs_a_decision_is_left(text: str, left: str) -> None:
    """And told."""
    fixed = fix(text)
    assert text == fixed.text
    (found,) = fixed.left
    assert left in found


@pytest.mark.parametrize(
    "text", ["", "a", "[1]", "exporters: [logging]", "service: {pipelines: 5}", "? {a: b}\n: c\n"]
)
def test_whatever_else_stands_there_stays(text: str) -> None:
    """A text of another shape is none of our business."""
    assert Fixed(text, (), ()) == fix(text)


def test_broken_text_is_refused() -> None:
    """As by the parser."""
    with pytest.raises(yaml.YAMLError):
        fix("a: [")


def test_names_are_those_that_components_had() -> None:
    """Every alias of a component is replaced, but for one that is no older name; what is removed is unknown."""
    registry = Registry()
    aliases = {
        (kind, alias): type
        for kind in Kind
        for type in registry.types(kind)
        for alias in registry.find(kind, type).factory.aliases
    }
    del aliases[Kind.EXTENSION, "healthcheckv2"]
    assert {**aliases, (Kind.EXPORTER, "logging"): "debug"} == dict(RENAMED)
    for kind, type in REMOVED:
        with pytest.raises(UnknownType):
            registry.find(kind, type)
