"""Documents, components and requests for the tests of the service: as small as the contracts allow."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.component import Factory, Settings, Stability
from collector.errors import StartError
from collector.ids import ComponentID, Signal
from collector.native import ops
from collector.native.library import ffi, lib
from collector.native.pipeline import Batch, Consumer, Discard, join
from collector.native.pipeline import Receiver as NativeReceiver
from collector.native.runtime import Worker
from collector.telemetry.instruments import Instrument, Sample


class PipelineID(NamedTuple):
    signal: Signal
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> PipelineID:
        signal, _, name = text.partition("/")
        return cls(Signal(signal), name)

    def __str__(self) -> str:
        return f"{self.signal.value}/{self.name}" if self.name else self.signal.value


class Entry(NamedTuple):
    type: str
    factory: Factory
    config: Any


class Pipeline(NamedTuple):
    receivers: tuple[ComponentID, ...]
    processors: tuple[ComponentID, ...]
    exporters: tuple[ComponentID, ...]


@dataclasses.dataclass(frozen=True)
class Config:
    """Of every stand-in: what it does on purpose."""

    value: int = 0
    fails: bool = False


@dataclasses.dataclass(frozen=True)
class GatheringConfig(Config):
    """Of a stage that tells requests apart by these headers."""

    metadata_names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ReadingConfig(Config):
    """Of an operation that reads these headers."""

    read_metadata: tuple[str, ...] = ()


class Part:
    """Records what happens to it in a journal that all parts of a test share."""

    journal: list[str]

    def __init__(self, config: Config, settings: Settings) -> None:
        self.config = config
        self.settings = settings
        self.name = str(settings.id)
        if settings.signal is not None:
            self.name += f"({settings.signal.value})"
        self.count = 0.0

    def start(self) -> None:
        self.journal.append(f"start {self.name}")
        if self.config.fails:
            raise StartError(self.settings.id, "listen tcp 127.0.0.1:1: bind: permission denied")

    def shutdown(self, deadline_s: float) -> None:
        self.journal.append(f"shutdown {self.name}")

    def samples(self) -> Iterable[Sample]:
        yield Sample(Instrument("part_events", "counter", "Events."), (("part", self.name),), self.count)


class FakeReceiver(Part):
    def __init__(self, config: Config, settings: Settings) -> None:
        super().__init__(config, settings)
        self.routes: dict[Signal, Consumer] = {}
        self.published = 0

    def publish(self, signal: Signal, consumer: Consumer | None) -> None:
        self.published += 1
        if consumer is None:
            del self.routes[signal]
        else:
            self.routes[signal] = consumer


class FakeExporter(Part):
    def __init__(self, config: Config, settings: Settings) -> None:
        super().__init__(config, settings)
        self.consumer = Discard(settings.signal or Signal.TRACES)


class FakeStage(Part):
    def connect(self, outputs: Iterable[Consumer]) -> Consumer:
        self.batch = Batch(
            self.settings.runtime,
            self.settings.signal or Signal.TRACES,
            tuple(outputs),
            timeout_s=3600,
            send_batch_size=1 << 30,
            send_batch_max_size=0,
            send_batch_max_bytes=0,
        )
        return self.batch

    def shutdown(self, deadline_s: float) -> None:
        super().shutdown(deadline_s)
        self.batch.drain(deadline_s)


class FakeConnector(Part):
    def connect(self, outputs: Iterable[Consumer]) -> Consumer:
        return join(self.settings.signal or Signal.TRACES, tuple(outputs))


class FakeWatcher(Part):
    def ready(self) -> None:
        self.journal.append(f"ready {self.name}")

    def not_ready(self) -> None:
        self.journal.append(f"not ready {self.name}")


def make_factory(create: Callable[[Any, Settings], Any], **more: Any) -> Factory:
    return Factory(config=Config, create=create, signals=frozenset(Signal), stability=Stability.BETA, **more)


FACTORIES = {
    "in": make_factory(FakeReceiver),
    "out": make_factory(FakeExporter),
    "stage": make_factory(FakeStage),
    "watch": make_factory(FakeWatcher),
    "link": make_factory(FakeConnector, connects=frozenset((signal, signal) for signal in Signal)),
}


def make_document(
    pipelines: dict[str, tuple[str, str, str]],
    *,
    connectors: str = "",
    extensions: str = "",
    configs: dict[str, Any] | None = None,
    factories: dict[str, Factory] | None = None,
    shutdown_timeout: float = 5.0,
    prometheus: Any = None,
) -> Any:
    """Return a document of pipelines: name to receivers, processors and exporters, each ids between spaces."""
    known = {**FACTORIES, **(factories or {})}
    linked = _ids(connectors)

    def entries(ids: Iterable[ComponentID]) -> dict[ComponentID, Entry]:
        return {id: Entry(id.type, known[id.type], (configs or {}).get(str(id), Config())) for id in ids}

    parts = {
        PipelineID.parse(name): Pipeline(*(_ids(names) for names in row)) for name, row in pipelines.items()
    }
    logs = types.SimpleNamespace(
        level="debug",
        encoding="json",
        output_paths=("stderr",),
        initial_fields={},
        disable_zap_resource=False,
        sampling=types.SimpleNamespace(enabled=False, tick=10.0, initial=10, thereafter=100),
    )
    telemetry = types.SimpleNamespace(
        logs=logs, metrics=types.SimpleNamespace(prometheus=prometheus), resource={}
    )
    return types.SimpleNamespace(
        receivers=entries(id for row in parts.values() for id in row.receivers if id not in linked),
        processors=entries(id for row in parts.values() for id in row.processors),
        exporters=entries(id for row in parts.values() for id in row.exporters if id not in linked),
        connectors=entries(linked),
        extensions=entries(_ids(extensions)),
        service=types.SimpleNamespace(
            extensions=_ids(extensions),
            pipelines=parts,
            telemetry=telemetry,
            shutdown_timeout=shutdown_timeout,
        ),
        warnings=(),
        notes=(),
    )


def make_request(span_count: int = 1, duration_ns: int = 5_000_000_000) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(span_count):
        span = spans.add(name=f"span {number}", trace_id=bytes([number + 1]) * 16, span_id=b"12345678")
        span.start_time_unix_nano = 1_700_000_000_000_000_000
        span.end_time_unix_nano = span.start_time_unix_nano + duration_ns
    return request.SerializeToString()


def _ids(text: str) -> tuple[ComponentID, ...]:
    return tuple(ComponentID.parse(word) for word in text.split())


class FakeLimiter(Part):
    """An op processor that refuses nothing until told a resident set size of a GiB."""

    def __init__(self, config: Config, settings: Settings) -> None:
        super().__init__(config, settings)
        self.op = ops.memory_limiter(settings.runtime, 1 << 30, 1 << 30)


class FakeFilter(Part):
    """An op processor that drops spans shorter than config.value seconds."""

    def __init__(self, config: Config, settings: Settings) -> None:
        super().__init__(config, settings)
        self.op = ops.low_value(
            min_duration_ns=config.value * 1_000_000_000,
            names=(),
            rules=(ops.Sign.SHORT,),
            keep_roots=False,
            reparent=False,
        )


class FakeTable(Part):
    """A table processor that drops every row but the first."""

    def process(self, table: Any) -> None:
        table.verdict[1:] = 1


FACTORIES.update(
    limiter=make_factory(FakeLimiter), short=make_factory(FakeFilter), table=make_factory(FakeTable)
)


class RoutedReceiver(Part):
    """A receiver with the native router: a request finds its route and goes there in one grace period."""

    def __init__(self, config: Config, settings: Settings) -> None:
        super().__init__(config, settings)
        self.native = NativeReceiver(settings.runtime)

    def publish(self, signal: Signal, consumer: Consumer | None) -> None:
        self.native.publish(signal, consumer)

    def accept(self, worker: Worker, request: bytes) -> str:
        """Hand over a request of traces; return why it is not taken, or nothing."""
        buffer = ffi.from_buffer(request)
        handed = ffi.new(
            "ss_request *",
            {"signal": 0, "transport": 0, "payload": 0, "bytes": buffer, "length": len(request)},
        )
        verdict = ffi.new("ss_verdict *")
        lib.ss_receiver_accept(self.native.pointer, worker.pointer, handed, verdict)
        return ffi.string(verdict.message).decode() if verdict.code else ""
