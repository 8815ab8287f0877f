"""Files of requests for the load generator: captures, cut into requests of one size.

A file is what `spansieve-load --bodies` reads: [length, 4 bytes, big-endian][Export*ServiceRequest], repeated.
"""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench import bodies
from collector.ids import Signal
from collector.native.table import SpanTable

SIZES = (1, 10, 100, 512, 4096)

_ITEMS = 20_480  # of a source, in a file: a multiple of the greatest size
_GENERATED_POINTS = 512  # in one generated request of metrics; of log records too


class Source(NamedTuple):
    """Where requests come from.

    Attributes:
        name: `hipstershop`, `astronomy`, `hostandcollector` or `generated`.
        read: returns one request with all that there is.
    """

    name: str
    signal: Signal
    read: Callable[[], bytes]


def sources(signal: Signal) -> list[Source]:
    """Return the captures of signal that are here; one that is generated where there is none."""
    names = {
        Signal.TRACES: {"hipstershop": "hipstershop-oteltraces.zst", "astronomy": "astronomy-oteltraces.zst"},
        Signal.METRICS: {
            "hipstershop": "hipstershop-otelmetrics.zst",
            "hostandcollector": "hostandcollector-otelmetrics.zst",
        },
        Signal.LOGS: {},
    }[signal]
    found = [
        Source(name, signal, functools.partial(_join_capture, bodies.CAPTURES / file))
        for name, file in names.items()
        if (bodies.CAPTURES / file).exists()
    ]
    return found or [Source("generated", signal, _GENERATORS[signal])]


def write(source: Source, per_request: int, path: Path, n_items: int = _ITEMS) -> int:
    """Write the first n_items of source to path, per_request in each request; the last may have fewer.

    Returns:
        The number of requests.
    """
    n_requests = 0
    with path.open("wb") as file:
        for request in cut(source.signal, source.read(), per_request, n_items):
            file.write(struct.pack(">I", len(request)) + request)
            n_requests += 1
    return n_requests


def read(path: Path) -> Iterator[bytes]:
    """Yield the requests of a file."""
    data = path.read_bytes()
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        yield data[position + 4 : position + 4 + length]
        position += 4 + length


def cut(signal: Signal, request: bytes, per_request: int, n_items: int) -> Iterator[bytes]:
    """Yield the first n_items of request in requests of per_request each, resources and scopes as they were."""
    table = SpanTable.scan(signal, request)
    if len(table) > n_items:
        request = _rows(table, 0, n_items)
        table.rescan(signal, request)
    n_pieces = -(-len(table) // per_request)
    if n_pieces == 1:
        yield request
    elif n_pieces > 1:
        # By halves: taking rows out of a request costs a walk over the whole of it.
        middle = n_pieces // 2 * per_request
        first, rest = _rows(table, 0, middle), _rows(table, middle, len(table))
        del table
        yield from cut(signal, first, per_request, n_items)
        yield from cut(signal, rest, per_request, n_items)


def _rows(table: SpanTable, first: int, end: int) -> bytes:
    verdict = table.verdict
    verdict[:] = 1
    verdict[first:end] = 0
    return table.emit()


def _join_capture(path: Path) -> bytes:
    """Messages one behind the other are one message: their resources are a repeated field."""
    return b"".join(bodies.read_capture(path))


def _generate_metrics() -> bytes:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    chance = random.Random(1)
    request = ExportMetricsServiceRequest()
    for number in range(_ITEMS // _GENERATED_POINTS):
        resource = request.resource_metrics.add()
        bodies.set_attributes(resource.resource, {"service.name": chance.choice(bodies.SERVICES)}, {})
        bodies.set_attributes(resource.resource, {"host.name": f"node-{number}"}, {})
        metrics = resource.scope_metrics.add().metrics
        now_ns = bodies.START_NS + number * 1_000_000_000
        for _ in range(_GENERATED_POINTS // 32):
            metric = metrics.add(name=f"rpc.{chance.choice(bodies.METHODS)}.calls", unit="1")
            metric.sum.aggregation_temporality, metric.sum.is_monotonic = 2, True
            for _ in range(32):
                point = metric.sum.data_points.add(
                    start_time_unix_nano=bodies.START_NS, time_unix_nano=now_ns
                )
                point.as_int = chance.randrange(1_000_000)
                bodies.set_attributes(point, {"rpc.method": chance.choice(bodies.METHODS)}, {})
                bodies.set_attributes(point, {"user.id": f"user-{chance.randrange(10_000)}"}, {})
    data: bytes = request.SerializeToString()
    return data


def _generate_logs() -> bytes:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    chance = random.Random(1)
    request = ExportLogsServiceRequest()
    for number in range(_ITEMS // _GENERATED_POINTS):
        resource = request.resource_logs.add()
        bodies.set_attributes(resource.resource, {"service.name": chance.choice(bodies.SERVICES)}, {})
        records = resource.scope_logs.add().log_records
        for i in range(_GENERATED_POINTS):
            time_ns = bodies.START_NS + number * 1_000_000_000 + i * 1_000_000
            record = records.add(time_unix_nano=time_ns, observed_time_unix_nano=time_ns + 50_000)
            record.severity_number = chance.choice((9, 9, 9, 13, 17))
            record.body.string_value = f"{chance.choice(bodies.METHODS)} for user-{chance.randrange(10_000)} took {chance.randrange(900)} ms"
            record.trace_id, record.span_id = chance.randbytes(16), chance.randbytes(8)
            bodies.set_attributes(record, {"http.route": f"/{chance.choice(bodies.METHODS)}"}, {})
    data: bytes = request.SerializeToString()
    return data


_GENERATORS: dict[Signal, Callable[[], bytes]] = {
    Signal.TRACES: functools.partial(bodies.generate, _ITEMS, seed=1),
    Signal.METRICS: _generate_metrics,
    Signal.LOGS: _generate_logs,
}
