"""A whole configuration, decoded: what the service builds from. `collector.config.load` makes it.

Source: OpenTelemetry Collector, "Configuration" and "Internal telemetry", for keys and defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

from collector.config.fields import Duration, option, section
from collector.ids import ComponentID, InvalidID, Signal
from collector.lean import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collector.component import Factory


class PipelineID(NamedTuple):
    """`signal[/name]`, as written in YAML."""

    signal: Signal
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> PipelineID:
        """Return the id for text.

        Raises:
            InvalidID: with the Collector's wording.
        """
        signal, name = ComponentID.parse(text)
        if signal not in (known.value for known in Signal):
            known = ", ".join(known.value for known in Signal)
            raise InvalidID(f'unknown signal "{signal}"; known: {known}')
        return cls(Signal(signal), name)

    def __str__(self) -> str:
        return f"{self.signal.value}/{self.name}" if self.name else self.signal.value


class ComponentEntry(NamedTuple):
    """One configured component.

    Attributes:
        type: the name that is not deprecated; an id may be written with another.
        config: an instance of factory.config.
    """

    type: str
    factory: Factory
    config: Any


class Pipeline(NamedTuple):
    """What one pipeline refers to, in the order of the file, each once."""

    receivers: tuple[ComponentID, ...]
    processors: tuple[ComponentID, ...]
    exporters: tuple[ComponentID, ...]


@section
class LogSampling:
    """How repeated log lines are thinned."""

    enabled: bool = option(True, doc="Whether repeated log lines are thinned.")
    tick: Duration = option(Duration(10.0), doc="Window in which repetitions are counted.", minimum=0)
    initial: int = option(10, doc="Repetitions of one line that are always written in a window.", minimum=0)
    thereafter: int = option(100, doc="Of the rest, each n-th is written; 0 writes none.", minimum=0)


@section
class Logs:
    """The collector's own logs."""

    level: str = option(
        "info",
        doc="Least severe level that is written.",
        choices=("debug", "info", "warn", "error", "dpanic", "panic", "fatal"),
        synonyms={"": "info", "warning": "warn"},
    )
    encoding: str = option("console", doc="Form of a line.", choices=("console", "json"))
    development: bool = option(False, doc="Accepted for the Collector's sake; has no effect.")
    disable_caller: bool = option(
        False, doc="Accepted for the Collector's sake; the caller is never written."
    )
    disable_stacktrace: bool = option(
        False, doc="Accepted for the Collector's sake; stack traces are never written."
    )
    sampling: LogSampling = option(factory=LogSampling, doc="How repeated log lines are thinned.")
    output_paths: tuple[str, ...] = option(("stderr",), doc="Files, or `stderr` and `stdout`, to write to.")
    error_output_paths: tuple[str, ...] = option(
        ("stderr",), doc="Accepted for the Collector's sake; errors of logging itself go to stderr."
    )
    initial_fields: dict[str, object] = option(factory=dict, doc="Fields added to every line.")
    processors: tuple[Any, ...] = option(
        (), doc="Accepted for the Collector's sake, with a warning: logs are not exported."
    )
    disable_zap_resource: bool = option(
        False,
        doc="Leave the collector's attributes out of lines in JSON, where they are the field `resource`.",
    )


@section
class Prometheus:
    """Where the collector's own metrics can be scraped."""

    host: str = option("localhost", doc="Address to listen on.")
    port: int = option(8888, doc="Port to listen on; 0 takes a free one.", minimum=0, maximum=65535)
    without_scope_info: bool = option(
        True, doc="Accepted for the Collector's sake; there are no such labels."
    )
    without_units: bool = option(
        True, doc="Leave units out of the names of metrics; only together with without_type_suffix, as there."
    )
    without_type_suffix: bool = option(
        True, doc="Leave `_total` out of the names of counters; only together with without_units, as there."
    )
    with_resource_constant_labels: dict[str, tuple[str, ...]] = option(
        factory=dict, doc="Resource attributes that become labels of every series: `included`, `excluded`."
    )

    @property
    def endpoint(self) -> str:
        """The address as host:port; an IPv6 host may be written with its brackets or without."""
        host = self.host.removeprefix("[").removesuffix("]")
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


class Metrics(NamedTuple):
    """The collector's own metrics.

    Attributes:
        level: how much is measured: none, basic, normal or detailed.
        prometheus: where they can be scraped; None when nowhere.
        is_stand_in: prometheus is there instead of what was asked for and is not served.
    """

    level: str
    prometheus: Prometheus | None
    is_stand_in: bool = False


class Telemetry(NamedTuple):
    """What the collector tells about itself.

    Attributes:
        resource: attributes of the collector beside the default ones; None removes a default one.
    """

    logs: Logs
    metrics: Metrics
    resource: Mapping[str, Any]


class Service(NamedTuple):
    """What runs, decoded and checked.

    Attributes:
        extensions: in the order in which they start, each once.
        shutdown_timeout: seconds in which a shutdown must have drained everything.
    """

    extensions: tuple[ComponentID, ...]
    pipelines: Mapping[PipelineID, Pipeline]
    telemetry: Telemetry
    shutdown_timeout: Duration


class Document(NamedTuple):
    """One configuration, free of problems.

    Attributes:
        values: the map that it was decoded from, sources merged and references replaced; holds secrets.
        warnings: what an operator should look at, one sentence each.
        notes: what they may want to know, one sentence each.
    """

    receivers: Mapping[ComponentID, ComponentEntry]
    processors: Mapping[ComponentID, ComponentEntry]
    exporters: Mapping[ComponentID, ComponentEntry]
    connectors: Mapping[ComponentID, ComponentEntry]
    extensions: Mapping[ComponentID, ComponentEntry]
    service: Service
    values: Mapping[str, Any]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
