"""Instructions that an item costs between the socket and the batch, counted by callgrind.

Generated requests give the same counts wherever the same compiler and C library are used: they are what `--compare`
holds on to first. Of captured ones, where these are, the counts are shown as well.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import bodies, recut
from bench.figures import OURS, Figure
from bench.place import Place
from bench.processes import ROOT, MissingTool, find_tool
from collector.ids import Signal
from collector.processors.low_value_filter import HEALTH_CHECKS

_REPEATS = 6
# The C library chooses its copying by the processor; so that it does not, wherever this runs.
_PLAIN_LIBC = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512VL,-AVX512F,-AVX512BW,-AVX2,-ERMS,-FSRM"}


class Stage(NamedTuple):
    """Letters of kernel.c with what the last one adds to those before."""

    letters: str
    name: str


class Kernel(NamedTuple):
    """Stages that follow one another, over requests of one signal."""

    name: str
    signal: Signal
    requests: Sequence[bytes]
    stages: Sequence[Stage]


_SPAN_STAGES = (
    Stage("s", "scan"),
    Stage("sp", "sampler"),
    Stage("spf", "low-value filter"),
    Stage("spfd", "attribute deletion"),
    Stage("spfde", "emit"),
)
# Of all spans, not only of those that a sampler leaves.
_DELETION_STAGES = (Stage("s", "scan"), Stage("sd", "attribute deletion"), Stage("sde", "emit"))
_POINT_STAGES = (Stage("s", "scan"), Stage("st", "label removal"), Stage("ste", "emit"))


def kernels() -> list[Kernel]:
    """Return all that is counted here."""
    found = [
        Kernel("kernel, spans", Signal.TRACES, recut.for_kernel(captured=False), _SPAN_STAGES),
        Kernel("kernel, all spans", Signal.TRACES, recut.for_kernel(captured=False), _DELETION_STAGES),
        Kernel(
            "kernel, points",
            Signal.METRICS,
            recut.of_items(Signal.METRICS, 512, captured=False)[:2],
            _POINT_STAGES,
        ),
        Kernel(
            "kernel, logs",
            Signal.LOGS,
            recut.of_items(Signal.LOGS, 512, captured=False)[:2],
            (Stage("s", "scan"), Stage("se", "emit")),
        ),
    ]
    if bodies.are_captured():
        captured = recut.for_kernel(captured=True)
        found.append(Kernel("kernel, captured spans", Signal.TRACES, captured, _SPAN_STAGES))
        found.append(Kernel("kernel, all captured spans", Signal.TRACES, captured, _DELETION_STAGES))
    return found


def steps() -> int:
    """Return how often measure will say what it does."""
    return 1 + sum(len(kernel.stages) for kernel in kernels())


def measure(place: Place) -> Iterator[Figure]:
    """Yield instructions an item of each stage, and of all together.

    Raises:
        MissingTool: no compiler, no valgrind, or no library that was built.
    """
    place.say("kernel: compiling")
    program = _compile(place.folder)
    for kernel in kernels():
        files = _write(kernel, place.folder)
        before = 0.0
        for stage in kernel.stages:
            place.say(f"{kernel.name}: instructions up to {stage.name}")
            # By difference: what the program does once, such as reading its files, drops out.
            (once, n_items), (often, _) = (
                _count(program, repeats, kernel.signal, stage.letters, files) for repeats in (1, _REPEATS)
            )
            total = (often - once) / (_REPEATS - 1) / n_items
            yield _figure(f"{kernel.name}: {stage.name}", total - before)
            before = total
        yield _figure(f"{kernel.name}: all stages", before)


def functions(place: Place, scenario: str) -> str:
    """Return the instructions of a stage and of those before it by function.

    Args:
        scenario: of a figure of this part, `kernel: stage`.

    Raises:
        MissingTool: see measure.
    """
    name, _, stage_name = scenario.partition(": ")
    kernel = next(kernel for kernel in kernels() if kernel.name == name)
    stage = next((stage for stage in kernel.stages if stage.name == stage_name), kernel.stages[-1])
    counts = place.folder / "callgrind.out"
    _count(
        _compile(place.folder), _REPEATS, kernel.signal, stage.letters, _write(kernel, place.folder), counts
    )
    return annotate(counts)


def annotate(counts: Path) -> str:
    """Return callgrind's counts by function.

    Raises:
        MissingTool: no callgrind_annotate.
    """
    tool = find_tool("callgrind_annotate", "valgrind")
    command = [tool, "--auto=no", "--threshold=99", str(counts)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _write(kernel: Kernel, folder: Path) -> list[Path]:
    """Write the requests of a kernel, a file each."""
    files = [folder / f"{kernel.name}-{number}.otlp" for number in range(len(kernel.requests))]
    for file, request in zip(files, kernel.requests, strict=True):
        file.write_bytes(request)
    return files


def _figure(scenario: str, value: float) -> Figure:
    return Figure(kind="instructions", scenario=scenario, system=OURS, values=(value,))


def _compile(folder: Path) -> Path:
    """Compile kernel.c against the library that the Python module was linked from."""
    built = sorted(ROOT.glob("build/cp*/libspansieve.a"), key=lambda path: path.stat().st_mtime)
    if not built:
        raise MissingTool("build/*/libspansieve.a is not there: run `make build`")
    program = folder / "kernel"
    native = ROOT / "native"
    command = [find_tool("cc", "gcc"), "-O2", "-std=gnu11", f"-I{native}", f"-I{native / 'include'}"]
    command += ["-o", str(program), str(ROOT / "bench" / "kernel.c"), str(built[-1])]
    command += ["-lpthread", "-lm", "-lpcre2-8"]
    subprocess.run(command, check=True)
    return program


def _count(
    program: Path,
    repeats: int,
    signal: Signal,
    stages: str,
    files: Sequence[Path],
    counts: Path = Path("/dev/null"),
) -> tuple[int, int]:
    """Return the instructions of a run of the program and the items of one repeat; write all counts to a file."""
    command = [
        *(find_tool("valgrind", "valgrind"), "--tool=callgrind", f"--callgrind-out-file={counts}"),
        *(str(program), str(repeats), str(signal.number), stages, ",".join(HEALTH_CHECKS)),
        *map(str, files),
    ]
    variables = {**os.environ, **_PLAIN_LIBC}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    found = re.search(r"Collected : (\d+)", result.stderr)
    if found is None:
        raise RuntimeError(f"callgrind counted nothing:\n{result.stderr}")
    return int(found[1]), int(result.stdout)
