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
from collector.native.server import Cors, Refusal, Rules

__all__ = ["Acceptor", "Cors", "Listener", "Refusal", "Transport"]


@record
class Listener(Rules):
    """One address to serve, and how.

    Attributes:
        protocol: `grpc` or `http`.
        network: `tcp`, `tcp4`, `tcp6` or `unix`.
        endpoint: `host:port`, or the path of a unix socket.
    """

    protocol: str
    network: str
    endpoint: str


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

    def refusals(self) -> dict[tuple[str, str], int]:
        """Return what was refused at the door, by a listener's protocol and the reason; empty where none is counted."""

    def take_refusal(self, protocol: str, reason: str) -> Refusal | None:
        """Return the first refusal of its kind since the last call; None when there was none."""

    def strangers(self) -> dict[tuple[str, str], int]:
        """Return how many clients came to a listener's port and spoke another protocol, by both; may be empty."""
