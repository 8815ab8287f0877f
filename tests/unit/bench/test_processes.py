from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from bench.processes import MissingTool, Process, cpu_seconds, find_tool, free_ports, memory_bytes


def test_cpu_time_is_that_of_the_whole_process() -> None:
    """The clock made from the pid is the process's own."""
    before = time.process_time()
    measured = cpu_seconds(os.getpid())
    assert before <= measured


def test_children_count_while_they_live_and_after(tmp_path: Path) -> None:
    """A collector that hands its work to another process has done it all the same."""
    burn = "import time\nwhile time.process_time() < 0.2: pass\n"
    script = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n"
        f"child = subprocess.Popen([sys.executable, '-c', {burn + 'input()'!r}], stdin=subprocess.PIPE)\n"
        "print('ready', flush=True)\nsys.stdin.read()\nchild.wait()\n"
    )
    core = min(os.sched_getaffinity(0))
    log = tmp_path / "log"
    with Process([sys.executable, "-c", script], core=core, log=log) as process:
        deadline = time.monotonic() + 60
        while cpu_seconds(process.pid) < 0.4 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert cpu_seconds(process.pid) >= 0.4


def test_memory_is_read_in_bytes() -> None:
    """A field of the status page, for a process that lives."""
    assert 1_000_000 < memory_bytes(os.getpid(), "VmRSS") <= memory_bytes(os.getpid(), "VmHWM") * 1.01


def test_missing_tool_names_its_package() -> None:
    """What cannot be measured says what to install."""
    with pytest.raises(MissingTool, match="install some-package"):
        find_tool("no-such-program-anywhere", "some-package")


def test_a_program_that_does_not_start_says_why(tmp_path: Path) -> None:
    """Its last words are in the error."""
    (port,) = free_ports(1)
    core = min(os.sched_getaffinity(0))
    command = [sys.executable, "-c", "raise SystemExit('no such key')"]
    with (
        Process(command, core=core, log=tmp_path / "log") as process,
        pytest.raises(RuntimeError, match="does not listen:\nno such key"),
    ):
        process.connect(port)
