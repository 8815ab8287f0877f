"""What is refused at the door: counted on the metrics page, and told in the log with what to do about it.

A request that is refused before a pipeline sees it is in no counter of items, since nobody has counted its items. Each
reason is told at most once a minute: who was the first since then, what it did, how many there were.
"""

from __future__ import annotations

from collections.abc import Callable

from collector.lean import NamedTuple
from collector.telemetry.instruments import Instrument
from collector.telemetry.logs import Log
from collector.transport import Transport

_SILENCE_S = 60.0

REFUSED_REQUESTS = Instrument(
    "spansieve_receiver_refused_requests",
    "counter",
    "Requests refused before their items were counted, by reason.",
)
REFUSED_CONNECTIONS = Instrument(
    "spansieve_receiver_refused_connections", "counter", "Connections that were not taken, by reason."
)


class Reason(NamedTuple):
    """A reason to refuse.

    Attributes:
        what: happened, for the log.
        advice: what an operator can do, by protocol; `both` for either.
        is_connection: no request came so far.
    """

    what: str
    advice: dict[str, str]
    is_connection: bool = False

    @property
    def event(self) -> str:
        """The line of the log."""
        return f"{'Connections' if self.is_connection else 'Requests'} refused: {self.what}"


_MEMORY = {
    "both": "raise the limit of memory_limiter or unfinished_limit_mib, or have clients send less at once"
}
REASONS = {
    "too_large": Reason(
        "a message is too large",
        {
            "grpc": "raise protocols::grpc::max_recv_msg_size_mib, or have the client send fewer items at once, as with"
            " OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
            "http": "raise protocols::http::max_request_body_size, or have the client send fewer items at once, as with"
            " OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
        },
    ),
    "unknown_path": Reason(
        "a path is unknown",
        {
            "grpc": "only Export of OTLP's services is served: give the client the endpoint of what it wants",
            "http": "clients add /v1/traces, /v1/metrics or /v1/logs to OTEL_EXPORTER_OTLP_ENDPOINT, and take"
            " OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and its like as they are; protocols::http::traces_url_path and its"
            " like set other paths",
        },
    ),
    "no_pipeline": Reason(
        "no pipeline takes the signal",
        {
            "both": "add a pipeline of that signal with this receiver to service::pipelines, or have the client send"
            " none of it, as with OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER or OTEL_LOGS_EXPORTER set to none"
        },
    ),
    "method": Reason("a method is not POST", {"both": "OTLP is sent by POST"}),
    "media_type": Reason(
        "a media type is none of OTLP's",
        {
            "grpc": "gRPC is sent as application/grpc; OTLP/HTTP has a port of its own, 4318 by default",
            "http": "send application/x-protobuf or application/json; gRPC has a port of its own, 4317 by default",
        },
    ),
    "encoding": Reason(
        "an encoding is not taken",
        {
            "grpc": "set OTEL_EXPORTER_OTLP_COMPRESSION to gzip or none",
            "http": "set OTEL_EXPORTER_OTLP_COMPRESSION to gzip or none, or name the encoding in"
            " protocols::http::compression_algorithms if it is known",
        },
    ),
    "malformed": Reason(
        "a message is not what it is said to be", {"both": "look at the client: it is told the same"}
    ),
    "protocol": Reason("HTTP is broken", {"both": "look at the client, and at what stands between"}),
    "headers_too_large": Reason(
        "headers are too large", {"both": "have the client send fewer or shorter ones"}
    ),
    "timeout": Reason(
        "a request or its answer took too long",
        {
            "grpc": "raise protocols::grpc::read_timeout or write_timeout if clients are that slow",
            "http": "raise protocols::http::read_timeout, read_header_timeout or write_timeout if clients are that"
            " slow",
        },
    ),
    "memory": Reason("there is no memory to hold them", _MEMORY),
    "connections": Reason(
        "there are as many as may be",
        {
            "grpc": "raise protocols::grpc::max_connections, or have clients use one connection for all",
            "http": "raise protocols::http::max_connections, or have clients use one connection for all",
        },
        is_connection=True,
    ),
    "descriptors": Reason(
        "the process may open no more files",
        {
            "both": "raise its hard limit of open files: ulimit -Hn, LimitNOFILE of systemd, --ulimit of a container"
        },
        is_connection=True,
    ),
    "connection_memory": Reason("there is no memory to hold them", _MEMORY, is_connection=True),
}


class RefusalReporter:
    """Tells of what a transport refuses.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, log: Log, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._told: dict[tuple[str, str], tuple[int, float]] = {}

    def report(self, transport: Transport) -> None:
        """Log what was refused and has not been told, of each reason that was not told of a moment ago."""
        now_s = self._clock()
        for kind, count in transport.refusals().items():
            told, told_s = self._told.get(kind, (0, -_SILENCE_S))
            if count == told or now_s - told_s < _SILENCE_S:
                continue
            self._told[kind] = count, now_s
            protocol, name = kind
            reason = REASONS[name]
            fields: dict[str, object] = {"transport": protocol, "reason": name}
            fields["connections" if reason.is_connection else "requests"] = count - told
            refusal = transport.take_refusal(protocol, name)
            if refusal is not None:
                known = {"client": refusal.client, "example": refusal.text}
                fields.update((key, value) for key, value in known.items() if value)
            advice = reason.advice.get(protocol) or reason.advice["both"]
            self._log.warning(reason.event, **fields, advice=advice)
