"""Rename metrics, change and remove labels, and merge the points that then coincide.

The Collector's `metricstransform` with action `update`, and one operation of ours: `delete_label` drops a
label and merges what has become one series, so that removing a label never leaves two points of one identity.
Stateless: within one metric of one request. Points of different times are never merged, so it is exact where
all series of a metric arrive in one request with one timestamp, as they do from one SDK. A metric without
points passes as it is.

How points are merged, where the Collector leaves a choice or is wrong:

- the start becomes the earliest; exemplars are kept; unknown fields are those of the first point;
- numbers: an int and a double give a double; an int sum beyond 64 bits too; count is 1 for a lone point;
- `delete_label` without an `aggregation_type` adds sums up, and of gauges keeps the last of the request: 1 degree and 5
  degrees are no 6. That a gauge's points have met is warned of, since the others are lost;
- explicit histograms merge when their bounds are equal, else they stay apart and are counted;
- exponential histograms merge whatever their scale and offset, when their zero thresholds are equal;
- sum, min and max of a histogram stay only when every merged point with a count has them;
- a point without a recorded value vanishes beside one that has a value;
- summaries cannot be merged: aggregating operations leave them as they are, labels included, and are counted where
  they would have changed a label;
- `toggle_scalar_data_type` is for numbers, `experimental_scale_value` for all but summaries, and for histograms only by
  a factor above 0; other metrics are left and counted.

Source: OpenTelemetry Collector contrib, metricstransform processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collector import __version__
from collector.component import Factory, Settings, Stability
from collector.config.fields import option, section
from collector.ids import Signal
from collector.native import metrics_transform as native
from collector.native import pattern as native_pattern
from collector.native.metrics_transform import Action, Aggregation, Counter
from collector.telemetry.instruments import DROPPED_ITEMS, GIVEN_UP_SEARCHES, Instrument, Sample
from collector.telemetry.watch import GIVEN_UP, Watch

APART = Instrument(
    "spansieve_processor_unmerged_points",
    "counter",
    "Data points of one identity that stayed apart because their buckets differ.",
)
SKIPPED = Instrument(
    "spansieve_processor_skipped_operations",
    "counter",
    "Operations that were not done on a metric that they would have changed because its type does not allow them.",
)

_SUPERSEDED = (
    "points of a gauge have become one series, and only the last of a request stays; "
    "an aggregation_type of delete_label merges them otherwise"
)

MATCH_TYPES = ("strict", "regexp")
SUBMATCH_CASES = ("lower", "upper")
AGGREGATIONS = tuple(aggregation for aggregation in Aggregation if aggregation)
ACTIONS = ("insert", "update", "combine", "group")
UPDATE = "update"

# What each action cannot do without, in the order in which it is asked for.
_REQUIRED = {
    Action.UPDATE_LABEL: ("label",),
    Action.ADD_LABEL: ("new_label", "new_value"),
    Action.DELETE_LABEL: ("label",),
    Action.DELETE_LABEL_VALUE: ("label",),
    Action.AGGREGATE_LABELS: ("aggregation_type",),
    Action.AGGREGATE_LABEL_VALUES: ("label", "aggregation_type"),
    Action.SCALE_VALUE: ("experimental_scale",),
}

# What each action can use.
_USED = {
    Action.ADD_LABEL: ("new_label", "new_value"),
    Action.UPDATE_LABEL: ("label", "new_label", "value_actions"),
    Action.DELETE_LABEL: ("label", "aggregation_type"),
    Action.DELETE_LABEL_VALUE: ("label", "label_value"),
    Action.AGGREGATE_LABELS: ("label_set", "aggregation_type"),
    Action.AGGREGATE_LABEL_VALUES: ("label", "aggregated_values", "new_value", "aggregation_type"),
    Action.TOGGLE_SCALAR_TYPE: (),
    Action.SCALE_VALUE: ("experimental_scale",),
}


@section
class ValueAction:
    """One value of a label and what it becomes."""

    value: str = option("", doc="The value to replace.")
    new_value: str = option("", doc="What it becomes; `{{version}}` stands for the collector's version.")


@section
class Operation:
    """Keys of one entry of `operations`."""

    action: str = option("", doc=f"One of {', '.join(Action)}; `delete_label` is ours.")
    label: str = option("", doc="The label that the operation works on.")
    new_label: str = option("", doc="The label to add, or the new name of `label`.")
    label_value: str = option("", doc="`delete_label_value`: points whose label has this value are dropped.")
    new_value: str = option("", doc="The value to set; `{{version}}` stands for the collector's version.")
    value_actions: tuple[ValueAction, ...] = option((), doc="`update_label`: values to replace.")
    label_set: tuple[str, ...] = option((), doc="`aggregate_labels`: the labels that stay.")
    aggregated_values: tuple[str, ...] = option(
        (), doc="`aggregate_label_values`: values that become `new_value`."
    )
    aggregation_type: str = option(
        "",
        doc=f"How numbers of one time are merged: {', '.join(AGGREGATIONS)}; `last`, of the request, is ours. "
        "Required by `aggregate_labels` and `aggregate_label_values`; `delete_label` without it adds sums up, and of "
        "gauges keeps the last, with a warning.",
    )
    experimental_scale: float = option(0.0, doc="`experimental_scale_value`: the factor.")


@section
class Transform:
    """Keys of one entry of `transforms`."""

    include: str = option("", doc="Name of the metrics to transform, or a regular expression to find in it.")
    match_type: str = option("", doc="`strict` (the default) or `regexp`.")
    experimental_match_labels: dict[str, str] = option(
        factory=dict,
        doc="Labels a point must have, as values or regular expressions; absent ones read as empty. A search that "
        "would take too long in a long value is given up and counted; the point then matches where an operation takes "
        "labels or points away.",
    )
    action: str = option("", doc="`update`; `insert`, `combine` and `group` are not supported yet.")
    new_name: str = option(
        "", doc="New name of the metric; with `regexp`, `$1` and `${name}` are groups of `include`."
    )
    aggregation_type: str = option("", doc="`combine`: how values are merged.")
    submatch_case: str = option("", doc="`combine`: `lower` or `upper` for labels made of groups.")
    group_resource_labels: dict[str, str] = option(
        factory=dict, doc="`group`: attributes of the new resource."
    )
    operations: tuple[Operation, ...] = option((), doc="What to do with the metrics, in order.")

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield what the Collector would refuse to run, in its words, and what is not supported yet."""
        if not self.include:
            yield "include", 'missing required field "include"'
        if self.match_type and self.match_type not in MATCH_TYPES:
            yield "match_type", _must_be_in("match_type", MATCH_TYPES)
        if self.match_type == "regexp":
            yield from self._pattern_problems()
        if self.action not in ACTIONS:
            yield "action", _must_be_in("action", ACTIONS)
        elif self.action != UPDATE:
            yield "action", f'"{self.action}" is not supported yet; supported: "{UPDATE}"'
        if self.aggregation_type and self.aggregation_type not in AGGREGATIONS:
            yield "aggregation_type", _must_be_in("aggregation_type", AGGREGATIONS)
        if self.submatch_case and self.submatch_case not in SUBMATCH_CASES:
            yield "submatch_case", _must_be_in("submatch_case", SUBMATCH_CASES)
        for index, operation in enumerate(self.operations):
            for field, message in _operation_problems(operation):
                yield f"operations::{index}::{field}", f"operation {index + 1}: {message}"

    def _pattern_problems(self) -> Iterator[tuple[str, str]]:
        patterns = {"include": self.include}
        patterns |= {
            f"experimental_match_labels::{key}": value
            for key, value in self.experimental_match_labels.items()
        }
        for field, pattern in patterns.items():
            fault = native_pattern.check(pattern).fault
            if fault:
                yield field, f'"{field.partition("::")[0]}", error parsing regexp {pattern!r}: {fault}'


@section
class Config:
    """Keys of `metrics_transform`."""

    transforms: tuple[Transform, ...] = option((), doc="Applied in order to every metric.")

    def without_effect(self, _signal: Signal) -> Iterator[tuple[str, str]]:
        """Yield the keys that the actions do not use."""
        for index, transform in enumerate(self.transforms):
            for field in ("aggregation_type", "submatch_case", "group_resource_labels"):
                if getattr(transform, field):
                    yield (
                        f"transforms::{index}::{field}",
                        f'has no effect while "action" is {transform.action}',
                    )
            for number, operation in enumerate(transform.operations):
                for field in _unused(operation):
                    place = f"transforms::{index}::operations::{number}::{field}"
                    yield place, f'has no effect while "action" is {operation.action}'


def _must_be_in(field: str, values: Sequence[str]) -> str:
    quoted = " ".join(f'"{value}"' for value in values)
    return f'"{field}" must be in [{quoted}]'


def _operation_problems(operation: Operation) -> Iterator[tuple[str, str]]:
    if operation.action not in tuple(Action):
        yield "action", _must_be_in("action", tuple(Action))
        return
    for field in _REQUIRED.get(Action(operation.action), ()):
        if not getattr(operation, field):
            yield field, f'missing required field "{field}" while "action" is {operation.action}'
    if operation.aggregation_type and operation.aggregation_type not in AGGREGATIONS:
        yield "aggregation_type", _must_be_in("aggregation_type", AGGREGATIONS)


def _unused(operation: Operation) -> Iterator[str]:
    used = ("action", *_USED[Action(operation.action)])
    for field in Operation.__annotations__:
        if field not in used and getattr(operation, field):
            yield field


def _with_version(text: str) -> str:
    return text.replace("{{version}}", __version__)


def _native_operation(operation: Operation) -> native.Operation:
    action = Action(operation.action)
    texts: Sequence[str] = ()
    if action is Action.UPDATE_LABEL:
        texts = [
            text for each in operation.value_actions for text in (each.value, _with_version(each.new_value))
        ]
    elif action is Action.DELETE_LABEL_VALUE:
        texts = [operation.label_value]
    elif action is Action.AGGREGATE_LABELS:
        texts = operation.label_set
    elif action is Action.AGGREGATE_LABEL_VALUES:
        texts = operation.aggregated_values
    return native.Operation(
        action=action,
        aggregation=Aggregation(operation.aggregation_type),
        scale=operation.experimental_scale,
        label=operation.label,
        new_label=operation.new_label,
        new_value=_with_version(operation.new_value),
        texts=texts,
    )


def _native_transform(transform: Transform) -> native.Transform:
    return native.Transform(
        include=transform.include,
        is_regexp=transform.match_type == "regexp",
        new_name=transform.new_name,
        match_labels=tuple(transform.experimental_match_labels.items()),
        operations=[_native_operation(operation) for operation in transform.operations],
    )


class MetricsTransform:
    """The processor: all work is in its op."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._settings = settings
        self._watch: Watch | None = None
        self.op = native.metrics_transform([_native_transform(transform) for transform in config.transforms])

    def start(self) -> None:
        """Watch from now on whether points are lost that nobody said how to merge, or searches given up."""
        counters = {
            _SUPERSEDED: lambda: self.op.counter(Counter.SUPERSEDED),
            GIVEN_UP: lambda: self.op.counter(Counter.UNDECIDED),
        }
        self._watch = Watch(self._settings.log, self._settings.loop.every, counters)

    def shutdown(self, deadline_s: float) -> None:
        """Watch no more."""
        if self._watch is not None:
            self._watch.stop()

    def samples(self) -> Iterable[Sample]:
        """Return the points that went, by rule, those that could not be merged, and operations not done."""
        own = ("processor", str(self._settings.id))
        signal = ("otel_signal", Signal.METRICS.value)
        for rule, counter in (("delete_label_value", Counter.DELETED), ("aggregation", Counter.MERGED)):
            yield Sample(DROPPED_ITEMS, (own, ("rule", rule), signal), self.op.counter(counter))
        yield Sample(APART, (own, signal), self.op.counter(Counter.APART))
        yield Sample(SKIPPED, (own, signal), self.op.counter(Counter.SKIPPED))
        yield Sample(GIVEN_UP_SEARCHES, (own, signal), self.op.counter(Counter.UNDECIDED))


factory = Factory(
    config=Config,
    create=MetricsTransform,
    signals=frozenset({Signal.METRICS}),
    stability=Stability.BETA,
    aliases=("metricstransform",),
    example="transforms:\n"
    "  - include: http.server.duration\n"
    "    action: update\n"
    "    operations: [{action: delete_label, label: user.id}]",
)
