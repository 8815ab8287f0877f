from __future__ import annotations

from typing import Any

import pytest

from bench.compare import compare, doubtful
from bench.figures import Figure
from tests.unit.bench import runs


def of(kind: str, *values: float, **attributes: Any) -> Figure:
    """Return a figure of ours."""
    return runs.figure(kind, values, **attributes)


def regressions(before: Figure, after: Figure) -> list[str]:
    """Return what comparing two runs of one figure each complains of."""
    comparison = compare(runs.run(before), runs.run(after))
    return [str(change) for change in comparison.regressions]


@pytest.mark.parametrize(("count", "is_worse"), [(1_005.0, False), (1_011.0, True), (900.0, False)])
def test_an_instruction_count_may_grow_by_one_percent(count: float, is_worse: bool) -> None:
    """Counts repeat, so that a little is much."""
    found = regressions(of("instructions", 1_000.0), of("instructions", count))
    assert is_worse == bool(found)


def test_a_regression_says_what_and_by_how_much() -> None:
    """Scenario, case, both values, percent, and what would have been noise."""
    before, after = of("cpu_ratio", 2.0, items=10, streams=1), of("cpu_ratio", 2.5, items=10, streams=1)
    assert [
        "sidecar, 10 items, 1 stream: CPU, nghttpd's = 1 2 -> 2.5 x, 25.0% worse (noise 5.0%)"
    ] == regressions(before, after)


def test_a_change_within_the_noise_is_none() -> None:
    """Twenty percent more between runs whose repeats lie that far apart are chance."""
    noisy = of("cpu_ratio", 1.0, 1.5, 2.0, 2.5, 3.0)
    assert [] == regressions(noisy, of("cpu_ratio", 1.4, 1.9, 2.4, 2.9, 3.4))
    quiet = of("cpu_ratio", 2.0, 2.01, 1.99, 2.0, 2.0)
    assert 1 == len(regressions(quiet, of("cpu_ratio", 2.4, 2.41, 2.39, 2.4, 2.4)))


def test_microseconds_of_two_machines_are_not_compared() -> None:
    """Only ratios, memory, bytes and counts are held against a baseline."""
    comparison = compare(runs.run(of("cpu", 1.0)), runs.run(of("cpu", 9.0)))
    assert () == comparison.changes
    assert ("nothing was compared: the two runs have no guarded figure in common",) == comparison.notes


def test_repeats_of_a_doubtful_figure_count_together() -> None:
    """A run that was disturbed as a whole is found out by another one; what is worse in both stays so."""
    before = runs.run(of("cpu_ratio", 2.0, 2.02, 1.98, 2.0), of("instructions", 900.0))
    disturbed = runs.run(of("cpu_ratio", 2.6, 2.61, 2.59, 2.6), of("instructions", 990.0))
    assert {"sidecar"} == doubtful(before, disturbed)
    calm = disturbed.joined(runs.run(of("cpu_ratio", 2.0, 2.01, 1.99, 2.0, flags=("a flag",))))
    assert set() == doubtful(before, calm)
    assert (8, 1) == tuple(len(figure.values) for figure in calm.figures)
    assert ("a flag",) == calm.figures[0].flags
    assert {"sidecar"} == doubtful(before, disturbed.joined(disturbed))


def test_bytes_that_depend_on_the_speed_of_the_machine_are_not_compared() -> None:
    """A slow one fills batches less before they time out; full ones are compared, to the byte."""
    assert [] == regressions(of("wire", 50.0), of("wire", 60.0))
    assert 1 == len(regressions(of("packed", 50.0), of("packed", 51.0)))


def test_what_is_no_longer_measured_is_said() -> None:
    """A guard that has lost its tool does not pass in silence."""
    before = runs.run(of("instructions", 1_000.0), of("idle_rss", 10.0))
    comparison = compare(before, runs.run(of("idle_rss", 10.0)))
    assert ("1 guarded figures of the older run were not measured in this one",) == comparison.notes


def test_peers_may_become_worse() -> None:
    """The guard is for spansieve."""
    assert [] == regressions(of("idle_rss", 10.0, system="rotel"), of("idle_rss", 99.0, system="rotel"))


def test_counts_of_another_compiler_are_not_compared_and_that_is_said() -> None:
    """Like with like only; ratios go on being compared."""
    before = runs.run(of("instructions", 1_000.0), of("idle_rss", 10.0), compiler="cc 12")
    after = runs.run(of("instructions", 2_000.0), of("idle_rss", 20.0), compiler="cc 13")
    comparison = compare(before, after)
    assert ["idle_rss"] == [change.figure.kind for change in comparison.regressions]
    assert "compiler was cc 12, is cc 13" in comparison.notes[0]


def test_a_doubtful_figure_is_not_compared_and_that_is_said() -> None:
    """When the load generator was the limit, the figure is the generator's."""
    flagged = of("cpu_ratio", 9.0, flags=("the load generator took 90% of its core",))
    comparison = compare(runs.run(of("cpu_ratio", 1.0)), runs.run(flagged))
    assert () == comparison.changes
    assert "the load generator took 90% of its core" in comparison.notes[0]


def test_the_worst_regression_comes_first() -> None:
    """What matters most is read first."""
    before = runs.run(of("idle_rss", 10.0), of("peak_rss", 10.0), of("cpu_ratio", 10.0))
    after = runs.run(of("idle_rss", 12.0), of("peak_rss", 20.0), of("cpu_ratio", 8.0))
    assert ["peak_rss", "idle_rss"] == [c.figure.kind for c in compare(before, after).regressions]
