"""Tell probes over HTTP whether the collector takes requests.

With `use_v2`, as in the Collector's `healthcheckv2`, the answer is the status of the collector as a whole.

Source: OpenTelemetry Collector, `health_check` and `healthcheckv2` extensions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from collector.component import AdminRequest, AdminResponse, AdminServer, Factory, Settings, Stability
from collector.config.fields import Duration, option, section, unserved
from collector.config.values import format_duration, split_address
from collector.lean import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collector.telemetry.instruments import Sample

_NEVER = "0001-01-01T00:00:00Z"


@section
class Server:
    """Where probes are answered."""

    endpoint: str = option("localhost:13133", doc="host:port to listen on.")
    tls: Any = unserved("probes are answered in plain text")
    auth: Any = unserved("keep the endpoint on an address that only probes reach")
    cors: Any = unserved()
    response_headers: Any = unserved()
    middlewares: Any = unserved()

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield what is no address."""
        if self.endpoint:
            try:
                split_address(self.endpoint)
            except ValueError as error:
                yield "endpoint", str(error)


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
class Status:
    """The path of the status."""

    enabled: bool = option(True, doc="Whether the status is answered.")
    path: str = option("/status", doc="Path that is answered; one that ends in / with all below it.")
    include_attributes: bool = option(False, doc="Accepted for the Collector's sake: no status has any.")


@section
class ConfigPath:
    """The path of the configuration."""

    enabled: bool = option(False, doc="Accepted, with a warning: the configuration is not shown.")
    path: str = option("/config", doc="Accepted for the Collector's sake.")
    include_attributes: bool = option(False, doc="Accepted for the Collector's sake.")


@section
class ComponentHealth:
    """Accepted, with a warning: what components report has no say in the status yet."""

    include_permanent_errors: bool = option(False, doc="No effect yet.")
    include_recoverable_errors: bool = option(False, doc="No effect yet.")
    recovery_duration: Duration = option(Duration(300.0), doc="No effect yet.")


@section
class Http(Server):
    """Probes over HTTP, with `use_v2`."""

    status: Status = option(factory=Status, doc="The status of the collector.")
    config: ConfigPath = option(factory=ConfigPath, doc="The configuration in effect.")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, in the Collector's words."""
        if not self.endpoint:
            yield "endpoint", "http endpoint required"
        if self.status.enabled and not self.status.path.startswith("/"):
            yield "status::path", "path must start with /"


@section
class Config(Server):
    """The Collector's keys."""

    path: str = option("/", doc="Path that is answered; one that ends in / with all below it.")
    response_body: ResponseBody | None = option(None, doc="Answer these texts instead of the JSON status.")
    check_collector_pipeline: CheckCollectorPipeline = option(
        factory=CheckCollectorPipeline, doc="Accepted and without effect, as in the Collector."
    )
    use_v2: bool = option(False, doc="Answer as `http` says.")
    http: Http | None = option(None, doc="Probes over HTTP, with `use_v2`.", null_enables=True)
    grpc: Any = option(None, doc="Accepted, with a warning: the otlp receiver answers probes over gRPC.")
    component_health: ComponentHealth | None = option(
        None, doc="Accepted, with a warning: components have no say in the status yet."
    )

    def listens_at(self) -> Iterator[tuple[str, str, str]]:
        """Yield the only address."""
        yield "endpoint", "tcp", self.endpoint

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, in the Collector's words."""
        if not self.endpoint:
            yield "", "bad config: endpoint must be specified"
        if not self.path.startswith("/"):
            yield "", "bad config: path must start with /"
        if self.use_v2 and self.http is None and self.grpc is None:
            yield "", "must specify at least one protocol"

    def warnings(self) -> Iterator[tuple[str, str]]:
        """Say which keys have no effect."""
        if self.http is not None and not self.use_v2:
            yield "http", "has no effect without use_v2: true"
        if self.http is not None and self.http.config.enabled:
            yield "http::config", "the configuration is not shown: use spansieve print-config"
        if self.grpc is not None:
            yield "grpc", "not served: the gRPC port of an otlp receiver answers grpc.health.v1.Health"
        if self.component_health is not None:
            yield "component_health", "has no effect yet: the status is that of the collector as a whole"


class HealthCheck:
    """Answers 200 from the start of all pipelines to the beginning of shutdown, else 503."""

    def __init__(self, config: Config, settings: Settings, now: Callable[[], float] = time.time) -> None:
        self._config = config
        self._serve = settings.serve
        self._clock = settings.clock
        self._now = now
        self._ready_s: float | None = None
        self._up_since = _NEVER
        self._status = "StatusStarting"
        self._started = _format_time(now())
        self._server: AdminServer | None = None

    def start(self) -> None:
        """Listen."""
        config = self._config
        if not config.use_v2:
            self._server = self._serve(config.endpoint, {config.path: self.answer})
        elif config.http is not None and config.http.status.enabled:
            self._server = self._serve(config.http.endpoint, {config.http.status.path: self.answer_v2})

    def ready(self) -> None:
        """Answer 200 from now on."""
        self._status = "StatusOK"
        self._up_since = _format_time(self._now())
        self._ready_s = self._clock()

    def not_ready(self) -> None:
        """Answer 503 from now on."""
        self._status = "StatusStopping"
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

    def answer_v2(self, _request: AdminRequest) -> AdminResponse:
        """Answer a probe in the second version's way."""
        is_ready = self._ready_s is not None
        body = (
            f'{{"start_time":"{self._started}","healthy":{"true" if is_ready else "false"},"status":"{self._status}",'
            f'"status_time":"{_format_time(self._now())}"}}'
        )
        return AdminResponse(200 if is_ready else 503, "application/json", body.encode())


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
    aliases=("healthcheckv2",),
    example="endpoint: 0.0.0.0:13133",
)
