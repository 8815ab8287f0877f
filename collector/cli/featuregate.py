"""`spansieve featuregate`: list the feature gates that a command line may name."""

from __future__ import annotations

import sys

from collector.cli.output import tell
from collector.config.gates import GATES, Gate


def featuregate(id: str | None) -> int:
    """Print one gate, or a table of all; exit code 1 when there is no such gate."""
    if id is None:
        _table()
    elif id in GATES:
        _one(GATES[id])
    else:
        return tell(f'feature "{id}" not found')
    return 0


def _table() -> None:
    rows = [("ID", "Enabled", "Stage", "Description")]
    rows += [(gate.id, _lower(gate.is_enabled), gate.stage, gate.description) for gate in GATES.values()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


def _one(gate: Gate) -> None:
    sys.stdout.write(
        f"Feature: {gate.id}\nEnabled: {_lower(gate.is_enabled)}\nStage: {gate.stage}\n"
        f"Description: {gate.description}\nFrom Version: {gate.since}\n"
    )


def _lower(value: bool) -> str:
    return str(value).lower()
