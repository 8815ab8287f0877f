"""Secrets, a key that is required, an older name."""

from __future__ import annotations

import enum

from collector.component import Factory, Stability
from collector.config.fields import Secret, option, section
from collector.ids import Signal


class Compression(enum.StrEnum):
    GZIP = "gzip"
    ZSTD = "zstd"
    NONE = "none"


@section
class Config:
    endpoint: str = option(doc="Where to send to.")
    compression: Compression = option(Compression.GZIP, doc="How bodies are compressed.")
    headers: dict[str, Secret] = option(factory=dict, doc="Headers.")
    queue_size: int = option(1000, doc="Requests.", minimum=1)


factory = Factory(
    config=Config,
    create=lambda *_: None,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    aliases=("otlphttp",),
)
