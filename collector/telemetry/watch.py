"""Tells of counters in the log: nothing for each item, and once a minute at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from collector.lean import Any
from collector.telemetry.logs import Log

PERIOD_S = 60.0

GIVEN_UP = "searches for a regular expression were given up: they would have taken too long in long texts"


class Watch:
    """Warns that counters have grown, and by how much.

    Args:
        every: `every` of the main thread's loop.
        counters: what is said of each, and how it is read.
    """

    def __init__(
        self, log: Log, every: Callable[..., Any], counters: Mapping[str, Callable[[], int]]
    ) -> None:
        self._log = log
        self._counters = counters
        self._told = dict.fromkeys(counters, 0)
        self._timer = every(PERIOD_S, self.check)

    def check(self) -> None:
        """Warn of what was counted since the last time."""
        for event, read in self._counters.items():
            count = read()
            if count > self._told[event]:
                self._log.warning(event, count=count - self._told[event])
                self._told[event] = count

    def stop(self) -> None:
        """Tell the rest, and watch no more; safe twice."""
        if self._timer is not None:
            self.check()
            self._timer.cancel()
            self._timer = None
