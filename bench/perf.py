"""What a running process spends its CPU time on, as perf sees it: by cost, by thread, by function."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.processes import find_tool

_FREQUENCY = 999  # Hz; no divisor of the timers that programs use
_TIMEOUT_S = 60.0
_KERNEL = "[kernel.kallsyms]"
_HEAD = re.compile(r"^(.*?)\s+(\d+)/(\d+)\s*:?\s*$")
_FRAME = re.compile(r"^\s+[0-9a-f]+ (.+) \((.*)\)$")
_CALL = re.compile(r"^__(?:x64|arm64|se)_sys_(\w+)")
_OUR_LIBRARY = "_spansieve"
_MOST_FUNCTIONS = 40
_MOST_COSTS_OF_A_THREAD = 5
_LEAST_SHARE = 0.005

T = TypeVar("T")


class Frame(NamedTuple):
    """A function, and the program or library that it is of."""

    function: str
    library: str


class Sample(NamedTuple):
    """A moment of CPU time.

    Attributes:
        stack: the innermost function first; may end early, since not all libraries keep frame pointers.
    """

    process: int
    thread: int
    stack: Sequence[Frame]

    @property
    def cost(self) -> str:
        """What the time went into: a system call, a library, or our own C."""
        leaf = self.stack[0]
        if leaf.library == _KERNEL:
            call = next((found[1] for frame in self.stack if (found := _CALL.match(frame.function))), None)
            return f"kernel: {call}" if call else "kernel: interrupts, scheduling and faults"
        return "spansieve's C" if leaf.library.startswith(_OUR_LIBRARY) else leaf.library


def record(pid: int, seconds: float, folder: Path, symbols: Sequence[Path] = ()) -> list[Sample]:
    """Return samples of all threads of a process over a time.

    Args:
        folder: for perf's own files.
        symbols: programs and libraries that name functions which the installed ones do not.

    Raises:
        MissingTool: perf is not installed.
        RuntimeError: it may not look, with what it said.
    """
    perf = find_tool("perf", "linux-perf")
    data, known = str(folder / "perf.data"), ["--buildid-dir", str(folder / "perf.symbols")]
    command = [perf, "record", "-q", "-N", "-e", "cpu-clock", "-F", str(_FREQUENCY), "-g", "-o", data]
    _run([*command, "-p", str(pid), "--", "sleep", str(seconds)])
    for path in symbols:
        _run([perf, *known, "buildid-cache", "--add", str(path)])
    said = _run([perf, *known, "script", "-i", data, "-F", "comm,pid,tid,ip,sym,dso"])
    return list(parse(said))


def _run(command: Sequence[str]) -> str:
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, timeout=_TIMEOUT_S
    )
    if result.returncode:
        raise RuntimeError(f"{command[0]} {command[1]} failed: {result.stderr.strip()}")
    return result.stdout


def parse(text: str) -> Iterator[Sample]:
    """Yield the samples in what `perf script` says."""
    head: re.Match[str] | None = None
    stack: list[Frame] = []
    for line in [*text.splitlines(), ""]:
        if frame := _FRAME.match(line):
            library = frame[2] if frame[2].startswith("[") else frame[2].rpartition("/")[2]
            stack.append(Frame(frame[1], library))
        elif line.strip():
            head = _HEAD.match(line)
        elif head and stack:
            yield Sample(int(head[2]), int(head[3]), tuple(stack))
            head, stack = None, []


def costs(samples: Sequence[Sample]) -> list[tuple[str, float]]:
    """Return what the time went into with its share, the greatest first."""
    return _shares(Counter(sample.cost for sample in samples), len(samples))


def render(samples: Sequence[Sample]) -> str:
    """Return samples as text: costs, costs of each thread, and functions."""
    lines = ["share  cost", *(f"{share:5.1%}  {cost}" for cost, share in costs(samples))]
    threads = Counter((sample.process, sample.thread) for sample in samples)
    for (process, thread), share in _shares(threads, len(samples)):
        kind = "main thread" if process == thread else "thread"
        lines += ["", f"{share:5.1%}  {kind} {thread}, of which"]
        mine = [sample for sample in samples if sample.thread == thread]
        lines += [f"  {part:5.1%}  {cost}" for cost, part in costs(mine)[:_MOST_COSTS_OF_A_THREAD]]
    functions = Counter(sample.stack[0] for sample in samples)
    lines += ["", "share  function"]
    lines += [
        f"{share:5.1%}  {frame.function} ({frame.library})"
        for frame, share in _shares(functions, len(samples))[:_MOST_FUNCTIONS]
    ]
    return "\n".join(lines) + "\n"


def _shares(counts: Counter[T], total: int) -> list[tuple[T, float]]:
    return [(name, n / total) for name, n in counts.most_common() if n / total >= _LEAST_SHARE]
