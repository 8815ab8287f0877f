"""What the section `service` may hold, as written.

Source: OpenTelemetry Collector, "Configuration" and "Internal telemetry", for keys and defaults.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.document import Logs
from collector.config.fields import Duration, Reference, option, section
from collector.lean import Any

_LEVELS = ("none", "basic", "normal", "detailed")


@section
class PipelineSection:
    """One pipeline: the way from receivers through processors to exporters."""

    receivers: tuple[Reference, ...] = option(
        (), doc="Ids of receivers, or of connectors that feed this pipeline."
    )
    processors: tuple[Reference, ...] = option(
        (), doc="Ids of processors, in the order in which data passes."
    )
    exporters: tuple[Reference, ...] = option(
        (), doc="Ids of exporters, or of connectors to other pipelines."
    )


@section
class MetricsSection:
    """The collector's own metrics."""

    level: str = option("normal", doc="How much is measured.", choices=_LEVELS)
    readers: tuple[Any, ...] | None = option(
        None, doc="How the metrics leave the collector; by default they can be scraped at localhost:8888."
    )
    views: tuple[Any, ...] = option((), doc="Not supported yet.")
    address: str = option("", doc="Refused, as by the Collector, which had it until v0.123.")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong between fields, and what is not served."""
        if self.address:
            yield (
                "address",
                "was replaced by readers: "
                "[{pull: {exporter: {prometheus: {host: localhost, port: 8888}}}}], for example; "
                "spansieve validate --fix FILE writes it",
            )
        if self.level != "none" and self.readers == ():
            yield "", "collector telemetry metrics reader should exist when metric level is not none"
        if self.views and self.level != "detailed":
            yield (
                "views",
                "service::telemetry::metrics::views can only be set when "
                "service::telemetry::metrics::level is detailed",
            )
        elif self.views:
            yield "views", "not supported yet; drop metrics where they are scraped"


@section
class TracesSection:
    """The collector's own traces: there are none."""

    level: str = option("normal", doc="Accepted for the Collector's sake.", choices=_LEVELS)
    propagators: tuple[str, ...] = option((), doc="Accepted for the Collector's sake.")
    processors: tuple[Any, ...] = option(
        (), doc="Accepted for the Collector's sake, with a warning: there are no own traces to export."
    )
    sampler: Any = option(None, doc="Accepted for the Collector's sake.")
    limits: Any = option(None, doc="Accepted for the Collector's sake.")


@section
class TelemetrySection:
    """What the collector tells about itself."""

    logs: Logs = option(factory=Logs, doc="The collector's own logs.")
    metrics: MetricsSection = option(factory=MetricsSection, doc="The collector's own metrics.")
    traces: TracesSection = option(factory=TracesSection, doc="The collector's own traces: there are none.")
    resource: dict[str, object] = option(
        factory=dict,
        doc="Attributes of the collector: `attributes`, a list of `name` and `value`, or a map of them, in which null "
        "removes a default one.",
    )


@section
class ServiceSection:
    """What is run of all that is configured."""

    extensions: tuple[Reference, ...] = option((), doc="Ids of extensions, in the order in which they start.")
    pipelines: dict[str, PipelineSection] = option(factory=dict, doc="Pipelines by `signal[/name]`.")
    telemetry: TelemetrySection = option(
        factory=TelemetrySection, doc="What the collector tells about itself."
    )
    shutdown_timeout: Duration = option(
        Duration(25.0),
        doc="Time in which a shutdown drains; the default is within the 30s that Kubernetes grants.",
        minimum=0,
        ours=True,
    )
