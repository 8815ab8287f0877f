"""The load generator and the sink of bench/, as processes; without them the tests that need them are skipped."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pytest

from collector.ids import Signal

TOOLS = Path(os.environ.get("SPANSIEVE_BENCH_TOOLS", Path(__file__).parents[2] / "build" / "bench"))
WAIT_S = 60.0

needs_tools = pytest.mark.skipif(
    not (TOOLS / "spansieve-load").exists(), reason="build/bench is not there: make bench-tools"
)


def write_bodies(path: Path, requests: Iterable[bytes]) -> Path:
    """Write the file that the load generator reads."""
    path.write_bytes(b"".join(struct.pack(">I", len(request)) + request for request in requests))
    return path


def read_record(path: Path) -> list[tuple[Signal, bytes]]:
    """Return the requests that a sink has recorded."""
    data, position, found = path.read_bytes(), 0, []
    while position < len(data):
        number, length = struct.unpack_from(">BI", data, position)
        position += 5 + length
        found.append((list(Signal)[number], data[position - length : position]))
    return found


def load_command(target: str, bodies: Path, *options: str, **choices: Any) -> list[str]:
    """Return the command of a load; choices override `protocol` grpc and `signal` traces."""
    choices = {"protocol": "grpc", "signal": "traces", **choices}
    command = [str(TOOLS / "spansieve-load"), "--target", target, "--bodies", str(bodies)]
    for name, value in choices.items():
        command += [f"--{name}", str(value)]
    return command + list(options)


def load(target: str, bodies: Path, *options: str, **choices: Any) -> dict[str, Any]:
    """Run a load that is answered and return what it says.

    Raises:
        AssertionError: it failed, with its words.
    """
    result = subprocess.run(
        load_command(target, bodies, *options, **choices),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


class Sink:
    """A sink that runs until the block ends; its report then is `last`.

    Attributes:
        grpc: its address for OTLP/gRPC.
        http: the other one.
    """

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [str(TOOLS / "spansieve-sink"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        word, *ports = self._line().split()
        assert "listening" == word
        self.grpc, self.http = (f"127.0.0.1:{port}" for port in ports)
        self.last: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.end()

    def command(self, line: str) -> None:
        """Give a command; it is in effect once a later report has come."""
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def report(self) -> dict[str, Any]:
        """Return what it has counted."""
        self.command("report")
        found: dict[str, Any] = json.loads(self._line())
        return found

    def wait_for(self, **counts: int) -> dict[str, Any]:
        """Return the first report whose counts are at least these.

        Raises:
            AssertionError: they are not within WAIT_S.
        """
        deadline_s = time.monotonic() + WAIT_S
        while True:
            report = self.report()
            if all(report[name] >= least for name, least in counts.items()):
                return report
            assert time.monotonic() < deadline_s, f"waited in vain for {counts}: {report}"

    def close_stdin(self) -> None:
        """Say that no more commands will come."""
        assert self._process.stdin
        self._process.stdin.close()

    def end(self) -> str:
        """End it by SIGTERM; return what it wrote to stderr.

        Raises:
            AssertionError: it did not end with 0.
        """
        self._process.terminate()
        assert self._process.stdout
        assert self._process.stderr
        out, errors = self._process.stdout.read(), self._process.stderr.read()
        if self._process.stdin:
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.stderr.close()
        assert 0 == self._process.wait(WAIT_S), errors
        self.last = json.loads(out)
        return errors

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()
