"""Take OTLP over gRPC and HTTP: traces, metrics and logs.

Keys, defaults and texts are the OpenTelemetry Collector's `otlpreceiver`. The work is done by a transport; this module
says what it shall serve and where requests go.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from collector.component import Factory, Handle, Settings, Stability
from collector.config.fields import Duration, option, section
from collector.config.grpc import GrpcServer
from collector.config.http import WRITE_TIMEOUT_S, HttpServer
from collector.config.tls import CertificateWatch
from collector.config.values import hide_credentials
from collector.errors import StartError, TLSFailure
from collector.ids import Signal
from collector.lean import TYPE_CHECKING, Any, NamedTuple, StrEnum, pattern
from collector.native.library import has_net, lib
from collector.native.pipeline import Consumer
from collector.native.pipeline import Receiver as NativeReceiver
from collector.telemetry.instruments import Instrument, Sample
from collector.telemetry.process import read_memory_limit
from collector.transport import Cors, Listener, Transport
from collector.transport.refusals import REASONS, REFUSED_CONNECTIONS, REFUSED_REQUESTS, RefusalReporter

if TYPE_CHECKING:
    from collector.native.tls import Tls

_MIB = 1 << 20
_HELD_SHARE = 4  # of the memory that there is
# A request holds a thread of the portable transport until it is complete; they are made when needed.
_PORTABLE_THREADS = 256
_TRANSPORT_NUMBERS = {"grpc": lib.SS_TRANSPORT_GRPC, "http": lib.SS_TRANSPORT_HTTP}
_REPORT_PERIOD_S = 10.0
_NATIVE_ONLY = "needs the native transport"
# grpc-go's defaults, where keepalive says 0.
_PING_AFTER_S = 7200.0
_PING_TIMEOUT_S = 20.0
_MIN_PING_INTERVAL_S = 300.0
# How soon what gets no further than the door is told of, and how often a stranger is.
_DOOR_PERIOD_S = 5.0
_STRANGERS_SILENCE_S = 600.0
_IN_PATHS = frozenset(map(chr, range(ord("!"), ord("~") + 1))) - {"{", "}"}
_BAD_ESCAPE = pattern(r"(?s)%(?![0-9a-fA-F]{2}).{0,2}")
_ESCAPE = pattern(r"%([0-9a-fA-F]{2})")


class TransportName(StrEnum):
    """Who moves the bytes."""

    NATIVE = "native"
    GRPCIO = "grpcio"


class InvalidItems(StrEnum):
    """What items that are not valid OTLP cost."""

    REJECT_ITEM = "reject_item"
    REJECT_REQUEST = "reject_request"


def _limit_of_connections() -> Any:
    return option(
        10_000,
        doc="Connections at once; more are refused, counted and told in the log. 0 is no limit.",
        minimum=0,
        maximum=(1 << 32) - 1,
        ours=True,
    )


@section
class Grpc(GrpcServer):
    """OTLP/gRPC."""

    endpoint: str = option("localhost:4317", doc="`host:port`, or the path of a unix socket.")
    initial_window_size: int = option(
        2 * _MIB,
        doc="HTTP/2 flow-control window of a stream.",
        unit="bytes",
        minimum=65535,
        maximum=(1 << 31) - 1,
        ours=True,
    )
    max_connections: int = _limit_of_connections()
    read_timeout: Duration = option(
        Duration(60.0), doc="A call must be complete within this; 0 is no limit.", minimum=0, ours=True
    )
    write_timeout: Duration = option(
        Duration(30.0), doc="An answer must be taken within this; 0 is no limit.", minimum=0, ours=True
    )
    health_service: bool = option(
        True,
        doc="Serve `grpc.health.v1.Health`: a signal's service is SERVING while a pipeline takes the signal, the whole"
        " while any does.",
        ours=True,
    )


@section
class Http(HttpServer):
    """OTLP/HTTP."""

    endpoint: str = option("localhost:4318", doc="`host:port`, or the path of a unix socket.")
    traces_url_path: str = option("/v1/traces", doc="Path of traces; one that ends in / with all below it.")
    metrics_url_path: str = option("/v1/metrics", doc="Path of metrics.")
    logs_url_path: str = option("/v1/logs", doc="Path of logs.")
    max_connections: int = _limit_of_connections()

    @property
    def paths(self) -> tuple[str, str, str]:
        """Path of traces, metrics and logs, each with its leading slash."""
        return (
            parse_url_path(self.traces_url_path),
            parse_url_path(self.metrics_url_path),
            parse_url_path(self.logs_url_path),
        )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield paths that are none."""
        for signal in Signal:
            key = f"{signal.value}_url_path"
            try:
                parse_url_path(getattr(self, key))
            except ValueError as error:
                yield key, f"invalid HTTP URL path set for signal: {error}"

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield paths that are not the only one of their kind."""
        yield from HttpServer.problems_in_use(self)
        try:
            paths = self.paths
        except ValueError:
            return
        if len(set(paths)) < len(paths):
            yield "traces_url_path", "expected a path of its own for each signal"


def parse_url_path(text: str) -> str:
    """Return the path that text is, with its leading slash, without escapes, query and fragment.

    Raises:
        ValueError: it is none.
    """
    shown = hide_credentials(text)
    path = text.partition("#")[0].partition("?")[0]
    if "%" in text:
        bad = _BAD_ESCAPE.search(text)
        if bad is not None:
            raise ValueError(f'parse "{shown}": invalid URL escape "{bad[0]}"')
        path = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), path)
    if "://" in path:
        raise ValueError(f'parse "{shown}": expected a path, got a URL')
    if not _IN_PATHS.issuperset(path):
        raise ValueError(f'parse "{shown}": expected letters, digits and marks, without braces')
    return path if path.startswith("/") else f"/{path}"


@section
class Protocols:
    """What to serve; a protocol that is not named is off."""

    grpc: Grpc | None = option(None, doc="OTLP/gRPC; `grpc:` alone takes the defaults.", null_enables=True)
    http: Http | None = option(None, doc="OTLP/HTTP; `http:` alone takes the defaults.", null_enables=True)


@section
class Config:
    """What users write under `otlp:`."""

    protocols: Protocols = option(factory=Protocols, doc="What to serve.")
    transport: TransportName = option(
        TransportName.NATIVE,
        doc="`native`, the event loop in C, or `grpcio`, the portable transport in Python.",
        ours=True,
    )
    invalid_items: InvalidItems = option(
        InvalidItems.REJECT_ITEM,
        doc="`reject_item`: an item that a backend could not read is rejected, the others are taken, and the answer's"
        " partial success tells it: an id of a wrong length, a field of another wire type than OTLP gives it, more than"
        " 100 messages in one another; texts that are not UTF-8 are repaired with U+FFFD. `reject_request`: such an"
        " item costs its request, and texts in protobuf go on as they came, as in the Collector.",
        ours=True,
    )
    unfinished_limit_mib: int = option(
        0,
        doc="What requests that are not complete, and answers that are not taken, may hold over all connections; more"
        " is refused, as UNAVAILABLE or 503, and comes again. 0 is a quarter of the memory that there is.",
        unit="MiB",
        minimum=0,
        maximum=(1 << 32) - 1,
        ours=True,
    )
    event_loops: int = option(
        1, doc="Threads of the native transport; each can fill one core.", minimum=1, maximum=64, ours=True
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the missing protocol, and what only the native transport does."""
        if self.protocols.grpc is None and self.protocols.http is None:
            yield "", "must specify at least one protocol when using the OTLP receiver"
        grpc, http = self.protocols.grpc, self.protocols.http
        if self._is_native:
            return
        if grpc is not None and grpc.include_metadata:
            yield "protocols::grpc::include_metadata", _NATIVE_ONLY
        if http is not None:
            if http.include_metadata:
                yield "protocols::http::include_metadata", _NATIVE_ONLY
            if http.cors is not None and http.cors.is_on:
                yield "protocols::http::cors", _NATIVE_ONLY
            if http.write_timeout not in (0.0, WRITE_TIMEOUT_S):
                yield "protocols::http::write_timeout", _NATIVE_ONLY
        for name, protocol in (("grpc", grpc), ("http", http)):
            if protocol is not None and protocol.tls is not None:
                yield f"protocols::{name}::tls", _NATIVE_ONLY

    @property
    def _is_native(self) -> bool:
        return self.transport is TransportName.NATIVE and has_net()


class Stranger(NamedTuple):
    """What a client speaks that is at the wrong port, and what to do about it."""

    transport: str
    speaks: str
    advice: str


_STRANGERS = (
    Stranger(
        "http",
        "http2",
        "a gRPC client is talking to the HTTP port: send to the gRPC port, 4317 by default, or set"
        " OTEL_EXPORTER_OTLP_PROTOCOL or OTEL_EXPORTER_OTLP_TRACES_PROTOCOL to http/protobuf",
    ),
    Stranger(
        "grpc",
        "http1",
        "an HTTP client is talking to the gRPC port: send to the HTTP port, 4318 by default, or set"
        " OTEL_EXPORTER_OTLP_PROTOCOL to grpc",
    ),
    *(
        Stranger(
            transport,
            "tls",
            "a client is talking TLS to a port without it: give it an http:// endpoint, or set"
            " OTEL_EXPORTER_OTLP_INSECURE to true",
        )
        for transport in ("grpc", "http")
    ),
    *(
        Stranger(
            transport,
            "plain",
            "a client without TLS is talking to a port with it: give it an https:// endpoint, or unset"
            " OTEL_EXPORTER_OTLP_INSECURE",
        )
        for transport in ("grpc", "http")
    ),
)


class Receiver:
    """The `otlp` receiver: one for all pipelines that name its id."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._tls: dict[str, Tls] = {}
        self._listeners = listeners(config.protocols, metadata_names=settings.metadata_names)
        self._native = NativeReceiver(
            settings.runtime, rejects_requests=config.invalid_items is InvalidItems.REJECT_REQUEST
        )
        self._reporter = FaultReporter(self._native, settings)
        self._refusals = RefusalReporter(settings.log, settings.clock)
        self._transport: Transport | None = None
        self._addresses: dict[str, str] = {}
        self._watches: list[CertificateWatch] = []
        self._timer: Handle | None = None
        self._told_failures: dict[str, tuple[int, float]] = {}
        self._told: dict[Stranger, tuple[int, float]] = {}

    @property
    def addresses(self) -> dict[str, str]:
        """Bound address of each protocol served, `grpc` and `http`; empty before start."""
        return dict(self._addresses)

    def publish(self, signal: Signal, consumer: Consumer | None) -> None:
        """Route signal to consumer from the next request on; None: no pipeline wants it."""
        self._native.publish(signal, consumer)

    def start(self) -> None:
        """Serve."""
        try:
            self._start_tls()
        except TLSFailure as error:
            raise StartError(self._settings.id, str(error)) from error
        transport = self._new_transport()
        try:
            self._addresses = transport.start()
        except OSError as error:
            raise StartError(self._settings.id, str(error)) from error
        except ModuleNotFoundError as error:
            raise StartError(
                self._settings.id,
                f"the portable transport needs the module {error.name!r}: install spansieve[grpcio]",
            ) from error
        self._transport = transport
        self._reporter.start()
        self._timer = self._settings.loop.every(_DOOR_PERIOD_S, self._tell_of_the_door)
        for protocol, address in self._addresses.items():
            self._settings.log.info(f"Starting {protocol.upper()} server", endpoint=address)
        self._advise()

    def refresh(self) -> None:
        """Use certificates that have changed."""
        for watch in self._watches:
            watch.check()

    def shutdown(self, deadline_s: float) -> None:
        """Refuse new requests, let those in flight finish within deadline_s, close."""
        for waiting in (*self._watches, *([self._timer] if self._timer is not None else [])):
            waiting.cancel()
        self._watches = []
        if self._transport is not None:
            self._refusals.report(self._transport)
            self._transport.shutdown(deadline_s)
        self._reporter.shutdown()
        self._addresses = {}

    def samples(self) -> Iterable[Sample]:
        """Return what was accepted and refused, and what came over the wire."""
        stats = self._native.stats()
        receiver = str(self._settings.id)
        for listener in self._listeners:
            number = _TRANSPORT_NUMBERS[listener.protocol]
            labels = (("receiver", receiver), ("transport", listener.protocol))
            for signal in Signal:
                accepted, refused, failed = _ITEMS[signal]
                yield Sample(accepted, labels, stats.accepted[signal.number][number])
                yield Sample(refused, labels, stats.refused[signal.number][number])
                # As in the Collector, where a feature gate does not say otherwise: all errors are refusals.
                yield Sample(failed, labels, 0)
                ours = (*labels, ("otel_signal", signal.value))
                yield Sample(_REQUESTS, ours, stats.requests[signal.number][number])
                yield Sample(_BYTES, ours, stats.bytes[signal.number][number])
                yield Sample(_MALFORMED, ours, stats.malformed[signal.number][number])
                yield Sample(_REPAIRED, ours, stats.repaired_texts[signal.number][number])
                for reason, count in zip(_REASONS, stats.rejected[signal.number][number], strict=True):
                    yield Sample(_REJECTED, (*ours, ("reason", reason)), count)
        if self._transport is not None:
            served = {listener.protocol for listener in self._listeners}
            for (transport, name), value in self._transport.refusals().items():
                if transport in served:
                    instrument = REFUSED_CONNECTIONS if REASONS[name].is_connection else REFUSED_REQUESTS
                    why = (("receiver", receiver), ("transport", transport), ("reason", name))
                    yield Sample(instrument, why, value)
            for name, value in self._transport.stats().items():
                yield Sample(_TRANSPORT_INSTRUMENTS[name], (("receiver", receiver),), value)
            for (transport, speaks), value in self._transport.strangers().items():
                labels = (("receiver", receiver), ("transport", transport))
                yield Sample(_MISDIRECTED, (*labels, ("speaks", speaks)), value)

    def _start_tls(self) -> None:
        """Read the certificates of each protocol that has some, now and as often as is wished."""
        protocols = self._config.protocols
        for name, alpn, protocol in (("grpc", "h2", protocols.grpc), ("http", "h2,http/1.1", protocols.http)):
            keys = protocol.tls if protocol is not None else None
            if keys is None:
                continue
            pem = keys.read()
            tls = keys.native(pem, alpn)
            self._tls[name] = tls
            self._watches.append(
                CertificateWatch(
                    keys,
                    pem,
                    tls.use,
                    self._settings.log,
                    every=self._settings.loop.every,
                    period_s=keys.check_period_s,
                )
            )
        self._listeners = listeners(protocols, self._tls, self._settings.metadata_names)

    def _new_transport(self) -> Transport:
        name = self._config.transport
        if name is TransportName.NATIVE and not has_net():
            self._settings.log.warning("native transport is not part of this build, using grpcio instead")
            name = TransportName.GRPCIO
        if name is TransportName.NATIVE:
            from collector.transport.native import NativeTransport

            return NativeTransport(
                self._listeners,
                sockets=self._settings.listeners,
                receiver=self._native,
                runtime=self._settings.runtime,
                event_loops=self._config.event_loops,
                max_held_bytes=self._config.unfinished_limit_mib * _MIB or read_memory_limit() // _HELD_SHARE,
            )
        from collector.transport.portable import PortableTransport

        return PortableTransport(
            self._listeners,
            sockets=self._settings.listeners,
            acceptor=self._native,
            runtime=self._settings.runtime,
            threads=_PORTABLE_THREADS,
            clock=self._settings.clock,
        )

    def _tell_of_the_door(self) -> None:
        """Warn of what gets no further than it."""
        if self._transport is not None:
            self._tell_of_strangers(self._transport)
            self._refusals.report(self._transport)
        self._tell_of_handshakes()

    def _tell_of_strangers(self, transport: Transport) -> None:
        """Warn of clients at the wrong port: soon, and then seldom."""
        counts = transport.strangers()
        now_s = self._settings.clock()
        for stranger in _STRANGERS:
            count = counts.get((stranger.transport, stranger.speaks), 0)
            told, told_s = self._told.get(stranger, (0, -_STRANGERS_SILENCE_S))
            if count > told and now_s - told_s >= _STRANGERS_SILENCE_S:
                self._told[stranger] = (count, now_s)
                self._settings.log.warning(
                    stranger.advice,
                    transport=stranger.transport,
                    endpoint=self._addresses.get(stranger.transport, ""),
                    connections=count - told,
                )

    def _tell_of_handshakes(self) -> None:
        """Warn of clients that no connection came about with, as seldom as of strangers."""
        now_s = self._settings.clock()
        for protocol, tls in self._tls.items():
            failures = tls.failures()
            told, told_s = self._told_failures.get(protocol, (0, -_STRANGERS_SILENCE_S))
            if failures.number > told and now_s - told_s >= _STRANGERS_SILENCE_S:
                self._told_failures[protocol] = (failures.number, now_s)
                self._settings.log.warning(
                    "TLS handshake error",
                    transport=protocol,
                    endpoint=self._addresses.get(protocol, ""),
                    error=failures.reason,
                    connections=failures.number - told,
                )

    def _advise(self) -> None:
        """Say what an operator who cannot connect, or whom everybody can connect to, wants to know."""
        http = self._config.protocols.http
        if http is not None and http.cors is not None and http.cors.allowed_headers and not http.cors.is_on:
            self._settings.log.warning(
                "The CORS configuration specifies allowed headers but no allowed origins, and is therefore ignored."
            )
        if http is not None and http.cors is not None and http.cors.shuts_out_bodies:
            self._settings.log.warning(
                "cors::allowed_headers lacks Content-Type: browsers send neither JSON nor protobuf without it"
            )
        hosts = [address.rpartition(":")[0].strip("[]") for address in self._addresses.values()]
        if any(host in ("0.0.0.0", "::") for host in hosts) and len(self._tls) < len(hosts):
            self._settings.log.warning(
                "every host that can reach this machine can send here, without TLS or authentication"
            )
        if os.path.exists("/.dockerenv") and any(host in ("127.0.0.1", "::1", "localhost") for host in hosts):
            self._settings.log.info(
                "listening on loopback inside a container: other containers need endpoint 0.0.0.0:<port>"
            )


class FaultReporter:
    """Logs what clients were told of invalid items and texts, at most once a period, however many there were."""

    def __init__(self, native: NativeReceiver, settings: Settings) -> None:
        self._native = native
        self._settings = settings
        self._reported = (0, 0)
        self._timer: Handle | None = None

    def start(self) -> None:
        """Look from now on."""
        self._timer = self._settings.loop.every(_REPORT_PERIOD_S, self.report)

    def shutdown(self) -> None:
        """Look once more, and then no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.report()

    def report(self) -> None:
        """Log the faults since the last report, if there were any, with the text of the last one."""
        stats = self._native.stats()
        pairs = [(signal, transport) for signal in Signal for transport in _TRANSPORT_NUMBERS.values()]
        rejected = sum(sum(stats.rejected[signal.number][transport]) for signal, transport in pairs)
        repaired = sum(stats.repaired_texts[signal.number][transport] for signal, transport in pairs)
        if (rejected, repaired) == self._reported:
            return
        self._settings.log.warning(
            "Invalid items received",
            rejected_items=rejected - self._reported[0],
            repaired_texts=repaired - self._reported[1],
            last=self._native.last_fault,
        )
        self._reported = (rejected, repaired)


def listeners(
    protocols: Protocols, tls: Mapping[str, Tls] | None = None, metadata_names: tuple[str, ...] = ()
) -> tuple[Listener, ...]:
    """Return what protocols asks to be served.

    Args:
        tls: for those protocols that are in it.
        metadata_names: headers that are kept, where metadata is included.
    """
    served = []
    tls = tls or {}
    if protocols.grpc is not None:
        grpc = protocols.grpc
        life = grpc.keepalive.server_parameters
        pings = grpc.keepalive.enforcement_policy
        served.append(
            Listener(
                protocol="grpc",
                network=grpc.transport.value,
                endpoint=grpc.endpoint,
                max_message_bytes=grpc.max_message_bytes,
                max_connections=grpc.max_connections,
                max_concurrent_streams=grpc.max_streams,
                initial_window_bytes=grpc.initial_window_size,
                idle_timeout_s=life.max_connection_idle,
                read_timeout_s=grpc.read_timeout,
                write_timeout_s=grpc.write_timeout,
                max_age_s=life.max_connection_age,
                max_age_grace_s=life.max_connection_age_grace,
                ping_after_s=life.time or _PING_AFTER_S,
                ping_timeout_s=life.timeout or _PING_TIMEOUT_S,
                min_ping_interval_s=pings.min_time or _MIN_PING_INTERVAL_S,
                pings_without_calls=pings.permit_without_stream,
                has_health=grpc.health_service,
                tls=tls.get("grpc"),
                metadata_names=metadata_names if grpc.include_metadata else (),
            )
        )
    if protocols.http is not None:
        http = protocols.http
        served.append(
            Listener(
                protocol="http",
                network=http.transport.value,
                endpoint=http.endpoint,
                max_message_bytes=http.max_message_bytes,
                max_connections=http.max_connections,
                idle_timeout_s=http.idle_timeout_s,
                read_timeout_s=http.read_timeout_s,
                header_timeout_s=http.header_timeout_s,
                write_timeout_s=max(0.0, http.write_timeout),
                closes_after_answer=not http.keep_alives_enabled,
                response_headers=http.header_lines,
                encodings=frozenset(http.compression_algorithms),
                paths=http.paths,
                cors=_cors(http),
                tls=tls.get("http"),
                metadata_names=metadata_names if http.include_metadata else (),
            )
        )
    return tuple(served)


def _cors(http: Http) -> Cors | None:
    cors = http.cors
    if cors is None or not cors.is_on:
        return None
    return Cors(cors.allowed_origins, cors.allowed_headers, cors.exposed, cors.max_age)


def _items_instruments(signal: Signal) -> tuple[Instrument, Instrument, Instrument]:
    what = signal.items.replace("_", " ")
    return (
        Instrument(
            f"otelcol_receiver_accepted_{signal.items}",
            "counter",
            f"Number of {what} successfully pushed into the pipeline.",
        ),
        Instrument(
            f"otelcol_receiver_refused_{signal.items}",
            "counter",
            f"Number of {what} that could not be pushed into the pipeline.",
        ),
        Instrument(
            f"otelcol_receiver_failed_{signal.items}",
            "counter",
            f"The number of {what} that failed to be processed by the receiver due to internal errors.",
        ),
    )


_ITEMS = {signal: _items_instruments(signal) for signal in Signal}
_REQUESTS = Instrument("spansieve_receiver_requests", "counter", "Requests handed over by the transport.")
_BYTES = Instrument("spansieve_receiver_bytes", "counter", "Bytes of requests after decompression.")
_MALFORMED = Instrument(
    "spansieve_receiver_malformed_requests", "counter", "Requests that could not be read."
)
_REPAIRED = Instrument(
    "spansieve_receiver_repaired_texts", "counter", "Texts in which bytes that are not UTF-8 became U+FFFD."
)
_REJECTED = Instrument(
    "spansieve_receiver_rejected_items",
    "counter",
    "Items rejected because a backend could not read them, by what is wrong in them; they count as refused too.",
)
_REASONS = ("trace_id", "span_id", "parent_span_id", "wire_type", "nesting")  # in the order of ss_fault
_TRANSPORT_INSTRUMENTS = {
    "connections_opened": Instrument(
        "spansieve_receiver_connections_opened", "counter", "Connections accepted."
    ),
    "connections_open": Instrument("spansieve_receiver_connections_open", "gauge", "Connections open now."),
    "bytes_read": Instrument("spansieve_receiver_read_bytes", "counter", "Bytes read from sockets."),
    "bytes_written": Instrument("spansieve_receiver_written_bytes", "counter", "Bytes written to sockets."),
    "protocol_errors": Instrument(
        "spansieve_receiver_protocol_errors", "counter", "Connections ended for breaking the protocol."
    ),
}

_MISDIRECTED = Instrument(
    "spansieve_receiver_misdirected_connections",
    "counter",
    "Connections ended for speaking another protocol than that of the port.",
)

factory = Factory(
    config=Config,
    create=Receiver,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    example='protocols:\n  grpc:\n  http: {endpoint: "0.0.0.0:4318"}',
)
