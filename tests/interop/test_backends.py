"""Backends that do not do as OTLP asks: what the exporters of both make of them, and what is lost."""

from __future__ import annotations

import gzip
import http.server
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance.peers import exchange, http_request
from tests.integration.harness import wait_for
from tests.interop import differences
from tests.interop.harness import SIDES, Ports, Process, Sink, base
from tests.unit.exporterhelper.support import traces

PROTOBUF = "application/x-protobuf"
PARTIAL = b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no room"}}'
STATUS = b"\x08\x03\x12\x08bad span"


class Reply(NamedTuple):
    """What a backend answers with."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Case(NamedTuple):
    """A backend and the keys of the exporter before it.

    Attributes:
        reply: the answer to a request for a path with a Content-Encoding.
        told: what the log may say of the answer; whether it does is part of the outcome.
    """

    reply: Callable[[str, str], Reply]
    keys: Mapping[str, Any] = {}
    told: str = ""


class Outcome(NamedTuple):
    """What the backend saw, and what the exporter counted."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def content(self) -> tuple[bytes, ...]:
        """Nothing beside the text."""
        return ()


class Backend(Sink):
    """A scripted server that keeps what it is sent, in a few words each.

    Attributes:
        seen: method, path, Content-Encoding, whether credentials came too, and a user agent that was configured.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.seen: list[str] = []
        super().__init__()
        self.RequestHandlerClass = _Handler


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, Backend)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        encoding = self.headers.get("Content-Encoding", "plain")
        words = [self.command, self.path, encoding if body else "empty"]
        words += ["with credentials"] * ("Authorization" in self.headers)
        words += [f"by {agent}" for agent in self.headers.get_all("User-Agent", []) if agent == "mine"]
        self.server.seen.append(" ".join(words))
        reply = self.server.case.reply(self.path, encoding)
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value.replace("PORT", str(self.server.server_port)))
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def _refuses(*encodings: str, status: int) -> Callable[[str, str], Reply]:
    return lambda path, encoding: Reply(status if encoding in encodings else 200)


def _redirects(status: int, location: str) -> Callable[[str, str], Reply]:
    return lambda path, encoding: Reply(status, {"Location": location}) if path == "/v1/traces" else Reply()


def _answers(*reply: Any) -> Callable[[str, str], Reply]:
    return lambda path, encoding: Reply(*reply)


_SECRET = {"headers": {"authorization": "Bearer x"}}
CASES = {
    "gzip refused, 415": Case(_refuses("gzip", status=415), {"compression": "gzip"}),
    "gzip refused, 400": Case(_refuses("gzip", status=400), {"compression": "gzip"}),
    "zstd refused, 500": Case(_refuses("zstd", status=500), {"compression": "zstd"}),
    "zstd and gzip refused, 415": Case(_refuses("zstd", "gzip", status=415), {"compression": "zstd"}),
    "307": Case(_redirects(307, "/moved"), _SECRET),
    "308": Case(_redirects(308, "/moved"), _SECRET),
    "307 to another server": Case(_redirects(307, "http://localhost:PORT/moved"), _SECRET),
    "301": Case(_redirects(301, "/moved")),
    "302": Case(_redirects(302, "/moved")),
    "200, no OTLP": Case(_answers(200, {"Content-Type": PROTOBUF}, b"<html>")),
    "200, no OTLP in JSON": Case(_answers(200, {"Content-Type": "application/json"}, b"oops")),
    "200, text": Case(_answers(200, {"Content-Type": "text/html"}, b"<html>")),
    "200, empty": Case(_answers(200, {"Content-Type": PROTOBUF})),
    "partial success": Case(_answers(200, {"Content-Type": "application/json"}, PARTIAL), told="no room"),
    "partial success, charset": Case(
        _answers(200, {"Content-Type": "application/json; charset=utf-8"}, PARTIAL), told="no room"
    ),
    "partial success, gzip": Case(
        _answers(
            200, {"Content-Type": "application/json", "Content-Encoding": "gzip"}, gzip.compress(PARTIAL)
        ),
        told="no room",
    ),
    "status without a type": Case(_answers(400, {}, STATUS), told="bad span"),
    "status, gzip": Case(
        _answers(400, {"Content-Type": PROTOBUF, "Content-Encoding": "gzip"}, gzip.compress(STATUS)),
        told="bad span",
    ),
    "user-agent": Case(_answers(), {"headers": {"user-agent": "mine"}}),
    "content-length": Case(_answers(), {"headers": {"content-length": "3"}}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_backends(request: pytest.FixtureRequest, case: Case, tmp_path: Path) -> None:
    """One span to a backend: what it saw, what was counted, what the log tells."""
    outcomes = {side: _run(side, case, tmp_path) for side in SIDES}
    differences.check(f"backend: {request.node.callspec.id}", outcomes)


def test_differences_are_current(whole_module: None) -> None:
    """Each row of these cases is still true."""
    assert differences.out_of_date("backend:") == []


def _run(side: str, case: Case, folder: Path) -> Outcome:
    def config(ports: Ports) -> dict[str, Any]:
        exporter = {
            "endpoint": f"http://127.0.0.1:{ports.sink}",
            "compression": "none",
            "retry_on_failure": {"enabled": False},
            **case.keys,
        }
        pipeline = {"receivers": ["otlp"], "exporters": ["otlp_http"]}
        return base(ports, exporters={"otlp_http": exporter}, pipelines={"traces": pipeline})

    def counted() -> dict[str, float]:
        return {
            name.removeprefix("otelcol_exporter_").removesuffix("_spans"): value
            for (name, _), value in process.samples("^otelcol_exporter_(sent|send_failed)_spans$").items()
            if value
        }

    with Backend(case) as backend, Process(side, config, backend.server_port, folder) as process:
        headers = [("Content-Type", PROTOBUF)]
        assert exchange(process.http, http_request("/v1/traces", traces(), headers)).status == 200
        wait_for(lambda: bool(counted()))
        words = [*backend.seen, *(f"{value:g} {name}" for name, value in counted().items())]
        process.stop()
    if case.told:
        words.append("told" if any(case.told in line for line in process.log) else "not told")
    return Outcome("; ".join(words))
