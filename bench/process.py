"""A collector as a process: how soon it serves, and what it takes while it waits."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.bodies import Body
from bench.report import Figure, figure_of
from bench.servers import PATH, configure_collector, cpu_seconds, environment, running

_IDLE_COLLECTORS = 3
_STARTS = 9
_SETTLE_S = 3.0
_START_TIMEOUT_S = 20.0
_POLL_S = 0.001
_RSS_AT_MOST_MB = 20
_START_AT_MOST_MS = 150


def measure(body: Body, folder: Path, progress: Callable[[str], None]) -> Iterator[Figure]:
    """Yield idle RSS and the time to the first accepted request."""
    rss_mb = []
    for number in range(1, _IDLE_COLLECTORS + 1):
        progress(f"idle RSS: collector {number} of {_IDLE_COLLECTORS}")
        collector = configure_collector(folder)
        with running(collector.command, collector.port) as process:
            time.sleep(_SETTLE_S)
            rss_mb.append(memory_bytes(process.pid, "VmRSS") / 1e6)
    yield figure_of(
        "idle RSS", rss_mb, "MB", at_most=_RSS_AT_MOST_MB, note=f"{_SETTLE_S:.0f} s after the start"
    )
    starts = []
    for number in range(1, _STARTS + 1):
        progress(f"start: collector {number} of {_STARTS}")
        starts.append(_time_start(body, folder))
    walls_ms, cpus_ms = ([seconds * 1e3 for seconds in column] for column in zip(*starts, strict=True))
    yield figure_of("start to first accepted request", walls_ms, "ms", at_most=_START_AT_MOST_MS)
    yield figure_of(
        "  CPU until then", cpus_ms, "ms", note="less than the above where other work takes turns"
    )


def memory_bytes(pid: int, field: str) -> int:
    """Return a field of /proc/PID/status that is in kB, such as VmRSS."""
    found = re.search(rf"{field}:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    if found is None:
        raise RuntimeError(f"process {pid} has ended")
    return int(found[1]) * 1024


def _time_start(body: Body, folder: Path) -> tuple[float, float]:
    """Return the seconds from the spawn of a collector to the gRPC answer OK, and its CPU time until then."""
    collector = configure_collector(folder)
    begin = time.monotonic()
    process = subprocess.Popen(
        collector.command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with _connect(collector.port, process, begin + _START_TIMEOUT_S) as connection:
            export_once(connection, body.grpc_message)
        return time.monotonic() - begin, cpu_seconds(process.pid)
    finally:
        process.terminate()
        process.wait()


def _connect(port: int, process: subprocess.Popen[bytes], deadline: float) -> socket.socket:
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        time.sleep(_POLL_S)
    raise RuntimeError("the collector does not accept connections")


def export_once(connection: socket.socket, grpc_message: bytes) -> None:
    """Make one gRPC call.

    Raises:
        RuntimeError: it was not answered with status OK.
    """
    import h2.config
    import h2.connection
    import h2.events

    session = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    session.initiate_connection()
    headers = [(":method", "POST"), (":scheme", "http"), (":path", PATH), (":authority", "127.0.0.1")]
    session.send_headers(1, [*headers, ("content-type", "application/grpc"), ("te", "trailers")])
    session.send_data(1, grpc_message, end_stream=True)
    connection.sendall(session.data_to_send())
    while data := connection.recv(65536):
        for event in session.receive_data(data):
            if (
                isinstance(event, h2.events.TrailersReceived)
                and dict(event.headers).get("grpc-status") == "0"
            ):
                return
            if isinstance(event, h2.events.StreamEnded):
                raise RuntimeError("the collector refused a request")
        connection.sendall(session.data_to_send())
    raise RuntimeError("the collector closed the connection")
