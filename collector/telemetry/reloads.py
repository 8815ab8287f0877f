"""Whether the configuration that runs is the one that was last asked for.

Source: Prometheus, which has these two metrics about itself (`prometheus_config_last_reload_*`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from collector.telemetry.instruments import Instrument, Sample

_SUCCESSFUL = Instrument(
    "spansieve_config_last_reload_successful",
    "gauge",
    "Whether the last reload of the configuration succeeded.",
)
_SUCCESS_TIME = Instrument(
    "spansieve_config_last_reload_success_timestamp_seconds",
    "gauge",
    "Unix time of the last successful reload of the configuration, or of the start.",
)


class Reloads:
    """How the reloads went; the start counts as one that has succeeded.

    Args:
        now: seconds since 1970.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._is_successful = True
        self._success_s = now()

    def note(self, is_successful: bool) -> None:
        """Note the end of a reload."""
        self._is_successful = is_successful
        if is_successful:
            self._success_s = self._now()

    def samples(self) -> Iterator[Sample]:
        """Return the metrics as they are now."""
        yield Sample(_SUCCESSFUL, (), int(self._is_successful))
        yield Sample(_SUCCESS_TIME, (), self._success_s)
