"""Tell probes over HTTP whether the collector takes requests.

Source: OpenTelemetry Collector, `health_check` extension.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from collector.component import AdminRequest, AdminResponse, AdminServer, Factory, Settings, Stability
from collector.config.fields import option, section, unserved
from collector.config.values import format_duration, split_address
from collector.lean import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collector.telemetry.instruments import Sample

_NEVER = "0001-01-01T00:00:00Z"


@section
class ResponseBody:
    """What is answered instead of the JSON status."""

    healthy: str = option("", doc="Body of the answer 200.")
    unhealthy: str = option("", doc="Body of the answer 503.")


@section
class CheckCollectorPipeline:
    """Accepted and without effect, as in the Collector."""

    enabled: bool = option(False, doc="No effect.")
    interval: str = option("5m", doc="No effect.")
    exporter_failure_threshold: int = option(5, doc="No effect.")


@section
class Config:
    """The Collector's keys."""

    endpoint: str = option("localhost:13133", doc="host:port to listen on.")
    path: str = option("/", doc="Path that is answered; one that ends in / with all below it.")
    response_body: ResponseBody | None = option(None, doc="Answer these texts instead of the JSON status.")
    check_collector_pipeline: CheckCollectorPipeline = option(
        factory=CheckCollectorPipeline, doc="Accepted and without effect, as in the Collector."
    )
    use_v2: Any = unserved("probes are answered as by health_check without it")
    tls: Any = unserved("probes are answered in plain text")
    auth: Any = unserved("keep the endpoint on an address that only probes reach")
    cors: Any = unserved()
    response_headers: Any = unserved()
    middlewares: Any = unserved()

    def listens_at(self) -> Iterator[tuple[str, str, str]]:
        """Yield the only address."""
        yield "endpoint", "tcp", self.endpoint

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, in the Collector's words."""
        if not self.endpoint:
            yield "", "bad config: endpoint must be specified"
        else:
            try:
                split_address(self.endpoint)
            except ValueError as error:
                yield "endpoint", str(error)
        if not self.path.startswith("/"):
            yield "", "bad config: path must start with /"


class HealthCheck:
    """Answers 200 from the start of all pipelines to the beginning of shutdown, else 503."""

    def __init__(self, config: Config, settings: Settings, now: Callable[[], float] = time.time) -> None:
        self._config = config
        self._serve = settings.serve
        self._clock = settings.clock
        self._now = now
        self._ready_s: float | None = None
        self._up_since = _NEVER
        self._server: AdminServer | None = None

    def start(self) -> None:
        """Listen."""
        self._server = self._serve(self._config.endpoint, {self._config.path: self.answer})

    def ready(self) -> None:
        """Answer 200 from now on."""
        self._up_since = _format_time(self._now())
        self._ready_s = self._clock()

    def not_ready(self) -> None:
        """Answer 503 from now on."""
        self._ready_s = None

    def shutdown(self, deadline_s: float) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown(deadline_s)

    def samples(self) -> Iterable[Sample]:
        """Return nothing."""
        return ()

    def answer(self, _request: AdminRequest) -> AdminResponse:
        """Answer a probe, whatever its method."""
        ready_s = self._ready_s
        is_ready = ready_s is not None
        status = 200 if is_ready else 503
        texts = self._config.response_body
        if texts is not None:
            body = texts.healthy if is_ready else texts.unhealthy
            return AdminResponse(status, "text/plain; charset=utf-8", body.encode())
        # Nothing in it needs an escape; `json` would be 200 kB of a process that is asked every few seconds.
        available = "available" if is_ready else "not available"
        since = self._up_since if is_ready else _NEVER
        uptime = "" if ready_s is None else format_duration(self._clock() - ready_s)
        body = f'{{"status":"Server {available}","upSince":"{since}","uptime":"{uptime}"}}'
        return AdminResponse(status, "application/json", body.encode())


def _format_time(time_s: float) -> str:
    whole_s = int(time_s)
    fraction = f"{int((time_s - whole_s) * 1e9):09d}".rstrip("0")
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole_s))
    return f"{date}.{fraction}Z" if fraction else f"{date}Z"


factory = Factory(
    config=Config,
    create=HealthCheck,
    signals=frozenset(),
    stability=Stability.BETA,
    example="endpoint: 0.0.0.0:13133",
)
