"""Join pipelines of the same signal: what one exports, others receive.

Source: OpenTelemetry Collector, `forward` connector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.component import Factory, Settings, Stability
from collector.config.fields import section
from collector.ids import Signal
from collector.lean import TYPE_CHECKING
from collector.native.pipeline import join

if TYPE_CHECKING:
    from collector.native.pipeline import Consumer
    from collector.telemetry.instruments import Sample


@section
class Config:
    """It has no options."""


class Forward:
    """Passes requests on as they are."""

    def __init__(self, _config: Config, settings: Settings) -> None:
        self._signal = settings.own_signal

    def connect(self, outputs: Sequence[Consumer]) -> Consumer:
        """Return the consumer that passes on to outputs."""
        return join(self._signal, outputs)

    def start(self) -> None:
        """Do nothing: requests pass on the receiver's thread."""

    def shutdown(self, deadline_s: float) -> None:
        """Do nothing: nothing is held."""

    def samples(self) -> Iterable[Sample]:
        """Return nothing."""
        return ()


factory = Factory(
    config=Config,
    create=Forward,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    connects=frozenset((signal, signal) for signal in Signal),
)
