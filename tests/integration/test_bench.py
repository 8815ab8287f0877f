"""The benchmark's harness over real processes, small enough to run with the other tests."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench import cost, latency, overload, process, scenarios, suite, tools
from bench.figures import OURS, Figure
from bench.place import Place
from bench.processes import MissingTool
from bench.scenarios import Case, Latency, Overload
from bench.suite import PARTS, Choice

ALL = scenarios.load_all()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place with spansieve alone, one round, and loads of a few milliseconds."""
    try:
        tools.find("spansieve-load"), tools.find("spansieve-sink")
    except MissingTool as missing:
        pytest.skip(str(missing))
    choice = Choice(PARTS, list(ALL.values()), (OURS,), rounds=1, is_quick=True)
    return suite.prepare(choice, tmp_path)._replace(load_s=0.05)


def by_kind(figures: list[Figure]) -> dict[str, Figure]:
    """Return our figures by kind."""
    return {figure.kind: figure for figure in figures if figure.system == OURS}


def test_costs_are_measured_and_correct(place: Place) -> None:
    """Every span that was sent arrives; CPU, bytes and the yardsticks are there."""
    scenario = dataclasses.replace(ALL["keep_all"], quick=(Case(10),))
    figures = list(cost.measure(scenario, place))
    ours = by_kind(figures)
    assert all(figure.is_correct for figure in figures)
    assert not [flag for flag in ours["cpu"].flags if "arrive" in flag or "accepted" in flag]
    assert 0.1 < ours["cpu"].value < 500
    assert 20 < ours["wire"].value < 200
    assert {"libzstd -1", "memcpy"} <= {figure.system for figure in figures}


def test_a_system_that_does_not_do_its_work_is_found_out(place: Place) -> None:
    """A sampler that drops in a scenario that keeps all is not correct."""
    keeping = ALL["keep_all"]
    scenario = dataclasses.replace(keeping, systems={OURS: ALL["sidecar"].systems[OURS]}, quick=(Case(10),))
    wrong = cost.check(scenario, place).wrong
    assert {OURS} == wrong.keys()
    figures = list(cost.measure(scenario, place))
    assert 1 == len(suite.incorrect(figures))


def test_the_process_is_measured(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start, idle memory and loaded memory, of a collector that is started for it."""
    for name, value in (("_SETTLE_S", 0.1), ("_LOADED_S", 0.1), ("_QUICK_STARTS", 1), ("_QUICK_IDLE_S", 0.1)):
        monkeypatch.setattr(process, name, value)
    ours = by_kind(list(process.measure(ALL["sidecar"], place)))
    assert 10 < ours["start"].value < 20_000
    assert 5 < ours["idle_rss"].value <= ours["peak_rss"].value < 500
    assert 0 <= ours["idle_cpu"].value <= 100


def test_latency_is_measured_beside_no_collector_at_all(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three percentiles in their order, of spansieve and of the backend alone; their difference is what is added."""
    monkeypatch.setattr(latency, "_QUICK_S", 0.2)
    points = (Latency(items=10, rates=[500]), Latency(items=10, loads=[10]))
    scenario = dataclasses.replace(ALL["sidecar"], latency=points)
    figures = list(latency.measure(scenario, place))
    assert {OURS, latency.DIRECT} <= {figure.system for figure in figures}
    for circumstances in ({"rate": 500, "load": None}, {"rate": None, "load": 10}):
        chosen = [f for f in figures if (f.rate, f.load) == tuple(circumstances.values())]
        ours = by_kind(chosen)
        alone = {figure.kind: figure for figure in chosen if figure.system == latency.DIRECT}
        assert 0 < ours["latency_p50"].value <= ours["latency_p99"].value <= ours["latency_p99_9"].value
        difference = ours["latency_p50"].value - alone["latency_p50"].value
        assert difference == pytest.approx(ours["added_p50"].value)
        assert "added_p50" not in alone


def test_nothing_accepted_is_lost_in_an_overload(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a backend that stops and works again."""
    monkeypatch.setattr(overload, "_QUIET_S", 2.0)
    how = Overload(items=100, streams=2, connections=2, seconds=2, limit_mib=128)
    scenario = dataclasses.replace(ALL["overload"], overload=how)
    ours = by_kind(list(overload.measure(scenario, place)))
    assert 0 == ours["overload_lost"].value
    assert ours["overload_rss"].value < 200


def test_progress_is_told_as_often_as_planned(place: Place) -> None:
    """The bar ends where the run ends."""
    told: list[str] = []
    place = place._replace(say=told.append)
    scenario = dataclasses.replace(ALL["keep_all"], quick=(Case(10),))
    list(cost.measure(scenario, place))
    assert cost.steps(scenario, place) == len(told)
