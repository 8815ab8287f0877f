"""`spansieve schema`: the JSON Schema of a configuration, for editors."""

from __future__ import annotations

import json
import sys

from collector.cli.output import warn
from collector.config.schema import left_out
from collector.config.schema import schema as make
from collector.registry import Registry


def schema(registry: Registry, *, is_partial: bool) -> int:
    """Print the schema, of whole configurations or of files that are parts of one."""
    json.dump(make(registry, is_partial=is_partial), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
    warn(left_out(registry))
    return 0
