"""What `service::telemetry::metrics::readers` may hold; imported only by configurations that have it.

Source: OpenTelemetry Collector, "Internal telemetry".
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.document import Prometheus
from collector.config.fields import option, section
from collector.lean import Any


@section
class PullExporter:
    """What a pull reader is read through."""

    prometheus: Prometheus | None = option(None, doc="Serve in Prometheus format.", null_enables=True)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is missing."""
        if self.prometheus is None:
            yield "", "expected 'prometheus'"


@section
class PullReader:
    """A reader that waits to be asked."""

    exporter: PullExporter = option(doc="What it is read through.")


@section
class Reader:
    """One way in which the collector's own metrics leave it."""

    pull: PullReader | None = option(None, doc="Be scraped.")
    periodic: dict[str, Any] | None = option(
        None,
        doc="Not supported yet, accepted with a warning: where nothing else is named, the metrics can be scraped at"
        " localhost:8888 instead.",
    )
