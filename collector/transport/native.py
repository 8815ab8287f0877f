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
from collector.transport import Listener


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
    ) -> None:
        self._listeners = tuple(listeners)
        self._sockets = sockets
        self._receiver = receiver
        self._runtime = runtime
        self._event_loops = event_loops
        self._server: Server | None = None
        self._last_stats: dict[str, int] = {}
        self._last_strangers: dict[tuple[str, str], int] = {}

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
            )
        except NativeError as error:
            raise OSError(str(error)) from error
        return {listener.protocol: format_address(listening) for listener, listening in opened}

    def shutdown(self, timeout_s: float) -> None:
        """Refuse new requests, let those in flight finish within timeout_s, close."""
        if self._server is not None:
            self._server.shutdown(timeout_s)
            self._last_stats, self._last_strangers = self.stats(), self.strangers()
            self._server = None

    def stats(self) -> dict[str, int]:
        """Return the server's counters, after shutdown as they were at its end."""
        if self._server is None:
            return self._last_stats
        stats = self._server.stats()
        return {name: int(getattr(stats, name)) for name in _COUNTERS}

    def strangers(self) -> dict[tuple[str, str], int]:
        """Return the clients that spoke another protocol, after shutdown as they were at its end."""
        return self._last_strangers if self._server is None else self._server.strangers()


_COUNTERS = ("connections_opened", "connections_open", "bytes_read", "bytes_written", "protocol_errors")
_RULES = tuple(field.name for field in fields(Rules))


def _native(listener: Listener, fd: int) -> NativeListener:
    rules = {name: getattr(listener, name) for name in _RULES}
    return NativeListener(fd=fd, protocol=listener.protocol, **rules)
