"""metrics_transform: names, labels, and that merged points say what their parts said together."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Exemplar,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
    SummaryDataPoint,
)

from collector.component import Loop, Settings
from collector.ids import ComponentID, Signal
from collector.native.metrics_transform import Aggregation, Counter
from collector.native.pipeline import Pipeline, Queue
from collector.native.runtime import Runtime, Worker
from collector.processors import metrics_transform
from collector.processors.metrics_transform import Config, Operation, Transform, ValueAction
from collector.telemetry.logs import Log
from tests.support import corpus, metrics_reference, otlp
from tests.support.sampler_harness import Timers

DELTA, CUMULATIVE = 1, 2
T1, T2 = 1_700_000_000_000_000_000, 1_700_000_060_000_000_000


class Harness:
    """The processor in a pipeline of its own, in front of a queue."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.timers = Timers()
        self.runtime = Runtime()
        self.worker = Worker(self.runtime)
        self.processor = metrics_transform.factory.create(
            config,
            Settings(
                id=ComponentID("metrics_transform"),
                signal=Signal.METRICS,
                runtime=self.runtime,
                log=Log(logging.getLogger("test")),
                loop=cast("Loop", self.timers),
            ),
        )
        self.queue = Queue(self.runtime, Signal.METRICS, sizer="requests", capacity=10)
        self.pipeline = Pipeline(Signal.METRICS, [self.processor.op], self.queue)

    def run_bytes(self, request: bytes) -> bytes:
        """Return what is left of a serialized request."""
        self.pipeline.push(self.worker, request)
        item = self.queue.pop(0)
        if item is None:
            return b""
        left = bytes(item.view)
        self.queue.done(item)
        return left

    def run(self, request: Any) -> Any:
        """Return the request that is left."""
        return otlp.decode(Signal.METRICS, self.run_bytes(request.SerializeToString()))

    def dropped(self) -> dict[str, float]:
        """Return the drops by rule."""
        return {
            dict(sample.labels)["rule"]: sample.value
            for sample in self.processor.samples()
            if sample.instrument.name == "spansieve_processor_dropped_items"
        }


def transforming(*operations: Operation, include: str = "m", **fields: Any) -> Harness:
    """Return a harness with one transform of action update."""
    transform = Transform(include=include, action="update", operations=operations, **fields)
    return Harness(Config(transforms=(transform,)))


def request(*metrics: Metric) -> ExportMetricsServiceRequest:
    """Return a request with metrics in one scope."""
    return ExportMetricsServiceRequest(
        resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=metrics)])]
    )


def number(value: float, time: int = T1, start: int = 0, flags: int = 0, **labels: Any) -> NumberDataPoint:
    """Return a point; ints give as_int."""
    field = {"as_int": value} if isinstance(value, int) else {"as_double": value}
    pairs = [otlp.attribute(key, text) for key, text in labels.items()]
    return NumberDataPoint(
        attributes=pairs, time_unix_nano=time, start_time_unix_nano=start, flags=flags, **field
    )


def counter(*points: NumberDataPoint, temporality: int = CUMULATIVE, name: str = "m") -> Metric:
    """Return a monotonic sum."""
    return Metric(
        name=name, sum=Sum(data_points=points, aggregation_temporality=temporality, is_monotonic=True)
    )


def histogram(*points: HistogramDataPoint) -> Metric:
    """Return a cumulative explicit histogram."""
    return Metric(name="m", histogram=Histogram(data_points=points, aggregation_temporality=CUMULATIVE))


def labels_of(point: Any) -> dict[str, str]:
    """Return the string attributes of a point."""
    return {pair.key: pair.value.string_value for pair in point.attributes}


def values_of(left: Any) -> list[tuple[dict[str, str], float]]:
    """Return (labels, value) of every number point, in order."""
    return [(labels_of(p), getattr(p, p.WhichOneof("value"))) for p in otlp.items(left)]


DROP_USER = Operation(action="delete_label", label="user")


class TestDeleteLabel:
    """Dropping a label leaves one point for each identity."""

    def test_counters_that_coincide_are_added(self) -> None:
        """R19: {user=a,code=200}=3 and {user=b,code=200}=4 become {code=200}=7 with the earliest start."""
        harness = transforming(DROP_USER)
        left = harness.run(
            request(
                counter(number(3, start=50, user="a", code="200"), number(4, start=40, user="b", code="200"))
            )
        )
        assert [({"code": "200"}, 7)] == values_of(left)
        assert [40] == [point.start_time_unix_nano for point in otlp.items(left)]
        assert {"delete_label_value": 0, "aggregation": 1} == harness.dropped()

    def test_delta_points_of_one_window_are_added(self) -> None:
        """B57: a=1 and b=2 of the same window give 3."""
        points = (number(1, start=T1, time=T2, user="a"), number(2, start=T1, time=T2, user="b"))
        left = transforming(DROP_USER).run(request(counter(*points, temporality=DELTA)))
        assert [({}, 3)] == values_of(left)

    def test_other_windows_are_not_merged(self) -> None:
        """Delta points with another start, and any points with another time, stay points of their own."""
        by_start = (number(1, start=1, user="a"), number(2, start=2, user="b"))
        by_time = (number(1, time=T1, user="a"), number(2, time=T2, user="b"))
        harness = transforming(DROP_USER)
        assert 2 == len(values_of(harness.run(request(counter(*by_start, temporality=DELTA)))))
        assert 1 == len(values_of(harness.run(request(counter(*by_start)))))
        assert 2 == len(values_of(harness.run(request(counter(*by_time)))))

    def test_metrics_of_another_name_scope_or_resource_are_not_merged(self) -> None:
        """Merging stays within one metric of one scope of one resource."""
        metric = counter(number(1, user="a"), number(2, user="b"))
        two = request(metric, counter(number(5, user="a"), name="n"))
        two.resource_metrics.append(two.resource_metrics[0])
        left = transforming(DROP_USER).run(two)
        assert [({}, 3), ({"user": "a"}, 5), ({}, 3), ({"user": "a"}, 5)] == values_of(left)

    def test_a_metric_without_the_label_keeps_its_bytes(self) -> None:
        """Nothing is decoded and written back for nothing."""
        data = request(counter(number(1, code="200"), number(1, code="200"))).SerializeToString()
        harness = transforming(DROP_USER)
        assert data == harness.run_bytes(data)

    def test_labels_of_another_type_are_another_identity(self) -> None:
        """A string is never equal to an int, not even to its encoding."""
        points = [number(1, user="a", k=7), number(2, user="a", k="7"), number(4, user="a", k="\x18\x07")]
        assert [1, 2, 4] == [
            value for _, value in values_of(transforming(DROP_USER).run(request(counter(*points))))
        ]

    def test_gauges_follow_aggregation_type(self) -> None:
        """The last of a gauge stays by default, and is told of, or they are merged as told."""
        gauge = Metric(name="m", gauge=Gauge(data_points=[number(1.5, user="a"), number(4.0, user="b")]))
        expected = {
            "": 4.0,
            "last": 4.0,
            "sum": 5.5,
            "mean": 2.75,
            "min": 1.5,
            "max": 4.0,
            "median": 2.75,
            "count": 2.0,
        }
        for aggregation, value in expected.items():
            operation = Operation(action="delete_label", label="user", aggregation_type=aggregation)
            harness = transforming(operation)
            assert [({}, value)] == values_of(harness.run(request(gauge)))
            assert (not aggregation) == harness.processor.op.counter(Counter.SUPERSEDED)

    def test_points_lost_by_default_are_warned_of(self, caplog: pytest.LogCaptureFixture) -> None:
        """With their number; not again where there are no more."""
        gauge = Metric(name="m", gauge=Gauge(data_points=[number(1, user=user) for user in "abc"]))
        harness = transforming(DROP_USER)
        harness.processor.start()
        harness.run(request(gauge))
        for _ in range(2):
            harness.timers.advance(60)
        harness.processor.shutdown(0)
        (record,) = caplog.records
        assert "only the last of a request stays" in record.getMessage()

    def test_a_summary_keeps_its_label_and_is_counted(self) -> None:
        """Quantiles cannot be merged: the operation is skipped."""
        points = [
            SummaryDataPoint(attributes=[otlp.attribute("user", user)], time_unix_nano=T1, count=1)
            for user in "ab"
        ]
        data = request(Metric(name="m", summary=Summary(data_points=points))).SerializeToString()
        harness = transforming(DROP_USER)
        assert data == harness.run_bytes(data)
        assert 1 == harness.processor.op.counter(Counter.SKIPPED)

    @pytest.mark.parametrize(
        "operation",
        [
            Operation(action="delete_label", label="other"),
            Operation(action="aggregate_labels", label_set=("user",), aggregation_type="sum"),
            Operation(action="aggregate_label_values", label="user", aggregation_type="sum", new_value="b"),
        ],
    )
    def test_what_would_change_nothing_is_not_counted_as_skipped(self, operation: Operation) -> None:
        """A summary without the label, or with no other: nothing was left undone."""
        point = SummaryDataPoint(attributes=[otlp.attribute("user", "a")], time_unix_nano=T1, count=1)
        harness = transforming(operation)
        harness.run(request(Metric(name="m", summary=Summary(data_points=[point]))))
        assert 0 == harness.processor.op.counter(Counter.SKIPPED)

    def test_ten_thousand_points_of_one_metric_become_one(self) -> None:
        """A user id in a label goes away whatever its number of values, in time linear in it."""
        metric = counter(*(number(1, user=f"u{i}", code="200") for i in range(10_000)))
        harness = transforming(DROP_USER)
        assert [({"code": "200"}, 10_000)] == values_of(harness.run(request(metric)))
        assert 9_999 == harness.dropped()["aggregation"]


class TestNumbers:
    """Values that neither overflow nor change type silently."""

    @pytest.mark.parametrize(
        ("aggregation", "values", "expected"),
        [
            ("sum", (1, 2.5), 3.5),
            ("sum", (2**63 - 1, 1), float(2**63)),
            ("mean", (7, -14), -3),
            ("mean", (2**63 - 1, 2**63 - 1), 2**63 - 1),
            ("median", (9, 1, 4), 4),
            ("median", (1, 4), 2),
            ("count", (5, 6, 7), 3),
            ("count", (5,), 1),
            ("min", (3, 2), 2),
            ("max", (3, 4.5), 4.5),
        ],
    )
    def test_value(self, aggregation: str, values: tuple[float, ...], expected: float) -> None:
        """Each aggregation type gives its value, as an int where all are ints and it fits."""
        points = [number(value, user=str(index)) for index, value in enumerate(values)]
        harness = transforming(Operation(action="aggregate_labels", aggregation_type=aggregation))
        left = values_of(harness.run(request(counter(*points))))
        assert [({}, expected)] == left
        assert type(expected) is type(left[0][1])

    def test_a_stale_point_vanishes_beside_a_live_one(self) -> None:
        """NoRecordedValue of one input does not end the sum; of all inputs it does."""
        harness = transforming(DROP_USER)
        live = harness.run(request(counter(number(0, flags=1, user="a"), number(4, user="b"))))
        assert [({}, 4)] == values_of(live)
        stale = harness.run(request(counter(number(0, flags=1, user="a"), number(0, flags=1, user="b"))))
        assert [1] == [point.flags for point in otlp.items(stale)]

    def test_exemplars_of_all_points_are_kept(self) -> None:
        """A merged point carries the exemplars of its parts."""
        points = [number(1, user=user) for user in "abc"]
        for index, point in enumerate(points):
            point.exemplars.append(Exemplar(as_int=index, trace_id=bytes(16)))
        (left,) = otlp.items(transforming(DROP_USER).run(request(counter(*points))))
        assert [0, 1, 2] == [exemplar.as_int for exemplar in left.exemplars]

    def test_toggle_and_scale(self) -> None:
        """The Collector's two operations on single values."""
        toggle = transforming(Operation(action="toggle_scalar_data_type"))
        toggled = values_of(toggle.run(request(counter(number(3), number(-2.9), number(1e300)))))
        assert [3.0, -2, 2**63 - 1] == [value for _, value in toggled]
        scale = transforming(Operation(action="experimental_scale_value", experimental_scale=0.001))
        assert [1, 1.5] == [
            value for _, value in values_of(scale.run(request(counter(number(1999), number(1500.0)))))
        ]

    def test_scaled_histograms_keep_their_counts(self) -> None:
        """Bounds, sum, min, max, exemplars and the place of exponential buckets change as the unit does."""
        scale = transforming(Operation(action="experimental_scale_value", experimental_scale=4.0))
        explicit = HistogramDataPoint(
            count=3,
            sum=5.0,
            min=1.0,
            max=2.5,
            explicit_bounds=[1.5, 2.0],
            bucket_counts=[1, 0, 2],
            time_unix_nano=T1,
        )
        explicit.exemplars.add(as_int=2)
        exponential = ExponentialHistogramDataPoint(count=2, scale=1, zero_threshold=0.25, time_unix_nano=T1)
        exponential.positive.offset = -3
        exponential.positive.bucket_counts.extend([1, 1])
        histogram = Metric(name="m", histogram=Histogram(data_points=[explicit]))
        other = Metric(name="m", exponential_histogram=ExponentialHistogram(data_points=[exponential]))
        left = list(otlp.items(scale.run(request(histogram, other))))
        assert (3, 20.0, 4.0, 10.0) == (left[0].count, left[0].sum, left[0].min, left[0].max)
        assert ([6.0, 8.0], [1, 0, 2]) == (list(left[0].explicit_bounds), list(left[0].bucket_counts))
        assert 8 == left[0].exemplars[0].as_int
        assert (1, [1, 1], 1.0) == (
            left[1].positive.offset,
            list(left[1].positive.bucket_counts),
            left[1].zero_threshold,
        )

    def test_a_scale_that_no_bucket_holds_leaves_the_point(self) -> None:
        """An index beyond 32 bits is not written, and the operation is counted as not done."""
        scale = transforming(Operation(action="experimental_scale_value", experimental_scale=1e300))
        point = ExponentialHistogramDataPoint(count=1, scale=20, sum=1.0, time_unix_nano=T1)
        point.positive.offset = 2**31 - 1
        point.positive.bucket_counts.append(1)
        metric = Metric(name="m", exponential_histogram=ExponentialHistogram(data_points=[point]))
        assert [point] == list(otlp.items(scale.run(request(metric))))
        assert 1 == scale.processor.op.counter(Counter.SKIPPED)


class TestHistograms:
    """Distributions of the whole are those of the parts, added."""

    def test_equal_bounds_are_added(self) -> None:
        """Counts, sum and buckets are added; min and max combined."""
        points = [
            HistogramDataPoint(
                attributes=[otlp.attribute("user", user)],
                time_unix_nano=T1,
                count=sum(counts),
                sum=total,
                min=low,
                max=high,
                bucket_counts=counts,
                explicit_bounds=[1.0, 5.0],
            )
            for user, counts, total, low, high in (
                ("a", [1, 0, 2], 20.0, 0.5, 9.0),
                ("b", [0, 3, 1], 17.0, 2.0, 8.0),
            )
        ]
        (left,) = otlp.items(transforming(DROP_USER).run(request(histogram(*points))))
        assert (7, 37.0, 0.5, 9.0, [1, 3, 3]) == (
            left.count,
            left.sum,
            left.min,
            left.max,
            list(left.bucket_counts),
        )
        assert [1.0, 5.0] == list(left.explicit_bounds)

    def test_other_bounds_stay_apart_and_are_counted(self) -> None:
        """Nothing is merged wrongly."""
        points = [
            HistogramDataPoint(
                attributes=[otlp.attribute("user", user)],
                time_unix_nano=T1,
                count=1,
                bucket_counts=[1, 0],
                explicit_bounds=[b],
            )
            for user, b in (("a", 1.0), ("b", 2.0))
        ]
        harness = transforming(DROP_USER)
        left = list(otlp.items(harness.run(request(histogram(*points)))))
        assert [[1.0], [2.0]] == [list(point.explicit_bounds) for point in left]
        assert 1 == harness.processor.op.counter(Counter.APART)

    def test_half_a_sum_is_no_sum(self) -> None:
        """Sum, min and max go when a part with a count lacks them; an empty part does not matter."""
        full = HistogramDataPoint(
            attributes=[otlp.attribute("user", "a")], time_unix_nano=T1, count=1, sum=3.0, min=3.0
        )
        bare = HistogramDataPoint(attributes=[otlp.attribute("user", "b")], time_unix_nano=T1, count=1)
        empty = HistogramDataPoint(attributes=[otlp.attribute("user", "c")], time_unix_nano=T1)
        (left,) = otlp.items(transforming(DROP_USER).run(request(histogram(full, bare))))
        assert (2, False, False) == (left.count, left.HasField("sum"), left.HasField("min"))
        (left,) = otlp.items(transforming(DROP_USER).run(request(histogram(empty, full))))
        assert (1, 3.0, 3.0) == (left.count, left.sum, left.min)

    @staticmethod
    def exponential(*points: tuple[int, int, list[int]]) -> Any:
        """Return the point that (scale, offset, positive counts) points become."""
        parts = [
            ExponentialHistogramDataPoint(
                attributes=[otlp.attribute("user", str(index))],
                time_unix_nano=T1,
                count=sum(counts),
                scale=scale,
                positive={"offset": offset, "bucket_counts": counts},
            )
            for index, (scale, offset, counts) in enumerate(points)
        ]
        metric = Metric(
            name="m",
            exponential_histogram=ExponentialHistogram(data_points=parts, aggregation_temporality=CUMULATIVE),
        )
        (left,) = otlp.items(transforming(DROP_USER).run(request(metric)))
        return left

    def test_offsets_are_aligned(self) -> None:
        """Offset 2 [1,1] and offset 0 [1,0,1,1] give offset 0 [1,0,2,2]."""
        left = self.exponential((0, 2, [1, 1]), (0, 0, [1, 0, 1, 1]))
        assert (5, 0, [1, 0, 2, 2]) == (left.count, left.positive.offset, list(left.positive.bucket_counts))

    def test_scales_are_brought_down_to_the_lowest(self) -> None:
        """An index at scale 1 is half of it, rounded down, at scale 0."""
        left = self.exponential((1, -3, [1, 1, 1, 1]), (0, 0, [5]))
        assert (0, -2, [1, 2, 6]) == (left.scale, left.positive.offset, list(left.positive.bucket_counts))

    def test_scale_is_kept_while_the_inputs_were_as_wide(self) -> None:
        """A sender that uses 320 buckets does not lose resolution; 161 made of two narrow ones are too many."""
        wide = [1] * 320
        left = self.exponential((3, 0, wide), (3, 0, wide))
        assert (3, [2] * 320) == (left.scale, list(left.positive.bucket_counts))
        left = self.exponential((3, 0, [1]), (3, 159, [1]))
        assert (3, 160) == (left.scale, len(left.positive.bucket_counts))
        left = self.exponential((3, 0, [1]), (3, 160, [1]))
        assert (2, 81) == (left.scale, len(left.positive.bucket_counts))

    def test_distant_buckets_cost_scale_and_not_memory(self) -> None:
        """Indexes 2^32 apart do not become four billion buckets."""
        left = self.exponential((0, -(2**31), [1]), (0, 2**31 - 1, [1]))
        assert [1] == [count for count in left.positive.bucket_counts if count][:1]
        assert 2 == sum(left.positive.bucket_counts) and len(left.positive.bucket_counts) <= 160


class TestLabels:
    """add_label, update_label, delete_label_value, aggregate_label_values."""

    def test_add_label_only_where_it_is_absent(self) -> None:
        """A label that is there stays."""
        harness = transforming(Operation(action="add_label", new_label="env", new_value="prod"))
        left = values_of(harness.run(request(counter(number(1), number(2, env="dev")))))
        assert [({"env": "prod"}, 1), ({"env": "dev"}, 2)] == left

    def test_update_label_renames_and_maps_values(self) -> None:
        """The new name takes the place of a label that has it; nothing is merged."""
        operation = Operation(
            action="update_label",
            label="verb",
            new_label="method",
            value_actions=(ValueAction(value="get", new_value="GET"),),
        )
        left = values_of(
            transforming(operation).run(
                request(
                    counter(number(1, verb="get", method="?"), number(2, verb="put"), number(3, other="get"))
                )
            )
        )
        assert [({"method": "GET"}, 1), ({"method": "put"}, 2), ({"other": "get"}, 3)] == left

    def test_update_label_to_its_own_name_keeps_the_value(self) -> None:
        """The Collector loses the value here."""
        harness = transforming(Operation(action="update_label", label="a", new_label="a"))
        assert [({"a": "x"}, 1)] == values_of(harness.run(request(counter(number(1, a="x")))))

    def test_delete_label_value_drops_points_and_an_empty_metric(self) -> None:
        """A metric left without points goes, one that came without stays; drops are counted."""
        harness = transforming(Operation(action="delete_label_value", label="user", label_value="bot"))
        empty = Metric(name="m", gauge=Gauge())
        left = harness.run(request(counter(number(1, user="bot")), empty, counter(number(2, user="a"))))
        assert ["m", "m"] == [metric.name for metric in left.resource_metrics[0].scope_metrics[0].metrics]
        assert [({"user": "a"}, 2)] == values_of(left)
        assert {"delete_label_value": 1, "aggregation": 0} == harness.dropped()

    def test_nothing_left_is_nothing_sent(self) -> None:
        """A request whose last point goes is not forwarded."""
        harness = transforming(Operation(action="delete_label_value", label="user", label_value="bot"))
        assert b"" == harness.run_bytes(request(counter(number(1, user="bot"))).SerializeToString())

    def test_aggregate_labels_keeps_the_label_set(self) -> None:
        """Other labels go and what coincides is merged."""
        harness = transforming(Operation(action="aggregate_labels", label_set=("a",), aggregation_type="sum"))
        points = (number(1, a="x", b="1"), number(2, b="2", a="x"), number(4, a="y"))
        assert [({"a": "x"}, 3), ({"a": "y"}, 4)] == values_of(harness.run(request(counter(*points))))

    def test_aggregate_label_values_joins_values(self) -> None:
        """Values in the list become one; others stay."""
        operation = Operation(
            action="aggregate_label_values",
            label="state",
            aggregated_values=("slab", "cached"),
            new_value="other",
            aggregation_type="sum",
        )
        points = (number(1, state="slab"), number(2, state="used"), number(4, state="cached"))
        left = values_of(transforming(operation).run(request(counter(*points))))
        assert [({"state": "other"}, 5), ({"state": "used"}, 2)] == left

    def test_version_is_filled_in(self) -> None:
        """`{{version}}` stands for the version of the collector."""
        harness = transforming(
            Operation(action="add_label", new_label="by", new_value="spansieve {{version}}")
        )
        ((labels, _),) = values_of(harness.run(request(counter(number(1)))))
        assert labels["by"].startswith("spansieve ") and "{{" not in labels["by"]


class TestMatching:
    """Which metrics and points a transform is for."""

    def names(self, *metrics: Metric, **fields: Any) -> list[str]:
        """Return the names that are left."""
        left = transforming(**fields).run(request(*metrics))
        return [metric.name for metric in left.resource_metrics[0].scope_metrics[0].metrics]

    def test_rename(self) -> None:
        """Strict names are compared, and `$` is a dollar."""
        metrics = (counter(number(1), name="a"), counter(number(1), name="ab"))
        assert ["b$1", "ab"] == self.names(*metrics, include="a", new_name="b$1")

    @pytest.mark.parametrize(
        ("new_name", "expected"),
        [
            ("$1.cpu", "host.cpu"),
            ("${1}x", "hostx"),
            ("$1x", "$1x"),
            ("${what}_${1}", "usage_host"),
            ("$what", "usage"),
            ("$$1", "$1"),
            ("cost$", "cost$"),
            ("${1", "${1"),
            ("$9", "$9"),
        ],
    )
    def test_groups_of_a_regexp(self, new_name: str, expected: str) -> None:
        """As Go's Expand: unknown groups are empty, and an empty result leaves the template as the name."""
        metric = counter(number(1), name="host.cpu.usage")
        pattern = r"^(\w+)\.cpu\.(?P<what>.*)$"
        assert [expected] == self.names(metric, include=pattern, match_type="regexp", new_name=new_name)

    def test_regexp_is_found_anywhere(self) -> None:
        """Patterns are not anchored."""
        metrics = (counter(number(1), name="system.cpu.time"), counter(number(1), name="memory"))
        assert ["n", "memory"] == self.names(*metrics, include="cpu", match_type="regexp", new_name="n")

    def test_a_metric_without_a_name_and_behind_its_points_can_be_renamed(self) -> None:
        """The name field may be absent, or stand anywhere."""
        point = number(1).SerializeToString()
        data = Metric(sum=Sum(data_points=[NumberDataPoint.FromString(point)])).SerializeToString()
        metric = Metric(name="old").SerializeToString()
        for body, pattern in ((data, "^$"), (data + metric, "old"), (metric + data + metric, "old")):
            scope = b"\x12" + bytes([len(body)]) + body
            resource = b"\x12" + bytes([len(scope)]) + scope
            whole = b"\x0a" + bytes([len(resource)]) + resource
            harness = transforming(include=pattern, match_type="regexp", new_name="new")
            left = otlp.decode(Signal.METRICS, harness.run_bytes(whole))
            (renamed,) = left.resource_metrics[0].scope_metrics[0].metrics
            assert ("new", 1) == (renamed.name, len(renamed.sum.data_points))

    def test_whole_metric_operations_need_all_points_to_match(self) -> None:
        """Renaming and adding wait for all; update_label works on each point that matches."""
        operations = (
            Operation(action="add_label", new_label="new", new_value="1"),
            Operation(action="update_label", label="user", new_label="who"),
        )
        metric = counter(number(1, user="a"), number(2, user="b"))
        some = transforming(*operations, experimental_match_labels={"user": "a"}, new_name="n").run(
            request(metric)
        )
        assert [({"who": "a"}, 1), ({"user": "b"}, 2)] == values_of(some)
        assert "m" == some.resource_metrics[0].scope_metrics[0].metrics[0].name

    def test_absent_and_other_labels_read_as_empty(self) -> None:
        """Both match the empty value."""
        operation = Operation(action="add_label", new_label="new", new_value="1")
        metric = counter(number(1), number(2, user=7))
        left = transforming(operation, experimental_match_labels={"user": ""}).run(request(metric))
        assert ["1", "1"] == [labels["new"] for labels, _ in values_of(left)]

    def test_transforms_see_what_those_before_them_left(self) -> None:
        """The second works on the new name and on merged points."""
        first = Transform(include="m", action="update", new_name="n", operations=(DROP_USER,))
        operation = Operation(action="aggregate_labels", aggregation_type="max")
        second = Transform(include="n", action="update", new_name="o", operations=(operation,))
        points = (number(1, user="a", k="x"), number(2, user="b", k="x"), number(5, k="y"))
        left = Harness(Config(transforms=(first, second))).run(request(counter(*points)))
        assert [({}, 5)] == values_of(left)
        assert "o" == left.resource_metrics[0].scope_metrics[0].metrics[0].name

    def test_a_pattern_that_explodes_gives_up(self) -> None:
        """No pattern holds up the pipeline: it just does not match."""
        metric = counter(number(1), name="a" * 200)
        assert ["a" * 200] == self.names(metric, include="(a+)+$x|(a*)*b", match_type="regexp", new_name="n")


class TestUnknownFields:
    """What we do not know is carried along."""

    def test_they_survive_in_changed_and_merged_points(self) -> None:
        """A changed point keeps its own, a merged one those of the first point."""
        unknown = b"\xa2\x06\x03abc"
        point = number(1, user="a").SerializeToString() + unknown
        other = number(2, user="b").SerializeToString()
        body = b"".join(b"\x0a" + bytes([len(p)]) + p for p in (point, other)) + b"\x10\x02"
        metric = Metric(name="m").SerializeToString() + b"\x3a" + bytes([len(body)]) + body
        for level in range(3):
            metric = (b"\x12" if level < 2 else b"\x0a") + bytes([len(metric)]) + metric
        left = transforming(DROP_USER).run_bytes(metric)
        assert unknown in left
        assert [({}, 3)] == values_of(otlp.decode(Signal.METRICS, left))


class TestConfig:
    """Problems in the Collector's words, before anything starts."""

    @pytest.mark.parametrize(
        ("transform", "field", "message"),
        [
            (Transform(action="update"), "include", 'missing required field "include"'),
            (Transform(include="m"), "action", '"action" must be in ["insert" "update" "combine" "group"]'),
            (
                Transform(include="m", action="insert"),
                "action",
                '"insert" is not supported yet; supported: "update"',
            ),
            (
                Transform(include="m", action="update", match_type="glob"),
                "match_type",
                '"match_type" must be in ["strict" "regexp"]',
            ),
            (
                Transform(
                    include="m", action="update", operations=(DROP_USER, Operation(action="update_label"))
                ),
                "operations::1::label",
                'operation 2: missing required field "label" while "action" is update_label',
            ),
            (
                Transform(include="m", action="update", operations=(Operation(action="aggregate_labels"),)),
                "operations::0::aggregation_type",
                'operation 1: missing required field "aggregation_type" while "action" is aggregate_labels',
            ),
            (
                Transform(
                    include="m",
                    action="update",
                    operations=(Operation(action="delete_label", label="a", aggregation_type="avg"),),
                ),
                "operations::0::aggregation_type",
                'operation 1: "aggregation_type" must be in ["sum" "mean" "min" "max" "median" "count" "last"]',
            ),
        ],
    )
    def test_problem(self, transform: Transform, field: str, message: str) -> None:
        """Each fault gives one problem at its place."""
        assert [(field, message)] == list(transform.problems_in_use())

    def test_a_bad_pattern_is_named(self) -> None:
        """With where it is wrong."""
        transform = Transform(include="a(b", match_type="regexp", action="update")
        ((field, message),) = transform.problems_in_use()
        assert "include" == field
        assert "'a(b'" in message and "at byte 3" in message

    def test_patterns_of_labels_are_checked(self) -> None:
        """Every pattern, not only that of the name."""
        labels = {"user": "[", "code": "2.."}
        transform = Transform(
            include="m", match_type="regexp", action="update", experimental_match_labels=labels
        )
        assert ["experimental_match_labels::user"] == [field for field, _ in transform.problems_in_use()]

    def test_both_names_of_the_type_are_known(self) -> None:
        """The older name still works."""
        assert ("metricstransform",) == metrics_transform.factory.aliases


# ------------------------------------------------------------------ against the oracle

_labels = st.dictionaries(
    st.sampled_from(["user", "code", "env"]), st.sampled_from(["", "a", "b", "200", 7, 2.5, True]), max_size=3
).map(lambda pairs: [otlp.attribute(key, value) for key, value in pairs.items()])
_common: dict[str, Any] = {
    "attributes": _labels,
    "time_unix_nano": st.sampled_from([T1, T1, T2]),
    "start_time_unix_nano": st.sampled_from([0, 5, 9]),
    "flags": st.sampled_from([0, 0, 0, 1]),
}
_exemplars = st.lists(st.builds(Exemplar, as_int=st.integers(0, 9)), max_size=2)
_ints = st.one_of(st.integers(-10, 10), st.integers(-(2**63), 2**63 - 1))
_doubles = st.floats(allow_nan=False, allow_infinity=False)
_maybe_double = st.one_of(st.none(), _doubles)
_numbers = st.one_of(
    st.builds(NumberDataPoint, as_int=_ints, exemplars=_exemplars, **_common),
    st.builds(NumberDataPoint, as_int=_ints, **_common),
    st.builds(NumberDataPoint, as_double=_doubles, **_common),
    st.builds(NumberDataPoint, **_common),
)
_count = st.sampled_from([0, 0, 1, 2, 5, 2**64 - 1])
_histograms = st.sampled_from([[], [1.0], [1.0, 2.0]]).flatmap(
    lambda bounds: st.builds(
        HistogramDataPoint,
        count=_count,
        sum=_maybe_double,
        min=_maybe_double,
        max=_maybe_double,
        explicit_bounds=st.just(bounds),
        bucket_counts=st.lists(_count, min_size=len(bounds) + 1, max_size=len(bounds) + 1),
        exemplars=_exemplars,
        **_common,
    )
)
_buckets = st.builds(
    ExponentialHistogramDataPoint.Buckets,
    offset=st.one_of(st.integers(-5, 5), st.integers(-400, 400), st.sampled_from([-(2**31), 2**31 - 1])),
    bucket_counts=st.lists(_count, max_size=6),
)
_exponentials = st.builds(
    ExponentialHistogramDataPoint,
    count=_count,
    sum=_maybe_double,
    min=_maybe_double,
    max=_maybe_double,
    scale=st.integers(-2, 4),
    zero_count=_count,
    zero_threshold=st.sampled_from([0.0, 0.0, 0.5]),
    positive=st.one_of(st.none(), _buckets),
    negative=st.one_of(st.none(), _buckets),
    exemplars=_exemplars,
    **_common,
)
_summaries = st.builds(SummaryDataPoint, count=_count, **_common)
_temporality = st.sampled_from([DELTA, CUMULATIVE])
_names = st.sampled_from(["m", "m", "system.cpu", ""])
_metrics = st.one_of(
    st.builds(Metric, name=_names, gauge=st.builds(Gauge, data_points=st.lists(_numbers, max_size=6))),
    st.builds(
        Metric,
        name=_names,
        sum=st.builds(Sum, data_points=st.lists(_numbers, max_size=6), aggregation_temporality=_temporality),
    ),
    st.builds(
        Metric,
        name=_names,
        histogram=st.builds(
            Histogram, data_points=st.lists(_histograms, max_size=6), aggregation_temporality=_temporality
        ),
    ),
    st.builds(
        Metric,
        name=_names,
        exponential_histogram=st.builds(
            ExponentialHistogram,
            data_points=st.lists(_exponentials, max_size=6),
            aggregation_temporality=_temporality,
        ),
    ),
    st.builds(Metric, name=_names, summary=st.builds(Summary, data_points=st.lists(_summaries, max_size=3))),
)
_label_names = st.sampled_from(["user", "code", "env", "none"])
_values = st.sampled_from(["", "a", "b", "200"])
_aggregations = st.sampled_from([str(each) for each in Aggregation])
_operations = st.one_of(
    st.builds(
        Operation,
        action=st.just("delete_label"),
        label=_label_names,
        aggregation_type=st.one_of(st.just(""), _aggregations),
    ),
    st.builds(
        Operation,
        action=st.just("aggregate_labels"),
        label_set=st.lists(_label_names, max_size=2).map(tuple),
        aggregation_type=_aggregations,
    ),
    st.builds(
        Operation,
        action=st.just("aggregate_label_values"),
        label=_label_names,
        aggregated_values=st.lists(_values, max_size=2).map(tuple),
        new_value=_values,
        aggregation_type=_aggregations,
    ),
    st.builds(Operation, action=st.just("add_label"), new_label=_label_names, new_value=_values),
    st.builds(
        Operation,
        action=st.just("update_label"),
        label=_label_names,
        new_label=st.one_of(st.just(""), _label_names),
        value_actions=st.lists(st.builds(ValueAction, value=_values, new_value=_values), max_size=2).map(
            tuple
        ),
    ),
    st.builds(Operation, action=st.just("delete_label_value"), label=_label_names, label_value=_values),
    st.builds(Operation, action=st.just("toggle_scalar_data_type")),
    st.builds(
        Operation,
        action=st.just("experimental_scale_value"),
        experimental_scale=st.sampled_from([0.001, -2.5, 1e18]),
    ),
)
_transforms = st.builds(
    Transform,
    include=st.sampled_from(["m", "^m$", r"^(.*)\.cpu$", "."]),
    match_type=st.sampled_from(["", "regexp"]),
    experimental_match_labels=st.one_of(st.just({}), st.dictionaries(_label_names, _values, max_size=1)),
    action=st.just("update"),
    new_name=st.sampled_from(["", "", "m", "${1}.cpu", "$1"]),
    operations=st.lists(_operations, max_size=3).map(tuple),
)


def normalized(message: Any) -> list[str]:
    """Return the metrics that have points, as text with attributes in one order."""
    texts = []
    for resource in message.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                points = metrics_reference.points_of(metric)
                for point in points:
                    pairs = sorted(point.attributes, key=lambda pair: pair.key)
                    del point.attributes[:]
                    point.attributes.extend(pairs)
                if points:
                    texts.append(str(metric))
    return texts


def assert_equal_to_reference(harness: Harness, given_request: Any) -> None:
    """Compare the op with the oracle, and check that no point is lost without a count."""
    expected = metrics_reference.transform(given_request, harness.config)
    left = harness.run(given_request)
    assert normalized(expected) == normalized(left)
    n_before = sum(1 for _ in otlp.items(given_request))
    assert n_before == sum(1 for _ in otlp.items(left)) + sum(harness.dropped().values())


class TestAgainstReference:
    """The op and the oracle agree on everything."""

    @settings(
        max_examples=200,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(_metrics, max_size=3), st.lists(_transforms, min_size=1, max_size=2))
    def test_any_metric_and_any_transform(self, metrics: list[Metric], transforms: list[Transform]) -> None:
        """Generated metrics that collide often, under generated transforms."""
        assert_equal_to_reference(Harness(Config(transforms=tuple(transforms))), request(*metrics))

    @settings(
        max_examples=150,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(_metrics, _aggregations)
    def test_all_points_of_a_metric_become_one(self, metric: Metric, aggregation: str) -> None:
        """Without labels and times to tell them apart, everything that can be merged is."""
        for point in metrics_reference.points_of(metric):
            point.time_unix_nano = T1
        metric.name = "m"
        harness = transforming(Operation(action="aggregate_labels", aggregation_type=aggregation))
        assert_equal_to_reference(harness, request(metric))

    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(otlp.requests[Signal.METRICS])
    def test_any_request_survives_a_transform_that_does_not_match(self, whole: Any) -> None:
        """Not a byte changes."""
        data = whole.SerializeToString()
        left = transforming(DROP_USER, include="no such metric").run_bytes(data)
        assert left in (data, b"")

    def test_real_metrics(self) -> None:
        """On the hipstershop capture, dropping the pod's labels agrees with the oracle."""
        (message,) = corpus.messages("hipstershop-otelmetrics.zst")
        whole = otlp.decode(Signal.METRICS, message)
        del whole.resource_metrics[200:]
        operations = (
            Operation(action="delete_label", label="state"),
            Operation(action="delete_label", label="direction"),
        )
        transform = Transform(include=".", match_type="regexp", action="update", operations=operations)
        harness = Harness(Config(transforms=(transform,)))
        assert_equal_to_reference(harness, whole)
        assert harness.dropped()["aggregation"] > 0


def test_keys_that_an_action_does_not_use_are_told() -> None:
    """With their place; those that it uses are not."""
    config = Config(
        transforms=(
            Transform(
                include="m",
                action="update",
                aggregation_type="sum",
                operations=(
                    Operation(action="delete_label", label="a", aggregation_type="max", label_set=("b",)),
                    Operation(action="experimental_scale_value", experimental_scale=2.0, label="c"),
                ),
            ),
        )
    )
    assert {
        "transforms::0::aggregation_type": 'has no effect while "action" is update',
        "transforms::0::operations::0::label_set": 'has no effect while "action" is delete_label',
        "transforms::0::operations::1::label": 'has no effect while "action" is experimental_scale_value',
    } == dict(config.without_effect(Signal.METRICS))
