"""The real Collector at the other end of TLS, as client and as server, and what both do with odd handshakes."""

from __future__ import annotations

import contextlib
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from collector.ids import Signal
from tests.interop import inputs
from tests.interop.harness import SIDES, Ports, Process, Sink, base, items_by_name, to_sink
from tests.interop.test_sampler import send
from tests.support import otlp
from tests.support.certificates import Authority

_PIPELINE = {"receivers": ["otlp"], "exporters": ["otlp_http"]}


def _receiver(authority: Authority, name: str) -> dict[str, Any]:
    """Return the keys of a protocol that wants certificates of its clients."""
    return {"tls": {**authority.issue(file=name).keys, "client_ca_file": authority.file}}


def _link(kind: str, to: str, authority: Authority, tls: dict[str, Any] | None) -> Any:
    """Return the configuration of a link whose exporter shows a certificate; tls is of its receiver."""

    def config(ports: Ports) -> dict[str, Any]:
        exporter = {
            "endpoint": to,
            "tls": {"ca_file": authority.file, **authority.issue("client.example", file="client").keys},
            "sending_queue": {"num_consumers": 1, "queue_size": 1000},
        }
        pipelines = {"traces": {"receivers": ["otlp"], "exporters": [kind]}}
        return base(ports, exporters={kind: exporter}, pipelines=pipelines, grpc=tls or {}, http=tls or {})

    return config


def _end(tls: dict[str, Any]) -> Any:
    def config(ports: Ports) -> dict[str, Any]:
        return base(
            ports,
            exporters={"otlp_http": to_sink(ports)},
            pipelines={"traces": _PIPELINE},
            grpc=tls,
            http=tls,
        )

    return config


@pytest.mark.parametrize("kind", ["otlp_grpc", "otlp_http"])
def test_chain_over_tls_loses_and_changes_nothing(kind: str, tmp_path: Path) -> None:
    """Collector -> spansieve -> Collector with certificates on both sides of both hops."""
    authority = Authority(tmp_path)
    spans = inputs.requests(inputs.marked_spans(4), otlp.traces)

    def address(process: Process) -> str:
        host, port = process.grpc if kind == "otlp_grpc" else process.http
        return f"{host}:{port}" if kind == "otlp_grpc" else f"https://{host}:{port}"

    with (
        Sink() as sink,
        Process("collector", _end(_receiver(authority, "last")), sink.server_port, tmp_path) as last,
        Process(
            "spansieve", _link(kind, address(last), authority, _receiver(authority, "middle")), 0, tmp_path
        ) as middle,
        Process("collector", _link(kind, address(middle), authority, None), 0, tmp_path) as first,
    ):
        send(first, Signal.TRACES, spans)
        for process in (first, middle, last):
            process.stop()
        arrived = sink.received("/v1/traces")
    sent_items, arrived_items = items_by_name(Signal.TRACES, spans), items_by_name(Signal.TRACES, arrived)
    assert list(sent_items) == list(arrived_items)
    assert sent_items == arrived_items


def _shake_hands(address: tuple[str, int], authority: Authority, **limits: Any) -> str:
    """Return what becomes of a client with these limits: the protocol agreed on, or `refused`."""
    context = ssl.create_default_context(cafile=authority.file)
    if protocols := limits.pop("protocols", ()):
        context.set_alpn_protocols(protocols)
    for name, value in limits.items():
        setattr(context, name, value)
    try:
        with (
            socket.create_connection(address, timeout=10) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
        ):
            connection.settimeout(1)
            with contextlib.suppress(TimeoutError):
                if connection.recv(1) == b"":
                    return "refused"
            return f"{connection.version()} {connection.selected_alpn_protocol()}"
    except OSError:
        return "refused"


def _plain(address: tuple[str, int], _authority: Authority) -> str:
    """Return what a client without TLS is answered."""
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            return b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    return ""


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_handshakes_end_alike(protocol: str, tmp_path: Path) -> None:
    """Versions, protocols and plain text are taken and refused as by the Collector."""
    authority = Authority(tmp_path)
    tls = {"tls": authority.issue().keys}
    old = ssl.TLSVersion.TLSv1_2
    outcomes: dict[str, dict[str, str]] = {}
    for side in SIDES:
        with Sink() as sink, Process(side, _end(tls), sink.server_port, tmp_path) as process:
            address = process.grpc if protocol == "grpc" else process.http
            outcomes[side] = {
                "h2 and http/1.1": _shake_hands(address, authority, protocols=["h2", "http/1.1"]),
                "http/1.1": _shake_hands(address, authority, protocols=["http/1.1"]),
                "h2": _shake_hands(address, authority, protocols=["h2"]),
                "other": _shake_hands(address, authority, protocols=["other"]),
                "no protocol": _shake_hands(address, authority),
                "1.2": _shake_hands(address, authority, protocols=["h2", "http/1.1"], maximum_version=old),
                "plain": _plain(address, authority),
            }
    assert outcomes["collector"] == outcomes["spansieve"]
