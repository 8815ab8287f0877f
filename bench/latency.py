"""How long a request takes to be acknowledged, at a share of what each system can do."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.figures import Figure
from bench.place import Place, measure_once
from bench.scenarios import Latency, Scenario
from bench.systems import Server
from bench.tools import BUSY_SHARE, Load, Sent, Sink

DIRECT = "direct"
"""The load generator on the sink, nothing in between: what of a latency is not the system's."""

_S, _QUICK_S = 2.0, 1.0
_MOST_ROUNDS = 3
_PERCENTILES = ("p50", "p99", "p99_9")
_LATE_SHARE = 0.01


def steps(scenario: Scenario, place: Place) -> int:
    """Return how often measure will say what it does."""
    return len(scenario.latency.loads) * _rounds(place) if scenario.latency else 0


class Target(NamedTuple):
    """What requests are sent to, and how many items a second it can take."""

    name: str
    port: int
    most: float


def measure(scenario: Scenario, place: Place) -> Iterator[Figure]:
    """Yield the percentiles of each system; of the sink too, at the rates of the first one.

    Requests are sent at their times whatever the answers do, and a latency counts from when a request should have
    been sent: a system that stalls is charged with all that had to wait.
    """
    how = scenario.latency
    names = place.names(scenario)
    if how is None or not names:
        return
    load = place.load(scenario.signal, how.items, streams=how.streams, connections=how.connections)
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(Sink(place.cores.load))
        servers = [stack.enter_context(place.start(name, scenario, sink.port)) for name in names]
        targets = [
            Target(server.name, server.port, _capacity(server, load, sink, place.load_s))
            for server in servers
        ]
        targets.append(Target(DIRECT, sink.port, targets[0].most))
        for percent in how.loads:
            runs: dict[str, list[Sent]] = defaultdict(list)
            for number in range(1, _rounds(place) + 1):
                place.say(f"latency at {percent} % load: round {number} of {_rounds(place)}")
                for target in targets if number % 2 else reversed(targets):
                    runs[target.name].append(
                        load.send(
                            target.port,
                            duration_s=_QUICK_S if place.is_quick else _S,
                            rate=target.most * percent / 100,
                            seed=number,
                        )
                    )
                    sink.settle(None)
            for target in targets:
                yield from _figures(scenario, how, percent, target, runs[target.name])


def _rounds(place: Place) -> int:
    return min(place.rounds, _MOST_ROUNDS)


def _figures(
    scenario: Scenario, how: Latency, percent: int, target: Target, runs: Sequence[Sent]
) -> Iterator[Figure]:
    flags = []
    if any(
        sent.late + sent.unsent > _LATE_SHARE * sent.requests or sent.busy_share > BUSY_SHARE for sent in runs
    ):
        flags.append("the load generator could not keep to its times")
    if any(sent.failed or sent.refused for sent in runs):
        flags.append("requests were not accepted")
    for percentile in _PERCENTILES:
        yield Figure(
            kind=f"latency_{percentile}",
            scenario=scenario.name,
            system=target.name,
            values=tuple(sent.latency_us[percentile] for sent in runs),
            items=how.items,
            streams=how.streams,
            connections=how.connections,
            load=percent,
            flags=tuple(flags),
            note=f"{target.most * percent / 100:,.0f} items/s",
        )


def _capacity(server: Server, load: Load, sink: Sink, seconds: float) -> float:
    """Return the items a second that a server accepts when it is asked as fast as it answers."""
    sent = measure_once(server, load, sink, seconds=seconds, seed=0, is_exact=False).sent
    return sent.ok_items / sent.seconds
