"""Compression parameters, and what other people's decoders make of our bytes."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Callable

import pytest
import zstandard

from collector.exporterhelper.compression import CompressionParams, Recoder, native_level
from collector.exporterhelper.request import Request
from collector.native.codec import Codec

DATA = b"hello " * 1000


def _unzstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


def _request(data: bytes, encoding: str = "identity") -> Request:
    message = data if encoding == "identity" else Codec().compress(encoding, data)
    return Request(memoryview(message), 1, len(data), encoding)


@pytest.mark.parametrize("level", [-1, 0, 1, 9])
@pytest.mark.parametrize(
    ("compression", "encoding", "decode"),
    [
        ("gzip", "gzip", gzip.decompress),
        ("zstd", "zstd", _unzstd),
        ("zlib", "zlib", zlib.decompress),
        ("deflate", "zlib", zlib.decompress),
    ],
)
@pytest.mark.parametrize("waits_as", ["identity", "gzip", "zstd"])
def test_every_level_decodes(
    compression: str, encoding: str, decode: Callable[[bytes], bytes], level: int, waits_as: str
) -> None:
    """Each accepted level gives bytes that an independent decoder reads, whatever they have waited as."""
    level = native_level(CompressionParams(level=level), compression)
    compressed = bytes(Recoder().recode(_request(DATA, waits_as), encoding, level))
    assert decode(compressed) == DATA
    assert len(compressed) < len(DATA) / 10


@pytest.mark.parametrize("encoding", ["identity", "gzip", "zstd"])
def test_what_has_its_compression_is_not_touched(encoding: str) -> None:
    """Nothing is copied where the queue has compressed already."""
    request = _request(DATA, encoding)
    assert Recoder().recode(request, encoding) is request.view


def test_uncompressed_again_where_the_server_knows_nothing() -> None:
    """The plain message comes back."""
    assert bytes(Recoder().recode(_request(DATA, "zstd"), "identity")) == DATA


def test_threads_do_not_share_a_codec() -> None:
    """Many threads through one recoder, and every result is right."""
    recoder = Recoder()
    wrong: list[int] = []

    def work(number: int) -> None:
        data = bytes([number]) * 50_000
        for _ in range(20):
            if _unzstd(bytes(recoder.recode(_request(data, "gzip"), "zstd"))) != data:
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
        ("none", 3, False),
    ],
)
def test_levels(compression: str, level: int, is_supported: bool) -> None:
    """A level that the compression does not have is a problem, in the Collector's words."""
    problems = list(CompressionParams(level=level).level_problems(compression))
    text = f'unsupported parameters {{Level:{level}}} for compression type "{compression}"'
    assert problems == ([] if is_supported else [("compression_params", text)])
