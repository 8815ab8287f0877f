"""Wiring: native consumers from back to front, and what a reload keeps."""

from __future__ import annotations

from typing import Any

import pytest

from collector.errors import RetryableError, StartError
from collector.ids import ComponentID, Kind, Signal
from collector.native.runtime import Worker
from collector.service.build import NOTHING, Host, Instance, Running, build
from collector.service.graph import Node, plan
from tests.unit.service.stand_ins import (
    Config,
    FakeFilter,
    GatheringConfig,
    ReadingConfig,
    make_document,
    make_factory,
    make_request,
)

pytestmark = pytest.mark.usefixtures("journal")


def _build(document: Any, host: Host, previous: Running = NOTHING) -> Running:
    running = build(document, plan(document), host, previous, {})
    for node, routes in running.routes.items():
        running.instances[node].publish(routes)
    return running


def _find(running: Running, kind: Kind, id: str, pipeline: str | None = None) -> Instance:
    (instance,) = [
        instance
        for node, instance in running.instances.items()
        if node.kind is kind and str(node.id) == id and (pipeline is None or str(node.pipeline) == pipeline)
    ]
    return instance


def _push(running: Running, host: Host, request: bytes, receiver: str = "in") -> None:
    consumer = _find(running, Kind.RECEIVER, receiver).component.routes[Signal.TRACES]
    consumer.push(Worker(host.runtime), request)


def test_request_goes_through_ops_to_the_exporter(host: Host) -> None:
    """Each op counts what came to it and what it kept, although they share one native pipeline."""
    running = _build(
        make_document({"traces": ("in", "limiter short", "out")}, configs={"short": Config(10)}), host
    )
    _push(running, host, make_request(3, duration_ns=11_000_000_000))
    _push(running, host, make_request(2, duration_ns=1))
    assert 3 == _find(running, Kind.EXPORTER, "out").component.consumer.items
    assert 1 == len(running.chains)
    counts = {
        (sample.instrument.name, dict(sample.labels)["processor"]): sample.value
        for instance in running.instances.values()
        for sample in instance.samples()
        if "processor" in dict(sample.labels)
    }
    incoming, outgoing = "otelcol_processor_incoming_items", "otelcol_processor_outgoing_items"
    assert {
        (incoming, "limiter"): 5,
        (outgoing, "limiter"): 5,
        (incoming, "short"): 5,
        (outgoing, "short"): 3,
    } == counts


def test_refused_request_is_not_counted(host: Host) -> None:
    """What an op refuses comes again, so neither it nor those in front of it count it."""
    running = _build(make_document({"traces": ("in", "limiter", "out")}), host)
    host.runtime.set_rss(1 << 30)
    with pytest.raises(RetryableError):
        _push(running, host, make_request(3))
    op = _find(running, Kind.PROCESSOR, "limiter").component.op
    assert (0, 0) == (op.incoming_items, op.outgoing_items)


def test_stage_between_ops_splits_the_native_pipelines(host: Host) -> None:
    """Ops in front of a stage run before it, ops behind it after."""
    running = _build(
        make_document({"traces": ("in", "limiter stage short", "out")}, configs={"short": Config(10)}), host
    )
    assert [1, 1] == [len(nodes) for nodes in running.chains]
    _push(running, host, make_request(2, duration_ns=1))
    stage = _find(running, Kind.PROCESSOR, "stage").component.batch
    assert 2 == stage.stats().pending_items
    assert stage.drain(5)
    assert 2 == _find(running, Kind.PROCESSOR, "short").component.op.incoming_items
    assert 0 == _find(running, Kind.EXPORTER, "out").component.consumer.items


def test_receiver_feeds_all_its_pipelines(host: Host) -> None:
    """A request goes to each pipeline whole, whatever another drops."""
    running = _build(
        make_document(
            {"traces": ("in", "short", "out"), "traces/2": ("in", "", "out/2")},
            configs={"short": Config(10)},
        ),
        host,
    )
    _push(running, host, make_request(3, duration_ns=1))
    assert 0 == _find(running, Kind.EXPORTER, "out").component.consumer.items
    assert 3 == _find(running, Kind.EXPORTER, "out/2").component.consumer.items


def test_connector_passes_on_to_the_pipelines_behind(host: Host) -> None:
    """Two pipelines in front of a connector meet in the one behind it."""
    running = _build(
        make_document(
            {
                "traces/end": ("link", "short", "out"),
                "traces/a": ("in", "", "link"),
                "traces/b": ("in/b", "", "link out/b"),
            },
            connectors="link",
            configs={"short": Config(1)},
        ),
        host,
    )
    _push(running, host, make_request(1))
    _push(running, host, make_request(2), "in/b")
    assert 3 == _find(running, Kind.EXPORTER, "out").component.consumer.items
    assert 2 == _find(running, Kind.EXPORTER, "out/b").component.consumer.items


def test_same_document_keeps_everything(host: Host) -> None:
    """A reload without a change makes nothing new and publishes nothing."""
    pipelines = {
        "traces": ("in", "limiter stage short", "out out/2"),
        "traces/2": ("in", "stage", "link"),
        "traces/3": ("link", "table", "out"),
    }
    old = _build(make_document(pipelines, connectors="link", extensions="watch"), host)
    new = _build(make_document(pipelines, connectors="link", extensions="watch"), host, old)
    assert old.instances == new.instances
    assert old.chains == new.chains
    assert 1 == _find(new, Kind.RECEIVER, "in").component.published


def test_changed_exporter_is_replaced_and_its_batch_rewired(host: Host) -> None:
    """A batch is wired for life: behind it a new exporter means a new batch; what is independent stays."""
    pipelines = {"traces": ("in", "short stage", "out"), "traces/2": ("in", "stage", "out/2")}
    old = _build(make_document(pipelines), host)
    new = _build(make_document(pipelines, configs={"out": Config(1)}), host, old)
    changed = {
        (node.kind.singular, str(node.id), str(node.pipeline))
        for node, instance in new.instances.items()
        if old.instances[node] is not instance
    }
    assert {("exporter", "out", "None"), ("processor", "stage", "traces")} == changed
    assert 2 == _find(new, Kind.RECEIVER, "in").component.published


def test_changed_op_keeps_the_stage_behind_it(host: Host) -> None:
    """What is gathered behind a changed op is not disturbed."""
    pipelines = {"traces": ("in", "short stage", "out")}
    old = _build(make_document(pipelines), host)
    new = _build(make_document(pipelines, configs={"short": Config(7)}), host, old)
    assert _find(old, Kind.PROCESSOR, "stage") is _find(new, Kind.PROCESSOR, "stage")
    assert _find(old, Kind.PROCESSOR, "short") is not _find(new, Kind.PROCESSOR, "short")


def test_other_factory_under_the_same_id_is_another_component(host: Host) -> None:
    """Equal configuration is not enough to be kept."""
    pipelines = {"traces": ("in", "short", "out")}
    old = _build(make_document(pipelines), host)
    other = make_factory(lambda config, settings: FakeFilter(config, settings))
    new = _build(make_document(pipelines, factories={"short": other}), host, old)
    assert _find(old, Kind.PROCESSOR, "short") is not _find(new, Kind.PROCESSOR, "short")


def test_signal_without_pipelines_is_unrouted(host: Host) -> None:
    """A kept receiver no longer takes a signal whose last pipeline is gone."""
    old = _build(make_document({"traces": ("in", "", "out"), "logs": ("in", "", "out")}), host)
    new = _build(make_document({"traces": ("in", "", "out")}), host, old)
    receiver = new.instances[Node(Kind.RECEIVER, ComponentID("in"))].component
    assert [Signal.TRACES] == list(receiver.routes)


def test_component_that_cannot_be_made_is_named(host: Host) -> None:
    """The message says which component of which pipeline, as the Collector's does."""

    def create(_config: object, settings: Any) -> object:
        raise StartError(settings.id, "no such pattern")

    document = make_document({"traces/a": ("in", "bad", "out")}, factories={"bad": make_factory(create)})
    with pytest.raises(StartError) as caught:
        _build(document, host)
    assert (
        'failed to build pipelines: failed to create "bad" processor, in pipeline "traces/a": no such pattern'
        == caught.value.message
    )


GATHERING = {
    "stage/a": GatheringConfig(metadata_names=("tenant", "zone")),
    "stage/b": GatheringConfig(metadata_names=("agent",)),
    "stage/none": GatheringConfig(),
}


def test_receiver_knows_the_metadata_that_is_asked_for_behind_it(host: Host) -> None:
    """By all its pipelines, through connectors; not by what is behind a stage that gathers without it."""
    pipelines = {
        "traces/a": ("in", "limiter stage/a", "link"),
        "traces/b": ("in/b", "", "link out"),
        "logs": ("in", "stage/none stage/b", "out"),
        "traces/end": ("link", "short stage/b", "out"),
    }
    running = _build(make_document(pipelines, connectors="link", configs=GATHERING), host)
    names = {id: _find(running, Kind.RECEIVER, id).component.settings.metadata_names for id in ("in", "in/b")}
    assert {"in": ("tenant", "zone"), "in/b": ("agent",)} == names


def test_receiver_knows_the_metadata_that_operations_read(host: Host) -> None:
    """Beside what a stage behind them asks for; not of those behind a stage that passes on nothing of it."""
    configs = {**GATHERING, "limiter": ReadingConfig(read_metadata=("who", "tenant"))}
    pipelines = {
        "traces": ("in", "limiter stage/a", "out"),
        "logs": ("in/b", "stage/none limiter", "out"),
        "metrics": ("in/c", "limiter", "out"),
    }
    running = _build(make_document(pipelines, configs=configs), host)
    names = {
        id: _find(running, Kind.RECEIVER, id).component.settings.metadata_names
        for id in ("in", "in/b", "in/c")
    }
    assert {"in": ("tenant", "who", "zone"), "in/b": (), "in/c": ("tenant", "who")} == names


def test_receiver_is_replaced_when_other_metadata_is_asked_for(host: Host) -> None:
    """What came before is still told apart by the old names: no receiver gives a batch less than it asks for."""
    pipelines = {"traces": ("in", "stage/a", "out"), "logs": ("in/b", "stage/b", "out")}
    old = _build(make_document(pipelines, configs=GATHERING), host)
    changed = {**GATHERING, "stage/a": GatheringConfig(metadata_names=("tenant",))}
    new = _build(make_document(pipelines, configs=changed), host, old)
    assert _find(old, Kind.RECEIVER, "in") is not _find(new, Kind.RECEIVER, "in")
    assert _find(old, Kind.RECEIVER, "in/b") is _find(new, Kind.RECEIVER, "in/b")


def test_metadata_does_not_pass_a_table_processor(host: Host) -> None:
    """Its queue would mix clients up, so it is refused by name."""
    pipelines = {"traces": ("in", "table stage/a", "out")}
    with pytest.raises(
        StartError, match='"table" keeps no request metadata, which a processor behind it asks for'
    ):
        _build(make_document(pipelines, configs=GATHERING), host)
    _build(make_document({"traces": ("in", "stage/a table", "out")}, configs=GATHERING), host)
