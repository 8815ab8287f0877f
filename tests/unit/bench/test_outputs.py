from __future__ import annotations

import struct
from pathlib import Path

import pytest

from bench import readme, scenarios
from bench.__main__ import main
from tests.unit.bench import runs

ALL = scenarios.load_all()


def test_pictures_are_drawn_in_both_forms(tmp_path: Path) -> None:
    """PNG for readers, SVG for pages, of everything that the run has; none is empty."""
    plots = pytest.importorskip("bench.plots")
    paths = plots.draw_all(runs.full(), ALL, tmp_path)
    assert ["cost_by_scenario", "cost_by_size", "latency", "memory"] == sorted({path.stem for path in paths})
    for path in paths:
        data = path.read_bytes()
        if path.suffix == ".png":
            width, height = struct.unpack(">II", data[16:24])
            assert data.startswith(b"\x89PNG") and width > 800 and height > 300
        else:
            assert b"otelcol" in data


def test_pictures_need_no_figure_that_is_not_there(tmp_path: Path) -> None:
    """A part of the suite, or one system alone, is drawn too."""
    plots = pytest.importorskip("bench.plots")
    run = runs.run(runs.figure("idle_rss", [10.0]))
    assert ["memory.png", "memory.svg"] == [path.name for path in plots.draw_all(run, ALL, tmp_path)]
    assert [] == plots.draw_all(runs.run(), ALL, tmp_path)


def test_releases_are_drawn_over_time(tmp_path: Path) -> None:
    """A line for each ratio and count, with one release or several."""
    plots = pytest.importorskip("bench.plots")
    plots.draw_history({"0.1.0": runs.full(), "0.2.0": runs.full()}, tmp_path)
    assert b"0.2.0" in (tmp_path / "history.svg").read_bytes()


def test_the_readme_shows_the_newest_stored_run() -> None:
    """Its table is what `spansieve bench --keep` makes of bench/results, with date and versions."""
    release, run = list(readme.runs().items())[-1]
    assert readme.render(release, run) == readme.shown()


def test_a_renewed_readme_keeps_the_rest(tmp_path: Path) -> None:
    """Only what is between the two marks is written anew."""
    path = tmp_path / "README.md"
    original = readme.README.read_text(encoding="utf-8")
    path.write_text(original.replace(readme.shown(), "old\n"), encoding="utf-8")
    readme.update(path)
    assert original == path.read_text(encoding="utf-8")


def test_a_regression_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and what has become worse by how much; 0 against itself."""
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    runs.run(runs.figure("instructions", [1_000.0], scenario="kernel, spans: scan")).write(before)
    runs.run(runs.figure("instructions", [1_200.0], scenario="kernel, spans: scan")).write(after)
    out = str(tmp_path / "out")
    assert 0 == main(["--from", str(before), "--compare", str(before), "--out", out])
    assert 1 == main(["--from", str(after), "--compare", str(before), "--out", out])
    said = capsys.readouterr().err
    assert "worse: kernel, spans: scan: instructions 1,000 -> 1,200 instr./item, 20.0% worse" in said
    assert ["results.json", "summary.md"] == sorted(path.name for path in Path(out).iterdir())


def test_a_wrong_result_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However fast it is."""
    path = tmp_path / "run.json"
    runs.run(runs.figure("cpu", [0.1], items=1, flags=("not correct: 3 of 9 items are lost",))).write(path)
    assert 1 == main(["--from", str(path), "--out", str(tmp_path)])
    assert "spansieve is wrong: sidecar: not correct: 3 of 9 items are lost" in capsys.readouterr().err


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names that there are."""
    assert 1 == main(["--scenario", "sidecart"])
    assert "no scenario 'sidecart'; there are pass_through, sidecar" in capsys.readouterr().err
    assert 1 == main(["--system", "otelcoll"])
    assert "no system 'otelcoll'; there are spansieve, otelcol" in capsys.readouterr().err
