"""Receive nothing: for configurations that must name a receiver, and get their data from elsewhere or not at all.

Source: OpenTelemetry Collector, `nop` receiver.
"""

from __future__ import annotations

from collector.component import Component, Factory, Settings, Stability
from collector.config.fields import section
from collector.ids import Signal
from collector.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.native.pipeline import Consumer


@section
class Config:
    """It has no keys."""


class Nop(Component):
    """A receiver to which nobody can send."""

    def __init__(self, config: Config, settings: Settings) -> None:
        """Need nothing."""

    def start(self) -> None:
        """Nothing to do."""

    def publish(self, signal: Signal, consumer: Consumer | None) -> None:
        """Leave consumer alone: there is nothing to pass on."""

    def shutdown(self, deadline_s: float) -> None:
        """Nothing to wait for."""


factory = Factory(config=Config, create=Nop, signals=frozenset(Signal), stability=Stability.BETA)
