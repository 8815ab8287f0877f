"""CPU time and bytes of a scenario's cases, systems side by side in rounds A B B A; correctness first."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bench import bodies, correctness, recut
from bench.figures import NOT_CORRECT, OURS, Figure
from bench.place import Once, Place, measure_once
from bench.processes import Cores
from bench.scenarios import Case, Scenario
from bench.statistics import fit, paired_ratios
from bench.systems import YARDSTICK, Server
from bench.tools import BUSY_SHARE, Sent, Sink, read_record
from bench.yardsticks import compress_alone, copy_alone

_WARM_UP = 0.5  # of a measurement's time
_CHECKED_ITEMS = (10, 512)
_CHECKED_TOTAL = 16_384
_MICROSECONDS = 1e6
_FITTED_SIZES = 3
_MOST_BUSY = 0.9 * BUSY_SHARE
_PACING_TRIES = 4


class Checked(NamedTuple):
    """What came of the correctness check.

    Attributes:
        wrong: by system, what is wrong with it.
        batches: the requests that arrived behind spansieve.
    """

    wrong: dict[str, str]
    batches: Sequence[bytes]


def steps(scenario: Scenario, place: Place) -> int:
    """Return how often measure will say what it does."""
    return 1 + len(_cases(scenario, place)) * place.rounds


def measure(scenario: Scenario, place: Place) -> Iterator[Figure]:
    """Yield the figures of all cases of a scenario."""
    cases = _cases(scenario, place)
    if not cases:
        return
    place.say(f"{scenario.title}: is it correct?")
    checked = check(scenario, place)
    figures: list[Figure] = []
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(Sink(place.cores.load))
        servers = [
            stack.enter_context(place.start(name, scenario, sink.port)) for name in place.names(scenario)
        ]
        if place.has(YARDSTICK):
            servers.append(stack.enter_context(place.start(YARDSTICK, scenario, sink.port)))
        for case in cases:
            for figure in _measure_case(scenario, case, servers, sink, place, checked.wrong):
                figures.append(figure)
                yield figure
    yield from _fit_all(figures)
    if scenario.yardsticks:
        yield from _alone(scenario, checked.batches, place.cores, place.rounds)


def check(scenario: Scenario, place: Place) -> Checked:
    """Send each system requests whose ids stay as they are, and look at what comes out."""
    sent: list[bytes] = []
    for items in _CHECKED_ITEMS:
        requests = recut.of_items(scenario.signal, items)
        sent += requests[: max(1, _CHECKED_TOTAL // items // len(_CHECKED_ITEMS))]
    sent_path = bodies.write_framed(place.folder / f"{scenario.name}.sent", sent)
    received = {}
    for name in place.names(scenario):
        record = place.folder / f"{scenario.name}-{name}.record"
        with Sink(place.cores.load, record) as sink:
            with place.start(name, scenario, sink.port) as server:
                load = place.load(scenario.signal, _CHECKED_ITEMS[0], connections=1)
                load._replace(bodies=sent_path).send(server.port, requests=len(sent), keep_ids=True)
            sink.settle(None)
        received[name] = read_record(record)
        record.unlink()
    return Checked(correctness.check(scenario, sent, received), received.get(OURS, ()))


def _cases(scenario: Scenario, place: Place) -> Sequence[Case]:
    """Return the cases whose requests are here."""
    chosen = scenario.quick if place.is_quick else scenario.cases
    return [case for case in chosen if case.bodies is None or bodies.are_captured()]


def _measure_case(
    scenario: Scenario,
    case: Case,
    servers: Sequence[Server],
    sink: Sink,
    place: Place,
    wrong: dict[str, str],
) -> Iterator[Figure]:
    load = place.load(
        scenario.signal,
        case.items,
        streams=case.streams,
        connections=case.connections,
        capture=case.bodies,
    )
    rates: dict[str, float] = {}  # of systems that take what the load generator can send

    def once(server: Server, seconds: float, seed: int, rate: float | None) -> Once:
        sends = server.name != YARDSTICK
        return measure_once(
            server,
            load,
            sink if sends else None,
            seconds=seconds,
            seed=seed,
            rate=rate,
            is_exact=sends and scenario.expect == "all" and server.name not in wrong,
        )

    for server in servers:

        def warm_up(rate: float | None, server: Server = server) -> Sent:
            return once(server, place.load_s * _WARM_UP, seed=0, rate=rate).sent

        if (rate := _bearable_rate(warm_up)) is not None:
            rates[server.name] = rate
    runs: dict[str, list[Once]] = defaultdict(list)
    for number in range(1, place.rounds + 1):
        place.say(f"{scenario.title}: {case.items:,} items a request, round {number} of {place.rounds}")
        for server in (*servers, *reversed(servers)):  # A B B A: what drifts evenly burdens all alike
            runs[server.name].append(once(server, place.load_s, number, rates.get(server.name)))
    yield from _figures(scenario, case, runs, rates, wrong)


def _bearable_rate(send: Callable[[float | None], Sent]) -> float | None:
    """Return the items a second at which the load generator is not what limits the result, by trying.

    None where the next request can be sent upon each answer, or where no rate is easier: small requests that are sent
    at their times cost it more than those upon answers, since it sleeps before each.
    """
    rate, easiest, least = None, None, math.inf
    for _ in range(_PACING_TRIES):
        sent = send(rate)
        if sent.busy_share < least:
            easiest, least = rate, sent.busy_share
        if least <= _MOST_BUSY:
            break
        rate = sent.items / sent.seconds * _MOST_BUSY / sent.busy_share
    return easiest


def _figures(
    scenario: Scenario,
    case: Case,
    runs: dict[str, list[Once]],
    rates: dict[str, float],
    wrong: dict[str, str],
) -> Iterator[Figure]:
    cpu = {name: [run.cpu_us for run in repeats] for name, repeats in runs.items()}
    for name, repeats in runs.items():
        flags = tuple(dict.fromkeys(flag for run in repeats for flag in run.flags))[:1]
        if name in wrong:
            flags = (f"{NOT_CORRECT}{wrong[name]}", *flags)
        note = (
            f"sent {rates[name]:,.0f} items/s, no more for the load generator's sake" if name in rates else ""
        )

        def figure(
            kind: str,
            values: Sequence[float],
            name: str = name,
            flags: tuple[str, ...] = flags,
            note: str = note,
        ) -> Figure:
            return Figure(
                kind=kind,
                scenario=scenario.name,
                system=name,
                values=tuple(values),
                flags=flags,
                note=note,
                **case._asdict(),
            )

        yield figure("cpu", cpu[name])
        yield figure("throughput", [_MICROSECONDS / value for value in cpu[name]])
        if name == YARDSTICK:
            continue
        if wire := [run.received.wire_bytes / run.received.items for run in repeats if run.received.items]:
            yield figure("wire", wire)
        if YARDSTICK in cpu:
            yield figure("cpu_ratio", paired_ratios(cpu[name], cpu[YARDSTICK]))
        if OURS in cpu and name != OURS:
            yield figure("advantage", paired_ratios(cpu[name], cpu[OURS]))


def _fit_all(figures: Sequence[Figure]) -> Iterator[Figure]:
    """Yield what a request and what an item costs, by system, where enough sizes were measured."""
    groups: dict[tuple[str, int | None, int | None, str | None], list[Figure]] = defaultdict(list)
    for figure in figures:
        if figure.kind == "cpu":
            groups[figure.system, figure.streams, figure.connections, figure.bodies].append(figure)
    for (system, streams, connections, capture), members in groups.items():
        sizes = [figure.items or 0 for figure in members]
        if len(sizes) < _FITTED_SIZES:
            continue
        fits = [
            fit(sizes, [cost * size for cost, size in zip(repeat, sizes, strict=True)])
            for repeat in zip(*(figure.values for figure in members), strict=True)
        ]
        flags = tuple(dict.fromkeys(flag for figure in members for flag in figure.flags))
        for kind, values in (
            ("request_cost", [found.request for found in fits]),
            ("item_cost", [found.item for found in fits]),
        ):
            yield Figure(
                kind=kind,
                scenario=members[0].scenario,
                system=system,
                values=tuple(values),
                streams=streams,
                connections=connections,
                bodies=capture,
                flags=flags,
            )


def _alone(scenario: Scenario, batches: Sequence[bytes], cores: Cores, rounds: int) -> Iterator[Figure]:
    """Yield what compressing and copying the same batches costs when nothing else is done."""
    items = sum(recut.count(scenario.signal, batch) for batch in batches)
    compressed = [compress_alone(batches, items, cores.server) for _ in range(rounds * 2)]
    copied = [copy_alone(batches, items, cores.server) for _ in range(rounds * 2)]

    def figure(kind: str, system: str, values: Sequence[float]) -> Figure:
        return Figure(kind=kind, scenario=scenario.name, system=system, values=tuple(values))

    yield figure("cpu", "libzstd -1", [cost.cpu_us for cost in compressed])
    yield figure("wire", "libzstd -1", [cost.bytes for cost in compressed])
    yield figure("cpu", "memcpy", [cost.cpu_us for cost in copied])
