"""`spansieve validate`: say what is wrong with a configuration, without running it."""

from __future__ import annotations

from collector.cli import Options
from collector.cli.output import accepts_feature_gates, fail, warn
from collector.config.load import load
from collector.errors import ConfigError
from collector.registry import Registry


def validate(options: Options, *, strict: bool) -> int:
    """Check the configuration; silent when there is nothing to say.

    Args:
        strict: whether a warning fails too.
    """
    if not accepts_feature_gates(options):
        return 1
    try:
        document = load(options.configs, options.sets, Registry(), is_to_run=True)
    except ConfigError as error:
        return fail(error)
    warn(document.warnings)
    return 1 if strict and document.warnings else 0
