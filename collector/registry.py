"""Which component types there are: the tree is the registry.

The module `collector.<kind>s.<type>` with a `factory` is the component; it is imported when a configuration names it,
and no other is. Other distributions register entry points in the group `spansieve.components`, named
`receivers.mytype` and so on, which give a factory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from collector.errors import CollectorError, explain, place_of
from collector.ids import Kind
from collector.lean import TYPE_CHECKING, NamedTuple, is_record

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import ModuleType

    from collector.component import Factory

GROUP = "spansieve.components"


class UnknownType(CollectorError):
    """No component has this type."""


class Unavailable(CollectorError):
    """The component is there but cannot be imported, for example because something it needs is not installed."""


_BROKEN = (Exception, SystemExit)
"""What a module of somebody else's may raise while it is imported; KeyboardInterrupt is the user's."""


class Registered(NamedTuple):
    """A component type.

    Attributes:
        type: the name that is not deprecated.
        module: that the factory comes from.
    """

    type: str
    module: str
    factory: Factory


class Registry:
    """Finds component types in the package root and among entry points."""

    def __init__(self, root: str = "collector") -> None:
        self._root = root
        self._found: dict[
            tuple[Kind, str], Registered
        ] = {}  # whose files may be gone when they are asked for again

    def find(self, kind: Kind, type: str) -> Registered:
        """Return the component of kind that type, or an older name, stands for.

        Raises:
            UnknownType: there is none.
            Unavailable: it cannot be imported.
        """
        if (kind, type) not in self._found:
            self._found[kind, type] = self._find(kind, type)
        return self._found[kind, type]

    def _find(self, kind: Kind, type: str) -> Registered:
        registered = self._find_in_tree(kind, type) or self._find_alias(kind, type)
        if registered is None:
            for entry_point in self._entry_points(kind):
                if entry_point.name == f"{kind.value}.{type}":
                    return self._load(type, entry_point)
            raise UnknownType(type)
        return registered

    def types(self, kind: Kind) -> list[str]:
        """Return all types of kind, sorted, without importing them."""
        installed = {entry_point.name.partition(".")[2] for entry_point in self._entry_points(kind)}
        return sorted({name for name, _ in self._files(kind)} | installed)

    def _find_in_tree(self, kind: Kind, type: str) -> Registered | None:
        name = f"{self._root}.{kind.value}.{type}"
        try:
            module = _import(name)
        except ModuleNotFoundError as error:
            if error.name == name:
                return None
            raise Unavailable(f"needs the module {error.name!r}, which is not installed") from error
        except _BROKEN as error:
            raise _unavailable(error) from error
        return Registered(type, name, module.factory) if hasattr(module, "factory") else None

    def _find_alias(self, kind: Kind, alias: str) -> Registered | None:
        # Only files that have the word in them are imported.
        for type, path in self._files(kind):
            with open(path, encoding="utf-8") as file:
                if f'"{alias}"' not in file.read():
                    continue
            registered = self._find_in_tree(kind, type)
            if registered is not None and alias in registered.factory.aliases:
                return registered
        return None

    def _files(self, kind: Kind) -> Iterator[tuple[str, str]]:
        package = _import(f"{self._root}.{kind.value}")
        for folder in package.__path__:
            try:
                names = sorted(os.listdir(folder))
            except FileNotFoundError as error:
                raise Unavailable(
                    "the package has been removed or replaced since the start; restart"
                ) from error
            for name in names:
                if name.endswith(".py") and not name.startswith("_"):
                    yield name.removesuffix(".py"), os.path.join(folder, name)

    @staticmethod
    def _entry_points(kind: Kind) -> list[EntryPoint]:
        from importlib.metadata import entry_points  # slow, and only needed for what the tree has not

        return [found for found in entry_points(group=GROUP) if found.name.startswith(f"{kind.value}.")]

    @staticmethod
    def _load(type: str, entry_point: EntryPoint) -> Registered:
        try:
            factory: Factory = entry_point.load()
            if not is_record(factory.config):
                raise Unavailable(f"its configuration {factory.config.__qualname__} is not made by `section`")
        except Unavailable:
            raise
        except _BROKEN as error:
            raise _unavailable(error) from error
        return Registered(type, entry_point.module, factory)


def _unavailable(error: BaseException) -> Unavailable:
    return Unavailable(explain(error) + place_of(error))


def _import(name: str) -> ModuleType:
    # `importlib` would do the same, and import `warnings` for it.
    __import__(name)
    return sys.modules[name]
