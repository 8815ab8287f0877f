"""The tree is the registry."""

from __future__ import annotations

import importlib.metadata
import sys
from types import SimpleNamespace

import pytest

from collector import registry
from collector.component import Stability
from collector.config.fields import option, section
from collector.config.schema import components, left_out
from collector.ids import Kind, Signal
from collector.registry import Registry, Unavailable, UnknownType

FAKES = "tests.unit.config.spansieve_fakes"


@pytest.fixture(autouse=True)
def _forget_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(f"{FAKES}.")]:
        monkeypatch.delitem(sys.modules, name)


def imported(kind: Kind) -> set[str]:
    """Return the component modules of kind that are imported."""
    prefix = f"{FAKES}.{kind.value}."
    return {name.removeprefix(prefix) for name in sys.modules if name.startswith(prefix)}


def test_only_the_named_type_is_imported() -> None:
    """A configuration pays for what it names."""
    registered = Registry(FAKES).find(Kind.EXPORTER, "debug")
    assert (registered.type, registered.module) == ("debug", f"{FAKES}.exporters.debug")
    assert imported(Kind.EXPORTER) == {"debug"}


def test_types_are_listed_without_import() -> None:
    """Naming the valid types imports none."""
    assert Registry(FAKES).types(Kind.EXPORTER) == ["debug", "kafka", "otlp_http"]
    assert imported(Kind.EXPORTER) == set()


def test_older_name_imports_its_component_only() -> None:
    """An alias is found without importing the components that do not have it, broken ones included."""
    assert Registry(FAKES).find(Kind.EXPORTER, "otlphttp").type == "otlp_http"
    assert imported(Kind.EXPORTER) == {"otlp_http"}


@pytest.mark.parametrize("type", ["nope", "receivers", "gzip"])
def test_unknown_type_is_refused(type: str) -> None:
    """A word that no component is called by, although it may stand in a file, is no type."""
    with pytest.raises(UnknownType):
        Registry(FAKES).find(Kind.EXPORTER, type)


def test_missing_dependency_is_named() -> None:
    """A component that cannot be imported is not an unknown one."""
    with pytest.raises(
        Unavailable, match="needs the module 'spansieve_no_such_module', which is not installed"
    ):
        Registry(FAKES).find(Kind.EXPORTER, "kafka")


def test_other_distributions_add_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point gives a type that the tree has not, and one that cannot be used says why."""

    def fail() -> None:
        raise ImportError("no such thing")

    factory = SimpleNamespace(config=section(type("Config", (), {})))
    plain = SimpleNamespace(config=SimpleNamespace)
    points = [
        SimpleNamespace(name="exporters.theirs", module="theirs.exporter", load=lambda: factory),
        SimpleNamespace(name="exporters.broken", module="theirs.broken", load=fail),
        SimpleNamespace(name="exporters.plain", module="theirs.plain", load=lambda: plain),
        SimpleNamespace(name="receivers.other", module="theirs.receiver", load=lambda: factory),
    ]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points if group == "spansieve.components" else []
    )
    types = Registry(FAKES)
    assert types.find(Kind.EXPORTER, "theirs") == ("theirs", "theirs.exporter", factory)
    assert types.types(Kind.EXPORTER) == ["broken", "debug", "kafka", "otlp_http", "plain", "theirs"]
    with pytest.raises(Unavailable, match="no such thing"):
        types.find(Kind.EXPORTER, "broken")
    with pytest.raises(Unavailable, match="SimpleNamespace is not made by `section`"):
        types.find(Kind.EXPORTER, "plain")
    with pytest.raises(UnknownType):
        types.find(Kind.EXPORTER, "other")


@pytest.mark.parametrize(
    "error", [ValueError("bad"), SystemExit(3), SyntaxError("bad"), RecursionError("bad")]
)
def test_whatever_an_import_raises_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """With the place where it was raised, in the tree too; only the user's own interrupt goes through."""

    def fail(_name: str = "") -> None:
        raise error

    point = SimpleNamespace(name="exporters.broken", module="theirs.broken", load=fail)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    with pytest.raises(Unavailable, match=rf"^{type(error).__name__}: .*\(.*\)$"):
        Registry(FAKES).find(Kind.EXPORTER, "broken")
    monkeypatch.setattr(registry, "_import", fail)
    with pytest.raises(Unavailable, match=rf"^{type(error).__name__}: .*\(.*\)$"):
        Registry(FAKES).find(Kind.EXPORTER, "debug")
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        Registry(FAKES).find(Kind.EXPORTER, "debug")


def test_component_that_cannot_be_shown_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its factory is made of, the others are shown, and the reason is said."""

    @section
    class Odd:
        key: NoSuchType = option(1, doc="A key of no type.")  # type: ignore[name-defined]  # noqa: F821

    factories = {
        "odd": SimpleNamespace(config=Odd, signals=frozenset(Signal), stability=Stability.BETA, aliases=()),
        "text": SimpleNamespace(
            config=section(type("Config", (), {})), signals=("traces",), stability="beta", aliases=()
        ),
        "none": None,
    }
    points = [
        SimpleNamespace(name=f"exporters.{name}", module=__name__, load=lambda factory=factory: factory)
        for name, factory in factories.items()
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    left = {found.type: str(found) for found in left_out(Registry(FAKES)) if found.kind is Kind.EXPORTER}
    assert {"kafka", "none", "odd", "text"} == left.keys()
    assert left["odd"].startswith("exporter \"odd\" is left out: NameError: name 'NoSuchType'")
    shown = [found.registered.type for found in components(Registry(FAKES)) if found.kind is Kind.EXPORTER]
    assert ["debug", "otlp_http"] == shown


def test_our_own_tree_can_be_listed() -> None:
    """Every module in the component folders of this project can be found by its file name."""
    types = Registry()
    for kind in Kind:
        for type in types.types(kind):
            assert types.find(kind, type).type == type
