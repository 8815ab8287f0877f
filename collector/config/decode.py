"""From plain values to a component's configuration class, with every problem found and none guessed at.

Strict as the Collector is: unknown keys are errors, "5" is no number and 5 is no text, except where a reference such
as `${env:ID}` gave the value. Null means the default. A field that Python cannot spell takes an underscore behind it:
`from_` is the key `from`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from collector.config.expand import UNKNOWN, Expanded, plain
from collector.config.fields import Duration, Option, Reference, Secret
from collector.config.syntax import join, resolve
from collector.config.values import format_duration, hide_credentials, nearest, parse_duration
from collector.errors import ConfigError, Problem
from collector.lean import MISSING, Any, Field, StrEnum, TypeVar, fields, is_any, is_record, is_text_enum

ConfigT = TypeVar("ConfigT")

_FAILED: Any = object()
_NO_OPTION = Option(doc="")
_MAX_SHOWN = 60
_INT64_MAX = 2**63 - 1
_UnionType: Any = type(int | str)


class Key:
    """One key of a configuration class, for the field of the name field; required when there is no default."""

    __slots__ = ("_declared", "field", "name", "option", "required")

    def __init__(self, declared: Field) -> None:
        self._declared = declared
        self.name = declared.name.removesuffix("_")
        self.field = declared.name
        self.option: Option = declared.metadata or _NO_OPTION
        self.required = declared.required

    @property
    def annotation(self) -> Any:
        """The type; it is evaluated here, since few keys of a class are written in a configuration."""
        return self._declared.type


def keys_of(config_class: type[Any]) -> dict[str, Key]:
    """Return the keys of config_class in the order of their declaration."""
    keys = map(Key, fields(config_class))
    return {key.name: key for key in keys}


def split_optional(annotation: Any) -> tuple[Any, bool]:
    """Return X and True for `X | None`, else annotation and False."""
    if isinstance(annotation, _UnionType):
        inner = [part for part in annotation.__args__ if part is not type(None)]
        if len(inner) == 1:
            return inner[0], True
    return annotation, False


def decode(
    config_class: type[ConfigT], value: Any, path: str, locate: Callable[[str], str] = lambda path: ""
) -> ConfigT:
    """Return an instance of config_class.

    Args:
        value: a map, or None for all defaults; may hold `Expanded`.
        path: of value, such as `processors::batch`; problems carry it.
        locate: gives what a message says about where a path was written, such as ` (file.yaml:12)`.

    Raises:
        ConfigError: with all problems.
    """
    decoder = _Decoder(config_class, path, locate)
    config = decoder.section(config_class, value, path)
    if decoder.problems:
        raise ConfigError(decoder.problems)
    return config  # type: ignore[no-any-return]


class _Decoder:
    # Each method returns _FAILED when it has reported a problem.

    def __init__(self, root: type[Any], root_path: str, locate: Callable[[str], str]) -> None:
        self.problems: list[Problem] = []
        self._root = root
        self._root_path = root_path
        self._locate = locate

    def section(self, config_class: type[Any], value: Any, path: str) -> Any:
        if isinstance(value, Expanded):
            value = value.value
        if value is UNKNOWN:
            return _FAILED
        if value is None:
            value = {}
        if not isinstance(value, dict):
            return self._expected("a map", value, path)
        keys = keys_of(config_class)
        n_before = len(self.problems)
        doubtful: set[str | None] = set()
        for name in value:
            if name not in keys:
                self._fail(
                    path, f"has invalid keys: {show_key(name)}{self._advice(name, keys)}", join(path, name)
                )
                doubtful.add(nearest(name, keys))
        fields: dict[str, Any] = {}
        for key in keys.values():
            decoded = self._key(key, value, path)
            if decoded is _FAILED:
                doubtful.add(key.name)
            elif decoded is not MISSING:
                fields[key.field] = decoded
        if any(key.required and key.field not in fields for key in keys.values()):
            return _FAILED
        config = config_class(**fields)
        for rules, in_use in (("problems", False), ("problems_in_use", True)):
            for name, message in getattr(config, rules, tuple)():
                # A faulty value has its default here, of which nobody wants to hear; rules over several fields wait.
                if not doubtful or name.partition("::")[0] not in {"", *doubtful}:
                    self._fail(join(path, name) if name else path, message, in_use=in_use)
        return config if len(self.problems) == n_before else _FAILED

    def _key(self, key: Key, values: dict[str, Any], path: str) -> Any:
        below = join(path, key.name)
        if key.name not in values:
            return self._fail(below, "is required") if key.required else MISSING
        value = values[key.name]
        annotation, optional = split_optional(key.annotation)
        if value is None or (
            isinstance(value, Expanded) and value.value is None and not _is_text(annotation)
        ):
            if optional and key.option.null_enables:
                return self.section(annotation, None, below)
            if key.required:
                return self._fail(below, "is required")
            return MISSING
        if key.option.refused is not None:
            if plain(value):
                return self._fail(below, f"not supported yet{key.option.refused}", in_use=True)
            return MISSING  # it asks for nothing
        return self._value(annotation, key.option, value, below)

    def _value(self, annotation: Any, option: Option, value: Any, path: str) -> Any:
        if value is UNKNOWN:
            return _FAILED
        annotation, optional = split_optional(annotation)
        if optional and plain(value) is None:
            return None
        if _is_text(annotation):
            return self._text(annotation, option, value, path)
        if isinstance(value, Expanded):
            value = value.value
        if is_record(annotation):
            return self.section(annotation, value, path)
        if is_any(annotation) or annotation is object:
            return plain(value)
        origin = getattr(annotation, "__origin__", annotation)
        if origin is tuple:
            return self._list(annotation.__args__[0], option, value, path)
        if origin is dict:
            return self._map(annotation.__args__[1], option, value, path)
        if annotation is bool:
            if not isinstance(value, bool):
                return self._expected("true or false", value, path, _quotes_advice(value))
            return value
        if annotation is int:
            return self._int(option, value, path)
        if annotation is float:
            return self._float(option, value, path)
        if annotation is Duration:
            return self._duration(option, value, path)
        if is_text_enum(annotation):
            return self._enum(annotation, option, value, path)
        raise TypeError(f"{path}: {annotation!r} cannot be the type of a configuration field")

    def _list(self, annotation: Any, option: Option, value: Any, path: str) -> Any:
        if isinstance(value, str) and annotation is str:
            value = value.split(",") if value else []
        if not isinstance(value, list):
            return self._expected("a list", value, path)
        items = [self._value(annotation, option, item, join(path, index)) for index, item in enumerate(value)]
        return _FAILED if any(item is _FAILED for item in items) else tuple(items)

    def _map(self, annotation: Any, option: Option, value: Any, path: str) -> Any:
        if isinstance(value, list) and annotation is Secret:
            value = self._pairs(value, path)
            if value is _FAILED:
                return _FAILED
        if not isinstance(value, dict):
            if annotation is Secret and isinstance(value, str):
                return self._fail(path, "expected a map, got text")  # which may be the secret
            return self._expected("a map", value, path)
        items = {key: self._value(annotation, option, item, join(path, key)) for key, item in value.items()}
        return _FAILED if any(item is _FAILED for item in items.values()) else items

    def _pairs(self, items: list[Any], path: str) -> Any:
        # The other form of a map of secrets: a list of maps with the keys name and value.
        pairs: dict[str, Any] = {}
        for index, item in enumerate(map(_unwrap, items)):
            if not isinstance(item, dict) or item.keys() - {"name", "value"} or "name" not in item:
                return self._fail(join(path, index), "expected a map with the keys 'name' and 'value'")
            name = self._text(str, _NO_OPTION, item["name"], join(join(path, index), "name"))
            if name is _FAILED:
                return _FAILED
            if name in pairs:
                return self._fail(join(path, index), f"duplicate name {name!r}")
            pairs[name] = item.get("value", "")
        return pairs

    def _text(self, annotation: type[str], option: Option, value: Any, path: str) -> Any:
        if isinstance(value, Expanded):
            value = value.text
        if not isinstance(value, str):
            advice = "; put it in quotes" if isinstance(value, bool | int | float) else ""
            if annotation is Secret:
                return self._fail(path, f"expected text, got {_kind(value)}{advice}", in_use=value is None)
            return self._expected("text", value, path, advice)
        if option.choices:
            return self._choice(option, option.choices, value, path)
        return annotation(value)

    def _enum(self, annotation: type[StrEnum], option: Option, value: Any, path: str) -> Any:
        choice = self._choice(option, [str(member) for member in annotation], value, path)
        return choice if choice is _FAILED else annotation(choice)

    def _choice(self, option: Option, choices: Any, value: Any, path: str) -> Any:
        if isinstance(value, str):
            value = option.synonyms.get(value.casefold(), value)
            for choice in choices:
                if choice.casefold() == value.casefold():
                    return choice
        is_scalar = isinstance(value, str | int | float)
        return self._expected("one of " + ", ".join(map(repr, choices)), value, path, in_use=is_scalar)

    def _int(self, option: Option, value: Any, path: str) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            unit = f" of {option.unit}" if option.unit.isalpha() else ""
            cut_off = isinstance(value, float) and math.isfinite(value)
            return self._expected("a whole number" + unit, value, path, _quotes_advice(value), in_use=cut_off)
        if option.maximum is None and value > _INT64_MAX:
            return self._expected(f"at most {_INT64_MAX}", value, path)
        return self._in_range(option, value, path, str)

    def _float(self, option: Option, value: Any, path: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return self._expected("a number", value, path, _quotes_advice(value))
        return self._in_range(option, float(value), path)

    def _duration(self, option: Option, value: Any, path: str) -> Any:
        expected = "a duration such as '200ms'"
        if isinstance(value, int | float) and value == 0 and not isinstance(value, bool):
            value = "0s"
        if not isinstance(value, str):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            advice = f': missing unit in duration "{value}"' if number else ""
            return self._expected(expected, value, path, advice, in_use=number)
        try:
            duration = parse_duration(value)
        except ValueError as error:
            reason = "" if str(error).startswith("invalid") else f": {error}"
            return self._expected(expected, value, path, reason)
        return self._in_range(option, duration, path, format_duration)

    def _in_range(
        self,
        option: Option,
        value: float,
        path: str,
        show: Callable[[Any], str] = lambda number: f"{number:g}",
    ) -> Any:
        unit = f" {option.unit}" if option.unit else ""
        if option.minimum is not None and value < option.minimum:
            limit = f"least {show(option.minimum)}"
        elif option.maximum is not None and value > option.maximum:
            limit = f"most {show(option.maximum)}"
        else:
            return value
        return self._fail(path, f"expected at {limit}{unit}, got {show(value)}", in_use=True)

    def _expected(
        self, expected: str, value: Any, path: str, advice: str = "", *, in_use: bool = False
    ) -> Any:
        return self._fail(path, f"expected {expected}, got {describe(value)}{advice}", in_use=in_use)

    def _fail(self, path: str, message: str, place: str = "", *, in_use: bool = False) -> Any:
        self.problems.append(Problem(path, message + self._locate(place or path), in_use))
        return _FAILED

    def _advice(self, name: str, keys: dict[str, Key]) -> str:
        homes = list(_homes(self._root, name, ()))
        if homes:
            return "; it is valid under " + ", ".join(home or self._root_path for home in homes)
        word = nearest(name, keys)
        return f"; did you mean {word!r}?" if word else f"; valid keys: {', '.join(keys) or 'none'}"


def _quotes_advice(value: Any) -> str:
    is_other = isinstance(value, str) and value and not isinstance(resolve(value), str)
    return "; remove the quotes" if is_other else ""


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, Expanded) else value


def _is_text(annotation: Any) -> bool:
    return annotation in (str, Secret, Reference)


def _homes(config_class: type[Any], name: str, above: tuple[str, ...]) -> Iterator[str]:
    # Where in a class the key name is known.
    for key in keys_of(config_class).values():
        if key.name == name:
            yield "::".join(above)
        annotation, _ = split_optional(key.annotation)
        if is_record(annotation):
            yield from _homes(annotation, name, (*above, key.name))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    for kind, word in ((bool, "true or false"), (int | float, "a number"), (dict, "a map"), (list, "a list")):
        if isinstance(value, kind):
            return word
    return "text"


def show_key(key: str) -> str:
    """Return key as a message shows it: in quotes when what is wrong with it could not be seen."""
    return key if key and key.isprintable() and key == key.strip() else repr(key)


def describe(value: Any) -> str:
    """Return value as a message shows it; maps and lists by name only."""
    if isinstance(value, Expanded):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        shown = hide_credentials(value)
        return repr(shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "...")
    return str(value) if isinstance(value, int | float) else _kind(value)
