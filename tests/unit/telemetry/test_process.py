"""What is read of the process and its limits, from real and made-up files."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from collector.telemetry.process import ProcessMetrics, read_memory, read_memory_limit


def test_memory_agrees_with_the_system() -> None:
    """Within what changes between two looks."""
    memory = read_memory()
    status = Path("/proc/self/status").read_text()
    rss = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))
    assert abs(memory.rss_bytes - rss) < 4 << 20
    assert 0 < memory.anonymous_bytes < memory.rss_bytes


def test_metrics_have_the_collectors_names() -> None:
    """Uptime counts from when the metrics were made."""
    clock = iter([100.0, 102.5])
    runtime = SimpleNamespace(in_flight_bytes=7)
    samples = {
        sample.instrument.name: sample.value
        for sample in ProcessMetrics(runtime, lambda: next(clock)).samples()  # type: ignore[arg-type]
    }
    assert 2.5 == samples["otelcol_process_uptime"]
    assert 7 == samples["spansieve_in_flight_bytes"]
    assert {
        "otelcol_process_cpu_seconds",
        "otelcol_process_memory_rss",
        "otelcol_process_runtime_heap_alloc_bytes",
    } < set(samples)


def _write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1048576\n"},
        {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1048576\n"},
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/memory.max": "1048576\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
        },
        {"proc/self/cgroup": "0::/of/the/host\n", "sys/fs/cgroup/memory.max": "1048576\n"},
        {
            "proc/self/cgroup": "5:cpu:/x\n4:memory,x:/a\n0::/\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1048576\n",
        },
    ],
    ids=["v2", "v2 nested", "v2 of a parent", "v2 container", "v1"],
)
def test_cgroup_limit_is_found(tmp_path: Path, files: dict[str, str]) -> None:
    """The smallest limit on the way to the process's own group binds."""
    assert 1 << 20 == read_memory_limit(_write(tmp_path, files))


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"},
        {
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    ],
    ids=["no cgroup", "v2 without", "v1 without"],
)
def test_without_limit_it_is_the_machines_memory(tmp_path: Path, files: dict[str, str]) -> None:
    """No limit is not an infinite one."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert total == read_memory_limit(_write(tmp_path, files))


def test_memory_is_read_without_opening_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may have used up all file descriptors when the memory limiter looks."""
    before = read_memory()

    def open_nothing(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(os, "open", open_nothing)
    monkeypatch.setattr("builtins.open", open_nothing)
    after = read_memory()
    monkeypatch.undo()
    assert min(before.rss_bytes, after.rss_bytes) > 0
