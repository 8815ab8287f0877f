"""A configuration as it is in effect, every default filled in, as plain values that load again."""

from __future__ import annotations

from collections.abc import Mapping

from collector.config.decode import keys_of
from collector.config.document import Document
from collector.config.fields import Duration
from collector.config.values import format_duration
from collector.ids import Kind
from collector.lean import Any, is_record


def encode_document(document: Document) -> dict[str, Any]:
    """Return what document says, secrets included."""
    sections: dict[str, Any] = {
        kind.value: {str(id): encode(entry.config) for id, entry in getattr(document, kind.value).items()}
        for kind in Kind
    }
    service = document.service
    telemetry = service.telemetry
    prometheus = telemetry.metrics.prometheus
    readers = [{"pull": {"exporter": {"prometheus": encode(prometheus)}}}] if prometheus else []
    sections["service"] = {
        "extensions": [str(id) for id in service.extensions],
        "pipelines": {
            str(id): {name: [str(part) for part in parts] for name, parts in pipeline._asdict().items()}
            for id, pipeline in service.pipelines.items()
        },
        "telemetry": {
            "logs": encode(telemetry.logs),
            "metrics": {"level": telemetry.metrics.level, "readers": readers},
            "resource": dict(telemetry.resource),
        },
        "shutdown_timeout": format_duration(service.shutdown_timeout),
    }
    return sections


def encode(config: Any) -> dict[str, Any]:
    """Return the keys of a configuration class's instance; a section that is absent has none."""
    encoded = {}
    for key in keys_of(type(config)).values():
        value = getattr(config, key.field)
        if value is not None:
            encoded[key.name] = _encode(value)
    return encoded


def _encode(value: Any) -> Any:
    if isinstance(value, Duration):
        return format_duration(value)
    if is_record(type(value)):
        return encode(value)
    if isinstance(value, Mapping):
        return {name: _encode(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return str(value) if isinstance(value, str) else value
