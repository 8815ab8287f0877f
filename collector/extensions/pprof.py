"""Accepted, so that configurations of the Collector run; profiles of Go programs are not served.

Source: OpenTelemetry Collector, `pprof` extension.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.component import Factory, Stability, UnservedExtension
from collector.config.fields import option, section
from collector.lean import Any

_DOC = "Accepted for the Collector's sake."


@section
class Config:
    """The Collector's keys."""

    endpoint: str = option("localhost:1777", doc="Accepted for the Collector's sake: nothing listens there.")
    dialer: Any = option(None, doc=_DOC)
    block_profile_fraction: int = option(0, doc=_DOC)
    mutex_profile_fraction: int = option(0, doc=_DOC)
    save_to_file: str = option("", doc=_DOC)

    def warnings(self) -> Iterator[tuple[str, str]]:
        """Say what to do instead."""
        yield "", "not served: it is for Go programs; profile this process from outside, with perf or py-spy"


factory = Factory(
    config=Config, create=UnservedExtension, signals=frozenset(), stability=Stability.DEVELOPMENT
)
