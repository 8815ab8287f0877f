"""`spansieve print-config`: show what all sources together say."""

from __future__ import annotations

import json
import sys

import yaml

from collector.cli import Options
from collector.cli.output import fail, note_feature_gates, warn
from collector.config.expand import plain
from collector.config.load import build
from collector.config.redact import redact_document
from collector.config.resolve import resolve
from collector.errors import ConfigError
from collector.registry import Registry


def print_config(options: Options, *, format: str, mode: str, validate: bool) -> int:
    """Print the configuration, sources merged and references replaced.

    Args:
        format: `yaml` or `json`.
        mode: `redacted` hides secrets, `unredacted` shows them.
        validate: whether to refuse a configuration that could not run.
    """
    note_feature_gates(options)
    registry = Registry()
    try:
        resolved = resolve(options.configs, options.sets)
        warn(build(resolved, registry).warnings if validate else resolved.warnings)
    except ConfigError as error:
        return fail(error)
    values = plain(resolved.values)
    if mode == "redacted":
        values = redact_document(values, registry)
    if format == "json":
        json.dump(values, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        yaml.safe_dump(values, sys.stdout, sort_keys=False, allow_unicode=True)
    return 0
