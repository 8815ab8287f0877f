"""An exporter that needs no key."""

from __future__ import annotations

from collector.component import Factory, Stability
from collector.config.fields import option, section
from collector.ids import Signal


@section
class Config:
    verbosity: str = option("basic", doc="How much.", choices=("basic", "normal", "detailed"))


factory = Factory(config=Config, create=lambda *_: None, signals=frozenset(Signal), stability=Stability.BETA)
