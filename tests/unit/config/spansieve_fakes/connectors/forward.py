"""Joins pipelines of one signal."""

from __future__ import annotations

from collector.component import Factory, Stability
from collector.config.fields import section
from collector.ids import Signal


@section
class Config:
    pass


factory = Factory(
    config=Config,
    create=lambda *_: None,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    connects=frozenset((signal, signal) for signal in Signal),
)
