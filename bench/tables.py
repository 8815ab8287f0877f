"""A run as tables: on the terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bench.figures import KINDS, OURS, Figure, Run
from bench.scenarios import Scenario

if TYPE_CHECKING:
    from rich.table import Table as RichTable


class Table(NamedTuple):
    """A title, a row of headings, rows of cells, and what is to be said below."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def tables(run: Run, scenarios: dict[str, Scenario]) -> Iterator[Table]:
    """Yield all tables of a run that have a row."""
    found = [
        _exact(run),
        *(table for name in _measured(run) for table in _of_scenario(run, name, scenarios.get(name))),
        _processes(run),
        _latencies(run),
        _overload(run),
    ]
    yield from (table for table in found if table.rows)


def number(value: float) -> str:
    """Return a number with three significant digits, or as a whole number with commas."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread(figure: Figure) -> str:
    """Return the value with how far the repeats lie apart, where there are repeats; marked when it is not correct."""
    value = f"{number(figure.value)}{figure.mark}"
    if len(figure.values) < 2:
        return value
    return f"{value} ({number(min(figure.values))}-{number(max(figure.values))})"


def markdown(table: Table) -> str:
    """Return a table in Markdown."""
    rule = ["---:" if is_number else "---" for is_number in _number_columns(table)]
    lines = [f"### {table.title}", "", _row(table.head), _row(rule)]
    lines += [_row(row) for row in table.rows]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def rich(table: Table) -> RichTable:
    """Return a table for the terminal."""
    from rich.table import Table as RichTable

    shown = RichTable(title=table.title, title_justify="left", title_style="bold", caption_justify="left")
    for heading, is_number in zip(table.head, _number_columns(table), strict=True):
        shown.add_column(heading, justify="right" if is_number else "left")
    for row in table.rows:
        shown.add_row(*row)
    if table.notes:
        shown.caption = "\n".join(table.notes)
    return shown


def summary(run: Run, scenarios: dict[str, Scenario], more: Sequence[Table] = ()) -> str:
    """Return the whole run in Markdown, with more tables before those of what was measured."""
    facts = [f"- {name}: {version}" for name, version in run.systems.items()]
    machine = ", ".join(f"{name} {value}" for name, value in run.machine.items())
    rounds = f"{run.rounds} rounds A B B A" + (", a quick run" if run.quick else "")
    lines = [f"# Measured on {run.date}", "", f"- machine: {machine}", f"- requests: {run.bodies}"]
    lines += [f"- {rounds}", *facts, ""]
    lines += [markdown(table) for table in (*more, *tables(run, scenarios)) if table.rows]
    return "\n".join(lines)


def _number_columns(table: Table) -> list[bool]:
    """Return which columns are shown to the right: those after the first whose cells all begin like a number."""
    columns = [[row[place] for row in table.rows] for place in range(len(table.head))]
    return [
        place > 0 and all(cell[:1].isdigit() or cell[:1] == "-" for cell in cells)
        for place, cells in enumerate(columns)
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _measured(run: Run) -> list[str]:
    return list(dict.fromkeys(figure.scenario for figure in run.find("cpu")))


def _of_scenario(run: Run, name: str, scenario: Scenario | None) -> Iterator[Table]:
    """Yield a table of costs and one of what leaves and of the fits."""
    figures = [figure for figure in run.figures if figure.scenario == name]
    costs = [figure for figure in figures if figure.kind == "cpu" and figure.items is not None]
    systems = list(dict.fromkeys(figure.system for figure in costs))
    title = scenario.title if scenario else name
    unit = scenario.signal.items[:-1].replace("_", " ") if scenario else "item"
    rows = []
    for case in dict.fromkeys(figure.case for figure in costs):
        of_case = {(f.kind, f.system): f for f in figures if f.case == case}
        cells = [spread(of_case["cpu", system]) if ("cpu", system) in of_case else "-" for system in systems]
        fastest = of_case.get(("throughput", OURS))
        cells.append(number(fastest.value) if fastest else "-")
        rows.append((case, *cells))
    notes = list(scenario.notes) if scenario else []
    notes += [f"{system}: {why}" for system, why in (scenario.cannot if scenario else {}).items()]
    alone = [figure for figure in figures if figure.items is None and figure.kind in {"cpu", "wire"}]
    notes += [f"{f.system} on the same batches alone: {number(f.value)} {KINDS[f.kind].unit}" for f in alone]
    flagged = {
        f"{figure.system}, {figure.case}: {text}"
        for figure in costs
        for text in (*figure.flags, figure.note)
        if text
    }
    heads = (f"us of CPU a {unit}", *systems, f"{unit}s a CPU-s, {OURS}")
    yield Table(title, heads, tuple(rows), tuple(notes + sorted(flagged)))
    yield _others(title, figures)


def _others(title: str, figures: Sequence[Figure]) -> Table:
    kinds = ("advantage", "cpu_ratio", "wire", "request_cost", "item_cost")
    chosen = [figure for figure in figures if figure.kind in kinds and _has_case(figure)]
    systems = list(dict.fromkeys(figure.system for figure in chosen))
    rows = []
    for kind in kinds:
        of_kind = [figure for figure in chosen if figure.kind == kind]
        for case in dict.fromkeys(figure.case for figure in of_kind):
            cells = {f.system: f"{number(f.value)}{f.mark}" for f in of_kind if f.case == case}
            label = f"{KINDS[kind].title}, {KINDS[kind].unit}: {case}"
            rows.append((label, *(cells.get(system, "-") for system in systems)))
    return Table(f"{title}: ratios, bytes out, fits", ("", *systems), tuple(rows))


def _has_case(figure: Figure) -> bool:
    return figure.streams is not None


def _exact(run: Run) -> Table:
    rows = []
    costs = {figure.scenario: figure for figure in run.find("packed_cpu")}
    for kind in ("instructions", "packed"):
        for figure in run.find(kind):
            value = f"{number(figure.value)} {KINDS[kind].unit}"
            cost = costs.get(figure.scenario)
            notes = [figure.note, f"{number(cost.value)} us of CPU a span" if cost else ""]
            rows.append((figure.scenario, value, ", ".join(filter(None, notes))))
    return Table("What repeats exactly", ("", "measured", ""), tuple(rows))


def _by_system(run: Run, title: str, kinds: Sequence[str]) -> Table:
    figures = [figure for kind in kinds for figure in run.find(kind)]
    systems = list(dict.fromkeys(figure.system for figure in figures))
    rows = []
    for kind in kinds:
        of_kind = list(run.find(kind))
        for case in dict.fromkeys(figure.case for figure in of_kind):
            label = ", ".join(filter(None, (KINDS[kind].title, KINDS[kind].unit, case)))
            for scenario in run.names("scenario", of_kind):
                of_row = [figure for figure in of_kind if (figure.case, figure.scenario) == (case, scenario)]
                cells = {figure.system: spread(figure) for figure in of_row}
                rows.append((f"{label}: {scenario}", *(cells.get(name, "-") for name in systems)))
    notes = [f"{f.system}, {f.case}: {text}" for f in figures for text in (*f.flags, f.note) if text]
    return Table(title, ("", *systems), tuple(rows), tuple(dict.fromkeys(notes)))


def _processes(run: Run) -> Table:
    return _by_system(run, "The process", ("start", "start_cpu", "idle_rss", "idle_cpu", "peak_rss"))


def _latencies(run: Run) -> Table:
    title = "From when a request is due to its acknowledgement"
    kinds = ("latency_p50", "latency_p99", "latency_p99_9", "added_p50", "added_p99")
    return _by_system(run, title, kinds)


def _overload(run: Run) -> Table:
    return _by_system(run, "Overload", ("overload_rss", "overload_lost"))
