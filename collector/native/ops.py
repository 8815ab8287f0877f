"""Native operations: what an op processor hands to the service."""

from __future__ import annotations

from collections.abc import Sequence

from collector.lean import Any, IntEnum
from collector.native.errors import fail, new_error
from collector.native.library import ffi, lib
from collector.native.runtime import Runtime


class Op:
    """One operation of a pipeline; keeps what it borrows alive."""

    def __init__(self, pointer: Any, error: Any, where: str, keep: object = None) -> None:
        if pointer == ffi.NULL:
            fail(error.code, where, error)
        self.pointer = ffi.gc(pointer, lib.ss_op_free)
        self._keep = keep

    def counter(self, index: int) -> int:
        """Return the items counted under index."""
        return int(lib.ss_op_counter(self.pointer, index))

    @property
    def incoming_items(self) -> int:
        """Items of the requests that it did not refuse."""
        return int(lib.ss_op_incoming_items(self.pointer))

    @property
    def outgoing_items(self) -> int:
        """Items that it kept of those."""
        return int(lib.ss_op_outgoing_items(self.pointer))


class Sign(IntEnum):
    """What makes a span worth little; a rule is some of these, added up, that must all hold."""

    SHORT = 1
    NO_ATTRIBUTES = 2
    NAME = 4


RULES_MAX = 8
REPARENTED = RULES_MAX


def low_value(
    *, min_duration_ns: int, names: Sequence[str], rules: Sequence[int], keep_roots: bool, reparent: bool
) -> Op:
    """Return the low-value span filter; counter i is the spans dropped by rule i, REPARENTED those moved.

    Args:
        min_duration_ns: a span shorter than this is short.
        names: glob patterns.
        rules: sets of Sign, at most RULES_MAX; the first whose signs all hold drops the span.
        keep_roots: spans without a parent are kept.
        reparent: children of a dropped span take its parent.
    """
    patterns = [ffi.new("char[]", name.encode()) for name in names]
    array = ffi.new("const char *[]", patterns)
    rule_array = ffi.new("uint8_t[]", [int(rule) for rule in rules])
    config = ffi.new(
        "ss_low_value_config *",
        {
            "min_duration_ns": min_duration_ns,
            "names": array,
            "n_names": len(patterns),
            "rules": rule_array,
            "n_rules": len(rules),
            "keep_roots": keep_roots,
            "reparent": reparent,
        },
    )
    error = new_error()
    return Op(lib.ss_low_value_new(config, error), error, "low_value_filter")


def memory_limiter(runtime: Runtime, soft_limit_bytes: int, hard_limit_bytes: int) -> Op:
    """Return the op that refuses requests while memory use is at soft_limit_bytes or above.

    Nothing that requests of runtime hold grows beyond hard_limit_bytes, whatever comes of them.
    """
    error = new_error()
    pointer = lib.ss_memory_limiter_new(runtime.pointer, soft_limit_bytes, hard_limit_bytes, error)
    return Op(pointer, error, "memory_limiter", keep=runtime)
