"""The command line. Only the modules of this folder print.

`spansieve --config FILE` runs, and must start quickly in little memory; so that case is read here, and click is
imported for everything else: help, mistakes and the other commands.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from collector.lean import Any, NamedTuple, NoReturn, signal

_INTERRUPTED = 130


class Options(NamedTuple):
    """The options that every command takes."""

    configs: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    feature_gates: tuple[str, ...] = ()

    def __add__(self, other: Options) -> Options:  # type: ignore[override]
        """Return the options given in two places, those of self first."""
        return Options(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


FLAGS = ("--config", "--set", "--feature-gates")


def read_options(arguments: Sequence[str]) -> Options | None:
    """Return the options of a command line that holds nothing else and names a configuration; else None."""
    options: dict[str, list[str]] = {flag: [] for flag in FLAGS}
    position = 0
    while position < len(arguments):
        flag, equals, value = arguments[position].partition("=")
        if flag not in options:
            return None
        if not equals:
            position += 1
            if position == len(arguments):
                return None
            value = arguments[position]
        options[flag].append(value)
        position += 1
    if not options["--config"]:
        return None
    return Options(*(tuple(values) for values in options.values()))


def main() -> NoReturn:
    """Do what the command line says and exit."""
    _prepare_streams()
    try:
        sys.exit(_run(sys.argv[1:]))
    except KeyboardInterrupt:  # a run has its own end for it, once it has begun
        sys.exit(_INTERRUPTED)


def _run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    if options is not None:
        hold_back_hangup()
        gc.disable()  # until all has started: looking for garbage would be 2 ms, and there is none to speak of
        from collector.cli.run import run

        return run(options)
    from collector.cli.commands import invoke  # click costs 20 ms and 2 MB

    return invoke(arguments)


def hold_back_hangup() -> None:
    """Have the system keep a SIGHUP until a run can obey it: before that it would end the process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def _prepare_streams() -> None:
    """Open what is closed of the standard streams, lest a socket take its place; write UTF-8 in every locale."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 for good
    for stream in (sys.stdout, sys.stderr):
        writer: Any = stream
        writer.reconfigure(encoding="utf-8", errors="backslashreplace")
