from __future__ import annotations

import dataclasses

import pytest

from bench import scenarios, tables, targets
from bench.figures import Profile
from tests.unit.bench import runs

ALL = scenarios.load_all()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.25"), (0.0783, "0.0783"), (12.34, "12.3"), (3_960_851.0, "3,960,851"), (0.0, "0")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    """More would pretend to know more."""
    assert text == tables.number(value)


def test_a_cost_is_shown_with_its_spread() -> None:
    """The median, and how far the repeats lie apart; a single value has no spread."""
    assert "2 (1-9)" == tables.spread(runs.figure("cpu", [1.0, 2.0, 9.0]))
    assert "2" == tables.spread(runs.figure("cpu", [2.0]))


def test_a_summary_names_everything_that_was_measured() -> None:
    """Versions, missing systems and why, each scenario, memory, latency, overload, and the exact counts."""
    summary = tables.summary(runs.full(), ALL)
    for words in (
        "rotel: missing: not here",
        "### Pass-through",
        "### Sidecar",
        "rotel: has no sampler",
        "### The process",
        "acknowledgement",
        "### Overload",
        "kernel, spans: all stages | 900 instr./item",
        "2 rounds A B B A, a quick run",
    ):
        assert words in summary
    assert "| 10 items, 1 stream, 4 connections | 1.3 (1.27-1.37) | 10.4 (10.2-10.9) |" in summary


def test_a_flag_is_shown() -> None:
    """A doubtful figure does not look like a sure one."""
    flagged = runs.figure("cpu", [1.0], items=10, flags=("the sink took 70% of its core",))
    assert "- spansieve, 10 items: the sink took 70% of its core" in tables.summary(runs.run(flagged), ALL)


def test_targets_are_met_up_to_their_bound() -> None:
    """A value on the bound meets it; less is better for some and more for others."""
    memory, speed = runs.figure("idle_rss", [16.0]), runs.figure("throughput", [99.0])
    assert "ship" == targets.verdict(memory, ship=16, goal=12)
    assert "missed" == targets.verdict(memory, ship=15.9, goal=12)
    assert "goal" == targets.verdict(speed, ship=50, goal=99)
    assert "missed" == targets.verdict(speed, ship=100, goal=200)


def test_every_target_is_of_a_figure_that_can_be_measured() -> None:
    """Its kind exists, and its scenario, and its case is in that scenario."""
    for target in targets.load():
        assert target["kind"] in tables.KINDS
        scenario = ALL.get(target["scenario"])
        if "items" in target and scenario:
            assert target["items"] in {case.items for case in scenario.cases}
        if "system" in target:
            assert target["system"] in ALL[target["scenario"]].systems


def test_a_missed_target_says_by_how_much_and_what_it_goes_into() -> None:
    """The farthest one first; shares of a CPU time in microseconds too; what has no profile says so."""
    speed = runs.figure("throughput", [500_000.0], items=512, streams=1, connections=4)
    memory = runs.figure("idle_rss", [17.6])
    profile = Profile(of=speed.label, file="f.txt", how="perf", top=("40% kernel: sendto", "20% libzstd"))
    run = dataclasses.replace(runs.run(memory, speed), profiles=(profile,))
    first, second = targets.missed_table(run, "profiles/").rows
    assert ("500,000 items/CPU-s", "3,500,000, by 7.000 x") == first[1:3]
    assert ("40% kernel: sendto (0.8 us); 20% libzstd (0.4 us)", "[f.txt](profiles/f.txt)") == first[3:]
    assert ("idle RSS, sidecar", "17.6 MB", "16, by 1.100 x", "no profile was taken", "-") == second


def test_targets_of_other_bodies_are_not_mixed_up() -> None:
    """Without bodies, a target is of the usual ones, and of four connections with one stream."""
    case = {"items": 512, "streams": 1, "connections": 4}
    other = runs.figure("throughput", [9e6], bodies="astronomy", **case)
    wider = runs.figure("throughput", [9e6], **{**case, "streams": 10})
    usual = runs.figure("throughput", [1e6], **case)
    found = {target.figure for target in targets.measured(runs.run(other, wider, usual))}
    assert {other, usual} == found


def test_targets_are_shown_where_they_were_measured() -> None:
    """One row a target that the run has a figure for."""
    rows = targets.table(runs.full()).rows
    assert ("idle RSS, sidecar", "15 MB", "16", "12", "ship") in rows
    assert not any("keep_all" in row[0] for row in rows)
