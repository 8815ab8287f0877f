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
_ELSEWHERE = "†"

# What a reader wants to know first: kind, words, and which figure of that kind. Of several scenarios the first one
# counts that a system is in: those of the targets, or for rotel, which cannot do them, gzip.
_PROCESS = ("sidecar", "gzip")
_ROWS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("cpu", "pass-through, 1 span a request, µs of CPU a span", {"scenario": "pass_through", "items": 1}),
    ("cpu", "pass-through, 10 spans", {"scenario": "pass_through", "items": 10}),
    ("cpu", "pass-through, 512 spans", {"scenario": "pass_through", "items": 512}),
    ("cpu", "sidecar (a tenth kept, filtered, edited, zstd), 10 spans", {"scenario": "sidecar", "items": 10}),
    ("cpu", "sidecar, 512 spans", {"scenario": "sidecar", "items": 512}),
    ("cpu", "all kept, zstd, 512 spans", {"scenario": "keep_all", "items": 512}),
    ("cpu", "all kept, gzip, 512 spans", {"scenario": "gzip", "items": 512}),
    ("cpu", "metrics, a label removed, 512 points", {"scenario": "metrics_label", "items": 512}),
    ("cpu", "logs, 512 records", {"scenario": "logs", "items": 512}),
    ("wire", "bytes out a span, all kept, zstd", {"scenario": "keep_all", "items": 512}),
    ("idle_rss", "memory, idle, MB", {"scenario": _PROCESS}),
    ("peak_rss", "memory, 64 connections x 512 spans, MB", {"scenario": _PROCESS, "connections": 64}),
    ("overload_rss", "memory, twice the load and a stopped backend, MB", {}),
    ("latency_p50", "acknowledgement, 10 spans, 1,000 requests/s, p50, µs", {"rate": 1000}),
    ("added_p50", "… more than from the backend itself, p50, µs", {"rate": 1000}),
    ("added_p99", "… p99, µs", {"rate": 1000}),
    ("latency_p50", "acknowledgement at 20 % load, p50, µs", {"load": 20}),
    ("latency_p99", "… p99, µs", {"load": 20}),
    ("start", "start to first accepted request, ms", {"scenario": _PROCESS}),
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
    rows = [f"| {words} | {' | '.join(cells)} |" for words, cells in _cells(run, systems)]
    lines = [
        f"| less is better | {' | '.join(systems)} |",
        f"|---|{'---:|' * len(systems)}",
        *rows,
        "",
        f"{kept}, {run.date[:10]}{', a quick run' if run.quick else ''}: {versions}; {run.machine['cores']} x "
        f"{run.machine['cpu']}. A dash: not measured, or the system cannot do it.{_explained(rows)}",
    ]
    return "\n".join(lines) + "\n"


def _explained(rows: list[str]) -> str:
    """Return what the marks mean that are in rows."""
    meanings = {
        "*": " A star: what came out was not all right; the run says what was wrong.",
        _ELSEWHERE: f" {_ELSEWHERE}: in the gzip scenario, since it cannot do the sidecar's.",
    }
    return "".join(words for mark, words in meanings.items() if any(mark in row for row in rows))


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
        usual = {"bodies": None, **({"streams": 1, "connections": 4} if "items" in criteria else {})}
        cells = [_cell(run, kind, {"system": name, **usual, **criteria}) for name in systems]
        if any(cell != "-" for cell in cells):
            yield words, cells


def _cell(run: Run, kind: str, criteria: dict[str, Any]) -> str:
    scenarios = criteria.get("scenario")
    if not isinstance(scenarios, tuple):
        found = next(run.find(kind, **criteria), None)
        return f"{number(found.value)}{found.mark}" if found else "-"
    for mark, scenario in zip(("", _ELSEWHERE), scenarios, strict=True):
        if (cell := _cell(run, kind, {**criteria, "scenario": scenario})) != "-":
            return f"{cell}{mark}"
    return "-"
