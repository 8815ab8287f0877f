"""Clients that send without pause, and a backend that can fail, for what must hold while both do."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Self

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from deploy.demo.processes import Spansieve
from tests.integration.harness import EXPORT, WAIT_S, wait_for
from tests.support.otlp import items, span, traces


def total(spansieve: Spansieve, *names: str) -> int:
    """Return the sum of all series with these names on the metrics page."""
    return int(sum(sample.value for sample in spansieve.samples() if sample.name in names))


class Backend(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A grpcio server that counts the ids of the spans it is sent; it can be stopped and started again."""

    def __init__(self, port: int = 0, n_threads: int = 4) -> None:
        self.port = port
        self._n_threads = n_threads
        self._lock = threading.Lock()
        self.spans: Counter[bytes] = Counter()
        self.sizes: list[int] = []
        self.answer: Callable[[grpc.ServicerContext], object] = lambda context: None
        self.start()

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._pool = futures.ThreadPoolExecutor(self._n_threads)
        self._server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers([self])
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def stop(self) -> None:
        """End the server and its threads."""
        self._server.stop(None).wait()
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def n_spans(self) -> int:
        """Spans that it has taken."""
        with self._lock:
            return self.spans.total()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Be grpcio's handler: bytes in and out."""
        return grpc.unary_unary_rpc_method_handler(self._export)

    def _export(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.answer(context)
        ids = [span.span_id for span in items(ExportTraceServiceRequest.FromString(request))]
        with self._lock:
            self.spans.update(ids)
            self.sizes.append(len(request))
        return b""


class Sender:
    """A grpcio client of the trace service that gives each span an id of its own."""

    def __init__(self, endpoint: str, first: int = 1) -> None:
        self._channel = grpc.insecure_channel(endpoint, options=[("grpc.use_local_subchannel_pool", 1)])
        self._export = self._channel.unary_unary(EXPORT)
        self._next = first
        self.acknowledged: set[bytes] = set()
        self.refusals: list[grpc.RpcError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; safe twice."""
        self._channel.close()

    def send(self, n_spans: int = 10, attribute_bytes: int = 0) -> bool:
        """Send one request; return whether it was acknowledged."""
        ids = [number.to_bytes(8, "big") for number in range(self._next, self._next + n_spans)]
        self._next += n_spans
        text = {"text": "x" * attribute_bytes} if attribute_bytes else {}
        spans = (span(trace_id=id * 2, span_id=id, attributes=text) for id in ids)
        try:
            self._export(traces(*spans).SerializeToString(), timeout=WAIT_S)
        except grpc.RpcError as error:
            self.refusals.append(error)
            return False
        self.acknowledged.update(ids)
        return True


class Load:
    """Clients that send without pause from threads of their own until the context ends."""

    def __init__(self, endpoint: str, n_clients: int = 3, n_spans: int = 5) -> None:
        self.clients = [Sender(endpoint, first=1 + index * 10_000_000) for index in range(n_clients)]
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(client, n_spans)) for client in self.clients
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the load; safe twice."""
        self._ends.set()
        for thread in self._threads:
            thread.join()
        for client in self.clients:
            client.close()

    def wait_for(self, n_more: int) -> None:
        """Return when so many more requests were answered."""
        before = self._n_answered()
        wait_for(lambda: self._n_answered() >= before + n_more)

    @property
    def acknowledged(self) -> set[bytes]:
        """Ids of the spans that were acknowledged."""
        return set().union(*(client.acknowledged for client in self.clients))

    @property
    def refusals(self) -> Iterator[grpc.RpcError]:
        """What was answered instead."""
        return (error for client in self.clients for error in client.refusals)

    def _n_answered(self) -> int:
        return sum(len(client.acknowledged) + len(client.refusals) for client in self.clients)

    def _run(self, client: Sender, n_spans: int) -> None:
        while not self._ends.is_set():
            client.send(n_spans)
