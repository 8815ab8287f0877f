"""What an invalid item costs: the whole request in the Collector, itself alone here, unless one key says otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.message import DecodeError

from collector.ids import Signal
from tests.conformance.bodies import GRPC_PATHS
from tests.conformance.peers import GrpcPeer, call_headers, exchange, grpc_frame, http_request
from tests.integration.harness import wait_for
from tests.interop.harness import Ports, Process, Sink, base, to_sink
from tests.support import otlp

PATH = "/v1/traces"
SPANS = [otlp.span("a"), otlp.span("@@@"), otlp.span("c")]
BAD_ID = otlp.traces(SPANS[0], otlp.span("b", trace_id=b"t" * 15), SPANS[2]).SerializeToString()
BAD_TEXT = otlp.traces(*SPANS).SerializeToString().replace(b"@@@", b"\xff\xfeA")


def _json(**fields: str) -> bytes:
    spans = [{"traceId": "1" * 32, "spanId": "2" * 16, "name": name} for name in "abc"]
    spans[1].update(fields)
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


REQUESTS = {
    "grpc: bad id": BAD_ID,
    "http: bad id": BAD_ID,
    "json: bad id": _json(traceId="1" * 31),
    "grpc: bad text": BAD_TEXT,
    "http: bad text": BAD_TEXT,
    "json: bad text": _json(name="@@@").replace(b"@@@", b"\xff\xfeA"),
}


class Outcome(NamedTuple):
    """The code that a client was answered with, and what was sent on."""

    code: int
    bodies: list[bytes]


class Side(NamedTuple):
    """A process and what is behind it."""

    process: Process
    sink: Sink

    def send(self, case: str) -> Outcome:
        """Send a request and return what became of it."""
        before = len(self.sink.received(PATH))
        accepted = self._accepted()
        code = self._exchange(case)
        if self._accepted() > accepted:
            wait_for(lambda: len(self.sink.received(PATH)) > before)
        return Outcome(code, self.sink.received(PATH)[before:])

    def _exchange(self, case: str) -> int:
        body = REQUESTS[case]
        if case.startswith("grpc"):
            with GrpcPeer(self.process.grpc) as peer:
                status = peer.call(call_headers(GRPC_PATHS[Signal.TRACES]), grpc_frame(body)).status
            assert status is not None
            return status
        type = "application/json" if case.startswith("json") else "application/x-protobuf"
        return exchange(self.process.http, http_request(PATH, body, [("Content-Type", type)])).status

    def _accepted(self) -> float:
        return sum(self.process.samples("^otelcol_receiver_accepted_spans").values())


def _config(ports: Ports, **keys: Any) -> dict[str, Any]:
    pipelines = {"traces": {"receivers": ["otlp"], "exporters": ["otlp_http"]}}
    config = base(ports, exporters={"otlp_http": to_sink(ports)}, pipelines=pipelines)
    config["receivers"]["otlp"].update(keys)
    return config


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """The Collector, spansieve, and spansieve with `invalid_items: reject_request`."""
    configs = {
        "collector": _config,
        "spansieve": _config,
        "strict": lambda ports: _config(ports, invalid_items="reject_request"),
    }
    with ExitStack() as stack:
        found = {}
        for name, config in configs.items():
            folder: Path = tmp_path_factory.mktemp(name)
            sink = stack.enter_context(Sink())
            side = "spansieve" if name == "strict" else name
            found[name] = Side(stack.enter_context(Process(side, config, sink.server_port, folder)), sink)
        yield found


def _names(outcome: Outcome) -> list[str]:
    return [span.name for body in outcome.bodies for span in otlp.items(otlp.decode(Signal.TRACES, body))]


@pytest.mark.parametrize("case", [case for case in REQUESTS if case.endswith("bad id")])
def test_bad_id_costs_the_request_there_and_its_span_here(case: str, sides: dict[str, Side]) -> None:
    """The Collector takes nothing and says that it never will; we take the others, or nothing with our key."""
    taken = {name: side.send(case) for name, side in sides.items()}
    refusals = {"grpc": (13, 3)}.get(case[:4], (400, 400))
    assert refusals == (taken["collector"].code, taken["strict"].code)
    assert [] == taken["collector"].bodies == taken["strict"].bodies
    assert (0 if case.startswith("grpc") else 200) == taken["spansieve"].code
    assert ["a", "c"] == _names(taken["spansieve"])


@pytest.mark.parametrize("case", [case for case in REQUESTS if case.endswith("bad text")])
def test_bad_text_is_passed_on_there_and_repaired_here(case: str, sides: dict[str, Side]) -> None:
    """What the Collector sends on Google's protobuf cannot read, nor ours with our key; by default all can be read."""
    taken = {name: side.send(case) for name, side in sides.items()}
    assert {0 if case.startswith("grpc") else 200} == {outcome.code for outcome in taken.values()}
    with pytest.raises(DecodeError):
        _names(taken["collector"])
    if not case.startswith("json"):
        with pytest.raises(DecodeError):
            _names(taken["strict"])
    assert ["a", "\ufffd\ufffdA", "c"] == _names(taken["spansieve"])
