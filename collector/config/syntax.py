"""YAML text to plain values, with the line of every key, as the Collector's parser reads it.

Typing is YAML 1.2 with what go-yaml v3 keeps of 1.1: `yes`, `no`, `on` and dates are text; `017` and `0o17` are
octal; `_` may stand between digits; `<<` merges maps. Beyond that parser, everything is bounded: nesting, and what
anchors may multiply.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from collector.errors import InvalidYAML
from collector.lean import Any, NamedTuple
from collector.native import yaml
from collector.native.yaml import Event

MAX_DEPTH = 100
MAX_VALUES = 100_000

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_PREFIXES = {"0x": 16, "0o": 8, "0b": 2}
_DIGITS = {2: "01", 8: "01234567", 10: "0123456789", 16: "0123456789abcdefABCDEF"}
_IN_FLOATS = "0123456789+-.eE"
_MAX_INT_LENGTH = 70
_TAG = "tag:yaml.org,2002:"
_TAG_TYPES: dict[str, Any] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}


class Parsed(NamedTuple):
    """A value, for each path in it (`a::b::0`) the line on which it begins, and that of its document."""

    value: Any
    lines: dict[str, int]
    line: int = 1


def parse(text: str) -> Parsed:
    """Return the only document of text; None when there is none.

    Raises:
        InvalidYAML: the text cannot be read.
    """
    documents = parse_all(text)
    first = next(documents, Parsed(None, {}))
    second = next(documents, None)
    if second is not None:
        raise InvalidYAML("expected one document, found another", second.line)
    return first


def parse_all(text: str) -> Iterator[Parsed]:
    """Yield the documents of text, of which there may be none.

    Raises:
        InvalidYAML: the text cannot be read.
    """
    try:
        yield from _Builder(text).documents()
    except yaml.Fault as fault:
        from collector.config.yaml_faults import explain

        raise InvalidYAML(*explain(fault, text)) from fault
    except UnicodeError as error:
        raise InvalidYAML("the text is not valid Unicode", 1) from error


def join(path: str, key: object) -> str:
    """Return the path of key in the map or list at path."""
    return f"{path}::{key}" if path else str(key)


class _Anchored(NamedTuple):
    value: Any
    n_values: int
    height: int


class _Builder:
    def __init__(self, text: str) -> None:
        self._events = yaml.read_events(text)
        self._lines: dict[str, int] = {}
        self._anchors: dict[str, _Anchored | None] = {}  # None while the value is being read
        self._n_values = 0
        self._deepest = 0

    def documents(self) -> Iterator[Parsed]:
        self._next()
        while (event := self._next()).kind == yaml.DOCUMENT:
            self._lines, self._anchors = {}, {}
            value = self._value(self._next(), "", 0)
            self._next()
            yield Parsed(value, self._lines, event.line)

    def _next(self) -> Event:
        return next(self._events)

    def _value(self, event: Event, path: str, depth: int) -> Any:
        self._lines[path] = event.line
        if event.kind == yaml.ALIAS:
            return self._alias(event, depth)
        self._reach(depth, 1, event)
        if event.anchor:
            self._anchors.setdefault(event.anchor, None)
        n_before, deepest_before = self._n_values, self._deepest
        self._deepest = depth
        if event.kind == yaml.SCALAR:
            value = _scalar(event)
        elif event.kind == yaml.SEQUENCE:
            value = self._sequence(path, depth)
        else:
            value = self._mapping(path, depth)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(
                value, self._n_values - n_before + 1, self._deepest - depth
            )
        self._deepest = max(self._deepest, deepest_before)
        return value

    def _alias(self, event: Event, depth: int) -> Any:
        # The value is shared, but counted as often as it is used: others walk it that often.
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            is_open = event.anchor in self._anchors
            problem = "anchor '{}' value contains itself" if is_open else 'unknown anchor "{}" referenced'
            raise InvalidYAML(problem.format(event.anchor), event.line)
        self._reach(depth + anchored.height, anchored.n_values, event)
        return anchored.value

    def _reach(self, depth: int, n_values: int, event: Event) -> None:
        self._n_values += n_values
        self._deepest = max(self._deepest, depth)
        if self._n_values > MAX_VALUES:
            raise InvalidYAML(f"more than {MAX_VALUES} values", event.line)
        if depth > MAX_DEPTH:
            raise InvalidYAML(f"nested deeper than {MAX_DEPTH} levels", event.line)

    def _sequence(self, path: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while (event := self._next()).kind != yaml.END:
            items.append(self._value(event, join(path, len(items)), depth + 1))
        return items

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        items: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        key_lines: dict[str, int] = {}
        while (event := self._next()).kind != yaml.END:
            line = event.line
            if event.kind == yaml.SCALAR and event.value == "<<" and event.is_plain:
                line_of_map = self._lines[path]
                merge = self._merge(self._value(self._next(), path, depth + 1), line)
                self._lines[path] = line_of_map
                for key in merge:
                    self._lines.setdefault(join(path, key), line)
                merged = {**merge, **merged}
                continue
            key = self._key(event)
            if key in key_lines:
                raise InvalidYAML(f'key "{key}" is already defined at line {key_lines[key]}', line)
            key_lines[key] = line
            below = join(path, key)
            items[key] = self._value(self._next(), below, depth + 1)
            self._lines[below] = line
        return {**merged, **items}

    def _key(self, event: Event) -> str:
        if event.kind == yaml.SCALAR:
            return event.value
        raise InvalidYAML("a key must be text", event.line)

    def _merge(self, value: Any, line: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for item in reversed(value if isinstance(value, list) else [value]):
            if not isinstance(item, dict):
                raise InvalidYAML("map merge requires map or sequence of maps as the value", line)
            merged.update(item)
        return merged


def _scalar(event: Event) -> Any:
    text, tag = event.value, event.tag
    if event.is_plain:
        return resolve(text)
    name = tag.removeprefix(_TAG)
    if name in ("", "str"):
        return text
    value = resolve(text)
    if name not in _TAG_TYPES or not isinstance(value, _TAG_TYPES[name]):
        raise InvalidYAML(f"cannot read {text[:60]!r} as {tag.replace(_TAG, '!!')}", event.line)
    return float(value) if name == "float" else value


def resolve(text: str) -> Any:
    """Return the value of an unquoted scalar: None, a bool, a number, or text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    value = _int(plain) if len(plain) <= _MAX_INT_LENGTH else None
    if value is not None and -(2**63) <= value < 2**64:
        return value
    number = _float(plain)
    return text if number is None else number


def _int(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    base = _PREFIXES.get(digits[:2].lower(), 0)
    if base:
        digits = digits[2:]
    else:
        base = 8 if digits[:1] == "0" and len(digits) > 1 else 10
    if not digits or digits.strip(_DIGITS[base]):  # int takes more than digits
        return None
    return -int(digits, base) if text[0] == "-" else int(digits, base)


def _float(text: str) -> float | None:
    if text.strip(_IN_FLOATS):  # float takes more: `nan` and `infinity`, spaces, digits of all the world
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
