"""`spansieve schema`: the JSON Schema of a configuration, for editors."""

from __future__ import annotations

import json
import sys

from collector.config.schema import schema as make
from collector.registry import Registry


def schema(registry: Registry) -> int:
    """Print the schema."""
    json.dump(make(registry), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
    return 0
