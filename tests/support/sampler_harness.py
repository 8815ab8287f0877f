"""Samplers in a pipeline of their own, and what to send through it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.component import Loop, Settings
from collector.ids import ComponentID, Signal
from collector.native.pipeline import Pipeline, Queue
from collector.native.runtime import Runtime, Worker
from collector.processors import probabilistic_sampler
from collector.processors.probabilistic_sampler import Config
from collector.telemetry.logs import Log
from tests.support import otlp


class Timers:
    """A loop whose time passes when it is told to."""

    def __init__(self) -> None:
        self.callbacks: dict[object, Callable[[], None]] = {}
        self.now_s = 0.0

    def every(self, period_s: float, callback: Callable[[], None]) -> SimpleNamespace:
        """Remember a timer."""
        key = object()
        self.callbacks[key] = callback
        return SimpleNamespace(cancel=lambda: self.callbacks.pop(key, None))

    def advance(self, seconds: float) -> None:
        """Let time pass, with all timers due at its end."""
        self.now_s += seconds
        for callback in list(self.callbacks.values()):
            callback()


class Harness:
    """One sampler, or a chain of them, in a pipeline of its own, in front of a queue."""

    def __init__(self, *configs: Config, signal: Signal = Signal.TRACES) -> None:
        self.signal = signal
        self.timers = Timers()
        self.runtime = Runtime()
        self.worker = Worker(self.runtime)
        self.processors = [
            probabilistic_sampler.factory.create(
                config,
                Settings(
                    id=ComponentID("probabilistic_sampler", str(number)),
                    signal=signal,
                    runtime=self.runtime,
                    log=Log(logging.getLogger("test")),
                    clock=lambda: self.timers.now_s,
                    loop=cast("Loop", self.timers),
                ),
            )
            for number, config in enumerate(configs)
        ]
        self.queue = Queue(self.runtime, signal, sizer="requests", capacity=10)
        self.pipeline = Pipeline(signal, [processor.op for processor in self.processors], self.queue)

    def push(self, request: bytes) -> list[Any]:
        """Return the items that are left of request."""
        self.pipeline.push(self.worker, request)
        item = self.queue.pop(0)
        if item is None:
            return []
        left = list(otlp.items(otlp.decode(self.signal, bytes(item.view))))
        assert item.item_count == len(left)
        self.queue.done(item)
        return left

    def run(self, *items: Any) -> list[Any]:
        """Return the spans or log records that are left."""
        make = otlp.traces if self.signal is Signal.TRACES else otlp.logs
        return self.push(make(*items).SerializeToString())

    def policies(self, number: int = 0) -> dict[tuple[str, bool], int]:
        """Return the decisions of a sampler by policy and outcome."""
        counts = {}
        for sample in self.processors[number].samples():
            labels = dict(sample.labels)
            if "sampled" in labels:
                counts[labels["policy"], labels["sampled"] == "true"] = int(sample.value)
        return counts


def span_of(trace_id: str, tracestate: str = "", priority: AnyValue | None = None, name: str = "s") -> Any:
    """Return a span."""
    span = otlp.span(name, trace_id=bytes.fromhex(trace_id), trace_state=tracestate)
    if priority is not None:
        span.attributes.append(otlp.attribute("before", 1))
        span.attributes.append(KeyValue(key="sampling.priority", value=priority))
    return span
