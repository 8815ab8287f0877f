"""The portable transport: Python servers in front of the native receiver, where native/net was not built.

gRPC is served by grpcio, HTTP by the standard library; each is imported only when a listener needs it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from collector.component import Listeners
from collector.lean import TYPE_CHECKING
from collector.native.codec import Codec
from collector.native.runtime import Runtime, Worker
from collector.transport import Acceptor, Listener

if TYPE_CHECKING:
    from collector.transport.portable_grpc import GrpcServer
    from collector.transport.portable_http import HttpServer


class Scratch(threading.local):
    """What each serving thread needs for itself: a native worker and codec contexts."""

    def __init__(self, runtime: Runtime) -> None:
        self.worker = Worker(runtime)
        self.codec = Codec()


class PortableTransport:
    """Serves listeners with Python threads; one request holds one thread."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        *,
        sockets: Listeners,
        acceptor: Acceptor,
        runtime: Runtime,
        threads: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listeners = tuple(listeners)
        self._sockets = sockets
        self._acceptor = acceptor
        self._scratch = Scratch(runtime)
        self._threads = threads
        self._clock = clock
        self._servers: list[GrpcServer | HttpServer] = []

    def start(self) -> dict[str, str]:
        """Serve; return the bound address of each protocol."""
        addresses = {}
        try:
            for listener in self._listeners:
                server = self._new_server(listener)
                addresses[listener.protocol] = server.start()
                self._servers.append(server)
        except BaseException:
            self.shutdown(0.0)
            raise
        return addresses

    def shutdown(self, timeout_s: float) -> None:
        """Refuse new requests, let those in flight finish within timeout_s, close."""
        deadline = self._clock() + timeout_s
        while self._servers:
            self._servers.pop().shutdown(max(0.0, deadline - self._clock()))

    def stats(self) -> dict[str, int]:
        """Return nothing: the servers below have no counters."""
        return {}

    def refusals(self) -> dict[tuple[str, str], int]:
        """Return nothing: the servers below count none."""
        return {}

    def take_refusal(self, protocol: str, reason: str) -> None:
        """Return nothing."""

    def strangers(self) -> dict[tuple[str, str], int]:
        """Return nothing: the servers below do not tell strangers from other broken input."""
        return {}

    def _new_server(self, listener: Listener) -> GrpcServer | HttpServer:
        if listener.protocol == "grpc":
            from collector.transport.portable_grpc import GrpcServer

            return GrpcServer(
                listener,
                sockets=self._sockets,
                acceptor=self._acceptor,
                scratch=self._scratch,
                threads=self._threads,
            )
        from collector.transport.portable_http import HttpServer

        listening = self._sockets.get(listener.network, listener.endpoint)
        return HttpServer(
            listener, listening, acceptor=self._acceptor, scratch=self._scratch, clock=self._clock
        )
