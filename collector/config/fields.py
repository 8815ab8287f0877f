"""How a component declares its configuration: classes made by `section`, whose fields are made by `option`.

One declaration has many readers: the decoder, the checks, the reference text and the JSON schema.
Allowed annotations: bool, int, float, str, Reference, Duration, Secret, enum.StrEnum subclasses, another such
class, tuple[X, ...], dict[str, X], `X | None`, and Any, which takes whatever stands there unchecked.

A class may have `unserved: ClassVar[Mapping[str, str]]`: keys of the Collector that are refused by name where they
say something, with the end of the message, such as `; use http://`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NewType, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")

Duration = NewType("Duration", float)
"""Seconds. Written in YAML as a Go duration: `200ms`, `1h2m3.5s`."""


Reference = NewType("Reference", str)
"""The id of a component. Unlike other texts, a list of them may not be written as one text with commas."""


class Secret(str):
    """Text that a repr does not show, and so neither does that of a configuration: `[REDACTED]`. str() does."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[REDACTED]"


class Option(NamedTuple):
    """What is known of one field beyond its type and default."""

    doc: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: Sequence[str] = ()
    synonyms: Mapping[str, str] = MappingProxyType({})
    ours: bool = False
    null_enables: bool = False


def option(
    default: Any = dataclasses.MISSING,
    *,
    doc: str,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] = (),
    synonyms: Mapping[str, str] = MappingProxyType({}),
    ours: bool = False,
    null_enables: bool = False,
    factory: Callable[[], Any] | None = None,
) -> Any:
    """Return a dataclass field that carries its documentation and limits.

    Args:
        default: value where the key is absent or null; without it the key is required.
        doc: one sentence for the reference page.
        unit: of a bare number, such as `%` or `MiB`.
        minimum: smallest allowed number, inclusive.
        maximum: largest allowed number, inclusive.
        choices: the allowed texts.
        synonyms: texts in lower case that are read as one of the allowed ones, of choices or of an enum.
        ours: True for a key that the Collector does not have.
        null_enables: for a field of type `SomeDataclass | None`: the key with a null value, as in `grpc:`,
            means SomeDataclass with its defaults; only the absent key means None.
        factory: makes the default instead, for dicts and nested dataclasses.
    """
    metadata = {
        "option": Option(
            doc=doc,
            unit=unit,
            minimum=minimum,
            maximum=maximum,
            choices=choices,
            synonyms=synonyms,
            ours=ours,
            null_enables=null_enables,
        )
    }
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class _Methods:
    """The methods of all sections."""

    __dataclass_fields__: dict[str, dataclasses.Field[Any]]

    def __init__(self, **values: Any) -> None:
        for name, field in self.__dataclass_fields__.items():
            if name in values:
                value = values.pop(name)
            elif field.default_factory is not dataclasses.MISSING:
                value = field.default_factory()
            elif field.default is not dataclasses.MISSING:
                value = field.default
            else:
                raise TypeError(f"{type(self).__name__} needs {name}")
            object.__setattr__(self, name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
        return f"{type(self).__qualname__}({values})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__dataclass_fields__))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def section(cls: type[T]) -> type[T]:
    """Make cls a frozen dataclass with slots and keyword-only fields.

    What it does not have is methods of its own: `dataclasses` writes and compiles six for each class whenever it is
    imported, and that was a fifth of the time to start.
    """
    made: type[T] = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(cls)
    # Without what is no field of an instance, such as `unserved`.
    made.__dataclass_fields__ = {field.name: field for field in dataclasses.fields(made)}  # type: ignore[attr-defined, arg-type]
    for name in ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"):
        setattr(made, name, vars(_Methods)[name])
    return made
