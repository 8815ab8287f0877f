"""The guard: what a run has lost against an older one, beyond what the noise of both explains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from bench.figures import KINDS, OURS, Figure, Run
from bench.statistics import noise

EXACT_TOLERANCE = 0.01
"""Instruction counts and compressed sizes repeat; a difference below this is no news."""
_LEAST_TOLERANCE = 0.05
"""Layout of memory and the like move a ratio by this much without a change of the program."""
_STANDARD_ERRORS = 3
ENVIRONMENT = ("arch", "compiler", "libc", "zstd")
"""What instruction counts and compressed sizes depend on beside the program."""


class Change(NamedTuple):
    """A guarded figure in both runs.

    Attributes:
        by: by how much it is worse, in proportion; below 0 where it is better.
        allowed: the most that is no regression.
    """

    figure: Figure
    before: float
    by: float
    allowed: float

    @property
    def is_regression(self) -> bool:
        """Whether it is worse by more than is allowed."""
        return self.by > self.allowed

    def __str__(self) -> str:
        kind = KINDS[self.figure.kind]
        where = ", ".join(filter(None, (self.figure.scenario, self.figure.case)))
        return (
            f"{where}: {kind.title} {self.before:,.4g} -> {self.figure.value:,.4g} {kind.unit}, "
            f"{abs(self.by):.1%} {'worse' if self.by > 0 else 'better'} (noise {self.allowed:.1%})"
        )


class Comparison(NamedTuple):
    """The guarded figures of two runs.

    Attributes:
        notes: what was not compared, and why.
    """

    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The worst one first."""
        return tuple(
            sorted((c for c in self.changes if c.is_regression), key=lambda change: change.by, reverse=True)
        )


def compare(before: Run, after: Run) -> Comparison:
    """Return what has become of spansieve's guarded figures."""
    notes = []
    differing = _differences(before.machine, after.machine)
    if differing:
        notes.append(f"instruction counts and packed bytes were not compared: {differing}")
    older = {figure.key: figure for figure in before.figures}
    changes = []
    compared = set()
    for figure in after.figures:
        guard = KINDS[figure.kind].guard if figure.system == OURS else ""
        old = older.get(figure.key)
        if not guard or old is None or (guard == "exact" and differing):
            continue
        compared.add(guard)
        if figure.flags or old.flags:
            notes.append(
                f"{figure.scenario}, {figure.case} was not compared: {(*old.flags, *figure.flags)[0]}"
            )
            continue
        changes.append(_change(old, figure, guard))
    guarded = {key for key, old in older.items() if old.system == OURS and KINDS[old.kind].guard}
    if unmeasured := guarded - {figure.key for figure in after.figures}:
        notes.append(f"{len(unmeasured)} guarded figures of the older run were not measured in this one")
    if not compared:
        notes.append("nothing was compared: the two runs have no guarded figure in common")
    return Comparison(tuple(changes), tuple(dict.fromkeys(notes)))


def doubtful(before: Run, after: Run) -> set[str]:
    """Return the scenarios that have become worse in what is noisy: these may be measured again to be sure."""
    worse = compare(before, after).regressions
    return {change.figure.scenario for change in worse if KINDS[change.figure.kind].guard == "noise"}


def _change(old: Figure, new: Figure, guard: str) -> Change:
    by = (new.value / old.value - 1) if old.value else math.inf if new.value else 0.0
    if not KINDS[new.kind].less_is_better:
        by = -by
    if guard == "exact":
        return Change(new, old.value, by, EXACT_TOLERANCE)
    both = math.hypot(noise(old.values), noise(new.values))
    return Change(new, old.value, by, max(_LEAST_TOLERANCE, _STANDARD_ERRORS * both))


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    return "; ".join(
        f"{name} was {before.get(name, 'unknown')}, is {after.get(name, 'unknown')}"
        for name in ENVIRONMENT
        if before.get(name) != after.get(name)
    )
