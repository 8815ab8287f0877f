"""Message and content encodings, with contexts that are kept from call to call."""

from __future__ import annotations

from collector.lean import Any, StrEnum
from collector.native.errors import check, new_error
from collector.native.library import ffi, lib


class Encoding(StrEnum):
    """The encodings of `ss_encoding`, under the names that HTTP headers use."""

    IDENTITY = "identity"
    GZIP = "gzip"
    ZSTD = "zstd"
    SNAPPY = "snappy"
    ZLIB = "zlib"
    SNAPPY_FRAMED = "x-snappy-framed"
    LZ4 = "lz4"

    @property
    def is_available(self) -> bool:
        """False where the library was not there at build time."""
        return bool(lib.ss_encoding_is_available(_NUMBERS[self]))


_NUMBERS: dict[str, int] = {
    "identity": lib.SS_ENCODING_IDENTITY,
    "gzip": lib.SS_ENCODING_GZIP,
    "zstd": lib.SS_ENCODING_ZSTD,
    "snappy": lib.SS_ENCODING_SNAPPY,
    "zlib": lib.SS_ENCODING_ZLIB,
    "x-snappy-framed": lib.SS_ENCODING_SNAPPY_FRAMED,
    "lz4": lib.SS_ENCODING_LZ4,
}


def encoding_number(encoding: str) -> int:
    """Return the `ss_encoding` of a value of Encoding."""
    return _NUMBERS[encoding]


def encoding_of(number: int) -> Encoding:
    """Return what an `ss_encoding` stands for."""
    return next(encoding for encoding in Encoding if _NUMBERS[encoding] == number)


class Codec:
    """Compresses and decompresses; for one thread at a time."""

    def __init__(self) -> None:
        self._pointer = ffi.gc(lib.ss_codec_new(), lib.ss_codec_free)
        if self._pointer == ffi.NULL:
            raise MemoryError
        self._out = ffi.gc(ffi.new("ss_buffer *"), lib.ss_buffer_free)

    def compress(self, encoding: str, data: Any, level: int = 0) -> bytes:
        """Return data in encoding.

        Args:
            encoding: a value of Encoding.
            data: bytes or any other contiguous buffer.
            level: of the encoding's own scale; 0 is its default (zstd: 1, with a wide window from 1 MiB on).

        Raises:
            NativeError: no such level, or the encoding is not available.
        """
        view = ffi.from_buffer(data)
        self._out.length = 0
        check(lib.ss_compress(self._pointer, _NUMBERS[encoding], level, view, len(view), self._out), encoding)
        return self._take()

    def decompress(self, encoding: str, data: Any, max_length: int) -> bytes:
        """Return what data holds in encoding.

        Args:
            encoding: a value of Encoding.
            data: bytes or any other contiguous buffer.
            max_length: bytes at most.

        Raises:
            LimitExceeded: there is more than max_length.
            MalformedInput: data is not whole or not in encoding.
        """
        view = ffi.from_buffer(data)
        error = new_error()
        self._out.length = 0
        number = _NUMBERS[encoding]
        status = lib.ss_decompress(self._pointer, number, view, len(view), max_length, self._out, error)
        check(status, encoding, error)
        return self._take()

    def _take(self) -> bytes:
        return bytes(ffi.buffer(self._out.data, self._out.length)) if self._out.length else b""
