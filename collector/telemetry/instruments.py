"""The shape of our own metrics: every component hands out samples when it is asked.

State lives where it is counted (mostly in C); nothing here holds a value. Source for names:
OpenTelemetry Collector, "Internal telemetry".
"""

from __future__ import annotations

from collector.lean import NamedTuple


class Instrument(NamedTuple):
    """A metric family: its Prometheus name, `counter`, `gauge` or `histogram`, and its help text.

    Attributes:
        unit: `bytes` or `seconds` where the name does not say it.
    """

    name: str
    kind: str
    description: str
    unit: str = ""


class Sample(NamedTuple):
    """One value of an instrument; labels in the order in which they are shown.

    A histogram is several samples: `_bucket` (with a label `le`), `_sum` and `_count` as suffix.
    """

    instrument: Instrument
    labels: tuple[tuple[str, str], ...]
    value: float
    suffix: str = ""


INCOMING_ITEMS = Instrument(
    "otelcol_processor_incoming_items", "counter", "Number of items passed to the processor."
)
OUTGOING_ITEMS = Instrument(
    "otelcol_processor_outgoing_items", "counter", "Number of items emitted from the processor."
)
PENDING_ITEMS = Instrument(
    "spansieve_processor_pending_items", "gauge", "Number of items taken in and not yet passed on."
)
FAILED_ITEMS = Instrument(
    "spansieve_processor_failed_items", "counter", "Number of items that an error in the processor failed."
)
"""These four of a processor have the labels processor, otel_signal."""

DROPPED_ITEMS = Instrument(
    "spansieve_processor_dropped_items", "counter", "Items a processor dropped on purpose, by rule."
)
"""Shared by all processors that drop; labels processor, rule, otel_signal."""

GIVEN_UP_SEARCHES = Instrument(
    "spansieve_processor_given_up_searches",
    "counter",
    "Searches for a regular expression that would have taken too long in a long text.",
)
"""Of processors with expressions of their own making; labels processor, otel_signal."""
