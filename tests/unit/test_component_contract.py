"""What every component in the tree promises, found there and tested unasked."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import re
import socket
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.component import AdminRequest, AdminResponse, Factory, Settings
from collector.config.decode import decode
from collector.config.fields import Option
from collector.config.reference import instruments
from collector.config.schema import Found
from collector.errors import ConfigError
from collector.ids import ComponentID, Kind, Signal
from collector.lean import fields, is_record
from collector.native.pipeline import Consumer, Discard
from collector.native.runtime import Runtime
from collector.registry import Registry
from collector.telemetry.instruments import Sample
from collector.telemetry.logs import Log

# What a component must be told before it can be made, as in YAML: no default would be right for everybody.
REQUIRED: Mapping[str, Mapping[str, Any]] = {
    "receivers.otlp": {"protocols": {"grpc": None, "http": None}},
    "processors.memory_limiter": {"check_interval": "1s", "limit_mib": 4096},
    "processors.attributes": {"actions": [{"key": "user.id", "action": "delete"}]},
    "processors.resource": {"attributes": [{"key": "host.name", "action": "hash"}]},
    "exporters.file": {"path": "{folder}/out"},
    "exporters.otlp_grpc": {"endpoint": "127.0.0.1:1", "tls": {"insecure": True}},
    "exporters.otlp_http": {"endpoint": "http://127.0.0.1:1"},
}


class Component(typing.NamedTuple):
    """A component of the tree, for one signal."""

    kind: Kind
    type: str
    factory: Factory
    signal: Signal | None

    def __str__(self) -> str:
        return f"{self.kind.value}.{self.type}" + (f"[{self.signal.value}]" if self.signal else "")


def _find() -> Iterator[Component]:
    for kind in Kind:
        package = importlib.import_module(f"collector.{kind.value}")
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.startswith("_"):
                continue
            factory = importlib.import_module(f"{package.__name__}.{module.name}").factory
            shared = kind in (Kind.RECEIVER, Kind.EXTENSION)
            for signal in (None,) if shared else sorted(factory.signals, key=lambda signal: signal.number):
                yield Component(kind, module.name, factory, signal)


def _config(component: Component, folder: Path | str = "/nonexistent", **more: Any) -> Any:
    required = REQUIRED.get(f"{component.kind.value}.{component.type}", {})
    texts = {
        key: value.format(folder=folder) if isinstance(value, str) else value
        for key, value in required.items()
    }
    return decode(component.factory.config, {**texts, **more}, str(component))


COMPONENTS = list(_find())
every_component = pytest.mark.parametrize("component", COMPONENTS, ids=str)


class FakeHandle:
    def cancel(self) -> None:
        """Nothing was registered."""

    def shutdown(self, deadline_s: float) -> None:
        """Nothing was served."""


class FakeLoop:
    def every(self, period_s: float, callback: Callable[[], None]) -> FakeHandle:
        assert period_s > 0
        return FakeHandle()

    def on_readable(self, fd: int, callback: Callable[[], None]) -> FakeHandle:
        assert fd >= 0
        return FakeHandle()


class FakeListeners:
    """Every endpoint is a free port of 127.0.0.1, so that default ports do not clash."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []

    def get(self, transport: str, endpoint: str) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self.sockets.append(listener)
        return listener


class Bench:
    """Makes components, and wires and unwires them as the service does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime = Runtime()
        self.listeners = FakeListeners()
        self.outputs: list[Consumer] = []

    def make(self, component: Component) -> Any:
        settings = Settings(
            id=ComponentID(component.type, "contract"),
            signal=component.signal,
            runtime=self.runtime,
            log=Log(logging.getLogger("spansieve.test")),
            loop=FakeLoop(),
            listeners=self.listeners,
            serve=self._serve,
        )
        made = component.factory.create(_config(component, self.folder), settings)
        if hasattr(made, "connect"):
            assert component.signal is not None
            self.outputs.append(made.connect([Discard(component.signal)]))
        return made

    def _serve(
        self, endpoint: str, routes: Mapping[str, Callable[[AdminRequest], AdminResponse]]
    ) -> FakeHandle:
        assert ":" in endpoint
        assert all(route.startswith("/") for route in routes)
        return FakeHandle()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for listener in bench.listeners.sockets:
        listener.close()


def test_tree_has_components() -> None:
    """The other tests here run on something."""
    assert {"batch", "memory_limiter", "forward", "health_check"} <= {c.type for c in COMPONENTS}


@every_component
def test_module_exports_a_factory(component: Component) -> None:
    """Its type is the file's name, and it says what it can be used for."""
    assert isinstance(component.factory, Factory)
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,62}", component.type)
    assert bool(component.factory.connects) == (component.kind is Kind.CONNECTOR)
    assert bool(component.factory.signals) == (component.kind is not Kind.EXTENSION)


def _config_classes(config: type[Any]) -> Iterator[type[Any]]:
    yield config
    for field in fields(config):
        for inner in (field.type, *typing.get_args(field.type)):
            if is_record(inner):
                yield from _config_classes(inner)


@every_component
def test_every_option_is_documented(component: Component) -> None:
    """Configurations are frozen, and each field is made by `option` with a sentence about it."""
    for config in _config_classes(component.factory.config):
        with pytest.raises(AttributeError):
            object.__new__(config).any_field = None
        for field in fields(config):
            option = field.metadata
            assert isinstance(option, Option), f"{config.__qualname__}.{field.name}"
            assert option.doc.strip().endswith("."), f"{config.__qualname__}.{field.name}"


@every_component
def test_empty_config_loads_or_says_what_is_missing(component: Component) -> None:
    """`batch:` alone is either enough or an error with a message, never a crash."""
    try:
        config = decode(component.factory.config, None, str(component))
    except ConfigError as error:
        assert all(problem.message for problem in error.problems)
    else:
        assert isinstance(config, component.factory.config)


@every_component
def test_unknown_key_is_refused(component: Component) -> None:
    """A slip of the pen is an error, not a default."""
    with pytest.raises(ConfigError, match="no_such_key"):
        _config(component, no_such_key=1)


@every_component
def test_configurations_compare_by_value(component: Component) -> None:
    """A reload keeps what is equal."""
    assert _config(component) == _config(component)


@every_component
def test_has_the_shape_of_its_kind(component: Component, bench: Bench) -> None:
    """The service tells processors apart by one attribute, and finds the consumer of the others."""
    made = bench.make(component)
    shapes = [name for name in ("op", "connect", "process", "consumer", "publish") if hasattr(made, name)]
    expected = {
        Kind.RECEIVER: [["publish"]],
        Kind.PROCESSOR: [["op"], ["connect"], ["process"]],
        Kind.EXPORTER: [["consumer"]],
        Kind.CONNECTOR: [["connect"]],
        Kind.EXTENSION: [[]],
    }
    assert shapes in expected[component.kind]
    made.shutdown(0.0)


@every_component
def test_shutdown_without_start(component: Component, bench: Bench) -> None:
    """A collector that fails to start shuts down what never ran."""
    bench.make(component).shutdown(0.1)


@every_component
def test_start_then_shutdown_twice(component: Component, bench: Bench) -> None:
    """The second shutdown does nothing."""
    made = bench.make(component)
    made.start()
    made.shutdown(1.0)
    made.shutdown(1.0)


@every_component
def test_samples_are_samples_at_any_time(component: Component, bench: Bench) -> None:
    """Before start, while running and after shutdown; counters only grow, and none goes away."""
    made = bench.make(component)
    rounds = [list(made.samples())]
    made.start()
    rounds.append(list(made.samples()))
    made.shutdown(1.0)
    rounds.append(list(made.samples()))
    running, after = (
        {sample[:2] for sample in samples if sample.instrument.kind != "gauge"} for samples in rounds[1:]
    )
    assert running == after
    totals: dict[Any, float] = {}
    registered = Registry().find(component.kind, component.type)
    documented = instruments(Found(component.kind, registered))
    for sample in (sample for samples in rounds for sample in samples):
        assert isinstance(sample, Sample)
        instrument, labels, value, suffix = sample
        assert instrument.kind in ("counter", "gauge", "histogram")
        assert re.fullmatch(r"(otelcol|spansieve)_[a-z0-9_]+", instrument.name)
        assert not instrument.name.endswith("_total"), "the page adds it where it is wanted"
        assert instrument.description.endswith(".")
        assert instrument in documented, "its reference page lists it"
        assert all(isinstance(text, str) for label in labels for text in label)
        assert isinstance(value, int | float)
        if instrument.kind != "gauge":
            assert value >= totals.get((instrument, labels, suffix), 0)
            totals[instrument, labels, suffix] = value


@every_component
def test_two_instances_are_independent(component: Component, bench: Bench) -> None:
    """As on a reload, when the old one drains beside the new one."""
    one, two = bench.make(component), bench.make(component)
    one.start()
    two.start()
    one.shutdown(1.0)
    assert isinstance(list(two.samples()), list)
    two.shutdown(1.0)
