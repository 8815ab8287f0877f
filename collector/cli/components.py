"""`spansieve components`: list what this installation has."""

from __future__ import annotations

import sys

import yaml

from collector import __version__
from collector.config.sources import SCHEMES
from collector.ids import Kind
from collector.lean import Any
from collector.registry import Registry, Unavailable, UnknownType


def components(registry: Registry) -> int:
    """Print all components as YAML, each under its current name, with its stability."""
    listing: dict[str, Any] = {
        "buildinfo": {
            "command": "spansieve",
            "description": "An OpenTelemetry Collector as a Python sidecar with a C data plane",
            "version": __version__,
        }
    }
    for kind in Kind:
        found = (_describe(registry, kind, type) for type in registry.types(kind))
        listing[kind.value] = [entry for entry in found if entry is not None]
    listing["providers"] = [{"scheme": scheme} for scheme in SCHEMES]
    yaml.safe_dump(listing, sys.stdout, sort_keys=False)
    return 0


def _describe(registry: Registry, kind: Kind, type: str) -> dict[str, Any] | None:
    try:
        registered = registry.find(kind, type)
    except UnknownType:
        # A file that has no factory is no component.
        return None
    except Unavailable as error:
        return {"name": type, "unavailable": str(error)}
    factory = registered.factory
    stability = factory.stability.value
    entry: dict[str, Any] = {"name": type, "module": registered.module}
    if factory.aliases:
        entry["deprecated_names"] = list(factory.aliases)
    if kind is Kind.EXTENSION:
        entry["stability"] = {"extension": stability}
    elif kind is Kind.CONNECTOR:
        pairs = sorted(factory.connects, key=lambda pair: (pair[0].number, pair[1].number))
        entry["stability"] = {f"{taken.value}-to-{given.value}": stability for taken, given in pairs}
    else:
        signals = sorted(factory.signals, key=lambda signal: signal.number)
        entry["stability"] = {signal.value: stability for signal in signals}
    return entry
