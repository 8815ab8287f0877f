"""Runs of the benchmark that were never measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.figures import OURS, Figure, Run

MACHINE = {
    "cpu": "a processor",
    "cores": "2",
    "memory": "8 GiB",
    "kernel": "Linux 6.1",
    "arch": "x86_64",
    "python": "3.11.2",
    "compiler": "cc 12",
    "libc": "glibc 2.36",
    "zstd": "1.5.4",
}


def figure(kind: str, values: Sequence[float], **attributes: Any) -> Figure:
    """Return a figure of spansieve in the sidecar scenario, unless attributes say otherwise."""
    return Figure(
        **{"kind": kind, "scenario": "sidecar", "system": OURS, "values": tuple(values), **attributes}
    )


def run(*figures: Figure, **machine: str) -> Run:
    """Return a run with these figures."""
    return Run(
        date="2026-11-30T08:00:00Z",
        machine={**MACHINE, **machine},
        systems={OURS: "0.1.0", "otelcol": "v0.161.0", "rotel": "missing: not here"},
        bodies="generated",
        rounds=2,
        quick=True,
        figures=figures,
    )


def full() -> Run:
    """Return a run with something of every kind, in which otelcol takes eight times the CPU."""
    figures = []
    for scenario in ("pass_through", "sidecar"):
        for system, factor in ((OURS, 1.0), ("otelcol", 8.0), ("nghttpd", 0.5)):
            for items in (1, 10, 512):
                case = {
                    "scenario": scenario,
                    "system": system,
                    "items": items,
                    "streams": 1,
                    "connections": 4,
                }
                cost = factor * (10 / items + 0.3)
                figures.append(figure("cpu", [cost * part for part in (0.98, 1.0, 1.05)], **case))
                figures.append(figure("throughput", [1e6 / cost], **case))
                figures.append(figure("cpu_ratio", [factor * 2], **case))
    for system, factor in ((OURS, 1.0), ("otelcol", 3.0)):
        loaded = {"items": 10, "streams": 1, "connections": 4, "load": 20}
        for percentile, value in (("p50", 90.0), ("p99", 400.0), ("p99_9", 2_000.0)):
            figures.append(figure(f"latency_{percentile}", [value * factor], system=system, **loaded))
        figures.append(figure("idle_rss", [15.0 * factor], system=system))
        figures.append(
            figure("peak_rss", [30.0 * factor], system=system, items=512, connections=64, streams=1)
        )
        figures.append(figure("start", [70.0 * factor], system=system))
        figures.append(figure("overload_rss", [120.0 * factor], scenario="overload", system=system))
        figures.append(figure("overload_lost", [0.0], scenario="overload", system=system))
    figures.append(figure("instructions", [900.0], scenario="kernel, spans: all stages"))
    figures.append(figure("wire", [40.0], items=512, streams=1, connections=4))
    return run(*figures)
