"""Collector -> spansieve -> Collector: each understands what the other sends, in every compression, both transports."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.ids import Signal
from tests.conformance.bodies import GOLDEN, HTTP_PATHS, MIB
from tests.conformance.peers import exchange, http_request
from tests.interop import inputs
from tests.interop.harness import Ports, Process, Sink, base, items_by_name, normalise, to_sink
from tests.interop.test_sampler import send
from tests.support import corpus, otlp

_LIMITS = {"grpc": {"max_recv_msg_size_mib": 64}, "http": {"max_request_body_size": 64 * MIB}}
_SAMPLED = {signal.value: ["probabilistic_sampler"] for signal in (Signal.TRACES, Signal.LOGS)}


def _link(exporter: str, **keys: Any) -> dict[str, Any]:
    """Return an exporter that sends on in order, and gives slow machines time."""
    queue = {"num_consumers": 1, "queue_size": 10_000}
    return {exporter: {"tls": {"insecure": True}, "sending_queue": queue, "timeout": "60s", **keys}}


def _pipelines(suffix: str, exporter: str, processors: Mapping[str, list[str]] = {}) -> dict[str, Any]:
    return {
        f"{signal.value}{suffix}": {
            "receivers": ["otlp"],
            "processors": processors.get(signal.value, []),
            "exporters": [exporter],
        }
        for signal in Signal
    }


def _sampler(percentage: float) -> dict[str, Any]:
    return {"probabilistic_sampler": {"sampling_percentage": percentage}}


def _forward(kind: str, to: str, compression: str, *, samples: bool = False) -> Any:
    """Return the configuration of a link: what comes goes on to the next one, whole and in order.

    Args:
        samples: through a sampler that keeps everything and says so.
    """

    def config(ports: Ports) -> dict[str, Any]:
        return base(
            ports,
            **_LIMITS,
            processors=_sampler(100),
            exporters=_link(kind, endpoint=to, compression=compression),
            pipelines=_pipelines("", kind, _SAMPLED if samples else {}),
        )

    return config


def _end(ports: Ports) -> dict[str, Any]:
    """Return the configuration of the last link."""
    return base(
        ports, **_LIMITS, exporters={"otlp_http": to_sink(ports)}, pipelines=_pipelines("", "otlp_http")
    )


def _address(process: Process, kind: str) -> str:
    host, port = process.grpc if kind == "otlp_grpc" else process.http
    return f"{host}:{port}" if kind == "otlp_grpc" else f"http://{host}:{port}"


@pytest.mark.parametrize(
    ("kind", "compression"),
    [
        *itertools.product(("otlp_grpc", "otlp_http"), ("none", "gzip", "zstd", "snappy")),
        *itertools.product(("otlp_http",), ("zlib", "deflate", "lz4", "x-snappy-framed")),
    ],
)
def test_chain_loses_and_changes_nothing(kind: str, compression: str, tmp_path: Path) -> None:
    """Spans, points and records arrive as they were sent, once each, and in order, after both hops."""
    spans = inputs.requests(inputs.marked_spans(4), otlp.traces)
    records = inputs.requests(inputs.records(5, "record", marked=True), otlp.logs)

    with (
        Sink() as sink,
        Process("collector", _end, sink.server_port, tmp_path) as last,
        Process("spansieve", _forward(kind, _address(last, kind), compression), 0, tmp_path) as middle,
        Process("collector", _forward(kind, _address(middle, kind), compression), 0, tmp_path) as first,
    ):
        send(first, Signal.TRACES, spans)
        send(first, Signal.LOGS, records)
        send(first, Signal.METRICS, [GOLDEN[Signal.METRICS]])
        for process in (first, middle, last):
            process.stop()
        arrived = {signal: sink.received(f"/v1/{signal.value}") for signal in Signal}

    for signal, sent in ((Signal.TRACES, spans), (Signal.LOGS, records)):
        theirs, ours = items_by_name(signal, sent), items_by_name(signal, arrived[signal])
        assert list(theirs) == list(ours)
        assert theirs == ours
    points = [normalise(otlp.decode(Signal.METRICS, body)) for body in arrived[Signal.METRICS]]
    assert [otlp.decode(Signal.METRICS, GOLDEN[Signal.METRICS])] == points


_MEDIA_TYPES = {
    **dict.fromkeys((".json", ".txt"), "application/json"),
    **dict.fromkeys((".pb", ".bin", ".binpb"), "application/x-protobuf"),
}
_CAPTURES = {
    "astronomy-oteltraces.zst": Signal.TRACES,
    "hipstershop-oteltraces.zst": Signal.TRACES,
    "hostandcollector-otelmetrics.zst": Signal.METRICS,
    "hipstershop-otelmetrics.zst": Signal.METRICS,
}
_EACH = 10  # messages of a capture of which one is sent; those of one message are sent whole


def _real_requests() -> Iterator[tuple[Signal, bytes]]:
    """Yield what may be requests, of the corpus: captures' messages, and each file as a request of each signal."""
    for capture, signal in _CAPTURES.items():
        for message in corpus.messages(capture)[::_EACH]:
            yield (
                signal,
                http_request(HTTP_PATHS[signal], message, [("Content-Type", "application/x-protobuf")]),
            )
    for path in sorted(corpus.FOLDER.rglob("*")):
        if path.suffix in _MEDIA_TYPES and path.is_file():
            headers = [("Content-Type", _MEDIA_TYPES[path.suffix])]
            for signal in Signal:
                yield signal, http_request(HTTP_PATHS[signal], path.read_bytes(), headers)


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd", "snappy"])
@pytest.mark.parametrize("kind", ["otlp_grpc", "otlp_http"])
def test_chain_passes_real_data_byte_for_byte(kind: str, compression: str, tmp_path: Path) -> None:
    """Behind us a Collector writes what it writes without us, the order of everything included, sampled at 100 %."""

    def first_config(ports: Ports) -> dict[str, Any]:
        config = _forward(kind, _address(middle, kind), compression)(ports)
        config["exporters"] |= _link(
            "otlp_http/direct", endpoint=f"http://127.0.0.1:{ports.sink}/direct", compression="none"
        )
        config["service"]["pipelines"] |= _pipelines("/direct", "otlp_http/direct", _SAMPLED)
        return config

    with (
        Sink() as sink,
        Process("collector", _end, sink.server_port, tmp_path) as last,
        Process(
            "spansieve", _forward(kind, _address(last, kind), compression, samples=True), 0, tmp_path
        ) as middle,
        Process("collector", first_config, sink.server_port, tmp_path) as first,
    ):
        taken = [exchange(first.http, request).status for _, request in _real_requests()].count(200)
        for process in (first, middle, last):
            process.stop()
        direct, chain = (
            {path: sink.received(f"{prefix}{path}") for path in HTTP_PATHS.values()}
            for prefix in ("/direct", "")
        )
    assert taken > 100
    assert {path: len(bodies) for path, bodies in direct.items()} == {
        path: len(bodies) for path, bodies in chain.items()
    }
    assert direct == chain


def test_unchanged_data_passes_as_the_bytes_that_came(tmp_path: Path) -> None:
    """Alone between a client and a backend we add, lose and move nothing: unknown fields and OTLP 0.7 included."""
    unknown = b"\xfa\x3e\x03odd"  # field 1007
    bodies = [
        (signal, message)
        for capture, signal in _CAPTURES.items()
        for message in corpus.messages(capture)[::_EACH]
    ]
    bodies += [(signal, GOLDEN[signal] + unknown) for signal in Signal]
    for path in sorted(corpus.path("honeycombio+husky").rglob("*.binpb")):
        bodies.append((Signal.METRICS, path.read_bytes()))
    with Sink() as sink:
        with Process("spansieve", _end, sink.server_port, tmp_path) as process:
            for signal, body in bodies:
                headers = [("Content-Type", "application/x-protobuf")]
                assert 200 == exchange(process.http, http_request(HTTP_PATHS[signal], body, headers)).status
        for signal in Signal:
            sent = [
                body
                for which, body in bodies
                if which is signal and any(otlp.items(otlp.decode(signal, body)))
            ]
            assert sent == sink.received(HTTP_PATHS[signal])
