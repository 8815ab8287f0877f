"""What the project wants to reach, beside what a run has measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bench.figures import KINDS, OURS, Figure, Run
from bench.tables import Table, number

_FILE = Path(__file__).with_name("targets.yaml")


def load() -> list[dict[str, Any]]:
    """Return the targets: `ship` and `goal` for the figure that the other keys name."""
    targets: list[dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return targets


def verdict(figure: Figure, *, ship: float, goal: float) -> str:
    """Return `goal`, `ship`, or `missed`."""

    def meets(bound: float) -> bool:
        return figure.value <= bound if KINDS[figure.kind].less_is_better else figure.value >= bound

    return "goal" if meets(goal) else "ship" if meets(ship) else "missed"


def table(run: Run) -> Table:
    """Return a row for each target that the run has a figure for."""
    rows = []
    for target in load():
        criteria = {key: value for key, value in target.items() if key not in {"kind", "ship", "goal"}}
        figure = next(run.find(target["kind"], **{"system": OURS, **criteria}), None)
        if figure is None:
            continue
        kind = KINDS[figure.kind]
        beside = f" of {figure.system}" if figure.system != OURS else ""
        what = ", ".join(filter(None, (f"{kind.title}{beside}", figure.scenario, figure.case)))
        rows.append(
            (
                what,
                f"{number(figure.value)} {kind.unit}",
                number(target["ship"]),
                number(target["goal"]),
                verdict(figure, ship=target["ship"], goal=target["goal"]),
            )
        )
    return Table("Targets", ("", "measured", "ship", "goal", ""), tuple(rows))
