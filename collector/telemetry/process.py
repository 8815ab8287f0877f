"""What the operating system says of this process, under the Collector's names.

The Collector's `otelcol_process_runtime_*` describe the heap of Go; of these only the bytes in use have a
counterpart here: anonymous memory in RAM.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from collector.lean import TYPE_CHECKING, NamedTuple
from collector.telemetry.instruments import Instrument, Sample

if TYPE_CHECKING:
    from collector.native.runtime import Runtime

_UPTIME = Instrument("otelcol_process_uptime", "counter", "Uptime of the process.", "seconds")
_CPU = Instrument("otelcol_process_cpu_seconds", "counter", "Total CPU user and system time in seconds.")
_RSS = Instrument(
    "otelcol_process_memory_rss", "gauge", "Total physical memory (resident set size).", "bytes"
)
_HEAP = Instrument(
    "otelcol_process_runtime_heap_alloc_bytes", "gauge", "Bytes of anonymous memory in RAM: heap and stacks."
)
_IN_FLIGHT = Instrument("spansieve_in_flight_bytes", "gauge", "Bytes held for requests, batches and queues.")

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Memory(NamedTuple):
    """Bytes of this process in RAM; anonymous is the part that no file backs."""

    rss_bytes: int
    anonymous_bytes: int


class _Statm:
    """The file that tells it, open from the first look on: later there may be no descriptor left to open it with."""

    fd = -1


def read_memory() -> Memory:
    """Return the memory of this process now."""
    if _Statm.fd < 0:
        _Statm.fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    _size, resident, shared = map(int, os.pread(_Statm.fd, 256, 0).split()[:3])
    return Memory(resident * _PAGE, (resident - shared) * _PAGE)


def read_memory_limit(root: str = "/") -> int:
    """Return the bytes of memory that this process may use: its cgroup's limit, at most the machine's memory.

    Args:
        root: directory that holds `proc` and `sys`.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * _PAGE]
    for line in _read(root, "proc/self/cgroup").splitlines():
        _hierarchy, controllers, path = line.split(":", 2)
        if not controllers:
            folder, name = "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # A limit binds all below it; inside a container the path may be the host's, and only the top is there.
        steps = [step for step in path.split("/") if step]
        for depth in range(len(steps) + 1):
            text = _read(root, folder, *steps[:depth], name).strip()
            if text.isdigit():
                limits.append(int(text))
    return min(limits)


def _read(*path: str) -> str:
    try:
        with open(os.path.join(*path), encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class ProcessMetrics:
    """Metrics of the process, which counts as started when this is made."""

    def __init__(self, runtime: Runtime, clock: Callable[[], float]) -> None:
        self._runtime = runtime
        self._clock = clock
        self._start_s = clock()

    def samples(self) -> Iterator[Sample]:
        """Return them as they are now."""
        memory = read_memory()
        yield Sample(_UPTIME, (), self._clock() - self._start_s)
        yield Sample(_CPU, (), time.process_time())
        yield Sample(_RSS, (), memory.rss_bytes)
        yield Sample(_HEAP, (), memory.anonymous_bytes)
        yield Sample(_IN_FLIGHT, (), self._runtime.in_flight_bytes)
