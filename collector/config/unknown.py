"""What to say of a component type that there is not, and of a reference to nothing; loaded to complain only.

An advice names a component of the same kind that the word can stand for, or what to do without: never one that merely
sounds alike, is of other signals, or is misspelt itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from collector.config import elsewhere
from collector.config.values import nearest
from collector.ids import ComponentID, Kind, Signal
from collector.lean import NamedTuple
from collector.registry import Registered, Registry, Unavailable, UnknownType

_MOST_LISTED = 8


class Unknown(NamedTuple):
    """What is said of an unknown type.

    Attributes:
        in_use: it does harm only where something uses it: the Collector has it.
        meant: the id that was probably meant; None when there is none of ours.
    """

    message: str
    in_use: bool = False
    meant: ComponentID | None = None


def explain(registry: Registry, kind: Kind, id: ComponentID) -> Unknown:
    """Say that there is no type as in id, and what to do."""
    types = registry.types(kind)
    message = f'unknown type: "{id.type}" for id: "{id}" (valid values: [{" ".join(types)}])'
    found = elsewhere.find(kind, id.type)
    if found is not None:
        of_today = "" if found.type == id.type else f", {found.type} today,"
        return Unknown(
            f"{message}; the Collector has this {kind.singular}{of_today} and spansieve has not: {found.advice}",
            in_use=True,
        )
    for other in Kind:
        if _find(registry, other, id.type):
            return Unknown(f"{message}; {id.type} is one of the {other.value}: move it there")
    word = nearest(id.type, types)
    if word is not None:
        return Unknown(f"{message}; did you mean {word!r}?", meant=ComponentID(word, id.name))
    for other in Kind:
        found = elsewhere.find(other, id.type)
        if found is not None:
            return Unknown(
                f"{message}; {found.type} is one of the Collector's {other.value}, and not in spansieve: "
                f"{found.advice}"
            )
    found = elsewhere.find(kind, nearest(id.type, elsewhere.types(kind)) or "")
    if found is None:
        return Unknown(message)
    return Unknown(
        f"{message}; did you mean {found.type!r}, which the Collector has and spansieve has not? {found.advice}"
    )


def advise_on_reference(
    registry: Registry,
    configured: Mapping[Kind, set[ComponentID]],
    kinds: tuple[Kind, ...],
    id: ComponentID,
    signal: Signal | None,
) -> str:
    """Return what to do about a reference to nothing, behind a message.

    Args:
        kinds: of the components that may stand there.
        signal: of the pipeline; None for extensions.
    """
    usable: dict[str, None] = {}
    for kind in kinds:
        for other in sorted(configured[kind]):
            found = _find(registry, kind, other.type)
            if found is None or (signal is not None and signal not in _signals(found)):
                continue
            usable[str(other)] = None
            same = _find(registry, kind, id.type)
            if same is not None and same.type == found.type and other.name == id.name:
                older = id.type if same.type == other.type else other.type
                return f'; did you mean "{other}"? {older} is an older name of {same.type}, and ids must be equal'
    for kind in Kind:
        if kind not in kinds and id in configured[kind]:
            return f"; {id} is one of the {kind.value}"
    of_type = [other for other in usable if other.partition("/")[0] == id.type]
    word = of_type[0] if len(of_type) == 1 else nearest(str(id), usable)
    if word is not None:
        return f"; did you mean {word!r}?"
    if not usable or len(usable) > _MOST_LISTED:
        return ""
    return f"; configured are {', '.join(usable)}"


def _find(registry: Registry, kind: Kind, type: str) -> Registered | None:
    try:
        return registry.find(kind, type)
    except (UnknownType, Unavailable):
        return None


def _signals(found: Registered) -> frozenset[Signal]:
    factory = found.factory
    return factory.signals | {signal for pair in factory.connects for signal in pair}
