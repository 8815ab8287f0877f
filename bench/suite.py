"""A run: the chosen parts of the suite, one after another, and what to do with one that cannot be measured here."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench import bodies, compression, cost, environment, kernel, latency, overload, process, systems
from bench.figures import NOT_CORRECT, OURS, Figure, Run
from bench.place import Place
from bench.processes import Cores, MissingTool
from bench.scenarios import Scenario
from bench.systems import YARDSTICK

OF_SCENARIOS = ("cost", "process", "latency", "overload")
PARTS = ("kernel", "compression", *OF_SCENARIOS)
_ROUNDS, _QUICK_ROUNDS = 5, 2
_LOAD_S, _QUICK_LOAD_S = 0.25, 0.2


class Choice(NamedTuple):
    """What the command line asks for.

    Attributes:
        systems: by name; spansieve is always measured. None for all.
        rounds: None for the usual number.
    """

    parts: Sequence[str]
    scenarios: Sequence[Scenario]
    systems: Sequence[str] | None
    rounds: int | None
    is_quick: bool


class Part(NamedTuple):
    """A piece of the suite.

    Attributes:
        steps: how often measure will say what it does.
    """

    name: str
    steps: int
    measure: Callable[[], Iterable[Figure]]


class Outcome(NamedTuple):
    """A run.

    Attributes:
        skipped: why parts of it are not there that cannot be measured here.
        failed: why parts are not there that should be.
    """

    run: Run
    skipped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def prepare(choice: Choice, folder: Path) -> Place:
    """Return the place that a choice is measured in, where nobody hears of progress yet."""
    found = systems.find_all()
    if choice.systems is not None:
        wanted = {OURS, YARDSTICK, *choice.systems}
        found = {name: system for name, system in found.items() if name in wanted}
    rounds = choice.rounds or (_QUICK_ROUNDS if choice.is_quick else _ROUNDS)
    load_s = _QUICK_LOAD_S if choice.is_quick else _LOAD_S
    return Place(Cores.choose(), folder, found, rounds, load_s, choice.is_quick, _say_nothing)


def _say_nothing(_text: str) -> None:
    pass


def plan(choice: Choice, place: Place) -> list[Part]:
    """Return the parts of a run in their order."""
    parts = []
    if "kernel" in choice.parts:
        parts.append(Part("kernel", kernel.steps(), partial(kernel.measure, place)))
    if "compression" in choice.parts:
        parts.append(Part("compression", compression.steps(), partial(compression.measure, place)))
    for module, name in ((cost, "cost"), (process, "process"), (latency, "latency"), (overload, "overload")):
        if name not in choice.parts:
            continue
        parts += [
            Part(f"{name} of {scenario.name}", steps, partial(module.measure, scenario, place))
            for scenario in choice.scenarios
            if (steps := module.steps(scenario, place))
        ]
    return parts


def run(parts: Sequence[Part], place: Place) -> Outcome:
    """Measure all parts; what goes wrong with one, or an interrupt, does not lose the others."""
    figures: list[Figure] = []
    skipped, failed = [], []
    for number, part in enumerate(parts):
        try:
            figures += part.measure()
        except MissingTool as missing:
            skipped.append(f"{part.name} was not measured: {missing}")
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            failed.append(f"{part.name} failed: {error}")
        except KeyboardInterrupt:
            failed.append(f"interrupted: {', '.join(part.name for part in parts[number:])} not measured")
            break
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Outcome(
        Run(
            date=now,
            machine=environment.describe(),
            systems=_versions(place, figures),
            bodies=bodies.describe(),
            rounds=place.rounds,
            quick=place.is_quick,
            figures=tuple(figures),
        ),
        tuple(skipped),
        tuple(failed),
    )


def _versions(place: Place, figures: Sequence[Figure]) -> dict[str, str]:
    """Return the versions of the systems that were measured, and of what is missing where peers were."""
    measured = {figure.system for figure in figures}
    return {
        name: system.version
        for name, system in place.systems.items()
        if name in measured or (len(measured) > 1 and system.is_missing)
    }


def incorrect(figures: Iterable[Figure]) -> list[str]:
    """Return what spansieve does wrong: such a run has failed, however fast it was."""
    found = (
        f"{figure.scenario}: {flag}"
        for figure in figures
        for flag in figure.flags
        if figure.system == OURS and flag.startswith(NOT_CORRECT)
    )
    return list(dict.fromkeys(found))
