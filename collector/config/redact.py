"""Hide the secrets of a configuration that is to be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from collector.config.decode import keys_of, split_optional
from collector.config.fields import Secret
from collector.config.sections import ServiceSection
from collector.config.syntax import join
from collector.config.values import hide_credentials
from collector.errors import CollectorError
from collector.ids import ComponentID, Kind
from collector.lean import Any, is_any, is_record
from collector.registry import Registry

HIDDEN = "[REDACTED]"


def redact_document(values: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    """Return plain values with each secret replaced; what nobody knows the type of is hidden too."""
    kinds = {kind.value: kind for kind in Kind}
    redacted: dict[str, Any] = {}
    for name, section in values.items():
        if name in kinds and isinstance(section, dict):
            redacted[name] = _redact_section(kinds[name], section, registry)
        else:
            redacted[name] = redact(ServiceSection if name == "service" else Secret, section)
    _show_readers(redacted, values)
    return redacted


def hidden_paths(values: Any, redacted: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each text in values that redacted, which was made of them, does not show."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from hidden_paths(value, redacted[key], join(path, key))
    elif isinstance(values, list):
        for index, value in enumerate(values):
            yield from hidden_paths(value, redacted[index], join(path, index))
    elif values != redacted:
        yield path


def _show_readers(redacted: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Redact the readers of metrics by their own type, which the section does not know: it loads seldom."""
    try:
        readers = values["service"]["telemetry"]["metrics"]["readers"]
    except (KeyError, TypeError):
        return
    if isinstance(readers, list):
        from collector.config.readers import Reader

        redacted["service"]["telemetry"]["metrics"]["readers"] = [
            redact(Reader, reader) for reader in readers
        ]


def _redact_section(kind: Kind, section: dict[str, Any], registry: Registry) -> dict[str, Any]:
    redacted: dict[str, Any] = {}
    for text, value in section.items():
        try:
            config = registry.find(kind, ComponentID.parse(text).type).factory.config
        except CollectorError:
            config = Secret
        redacted[text] = redact(config, value)
    return redacted


def redact(annotation: Any, value: Any) -> Any:
    """Return value, which belongs to a field of type annotation, with each secret in it replaced.

    Nothing is a secret that says nothing, or true or false; of a URL, user and password are.
    """
    annotation, _ = split_optional(annotation)
    if value in (None, "") or isinstance(value, bool):
        return value
    if annotation is Secret or is_any(annotation):
        if isinstance(value, dict):
            return {key: redact(Secret, item) for key, item in value.items()}
        return [redact(Secret, item) for item in value] if isinstance(value, list) else HIDDEN
    if isinstance(value, str):
        return hide_credentials(value)
    if is_record(annotation) and isinstance(value, dict):
        keys = keys_of(annotation)
        return {
            name: redact(keys[name].annotation if name in keys else Secret, item)
            for name, item in value.items()
        }
    origin = getattr(annotation, "__origin__", None)
    if origin is tuple and isinstance(value, list):
        return [redact(annotation.__args__[0], item) for item in value]
    if origin is dict and isinstance(value, dict):
        return {key: redact(annotation.__args__[1], item) for key, item in value.items()}
    if origin is dict and isinstance(value, list):
        return redact(annotation.__args__[1], value)
    if annotation is object and isinstance(value, dict | list):
        return redact(dict[str, object] if isinstance(value, dict) else tuple[object, ...], value)
    return value
