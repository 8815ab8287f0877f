"""Processes that are measured: where they run, what they cost with all their children, how they start and end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[1]
READY_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 45.0
_POLL_S = 0.001


class MissingTool(Exception):
    """A program that a measurement needs is not there."""


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

    @classmethod
    def choose(cls) -> Self:
        """Return the first two cores that this process may use, or twice the only one."""
        usable = sorted(os.sched_getaffinity(0))
        return cls(usable[0], usable[1 % len(usable)])


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """Return command so that it runs on core alone."""
    return [find_tool("taskset", "util-linux"), "-c", str(core), *command]


def free_ports(count: int) -> list[int]:
    """Return different ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time, user and system, of a process and all its children so far.

    It is the sum that /proc/PID/stat has in ticks of 10 ms, in nanoseconds: each process's CPU-time clock, whose id is
    made from the pid as clock_getcpuclockid(3) does. Children that have ended are counted in ticks.

    Raises:
        RuntimeError: the process has ended.
    """
    total = 0.0
    for member in _tree(pid):
        with contextlib.suppress(OSError):  # a child may end in between
            total += time.clock_gettime(~member << 3 | 2)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError as error:
        raise RuntimeError(f"process {pid} has ended") from error
    return total + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid: int, field: str) -> int:
    """Return a field of /proc/PID/status that is in kB, such as VmRSS, summed over a process and all its children.

    Raises:
        RuntimeError: the process has ended.
    """
    total = 0
    for member in _tree(pid):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{member}/status").read_text(encoding="ascii", errors="replace")
            found = re.search(rf"^{field}:\s*(\d+) kB", status, re.MULTILINE)
            total += int(found[1]) * 1024 if found else 0
    if not total:
        raise RuntimeError(f"process {pid} has ended")
    return total


def resident_by_mapping(pid: int) -> Counter[str]:
    """Return the resident bytes of a process and all its children, by the file that is mapped or what else it is."""
    found: Counter[str] = Counter()
    for member in _tree(pid):
        name = ""
        for line in Path(f"/proc/{member}/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
            if head := re.match(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+\s*(.*)$", line):
                name = head[1].rpartition("/")[2] or "anonymous: heap arenas, stacks, buffers"
            elif size := re.match(r"^Rss:\s+(\d+) kB", line):
                found[name] += int(size[1]) * 1024
    return found


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                yield from _tree(int(child))


class Process:
    """A program on a core of its own, whose complaints are kept for the error message.

    Args:
        log: a file to be written.
    """

    def __init__(
        self, command: Sequence[str], *, core: int, log: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        # Bytecode is used and kept, as that of an installed package is.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._command = command
        self._log = log
        self.started = time.monotonic()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                pinned(core, command),
                env={**inherited, **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def connect(self, port: int) -> socket.socket:
        """Return a connection to it as soon as it listens; this is tried each millisecond.

        Raises:
            RuntimeError: it ended or did not listen in time, with what it said.
        """
        while self._process.poll() is None and time.monotonic() < self.started + READY_TIMEOUT_S:
            with contextlib.suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", port), timeout=READY_TIMEOUT_S)
            time.sleep(_POLL_S)
        raise RuntimeError(f"{' '.join(self._command)} does not listen:\n{self.said()}")

    def wait_until_it_listens(self, port: int) -> None:
        """Return once it accepts connections.

        Raises:
            RuntimeError: see connect.
        """
        self.connect(port).close()

    def said(self) -> str:
        """Return the end of what it has written."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-2_000:]

    def stop(self) -> None:
        """Let it finish, and end it; safe twice."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
