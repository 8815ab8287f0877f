"""An extension."""

from __future__ import annotations

from collector.component import Factory, Stability
from collector.config.fields import option, section


@section
class Config:
    endpoint: str = option("localhost:13133", doc="Where to listen.")


factory = Factory(config=Config, create=lambda *_: None, signals=frozenset(), stability=Stability.BETA)
