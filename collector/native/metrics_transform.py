"""The metricstransform op: its configuration as plain values, and its counters."""

from __future__ import annotations

from collections.abc import Sequence

from collector.lean import Any, IntEnum, NamedTuple, StrEnum
from collector.native.errors import new_error
from collector.native.library import ffi, lib
from collector.native.ops import Op


class Counter(IntEnum):
    """What `Op.counter` counts; `spansieve.h` says what each is."""

    DELETED = lib.SS_METRICS_TRANSFORM_DELETED
    MERGED = lib.SS_METRICS_TRANSFORM_MERGED
    APART = lib.SS_METRICS_TRANSFORM_APART
    SKIPPED = lib.SS_METRICS_TRANSFORM_SKIPPED
    SUPERSEDED = lib.SS_METRICS_TRANSFORM_SUPERSEDED
    UNDECIDED = lib.SS_METRICS_TRANSFORM_UNDECIDED


class Aggregation(StrEnum):
    """How values of points that have become one are put together: ss_aggregation by name."""

    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    MEDIAN = "median"
    COUNT = "count"
    LAST = "last"
    DEFAULT = ""


class Action(StrEnum):
    """What an operation does: ss_metric_action by name."""

    ADD_LABEL = "add_label"
    UPDATE_LABEL = "update_label"
    DELETE_LABEL = "delete_label"
    DELETE_LABEL_VALUE = "delete_label_value"
    AGGREGATE_LABELS = "aggregate_labels"
    AGGREGATE_LABEL_VALUES = "aggregate_label_values"
    TOGGLE_SCALAR_TYPE = "toggle_scalar_data_type"
    SCALE_VALUE = "experimental_scale_value"


class Operation(NamedTuple):
    """One operation; texts is what `ss_metric_operation` says of the action."""

    action: Action
    aggregation: Aggregation = Aggregation.DEFAULT
    scale: float = 1.0
    label: str = ""
    new_label: str = ""
    new_value: str = ""
    texts: Sequence[str] = ()


class Transform(NamedTuple):
    """Which metrics and points, and what happens to them; an empty new_name keeps the name."""

    include: str
    is_regexp: bool
    new_name: str
    match_labels: Sequence[tuple[str, str]]
    operations: Sequence[Operation]


class _Memory:
    # What the native configuration points to, alive until the op has copied it.

    def __init__(self) -> None:
        self._owned: list[Any] = []

    def keep(self, value: Any) -> Any:
        self._owned.append(value)
        return value

    def text(self, value: str) -> Any:
        return self.keep(ffi.new("char[]", value.encode()))

    def texts(self, values: Sequence[str]) -> Any:
        return self.keep(ffi.new("const char *[]", [self.text(value) for value in values]))

    def operation(self, operation: Operation) -> dict[str, Any]:
        return {
            "action": getattr(lib, f"SS_METRIC_ACTION_{operation.action.name}"),
            "aggregation": getattr(lib, f"SS_AGGREGATION_{operation.aggregation.name}"),
            "scale": operation.scale,
            "label": self.text(operation.label),
            "new_label": self.text(operation.new_label),
            "new_value": self.text(operation.new_value),
            "texts": self.texts(operation.texts),
            "n_texts": len(operation.texts),
        }

    def transform(self, transform: Transform) -> dict[str, Any]:
        operations = [self.operation(operation) for operation in transform.operations]
        labels = [text for pair in transform.match_labels for text in pair]
        return {
            "include": self.text(transform.include),
            "is_regexp": transform.is_regexp,
            "new_name": self.text(transform.new_name),
            "match_labels": self.texts(labels),
            "n_match_labels": len(labels),
            "operations": self.keep(ffi.new("ss_metric_operation[]", operations)),
            "n_operations": len(operations),
        }


def metrics_transform(transforms: Sequence[Transform]) -> Op:
    """Return the op that applies transforms in order."""
    memory = _Memory()
    array = ffi.new("ss_metric_transform[]", [memory.transform(transform) for transform in transforms])
    config = ffi.new("ss_metrics_transform_config *", {"transforms": array, "n_transforms": len(transforms)})
    error = new_error()
    return Op(lib.ss_metrics_transform_new(config, error), error, "metrics_transform")
