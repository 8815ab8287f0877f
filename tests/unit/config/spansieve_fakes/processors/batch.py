"""Durations, numbers and a rule across fields."""

from __future__ import annotations

from collector.component import Factory, Stability
from collector.config.fields import Duration, option, section
from collector.ids import Signal


@section
class Config:
    timeout: Duration = option(Duration(0.2), doc="Longest wait.", minimum=0)
    send_batch_size: int = option(8192, doc="Enough.", minimum=0)
    send_batch_max_size: int = option(0, doc="Largest; 0 is none.", minimum=0)
    metadata_keys: tuple[str, ...] = option((), doc="Keys.")

    def problems(self):
        if 0 < self.send_batch_max_size < self.send_batch_size:
            yield "send_batch_max_size", "must be greater or equal to send_batch_size"


factory = Factory(config=Config, create=lambda *_: None, signals=frozenset(Signal), stability=Stability.BETA)
