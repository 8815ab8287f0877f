"""The otlp receiver's configuration and what it makes of it; the network is in tests/conformance."""

from __future__ import annotations

import logging
import pathlib
import socket
import subprocess
import sys
from typing import Any

import pytest

from collector.component import Settings
from collector.config.decode import decode
from collector.errors import ConfigError, StartError
from collector.ids import ComponentID, Signal
from collector.native.runtime import Runtime
from collector.receivers import otlp
from collector.telemetry.logs import Log
from tests.conformance.harness import Collector

LIMIT_MIB = (1 << 63) // (1 << 20) - 1


def _decode(value: Any) -> otlp.Config:
    return decode(otlp.Config, value, "receivers::otlp")


def _problems(value: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        _decode(value)
    return [str(problem) for problem in caught.value.problems]


def test_null_protocols_are_on_with_the_collectors_defaults() -> None:
    """`grpc:` and `http:` alone serve localhost with the Collector's limits."""
    config = _decode({"protocols": {"grpc": None, "http": None}})
    grpc, http = config.protocols.grpc, config.protocols.http
    assert grpc is not None
    assert http is not None
    assert ("localhost:4317", 4 << 20, 200, 2 << 20) == (
        grpc.endpoint,
        grpc.max_message_bytes,
        grpc.max_concurrent_streams,
        grpc.initial_window_size,
    )
    assert ("localhost:4318", 20 << 20) == (http.endpoint, http.max_message_bytes)
    assert ("/v1/traces", "/v1/metrics", "/v1/logs") == http.paths


def test_absent_protocol_is_off() -> None:
    """A protocol that is not named is not served."""
    config = _decode({"protocols": {"http": {"endpoint": "0.0.0.0:4318"}}})
    assert config.protocols.grpc is None
    assert config.protocols.http is not None


@pytest.mark.parametrize("value", [None, {}, {"protocols": None}, {"protocols": {}}])
def test_no_protocol_is_refused(value: Any) -> None:
    """A receiver that would serve nothing is an error, in the Collector's words."""
    assert ["receivers::otlp: must specify at least one protocol when using the OTLP receiver"] == _problems(
        value
    )


@pytest.mark.parametrize(
    ("protocol", "keys", "message"),
    [
        (
            "grpc",
            {"max_recv_msg_size_mib": -1},
            (
                "max_recv_msg_size_mib: invalid max_recv_msg_size_mib value, must be between 1 and"
                f" {LIMIT_MIB}: -1"
            ),
        ),
        ("grpc", {"read_buffer_size": -1}, "read_buffer_size: invalid read_buffer_size value: -1"),
        ("grpc", {"write_buffer_size": -2}, "write_buffer_size: invalid write_buffer_size value: -2"),
        ("grpc", {"tls": {"cert_file": "x"}}, "tls: is not supported yet"),
        ("grpc", {"auth": {"authenticator": "x"}}, "auth: is not supported yet"),
        ("grpc", {"middlewares": [{"id": "memory_limiter"}]}, "middlewares: is not supported yet"),
        (
            "grpc",
            {"keepalive": {"server_parameters": {"max_connection_age": "1m"}}},
            "keepalive::server_parameters::max_connection_age: is not supported yet",
        ),
        ("http", {"tls": {}, "cors": {"allowed_origins": ["*"]}}, "cors: is not supported yet"),
        ("http", {"compression_algorithms": []}, "compression_algorithms: is not supported yet"),
        ("http", {"keep_alives_enabled": False}, "keep_alives_enabled: false is not supported yet"),
        ("http", {"response_headers": {"x": "y"}}, "response_headers: is not supported yet"),
        (
            "http",
            {"logs_url_path": "/a b"},
            "logs_url_path: invalid HTTP URL path set for signal: '/a b'",
        ),
        (
            "http",
            {"logs_url_path": "/v1/traces"},
            "traces_url_path: expected a path of its own for each signal",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_path(
    protocol: str, keys: dict[str, Any], message: str
) -> None:
    """A key of the Collector that this build does not follow is an error, never silence."""
    assert [f"receivers::otlp::protocols::{protocol}::{message}"] == _problems(
        {"protocols": {protocol: keys}}
    )


def test_documented_configuration_of_the_collector_is_taken() -> None:
    """All keys that say what is already so, or only size buffers, are accepted."""
    config = _decode(
        {
            "protocols": {
                "grpc": {
                    "endpoint": "0.0.0.0:4317",
                    "transport": "tcp",
                    "max_recv_msg_size_mib": 16,
                    "max_concurrent_streams": 0,
                    "read_buffer_size": 524288,
                    "write_buffer_size": 0,
                    "keepalive": {
                        "server_parameters": {"max_connection_idle": "11s"},
                        "enforcement_policy": {"min_time": "30s", "permit_without_stream": True},
                    },
                    "tls": None,
                    "include_metadata": True,
                    "middlewares": [],
                },
                "http": {
                    "cors": {"allowed_origins": [], "max_age": 0},
                    "max_request_body_size": 0,
                    "compression_algorithms": list(otlp.Http().compression_algorithms),
                    "read_timeout": "1m",
                    "idle_timeout": "1m30s",
                    "traces_url_path": "in/traces",
                },
            }
        }
    )
    grpc, http = otlp.listeners(config.protocols)
    assert (16 << 20, 200, 11.0) == (grpc.max_message_bytes, grpc.max_concurrent_streams, grpc.idle_timeout_s)
    assert (20 << 20, 60.0, 90.0) == (http.max_message_bytes, http.read_timeout_s, http.idle_timeout_s)
    assert "/in/traces" == http.paths[0]


def test_samples_are_the_collectors_and_carry_id_and_transport() -> None:
    """Each protocol served has accepted and refused items of each signal, from the start."""
    collector = Collector("native", component_id="otlp/2")
    samples = list(collector.receiver.samples())
    collector.stop()
    labels = {sample.labels[:2] for sample in samples}
    assert {(("receiver", "otlp/2"), ("transport", name)) for name in ("grpc", "http")} == labels
    names = {sample.instrument.name for sample in samples}
    for signal in Signal:
        assert {f"otelcol_receiver_{what}_{signal.items}" for what in ("accepted", "refused")} <= names


def test_address_in_use_is_a_start_error() -> None:
    """A portable receiver whose port is taken says so, and holds nothing open."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        collector = Collector("grpcio", grpc={"endpoint": f"127.0.0.1:{taken.getsockname()[1]}"})
        with pytest.raises(StartError, match="address already in use"):
            collector.receiver.start()
        collector.stop()


def test_unix_socket_is_served(tmp_path: pathlib.Path) -> None:
    """`transport: unix` serves a path in the file system."""
    path = str(tmp_path / "otlp.sock")
    with (
        Collector("native", http={"endpoint": path, "transport": otlp.Network.UNIX}) as collector,
        socket.socket(socket.AF_UNIX) as client,
    ):
        assert path == collector.receiver.addresses["http"]
        client.connect(path)
        client.sendall(b"GET /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 405 ")


def test_missing_native_transport_falls_back_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A build without native/net serves all the same, and says how."""
    monkeypatch.setattr(otlp, "has_net", lambda: False)
    with caplog.at_level(logging.WARNING), Collector("native") as collector:
        assert {"grpc", "http"} == set(collector.receiver.addresses)
    assert 1 == sum("using grpcio instead" in record.message for record in caplog.records)


def test_open_address_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Serving every host without TLS or authentication is said once at start, and so is the address."""
    with caplog.at_level(logging.INFO), Collector("native", http={"endpoint": "0.0.0.0:0"}) as collector:
        messages = [record.message for record in caplog.records]
        assert 1 == sum("every host" in message for message in messages)
        address = collector.receiver.addresses["http"]
        told = [record.message for record in caplog.records if record.fields.get("endpoint") == address]
        assert ["Starting HTTP server"] == told


def test_shutdown_is_safe_before_start_and_twice() -> None:
    """A receiver that never ran can be shut down, and again."""
    collector = Collector("native")
    collector.receiver.shutdown(1.0)
    collector.receiver.shutdown(1.0)
    collector.stop()


def test_native_receiver_imports_no_server_of_python() -> None:
    """The idle process stays small: grpcio, asyncio and http.server are loaded by the portable transport only."""
    program = (
        "import sys, collector.receivers.otlp, collector.transport.native\n"
        "print(sorted({'grpc', 'asyncio', 'http.server', 'urllib.parse', 'numpy'} & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "[]\n" == process.stdout


def test_factory_takes_all_signals() -> None:
    """The receiver can be named by pipelines of any signal."""
    settings = Settings(
        id=ComponentID("otlp"), signal=None, runtime=Runtime(), log=Log(logging.getLogger("test"))
    )
    assert frozenset(Signal) == otlp.factory.signals
    config = _decode({"protocols": {"grpc": None}})
    assert {} == otlp.factory.create(config, settings).addresses
