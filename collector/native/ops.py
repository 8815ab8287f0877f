"""Native operations: what an op processor hands to the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def low_value(
    *,
    min_duration_ns: int | None,
    no_attributes: bool,
    names: Sequence[str],
    match_all: bool,
    keep_roots: bool,
    reparent: bool,
) -> Op:
    """Return the low-value span filter.

    Args:
        min_duration_ns: spans shorter than this match; None switches the rule off.
        no_attributes: spans without attributes match.
        names: glob patterns; empty switches the rule off.
        match_all: all enabled rules must hold, else any.
        keep_roots: spans without a parent are kept.
        reparent: children of a dropped span take its parent.
    """
    patterns = [ffi.new("char[]", name.encode()) for name in names]
    array = ffi.new("const char *[]", patterns)
    config = ffi.new(
        "ss_low_value_config *",
        {
            "duration_rule": min_duration_ns is not None,
            "min_duration_ns": min_duration_ns or 0,
            "attributes_rule": no_attributes,
            "name_rule": bool(patterns),
            "names": array,
            "n_names": len(patterns),
            "match_all": match_all,
            "keep_roots": keep_roots,
            "reparent": reparent,
        },
    )
    error = new_error()
    return Op(lib.ss_low_value_new(config, error), error, "low_value_filter")


def memory_limiter(runtime: Runtime, soft_limit_bytes: int) -> Op:
    """Return the op that refuses requests while memory use is at soft_limit_bytes or above."""
    error = new_error()
    pointer = lib.ss_memory_limiter_new(runtime.pointer, soft_limit_bytes, error)
    return Op(pointer, error, "memory_limiter", keep=runtime)


def is_refusing(op: Op) -> bool:
    """Return whether the memory limiter op refuses requests now."""
    return bool(lib.ss_memory_limiter_is_refusing(op.pointer))
