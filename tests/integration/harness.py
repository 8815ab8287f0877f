"""Collectors as processes of their own, and the other ends of their sockets."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import grpc
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from deploy.demo.backend import Server
from deploy.demo.processes import Spansieve
from tests.support import otlp

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
FREE = "127.0.0.1:0"
WAIT_S = 60.0


def make_config(backend: int, **sections: Any) -> dict[str, Any]:
    """Return a configuration that takes traces on free ports and sends them to the backend's port.

    Args:
        sections: processors, by id, in the order in which they run; `otlp_grpc`, keys of the exporter; `otlp`, keys of
            the receiver; `service`, keys of the service.
    """
    exporter = {
        "endpoint": f"127.0.0.1:{backend}",
        "tls": {"insecure": True},
        **sections.get("otlp_grpc", {}),
    }
    processors = sections.get("processors", {})
    return {
        "receivers": {
            "otlp": {
                "protocols": {"grpc": {"endpoint": FREE}, "http": {"endpoint": FREE}},
                **sections.get("otlp", {}),
            }
        },
        "processors": processors,
        "exporters": {"otlp_grpc": exporter},
        "extensions": {"health_check": {"endpoint": FREE}},
        "service": {
            "extensions": ["health_check"],
            "pipelines": {
                signal: {
                    "receivers": ["otlp"],
                    "processors": list(processors) if signal == "traces" else [],
                    "exporters": ["otlp_grpc"],
                }
                for signal in ("traces", "metrics", "logs")
            },
            "telemetry": {
                "metrics": {
                    "readers": [{"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": 0}}}}]
                }
            },
            **sections.get("service", {}),
        },
    }


def write(path: Path, config: dict[str, Any]) -> Path:
    """Write config as YAML; a reader sees the old file or the new one."""
    draft = path.with_suffix(".draft")
    draft.write_text(yaml.safe_dump(config))
    return draft.replace(path)


@contextmanager
def start(path: Path, config: dict[str, Any]) -> Iterator[Spansieve]:
    """Run a collector with config, written to path."""
    with Spansieve(write(path, config)) as spansieve:
        yield spansieve


@contextmanager
def h2_backend() -> Iterator[Server]:
    """Run the backend of the demonstration, which takes zstd."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class GrpcioBackend:
    """A trace service on grpcio, which knows gzip and not zstd.

    Attributes:
        spans: ids of the spans received.
        encodings: grpc-encoding of each call that it could read.
    """

    def __init__(self, port: int = 0) -> None:
        self.spans: list[bytes] = []
        self.encodings: list[str] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        handler = grpc.unary_unary_rpc_method_handler(self._export)
        service, method = EXPORT.strip("/").split("/")
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def _export(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        request = ExportTraceServiceRequest.FromString(message)
        self.spans += [span.span_id for span in otlp.items(request)]
        metadata = dict(context.invocation_metadata())
        self.encodings.append(
            str(metadata.get("grpc-encoding", metadata.get("grpc-internal-encoding-request", "")))
        )
        return b""


class Client:
    """Sends traces by grpcio; each span has an id of its own."""

    def __init__(self, address: str, compression: grpc.Compression = grpc.Compression.NoCompression) -> None:
        self._channel = grpc.insecure_channel(address, compression=compression)
        self._export = self._channel.unary_unary(EXPORT)
        self.sent: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def send(self, count: int = 1) -> None:
        """Send a request of so many spans.

        Raises:
            grpc.RpcError: it was refused.
        """
        request, ids = spans(count, len(self.sent))
        self.export(request)
        self.sent += ids

    def export(self, request: bytes) -> None:
        """Send a request.

        Raises:
            grpc.RpcError: it was refused.
        """
        self._export(request, timeout=WAIT_S)


def spans(count: int, first: int = 0) -> tuple[bytes, list[str]]:
    """Return a request of count spans, numbered from first on, and their ids."""
    ids = [number.to_bytes(8, "big") for number in range(first + 1, first + 1 + count)]
    request = otlp.traces(*(otlp.span(span_id=id, trace_id=id + id, attributes={"a": 1}) for id in ids))
    return request.SerializeToString(), [id.hex() for id in ids]


def arrived(server: Server) -> list[str]:
    """Return the ids of the spans that the backend has, sorted."""
    return sorted(span for _trace, span, _is_error in server.received.summary()["spans"])


def get_status(address: str, path: str = "/") -> int:
    """Return the status of a GET; 0 when nobody listens."""
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def wait_for(condition: Callable[[], Any]) -> None:
    """Return when condition holds.

    Raises:
        AssertionError: it does not within WAIT_S.
    """
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"
        threading.Event().wait(0.01)
