"""Real captures, used where they are: in SPANSIEVE_CORPUS, or beside the checkout."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
import zstandard

FOLDER = Path(os.environ.get("SPANSIEVE_CORPUS") or Path(__file__).parents[2] / "../shared/corpus")
CAPTURES = FOLDER / "splunk+stef/benchmarks/testdata"


def path(relative: str) -> Path:
    """Return a corpus file, or skip the test where the corpus is absent."""
    found = FOLDER / relative
    if not found.exists():
        pytest.skip(f"corpus file {relative} is not here")
    return found


def messages(capture: str) -> list[bytes]:
    """Return the serialized messages of a capture: zstd of (4-byte big-endian length, message) pairs."""
    compressed = path(f"splunk+stef/benchmarks/testdata/{capture}").read_bytes()
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(compressed)
    found = []
    position = 0
    while position < len(raw):
        (length,) = struct.unpack_from(">I", raw, position)
        found.append(raw[position + 4 : position + 4 + length])
        position += 4 + length
    return found
