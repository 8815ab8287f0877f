"""Addresses that clash and certificates that are not there are told before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.config.load import load
from collector.config.surroundings import Address, clashes
from collector.errors import ConfigError
from collector.registry import Registry

BASE = """
receivers: {otlp: {protocols: {grpc: {endpoint: "localhost:0"}}}}
exporters: {nop: }
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [nop]}}
"""


def problems_of(*layers: str, is_to_run: bool = True) -> list[str]:
    """Return what is wrong with the base and layers over it."""
    try:
        load([f"yaml:{text}" for text in (BASE, *layers)], (), Registry(), {}, is_to_run=is_to_run)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("localhost:4317", "localhost:4317"),
        ("localhost:4317", "127.0.0.1:4317"),
        ("0.0.0.0:4317", "127.0.0.1:4317"),
        (":4317", "127.0.0.2:4317"),
        (":4317", "[::1]:4317"),
        ("[::]:4317", "[::1]:4317"),
        ("[FE80::1]:4317", "[fe80::1]:4317"),
        ("name:4317", "name:4317"),
        ("unix /run/a", "unix /run/a"),
        ("tcp4 :4317", "tcp localhost:4317"),
        ("tcp6 localhost:4317", "tcp [::1]:4317"),
    ],
)
def test_one_address_for_two_is_a_clash(one: str, other: str) -> None:
    """However it is written, and whichever of the two is every address."""
    for first, second in ((one, other), (other, one)):
        [problem] = clashes([address("a", first), address("b", second)])
        assert "b" == problem.path
        assert "where a listens" in problem.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("localhost:4317", "localhost:4318"),
        ("localhost:0", "localhost:0"),
        ("127.0.0.1:4317", "127.0.0.2:4317"),
        ("127.0.0.1:4317", "[::1]:4317"),
        ("0.0.0.0:4317", "[::]:4317"),
        ("unix /run/a", "unix /run/b"),
        ("unix a:4317", "a:4317"),
        ("tcp4 :4317", "tcp6 :4317"),
        ("nonsense", "nonsense"),
        ("name:4317", "127.0.0.1:4317"),
    ],
)
def test_two_addresses_are_no_clash(one: str, other: str) -> None:
    """Ports, hosts or families differ; of names nothing is known here."""
    assert [] == list(clashes([address("a", one), address("b", other)]))


def address(path: str, text: str) -> Address:
    """Return the address that text is: a transport, if it is not tcp, and an endpoint."""
    transport, _, endpoint = text.rpartition(" ")
    return Address(path, transport or "tcp", endpoint)


def test_all_that_listen_are_compared() -> None:
    """Protocols, receivers, extensions and the metrics page, each by its key; only what runs."""
    problems = problems_of(
        "receivers: {otlp: {protocols: {http: {endpoint: 'localhost:5317'}, grpc: {endpoint: 'localhost:5317'}}}}",
        "receivers: {otlp/2: {protocols: {grpc: {endpoint: ':5318'}}}}",
        "receivers: {otlp/unused: {protocols: {http: {endpoint: ':5318'}}}}",
        "extensions: {health_check: {endpoint: '127.0.0.1:5318'}}",
        "service: {extensions: [health_check], pipelines: {traces: {receivers: [otlp, otlp/2]}}}",
        "service: {telemetry: {metrics: {level: normal, readers: "
        "[{pull: {exporter: {prometheus: {host: '127.0.0.1', port: 5318}}}}]}}}",
    )
    assert problems == [
        "extensions::health_check::endpoint: expected an address of its own, got '127.0.0.1:5318', where"
        " receivers::otlp/2::protocols::grpc::endpoint listens at ':5318' (yaml:1)",
        "receivers::otlp::protocols::http::endpoint: expected an address of its own, got 'localhost:5317', where"
        " receivers::otlp::protocols::grpc::endpoint listens (yaml:1)",
        "service::telemetry::metrics::readers: expected an address of its own, got '127.0.0.1:5318', where"
        " receivers::otlp/2::protocols::grpc::endpoint listens at ':5318' (yaml:1)",
    ]


def test_page_that_nobody_asked_for_clashes_with_nothing() -> None:
    """It is left out where its port is taken."""
    layers = (
        "receivers: {otlp: {protocols: {grpc: {endpoint: 'localhost:8888'}}}}",
        "service: {telemetry: {metrics: {level: normal, readers: [{periodic: {}}]}}}",
    )
    assert [] == problems_of(*layers)


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    """Of servers and of clients, where they are used and TLS is on, each by its section."""
    (tmp_path / "empty").write_text("")
    layers = (
        f"receivers: {{otlp: {{protocols: {{grpc: {{tls: {{cert_file: {tmp_path}/none, key_file: x}}}}}}}}}}",
        f"exporters: {{otlp_grpc: {{endpoint: 'b:1', tls: {{ca_file: {tmp_path}/empty}}}}}}",
        "exporters: {otlp_http: {endpoint: 'https://b', tls: {ca_file: /none}}}",
        "exporters: {otlp_grpc/off: {endpoint: 'b:1', tls: {insecure: true, cert_file: /none, key_file: /none}}}",
        "exporters: {otlp_grpc/unused: {endpoint: 'b:1', tls: {ca_file: /none}}}",
        "service: {pipelines: {traces: {exporters: [otlp_grpc, otlp_http, otlp_grpc/off]}}}",
    )
    assert problems_of(*layers) == [
        "exporters::otlp_grpc::tls: failed to load TLS config: failed to load CA CertPool File: "
        f"{tmp_path}/empty holds no certificate in PEM format (yaml:1)",
        "exporters::otlp_http::tls: failed to load TLS config: failed to load CA CertPool File: "
        "open /none: no such file or directory (yaml:1)",
        "receivers::otlp::protocols::grpc::tls: failed to load TLS config: failed to load TLS cert and key: "
        f"open {tmp_path}/none: no such file or directory (yaml:1)",
    ]
    assert [] == problems_of(*layers, is_to_run=False)
