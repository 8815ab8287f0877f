"""What a collector takes while nothing happens: memory and wake-ups, as /proc has them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collector.native.library import has_net
from tests.integration.harness import make_config, start, wait_for
from tests.integration.test_acceptance_run import IS_SANITIZED

pytestmark = pytest.mark.skipif(not has_net(), reason="about the native transport")

OWN_BYTES = 6_200_000  # beside Python itself, which differs from release to release
PROCESSORS = {"probabilistic_sampler": {"sampling_percentage": 10}, "low_value_filter": None, "batch": None}


def rss_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.findall(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)[0]) * 1024


def wake_ups(pid: int) -> int:
    """Return how often threads of a process have gone to sleep so far."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text(encoding="ascii")
        total += int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[0])
    return total


def _wake_ups_of_a_second(pid: int) -> int:
    before = wake_ups(pid)
    time.sleep(1)
    return wake_ups(pid) - before


@pytest.mark.skipif(IS_SANITIZED, reason="the resident set is mostly the sanitizer's")
def test_memory_is_little_more_than_pythons(tmp_path: Path) -> None:
    """Once the start's own memory is given back."""
    wait_forever = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", wait_forever]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as python:
        assert python.stdout is not None
        python.stdout.readline()
        bare = rss_bytes(python.pid)
        python.kill()
    with start(tmp_path / "config.yaml", make_config(9, processors=PROCESSORS)) as spansieve:
        wait_for(lambda: rss_bytes(spansieve._process.pid) - bare < OWN_BYTES)


def test_sleeps_until_something_happens(tmp_path: Path) -> None:
    """Only the receiver's look at strangers, every five seconds, wakes a thread, once the start has come to rest."""
    with start(tmp_path / "config.yaml", make_config(9, processors=PROCESSORS)) as spansieve:
        wait_for(lambda: _wake_ups_of_a_second(spansieve._process.pid) <= 2)
