"""`metrics_transform`: every configuration that we accept, on every input, leaves what the Collector leaves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest

from collector.ids import Signal
from tests.integration.harness import wait_for
from tests.interop import differences, metric_inputs
from tests.interop.harness import Pair, Ports, base, normalise, run_both, to_sink
from tests.interop.test_sampler import send
from tests.support import otlp
from tests.support.metrics_reference import points_of

AGGREGATIONS = ("sum", "mean", "min", "max", "median", "count")
Keys = dict[str, Any]


def _one(**operation: Any) -> Keys:
    return {"include": "m", "action": "update", "operations": [operation]}


def _renames() -> Iterator[tuple[str, Keys]]:
    yield "rename", {"include": "m", "action": "update", "new_name": "n"}
    for include in ("m", "^m$", r"^(.*)\.cpu\.(?P<what>.*)$", "(m)(x?)", ".", "", "\u00e9", "(?i)^m$"):
        for new_name in (
            "n",
            "$1_total",
            "${1}_total",
            "${what}.$1",
            "$$",
            "$2",
            "$9",
            "a${",
            "${",
            "$-",
            "$",
        ):
            if include:
                yield (
                    f"rename {include!r} to {new_name!r}",
                    {
                        "include": include.replace("$", "$$"),
                        "match_type": "regexp",
                        "action": "update",
                        "new_name": new_name.replace("$", "$$"),
                    },
                )
    for labels in ({"user": "a"}, {"user": ""}, {"none": ""}, {"user": "a", "code": "200"}):
        yield (
            f"rename where {labels}",
            {"include": "m", "action": "update", "new_name": "n", "experimental_match_labels": labels},
        )
    for labels in ({"user": "^a$"}, {"user": "."}, {"user": "^$"}, {"code": "[25]00"}, {"user": "^(a|b)?$"}):
        yield (
            f"rename where regexp {labels}",
            {
                "include": "m",
                "match_type": "regexp",
                "action": "update",
                "new_name": "n",
                "experimental_match_labels": {
                    label: pattern.replace("$", "$$") for label, pattern in labels.items()
                },
            },
        )


def _labels() -> Iterator[tuple[str, Keys]]:
    yield "add a label", _one(action="add_label", new_label="new", new_value="x")
    yield "add a label that is there", _one(action="add_label", new_label="user", new_value="x")
    yield "rename a label", _one(action="update_label", label="user", new_label="person")
    yield "rename a label to another", _one(action="update_label", label="user", new_label="code")
    yield "rename a label to itself", _one(action="update_label", label="user", new_label="user")
    yield "rename no label", _one(action="update_label", label="none", new_label="person")
    for values in (
        {"a": "x"},
        {"a": "b", "b": "a"},
        {"": "empty"},
        {"a": ""},
        {"7": "seven", "true": "yes"},
    ):
        changes = [{"value": value, "new_value": new} for value, new in values.items()]
        yield f"change values {values}", _one(action="update_label", label="user", value_actions=changes)
        yield (
            f"rename and change values {values}",
            _one(action="update_label", label="user", new_label="person", value_actions=changes),
        )
    for value in ("a", "", "7", "none"):
        yield (
            f"delete points of {value!r}",
            _one(action="delete_label_value", label="user", label_value=value),
        )
    yield "delete points of a label", _one(action="delete_label_value", label="env", label_value="test")


def _aggregations() -> Iterator[tuple[str, Keys]]:
    for aggregation in AGGREGATIONS:
        for labels in ([], ["user"], ["code"], ["user", "code", "env"], ["none"]):
            yield (
                f"aggregate to {labels} by {aggregation}",
                _one(action="aggregate_labels", label_set=labels, aggregation_type=aggregation),
            )
        yield (
            f"aggregate values by {aggregation}",
            _one(
                action="aggregate_label_values",
                label="user",
                aggregated_values=["a", "b"],
                new_value="both",
                aggregation_type=aggregation,
            ),
        )
    for values in (["a"], [""], ["7", "true"], []):
        yield (
            f"aggregate values {values}",
            _one(
                action="aggregate_label_values",
                label="user",
                aggregated_values=values,
                new_value="other",
                aggregation_type="sum",
            ),
        )


def _numbers() -> Iterator[tuple[str, Keys]]:
    yield "toggle", _one(action="toggle_scalar_data_type")
    for scale in (1000.0, 0.001, 2.0, -1.0):
        yield f"scale by {scale}", _one(action="experimental_scale_value", experimental_scale=scale)


def _several() -> Iterator[tuple[str, list[Keys]]]:
    where = {"include": "m", "action": "update", "experimental_match_labels": {"user": "a"}}
    for name, operation in (
        ("add_label", {"new_label": "new", "new_value": "x"}),
        ("update_label", {"label": "code", "new_label": "status"}),
        ("delete_label_value", {"label": "code", "label_value": "200"}),
        ("aggregate_labels", {"label_set": ["code"], "aggregation_type": "sum"}),
        ("toggle_scalar_data_type", {}),
    ):
        yield f"{name} where a point matches", [{**where, "operations": [{"action": name, **operation}]}]
    rename = {"action": "update_label", "label": "user", "new_label": "person"}
    add = {"action": "add_label", "new_label": "user", "new_value": "nobody"}
    merge = {"action": "aggregate_labels", "label_set": ["person"], "aggregation_type": "sum"}
    toggle = {"action": "toggle_scalar_data_type"}
    yield (
        "operations in their order",
        [{"include": "m", "action": "update", "operations": [rename, add, toggle, merge]}],
    )
    yield (
        "transforms in their order",
        [
            {"include": "m", "action": "update", "new_name": "n"},
            {"include": "m", "action": "update", "new_name": "never"},
            {"include": "n", "action": "update", "operations": [rename]},
            {"include": "^n$$", "match_type": "regexp", "action": "update", "new_name": "o"},
        ],
    )
    yield "nothing matches", [{"include": "nothing", "action": "update", "new_name": "n"}]
    yield "no transforms", []


CONFIGURATIONS: dict[str, list[Keys]] = {
    **{
        name: [transform]
        for group in (_renames(), _labels(), _aggregations(), _numbers())
        for name, transform in group
    },
    **dict(_several()),
}


def _config(ports: Ports) -> dict[str, Any]:
    """Return a pipeline for each configuration."""
    numbers = dict(enumerate(CONFIGURATIONS.values()))
    return base(
        ports,
        processors={f"metricstransform/{n}": {"transforms": transforms} for n, transforms in numbers.items()},
        exporters={f"otlp_http/{n}": to_sink(ports, f"/{n}") for n in numbers},
        pipelines={
            f"metrics/{n}": {
                "receivers": ["otlp"],
                "processors": [f"metricstransform/{n}"],
                "exporters": [f"otlp_http/{n}"],
            }
            for n in numbers
        },
    )


@dataclasses.dataclass(frozen=True)
class Left:
    """What a configuration leaves of an input."""

    metrics: list[Any]

    def __str__(self) -> str:
        return f"{sum(len(points_of(metric)) for metric in self.metrics)} points"

    @property
    def content(self) -> list[bytes]:
        """The metrics, byte by byte the same if they mean the same: neither points nor labels have an order."""
        return [_canonical(metric) for metric in self.metrics]


def _canonical(metric: Any) -> bytes:
    normalise(metric)
    points = points_of(metric)
    if points:
        for point in points:
            point.attributes.sort(key=lambda pair: pair.key)
            for field, value in point.ListFields():
                if isinstance(value, float) and math.isnan(value):
                    setattr(point, field.name, math.nan)
        ordered = sorted(points, key=lambda point: point.SerializeToString(deterministic=True))
        copies = [type(point).FromString(point.SerializeToString()) for point in ordered]
        del points[:]
        points.extend(copies)
    return metric.SerializeToString(deterministic=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, Left]]]:
    """What each configuration leaves of each input: by configuration, side and input."""
    with run_both(_config, tmp_path_factory.mktemp("transforms")) as pair:
        pair.each(lambda process: send(process, Signal.METRICS, [metric_inputs.request()]))
        for side in pair.processes:
            wait_for(lambda side=side: _arrived(pair, side))
        return {
            name: {side: _by_input(bodies) for side, bodies in pair.received(f"/{n}/v1/metrics").items()}
            for n, name in enumerate(CONFIGURATIONS)
        }


def _arrived(pair: Pair, side: str) -> bool:
    return all(pair.sinks[side].received(f"/{n}/v1/metrics") for n in range(len(CONFIGURATIONS)))


def _by_input(bodies: list[bytes]) -> dict[str, Left]:
    found = {}
    for body in bodies:
        for resource in otlp.decode(Signal.METRICS, body).resource_metrics:
            name = resource.resource.attributes[0].value.string_value
            found[name] = Left([metric for scope in resource.scope_metrics for metric in scope.metrics])
    return found


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_transform_leaves_the_same(
    configuration: str, results: dict[str, dict[str, dict[str, Left]]]
) -> None:
    """Names, labels, points and values agree, or differ as is listed."""
    left = results[configuration]
    problems = []
    for name, _ in metric_inputs.inputs():
        outcomes = {side: inputs.get(name, Left([])) for side, inputs in left.items()}
        problems.append(differences.find(f"transform: {configuration}: {name}", outcomes))
    found = [problem for problem in problems if problem]
    assert not found, "not in differences.md:\n" + "\n".join(found)


@pytest.mark.usefixtures("whole_module")
def test_every_listed_difference_is_still_there() -> None:
    """A row of differences.md about transforms that no case has shown is out of date."""
    assert [] == differences.out_of_date("transform: ")
