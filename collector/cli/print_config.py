"""`spansieve print-config`: show the configuration that is in effect."""

from __future__ import annotations

import json
import sys

import yaml

from collector.cli import Options
from collector.cli.output import accepts_feature_gates, fail, warn
from collector.config.encode import encode_document
from collector.config.expand import plain
from collector.config.load import build
from collector.config.redact import redact_document
from collector.config.resolve import resolve
from collector.errors import ConfigError
from collector.registry import Registry


def print_config(options: Options, *, format: str, mode: str, validate: bool) -> int:
    """Print the configuration: sources merged, references replaced, defaults filled in.

    Args:
        format: `yaml` or `json`.
        mode: `redacted` hides secrets, `unredacted` shows them.
        validate: whether to refuse a configuration that could not run; else it is printed as it was written,
            without defaults.
    """
    if not accepts_feature_gates(options):
        return 1
    registry = Registry()
    try:
        resolved = resolve(options.configs, options.sets)
        if validate:
            document = build(resolved, registry)
            values, warnings = encode_document(document), document.warnings
        else:
            values, warnings = plain(resolved.values), tuple(resolved.warnings)
    except ConfigError as error:
        return fail(error)
    warn(warnings)
    if mode == "redacted":
        values = redact_document(values, registry)
    if format == "json":
        json.dump(values, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        yaml.safe_dump(values, sys.stdout, sort_keys=False, allow_unicode=True)
    return 0
