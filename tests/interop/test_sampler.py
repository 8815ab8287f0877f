"""Every decision, tracestate and attribute of `probabilistic_sampler` is the Collector's, over 10,000 traces each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from collector.ids import Signal
from tests.conformance.bodies import GRPC_PATHS
from tests.interop import inputs
from tests.interop.harness import Pair, Ports, Process, base, items_by_name, run_both, to_sink
from tests.support import otlp

PERCENTAGES = (0, 0.03, 1, 5, 10, 25, 33.333332, 50, 90, 99.9, 100)
SAMPLED = "^otelcol_processor_probabilistic_sampler_count_"

Keys = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Table:
    """Samplers that are fed the same traffic, a pipeline each, so that one process of a kind tries them all."""

    signal: Signal
    samplers: list[Keys]

    def config(self, ports: Ports) -> dict[str, Any]:
        """Return the configuration of all pipelines."""
        numbers = range(len(self.samplers))
        return base(
            ports,
            processors={f"probabilistic_sampler/{number}": self.samplers[number] for number in numbers},
            exporters={f"otlp_http/{number}": to_sink(ports, f"/{number}") for number in numbers},
            pipelines={
                f"{self.signal.value}/{number}": {
                    "receivers": ["otlp"],
                    "processors": [f"probabilistic_sampler/{number}"],
                    "exporters": [f"otlp_http/{number}"],
                }
                for number in numbers
            },
        )


def span_samplers(mode: str) -> Iterator[Keys]:
    """Yield the samplers of a mode: each percentage with each seed or precision, fail_closed both ways."""
    for percentage in PERCENTAGES:
        keys = {"mode": mode, "sampling_percentage": percentage}
        if mode == "hash_seed":
            yield {**keys, "hash_seed": 0}
            yield {**keys, "hash_seed": 22, "fail_closed": False}
            yield {**keys, "hash_seed": 2**32 - 1, "sampling_precision": 14}
        else:
            yield {**keys}
            yield {**keys, "sampling_precision": 1, "fail_closed": False}
            yield {**keys, "sampling_precision": 14, "hash_seed": 22}
            yield {**keys, "sampling_precision": 3, "fail_closed": False}


def record_samplers(mode: str) -> Iterator[Keys]:
    """Yield the samplers of log records: what is hashed, and which attribute has a percentage of its own."""
    for percentage in PERCENTAGES:
        keys = {"mode": mode, "sampling_percentage": percentage}
        yield {**keys, "sampling_priority": "priority"}
        yield {**keys, "fail_closed": False, "sampling_precision": 14}
        if mode == "hash_seed":
            yield {**keys, "attribute_source": "record", "from_attribute": "user", "hash_seed": 22}
            yield {
                **keys,
                "attribute_source": "record",
                "from_attribute": "user",
                "sampling_priority": "priority",
                "fail_closed": False,
            }
            yield {**keys, "from_attribute": "user", "sampling_priority": "priority", "hash_seed": 7}


def send(
    process: Process, signal: Signal, requests: list[bytes], metadata: Sequence[tuple[str, str]] = ()
) -> None:
    """Send requests by gRPC, one after the other."""
    host, port = process.grpc
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        export = channel.unary_unary(GRPC_PATHS[signal])
        for request in requests:
            export(request, timeout=120, wait_for_ready=True, metadata=metadata)


def compare(pair: Pair, table: Table, requests: list[bytes]) -> None:
    """Feed both, and compare what each sampler let through, what it wrote, and what it counted."""
    pair.each(lambda process: send(process, table.signal, requests))
    counts = pair.each(lambda process: _by_policy(process.samples(SAMPLED)))
    pair.drain()
    problems: list[str] = []
    for number, sampler in enumerate(table.samplers):
        path = f"/{number}/v1/{table.signal.value}"
        received = pair.received(path)
        theirs, ours = (items_by_name(table.signal, received[side]) for side in ("collector", "spansieve"))
        different = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
        if different:
            problems.append(_describe(table, requests, sampler, different, theirs, ours))
    if counts["collector"] != counts["spansieve"]:
        problems.append(f"counted: {counts}")
    assert not problems, "\n".join(problems)


def _by_policy(samples: dict[Any, float]) -> dict[tuple[str, str, str], float]:
    """Return the decisions of all samplers together: the Collector does not say which sampler they are of."""
    counts: dict[tuple[str, str, str], float] = {}
    for (name, pairs), count in samples.items():
        labels = dict(pairs)
        key = name, labels["policy"], labels["sampled"]
        counts[key] = counts.get(key, 0) + count
    return counts


def _describe(
    table: Table, requests: list[bytes], sampler: Keys, different: list[str], theirs: Any, ours: Any
) -> str:
    sent = items_by_name(table.signal, requests)
    item_type = type(next(otlp.items(otlp.decode(table.signal, requests[0]))))
    lines = [
        f"{sampler}: {len(different)} items differ, the Collector kept {len(theirs)}, spansieve {len(ours)}"
    ]
    for name in different[:4]:
        for who, items in (("sent", sent), ("collector", theirs), ("spansieve", ours)):
            text = str(item_type.FromString(items[name])).replace("\n", " ") if name in items else "dropped"
            lines.append(f"  {who}: {text}")
    return "\n".join(lines)


@pytest.mark.parametrize("kind", ["plain", "marked"])
@pytest.mark.parametrize("mode", ["hash_seed", "proportional", "equalizing"])
def test_spans_are_decided_and_marked_alike(mode: str, kind: str, tmp_path: Path) -> None:
    """No decision, tracestate, attribute or counter differs, whatever a trace says about its sampling."""
    spans = inputs.plain_spans(1) if kind == "plain" else inputs.marked_spans(2)
    table = Table(Signal.TRACES, list(span_samplers(mode)))
    with run_both(table.config, tmp_path) as pair:
        compare(pair, table, inputs.requests(spans, otlp.traces))


@pytest.mark.parametrize("kind", ["plain", "marked"])
@pytest.mark.parametrize("mode", ["hash_seed", "proportional", "equalizing"])
def test_log_records_are_decided_and_marked_alike(mode: str, kind: str, tmp_path: Path) -> None:
    """No decision, attribute or counter differs, whatever is hashed and whatever a record says about itself."""
    records = inputs.records(3, kind, marked=kind == "marked")
    table = Table(Signal.LOGS, list(record_samplers(mode)))
    with run_both(table.config, tmp_path) as pair:
        compare(pair, table, inputs.requests(records, otlp.logs))
