"""What the three services of the shop share: an HTTP server and client that carry the trace over."""

from __future__ import annotations

import http.client
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.propagate import extract, inject
from opentelemetry.util.types import AnyValue

from deploy.demo.telemetry import PRIORITY, Telemetry

Route = Callable[[], int]

_TIMEOUT_S = 10.0


class Service:
    """An HTTP service.

    Args:
        routes: `METHOD /path` to what answers with an HTTP status.
        vital: routes whose traces are marked so that no sampler drops them.
    """

    def __init__(
        self, telemetry: Telemetry, routes: Mapping[str, Route], *, vital: frozenset[str] = frozenset()
    ) -> None:
        self._telemetry = telemetry
        self._routes = {"GET /healthz": lambda: 200, **routes}
        self._vital = vital

    def run(self) -> None:
        """Serve on a free port, which is printed, until standard input ends."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            """Answers with a status and no body."""

            protocol_version = "HTTP/1.1"
            timeout = _TIMEOUT_S
            wbufsize = -1  # one segment a response
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                """Answer."""
                status = service._answer(f"{self.command} {self.path}", dict(self.headers.items()))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing: spans tell it all."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            print(server.server_port, flush=True)
            sys.stdin.read()
            server.shutdown()
        self._telemetry.shutdown()

    def _answer(self, route: str, headers: Mapping[str, str]) -> int:
        context = extract(headers)
        if route in self._vital:
            context = baggage.set_baggage(PRIORITY, "1", context)
        method, path = route.split(" ", 1)
        attributes = {"http.request.method": method, "url.path": path, "http.route": path}
        token = attach(context)
        try:
            with self._telemetry.tracer.start_as_current_span(
                route, kind=trace.SpanKind.SERVER, attributes=attributes
            ) as span:
                status = self._routes.get(route, lambda: 404)()
                _set_status(span, status)
        finally:
            detach(token)
        return status


class Peer:
    """Another service of the shop; connections are kept, one a thread."""

    def __init__(self, telemetry: Telemetry, port: int) -> None:
        self._tracer = telemetry.tracer
        self._port = port
        self._local = threading.local()

    def call(self, method: str, path: str) -> int:
        """Return the status of a request made within a client span."""
        attributes: dict[str, AnyValue] = {
            "http.request.method": method,
            "server.address": "127.0.0.1",
            "server.port": self._port,
        }
        with self._tracer.start_as_current_span(
            method, kind=trace.SpanKind.CLIENT, attributes=attributes
        ) as span:
            headers: dict[str, str] = {}
            inject(headers)
            if not hasattr(self._local, "connection"):
                self._local.connection = http.client.HTTPConnection(
                    "127.0.0.1", self._port, timeout=_TIMEOUT_S
                )
            self._local.connection.request(method, path, headers=headers)
            response = self._local.connection.getresponse()
            response.read()
            _set_status(span, response.status)
            return int(response.status)


def _set_status(span: trace.Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(trace.StatusCode.ERROR)
