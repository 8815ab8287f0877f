"""From the pipelines of a configuration to what must be built, in which order; pure.

Instances as in the Collector: one exporter for each signal, one processor for each pipeline, one receiver for all
signals, one connector for each pair of signals that it joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collector.config.pipelines import edges
from collector.ids import ComponentID, Kind, Signal
from collector.lean import TYPE_CHECKING, NamedTuple

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
    """Return the graph of the pipelines of document, which was checked: references are good, nothing goes round."""
    connectors = _connectors(document)
    plans = {id: _plan_pipeline(document, id, connectors) for id in document.service.pipelines}
    return Graph(_levels(plans, connectors), _receivers(document), connectors)


def _connectors(document: Document) -> dict[Node, tuple[PipelineID, ...]]:
    behind: dict[Node, dict[PipelineID, None]] = {}
    for front, ways in edges(document.service.pipelines, document.connectors).items():
        for id, back in ways:
            node = Node(Kind.CONNECTOR, id, front.signal, output=back.signal)
            behind.setdefault(node, {})[back] = None
    return {node: tuple(pipelines) for node, pipelines in behind.items()}


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
            raise ValueError(f"pipelines go round: {', '.join(map(str, left))}")
        levels.append(level)
        for parts in level:
            del left[parts.id]
    return tuple(levels)
