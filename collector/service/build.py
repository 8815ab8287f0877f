"""From a graph to wired components: makes each instance, or keeps the one of the running collector.

Everything native is built back to front. On a reload an instance is kept, with its queue, its sockets and its
counters, when its factory, its configuration and what it is wired to are what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from collector.component import Factory, Loop, Settings
from collector.errors import CollectorError, StartError, explain, traceback_of
from collector.ids import ComponentID, Kind, Signal
from collector.lean import TYPE_CHECKING, Any, NamedTuple, record
from collector.native.pipeline import Pipeline, join
from collector.service.admin import AdminServer, Routes
from collector.service.graph import Graph, Node, PipelinePlan
from collector.service.listeners import Listeners, ListenerView
from collector.service.table_stage import TableStage
from collector.telemetry.instruments import INCOMING_ITEMS, OUTGOING_ITEMS, Sample

if TYPE_CHECKING:
    from collector.config.document import Document, PipelineID
    from collector.native.pipeline import Consumer
    from collector.native.runtime import Runtime
    from collector.service.admin import HttpServer
    from collector.telemetry.logs import Log


class Entry(NamedTuple):
    """A configured component: what makes it, and from what.

    Attributes:
        metadata_names: of a receiver, the headers that something behind it asks for.
    """

    factory: Factory
    config: Any
    metadata_names: tuple[str, ...] = ()


@record
class Host:
    """What all components of a collector share.

    Attributes:
        instance_id: of this collector, for as long as it runs.
        make_server: from a listening file descriptor to a running native server for operators.
    """

    runtime: Runtime
    loop: Loop
    listeners: Listeners
    log: Log
    clock: Callable[[], float]
    instance_id: str
    make_server: Callable[[int], HttpServer]


class Instance:
    """A component of the running graph, with what it was made from and what it is wired to.

    Attributes:
        consumer: what is in front of it; None for op processors, receivers and extensions.
        outputs: what a stage or a connector passes on to; None while it is not wired.
        routes: what a receiver passes each signal on to.
    """

    __slots__ = (
        "_log",
        "component",
        "consumer",
        "entry",
        "is_started",
        "listeners",
        "node",
        "outputs",
        "routes",
    )

    def __init__(self, node: Node, entry: Entry, component: Any, listeners: ListenerView, log: Log) -> None:
        self._log = log
        self.node = node
        self.entry = entry
        self.component = component
        self.listeners = listeners
        self.consumer: Consumer | None = getattr(component, "consumer", None)
        self.outputs: tuple[Consumer, ...] | None = None
        self.routes: dict[Signal, tuple[Consumer, ...]] = {}
        self.is_started = False

    def is_stale(self) -> bool:
        """Return whether what the instance was made from has changed outside, so that a reload makes another."""
        is_stale = getattr(self.component, "is_stale", None)
        return not self.listeners.are_there() or bool(is_stale and is_stale())

    def connect(self, outputs: tuple[Consumer, ...]) -> Consumer:
        """Put a stage or a connector in front of outputs, once; return the consumer to push to."""
        if self.consumer is None:
            self.consumer = self.component.connect(outputs)
            self.outputs = outputs
        return self.consumer

    def start(self) -> None:
        """Start the component.

        Raises:
            StartError: in the Collector's words.
        """
        try:
            self.component.start()
        except BaseException as error:
            if _is_surprising(error, self.entry.factory):
                self.tell("start failed", error)
            cause = _cause(error)
            message = (
                f'failed to start extensions: failed to start extension "{self.node.id}": {cause}'
                if self.node.kind is Kind.EXTENSION
                else f'cannot start pipelines: failed to start "{self.node.id}" {self.node.kind.singular}: {cause}'
            )
            raise StartError(self.node.id, message) from error
        self.is_started = True

    def tell(self, event: str, error: BaseException) -> None:
        """Log what the component has raised, and where."""
        _tell(self._log, event, error)

    def publish(self, routes: Mapping[Signal, tuple[Consumer, ...]]) -> None:
        """Route a receiver's signals, leaving alone those whose route stays."""
        for signal in Signal:
            outputs = routes.get(signal, ())
            if self.routes.get(signal, ()) != outputs:
                self.component.publish(signal, join(signal, outputs) if outputs else None)
                self.routes[signal] = outputs

    def samples(self) -> Iterator[Sample]:
        """Return the component's metrics, and for an op what came to it and what it let pass."""
        yield from self.component.samples()
        op = getattr(self.component, "op", None)
        if op is not None and self.node.signal is not None:
            labels = (("processor", str(self.node.id)), ("otel_signal", self.node.signal.value))
            yield Sample(INCOMING_ITEMS, labels, op.incoming_items)
            yield Sample(OUTGOING_ITEMS, labels, op.outgoing_items)


class _OpChain(NamedTuple):
    """Neighbouring op processors, which share one pass over each request."""

    ops: tuple[Any, ...]
    outputs: tuple[Consumer, ...]
    consumer: Consumer


class Running(NamedTuple):
    """The components of one configuration, wired.

    Attributes:
        chains: native pipelines by the processors that they run.
        routes: what each receiver is to pass on to; published once everything behind it has started.
    """

    graph: Graph
    instances: Mapping[Node, Instance]
    chains: Mapping[tuple[Node, ...], _OpChain]
    routes: Mapping[Node, Mapping[Signal, tuple[Consumer, ...]]]

    def start_order(self) -> list[Instance]:
        """Return extensions, exporters, what is in the pipelines from the back, receivers."""
        order = [node for node in self.instances if node.kind is Kind.EXTENSION]
        order += [node for node in self.instances if node.kind is Kind.EXPORTER]
        for level in reversed(self.graph.levels):
            for parts in level:
                order += [*parts.connectors, *reversed(parts.processors)]
        order += self.graph.receivers
        return [self.instances[node] for node in dict.fromkeys(order)]


NOTHING = Running(Graph((), {}, {}), {}, {}, {})


def build(
    document: Document, graph: Graph, host: Host, previous: Running, extra: Mapping[ComponentID, Entry]
) -> Running:
    """Make the components of document, keeping those of previous that need no change.

    Args:
        extra: extensions of the service itself, in front of those that document names.

    Raises:
        StartError: a component cannot be made.
    """
    builder = _Builder(document, graph, host, previous)
    for id, entry in extra.items():
        builder.make(Node(Kind.EXTENSION, id), entry)
    for id in document.service.extensions:
        builder.make(Node(Kind.EXTENSION, id), document.extensions[id])
    for level in reversed(graph.levels):
        for parts in level:
            builder.build_pipeline(parts)
    routes = {}
    for node, pipelines in graph.receivers.items():
        asked = builder.asked(id for ids in pipelines.values() for id in ids)
        builder.make(node, document.receivers[node.id], asked)
        routes[node] = {
            signal: tuple(output for id in ids for output in builder.fronts[id])
            for signal, ids in pipelines.items()
        }
    return Running(graph, builder.instances, builder.chains, routes)


class _Builder:
    def __init__(self, document: Document, graph: Graph, host: Host, previous: Running) -> None:
        self.instances: dict[Node, Instance] = {}
        self.chains: dict[tuple[Node, ...], _OpChain] = {}
        self.fronts: dict[PipelineID, tuple[Consumer, ...]] = {}
        self._asked: dict[PipelineID, tuple[str, ...]] = {}
        self._document = document
        self._graph = graph
        self._host = host
        self._previous = previous

    def make(self, node: Node, configured: Any, metadata_names: tuple[str, ...] = ()) -> Instance:
        """Return the instance of node: of this build, of the running collector, or a new one."""
        if node not in self.instances:
            entry = Entry(configured.factory, configured.config, metadata_names)
            old = self._previous.instances.get(node)
            is_kept = old is not None and old.entry == entry and not old.is_stale()
            self.instances[node] = old if old is not None and is_kept else self._create(node, entry)
        return self.instances[node]

    def asked(self, pipelines: Iterable[PipelineID]) -> tuple[str, ...]:
        """Return the request metadata that pipelines, which were built, ask for."""
        return tuple(sorted({name for id in pipelines for name in self._asked[id]}))

    def build_pipeline(self, parts: PipelinePlan) -> None:
        outputs = tuple(self._exporter(node) for node in parts.exporters)
        outputs += tuple(self._connector(node) for node in parts.connectors)
        asked = self.asked(id for node in parts.connectors for id in self._graph.connectors[node])
        ops: list[Node] = []
        for node in reversed(parts.processors):
            entry = self._document.processors[node.id]
            instance = self.make(node, entry)
            # What gathers requests passes on no more than what it tells them apart by.
            asked = getattr(entry.config, "metadata_names", asked)
            asked = tuple(sorted({*asked, *getattr(entry.config, "read_metadata", ())}))
            if asked and isinstance(instance.component, TableStage):
                message = f'"{node.id}" keeps no request metadata, which a processor behind it asks for'
                raise StartError(node.id, f"failed to build pipelines: {message}")
            if hasattr(instance.component, "op"):
                ops.insert(0, node)
                continue
            outputs = self._chain(ops, outputs)
            ops = []
            outputs = (self._wire(instance, outputs),)
        self.fronts[parts.id] = self._chain(ops, outputs)
        self._asked[parts.id] = asked

    def _exporter(self, node: Node) -> Consumer:
        consumer = self.make(node, self._document.exporters[node.id]).consumer
        assert consumer is not None  # noqa: S101 the contract of exporters
        return consumer

    def _connector(self, node: Node) -> Consumer:
        outputs = tuple(output for id in self._graph.connectors[node] for output in self.fronts[id])
        return self._wire(self.make(node, self._document.connectors[node.id]), outputs)

    def _wire(self, instance: Instance, outputs: tuple[Consumer, ...]) -> Consumer:
        if instance.outputs not in (None, outputs):
            # Wired to what is no longer behind it; the old one drains there, a new one takes over.
            instance = self._create(instance.node, instance.entry)
            self.instances[instance.node] = instance
        return instance.connect(outputs)

    def _chain(self, nodes: Sequence[Node], outputs: tuple[Consumer, ...]) -> tuple[Consumer, ...]:
        if not nodes:
            return outputs
        key = tuple(nodes)
        ops = tuple(self.instances[node].component.op for node in nodes)
        chain = self._previous.chains.get(key)
        if chain is None or (chain.ops, chain.outputs) != (ops, outputs):
            signal = nodes[0].pipeline.signal  # type: ignore[union-attr]
            chain = _OpChain(ops, outputs, Pipeline(signal, ops, join(signal, outputs)))
        self.chains[key] = chain
        return (chain.consumer,)

    def _create(self, node: Node, entry: Entry) -> Instance:
        host = self._host
        log = host.log.bind(**_log_fields(node))
        listeners = host.listeners.view(f"{node.kind.value}::{node.id}")

        def serve(endpoint: str, routes: Routes) -> AdminServer:
            return AdminServer(
                endpoint, routes, listeners=listeners, loop=host.loop, log=log, make_server=host.make_server
            )

        settings = Settings(
            id=node.id,
            signal=node.signal,
            runtime=host.runtime,
            log=log,
            clock=host.clock,
            loop=host.loop,
            listeners=listeners,
            serve=serve,
            metadata_names=entry.metadata_names,
        )
        try:
            component = entry.factory.create(entry.config, settings)
        except BaseException as error:
            if _is_surprising(error, entry.factory):
                _tell(log, "creation failed", error)
            place = f', in pipeline "{node.pipeline}"' if node.pipeline else ""
            what = f'failed to create "{node.id}" {node.kind.singular}{place}'
            message = f"failed to build pipelines: {what}: {_cause(error)}"
            raise StartError(node.id, message) from error
        if hasattr(component, "process"):
            component = TableStage(component, settings)
        return Instance(node, entry, component, listeners, log)


def _tell(log: Log, event: str, error: BaseException) -> None:
    log.error(event, error=explain(error), traceback=traceback_of(error))


def _is_surprising(error: BaseException, factory: Factory) -> bool:
    """Tell whether a traceback helps: error was not raised on purpose, nor by the system for one of our components."""
    is_ours = factory.config.__module__.startswith("collector.")
    return not isinstance(error, (CollectorError, OSError, RuntimeError) if is_ours else CollectorError)


def _cause(error: BaseException) -> str:
    if isinstance(error, StartError):
        return error.message
    if isinstance(error, CollectorError | OSError | RuntimeError):  # the last is a thread that cannot be had
        return str(error)
    return explain(error)


def _log_fields(node: Node) -> dict[str, str]:
    fields = {"otelcol.component.id": str(node.id), "otelcol.component.kind": node.kind.singular}
    if node.pipeline is not None:
        fields["otelcol.pipeline.id"] = str(node.pipeline)
    if node.signal is not None:
        fields["otelcol.signal"] = node.signal.value
    return fields
