"""`spansieve components`: list what this installation has."""

from __future__ import annotations

import sys

import yaml

from collector import __version__
from collector.cli.output import warn
from collector.config.schema import Found, LeftOut, survey
from collector.config.sources import SCHEMES
from collector.ids import Kind
from collector.lean import Any
from collector.registry import Registry


def components(registry: Registry) -> int:
    """Print all components as YAML, each under its current name, with its stability."""
    listing: dict[str, Any] = {
        "buildinfo": {
            "command": "spansieve",
            "description": "An OpenTelemetry Collector as a Python sidecar with a C data plane",
            "version": __version__,
        }
    }
    known = list(survey(registry))
    for kind in Kind:
        listing[kind.value] = [_describe(found) for found in known if found.kind is kind]
    listing["providers"] = [{"scheme": scheme} for scheme in SCHEMES]
    yaml.safe_dump(listing, sys.stdout, sort_keys=False)
    warn(found for found in known if isinstance(found, LeftOut))
    return 0


def _describe(found: Found | LeftOut) -> dict[str, Any]:
    if isinstance(found, LeftOut):
        return {"name": found.type, "unavailable": found.reason}
    kind, registered = found
    factory = registered.factory
    stability = factory.stability.value
    entry: dict[str, Any] = {"name": registered.type, "module": registered.module}
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
