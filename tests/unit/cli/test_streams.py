"""What becomes of a command whose standard streams are closed, full, or of another encoding."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).parents[3]
CONFIG = """yaml:{receivers: {otlp: {protocols: {http: }}}, exporters: {nop/größe: },
service: {pipelines: {traces: {receivers: [otlp], exporters: [nop/größe]}}}}"""
ALL = "<&- >&- 2>&-"
PRINTERS = (
    ["components"],
    ["docs", "batch"],
    ["featuregate"],
    ["print-config", "--config", CONFIG],
    ["print-config", "--format", "json", "--config", CONFIG],
    ["schema"],
    ["--help"],
    ["--version"],
)


def command(arguments: list[str], closed: str) -> list[str]:
    """Return the command line of spansieve with streams closed."""
    return ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "collector", *arguments]


def spansieve(
    arguments: list[str],
    *,
    stdout: int | IO[bytes] = subprocess.PIPE,
    closed: str = "",
    **environment: str,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command; closed is what a shell says to close streams, as in `2>&-`."""
    return subprocess.run(
        command(arguments, closed),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", PRINTERS)
def test_full_output_is_told_in_a_line(arguments: list[str]) -> None:
    """A disk without room is an error of one line, not a traceback."""
    with open("/dev/full", "wb") as full:
        done = spansieve(arguments, stdout=full)
    assert (1, b"Error: cannot write to standard output: no space left on device\n") == (
        done.returncode,
        done.stderr,
    )


@pytest.mark.parametrize("arguments", PRINTERS)
def test_reader_that_has_gone_is_no_fault(arguments: list[str]) -> None:
    """`spansieve schema | head` says nothing of the rest."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = spansieve(arguments, stdout=pipe)
    assert (1, b"") == (done.returncode, done.stderr)


def test_closed_streams_are_those_of_nobody() -> None:
    """What is printed is dropped then, and goes to no file that has taken the number."""
    done = spansieve(["components"], closed=ALL)
    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
    done = spansieve(["validate", "--config", "yaml:a: b"], closed="2>&-")
    assert (1, b"") == (done.returncode, done.stdout)


@pytest.mark.parametrize("format", ["yaml", "json"])
def test_output_is_utf8_in_every_locale(format: str) -> None:
    """A configuration that loads also prints."""
    done = spansieve(["print-config", "--format", format, "--config", CONFIG], PYTHONIOENCODING="ascii")
    assert (0, b"") == (done.returncode, done.stderr)
    assert "nop/größe" in done.stdout.decode()


def test_arguments_that_are_no_text_are_shown() -> None:
    """A name in another encoding than the locale's is quoted as well as it can be."""
    done = spansieve(["validate", "--config", os.fsdecode(b"gr\xf6.yaml")])
    assert 1 == done.returncode
    assert b"cannot read 'gr\\udcf6.yaml': no such file or directory" in done.stderr


def test_run_without_standard_streams_serves(tmp_path: Path) -> None:
    """As a daemon started without them: its sockets are none of the three."""
    path = tmp_path / "socket"
    config = f"""yaml:{{receivers: {{otlp: {{protocols: {{grpc: {{endpoint: {path}, transport: unix}}}}}}}},
exporters: {{nop: }}, service: {{telemetry: {{metrics: {{level: none}}}},
pipelines: {{traces: {{receivers: [otlp], exporters: [nop]}}}}}}}}"""
    process = subprocess.Popen(command(["--config", config], ALL), cwd=ROOT)
    try:
        deadline_s = time.monotonic() + 60
        while not path.exists() and process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.01)
        streams = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)]
        assert [os.devnull] * 3 == streams
    finally:
        process.terminate()
        assert 0 == process.wait(60)
