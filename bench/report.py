"""The figures of a run, as a table for people and as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured value and the target it is held against.

    Attributes:
        value: None when it could not be measured; then note says why.
        at_most: the target; so is at_least. Neither: the figure is only shown.
        spread: least and greatest of the repeats.
    """

    name: str
    value: float | None
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    spread: tuple[float, float] | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """`pass`, `miss`, or nothing where there is no target or no value."""
        if self.value is None or (self.at_most is None and self.at_least is None):
            return ""
        over = self.at_most is not None and self.value > self.at_most
        under = self.at_least is not None and self.value < self.at_least
        return "miss" if over or under else "pass"


def figure_of(name: str, values: Sequence[float], unit: str, **rest: Any) -> Figure:
    """Return the figure of repeated measurements: their median, least and greatest."""
    return Figure(name=name, value=median(values), unit=unit, spread=(min(values), max(values)), **rest)


def table(figures: Sequence[Figure]) -> str:
    """Return figures as lines with aligned columns."""
    rows = [("figure", "measured", "min - max", "target", "", "")]
    for figure in figures:
        target = _number(figure.at_most, "<= ") or _number(figure.at_least, ">= ")
        value = "-" if figure.value is None else f"{_number(figure.value)} {figure.unit}".rstrip()
        spread = " - ".join(_number(end) for end in figure.spread or ())
        rows.append((figure.name, value, spread, target, figure.verdict, figure.note))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _number(value: float | None, prefix: str = "") -> str:
    if value is None:
        return ""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{prefix}{value:,.{digits}f}"


def machine() -> str:
    """Return what the run ran on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = f"{len(models)} x {models[0].partition(':')[2].strip()}" if models else model
    return f"{model}, Linux {platform.release()}, Python {platform.python_version()}"


def write_json(path: Path, header: Mapping[str, str], figures: Sequence[Figure]) -> None:
    """Write the run to path."""
    rows = [{**dataclasses.asdict(figure), "verdict": figure.verdict} for figure in figures]
    path.write_text(json.dumps({**header, "figures": rows}, indent=2) + "\n", encoding="utf-8")
