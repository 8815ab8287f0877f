"""The native transport: the event loops of native/net. Python is not entered for a request."""

from __future__ import annotations

from collections.abc import Sequence

from collector.component import Listeners
from collector.config.values import format_address
from collector.errors import NativeError
from collector.lean import fields
from collector.native.pipeline import Receiver
from collector.native.runtime import Runtime
from collector.native.server import Listener as NativeListener
from collector.native.server import Rules, Server
from collector.transport import Listener, Refusal


class NativeTransport:
    """Serves listeners from threads that never hold the GIL."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        *,
        sockets: Listeners,
        receiver: Receiver,
        runtime: Runtime,
        event_loops: int,
        max_held_bytes: int = 0,
    ) -> None:
        self._listeners = tuple(listeners)
        self._sockets = sockets
        self._receiver = receiver
        self._runtime = runtime
        self._event_loops = event_loops
        self._max_held_bytes = max_held_bytes
        self._server: Server | None = None
        self._last_stats: dict[str, int] = {}
        self._last_strangers: dict[tuple[str, str], int] = {}
        self._last_refusals: dict[tuple[str, str], int] = {}

    def start(self) -> dict[str, str]:
        """Serve; return the bound address of each protocol."""
        opened = [
            (listener, self._sockets.get(listener.network, listener.endpoint)) for listener in self._listeners
        ]
        try:
            self._server = Server(
                self._runtime,
                listeners=[_native(listener, listening.fileno()) for listener, listening in opened],
                receiver=self._receiver,
                event_loops=self._event_loops,
                max_held_bytes=self._max_held_bytes,
            )
        except NativeError as error:
            raise OSError(str(error)) from error
        return {listener.protocol: format_address(listening) for listener, listening in opened}

    def shutdown(self, timeout_s: float) -> None:
        """Refuse new requests, let those in flight finish within timeout_s, close."""
        if self._server is not None:
            self._server.shutdown(timeout_s)
            self._last_stats, self._last_strangers = self.stats(), self.strangers()
            self._last_refusals = self.refusals()
            self._server = None

    def stats(self) -> dict[str, int]:
        """Return the server's counters, after shutdown as they were at its end."""
        if self._server is None:
            return self._last_stats
        stats = self._server.stats()
        return {name: int(getattr(stats, name)) for name in _COUNTERS}

    def refusals(self) -> dict[tuple[str, str], int]:
        """Return what was refused at the door, after shutdown as it was at its end."""
        return self._last_refusals if self._server is None else self._server.refusals()

    def take_refusal(self, protocol: str, reason: str) -> Refusal | None:
        """Return the first refusal of its kind since the last call; None when there was none, or after shutdown."""
        return None if self._server is None else self._server.take_refusal(protocol, reason)

    def strangers(self) -> dict[tuple[str, str], int]:
        """Return the clients that spoke another protocol, after shutdown as they were at its end."""
        return self._last_strangers if self._server is None else self._server.strangers()


_COUNTERS = ("connections_opened", "connections_open", "bytes_read", "bytes_written", "protocol_errors")
_RULES = tuple(field.name for field in fields(Rules))


def _native(listener: Listener, fd: int) -> NativeListener:
    rules = {name: getattr(listener, name) for name in _RULES}
    return NativeListener(fd=fd, protocol=listener.protocol, **rules)
