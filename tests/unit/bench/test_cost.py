from __future__ import annotations

from typing import Any

import pytest

from bench.cost import _bearable_rate
from bench.tools import Sent


def sent(rate: float, busy: float) -> Sent:
    """Return what a load generator says that was busy so much of a second."""
    fields: dict[str, Any] = dict.fromkeys(Sent._fields, 0)
    return Sent(
        **{**fields, "items": rate, "seconds": 1.0, "cpu_seconds": busy, "refused": {}, "latency_us": {}}
    )


def test_a_load_that_keeps_up_is_not_paced() -> None:
    """The next request goes out upon each answer."""
    assert _bearable_rate(lambda _: sent(1_000, 0.5)) is None


def test_a_load_that_is_too_busy_is_paced_until_it_is_not() -> None:
    """At less than half of its most, though each request costs it more then."""
    tried = []

    def send(rate: float | None) -> Sent:
        tried.append(rate)
        return sent(1_000, 0.9) if rate is None else sent(rate, rate / 1_000 * 1.1)

    rate = _bearable_rate(send)
    assert rate == tried[-1]
    assert rate is not None
    assert rate / 1_000 * 1.1 <= 0.54


@pytest.mark.parametrize("share", [0.9, 1.0])
def test_a_load_that_pacing_makes_busier_is_not_paced(share: float) -> None:
    """It is flagged instead."""
    assert _bearable_rate(lambda rate: sent(1_000, 0.8 if rate is None else share)) is None
