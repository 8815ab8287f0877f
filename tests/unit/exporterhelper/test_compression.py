"""Compression parameters, and what other people's decoders make of our bytes."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Callable

import pytest
import zstandard

from collector.exporterhelper.compression import CompressionParams, Compressor

DATA = b"hello " * 1000


def _unzstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


@pytest.mark.parametrize("level", [-1, 0, 1, 9])
@pytest.mark.parametrize(
    ("compression", "decode"),
    [("gzip", gzip.decompress), ("zstd", _unzstd), ("zlib", zlib.decompress), ("deflate", zlib.decompress)],
)
def test_every_level_decodes(compression: str, decode: Callable[[bytes], bytes], level: int) -> None:
    """Each accepted level gives bytes that an independent decoder reads."""
    compressed = bytes(Compressor(CompressionParams(level=level)).compress(compression, DATA))
    assert decode(compressed) == DATA
    assert len(compressed) < len(DATA) / 10


def test_none_is_the_data_itself() -> None:
    """Nothing is copied without compression."""
    assert Compressor(CompressionParams()).compress("none", DATA) is DATA


def test_threads_do_not_share_a_codec() -> None:
    """Many threads through one compressor, and every result is right."""
    compressor = Compressor(CompressionParams())
    wrong: list[int] = []

    def work(number: int) -> None:
        data = bytes([number]) * 50_000
        for _ in range(20):
            if _unzstd(bytes(compressor.compress("zstd", data))) != data:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("compression", "level", "is_supported"),
    [
        ("gzip", 9, True),
        ("gzip", 10, False),
        ("gzip", -1, True),
        ("gzip", -2, False),
        ("zstd", 22, True),
        ("zstd", 23, False),
        ("snappy", 0, True),
        ("snappy", 1, False),
        ("lz4", 0, True),
        ("lz4", 1, False),
        ("none", 3, False),
    ],
)
def test_levels(compression: str, level: int, is_supported: bool) -> None:
    """A level that the compression does not have is a problem, in the Collector's words."""
    problems = list(CompressionParams(level=level).level_problems(compression))
    text = f'unsupported parameters {{Level:{level}}} for compression type "{compression}"'
    assert problems == ([] if is_supported else [("compression_params", text)])
