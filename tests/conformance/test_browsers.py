"""Pages of other origins, as browsers let them: preflights, answers, and the headers that the configuration adds."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from collector.config.fields import Secret
from collector.config.http import Cors
from collector.ids import Signal
from tests.conformance.bodies import GOLDEN
from tests.conformance.harness import Collector

ORIGIN = "https://shop.example"
# What Chromium sends before the OTLP exporter of a page does.
PREFLIGHT = {
    "Accept": "*/*",
    "Access-Control-Request-Headers": "content-type,x-tenant",
    "Access-Control-Request-Method": "POST",
    "Connection": "keep-alive",
    "Origin": ORIGIN,
    "Referer": f"{ORIGIN}/",
    "Sec-Fetch-Dest": "empty",
    "Sec-Fetch-Mode": "cors",
    "Sec-Fetch-Site": "cross-site",
    "User-Agent": "Mozilla/5.0",
}


@pytest.fixture
def client() -> Iterator[http.client.HTTPConnection]:
    """A connection to a collector that lets the shop in."""
    cors = Cors(
        allowed_origins=("https://*.example",),
        allowed_headers=("Content-Type", "X-Tenant"),
        exposed_headers=("x-request-id",),
        max_age=7200,
    )
    keys = {"cors": cors, "response_headers": {"strict-transport-security": Secret("max-age=1")}}
    with Collector("native", http=keys) as collector:
        connection = http.client.HTTPConnection(*collector.http, timeout=60.0)
        yield connection
        connection.close()


def test_page_asks_and_sends(client: http.client.HTTPConnection) -> None:
    """A preflight, then the request, on one connection: both say what the browser wants to hear."""
    client.request("OPTIONS", "/v1/traces", headers=PREFLIGHT)
    answer = client.getresponse()
    assert (204, b"") == (answer.status, answer.read())
    assert {
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Headers": "content-type,x-tenant",
        "Access-Control-Allow-Methods": "POST",
        "Access-Control-Allow-Origin": ORIGIN,
        "Access-Control-Max-Age": "7200",
        "Strict-Transport-Security": "max-age=1",
        "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    } == dict(answer.getheaders())
    client.request(
        "POST",
        "/v1/traces",
        GOLDEN[Signal.TRACES],
        {"Origin": ORIGIN, "Content-Type": "application/x-protobuf", "X-Tenant": "a"},
    )
    answer = client.getresponse()
    answer.read()
    assert 200 == answer.status
    assert {
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Origin": ORIGIN,
        "Access-Control-Expose-Headers": "X-Request-Id",
        "Content-Length": "0",
        "Content-Type": "application/x-protobuf",
        "Strict-Transport-Security": "max-age=1",
        "Vary": "Origin",
    } == dict(answer.getheaders())


@pytest.mark.parametrize(
    "change",
    [
        {"Origin": "https://shop.example.evil"},
        {"Access-Control-Request-Method": "DELETE"},
        {"Access-Control-Request-Headers": "authorization,content-type"},
    ],
)
def test_page_that_may_not_is_not_told_that_it_may(
    client: http.client.HTTPConnection, change: dict[str, str]
) -> None:
    """An origin, a method or a header that is not allowed: the answer allows nothing."""
    client.request("OPTIONS", "/v1/traces", headers=PREFLIGHT | change)
    answer = client.getresponse()
    assert (204, b"") == (answer.status, answer.read())
    assert not [name for name, _ in answer.getheaders() if name.startswith("Access-Control-")]


def test_errors_can_be_read_by_the_page(client: http.client.HTTPConnection) -> None:
    """A refusal has the headers of a success, or the page would see no more than a network error."""
    client.request(
        "POST", "/v1/traces", b"\xff", {"Origin": ORIGIN, "Content-Type": "application/x-protobuf"}
    )
    answer = client.getresponse()
    answer.read()
    assert (400, ORIGIN) == (answer.status, answer.getheader("Access-Control-Allow-Origin"))


def test_configured_headers_are_in_every_answer(transport: str) -> None:
    """Also in those that say no."""
    headers = {"x-a": Secret("b"), "x-c": Secret("d")}
    with Collector(transport, http={"response_headers": headers}) as collector:
        connection = http.client.HTTPConnection(*collector.http, timeout=60.0)
        for method, path, status in (
            ("POST", "/v1/traces", 415),
            ("GET", "/v1/traces", 405),
            ("GET", "/", 404),
        ):
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            assert (status, "b", "d") == (answer.status, answer.getheader("X-A"), answer.getheader("X-C"))
        connection.close()


def test_paths_below_a_path(transport: str) -> None:
    """A path that ends in a slash takes all below it, but for what a longer one takes."""
    keys = {"traces_url_path": "in/", "logs_url_path": "/in/logs"}
    with Collector(transport, http=keys) as collector:
        connection = http.client.HTTPConnection(*collector.http, timeout=60.0)
        for path, signal in (
            ("/in/a/b?c", Signal.TRACES),
            ("/in/", Signal.TRACES),
            ("/in/logs", Signal.LOGS),
        ):
            connection.request("POST", path, GOLDEN[signal], {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            assert (200, 1) == (answer.status, len(collector.take(signal)))
        connection.close()


@pytest.mark.parametrize(
    ("algorithms", "encoding", "status"),
    [
        (("", "zlib"), "", 200),
        (("", "zlib"), "identity", 200),
        (("", "zlib"), "deflate", 415),
        (("gzip",), "", 415),
        ((), "br", 200),
    ],
)
def test_choice_of_encodings(transport: str, algorithms: tuple[str, ...], encoding: str, status: int) -> None:
    """Only what is listed is taken; with an empty list bodies are taken as they come."""
    with Collector(transport, http={"compression_algorithms": algorithms}) as collector:
        connection = http.client.HTTPConnection(*collector.http, timeout=60.0)
        headers = {"Content-Type": "application/json"} | ({"Content-Encoding": encoding} if encoding else {})
        connection.request("POST", "/v1/traces", b"{}", headers)
        answer = connection.getresponse()
        body = answer.read()
        assert status == answer.status
        if status == 415:
            supported = ", ".join(filter(None, algorithms))
            assert f'"unsupported Content-Encoding: {encoding}; supported: {supported}"'.encode() in body
            assert supported == answer.getheader("Accept-Encoding")
        connection.close()
