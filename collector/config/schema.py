"""The JSON Schema of a whole configuration, made from the declarations that the decoder reads, for editors.

Whatever it refuses the decoder refuses too; the other way it says what a schema can: keys, types, ranges, choices, ids.
A reference such as `${env:PORT}` may stand for every value. A keyword holds for values of its type only, so one schema
covers number and reference: `type: [integer, string], minimum: 1, pattern: ...`.

Source: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import GenericAlias

from collector.config.decode import Key, keys_of, split_optional
from collector.config.fields import Duration, Option, Reference, Secret
from collector.config.readers import Reader
from collector.config.sections import MetricsSection, PipelineSection, ServiceSection
from collector.config.values import format_duration
from collector.errors import explain, place_of
from collector.ids import Kind, Signal
from collector.lean import Any, NamedTuple, is_any, is_record, is_text_enum
from collector.registry import Registered, Registry, Unavailable, UnknownType

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = r"\$\{"
_AMOUNT = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_DURATION = rf"^[-+]?(0|({_AMOUNT}(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)$"
_DURATION_MAX_LENGTH = 64
_OURS = "Not a key of the OpenTelemetry Collector."
_PIPELINE_ENDS = ("receivers", "exporters")


class Found(NamedTuple):
    """A component of this installation."""

    kind: Kind
    registered: Registered

    @property
    def summary(self) -> str:
        """What it is for: the first sentence of its module."""
        return paragraphs(sys.modules[self.registered.module].__doc__)[0]


class LeftOut(NamedTuple):
    """A component of this installation that cannot be shown, and why."""

    kind: Kind
    type: str
    reason: str

    def __str__(self) -> str:
        return f'{self.kind.singular} "{self.type}" is left out: {self.reason}'


def survey(registry: Registry) -> Iterator[Found | LeftOut]:
    """Yield the components of this installation, kind by kind, also those that somebody else has made wrong."""
    for kind in Kind:
        for type in registry.types(kind):
            try:
                found = Found(kind, registry.find(kind, type))
                # All that is shown of it.
                _ = found.summary, _Builder()._section(found.registered.factory.config)  # noqa: SLF001 of this module
                _ = [signal.value for signal in found.registered.factory.signals]
                _ = found.registered.factory.stability.value
            except UnknownType:  # a file that has no factory
                continue
            except Unavailable as error:
                yield LeftOut(kind, type, str(error))
            except Exception as error:  # noqa: BLE001 whatever a factory is made of
                yield LeftOut(kind, type, explain(error) + place_of(error))
            else:
                yield found


def components(registry: Registry) -> Iterator[Found]:
    """Yield the components that can be shown, kind by kind."""
    return (found for found in survey(registry) if isinstance(found, Found))


def left_out(registry: Registry) -> Iterator[LeftOut]:
    """Yield the components that cannot."""
    return (found for found in survey(registry) if isinstance(found, LeftOut))


def paragraphs(doc: str | None) -> list[str]:
    """Return the paragraphs of a docstring, each on one line but for lists; one empty one where there is none."""
    blocks = re.split(r"\n\s*\n", (doc or "").strip())
    return [
        "\n".join(re.sub(r"\s*\n\s*", " ", item) for item in re.split(r"\n(?=\s*- )", block))
        for block in blocks
    ]


def annotation_of(config_class: type[Any], key: Key) -> Any:
    """Return the type of a key, also where it is decoded later than the rest."""
    if config_class is MetricsSection and key.name == "readers":
        return GenericAlias(tuple, (Reader, ...))
    return key.annotation


def default_of(config_class: type[Any], key: Key) -> Any:
    """Return the default of a key as YAML has it; None where there is none, or where it is a section."""
    if key.required:
        return None
    value = config_class.__record_fields__[key.field].value()
    annotation, _ = split_optional(key.annotation)
    return _to_yaml(annotation, value)


def _to_yaml(annotation: Any, value: Any) -> Any:
    if value is None or is_record(type(value)):
        return None
    if annotation is Duration:
        return format_duration(value)
    if isinstance(value, tuple):
        return [_to_yaml(None, item) for item in value]
    if isinstance(value, str):
        return str(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def schema(registry: Registry, *, is_partial: bool = False) -> Schema:
    """Return the schema of all that this installation can run.

    Args:
        is_partial: of a file that is merged with others, and may lack what they have.
    """
    document = _Builder().document(registry)
    return _without_required(document) if is_partial else document


def _without_required(schema: Any) -> Any:
    # A list of keys; a key of that name would have a schema.
    if isinstance(schema, dict):
        return {
            name: _without_required(value)
            for name, value in schema.items()
            if name != "required" or not isinstance(value, list)
        }
    return [_without_required(value) for value in schema] if isinstance(schema, list) else schema


class _Builder:
    def __init__(self) -> None:
        self._definitions: dict[str, Schema] = {}

    def document(self, registry: Registry) -> Schema:
        sections: dict[str, Schema] = {
            kind.value: {
                **_map_schema(f"{kind.value.capitalize()} by id, `type` or `type/name`."),
                "properties": {},
            }
            for kind in Kind
        }
        for kind, section in zip(Kind, sections.values(), strict=True):
            section["patternProperties"] = {}
            section["additionalProperties"] = False
            for found in components(registry):
                if found.kind is kind:
                    self._add_component(section, found)
        return {
            "$schema": _DIALECT,
            "title": "Configuration of spansieve",
            "type": "object",
            "properties": {**sections, "service": self._service()},
            "required": ["service"],
            "additionalProperties": False,
            "$defs": dict(sorted(self._definitions.items())),
        }

    def _add_component(self, section: Schema, found: Found) -> None:
        factory = found.registered.factory
        config = {**self._section(factory.config), "description": found.summary}
        for type in (found.registered.type, *factory.aliases):
            entry = dict(config)
            if type in factory.aliases:
                entry["deprecated"] = True
                entry["deprecationMessage"] = f"An older name of {found.registered.type}."
            section["properties"][type] = entry
            # A plain type is among the properties, where editors look for what to offer.
            section["patternProperties"][rf"^(?!{type}$)\s*{type}\s*(/\s*\S+\s*)?$"] = entry

    def _service(self) -> Schema:
        self._section(ServiceSection)
        service = self._definitions[_name_of(ServiceSection)]
        pipeline = self._section(PipelineSection)
        definition = self._definitions[_name_of(PipelineSection)]
        definition["type"] = ["object", "string"]
        definition |= {"title": _title_of(PipelineSection), "required": list(_PIPELINE_ENDS)}
        for end in _PIPELINE_ENDS:
            definition["properties"][end] |= {"type": ["array", "string"], "minItems": 1, "minLength": 1}
        service["type"] = ["object", "string"]
        service["required"] = ["pipelines"]
        service["properties"]["pipelines"] = {
            **_map_schema("Pipelines by id: a signal, or `signal/name`."),
            "type": ["object", "string"],
            "minProperties": 1,
            "properties": {signal.value: pipeline for signal in Signal},
            "patternProperties": {
                rf"^(?!{signal.value}$)\s*{signal.value}\s*(/\s*\S+\s*)?$": pipeline for signal in Signal
            },
            "additionalProperties": False,
        }
        return {
            "$ref": f"#/$defs/{_name_of(ServiceSection)}",
            "description": "What is run of all that is configured.",
        }

    def _section(self, config_class: type[Any]) -> Schema:
        name = _name_of(config_class)
        if name not in self._definitions:
            keys = keys_of(config_class)
            required = [key.name for key in keys.values() if key.required]
            definition = _map_schema(paragraphs(config_class.__doc__)[0], is_nullable=not required)
            self._definitions[name] = definition
            definition["properties"] = {key.name: self._key(config_class, key) for key in keys.values()}
            if required:
                definition |= {"title": _title_of(config_class), "required": required}
            definition["additionalProperties"] = False
        return {"$ref": f"#/$defs/{name}"}

    def _key(self, config_class: type[Any], key: Key) -> Schema:
        annotation, _ = split_optional(annotation_of(config_class, key))
        value = self._value(annotation, key.option)
        if key.required and "$ref" in value:
            value["type"] = ["object", "string"]
        elif not key.required:
            value = self._nullable(value)
        value["description"] = describe_key(key)
        default = default_of(config_class, key)
        if default is not None:
            value["default"] = default
        if key.option.ours:
            value["x-ours"] = True
        return value

    def _value(self, annotation: Any, option: Option) -> Schema:
        annotation, is_optional = split_optional(annotation)
        if is_optional:
            return self._nullable(self._value(annotation, option))
        if annotation in (str, Reference, Secret):
            return {**_text(option), **({"writeOnly": True} if annotation is Secret else {})}
        if is_record(annotation):
            return self._section(annotation)
        if is_any(annotation) or annotation is object:
            return {}
        origin = getattr(annotation, "__origin__", None)
        if origin is tuple:
            return self._list(annotation.__args__[0], option)
        if origin is dict:
            value = self._value(annotation.__args__[1], option)
            schema = {**_map_schema(is_nullable=False), "additionalProperties": value}
            if annotation.__args__[1] is Secret:
                # The other form of headers.
                pair = {"properties": {"name": {"type": "string"}, "value": value}, "required": ["name"]}
                schema["type"] = [*schema["type"], "array"]
                schema["items"] = {"type": "object", **pair, "additionalProperties": False}
            return schema
        if is_text_enum(annotation):
            return _choice([str(member) for member in annotation], option)
        if annotation is Duration:
            text = {
                "type": "string",
                "pattern": f"{_DURATION}|{_REFERENCE}",
                "patternErrorMessage": "Expected a duration such as 200ms.",
                "maxLength": _DURATION_MAX_LENGTH,
            }
            return {"anyOf": [text, {"const": 0}]}
        return _scalar({bool: "boolean", int: "integer", float: "number"}[annotation], option)

    def _list(self, annotation: Any, option: Option) -> Schema:
        items = self._value(annotation, option)
        # A list of texts may be written as one text with commas.
        text = {} if annotation is str or annotation is Secret else {"pattern": _REFERENCE}
        return {"type": ["array", "string"], "items": items, **text}

    def _nullable(self, value: Schema) -> Schema:
        if not value or "null" in self._types(value):
            return value
        if "type" in value:
            return {**value, "type": [*self._types(value), "null"]}
        return {"anyOf": [*value.get("anyOf", [value]), {"type": "null"}]}

    def _types(self, value: Schema) -> list[str]:
        definition = self._definitions[value["$ref"].rpartition("/")[2]] if "$ref" in value else value
        types = definition.get("type", [])
        return types if isinstance(types, list) else [types]


def describe_key(key: Key) -> str:
    """Return what a reader wants to know of a key beside its type and default."""
    unit = f" Unit: {key.option.unit}." if key.option.unit else ""
    return f"{key.option.doc}{unit}{' ' + _OURS if key.option.ours else ''}"


def _name_of(config_class: type[Any]) -> str:
    return f"{config_class.__module__.removeprefix('collector.')}.{config_class.__qualname__}"


def _title_of(config_class: type[Any]) -> str:
    # Editors offer all required keys at once under this name.
    return config_class.__qualname__.removesuffix("Section").lower()


def _map_schema(description: str = "", *, is_nullable: bool = True) -> Schema:
    types = ["object", "string", "null"] if is_nullable else ["object", "string"]
    told = {"description": description} if description else {}
    return {"type": types, "pattern": _REFERENCE, **told}


def _scalar(type: str, option: Option) -> Schema:
    limits = {"minimum": option.minimum, "maximum": option.maximum}
    told = {word: limit for word, limit in limits.items() if limit is not None}
    return {"type": [type, "string"], "pattern": _REFERENCE, **told}


def _text(option: Option) -> Schema:
    if option.choices:
        return _choice(option.choices, option)
    if option.values:
        return {"anyOf": [{"enum": list(option.values)}, {"type": "string", "pattern": _REFERENCE}]}
    return {"type": "string"}


def _choice(choices: Any, option: Option) -> Schema:
    any_case = "|".join("".join(map(_any_case, choice)) for choice in (*choices, *option.synonyms))
    pattern = f"^({any_case})$|{_REFERENCE}"
    return {"anyOf": [{"enum": list(choices)}, {"type": "string", "pattern": pattern}]}


def _any_case(character: str) -> str:
    # Two letters beyond ASCII have one of it as their lower case.
    others = {"s": "\u017f", "k": "\u212a"}.get(character.lower(), "")
    if character.isalpha():
        return f"[{character.lower()}{character.upper()}{others}]"
    return re.escape(character)
