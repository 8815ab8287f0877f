"""The route table in front of the native HTTP server, which a fake stands for."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque

import pytest

from collector.component import AdminRequest, AdminResponse
from collector.config.values import format_address
from collector.service.admin import AdminServer
from collector.service.listeners import Listeners
from collector.service.loop import Loop
from collector.telemetry.logs import Log


class FakeServer:
    """The native server's interface over a list; a pipe is the descriptor to wait on."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.request_fd, self._write_fd = os.pipe()
        self.waiting: deque[tuple[int, str, str, str]] = deque()
        self.answers: dict[int, tuple[int, str, bytes]] = {}
        self.timeout_s: float | None = None

    def ask(self, path: str, method: str = "GET", query: str = "") -> int:
        token = len(self.waiting) + len(self.answers)
        self.waiting.append((token, method, path, query))
        os.write(self._write_fd, b"\0")
        return token

    def next_request(self) -> tuple[int, str, str, str] | None:
        if not self.waiting:
            return None
        os.read(self.request_fd, 1)
        return self.waiting.popleft()

    def reply(self, token: int, status: int, content_type: str, body: bytes) -> None:
        self.answers[token] = (status, content_type, body)

    def shutdown(self, timeout_s: float) -> None:
        assert self.timeout_s is None
        self.timeout_s = timeout_s
        os.close(self.request_fd)
        os.close(self._write_fd)


class Setup:
    """An AdminServer with the given routes, its native fake, and what the handlers were asked."""

    def __init__(self, loop: Loop, log: Log) -> None:
        self.loop = loop
        self.log = log
        self.view = Listeners().view("admin")
        self.asked: list[AdminRequest] = []

    def start(self, *routes: str) -> FakeServer:
        made: list[FakeServer] = []

        def make_server(fd: int) -> FakeServer:
            made.append(FakeServer(fd))
            return made[0]

        self.server = AdminServer(
            "127.0.0.1:0",
            {route: self._handle(route) for route in routes},
            listeners=self.view,
            loop=self.loop,
            log=self.log,
            make_server=make_server,
        )
        return made[0]

    def _handle(self, route: str):
        def handle(request: AdminRequest) -> AdminResponse:
            self.asked.append(request)
            if request.query == "break":
                raise ZeroDivisionError
            return AdminResponse(200, "text/plain", route.encode())

        return handle


@pytest.fixture
def setup(loop: Loop, log: Log):
    setup = Setup(loop, log)
    yield setup
    setup.server.shutdown(0)
    setup.view.release()


def _answer(setup: Setup, server: FakeServer, path: str, query: str = "") -> tuple[int, str, bytes]:
    token = server.ask(path, query=query)
    setup.loop.run_once()
    while token not in server.answers:
        setup.loop.run_once()
    return server.answers[token]


def test_request_is_answered_by_its_route(setup: Setup) -> None:
    """The handler is given method, path and query."""
    server = setup.start("/metrics")
    assert (200, "text/plain", b"/metrics") == _answer(setup, server, "/metrics", "name=x")
    assert [AdminRequest("GET", "/metrics", "name=x")] == setup.asked


def test_bound_address_is_told(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    """Once, with the port that was free where the endpoint asks for any."""
    with caplog.at_level(logging.INFO):
        server = setup.start("/metrics")
    with socket.socket(fileno=os.dup(server.fd)) as listener:
        address = format_address(listener)
    assert [("listening", {"endpoint": address})] == [
        (record.message, record.fields) for record in caplog.records
    ]


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metricsx", ""])
def test_unknown_path_is_404(setup: Setup, path: str) -> None:
    """A route is its exact path."""
    server = setup.start("/metrics")
    assert 404 == _answer(setup, server, path)[0]


@pytest.mark.parametrize(
    ("path", "body"), [("/", b"/"), ("/a", b"/"), ("/debug/x/y", b"/debug/"), ("/debug", b"/")]
)
def test_route_with_a_slash_takes_all_below(setup: Setup, path: str, body: bytes) -> None:
    """The longest such route wins."""
    server = setup.start("/", "/debug/")
    assert body == _answer(setup, server, path)[2]


def test_handler_that_raises_is_500(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    """A broken page is logged, and the next one works."""
    server = setup.start("/")
    assert 500 == _answer(setup, server, "/", "break")[0]
    assert 200 == _answer(setup, server, "/")[0]
    assert ["admin request failed"] == [
        record.message for record in caplog.records if record.levelname == "ERROR"
    ]


def test_shutdown_answers_what_was_asked(setup: Setup) -> None:
    """A probe that came just before is not left waiting; a second shutdown does nothing."""
    server = setup.start("/")
    token = server.ask("/")
    setup.server.shutdown(1.5)
    setup.server.shutdown(1.5)
    assert 200 == server.answers[token][0]
    assert 1.5 == server.timeout_s
