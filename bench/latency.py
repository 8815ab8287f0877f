"""How long a request takes to be acknowledged, at a low rate and at a share of what each system can do."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.figures import Figure
from bench.place import Place, measure_once
from bench.scenarios import Latency, Scenario
from bench.systems import YARDSTICK, Server
from bench.tools import BUSY_SHARE, Load, Sent, Sink

DIRECT = "direct"
"""The load generator straight on a sink where servers run, nothing in between: what of a latency is no system's."""

_S, _QUICK_S = 2.0, 1.0
_MOST_ROUNDS = 3
_PERCENTILES = ("p50", "p99", "p99_9")
_ADDED = ("p50", "p99")
_SHARE = 0.01
"""Of the requests: more that were late or not sent are said."""


def steps(scenario: Scenario, place: Place) -> int:
    """Return how often measure will say what it does."""
    return sum(len(how.loads) + len(how.rates) for how in scenario.latency) * _rounds(place)


class Target(NamedTuple):
    """What requests are sent to.

    Attributes:
        rate: items a second.
    """

    name: str
    port: int
    rate: float


class Point(NamedTuple):
    """Where latency is measured: one of load, in percent, and rate, in requests a second."""

    how: Latency
    load: int | None = None
    rate: int | None = None

    def __str__(self) -> str:
        return f"{self.load} % load" if self.load is not None else f"{self.rate:,} requests/s"


def measure(scenario: Scenario, place: Place) -> Iterator[Figure]:
    """Yield the percentiles of each system, of nghttpd, and of a backend without anything before it.

    Requests are sent at their times whatever the answers do, and a latency counts from when a request should have
    been sent: a system that stalls is charged with all that had to wait. What has no load of its own is sent what the
    first system is. What a system adds is the difference to the backend alone, within a round, where both were sent
    the same.
    """
    names = place.names(scenario)
    if not scenario.latency or not names:
        return
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(Sink(place.cores.load))
        direct = stack.enter_context(Sink(place.cores.server))
        servers = [stack.enter_context(place.start(name, scenario, sink.port)) for name in names]
        ports = {}
        if place.has(YARDSTICK):
            ports[YARDSTICK] = stack.enter_context(place.start(YARDSTICK, scenario, sink.port)).port
        ports[DIRECT] = direct.port
        for how in scenario.latency:
            load = place.load(scenario.signal, how.items, streams=how.streams, connections=how.connections)
            most = [_capacity(server, load, sink, place.load_s) for server in servers] if how.loads else []
            for point in _points(how):
                rates = (
                    [float(point.rate * how.items)] * len(servers)
                    if point.rate is not None
                    else [each * (point.load or 0) / 100 for each in most]
                )
                targets = [
                    Target(server.name, server.port, rate)
                    for server, rate in zip(servers, rates, strict=True)
                ]
                targets += [Target(name, port, rates[0]) for name, port in ports.items()]
                runs = _measure_point(point, load, targets, sink, place)
                for target in targets:
                    yield from _figures(scenario, point, target, runs[target.name])
                    if target.rate == rates[0] and target.name != DIRECT:
                        yield from _added(scenario, point, target, runs)


def _points(how: Latency) -> Iterator[Point]:
    yield from (Point(how, rate=rate) for rate in how.rates)
    yield from (Point(how, load=load) for load in how.loads)


def _measure_point(
    point: Point, load: Load, targets: Sequence[Target], sink: Sink, place: Place
) -> dict[str, list[Sent]]:
    runs: dict[str, list[Sent]] = defaultdict(list)
    for number in range(1, _rounds(place) + 1):
        place.say(f"latency at {point}: round {number} of {_rounds(place)}")
        for target in targets if number % 2 else reversed(targets):
            runs[target.name].append(
                load.send(
                    target.port,
                    duration_s=_QUICK_S if place.is_quick else _S,
                    rate=target.rate,
                    seed=number,
                    poll=True,
                )
            )
            sink.settle(None)
    return runs


def _rounds(place: Place) -> int:
    return min(place.rounds, _MOST_ROUNDS)


def _flags(runs: Sequence[Sent]) -> tuple[str, ...]:
    requests = sum(sent.requests + sent.unsent for sent in runs)
    overslept, unsent = sum(sent.overslept for sent in runs), sum(sent.unsent for sent in runs)
    busy = max(sent.busy_share for sent in runs)
    flags = []
    if overslept > _SHARE * requests:
        flags.append(f"the load generator was late with {overslept / requests:.1%} of the requests")
    if busy > BUSY_SHARE:
        flags.append(f"the load generator took {busy:.0%} of its core")
    if unsent > _SHARE * requests:
        flags.append(f"{unsent / requests:.1%} of the requests found no stream and are not counted")
    if any(sent.failed or sent.refused for sent in runs):
        flags.append("requests were not accepted")
    return tuple(flags)


def _figures(scenario: Scenario, point: Point, target: Target, runs: Sequence[Sent]) -> Iterator[Figure]:
    for percentile in _PERCENTILES:
        values = [sent.latency_us[percentile] for sent in runs]
        yield _figure(f"latency_{percentile}", scenario, point, target, values, _flags(runs))


def _added(scenario: Scenario, point: Point, target: Target, runs: dict[str, list[Sent]]) -> Iterator[Figure]:
    mine, alone = runs[target.name], runs[DIRECT]
    flags = tuple(dict.fromkeys(_flags(mine) + _flags(alone)))
    for percentile in _ADDED:
        values = [
            one.latency_us[percentile] - other.latency_us[percentile]
            for one, other in zip(mine, alone, strict=True)
        ]
        yield _figure(f"added_{percentile}", scenario, point, target, values, flags)


def _figure(
    kind: str,
    scenario: Scenario,
    point: Point,
    target: Target,
    values: Sequence[float],
    flags: tuple[str, ...],
) -> Figure:
    return Figure(
        kind=kind,
        scenario=scenario.name,
        system=target.name,
        values=tuple(values),
        items=point.how.items,
        streams=point.how.streams,
        connections=point.how.connections,
        load=point.load,
        rate=point.rate,
        flags=flags,
        note="" if point.rate is not None else f"{target.rate:,.0f} items/s",
    )


def _capacity(server: Server, load: Load, sink: Sink, seconds: float) -> float:
    """Return the items a second that a server accepts when it is asked as fast as it answers."""
    sent = measure_once(server, load, sink, seconds=seconds, seed=0, is_exact=False).sent
    return sent.ok_items / sent.seconds
