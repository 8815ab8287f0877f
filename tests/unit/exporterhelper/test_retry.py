"""Retry with back-off, on a clock that only the waits move."""

from __future__ import annotations

import math

import pytest

from collector.config.fields import Duration
from collector.errors import ConsumeError, PermanentError, RetryableError
from collector.exporterhelper.retry import RetryConfig, RetrySender
from tests.unit.exporterhelper.support import Recorder


class Scene:
    """A retry sender whose attempts fail as told, and whose waits take no time."""

    def __init__(
        self, config: RetryConfig, random_unit: float = 0.5, stop_at_wait: int | None = None
    ) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.recorder = Recorder()
        self._stop_at_wait = stop_at_wait
        self.sender = RetrySender(
            config,
            self.recorder.log,
            random_unit=lambda: random_unit,
            clock=lambda: self.now,
        )

    def wait(self, seconds: float) -> str:
        """Wait; end early as told."""
        self.waits.append(seconds)
        self.now += seconds
        return "interrupted" if len(self.waits) - 1 == self._stop_at_wait else ""

    def send(self, *failures: ConsumeError, deadline_s: float = math.inf) -> int:
        """Send with these failures first; return how many attempts were made."""
        left = list(failures)
        attempts = 0

        def attempt() -> None:
            nonlocal attempts
            attempts += 1
            if left:
                raise left.pop(0)

        self.sender.send(attempt, self.wait, deadline_s=deadline_s)
        return attempts


def _retryable(n: int) -> list[ConsumeError]:
    return [RetryableError("down") for _ in range(n)]


def test_intervals_grow_by_the_multiplier_up_to_the_maximum() -> None:
    """The waits of the Collector's defaults: 5 s times 1.5, at most 30 s."""
    scene = Scene(RetryConfig())
    assert scene.send(*_retryable(7)) == 8
    assert scene.waits == pytest.approx([5, 7.5, 11.25, 16.875, 25.3125, 30, 30])


@pytest.mark.parametrize(("unit", "factor"), [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)])
def test_waits_are_spread_around_the_interval(unit: float, factor: float) -> None:
    """A wait is uniform in interval * (1 -+ randomization_factor)."""
    scene = Scene(RetryConfig(), random_unit=unit)
    scene.send(*_retryable(1))
    assert scene.waits == pytest.approx([5 * factor])


def test_server_delay_is_a_lower_bound() -> None:
    """The wait is the larger of back-off and the server's wish."""
    scene = Scene(RetryConfig())
    scene.send(RetryableError("slow", 60.0), RetryableError("slow", 1.0), RetryableError("slow", 0.0))
    assert scene.waits == pytest.approx([60, 7.5, 11.25])


def test_permanent_error_is_not_retried() -> None:
    """One attempt, and the text says why."""
    scene = Scene(RetryConfig())
    with pytest.raises(PermanentError, match="^not retryable error: bad request$"):
        scene.send(PermanentError("bad request"))
    assert scene.waits == []


def test_gives_up_before_a_wait_that_would_end_too_late() -> None:
    """Nothing waits past max_elapsed_time only to fail."""
    scene = Scene(RetryConfig(max_elapsed_time=Duration(30.0)))
    with pytest.raises(RetryableError, match="^no more retries left: down$"):
        scene.send(*_retryable(9))
    assert scene.waits == pytest.approx([5, 7.5, 11.25])


def test_time_spent_before_counts() -> None:
    """An attempt that was made elsewhere has used up its part of max_elapsed_time."""
    scene = Scene(RetryConfig(max_elapsed_time=Duration(30.0)))

    def attempt() -> None:
        raise RetryableError("down")

    with pytest.raises(RetryableError, match="^no more retries left: down$"):
        scene.sender.send(attempt, scene.wait, spent_s=26.0)
    assert scene.waits == []


def test_no_limit_retries_for_ever() -> None:
    """max_elapsed_time 0 never gives up."""
    scene = Scene(RetryConfig(max_elapsed_time=Duration(0.0)))
    assert scene.send(*_retryable(500)) == 501


def test_disabled_makes_one_attempt_and_keeps_the_error() -> None:
    """enabled: false passes the failure on as it is."""
    scene = Scene(RetryConfig(enabled=False))
    with pytest.raises(RetryableError, match="^down$"):
        scene.send(*_retryable(1))


def test_deadline_is_not_waited_for() -> None:
    """Nothing waits past the moment from which on nobody wants the result."""
    scene = Scene(RetryConfig())
    with pytest.raises(RetryableError, match="^request will be cancelled before next retry: down$"):
        scene.send(*_retryable(9), deadline_s=12.0)
    assert scene.waits == pytest.approx([5])


def test_wait_that_ends_early_is_the_last() -> None:
    """A back-off in flight ends with the reason."""
    scene = Scene(RetryConfig(), stop_at_wait=1)
    with pytest.raises(RetryableError, match="^interrupted: down$"):
        scene.send(*_retryable(9))
    assert len(scene.waits) == 2


def test_each_wait_is_logged() -> None:
    """The Collector's event, with error and interval."""
    scene = Scene(RetryConfig())
    scene.send(*_retryable(1))
    event = "Exporting failed. Will retry the request after interval."
    assert scene.recorder.fields(event) == {"error": "down", "interval_s": 5.0}


@pytest.mark.parametrize(
    ("config", "messages"),
    [
        (RetryConfig(), []),
        (RetryConfig(max_elapsed_time=Duration(0.0)), []),
        (
            RetryConfig(enabled=False, max_elapsed_time=Duration(10.0)),
            ["'max_elapsed_time' must not be less than 'max_interval'"],
        ),
        (
            RetryConfig(max_elapsed_time=Duration(10.0)),
            ["'max_elapsed_time' must not be less than 'max_interval'"],
        ),
        (
            RetryConfig(max_elapsed_time=Duration(1.0)),
            [
                "'max_elapsed_time' must not be less than 'initial_interval'",
                "'max_elapsed_time' must not be less than 'max_interval'",
            ],
        ),
    ],
)
def test_cross_checks(config: RetryConfig, messages: list[str]) -> None:
    """The Collector's two rules on max_elapsed_time, in its words."""
    assert [message for _, message in config.problems()] == messages


def test_result_is_passed_on() -> None:
    """What the attempt returns is returned."""
    scene = Scene(RetryConfig())
    assert scene.sender.send(lambda: "done", scene.wait) == "done"
