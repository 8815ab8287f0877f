"""Insert, update, delete, hash, extract and convert attributes of resources.

The Collector's `resource`. Of a request, resources that come to have the same attributes stay apart.

Source: OpenTelemetry Collector contrib, resource processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collector.component import Component, Factory, Settings, Stability
from collector.config.attributes import (
    Action,
    action_problems,
    actions_without_effect,
    metadata_names,
    native_actions,
)
from collector.config.fields import option, section
from collector.ids import Signal
from collector.native import attributes as native
from collector.telemetry.instruments import GIVEN_UP_SEARCHES, Sample
from collector.telemetry.watch import GIVEN_UP, Watch


@section
class Config:
    """Keys of `resource`."""

    attributes: tuple[Action, ...] = option((), doc="What to do, in order.")

    @property
    def read_metadata(self) -> tuple[str, ...]:
        """The headers of a request that the actions read."""
        return metadata_names(self.attributes)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what the Collector would refuse whether it is used or not."""
        if not self.attributes:
            yield "", 'missing required field "attributes"'

    def problems_for(self, signal: Signal) -> Iterator[tuple[str, str]]:
        """Yield what it would refuse in a pipeline of any signal."""
        return action_problems(self.attributes, "attributes")

    def without_effect(self, _signal: Signal) -> Iterator[tuple[str, str]]:
        """Yield the keys of actions that change nothing."""
        return actions_without_effect(self.attributes, "attributes")


class Resource(Component):
    """The processor: all work is in its op."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._settings = settings
        self._watch: Watch | None = None
        self.op = native.attributes(native_actions(config.attributes), is_resource=True)

    def start(self) -> None:
        """Watch from now on whether searches are given up."""
        counters = {GIVEN_UP: lambda: self.op.counter(native.UNDECIDED)}
        self._watch = Watch(self._settings.log, self._settings.loop.every, counters)

    def shutdown(self, deadline_s: float) -> None:
        """Watch no more."""
        if self._watch is not None:
            self._watch.stop()

    def samples(self) -> Iterable[Sample]:
        """Return the searches that were given up."""
        labels = (("processor", str(self._settings.id)), ("otel_signal", self._settings.own_signal.value))
        yield Sample(GIVEN_UP_SEARCHES, labels, self.op.counter(native.UNDECIDED))


factory = Factory(
    config=Config,
    create=Resource,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    example="attributes:\n  - {key: deployment.environment.name, action: upsert, value: production}",
)
