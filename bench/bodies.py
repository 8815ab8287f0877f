"""What requests are made of: real captures where those are, else generated like them."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from collector.ids import Signal

_CORPUS = Path(os.environ.get("SPANSIEVE_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))
_STEF = _CORPUS / "splunk+stef" / "benchmarks" / "testdata"
CAPTURES = {
    "hipstershop": _STEF / "hipstershop-oteltraces.zst",
    "astronomy": _STEF / "astronomy-oteltraces.zst",
    "hipstershop metrics": _STEF / "hipstershop-otelmetrics.zst",
}


def are_captured() -> bool:
    """Return whether the captures are there; logs are generated in any case."""
    return all(path.exists() for path in CAPTURES.values())


def usual_capture(signal: Signal) -> str | None:
    """Return the capture that requests of a signal are cut from; None where they are generated."""
    found = {Signal.TRACES: "hipstershop", Signal.METRICS: "hipstershop metrics"}.get(signal)
    return found if are_captured() else None


def describe() -> str:
    """Return where requests come from, for the report."""
    if are_captured():
        return "cut from captures of Hipster Shop (traces, metrics; astronomy bodies: Astronomy Shop), generated (logs)"
    return "generated (set SPANSIEVE_CORPUS for real captures)"


def read_capture(path: Path) -> Iterator[bytes]:
    """Yield the messages of a capture: zstd of what read_framed reads."""
    import zstandard

    yield from read_framed(zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()))


def read_framed(data: bytes) -> Iterator[bytes]:
    """Yield the messages in [length, 4 bytes, big-endian][message], repeated."""
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        yield data[position + 4 : position + 4 + length]
        position += 4 + length


def write_framed(path: Path, requests: Iterable[bytes]) -> Path:
    """Write requests as read_framed reads them, and return path."""
    path.write_bytes(b"".join(struct.pack(">I", len(request)) + request for request in requests))
    return path


# What generated requests are made of: the shape of a small shop on Kubernetes.
_SERVICES = ("frontend", "checkout", "cart", "catalog", "currency", "payment", "shipping", "email", "ads")
_METHODS = (
    "GetProduct",
    "ListProducts",
    "Convert",
    "GetCart",
    "AddItem",
    "PlaceOrder",
    "GetQuote",
    "ShipOrder",
)
_ITEMS_OF_A_RESOURCE = (1, 2, 5, 20, 60, 120)  # one of these, by chance
_DEVICES = 8


def generate(signal: Signal, n_items: int, seed: int) -> bytes:
    """Return a request of n_items like those of the captures; the same for the same seed."""
    chance = random.Random(seed)
    now_ns = 1_700_000_000_000_000_000 + seed * 1_000_000_000
    request = {Signal.TRACES: _spans, Signal.METRICS: _metrics, Signal.LOGS: _logs}[signal](
        n_items, now_ns, chance
    )
    data: bytes = request.SerializeToString()
    return data


def _spans(n_spans: int, now_ns: int, chance: random.Random) -> Any:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    for n_in_resource in _split(n_spans, chance):
        service = chance.choice(_SERVICES)
        resource_spans = request.resource_spans.add()
        _fill_resource(resource_spans.resource, service, chance)
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
        scope_spans.scope.version = "semver:0.42.0"
        for _ in range(n_in_resource):
            now_ns += chance.randrange(2_000_000)
            _fill_span(scope_spans.spans.add(), service, now_ns, chance)
    return request


def _metrics(n_points: int, now_ns: int, chance: random.Random) -> Any:
    """Return what hosts say of their network: a sum for each name, with a point for each device and direction."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

    request = ExportMetricsServiceRequest()
    while n_points:
        resource_metrics = request.resource_metrics.add()
        _fill_resource(resource_metrics.resource, chance.choice(_SERVICES), chance)
        scope_metrics = resource_metrics.scope_metrics.add()
        scope_metrics.scope.name = "otelcol/hostmetricsreceiver/network"
        for name in ("dropped", "errors", "io", "packets"):
            metric = scope_metrics.metrics.add(name=f"system.network.{name}", unit="1")
            metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
            metric.sum.is_monotonic = True
            for series in range(min(n_points, 2 * _DEVICES)):
                point = metric.sum.data_points.add(
                    start_time_unix_nano=now_ns - 3_600_000_000_000,
                    time_unix_nano=now_ns,
                    as_int=chance.randrange(1 << chance.randrange(1, 40)),
                )
                direction = ("receive", "transmit")[series % 2]
                _set_attributes(point, {"device": f"eth{series // 2}", "direction": direction}, {})
            n_points -= min(n_points, 2 * _DEVICES)
            if not n_points:
                break
        now_ns += 1_000_000
    return request


def _logs(n_records: int, now_ns: int, chance: random.Random) -> Any:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, SEVERITY_NUMBER_WARN

    request = ExportLogsServiceRequest()
    for n_in_resource in _split(n_records, chance):
        service = chance.choice(_SERVICES)
        resource_logs = request.resource_logs.add()
        _fill_resource(resource_logs.resource, service, chance)
        scope_logs = resource_logs.scope_logs.add()
        scope_logs.scope.name = f"shop.{service}.server"
        for _ in range(n_in_resource):
            now_ns += chance.randrange(2_000_000)
            method = chance.choice(_METHODS)
            record = scope_logs.log_records.add(
                time_unix_nano=now_ns,
                observed_time_unix_nano=now_ns + chance.randrange(100_000),
                trace_id=chance.randbytes(16),
                span_id=chance.randbytes(8),
            )
            is_warning = chance.randrange(3) == 0
            record.severity_number = SEVERITY_NUMBER_WARN if is_warning else SEVERITY_NUMBER_INFO
            record.severity_text = "WARN" if is_warning else "INFO"
            record.body.string_value = (
                f"{method} for user {chance.getrandbits(32):08x} took {chance.randrange(2_000)} ms, "
                f"{chance.randrange(1, 40)} items, cache {chance.choice(('hit', 'miss'))}"
            )
            texts = {"code.function": method, "thread.name": f"worker-{chance.randrange(8)}"}
            _set_attributes(record, texts, {"http.response.status_code": 200})
    return request


def _split(n_items: int, chance: random.Random) -> Iterator[int]:
    while n_items:
        n_in_resource = min(n_items, chance.choice(_ITEMS_OF_A_RESOURCE))
        yield n_in_resource
        n_items -= n_in_resource


def _fill_resource(resource: Any, service: str, chance: random.Random) -> None:
    pod = f"{service}-{chance.getrandbits(40):010x}"
    texts = {
        "service.name": service,
        "service.namespace": "shop",
        "service.instance.id": pod,
        "telemetry.sdk.language": "go",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": "1.17.0",
        "k8s.cluster.name": "production-eu-west-1",
        "k8s.namespace.name": "shop",
        "k8s.deployment.name": service,
        "k8s.pod.name": pod,
        "k8s.pod.uid": f"{chance.getrandbits(128):032x}",
        "k8s.node.name": f"ip-10-0-{chance.randrange(256)}-{chance.randrange(256)}.eu-west-1.compute.internal",
        "container.image.name": f"registry.example.com/shop/{service}",
        "host.arch": "amd64",
        "os.type": "linux",
    }
    _set_attributes(resource, texts, {})


def _fill_span(span: Any, service: str, start_ns: int, chance: random.Random) -> None:
    method = chance.choice(_METHODS)
    span.trace_id = chance.randbytes(16)
    span.span_id = chance.randbytes(8)
    span.parent_span_id = chance.randbytes(8)
    span.name = f"shop.{service}/{method}"
    span.kind = chance.choice((2, 3))
    span.start_time_unix_nano = start_ns
    span.end_time_unix_nano = start_ns + int(chance.expovariate(1 / 2_000_000))
    texts = {"rpc.system": "grpc", "rpc.service": f"shop.{service}", "rpc.method": method}
    numbers = {"rpc.grpc.status_code": 0, "net.peer.port": chance.randrange(32768, 65536)}
    _set_attributes(span, {**texts, "net.peer.ip": f"10.0.0.{chance.randrange(256)}"}, numbers)


def _set_attributes(owner: Any, texts: Mapping[str, str], numbers: Mapping[str, int]) -> None:
    for key, text in texts.items():
        owner.attributes.add(key=key).value.string_value = text
    for key, number in numbers.items():
        owner.attributes.add(key=key).value.int_value = number
