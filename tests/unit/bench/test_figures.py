from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from bench.figures import KINDS, Run
from bench.readme import RESULTS
from tests.unit.bench import runs

SCHEMA = json.loads((RESULTS.parent / "results.schema.json").read_text(encoding="utf-8"))


def test_a_written_run_is_read_as_it_was(tmp_path: Path) -> None:
    """Nothing is lost in the file."""
    run = runs.full()
    run.write(tmp_path / "run.json")
    assert run == Run.read(tmp_path / "run.json")


def test_a_written_run_is_as_the_schema_says(tmp_path: Path) -> None:
    """Programs may rely on results.schema.json; it says something of each kind of figure."""
    runs.full().write(tmp_path / "run.json")
    document = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, SCHEMA)
    kinds = SCHEMA["$defs"]["figure"]["properties"]["kind"]["oneOf"]
    assert sorted(KINDS) == sorted(kind["const"] for kind in kinds)
    document["figures"][0]["kind"] = "guessed"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


@pytest.mark.parametrize(
    "path", [*sorted(RESULTS.glob("*.json")), RESULTS.parent / "baseline.json"], ids=lambda path: path.name
)
def test_stored_runs_are_as_the_schema_says(path: Path) -> None:
    """What is kept in the repository can be read."""
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), SCHEMA)
    assert Run.read(path).figures


def test_a_run_of_another_format_is_not_read(tmp_path: Path) -> None:
    """Rather no figures than misread ones."""
    path = tmp_path / "run.json"
    path.write_text('{"format": 99}')
    with pytest.raises(ValueError, match="expected a run of format 1"):
        Run.read(path)


def test_an_outlier_does_not_move_the_value() -> None:
    """A figure's value is the median of its repeats."""
    assert 2.0 == runs.figure("cpu", [1.0, 90.0, 2.0]).value


def test_a_case_is_told_in_words() -> None:
    """Only what has a meaning, in singular and plural."""
    figure = runs.figure("cpu", [1.0], items=4_096, streams=1, connections=4, load=20)
    assert "4,096 items, 1 stream, 4 connections, 20 % load" == figure.case
    assert "" == runs.figure("idle_rss", [1.0]).case
