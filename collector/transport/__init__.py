"""How OTLP requests come in: two transports behind one interface.

`native` is the event loop of native/net: no Python runs for a request. `portable` is grpcio and the
standard library's HTTP server, for builds without native/net. Both hand each complete, decompressed
message to the same native receiver and answer what its verdict says; tests/conformance holds them to
the same behaviour and lists where the portable one cannot follow.
"""

from __future__ import annotations

from collector.ids import Signal
from collector.lean import Protocol, record
from collector.native.pipeline import Verdict
from collector.native.runtime import Worker


@record
class Listener:
    """One address to serve, and the limits there.

    Attributes:
        protocol: `grpc` or `http`.
        network: `tcp`, `tcp4`, `tcp6` or `unix`.
        endpoint: `host:port`, or the path of a unix socket.
        max_message_bytes: before and after decompression.
        max_concurrent_streams: of one HTTP/2 connection.
        initial_window_bytes: HTTP/2 flow control, of a stream.
        idle_timeout_s: a connection idle this long is closed; 0 is never.
        read_timeout_s: a request must be complete within this; 0 is no limit.
        paths: HTTP path of traces, metrics and logs.
    """

    protocol: str
    network: str
    endpoint: str
    max_message_bytes: int
    max_concurrent_streams: int = 200
    initial_window_bytes: int = 2 << 20
    idle_timeout_s: float = 0.0
    read_timeout_s: float = 0.0
    paths: tuple[str, str, str] = ("/v1/traces", "/v1/metrics", "/v1/logs")


class Acceptor(Protocol):
    """Where requests go: `collector.native.pipeline.Receiver`."""

    def has_signal(self, signal: Signal) -> bool:
        """Return whether a pipeline wants signal."""

    def accept(self, worker: Worker, signal: Signal, transport: int, payload: int, body: bytes) -> Verdict:
        """Take one complete, decompressed message."""


class Transport(Protocol):
    """Serves listeners until it is shut down."""

    def start(self) -> dict[str, str]:
        """Serve; return the bound address of each protocol.

        Raises:
            StartError: an address cannot be bound.
            OSError: it cannot be served.
        """

    def shutdown(self, timeout_s: float) -> None:
        """Refuse new requests, let those in flight finish within timeout_s, close."""

    def stats(self) -> dict[str, int]:
        """Return the transport's own counters; empty where it has none."""
