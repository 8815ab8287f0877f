from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bench import scenarios
from bench.scenarios import Case, Scenario
from collector.config.load import load
from collector.registry import Registry

ALL = scenarios.load_all()


@pytest.mark.parametrize("scenario", ALL.values(), ids=lambda scenario: scenario.name)
def test_our_configuration_of_a_scenario_is_valid(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody finds out after a quarter of an hour; the names of the environment are those that a server sees."""
    for name, value in (("LISTEN", "127.0.0.1:1"), ("SINK", "127.0.0.1:2"), ("METRICS", "3")):
        monkeypatch.setenv(name, value)
    document = load([f"yaml:{yaml.safe_dump(scenario.systems['spansieve'])}"], (), Registry())
    assert scenario.signal.value in {
        str(pipeline).partition("/")[0] for pipeline in document.service.pipelines
    }


@pytest.mark.parametrize("scenario", ALL.values(), ids=lambda scenario: scenario.name)
def test_a_scenario_says_why_a_peer_is_missing(scenario: Scenario) -> None:
    """Each peer is in it, or is said to be unable."""
    assert {"spansieve", "otelcol", "rotel"} == {*scenario.systems, *scenario.cannot}


def test_every_scenario_measures_something() -> None:
    """None is only decoration; sizes, streams and connections are varied."""
    assert all(scenario.cases or scenario.overload for scenario in ALL.values())
    assert {1, 10, 100, 512, 4096} == {case.items for case in ALL["pass_through"].cases}
    assert {1, 10} == {case.streams for case in ALL["pass_through"].cases}
    assert {4, 64} == {case.connections for case in ALL["pass_through"].cases}


def test_lists_are_combined(tmp_path: Path) -> None:
    """Each number of a list with each of the others, once."""
    path = write(tmp_path, cases="[{items: [1, 10], streams: [1, 4]}, {items: 10}]")
    assert (Case(1, 1), Case(1, 4), Case(10, 1), Case(10, 4)) == scenarios.read(path).cases


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    """A mistyped key is not passed over in silence."""
    with pytest.raises(TypeError, match="cases_"):
        scenarios.read(write(tmp_path, cases_="[]"))
    with pytest.raises(ValueError, match="expect is one of all, some, merged"):
        scenarios.read(write(tmp_path, expect="most"))


def write(folder: Path, **keys: str) -> Path:
    """Write a small scenario with these keys, as YAML."""
    text = {"title": "t", "what": "w", "signal": "traces", "expect": "all", "systems": "{}", **keys}
    path = folder / "small.yaml"
    path.write_text("\n".join(f"{key}: {value}" for key, value in text.items()))
    return path
