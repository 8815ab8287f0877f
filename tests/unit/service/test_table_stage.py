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
from collector.lean import replace
from collector.native import ops
from collector.native.pipeline import Consumer, Pipeline, Queue, Receiver, Verdict
from collector.native.runtime import Runtime, Worker
from collector.native.table import TableEnded
from collector.service.table_stage import TableStage
from collector.telemetry.logs import Log
from tests.unit.service.stand_ins import Config, FakeTable, make_request

pytestmark = pytest.mark.usefixtures("journal")


class Unspeakable(BaseException):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no words")


FAILURES = [
    ZeroDivisionError("in the processor"),
    StopIteration("3"),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    BaseException("of no kind"),
    RecursionError("too deep"),
    MemoryError("none left"),
    Unspeakable(),
]


class FailingTable(FakeTable):
    """Fails on requests of two spans, in a way that the test chooses."""

    error: BaseException = FAILURES[0]

    def process(self, table: Any) -> None:
        if len(table) == 2:
            raise self.error


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

    def send(self, consumer: Consumer, request: bytes) -> Verdict:
        """Hand over a request as a transport does, and wait for the answer."""
        receiver = Receiver(self.runtime)
        receiver.publish(Signal.TRACES, consumer)
        return receiver.accept(Worker(self.runtime), Signal.TRACES, 0, 0, request)

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
    yield Bench(runtime, settings, Queue(runtime, Signal.TRACES, sizer="requests", capacity=100))


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


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_processor_that_raises_fails_its_request_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """Its client is told, as by the Collector, whatever was raised; the next request is served."""
    monkeypatch.setattr(FailingTable, "error", error)
    stage, consumer = bench.make(FailingTable)
    failed, served = bench.send(consumer, make_request(2)), bench.send(consumer, make_request(3))
    bench.push(consumer, make_request(2))  # of a batch: nobody can be told
    stage.shutdown(5)
    assert (14 if isinstance(error, MemoryError) else 13) == failed.code
    assert f"processor failed: {type(error).__name__}" in failed.message
    assert 0 == served.code
    values = _values(stage)
    assert (7, 3, 4) == (values["incoming_items"], values["outgoing_items"], values["failed_items"])
    records = [record for record in caplog.records if record.message == "processor failed"]
    first, last = (record.fields for record in records)  # type: ignore[attr-defined]
    assert "in process" in first["traceback"]
    assert (1, 2, 0) == (first["requests"], first["items"], first["lost_items"])
    assert (1, 2, 2) == (last["requests"], last["items"], last["lost_items"])


def test_failures_are_told_once_a_minute(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """The first at once, then sums, and what is left at the end."""
    now_s = 0.0
    bench.settings = replace(bench.settings, clock=lambda: now_s)
    stage, consumer = bench.make(FailingTable)
    for _ in range(5):
        bench.send(consumer, make_request(2))
    now_s = 61.0
    for _ in range(3):
        bench.send(consumer, make_request(2))
    stage.shutdown(5)
    records = [record for record in caplog.records if record.message == "processor failed"]
    assert [1, 5, 2] == [record.fields["requests"] for record in records]  # type: ignore[attr-defined]


def test_processor_may_ask_a_client_to_come_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """RetryableError is the exception that is no failure for good."""
    monkeypatch.setattr(FailingTable, "error", RetryableError("not now", 2.5))
    stage, consumer = bench.make(FailingTable)
    verdict = bench.send(consumer, make_request(2))
    stage.shutdown(5)
    assert (14, 2500) == (verdict.code, verdict.retry_delay_ms)


@pytest.mark.parametrize("verdict", [2, 255])
def test_verdict_that_is_none_fails_the_request(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, verdict: int
) -> None:
    """Nothing is counted as dropped that was sent."""
    monkeypatch.setattr(FakeTable, "process", lambda _self, table: table.verdict.fill(verdict))
    stage, consumer = bench.make(FakeTable)
    answer = bench.send(consumer, make_request(2))
    stage.shutdown(5)
    assert 13 == answer.code
    assert f"table.verdict[0] is {verdict}; 0 keeps a row, 1 drops it" in answer.message
    assert 2 == _values(stage)["failed_items"]


def test_assigned_mask_drops_what_it_says(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted as dropped is what does not arrive."""

    def process(_self: FakeTable, table: Any) -> None:
        table.verdict = table.name == "span 1"

    monkeypatch.setattr(FakeTable, "process", process)
    stage, consumer = bench.make(FakeTable)
    assert 0 == bench.send(consumer, make_request(3)).code
    request = bench.pop()
    stage.shutdown(5)
    assert ["span 0", "span 2"] == [span.name for span in request.resource_spans[0].scope_spans[0].spans]
    assert 1 == _values(stage)["dropped_items"]


def test_edits_are_passed_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows that are kept."""

    def process(_self: FakeTable, table: Any) -> None:
        table.set_attribute("number", [1, 2, None])
        table.verdict[0] = 1

    monkeypatch.setattr(FakeTable, "process", process)
    stage, consumer = bench.make(FakeTable)
    bench.push(consumer, make_request(3))
    spans = bench.pop().resource_spans[0].scope_spans[0].spans
    stage.shutdown(5)
    found = [{pair.key: pair.value.int_value for pair in span.attributes} for span in spans]
    assert [{"number": 2}, {}] == found


def test_what_a_processor_keeps_outlives_its_request(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays stay what they were, and a table that is kept says that it has ended."""
    kept: list[Any] = []

    def process(_self: FakeTable, table: Any) -> None:
        kept.append(
            (table, table.start_time_unix_nano, table.trace_id, table.data, table.verdict, table.name)
        )

    monkeypatch.setattr(FakeTable, "process", process)
    stage, consumer = bench.make(FakeTable)
    for count in range(1, 60):
        bench.send(consumer, make_request(count))
        bench.pop()
    stage.shutdown(5)
    for count, (table, start, trace_id, data, verdict, name) in enumerate(kept, 1):
        assert [1_700_000_000_000_000_000] * count == start.tolist()
        assert [bytes([number + 1]) * 16 for number in range(count)] == [bytes(row) for row in trace_id]
        assert make_request(count) == data
        assert [f"span {number}" for number in range(count)] == name.tolist()
        verdict[:] = 1
        for use in (lambda table=table: table.kind, lambda table=table: table.set_attribute("k", 1)):
            with pytest.raises(TableEnded, match="ended with its request"):
                use()


def test_client_is_told_what_the_next_consumer_says(bench: Bench) -> None:
    """A refusal goes back to the one who waits, counted nowhere, and is not retried here."""
    refuses = ops.memory_limiter(bench.runtime, 1 << 30, 1 << 30)
    bench.runtime.set_rss(1 << 30)
    stage, consumer = bench.make(FakeTable, Pipeline(Signal.TRACES, [refuses], bench.output))
    verdict = bench.send(consumer, make_request(3))
    assert 14 == verdict.code
    assert verdict.retry_delay_ms
    assert 0 == _values(stage)["incoming_items"]
    bench.runtime.set_rss(0)
    assert 0 == bench.send(consumer, make_request(3)).code
    stage.shutdown(5)
    assert 1 == _values(stage)["outgoing_items"]


def test_processor_that_cannot_count_leaves_the_counts_of_its_stage(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage's own samples come first."""

    def fail(_self: FakeTable) -> Any:
        raise SystemExit

    monkeypatch.setattr(FakeTable, "samples", fail)
    stage, _consumer = bench.make(FakeTable)
    samples = stage.samples()
    assert ["incoming_items", "outgoing_items"] == [
        next(samples).instrument.name.removeprefix("otelcol_processor_") for _ in range(2)
    ]
    stage.shutdown(5)


def test_refused_request_is_tried_again(bench: Bench) -> None:
    """What is acknowledged waits until the next consumer has room."""
    refuses = ops.memory_limiter(bench.runtime, 1 << 30, 1 << 30)
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
    refuses = ops.memory_limiter(bench.runtime, 1 << 30, 1 << 30)
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
