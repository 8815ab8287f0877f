"""What the start path takes from `typing`, `dataclasses`, `enum` and others, without what these cost.

`typing` and `dataclasses`, with the `inspect`, `ast` and `tokenize` that they import and the code that they generate
for each class, would be a fifth of an idle collector and a sixth of its start; `enum`, `re` and `contextlib` are small
beside them and large beside the rest. Type checkers see the real names; a running collector gets stand-ins, most of
which do nothing.
"""

from __future__ import annotations

import sys
from _collections import _tuplegetter  # type: ignore[import-not-found]

TYPE_CHECKING = False  # type checkers take this name for True

if TYPE_CHECKING:
    import signal as signal
    from collections.abc import Callable, Mapping
    from enum import Enum as Enum
    from enum import IntEnum as IntEnum
    from enum import StrEnum as StrEnum
    from re import Pattern
    from typing import Any as Any
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
    from typing import Protocol as Protocol
    from typing import Self as Self
    from typing import TextIO as TextIO
    from typing import TypeVar as TypeVar
    from typing import dataclass_transform as dataclass_transform

    T = TypeVar("T")
else:
    import _signal as signal  # noqa: F401 without the enums that signal makes of all numbers

    Protocol = object
    NoReturn = Self = TextIO = None  # for annotations, which stay texts

    class Any:
        """Anything at all; an annotation, never made."""

    def TypeVar(name, **_bounds):  # noqa: N802
        """Return the name: generic functions are for type checkers."""
        return name

    def dataclass_transform(**_options):
        """Return a decorator that changes nothing."""
        return lambda function: function

    class _NamedTupleType(type):
        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            names = tuple(namespace.get("__annotations__", ()))
            defaults = {each: namespace[each] for each in names if each in namespace}
            methods = {key: value for key, value in namespace.items() if key not in defaults}
            getters = {each: _tuplegetter(position, "") for position, each in enumerate(names)}
            return type(
                name,
                (_Fields,),
                {**methods, **getters, "__slots__": (), "_fields": names, "_field_defaults": defaults},
            )

    class _Fields(tuple):
        __slots__ = ()

        def __new__(cls, *values, **named):
            names = cls._fields
            if named or len(values) != len(names):
                given = dict(zip(names, values, strict=False))
                if len(values) > len(names) or given.keys() & named.keys() or named.keys() - set(names):
                    raise TypeError(f"{cls.__name__} takes {', '.join(names)} once each")
                given = {**cls._field_defaults, **given, **named}
                if len(given) < len(names):
                    raise TypeError(f"{cls.__name__} needs {', '.join(set(names) - given.keys())}")
                values = (given[name] for name in names)
            return super().__new__(cls, values)

        def __repr__(self):
            values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)

        def _replace(self, **changes):
            return type(self)(**{**self._asdict(), **changes})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

    NamedTuple = _NamedTupleType("NamedTuple", (), {})

    class _EnumType(type):
        def __new__(cls, name, bases, namespace):
            members = {
                key: value
                for key, value in namespace.items()
                if not key.startswith("_") and not hasattr(value, "__get__")
            }
            made = super().__new__(
                cls, name, bases, {key: value for key, value in namespace.items() if key not in members}
            )
            made.__members__ = {}
            for key, value in members.items():
                member = made.__new__(made, value) if issubclass(made, str | int) else made.__new__(made)
                member.name, member.value = key, value
                setattr(made, key, member)
                made.__members__[key] = member
            return made

        def __call__(cls, value):
            for member in cls:
                if member is value or member.value == value:
                    return member
            raise ValueError(f"{value!r} is not a valid {cls.__qualname__}")

        def __iter__(cls):
            return iter(cls.__members__.values())

        def __len__(cls):
            return len(cls.__members__)

        def __contains__(cls, member):
            return member in cls.__members__.values()

    class Enum(metaclass=_EnumType):
        """Some names, each with its value; no two have the same."""

        def __repr__(self):
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __reduce__(self):
            return type(self), (self.value,)

    class StrEnum(str, Enum):  # noqa: SLOT000 members have a name and a value
        """Members are texts."""

        __str__ = str.__str__

    class IntEnum(int, Enum):
        """Members are numbers."""

        __str__ = int.__repr__


class _Pattern:
    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Any:
        import re

        return getattr(re.compile(self._text), name)  # re keeps what it has compiled


def pattern(text: str) -> Pattern[str]:
    """Return a regular expression that is compiled when it is first used: without one `re` is not even imported."""
    return _Pattern(text)  # type: ignore[return-value]


class suppress:  # noqa: N801 the name that contextlib has for it
    """`contextlib.suppress`: the block ends where one of some kinds of exception is raised."""

    __slots__ = ("_kinds",)

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, _error: object, _traceback: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


class Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = Missing()
"""The default of a field that must be given."""


class Field:
    """A field of a record: its annotation as written, its default, and whatever else is known of it."""

    __slots__ = ("annotation", "default", "factory", "metadata", "name", "owner")

    def __init__(
        self, default: Any = MISSING, *, factory: Callable[[], Any] | None = None, metadata: Any = None
    ) -> None:
        self.name = ""
        self.annotation: Any = None
        self.owner: type[Any] = object
        self.default = default
        self.factory = factory
        self.metadata = metadata

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING and self.factory is None

    @property
    def type(self) -> Any:
        """The annotation, evaluated where it was written.

        Raises:
            NameError: it names what that module imports for type checkers only.
        """
        if not isinstance(self.annotation, str):
            return self.annotation
        return eval(self.annotation, vars(sys.modules[self.owner.__module__]))  # noqa: S307 our own source text

    def value(self) -> Any:
        """Return the default."""
        return self.factory() if self.factory is not None else self.default


def field(*, factory: Callable[[], Any]) -> Any:
    """Return a field whose default is made anew for each instance."""
    return Field(factory=factory)


class _Methods:
    """The methods of all records."""

    __record_fields__: dict[str, Field]

    def __init__(self, **values: Any) -> None:
        for name, each in self.__record_fields__.items():
            if name in values:
                value = values.pop(name)
            elif each.required:
                raise TypeError(f"{type(self).__name__} needs {name}")
            else:
                value = each.value()
            object.__setattr__(self, name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__record_fields__)
        return f"{type(self).__qualname__}({values})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__record_fields__)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__record_fields__))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete field {name!r}")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field, field))
def record(cls: type[T]) -> type[T]:
    """Make cls a frozen class with keyword-only fields, those of the records that it derives from first."""
    declared: dict[str, Field] = {}
    for base in reversed(cls.__mro__[1:]):
        declared.update(getattr(base, "__record_fields__", {}))
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        default = vars(cls).get(name, MISSING)
        each = default if isinstance(default, Field) else Field(default)
        each.name, each.annotation, each.owner = name, annotation, cls
        declared[name] = each
        if default is not MISSING:
            delattr(cls, name)
    cls.__record_fields__ = declared  # type: ignore[attr-defined]
    for name in ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"):
        setattr(cls, name, vars(_Methods)[name])
    return cls


def is_any(annotation: Any) -> bool:
    """Return whether annotation is `Any`, ours or that of typing."""
    return getattr(annotation, "__name__", "") == "Any"


def is_text_enum(annotation: object) -> bool:
    """Return whether annotation is a `StrEnum`, ours or that of enum."""
    return isinstance(annotation, type) and issubclass(annotation, str) and hasattr(annotation, "__members__")


def is_record(cls: object) -> bool:
    """Return whether cls is a class made by `record`."""
    return isinstance(cls, type) and hasattr(cls, "__record_fields__")


def fields(cls: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a record in the order of their declaration."""
    declared: dict[str, Field] = cls.__record_fields__
    return tuple(declared.values())


def replace(instance: T, **changes: Any) -> T:
    """Return a copy of a record with some fields changed."""
    values: Mapping[str, Any] = {each.name: getattr(instance, each.name) for each in fields(type(instance))}
    return type(instance)(**{**values, **changes})
