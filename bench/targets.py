"""What the project wants to reach, beside what a run has measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bench.figures import KINDS, OURS, Figure, Profile, Run
from bench.tables import Table, number

_FILE = Path(__file__).with_name("targets.yaml")
_USUAL = {"system": OURS, "bodies": None}
_CASE = {"streams": 1, "connections": 4}  # of a target with a number of items
_BOUNDS = frozenset({"kind", "ship", "goal"})
_NOTES = (
    "ship: what the project promises; goal: what it would like. Absolute ones were set on another machine: what counts "
    "is the ratio to the peers and yardsticks of the same run.",
)


class Target(NamedTuple):
    """A target and what a run has measured of it."""

    figure: Figure
    ship: float
    goal: float

    @property
    def verdict(self) -> str:
        """`goal`, `ship`, or `missed`."""
        return verdict(self.figure, ship=self.ship, goal=self.goal)

    @property
    def title(self) -> str:
        """What it is of, in words."""
        what = KINDS[self.figure.kind].title.replace("its ", f"{self.figure.system}'s ")
        return ", ".join(filter(None, (what, self.figure.scenario, self.figure.case)))

    @property
    def measured(self) -> str:
        """The value with its unit."""
        return f"{number(self.figure.value)} {KINDS[self.figure.kind].unit}"

    @property
    def factor(self) -> float:
        """By how much it is missed: 1 is on the bound, more is worse; infinite where the bound is 0."""
        value, bound = self.figure.value, self.ship
        worse, better = (value, bound) if KINDS[self.figure.kind].less_is_better else (bound, value)
        return worse / better if better else float("inf")


def load() -> list[dict[str, Any]]:
    """Return the targets: `ship` and `goal` for the figure that the other keys name."""
    targets: list[dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return targets


def verdict(figure: Figure, *, ship: float, goal: float) -> str:
    """Return `goal`, `ship`, or `missed`."""

    def meets(bound: float) -> bool:
        return figure.value <= bound if KINDS[figure.kind].less_is_better else figure.value >= bound

    return "goal" if meets(goal) else "ship" if meets(ship) else "missed"


def measured(run: Run) -> Iterator[Target]:
    """Yield the targets that the run has a figure for."""
    for target in load():
        criteria = {key: value for key, value in target.items() if key not in _BOUNDS}
        case = _CASE if "items" in criteria else {}
        figure = next(run.find(target["kind"], **{**_USUAL, **case, **criteria}), None)
        if figure is not None:
            yield Target(figure, target["ship"], target["goal"])


def missed(run: Run) -> list[Target]:
    """Return the targets whose promise the run does not keep, the farthest one first."""
    found = [target for target in measured(run) if target.verdict == "missed"]
    return sorted(found, key=lambda target: target.factor, reverse=True)


def missed_table(run: Run, folder: str) -> Table:
    """Return a row for each missed target, with what the profile of it says.

    Args:
        folder: where profiles are, as a prefix for links; empty for no links.
    """
    profiles = {profile.of: profile for profile in run.profiles}
    rows = []
    for target in missed(run):
        profile = profiles.get(target.figure.label)
        file = profile.file if profile else "-"
        rows.append(
            (
                target.title,
                target.measured,
                f"{number(target.ship)}, by {target.factor:.3f} x",
                _costs(target.figure, profile) if profile else "no profile was taken",
                f"[{file}]({folder}{file})" if folder and profile else file,
            )
        )
    head = ("", "measured", "ship target missed", "what it goes into", "profile")
    return Table("Missed targets", head, tuple(rows))


def _costs(figure: Figure, profile: Profile) -> str:
    """Return the greatest costs; those of a CPU time with what they are of an item."""
    if not profile.top:
        return profile.how
    us = {"cpu": figure.value, "throughput": 1e6 / figure.value if figure.value else 0.0}.get(figure.kind)
    if us is None:
        return "; ".join(profile.top)
    shares = [(entry, float(entry.partition("%")[0]) / 100) for entry in profile.top]
    return "; ".join(f"{entry} ({number(us * share)} us)" for entry, share in shares)


def table(run: Run) -> Table:
    """Return a row for each target that the run has a figure for."""
    rows = tuple(
        (target.title, target.measured, number(target.ship), number(target.goal), target.verdict)
        for target in measured(run)
    )
    return Table("Targets", ("", "measured", "ship", "goal", ""), rows, _NOTES)
