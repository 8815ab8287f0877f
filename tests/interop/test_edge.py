"""The keys of the receiver's servers do what they do on the Collector: CORS, headers, encodings, paths, ages, pings."""

from __future__ import annotations

import gzip
import itertools
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collector.ids import Signal
from tests.conformance.bodies import GOLDEN, GRPC_PATHS
from tests.conformance.peers import (
    END_HEADERS,
    HEADERS,
    PING,
    PREFACE,
    SETTINGS,
    Address,
    connect,
    exchange,
    frame,
    header_block,
    http_request,
)
from tests.interop.harness import Pair, Ports, base, run_both

TYPE = ("Content-Type", "application/x-protobuf")
TRACES = GOLDEN[Signal.TRACES]
GOAWAY = 7
ACK = 1


@contextmanager
def _serve(folder: Path, **keys: Mapping[str, Any]) -> Iterator[Pair]:
    """Run both with these keys of the protocols."""

    def config(ports: Ports) -> dict[str, Any]:
        pipelines = {signal.value: {"receivers": ["otlp"], "exporters": ["nop"]} for signal in Signal}
        return base(ports, exporters={"nop": None}, pipelines=pipelines, **keys)

    with run_both(config, folder) as pair:
        yield pair


# ---------------------------------------------------------------------------------------------------------- HTTP

HTTP_KEYS = {
    "cors": {
        "allowed_origins": ["https://*.Example", "http://plain:1"],
        "allowed_headers": ["X-Tenant", "Content-Type"],
        "exposed_headers": ["x-request-id", "ETAG"],
        "max_age": 600,
    },
    "response_headers": {"x-frame-options": "deny", "content-type": "text/none"},
    "compression_algorithms": ["", "gzip", "lz4"],
    "traces_url_path": "in/",
    "logs_url_path": "/in/logs",
}
ORIGINS = (
    "https://a.example",
    "HTTPS://A.EXAMPLE",
    "https://a.example.evil",
    "http://plain:1",
    "http://plain",
    "null",
    "",
)
ASKED = ("content-type", "content-type,x-tenant", "x-tenant,content-type", "content-type, x-tenant", "Content-Type",
         "authorization", ",content-type", " ,  content-type", "")  # fmt: skip


def _http_cases() -> Iterator[tuple[str, bytes]]:
    for origin, method in itertools.product(ORIGINS, ("POST", "PUT")):
        headers = [("Origin", origin), ("Access-Control-Request-Method", method)]
        yield f"preflight {origin!r} {method}", http_request("/in/", None, headers, "OPTIONS")
    for asked in ASKED:
        headers = [
            ("Origin", ORIGINS[0]),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", asked),
        ]
        yield f"preflight for {asked!r}", http_request("/nothing", None, headers, "OPTIONS")
    yield "no preflight", http_request("/in/", None, [("Origin", ORIGINS[0])], "OPTIONS")
    for origin, path, method in itertools.product(ORIGINS, ("/in/a", "/nothing"), ("POST", "GET", "PUT")):
        request = http_request(path, TRACES, [("Origin", origin), TYPE], method)
        yield f"{method} {path} from {origin!r}", request
    for path in ("/in/", "/in/x/y", "/in/logs", "/in/logs/", "/inx", "/v1/traces", "/v1/metrics"):
        yield f"path {path}", http_request(path, b"", [TYPE])
    for encoding in ("", "identity", "gzip", "zstd", "lz4", "br"):
        for path, type in itertools.product(
            ("/in/", "/nothing"), (TYPE[1], "application/json", "text/plain")
        ):
            plain = b"{}" if type == "application/json" else TRACES
            body = gzip.compress(plain) if encoding == "gzip" else b"" if encoding == "lz4" else plain
            headers = [("Content-Encoding", encoding), ("Content-Type", type)]
            yield f"{encoding!r} of {type} to {path}", http_request(path, body, headers)


HTTP_CASES = dict(_http_cases())


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both with HTTP_KEYS."""
    with _serve(tmp_path_factory.mktemp("edge"), http=HTTP_KEYS) as pair:
        yield pair


def _seen(address: Address, request: bytes) -> tuple[int, dict[str, str]]:
    """Return what a browser looks at."""
    answer = exchange(address, request)
    shown = ("access-control-", "vary", "x-frame-options", "content-type")
    headers = {name: value for name, value in answer.headers.items() if name.startswith(shown)}
    # The Collector lets a preflight, which has no body, have the configured one.
    headers["content-type"] = "" if answer.status == 204 else headers["content-type"].partition(";")[0]
    return answer.status, headers


@pytest.mark.parametrize("case", HTTP_CASES)
def test_configured_server_answers_alike(case: str, pair: Pair) -> None:
    """Status, kind of body, CORS, Vary and the configured headers."""
    seen = pair.each(lambda process: _seen(process.http, HTTP_CASES[case]))
    status, headers = seen["collector"]
    if status == 400 and case.startswith(("'zstd'", "'br'")):
        status = 415  # as differences.md says
    assert (status, headers) == seen["spansieve"]


def test_empty_list_of_encodings_takes_bodies_as_they_come(tmp_path: Path) -> None:
    """Whatever Content-Encoding says."""
    with _serve(tmp_path, http={"compression_algorithms": []}) as pair:
        for encoding, body in itertools.product(("gzip", "br", ""), (TRACES, gzip.compress(TRACES))):
            request = http_request("/v1/traces", body, [TYPE, ("Content-Encoding", encoding)])
            seen = pair.each(lambda process, request=request: exchange(process.http, request).status)
            assert seen["collector"] == seen["spansieve"] == (200 if body == TRACES else 400)


# ---------------------------------------------------------------------------------------------------------- gRPC


class End(NamedTuple):
    """How a server ends a connection: the codes of its GOAWAYs, and what the last one says."""

    codes: list[int]
    text: bytes


def _end(address: Address, says: bytes, pings: int = 0) -> tuple[End, float]:
    """Say something, ping so often, answer pings; return how the connection ends, and after how many seconds."""
    begun = time.monotonic()
    ends: list[tuple[int, bytes]] = []
    with connect(address) as raw:
        raw.sendall(PREFACE + frame(SETTINGS, 0, 0) + says)
        try:
            for number in range(pings):
                raw.sendall(frame(PING, 0, 0, b"%08d" % number))
                time.sleep(
                    0.01
                )  # so that each is one of its own; how soon it is too soon does not depend on it
            for kind, flags, payload in _frames(raw):
                if kind == PING and not flags & ACK:
                    raw.sendall(frame(PING, ACK, 0, payload))
                if kind == GOAWAY:
                    ends.append((struct.unpack(">I", payload[4:8])[0], payload[8:]))
        except ConnectionError:
            pass
    return End([code for code, _ in ends], ends[-1][1] if ends else b""), time.monotonic() - begun


def _frames(raw: Any) -> Iterator[tuple[int, int, bytes]]:
    data = b""
    while piece := raw.recv(65536):
        data += piece
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3]):
            length = int.from_bytes(data[:3])
            yield data[3], data[4], data[9 : 9 + length]
            data = data[9 + length :]


def _life(**keys: Any) -> dict[str, Any]:
    return {"keepalive": {"server_parameters": keys}}


@pytest.mark.parametrize("has_call", [False, True])
def test_old_connections_end_alike(has_call: bool, tmp_path: Path) -> None:
    """At their age without a call; with one that does not end, at their age and the grace."""
    call = frame(HEADERS, END_HEADERS, 1, header_block(GRPC_PATHS[Signal.TRACES])) if has_call else b""
    with _serve(tmp_path, grpc=_life(max_connection_age="1s", max_connection_age_grace="1s")) as pair:
        seen = pair.each(lambda process: _end(process.grpc, call))
    assert End([0, 0], b"max_age") == seen["collector"][0] == seen["spansieve"][0]
    least_s = 1.9 if has_call else 0.9
    for _, took_s in seen.values():
        assert least_s <= took_s <= least_s + 2.0  # the Collector leaves the client a second to close


def test_idle_connections_end_alike(tmp_path: Path) -> None:
    """With a word, and in peace."""
    with _serve(tmp_path, grpc=_life(max_connection_idle="500ms")) as pair:
        seen = pair.each(lambda process: _end(process.grpc, b"")[0])
    assert End([0, 0], b"max_idle") == seen["collector"] == seen["spansieve"]


def test_pings_are_counted_alike(tmp_path: Path) -> None:
    """The fourth in a row is one too many; a policy may permit them."""
    with _serve(tmp_path) as pair:
        seen = pair.each(lambda process: _end(process.grpc, b"", pings=4)[0])
        assert End([11], b"too_many_pings") == seen["collector"] == seen["spansieve"]
    policy = {"enforcement_policy": {"min_time": "1ns", "permit_without_stream": True}}
    life = {"server_parameters": {"max_connection_age": "1s"}}
    with _serve(tmp_path, grpc={"keepalive": {**policy, **life}}) as pair:
        seen = pair.each(lambda process: _end(process.grpc, b"", pings=20)[0])
    assert End([0, 0], b"max_age") == seen["collector"] == seen["spansieve"]
