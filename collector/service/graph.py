"""From the pipelines of a configuration to what must be built, in which order; pure.

Instances as in the Collector: one exporter for each signal, one processor for each pipeline, one receiver for all
signals, one connector for each pair of signals that it joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from collector.errors import ConfigError, Problem
from collector.ids import ComponentID, Kind, Signal

if TYPE_CHECKING:
    from collector.config.document import Document, PipelineID


class Node(NamedTuple):
    """One instance of a component.

    Attributes:
        signal: what it takes; None for receivers and extensions.
        pipeline: of a processor, the pipeline that it belongs to.
        output: of a connector, the signal that it gives.
    """

    kind: Kind
    id: ComponentID
    signal: Signal | None = None
    pipeline: PipelineID | None = None
    output: Signal | None = None


class PipelinePlan(NamedTuple):
    """What one pipeline is made of, in the order in which requests pass."""

    id: PipelineID
    processors: tuple[Node, ...]
    connectors: tuple[Node, ...]
    exporters: tuple[Node, ...]


class Graph(NamedTuple):
    """All that the pipelines of a configuration need.

    Attributes:
        levels: pipelines, front first: a pipeline feeds, through connectors, only pipelines of later levels.
        receivers: the pipelines that each receiver feeds, by signal.
        connectors: the pipelines that each connector feeds.
    """

    levels: tuple[tuple[PipelinePlan, ...], ...]
    receivers: Mapping[Node, Mapping[Signal, tuple[PipelineID, ...]]]
    connectors: Mapping[Node, tuple[PipelineID, ...]]


def plan(document: Document) -> Graph:
    """Return the graph of the pipelines of document, whose references are known to be good.

    Raises:
        ConfigError: a connector joins no two pipelines, or pipelines feed themselves.
    """
    pipelines = document.service.pipelines
    connectors: dict[Node, tuple[PipelineID, ...]] = {}
    problems: list[Problem] = []
    for id in document.connectors:
        _connect(document, id, connectors, problems)
    if problems:
        raise ConfigError(problems)
    plans = {id: _plan_pipeline(document, id, connectors) for id in pipelines}
    return Graph(_levels(plans, connectors), _receivers(document), connectors)


def _connect(
    document: Document,
    id: ComponentID,
    connectors: dict[Node, tuple[PipelineID, ...]],
    problems: list[Problem],
) -> None:
    pipelines = document.service.pipelines
    connects = document.connectors[id].factory.connects
    fronts = [pipeline for pipeline, parts in pipelines.items() if id in parts.exporters]
    backs = [pipeline for pipeline, parts in pipelines.items() if id in parts.receivers]
    for front in fronts:
        if not any((front.signal, back.signal) in connects for back in backs):
            problems.append(
                Problem(
                    f"connectors::{id}",
                    f'connector "{id}" used as exporter in [{front}] pipeline but not used in any supported '
                    "receiver pipeline",
                )
            )
    for back in backs:
        if not any((front.signal, back.signal) in connects for front in fronts):
            problems.append(
                Problem(
                    f"connectors::{id}",
                    f'connector "{id}" used as receiver in [{back}] pipeline but not used in any supported '
                    "exporter pipeline",
                )
            )
    for taken, given in sorted(connects, key=lambda pair: (pair[0].number, pair[1].number)):
        behind = tuple(back for back in backs if back.signal is given)
        if behind and any(front.signal is taken for front in fronts):
            connectors[Node(Kind.CONNECTOR, id, taken, output=given)] = behind


def _plan_pipeline(document: Document, id: PipelineID, connectors: Iterable[Node]) -> PipelinePlan:
    parts = document.service.pipelines[id]
    signal = id.signal
    outputs = dict.fromkeys(parts.exporters)
    return PipelinePlan(
        id,
        tuple(Node(Kind.PROCESSOR, processor, signal, id) for processor in parts.processors),
        tuple(node for node in connectors if node.id in outputs and node.signal is signal),
        tuple(Node(Kind.EXPORTER, output, signal) for output in outputs if output not in document.connectors),
    )


def _receivers(document: Document) -> dict[Node, dict[Signal, tuple[PipelineID, ...]]]:
    receivers: dict[Node, dict[Signal, tuple[PipelineID, ...]]] = {}
    for pipeline, parts in document.service.pipelines.items():
        for id in dict.fromkeys(parts.receivers):
            if id not in document.connectors:
                routes = receivers.setdefault(Node(Kind.RECEIVER, id), {})
                routes[pipeline.signal] = (*routes.get(pipeline.signal, ()), pipeline)
    return receivers


def _levels(
    plans: Mapping[PipelineID, PipelinePlan], connectors: Mapping[Node, tuple[PipelineID, ...]]
) -> tuple[tuple[PipelinePlan, ...], ...]:
    behind = {
        id: {back for node in parts.connectors for back in connectors[node]} for id, parts in plans.items()
    }
    left = dict(plans)
    levels: list[tuple[PipelinePlan, ...]] = []
    while left:
        fed = {back for id in left for back in behind[id]}
        level = tuple(parts for id, parts in left.items() if id not in fed)
        if not level:
            raise ConfigError([Problem("service::pipelines", _describe_cycle(left, connectors))])
        levels.append(level)
        for parts in level:
            del left[parts.id]
    return tuple(levels)


def _describe_cycle(
    left: Mapping[PipelineID, PipelinePlan], connectors: Mapping[Node, tuple[PipelineID, ...]]
) -> str:
    # Each pipeline that is left is fed by another one: walking to the front must come round.
    feeders = {
        back: (front, node)
        for front, parts in left.items()
        for node in parts.connectors
        for back in connectors[node]
    }
    id = next(iter(left))
    seen: list[PipelineID] = []
    while id not in seen:
        seen.append(id)
        id = feeders[id][0]
    cycle = seen[seen.index(id) :]
    words = [f'pipeline "{id}"']
    for back in cycle:
        front, node = feeders[back]
        words[:0] = [f'pipeline "{front}"', f'connector "{node.id}"']
    return "cycle detected: " + " -> ".join(words)
