"""Traces only."""

from __future__ import annotations

from collector.component import Factory, Stability
from collector.config.fields import option, section
from collector.ids import Signal


@section
class Config:
    percentage: float = option(100.0, doc="Share.", unit="%", minimum=0, maximum=100)


factory = Factory(
    config=Config, create=lambda *_: None, signals=frozenset({Signal.TRACES}), stability=Stability.ALPHA
)
