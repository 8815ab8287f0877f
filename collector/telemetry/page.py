"""Metrics as text for Prometheus.

Source: Prometheus, "Exposition formats", text format 0.0.4. Names carry no unit and no `_total` unless asked for, as
with the Collector's defaults (`without_units`, `without_type_suffix`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from collector.telemetry.instruments import Instrument, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TARGET_INFO = Instrument("target_info", "gauge", "Target metadata")

_Labels = tuple[tuple[str, str], ...]


def render(
    samples: Iterable[Sample],
    target: Mapping[str, str],
    *,
    constant: Mapping[str, str] = {},
    suffixes: bool = False,
) -> bytes:
    """Return the page of samples.

    Samples with the same name and labels are one series and add up: the pipelines of a processor, for example.

    Args:
        target: attributes of the collector, the labels of target_info.
        constant: attributes that become labels of every series.
        suffixes: end names in their unit, those of counters in `_total`.
    """
    families: dict[str, tuple[Instrument, dict[tuple[str, _Labels], float]]] = {}
    target_info = Sample(_TARGET_INFO, _to_labels(target), 1)
    constant_labels = _to_labels(constant)
    for instrument, labels, value, suffix in (*samples, target_info):
        _instrument, series = families.setdefault(instrument.name, (instrument, {}))
        series[suffix, labels] = series.get((suffix, labels), 0) + value
    lines = []
    for name, (instrument, series) in sorted(families.items()):
        family = name + _suffix(instrument) if suffixes else name
        lines.append(f"# HELP {family} {_escape(instrument.description)}\n")
        lines.append(f"# TYPE {family} {instrument.kind}\n")
        for (suffix, labels), value in series.items():
            own = labels if instrument is _TARGET_INFO else (*labels, *constant_labels)
            lines.append(f"{family}{suffix}{_format_labels(own)} {_format_value(value)}\n")
    return "".join(lines).encode()


def _suffix(instrument: Instrument) -> str:
    unit = f"_{instrument.unit}" if instrument.unit else ""
    return f"{unit}_total" if instrument.kind == "counter" else unit


def _to_labels(attributes: Mapping[str, str]) -> _Labels:
    """Return attributes under names that Prometheus takes, such as service_name."""
    return tuple((_to_label(name), value) for name, value in attributes.items())


def _to_label(name: str) -> str:
    return "".join(mark if mark.isascii() and mark.isalnum() else "_" for mark in name)


def _format_labels(labels: _Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape_label(text: str) -> str:
    return _escape(text).replace('"', '\\"')


def _format_value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
