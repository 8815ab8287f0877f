"""The file exporter: what is in the file afterwards."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard

from collector.errors import StartError
from collector.exporters.file import Compression, Config, File, Format, RecordFile, Rotation
from collector.ids import Signal
from tests.unit.exporterhelper.support import Recorder, logs, push, settings, traces, values, wait_until


def _write(path: Path, *requests: bytes, signal: Signal = Signal.TRACES, **keys: Any) -> dict[str, float]:
    """Run an exporter over requests; return its samples."""
    made = settings(signal, Recorder())
    exporter = File(Config(path=str(path), **keys), made)
    exporter.start()
    push(exporter.consumer, made.runtime, *requests)
    exporter.shutdown(20)
    return values(exporter.samples())


def _file(path: Path, **keys: Any) -> RecordFile:
    return RecordFile(Config(path=str(path), **keys))


def _records(path: Path) -> list[bytes]:
    data, records = path.read_bytes(), []
    while data:
        length = int.from_bytes(data[:4], "big")
        records.append(data[4 : 4 + length])
        data = data[4 + length :]
    return records


def test_json_lines_in_order(tmp_path: Path) -> None:
    """One line a request, in the order in which they came."""
    path = tmp_path / "out.jsonl"
    sampled = _write(path, *[traces(1, f"span {number}") for number in range(20)])
    lines = path.read_text().splitlines()
    names = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"] for line in lines]
    assert names == [f"span {number}" for number in range(20)]
    assert sampled["otelcol_exporter_sent_spans"] == 20
    assert sampled["spansieve_exporter_sent_bytes"] == path.stat().st_size


def test_proto_records_are_length_prefixed(tmp_path: Path) -> None:
    """A 4-byte big-endian length, then the request as it came."""
    requests = [traces(1), traces(300)]
    _write(tmp_path / "out", *requests, format=Format.PROTO)
    assert _records(tmp_path / "out") == requests


@pytest.mark.parametrize("written", list(Format))
def test_zstd_records_are_frames(tmp_path: Path, written: Format) -> None:
    """With compression each record is one zstd frame, also for JSON."""
    request = traces(300)
    sampled = _write(tmp_path / "out", request, request, format=written, compression=Compression.ZSTD)
    frames = _records(tmp_path / "out")
    plain = [zstandard.ZstdDecompressor().decompressobj().decompress(frame) for frame in frames]
    assert len(frames) == 2
    if written is Format.PROTO:
        assert plain == [request, request]
    else:
        assert len(json.loads(plain[0])["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 300
    assert sampled["spansieve_exporter_sent_bytes"] < len(request)


def test_frames_are_appended(tmp_path: Path) -> None:
    """Each frame is a record of its own, so that more may follow those of another run."""
    for _ in range(2):
        _write(tmp_path / "out", traces(), append=True, compression=Compression.ZSTD)
    assert 2 == len(_records(tmp_path / "out"))


@pytest.mark.parametrize(("permissions", "expected"), [("", 0o755), ("0700", 0o700), ("750", 0o750)])
def test_folder_is_made_on_demand(tmp_path: Path, permissions: str, expected: int) -> None:
    """With these permissions, whether or not there is one already."""
    path = tmp_path / "new" / "out"
    for _ in range(2):
        _write(path, traces(), create_directory=True, directory_permissions=permissions)
    assert expected == path.parent.stat().st_mode & 0o777


def test_append_keeps_what_is_there(tmp_path: Path) -> None:
    """append: true adds; the default empties."""
    path = tmp_path / "out"
    _write(path, traces())
    _write(path, traces(), append=True)
    assert len(path.read_text().splitlines()) == 2
    _write(path, traces())
    assert len(path.read_text().splitlines()) == 1


def test_exporters_of_one_path_share_the_file(tmp_path: Path) -> None:
    """Traces and logs in one file; the second to start does not empty it, the first to stop does not close it."""
    config = Config(path=str(tmp_path / "out"))
    made = {signal: settings(signal, Recorder()) for signal in (Signal.TRACES, Signal.LOGS)}
    first, second = File(config, made[Signal.TRACES]), File(config, made[Signal.LOGS])
    first.start()
    push(first.consumer, made[Signal.TRACES].runtime, traces())
    second.start()
    first.shutdown(20)
    push(second.consumer, made[Signal.LOGS].runtime, logs())
    second.shutdown(20)
    keys = [next(iter(json.loads(line))) for line in (tmp_path / "out").read_text().splitlines()]
    assert keys == ["resourceSpans", "resourceLogs"]


def test_missing_folder_cannot_start(tmp_path: Path) -> None:
    """The error names the path and the reason; shutdown is safe after it."""
    exporter = File(Config(path=str(tmp_path / "none" / "out")), settings(Signal.TRACES, Recorder()))
    with pytest.raises(
        StartError, match="cannot write .*no such file or directory; create_directory: true makes its folder"
    ):
        exporter.start()
    exporter.shutdown(1)


def test_rotation_starts_a_new_file_before_the_limit(tmp_path: Path) -> None:
    """No file grows over max_megabytes, no record is split, surplus backups go, other files stay."""
    other = tmp_path / "out-keep.txt"
    other.write_text("mine")
    file = _file(tmp_path / "out.txt", rotation=Rotation(max_megabytes=1, max_backups=2))
    for number in range(8):
        file.write(bytes([number]) * 600_000)
    file.close()
    backups = sorted(path for path in tmp_path.iterdir() if path not in (other, tmp_path / "out.txt"))
    assert [path.read_bytes()[0] for path in backups] == [5, 6]
    assert (tmp_path / "out.txt").read_bytes() == b"\x07" * 600_000
    assert other.read_text() == "mine"


def test_rotation_that_broke_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renamed, but without a descriptor for the new file: the next write opens it."""
    path = tmp_path / "out.bin"
    file = _file(path, rotation=Rotation(max_megabytes=1))
    record = bytes(600_000)
    file.write(record)

    def no_file(*_arguments: Any) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_file)
        with pytest.raises(OSError, match="too many"):
            file.write(record)
    file.write(record)
    file.close()
    assert [len(record)] * 2 == [entry.stat().st_size for entry in tmp_path.iterdir()]
    assert path.exists()


def test_failed_write_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up in the middle of a record costs that record, not the ones around it."""
    file = _file(tmp_path / "out")
    file.write(b"first\n")
    real_write = os.write
    calls: list[int] = []

    def fail_second_time(fd: int, data: Any) -> int:
        calls.append(len(data))
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real_write(fd, bytes(data)[:3])

    monkeypatch.setattr(os, "write", fail_second_time)
    with pytest.raises(OSError, match="No space left"):
        file.write(b"second\n")
    monkeypatch.setattr(os, "write", real_write)
    file.write(b"third\n")
    file.close()
    assert (tmp_path / "out").read_bytes() == b"first\nthird\n"


def test_file_that_was_renamed_is_left_when_told(tmp_path: Path) -> None:
    """As logrotate has it: rename, SIGHUP; the exporter, which a reload keeps, goes on in a new file."""
    path = tmp_path / "out"
    made = settings(Signal.TRACES, Recorder())
    exporter = File(Config(path=str(path)), made)
    exporter.start()

    def write(count: int) -> None:
        push(exporter.consumer, made.runtime, traces())
        wait_until(lambda: values(exporter.samples())["otelcol_exporter_sent_spans"] == count)

    write(1)
    path.rename(tmp_path / "out.1")
    write(2)
    exporter.refresh()
    write(3)
    exporter.refresh()  # nothing to do
    write(4)
    exporter.shutdown(20)
    lines = [len((tmp_path / name).read_text().splitlines()) for name in ("out.1", "out")]
    assert [2, 2] == lines


def test_file_that_cannot_be_opened_again_is_written_on(tmp_path: Path) -> None:
    """It is told, and nothing is lost."""
    folder = tmp_path / "folder"
    folder.mkdir()
    recorder = Recorder()
    made = settings(Signal.TRACES, recorder)
    exporter = File(Config(path=str(folder / "out")), made)
    exporter.start()
    folder.rename(tmp_path / "elsewhere")
    exporter.refresh()
    push(exporter.consumer, made.runtime, traces())
    exporter.shutdown(20)
    assert "no such file or directory" in recorder.fields("file not opened again")["error"]
    assert 1 == len((tmp_path / "elsewhere" / "out").read_text().splitlines())


def test_another_exporter_of_the_path_has_it_opened_again(tmp_path: Path) -> None:
    """A reload that changes the exporter: the new one writes to what is at the path, as it is configured."""
    path = tmp_path / "out"
    made = settings(Signal.TRACES, Recorder())
    old = File(Config(path=str(path)), made)
    new = File(Config(path=str(path), rotation=Rotation(max_megabytes=1)), made)
    old.start()
    path.rename(tmp_path / "renamed")
    new.start()
    old.shutdown(20)
    for _ in range(2):
        push(new.consumer, made.runtime, traces(1, "x" * 600_000))
    new.shutdown(20)
    assert 3 == len(list(tmp_path.iterdir()))
    assert 1 == len(path.read_text().splitlines())
    assert "" == (tmp_path / "renamed").read_text()


def test_deleted_file_is_made_anew(tmp_path: Path) -> None:
    """Without being told: what went on into the deleted one, nobody would ever see."""
    path = tmp_path / "new" / "out"
    file = _file(path, create_directory=True)
    file.write(b"first\n")
    path.unlink()
    file.write(b"second\n")
    assert "second\n" == path.read_text()
    path.unlink()
    path.parent.rmdir()
    file.write(b"third\n")
    file.close()
    assert "third\n" == path.read_text()


def test_size_is_that_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may shorten it, as copytruncate does: it is not rotated, and half a record is cut off where it began."""
    path = tmp_path / "out"
    file = _file(path, rotation=Rotation(max_megabytes=1))
    file.write(bytes(600_000))
    os.truncate(path, 0)
    file.write(bytes(600_000))
    assert [path] == list(tmp_path.iterdir())
    os.truncate(path, 0)
    real_write = os.write
    left = [2, 0]

    def fail_second_time(fd: int, data: Any) -> int:
        if n_bytes := left.pop(0):
            return real_write(fd, bytes(data)[:n_bytes])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail_second_time)
        with pytest.raises(OSError, match="No space left"):
            file.write(b"half\n")
    file.write(b"whole\n")
    file.close()
    assert b"whole\n" == path.read_bytes()


def test_rotated_file_has_the_time_of_the_zone_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the zone of the machine has been changed since the start."""
    file = _file(tmp_path / "out", rotation=Rotation(max_megabytes=1, localtime=True))
    hours = []
    try:
        for zone in ("EAST-9", "WEST+9"):
            monkeypatch.setenv("TZ", zone)
            monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
            for _ in range(2):
                file.write(bytes(600_000))
            [name] = [path.name for path in tmp_path.iterdir() if path.name != "out"]
            hours.append(name[4:17])
            (tmp_path / name).unlink()
            os.truncate(tmp_path / "out", 0)
    finally:
        monkeypatch.undo()
        time.tzset()
    file.close()
    assert ["2023-11-15T07", "2023-11-14T13"] == hours


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        (Config(), ["path"]),
        (Config(path="x"), []),
        (Config(path="x", append=True, compression=Compression.ZSTD), []),
        (Config(path="x", create_directory=True, directory_permissions="0750"), []),
        (Config(path="x", create_directory=True, directory_permissions="0980"), ["directory_permissions"]),
        (Config(path="x", directory_permissions="0750"), ["directory_permissions"]),
        (Config(path="x", append=True, rotation=Rotation()), ["append"]),
    ],
)
def test_problems_name_the_key(config: Config, fields: list[str]) -> None:
    """The Collector's rules."""
    assert [field for field, _ in config.problems()] == fields


def test_rotation_of_0_megabytes_is_the_default() -> None:
    """As of the Collector, in which nobody can turn the limit off."""
    assert Rotation().max_bytes == Rotation(max_megabytes=0).max_bytes == 100 << 20
