"""The compiled module's two handles, `ffi` and `lib`, for the wrappers beside this file."""

from __future__ import annotations

from collector.native._spansieve import ffi, lib

__all__ = ["ffi", "has_net", "lib"]


def has_net() -> bool:
    """Return whether the native transport is part of this build."""
    return bool(lib.ss_has_net())
