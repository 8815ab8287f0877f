"""What commands say, and where: results on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from collector.cli import Options
from collector.errors import ConfigError


def fail(error: ConfigError) -> int:
    """Print all problems, one a line, and return the exit code."""
    for problem in error.problems:
        print(f"Error: invalid configuration: {problem}", file=sys.stderr)
    return 1


def warn(warnings: Iterable[str]) -> None:
    """Print warnings, one a line."""
    for warning in warnings:
        print(f"Warning: {warning}", file=sys.stderr)


def note_feature_gates(options: Options) -> None:
    """Say that feature gates do nothing, if there are any."""
    if options.feature_gates:
        gates = ", ".join(options.feature_gates)
        warn([f"spansieve has no feature gates: {gates} accepted without effect"])
