"""The attributes op: its configuration as plain values."""

from __future__ import annotations

from collections.abc import Sequence

from collector.lean import Any, NamedTuple, StrEnum
from collector.native.errors import new_error
from collector.native.library import ffi, lib
from collector.native.ops import Op


class Verb(StrEnum):
    """What an action does: ss_attribute_verb by name."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"
    DELETE = "delete"
    HASH = "hash"
    EXTRACT = "extract"
    CONVERT = "convert"


# What `Op.counter` counts: searches for a pattern that were given up.
UNDECIDED = int(lib.SS_ATTRIBUTES_UNDECIDED)


class ConvertedType(StrEnum):
    """What `convert` makes of a value: ss_value_type by name."""

    STRING = "string"
    INT = "int"
    DOUBLE = "double"


class Action(NamedTuple):
    """One action; value and otherwise are what YAML has, None: not given."""

    verb: Verb
    key: str = ""
    pattern: str = ""
    value: Any = None
    from_metadata: str = ""
    from_attribute: str = ""
    otherwise: Any = None
    converted_type: ConvertedType = ConvertedType.STRING


class Condition(NamedTuple):
    """An attribute that must be there, with this value where it is not None."""

    key: str
    value: Any = None


class Library(NamedTuple):
    """An instrumentation scope, of this version where it is not None."""

    name: str
    version: str | None = None


class Match(NamedTuple):
    """Which items: all must hold, of a list of texts one; min_severity_number None: any severity will do."""

    is_regexp: bool
    services: Sequence[str] = ()
    names: Sequence[str] = ()
    span_kinds: Sequence[str] = ()
    log_bodies: Sequence[str] = ()
    log_severity_texts: Sequence[str] = ()
    min_severity_number: int | None = None
    matches_undefined_severity: bool = False
    libraries: Sequence[Library] = ()
    resources: Sequence[Condition] = ()
    attributes: Sequence[Condition] = ()


class _Memory:
    # What the native configuration points to, alive until the op has copied it.

    def __init__(self) -> None:
        self._owned: list[Any] = []

    def keep(self, value: Any) -> Any:
        self._owned.append(value)
        return value

    def text(self, value: str) -> dict[str, Any]:
        encoded = value.encode()
        return {"data": self.keep(ffi.new("char[]", encoded)), "length": len(encoded)}

    def array(self, type: str, items: Sequence[Any]) -> Any:
        return self.keep(ffi.new(f"{type}[]", items))

    def texts(self, values: Sequence[str]) -> dict[str, Any]:
        return {"texts": self.array("ss_text", [self.text(value) for value in values]), "n": len(values)}

    def value(self, value: Any) -> dict[str, Any]:
        match value:
            case None:
                return {"type": lib.SS_TYPE_EMPTY}
            case bool():
                return {"type": lib.SS_TYPE_BOOL, "integer": int(value)}
            case int():
                return {"type": lib.SS_TYPE_INT, "integer": value}
            case float():
                return {"type": lib.SS_TYPE_DOUBLE, "real": value}
            case str():
                return {"type": lib.SS_TYPE_STRING, "string": self.text(value)}
            case dict():
                keys = self.array("ss_text", [self.text(key) for key in value])
                return {"type": lib.SS_TYPE_MAP, "keys": keys, **self._items(list(value.values()))}
            case _:
                return {"type": lib.SS_TYPE_ARRAY, **self._items(value)}

    def _items(self, values: Sequence[Any]) -> dict[str, Any]:
        items = self.array("ss_value", [self.value(value) for value in values])
        return {"items": items, "n_items": len(values)}

    def given(self, value: Any) -> Any:
        return ffi.NULL if value is None else self.keep(ffi.new("ss_value *", self.value(value)))

    def action(self, action: Action) -> dict[str, Any]:
        return {
            "verb": getattr(lib, f"SS_ATTRIBUTE_{action.verb.name}"),
            "key": self.text(action.key),
            "pattern": self.text(action.pattern),
            "value": self.given(action.value),
            "from_metadata": self.text(action.from_metadata),
            "from_attribute": self.text(action.from_attribute),
            "otherwise": self.given(action.otherwise),
            "converted_type": getattr(lib, f"SS_TYPE_{action.converted_type.name}"),
        }

    def conditions(self, conditions: Sequence[Condition]) -> dict[str, Any]:
        items = [{"key": self.text(each.key), "value": self.given(each.value)} for each in conditions]
        return {"conditions": self.array("ss_attribute_condition", items), "n": len(items)}

    def library(self, library: Library) -> dict[str, Any]:
        return {
            "name": self.text(library.name),
            "has_version": library.version is not None,
            "version": self.text(library.version or ""),
        }

    def match(self, match: Match | None) -> Any:
        if match is None:
            return ffi.NULL
        libraries = [self.library(library) for library in match.libraries]
        fields = {
            "is_regexp": match.is_regexp,
            "services": self.texts(match.services),
            "names": self.texts(match.names),
            "span_kinds": self.texts(match.span_kinds),
            "log_bodies": self.texts(match.log_bodies),
            "log_severity_texts": self.texts(match.log_severity_texts),
            "has_severity_number": match.min_severity_number is not None,
            "min_severity_number": match.min_severity_number or 0,
            "matches_undefined_severity": match.matches_undefined_severity,
            "libraries": self.array("ss_library_condition", libraries),
            "n_libraries": len(libraries),
            "resources": self.conditions(match.resources),
            "attributes": self.conditions(match.attributes),
        }
        return self.keep(ffi.new("ss_attribute_match *", fields))


def native_values(values: Sequence[Any]) -> tuple[Any, object]:
    """Return an array of ss_value, and what must be kept for as long as that is used."""
    memory = _Memory()
    return memory.array("ss_value", [memory.value(value) for value in values]), memory


def attributes(
    actions: Sequence[Action],
    *,
    include: Match | None = None,
    exclude: Match | None = None,
    is_resource: bool = False,
) -> Op:
    """Return the op that applies actions in order to the attributes of items, or of resources."""
    memory = _Memory()
    fields = {
        "is_resource": is_resource,
        "actions": memory.array("ss_attribute_action", [memory.action(action) for action in actions]),
        "n_actions": len(actions),
        "include": memory.match(include),
        "exclude": memory.match(exclude),
    }
    error = new_error()
    config = ffi.new("ss_attributes_config *", fields)
    return Op(lib.ss_attributes_new(config, error), error, "attributes")
