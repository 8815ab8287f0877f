"""The page of the collector's own metrics, served as the configuration's telemetry section says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from collector.component import AdminRequest, AdminResponse, AdminServer, Settings
from collector.errors import StartError
from collector.lean import TYPE_CHECKING, NamedTuple
from collector.service.identity import attributes
from collector.telemetry import page
from collector.telemetry.instruments import Sample

if TYPE_CHECKING:
    from collector.config.document import Telemetry

_ADVICE = (
    "set another host or port in service::telemetry::metrics::readers, such as"
    " [{pull: {exporter: {prometheus: {host: localhost, port: 8889}}}}]"
)


class Page(NamedTuple):
    """What the page looks like and where it is served.

    Attributes:
        endpoint: host:port.
        target: attributes of the collector.
        constant: those that every series carries.
        suffixes: names end in their unit, those of counters in `_total`.
        is_stand_in: nobody has asked for it, so that its address may be taken.
    """

    endpoint: str
    target: Mapping[str, str]
    constant: Mapping[str, str]
    suffixes: bool
    is_stand_in: bool = False


def make_page(telemetry: Telemetry, instance_id: str) -> Page | None:
    """Return the page that telemetry asks for; None for none."""
    prometheus = telemetry.metrics.prometheus
    if prometheus is None:
        return None
    target = attributes(instance_id, telemetry.resource)
    constant = _select(target, prometheus.with_resource_constant_labels)
    suffixes = not (prometheus.without_units and prometheus.without_type_suffix)
    return Page(prometheus.endpoint, target, constant, suffixes, telemetry.metrics.is_stand_in)


class MetricsServer:
    """An extension of the service itself.

    Args:
        samples: returns all metrics of the collector.
    """

    def __init__(self, config: Page, settings: Settings, samples: Callable[[], Iterable[Sample]]) -> None:
        self._config = config
        self._serve = settings.serve
        self._log = settings.log
        self._all_samples = samples
        self._server: AdminServer | None = None

    def start(self) -> None:
        """Listen.

        Raises:
            StartError: the address is no such, or taken.
        """
        try:
            self._server = self._serve(self._config.endpoint, {"/metrics": self._answer})
        except StartError as error:
            message = f"{error.message}; {_ADVICE}"
            if not self._config.is_stand_in:
                raise StartError(error.component, message) from error
            self._log.warning("metrics cannot be scraped", error=message)

    def shutdown(self, deadline_s: float) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown(deadline_s)

    def samples(self) -> Iterable[Sample]:
        """Return nothing: the page is about the others."""
        return ()

    def _answer(self, request: AdminRequest) -> AdminResponse:
        if request.method not in ("GET", "HEAD"):
            return AdminResponse(405, "text/plain; charset=utf-8", b"405 method not allowed\n")
        config = self._config
        body = page.render(
            self._all_samples(), config.target, constant=config.constant, suffixes=config.suffixes
        )
        return AdminResponse(200, page.CONTENT_TYPE, body)


def _select(attributes: Mapping[str, str], patterns: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the attributes whose names some pattern of `included` matches and none of `excluded`."""
    if not patterns:
        return {}
    from fnmatch import fnmatchcase  # brings `re` along

    return {
        name: value
        for name, value in attributes.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns.get("included", ()))
        and not any(fnmatchcase(name, pattern) for pattern in patterns.get("excluded", ()))
    }
