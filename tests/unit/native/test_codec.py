"""The codecs against the encoders that others use."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from collector.errors import LimitExceeded, MalformedInput, NativeError
from collector.native.codec import Codec, Encoding

SAMPLE = b"service.name=checkout " * 500

THEIRS: list[tuple[Encoding, Callable[[bytes], bytes], Callable[[bytes], bytes]]] = [
    (Encoding.GZIP, gzip.compress, gzip.decompress),
    (Encoding.ZLIB, zlib.compress, zlib.decompress),
    (Encoding.ZSTD, zstandard.compress, zstandard.decompress),
]
AVAILABLE = [encoding for encoding in Encoding if encoding.is_available]


@pytest.mark.parametrize(("encoding", "pack", "unpack"), THEIRS)
def test_speaks_the_common_formats(
    encoding: Encoding, pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]
) -> None:
    """What they pack we unpack, and the other way."""
    codec = Codec()
    assert SAMPLE == codec.decompress(encoding, pack(SAMPLE), len(SAMPLE))
    assert SAMPLE == unpack(codec.compress(encoding, SAMPLE))


@given(data=st.binary(max_size=5000), encoding=st.sampled_from(AVAILABLE))
def test_round_trip_gives_the_input_back(data: bytes, encoding: Encoding) -> None:
    """Any bytes come back from any encoding."""
    codec = Codec()
    packed = codec.compress(encoding, data)
    assert data == codec.decompress(encoding, packed, len(data))


def test_stream_without_a_stated_size_is_read() -> None:
    """zstd frames of streaming writers, which state no size, are read and limited."""
    writer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = writer.compress(SAMPLE) + writer.flush()
    assert SAMPLE == Codec().decompress(Encoding.ZSTD, packed, len(SAMPLE))
    with pytest.raises(LimitExceeded):
        Codec().decompress(Encoding.ZSTD, packed, len(SAMPLE) - 1)


@pytest.mark.parametrize("encoding", AVAILABLE)
def test_more_than_the_limit_is_refused(encoding: Encoding) -> None:
    """One byte over the limit raises."""
    codec = Codec()
    packed = codec.compress(encoding, SAMPLE)
    with pytest.raises(LimitExceeded):
        codec.decompress(encoding, packed, len(SAMPLE) - 1)


@pytest.mark.parametrize("encoding", [e for e in AVAILABLE if e is not Encoding.IDENTITY])
def test_damaged_input_is_malformed(encoding: Encoding) -> None:
    """Truncated input raises, and the codec works on."""
    codec = Codec()
    packed = codec.compress(encoding, SAMPLE)
    with pytest.raises(MalformedInput):
        codec.decompress(encoding, packed[:-1], len(SAMPLE))
    assert SAMPLE == codec.decompress(encoding, packed, len(SAMPLE))


def test_unknown_level_is_refused() -> None:
    """A level outside the encoding's scale raises."""
    with pytest.raises(NativeError):
        Codec().compress(Encoding.GZIP, b"", 17)


def test_views_are_taken_without_a_copy_by_the_caller() -> None:
    """Any contiguous buffer serves as input."""
    codec = Codec()
    packed = codec.compress(Encoding.ZSTD, memoryview(bytearray(SAMPLE)))
    assert SAMPLE == codec.decompress(Encoding.ZSTD, memoryview(packed), len(SAMPLE))
