"""Lay one configuration over another: maps deep, everything else replaced."""

from __future__ import annotations

from collections.abc import Mapping

from collector.lean import Any


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return base with over on top; neither is changed. Null in over replaces a whole map."""
    merged = dict(base)
    for key, value in over.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = merge(known, value)
        else:
            merged[key] = value
    return merged
