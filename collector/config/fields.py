"""How a component declares its configuration: frozen dataclasses whose fields are made by `option`.

One declaration has many readers: the decoder, the checks, the reference text and the JSON schema.
Allowed annotations: bool, int, float, str, Duration, Secret, enum.StrEnum subclasses, another such
dataclass, tuple[X, ...], dict[str, X], `X | None`, and Any, which takes whatever stands there unchecked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NewType

Duration = NewType("Duration", float)
"""Seconds. Written in YAML as a Go duration: `200ms`, `1h2m3.5s`."""


class Secret(str):
    """Text that never shows: repr and str-formatting of configurations print `[REDACTED]`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[REDACTED]"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What is known of one field beyond its type and default."""

    doc: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: Sequence[str] = ()
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
            ours=ours,
            null_enables=null_enables,
        )
    }
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)
