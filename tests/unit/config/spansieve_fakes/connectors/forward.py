"""Joins pipelines of one signal."""

from __future__ import annotations

import dataclasses

from collector.component import Factory, Stability
from collector.ids import Signal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    pass


factory = Factory(
    config=Config,
    create=lambda *_: None,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    connects=frozenset((signal, signal) for signal in Signal),
)
