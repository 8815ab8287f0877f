from __future__ import annotations

import json
from pathlib import Path

from bench.report import Figure, figure_of, table, write_json


def test_a_target_is_met_up_to_its_bound() -> None:
    """A value on the bound passes; one beyond it misses; without a target or a value there is no verdict."""
    assert "pass" == Figure(name="a", value=1.6, unit="x", at_most=1.6).verdict
    assert "miss" == Figure(name="a", value=1.61, unit="x", at_most=1.6).verdict
    assert "pass" == Figure(name="a", value=8.3, unit=": 1", at_least=8.3).verdict
    assert "miss" == Figure(name="a", value=8.2, unit=": 1", at_least=8.3).verdict
    assert "" == Figure(name="a", value=8.2, unit="us").verdict
    assert "" == Figure(name="a", value=None, unit="us", at_most=1).verdict


def test_repeats_are_shown_by_their_median_and_ends() -> None:
    """An outlier shows in the spread and not in the value."""
    figure = figure_of("a", [1.0, 90.0, 2.0], "us")
    assert (2.0, (1.0, 90.0)) == (figure.value, figure.spread)


def test_table_has_a_line_for_each_figure() -> None:
    """Value with its unit, spread, target and verdict; what was not measured says why."""
    lines = table(
        [
            figure_of("ratio", [1.5, 1.25, 2.0], "x", at_most=1.6, note="1 stream"),
            Figure(name="kernel", value=None, unit="", note="not measured: no valgrind"),
        ]
    ).splitlines()
    assert ["ratio", "1.50", "x", "1.25", "-", "2.00", "<=", "1.60", "pass", "1", "stream"] == lines[
        2
    ].split()
    assert ["kernel", "-", "not", "measured:", "no", "valgrind"] == lines[3].split()


def test_json_holds_what_the_table_shows(tmp_path: Path) -> None:
    """Programs get the header, every figure and its verdict."""
    file = tmp_path / "run.json"
    write_json(file, {"machine": "m"}, [Figure(name="a", value=2.0, unit="x", at_most=1.0)])
    run = json.loads(file.read_text(encoding="utf-8"))
    assert "m" == run["machine"]
    assert ("a", 2.0, 1.0, "miss") == tuple(
        run["figures"][0][key] for key in ("name", "value", "at_most", "verdict")
    )
