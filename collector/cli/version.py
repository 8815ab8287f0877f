"""Which version this is."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version of the installed distribution."""
    return metadata.version("spansieve")
