"""The systems that are measured: how each is found, configured and started."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import yaml

from bench.figures import OURS
from bench.processes import ROOT, MissingTool, Process, find_tool, free_ports
from bench.scenarios import Scenario
from collector import __version__

YARDSTICK = "nghttpd"
"""Takes the same requests and throws them away: HTTP/2 and nothing else."""
PEERS = ROOT / "build" / "peers" / "peers.tsv"
_MISSING = "missing: "

# Both HTTP/2 servers offer these flow-control windows: spansieve's defaults.
_STREAM_WINDOW_BITS = 21
_CONNECTION_WINDOW_BITS = 23

_SERVICES = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}


class System(NamedTuple):
    """A system of this machine.

    Attributes:
        program: its path, or nothing; then version says why.
    """

    name: str
    version: str
    program: str

    @property
    def is_missing(self) -> bool:
        """Whether it cannot be measured here."""
        return self.version.startswith(_MISSING)


def find_all() -> dict[str, System]:
    """Return all systems by name, missing ones too."""
    spansieve = System(OURS, _our_version(), str(Path(sys.executable).parent / "spansieve"))
    found = {OURS: spansieve}
    if not PEERS.exists():
        names = ("otelcol", "rotel")
        found.update({name: System(name, f"{_MISSING}run `make peers`", "") for name in names})
    else:
        for line in PEERS.read_text(encoding="utf-8").splitlines():
            name, version, rest = line.split("\t")
            missing = version == "missing"
            found[name] = System(name, f"{_MISSING}{rest}" if missing else version, "" if missing else rest)
    try:
        program = find_tool("nghttpd", "nghttp2-server")
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        found[YARDSTICK] = System(YARDSTICK, said.strip().rpartition("/")[2], program)
    except MissingTool as missing_tool:
        found[YARDSTICK] = System(YARDSTICK, f"{_MISSING}{missing_tool}", "")
    return found


def _our_version() -> str:
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return f"{__version__} ({commit})"


class Server(NamedTuple):
    """A system that runs.

    Attributes:
        port: of OTLP over gRPC.
    """

    name: str
    process: Process
    port: int

    @property
    def pid(self) -> int:
        """Of its first process."""
        return self.process.pid


@contextlib.contextmanager
def running(
    system: System,
    scenario: Scenario,
    *,
    sink_port: int,
    core: int,
    folder: Path,
    wait: bool = True,
    under: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run a system as a scenario says until the block ends.

    Args:
        folder: for its configuration and log.
        wait: enter the block once it listens, else at once.
        under: the command that runs it, where it is not run by itself.
        environment: variables beside those of a scenario.

    Raises:
        RuntimeError: it did not start, with what it said.
    """
    port, http_port, metrics_port = free_ports(3)
    variables = {
        "LISTEN": f"127.0.0.1:{port}",
        "LISTEN_HTTP": f"127.0.0.1:{http_port}",
        "SINK": f"127.0.0.1:{sink_port}",
        "METRICS": str(metrics_port),
    }
    if system.name == YARDSTICK:
        command = _nghttpd(system.program, scenario, folder, port)
    else:
        command = _command(system, scenario.systems[system.name], variables, folder)
    log = folder / f"{system.name}.log"
    variables |= environment or {}
    with Process([*under, *command], core=core, log=log, variables=variables) as process:
        if wait:
            process.wait_until_it_listens(port)
        yield Server(system.name, process, port)


def _command(system: System, how: Any, variables: dict[str, str], folder: Path) -> list[str]:
    if isinstance(how, str):
        return [system.program, *shlex.split(Template(how).substitute(variables))]
    path = folder / f"{system.name}.yaml"
    path.write_text(yaml.safe_dump(how, sort_keys=False), encoding="utf-8")
    return [system.program, "--config", str(path)]


def _nghttpd(program: str, scenario: Scenario, folder: Path, port: int) -> list[str]:
    """Return the command that takes a body, drops it and answers with an empty message and status OK."""
    file = folder / "htdocs" / _SERVICES[scenario.signal.value] / "Export"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(5))
    types = folder / "mime.types"
    types.write_text("application/grpc Export\n", encoding="ascii")
    windows = ["-w", str(_STREAM_WINDOW_BITS), "-W", str(_CONNECTION_WINDOW_BITS)]
    return [
        program,
        *("--no-tls", "-a", "127.0.0.1", "-d", str(folder / "htdocs"), "--trailer", "grpc-status: 0"),
        *("--mime-types-file", str(types), *windows, str(port)),
    ]
