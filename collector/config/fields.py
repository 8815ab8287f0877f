"""How a component declares its configuration: classes made by `section`, whose fields are made by `option`.

One declaration has many readers: the decoder, the checks, the reference text and the JSON schema.
Allowed annotations: bool, int, float, str, Reference, Duration, Secret, StrEnum subclasses, another such
class, tuple[X, ...], dict[str, X], `X | None`, and Any, which takes whatever stands there unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from collector.lean import MISSING, Any, Field, NamedTuple, TypeVar, dataclass_transform, record

T = TypeVar("T")

_NO_SYNONYMS: Mapping[str, str] = {}


class Duration(float):
    """Seconds. Written in YAML as a Go duration: `200ms`, `1h2m3.5s`."""

    __slots__ = ()


class Reference(str):
    """The id of a component. Unlike other texts, a list of them may not be written as one text with commas."""

    __slots__ = ()


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
    synonyms: Mapping[str, str] = _NO_SYNONYMS
    values: Sequence[str] = ()
    ours: bool = False
    null_enables: bool = False
    refused: str | None = None


def option(
    default: Any = MISSING,
    *,
    doc: str,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] = (),
    synonyms: Mapping[str, str] = _NO_SYNONYMS,
    values: Sequence[str] = (),
    ours: bool = False,
    null_enables: bool = False,
    factory: Callable[[], Any] | None = None,
) -> Any:
    """Return a field that carries its documentation and limits.

    Args:
        default: value where the key is absent or null; without it the key is required.
        doc: one sentence for the reference page.
        unit: of a bare number, such as `%` or `MiB`.
        minimum: smallest allowed number, inclusive.
        maximum: largest allowed number, inclusive.
        choices: the allowed texts, whatever their case.
        synonyms: texts in lower case that are read as one of the allowed ones, of choices or of an enum.
        values: the allowed texts where the section's `problems` refuses others in the Collector's words; for readers
            of the declaration only.
        ours: True for a key that the Collector does not have.
        null_enables: for a field of type `SomeSection | None`: the key with a null value, as in `grpc:`,
            means SomeSection with its defaults; only the absent key means None.
        factory: makes the default instead, for dicts and nested sections.
    """
    return Field(
        default,
        factory=factory,
        metadata=Option(
            doc=doc,
            unit=unit,
            minimum=minimum,
            maximum=maximum,
            choices=choices,
            synonyms=synonyms,
            values=values,
            ours=ours,
            null_enables=null_enables,
        ),
    )


def unserved(advice: str = "") -> Any:
    """Return the field, of type Any, of a key that is refused by name where it says something.

    Args:
        advice: what to do instead.
    """
    return Field(None, metadata=Option(doc="Not supported yet.", refused=f"; {advice}" if advice else ""))


@dataclass_transform(kw_only_default=True, frozen_default=True)
def section(cls: type[T]) -> type[T]:
    """Make cls a frozen class with keyword-only fields."""
    return record(cls)
