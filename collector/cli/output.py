"""What commands say, and where: results on stdout, everything else on stderr."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable

from collector.cli import Options
from collector.errors import ConfigError


def fail(error: ConfigError) -> int:
    """Print all problems, one a line, and return the exit code."""
    for problem in error.problems:
        print(f"Error: invalid configuration: {problem}", file=sys.stderr)
    return 1


def warn(warnings: Iterable[object]) -> None:
    """Print warnings, one a line."""
    for warning in warnings:
        print(f"Warning: {warning}", file=sys.stderr)


def note(*notes: str) -> None:
    """Print what is worth knowing and is no fault, one a line."""
    for text in notes:
        print(f"Note: {text}", file=sys.stderr)


def tell(message: str) -> int:
    """Print what is wrong with the command line itself, and return the exit code."""
    print(f"Error: {message}", file=sys.stderr)
    return 1


def give_up_output(error: OSError) -> None:
    """Say why standard output takes no more, unless its reader has had enough, and drop what still waits for it."""
    if error.errno != errno.EPIPE:
        tell(f"cannot write to standard output: {(error.strerror or str(error)).lower()}")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def accepts_feature_gates(options: Options) -> bool:
    """Tell whether the feature gates are those of the Collector; say that they have no effect, or what is wrong."""
    if options.feature_gates:
        from collector.config.gates import UnknownGate, check

        try:
            warn(check(options.feature_gates))
        except UnknownGate as error:
            tell(str(error))
            return False
    return True
