"""Instructions that a span costs between the socket and the batch, counted by callgrind."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.bodies import Bodies
from bench.report import Figure
from bench.servers import MissingTool, find_tool
from collector.processors.low_value_filter import HEALTH_CHECKS

_ROOT = Path(__file__).parents[1]
_REPEATS = 11
# Stages by their letters in kernel.c, each set with what it adds to the one before.
_STAGES = (("s", "scan"), ("sp", "sampler"), ("spf", "low-value filter"), ("spfe", "emit"))
_ALL_AT_MOST = 1_200
_SAMPLER_AT_MOST = 80


def measure(bodies: Bodies, folder: Path, progress: Callable[[str], None]) -> Iterator[Figure]:
    """Yield instructions a span of the whole kernel and of each stage, over requests of 512 spans.

    The targets were stated for real data; of generated data how much is kept, and so what it costs, is chance.

    Raises:
        MissingTool: no compiler, no valgrind, or no library that was built.
    """
    program = _compile(folder)
    files = []
    for number, request in enumerate(bodies.kernel):
        files.append(folder / f"kernel{number}.otlp")
        files[-1].write_bytes(request)
    totals = []
    for letters, name in _STAGES:
        progress(f"kernel: instructions up to {name}")
        # By difference: what the program does once, such as reading its files, drops out.
        (once, n_spans), (often, _) = (_count(program, repeats, letters, files) for repeats in (1, _REPEATS))
        totals.append((often - once) / (_REPEATS - 1) / n_spans)
    all_at_most, sampler_at_most = (_ALL_AT_MOST, _SAMPLER_AT_MOST) if bodies.is_real else (None, None)
    yield Figure(name="kernel: all stages", value=totals[-1], unit="instr./span", at_most=all_at_most)
    before = 0.0
    for (_, name), total in zip(_STAGES, totals, strict=True):
        at_most = sampler_at_most if name == "sampler" else None
        yield Figure(name=f"  {name}", value=total - before, unit="instr./span", at_most=at_most)
        before = total


def _compile(folder: Path) -> Path:
    """Compile kernel.c against the library that the Python module was linked from."""
    built = sorted(_ROOT.glob("build/cp*/libspansieve.a"), key=lambda path: path.stat().st_mtime)
    if not built:
        raise MissingTool("build/*/libspansieve.a is not there: run `make build`")
    program = folder / "kernel"
    native = _ROOT / "native"
    command = [find_tool("cc", "gcc"), "-O2", "-std=gnu11", f"-I{native}", f"-I{native / 'include'}"]
    command += ["-o", str(program), str(_ROOT / "bench" / "kernel.c"), str(built[-1]), "-lpthread", "-lm"]
    subprocess.run(command, check=True)
    return program


def _count(program: Path, repeats: int, stages: str, files: Sequence[Path]) -> tuple[int, int]:
    """Return the instructions of a run of the program and the spans of one repeat."""
    command = [
        find_tool("valgrind", "valgrind"),
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        str(program),
    ]
    command += [str(repeats), stages, ",".join(HEALTH_CHECKS), *map(str, files)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"Collected : (\d+)", result.stderr)
    if found is None:
        raise RuntimeError(f"callgrind counted nothing:\n{result.stderr}")
    return int(found[1]), int(result.stdout)
