"""`validate --fix`: a file in place, or only shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.cli import fix as fix_command
from collector.cli.commands import invoke
from collector.config.fix import Fixed

OLD = """\
# mine
receivers: {otlp: {protocols: {grpc: }}}
exporters: {logging: {loglevel: debug}}
service: {pipelines: {traces: {receivers: [otlp], exporters: [logging]}}}
"""
NEW = OLD.replace("logging", "debug").replace("loglevel: debug", "verbosity: detailed")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with an old configuration."""
    path = tmp_path / "old.yaml"
    path.write_text(OLD)
    path.chmod(0o640)
    return path


def test_writes_and_shows(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The difference on standard output; the file keeps its mode, and a link stays one."""
    link = path.parent / "link.yaml"
    link.symlink_to(path)
    assert 0 == invoke(["validate", "--fix", str(link)])
    assert NEW == path.read_text()
    assert link.is_symlink()
    assert 0o640 == path.stat().st_mode & 0o777
    assert ["link.yaml", "old.yaml"] == sorted(os.listdir(path.parent))
    out, error = capsys.readouterr()
    assert "\n-exporters: {logging: {loglevel: debug}}\n" in out
    assert "\n+exporters: {debug: {verbosity: detailed}}\n" in out
    assert " # mine\n" in out
    assert "" == error


def test_dry_run_only_shows(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file stays."""
    assert 0 == invoke(["validate", "--fix", str(path), "--dry-run"])
    assert OLD == path.read_text()
    assert "+exporters: {debug" in capsys.readouterr().out


def test_nothing_to_mend_writes_nothing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even the same."""
    path.write_text(NEW)
    before = path.stat().st_ino
    assert 0 == invoke(["validate", "--fix", str(path)])
    assert before == path.stat().st_ino
    assert ("", "") == capsys.readouterr()


def test_what_is_left_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the line in the new file; what could be mended is."""
    path.write_text(OLD + "extensions: {health_check: {port: 1, endpoint: 'a:1'}}\n")
    assert 1 == invoke(["validate", "--fix", str(path)])
    assert "debug" in path.read_text()
    error = capsys.readouterr().err
    assert "Warning: extensions::health_check: port is part of endpoint today: mend it by hand" in error
    assert "has invalid keys: port; valid keys: endpoint" in error
    assert f"({path}:5)" in error


def test_a_worse_file_is_not_written(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a rule makes of it."""
    path.write_text(NEW)
    monkeypatch.setattr(
        fix_command, "fix_text", lambda text: Fixed(text.replace("nop", "").replace("debug", "x"), (), ())
    )
    assert 1 == invoke(["validate", "--fix", str(path)])
    assert NEW == path.read_text()
    assert "left as it is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (None, [], "cannot read"),
        (b"\xff", [], "not UTF-8 text"),
        (b"a: [", [], "did not find expected node content"),
        (OLD.encode(), ["--config", "x"], "no --config or --set beside it"),
        (
            b"apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n"
            + b"".join(b"    %s\n" % line for line in NEW.encode().splitlines()),
            [],
            "not a configuration by itself",
        ),
    ],
)
def test_what_cannot_be_mended_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str], text: bytes | None, arguments: list[str], message: str
) -> None:
    """And left alone."""
    path.unlink() if text is None else path.write_bytes(text)
    assert 1 == invoke(["validate", "--fix", str(path), *arguments])
    assert message in capsys.readouterr().err
    assert text == (path.read_bytes() if path.exists() else None)


def test_byte_order_mark_and_line_ends_stay(path: Path) -> None:
    """Of other systems."""
    path.write_bytes(b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode())
    assert 0 == invoke(["validate", "--fix", str(path)])
    assert b"\xef\xbb\xbf" + NEW.replace("\n", "\r\n").encode() == path.read_bytes()
