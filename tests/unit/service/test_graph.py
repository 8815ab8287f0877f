"""The graph: which instances there are, and that what is behind is built first."""

from __future__ import annotations

import pytest

from collector.ids import ComponentID, Kind, Signal
from collector.service.graph import Node, plan
from tests.unit.service.stand_ins import PipelineID, make_document, make_factory


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


def test_pair_of_signals_that_is_not_joined_makes_no_connector() -> None:
    """Logs behind a connector for equal signals are not fed by its traces."""
    graph = plan(
        make_document(
            {
                "traces": ("in", "", "link"),
                "traces/b": ("link", "", "out"),
                "logs": ("link in", "", "out"),
            },
            connectors="link",
        )
    )
    assert [(Signal.TRACES, Signal.TRACES)] == [(node.signal, node.output) for node in graph.connectors]


def test_pipelines_that_go_round_are_no_endless_loop() -> None:
    """The configuration's checks come first; here it is an error and not a hang."""
    with pytest.raises(ValueError, match="traces/a"):
        plan(make_document({"traces/a": ("in link", "", "link")}, connectors="link"))
