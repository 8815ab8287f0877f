"""Count and discard: for tests, benchmarks, and pipelines that only feed connectors."""

from __future__ import annotations

from collections.abc import Iterator

from collector.component import Factory, Settings, Stability
from collector.config.fields import section
from collector.exporterhelper.queue import SENT
from collector.ids import Signal
from collector.native.pipeline import Discard
from collector.telemetry.instruments import Sample


@section
class Config:
    """It has no keys."""


class Nop:
    """The exporter of one signal; all of it is native."""

    def __init__(self, config: Config, settings: Settings) -> None:
        del config
        self._settings = settings
        self._signal = settings.own_signal
        self.consumer = Discard(settings.own_signal)

    def start(self) -> None:
        """Nothing to do."""

    def shutdown(self, deadline_s: float) -> None:
        """Nothing to wait for."""

    def samples(self) -> Iterator[Sample]:
        """Yield the items discarded, as sent."""
        labels = (("exporter", str(self._settings.id)),)
        yield Sample(SENT[self._signal.items], labels, self.consumer.items)


factory = Factory(config=Config, create=Nop, signals=frozenset(Signal), stability=Stability.BETA)
