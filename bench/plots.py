"""A run as pictures, PNG and SVG: what a person would rather look at than read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench.figures import OURS, Figure, Run
from bench.scenarios import Scenario
from bench.systems import YARDSTICK
from bench.tables import number

# Colours that people who see few of them tell apart too; markers for those who see none.
_LOOKS = {
    OURS: ("#0072B2", "o"),
    "otelcol": ("#D55E00", "s"),
    "rotel": ("#009E73", "^"),
    YARDSTICK: ("#8C8C8C", "D"),
    "direct": ("#8C8C8C", "D"),
}
_OTHER = ("#CC79A7", "v")
_STYLE: dict[Any, Any] = {
    "font.size": 10.5,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": "#333333",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "svg.hashsalt": "spansieve",
    "svg.fonttype": "none",
}


def draw_all(run: Run, scenarios: dict[str, Scenario], folder: Path) -> list[Path]:
    """Write all pictures that a run has figures for, and return their paths."""
    draw: dict[str, Callable[[Run, dict[str, Scenario]], Canvas | None]] = {
        "cost_by_size": _cost_by_size,
        "cost_by_scenario": _cost_by_scenario,
        "latency": _latency,
        "memory": _memory,
    }
    paths: list[Path] = []
    with mpl.rc_context(_STYLE):
        for name, make in draw.items():
            canvas = make(run, scenarios)
            if canvas is not None:
                paths += _save(canvas, folder / name, _source(run))
    return paths


def draw_history(runs: dict[str, Run], folder: Path) -> list[Path]:
    """Write how the ratio to the yardstick and the exact figures went from release to release; nothing of a single one.

    Args:
        runs: by release, in order.
    """
    if len(runs) < 2:
        return []
    with mpl.rc_context(_STYLE):
        canvas = Canvas(figsize=(10, 5), layout="constrained")
        left, right = canvas.subplots(1, 2)
        _lines_over(left, runs, "cpu_ratio", "CPU, nghttpd's = 1", _ratio_label)
        _lines_over(right, runs, "instructions", "instructions an item", _kernel_label)
        _title(canvas, "From release to release")
        return _save(canvas, folder / "history", f"releases {', '.join(runs)}")


def _save(canvas: Canvas, path: Path, source: str) -> list[Path]:
    inch = 1 / canvas.get_figheight()
    canvas.text(0.012, -0.12 * inch, source, ha="left", va="top", fontsize=7.5, color="#777777")
    paths = [path.with_suffix(".png"), path.with_suffix(".svg")]
    canvas.savefig(paths[0], dpi=160, bbox_inches="tight", pad_inches=0.15)
    canvas.savefig(paths[1], bbox_inches="tight", pad_inches=0.15, metadata={"Date": None})
    return paths


def _source(run: Run) -> str:
    """Return what stands below a picture: versions, processor, date, and what a star means where there is one."""
    versions = ", ".join(
        f"{name} {version}" for name, version in run.systems.items() if not version.startswith("missing")
    )
    parts = [versions, run.machine["cpu"], run.date[:10]]
    if run.quick:
        parts.append("quick run")
    if not all(figure.is_correct for figure in run.figures):
        parts.append("* not all that came out was right")
    return "  |  ".join(parts)


def _look(system: str) -> tuple[str, str]:
    return _LOOKS.get(system, _OTHER)


def _plain(value: float, _position: object = None) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def _cost_by_size(run: Run, scenarios: dict[str, Scenario]) -> Canvas | None:
    """Draw the CPU time of an item over the size of requests, on log axes, a panel a scenario."""
    panels = []
    for name in run.names("scenario", list(run.find("cpu"))):
        figures = list(run.find("cpu", scenario=name, streams=1, connections=4, bodies=None))
        if len({figure.items for figure in figures}) >= 3:
            panels.append((name, figures))
    if not panels:
        return None
    canvas = Canvas(figsize=(5.2 * len(panels), 4.8), layout="constrained")
    axes = canvas.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (name, figures) in zip(axes, panels, strict=True):
        scenario = scenarios.get(name)
        for system in run.names("system", figures):
            points = sorted((f for f in figures if f.system == system), key=lambda f: f.items or 0)
            _draw_line(axis, points, system)
        axis.set(xscale="log", yscale="log", title=scenario.title if scenario else name)
        axis.set_xlabel("items in a request")
        sizes = sorted({figure.items or 0 for figure in figures})
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.xaxis.minorticks_off()
        axis.yaxis.set_major_formatter(FuncFormatter(_plain))
        axis.grid(True, which="major")
    axes[0].set_ylabel("CPU of the whole process, µs an item (less is better)")
    _legend(canvas, axes)
    _title(canvas, "What an item costs, by request size")
    return canvas


def _draw_line(axis: Axes, points: Sequence[Figure], system: str) -> None:
    colour, marker = _look(system)
    sizes = [figure.items or 0 for figure in points]
    values = [figure.value for figure in points]
    is_ours = system == OURS
    low, high = [min(f.values) for f in points], [max(f.values) for f in points]
    axis.fill_between(sizes, low, high, color=colour, alpha=0.18, linewidth=0)
    axis.plot(
        sizes,
        values,
        color=colour,
        marker=marker,
        markersize=6.5 if is_ours else 5.5,
        linewidth=2.6 if is_ours else 1.6,
        linestyle="--" if system == YARDSTICK else "-",
        label=_label(system),
        zorder=3 if is_ours else 2,
    )


def _label(system: str) -> str:
    return {YARDSTICK: "nghttpd (only receives)", "direct": "no collector at all"}.get(system, system)


def _title(canvas: Canvas, text: str) -> None:
    canvas.suptitle(text, x=0.012, ha="left", fontweight="bold", fontsize=14)


def _legend(canvas: Canvas, axes: Sequence[Axes]) -> None:
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    canvas.legend(list(found.values()), list(found), loc="outside upper right", ncols=len(found))


def _cost_by_scenario(run: Run, scenarios: dict[str, Scenario]) -> Canvas | None:
    """Draw bars of the CPU time of an item, a group a scenario, with the spread of the repeats."""
    items = 512
    figures = [f for f in run.find("cpu", items=items, streams=1, bodies=None) if f.system != YARDSTICK]
    names = run.names("scenario", figures)
    if not names:
        return None
    systems = run.names("system", figures)
    canvas = Canvas(figsize=(10, 1.3 + 0.72 * len(names)), layout="constrained")
    axis = canvas.subplots()
    labels = [scenarios[name].title if name in scenarios else name for name in names]
    _draw_bars(axis, figures, names, systems, lambda f: f.scenario, labels)
    height = 0.8 / len(systems)
    for row, name in enumerate(names):
        for system, why in (scenarios[name].cannot if name in scenarios else {}).items():
            if system in systems:
                place = row + (systems.index(system) - (len(systems) - 1) / 2) * height
                axis.text(
                    0.03, place, f"{system} {why}", va="center", fontsize=8, color="#888888", style="italic"
                )
    axis.set_xlabel(f"CPU of the whole process, µs an item, {items} items a request (less is better)")
    _title(canvas, "What an item costs, by scenario")
    _legend(canvas, [axis])
    return canvas


def _draw_bars(
    axis: Axes,
    figures: Sequence[Figure],
    groups: Sequence[Any],
    systems: Sequence[str],
    group_of: Callable[[Figure], Any],
    labels: Sequence[str],
) -> None:
    """Draw horizontal bars with their values, the first group on top."""
    height = 0.8 / max(1, len(systems))
    widest = max(max(figure.values) for figure in figures)
    for index, system in enumerate(systems):
        mine = {group_of(figure): figure for figure in figures if figure.system == system}
        rows = [(row, mine[group]) for row, group in enumerate(groups) if group in mine]
        if not rows:
            continue
        places = [row + (index - (len(systems) - 1) / 2) * height for row, _ in rows]
        values = [figure.value for _, figure in rows]
        errors = [
            [figure.value - min(figure.values) for _, figure in rows],
            [max(figure.values) - figure.value for _, figure in rows],
        ]
        axis.barh(
            places,
            values,
            height=height * 0.9,
            color=_look(system)[0],
            label=_label(system),
            xerr=errors,
            error_kw={"ecolor": "#333333", "elinewidth": 1, "capsize": 2},
        )
        for place, (_, figure) in zip(places, rows, strict=True):
            axis.text(
                max(figure.values) + widest * 0.008,
                place,
                f"{number(figure.value)}{figure.mark}",
                va="center",
                fontsize=9,
                fontweight="bold" if system == OURS else "normal",
                color="#222222",
            )
    axis.set_yticks(range(len(groups)), labels)
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0, widest * 1.08)
    axis.grid(True, axis="x")


def _latency(run: Run, _scenarios: dict[str, Scenario]) -> Canvas | None:
    """Draw p50, p99 and p99.9 of each system, a panel for each load, on log axes."""
    kinds = ("latency_p50", "latency_p99", "latency_p99_9")
    points = _latency_points(run)
    if not points:
        return None
    panels = [
        [
            row
            for system in run.names("system")
            if len(row := _row_of(run, kinds, system, point)) == len(kinds)
        ]
        for point in points
    ]
    heights = [len(rows) + 0.8 for rows in panels]
    canvas = Canvas(figsize=(10, 1.1 + 0.5 * sum(heights)), layout="constrained")
    axes = canvas.subplots(len(points), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axis, rows in zip(axes, panels, strict=True):
        for place, figures in enumerate(rows):
            _draw_percentiles(axis, place, figures)
        axis.set_yticks(range(len(rows)), [_label(figures[0].system) for figures in rows])
        axis.set(xscale="log", ylim=(len(rows) - 0.4, -0.9))
        of_what = "" if rows[0][0].load is None else " of what each can do"
        axis.set_title(f"{rows[0][0].case}{of_what}", fontsize=10.5)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _micro(value)))
        axis.tick_params(axis="y", length=0)
        axis.margins(x=0.1)
        axis.grid(True, axis="x")
    axes[-1].set_xlabel("● p50   ◆ p99   | p99.9   (less is better)")
    _title(canvas, "From when a request is due to its acknowledgement")
    return canvas


def _latency_points(run: Run) -> list[dict[str, Any]]:
    """Return the circumstances in which latency was measured."""
    names = ("scenario", "items", "streams", "connections", "load", "rate")
    found = [{name: getattr(figure, name) for name in names} for figure in run.find("latency_p50")]
    return [point for place, point in enumerate(found) if point not in found[:place]]


def _row_of(run: Run, kinds: Sequence[str], system: str, point: dict[str, Any]) -> list[Figure]:
    return [figure for kind in kinds for figure in run.find(kind, system=system, **point)]


def _draw_percentiles(axis: Axes, place: int, figures: Sequence[Figure]) -> None:
    """Draw three markers on a line, with their values."""
    colour, _ = _look(figures[0].system)
    values = [figure.value for figure in figures]
    axis.plot(values, [place] * 3, color=colour, linewidth=3, alpha=0.35, solid_capstyle="round")
    for value, marker, size in zip(values, "oD|", (9, 7, 14), strict=True):
        axis.plot([value], [place], marker, color=colour, markersize=size, markeredgewidth=2.4)
    for value, is_last in zip(values, (False, False, True), strict=True):
        axis.annotate(
            _micro(value),
            (value, place),
            xytext=(9, 0) if is_last else (0, 9),
            textcoords="offset points",
            ha="left" if is_last else "center",
            va="center" if is_last else "baseline",
            fontsize=8,
            color="#444444",
        )


def _micro(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g} s"
    return f"{value / 1e3:.3g} ms" if value >= 1e3 else f"{value:.3g} µs"


def _memory(run: Run, _scenarios: dict[str, Scenario]) -> Canvas | None:
    """Draw bars of resident memory: idle, loaded, overloaded."""
    kinds = [kind for kind in ("idle_rss", "peak_rss", "overload_rss") if any(run.find(kind))]
    figures = [figure for kind in kinds for figure in _of_widest_scenario(run, kind)]
    if not figures:
        return None
    systems = run.names("system", figures)
    words = {
        "idle_rss": "idle",
        "peak_rss": "64 connections,\n512 items a request",
        "overload_rss": "twice the load,\nstopped backend",
    }
    canvas = Canvas(figsize=(10, 1.4 + 1.0 * len(kinds)), layout="constrained")
    axis = canvas.subplots()
    _draw_bars(axis, figures, kinds, systems, lambda f: f.kind, [words[kind] for kind in kinds])
    axis.set_xlabel("resident memory of the whole process, MB (less is better)")
    _title(canvas, "Memory")
    _legend(canvas, [axis])
    return canvas


def _of_widest_scenario(run: Run, kind: str) -> list[Figure]:
    """Return the figures of a kind in the scenario that most systems are in."""
    scenarios = run.names("scenario", list(run.find(kind)))
    return max((list(run.find(kind, scenario=name)) for name in scenarios), key=len)


def _lines_over(
    axis: Axes, runs: dict[str, Run], kind: str, title: str, label_of: Callable[[Figure], str | None]
) -> None:
    """Draw a line for each of our figures of a kind that has a label."""
    labels = dict.fromkeys(
        label
        for run in runs.values()
        for figure in run.find(kind, system=OURS)
        if (label := label_of(figure)) is not None
    )
    for index, label in enumerate(labels):
        points = []
        for place, run in enumerate(runs.values()):
            value = next((f.value for f in run.find(kind, system=OURS) if label_of(f) == label), None)
            if value is not None:
                points.append((place, value))
        axis.plot(
            [place for place, _ in points],
            [value for _, value in points],
            marker="os^Dv<>"[index % 7],
            linewidth=2,
            label=label,
        )
    axis.set_xticks(range(len(runs)), list(runs))
    axis.set(title=title)
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(FuncFormatter(_plain))
    axis.margins(x=0.15)
    axis.grid(True, axis="y")
    if labels:
        axis.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)


def _ratio_label(figure: Figure) -> str | None:
    case = (figure.streams, figure.connections, figure.bodies)
    if figure.items not in {10, 512} or case != (1, 4, None):
        return None
    if figure.scenario not in {"pass_through", "sidecar", "keep_all"}:
        return None
    return f"{figure.scenario.replace('_', '-')}, {figure.items} items"


def _kernel_label(figure: Figure) -> str | None:
    name, _, stage = figure.scenario.partition(": ")
    return name.removeprefix("kernel, ") if stage == "all stages" else None
