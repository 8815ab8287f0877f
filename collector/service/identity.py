"""Who this collector is: the attributes of everything that it says about itself.

Source: OpenTelemetry Collector, "Internal telemetry", `resource`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from collector import __version__
from collector.lean import Any


def make_instance_id() -> str:
    """Return a random UUID, version 4; the module uuid would cost its imports."""
    number = int.from_bytes(os.urandom(16), "big") & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 0x2 << 62
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def attributes(instance_id: str, configured: Mapping[str, Any]) -> dict[str, str]:
    """Return the default attributes with those configured over them; None takes one away."""
    merged = {
        "service.name": "spansieve",
        "service.version": __version__,
        "service.instance.id": instance_id,
        **configured,
    }
    return {name: _to_text(value) for name, value in merged.items() if value is not None}


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
