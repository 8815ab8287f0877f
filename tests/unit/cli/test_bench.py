from __future__ import annotations

from pathlib import Path

import pytest

from collector.cli import bench
from collector.cli.commands import invoke


def test_options_go_to_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    """`spansieve bench` has the options of bench/, help and mistakes included."""
    assert 0 == invoke(["bench", "--help"])
    said = capsys.readouterr().out
    assert "Usage: spansieve bench" in said
    assert "--compare" in said
    assert 1 == invoke(["bench", "--no-such-option"])
    assert "No such option" in capsys.readouterr().err


def test_an_installation_says_where_the_benchmark_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It builds its tools, so it needs the sources; it says so, and does not fail otherwise."""
    monkeypatch.setattr(bench, "_ROOT", tmp_path)
    assert 1 == invoke(["bench", "--quick"])
    assert "runs from a checkout" in capsys.readouterr().err
