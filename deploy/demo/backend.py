"""An OTLP/gRPC backend that knows nothing of spansieve: HTTP/2 by the `h2` package, messages by Google's protobuf.

It writes what it has received to the file that the first argument names, when its standard input ends. grpcio would
be shorter, but it cannot read messages compressed with zstd.
"""

from __future__ import annotations

import json
import socket
import socketserver
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_ERROR = 2
_ANSWER = struct.pack(">BI", 0, 0)  # an empty message: full success

_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": lambda data: zlib.decompress(data, wbits=31),
    "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


class Received:
    """What has arrived, of all connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[tuple[str, str, bool]] = []
        self._points = 0
        self._records = 0
        self._sums: dict[str, float] = {}

    def take(self, path: str, message: bytes) -> None:
        """Decode a request and note what it holds."""
        service = path.split("/")[1].rpartition(".")[2]
        with self._lock:
            getattr(self, f"_take_{service}")(message)

    def summary(self) -> dict[str, Any]:
        """Return what has arrived: spans as (trace id, span id, is error), the last value of each sum, counts."""
        with self._lock:
            return {
                "spans": list(self._spans),
                "points": self._points,
                "records": self._records,
                "sums": dict(self._sums),
            }

    def _take_TraceService(self, message: bytes) -> None:  # noqa: N802 named as in OTLP
        for resource in ExportTraceServiceRequest.FromString(message).resource_spans:
            for scope in resource.scope_spans:
                self._spans += [
                    (span.trace_id.hex(), span.span_id.hex(), span.status.code == _ERROR)
                    for span in scope.spans
                ]

    def _take_MetricsService(self, message: bytes) -> None:  # noqa: N802
        for metric in _metrics(ExportMetricsServiceRequest.FromString(message)):
            kind = metric.WhichOneof("data")
            points = getattr(metric, kind).data_points if kind else []
            self._points += len(points)
            for point in points if kind == "sum" else []:
                # Cumulative, one process an instrument: the last value of each series is its total.
                series = [f"{pair.key}={_value(pair.value)}" for pair in point.attributes]
                value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
                self._sums[f"{metric.name}{{{','.join(sorted(series))}}}"] = value

    def _take_LogsService(self, message: bytes) -> None:  # noqa: N802
        for resource in ExportLogsServiceRequest.FromString(message).resource_logs:
            self._records += sum(len(scope.log_records) for scope in resource.scope_logs)


def _metrics(request: ExportMetricsServiceRequest) -> Iterator[Any]:
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            yield from scope.metrics


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


class Call:
    """One stream: its headers and what has come of its body."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._path = headers[":path"]
        self._decode = _DECODERS[headers.get("grpc-encoding", "identity")]
        self.body = bytearray()

    def finish(self, received: Received) -> None:
        """Hand the message over."""
        is_compressed, length = struct.unpack_from(">BI", self.body)
        message = bytes(self.body[5 : 5 + length])
        received.take(self._path, self._decode(message) if is_compressed else message)


class Connection(socketserver.BaseRequestHandler):
    """One HTTP/2 connection."""

    def handle(self) -> None:
        """Answer calls until the peer leaves."""
        peer: socket.socket = self.request
        received: Received = self.server.received  # type: ignore[attr-defined]
        engine = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        engine.initiate_connection()
        calls: dict[int, Call] = {}
        peer.sendall(engine.data_to_send())
        while data := peer.recv(1 << 16):
            for event in engine.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    calls[event.stream_id] = Call({str(name): str(value) for name, value in event.headers})
                elif isinstance(event, h2.events.DataReceived):
                    calls[event.stream_id].body += event.data
                    engine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    calls.pop(event.stream_id).finish(received)
                    engine.send_headers(
                        event.stream_id, [(":status", "200"), ("content-type", "application/grpc")]
                    )
                    engine.send_data(event.stream_id, _ANSWER)
                    engine.send_headers(event.stream_id, [("grpc-status", "0")], end_stream=True)
            peer.sendall(engine.data_to_send())


class Server(socketserver.ThreadingTCPServer):
    """Listens on a free port of the loopback interface."""

    daemon_threads = True
    disable_nagle_algorithm = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.received = Received()


def main() -> None:
    """Serve on a free port, which is printed, until standard input ends; then write what was received."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)
        sys.stdin.read()
        server.shutdown()
        Path(sys.argv[1]).write_text(json.dumps(server.received.summary()), encoding="utf-8")


if __name__ == "__main__":
    main()
