"""The events of a YAML text: what the parser says of it, before anything is typed or put together."""

from __future__ import annotations

from collections.abc import Iterator

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


class Fault(Exception):
    """The text is no YAML.

    Attributes:
        problem: in the parser's words.
        line: where it is, from 1.
        begin: the line where what was being read begins; 0: the fault is a character, and its line is not known.
        offset: where it is in the text: in characters, of a character in bytes of UTF-8.
    """

    def __init__(self, problem: str, line: int, begin: int, offset: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.begin = begin
        self.offset = offset


def read_events(text: str) -> Iterator[Event]:
    """Yield the events of text up to STREAM_END.

    Raises:
        Fault: when the event at which the parser can go no further is asked for.
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
                raise Fault(_text(error.reason), event.line, event.begin, error.offset)
            if status != lib.SS_OK:
                fail(status, "yaml", error)
            kind = event.kind
            value = ffi.unpack(event.value, event.length).decode() if event.length else ""
            yield Event(kind, event.line, _text(event.anchor), _text(event.tag), value, event.is_plain)
    finally:
        lib.ss_yaml_free(yaml)


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode()) if pointer else ""
