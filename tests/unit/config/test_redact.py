"""What print-config shows: no secret, and all else as it is, so that it runs again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.config.document import Document
from collector.config.encode import encode_document
from collector.config.load import load
from collector.config.redact import hidden_paths, redact_document
from collector.errors import ConfigError
from collector.ids import Kind
from collector.registry import Registry

DEPLOYED = sorted((Path(__file__).parents[3] / "deploy" / "config").glob("*.yaml"))
REGISTRY = Registry()
EVERYTHING = """
receivers: {otlp: {protocols: {grpc: , http: }}}
processors:
exporters: {nop: }
extensions:
service:
  telemetry:
    logs: {initial_fields: {zone: a}}
    metrics: {readers: [{periodic: {exporter: {console: {}}}}]}
    resource: {team: b}
  pipelines: {traces: {receivers: [otlp], exporters: [nop]}}
"""


def examples() -> list[Any]:
    """Return a configuration for each component that has an example of its own, and holds it."""
    found = []
    for kind in Kind:
        for type in REGISTRY.types(kind):
            text = REGISTRY.find(kind, type).factory.example
            layer = {kind.value: {f"{type}/example": yaml.safe_load(text) if text else None}}
            found.append(pytest.param((EVERYTHING, yaml.safe_dump(layer)), id=f"{kind.value}.{type}"))
    return found


def load_texts(*texts: str) -> Document:
    """Return the document of texts, each over the one before."""
    return load([f"yaml:{text}" for text in texts], (), REGISTRY, {})


@pytest.mark.parametrize(
    "texts",
    [*examples(), *(pytest.param((path.read_text(),), id=path.stem) for path in DEPLOYED)],
)
def test_what_is_shown_runs_again(texts: tuple[str, ...]) -> None:
    """Where no secret is set, nothing is hidden, and what is shown means the same."""
    document = load_texts(*texts)
    values = encode_document(document)
    shown = redact_document(values, REGISTRY)
    assert [] == list(hidden_paths(values, shown))
    again = load_texts(yaml.safe_dump(shown))
    for kind in Kind:
        assert getattr(document, kind.value) == getattr(again, kind.value)
    assert document.service._replace(telemetry=again.service.telemetry) == again.service
    assert encode_document(document) == encode_document(again)


def test_values_of_attributes_are_shown() -> None:
    """What a processor writes is no secret, whatever its type."""
    values = {"key": "a", "action": "insert", "value": {"b": ["c", 5, True, "http://u:p@d"]}}
    shown = redact_document({"processors": {"attributes": {"actions": [values]}}}, REGISTRY)
    [action] = shown["processors"]["attributes"]["actions"]
    assert {"b": ["c", 5, True, "http://***@d"]} == action["value"]


def test_hidden_keys_are_named() -> None:
    """Each text that is not shown as it is, by its path; nothing that is not set."""
    exporter = {
        "endpoint": "https://user:s3cret@backend:4318",
        "headers": {"authorization": "s3cret", "empty": "", "none": None},
        "tls": {"ca_pem": "", "key_pem": "s3cret", "tpm": {"enabled": False, "owner_auth": "s3cret"}},
    }
    values = {"exporters": {"otlp_http": exporter}}
    shown = redact_document(values, REGISTRY)
    assert "s3cret" not in repr(shown)
    assert [
        "exporters::otlp_http::endpoint",
        "exporters::otlp_http::headers::authorization",
        "exporters::otlp_http::tls::key_pem",
        "exporters::otlp_http::tls::tpm::owner_auth",
    ] == list(hidden_paths(values, shown))
    assert "https://***@backend:4318" == shown["exporters"]["otlp_http"]["endpoint"]


def test_no_problem_shows_a_secret() -> None:
    """User and password of a URL where they are, or where there should be none, and what should be a header."""
    with pytest.raises(ConfigError) as caught:
        load_texts(
            """
            receivers:
              otlp:
                protocols:
                  grpc: {endpoint: "user:s3cret@localhost:1"}
                  http: {endpoint: "http://user:s3cret@b", traces_url_path: "http://user:s3cret@b"}
            exporters:
              otlp_http:
                endpoint: "ftp://user:s3cret@b"
                headers: "authorization=s3cret"
                proxy_url: "http://user:s3cret@proxy"
                compression: "http://user:s3cret@b"
                timeout: "http://user:s3cret@b"
              otlp_http/2: {endpoint: "http://b", headers: {authorization: ["s3cret"]}}
              otlp_grpc: {endpoint: "https://user:s3cret@b:1", auth: {authenticator: s3cret}}
              otlp_grpc/2: {endpoint: "b:1", headers: [{name: a, value: s3cret, x: y}]}
            extensions: {health_check: {endpoint: "user:s3cret@b:1"}}
            service:
              telemetry: {logs: {level: "http://user:s3cret@b"}}
              pipelines: {traces: {receivers: [otlp], exporters: [otlp_http]}}
            """
        )
    assert 12 < len(caught.value.problems)
    assert "s3cret" not in str(caught.value)
