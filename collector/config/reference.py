"""Reference pages in Markdown, one a component, made from the declarations that the decoder reads."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator

from collector.config.decode import keys_of, split_optional
from collector.config.fields import Duration, Option, Reference, Secret
from collector.config.schema import Found, annotation_of, components, default_of, paragraphs
from collector.config.sections import ServiceSection
from collector.config.values import format_duration, nearest
from collector.errors import CollectorError
from collector.ids import Kind, Signal
from collector.lean import Any, NamedTuple, is_any, is_record, is_text_enum
from collector.registry import Registry
from collector.telemetry.instruments import INCOMING_ITEMS, OUTGOING_ITEMS, Instrument

SERVICE = "service"
_SHARED_BY_EXPORTERS = "collector.exporterhelper."


class UnknownPage(CollectorError):
    """There is nothing of this name to tell about."""


class Row(NamedTuple):
    """One key of a configuration class.

    Attributes:
        path: below the component's id; `*` stands for every entry of a list or map.
        type: in words.
        default: as YAML has it, None where there is none, or where it is a section.
    """

    path: str
    type: str
    default: Any
    required: bool
    option: Option


class Page(NamedTuple):
    """A text and the file that it belongs in, relative to the index."""

    file: str
    text: str


def rows(config_class: type[Any]) -> Iterator[Row]:
    """Yield the keys of a class, each section followed by its own."""
    for key in keys_of(config_class).values():
        annotation, _ = split_optional(annotation_of(config_class, key))
        yield Row(
            key.name,
            type_text(annotation, key.option),
            default_of(config_class, key),
            key.required,
            key.option,
        )
        prefix, nested = _nested(annotation)
        for row in rows(nested) if nested else ():
            yield row._replace(path=f"{key.name}{prefix}::{row.path}")


def _nested(annotation: Any) -> tuple[str, type[Any] | None]:
    annotation, _ = split_optional(annotation)
    if is_record(annotation):
        return "", annotation
    if getattr(annotation, "__origin__", None) in (tuple, dict):
        inner = annotation.__args__[0 if annotation.__origin__ is tuple else 1]
        prefix, nested = _nested(inner)
        return f"::*{prefix}", nested
    return "", None


def type_text(annotation: Any, option: Option) -> str:
    """Return a type in words, with the range or choice it is limited to."""
    annotation, _ = split_optional(annotation)
    origin = getattr(annotation, "__origin__", None)
    if origin is tuple:
        return f"list of {_plural(type_text(annotation.__args__[0], option))}"
    if origin is dict:
        return f"map to {type_text(annotation.__args__[1], option)}"
    if is_record(annotation):
        return "section"
    if is_any(annotation) or annotation is object:
        return "anything"
    choices = option.choices or tuple(filter(None, option.values))
    if is_text_enum(annotation):
        choices = [str(member) for member in annotation]
    if choices:
        return "one of " + ", ".join(f"`{choice}`" for choice in choices)
    names = {str: "text", Reference: "id", Secret: "secret text", bool: "true or false", Duration: "duration"}
    name = names.get(annotation) or {int: "whole number", float: "number"}[annotation]
    unit = f" ({option.unit})" if option.unit else ""
    return f"{name}{unit}{_range_text(option, format_duration if annotation is Duration else _number_text)}"


def _plural(text: str) -> str:
    known = {"section": "sections", "text": "texts", "id": "ids", "anything": "anything"}
    return known.get(text, text)


def _number_text(number: float) -> str:
    return f"{number:.10g}"


def _range_text(option: Option, show: Callable[[float], str]) -> str:
    least, most = option.minimum, option.maximum
    if least is not None and most is not None:
        return f" from {show(least)} to {show(most)}"
    if least is not None:
        return f", at least {show(least)}" if least else ", not negative"
    return f", at most {show(most)}" if most is not None else ""


def default_text(row: Row) -> str:
    """Return a default as one would write it in YAML; a list by its items."""
    if row.required:
        return "required"
    if row.default is None:
        return ""
    if isinstance(row.default, list):
        return ", ".join(f"`{_scalar_text(item)}`" for item in row.default) or "`[]`"
    if isinstance(row.default, dict):
        return f"`{json.dumps(row.default)}`"
    return f"`{_scalar_text(row.default)}`"


def _scalar_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


def instruments(found: Found) -> list[Instrument]:
    """Return the metrics that a component tells about itself, by name.

    They are the constants of its module; of an exporter those of the helper that it works with too.
    """
    module = sys.modules[found.registered.module]
    modules = {module.__name__: module}
    for value in vars(module).values():
        name = getattr(value, "__module__", None) or ""
        if name.startswith(_SHARED_BY_EXPORTERS):
            modules[name] = sys.modules[name]
    emitted = {
        each for one in modules.values() for value in vars(one).values() for each in _instruments_in(value)
    }
    if found.kind is Kind.PROCESSOR:
        emitted |= {INCOMING_ITEMS, OUTGOING_ITEMS}
    return sorted(emitted)


def _instruments_in(value: object) -> Iterator[Instrument]:
    if isinstance(value, Instrument):
        yield value
    elif isinstance(value, dict | list | tuple | set | frozenset):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _instruments_in(item)


def component_page(found: Found) -> Page:
    """Return the page of a component."""
    registered, kind = found.registered, found.kind
    factory, type = registered.factory, registered.type
    signals = ", ".join(signal.value for signal in Signal if signal in factory.signals)
    facts = [("signals", signals), ("stability", factory.stability.value)]
    facts += [("older names", ", ".join(f"`{alias}`" for alias in factory.aliases))]
    about = [
        re.sub(r"\s*Sources?: .*", "", text) for text in paragraphs(sys.modules[registered.module].__doc__)
    ]
    example = textwrap.indent(factory.example, "    ")
    blocks = [
        f"# {kind.singular.capitalize()} `{type}`",
        *filter(None, about),
        _table(("", ""), [fact for fact in facts if fact[1]]),
        "## Example",
        f"```yaml\n{kind.value}:\n  {type}:\n{example}".rstrip() + "\n```",
        *_keys(factory.config),
    ]
    metrics = [(f"`{each.name}`", each.kind, each.description) for each in instruments(found)]
    if metrics:
        blocks += ["## Metrics", _table(("metric", "kind", "what it is"), metrics)]
    return Page(f"{kind.value}/{type}.md", "\n\n".join(blocks) + "\n")


def service_page() -> Page:
    """Return the page of the section `service`."""
    about = paragraphs(ServiceSection.__doc__)
    return Page(f"{SERVICE}.md", "\n\n".join(["# Section `service`", *about, *_keys(ServiceSection)]) + "\n")


def _keys(config_class: type[Any]) -> Iterable[str]:
    table = [
        (
            f"`{row.path}`",
            row.type,
            default_text(row),
            f"**Ours.** {row.option.doc}" if row.option.ours else row.option.doc,
        )
        for row in rows(config_class)
    ]
    if not table:
        return ("## Keys", "None.")
    note = "*Ours* are keys that the OpenTelemetry Collector does not have. `*` stands for each entry."
    return ("## Keys", _table(("key", "type", "default", "what it is"), table), note)


def _table(heads: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    cells = [heads, ("---",) * len(heads), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in cells)


def pages(registry: Registry) -> list[Page]:
    """Return the page of every component, and that of the service."""
    return [*map(component_page, components(registry)), service_page()]


def index(registry: Registry) -> Page:
    """Return the list of all pages."""
    lines = [
        (
            found.kind.singular,
            f"[`{found.registered.type}`]({component_page(found).file})",
            ", ".join(signal.value for signal in Signal if signal in found.registered.factory.signals),
            found.registered.factory.stability.value,
            found.summary,
        )
        for found in components(registry)
    ]
    service = ("", f"[`{SERVICE}`]({service_page().file})", "", "", paragraphs(ServiceSection.__doc__)[0])
    table = _table(("kind", "type", "signals", "stability", "what it is for"), [*lines, service])
    keys = _table(("key", "default", "what it is"), our_keys(registry))
    text = f"# Components of spansieve\n\n{table}\n\n## Keys that the OpenTelemetry Collector does not have\n\n{keys}\n"
    return Page("index.md", text)


def our_keys(registry: Registry) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the default and the description of every key that is ours."""
    sections: list[tuple[str, type[Any]]] = [
        (f"{found.kind.value}::{found.registered.type}", found.registered.factory.config)
        for found in components(registry)
    ]
    sections.append((SERVICE, ServiceSection))
    for id, config_class in sections:
        for row in rows(config_class):
            if row.option.ours:
                yield f"`{id}::{row.path}`", default_text(row), row.option.doc


def find_pages(registry: Registry, name: str) -> list[Page]:
    """Return the pages of a type, an older name of it, `<kind>/<type>`, or `service`; several kinds may have one.

    Raises:
        UnknownPage: there is none.
    """
    if name == SERVICE:
        return [service_page()]
    known: dict[str, list[Found]] = {}
    for found in components(registry):
        type, kind = found.registered.type, found.kind
        for each in (type, *found.registered.factory.aliases):
            for spelling in (each, f"{kind.value}/{each}", f"{kind.singular}/{each}"):
                known.setdefault(spelling, []).append(found)
    if name not in known:
        word = nearest(name, known)
        raise UnknownPage(f"there is no component {name!r}" + (f"; did you mean {word!r}?" if word else ""))
    return [component_page(found) for found in known[name]]
