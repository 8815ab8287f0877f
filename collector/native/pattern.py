"""Regular expressions as the native operations read them."""

from __future__ import annotations

from collector.lean import NamedTuple
from collector.native.library import ffi, lib

_MESSAGE_BYTES = 320


class Pattern(NamedTuple):
    """What is known of an expression: what is wrong with it, "" when nothing is; how many groups it has."""

    fault: str
    n_groups: int
    n_named: int


def check(pattern: str) -> Pattern:
    """Compile pattern, and tell of it."""
    text = pattern.encode()
    message = ffi.new("char[]", _MESSAGE_BYTES)
    counts = ffi.new("uint32_t[2]")
    if lib.ss_pattern_check(text, len(text), counts, counts + 1, message, _MESSAGE_BYTES):
        return Pattern("", counts[0], counts[1])
    return Pattern(bytes(ffi.string(message)).decode(errors="replace"), 0, 0)
