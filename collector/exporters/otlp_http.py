"""Send OTLP over HTTP/1.1.

A server that does not take the configured compression is sent gzip, then none. Redirects that keep the body are
followed; headers of the configuration go to no other server.

Sources: OpenTelemetry Collector, otlphttpexporter and confighttp (keys, defaults, paths, which statuses are
retried, error text); OTLP specification, "OTLP/HTTP Response" and "OTLP/HTTP Throttling".
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

from collector import __version__
from collector.component import Factory, Settings, Stability
from collector.config.fields import Duration, option, section, unserved
from collector.config.headers import basic_authorization, canonical_name, split_user
from collector.config.tls import CertificateWatch, TLSClient
from collector.config.values import hide_credentials
from collector.errors import (
    ConsumeError,
    MalformedInput,
    PermanentError,
    RetryableError,
    StartError,
    TLSFailure,
    reason_of,
)
from collector.exporterhelper.client import ClientConfig
from collector.exporterhelper.compression import Recoder, native_level
from collector.exporterhelper.fallback import Fallback, Fate, Outcome
from collector.exporterhelper.http import Answer, Post, send
from collector.exporterhelper.queue import QueueSender
from collector.exporterhelper.request import Request, Sent
from collector.exporterhelper.retry import RetryConfig
from collector.exporterhelper.timeout import TIMEOUT_DOC
from collector.ids import Pem, Signal
from collector.lean import Any, StrEnum
from collector.native import codec
from collector.native.client import PartialSuccess, read_partial_success, read_rpc_status
from collector.native.json import otlp_to_json
from collector.telemetry.instruments import Sample
from collector.threads import Lock

_PROTOBUF = "application/x-protobuf"
_JSON = "application/json"
_RETRYABLE = (429, 502, 503, 504)
_HAS_RETRY_AFTER = frozenset({429, 503})
# HTTP status -> google.rpc.Code, for a client that waits for the outcome; what is not listed is UNKNOWN.
_CODES = {400: 3, 401: 16, 403: 7, 404: 12, 429: 8, 502: 14, 503: 14, 504: 14}
_UNKNOWN = 2
# What servers say to a Content-Encoding that they do not know: as RFC 9110 asks; as the Collector does.
_TELLING = frozenset({415, 400})
_TOO_MANY = 429
_POOLS = 4  # the endpoint's, and those that it redirects to
# What HTTP/1.1 clients write themselves; Go's ignores them too.
_RESERVED = frozenset({"content-length", "content-encoding", "transfer-encoding", "trailer", "connection"})
_ENDPOINTS = ("endpoint", "traces_endpoint", "metrics_endpoint", "logs_endpoint")
_HAS_PORT = re.compile(r":[0-9]{1,6}\Z", re.ASCII)
_REJECTED_KEYS = ("rejectedSpans", "rejectedDataPoints", "rejectedLogRecords")
# What reading JSON that is not as expected can raise: no JSON, other types, Infinity, 64 KiB of brackets.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class Encoding(StrEnum):
    """How requests are written."""

    PROTO = "proto"
    JSON = "json"


class Compression(StrEnum):
    """What request bodies are compressed with: the value is the Content-Encoding."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"
    SNAPPY = "snappy"
    ZLIB = "zlib"
    DEFLATE = "deflate"
    SNAPPY_FRAMED = "x-snappy-framed"
    LZ4 = "lz4"

    @property
    def encoding(self) -> codec.Encoding:
        """What it is to the data plane."""
        names = {Compression.NONE: codec.Encoding.IDENTITY, Compression.DEFLATE: codec.Encoding.ZLIB}
        return names.get(self) or codec.Encoding(self.value)


_CHAINS = {Compression.NONE: (Compression.NONE,), Compression.GZIP: (Compression.GZIP, Compression.NONE)}


@section
class Retry(RetryConfig):
    """The `retry_on_failure` section."""

    retryable_statuses: tuple[int, ...] = option(
        _RETRYABLE,
        doc="HTTP statuses after which a request is tried again, in place of those of the specification.",
        minimum=100,
        maximum=599,
    )


@section
class Keepalive:
    """The `keepalive` section: accepted; each consumer of the queue keeps its connection."""

    enabled: bool = option(True, doc="Accepted for compatibility.")
    idle_conn_timeout: Duration = option(Duration(90.0), doc="Accepted for compatibility.")
    max_idle_conns: int = option(100, doc="Accepted for compatibility.")
    max_idle_conns_per_host: int = option(0, doc="Accepted for compatibility.")


@section
class Config(ClientConfig):
    """The exporter's keys."""

    endpoint: str = option(
        "",
        doc="Base URL; /v1/traces, /v1/metrics or /v1/logs is added. User and password in it are sent, as Basic, where"
        " headers have no `authorization`.",
    )
    traces_endpoint: str = option("", doc="Whole URL for traces, used as it is.")
    metrics_endpoint: str = option("", doc="Whole URL for metrics, used as it is.")
    logs_endpoint: str = option("", doc="Whole URL for logs, used as it is.")
    profiles_endpoint: str = option("", doc="Accepted for compatibility: there are no profiles.")
    encoding: Encoding = option(Encoding.PROTO, doc="proto or json.")
    compression: Compression = option(
        Compression.GZIP,
        doc="none, gzip, zstd, snappy, x-snappy-framed, lz4, zlib or deflate (both RFC 1950); a server that does not"
        " take it is sent gzip, then none.",
        synonyms={"": "none"},
    )
    retry_on_failure: Retry = option(factory=Retry, doc="Repetition of failed requests.")
    timeout: Duration = option(Duration(30.0), doc=TIMEOUT_DOC, minimum=0)
    tls: TLSClient = option(factory=TLSClient, doc="Transport security of https:// endpoints.")
    keepalive: Keepalive = option(factory=Keepalive, doc="Accepted for compatibility.")
    max_conns_per_host: int = option(
        0, doc="Accepted for compatibility: there are at most as many as consumers of the queue."
    )
    disable_keep_alives: bool = option(False, doc="Accepted for compatibility: connections are kept.")
    force_attempt_http2: bool = option(True, doc="Accepted for compatibility: requests are HTTP/1.1.")
    http2_read_idle_timeout: Duration = option(Duration(0.0), doc="Accepted for compatibility: see above.")
    http2_ping_timeout: Duration = option(Duration(0.0), doc="Accepted for compatibility: see above.")
    proxy_url: Any = unserved("name the backend itself")
    cookies: Any = unserved()

    def url(self, signal: Signal) -> str:
        """Return where requests of signal go; empty when no endpoint is set for it."""
        own: str = getattr(self, f"{signal.value}_endpoint")
        return own or (f"{self.endpoint.removesuffix('/')}/v1/{signal.value}" if self.endpoint else "")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for each rule that the values break."""
        if not any(getattr(self, field) for field in _ENDPOINTS):
            yield "endpoint", "at least one endpoint must be specified"

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for what only an exporter that runs stumbles over."""
        for field in _ENDPOINTS:
            url = getattr(self, field)
            if url and not _is_url(url):
                # Without its scheme it has them, too.
                shown = hide_credentials(url if "://" in url else f"://{url}").removeprefix("://")
                yield field, f"expected a URL such as 'http://localhost:4318', got {shown!r}"
        if len(self.tls.curve_preferences) > 1:
            yield "tls::curve_preferences", "more than one is not supported yet in this exporter"
        yield from self.client_problems(self.compression)

    def problems_for(self, signal: Signal) -> Iterator[tuple[str, str]]:
        """Yield what is missing when a pipeline of signal ends here."""
        if not self.url(signal):
            yield "endpoint", f"either endpoint or {signal.value}_endpoint must be set"


def _is_url(url: str) -> bool:
    """Tell whether requests can be made to url."""
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
    if scheme not in ("http", "https") or not url.isprintable() or " " in url:
        return False
    host, _, port = authority.rpartition(":") if _HAS_PORT.search(authority) else (authority, "", "80")
    is_v6 = host.startswith("[") and host.endswith("]") and ":" in host
    return bool(host) and (is_v6 or not set(host) & set(":[]")) and int(port) < 65536


def parse_retry_after_s(value: str | None, now_unix_s: float) -> float | None:
    """Return the wait that a Retry-After header asks for in seconds; None when there is none that can be read.

    Source: RFC 9110, "Retry-After": a number of seconds or a date.
    """
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdecimal() and len(value) < 10:
        return float(value)
    import email.utils  # only for servers that send dates

    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now_unix_s)
    except (ValueError, OverflowError):
        return None


def _json_partial_success(body: bytes) -> PartialSuccess:
    """Return the partial success of a JSON response.

    Raises:
        ValueError: body is something else, or TypeError, AttributeError, OverflowError, RecursionError.
    """
    response = json.loads(body)
    partial = ({} if response is None else response).get("partialSuccess") or {}
    rejected = next((int(partial[key]) for key in _REJECTED_KEYS if partial.get(key) is not None), 0)
    return PartialSuccess(max(0, rejected), str(partial.get("errorMessage") or ""))


def _partial_success(answer: Answer) -> PartialSuccess:
    """Return the partial success of a 2xx response; none where it does not claim to be OTLP.

    Raises:
        ValueError: it claims so, and cannot be read.
    """
    if answer.media_type not in (_JSON, _PROTOBUF):
        return PartialSuccess(0, "")
    if answer.fault:
        raise ValueError(answer.fault)
    try:
        if not answer.body:
            return PartialSuccess(0, "")
        is_json = answer.media_type == _JSON
        return _json_partial_success(answer.body) if is_json else read_partial_success(answer.body)
    except (*_UNREADABLE, MalformedInput) as error:
        raise ValueError(f"it is no Export*ServiceResponse in {answer.media_type}") from error


def _error_message(answer: Answer) -> str:
    """Return the message of the google.rpc.Status in an error response, or the beginning of any other text.

    Servers and proxies forget the media type, so the body is asked what it is.
    """
    body = answer.body
    text = body[:200].decode(errors="replace").strip()
    if body.lstrip()[:1] == b"{":
        try:
            return str(json.loads(body)["message"])
        except _UNREADABLE:
            return text
    is_text = not any(character < " " and not character.isspace() for character in text)
    if is_text and answer.media_type != _PROTOBUF:
        return text
    status = read_rpc_status(body)
    if status is not None:
        return status.message
    return text if is_text else f"{len(body)} bytes that are neither text nor a google.rpc.Status"


def _destination(url: str) -> tuple[tuple[str, str], ...]:
    """Return the labels that the Collector's metrics have of a URL: what it says, no more."""
    import urllib.parse  # needed by urllib3 anyway

    parts = urllib.parse.urlsplit(url)
    labels = {"server_address": parts.hostname, "server_port": parts.port, "url_path": parts.path}
    return tuple((name, str(value)) for name, value in labels.items() if value)


class OtlpHttp:
    """The exporter of one signal."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._config = config
        self._signal = settings.own_signal
        self._url, user = split_user(config.url(settings.own_signal))
        self._headers, self._own_headers = _headers(config, user)
        self._recoder = Recoder()
        self._compression = config.compression
        self._level = native_level(config.compression_params, config.compression)
        is_json = config.encoding is Encoding.JSON  # which is made from what waits in the queue
        self._is_json = is_json
        self._fallback = Fallback(
            _CHAINS.get(config.compression, (config.compression, Compression.GZIP, Compression.NONE)),
            retries=config.retry_on_failure.enabled,
            adopt=self._adopt,
        )
        self._lock = Lock()
        self._pool: Any = None
        self._has_told_redirect = False
        self._watch: CertificateWatch | None = None
        self._settings = settings
        self._queue = QueueSender(
            settings,
            self._send,
            queue=config.sending_queue,
            retry=config.retry_on_failure,
            timeout_s=config.timeout,
            destination=_destination(self._url),
            encoding=codec.Encoding.IDENTITY if is_json else config.compression.encoding,
            level=self._level,
        )
        self.consumer = self._queue.consumer

    def start(self) -> None:
        """Begin to send; the first request connects."""
        if self._url.startswith("https://"):
            try:
                self._start_tls()
            except TLSFailure as error:
                raise StartError(self._settings.id, str(error)) from error
        else:
            self._pool = self._new_pool()
        self._queue.start()

    def shutdown(self, deadline_s: float) -> None:
        """Send what is queued within deadline_s seconds, then close the connections."""
        if self._watch is not None:
            self._watch.cancel()
        self._queue.shutdown(deadline_s)
        if self._pool is not None:
            self._pool.clear()

    def _start_tls(self) -> None:
        # As in the Collector, `insecure` without an authority leaves a https:// endpoint to the defaults.
        tls = TLSClient() if self._config.tls.is_off else self._config.tls
        pem = tls.read()
        self._use(tls, pem)
        self._watch = CertificateWatch(
            tls,
            pem,
            lambda pem: self._use(tls, pem),
            self._settings.log,
            every=self._settings.loop.every,
            period_s=tls.reload_interval,
        )

    def refresh(self) -> None:
        """Use certificates that have changed."""
        if self._watch is not None:
            self._watch.check()

    def _use(self, tls: TLSClient, pem: Pem) -> None:
        """Connect with these certificates from the next connection on."""
        from collector.exporterhelper.tls import client_context

        keys: dict[str, Any] = {"ssl_context": client_context(tls, pem)}
        if tls.server_name_override:
            keys["server_hostname"] = tls.server_name_override
        if tls.insecure_skip_verify:
            import urllib3

            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # it is what was asked for
            keys |= {"cert_reqs": "CERT_NONE", "assert_hostname": False}
        before, self._pool = self._pool, self._new_pool(**keys)
        if before is not None:
            before.clear()

    def _new_pool(self, **keys: Any) -> Any:
        import urllib3  # 6 MB that only this exporter needs

        return urllib3.PoolManager(
            num_pools=_POOLS, maxsize=self._config.sending_queue.num_consumers, retries=False, **keys
        )

    def samples(self) -> Iterator[Sample]:
        """Return the exporter's metrics as they are now."""
        return self._queue.samples()

    def _send(self, request: Request, limit_s: float | None) -> Sent:
        compression = Compression(self._fallback.compression)
        outcome = self._fallback.settle(
            compression,
            self._attempt(compression, request, limit_s),
            lambda lesser: self._attempt(Compression(lesser), request, limit_s),
        )
        if isinstance(outcome.result, ConsumeError):
            raise outcome.result
        sent: Sent = outcome.result
        return sent

    def _attempt(self, compression: Compression, request: Request, limit_s: float | None) -> Outcome:
        import urllib3

        body = self._body(compression, request)
        headers = self._headers
        if compression is not Compression.NONE:
            headers = headers | {"Content-Encoding": compression.value}
        try:
            answer = send(self._pool_of, Post(self._url, body, headers, self._own_headers), limit_s)
        except urllib3.exceptions.HTTPError as error:
            text = f'failed to make an HTTP request: Post "{self._url}": {_reason(error)}'
            return Outcome(_fate_of(error), RetryableError(text), text=text)
        except TLSFailure as error:
            return Outcome(Fate.UNRELATED, PermanentError(f"redirected to TLS: {error}"))
        if answer.url != self._url:
            self._tell_redirect(answer.url)
        if 200 <= answer.status < 300:
            return Outcome(Fate.TAKEN, self._sent(answer, len(body)))
        return self._failure(answer)

    def _sent(self, answer: Answer, n_bytes: int) -> Sent | PermanentError:
        try:
            partial = _partial_success(answer)
        except ValueError as error:
            # As in the Collector. Sending the request once more would double what the server may have.
            return PermanentError(
                f"request to {answer.url} was answered with HTTP Status Code {answer.status},"
                f" but the answer cannot be read: {error}"
            )
        return Sent(n_bytes, partial.rejected_items, partial.message)

    def _failure(self, answer: Answer) -> Outcome:
        status = answer.status
        text = f"error exporting items, request to {answer.url} responded with HTTP Status Code {status}"
        message = answer.redirect or _error_message(answer)
        if answer.redirect:
            text += f", {message}"
        elif message:
            text += f", Message={message}"
        code = _CODES.get(status, _UNKNOWN)
        if status not in self._config.retry_on_failure.retryable_statuses:
            return Outcome(Fate.REFUSED, PermanentError(text, code=code), status, message, status in _TELLING)
        delay_s = None
        if status in _HAS_RETRY_AFTER:
            delay_s = parse_retry_after_s(answer.headers.get("retry-after"), time.time())
        is_throttled = status == _TOO_MANY or delay_s is not None
        text = f"Throttle ({delay_s:g}s), error: {text}" if delay_s else text
        failure = RetryableError(text, delay_s, code=code)
        return Outcome(Fate.UNRELATED if is_throttled else Fate.LATER, failure, status, message)

    def _adopt(self, refused: str, accepted: str) -> None:
        if not self._is_json:
            self._queue.set_encoding(Compression(accepted).encoding)
        self._settings.log.warning(
            "compression not supported by the server", refused=str(refused), using=str(accepted)
        )

    def _tell_redirect(self, url: str) -> None:
        if not self._has_told_redirect:
            self._has_told_redirect = True
            self._settings.log.warning(
                "the endpoint redirects each request; set it to where it leads",
                endpoint=self._url,
                leads_to=url,
            )

    def _pool_of(self, url: str) -> Any:
        if url.startswith("https://") and self._watch is None:
            with self._lock:
                if self._watch is None:
                    self._start_tls()  # a plain endpoint has redirected to TLS
        return self._pool

    def _body(self, compression: Compression, request: Request) -> bytes:
        if self._is_json:
            # What waited before a reload may be compressed.
            plain = self._recoder.recode(request, codec.Encoding.IDENTITY)
            request = request._replace(
                view=otlp_to_json(self._signal, plain), encoding=codec.Encoding.IDENTITY
            )
        level = self._level if compression is self._compression else 0
        return bytes(self._recoder.recode(request, compression.encoding, level))


def _headers(config: Config, user: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the headers for any server, and those for the endpoint's alone; Content-Encoding is not among them.

    Args:
        user: `user:password` of the endpoint, percent-encoded.
    """
    # http.client writes text as Latin-1; the Collector writes UTF-8, and so do we.
    own = {
        canonical_name(name): value.encode().decode("latin-1")
        for name, value in config.headers.items()
        if name.lower() not in _RESERVED
    }
    if user and "Authorization" not in own:
        own["Authorization"] = basic_authorization(user)
    open_to_all = {
        "User-Agent": f"spansieve/{__version__}",
        "Content-Type": _JSON if config.encoding is Encoding.JSON else _PROTOBUF,
    }
    return {name: own.pop(name, value) for name, value in open_to_all.items()}, own


def _fate_of(error: Exception) -> Fate:
    """Return what the absence of an answer says about the compression: nothing, where nothing was sent."""
    from urllib3 import exceptions

    unsent = (exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.SSLError)
    return Fate.UNRELATED if isinstance(error, unsent) else Fate.LATER


def _reason(error: Exception) -> str:
    """Return why a request had no answer: what TLS says where it was the cause."""
    cause = error.__cause__ or (error.args[0] if error.args else None)
    if type(cause).__module__ == "ssl" or type(error).__name__ == "SSLError":
        from collector.exporterhelper.tls import reason

        return f"tls: {reason(cause if isinstance(cause, Exception) else error)}"
    return reason_of(error)


factory = Factory(
    config=Config,
    create=OtlpHttp,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    aliases=("otlphttp",),
    example="endpoint: http://backend:4318",
)
