"""Where the portable transport cannot give the native one's answer, and why.

A case that is listed here must still answer as listed: an entry that is no longer true fails the run.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """What grpcio answers instead; status None means that the case is not run on it."""

    reason: str
    status: int | None = None
    message: str = ""
    is_delivered: bool = False


PORTABLE: dict[str, Difference] = {}
