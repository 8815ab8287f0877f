"""Requests at random, many of them damaged: both answer alike and make the same of them.

`SPANSIEVE_INTEROP_FUZZ=100000` tries so many requests a test instead of a few, and `SPANSIEVE_INTEROP_SEED` others.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping

import pytest

from collector.ids import Signal
from tests.conformance.bodies import GRPC_PATHS, HTTP_PATHS
from tests.conformance.peers import call_headers, grpc_frame, http_request
from tests.interop import differences, mutations
from tests.interop.taps import JSON, PROTOBUF, Outcome, Tap, grpc_outcome, http_outcome
from tests.support.door import Door

CASES = int(os.environ.get("SPANSIEVE_INTEROP_FUZZ", "1000"))
SEED = int(os.environ.get("SPANSIEVE_INTEROP_SEED", "1"))


def _fails(outcome: Outcome) -> bool:
    return not str(outcome).startswith(("200", "status 0"))


def _check(case: str, body: bytes | str, outcomes: Mapping[str, Outcome]) -> None:
    if _fails(outcomes["collector"]) and "rejected" in str(outcomes["spansieve"]):
        return  # an item with a bad id costs itself alone: test_items.py compares that
    problem = differences.find(case, outcomes)
    assert not problem, f"{problem}\n{body!r}"


@pytest.mark.timeout(CASES)
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_random_protobuf_is_taken_alike(protocol: str, taps: dict[str, Tap]) -> None:
    """Any field with any value, bits flipped, bytes cut, repeated and put in: what is not listed does not differ."""
    rng = random.Random(SEED)
    tried = 0
    while tried < CASES:
        signal = rng.choice([*Signal])
        body = mutations.protobuf(rng, signal)
        if mutations.oddities(signal, body) - {"malformed"}:
            continue
        tried += 1
        if protocol == "http":
            request = http_request(HTTP_PATHS[signal], body, [PROTOBUF])
            outcomes = {side: http_outcome(tap, request) for side, tap in taps.items()}
        else:
            headers, frame = call_headers(GRPC_PATHS[signal]), grpc_frame(body)
            outcomes = {side: grpc_outcome(tap, headers, frame) for side, tap in taps.items()}
        _check(f"{protocol}: {signal.value}: random", body, outcomes)


@pytest.mark.timeout(CASES)
def test_what_goes_on_of_random_protobuf_is_taken_by_the_collector(taps: dict[str, Tap]) -> None:
    """Nothing that we take makes it refuse what we send: the oddities of differences.md included."""
    rng = random.Random(SEED)
    door = Door()
    for _ in range(CASES):
        signal = rng.choice([*Signal])
        verdict, passed = door.send(signal, mutations.protobuf(rng, signal))
        for body in passed:
            outcome = http_outcome(taps["collector"], http_request(HTTP_PATHS[signal], body, [PROTOBUF]))
            assert not _fails(outcome), (verdict, body, outcome)


@pytest.mark.timeout(CASES)
def test_random_json_is_taken_alike(taps: dict[str, Tap]) -> None:
    """Values of other types, keys of other shapes, characters put in and left out: only what is no JSON differs.

    The Collector takes some of that, and what it did not read is lost; we refuse it.
    """
    rng = random.Random(SEED)
    for _ in range(CASES):
        signal = rng.choice([*Signal])
        text = mutations.json_text(rng, signal)
        request = http_request(HTTP_PATHS[signal], text.encode(), [JSON])
        outcomes = {side: http_outcome(tap, request) for side, tap in taps.items()}
        if _fails(outcomes["spansieve"]) and (_fails(outcomes["collector"]) or not _is_json(text)):
            continue
        _check(f"{signal.value}, json: random", text, outcomes)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
