"""The `retry_on_failure` link: exponential back-off around one attempt.

Source: OpenTelemetry Collector, exporterhelper retry sender; delays as in its back-off library: the interval
grows by multiplier up to max_interval, the delay is uniform within randomization_factor around it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator

from collector.config.fields import Duration, option, section
from collector.errors import PermanentError, RetryableError
from collector.lean import TypeVar
from collector.telemetry.logs import Log

T = TypeVar("T")


def random_unit() -> float:
    """Return a random number, uniform in [0, 1); the module random would cost every collector its imports."""
    return int.from_bytes(os.urandom(6), "big") / (1 << 48)


@section
class RetryConfig:
    """The `retry_on_failure` section."""

    enabled: bool = option(True, doc="Try again after a retryable failure.")
    initial_interval: Duration = option(Duration(5.0), doc="Wait before the second attempt.", minimum=0)
    randomization_factor: float = option(
        0.5, doc="Spread of each wait around its interval.", minimum=0, maximum=1
    )
    multiplier: float = option(1.5, doc="Growth of the interval from one wait to the next.", minimum=0)
    max_interval: Duration = option(Duration(30.0), doc="Largest interval.", minimum=0)
    max_elapsed_time: Duration = option(
        Duration(300.0),
        doc="Give up when the next attempt would come later than this; 0 for never.",
        minimum=0,
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for each rule that the values break together."""
        if not self.max_elapsed_time:
            return
        for other in ("initial_interval", "max_interval"):
            if self.max_elapsed_time < getattr(self, other):
                yield "max_elapsed_time", f"'max_elapsed_time' must not be less than '{other}'"


def _give_up(why: str, error: RetryableError) -> RetryableError:
    return RetryableError(f"{why}: {error}", error.retry_after_s, code=error.code)


class RetrySender:
    """Repeats an attempt until it succeeds, cannot succeed, or time is up.

    Args:
        random_unit: uniform in [0, 1).
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        config: RetryConfig,
        log: Log,
        *,
        random_unit: Callable[[], float] = random_unit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._log = log
        self._random_unit = random_unit
        self._clock = clock

    def send(
        self,
        attempt: Callable[[], T],
        wait: Callable[[float], str],
        *,
        spent_s: float = 0.0,
        deadline_s: float = math.inf,
        longest_s: Callable[[], float] = lambda: math.inf,
    ) -> T:
        """Return what attempt returns in the end.

        Args:
            wait: waits so many seconds; returns why it has ended early, empty when it has not.
            spent_s: time that the request has taken already.
            deadline_s: of the clock: by then nobody wants it to be sent any more.
            longest_s: returns how long the next wait may be, whatever the peer wishes.

        Raises:
            PermanentError: trying again cannot help.
            RetryableError: given up: retry is off, time is up, or the wait has ended early.
        """
        if not self._config.enabled:
            return attempt()
        started = self._clock() - spent_s
        delays_s = self._delays_s()
        while True:
            try:
                return attempt()
            except PermanentError as error:
                raise PermanentError(f"not retryable error: {error}", code=error.code) from error
            except RetryableError as error:
                delay_s = min(max(next(delays_s), error.retry_after_s or 0.0), longest_s())
                limit_s = self._config.max_elapsed_time
                next_s = self._clock() + delay_s
                if limit_s and next_s > started + limit_s:
                    raise _give_up("no more retries left", error) from error
                if next_s > deadline_s:
                    raise _give_up("request will be cancelled before next retry", error) from error
                self._log.info(
                    "Exporting failed. Will retry the request after interval.",
                    error=str(error),
                    interval_s=round(delay_s, 3),
                )
                if reason := wait(delay_s):
                    raise _give_up(reason, error) from error

    def _delays_s(self) -> Iterator[float]:
        interval_s: float = self._config.initial_interval
        while True:
            spread = self._config.randomization_factor * (2 * self._random_unit() - 1)
            yield interval_s * (1 + spread)
            interval_s = min(interval_s * self._config.multiplier, self._config.max_interval)
