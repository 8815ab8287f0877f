"""The graph: which instances there are, and that what is behind is built first."""

from __future__ import annotations

import pytest
from stand_ins import PipelineID, make_document, make_factory

from collector.errors import ConfigError
from collector.ids import ComponentID, Kind, Signal
from collector.service.graph import Node, plan


def test_exporter_is_one_for_each_signal() -> None:
    """Two pipelines of a signal share an exporter; another signal has its own."""
    graph = plan(
        make_document({"traces": ("in", "", "out"), "traces/2": ("in", "", "out"), "logs": ("in", "", "out")})
    )
    exporters = {node for level in graph.levels for parts in level for node in parts.exporters}
    out = ComponentID("out")
    assert {Node(Kind.EXPORTER, out, Signal.TRACES), Node(Kind.EXPORTER, out, Signal.LOGS)} == exporters


def test_processor_is_one_for_each_pipeline() -> None:
    """Pipelines do not share the state of a processor."""
    graph = plan(make_document({"traces": ("in", "stage", "out"), "traces/2": ("in", "stage", "out")}))
    processors = [node for level in graph.levels for parts in level for node in parts.processors]
    assert ["traces", "traces/2"] == [str(node.pipeline) for node in processors]


def test_receiver_is_one_for_all_signals() -> None:
    """A receiver knows the pipelines of each signal that it feeds."""
    graph = plan(
        make_document({"traces": ("in", "", "out"), "logs": ("in", "", "out"), "logs/b": ("in", "", "out")})
    )
    traces, logs, logs_b = PipelineID(Signal.TRACES), PipelineID(Signal.LOGS), PipelineID(Signal.LOGS, "b")
    receiver = Node(Kind.RECEIVER, ComponentID("in"))
    assert {receiver: {Signal.TRACES: (traces,), Signal.LOGS: (logs, logs_b)}} == graph.receivers


def test_pipeline_behind_a_connector_is_in_a_later_level() -> None:
    """Levels go from front to back whatever the order in the file."""
    graph = plan(
        make_document(
            {
                "traces/end": ("link/2", "", "out"),
                "traces/middle": ("link", "", "link/2 out"),
                "traces/front": ("in", "", "link"),
            },
            connectors="link link/2",
        )
    )
    levels = [[parts.id.name for parts in level] for level in graph.levels]
    assert [["front"], ["middle"], ["end"]] == levels


def test_connector_is_one_for_each_pair_of_signals() -> None:
    """A connector that turns traces into metrics and also forwards traces is two instances."""
    both = make_factory(
        object,
        connects=frozenset({(Signal.TRACES, Signal.METRICS), (Signal.TRACES, Signal.TRACES)}),
    )
    graph = plan(
        make_document(
            {
                "traces": ("in", "", "both"),
                "traces/b": ("both", "", "out"),
                "metrics": ("both", "", "out"),
            },
            connectors="both",
            factories={"both": both},
        )
    )
    pairs = [(node.signal, node.output) for node in graph.connectors]
    assert [(Signal.TRACES, Signal.TRACES), (Signal.TRACES, Signal.METRICS)] == pairs
    front = next(parts for parts in graph.levels[0] if parts.id == PipelineID(Signal.TRACES))
    assert set(graph.connectors) == set(front.connectors)


@pytest.mark.parametrize(
    ("pipelines", "message"),
    [
        (
            {"traces": ("in", "", "link out")},
            'connector "link" used as exporter in [traces] pipeline but not used in any supported receiver pipeline',
        ),
        (
            {"traces": ("in link", "", "out")},
            'connector "link" used as receiver in [traces] pipeline but not used in any supported exporter pipeline',
        ),
    ],
)
def test_connector_with_one_end_is_a_problem(pipelines: dict[str, tuple[str, str, str]], message: str) -> None:
    """A connector must join something, and the message says which side is missing."""
    with pytest.raises(ConfigError) as caught:
        plan(make_document(pipelines, connectors="link"))
    assert [("connectors::link", message)] == [tuple(problem) for problem in caught.value.problems]


def test_signals_that_a_connector_does_not_join_are_a_problem() -> None:
    """Both ends of traces to logs are named when the connector only joins equal signals."""
    with pytest.raises(ConfigError) as caught:
        plan(make_document({"traces": ("in", "", "link"), "logs": ("link", "", "out")}, connectors="link"))
    assert 2 == len(caught.value.problems)


def test_cycle_is_a_problem_that_names_the_way_round() -> None:
    """Pipelines that feed themselves are refused before anything is built."""
    with pytest.raises(ConfigError) as caught:
        plan(
            make_document(
                {
                    "traces": ("in", "", "link"),
                    "traces/a": ("link link/2", "", "link/1"),
                    "traces/b": ("link/1", "", "link/2"),
                },
                connectors="link link/1 link/2",
            )
        )
    (problem,) = caught.value.problems
    assert problem.message.startswith("cycle detected: ")
    for name in ('pipeline "traces/a"', 'pipeline "traces/b"', 'connector "link/1"', 'connector "link/2"'):
        assert name in problem.message
    assert '"traces"' not in problem.message


