from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import pytest

from bench import readme, scenarios, suite
from bench.__main__ import main
from bench.figures import Figure, Profile, Run
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
    """A line for each ratio and count; of a single release there is nothing to be drawn."""
    plots = pytest.importorskip("bench.plots")
    assert [] == plots.draw_history({"0.1.0": runs.full()}, tmp_path)
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


def test_profiles_go_where_the_run_goes(tmp_path: Path) -> None:
    """Into the folder of the output, named in the summary; the file itself keeps what each says."""
    figure = runs.figure("idle_rss", [20.0])
    profile = Profile(
        of=figure.label, file="sidecar_memory.txt", how="by mapping", top=("9 MB heap", "5 MB x")
    )
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / profile.file).write_text("all of it")
    dataclasses.replace(runs.run(figure), profiles=(profile,)).write(tmp_path / "run.json")
    out = tmp_path / "out"
    assert 0 == main(["--from", str(tmp_path / "run.json"), "--out", str(out)])
    assert "all of it" == (out / "profiles" / profile.file).read_text()
    summary = (out / "summary.md").read_text(encoding="utf-8")
    row = "| idle RSS, sidecar | 20 MB | 16, by 1.250 x | 9 MB heap; 5 MB x |"
    assert f"{row} [sidecar_memory.txt](profiles/sidecar_memory.txt) |" in summary
    assert (profile,) == Run.read(out / "results.json").profiles


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"format": 1, "figures": [{"kind": "cpu", "values": []}]}', "cannot be read"),
        ('{"format": 1, "figures": [{"kind": "cpu", "values": [NaN]}]}', "NaN is no number"),
        ('{"format": 7}', "expected a run of format 1"),
    ],
)
def test_a_damaged_baseline_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    """Not after a quarter of an hour, and with the file's name."""
    path = tmp_path / "baseline.json"
    path.write_text(content)
    assert 1 == main(["--compare", str(path), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert words in said
    assert "baseline.json" in said


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here there is a file where its parent should be."""
    (tmp_path / "file").write_text("")
    assert 1 == main(["kernel", "--out", str(tmp_path / "file" / "out")])
    assert "nothing can be written to" in capsys.readouterr().err


def test_a_run_that_fails_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part that fails and an interrupt leave the parts before; the exit code says so."""

    def fail() -> list[Figure]:
        raise RuntimeError("the sink has ended")

    def interrupt() -> list[Figure]:
        raise KeyboardInterrupt

    parts = [
        suite.Part("one", 1, lambda: [runs.figure("idle_rss", [10.0])]),
        suite.Part("two", 1, fail),
        suite.Part("three", 1, interrupt),
        suite.Part("four", 1, lambda: [runs.figure("start", [10.0])]),
    ]
    monkeypatch.setattr(suite, "plan", lambda _choice, _place: parts)
    assert 1 == main(["--out", str(tmp_path)])
    said = capsys.readouterr().err
    assert "two failed: the sink has ended" in said
    assert "interrupted: three, four not measured" in said
    assert ["idle_rss"] == [figure.kind for figure in Run.read(tmp_path / "results.json").figures]


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names that there are."""
    assert 1 == main(["--scenario", "sidecart"])
    assert "no scenario 'sidecart'; there are pass_through, sidecar" in capsys.readouterr().err
    assert 1 == main(["--system", "otelcoll"])
    assert "no system 'otelcoll'; there are spansieve, otelcol" in capsys.readouterr().err
