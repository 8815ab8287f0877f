"""The low-value filter: what goes, what never goes, and that trees stay whole."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from collector.component import Settings
from collector.ids import ComponentID, Signal
from collector.native.pipeline import Pipeline, Queue
from collector.native.runtime import Runtime, Worker
from collector.processors import low_value_filter
from collector.processors.low_value_filter import Config
from collector.telemetry.logs import Log
from tests.support import otlp

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


class Harness:
    """The processor in a pipeline of its own, in front of a queue."""

    def __init__(self, config: Config) -> None:
        self.runtime = Runtime()
        self.worker = Worker(self.runtime)
        settings = Settings(
            id=ComponentID("low_value_filter"),
            signal=Signal.TRACES,
            runtime=self.runtime,
            log=Log(logging.getLogger("test")),
        )
        self.processor = low_value_filter.factory.create(config, settings)
        self.queue = Queue(self.runtime, Signal.TRACES, sizer="requests", capacity=10)
        self.pipeline = Pipeline(Signal.TRACES, [self.processor.op], self.queue)

    def run(self, request: bytes) -> list[Any]:
        """Return the spans that are left of request."""
        self.pipeline.push(self.worker, request)
        item = self.queue.pop(0)
        if item is None:
            return []
        left = list(otlp.items(otlp.decode(Signal.TRACES, bytes(item.view))))
        assert item.item_count == len(left)
        self.queue.done(item)
        return left

    def names(self, *spans: Any) -> list[str]:
        """Return the names of the spans that are left."""
        return [span.name for span in self.run(otlp.traces(*spans).SerializeToString())]

    def dropped(self) -> dict[str, float]:
        """Return the drops by rule."""
        return {
            dict(sample.labels)["rule"]: sample.value
            for sample in self.processor.samples()
            if sample.instrument.name == "spansieve_processor_dropped_items"
        }


def lasting(name: str, nanoseconds: int, **fields: Any) -> Any:
    """Return a span of a given duration."""
    return otlp.span(name, start_time_unix_nano=START, end_time_unix_nano=START + nanoseconds, **fields)


class TestRules:
    """Signs, and how rules join them."""

    def test_defaults_drop_health_checks_and_short_bare_spans(self) -> None:
        """A health check goes whatever it carries; a short span only without attributes."""
        harness = Harness(Config())
        left = harness.names(
            lasting("grpc.health.v1.Health/Check", SECOND, attributes={"rpc.system": "grpc"}),
            lasting("GET /healthz", SECOND),
            lasting("short and bare", 999_999),
            lasting("short", 10, attributes={"k": 1}),
            lasting("bare", SECOND),
        )
        assert ["short", "bare"] == left
        assert {"name": 2, "duration and attributes": 1} == harness.dropped()

    @pytest.mark.parametrize(
        ("rules", "left"),
        [
            (("duration",), ["slow", "slow bare"]),
            (("attributes",), ["slow", "short"]),
            (("duration", "attributes"), ["slow"]),
            (("duration and attributes",), ["slow", "slow bare", "short"]),
            ((), ["slow", "slow bare", "short", "short bare"]),
        ],
    )
    def test_rules_are_ored_and_signs_within_one_anded(self, rules: tuple[str, ...], left: list[str]) -> None:
        """Every way to join two signs."""
        harness = Harness(Config(rules=rules))
        spans = [
            lasting("slow", SECOND, attributes={"k": 1}),
            lasting("slow bare", SECOND),
            lasting("short", 5, attributes={"k": 1}),
            lasting("short bare", 5),
        ]
        assert left == harness.names(*spans)

    def test_exactly_min_duration_is_not_short(self) -> None:
        """The limit itself is kept."""
        assert ["limit"] == Harness(Config(rules=("duration",))).names(
            lasting("limit", 1_000_000), lasting("under", 999_999)
        )

    def test_end_before_start_is_kept(self) -> None:
        """A broken clock is not a short span."""
        assert ["back"] == Harness(Config(rules=("duration",))).names(lasting("back", -5))

    @pytest.mark.parametrize(
        ("pattern", "name", "matches"),
        [
            ("a*c", "abbbc", True),
            ("a*c", "ac", True),
            ("a*c", "acb", False),
            ("*", "", True),
            ("a?c", "abc", True),
            ("a?c", "ac", False),
            ("**x*", "aaxbb", True),
            ("*aab", "aaaab", True),
            ("", "", True),
            ("/health", "/healthz", False),
        ],
    )
    def test_names_are_globs_of_the_whole_name(self, pattern: str, name: str, matches: bool) -> None:
        """Star is any run, question mark any one byte, all else itself."""
        harness = Harness(Config(names=(pattern,), rules=("name",)))
        assert ([] if matches else [name]) == harness.names(lasting(name, SECOND))


class TestProtection:
    """What is never dropped."""

    @pytest.mark.parametrize(
        "fields",
        [
            {"status": {"code": 2}},
            {"events": [{"name": "exception"}]},
            {"links": [{"trace_id": bytes(16), "span_id": bytes(8)}]},
        ],
    )
    def test_spans_that_matter_stay(self, fields: dict[str, Any]) -> None:
        """Errors, exceptions and links outweigh every sign."""
        harness = Harness(Config(rules=("name", "duration", "attributes"), names=("*",)))
        assert ["x"] == harness.names(lasting("x", 1, **fields), lasting("x", 1))

    def test_keep_roots_keeps_spans_without_a_parent(self) -> None:
        """Only children go."""
        spans = (lasting("root", 1), lasting("child", 1, parent_span_id=b"12345678"))
        assert ["root"] == Harness(Config(keep_roots=True)).names(*spans)
        assert [] == Harness(Config(keep_roots=False)).names(*spans)

    def test_capture_loses_all_health_checks_and_no_error(self, hipstershop: bytes) -> None:
        """673 health checks under four names go, 667 error spans stay."""
        harness = Harness(Config())
        left = harness.run(hipstershop)
        assert 667 == sum(span.status.code == 2 for span in left)
        assert 0 == sum("health" in span.name.lower() for span in left)
        assert 673 == harness.dropped()["name"]
        assert 86_583 == len(left) + sum(harness.dropped().values())


class TestReparent:
    """Children of dropped spans."""

    def chain(self, *names: str, trace_id: bytes = bytes(range(16))) -> list[Any]:
        """Return spans each the child of the one before; those called `drop` are short and bare."""
        parent = b""
        spans = []
        for number, name in enumerate(names):
            span_id = bytes([number + 1] * 8)
            spans.append(
                lasting(
                    name,
                    1 if name == "drop" else SECOND,
                    trace_id=trace_id,
                    span_id=span_id,
                    parent_span_id=parent,
                )
            )
            parent = span_id
        return spans

    def test_two_dropped_levels_are_skipped(self) -> None:
        """The leaf hangs on the root, and nothing else of it has changed."""
        harness = Harness(Config())
        root, _, _, leaf = spans = self.chain("root", "drop", "drop", "leaf")
        left = harness.run(otlp.traces(*spans).SerializeToString())
        assert root.span_id == left[1].parent_span_id
        left[1].parent_span_id = leaf.parent_span_id
        assert [root, leaf] == left

    def test_child_of_a_dropped_root_becomes_a_root(self) -> None:
        """The parent field is gone, not zeroed."""
        left = Harness(Config()).run(otlp.traces(*self.chain("drop", "leaf")).SerializeToString())
        assert [b""] == [span.parent_span_id for span in left]

    def test_order_in_the_request_does_not_matter(self) -> None:
        """Children usually come before their parents."""
        spans = self.chain("root", "drop", "leaf")
        left = Harness(Config()).run(otlp.traces(*reversed(spans)).SerializeToString())
        assert {"leaf": spans[0].span_id, "root": b""} == {span.name: span.parent_span_id for span in left}

    def test_same_span_id_in_another_trace_is_left_alone(self) -> None:
        """Span ids are unique only within a trace."""
        one = self.chain("root", "drop")
        other = self.chain("root", "kept", "leaf", trace_id=b"t" * 16)
        left = Harness(Config()).run(otlp.traces(*one, *other).SerializeToString())
        assert [b"", b"", bytes([1] * 8), bytes([2] * 8)] == [span.parent_span_id for span in left]

    def test_ring_of_dropped_parents_ends(self) -> None:
        """Spans that are each other's parent, all dropped, do not hang the loop."""
        ring = [
            lasting("drop", 1, span_id=b"a" * 8, parent_span_id=b"b" * 8),
            lasting("drop", 1, span_id=b"b" * 8, parent_span_id=b"a" * 8),
        ]
        leaf = lasting("leaf", SECOND, parent_span_id=b"a" * 8)
        assert ["leaf"] == Harness(Config()).names(*ring, leaf)

    def test_switched_off_leaves_parents(self) -> None:
        """The Collector's way: orphans."""
        left = Harness(Config(reparent=False)).run(
            otlp.traces(*self.chain("root", "drop", "leaf")).SerializeToString()
        )
        assert bytes([2] * 8) == left[1].parent_span_id

    def test_capture_keeps_its_trees_whole(self, hipstershop: bytes) -> None:
        """Every kept span whose parent was in the capture still has a parent there, or has become a root."""
        before = {span.span_id for span in otlp.items(otlp.decode(Signal.TRACES, hipstershop))}
        left = Harness(Config(rules=("duration",))).run(hipstershop)
        ids = {span.span_id for span in left}
        broken = [span for span in left if span.parent_span_id and span.parent_span_id not in ids]
        assert all(span.parent_span_id not in before for span in broken)


class TestConfig:
    """Rules are checked before anything runs."""

    def test_unknown_sign_is_a_problem(self) -> None:
        """The message shows the signs there are."""
        problems = list(Config(rules=("name and size",)).problems())
        assert [
            ("rules", "expected duration, attributes, name, joined by 'and', got 'name and size'")
        ] == problems

    def test_default_has_no_problem(self) -> None:
        """What we ship loads."""
        assert [] == list(Config().problems())
