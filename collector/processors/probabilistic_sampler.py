"""Keep a fixed share of traces, or of log records, decided from the trace id, so the same in every collector.

Bit for bit the Collector's: the three modes, their thresholds, what is written to the tracestate (spans) or to the
attributes `sampling.threshold` and `sampling.randomness` (log records), and what counts as an error. One key is ours,
`allow_resampling`: as in the Collector a second hash_seed sampler in a row drops everything by default, since what the
first one kept says so in its tracestate. Source: OpenTelemetry, "TraceState: Probability Sampling".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator

from collector.component import Factory, Settings, Stability
from collector.config.fields import option, section
from collector.ids import Signal
from collector.native.sampler import Mode, Policy, Sampler
from collector.telemetry.instruments import DROPPED_ITEMS, Instrument, Sample

_MODES = {
    "": Mode.HASH_SEED,
    "hash_seed": Mode.HASH_SEED,
    "proportional": Mode.PROPORTIONAL,
    "equalizing": Mode.EQUALIZING,
}
_TRACE_ID = "traceID"
_PRECISION_MAX = 14

# The Collector renames the one of spans, and has both names for a while.
SAMPLED = {
    signal: [
        Instrument(f"otelcol_processor_probabilistic_sampler_count_{name}", "counter", description)
        for name in names
    ]
    for signal, names, description in (
        (Signal.TRACES, ("traces_sampled", "spans_processed"), "Count of spans that were sampled or not."),
        (Signal.LOGS, ("logs_sampled",), "Count of logs that were sampled or not."),
    )
}
ERRORS = Instrument(
    "spansieve_processor_sampling_errors",
    "counter",
    "Items that fail_closed decided on, by what was wrong with them.",
)


@section
class Config:
    """Keys of `probabilistic_sampler`."""

    mode: str = option(
        "",
        doc="`hash_seed` hashes the trace id; `proportional` multiplies the probability that an item arrives with; "
        "`equalizing` brings all items down to one probability. Empty is `hash_seed`.",
    )
    sampling_percentage: float = option(0.0, doc="Share to keep; 100 or more keeps all, 0 none.", unit="%")
    hash_seed: int = option(
        0,
        doc="Samplers with the same seed decide alike: give each tier its own seed, and all collectors of a tier one.",
        minimum=0,
        maximum=2**32 - 1,
    )
    fail_closed: bool = option(
        True, doc="Drop items that cannot be decided on, such as those without trace id."
    )
    sampling_precision: int = option(4, doc="Hex digits of the thresholds that are written, 1 to 14.")
    attribute_source: str = option(
        _TRACE_ID, doc="Logs: `traceID` hashes the trace id, `record` only the attribute `from_attribute`."
    )
    from_attribute: str = option(
        "",
        doc="Logs: attribute to hash where there is no trace id, or instead of it. Arrays and maps are hashed as they "
        "are encoded, not as JSON.",
    )
    sampling_priority: str = option(
        "", doc="Logs: attribute with the percentage to keep this very record by."
    )
    allow_resampling: bool = option(
        False,
        doc="`hash_seed` also decides on items that an earlier sampler has marked, instead of taking the mark for an "
        "error. What is kept says the probability of both together.",
        ours=True,
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, in the Collector's words."""
        if self.mode not in _MODES:
            yield "mode", f'unsupported sampler mode "{self.mode}"'
        problem = _percentage_problem(_to_float32(self.sampling_percentage))
        if problem:
            yield "sampling_percentage", problem
        if self.attribute_source not in ("", _TRACE_ID, "record"):
            yield (
                "attribute_source",
                f"invalid attribute source: {self.attribute_source}. Expected: traceID or record",
            )
        if self.sampling_precision < 1:
            yield "sampling_precision", f"invalid sampling precision: {self.sampling_precision}"
        if self.sampling_precision > _PRECISION_MAX:
            yield (
                "sampling_precision",
                f"sampling precision is too great, should be <= {_PRECISION_MAX}: {self.sampling_precision}",
            )


def _to_float32(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _percentage_problem(percentage: float) -> str:
    if math.isnan(percentage):
        return "sampling rate is invalid: NaN%"
    if math.isinf(percentage):
        return f"sampling rate is invalid: {'+' if percentage > 0 else '-'}Inf%"
    if percentage < 0:
        return f"sampling rate is negative: {percentage:f}%"
    if 0 < percentage / 100 < 2**-56:
        return f"sampling rate is too small: {_shortest(percentage)}%"
    return ""


def _shortest(number: float) -> str:
    """Return the fewest digits that read back as the same float32."""
    texts = (f"{number:.{digits}g}" for digits in range(1, 10))
    return next(text for text in texts if _to_float32(float(text)) == number)


class ProbabilisticSampler:
    """The processor: all work is in its op."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._signal = settings.own_signal
        self._own = (("processor", str(settings.id)),)
        self._attribute = config.from_attribute
        self.op = Sampler(
            self._signal,
            mode=_MODES[config.mode],
            sampling_percentage=config.sampling_percentage,
            hash_seed=config.hash_seed,
            sampling_precision=config.sampling_precision,
            fail_closed=config.fail_closed,
            allow_resampling=config.allow_resampling,
            hash_trace_id=config.attribute_source == _TRACE_ID,
            from_attribute=config.from_attribute,
            sampling_priority=config.sampling_priority,
        )

    def start(self) -> None:
        """Nothing to start."""

    def shutdown(self, deadline_s: float) -> None:
        """Nothing to stop."""

    def samples(self) -> Iterable[Sample]:
        """Return the decisions by what they rest on, the drops, and the errors."""
        dropped = 0
        for policy, sampled, items in self.op.decisions():
            dropped += 0 if sampled else items
            if items:
                name = self._attribute if policy is Policy.ATTRIBUTE else policy.name.lower()
                labels = (*self._own, ("policy", name), ("sampled", str(sampled).lower()))
                for instrument in SAMPLED[self._signal]:
                    yield Sample(instrument, labels, items)
        signal = ("otel_signal", self._signal.value)
        yield Sample(DROPPED_ITEMS, (*self._own, ("rule", "sampled_out"), signal), dropped)
        for error, items in self.op.errors():
            if items:
                yield Sample(ERRORS, (*self._own, ("error", error.name.lower()), signal), items)


factory = Factory(
    config=Config,
    create=ProbabilisticSampler,
    signals=frozenset({Signal.TRACES, Signal.LOGS}),
    stability=Stability.BETA,
)
