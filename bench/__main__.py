"""`python -m bench`: measure everything, print one table; exit 0 when every target is met."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench import bodies, compression, kernel, process, report, requests
from bench.report import Figure
from bench.servers import MissingTool, choose_cores

SECTIONS = ("requests", "kernel", "process", "compression")


def main() -> int:
    """Run the sections that the command line names, all by default."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure spansieve beside a yardstick."
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds A B B A of each kind of request (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    chosen = arguments.sections or SECTIONS
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"unknown section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    progress("reading bodies")
    measured = bodies.load()
    cores = choose_cores()
    figures = []
    with tempfile.TemporaryDirectory(prefix="spansieve-bench-") as name:
        folder = Path(name)
        sections: dict[str, Callable[[], Iterable[Figure]]] = {
            "requests": lambda: requests.measure(measured, folder, cores, arguments.rounds, progress),
            "kernel": lambda: kernel.measure(measured, folder, progress),
            "process": lambda: process.measure(measured.of_spans[1], folder, progress),
            "compression": lambda: compression.measure(measured, progress),
        }
        for section in SECTIONS:
            if section in chosen:
                figures += list(available(section, sections[section]))
    progress("")
    header = {
        "machine": report.machine(),
        "bodies": measured.source,
        "cores": f"server on {cores.server}, load on {cores.load}, {arguments.rounds} rounds",
    }
    print("\n".join(f"{key}: {text}" for key, text in header.items()))
    print()
    print(report.table(figures))
    if arguments.json:
        report.write_json(arguments.json, header, figures)
    return int(any(figure.verdict == "miss" for figure in figures))


def available(section: str, measure: Callable[[], Iterable[Figure]]) -> Iterator[Figure]:
    """Yield the figures of a section; one without a value when a tool is missing."""
    try:
        yield from measure()
    except MissingTool as missing:
        yield Figure(name=section, value=None, unit="", note=f"not measured: {missing}")


def progress(what: str) -> None:
    """Show what is being done, on one line that is written over where that is possible."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{what}")
    elif what:
        sys.stderr.write(f"{what}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
