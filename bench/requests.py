"""CPU time of a request: spansieve's whole pipeline beside servers that throw the request away."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.bodies import Bodies, Body
from bench.process import memory_bytes
from bench.report import Figure, figure_of
from bench.servers import (
    PATH,
    Collector,
    Cores,
    configure_collector,
    cpu_seconds,
    find_tool,
    free_port,
    grpcio_command,
    nghttpd_command,
    pinned,
    running,
)

_CONNECTIONS = 4
_WARM_UP = 10  # one in so many requests comes before the measured ones
_GRPCIO_SHARE = 10  # grpcio is slow: one in so many requests is enough of it
_MICROSECONDS = 1e6


class Case(NamedTuple):
    """A kind of request.

    Attributes:
        streams: at once on each connection.
        requests: in one measurement.
        at_most: times the yardstick.
    """

    spans: int
    streams: int
    requests: int
    at_most: float


CASES = (Case(1, 1, 12_000, 1.6), Case(10, 10, 20_000, 1.6), Case(512, 4, 2_000, 2.0))


class Load(NamedTuple):
    """Sends one body over and over: h2load on a core of its own."""

    file: Path
    body: Body
    streams: int
    core: int

    def send(self, port: int, requests: int) -> None:
        """Send requests and wait for their answers.

        Raises:
            RuntimeError: not all were answered with HTTP status 200.
        """
        command = [
            find_tool("h2load", "nghttp2-client"),
            "-t",
            "1",
            "-c",
            str(_CONNECTIONS),
            "-m",
            str(self.streams),
        ]
        command += ["-n", str(requests), "-d", str(self.file), "-H", "content-type: application/grpc"]
        command += ["-H", "te: trailers", f"http://127.0.0.1:{port}{PATH}"]
        result = subprocess.run(pinned(self.core, command), capture_output=True, text=True, check=False)
        if succeeded(result.stdout) != requests:
            raise RuntimeError(
                f"{requests} requests were sent, but h2load says:\n{result.stdout}{result.stderr}"
            )


def succeeded(output: str) -> int:
    """Return how many requests h2load says were answered with success."""
    found = re.search(r"(\d+) succeeded", output)
    return int(found[1]) if found else 0


def measure(
    bodies: Bodies, folder: Path, cores: Cores, rounds: int, progress: Callable[[str], None]
) -> Iterator[Figure]:
    """Yield the figures of each case."""
    nghttpd_port, grpcio_port = free_port(), free_port()
    collector = configure_collector(folder)
    commands = {
        "nghttpd": (nghttpd_command(folder, nghttpd_port), nghttpd_port),
        "grpcio": (grpcio_command(grpcio_port), grpcio_port),
        "spansieve": (collector.command, collector.port),
    }
    with contextlib.ExitStack() as stack:
        servers = {}
        for name, (command, port) in commands.items():
            process = stack.enter_context(running(pinned(cores.server, command), port))
            servers[name] = Server(process.pid, port)
        for case in CASES:
            body = bodies.of_spans[case.spans]
            file = folder / f"{case.spans}.grpc"
            file.write_bytes(body.grpc_message)
            load = Load(file, body, case.streams, cores.load)
            yield from _measure_case(case, load, servers, collector, rounds, progress)
        peak_mb = memory_bytes(servers["spansieve"].pid, "VmHWM") / 1e6
        yield Figure(name="peak RSS under this load", value=peak_mb, unit="MB")


class Server(NamedTuple):
    """A server that runs, a process of its own."""

    pid: int
    port: int

    def cost_of(self, load: Load, requests: int) -> float:
        """Return the CPU time of a request in µs."""
        before = cpu_seconds(self.pid)
        load.send(self.port, requests)
        return (cpu_seconds(self.pid) - before) / requests * _MICROSECONDS


def _measure_case(
    case: Case,
    load: Load,
    servers: Mapping[str, Server],
    collector: Collector,
    rounds: int,
    progress: Callable[[str], None],
) -> Iterator[Figure]:
    yardstick, avoided, ours = servers["nghttpd"], servers["grpcio"], servers["spansieve"]
    before = _accepted(collector)
    for server in (yardstick, ours):
        load.send(server.port, case.requests // _WARM_UP)
    costs: dict[str, list[float]] = {"nghttpd": [], "spansieve": [], "grpcio": []}
    ratios = []
    for number in range(1, rounds + 1):
        progress(f"{case.spans} span(s) a request: round {number} of {rounds}")
        # A B B A: what drifts evenly during a round burdens both alike.
        first = yardstick.cost_of(load, case.requests)
        second, third = (ours.cost_of(load, case.requests) for _ in range(2))
        fourth = yardstick.cost_of(load, case.requests)
        costs["nghttpd"] += [first, fourth]
        costs["spansieve"] += [second, third]
        costs["grpcio"].append(avoided.cost_of(load, case.requests // _GRPCIO_SHARE))
        ratios.append((second + third) / (first + fourth))
    sent = case.requests * 2 * rounds + case.requests // _WARM_UP
    if _accepted(collector) - before != sent * case.spans:
        raise RuntimeError(
            f"the collector did not accept all spans of {sent} requests: the figures mean nothing"
        )
    what = f"{case.spans} span{'s' if case.spans > 1 else ''}, {len(load.body.data):,} B"
    streams = f"{case.streams} stream{'s' if case.streams > 1 else ''} a connection; keeps {load.body.kept}"
    yield figure_of(f"{what}: spansieve / nghttpd", ratios, "x", at_most=case.at_most, note=streams)
    for name in ("spansieve", "nghttpd", "grpcio"):
        yield figure_of(f"  {name}, CPU a request", costs[name], "us")


def _accepted(collector: Collector) -> float:
    return collector.metric("otelcol_receiver_accepted_spans")
