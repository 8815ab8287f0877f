"""The keys of gRPC servers.

Source: OpenTelemetry Collector, configgrpc (keys, defaults, texts); grpc-go, package keepalive (what zero means).
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.fields import Duration, option, section, unserved
from collector.config.network import Network, endpoint_problems
from collector.config.tls import TLSServer
from collector.lean import Any

_MIB = 1 << 20
_DEFAULT_MESSAGE_MIB = 4
_MAX_MESSAGE_MIB = ((1 << 63) - 1) // _MIB
_DEFAULT_STREAMS = 200
_ZERO = Duration(0.0)


@section
class KeepaliveServerParameters:
    """When connections are ended, and probed."""

    max_connection_idle: Duration = option(
        _ZERO, doc="End a connection without calls after this long; 0 is never.", minimum=0
    )
    max_connection_age: Duration = option(
        _ZERO,
        doc="Let a connection this old, give or take a tenth, take no new calls and end with its last one;"
        " 0 is never.",
        minimum=0,
    )
    max_connection_age_grace: Duration = option(
        _ZERO, doc="End a connection that is too old this much later whatever it does; 0 is never.", minimum=0
    )
    time: Duration = option(_ZERO, doc="Ping a client that has been silent this long; 0 is 2h.", minimum=0)
    timeout: Duration = option(
        _ZERO, doc="End its connection when it stays silent this long; 0 is 20s.", minimum=0
    )


@section
class KeepaliveEnforcementPolicy:
    """How often clients may ping: who does it too often three times in a row is told `too_many_pings`, and ended."""

    min_time: Duration = option(_ZERO, doc="Least time between a client's pings; 0 is 5m.", minimum=0)
    permit_without_stream: bool = option(
        False, doc="Take pings as often without calls as with them; else 2h must be between them."
    )


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
class GrpcServer:
    """A server of gRPC."""

    endpoint: str = option("", doc="`host:port`, or the path of a unix socket.")
    transport: Network = option(Network.TCP, doc="What endpoint is.")
    max_recv_msg_size_mib: int = option(
        0, doc="Largest message, before and after decompression; 0 is 4.", unit="MiB"
    )
    max_concurrent_streams: int = option(
        _DEFAULT_STREAMS, doc="Calls at once on one connection; 0 is 200.", minimum=0, maximum=(1 << 31) - 1
    )
    read_buffer_size: int = option(524288, doc="Accepted; buffers size themselves.", unit="bytes")
    write_buffer_size: int = option(0, doc="Accepted; buffers size themselves.", unit="bytes")
    keepalive: Keepalive = option(factory=Keepalive, doc="Life of connections.")
    tls: TLSServer | None = option(None, doc="Transport security; null is plain text.")
    auth: Any = unserved("keep the endpoint where only its clients reach it")
    include_metadata: bool = option(
        False,
        doc="Keep with each request the headers that processors behind it ask for: `batch`, `attributes`, `resource`.",
    )
    middlewares: Any = unserved()

    @property
    def max_message_bytes(self) -> int:
        """The size limit in force, in bytes."""
        return (self.max_recv_msg_size_mib or _DEFAULT_MESSAGE_MIB) * _MIB

    @property
    def max_streams(self) -> int:
        """The limit of calls at once in force."""
        return self.max_concurrent_streams or _DEFAULT_STREAMS

    def listens_at(self) -> Iterator[tuple[str, str, str]]:
        """Yield the only address."""
        yield "endpoint", self.transport, self.endpoint

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield sizes out of range."""
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
                yield name, f"{name} value must be greater than or equal to 0"

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield what is no address."""
        yield from endpoint_problems(self)
