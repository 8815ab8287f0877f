"""`spansieve print-config`: show the configuration that is in effect."""

from __future__ import annotations

import json
import sys

import yaml

from collector.cli import Options
from collector.cli.output import accepts_feature_gates, fail, note, warn
from collector.config import syntax
from collector.config.encode import encode_document
from collector.config.expand import escape, plain
from collector.config.load import build
from collector.config.redact import hidden_paths, redact_document
from collector.config.resolve import resolve
from collector.errors import ConfigError
from collector.lean import Any
from collector.registry import Registry

_LINE_BREAKS = frozenset("\x85\u2028\u2029\ufeff")  # to YAML 1.1 only, and a byte order mark


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
        shown = redact_document(values, registry)
        hidden = ", ".join(hidden_paths(values, shown))
        if hidden:
            note(f"not shown: {hidden}; --mode=unredacted prints what can be run")
        values = shown
    if format == "json":
        json.dump(escape(values), sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(to_yaml(escape(values)))
    return 0


def to_yaml(values: Any) -> str:
    """Return plain values as YAML that says the same to PyYAML, which writes it, and to what reads configurations."""
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


class _Dumper(yaml.SafeDumper):
    pass


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(syntax.resolve(text), str) else "'"
    if not _LINE_BREAKS.isdisjoint(text):
        style = '"'  # in which they are escaped
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
