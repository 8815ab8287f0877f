"""The `timeout` link: how long one attempt may take."""

from __future__ import annotations

TIMEOUT_DOC = "Time limit of one attempt to send; 0 for none."


def attempt_limit_s(timeout_s: float, left_s: float | None) -> float | None:
    """Return the time limit of the next attempt in seconds, None for none.

    Args:
        timeout_s: as configured; 0 for none.
        left_s: until shutdown gives up, > 0; None while not shutting down.
    """
    limits_s = [seconds for seconds in (timeout_s, left_s) if seconds]
    return min(limits_s, default=None)
