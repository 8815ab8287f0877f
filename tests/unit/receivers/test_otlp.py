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
from collector.config.http import Cors
from collector.config.network import Network
from collector.errors import ConfigError, StartError
from collector.ids import ComponentID, Signal
from collector.native.runtime import Runtime
from collector.receivers import otlp
from collector.telemetry.logs import Log
from tests.conformance.harness import Collector
from tests.conformance.peers import PREFACE, connect, is_ended

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
        (
            "grpc",
            {"read_buffer_size": -1},
            "read_buffer_size: read_buffer_size value must be greater than or equal to 0",
        ),
        (
            "grpc",
            {"write_buffer_size": -2},
            "write_buffer_size: write_buffer_size value must be greater than or equal to 0",
        ),
        (
            "grpc",
            {"tls": {"cert_file": "x"}},
            "tls: TLS configuration must include both certificate and key (cert_file or cert_pem, and key_file or"
            " key_pem)",
        ),
        (
            "http",
            {"tls": {}},
            "tls: TLS configuration must include both certificate and key for server connections",
        ),
        (
            "grpc",
            {"auth": {"authenticator": "x"}},
            "auth: not supported yet; keep the endpoint where only its clients reach it",
        ),
        ("grpc", {"middlewares": [{"id": "memory_limiter"}]}, "middlewares: not supported yet"),
        (
            "http",
            {"auth": {"authenticator": "x"}},
            "auth: not supported yet; keep the endpoint where only its clients reach it",
        ),
        (
            "http",
            {"compression_algorithms": ["br"]},
            "compression_algorithms::0: expected one of '', 'gzip', 'zstd', 'zlib', 'snappy', 'deflate', 'lz4',"
            " 'x-snappy-framed', 'identity', got 'br'",
        ),
        (
            "http",
            {"response_headers": {"a b": "c"}},
            "response_headers: expected the name of a header, got 'a b'",
        ),
        (
            "http",
            {"response_headers": {"x": "secret\n"}},
            "response_headers::x: expected one line of text without control characters",
        ),
        (
            "http",
            {"response_headers": {"Content-length": "1"}},
            "response_headers::Content-length: is set by the server itself",
        ),
        (
            "http",
            {"cors": {"allowed_origins": ["*"], "exposed_headers": ["a\r\nb"]}},
            "cors::exposed_headers: expected the name of a header, got 'a\\r\\nb'",
        ),
        (
            "http",
            {"traces_url_path": "%zz"},
            'traces_url_path: invalid HTTP URL path set for signal: parse "%zz": invalid URL escape "%zz"',
        ),
        (
            "http",
            {"logs_url_path": "/a b"},
            'logs_url_path: invalid HTTP URL path set for signal: parse "/a b": expected letters, digits and marks,'
            " without braces",
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
                        "server_parameters": {
                            "max_connection_idle": "11s",
                            "max_connection_age": "1h",
                            "max_connection_age_grace": "5s",
                            "time": "30s",
                            "timeout": "3s",
                        },
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
                    "keepalive": {"idle_timeout": "1m30s"},
                    "write_timeout": "-1s",
                    "response_headers": {"x-tenant": "a", "content-type": "b"},
                    "traces_url_path": "in/traces",
                },
            }
        }
    )
    grpc, http = otlp.listeners(config.protocols)
    assert (16 << 20, 200, 11.0) == (grpc.max_message_bytes, grpc.max_concurrent_streams, grpc.idle_timeout_s)
    assert (3600.0, 5.0) == (grpc.max_age_s, grpc.max_age_grace_s)
    assert (30.0, 3.0, 30.0, True) == (
        grpc.ping_after_s,
        grpc.ping_timeout_s,
        grpc.min_ping_interval_s,
        grpc.pings_without_calls,
    )
    assert (20 << 20, 60.0, 90.0) == (http.max_message_bytes, http.read_timeout_s, http.idle_timeout_s)
    assert (60.0, 0.0, "X-Tenant: a\r\n") == (
        http.header_timeout_s,
        http.write_timeout_s,
        http.response_headers,
    )
    assert "/in/traces" == http.paths[0]


def test_keepalive_of_zero_is_that_of_grpc_go() -> None:
    """What is not said about pings is as on the Collector: 2h, 20s, 5m; ages have no end."""
    grpc = otlp.listeners(
        _decode({"protocols": {"grpc": {"keepalive": {"server_parameters": None}}}}).protocols
    )[0]
    assert (7200.0, 20.0, 300.0, False) == (
        grpc.ping_after_s,
        grpc.ping_timeout_s,
        grpc.min_ping_interval_s,
        grpc.pings_without_calls,
    )
    assert (0.0, 0.0, 0.0) == (grpc.idle_timeout_s, grpc.max_age_s, grpc.max_age_grace_s)


@pytest.mark.parametrize(
    ("keys", "idle_s"),
    [
        ({}, 60.0),
        ({"keepalive": None}, 60.0),
        ({"keepalive": {"enabled": False}}, 60.0),
        ({"keepalive": {"enabled": False}, "read_timeout": "0s"}, 0.0),
        ({"keepalive": {"idle_timeout": "0s"}, "read_timeout": "3s"}, 3.0),
        ({"keepalive": {"enabled": False}, "read_timeout": "3s"}, 3.0),
        ({"idle_timeout": "9s"}, 9.0),
        ({"idle_timeout": "0s"}, 60.0),
    ],
)
def test_idle_timeout_under_both_names(keys: dict[str, Any], idle_s: float) -> None:
    """A minute by default, read_timeout where there is none; the key of older Collectors goes first."""
    assert idle_s == otlp.listeners(_decode({"protocols": {"http": keys}}).protocols)[0].idle_timeout_s


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/v1/traces", "/v1/traces"),
        ("in/traces/", "/in/traces/"),
        ("", "/"),
        ("/a%2Db?c=d#e", "/a-b"),
        ("/a:b", "/a:b"),
    ],
)
def test_url_path_is_read_as_by_the_collector(text: str, path: str) -> None:
    """A missing slash is added; escapes, query and fragment are taken away."""
    assert path == otlp.parse_url_path(text)


@pytest.mark.parametrize(
    "text", ["%", "/%g0", "http://host/v1/traces", "/{signal}", "/a b", "/\N{SNOWMAN}", "/a%0d%0ab"]
)
def test_what_is_no_url_path_is_refused(text: str) -> None:
    """Nothing that a request cannot ask for, or that means something else to the Collector."""
    with pytest.raises(ValueError, match="parse "):
        otlp.parse_url_path(text)


def test_portable_transport_refuses_what_it_cannot_do() -> None:
    """By name, before anything starts."""
    tls = {"cert_file": "c", "key_file": "k"}
    http = {"cors": {"allowed_origins": ["*"]}, "write_timeout": "1s", "tls": tls}
    assert [
        "receivers::otlp::protocols::grpc::tls: needs the native transport",
        "receivers::otlp::protocols::http::cors: needs the native transport",
        "receivers::otlp::protocols::http::tls: needs the native transport",
        "receivers::otlp::protocols::http::write_timeout: needs the native transport",
    ] == _problems({"protocols": {"grpc": {"tls": tls}, "http": http}, "transport": "grpcio"})


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
        Collector("native", http={"endpoint": path, "transport": Network.UNIX}) as collector,
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


def test_headers_without_origins_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """As by the Collector, which ignores them too."""
    with caplog.at_level(logging.WARNING), Collector("native", http={"cors": Cors(allowed_headers=("x-a",))}):
        messages = [record.message for record in caplog.records]
    assert [
        "The CORS configuration specifies allowed headers but no allowed origins, and is therefore ignored."
    ] == messages


@pytest.mark.parametrize(
    ("headers", "is_warned_of"),
    [(("x-a",), True), ((), False), (("x-a", "content-type"), False), (("*",), False)],
)
def test_browsers_that_can_send_nothing_are_warned_of(
    caplog: pytest.LogCaptureFixture, headers: tuple[str, ...], is_warned_of: bool
) -> None:
    """Allowed headers without Content-Type let no request of a browser through."""
    cors = Cors(allowed_origins=("*",), allowed_headers=headers)
    with caplog.at_level(logging.WARNING), Collector("native", http={"cors": cors}):
        messages = [record.message for record in caplog.records]
    assert is_warned_of == any("lacks Content-Type" in message for message in messages)


def test_strangers_are_told_of_soon_and_then_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line says what came, to which port, how often and what to do; the next comes ten minutes later."""
    clock = Clock()
    with caplog.at_level(logging.WARNING), Collector("native", clock=clock) as collector:
        collector.timer.fire()
        assert [] == caplog.records
        for protocol, says, speaks, advice in (
            ("http", PREFACE, "http2", "a gRPC client is talking to the HTTP port"),
            (
                "grpc",
                b"POST /v1/traces HTTP/1.1\r\n\r\n",
                "http1",
                "an HTTP client is talking to the gRPC port",
            ),
            ("http", b"\x16\x03\x01\x02\x00\x01", "tls", "a client is talking TLS to a port without it"),
            ("grpc", b"\x16\x03\x01\x02\x00\x01", "tls", "a client is talking TLS to a port without it"),
        ):
            for count in (1, 2):
                _say(getattr(collector, protocol), says)
                collector.timer.fire()
                (record,) = caplog.records
                assert record.message.startswith(advice)
                assert (protocol, collector.receiver.addresses[protocol], 1) == (
                    record.fields["transport"],
                    record.fields["endpoint"],
                    record.fields["connections"],
                )
                assert {(("transport", protocol), ("speaks", speaks)): count}.items() <= _strangers(
                    collector
                ).items()
            clock.now_s += 600
            collector.timer.fire()
            assert [1, 1] == [record.fields["connections"] for record in caplog.records]
            caplog.clear()


class Clock:
    """A clock that stands still."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def _say(address: tuple[str, int], data: bytes) -> None:
    with connect(address) as connection:
        connection.sendall(data)
        assert is_ended(connection)


def _strangers(collector: Collector) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        sample.labels[1:]: sample.value
        for sample in collector.receiver.samples()
        if sample.instrument.name == "spansieve_receiver_misdirected_connections"
    }


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
