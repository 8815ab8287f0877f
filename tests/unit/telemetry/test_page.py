"""The metrics page, read back by Prometheus's own parser."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.telemetry.instruments import Instrument, Sample
from collector.telemetry.page import render

ACCEPTED = Instrument("otelcol_receiver_accepted_spans", "counter", "Spans pushed into the pipeline.")
QUEUE = Instrument("otelcol_exporter_queue_size", "gauge", "Current size of the queue.")
SIZES = Instrument("otelcol_processor_batch_batch_send_size", "histogram", "Units in the batch.")


def _parse(page: bytes) -> dict[str, list[tuple[dict[str, str], float]]]:
    values: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            values.setdefault(sample.name, []).append((sample.labels, sample.value))
    return values


def test_counter_has_no_suffix_by_default() -> None:
    """As on the Collector's own port 8888, for which dashboards are made."""
    page = render([Sample(ACCEPTED, (("receiver", "otlp"), ("transport", "grpc")), 12)], {})
    assert b'\notelcol_receiver_accepted_spans{receiver="otlp",transport="grpc"} 12\n' in page
    assert b"# TYPE otelcol_receiver_accepted_spans counter\n" in page


def test_suffixes_are_the_unit_and_total() -> None:
    """Counters end in _total, after a unit that the name does not say itself."""
    uptime = Instrument("otelcol_process_uptime", "counter", "", "seconds")
    rss = Instrument("otelcol_process_memory_rss", "gauge", "", "bytes")
    samples = [Sample(ACCEPTED, (), 1), Sample(QUEUE, (), 2), Sample(uptime, (), 3), Sample(rss, (), 4)]
    values = _parse(render(samples, {}, suffixes=True))
    assert [({}, 1.0)] == values["otelcol_receiver_accepted_spans_total"]
    assert [({}, 2.0)] == values["otelcol_exporter_queue_size"]
    assert [({}, 3.0)] == values["otelcol_process_uptime_seconds_total"]
    assert [({}, 4.0)] == values["otelcol_process_memory_rss_bytes"]


def test_same_series_adds_up() -> None:
    """Instances of one component in several pipelines are one series, as in the Collector."""
    labels = (("processor", "batch"),)
    other = (("processor", "batch/2"),)
    page = render([Sample(ACCEPTED, labels, 1), Sample(ACCEPTED, other, 5), Sample(ACCEPTED, labels, 2)], {})
    # The parser calls every counter's sample _total.
    assert [(dict(labels), 3.0), (dict(other), 5.0)] == _parse(page)["otelcol_receiver_accepted_spans_total"]


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", "ä", "\\n", ""])
def test_label_value_comes_back_as_it_was(value: str) -> None:
    """Quotes, backslashes and line feeds are escaped."""
    page = render([Sample(QUEUE, (("exporter", value),), 1)], {})
    assert [({"exporter": value}, 1.0)] == _parse(page)["otelcol_exporter_queue_size"]


def test_help_is_one_line() -> None:
    """A description with a line feed does not break the page."""
    page = render([Sample(Instrument("x", "gauge", "one\ntwo \\ three"), (), 1)], {})
    assert b"# HELP x one\\ntwo \\\\ three\n" in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, b"0"),
        (2**53, b"9007199254740992"),
        (0.25, b"0.25"),
        (math.inf, b"+Inf"),
        (-math.inf, b"-Inf"),
        (math.nan, b"NaN"),
        (1e300, b"%d" % int(1e300)),
    ],
)
def test_value_text(value: float, text: bytes) -> None:
    """Whole numbers without a fraction, and the special ones in Prometheus's words."""
    assert b"\nx " + text + b"\n" in render([Sample(Instrument("x", "gauge", ""), (), value)], {})


def test_histogram_is_one_family() -> None:
    """Bucket, sum and count stand under one type."""
    labels = (("processor", "batch"),)
    samples = [
        Sample(SIZES, (*labels, ("le", "+Inf")), 3, "_bucket"),
        Sample(SIZES, labels, 17, "_sum"),
        Sample(SIZES, labels, 3, "_count"),
    ]
    (family,) = [
        f for f in text_string_to_metric_families(render(samples, {}).decode()) if f.type == "histogram"
    ]
    assert ["_bucket", "_sum", "_count"] == [
        sample.name.removeprefix(SIZES.name) for sample in family.samples
    ]


def test_target_info_carries_the_resource() -> None:
    """Attributes of the collector are labels there, and only there."""
    target = {"service.name": "spansieve", "service.instance.id": "1"}
    values = _parse(render([Sample(QUEUE, (), 1)], target))
    assert [({"service_name": "spansieve", "service_instance_id": "1"}, 1.0)] == values["target_info"]
    assert [({}, 1.0)] == values["otelcol_exporter_queue_size"]


def test_constant_labels_are_on_every_series() -> None:
    """But not twice on target_info."""
    target = {"service.name": "spansieve"}
    values = _parse(render([Sample(QUEUE, (("exporter", "otlp"),), 1)], target, constant=target))
    assert [({"exporter": "otlp", "service_name": "spansieve"}, 1.0)] == values["otelcol_exporter_queue_size"]
    assert [({"service_name": "spansieve"}, 1.0)] == values["target_info"]
