"""Ask the ratio samplers of real SDKs what they keep, and write it down: `python -m tests.interop.samplers.record`.

Needs Go, Node, Java with Maven, Rust, and package registries; works in build/samplers. What it writes,
tests/data/sampler/sdk_ratio.txt, is read by tests/unit/processors/test_sdk_ratio.py, which needs none of them.

The trace ids are chosen to show differences: for each ratio those just below, at and above the limit of each way to
compute it, ids with zero, constant, counting and all-ones parts, and random ones.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WORK = ROOT / "build" / "samplers"
OUT = ROOT / "tests" / "data" / "sampler" / "sdk_ratio.txt"

RATIOS = (
    0.0,
    1e-19,
    2e-17,
    1e-10,
    0.001,
    0.01,
    0.05,
    0.1,
    0.2,
    0.25,
    0.333,
    1 / 3,
    0.5,
    0.999,
    1 - 2**-53,
    1.0,
)
KNUTH_INVERSE = pow(1111111111111111111, -1, 2**64)
LOW = 2**64 - 1


class Program(NamedTuple):
    """A program that reads ratios and ids and prints a line of 0 and 1 for each ratio.

    Attributes:
        prepare: builds it, in its copy under WORK.
        run: starts it.
        version: prints the version of the library, as the last word.
    """

    folder: str
    prepare: Sequence[Sequence[str]]
    run: Sequence[str]
    version: Sequence[str]


_GO_GET = (
    ("go", "mod", "init", "samplers"),
    ("go", "mod", "tidy"),
    ("go", "build", "-o", "samplers", "."),
)
_VENV = str(WORK / "venv" / "bin")
_PYTHON = (
    (sys.executable, "-m", "venv", str(WORK / "venv")),
    (f"{_VENV}/pip", "install", "--quiet", "opentelemetry-sdk", "ddtrace"),
)
_PIP_SHOW = "from importlib.metadata import version; print(version('{}'))"

PROGRAMS: Mapping[str, Program] = {
    "python": Program(
        "python",
        _PYTHON,
        (f"{_VENV}/python", "main.py", "python"),
        (f"{_VENV}/python", "-c", _PIP_SHOW.format("opentelemetry-sdk")),
    ),
    "go": Program("go", _GO_GET, ("./samplers", "go"), ("go", "list", "-m", "go.opentelemetry.io/otel/sdk")),
    "java": Program(
        "java",
        (("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"),),
        ("java", "-cp", "jars/*", "Main.java"),
        ("sh", "-c", "ls jars | sed -n 's/opentelemetry-sdk-trace-\\(.*\\).jar/\\1/p'"),
    ),
    "js": Program(
        "js",
        (("npm", "install", "--silent", "--no-fund", "--no-audit"),),
        ("node", "main.js"),
        ("node", "-p", "require('@opentelemetry/sdk-trace-base/package.json').version"),
    ),
    "rust": Program(
        "rust",
        (("cargo", "build", "--quiet", "--jobs", "2"),),
        ("./target/debug/samplers",),
        ("sh", "-c", "cargo tree --depth 1 | sed -n 's/.*opentelemetry_sdk v//p'"),
    ),
    "jaeger": Program(
        "go", _GO_GET, ("./samplers", "jaeger"), ("go", "list", "-m", "github.com/uber/jaeger-client-go")
    ),
    "datadog": Program(
        "go", _GO_GET, ("./samplers", "datadog"), ("go", "list", "-m", "github.com/DataDog/dd-trace-go/v2")
    ),
    "ddtrace": Program(
        "python",
        _PYTHON,
        (f"{_VENV}/python", "main.py", "ddtrace"),
        (f"{_VENV}/python", "-c", _PIP_SHOW.format("ddtrace")),
    ),
}


def trace_ids() -> list[str]:
    """Return the trace ids, without all zeros, which is none."""
    rng = random.Random("trace ids")
    found = dict.fromkeys(_special())
    for ratio in RATIOS:
        for limit_bits in (32, 63, 64):
            limit = int(ratio * 2**limit_bits)
            for number in {limit + step & 2**limit_bits - 1 for step in (-1, 0, 1)}:
                found.update(dict.fromkeys(_with(number, limit_bits, rng)))
    found.update((rng.getrandbits(128), None) for _ in range(64))
    found.pop(0, None)
    return [f"{id:032x}" for id in found]


def _special() -> Iterator[int]:
    halves = (0, 1, 2, 2**63 - 1, 2**63, 2**63 + 1, LOW, LOW - 1, 0x0123456789ABCDEF, 0xFFFFFFFF, 1 << 32)
    for high in halves:
        for low in halves:
            yield high << 64 | low


def _with(number: int, bits: int, rng: random.Random) -> Iterator[int]:
    """Yield ids of which some SDK makes number."""
    other = rng.getrandbits(64)
    if bits == 32:
        words = [rng.getrandbits(32) for _ in range(3)]
        yield words[0] << 96 | words[1] << 64 | words[2] << 32 | words[0] ^ words[1] ^ words[2] ^ number
    elif bits == 64:
        yield other << 64 | number
        yield other << 64 | number * KNUTH_INVERSE & LOW
    else:
        yield other << 64 | number
        yield other << 64 | -number & LOW
        yield other << 64 | number << 1
        yield other << 64 | number | 1 << 63
        yield number << 64 | other


def ask(program: Program, request: str) -> tuple[str, list[str]]:
    """Return the version of a program's library and its answers."""
    folder = WORK / program.folder
    for command in () if folder.exists() else program.prepare:
        shutil.copytree(HERE / program.folder, folder, dirs_exist_ok=True)
        subprocess.run(command, cwd=folder, check=True)
    version = subprocess.run(program.version, cwd=folder, check=True, capture_output=True, text=True)
    answer = subprocess.run(
        program.run, cwd=folder, check=True, capture_output=True, text=True, input=request
    )
    return version.stdout.split()[-1].lstrip("v"), answer.stdout.split()


def main() -> None:
    """Write the file."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    ids = trace_ids()
    request = "\n".join([" ".join(map(repr, RATIOS)), *ids, ""])
    lines = [
        "# Written by tests/interop/samplers/record.py. Trace ids; then by SDK, version and ratio, as bits of a"
    ]
    lines += ["# hexadecimal number, the first id's the highest, which of them the SDK keeps.", *ids]
    for sdk, program in PROGRAMS.items():
        version, answers = ask(program, request)
        for ratio, answer in zip(RATIOS, answers, strict=True):
            if len(answer) != len(ids):
                raise ValueError(f"{sdk} at {ratio}: {len(answer)} answers to {len(ids)} questions")
            lines.append(f"{sdk} {version} {ratio!r} {int(answer, 2):x}")
        print(f"{sdk} {version}: {len(ids) * len(answers)} decisions")
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
