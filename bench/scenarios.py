"""The scenarios: what goes in, what each system does with it, and what must come out; one file each in scenarios/.

| key | meaning |
|---|---|
| `title`, `what`, `notes` | for people |
| `signal` | `traces`, `metrics` or `logs` |
| `expect` | what all do alike: `all`, what went in comes out; `some`, all that comes out went in; `merged`, sums stay |
| `edits` | fields of an item that may come out otherwise than they went in |
| `deletes` | attributes of an item that must not come out |
| `cases` | a list of {items, streams, connections, bodies}, each a value or a list: all combinations are measured |
| `quick` | the same, for `--quick` |
| `process` | {items, connections}: measure start, idle and loaded memory too |
| `latency` | a list of {items, streams, connections} with `loads`, percents of what each can, or `rates`, requests/s |
| `overload` | {items, streams, connections, seconds, limit_mib}: see overload.yaml |
| `yardsticks` | true: compress and copy the same batches alone |
| `systems` | by name: a Collector's configuration, or a command line; both see LISTEN, LISTEN_HTTP, SINK, METRICS |
| `cannot` | by name: why a system is not in it |
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from collector.ids import Signal

_FOLDER = Path(__file__).parent / "scenarios"
EXPECTATIONS = ("all", "some", "merged")


class Case(NamedTuple):
    """One kind of load.

    Attributes:
        bodies: the capture to cut requests from; None for the usual one.
    """

    items: int
    streams: int = 1
    connections: int = 4
    bodies: str | None = None


class Latency(NamedTuple):
    """At which loads latency is measured.

    Attributes:
        loads: percent of what each system can do.
        rates: requests a second, the same for all.
    """

    items: int
    streams: int = 1
    connections: int = 4
    loads: Sequence[int] = ()
    rates: Sequence[int] = ()


class Overload(NamedTuple):
    """How a system is overloaded."""

    items: int
    streams: int
    connections: int
    seconds: float
    limit_mib: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A file of scenarios/, read; the module says what its keys mean."""

    name: str
    title: str
    what: str
    signal: Signal
    expect: str
    systems: dict[str, Any]
    cases: tuple[Case, ...] = ()
    quick: tuple[Case, ...] = ()
    process: Case | None = None
    latency: tuple[Latency, ...] = ()
    overload: Overload | None = None
    yardsticks: bool = False
    edits: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    cannot: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read(path: Path) -> Scenario:
    """Return the scenario in a file.

    Raises:
        TypeError: it has a key that is not known, or lacks one.
        ValueError: a value is none of those that are known.
    """
    keys = yaml.safe_load(path.read_text(encoding="utf-8"))
    keys["signal"] = Signal(keys["signal"])
    if keys["expect"] not in EXPECTATIONS:
        raise ValueError(f"{path}: expect is one of {', '.join(EXPECTATIONS)}, not {keys['expect']!r}")
    for name, kind in (("process", Case), ("overload", Overload)):
        if name in keys:
            keys[name] = kind(**keys[name])
    keys["latency"] = tuple(Latency(**row) for row in keys.get("latency", ()))
    for name in ("cases", "quick"):
        keys[name] = tuple(dict.fromkeys(_combine(keys.get(name, ()))))
    for name in ("edits", "deletes", "notes"):
        keys[name] = tuple(keys.get(name, ()))
    return Scenario(**{**keys, "name": path.stem, "what": keys["what"].strip()})


def _combine(rows: Sequence[dict[str, Any]]) -> Iterator[Case]:
    for row in rows:
        lists = [value if isinstance(value, list) else [value] for value in row.values()]
        for values in itertools.product(*lists):
            yield Case(**dict(zip(row, values, strict=True)))


ORDER = ("pass_through", "sidecar", "keep_all", "gzip", "metrics", "metrics_label", "logs", "overload")


def load_all() -> dict[str, Scenario]:
    """Return all scenarios by name, the usual ones first."""
    paths = {path.stem: path for path in sorted(_FOLDER.glob("*.yaml"))}
    names = sorted(paths, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    return {name: read(paths[name]) for name in names}
