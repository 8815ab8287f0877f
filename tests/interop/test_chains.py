"""Collector -> spansieve -> Collector: each understands what the other sends, in every compression, both transports."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from collector.ids import Signal
from tests.conformance.bodies import GOLDEN
from tests.interop import inputs
from tests.interop.harness import Ports, Process, Sink, base, items_by_name, normalise, to_sink
from tests.interop.test_sampler import send
from tests.support import otlp


def _forward(kind: str, to: str, compression: str) -> Any:
    """Return the configuration of a link: what comes goes on to the next one, whole and in order."""

    def config(ports: Ports) -> dict[str, Any]:
        exporter = {
            "endpoint": to,
            "compression": compression,
            "tls": {"insecure": True},
            "sending_queue": {"num_consumers": 1, "queue_size": 1000},
        }
        pipelines = {signal.value: {"receivers": ["otlp"], "exporters": [kind]} for signal in Signal}
        return base(ports, exporters={kind: exporter}, pipelines=pipelines)

    return config


def _end(ports: Ports) -> dict[str, Any]:
    """Return the configuration of the last link."""
    pipelines = {signal.value: {"receivers": ["otlp"], "exporters": ["otlp_http"]} for signal in Signal}
    return base(ports, exporters={"otlp_http": to_sink(ports)}, pipelines=pipelines)


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

    def address(process: Process) -> str:
        host, port = process.grpc if kind == "otlp_grpc" else process.http
        return f"{host}:{port}" if kind == "otlp_grpc" else f"http://{host}:{port}"

    with (
        Sink() as sink,
        Process("collector", _end, sink.server_port, tmp_path) as last,
        Process("spansieve", _forward(kind, address(last), compression), 0, tmp_path) as middle,
        Process("collector", _forward(kind, address(middle), compression), 0, tmp_path) as first,
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
