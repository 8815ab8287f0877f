"""Insert, update, delete, hash, extract and convert attributes of resources.

The Collector's `resource`. Of a request, resources that come to have the same attributes stay apart.

Source: OpenTelemetry Collector contrib, resource processor.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.component import Component, Factory, Settings, Stability
from collector.config.attributes import Action, action_problems, metadata_names, native_actions
from collector.config.fields import option, section
from collector.ids import Signal
from collector.native import attributes as native


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


class Resource(Component):
    """The processor: all work is in its op."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self.op = native.attributes(native_actions(config.attributes), is_resource=True)

    def start(self) -> None:
        """Nothing to start."""

    def shutdown(self, deadline_s: float) -> None:
        """Nothing to stop."""


factory = Factory(
    config=Config,
    create=Resource,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    example="attributes:\n  - {key: deployment.environment.name, action: upsert, value: production}",
)
