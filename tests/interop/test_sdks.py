"""SDKs of five languages with their defaults, set up by environment variables: all that they make arrives as it was."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.ids import Signal
from tests.conformance.peers import Address
from tests.integration.harness import wait_for
from tests.interop.harness import Answer, Ports, Process, Sink, base, to_sink
from tests.interop.sdk import scenario
from tests.interop.sdk.programs import LANGUAGES, Program, run
from tests.interop.sdk.relay import Headers, Relay
from tests.interop.sdk.scenario import Arrived, Made
from tests.support import otlp

ROUNDS = 300  # 600 spans: more than one batch of an SDK
PROTOCOLS = {
    "python": ("grpc", "http/protobuf", "http/json"),
    "node": ("grpc", "http/protobuf", "http/json"),
    "java": ("grpc", "http/protobuf"),
    "go": ("grpc", "http/protobuf"),
    "rust": ("grpc", "http/protobuf", "http/json"),
}
SERVED = [(language, protocol) for language, protocols in PROTOCOLS.items() for protocol in protocols]

CONTENT_TYPES = {
    "grpc": "application/grpc",
    "http/protobuf": "application/x-protobuf",
    "http/json": "application/json",
}
GRPC_PATHS = {
    Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    Signal.METRICS: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    Signal.LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
ITEMS = {Signal.TRACES: "spans", Signal.METRICS: "metric_points", Signal.LOGS: "log_records"}
DEFAULT_TRANSPORTS = {"python": "grpc", "node": "http", "java": "grpc", "go": "http", "rust": "http"}
MUST_BE_SET = {"go": {"OTEL_EXPORTER_OTLP_INSECURE": "true"}}
"""Go's SDK looks for TLS on localhost where it is not told otherwise."""
NO_EXPONENTIAL = {"node", "rust"}
"""SDKs that do not know the variable for the kind of histograms."""
OWN_SCOPES = {"java": "io.opentelemetry."}
"""How the scopes begin of the metrics that an SDK makes about itself."""


# ------------------------------------------------------------------------------------------------------ the other end


def _config(ports: Ports, **sections: Any) -> dict[str, Any]:
    """Return the configuration of a collector that hands everything on to the sink."""
    pipeline = {
        "receivers": ["otlp"],
        "processors": list(sections.get("processors", ())),
        "exporters": ["otlp_http"],
    }
    sections.setdefault("exporters", {"otlp_http": to_sink(ports)})
    return base(ports, pipelines={signal.value: pipeline for signal in Signal}, **sections)


class Backend(Sink):
    """A sink whose answers a test can hold back.

    Attributes:
        is_open: cleared, requests wait until it is set.
    """

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        super().__init__()

    def take(self, path: str, body: bytes) -> Answer:
        """Keep a request once the gate is open."""
        self.is_open.wait()
        return super().take(path, body)

    def arrived(self) -> Arrived:
        """Return what has come so far."""
        return Arrived({signal: self.received(f"/v1/{signal.value}") for signal in Signal})


@pytest.fixture
def backend() -> Iterator[Backend]:
    """Where spansieve's exporter sends to."""
    with Backend() as sink:
        yield sink
        sink.is_open.set()


@pytest.fixture
def spansieve(backend: Backend, tmp_path: Path) -> Iterator[Process]:
    """A spansieve that hands everything on."""
    with Process("spansieve", _config, backend.server_port, tmp_path) as process:
        yield process


def _totals(process: Process) -> dict[str, dict[Signal, int]]:
    """Return the items by what became of them and signal, over all components and transports."""
    totals: dict[str, dict[Signal, int]] = {}
    for (name, _), value in process.samples("^otelcol_(receiver|exporter)_.*").items():
        for signal, items in ITEMS.items():
            if name.endswith(f"_{items}"):
                verdict = totals.setdefault(name.removeprefix("otelcol_").removesuffix(f"_{items}"), {})
                verdict[signal] = verdict.get(signal, 0) + int(value)
    return totals


def _settle(process: Process) -> dict[str, dict[Signal, int]]:
    """Wait until all that was accepted is sent, and return the totals."""
    wait_for(lambda: (totals := _totals(process))["receiver_accepted"] == totals["exporter_sent"])
    return _totals(process)


# -------------------------------------------------------------------------------------------------------- the SDK's end


def _address(protocol: str, server: Process | Ports) -> Address:
    found = server.grpc if protocol == "grpc" else server.http
    return found if isinstance(found, tuple) else ("127.0.0.1", found)


def _protocol(language: str, protocol: str, signal: str = "") -> dict[str, str]:
    """Return the variable that chooses the protocol, for one signal where it is named."""
    if (language, protocol) == ("python", "http/json"):  # an exporter of its own
        signals = [signal] if signal else [each.value for each in Signal]
        return {f"OTEL_{each.upper()}_EXPORTER": "otlp_json_http" for each in signals}
    return {f"OTEL_EXPORTER_OTLP_{signal.upper() + '_' * bool(signal)}PROTOCOL": protocol}


def _variables(language: str, protocol: str, address: Address) -> dict[str, str]:
    """Return what a user sets to send all signals to address by protocol."""
    host, port = address
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{host}:{port}", **_protocol(language, protocol)}


def _assert_whole(arrived: Arrived, language: str, made: Made) -> None:
    """All that was made is there, as it was, and nothing else."""
    assert scenario.spans(made) == arrived.spans
    assert scenario.records(made) == arrived.records
    assert scenario.metrics(len(made)) == arrived.metrics
    own = OWN_SCOPES.get(language, "none")
    assert [] == [scope for scope in arrived.foreign if not scope.startswith(own)]


def _of(headers: list[Headers], signal: Signal) -> list[Headers]:
    paths = {f"/v1/{signal.value}", GRPC_PATHS[signal]}
    return [each for each in headers if each[":path"] in paths]


# ------------------------------------------------------------------------------------------------------------- complete


@pytest.mark.parametrize(
    ("language", "protocol", "compression"),
    [
        *((*served, compression) for served in SERVED for compression in ("gzip", "none")),
        ("python", "http/protobuf", "deflate"),
        ("rust", "grpc", "zstd"),
        ("rust", "http/protobuf", "zstd"),
        ("rust", "http/json", "zstd"),
    ],
)
def test_everything_arrives_as_it_was_made(
    language: str, protocol: str, compression: str, spansieve: Process, backend: Backend
) -> None:
    """Each span, point and record arrives once, unchanged; the counters agree, and the SDK has nothing to say."""
    with Relay(_address(protocol, spansieve)) as relay:
        variables = _variables(language, protocol, relay.address)
        if (language, protocol, compression) != ("python", "grpc", "none"):  # which knows no such word
            variables["OTEL_EXPORTER_OTLP_COMPRESSION"] = compression
        made, said = run(language, variables, ROUNDS)
    totals = _settle(spansieve)

    assert said == ""
    _assert_whole(backend.arrived(), language, made)
    sent = {
        signal: sum(
            len(list(otlp.items(otlp.decode(signal, body))))
            for body in backend.received(f"/v1/{signal.value}")
        )
        for signal in Signal
    }
    assert (2 * ROUNDS, ROUNDS) == (sent[Signal.TRACES], sent[Signal.LOGS])
    nothing = dict.fromkeys(Signal, 0)
    expected = {"receiver_accepted": sent, "exporter_sent": sent}
    assert {verdict: expected.get(verdict, nothing) for verdict in totals} == totals

    encoding = "grpc-encoding" if protocol == "grpc" else "content-encoding"
    for signal in Signal:
        requests = _of(relay.requests(), signal)
        assert requests
        assert {CONTENT_TYPES[protocol]} == {each["content-type"] for each in requests}
        assert {compression} == {each.get(encoding, "none") for each in requests}


@pytest.mark.parametrize(("language", "protocol"), SERVED)
def test_short_program_is_flushed(language: str, protocol: str, spansieve: Process, backend: Backend) -> None:
    """A program that ends before any interval of its SDK sends all at its end, in one request a signal."""
    made, said = run(language, _variables(language, protocol, _address(protocol, spansieve)), 1)
    _settle(spansieve)

    assert said == ""
    _assert_whole(backend.arrived(), language, made)
    assert {f"/v1/{signal.value}": 1 for signal in Signal} == {
        path: len(bodies) for path, bodies in backend.requests.items()
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_variables_of_one_signal_win(language: str, spansieve: Process, backend: Backend) -> None:
    """Each signal goes by its own protocol, compression, endpoint and headers, where they are set."""
    last = PROTOCOLS[language][-1]
    with Relay(spansieve.grpc) as by_grpc, Relay(spansieve.http) as by_http:
        grpc, http = (f"http://127.0.0.1:{relay.address[1]}" for relay in (by_grpc, by_http))
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-for=all",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": grpc,
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-for=traces",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{http}/v1/metrics",
            "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "none",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": f"{http}/v1/logs",
            **_protocol(language, "grpc", "traces"),
            **_protocol(language, "http/protobuf", "metrics"),
            **_protocol(language, last, "logs"),
        }
        made, said = run(language, variables, ROUNDS)
    _settle(spansieve)

    assert said == ""
    _assert_whole(backend.arrived(), language, made)
    seen = {
        (
            signal,
            each["content-type"],
            each.get("grpc-encoding") or each.get("content-encoding"),
            each["x-for"],
        )
        for relay in (by_grpc, by_http)
        for signal in Signal
        for each in _of(relay.requests(), signal)
    }
    assert {
        (Signal.TRACES, CONTENT_TYPES["grpc"], "gzip", "traces"),
        (Signal.METRICS, CONTENT_TYPES["http/protobuf"], None, "all"),
        (Signal.LOGS, CONTENT_TYPES[last], "gzip", "all"),
    } == seen


@pytest.mark.parametrize("signal", list(Signal), ids=lambda signal: signal.value)
@pytest.mark.parametrize("language", LANGUAGES)
def test_one_signal_alone_arrives(
    language: str, signal: Signal, spansieve: Process, backend: Backend
) -> None:
    """With the other signals switched off, one arrives whole, and no request of the others comes."""
    variables = _variables(language, "grpc", spansieve.grpc)
    variables |= {f"OTEL_{other.value.upper()}_EXPORTER": "none" for other in Signal if other is not signal}
    made, said = run(language, variables, ROUNDS)
    _settle(spansieve)

    assert said == ""
    arrived = backend.arrived()
    assert (scenario.spans(made) if signal is Signal.TRACES else {}) == arrived.spans
    assert (scenario.metrics(ROUNDS) if signal is Signal.METRICS else {}) == arrived.metrics
    assert (scenario.records(made) if signal is Signal.LOGS else {}) == arrived.records
    assert {f"/v1/{signal.value}"} == set(backend.requests)


@pytest.mark.parametrize("language", LANGUAGES)
def test_resource_arrives(language: str, spansieve: Process, backend: Backend) -> None:
    """The service's name and the resource's attributes are those of the environment."""
    variables = _variables(language, "grpc", spansieve.grpc)
    variables |= {
        "OTEL_SERVICE_NAME": "shop \u00e4",
        "OTEL_RESOURCE_ATTRIBUTES": "team=blue,place=here%20and%2Cthere",
    }
    run(language, variables, 1)
    _settle(spansieve)

    place = (
        "here%20and%2Cthere" if language == "rust" else "here and,there"
    )  # Rust's SDK does not decode them
    resources = backend.arrived().resources
    assert resources
    for resource in resources:
        assert ("shop \u00e4", "blue", place) == tuple(
            resource[key] for key in ("service.name", "team", "place")
        )


@pytest.mark.parametrize(("language", "protocol"), SERVED)
def test_headers_are_sent_decoded(language: str, protocol: str, spansieve: Process, backend: Backend) -> None:
    """Headers with percent-encoding are sent as they were meant, and the request that has them is taken."""
    with Relay(_address(protocol, spansieve)) as relay:
        variables = _variables(language, protocol, relay.address)
        variables["OTEL_EXPORTER_OTLP_HEADERS"] = "x-tenant=a%20b%2Cc%3D,x-plain=1"
        made, said = run(language, variables, 1)
    _settle(spansieve)

    assert said == ""
    _assert_whole(backend.arrived(), language, made)
    assert {("a b,c=", "1")} == {(each["x-tenant"], each["x-plain"]) for each in relay.requests()}


@pytest.mark.parametrize("language", LANGUAGES)
def test_deltas_and_exponential_histograms_arrive(
    language: str, spansieve: Process, backend: Backend
) -> None:
    """Metrics as deltas, and histograms with exponential buckets, as the environment asks for, arrive as they are."""
    variables = _variables(language, "grpc", spansieve.grpc)
    variables["OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"] = "delta"
    if language not in NO_EXPONENTIAL:
        variables["OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"] = (
            "base2_exponential_bucket_histogram"
        )
    _, said = run(language, variables, ROUNDS)
    _settle(spansieve)

    assert said == ""
    arrived = backend.arrived().metrics
    scales = None
    if language not in NO_EXPONENTIAL:
        scales = [point["scale"] for point in arrived["latency"]["exponentialHistogram"]["dataPoints"]]
    assert scenario.metrics(ROUNDS, temporality=scenario.DELTA, scales=scales) == arrived


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_needs_to_be_set(language: str, backend: Backend, tmp_path: Path) -> None:
    """With no variable about it an SDK finds a spansieve that was told no address."""
    for port in (4317, 4318):
        try:
            socket.create_server(("localhost", port)).close()
        except OSError:
            pytest.skip(f"port {port} is taken")

    def config(ports: Ports) -> dict[str, Any]:
        sections = _config(ports)
        sections["receivers"]["otlp"]["protocols"] = {"grpc": None, "http": None}
        return sections

    with Process("spansieve", config, backend.server_port, tmp_path) as process:
        made, said = run(language, MUST_BE_SET.get(language, {}), ROUNDS)
        totals = _settle(process)
        accepted = process.samples("^otelcol_receiver_accepted_spans")

    assert said == ""
    _assert_whole(backend.arrived(), language, made)
    assert {DEFAULT_TRANSPORTS[language]} == {
        dict(labels)["transport"] for (_, labels), value in accepted.items() if value
    }
    assert not any(totals["receiver_refused"].values())


# ------------------------------------------------------------------------------------------------------------ restarts

# SDKs that try once, and lose what did not get through: they take a refused connection, or one that ends before the
# answer, for final.
NO_RETRY_OF_REFUSED_CONNECTIONS = {("node", "grpc"), ("go", "http/protobuf")}
NO_RETRY_OF_LOST_CONNECTIONS = {*NO_RETRY_OF_REFUSED_CONNECTIONS, ("rust", "grpc")}
NO_RETRY_OF_REFUSALS = {("node", "grpc")}


@pytest.mark.parametrize(("language", "protocol"), SERVED)
def test_refused_connection_is_tried_again(
    language: str, protocol: str, spansieve: Process, backend: Backend
) -> None:
    """What an SDK could not send, since nobody listened, arrives once somebody does, where the SDK tries again."""
    with (
        Relay(_address(protocol, spansieve), is_open=False) as relay,
        Program(language, _variables(language, protocol, relay.address), ROUNDS) as program,
    ):
        program.wait_for("flushing")
        if (language, protocol) in NO_RETRY_OF_REFUSED_CONNECTIONS:
            _, said = program.finish()
            relay.open()
        else:
            time.sleep(
                0.2
            )  # for the first try, which leaves no trace; Rust's SDK gives up after less than a second
            relay.open()
            made, _ = program.finish()
    _settle(spansieve)

    if (language, protocol) in NO_RETRY_OF_REFUSED_CONNECTIONS:
        assert not backend.requests
        assert "refused" in said.lower()
    else:
        _assert_whole(backend.arrived(), language, made)


@pytest.mark.parametrize("end", [Process.stop, Process.kill], ids=["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize(("language", "protocol"), SERVED)
def test_restart_between_requests_is_not_noticed(
    language: str, protocol: str, end: Callable[[Process], None], backend: Backend, tmp_path: Path
) -> None:
    """An SDK whose idle connections went away with spansieve makes new ones: nothing is lost, and nothing is said."""
    ports = Ports.find(backend.server_port)
    variables = _variables(language, protocol, _address(protocol, ports))
    with (
        Process("spansieve", _config, backend.server_port, tmp_path, ports) as process,
        Program(language, variables, ROUNDS, ROUNDS // 2) as program,
    ):
        program.wait_for("paused")
        _settle(process)
        end(process)
        with Process("spansieve", _config, backend.server_port, tmp_path, ports) as successor:
            program.go_on()
            made, said = program.finish()
            _settle(successor)

    assert said == ""
    _assert_whole(backend.arrived(), language, made)


@pytest.mark.parametrize(("language", "protocol"), SERVED)
def test_request_of_a_killed_spansieve_is_sent_again(
    language: str, protocol: str, backend: Backend, tmp_path: Path
) -> None:
    """A request that spansieve had not read when it was killed comes again, once, where the SDK tries again."""
    (tmp_path / "successor").mkdir()
    with (
        Process("spansieve", _config, backend.server_port, tmp_path) as process,
        Process("spansieve", _config, backend.server_port, tmp_path / "successor") as successor,
        Relay(_address(protocol, process)) as relay,
        Program(language, _variables(language, protocol, relay.address), ROUNDS, ROUNDS // 2) as program,
    ):
        program.wait_for("paused")
        _settle(process)
        process.suspend()
        program.go_on()
        wait_for(lambda: _is_unread(_address(protocol, process)[1]))
        relay.target = _address(protocol, successor)
        process.kill()
        made, _ = program.finish()
        _settle(successor)

    if (language, protocol) in NO_RETRY_OF_LOST_CONNECTIONS:
        assert scenario.spans(made[: ROUNDS // 2]) == backend.arrived().spans
    else:
        _assert_whole(backend.arrived(), language, made)


def _is_unread(port: int) -> bool:
    """Return whether a connection to port holds bytes that its server has not read."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, _, queues, *_ = line.split()
        if int(local.split(":")[1], 16) == port and int(queues.split(":")[1], 16):
            return True
    return False


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(("language", "protocol"), SERVED)
def test_full_queue_is_waited_for(language: str, protocol: str, backend: Backend, tmp_path: Path) -> None:
    """What a full queue refuses is sent again, where the SDK tries again: everything arrives, once."""

    def config(ports: Ports) -> dict[str, Any]:
        queue = {"num_consumers": 1, "queue_size": 1}
        return _config(ports, exporters={"otlp_http": to_sink(ports, sending_queue=queue)})

    backend.is_open.clear()
    with (
        Process("spansieve", config, backend.server_port, tmp_path) as process,
        Program(language, _variables(language, protocol, _address(protocol, process)), ROUNDS) as program,
    ):
        wait_for(lambda: _totals(process)["receiver_refused"][Signal.TRACES])
        backend.is_open.set()
        made, _ = program.finish()
        totals = _settle(process)

    assert totals["receiver_refused"] == totals["exporter_enqueue_failed"]
    if (language, protocol) in NO_RETRY_OF_REFUSALS:
        assert 2 * ROUNDS - totals["receiver_refused"][Signal.TRACES] == len(backend.arrived().spans)
    else:
        _assert_whole(backend.arrived(), language, made)


@pytest.mark.parametrize(("language", "protocol"), SERVED)
def test_memory_limiter_is_waited_for(language: str, protocol: str, backend: Backend, tmp_path: Path) -> None:
    """What the memory limiter refuses is sent again, where the SDK tries again: everything arrives, once."""

    def limit(mib: int) -> Callable[[Ports], dict[str, Any]]:
        limiter = {"check_interval": "10ms", "limit_mib": mib}
        return lambda ports: _config(ports, processors={"memory_limiter": limiter})

    with (
        Process("spansieve", limit(1), backend.server_port, tmp_path) as process,
        Program(language, _variables(language, protocol, _address(protocol, process)), ROUNDS) as program,
    ):
        wait_for(lambda: _totals(process)["receiver_refused"][Signal.TRACES])
        process.reload(limit(10_000))
        made, said = program.finish()
        _settle(process)

    if (language, protocol) in NO_RETRY_OF_REFUSALS:
        assert "data refused due to high memory usage" in said
    else:
        _assert_whole(backend.arrived(), language, made)
