"""The probabilistic sampler's native op, and the arithmetic behind its decisions."""

from __future__ import annotations

from collections.abc import Iterator

from collector.ids import Signal
from collector.lean import IntEnum
from collector.native.errors import new_error
from collector.native.library import ffi, lib
from collector.native.ops import Op


class Mode(IntEnum):
    """How a kept share is decided; the values are those of ss_sampler_mode."""

    HASH_SEED = 0
    PROPORTIONAL = 1
    EQUALIZING = 2
    SDK_RATIO = 3


class SDK(IntEnum):
    """Whose ratio sampler sdk_ratio repeats; the values are those of ss_sampler_sdk."""

    PYTHON = 0
    GO = 1
    JAVA = 2
    JS = 3
    DOTNET = 4
    JAEGER = 5
    DATADOG = 6


class Policy(IntEnum):
    """What a decision rests on; the values are those of ss_sampler_policy."""

    TRACE_ID_HASH = 0
    TRACE_ID_W3C = 1
    SAMPLING_RANDOMNESS = 2
    SAMPLING_PRIORITY = 3
    MISSING_RANDOMNESS = 4
    ATTRIBUTE = 5
    TRACE_ID_SDK = 6


class SamplingError(IntEnum):
    """Why fail_closed decided on an item; the values are those of ss_sampler_error."""

    MISSING_RANDOMNESS = 14
    RANDOMNESS_IN_USE = 15
    THRESHOLD_IN_USE = 16
    INCONSISTENT_THRESHOLD = 17
    INVALID_SYNTAX = 18


class Pattern(IntEnum):
    """What shows that a trace id is not random; the values are those of ss_sampler_pattern."""

    ZERO_LOW_HALF = 19
    CONSTANT_LOW_HALF = 20
    COUNTING = 21
    ZERO_HIGH_HALF = 22
    CONSTANT_HIGH_HALF = 23


def to_float32(number: float) -> float:
    """Return the float32 nearest to number; infinity beyond the largest."""
    return float(ffi.cast("float", number))


class Sampler(Op):
    """The sampler of one signal, traces or logs.

    Args:
        signal: traces or logs.
        mode: how a share is decided.
        sampling_percentage: %, >= 0, rounded to float32; above 100 is 100.
        sdk: whose decisions sdk_ratio repeats.
        sdk_ratio: 0 to 1, what sdk_ratio goes by instead of sampling_percentage.
        hash_seed: 32 bits.
        sampling_precision: hex digits of a threshold, 1 to 14.
        fail_closed: items with an error are dropped, else kept.
        allow_resampling: hash_seed decides on items that were sampled before.
        hash_trace_id: logs: the trace id is hashed, from_attribute only where there is none.
        from_attribute: logs: attribute to hash; empty for none.
        sampling_priority: logs: attribute with a percentage of its own; empty for none.
    """

    def __init__(
        self,
        signal: Signal,
        *,
        mode: Mode,
        sampling_percentage: float,
        sdk: SDK = SDK.PYTHON,
        sdk_ratio: float = 0.0,
        hash_seed: int = 0,
        sampling_precision: int = 4,
        fail_closed: bool = True,
        allow_resampling: bool = False,
        hash_trace_id: bool = True,
        from_attribute: str = "",
        sampling_priority: str = "",
    ) -> None:
        from_attribute_text = ffi.new("char[]", from_attribute.encode())
        sampling_priority_text = ffi.new("char[]", sampling_priority.encode())
        config = ffi.new(
            "ss_sampler_config *",
            {
                "signal": signal.number,
                "mode": mode,
                "sampling_percentage": sampling_percentage,
                "sdk": sdk,
                "sdk_ratio": sdk_ratio,
                "hash_seed": hash_seed,
                "sampling_precision": sampling_precision,
                "fail_closed": fail_closed,
                "allow_resampling": allow_resampling,
                "hash_trace_id": hash_trace_id,
                "from_attribute": from_attribute_text,
                "sampling_priority": sampling_priority_text,
            },
        )
        error = new_error()
        super().__init__(lib.ss_sampler_new(config, error), error, "probabilistic_sampler")

    def decisions(self) -> Iterator[tuple[Policy, bool, int]]:
        """Yield (policy, sampled, items) for every policy."""
        for policy in Policy:
            for sampled in (True, False):
                yield policy, sampled, self.counter(2 * policy + sampled)

    def errors(self) -> Iterator[tuple[SamplingError, int]]:
        """Yield (error, items) for every error."""
        for error in SamplingError:
            yield error, self.counter(error)

    def patterns(self) -> Iterator[tuple[Pattern, int]]:
        """Yield (pattern, trace ids) for everything that shows ids not to be random."""
        for pattern in Pattern:
            yield pattern, self.counter(pattern)


def threshold(probability: float, precision: int) -> int | None:
    """Return the rejection threshold of probability, of 2**56; None outside [2**-56, 1].

    Args:
        precision: hex digits behind leading zeros or f's, 1 to 14.

    Source: OpenTelemetry, "TraceState: Probability Sampling".
    """
    out = ffi.new("uint64_t *")
    return int(out[0]) if lib.ss_sampler_threshold(probability, precision, out) else None


def hash_randomness(hash_seed: int, data: bytes) -> int:
    """Return the 56 bits of randomness that hash_seed mode makes of data, a trace id or an attribute."""
    return int(lib.ss_sampler_hash(hash_seed, ffi.from_buffer(data), len(data)))


def buckets(sampling_percentage: float) -> int:
    """Return how many of its 16384 buckets hash_seed mode keeps; sampling_percentage is rounded to float32."""
    return int(lib.ss_sampler_buckets(sampling_percentage))
