"""Small HTTP servers for operators, probes and scrapers: a table of routes in front of the native server.

The native server owns the sockets and the protocol; requests come to the main thread's loop, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from collector.component import AdminRequest, AdminResponse, Handle, Listeners, Loop
from collector.config.values import format_address
from collector.lean import Protocol
from collector.telemetry.logs import Log
from collector.threads import Lock

Routes = Mapping[str, Callable[[AdminRequest], AdminResponse]]

_NOT_FOUND = AdminResponse(404, "text/plain; charset=utf-8", b"404 page not found\n")
_BROKEN = AdminResponse(500, "text/plain; charset=utf-8", b"500 internal server error\n")


class HttpServer(Protocol):
    """What is used of the native server."""

    @property
    def request_fd(self) -> int:
        """Readable while requests wait."""

    def next_request(self) -> tuple[int, str, str, str] | None:
        """Take the next request: token, method, path, query; None when none waits."""

    def reply(self, token: int, status: int, content_type: str, body: bytes) -> None:
        """Answer it."""

    def shutdown(self, timeout_s: float) -> object:
        """Stop, letting answers go out."""


class AdminServer:
    """Answers the requests to one endpoint.

    Args:
        make_server: from the listening socket's file descriptor to a running server.
    """

    def __init__(
        self,
        endpoint: str,
        routes: Routes,
        *,
        listeners: Listeners,
        loop: Loop,
        log: Log,
        make_server: Callable[[int], HttpServer],
    ) -> None:
        self._lock = Lock()  # shutdown comes from another thread than the loop's
        self._routes = dict(routes)
        self._log = log
        listener = listeners.get("tcp", endpoint)
        self._server = make_server(listener.fileno())
        self._watch: Handle | None = loop.on_readable(self._server.request_fd, self._answer_all)
        log.info("listening", endpoint=format_address(listener))

    def shutdown(self, deadline_s: float) -> None:
        """Answer what was asked and stop; safe twice."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
            self._answer_all()
            self._server.shutdown(deadline_s)

    def _answer_all(self) -> None:
        with self._lock:
            while (request := self._server.next_request()) is not None:
                token, method, path, query = request
                self._server.reply(token, *self._answer(AdminRequest(method, path, query)))

    def _answer(self, request: AdminRequest) -> AdminResponse:
        handler = self._find(request.path)
        if handler is None:
            return _NOT_FOUND
        try:
            return handler(request)
        except Exception as error:  # noqa: BLE001 a page that fails must not take the process along
            self._log.error("admin request failed", path=request.path, error=repr(error))
            return _BROKEN

    def _find(self, path: str) -> Callable[[AdminRequest], AdminResponse] | None:
        if path in self._routes:
            return self._routes[path]
        above = [route for route in self._routes if route.endswith("/") and path.startswith(route)]
        return self._routes[max(above, key=len)] if above else None
