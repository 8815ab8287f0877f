"""Watch: a counter that grows is told of once a minute, and at the end."""

from __future__ import annotations

import logging

import pytest

from collector.telemetry.logs import Log
from collector.telemetry.watch import Watch
from tests.support.sampler_harness import Timers


def test_what_has_grown_is_told_with_its_number(caplog: pytest.LogCaptureFixture) -> None:
    """Not what has not, and each growth once; what has grown since is told at the stop, which is safe twice."""
    counts = {"things were lost": 0, "nothing happens": 0}
    timers = Timers()
    watch = Watch(
        Log(logging.getLogger("test")),
        timers.every,
        {event: lambda event=event: counts[event] for event in counts},  # type: ignore[misc]
    )
    timers.advance(60)
    assert not caplog.records
    counts["things were lost"] = 3
    for _ in range(2):
        timers.advance(60)
    counts["things were lost"] = 5
    for _ in range(2):
        watch.stop()
    assert not timers.callbacks
    told = [(record.getMessage(), vars(record)["fields"]) for record in caplog.records]
    assert [("things were lost", {"count": 3}), ("things were lost", {"count": 2})] == told
