"""`spansieve validate`: say what is wrong with a configuration, without running it."""

from __future__ import annotations

import sys

from collector.cli import Options
from collector.cli.output import accepts_feature_gates, fail, note, warn
from collector.config.load import load
from collector.errors import ConfigError
from collector.ids import Kind
from collector.registry import Registry


def validate(options: Options, *, strict: bool) -> int:
    """Check the configuration; silent when there is nothing to say, but for people at a terminal.

    Args:
        strict: whether a warning fails too.
    """
    if not accepts_feature_gates(options):
        return 1
    try:
        document = load(options.configs, options.sets, Registry(), is_to_run=True)
    except ConfigError as error:
        return fail(error)
    note(*document.notes)
    warn(document.warnings)
    if strict and document.warnings:
        return 1
    if sys.stdout.isatty():
        n_components = sum(len(getattr(document, kind.value)) for kind in Kind)
        print(
            f"valid: {_count(len(document.service.pipelines), 'pipeline')}, {_count(n_components, 'component')}"
        )
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
