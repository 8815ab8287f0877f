"""The life of a running collector: start, reload without refusing a request, drain within a deadline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from collector.component import Factory, Stability
from collector.ids import ComponentID, Kind
from collector.lean import TYPE_CHECKING, NamedTuple
from collector.native.pipeline import Queue
from collector.service import graph as graphs
from collector.service.build import NOTHING, Entry, Host, Instance, Running, build
from collector.service.graph import Graph, Node
from collector.service.metrics import MetricsServer, Page, make_page
from collector.service.threads import Wait, begin
from collector.telemetry.instruments import Instrument, Sample
from collector.telemetry.process import ProcessMetrics
from collector.telemetry.reloads import Reloads
from collector.threads import Lock

if TYPE_CHECKING:
    from collector.config.document import Document

# By which share of the shutdown timeout each kind must be done; what one leaves unused, the next may use.
_RECEIVERS_END = 0.3
_PIPELINES_END = 0.6
_EXPORTERS_END = 0.95
_GRACE_S = 0.2  # for a component that was given no time to notice

_METRICS_ID = ComponentID("telemetry", "metrics")

_Series = tuple[Instrument, tuple[tuple[str, str], ...], str]


class Reloaded(NamedTuple):
    """How many components a reload kept, started and stopped."""

    kept: int
    started: int
    stopped: int


class Service:
    """Builds the components of a document and runs them.

    `start`, `reload` and `shutdown` are called one at a time; `samples` and `not_ready` from any thread.

    Attributes:
        reloads: how they went, for the page; whoever calls `reload` notes it.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._log = host.log
        self._lock = Lock()
        self._running = NOTHING
        self._leaving: list[Instance] = []
        self._totals: dict[_Series, float] = {}
        self._drains: list[Wait] = []
        self._shutdown_timeout_s = 0.0
        self._process = ProcessMetrics(host.runtime, host.clock)
        self.reloads = Reloads()
        self._metrics_factory = Factory(
            config=Page,
            create=lambda config, settings: MetricsServer(config, settings, self.samples),
            signals=frozenset(),
            stability=Stability.STABLE,
        )

    def start(self, document: Document) -> None:
        """Start the components of document, the first one.

        Raises:
            StartError: a component cannot start; those that had are shut down.
        """
        self._switch(document)

    def reload(self, document: Document) -> Reloaded:
        """Run document from now on; what it leaves as it was runs on untouched.

        Nothing is refused meanwhile: receivers are given new routes only when all that is behind those has
        started, and what is left over then drains in the background.

        Raises:
            StartError: a component cannot start; all runs on as before.
        """
        old, left_over = self._switch(document)
        if left_over:
            drain = begin(self._shut_down, old.graph, left_over, self._shutdown_timeout_s)
            self._drains = [*(wait for wait in self._drains if not wait(0.0)), drain]
        kept = [
            instance
            for node, instance in self._running.instances.items()
            if old.instances.get(node) is instance
        ]
        self._tell(kept, "refresh")
        n_started = len(self._running.instances) - len(kept)
        return Reloaded(len(kept), started=n_started, stopped=len(left_over))

    def not_ready(self) -> None:
        """Tell the extensions that the collector is about to shut down."""
        self._tell(self._running.instances.values(), "not_ready")

    def shutdown(self) -> None:
        """Shut down from receivers to extensions, passing on what was taken in, within the shutdown timeout."""
        end_s = self._host.clock() + self._shutdown_timeout_s
        with self._lock:
            running, self._running = self._running, NOTHING
            instances = list(running.instances.values())
            self._leaving += instances
        self._shut_down(running.graph, instances, self._shutdown_timeout_s)
        for wait in self._drains:
            wait(max(0.0, end_s - self._host.clock()))

    def samples(self) -> list[Sample]:
        """Return the metrics of the process, of what runs, of what drains, and what the departed had counted."""
        with self._lock:
            instances = [*self._running.instances.values(), *self._leaving]
            totals = [Sample(*series[:2], value, series[2]) for series, value in self._totals.items()]
        return [
            *self._process.samples(),
            *self.reloads.samples(),
            *(sample for instance in instances for sample in self._samples_of(instance)),
            *totals,
        ]

    def _switch(self, document: Document) -> tuple[Running, list[Instance]]:
        """Build and start document, publish its routes; return what ran before and what of that is left over."""
        old = self._running
        new = build(document, graphs.plan(document), self._host, old, self._own_extensions(document))
        fresh = [instance for instance in new.start_order() if not instance.is_started]
        try:
            for instance in fresh:
                if instance.node.kind is Kind.RECEIVER:
                    # Before it starts: its first request must find the way.
                    instance.publish(new.routes[instance.node])
                instance.start()
        except Exception:
            _hand_over(fresh, old.instances)  # a receiver may have taken something in
            self._shut_down(new.graph, fresh, document.service.shutdown_timeout)
            raise
        for node, routes in new.routes.items():
            new.instances[node].publish(routes)
        left_over = [
            instance for node, instance in old.instances.items() if new.instances.get(node) is not instance
        ]
        with self._lock:
            self._running = new
            self._leaving += left_over
        _hand_over(left_over, new.instances)
        self._shutdown_timeout_s = document.service.shutdown_timeout
        self._tell(fresh, "ready")
        return old, left_over

    def _tell(self, instances: Iterable[Instance], word: str) -> None:
        """Call the method `ready`, `not_ready` or `refresh` of those components that have it."""
        for instance in instances:
            try:
                getattr(instance.component, word, _nothing)()
            except BaseException as error:  # noqa: BLE001 one that is not interested must not hold up the others
                instance.tell(f"{word} failed", error)

    def _samples_of(self, instance: Instance) -> list[Sample]:
        samples: list[Sample] = []
        try:
            for sample in instance.samples():
                if not isinstance(sample, Sample):
                    raise TypeError(f"samples() gives a {type(sample).__name__}, not a Sample")
                samples.append(sample)
        except BaseException as error:  # noqa: BLE001 the page shows the others
            instance.tell("samples failed", error)
        return samples

    def _own_extensions(self, document: Document) -> dict[ComponentID, Entry]:
        page = make_page(document.service.telemetry, self._host.instance_id)
        return {} if page is None else {_METRICS_ID: Entry(self._metrics_factory, page)}

    def _shut_down(self, graph: Graph, instances: Sequence[Instance], timeout_s: float) -> None:
        """Shut down instances, which are all or some of graph's, so that each can still pass on what it holds."""
        start_s = self._host.clock()
        nodes = {instance.node: instance for instance in instances}
        self._shut_down_kind(Kind.RECEIVER, nodes, start_s + _RECEIVERS_END * timeout_s)
        end_s = start_s + _PIPELINES_END * timeout_s
        for level in graph.levels:
            pipelines = {parts.id for parts in level}
            feeding = [node for node, behind in graph.connectors.items() if pipelines.intersection(behind)]
            self._in_parallel([[node] for node in feeding], nodes, end_s)
            self._in_parallel([parts.processors for parts in level], nodes, end_s)
        self._shut_down_kind(Kind.EXPORTER, nodes, start_s + _EXPORTERS_END * timeout_s)
        self._shut_down_kind(Kind.EXTENSION, nodes, start_s + timeout_s)

    def _shut_down_kind(self, kind: Kind, nodes: Mapping[Node, Instance], end_s: float) -> None:
        self._in_parallel([[node] for node in nodes if node.kind is kind], nodes, end_s)

    def _in_parallel(
        self, rows: Iterable[Iterable[Node]], nodes: Mapping[Node, Instance], end_s: float
    ) -> None:
        """Shut down each row in order, the rows beside one another."""
        jobs = [[nodes[node] for node in row if node in nodes] for row in rows]
        waits = [begin(self._shut_down_row, job, end_s) for job in jobs if job]
        for wait in waits:
            wait(None)

    def _shut_down_row(self, row: Iterable[Instance], end_s: float) -> None:
        for instance in row:
            wait = begin(self._shut_down_one, instance, end_s)
            # One that takes longer is left behind: those after it may still pass on what they hold.
            if not wait(max(0.0, end_s - self._host.clock()) + _GRACE_S):
                self._log.error("shutdown ran out of time", component=str(instance.node.id))

    def _shut_down_one(self, instance: Instance, end_s: float) -> None:
        # First, so that with the last user of a socket new connections are refused at once.
        instance.listeners.release()
        try:
            instance.component.shutdown(max(0.0, end_s - self._host.clock()))
        except BaseException as error:  # noqa: BLE001 the others must still be shut down
            instance.tell("shutdown failed", error)
        self._retire(instance)

    def _retire(self, instance: Instance) -> None:
        """Keep what instance has counted: a counter of the collector never goes back."""
        samples = self._samples_of(instance)
        with self._lock:
            for sample in samples:
                if sample.instrument.kind != "gauge":
                    series = (sample.instrument, sample.labels, sample.suffix)
                    self._totals[series] = self._totals.get(series, 0.0) + sample.value
            self._leaving = [other for other in self._leaving if other is not instance]


def _hand_over(leaving: Iterable[Instance], staying: Mapping[Node, Instance]) -> None:
    """Leave to the exporters that take the place of others what those could not send yet."""
    for instance in leaving:
        successor = staying.get(instance.node)
        if instance.node.kind is Kind.EXPORTER and successor is not None:
            queues = instance.consumer, successor.consumer
            if isinstance(queues[0], Queue) and isinstance(queues[1], Queue):
                queues[0].hand_over(queues[1])


def _nothing() -> None:
    pass
