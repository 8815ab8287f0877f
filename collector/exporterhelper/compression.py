"""The `compression` and `compression_params` keys, and compressors that threads do not share.

Source: OpenTelemetry Collector, configcompression (names, levels, error texts).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from collector.config.fields import option, section
from collector.lean import Any
from collector.native.codec import Codec

_LEVELS = {"gzip": range(-1, 10), "zlib": range(-1, 10), "deflate": range(-1, 10), "zstd": range(-1, 23)}


@section
class CompressionParams:
    """The `compression_params` section."""

    level: int = option(
        0,
        doc="gzip, zlib, deflate: 1 to 9; zstd: 1 to 22; 0 or -1 for the default (6; zstd 1 below 1 MiB, else 3).",
    )

    def level_problems(self, compression: str) -> Iterator[tuple[str, str]]:
        """Yield (field, message) when compression has no such level."""
        levels = _LEVELS.get(compression, range(1))
        if self.level not in levels:
            text = f'unsupported parameters {{Level:{self.level}}} for compression type "{compression}"'
            yield "compression_params", text


class Compressor:
    """Compresses in any thread, each with contexts of its own that are reused."""

    def __init__(self, params: CompressionParams) -> None:
        self._level = max(0, params.level)
        self._local = threading.local()

    def compress(self, compression: str, data: Any) -> Any:
        """Return data compressed, as a buffer.

        Args:
            compression: gzip, zstd, snappy, x-snappy-framed, zlib or deflate (both RFC 1950); none returns data itself.
            data: any buffer.
        """
        if compression == "none":
            return data
        if not hasattr(self._local, "codec"):
            self._local.codec = Codec()
        encoding = "zlib" if compression == "deflate" else compression
        return self._local.codec.compress(encoding, data, self._level if compression in _LEVELS else 0)
