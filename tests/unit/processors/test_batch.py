"""The batch processor: its checks, and the native batch that it configures."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.component import Settings
from collector.ids import ComponentID, Signal
from collector.native import ops
from collector.native.pipeline import Pipeline, Queue
from collector.native.runtime import Runtime, Worker
from collector.processors.batch import BatchProcessor, Config
from collector.telemetry.logs import Log


def _small_requests(count: int) -> list[ExportTraceServiceRequest]:
    """Return requests of a few spans each, of three programs and two libraries, in any order."""
    chance = random.Random(1)
    requests = []
    for number in range(count):
        request = ExportTraceServiceRequest()
        for _ in range(chance.randrange(1, 3)):
            resource_spans = request.resource_spans.add(schema_url=chance.choice(("", "https://a/1")))
            attribute = resource_spans.resource.attributes.add(key="service.name")
            attribute.value.string_value = f"program {chance.randrange(3)}"
            scope_spans = resource_spans.scope_spans.add(schema_url=chance.choice(("", "https://b/1")))
            scope_spans.scope.name = f"library {chance.randrange(2)}"
            scope_spans.spans.add(name=f"{number}", trace_id=b"1" * 16, span_id=b"2" * 8)
        requests.append(request)
    return requests


def _flat(request: ExportTraceServiceRequest) -> dict[bytes, list[bytes]]:
    """Return the spans of each resource and scope with their schema URLs."""
    flat: dict[bytes, list[bytes]] = {}
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            owner = ExportTraceServiceRequest()
            around = owner.resource_spans.add(resource=resource.resource, schema_url=resource.schema_url)
            around.scope_spans.add(scope=scope.scope, schema_url=scope.schema_url)
            spans = flat.setdefault(owner.SerializeToString(), [])
            spans += [span.SerializeToString() for span in scope.spans]
    return flat


def _request(span_count: int, name: str = "a") -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for _ in range(span_count):
        spans.add(name=name, trace_id=b"1" * 16, span_id=b"2" * 8)
    return request.SerializeToString()


class Setup:
    """A processor in front of a queue, with a gate between them that refuses from 1 GiB of memory on."""

    def __init__(self, **config: Any) -> None:
        self.runtime = Runtime()
        settings = Settings(
            id=ComponentID("batch"),
            signal=Signal.TRACES,
            runtime=self.runtime,
            log=Log(logging.getLogger("spansieve.test")),
        )
        self.queue = Queue(self.runtime, Signal.TRACES, sizer="requests", capacity=100)
        self.processor = BatchProcessor(Config(**{"timeout": 3600.0, **config}), settings)
        self.gate = ops.memory_limiter(self.runtime, 1 << 30, 1 << 30)
        self.consumer = self.processor.connect([Pipeline(Signal.TRACES, [self.gate], self.queue)])
        self.processor.start()

    def push(self, span_count: int, name: str = "a") -> None:
        self.consumer.push(Worker(self.runtime), _request(span_count, name))

    def pop(self) -> int:
        """Return the number of spans in the next batch."""
        item = self.queue.pop(10)
        assert item is not None
        request = ExportTraceServiceRequest.FromString(bytes(item.view))
        self.queue.done(item)
        return sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)

    def values(self) -> dict[str, float]:
        return {sample.instrument.name + sample.suffix: sample.value for sample in self.processor.samples()}


@pytest.mark.parametrize(
    ("config", "field", "message"),
    [
        (
            {"send_batch_size": 10, "send_batch_max_size": 5},
            "",
            "send_batch_max_size must be greater or equal to send_batch_size",
        ),
        ({"timeout": -1.0}, "", "timeout must be greater or equal to 0"),
        (
            {"metadata_keys": ("tenant", "a,b")},
            "metadata_keys",
            "expected the name of a header, got 'a,b'",
        ),
    ],
)
def test_problem_has_the_collectors_words(config: dict[str, Any], field: str, message: str) -> None:
    """Each rule, alone."""
    made = Config(**config)
    assert [(field, message)] == [*made.problems(), *made.problems_in_use()]


def test_duplicate_metadata_key_is_a_problem() -> None:
    """Keys are compared without case."""
    messages = [text for _field, text in Config(metadata_keys=("Tenant", "tenant")).problems()]
    assert 'duplicate entry in metadata_keys: "tenant" (case-insensitive)' in messages


def test_defaults_are_the_collectors() -> None:
    """And have no problem."""
    config = Config()
    assert (0.2, 8192, 0, ()) == (
        config.timeout,
        config.send_batch_size,
        config.send_batch_max_size,
        config.metadata_keys,
    )
    assert [] == list(config.problems())


def test_count_sends() -> None:
    """A batch leaves as soon as it has send_batch_size items."""
    setup = Setup(send_batch_size=5)
    setup.push(3)
    assert 3 == setup.values()["spansieve_processor_pending_items"]
    setup.push(3)
    assert 6 == setup.pop()
    setup.processor.shutdown(5)
    assert 1 == setup.values()["otelcol_processor_batch_batch_size_trigger_send"]


def test_time_sends() -> None:
    """What is there leaves after the timeout."""
    setup = Setup(timeout=0.01)
    setup.push(3)
    assert 3 == setup.pop()
    setup.processor.shutdown(5)
    assert 1 == setup.values()["otelcol_processor_batch_timeout_trigger_send"]


@pytest.mark.parametrize("config", [{"timeout": 0.0}, {"send_batch_size": 0}])
def test_zero_gathers_nothing(config: dict[str, Any]) -> None:
    """Timeout or size 0 passes each request on by itself."""
    setup = Setup(**config)
    setup.push(3)
    setup.push(2)
    assert [3, 2] == [setup.pop(), setup.pop()]
    setup.processor.shutdown(5)


def test_large_request_is_split() -> None:
    """Batches have exactly send_batch_max_size items, the last the rest."""
    setup = Setup(send_batch_size=4, send_batch_max_size=4)
    setup.push(10)
    setup.processor.shutdown(5)
    assert [4, 4, 2] == [setup.pop(), setup.pop(), setup.pop()]


def test_batch_fits_a_default_grpc_receiver() -> None:
    """Without any key, no batch is larger than 4 MiB, however much comes in."""
    setup = Setup(send_batch_size=100_000)
    for _ in range(10):
        setup.push(10, name="x" * 100_000)
    sizes = []
    setup.processor.shutdown(5)
    while setup.queue.stats().items:
        item = setup.queue.pop(10)
        assert item is not None
        sizes.append(len(item.view))
        setup.queue.done(item)
    assert max(sizes) < 4 << 20
    assert 3 <= len(sizes) <= 4
    assert 1 <= setup.values()["spansieve_processor_batch_bytes_trigger_send"]


def test_shutdown_passes_on_what_is_gathered() -> None:
    """And counts it, once, whatever shutdown is called."""
    setup = Setup()
    setup.push(3)
    setup.processor.shutdown(5)
    setup.processor.shutdown(5)
    assert 3 == setup.pop()
    values = setup.values()
    assert (3, 3, 1, 1, 0, 0) == tuple(
        values[name]
        for name in (
            "otelcol_processor_incoming_items",
            "otelcol_processor_outgoing_items",
            "otelcol_processor_batch_batch_send_size_count",
            "otelcol_processor_batch_batch_send_size_bucket",
            "spansieve_processor_pending_items",
            "spansieve_processor_failed_items",
        )
    )
    assert 3 == values["otelcol_processor_batch_batch_send_size_sum"]


def test_batches_are_counted_by_size() -> None:
    """A bucket counts batches of at most so many items, over the bounds of the Collector's histogram."""
    setup = Setup(send_batch_size=1)
    for span_count in (10, 11, 60):
        setup.push(span_count)
        setup.pop()
    setup.processor.shutdown(5)
    counts = {
        dict(sample.labels)["le"]: sample.value
        for sample in setup.processor.samples()
        if sample.suffix == "_bucket"
    }
    assert 23 == len(counts)
    assert (1, 2, 2, 3, 3, 3) == tuple(counts[bound] for bound in ("10", "25", "50", "75", "100000", "+Inf"))


def test_drain_that_runs_out_of_time_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What no output would take is counted as failed and said aloud."""
    setup = Setup()
    setup.runtime.set_rss(1 << 30)
    setup.push(3)
    setup.processor.shutdown(0.01)
    assert 3 == setup.values()["spansieve_processor_failed_items"]
    assert [("items lost", 3)] == [(record.message, record.fields["items"]) for record in caplog.records]


def test_refused_batch_is_kept_and_tried_again() -> None:
    """Unlike the Collector's, this processor loses nothing that it has acknowledged."""
    setup = Setup(timeout=0.0)
    setup.runtime.set_rss(1 << 30)
    setup.push(3)
    while not setup.gate.counter(1):
        threading.Event().wait(0.001)
    setup.runtime.set_rss(0)
    assert 3 == setup.pop()
    setup.processor.shutdown(5)
    assert 0 == setup.values()["spansieve_processor_failed_items"]


def test_batch_writes_each_resource_and_scope_once() -> None:
    """Spans leave in their order under their resource and scope, which stand once."""
    setup = Setup(send_batch_size=0)
    requests = _small_requests(100)
    gathered = ExportTraceServiceRequest()
    for request in requests:
        gathered.MergeFrom(request)
    setup.consumer.push(Worker(setup.runtime), gathered.SerializeToString())
    item = setup.queue.pop(10)
    assert item is not None
    batch = ExportTraceServiceRequest.FromString(bytes(item.view))
    setup.queue.done(item)
    assert _flat(batch) == _flat(gathered)
    scopes = [scope for resource in batch.resource_spans for scope in resource.scope_spans]
    assert (len(batch.resource_spans), len(scopes)) == (3 * 2, 3 * 2 * 2 * 2)


def test_batch_thread_yields_to_threads_that_bring_requests() -> None:
    """Its niceness is ten more than the process's."""
    before = {int(name) for name in os.listdir("/proc/self/task")}
    setup = Setup()
    threads = {int(name) for name in os.listdir("/proc/self/task")} - before
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    deadline = time.monotonic() + 60
    while {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} != {min(ours + 10, 19)}:
        assert setup and threads and time.monotonic() < deadline
