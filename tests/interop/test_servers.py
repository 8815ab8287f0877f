"""The gRPC exporter before servers of other libraries, in each compression: all arrives, and what they say is heard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.ids import Signal
from tests.conformance.peers import exchange, http_request
from tests.integration.harness import wait_for
from tests.interop.harness import Ports, Process, base
from tests.interop.servers.programs import SERVERS, Server
from tests.unit.exporterhelper.support import traces

N_REQUESTS = 4
COMPRESSIONS = ("zstd", "snappy", "gzip", "none")
HEADERS = [("Content-Type", "application/x-protobuf")]
TAKES = {"gzip", "none"}
"""What all of these libraries know by themselves."""


def _partial_success() -> bytes:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 1
    response.partial_success.error_message = "no room"
    return bytes(response.SerializeToString())


@pytest.fixture(params=SERVERS, scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A running server that rejects one span of each request."""
    with Server(request.param, _partial_success()) as server:
        yield server


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_everything_arrives_and_what_is_rejected_is_told(
    server: Server, compression: str, tmp_path: Path
) -> None:
    """Whatever a library does with a compression that it does not know, nothing is lost and nothing comes twice."""

    def config(ports: Ports) -> dict[str, Any]:
        exporter = {
            "endpoint": f"127.0.0.1:{server.port}",
            "tls": {"insecure": True},
            "compression": compression,
            "sending_queue": {"num_consumers": 1},
        }
        pipeline = {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}
        return base(ports, exporters={"otlp_grpc": exporter}, pipelines={Signal.TRACES.value: pipeline})

    server.received.clear()
    requests = [traces(2, f"{compression} {number}") for number in range(N_REQUESTS)]
    with Process("spansieve", config, 0, tmp_path) as process:
        for request in requests:
            assert exchange(process.http, http_request("/v1/traces", request, HEADERS)).status == 200
        wait_for(lambda: len(server.received) >= N_REQUESTS)
        wait_for(lambda: _sample(process, "otelcol_exporter_sent_spans") == 2 * N_REQUESTS)
        assert _sample(process, "spansieve_exporter_rejected_items") == N_REQUESTS
        assert _sample(process, "otelcol_exporter_send_failed_spans") == 0
    assert requests == server.received
    assert any("no room" in line for line in process.log)
    adopted = [line for line in process.log if "compression not supported by the server" in line]
    assert len(adopted) == (compression not in TAKES)
    assert all("gzip" in line for line in adopted)


def _sample(process: Process, name: str) -> float:
    return sum(process.samples(f"^{name}$").values())
