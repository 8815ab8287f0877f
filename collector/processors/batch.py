"""Gather items into batches by count, size and time.

Differs from the Collector in four things: a batch that the next consumer refuses is kept and tried again instead of
lost, so that nothing acknowledged goes missing; a batch has a limit in bytes, so that a gRPC receiver with the default
limit of 4 MiB takes it; a resource or scope that its requests repeat leaves once; and the limit of combinations of
metadata is of those of which items are gathered, not of all that there ever were.

Source: OpenTelemetry Collector, `batch` processor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from collector.component import Factory, Settings, Stability
from collector.config.fields import Duration, option, section
from collector.config.headers import is_header_name
from collector.ids import Signal
from collector.lean import TYPE_CHECKING
from collector.native.library import lib
from collector.native.pipeline import Batch
from collector.telemetry.instruments import (
    FAILED_ITEMS,
    INCOMING_ITEMS,
    OUTGOING_ITEMS,
    PENDING_ITEMS,
    Instrument,
    Sample,
)

if TYPE_CHECKING:
    from collector.native.pipeline import Consumer

_SIZE_SEND = Instrument(
    "otelcol_processor_batch_batch_size_trigger_send",
    "counter",
    "Number of times the batch was sent due to a size trigger.",
)
_TIMEOUT_SEND = Instrument(
    "otelcol_processor_batch_timeout_trigger_send",
    "counter",
    "Number of times the batch was sent due to a timeout trigger.",
)
_SEND_SIZE = Instrument(
    "otelcol_processor_batch_batch_send_size", "histogram", "Number of units in the batch."
)
_CARDINALITY = Instrument(
    "otelcol_processor_batch_metadata_cardinality",
    "gauge",
    "Number of distinct metadata value combinations being processed.",
)
_BYTES_SEND = Instrument(
    "spansieve_processor_batch_bytes_trigger_send",
    "counter",
    "Number of times the batch was sent because its bytes reached the limit.",
)


@section
class Config:
    """The Collector's keys and one of ours."""

    timeout: Duration = option(Duration(0.2), doc="Pass on what is there after this time; 0 gathers nothing.")
    send_batch_size: int = option(
        8192,
        doc="Pass on as soon as so many items are there; 0 gathers nothing.",
        unit="items",
        minimum=0,
        maximum=0xFFFFFFFF,
    )
    send_batch_max_size: int = option(
        0, doc="Split larger batches; 0 is no limit.", unit="items", minimum=0, maximum=0xFFFFFFFF
    )
    metadata_keys: tuple[str, ...] = option(
        (),
        doc="Batch separately for each combination of the values of these headers of requests, which receivers keep "
        "with `include_metadata`.",
    )
    metadata_cardinality_limit: int = option(
        1000,
        doc="Combinations at most of which items are gathered at once, with metadata_keys; 0 is no limit.",
        minimum=0,
        maximum=0xFFFFFFFF,
    )
    # 4 MiB less a margin for what a proxy or a later hop may add to a request.
    send_batch_max_bytes: int = option(
        4_000_000,
        doc="Split batches that would be larger when serialized, unless one item alone is; 0 is no limit. "
        "The default fits gRPC's default limit of 4 MiB a message.",
        unit="bytes",
        minimum=0,
        maximum=0xFFFFFFFF,
        ours=True,
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong between fields, in the Collector's words."""
        if 0 < self.send_batch_max_size < self.send_batch_size:
            yield "", "send_batch_max_size must be greater or equal to send_batch_size"
        if self.timeout < 0:
            yield "", "timeout must be greater or equal to 0"
        seen = set()
        for key in self.metadata_keys:
            if key.lower() in seen:
                yield "", f'duplicate entry in metadata_keys: "{key.lower()}" (case-insensitive)'
            seen.add(key.lower())

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield names that no header has."""
        for key in self.metadata_keys:
            if not is_header_name(key.removeprefix(":")) or len(key) > lib.SS_METADATA_NAME_MAX:
                yield "metadata_keys", f"expected the name of a header, got {key!r}"

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """The headers that receivers in front must keep, in lower case."""
        return tuple(key.lower() for key in self.metadata_keys)


class BatchProcessor:
    """A native batch in front of the next consumers."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._config = config
        self._runtime = settings.runtime
        self._signal = settings.own_signal
        self._log = settings.log
        self._processor = (("processor", str(settings.id)),)
        self._batch: Batch | None = None

    def connect(self, outputs: Sequence[Consumer]) -> Consumer:
        """Return the batch in front of outputs."""
        config = self._config
        self._batch = Batch(
            self._runtime,
            self._signal,
            outputs,
            timeout_s=config.timeout,
            send_batch_size=config.send_batch_size,
            send_batch_max_size=config.send_batch_max_size,
            send_batch_max_bytes=config.send_batch_max_bytes,
            metadata_names=config.metadata_names,
            max_combinations=config.metadata_cardinality_limit,
        )
        return self._batch

    def start(self) -> None:
        """Do nothing: the batch's thread runs since it was connected."""

    def shutdown(self, deadline_s: float) -> None:
        """Pass on what is gathered; what deadline_s seconds are too short for is lost, counted and logged."""
        if self._batch is None:
            return
        failed_before = self._batch.stats().failed_items
        if not self._batch.drain(deadline_s):
            lost = int(self._batch.stats().failed_items - failed_before)
            self._log.error("items lost", items=lost, error="drain timed out")

    def samples(self) -> Iterator[Sample]:
        """Return the batch's metrics; those of all its pipelines add up under one processor, as in the Collector."""
        if self._batch is None:
            return
        stats = self._batch.stats()
        sent, pending, failed = int(stats.sent_items), int(stats.pending_items), int(stats.failed_items)
        yield Sample(_SIZE_SEND, self._processor, int(stats.size_trigger_send))
        yield Sample(_TIMEOUT_SEND, self._processor, int(stats.timeout_trigger_send))
        yield Sample(_BYTES_SEND, self._processor, int(stats.bytes_trigger_send))
        for bound, batch_count in self._batch.sizes(stats):
            yield Sample(_SEND_SIZE, (*self._processor, ("le", _format_bound(bound))), batch_count, "_bucket")
        yield Sample(_SEND_SIZE, self._processor, sent, "_sum")
        yield Sample(_SEND_SIZE, self._processor, int(stats.sent_batches), "_count")
        combinations = int(stats.n_combinations) if self._config.metadata_keys else 1
        yield Sample(_CARDINALITY, self._processor, combinations)
        labels = (*self._processor, ("otel_signal", self._signal.value))
        yield Sample(INCOMING_ITEMS, labels, sent + pending + failed)
        yield Sample(OUTGOING_ITEMS, labels, sent)
        yield Sample(PENDING_ITEMS, labels, pending)
        yield Sample(FAILED_ITEMS, labels, failed)


def _format_bound(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else str(bound)


factory = Factory(
    config=Config,
    create=BatchProcessor,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    example="timeout: 1s\nsend_batch_size: 4096",
)
