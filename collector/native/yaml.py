"""The events of a YAML text: what the parser says of it, before anything is typed or put together."""

from __future__ import annotations

from collections.abc import Iterator

from collector.errors import InvalidYAML
from collector.lean import Any, NamedTuple
from collector.native.errors import fail, new_error
from collector.native.library import ffi, lib

DOCUMENT: int = lib.SS_YAML_DOCUMENT
SCALAR: int = lib.SS_YAML_SCALAR
SEQUENCE: int = lib.SS_YAML_SEQUENCE
END: int = lib.SS_YAML_END
ALIAS: int = lib.SS_YAML_ALIAS
STREAM_END: int = lib.SS_YAML_STREAM_END


class Event(NamedTuple):
    """One of the parser's events; a text is empty where there is none.

    Attributes:
        kind: one of the constants above, or another.
        line: where it begins, from 1.
        is_plain: of a scalar, that it has neither quotes nor a tag.
    """

    kind: int
    line: int
    anchor: str
    tag: str
    value: str
    is_plain: bool


def read_events(text: str) -> Iterator[Event]:
    """Yield the events of text up to STREAM_END.

    Raises:
        InvalidYAML: when the event at which the parser can go no further is asked for.
    """
    data = text.encode()
    yaml = lib.ss_yaml_new(data, len(data))
    if yaml == ffi.NULL:
        raise MemoryError
    event, error = ffi.new("ss_yaml_event *"), new_error()
    kind = None
    try:
        while kind != STREAM_END:
            status = lib.ss_yaml_next(yaml, event, error)
            if status == lib.SS_ERR_MALFORMED:
                raise InvalidYAML(_text(error.reason), event.line)
            if status != lib.SS_OK:
                fail(status, "yaml", error)
            kind = event.kind
            value = ffi.unpack(event.value, event.length).decode() if event.length else ""
            yield Event(kind, event.line, _text(event.anchor), _text(event.tag), value, event.is_plain)
    finally:
        lib.ss_yaml_free(yaml)


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode()) if pointer else ""
