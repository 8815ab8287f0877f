"""The performance table of the README, made from a stored run; a test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.figures import OURS, Run
from bench.processes import ROOT
from bench.tables import number

RESULTS = ROOT / "bench" / "results"
README = ROOT / "README.md"
_BEGIN, _END = (
    "<!-- performance: from bench/results, by `spansieve bench --keep` -->",
    "<!-- /performance -->",
)
_PEERS = ("otelcol", "rotel")

# What a reader wants to know first: kind, words, and which figure of that kind.
_ROWS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("cpu", "pass-through, 1 span a request, µs of CPU a span", {"scenario": "pass_through", "items": 1}),
    ("cpu", "pass-through, 10 spans", {"scenario": "pass_through", "items": 10}),
    ("cpu", "pass-through, 512 spans", {"scenario": "pass_through", "items": 512}),
    ("cpu", "sidecar (a tenth kept, filtered, zstd), 10 spans", {"scenario": "sidecar", "items": 10}),
    ("cpu", "sidecar, 512 spans", {"scenario": "sidecar", "items": 512}),
    ("cpu", "all kept, zstd, 512 spans", {"scenario": "keep_all", "items": 512}),
    ("cpu", "all kept, gzip, 512 spans", {"scenario": "gzip", "items": 512}),
    ("cpu", "metrics, a label removed, 512 points", {"scenario": "metrics_label", "items": 512}),
    ("cpu", "logs, 512 records", {"scenario": "logs", "items": 512}),
    ("wire", "bytes out a span, all kept, zstd", {"scenario": "keep_all", "items": 512}),
    ("idle_rss", "memory, idle, MB", {"scenario": "gzip"}),
    ("peak_rss", "memory, 64 connections x 512 spans, MB", {"scenario": "gzip", "connections": 64}),
    ("overload_rss", "memory, twice the load and a stopped backend, MB", {}),
    ("latency_p50", "acknowledgement at 20 % load, p50, µs", {"load": 20}),
    ("latency_p99", "… p99, µs", {"load": 20}),
    ("start", "start to first accepted request, ms", {"scenario": "gzip"}),
)


def runs() -> dict[str, Run]:
    """Return the stored runs by release, in the order of their dates."""
    found = {path.stem: Run.read(path) for path in sorted(RESULTS.glob("*.json"))}
    return dict(sorted(found.items(), key=lambda pair: pair[1].date))


def render(release: str, run: Run) -> str:
    """Return the table of a run, with where it comes from."""
    systems = [name for name in (OURS, *_PEERS) if not run.systems.get(name, "missing").startswith("missing")]
    versions = ", ".join(f"{name} {run.systems[name]}" for name in systems)
    kept = f"[bench/results/{release}.json](bench/results/{release}.json)"
    lines = [
        f"| less is better | {' | '.join(systems)} |",
        f"|---|{'---:|' * len(systems)}",
        *(f"| {words} | {' | '.join(cells)} |" for words, cells in _cells(run, systems)),
        "",
        f"{kept}, {run.date[:10]}{', a quick run' if run.quick else ''}: {versions}; {run.machine['cores']} x "
        f"{run.machine['cpu']}. A dash: not measured, or the system cannot do it.{_starred(run)}",
    ]
    return "\n".join(lines) + "\n"


def _starred(run: Run) -> str:
    """Return what a star means, where there is one."""
    if all(figure.is_correct for figure in run.figures):
        return ""
    return " A star: what came out was not all right; the run says what was wrong."


def update(path: Path = README) -> None:
    """Write the table of the newest stored run into the README."""
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(f"{_BEGIN}\n")
    _, after = rest.split(_END)
    release, run = list(runs().items())[-1]
    path.write_text(f"{before}{_BEGIN}\n{render(release, run)}{_END}{after}", encoding="utf-8")


def shown(path: Path = README) -> str:
    """Return the table that the README has."""
    return path.read_text(encoding="utf-8").split(f"{_BEGIN}\n")[1].split(_END)[0]


def _cells(run: Run, systems: list[str]) -> Iterator[tuple[str, list[str]]]:
    for kind, words, criteria in _ROWS:
        usual = {"streams": 1, "connections": 4} if "items" in criteria else {}
        cells = []
        for name in systems:
            figure = next(run.find(kind, system=name, **usual, **criteria), None)
            cells.append(f"{number(figure.value)}{figure.mark}" if figure else "-")
        if any(cell != "-" for cell in cells):
            yield words, cells
