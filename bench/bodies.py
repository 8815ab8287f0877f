"""The requests that are measured with: cut from real captures where those are, else generated like them."""

from __future__ import annotations

import logging
import os
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from collector.component import Settings
from collector.ids import ComponentID, Signal
from collector.native.pipeline import Discard, Pipeline
from collector.native.runtime import Runtime, Worker
from collector.native.table import SpanTable
from collector.processors import low_value_filter, probabilistic_sampler
from collector.telemetry.logs import Log

SAMPLING_PERCENTAGE = 10

_CORPUS = Path(os.environ.get("SPANSIEVE_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))
CAPTURES = _CORPUS / "splunk+stef" / "benchmarks" / "testdata"
_SEARCHED_SPANS = 20_000


class Body(NamedTuple):
    """One request.

    Attributes:
        spans: in it.
        kept: of those, by the sampler and the filter.
        data: a serialized ExportTraceServiceRequest.
    """

    spans: int
    kept: int
    data: bytes

    @property
    def grpc_message(self) -> bytes:
        """The data behind gRPC's prefix."""
        return struct.pack(">BI", 0, len(self.data)) + self.data


class Bodies(NamedTuple):
    """All that one run measures with.

    Attributes:
        source: where they come from, for the report.
        is_real: cut from captures of real programs.
        of_spans: one request of 1, 10 and 512 spans.
        kernel: several requests of 512 spans.
        export: requests to gather into batches and compress.
    """

    source: str
    is_real: bool
    of_spans: dict[int, Body]
    kernel: Sequence[bytes]
    export: Sequence[bytes]


# The sizes that the targets were stated for, in bytes.
SIZES = {1: 1_053, 10: 6_196, 512: 137_641}
_KERNEL_BODIES = 4


def load() -> Bodies:
    """Return the bodies of this machine."""
    hipstershop, astronomy = (CAPTURES / f"{name}-oteltraces.zst" for name in ("hipstershop", "astronomy"))
    is_real = hipstershop.exists() and astronomy.exists()
    if is_real:
        request = next(read_capture(hipstershop))
        export: Sequence[bytes] = list(read_capture(astronomy))
        source = "captures of Hipster Shop (requests, kernel) and the OpenTelemetry demo (export)"
    else:
        request = generate(_SEARCHED_SPANS, seed=1)
        export = [generate(128, seed) for seed in range(512)]
        source = "generated (set SPANSIEVE_CORPUS for real captures)"
    cutter = Cutter(request)
    of_spans = {n_spans: cutter.find(n_spans, size) for n_spans, size in SIZES.items()}
    step = min(len(cutter), _SEARCHED_SPANS) // _KERNEL_BODIES
    kernel = [cutter.cut(first, first + 512) for first in range(0, step * _KERNEL_BODIES, step)]
    return Bodies(source, is_real, of_spans, kernel, export)


def read_capture(path: Path) -> Iterator[bytes]:
    """Yield the messages of a capture: zstd of [length, 4 bytes, big-endian][TracesData], repeated."""
    import zstandard

    raw = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    position = 0
    while position < len(raw):
        (length,) = struct.unpack_from(">I", raw, position)
        yield raw[position + 4 : position + 4 + length]
        position += 4 + length


class Cutter:
    """Takes runs of spans out of a large request, each with its resource and scope as they were."""

    def __init__(self, request: bytes) -> None:
        self._table = SpanTable.scan(Signal.TRACES, request)

    def __len__(self) -> int:
        return len(self._table)

    def cut(self, first: int, end: int) -> bytes:
        """Return a request with spans first to end."""
        verdict = self._table.verdict
        verdict[:] = 1
        verdict[first:end] = 0
        return self._table.emit()

    def find(self, n_spans: int, size: int) -> Body:
        """Return the cut of n_spans nearest to size bytes of which the usual share is kept.

        A single span is one that is kept, which costs more than the nine that are not.
        """
        wanted = max(1, round(n_spans * SAMPLING_PERCENTAGE / 100))
        slack = n_spans // 100
        searched = min(len(self), _SEARCHED_SPANS)
        # Cut what is searched in pieces first: every cut walks over the whole of its request.
        piece = max(n_spans, min(2_048, searched))
        counter = KeptCounter()
        candidates = []
        for start in range(0, searched - piece + 1, piece):
            part = Cutter(self.cut(start, start + piece))
            for first in range(0, piece - n_spans + 1, n_spans):
                data = part.cut(first, first + n_spans)
                kept = counter.count(data)
                if abs(kept - wanted) <= slack:
                    candidates.append(Body(n_spans, kept, data))
        return min(candidates, key=lambda body: abs(len(body.data) - size))


class KeptCounter:
    """Runs the processors of the measured pipeline, as the service makes them."""

    def __init__(self) -> None:
        runtime = Runtime()
        self._kept = Discard(Signal.TRACES)
        self._worker = Worker(runtime)
        sampled = probabilistic_sampler.Config(sampling_percentage=SAMPLING_PERCENTAGE)
        processors = (
            probabilistic_sampler.factory.create(sampled, _settings("probabilistic_sampler", runtime)),
            low_value_filter.factory.create(
                low_value_filter.Config(), _settings("low_value_filter", runtime)
            ),
        )
        self._pipeline = Pipeline(Signal.TRACES, [processor.op for processor in processors], self._kept)

    def count(self, request: bytes) -> int:
        """Return how many spans of request are kept."""
        before = self._kept.items
        self._pipeline.push(self._worker, request)
        return self._kept.items - before


def _settings(component: str, runtime: Runtime) -> Settings:
    log = Log(logging.getLogger("spansieve.bench"))
    return Settings(id=ComponentID(component), signal=Signal.TRACES, runtime=runtime, log=log)


# What generated requests are made of: the shape of a small shop on Kubernetes.
START_NS = 1_700_000_000_000_000_000
SERVICES = ("frontend", "checkout", "cart", "catalog", "currency", "payment", "shipping", "email", "ads")
METHODS = (
    "GetProduct",
    "ListProducts",
    "Convert",
    "GetCart",
    "AddItem",
    "PlaceOrder",
    "GetQuote",
    "ShipOrder",
)
_SPANS_OF_A_RESOURCE = (1, 2, 5, 20, 60, 120)  # one of these, by chance


def generate(n_spans: int, seed: int) -> bytes:
    """Return a request of n_spans spans like those of the Hipster Shop capture; the same for the same seed."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    chance = random.Random(seed)
    request = ExportTraceServiceRequest()
    now_ns = START_NS + seed * 1_000_000_000
    while n_spans:
        n_in_resource = min(n_spans, chance.choice(_SPANS_OF_A_RESOURCE))
        service = chance.choice(SERVICES)
        spans = _add_resource(request, service, chance)
        for _ in range(n_in_resource):
            now_ns += chance.randrange(2_000_000)
            _fill_span(spans.add(), service, now_ns, chance)
        n_spans -= n_in_resource
    data: bytes = request.SerializeToString()
    return data


def _add_resource(request: Any, service: str, chance: random.Random) -> Any:
    resource_spans = request.resource_spans.add()
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
    set_attributes(resource_spans.resource, texts, {})
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
    scope_spans.scope.version = "semver:0.42.0"
    return scope_spans.spans


def _fill_span(span: Any, service: str, start_ns: int, chance: random.Random) -> None:
    method = chance.choice(METHODS)
    span.trace_id = chance.randbytes(16)
    span.span_id = chance.randbytes(8)
    span.parent_span_id = chance.randbytes(8)
    span.name = f"shop.{service}/{method}"
    span.kind = chance.choice((2, 3))
    span.start_time_unix_nano = start_ns
    span.end_time_unix_nano = start_ns + int(chance.expovariate(1 / 2_000_000))
    texts = {"rpc.system": "grpc", "rpc.service": f"shop.{service}", "rpc.method": method}
    numbers = {"rpc.grpc.status_code": 0, "net.peer.port": chance.randrange(32768, 65536)}
    set_attributes(span, {**texts, "net.peer.ip": f"10.0.0.{chance.randrange(256)}"}, numbers)


def set_attributes(owner: Any, texts: Mapping[str, str], numbers: Mapping[str, int]) -> None:
    """Add attributes to a span, a data point, a log record or a resource."""
    for key, text in texts.items():
        owner.attributes.add(key=key).value.string_value = text
    for key, number in numbers.items():
        owner.attributes.add(key=key).value.int_value = number
