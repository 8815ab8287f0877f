"""The tree is the registry."""

from __future__ import annotations

import importlib.metadata
import sys
from types import SimpleNamespace

import pytest

from collector.config.fields import section
from collector.ids import Kind
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
    registry = Registry(FAKES)
    assert registry.find(Kind.EXPORTER, "theirs") == ("theirs", "theirs.exporter", factory)
    assert registry.types(Kind.EXPORTER) == ["broken", "debug", "kafka", "otlp_http", "plain", "theirs"]
    with pytest.raises(Unavailable, match="no such thing"):
        registry.find(Kind.EXPORTER, "broken")
    with pytest.raises(Unavailable, match="SimpleNamespace is not made by `section`"):
        registry.find(Kind.EXPORTER, "plain")
    with pytest.raises(UnknownType):
        registry.find(Kind.EXPORTER, "other")


def test_our_own_tree_can_be_listed() -> None:
    """Every module in the component folders of this project can be found by its file name."""
    registry = Registry()
    for kind in Kind:
        for type in registry.types(kind):
            assert registry.find(kind, type).type == type
