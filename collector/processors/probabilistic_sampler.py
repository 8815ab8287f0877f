"""Keep a fixed share of traces, or of log records, decided from the trace id, so the same in every collector.

Bit for bit the Collector's: its three modes, their thresholds, what is written to the tracestate (spans) or to the
attributes `sampling.threshold` and `sampling.randomness` (log records), and what counts as an error. Ours are the mode
`sdk_ratio`, which repeats what an SDK's head sampler decides, and `allow_resampling`: as in the Collector a second
hash_seed sampler in a row drops everything by default, since what the first one kept says so in its tracestate.
Source: OpenTelemetry, "TraceState: Probability Sampling".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from collector.component import Factory, Handle, Settings, Stability
from collector.config.fields import option, section
from collector.ids import Signal
from collector.native.sampler import SDK, Mode, Pattern, Policy, Sampler, to_float32
from collector.telemetry.instruments import DROPPED_ITEMS, Instrument, Sample

_MODES = {
    "": Mode.HASH_SEED,
    "hash_seed": Mode.HASH_SEED,
    "proportional": Mode.PROPORTIONAL,
    "equalizing": Mode.EQUALIZING,
    "sdk_ratio": Mode.SDK_RATIO,
}
_SDKS = {sdk.name.lower(): sdk for sdk in SDK}
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
NONRANDOM_IDS = Instrument(
    "spansieve_processor_sampling_nonrandom_trace_ids",
    "counter",
    "Trace ids that cannot be random, of the few looked at in each request, by what shows it.",
)

# So many of a kind within an hour are no chance. A random id is one with a probability of 2^-46, and of 2^-32 where the
# high half holds the time in seconds, as AWS X-Ray has it: with a million ids looked at each second such a collector
# would warn without reason in one of 10^14 hours.
NONRANDOM_IDS_TO_WARN = 16
_WATCH_PERIOD_S = 60.0
_WINDOW_S = 3600.0


@section
class Config:
    """Keys of `probabilistic_sampler`."""

    mode: str = option(
        "",
        doc="`hash_seed` hashes the trace id; `proportional` multiplies the probability that an item arrives with; "
        "`equalizing` brings all items down to one probability; `sdk_ratio`, which is ours, decides as an SDK does. "
        "Empty is `hash_seed`.",
        values=tuple(_MODES),
    )
    sdk: str = option(
        "",
        doc="`sdk_ratio` keeps exactly the traces that this SDK's ratio sampler keeps at the same share: `python`, "
        "`go`, `java`, `js`, `dotnet`, `jaeger` or `datadog`.",
        ours=True,
        values=("", *_SDKS),
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
        _TRACE_ID,
        values=("", _TRACE_ID, "record"),
        doc="Logs: `traceID` hashes the trace id, `record` only the attribute `from_attribute`.",
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
        if self.mode == "sdk_ratio":
            yield from self._sdk_problems()
        elif self.sdk:
            yield "sdk", f'has no effect with mode "{self.mode}": set mode to sdk_ratio'
        problem = _percentage_problem(to_float32(self.sampling_percentage))
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

    def without_effect(self, signal: Signal) -> Iterator[tuple[str, str]]:
        """Yield the keys that change nothing in a pipeline of signal."""
        mode = self.mode or "hash_seed"
        if signal is Signal.TRACES:
            for field in ("from_attribute", "sampling_priority"):
                if getattr(self, field):
                    yield field, "has no effect on spans: it is for log records"
            if self.attribute_source == "record":
                yield "attribute_source", "has no effect on spans: it is for log records"
        elif mode != "hash_seed" and self.from_attribute:
            yield "from_attribute", "has no effect: it is for the mode hash_seed"
        if mode != "hash_seed":
            for field in ("hash_seed", "allow_resampling"):
                if getattr(self, field):
                    yield field, "has no effect: it is for the mode hash_seed"

    def _sdk_problems(self) -> Iterator[tuple[str, str]]:
        if self.sdk not in _SDKS:
            yield "sdk", f'unsupported sdk "{self.sdk}"; sdk_ratio needs one of {", ".join(_SDKS)}'
        if self.attribute_source == "record":
            yield "attribute_source", "sdk_ratio decides by the trace id: record cannot be its source"


def _sdk_ratio(percentage: float) -> float:
    """Return the ratio that an SDK is given to mean percentage: the point is moved, since 33.3 / 100 is not 0.333."""
    digits, _, exponent = repr(min(percentage, 100.0)).partition("e")
    return float(f"{digits}e{int(exponent or 0) - 2}")


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
    return next(text for text in texts if to_float32(float(text)) == number)


class ProbabilisticSampler:
    """The processor: all work is in its op."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._signal = settings.own_signal
        self._own = (("processor", str(settings.id)),)
        self._attribute = config.from_attribute
        self._settings = settings
        self._log = settings.log
        self._timer: Handle | None = None
        self._window_s = settings.clock()
        self._before = dict.fromkeys(Pattern, 0)
        self._warned: set[Pattern] = set()
        self.op = Sampler(
            self._signal,
            mode=_MODES[config.mode],
            sampling_percentage=config.sampling_percentage,
            sdk=_SDKS.get(config.sdk, SDK.PYTHON),
            sdk_ratio=_sdk_ratio(config.sampling_percentage),
            hash_seed=config.hash_seed,
            sampling_precision=config.sampling_precision,
            fail_closed=config.fail_closed,
            allow_resampling=config.allow_resampling,
            hash_trace_id=config.attribute_source == _TRACE_ID,
            from_attribute=config.from_attribute,
            sampling_priority=config.sampling_priority,
        )

    def start(self) -> None:
        """Watch from now on whether trace ids are random."""
        self._timer = self._settings.loop.every(_WATCH_PERIOD_S, self.watch)

    def shutdown(self, deadline_s: float) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def watch(self) -> None:
        """Log that trace ids are not random, once an hour for each pattern that shows it."""
        seen = dict(self.op.patterns())
        for pattern, ids in seen.items():
            if pattern not in self._warned and ids - self._before[pattern] >= NONRANDOM_IDS_TO_WARN:
                self._warned.add(pattern)
                self._log.warning(
                    "trace ids are not random, so a share of them may be far from a share of traces",
                    pattern=pattern.name.lower(),
                )
        now_s = self._settings.clock()
        if now_s - self._window_s >= _WINDOW_S:
            self._window_s = now_s
            self._before = seen
            self._warned.clear()

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
        for pattern, ids in self.op.patterns():
            if ids:
                yield Sample(NONRANDOM_IDS, (*self._own, ("pattern", pattern.name.lower()), signal), ids)


factory = Factory(
    config=Config,
    create=ProbabilisticSampler,
    signals=frozenset({Signal.TRACES, Signal.LOGS}),
    stability=Stability.BETA,
    example="sampling_percentage: 10",
)
