"""What a run measures: kinds of figures, figures, and the run that holds them; see results.schema.json."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self

FORMAT = 1
"""Of the file. A file of another format is not read."""

OURS = "spansieve"

NOT_CORRECT = "not correct: "
"""How the flag begins of a system that does not do what the scenario says; what follows is why."""


class Kind(NamedTuple):
    """What a figure is of.

    Attributes:
        less_is_better: else more is.
        guard: what makes `--compare` fail: `exact`, a change beyond EXACT_TOLERANCE in the same environment; `noise`,
            a change for the worse beyond the measured noise; nothing where the machine decides, not the program.
    """

    title: str
    unit: str
    less_is_better: bool = True
    guard: str = ""


KINDS = {
    "instructions": Kind("instructions", "instr./item", guard="exact"),
    "packed": Kind("bytes of a compressed batch", "B/item", guard="exact"),
    "packed_cpu": Kind("CPU of gathering and compressing a batch", "us/item"),
    "cpu": Kind("CPU", "us/item"),
    "throughput": Kind("items per CPU-second", "items/CPU-s", less_is_better=False),
    "cpu_ratio": Kind("CPU, nghttpd's = 1", "x", guard="noise"),
    "advantage": Kind("its CPU, spansieve's = 1", "x", less_is_better=False),
    "request_cost": Kind("fitted cost of a request", "us"),
    "item_cost": Kind("fitted cost of an item", "us"),
    "wire": Kind("bytes out", "B/item"),  # by how much comes within a batch's timeout; `packed` is guarded
    "idle_rss": Kind("idle RSS", "MB", guard="noise"),
    "peak_rss": Kind("peak RSS", "MB", guard="noise"),
    "overload_rss": Kind("peak RSS, twice the load and a stopped backend", "MB", guard="noise"),
    "overload_lost": Kind("accepted items that were lost", "items"),
    "idle_cpu": Kind("idle CPU", "% of a core"),
    "start": Kind("start to first accepted request", "ms"),
    "start_cpu": Kind("CPU of the start", "ms"),
    "latency_p50": Kind("latency, p50", "us"),
    "latency_p99": Kind("latency, p99", "us"),
    "latency_p99_9": Kind("latency, p99.9", "us"),
    "added_p50": Kind("added latency, p50: less that of the backend alone", "us"),
    "added_p99": Kind("added latency, p99: less that of the backend alone", "us"),
}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Repeated measurements of one thing.

    Attributes:
        kind: of KINDS.
        items, streams, connections: in a request, at once on a connection, at once; None where it has no meaning.
        load: percent of what the system can do; None where it is not limited.
        rate: requests a second, the same for all systems; None where it is not fixed.
        bodies: what the requests are cut from, where not from the usual; None for the usual.
        values: one a repeat, in order; the figure's value is their median.
        flags: why it may be wrong; such a figure is not compared.
    """

    kind: str
    scenario: str
    system: str
    values: tuple[float, ...]
    items: int | None = None
    streams: int | None = None
    connections: int | None = None
    load: int | None = None
    rate: int | None = None
    bodies: str | None = None
    flags: tuple[str, ...] = ()
    note: str = ""

    @property
    def value(self) -> float:
        """The median."""
        return float(median(self.values))

    @property
    def is_correct(self) -> bool:
        """Whether the system did what the scenario says."""
        return not any(flag.startswith(NOT_CORRECT) for flag in self.flags)

    @property
    def mark(self) -> str:
        """What is put behind the value of a system that is not correct."""
        return "" if self.is_correct else "*"

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two figures of two runs the same figure."""
        return (
            self.kind,
            self.scenario,
            self.system,
            self.items,
            self.streams,
            self.connections,
            self.load,
            self.rate,
            self.bodies,
        )

    @property
    def label(self) -> str:
        """The key, in words."""
        return f"{self.kind} of {self.system}: {', '.join(filter(None, (self.scenario, self.case)))}"

    @property
    def case(self) -> str:
        """The circumstances, in words."""
        words = [
            f"{number:,} {word}{'' if number == 1 else 's'}"
            for number, word in (
                (self.items, "item"),
                (self.streams, "stream"),
                (self.connections, "connection"),
            )
            if number is not None
        ]
        if self.load is not None:
            words.append(f"{self.load} % load")
        if self.rate is not None:
            words.append(f"{self.rate:,} requests/s")
        if self.bodies is not None:
            words.append(f"{self.bodies} bodies")
        return ", ".join(words)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Why a figure of ours is what it is.

    Attributes:
        of: the label of the figure.
        file: in the folder `profiles` beside the run.
        how: in what way it was looked.
        top: the greatest costs.
    """

    of: str
    file: str
    how: str
    top: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All figures of a run and what they were measured on.

    Attributes:
        date: UTC, as `2026-11-30T08:00:00Z`.
        machine: `cpu`, `cores`, `memory`, `kernel`, `python`, `compiler`, `libc`, `zstd`.
        systems: their versions; of a missing one `missing: ` and why.
        bodies: where the requests come from.
        rounds: A B B A, of each case.
    """

    date: str
    machine: dict[str, str]
    systems: dict[str, str]
    bodies: str
    rounds: int
    quick: bool
    figures: tuple[Figure, ...] = ()
    profiles: tuple[Profile, ...] = ()

    def joined(self, again: Self) -> Self:
        """Return the run with the repeats of what was measured again: more values, and what differs between runs."""
        more = {figure.key: figure for figure in again.figures}
        figures = tuple(
            dataclasses.replace(
                figure,
                values=figure.values + more[figure.key].values,
                flags=tuple(dict.fromkeys(figure.flags + more[figure.key].flags)),
            )
            if figure.key in more
            else figure
            for figure in self.figures
        )
        return dataclasses.replace(self, figures=figures)

    def find(self, kind: str, **criteria: Any) -> Iterator[Figure]:
        """Yield the figures of a kind whose attributes are as the criteria say."""
        for figure in self.figures:
            if figure.kind == kind and all(
                getattr(figure, name) == value for name, value in criteria.items()
            ):
                yield figure

    def names(self, attribute: str, figures: Sequence[Figure] | None = None) -> list[Any]:
        """Return the different values of an attribute, in the order of their first appearance."""
        chosen = self.figures if figures is None else figures
        return list(dict.fromkeys(getattr(figure, attribute) for figure in chosen))

    def write(self, path: Path) -> None:
        """Write the run as JSON."""
        document = {"format": FORMAT, **dataclasses.asdict(self)}
        for row, figure in zip(document["figures"], self.figures, strict=True):
            row["value"] = figure.value
            row["unit"] = KINDS[figure.kind].unit
        path.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the run in a file.

        Raises:
            ValueError: the file is of another format, or damaged.
        """
        try:
            document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
            if document.pop("format", None) != FORMAT:
                raise ValueError(f"expected a run of format {FORMAT}")
            return cls._from(document)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error

    @classmethod
    def _from(cls, document: dict[str, Any]) -> Self:
        names = {field.name for field in dataclasses.fields(Figure)}
        figures = []
        for row in document.pop("figures"):
            known = {name: value for name, value in row.items() if name in names}
            values = tuple(float(value) for value in row["values"])
            if not values or row["kind"] not in KINDS:
                raise ValueError(f"a figure of {row['kind']!r} without a meaning or a value")
            figures.append(Figure(**{**known, "values": values, "flags": tuple(row["flags"])}))
        profiles = [Profile(**{**row, "top": tuple(row["top"])}) for row in document.pop("profiles", ())]
        return cls(**document, figures=tuple(figures), profiles=tuple(profiles))
