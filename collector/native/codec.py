"""Message and content encodings, with contexts that are kept from call to call."""

from __future__ import annotations

import enum
from typing import Any

from collector.native.errors import check, new_error
from collector.native.library import ffi, lib


class Encoding(enum.IntEnum):
    """The encodings of `ss_encoding`, under the names that gRPC and HTTP headers use."""

    IDENTITY = lib.SS_ENCODING_IDENTITY
    GZIP = lib.SS_ENCODING_GZIP
    ZSTD = lib.SS_ENCODING_ZSTD
    SNAPPY = lib.SS_ENCODING_SNAPPY
    ZLIB = lib.SS_ENCODING_ZLIB

    @property
    def is_available(self) -> bool:
        """False where the library was not there at build time."""
        return bool(lib.ss_encoding_is_available(self))


class Codec:
    """Compresses and decompresses; for one thread at a time."""

    def __init__(self) -> None:
        self._pointer = ffi.gc(lib.ss_codec_new(), lib.ss_codec_free)
        if self._pointer == ffi.NULL:
            raise MemoryError
        self._out = ffi.gc(ffi.new("ss_buffer *"), lib.ss_buffer_free)

    def compress(self, encoding: Encoding, data: Any, level: int = 0) -> bytes:
        """Return data in encoding.

        Args:
            data: bytes or any other contiguous buffer.
            level: of the encoding's own scale; 0 is its default (zstd: 1 below 1 MiB, else 3).

        Raises:
            NativeError: no such level, or the encoding is not available.
        """
        view = ffi.from_buffer(data)
        self._out.length = 0
        check(
            lib.ss_compress(self._pointer, encoding, level, view, len(view), self._out), encoding.name.lower()
        )
        return self._take()

    def decompress(self, encoding: Encoding, data: Any, max_length: int) -> bytes:
        """Return what data holds in encoding.

        Args:
            data: bytes or any other contiguous buffer.
            max_length: bytes at most.

        Raises:
            LimitExceeded: there is more than max_length.
            MalformedInput: data is not whole or not in encoding.
        """
        view = ffi.from_buffer(data)
        error = new_error()
        self._out.length = 0
        status = lib.ss_decompress(self._pointer, encoding, view, len(view), max_length, self._out, error)
        check(status, encoding.name.lower(), error)
        return self._take()

    def _take(self) -> bytes:
        return bytes(ffi.buffer(self._out.data, self._out.length)) if self._out.length else b""
