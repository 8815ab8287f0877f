"""A system as a process: how soon it serves, what it takes while it waits, and at most under load."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

from bench import recut
from bench.figures import Figure
from bench.place import Place
from bench.processes import cpu_seconds, memory_bytes
from bench.scenarios import Scenario
from bench.tools import Sink
from collector.ids import Signal

_SETTLE_S = 3.0
_IDLE_S, _QUICK_IDLE_S = 10.0, 3.0
_LOADED_S = 2.0
_STARTS, _QUICK_STARTS = 7, 3
_MEMORIES, _QUICK_MEMORIES = 2, 1
_PATH = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_MB = 1e6


def _repeats(place: Place) -> tuple[int, int]:
    return (_QUICK_STARTS, _QUICK_MEMORIES) if place.is_quick else (_STARTS, _MEMORIES)


def steps(scenario: Scenario, place: Place) -> int:
    """Return how often measure will say what it does."""
    return sum(_repeats(place)) * len(place.names(scenario)) if scenario.process else 0


def measure(scenario: Scenario, place: Place) -> Iterator[Figure]:
    """Yield start, idle RSS and CPU, and peak RSS of each system of a scenario of spans."""
    case = scenario.process
    if case is None:
        return
    n_starts, n_memories = _repeats(place)
    load = place.load(scenario.signal, case.items, streams=case.streams, connections=case.connections)
    body = recut.of_items(Signal.TRACES, 1)[0]
    with Sink(place.cores.load) as sink:
        for name in place.names(scenario):
            starts, idle, spent, peak = [], [], [], []
            for number in range(1, n_starts + 1):
                place.say(f"start of {name}: {number} of {n_starts}")
                starts.append(_start(name, scenario, body, sink, place))
            for number in range(1, n_memories + 1):
                place.say(f"memory of {name}: {number} of {n_memories}")
                with place.start(name, scenario, sink.port) as server:
                    time.sleep(_SETTLE_S)
                    idle.append(memory_bytes(server.pid, "VmRSS") / _MB)
                    spent.append(_idle_cpu(server.pid, _QUICK_IDLE_S if place.is_quick else _IDLE_S))
                    load.send(server.port, duration_s=_LOADED_S)
                    peak.append(memory_bytes(server.pid, "VmHWM") / _MB)
            for kind, values in (
                ("start", [wall for wall, _ in starts]),
                ("start_cpu", [cpu for _, cpu in starts]),
                ("idle_rss", idle),
                ("idle_cpu", spent),
            ):
                yield Figure(kind=kind, scenario=scenario.name, system=name, values=tuple(values))
            yield Figure(
                kind="peak_rss", scenario=scenario.name, system=name, values=tuple(peak), **case._asdict()
            )


def _idle_cpu(pid: int, seconds: float) -> float:
    """Return percents of a core."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began) * 100


def _start(name: str, scenario: Scenario, body: bytes, sink: Sink, place: Place) -> tuple[float, float]:
    """Return the milliseconds from the spawn to the gRPC answer OK, and of CPU time until then."""
    with place.start(name, scenario, sink.port, wait=False) as server:
        with server.process.connect(server.port) as connection:
            export_once(connection, body)
        elapsed = time.monotonic() - server.process.started
        return elapsed * 1e3, cpu_seconds(server.pid) * 1e3


def export_once(connection: socket.socket, request: bytes) -> None:
    """Make one gRPC call.

    Raises:
        RuntimeError: it was not answered with status OK.
    """
    import h2.config
    import h2.connection
    import h2.events

    session = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    session.initiate_connection()
    headers = [(":method", "POST"), (":scheme", "http"), (":path", _PATH), (":authority", "127.0.0.1")]
    session.send_headers(1, [*headers, ("content-type", "application/grpc"), ("te", "trailers")])
    session.send_data(1, struct.pack(">BI", 0, len(request)) + request, end_stream=True)
    connection.sendall(session.data_to_send())
    while data := connection.recv(65536):
        for event in session.receive_data(data):
            if isinstance(event, h2.events.TrailersReceived) and (b"grpc-status", b"0") in map(
                tuple, event.headers
            ):
                return
            if isinstance(event, h2.events.StreamEnded):
                raise RuntimeError("the collector refused a request")
        connection.sendall(session.data_to_send())
    raise RuntimeError("the collector closed the connection")
