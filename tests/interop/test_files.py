"""The file exporter writes the Collector's files: JSON to the letter, records of protobuf, frames, rotated names."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from collector.ids import Signal
from tests.conformance.bodies import HTTP_PATHS
from tests.conformance.peers import exchange, http_request
from tests.interop import mutations
from tests.interop.harness import Ports, base, normalise, run_both
from tests.support import otlp

REQUESTS = 300


def _records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a file in which each has its length in front."""
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


def _write(
    signal: Signal, keys: dict[str, Any], folder: Path, requests: list[bytes]
) -> dict[str, list[Path]]:
    """Return the files that both make of requests, oldest first, by side."""
    folders: list[Path] = []

    def config(ports: Ports) -> dict[str, Any]:
        folders.append(folder / str(ports.http))
        folders[-1].mkdir()
        (folders[-1] / "out.data").write_bytes(b"before\n")
        pipeline = {"receivers": ["otlp"], "exporters": ["file"]}
        exporter = {"path": str(folders[-1] / "out.data"), **keys}
        return base(ports, exporters={"file": exporter}, pipelines={signal.value: pipeline})

    with run_both(config, folder) as pair:
        where = {side: folder / str(process.http[1]) for side, process in pair.processes.items()}
        for process in pair.processes.values():
            for body in requests:
                headers = [("Content-Type", "application/x-protobuf")]
                assert 200 == exchange(process.http, http_request(HTTP_PATHS[signal], body, headers)).status
        pair.drain()
    # The file that is written to has no time in its name, and is the newest.
    return {
        side: sorted(path.iterdir(), key=lambda file: (file.name == "out.data", file.name))
        for side, path in where.items()
    }


def _requests(signal: Signal, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    return [mutations.message(rng, signal).SerializeToString() for _ in range(REQUESTS)]


_MESSAGES = ("resource", "scope", "status", "value", "body", "positive", "negative")


def _read(line: str) -> str:
    """Return a line of JSON in one order, without messages that are empty: the Collector shows absent ones as such."""

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: value for key, value in pairs if value != {} or key not in _MESSAGES}

    return json.dumps(json.loads(line, object_pairs_hook=keep), sort_keys=True)


@pytest.mark.parametrize("signal", Signal)
@pytest.mark.parametrize("append", [False, True])
def test_lines_of_json_say_the_same(signal: Signal, append: bool, tmp_path: Path) -> None:
    """A line a request, each field named and written as by the Collector; what was there before stays if asked."""
    files = _write(signal, {"append": append}, tmp_path, _requests(signal, 1))
    contents = {}
    for side, paths in files.items():
        lines = paths[-1].read_text().split("\n")
        assert "" == lines.pop()
        if append:
            assert "before" == lines.pop(0)
        contents[side] = sorted(map(_read, lines))
    assert REQUESTS == len(contents["spansieve"])
    assert contents["collector"] == contents["spansieve"]


@pytest.mark.parametrize("format", ["json", "proto"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_records_are_framed_alike(format: str, compression: str, tmp_path: Path) -> None:
    """Lengths in front, zstd frames or none, and in them the same requests."""
    signal = Signal.LOGS
    keys = {"format": format} | ({} if compression == "none" else {"compression": compression})
    files = _write(signal, keys, tmp_path, _requests(signal, 2))
    contents = {}
    for side, (path,) in files.items():
        data = path.read_bytes()
        records = data.splitlines() if keys == {"format": "json"} else list(_records(data))
        if compression == "zstd":
            records = [zstandard.ZstdDecompressor().decompressobj().decompress(record) for record in records]
        if format == "proto":
            records = [
                normalise(otlp.decode(signal, record)).SerializeToString(deterministic=True)
                for record in records
            ]
        else:
            records = [_read(record.decode()).encode() for record in records]
        contents[side] = sorted(records)
    assert REQUESTS == len(contents["spansieve"])
    assert contents["collector"] == contents["spansieve"]


def test_files_are_rotated_alike(tmp_path: Path) -> None:
    """At the same records, to names of the same shape, and as many are kept."""
    signal = Signal.TRACES
    bodies = [otlp.traces(otlp.span("x" * 100_000)).SerializeToString()] * 35
    files = _write(signal, {"rotation": {"max_megabytes": 1, "max_backups": 2}}, tmp_path, bodies)
    found = {
        side: [(re.sub(r"\d", "0", path.name), path.read_bytes().count(b"\n")) for path in paths]
        for side, paths in files.items()
    }
    assert 3 == len(found["spansieve"])
    assert found["collector"] == found["spansieve"]
