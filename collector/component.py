"""The component contract.

A component is one module `collector/<kind>s/<type>.py` with a `factory`; the file name is the type in YAML.
The service builds each pipeline back to front: exporters and connectors give consumers, processors put
themselves in front of what is behind them, receivers are routed to the first one. Every consumer is native:
requests flow through C and reach Python only where a component asks for a queue.

Lifecycle, as in the Collector: `start` once, `shutdown` safe without start and twice. Exporters start first and
receivers last; shutdown goes the other way and drains within its deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from collector.ids import ComponentID, Signal
from collector.lean import TYPE_CHECKING, Any, NamedTuple, Protocol, StrEnum, record

if TYPE_CHECKING:
    import _socket

    from collector.native.ops import Op
    from collector.native.pipeline import Consumer
    from collector.native.runtime import Runtime
    from collector.native.table import SpanTable
    from collector.telemetry.instruments import Sample
    from collector.telemetry.logs import Log


class Stability(StrEnum):
    """The Collector's stability levels."""

    DEVELOPMENT = "Development"
    ALPHA = "Alpha"
    BETA = "Beta"
    STABLE = "Stable"


class Handle(Protocol):
    """Something registered with the loop."""

    def cancel(self) -> None:
        """Call back no more; safe twice and from any thread."""


class Loop(Protocol):
    """The main thread's loop, which otherwise sleeps; callbacks must be short."""

    def every(self, period_s: float, callback: Callable[[], None]) -> Handle:
        """Call back each period_s seconds, > 0; first after one period."""

    def on_readable(self, fd: int, callback: Callable[[], None]) -> Handle:
        """Call back whenever fd has something to read."""


class Listeners(Protocol):
    """Listening sockets that outlive a reload: the next instance of a component is given the same ones."""

    def get(self, transport: str, endpoint: str) -> _socket.socket:
        """Return a bound, listening socket, to dup its descriptor; `tcp` or `unix`, `host:port` or a path.

        The service closes it with the last instance that got it; a component only reads it.

        Raises:
            StartError: it cannot be bound.
        """

    def reserve(self, transport: str, endpoint: str) -> _socket.socket:
        """Return a socket that is bound but does not listen, for a server that opens its own beside it.

        Raises:
            StartError: it cannot be bound.
        """


class AdminRequest(NamedTuple):
    """A request of an operator, a probe or a scraper."""

    method: str
    path: str
    query: str


class AdminResponse(NamedTuple):
    """The answer to an AdminRequest."""

    status: int
    content_type: str
    body: bytes


class AdminServer(Protocol):
    """A running HTTP server for operators."""

    def shutdown(self, deadline_s: float) -> None:
        """Answer what was asked and stop; safe twice."""


class Serve(Protocol):
    """Starts an HTTP server for operators."""

    def __call__(
        self, endpoint: str, routes: Mapping[str, Callable[[AdminRequest], AdminResponse]]
    ) -> AdminServer:
        """Listen on endpoint; a route ending in `/` also takes every path below it.

        Raises:
            StartError: the endpoint cannot be bound.
        """


@record
class Settings:
    """What the service gives a component beside its configuration.

    Attributes:
        id: as written in YAML.
        signal: of this instance; None for receivers and extensions, which are shared by all signals.
        runtime: the native runtime of this collector.
        log: already carries the component's id and kind.
        clock: seconds, monotonic.
        loop: timers and file descriptors on the main thread. It, listeners and serve are always set by the
            service; only a test of a component that does not use them leaves them out.
        listeners: listening sockets of this component.
        serve: starts an HTTP server for operators.
        metadata_names: of a receiver, the headers that something behind it asks for, in lower case, sorted.
    """

    id: ComponentID
    signal: Signal | None
    runtime: Runtime
    log: Log
    clock: Callable[[], float] = time.monotonic
    loop: Loop = None  # type: ignore[assignment]
    listeners: Listeners = None  # type: ignore[assignment]
    serve: Serve = None  # type: ignore[assignment]
    metadata_names: tuple[str, ...] = ()

    @property
    def own_signal(self) -> Signal:
        """The signal of an instance that is made for one: of all but receivers and extensions."""
        if self.signal is None:
            raise ValueError(f"{self.id} is made for no signal")
        return self.signal


class Component(Protocol):
    """What every component has."""

    def start(self) -> None:
        """Begin to work; must not block.

        Raises:
            StartError: the component cannot run; the service shuts down what it has started.
        """

    def shutdown(self, deadline_s: float) -> None:
        """Finish what was taken in and stop, within deadline_s seconds."""

    def samples(self) -> Iterable[Sample]:
        """Return the component's own metrics as they are now; none where a subclass says nothing else."""
        return ()

    def refresh(self) -> None:
        """Look at files that the configuration names, which was read again and is the same; nothing by default."""

    def is_stale(self) -> bool:
        """Return whether something has changed that others change and the instance was made from.

        A reload then makes another, although the configuration is the same.
        """
        return False


class UnservedExtension(Component):
    """An extension of the Collector that is accepted and does nothing; its configuration's `warnings` say so."""

    def __init__(self, config: Any, settings: Settings) -> None:
        """Need nothing."""

    def start(self) -> None:
        """Nothing to do."""

    def shutdown(self, deadline_s: float) -> None:
        """Nothing to wait for."""


class OpProcessor(Component, Protocol):
    """A processor whose work is one native op; neighbours share one pass over the bytes."""

    op: Op


class StageProcessor(Component, Protocol):
    """A processor with state of its own, such as batch: a native consumer in front of others."""

    def connect(self, outputs: Sequence[Consumer]) -> Consumer:
        """Return the consumer that passes on to outputs; called once, before start."""


class TableProcessor(Component, Protocol):
    """A processor written with numpy; it runs on a thread of its own, behind a bounded queue.

    A client waits until its request has been processed and passed on, or is told why it was not.
    """

    def process(self, table: SpanTable) -> None:
        """Mark rows of table: `table.verdict[i] = 1` drops row i; edit attributes. The table ends with the call.

        Raises:
            RetryableError: the client is to send the request again.
            BaseException: anything else fails the request for good, and no other.
        """


class Exporter(Component, Protocol):
    """Sends one signal out."""

    consumer: Consumer


class Connector(Component, Protocol):
    """Exporter of one pipeline and receiver of others."""

    def connect(self, outputs: Sequence[Consumer]) -> Consumer:
        """Return the consumer that passes on to the first consumers of the pipelines behind."""


class Receiver(Component, Protocol):
    """Takes requests of any signal from outside."""

    def publish(self, signal: Signal, consumer: Consumer | None) -> None:
        """Route signal to consumer from the next request on; None: no pipeline wants it."""


class PipelineWatcher(Component, Protocol):
    """An extension that wants to know whether the pipelines run."""

    def ready(self) -> None:
        """Called when all pipelines have started."""

    def not_ready(self) -> None:
        """Called when the collector begins to shut down."""


@record
class Factory:
    """What a component module exports as `factory`.

    Attributes:
        config: a `section` of `option` fields; may have `problems(self)`, a generator of (field, message),
            `problems_in_use(self)` for what does no harm while nothing uses the component, and
            `problems_for(self, signal)` for what a pipeline of that signal needs; `warnings(self)` for what an
            operator is told of a component in use, and of a processor `without_effect(self, signal)` for the keys
            that change nothing there; of a processor that gathers
            requests `metadata_names`, the headers that it tells them apart by, of one that reads some of a request
            `read_metadata`.
        create: makes the component from its configuration and Settings.
        signals: what it can be used for.
        stability: shown by `spansieve components`.
        aliases: older names of the type, accepted with a warning.
        connects: of a connector, the pairs (signal it takes, signal it gives).
        example: what may stand below its id, as YAML; for the reference page.
    """

    config: type[Any]
    create: Callable[[Any, Settings], Any]
    signals: frozenset[Signal]
    stability: Stability
    aliases: tuple[str, ...] = ()
    connects: frozenset[tuple[Signal, Signal]] = frozenset()
    example: str = ""
