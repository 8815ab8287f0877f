"""What every measurement needs: where it runs, how long, with which systems, and who hears of its progress."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import bodies, recut
from bench.processes import Cores, cpu_seconds
from bench.scenarios import Scenario
from bench.systems import Server, System, running
from bench.tools import BUSY_SHARE, Load, Received, Sent, Sink
from collector.ids import Signal

_MICROSECONDS = 1e6
_REFUSED_SHARE = 0.01


class Place(NamedTuple):
    """A run's circumstances.

    Attributes:
        folder: for everything that is written while it runs.
        systems: by name, missing ones too.
        rounds: of each case.
        load_s: how long one measurement loads a system.
        say: told what is being done; each call is one step.
    """

    cores: Cores
    folder: Path
    systems: dict[str, System]
    rounds: int
    load_s: float
    is_quick: bool
    say: Callable[[str], None]

    def names(self, scenario: Scenario) -> list[str]:
        """Return the systems of a scenario that are here."""
        return [name for name in scenario.systems if self.has(name)]

    def has(self, name: str) -> bool:
        """Return whether a system is here."""
        return name in self.systems and not self.systems[name].is_missing

    def load(
        self,
        signal: Signal,
        items: int,
        *,
        streams: int = 1,
        connections: int = 4,
        capture: str | None = None,
    ) -> Load:
        """Return the load of requests of so many items, cut from a capture or from what is usual."""
        path = self.folder / f"{signal.value}-{items}-{capture or 'usual'}.bodies"
        if not path.exists():
            bodies.write_framed(path, recut.of_items(signal, items, capture=capture))
        return Load(signal, path, self.cores.load, streams, connections)

    @contextlib.contextmanager
    def start(
        self, name: str, scenario: Scenario, sink_port: int, *, wait: bool = True, **how: Any
    ) -> Iterator[Server]:
        """Run a system as the scenario says, until the block ends; wait for it to listen, or not.

        Args:
            how: `under`, `environment` of systems.running.
        """
        folder = self.folder / scenario.name
        folder.mkdir(exist_ok=True)
        with running(
            self.systems[name],
            scenario,
            sink_port=sink_port,
            core=self.cores.server,
            folder=folder,
            wait=wait,
            **how,
        ) as server:
            yield server


class Once(NamedTuple):
    """One measurement.

    Attributes:
        cpu_us: of the server and its children, an item that it accepted.
        flags: why it may be wrong.
    """

    sent: Sent
    received: Received
    cpu_us: float
    flags: tuple[str, ...]


def measure_once(
    server: Server,
    load: Load,
    sink: Sink | None,
    *,
    seconds: float,
    seed: int,
    is_exact: bool,
    rate: float | None = None,
) -> Once:
    """Load a server and wait until all that it has to send has arrived.

    Args:
        sink: behind it; None for a server that sends nothing on.
        rate: items a second; None for the next request upon each answer.
        is_exact: every item that it accepts must arrive.

    Raises:
        RuntimeError: it accepted nothing.
    """
    if sink:
        sink.tell("reset")
    sink_before, began = sink.cpu_seconds() if sink else 0.0, time.monotonic()
    before = cpu_seconds(server.pid)
    try:
        sent = load.send(server.port, duration_s=seconds, rate=rate, seed=seed, retry=True)
    except RuntimeError as error:
        raise RuntimeError(f"{server.name} cannot be loaded: {error}{server.process.said()}") from error
    sink_share = (sink.cpu_seconds() - sink_before) / (time.monotonic() - began) if sink else 0.0
    received = sink.settle(sent.total_ok_items if is_exact else None) if sink else Received.nothing()
    cpu = cpu_seconds(server.pid) - before
    if not sent.total_ok_items:
        raise RuntimeError(f"{server.name} accepted nothing: {sent}\n{server.process.said()}")
    flags = []
    if sent.busy_share > BUSY_SHARE:
        flags.append(f"the load generator took {sent.busy_share:.0%} of its core")
    if sink_share > BUSY_SHARE:
        flags.append(f"the sink took {sink_share:.0%} of its core")
    if sent.refused_share > _REFUSED_SHARE:
        flags.append(f"{sent.refused_share:.0%} of the items were not accepted")
    if is_exact and sink and received.items != sent.total_ok_items:
        missing = sent.total_ok_items - received.items
        flags.append(
            f"{missing} of {sent.total_ok_items} items did not arrive"
            if missing > 0
            else f"{-missing} items more than the {sent.total_ok_items} accepted arrived: refused ones too, or twice"
        )
    return Once(sent, received, cpu * _MICROSECONDS / sent.total_ok_items, tuple(flags))
