"""Take OTLP over gRPC and HTTP: traces, metrics and logs.

Keys, defaults and texts are the OpenTelemetry Collector's `otlpreceiver`, `configgrpc` and `confighttp`. The work is
done by a transport; this module says what it shall serve and where requests go.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator

from collector.component import Factory, Settings, Stability
from collector.config.fields import Duration, option, section
from collector.config.values import split_address
from collector.errors import StartError
from collector.ids import Signal
from collector.lean import Any
from collector.native.library import has_net, lib
from collector.native.pipeline import Consumer
from collector.native.pipeline import Receiver as NativeReceiver
from collector.telemetry.instruments import Instrument, Sample
from collector.transport import Listener, Transport

_MIB = 1 << 20
_DEFAULT_GRPC_BYTES = 4 * _MIB
_DEFAULT_HTTP_BYTES = 20 * _MIB
_MAX_MESSAGE_MIB = ((1 << 63) - 1) // _MIB
_DEFAULT_STREAMS = 200
# A request holds a thread of the portable transport until it is complete; they are made when needed.
_PORTABLE_THREADS = 256
_TRANSPORT_NUMBERS = {"grpc": lib.SS_TRANSPORT_GRPC, "http": lib.SS_TRANSPORT_HTTP}
_NOT_YET = "is not supported yet"
_HTTP_ENCODINGS = ("", "gzip", "zstd", "zlib", "snappy", "deflate", "lz4", "x-snappy-framed")


class Network(enum.StrEnum):
    """What an endpoint is an address of."""

    TCP = "tcp"
    TCP4 = "tcp4"
    TCP6 = "tcp6"
    UNIX = "unix"


class TransportName(enum.StrEnum):
    """Who moves the bytes."""

    NATIVE = "native"
    GRPCIO = "grpcio"


@section
class KeepaliveServerParameters:
    """When connections are ended, and probed."""

    max_connection_idle: Duration = option(
        Duration(0.0), doc="Close a connection without calls after this long; 0 is never.", minimum=0
    )
    max_connection_age: Duration = option(
        Duration(0.0), doc="Close a connection this old; not supported yet.", minimum=0
    )
    max_connection_age_grace: Duration = option(
        Duration(0.0), doc="Time for the calls of a connection that is too old; not supported yet.", minimum=0
    )
    time: Duration = option(
        Duration(0.0), doc="Ping a silent client after this long; not supported yet.", minimum=0
    )
    timeout: Duration = option(
        Duration(0.0), doc="Wait this long for the answer to a ping; not supported yet.", minimum=0
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what this build cannot do."""
        for name in ("max_connection_age", "max_connection_age_grace", "time", "timeout"):
            if getattr(self, name):
                yield name, _NOT_YET


@section
class KeepaliveEnforcementPolicy:
    """How often clients may ping."""

    min_time: Duration = option(
        Duration(0.0), doc="Accepted; pings are limited by a rate that no honest client reaches.", minimum=0
    )
    permit_without_stream: bool = option(False, doc="Accepted; always permitted.")


@section
class Keepalive:
    """Life of gRPC connections."""

    server_parameters: KeepaliveServerParameters = option(
        factory=KeepaliveServerParameters, doc="When the server ends or probes a connection."
    )
    enforcement_policy: KeepaliveEnforcementPolicy = option(
        factory=KeepaliveEnforcementPolicy, doc="How often clients may ping."
    )


@section
class Grpc:
    """OTLP/gRPC."""

    endpoint: str = option("localhost:4317", doc="`host:port`, or the path of a unix socket.")
    transport: Network = option(Network.TCP, doc="What endpoint is.")
    max_recv_msg_size_mib: int = option(
        0, doc="Largest message, before and after decompression; 0 is 4.", unit="MiB"
    )
    max_concurrent_streams: int = option(
        200, doc="Calls at once on one connection; 0 is 200.", minimum=0, maximum=(1 << 31) - 1
    )
    initial_window_size: int = option(
        2 * _MIB,
        doc="HTTP/2 flow-control window of a stream.",
        unit="bytes",
        minimum=65535,
        maximum=(1 << 31) - 1,
        ours=True,
    )
    read_buffer_size: int = option(524288, doc="Accepted; buffers size themselves.", unit="bytes")
    write_buffer_size: int = option(0, doc="Accepted; buffers size themselves.", unit="bytes")
    keepalive: Keepalive = option(factory=Keepalive, doc="Life of connections.")
    tls: Any = option(None, doc="Not supported yet.")
    auth: Any = option(None, doc="Not supported yet.")
    include_metadata: bool = option(False, doc="Accepted; no component reads request metadata yet.")
    middlewares: tuple[Any, ...] = option((), doc="Not supported yet.")

    @property
    def max_message_bytes(self) -> int:
        """The size limit in force, in bytes."""
        return self.max_recv_msg_size_mib * _MIB or _DEFAULT_GRPC_BYTES

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is no address, sizes out of range and what this build cannot do."""
        if not 0 <= self.max_recv_msg_size_mib <= _MAX_MESSAGE_MIB:
            yield (
                "max_recv_msg_size_mib",
                (
                    "invalid max_recv_msg_size_mib value, must be between 1 and"
                    f" {_MAX_MESSAGE_MIB}: {self.max_recv_msg_size_mib}"
                ),
            )
        for name in ("read_buffer_size", "write_buffer_size"):
            if getattr(self, name) < 0:
                yield name, f"invalid {name} value: {getattr(self, name)}"
        yield from _endpoint_problems(self)
        yield from _unsupported(self, "tls", "auth", "middlewares")


@section
class Http:
    """OTLP/HTTP."""

    endpoint: str = option("localhost:4318", doc="`host:port`, or the path of a unix socket.")
    transport: Network = option(Network.TCP, doc="What endpoint is.")
    max_request_body_size: int = option(
        _DEFAULT_HTTP_BYTES,
        doc="Largest body, before and after decompression; 0 or less is 20 MiB.",
        unit="bytes",
    )
    compression_algorithms: tuple[str, ...] = option(
        _HTTP_ENCODINGS, doc="Accepted Content-Encoding values; a choice among them is not supported yet."
    )
    traces_url_path: str = option("/v1/traces", doc="Path of traces.")
    metrics_url_path: str = option("/v1/metrics", doc="Path of metrics.")
    logs_url_path: str = option("/v1/logs", doc="Path of logs.")
    read_timeout: Duration = option(
        Duration(0.0), doc="A request must be complete within this; 0 is no limit.", minimum=0
    )
    read_header_timeout: Duration = option(
        Duration(0.0), doc="Not supported yet; use read_timeout.", minimum=0
    )
    write_timeout: Duration = option(Duration(0.0), doc="Not supported yet.", minimum=0)
    idle_timeout: Duration = option(
        Duration(0.0), doc="Close a connection idle this long; 0 is never.", minimum=0
    )
    keep_alives_enabled: bool = option(
        True, doc="Several requests on one connection; false is not supported yet."
    )
    response_headers: dict[str, Any] = option(factory=dict, doc="Not supported yet.")
    cors: Any = option(None, doc="Not supported yet.")
    tls: Any = option(None, doc="Not supported yet.")
    auth: Any = option(None, doc="Not supported yet.")
    include_metadata: bool = option(False, doc="Accepted; no component reads request metadata yet.")
    middlewares: tuple[Any, ...] = option((), doc="Not supported yet.")

    @property
    def max_message_bytes(self) -> int:
        """The size limit in force, in bytes."""
        return self.max_request_body_size if self.max_request_body_size > 0 else _DEFAULT_HTTP_BYTES

    @property
    def paths(self) -> tuple[str, str, str]:
        """Path of traces, metrics and logs, each with its leading slash."""
        paths = (self.traces_url_path, self.metrics_url_path, self.logs_url_path)
        traces, metrics, logs = (path if path.startswith("/") else f"/{path}" for path in paths)
        return traces, metrics, logs

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield addresses and paths that are none and what this build cannot do."""
        yield from _endpoint_problems(self)
        for signal, path in zip(Signal, self.paths, strict=True):
            if not _is_path(path):
                yield f"{signal.value}_url_path", f"invalid HTTP URL path set for signal: {path!r}"
        if len(set(self.paths)) < len(self.paths):
            yield "traces_url_path", "expected a path of its own for each signal"
        if set(self.compression_algorithms) != set(_HTTP_ENCODINGS):
            yield "compression_algorithms", _NOT_YET
        if not self.keep_alives_enabled:
            yield "keep_alives_enabled", f"false {_NOT_YET}"
        # cors without origins does nothing in the Collector either.
        if self.cors and (not isinstance(self.cors, dict) or self.cors.get("allowed_origins")):
            yield "cors", _NOT_YET
        yield from _unsupported(
            self, "read_header_timeout", "write_timeout", "response_headers", "tls", "auth", "middlewares"
        )


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
    event_loops: int = option(
        1, doc="Threads of the native transport; each can fill one core.", minimum=1, maximum=64, ours=True
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the missing protocol."""
        if self.protocols.grpc is None and self.protocols.http is None:
            yield "", "must specify at least one protocol when using the OTLP receiver"


class Receiver:
    """The `otlp` receiver: one for all pipelines that name its id."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._listeners = listeners(config.protocols)
        self._native = NativeReceiver(settings.runtime)
        self._transport: Transport | None = None
        self._addresses: dict[str, str] = {}

    @property
    def addresses(self) -> dict[str, str]:
        """Bound address of each protocol served, `grpc` and `http`; empty before start."""
        return dict(self._addresses)

    def publish(self, signal: Signal, consumer: Consumer | None) -> None:
        """Route signal to consumer from the next request on; None: no pipeline wants it."""
        self._native.publish(signal, consumer)

    def start(self) -> None:
        """Serve."""
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
        for protocol, address in self._addresses.items():
            self._settings.log.info(f"Starting {protocol.upper()} server", endpoint=address)
        self._advise()

    def shutdown(self, deadline_s: float) -> None:
        """Refuse new requests, let those in flight finish within deadline_s, close."""
        if self._transport is not None:
            self._transport.shutdown(deadline_s)
        self._addresses = {}

    def samples(self) -> Iterable[Sample]:
        """Return what was accepted and refused, and what came over the wire."""
        stats = self._native.stats()
        receiver = str(self._settings.id)
        for listener in self._listeners:
            number = _TRANSPORT_NUMBERS[listener.protocol]
            labels = (("receiver", receiver), ("transport", listener.protocol))
            for signal in Signal:
                accepted, refused = _ITEMS[signal]
                yield Sample(accepted, labels, stats.accepted[signal.number][number])
                yield Sample(refused, labels, stats.refused[signal.number][number])
                ours = (*labels, ("otel_signal", signal.value))
                yield Sample(_REQUESTS, ours, stats.requests[signal.number][number])
                yield Sample(_BYTES, ours, stats.bytes[signal.number][number])
                yield Sample(_MALFORMED, ours, stats.malformed[signal.number][number])
        if self._transport is not None:
            for name, value in self._transport.stats().items():
                yield Sample(_TRANSPORT_INSTRUMENTS[name], (("receiver", receiver),), value)

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

    def _advise(self) -> None:
        """Say what an operator who cannot connect, or whom everybody can connect to, wants to know."""
        hosts = [address.rpartition(":")[0].strip("[]") for address in self._addresses.values()]
        if any(host in ("0.0.0.0", "::") for host in hosts):
            self._settings.log.warning(
                "every host that can reach this machine can send here, without TLS or authentication"
            )
        if os.path.exists("/.dockerenv") and any(host in ("127.0.0.1", "::1", "localhost") for host in hosts):
            self._settings.log.info(
                "listening on loopback inside a container: other containers need endpoint 0.0.0.0:<port>"
            )


def listeners(protocols: Protocols) -> tuple[Listener, ...]:
    """Return what protocols asks to be served."""
    served = []
    if protocols.grpc is not None:
        grpc = protocols.grpc
        served.append(
            Listener(
                protocol="grpc",
                network=grpc.transport.value,
                endpoint=grpc.endpoint,
                max_message_bytes=grpc.max_message_bytes,
                max_concurrent_streams=grpc.max_concurrent_streams or _DEFAULT_STREAMS,
                initial_window_bytes=grpc.initial_window_size,
                idle_timeout_s=grpc.keepalive.server_parameters.max_connection_idle,
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
                idle_timeout_s=http.idle_timeout,
                read_timeout_s=http.read_timeout,
                paths=http.paths,
            )
        )
    return tuple(served)


def _endpoint_problems(config: Grpc | Http) -> Iterator[tuple[str, str]]:
    if config.transport is Network.UNIX:
        if not config.endpoint:
            yield "endpoint", "expected the path of a unix socket, got ''"
        return
    try:
        split_address(config.endpoint)
    except ValueError as error:
        yield "endpoint", str(error)


def _unsupported(config: Any, *names: str) -> Iterator[tuple[str, str]]:
    for name in names:
        if getattr(config, name):
            yield name, _NOT_YET


def _is_path(path: str) -> bool:
    return path.isascii() and path.isprintable() and not set(path) & set(" ?#%")


def _items_instruments(signal: Signal) -> tuple[Instrument, Instrument]:
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
    )


_ITEMS = {signal: _items_instruments(signal) for signal in Signal}
_REQUESTS = Instrument("spansieve_receiver_requests", "counter", "Requests handed over by the transport.")
_BYTES = Instrument("spansieve_receiver_bytes", "counter", "Bytes of requests after decompression.")
_MALFORMED = Instrument(
    "spansieve_receiver_malformed_requests", "counter", "Requests that could not be read."
)
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

factory = Factory(
    config=Config,
    create=Receiver,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    example='protocols:\n  grpc:\n  http: {endpoint: "0.0.0.0:4318"}',
)
