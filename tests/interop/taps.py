"""One request at a time to both: what the client sees, and what goes on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.ids import Signal
from tests.conformance.bodies import HTTP_PATHS, MIB
from tests.conformance.peers import GrpcPeer, HttpAnswer, exchange
from tests.integration.harness import wait_for
from tests.interop.harness import Ports, Process, Sink, base, normalise, to_sink
from tests.support import otlp

PROTOBUF, JSON = ("Content-Type", "application/x-protobuf"), ("Content-Type", "application/json")
SIGNALS = {path: signal for signal, path in HTTP_PATHS.items()}


def config(ports: Ports, **sections: Any) -> dict[str, Any]:
    """Return one pipeline a signal, with limits of 1 MiB and nothing that changes a request."""
    pipelines = {signal.value: {"receivers": ["otlp"], "exporters": ["otlp_http"]} for signal in Signal}
    return base(
        ports,
        grpc={"max_recv_msg_size_mib": 1},
        http={"max_request_body_size": MIB},
        exporters={"otlp_http": to_sink(ports)},
        pipelines=pipelines,
        **sections,
    )


@dataclasses.dataclass(frozen=True)
class Outcome:
    """An answer, and the requests with items that went on."""

    answer: str
    taken: list[Any]

    def __str__(self) -> str:
        count = sum(len(list(otlp.items(request))) for request in self.taken)
        return f"{self.answer}, {count} taken" if self.taken else self.answer

    @property
    def content(self) -> list[bytes]:
        """What was taken, byte by byte the same for both if it means the same; NaN is then equal to itself."""
        return [request.SerializeToString(deterministic=True) for request in self.taken]


class Tap:
    """Tells request by request what one of the two sends on."""

    def __init__(self, process: Process, sink: Sink) -> None:
        self.process = process
        self._sink = sink
        self._accepted = 0.0
        self._seen = dict.fromkeys(SIGNALS, 0)

    def take(self) -> list[Any]:
        """Return what has reached the sink since the last call, once it is all that was accepted."""
        accepted = sum(self.process.samples("^otelcol_receiver_accepted_").values())
        n_items = accepted - self._accepted
        self._accepted = accepted
        taken: list[Any] = []

        def is_complete() -> bool:
            taken.extend(self._read())
            return sum(len(list(otlp.items(request))) for request in taken) == n_items

        wait_for(is_complete)
        return taken

    def _read(self) -> Iterator[Any]:
        for path, signal in SIGNALS.items():
            new = self._sink.received(path)[self._seen[path] :]
            self._seen[path] += len(new)
            for body in new:
                request = otlp.decode(signal, body)
                request.DiscardUnknownFields()
                if any(otlp.items(request)):
                    yield normalise(request)


def http_outcome(tap: Tap, request: bytes) -> Outcome:
    """Send the bytes of an HTTP request and return what came of it."""
    try:
        answer = exchange(tap.process.http, request)
    except ConnectionResetError:
        return Outcome("closed without an answer", tap.take())
    media_type = answer.headers.get("content-type", "no type").partition(";")[0]
    return Outcome(f"{answer.status} {media_type} {_kind(media_type, answer)}".strip(), tap.take())


def _kind(media_type: str, answer: HttpAnswer) -> str:
    """Return the code of an answer that is a google.rpc.Status, the text of one that is text."""
    if answer.status == 200:
        return _partial_success(media_type, answer.body)
    if media_type == JSON[1]:
        return f"code {json.loads(answer.body)['code']}"
    if media_type == PROTOBUF[1]:
        try:
            return f"code {status_pb2.Status.FromString(answer.body).code}"
        except DecodeError:
            return "no Status"
    return answer.body.decode(errors="backslashreplace").strip()


def _partial_success(media_type: str, body: bytes) -> str:
    """Return what a success of any signal says beside; an empty partial success says nothing."""
    if media_type == JSON[1]:
        partial = json.loads(body).get("partialSuccess", {})
        return " ".join(f"{name}: {value}" for name, value in partial.items() if value)
    # Signals differ in the name of the first field only.
    response = ExportTraceServiceResponse.FromString(body)
    return str(response.partial_success).replace("\n", " ").strip()


def grpc_outcome(tap: Tap, headers: list[tuple[str, str]], payload: bytes) -> Outcome:
    """Make a gRPC call and return what came of it."""
    with GrpcPeer(tap.process.grpc) as peer:
        answer = peer.call(headers, payload)
    if answer.status is not None:
        # The answer to a compressed call is compressed too, and says what that to a plain one says.
        is_plain = answer.status == 0 and "grpc-encoding" not in dict(headers)
        said = _partial_success(PROTOBUF[1], answer.body) if is_plain else ""
        return Outcome(f"status {answer.status} {said}".strip(), tap.take())
    what = f"reset {answer.reset_code}" if answer.reset_code is not None else f"HTTP {answer.http_status}"
    return Outcome(what, tap.take())
