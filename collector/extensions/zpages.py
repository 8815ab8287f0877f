"""Accepted, so that configurations of the Collector run; its pages are not served yet.

Source: OpenTelemetry Collector, `zpages` extension.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.component import Factory, Stability, UnservedExtension
from collector.config.fields import option, section
from collector.config.http import HttpServer
from collector.lean import Any

_DOC = "Accepted for the Collector's sake."


@section
class Expvar:
    """What the Collector's Go runtime publishes."""

    enabled: bool = option(False, doc=_DOC)


@section
class Config(HttpServer):
    """The Collector's keys."""

    endpoint: str = option("localhost:55679", doc="Accepted for the Collector's sake: nothing listens there.")
    expvar: Expvar = option(factory=Expvar, doc=_DOC)
    tls: Any = option(None, doc=_DOC)
    auth: Any = option(None, doc=_DOC)
    middlewares: Any = option(None, doc=_DOC)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what the Collector would refuse, in its words."""
        if not self.endpoint:
            yield "", '"endpoint" is required when using the "zpages" extension'

    def warnings(self) -> Iterator[tuple[str, str]]:
        """Say where to look instead."""
        yield "", "not served yet: metrics are at localhost:8888/metrics, problems are in the log"


factory = Factory(
    config=Config, create=UnservedExtension, signals=frozenset(), stability=Stability.DEVELOPMENT
)
