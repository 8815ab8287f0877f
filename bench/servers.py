"""The servers that are measured, each a process of its own, and what their work costs them."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.bodies import SAMPLING_PERCENTAGE

PATH = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

# Both HTTP/2 servers offer these flow-control windows: spansieve's defaults.
_STREAM_WINDOW_BITS = 21
_CONNECTION_WINDOW_BITS = 23

_READY_TIMEOUT_S = 20.0


class MissingTool(Exception):
    """A program that a measurement needs is not installed."""


def find_tool(name: str, package: str) -> str:
    """Return the path of a program.

    Raises:
        MissingTool: with the package to install.
    """
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise MissingTool(f"{name} is not installed: install {package} (Debian, Ubuntu)")
    return found


class Cores(NamedTuple):
    """Where processes run, so that the load does not displace the server."""

    server: int
    load: int


def choose_cores() -> Cores:
    """Return the first two cores that this process may use, or twice the only one."""
    usable = sorted(os.sched_getaffinity(0))
    return Cores(usable[0], usable[1 % len(usable)])


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """Return command so that it runs on core alone."""
    return [find_tool("taskset", "util-linux"), "-c", str(core), *command]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time, user and system, of a whole process so far.

    It is the sum that /proc/PID/stat has in ticks of 10 ms, in nanoseconds: the process's CPU-time clock, whose id is
    made from the pid as clock_getcpuclockid(3) does.
    """
    return time.clock_gettime(~pid << 3 | 2)


def environment() -> dict[str, str]:
    """Return what servers see: bytecode is used and kept, as that of an installed package is."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(command: Sequence[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; it is entered once the server listens."""
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not _connects(port):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"{command} does not listen: {process.communicate()[1].decode()}")
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _connects(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Collector(NamedTuple):
    """A configured collector: otlp, 10 % sampled, low-value spans filtered, batched, discarded.

    Attributes:
        port: of OTLP/gRPC.
        metrics_port: of its own telemetry, which is on as by default.
    """

    command: list[str]
    port: int
    metrics_port: int

    def metric(self, name: str) -> float:
        """Return the sum of a metric's series on the running collector's page."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        return sum_of_series(lines, name)


def sum_of_series(lines: Sequence[str], name: str) -> float:
    """Return the sum of a metric's series on a Prometheus page; a counter may end in `_total`."""
    values = [
        float(line.rpartition(" ")[2])
        for line in lines
        if line.partition("{")[0].partition(" ")[0] in (name, f"{name}_total")
    ]
    return sum(values)


def configure_collector(folder: Path) -> Collector:
    """Write the configuration of the measured pipeline."""
    port, metrics_port = free_port(), free_port()
    file = folder / "bench.yaml"
    file.write_text(
        f"""
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
processors:
  probabilistic_sampler: {{sampling_percentage: {SAMPLING_PERCENTAGE}}}
  low_value_filter:
  batch:
exporters: {{nop: }}
service:
  telemetry:
    metrics: {{readers: [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: {metrics_port}}}}}}}}}]}}
  pipelines:
    traces:
      receivers: [otlp]
      processors: [probabilistic_sampler, low_value_filter, batch]
      exporters: [nop]
""",
        encoding="utf-8",
    )
    spansieve = str(Path(sys.executable).parent / "spansieve")
    return Collector([spansieve, "--config", str(file)], port, metrics_port)


def nghttpd_command(folder: Path, port: int) -> list[str]:
    """Return the yardstick: it takes the body, drops it and answers with the five bytes of an empty gRPC message."""
    file = folder.joinpath("htdocs", *PATH.split("/"))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(5))
    program = find_tool("nghttpd", "nghttp2-server")
    windows = ["-w", str(_STREAM_WINDOW_BITS), "-W", str(_CONNECTION_WINDOW_BITS)]
    return [program, "--no-tls", "-a", "127.0.0.1", "-d", str(folder / "htdocs"), *windows, str(port)]


def grpcio_command(port: int) -> list[str]:
    """Return what is avoided: grpcio with a handler that does nothing."""
    return [sys.executable, "-m", "bench.servers", str(port)]


def serve_grpcio(port: int) -> None:
    """Answer every Export with an empty message, bytes in and out, until the process ends."""
    from concurrent import futures

    import grpc

    def handle(_request: bytes, _context: Any) -> bytes:
        return b""

    service, method = PATH.strip("/").split("/")
    handler = grpc.method_handlers_generic_handler(
        service, {method: grpc.unary_unary_rpc_method_handler(handle)}
    )
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    serve_grpcio(int(sys.argv[1]))
