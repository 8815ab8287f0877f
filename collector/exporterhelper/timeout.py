"""The `timeout` link: how long one attempt may take."""

from __future__ import annotations

from collector.config.fields import Duration, option


def timeout_option(default_s: float) -> Duration:
    """Return the `timeout` field of an exporter's configuration."""
    field: Duration = option(Duration(default_s), doc="Time limit of one attempt to send; 0 for none.", minimum=0)
    return field


def attempt_limit_s(timeout_s: float, left_s: float | None) -> float | None:
    """Return the time limit of the next attempt in seconds, None for none.

    Args:
        timeout_s: as configured; 0 for none.
        left_s: until shutdown gives up, > 0; None while not shutting down.
    """
    limits_s = [seconds for seconds in (timeout_s, left_s) if seconds]
    return min(limits_s, default=None)
