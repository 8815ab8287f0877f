"""Send OTLP over gRPC with the native HTTP/2 client.

Requests are compressed and sent outside the GIL. A server that does not take the configured compression is sent gzip,
then none.

Sources: OpenTelemetry Collector, otlpexporter and configgrpc (keys, defaults, which codes are retried); OTLP
specification, "OTLP/gRPC Response" and "Throttling"; gRPC over HTTP2, "Request-Headers".
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from collector import __version__
from collector.component import Factory, Settings, Stability
from collector.config.fields import Duration, option, section
from collector.config.tls import CertificateWatch, TLSClient
from collector.config.values import hide_credentials, split_address
from collector.errors import ConsumeError, PermanentError, RetryableError, StartError, TLSFailure
from collector.exporterhelper.client import ClientConfig
from collector.exporterhelper.compression import Recoder, native_level
from collector.exporterhelper.fallback import Fallback, Fate, Outcome
from collector.exporterhelper.queue import QueueSender, Taken
from collector.exporterhelper.request import Request, Sent
from collector.exporterhelper.retry import RetryConfig
from collector.exporterhelper.timeout import TIMEOUT_DOC, attempt_limit_s
from collector.ids import Signal
from collector.lean import TYPE_CHECKING, Any, NamedTuple, StrEnum
from collector.native.client import Client, ExportResult
from collector.native.codec import Encoding
from collector.native.pipeline import Queue
from collector.telemetry.instruments import Sample

if TYPE_CHECKING:
    from collector.native.tls import Tls

_OK = 0
_CANCELLED = 1
_RESOURCE_EXHAUSTED = 8
_STATUSES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
_FAILURE_CODES = {"timeout": "DeadlineExceeded", "cancelled": "Canceled"}
_RETRYABLE = ("CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS")
# UNIMPLEMENTED and INTERNAL: what gRPC asks for, and what its C core did until 1.82.
_TELLING = frozenset({12, 13})
# What the protocol and the client write themselves, as in grpc-go; and what HTTP/2 forbids.
_RESERVED = frozenset(
    {"content-type", "grpc-encoding", "grpc-accept-encoding", "grpc-timeout", "grpc-status", "grpc-message",
     "grpc-message-type", "te", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)  # fmt: skip

_BALANCERS = ("", "round_robin", "pick_first", "weighted_round_robin", "least_request_experimental")


class Compression(StrEnum):
    """What requests are compressed with."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"
    SNAPPY = "snappy"

    @property
    def encoding(self) -> Encoding:
        """What it is to the data plane. Over HTTP "snappy" is a raw block, over gRPC the framed format."""
        names = {Compression.NONE: Encoding.IDENTITY, Compression.SNAPPY: Encoding.SNAPPY_FRAMED}
        return names.get(self) or Encoding(self.value)


_COMPRESSIONS = {compression.encoding: compression for compression in Compression}
_CHAINS = {
    Compression.ZSTD: (Compression.ZSTD, Compression.GZIP, Compression.NONE),
    Compression.SNAPPY: (Compression.SNAPPY, Compression.GZIP, Compression.NONE),
    Compression.GZIP: (Compression.GZIP, Compression.NONE),
    Compression.NONE: (Compression.NONE,),
}


@section
class Retry(RetryConfig):
    """The `retry_on_failure` section."""

    retryable_statuses: tuple[str, ...] = option(
        _RETRYABLE,
        doc="Status codes after which a request is tried again, in place of those of the specification;"
        " RESOURCE_EXHAUSTED without RetryInfo only where it is listed.",
        choices=_STATUSES[1:],
    )


@section
class Keepalive:
    """The `keepalive` section: accepted; a dead connection is found by the time limit of the call on it."""

    time: Duration = option(
        Duration(10.0), doc="Accepted for compatibility: idle connections are not pinged."
    )
    timeout: Duration = option(Duration(10.0), doc="Accepted for compatibility: see time.")
    permit_without_stream: bool = option(False, doc="Accepted for compatibility: see time.")


class Target(NamedTuple):
    """Where an endpoint leads: a host and port, or an absolute path with port 0."""

    host: str
    port: int


def parse_endpoint(endpoint: str) -> Target:
    """Return where endpoint leads.

    Args:
        endpoint: `host:port`, `[v6]:port`, `http://`, `https://` or `dns://[server]/` in front of one, `unix:/path`
            or `unix:///path`.

    Raises:
        ValueError: nothing of the kind.
    """
    scheme, separator, rest = endpoint.partition(":")
    shown = hide_credentials(endpoint)
    if separator and scheme == "unix":
        path = rest.removeprefix("//")
        if not path.startswith("/"):
            raise ValueError(f"expected unix:///absolute/path, got {shown!r}")
        return Target(path, 0)
    authority = endpoint
    if separator and rest.startswith("//"):
        if scheme not in ("http", "https", "dns", "passthrough"):
            raise ValueError(f"expected host:port, got {shown!r} with the unknown scheme {scheme!r}")
        # dns://server/host:port names a server to ask; the system's resolver is asked instead.
        authority = rest[2:].rstrip("/") if scheme.startswith("http") else rest[2:].partition("/")[2]
    host, port = split_address(authority)
    if not port:
        raise ValueError(f"expected a port from 1 to 65535, got {shown!r}")
    return Target(host or "localhost", port)


@section
class Config(ClientConfig):
    """The exporter's keys."""

    endpoint: str = option(
        "", doc="Server: host:port, with http:// or dns:/// in front of it or not, or unix:///path."
    )
    compression: Compression = option(
        Compression.ZSTD,
        doc="none, gzip, zstd or snappy; a server that does not take it is sent gzip, then none.",
        synonyms={"": "none"},
    )
    retry_on_failure: Retry = option(factory=Retry, doc="Repetition of failed requests.")
    timeout: Duration = option(Duration(5.0), doc=TIMEOUT_DOC, minimum=0)
    tls: TLSClient = option(
        factory=TLSClient,
        doc="Transport security, which is the default: `insecure: true`, http:// or a unix socket is plain text.",
    )
    user_agent: str = option(
        "", doc="Name under which requests are sent; empty for user-agent of headers, else that of spansieve."
    )
    authority: str = option("", doc="Value of :authority; empty for the endpoint.")
    keepalive: Keepalive = option(factory=Keepalive, doc="Accepted for compatibility.")
    wait_for_ready: bool = option(
        False, doc="Accepted for compatibility: each attempt connects anew, retry_on_failure repeats it."
    )
    balancer_name: str = option(
        "round_robin", doc="Accepted for compatibility: each call takes any free connection."
    )

    @property
    def uses_tls(self) -> bool:
        """True unless the scheme, or `insecure`, says plain text; https:// has the last word."""
        if self.endpoint.startswith("https://"):
            return True
        return not self.tls.is_off and not self.endpoint.startswith(("http://", "unix:"))

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for each rule that the values break."""
        if not self.endpoint:
            yield "endpoint", "expected host:port, got nothing; set the server to send to"
        if self.balancer_name not in _BALANCERS:
            yield "balancer_name", f"invalid balancer_name: {self.balancer_name}"

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for what only an exporter that runs stumbles over."""
        if not self.endpoint:
            return
        try:
            parse_endpoint(self.endpoint)
        except ValueError as error:
            yield "endpoint", str(error)
        names = {self.authority, self.tls.server_name_override} - {""}
        if self.uses_tls and len(names) > 1:
            yield "authority", f"differs from tls::server_name_override {self.tls.server_name_override!r}"
        yield from self.client_problems(self.compression)


def _go_name(status: str) -> str:
    """Return how grpc-go, and with it the Collector's errors, spells a status."""
    return "Canceled" if status == "CANCELLED" else status.title().replace("_", "")


def _failure(result: ExportResult, endpoint: str, retryable: Container[str] = _RETRYABLE) -> ConsumeError:
    """Return the exception for a call that did not succeed."""
    if result.failure is not None:
        code = _FAILURE_CODES.get(result.failure, "Unavailable")
        text = f"rpc error: code = {code} desc = {endpoint}: {result.message}"
        return RetryableError(text, code=_CANCELLED if result.failure == "cancelled" else None)
    status = _STATUSES[result.code] if 0 <= result.code < len(_STATUSES) else ""
    text = f"rpc error: code = {_go_name(status) or f'Code({result.code})'} desc = {result.message}"
    delay_s = result.retry_after_s
    is_throttled = result.code == _RESOURCE_EXHAUSTED and delay_s is not None
    if result.is_answer_unreadable or not (is_throttled or status in retryable):
        return PermanentError(text, code=result.code)
    throttled = f"Throttle ({delay_s:g}s), error: {text}" if delay_s else text
    return RetryableError(throttled, delay_s, code=result.code)


def _fate(result: ExportResult, failure: ConsumeError) -> Fate:
    """Return what a failure says about the compression of its request."""
    if result.failure is not None:
        was_sent = result.bytes_sent and result.failure in ("io", "timeout")
        return Fate.LATER if was_sent else Fate.UNRELATED
    if result.is_answer_unreadable:
        return Fate.TAKEN
    if not isinstance(failure, RetryableError):
        return Fate.REFUSED
    return Fate.LATER if failure.retry_after_s is None else Fate.UNRELATED


def _host_of(authority: str) -> str:
    """Return the name in `host` or `host:port`, without the brackets of an IPv6 literal."""
    host, separator, port = authority.rpartition(":")
    return (host if separator and port.isdecimal() else authority).strip("[]")


class OtlpGrpc:
    """The exporter of one signal."""

    def __init__(self, config: Config, settings: Settings) -> None:
        host, port = parse_endpoint(config.endpoint)
        self._config = config
        self._settings = settings
        self._watch: CertificateWatch | None = None
        self._client: Any = None
        self._endpoint = config.endpoint
        self._signal = settings.own_signal
        self._log = settings.log
        self._recoder = Recoder()
        self._level = native_level(config.compression_params, config.compression)
        self._fallback = Fallback(
            _CHAINS[config.compression],
            retries=config.retry_on_failure.enabled,
            adopt=self._adopt,
            accepted=self._accepted,
        )
        self._timeout_s = attempt_limit_s(config.timeout, None)
        self._queue = QueueSender(
            settings,
            self._send,
            queue=config.sending_queue,
            retry=config.retry_on_failure,
            timeout_s=config.timeout,
            destination=(("server_address", host), ("server_port", str(port))),
            encoding=config.compression.encoding,
            level=self._level,
            take=self._take,
            abort=self._abort,
        )
        self.consumer = self._queue.consumer

    def start(self) -> None:
        """Begin to send; the first request connects."""
        config = self._config
        host, port = parse_endpoint(config.endpoint)
        headers = {name.lower(): value for name, value in config.headers.items()}
        if ignored := sorted(headers.keys() & _RESERVED):
            self._log.warning("headers that gRPC writes itself are not sent as configured", ignored=ignored)
        headers = {name: value for name, value in headers.items() if name not in _RESERVED}
        user_agent = headers.pop("user-agent", "")
        self._client = Client(
            host,
            port,
            authority=config.authority or (config.tls.server_name_override if config.uses_tls else ""),
            user_agent=config.user_agent or user_agent or f"spansieve/{__version__}",
            headers=headers,
            max_connections=config.sending_queue.num_consumers,
            tls=self._start_tls(host) if config.uses_tls else None,
        )
        self._queue.start()

    def _start_tls(self, host: str) -> Tls:
        # As in the Collector, `insecure` without an authority leaves a https:// endpoint to the defaults.
        keys = TLSClient() if self._config.tls.is_off else self._config.tls
        try:
            pem = keys.read()
            tls = keys.native(pem, _host_of(self._config.authority) or host)
        except TLSFailure as error:
            raise StartError(self._settings.id, str(error)) from error
        self._watch = CertificateWatch(
            keys, pem, tls.use, self._log, every=self._settings.loop.every, period_s=keys.reload_interval
        )
        return tls

    def refresh(self) -> None:
        """Use certificates that have changed."""
        if self._watch is not None:
            self._watch.check()

    def shutdown(self, deadline_s: float) -> None:
        """Send what is queued within deadline_s seconds, then close the connections."""
        if self._watch is not None:
            self._watch.cancel()
        self._queue.shutdown(deadline_s)
        self._abort()

    def _abort(self) -> None:
        if self._client is not None:
            self._client.close()

    def samples(self) -> Iterator[Sample]:
        """Return the exporter's metrics as they are now."""
        return self._queue.samples()

    def _take(self, queue: Queue, n_threads: int | None, reported_items: int) -> Taken:
        item, result, seconds = self._client.export_queue(
            queue, self._timeout_s, n_threads=n_threads, reported_items=reported_items
        )
        if result is None:
            return Taken(item)
        compression = _COMPRESSIONS[item.encoding]
        return Taken(
            item, lambda request, limit_s: self._conclude(compression, result, request, limit_s), seconds
        )

    def _send(self, request: Request, limit_s: float | None) -> Sent:
        compression = Compression(self._fallback.compression)
        return self._conclude(compression, self._export(compression, request, limit_s), request, limit_s)

    def _conclude(
        self, compression: Compression, result: ExportResult, request: Request, limit_s: float | None
    ) -> Sent:
        """Return what result, of sending request with compression, comes to; send it with less where that may help."""
        outcome = self._fallback.settle(
            compression,
            self._outcome(result),
            lambda lesser: self._outcome(self._export(Compression(lesser), request, limit_s)),
        )
        if isinstance(outcome.result, ConsumeError):
            raise outcome.result
        sent: Sent = outcome.result
        return sent

    def _outcome(self, result: ExportResult) -> Outcome:
        if result.failure is None and result.code == _OK:
            sent = Sent(result.bytes_sent, result.rejected_items, result.partial_message)
            return Outcome(Fate.TAKEN, sent)
        failure = _failure(result, self._endpoint, self._config.retry_on_failure.retryable_statuses)
        code = _OK if result.failure is not None else result.code
        return Outcome(_fate(result, failure), failure, code, result.message, code in _TELLING)

    def _accepted(self, compression: str) -> int:
        n_calls: int = self._client.accepted(compression)
        return n_calls

    def _adopt(self, refused: str, accepted: str) -> None:
        self._queue.set_encoding(Compression(accepted).encoding)
        self._log.warning(
            "compression not supported by the server", refused=str(refused), using=str(accepted)
        )

    def _export(self, compression: Compression, request: Request, limit_s: float | None) -> ExportResult:
        level = self._level if compression is self._config.compression else 0
        message = self._recoder.recode(request, compression.encoding, level)
        result: ExportResult = self._client.export(
            self._signal, compression.value, message, limit_s, request.cancel_fd
        )
        return result


factory = Factory(
    config=Config,
    create=OtlpGrpc,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    aliases=("otlp",),
    example="endpoint: backend:4317\ntls: {insecure: true}",
)
