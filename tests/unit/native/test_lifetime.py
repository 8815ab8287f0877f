"""Native handles may die in any order, as the garbage collector of a cycle chooses."""

from __future__ import annotations

import os
import subprocess
import sys

_PROGRAM = """
import gc
from collector.ids import Signal
from collector.native.pipeline import Queue, Receiver
from collector.native.runtime import Runtime, Worker

def leave_a_cycle():
    runtime = Runtime()
    worker = Worker(runtime)
    queue = Queue(runtime, Signal.TRACES, sizer="bytes", capacity=1 << 20)
    receiver = Receiver(runtime)
    receiver.publish(Signal.TRACES, queue)
    queue.push(worker, bytes.fromhex("0a00"))
    runtime.cycle = [runtime, worker, queue, receiver]

for _ in range(100):
    leave_a_cycle()
    gc.collect()
print("alive")
"""


def test_handles_in_a_cycle_are_freed_without_touching_freed_memory() -> None:
    """A runtime that is collected before its workers and queues stays until they are gone."""
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert (0, "alive\n") == (process.returncode, process.stdout), process.stderr
