"""Message and content encodings: contexts that are made when first needed and reused."""

from __future__ import annotations

from typing import Any

from collector.native.errors import check, new_error
from collector.native.library import ffi, lib

ENCODINGS = {
    "identity": lib.SS_ENCODING_IDENTITY,
    "gzip": lib.SS_ENCODING_GZIP,
    "zstd": lib.SS_ENCODING_ZSTD,
    "snappy": lib.SS_ENCODING_SNAPPY,
    "zlib": lib.SS_ENCODING_ZLIB,
}


def is_available(encoding: str) -> bool:
    """Tell whether the library of encoding was there at build time."""
    return bool(lib.ss_encoding_is_available(ENCODINGS[encoding]))


class Codec:
    """Compresses and decompresses, for one thread at a time."""

    def __init__(self) -> None:
        self._pointer = ffi.gc(lib.ss_codec_new(), lib.ss_codec_free)
        self._out = ffi.gc(ffi.new("ss_buffer *"), lib.ss_buffer_free)
        if self._pointer == ffi.NULL:
            raise MemoryError

    def compress(self, encoding: str, data: Any, level: int = 0) -> bytes:
        """Return data in encoding.

        Args:
            encoding: one of ENCODINGS.
            data: bytes-like.
            level: on the encoding's own scale; 0 is its default.
        """
        source = ffi.from_buffer(data)
        self._out.length = 0
        check(
            lib.ss_compress(self._pointer, ENCODINGS[encoding], level, source, len(source), self._out), encoding
        )
        return self._take()

    def decompress(self, encoding: str, data: Any, max_length: int) -> bytes:
        """Return what data holds.

        Args:
            encoding: one of ENCODINGS.
            data: bytes-like.
            max_length: bytes, the most that may come out.

        Raises:
            LimitExceeded: it holds more than max_length; no more was allocated.
            MalformedInput: data is not in encoding.
        """
        source = ffi.from_buffer(data)
        self._out.length = 0
        error = new_error()
        status = lib.ss_decompress(
            self._pointer, ENCODINGS[encoding], source, len(source), max_length, self._out, error
        )
        check(status, encoding, error)
        return self._take()

    def _take(self) -> bytes:
        return bytes(ffi.buffer(self._out.data, self._out.length)) if self._out.length else b""
