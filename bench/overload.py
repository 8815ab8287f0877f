"""Twice the load that a system can take, with a backend that has stopped: how much memory, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure
from bench.place import Place, measure_once
from bench.processes import memory_bytes
from bench.scenarios import Scenario
from bench.tools import Sink

_QUICK_SHARE = 4
_FACTOR = 2
_DRAIN_S = 30.0
_QUIET_S = 6.0  # longer than exporters wait between two tries
_MB = 1e6


def steps(scenario: Scenario, place: Place) -> int:
    """Return how often measure will say what it does."""
    return len(place.names(scenario)) if scenario.overload else 0


def measure(scenario: Scenario, place: Place) -> Iterator[Figure]:
    """Yield peak RSS and lost items of each system.

    An item is lost when it was acknowledged and has not arrived, half a minute after the backend works again and the
    system was told to end.
    """
    how = scenario.overload
    if how is None:
        return
    load = place.load(scenario.signal, how.items, streams=how.streams, connections=how.connections)
    seconds = how.seconds / (_QUICK_SHARE if place.is_quick else 1)
    for name in place.names(scenario):
        place.say(f"overload of {name}, {seconds:.0f} s")
        with Sink(place.cores.load) as sink:
            with place.start(name, scenario, sink.port) as server:
                normal = measure_once(server, load, sink, seconds=1.0, seed=0, is_exact=True)
                sink.tell("reset")
                sink.tell("stop")
                rate = _FACTOR * normal.sent.ok_items / normal.sent.seconds
                sent = load.send(server.port, duration_s=seconds, rate=rate, seed=1)
                peak = memory_bytes(server.pid, "VmHWM") / _MB
                sink.tell("ok")
                sink.settle(sent.total_ok_items, quiet_s=_QUIET_S, timeout_s=_DRAIN_S)
            received = sink.settle(sent.total_ok_items)
        values = {"overload_rss": peak, "overload_lost": float(max(0, sent.total_ok_items - received.items))}
        accepted = sent.total_ok_items / max(1, sent.items)
        for kind, value in values.items():
            yield Figure(
                kind=kind,
                scenario=scenario.name,
                system=name,
                values=(value,),
                items=how.items,
                streams=how.streams,
                connections=how.connections,
                load=_FACTOR * 100,
                note=f"{rate:,.0f} items/s were offered, {accepted:.1%} accepted",
            )
