"""Insert, update, delete, hash, extract and convert attributes of spans, log records and data points.

The Collector's `attributes`. Points that come to have the same attributes stay points of their own, as in the
Collector: to remove a label and merge what then coincides is for `metrics_transform`.

Source: OpenTelemetry Collector contrib, attributes processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collector.component import Component, Factory, Settings, Stability
from collector.config.attributes import (
    Action,
    MatchProperties,
    action_problems,
    actions_without_effect,
    match_problems,
    metadata_names,
    native_actions,
    native_match,
)
from collector.config.fields import option, section
from collector.config.syntax import join
from collector.ids import Signal
from collector.native import attributes as native
from collector.telemetry.instruments import GIVEN_UP_SEARCHES, Sample
from collector.telemetry.watch import GIVEN_UP, Watch


@section
class Config:
    """Keys of `attributes`."""

    actions: tuple[Action, ...] = option((), doc="What to do, in order.")
    include: MatchProperties | None = option(None, doc="Only items that match are changed.")
    exclude: MatchProperties | None = option(None, doc="Items that match are not changed.")

    @property
    def read_metadata(self) -> tuple[str, ...]:
        """The headers of a request that the actions read."""
        return metadata_names(self.actions)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what the Collector would refuse whether it is used or not."""
        if not self.actions:
            yield "", 'missing required field "actions"'

    def problems_for(self, signal: Signal) -> Iterator[tuple[str, str]]:
        """Yield what it would refuse in a pipeline of signal."""
        yield from action_problems(self.actions, "actions")
        for name, properties in (("include", self.include), ("exclude", self.exclude)):
            for field, message in match_problems(properties, signal):
                yield join(name, field) if field else name, message

    def without_effect(self, _signal: Signal) -> Iterator[tuple[str, str]]:
        """Yield the keys of actions that change nothing."""
        return actions_without_effect(self.actions, "actions")


class Attributes(Component):
    """The processor: all work is in its op."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._settings = settings
        self._watch: Watch | None = None
        self.op = native.attributes(
            native_actions(config.actions),
            include=native_match(config.include),
            exclude=native_match(config.exclude),
        )

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
    create=Attributes,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    example="actions:\n"
    "  - {key: user.email, action: delete}\n"
    "  - {key: user.id, action: hash}\n"
    "include:\n"
    "  match_type: regexp\n"
    "  resources: [{key: service.name, value: ^shop}]",
)
