"""What is told of requests and connections that are refused at the door."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from collector.native.server import _REFUSALS
from collector.telemetry.logs import Log
from collector.transport import Refusal
from collector.transport.refusals import REASONS, RefusalReporter


class Door:
    """A transport that has refused what the test says."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.notes: dict[tuple[str, str], Refusal] = {}

    def refusals(self) -> dict[tuple[str, str], int]:
        """Return the counts."""
        return self.counts

    def take_refusal(self, protocol: str, reason: str) -> Refusal | None:
        """Return a note once."""
        return self.notes.pop((protocol, reason), None)


class Clock:
    """A clock that the test moves."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def _fields(record: Any) -> dict[str, Any]:
    return dict(record.fields)


def test_every_reason_of_the_transport_has_its_words() -> None:
    """For both protocols."""
    assert set(_REFUSALS) == set(REASONS)
    for reason in REASONS.values():
        assert {"grpc", "http"} <= set(reason.advice) or "both" in reason.advice


def test_each_reason_is_told_once_a_minute_with_all_that_came_since(caplog: pytest.LogCaptureFixture) -> None:
    """The first at once; then the sum of those that came meanwhile."""
    door: Any = Door()
    clock = Clock()
    reporter = RefusalReporter(Log(logging.getLogger("test")), clock)
    reporter.report(door)
    door.counts = {("http", "too_large"): 3, ("grpc", "connections"): 1, ("http", "method"): 0}
    door.notes = {("http", "too_large"): Refusal("127.0.0.1:5", "a body of more than 9 bytes")}
    reporter.report(door)
    large, many = caplog.records
    assert "Requests refused: a message is too large" == large.message
    assert {
        "transport": "http",
        "reason": "too_large",
        "requests": 3,
        "client": "127.0.0.1:5",
        "example": "a body of more than 9 bytes",
        "advice": REASONS["too_large"].advice["http"],
    } == _fields(large)
    assert (1, "grpc") == (_fields(many)["connections"], _fields(many)["transport"])
    door.counts["http", "too_large"] = 10
    clock.now_s += 59.9
    reporter.report(door)
    assert 2 == len(caplog.records)
    clock.now_s += 0.1
    reporter.report(door)
    assert 7 == _fields(caplog.records[2])["requests"]
    clock.now_s += 1000.0
    reporter.report(door)
    assert 3 == len(caplog.records)
