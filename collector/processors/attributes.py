"""Insert, update, delete, hash, extract and convert attributes of spans, log records and data points.

The Collector's `attributes`. Points that come to have the same attributes stay points of their own, as in the
Collector: to remove a label and merge what then coincides is for `metrics_transform`.

Source: OpenTelemetry Collector contrib, attributes processor.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.component import Component, Factory, Settings, Stability
from collector.config.attributes import (
    Action,
    MatchProperties,
    action_problems,
    match_problems,
    metadata_names,
    native_actions,
    native_match,
)
from collector.config.fields import option, section
from collector.config.syntax import join
from collector.ids import Signal
from collector.native import attributes as native


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


class Attributes(Component):
    """The processor: all work is in its op."""

    def __init__(self, config: Config, settings: Settings) -> None:
        signal = settings.own_signal
        self.op = native.attributes(
            native_actions(config.actions),
            include=native_match(config.include, signal),
            exclude=native_match(config.exclude, signal),
        )

    def start(self) -> None:
        """Nothing to start."""

    def shutdown(self, deadline_s: float) -> None:
        """Nothing to stop."""


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
