"""The exporters that send nothing anywhere."""

from __future__ import annotations

import io

import pytest

from collector.exporters.debug import Config, Debug, Verbosity
from collector.exporters.nop import Config as NopConfig
from collector.exporters.nop import Nop
from collector.ids import Signal
from tests.unit.exporterhelper.support import Recorder, logs, metrics, push, settings, traces, values


def _show(signal: Signal, request: bytes, verbosity: Verbosity) -> tuple[Recorder, str]:
    """Run the debug exporter over request; return its log and its text."""
    recorder, stream = Recorder(), io.StringIO()
    made = settings(signal, recorder)
    exporter = Debug(Config(verbosity=verbosity), made, stream)
    exporter.start()
    push(exporter.consumer, made.runtime, request)
    exporter.shutdown(20)
    return recorder, stream.getvalue()


@pytest.mark.parametrize(
    ("signal", "request_bytes", "event", "fields"),
    [
        (Signal.TRACES, traces(3), "Traces", {"resource spans": 1, "spans": 3}),
        (Signal.METRICS, metrics(), "Metrics", {"resource metrics": 1, "metrics": 1, "data points": 2}),
        (Signal.LOGS, logs(), "Logs", {"resource logs": 1, "log records": 1}),
    ],
)
def test_basic_is_one_line_of_counts(
    signal: Signal, request_bytes: bytes, event: str, fields: dict[str, int]
) -> None:
    """The Collector's words and counts, and nothing else."""
    recorder, text = _show(signal, request_bytes, Verbosity.BASIC)
    assert recorder.records == [(event, fields)]
    assert text == ""


def test_normal_is_a_line_an_item() -> None:
    """Resource, scope, and each span with ids and attributes."""
    _, text = _show(Signal.TRACES, traces(2), Verbosity.NORMAL)
    assert text.splitlines() == [
        "ResourceSpans #0 service.name=shop",
        "ScopeSpans #0 lib",
        f"GET / {'01' * 16} 3132333435363738 http.status=200",
        f"GET / {'02' * 16} 3132333435363738 http.status=200",
    ]


@pytest.mark.parametrize(
    ("signal", "request_bytes", "last"),
    [(Signal.METRICS, metrics(), "load asInt=2"), (Signal.LOGS, logs(), "hello")],
)
def test_normal_of_metrics_and_logs(signal: Signal, request_bytes: bytes, last: str) -> None:
    """A point shows its value, a record its body."""
    _, text = _show(signal, request_bytes, Verbosity.NORMAL)
    assert text.splitlines()[-1] == last


def test_detailed_shows_every_field() -> None:
    """Attributes as `-> key: value`, everything else by name."""
    _, text = _show(Signal.TRACES, traces(1), Verbosity.DETAILED)
    for line in ("resourceSpans #0", "-> service.name: shop", "name: GET /", f"traceId: {'01' * 16}"):
        assert line in text


def test_nop_counts_as_sent() -> None:
    """Discarded items are sent items, counted without a thread."""
    made = settings(Signal.TRACES, Recorder())
    exporter = Nop(NopConfig(), made)
    exporter.start()
    push(exporter.consumer, made.runtime, traces(3), traces(4))
    exporter.shutdown(1)
    assert values(exporter.samples()) == {"otelcol_exporter_sent_spans": 7}
