"""The `compression` and `compression_params` keys, and what compresses anew.

Source: OpenTelemetry Collector, configcompression (names, levels, error texts).
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.fields import option, section
from collector.exporterhelper.request import Request
from collector.lean import Any
from collector.native.codec import Codec, Encoding
from collector.threads import Local

_DEFLATE = ("gzip", "zlib", "deflate")
_DEFLATE_MIDDLE = 6  # what zlib and Go mean by -1
_LEVELS = {**dict.fromkeys(_DEFLATE, range(-1, 10)), "zstd": range(-1, 23)}


@section
class CompressionParams:
    """The `compression_params` section."""

    level: int = option(
        0,
        doc="gzip, zlib, deflate: 1 to 9, -1 is 6; zstd: 1 to 22; 0 for the default: 1, and zstd wider from 1 MiB on.",
    )

    def level_problems(self, compression: str) -> Iterator[tuple[str, str]]:
        """Yield (field, message) when compression has no such level."""
        levels = _LEVELS.get(compression, range(1))
        if self.level not in levels:
            text = f'unsupported parameters {{Level:{self.level}}} for compression type "{compression}"'
            yield "compression_params", text


def native_level(params: CompressionParams, compression: str) -> int:
    """Return the level that the data plane knows; 0 is the default of a compression, or its only one."""
    if params.level == -1 and compression in _DEFLATE:
        return _DEFLATE_MIDDLE
    return max(0, params.level) if compression in _LEVELS else 0


class Recoder:
    """Gives requests the compression that they are sent with, where the queue has given them another.

    It may be used by several threads; each has contexts of its own.
    """

    def __init__(self) -> None:
        self._local = Local()

    def recode(self, request: Request, encoding: str, level: int = 0) -> Any:
        """Return the message of request in encoding, as a buffer.

        Args:
            encoding: a value of native.codec.Encoding.
            level: 0 is the default.
        """
        if request.encoding == encoding:
            return request.view
        if not hasattr(self._local, "codec"):
            self._local.codec = Codec()
        codec: Codec = self._local.codec
        message = request.view
        if request.encoding != Encoding.IDENTITY:
            message = codec.decompress(request.encoding, message, request.size)
        return message if encoding == Encoding.IDENTITY else codec.compress(encoding, message, level)
