"""The native transport: the event loops of native/net. Python is not entered for a request."""

from __future__ import annotations

from collections.abc import Sequence

from collector.component import Listeners
from collector.config.values import format_address
from collector.errors import NativeError
from collector.ids import Signal
from collector.native.pipeline import Receiver
from collector.native.runtime import Runtime
from collector.native.server import Listener as NativeListener
from collector.native.server import Server
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
            self._last_stats = self.stats()
            self._server = None

    def stats(self) -> dict[str, int]:
        """Return the server's counters, after shutdown as they were at its end."""
        if self._server is None:
            return self._last_stats
        stats = self._server.stats()
        return {name: int(getattr(stats, name)) for name in _COUNTERS}


_MAX_MESSAGE_BYTES = (1 << 32) - 1  # a gRPC length prefix and the table's offsets have 32 bits
_COUNTERS = ("connections_opened", "connections_open", "bytes_read", "bytes_written", "protocol_errors")


def _native(listener: Listener, fd: int) -> NativeListener:
    return NativeListener(
        fd=fd,
        protocol=listener.protocol,
        max_message_bytes=min(listener.max_message_bytes, _MAX_MESSAGE_BYTES),
        max_concurrent_streams=listener.max_concurrent_streams,
        initial_window_bytes=listener.initial_window_bytes,
        idle_timeout_s=listener.idle_timeout_s,
        read_timeout_s=listener.read_timeout_s,
        paths=dict(zip(Signal, listener.paths, strict=True)),
    )
