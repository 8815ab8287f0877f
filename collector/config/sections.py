"""What the section `service` may hold, as written.

Source: OpenTelemetry Collector, "Configuration" and "Internal telemetry", for keys and defaults.
"""

from __future__ import annotations

from collector.config.document import Logs
from collector.config.fields import Duration, option, section
from collector.lean import Any


@section
class PipelineSection:
    """One pipeline: the way from receivers through processors to exporters."""

    receivers: tuple[str, ...] = option((), doc="Ids of receivers, or of connectors that feed this pipeline.")
    processors: tuple[str, ...] = option((), doc="Ids of processors, in the order in which data passes.")
    exporters: tuple[str, ...] = option((), doc="Ids of exporters, or of connectors to other pipelines.")


@section
class MetricsSection:
    """The collector's own metrics."""

    level: str = option(
        "normal", doc="How much is measured.", choices=("none", "basic", "normal", "detailed")
    )
    readers: tuple[Any, ...] | None = option(
        None, doc="How the metrics leave the collector; by default they can be scraped at localhost:8888."
    )
    views: tuple[Any, ...] = option((), doc="Accepted for the Collector's sake; has no effect.")


@section
class TelemetrySection:
    """What the collector tells about itself."""

    logs: Logs = option(factory=Logs, doc="The collector's own logs.")
    metrics: MetricsSection = option(factory=MetricsSection, doc="The collector's own metrics.")
    traces: dict[str, Any] = option(factory=dict, doc="Accepted for the Collector's sake; there are none.")
    resource: dict[str, Any] = option(
        factory=dict, doc="Attributes of the collector; null removes a default one."
    )


@section
class ServiceSection:
    """What is run of all that is configured."""

    extensions: tuple[str, ...] = option((), doc="Ids of extensions, in the order in which they start.")
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
