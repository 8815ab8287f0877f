"""Log lines in both encodings, levels, and the thinning of repeated events."""

from __future__ import annotations

import glob
import json
import logging
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.ids import ComponentID
from collector.telemetry import logs
from collector.telemetry.logs import Log, RepeatFilter, configure


@pytest.fixture(autouse=True)
def _logger_as_before() -> Iterator[None]:
    yield
    configure()


@pytest.fixture
def lines(tmp_path: Path) -> Any:
    path = tmp_path / "log"

    def read() -> list[str]:
        return path.read_text(encoding="utf-8").splitlines()

    read.path = (str(path),)  # type: ignore[attr-defined]
    return read


def test_console_line_is_tab_separated(lines: Any) -> None:
    """Time, level, event, then the fields as JSON: as the Collector's console encoding."""
    configure(paths=lines.path).bind(a=1).warning("export failed", exporter=ComponentID("otlp", "2"))
    (line,) = lines()
    stamp, level, event, fields = line.split("\t")
    assert "T" in stamp
    assert stamp.endswith("Z")
    assert ("warn", "export failed", {"a": 1, "exporter": "otlp/2"}) == (level, event, json.loads(fields))


def test_file_that_was_renamed_is_opened_again(lines: Any, tmp_path: Path) -> None:
    """As logrotate asks for; one that cannot be opened is written on."""
    folder = tmp_path / "folder"
    folder.mkdir()
    log = configure(paths=(*lines.path, "stderr", str(folder / "log")))
    log.info("before")
    (tmp_path / "log").rename(tmp_path / "log.1")
    folder.rename(tmp_path / "elsewhere")
    logs.reopen()
    log.info("after")
    files = [tmp_path / "log.1", tmp_path / "log", tmp_path / "elsewhere" / "log"]
    events = [[line.split("\t")[2] for line in path.read_text().splitlines()] for path in files]
    assert [["before"], ["after"], ["before", "after"]] == events


def test_json_line_has_the_collectors_keys(lines: Any) -> None:
    """level, ts, msg and the fields beside them."""
    log = configure(encoding="json", paths=lines.path, initial_fields={"zone": "a"})
    log.error("drain failed", error=ValueError("no"), ids=[ComponentID("x")], ratio=float("nan"), ok=None)
    record = json.loads(lines()[0])
    assert record.pop("ts")
    assert {
        "level": "error",
        "msg": "drain failed",
        "zone": "a",
        "error": "no",
        "ids": ["x"],
        "ratio": "nan",
        "ok": None,
    } == record


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(value=_VALUES)
def test_fields_are_written_as_json_writes_them(value: object) -> None:
    """Any text, number or structure is what the standard library would have made of it, and reads back as it was."""
    text = logs._to_json({"a": value})
    assert {"a": value} == json.loads(text)
    if not any(map(_is_obeyed, text)) and "\\u" not in text:
        assert json.dumps({"a": value}, ensure_ascii=False) == text


def _is_obeyed(character: str) -> bool:
    """Return whether a terminal or a reader of lines does what character says, by the tables of Unicode."""
    turns_text = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    is_mark = character in "\u061c\u200e\u200f"
    category = unicodedata.category(character)
    return category in {"Cc", "Zl", "Zp"} or unicodedata.bidirectional(character) in turns_text or is_mark


@pytest.mark.parametrize("encoding", ["console", "json"])
def test_line_stays_one_line(lines: Any, encoding: str) -> None:
    """Whatever text a peer manages to put into an event or a field."""
    configure(encoding=encoding, paths=lines.path).info("a\nb", c="d\ne\t\0")
    assert 1 == len(lines())


@pytest.mark.parametrize("encoding", ["console", "json"])
def test_nothing_that_a_terminal_obeys_is_written(lines: Any, encoding: str) -> None:
    """Controls, old and new, line separators and what turns the direction of text: escaped, wherever they come from."""
    obeyed = "".join(filter(_is_obeyed, map(chr, range(0x110000))))
    assert {"\x9b", "\x7f", "\u202e", "\u2028"} < set(obeyed)
    shown = "\xa0\xe9\u200d\u6f22\U0001f600"
    log = configure(encoding=encoding, paths=lines.path, initial_fields={f"k{obeyed}": 1})
    text = f"{obeyed}{shown}"
    log.warning(text, value=text, keys={obeyed: [obeyed]})
    (line,) = lines()
    tab = "\t" if encoding == "console" else ""
    assert set(tab) == set(filter(_is_obeyed, line))
    assert shown in line
    fields = json.loads(line.split("\t")[3] if encoding == "console" else line)
    assert (text, {obeyed: [obeyed]}) == (fields["value"], fields["keys"])


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["debug", "info", "warn", "error"]),
        ("info", ["info", "warn", "error"]),
        ("warn", ["warn", "error"]),
        ("error", ["error"]),
        ("fatal", []),
        ("DPANIC", []),
    ],
)
def test_level_leaves_out_the_less_severe(lines: Any, level: str, written: list[str]) -> None:
    """All of the Collector's level names are known."""
    log = configure(level, paths=lines.path)
    for write in (log.debug, log.info, log.warning, log.error):
        write("event")
    assert written == [line.split("\t")[1] for line in lines()]


def test_configuring_again_replaces(lines: Any, tmp_path: Path) -> None:
    """After a reload a line is written once, where it should be."""
    log = configure(paths=lines.path)
    configure(paths=(str(tmp_path / "other"),))
    log.info("event")
    assert [] == lines()
    assert 1 == len((tmp_path / "other").read_text().splitlines())


def test_path_that_cannot_be_opened_changes_nothing(lines: Any, tmp_path: Path) -> None:
    """Logs go on where they went, and no other file stays open."""
    log = configure(paths=lines.path)
    with pytest.raises(OSError):
        configure(paths=("stderr", str(tmp_path / "other"), "/nonexistent/log"))
    assert str(tmp_path / "other") not in map(os.path.realpath, glob.glob("/proc/self/fd/*"))
    log.info("event")
    assert 1 == len(lines())


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    """A full disk, say: the other outputs still get their lines."""
    log = configure(paths=("/dev/full",))
    log.info("event")


@pytest.mark.parametrize("level", ["info", "error"])
def test_a_logger_of_the_standard_library_can_stand_behind_it(
    level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its records have the event as message and the fields beside it."""
    log = Log(logging.getLogger("test"), a=1)
    with caplog.at_level(logging.INFO):
        getattr(log, level)("event", b=2)
    assert [("event", {"a": 1, "b": 2}, level.upper())] == [
        (record.message, record.fields, record.levelname) for record in caplog.records
    ]


class TestRepeatFilter:
    """The Collector's log sampling, and a count of what it left out."""

    @pytest.fixture
    def clock(self) -> list[float]:
        return [0.0]

    @pytest.fixture
    def log(self, clock: list[float], lines: Any) -> Log:
        repeats = RepeatFilter(tick_s=10, initial=3, thereafter=5, clock=lambda: clock[0])
        return configure(encoding="json", paths=lines.path, repeats=repeats)

    def test_first_few_then_one_in_many(self, log: Log, lines: Any) -> None:
        """3 of the first 3, then the 5th and the 10th after them."""
        for number in range(1, 15):
            log.info("event", number=number)
        records = [json.loads(line) for line in lines()]
        assert [(1, None), (2, None), (3, None), (8, 4), (13, 4)] == [
            (record["number"], record.get("suppressed")) for record in records
        ]

    def test_next_tick_starts_over(self, log: Log, lines: Any, clock: list[float]) -> None:
        """And says what the one before left out."""
        for number in range(5):
            log.info("event", number=number)
        clock[0] = 10.0
        log.info("event", number=5)
        last = json.loads(lines()[-1])
        assert (5, 2) == (last["number"], last["suppressed"])

    def test_other_event_or_level_is_counted_for_itself(self, log: Log, lines: Any) -> None:
        """One noisy event does not hide another."""
        for _ in range(4):
            log.info("event")
        log.info("other")
        log.error("event")
        assert 5 == len(lines())

    def test_thereafter_0_writes_none(self, lines: Any, clock: list[float]) -> None:
        """Until the next tick."""
        repeats = RepeatFilter(tick_s=10, initial=1, thereafter=0, clock=lambda: clock[0])
        log = configure(paths=lines.path, repeats=repeats)
        for _ in range(300):
            log.info("event")
        assert 1 == len(lines())

    def test_memory_is_bounded(self, clock: list[float]) -> None:
        """A component that makes up events does not fill the memory."""
        repeats = RepeatFilter(clock=lambda: clock[0])
        for number in range(5000):
            repeats.passes(20, f"event {number}")
        assert len(repeats._events) <= 1024
