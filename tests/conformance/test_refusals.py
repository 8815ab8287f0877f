"""Overload is refused so that clients keep their data and come again: R40 of public reports, B19.

Source: OTLP specification, "OTLP/gRPC Throttling" and "OTLP/HTTP Throttling"; google.rpc.RetryInfo.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2

from collector.ids import Signal
from collector.native import ops
from collector.native.pipeline import Consumer, Pipeline, Queue
from collector.native.runtime import Runtime
from tests.conformance.bodies import GOLDEN, GRPC_PATHS, HTTP_PATHS
from tests.conformance.harness import Collector
from tests.conformance.peers import GrpcPeer, call_headers, exchange, grpc_frame, http_request

UNAVAILABLE = 14
REFUSED = "data refused due to high memory usage"
SOFT_LIMIT = 64 << 20


class Limited:
    """A collector behind a memory limiter whose usage the test sets."""

    def __init__(self, transport: str) -> None:
        self.queues: dict[Signal, Queue] = {}
        self.collector = Collector(transport, consumers=self._consumers)

    def _consumers(self, runtime: Runtime) -> Mapping[Signal, Consumer]:
        self.queues = {signal: Queue(runtime, signal, sizer="bytes", capacity=1 << 20) for signal in Signal}
        return {
            signal: Pipeline(signal, [ops.memory_limiter(runtime, SOFT_LIMIT, SOFT_LIMIT)], queue)
            for signal, queue in self.queues.items()
        }

    def is_under_pressure(self, yes: bool) -> None:
        """Set the usage above the limit, or far below."""
        self.collector.runtime.set_rss(2 * SOFT_LIMIT if yes else 0)

    def items(self, signal: Signal) -> int:
        """Return what is queued."""
        return int(self.queues[signal].stats().items)


def _delay_ms(status: status_pb2.Status) -> int:
    retry_info = error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(retry_info)
    return int(retry_info.retry_delay.ToMilliseconds())


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
def test_grpc_client_is_refused_with_retry_info_and_then_served(signal: Signal, transport: str) -> None:
    """UNAVAILABLE with a delay while memory is short; the same request is taken once it is not."""
    limited = Limited(transport)
    with limited.collector, GrpcPeer(limited.collector.grpc) as peer:
        call = call_headers(GRPC_PATHS[signal]), grpc_frame(GOLDEN[signal])
        limited.is_under_pressure(True)
        refused = peer.call(*call)
        assert (UNAVAILABLE, REFUSED) == (refused.status, refused.message)
        assert refused.details is not None
        status = status_pb2.Status.FromString(refused.details)
        assert (UNAVAILABLE, REFUSED) == (status.code, status.message)
        assert _delay_ms(status) > 0
        assert 0 == limited.items(signal)
        limited.is_under_pressure(False)
        assert 0 == peer.call(*call).status
        assert 1 == limited.items(signal)


@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.value)
@pytest.mark.parametrize("type", ["application/x-protobuf", "application/json"])
def test_http_client_is_refused_with_retry_after_and_then_served(
    signal: Signal, type: str, transport: str
) -> None:
    """503, Retry-After in whole seconds, and a google.rpc.Status with RetryInfo in the request's encoding."""
    is_json = type == "application/json"
    body = _json(signal) if is_json else GOLDEN[signal]
    request = http_request(HTTP_PATHS[signal], body, [("Content-Type", type)])
    limited = Limited(transport)
    with limited.collector:
        limited.is_under_pressure(True)
        refused = exchange(limited.collector.http, request)
        assert (503, type) == (refused.status, refused.headers["content-type"])
        assert int(refused.headers["retry-after"]) >= 1
        status = status_pb2.Status()
        json_format.Parse(refused.body, status) if is_json else status.ParseFromString(refused.body)
        assert (UNAVAILABLE, REFUSED) == (status.code, status.message)
        assert _delay_ms(status) > 0
        limited.is_under_pressure(False)
        assert 200 == exchange(limited.collector.http, request).status
        assert 1 == limited.items(signal)


def _json(signal: Signal) -> bytes:
    """Return a request of one item."""
    scopes = {
        Signal.TRACES: ("resourceSpans", "scopeSpans", {"spans": [{"name": "a"}]}),
        Signal.METRICS: ("resourceMetrics", "scopeMetrics", {"metrics": [{"gauge": {"dataPoints": [{}]}}]}),
        Signal.LOGS: ("resourceLogs", "scopeLogs", {"logRecords": [{}]}),
    }
    resources, scope, content = scopes[signal]
    return json.dumps({resources: [{scope: [content]}]}).encode()
