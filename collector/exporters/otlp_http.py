"""Send OTLP over HTTP/1.1.

Sources: OpenTelemetry Collector, otlphttpexporter and confighttp (keys, defaults, paths, which statuses are
retried, error text); OTLP specification, "OTLP/HTTP Response" and "OTLP/HTTP Throttling".
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping

from collector import __version__
from collector.component import Factory, Settings, Stability
from collector.config.fields import Duration, option, section, unserved
from collector.config.headers import basic_authorization
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
from collector.exporterhelper.queue import QueueSender
from collector.exporterhelper.request import Request, Sent
from collector.exporterhelper.timeout import TIMEOUT_DOC
from collector.ids import Pem, Signal
from collector.lean import Any, StrEnum
from collector.native import codec
from collector.native.client import PartialSuccess, read_partial_success, read_rpc_status
from collector.telemetry.instruments import Sample

_PROTOBUF = "application/x-protobuf"
_JSON = "application/json"
_RESPONSE_BYTES_MAX = 64 * 1024
_RETRYABLE = frozenset({429, 502, 503, 504})
_HAS_RETRY_AFTER = frozenset({429, 503})
# HTTP status -> google.rpc.Code, for a client that waits for the outcome; what is not listed is UNKNOWN.
_CODES = {400: 3, 401: 16, 403: 7, 404: 12, 429: 8, 502: 14, 503: 14, 504: 14}
_UNKNOWN = 2
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
        doc="none, gzip, zstd, snappy, x-snappy-framed, lz4, zlib or deflate (both RFC 1950).",
        synonyms={"": "none"},
    )
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
        fields = ("endpoint", "traces_endpoint", "metrics_endpoint", "logs_endpoint")
        urls = [(field, getattr(self, field)) for field in fields if getattr(self, field)]
        if not urls:
            yield "endpoint", "at least one endpoint must be specified"
        for field, url in urls:
            if not _is_url(url):
                yield field, f"expected a URL such as 'http://localhost:4318', got {hide_credentials(url)!r}"
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
    """Return the partial success of a JSON response; an empty one when body is something else."""
    try:
        partial = json.loads(body)["partialSuccess"]
        rejected = next((int(partial[key]) for key in _REJECTED_KEYS if key in partial), 0)
        return PartialSuccess(max(0, rejected), str(partial.get("errorMessage", "")))
    except _UNREADABLE:
        return PartialSuccess(0, "")


def _partial_success(content_type: str, body: bytes) -> PartialSuccess:
    """Return the partial success of a 2xx response. Whatever cannot be read is none: the server has the data."""
    if content_type == _JSON:
        return _json_partial_success(body)
    if content_type == _PROTOBUF:
        try:
            return read_partial_success(body)
        except MalformedInput:
            pass
    return PartialSuccess(0, "")


def _error_message(content_type: str, body: bytes) -> str:
    """Return the message of the google.rpc.Status in an error response, or the beginning of any other body."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == _PROTOBUF:
        status = read_rpc_status(body)
        return status.message if status else ""
    if media_type == _JSON:
        try:
            return str(json.loads(body)["message"])
        except _UNREADABLE:
            pass
    return body[:200].decode(errors="replace").strip()


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
        self._url = config.url(settings.own_signal)
        self._shown_url = hide_credentials(self._url)
        self._headers = _headers(config)
        credentials = basic_authorization(self._url)
        if credentials and "authorization" not in map(str.lower, config.headers):
            self._headers["Authorization"] = credentials
        self._recoder = Recoder()
        self._encoding = config.compression.encoding
        self._level = native_level(config.compression_params, config.compression)
        is_json = config.encoding is Encoding.JSON  # which is made from what waits in the queue
        self._pool: Any = None
        self._watch: CertificateWatch | None = None
        self._settings = settings
        self._queue = QueueSender(
            settings,
            self._send,
            queue=config.sending_queue,
            retry=config.retry_on_failure,
            timeout_s=config.timeout,
            destination=_destination(self._url),
            encoding=codec.Encoding.IDENTITY if is_json else self._encoding,
            level=self._level,
        )
        self.consumer = self._queue.consumer

    def start(self) -> None:
        """Begin to send; the first request connects."""
        if self._url.startswith("https://"):
            self._start_tls()
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
        try:
            pem = tls.read()
            self._use(tls, pem)
        except TLSFailure as error:
            raise StartError(self._settings.id, str(error)) from error
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
            num_pools=1, maxsize=self._config.sending_queue.num_consumers, retries=False, **keys
        )

    def samples(self) -> Iterator[Sample]:
        """Return the exporter's metrics as they are now."""
        return self._queue.samples()

    def _send(self, request: Request, limit_s: float | None) -> Sent:
        import urllib3

        body = self._body(request)
        try:
            response = self._pool.request(
                "POST",
                self._url,
                body=body,
                headers=self._headers,
                timeout=urllib3.Timeout(total=limit_s),
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise RetryableError(
                f'failed to make an HTTP request: Post "{self._shown_url}": {_reason(error)}'
            ) from error
        content_type = response.headers.get("content-type", "")
        answer = _read_bounded(response)
        if 200 <= response.status < 300:
            partial = _partial_success(content_type, answer)
            return Sent(len(body), partial.rejected_items, partial.message)
        raise self._failure(response.status, response.headers, _error_message(content_type, answer))

    def _failure(self, status: int, headers: Mapping[str, str], message: str) -> ConsumeError:
        text = f"error exporting items, request to {self._shown_url} responded with HTTP Status Code {status}"
        if message:
            text += f", Message={message}"
        code = _CODES.get(status, _UNKNOWN)
        if status not in _RETRYABLE:
            return PermanentError(text, code=code)
        delay_s = None
        if status in _HAS_RETRY_AFTER:
            delay_s = parse_retry_after_s(headers.get("retry-after"), time.time())
        return RetryableError(
            f"Throttle ({delay_s:g}s), error: {text}" if delay_s else text, delay_s, code=code
        )

    def _body(self, request: Request) -> bytes:
        if self._config.encoding is Encoding.JSON:
            from collector.native.json import otlp_to_json

            request = request._replace(view=otlp_to_json(self._signal, request.view))
        return bytes(self._recoder.recode(request, self._encoding, self._level))


def _headers(config: Config) -> dict[str, str]:
    headers = {
        "User-Agent": f"spansieve/{__version__}",
        "Content-Type": _JSON if config.encoding is Encoding.JSON else _PROTOBUF,
    }
    if config.compression is not Compression.NONE:
        headers["Content-Encoding"] = config.compression.value
    # http.client writes text as Latin-1; the Collector writes UTF-8, and so do we.
    return headers | {name: value.encode().decode("latin-1") for name, value in config.headers.items()}


def _read_bounded(response: Any) -> bytes:
    """Return at most 64 KiB of the body; give the connection back when that was all of it, else close it.

    A body that breaks off changes nothing: the status line has said what became of the request.
    """
    import urllib3

    try:
        body: bytes = response.read(_RESPONSE_BYTES_MAX)
        is_complete = len(body) < _RESPONSE_BYTES_MAX
    except urllib3.exceptions.HTTPError:
        body, is_complete = b"", False
    if is_complete:
        response.release_conn()
    else:
        response.close()
    return body


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
