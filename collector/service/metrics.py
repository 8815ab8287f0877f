"""The page of the collector's own metrics, served as the configuration's telemetry section says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from collector.component import AdminRequest, AdminResponse, AdminServer, Settings
from collector.telemetry import page
from collector.telemetry.instruments import Sample


class MetricsServer:
    """An extension of the service itself.

    Args:
        samples: returns all metrics of the collector.
    """

    def __init__(self, config: Any, settings: Settings, samples: Callable[[], Iterable[Sample]]) -> None:
        self._config = config
        self._serve = settings.serve
        self._all_samples = samples
        self._server: AdminServer | None = None

    def start(self) -> None:
        """Listen."""
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        self._server = self._serve(f"{host}:{self._config.port}", {"/metrics": self._answer})

    def shutdown(self, deadline_s: float) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown(deadline_s)

    def samples(self) -> Iterable[Sample]:
        """Return nothing: the page is about the others."""
        return ()

    def _answer(self, _request: AdminRequest) -> AdminResponse:
        body = page.render(
            self._all_samples(), self._config.target, type_suffix=not self._config.without_type_suffix
        )
        return AdminResponse(200, page.CONTENT_TYPE, body)
