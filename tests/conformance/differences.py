"""Where the portable transport cannot give the native one's answer, and why.

A call that is listed here must still answer as listed: an entry that is no longer true fails the run. Where grpcio
answers now so, now so, no answer is listed, and what counts is that the next client is served.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """What grpcio does instead.

    Attributes:
        status: the gRPC status; None where there is none.
        message: a pattern of its status message.
        is_delivered: whether the request reaches the sink.
        is_stable: False where the answer depends on timing.
    """

    reason: str
    status: int | None = None
    message: str = ""
    is_delivered: bool = False
    is_stable: bool = True


_ENCODING = Difference(
    "grpcio knows no encoding but gzip and deflate", 13, "Error parsing 'grpc-encoding' metadata"
)
_LIMIT = Difference(
    "grpcio has its own words, which OTLP leaves free", 8, r"Received message larger than max \(\d+ vs"
)
_CORRUPT = Difference("grpcio has its own words, which OTLP leaves free", 13, "Decompression failed")
_COUNT = Difference("grpcio counts only whole messages", 12, "requires exactly one request message")
_ROUTE = Difference("grpcio does not tell services from methods", 12, "Method not found!")
_FLOOD = Difference("grpcio works the flood off, at the flooder's pace", is_stable=False)
_LENIENT = Difference("grpcio drops the frame and keeps the connection")

PORTABLE = {
    "grpc: padded data frames": Difference("grpcio does not take padding"),
    "grpc: gzip, two members": Difference("grpcio reads one gzip member", 13, "Decompression failed"),
    "grpc: zstd": _ENCODING,
    "grpc: zstd, two frames": _ENCODING,
    "grpc: snappy": _ENCODING,
    "grpc: one over the limit": _LIMIT,
    "grpc: one over the limit, gzip": _LIMIT,
    "grpc: one over the limit, zstd": _ENCODING,
    "grpc: one over the limit, snappy": _ENCODING,
    "grpc: corrupt gzip": _CORRUPT,
    "grpc: truncated gzip": _CORRUPT,
    "grpc: truncated zstd": _ENCODING,
    "grpc: compressed without an encoding": Difference(
        "grpcio has its own words, which OTLP leaves free",
        13,
        "Compression bit set but no encoding configured",
    ),
    "grpc: unknown encoding": _ENCODING,
    "grpc: unknown flag": Difference("grpcio may or may not look at the other bits", is_stable=False),
    "grpc: no message": _COUNT,
    "grpc: half a length prefix": _COUNT,
    "grpc: half a message": _COUNT,
    "grpc: two messages": Difference("grpcio takes the first message and stops reading", 0, "", True),
    "grpc: unknown service": _ROUTE,
    "grpc: unknown method": _ROUTE,
    "grpc: content type": Difference("grpcio looks at the message only", 12),
    "flood: ping": _FLOOD,
    "flood: settings": _FLOOD,
    "flood: rapid reset": _FLOOD,
    "flood: continuation": _FLOOD,
    "http2: data of no stream": _LENIENT,
    "http2: an even stream": _LENIENT,
}


def of(transport: str, case: str) -> Difference | None:
    """Return what transport does differently in case; None where it does as it should."""
    return PORTABLE.get(case) if transport == "grpcio" else None
