"""Processors written with numpy, behind their queue."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.component import Settings
from collector.errors import RetryableError
from collector.ids import ComponentID, Signal
from collector.native import ops
from collector.native.pipeline import Consumer, Pipeline, Queue
from collector.native.runtime import Runtime, Worker
from collector.service.table_stage import TableStage
from collector.telemetry.logs import Log
from tests.unit.service.stand_ins import Config, FakeTable, make_request

pytestmark = pytest.mark.usefixtures("journal")


class FailingTable(FakeTable):
    def process(self, table: Any) -> None:
        raise ZeroDivisionError("in the processor")


class DropAll(FakeTable):
    def process(self, table: Any) -> None:
        table.verdict[:] = 1


@dataclasses.dataclass
class Bench:
    """A stage in front of a queue that the test empties."""

    runtime: Runtime
    settings: Settings
    output: Queue

    def make(self, processor: type[FakeTable], output: Consumer | None = None) -> tuple[TableStage, Consumer]:
        stage = TableStage(processor(Config(), self.settings), self.settings)
        consumer = stage.connect([output or self.output])
        stage.start()
        return stage, consumer

    def push(self, consumer: Consumer, request: bytes) -> None:
        consumer.push(Worker(self.runtime), request)

    def pop(self) -> ExportTraceServiceRequest:
        item = self.output.pop(10)
        assert item is not None
        request = ExportTraceServiceRequest.FromString(bytes(item.view))
        self.output.done(item)
        return request


@pytest.fixture
def bench(log: Log) -> Iterator[Bench]:
    runtime = Runtime()
    settings = Settings(id=ComponentID("table"), signal=Signal.TRACES, runtime=runtime, log=log)
    yield Bench(runtime, settings, Queue(runtime, Signal.TRACES, sizer="requests", capacity=10))


def _values(stage: TableStage) -> dict[str, float]:
    prefix = "otelcol_processor_", "spansieve_processor_"
    return {
        sample.instrument.name.removeprefix(prefix[0]).removeprefix(prefix[1]): sample.value
        for sample in stage.samples()
    }


def test_kept_rows_are_passed_on(bench: Bench) -> None:
    """Rows marked by the processor are left out, the others arrive as they came."""
    stage, consumer = bench.make(FakeTable)
    bench.push(consumer, make_request(3))
    request = bench.pop()
    stage.shutdown(5)
    assert ["span 0"] == [span.name for span in request.resource_spans[0].scope_spans[0].spans]
    assert {
        "incoming_items": 3,
        "outgoing_items": 1,
        "dropped_items": 2,
        "failed_items": 0,
        "pending_items": 0,
        "part_events": 0,
    } == _values(stage)


def test_nothing_kept_is_nothing_passed_on(bench: Bench) -> None:
    """A request without rows left ends at the stage."""
    stage, consumer = bench.make(DropAll)
    bench.push(consumer, make_request(3))
    stage.shutdown(5)
    assert 0 == bench.output.stats().items
    assert 3 == _values(stage)["dropped_items"]


def test_processor_that_raises_loses_its_request_only(bench: Bench) -> None:
    """The error is counted and the thread goes on."""
    stage, consumer = bench.make(FailingTable)
    bench.push(consumer, make_request(3))
    bench.push(consumer, make_request(2))
    stage.shutdown(5)
    assert 5 == _values(stage)["failed_items"]


def test_refused_request_is_tried_again(bench: Bench) -> None:
    """What is acknowledged waits until the next consumer has room."""
    refuses = ops.memory_limiter(bench.runtime, 1 << 30)
    bench.runtime.set_rss(1 << 30)
    stage, consumer = bench.make(FakeTable, Pipeline(Signal.TRACES, [refuses], bench.output))
    bench.push(consumer, make_request(1))
    while not refuses.counter(1):
        threading.Event().wait(0.001)
    assert 1 == _values(stage)["pending_items"]
    bench.runtime.set_rss(0)
    bench.pop()
    stage.shutdown(5)
    assert 1 == _values(stage)["outgoing_items"]


def test_shutdown_gives_up_at_its_deadline(bench: Bench) -> None:
    """What the next consumer never takes is counted as failed, and shutdown returns."""
    refuses = ops.memory_limiter(bench.runtime, 1 << 30)
    bench.runtime.set_rss(1 << 30)
    stage, consumer = bench.make(FakeTable, Pipeline(Signal.TRACES, [refuses], bench.output))
    bench.push(consumer, make_request(1))
    bench.push(consumer, make_request(2))
    stage.shutdown(0.05)
    assert 3 == _values(stage)["incoming_items"]
    # Of the request being retried the processor had dropped nothing; the other was never processed.
    assert 3 == _values(stage)["failed_items"]


def test_stopped_stage_refuses(bench: Bench) -> None:
    """After shutdown a request is refused for now, not lost."""
    stage, consumer = bench.make(FakeTable)
    stage.shutdown(5)
    with pytest.raises(RetryableError):
        bench.push(consumer, make_request(1))
