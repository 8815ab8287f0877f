"""Checks of how pipelines and components fit together: signals, connectors, cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from collector.config.document import ComponentEntry, Pipeline, PipelineID
from collector.config.syntax import join
from collector.errors import Problem
from collector.ids import ComponentID, Kind, Signal

Components = Mapping[Kind, Mapping[ComponentID, ComponentEntry]]
Pipelines = Mapping[PipelineID, Pipeline]

# What a request passes while it is held for each step: SS_FRAMES_MAX of the data plane, less the receiver's part.
_DEPTH_MAX = 250


def check_pipelines(pipelines: Pipelines, components: Components) -> Iterator[Problem]:
    """Yield what does not fit; components that are not configured are passed over."""
    yield from _check_signals(pipelines, components)
    yield from _check_connectors(pipelines, components[Kind.CONNECTOR])
    ways_out = edges(pipelines, components[Kind.CONNECTOR])
    cycle = _find_cycle(ways_out)
    if cycle:
        yield Problem("service::pipelines", "cycle detected: " + " -> ".join(cycle))
        return
    for id, depth in _depths(pipelines, ways_out).items():
        if depth > _DEPTH_MAX:
            yield Problem(
                f"service::pipelines::{id}",
                f"expected at most {_DEPTH_MAX} steps in a row from here to the last exporter, got {depth}: each"
                " pipeline is two, each processor one; join some",
            )
            return  # those behind it are too deep for the same reason


def _check_signals(pipelines: Pipelines, components: Components) -> Iterator[Problem]:
    for id, pipeline in pipelines.items():
        parts = (
            (Kind.RECEIVER, pipeline.receivers),
            (Kind.PROCESSOR, pipeline.processors),
            (Kind.EXPORTER, pipeline.exporters),
        )
        for kind, ids in parts:
            for component in ids:
                entry = components[kind].get(component)
                if entry is None:
                    continue
                if id.signal not in entry.factory.signals:
                    yield Problem(
                        f"service::pipelines::{id}",
                        f'{kind.singular} "{component}" does not support {id.signal.value} '
                        "(telemetry type is not supported)",
                    )
                elif hasattr(entry.config, "problems_for"):
                    for field, message in entry.config.problems_for(id.signal):
                        yield Problem(join(f"{kind.value}::{component}", field), message)


def without_effect(pipelines: Pipelines, components: Components) -> Iterator[Problem]:
    """Yield the keys of processors that change nothing in any of the pipelines that they are used in."""
    uses: dict[ComponentID, list[Signal]] = {}
    for pipeline, parts in pipelines.items():
        for id in parts.processors:
            uses.setdefault(id, []).append(pipeline.signal)
    for id, signals in uses.items():
        config = components[Kind.PROCESSOR][id].config
        if hasattr(config, "without_effect"):
            found = [dict(config.without_effect(signal)) for signal in signals]
            for field, message in found[0].items():
                if all(field in each for each in found):
                    yield Problem(join(f"{Kind.PROCESSOR.value}::{id}", field), message)


def edges(
    pipelines: Pipelines, connectors: Mapping[ComponentID, ComponentEntry]
) -> dict[PipelineID, list[tuple[ComponentID, PipelineID]]]:
    """Return the ways out of each pipeline: through which connector to which pipeline."""
    return {
        front: [
            (connector, back)
            for connector in dict.fromkeys(parts.exporters)
            if connector in connectors
            for back, others in pipelines.items()
            if connector in others.receivers
            and (front.signal, back.signal) in connectors[connector].factory.connects
        ]
        for front, parts in pipelines.items()
    }


def _check_connectors(
    pipelines: Pipelines, connectors: Mapping[ComponentID, ComponentEntry]
) -> Iterator[Problem]:
    ways_out = edges(pipelines, connectors)
    from_pipelines = {(connector, front) for front, ways in ways_out.items() for connector, _ in ways}
    to_pipelines = {way for ways in ways_out.values() for way in ways}
    for id, parts in pipelines.items():
        for uses, used_as, missing, joined in (
            (parts.exporters, "exporter", "receiver", from_pipelines),
            (parts.receivers, "receiver", "exporter", to_pipelines),
        ):
            for connector in uses:
                if connector in connectors and (connector, id) not in joined:
                    yield Problem(
                        f"connectors::{connector}",
                        f'connector "{connector}" used as {used_as} in [{id}] pipeline but not used in any '
                        f"supported {missing} pipeline",
                    )


def _find_cycle(ways_out: Mapping[PipelineID, list[tuple[ComponentID, PipelineID]]]) -> list[str]:
    # Take away pipelines that lead nowhere until none does; what is left goes round.
    left = dict(ways_out)
    while ends := [id for id, ways in left.items() if not any(back in left for _, back in ways)]:
        for id in ends:
            del left[id]
    if not left:
        return []
    id = next(iter(left))
    seen: list[PipelineID] = []
    words: list[str] = []
    while id not in seen:
        seen.append(id)
        connector, back = next(way for way in left[id] if way[1] in left)
        words += [f'pipeline "{id}"', f'connector "{connector}"']
        id = back
    return [*words[2 * seen.index(id) :], f'pipeline "{id}"']


def _depths(
    pipelines: Pipelines, ways_out: Mapping[PipelineID, list[tuple[ComponentID, PipelineID]]]
) -> dict[PipelineID, int]:
    """Return the steps of the longest way from each pipeline on, the front first; nothing goes round."""
    depths: dict[PipelineID, int] = {}
    left = dict(ways_out)
    while left:
        ends = [id for id, ways in left.items() if not any(back in left for _, back in ways)]
        for id in ends:
            behind = max((depths[back] for _, back in left.pop(id)), default=0)
            depths[id] = 2 + len(pipelines[id].processors) + behind
    return dict(reversed(depths.items()))
