"""Head samplers: `sdk_ratio` decides as real SDKs do, sets are nested whatever the ids, and odd ids are noticed."""

from __future__ import annotations

import functools
import logging
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from collector.errors import NativeError
from collector.ids import Signal
from collector.native.pipeline import Pipeline, Queue
from collector.native.runtime import Runtime, Worker
from collector.native.sampler import SDK, Mode, Pattern, Sampler
from collector.processors.probabilistic_sampler import NONRANDOM_IDS_TO_WARN, Config, _sdk_ratio
from tests.support import otlp
from tests.support.sampler_harness import Harness, span_of

RECORDED = Path(__file__).parents[2] / "data" / "sampler" / "sdk_ratio.txt"
ID = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")


class Answer(NamedTuple):
    """What an SDK keeps at a ratio."""

    sdk: str
    ratio: float
    kept: frozenset[bytes]


@functools.cache
def recorded() -> tuple[list[bytes], list[Answer]]:
    """Return the trace ids and what the SDKs said of them."""
    ids: list[bytes] = []
    answers = []
    for line in RECORDED.read_text().splitlines():
        words = line.split()
        if words[0] == "#":
            continue
        if len(words) == 1:
            ids.append(bytes.fromhex(words[0]))
        else:
            bits = f"{int(words[3], 16):0{len(ids)}b}"
            kept = frozenset(id for id, bit in zip(ids, bits, strict=True) if bit == "1")
            answers.append(Answer(words[0], float(words[2]), kept))
    return ids, answers


def kept_by(op: Sampler, ids: Iterable[bytes], signal: Signal = Signal.TRACES) -> set[bytes]:
    """Return the ids that op lets through, each on an item of its own."""
    runtime = Runtime()
    queue = Queue(runtime, signal, sizer="requests", capacity=1)
    if signal is Signal.TRACES:
        request = otlp.traces(*(otlp.span("s", trace_id=id) for id in ids))
    else:
        request = otlp.logs(*(LogRecord(trace_id=id) for id in ids))
    Pipeline(signal, [op], queue).push(Worker(runtime), request.SerializeToString())
    item = queue.pop(0)
    if item is None:
        return set()
    left = {item.trace_id for item in otlp.items(otlp.decode(signal, bytes(item.view)))}
    queue.done(item)
    return left


def sdk_ratio(sdk: SDK, ratio: float, signal: Signal = Signal.TRACES, **more: Any) -> Sampler:
    """Return the op."""
    return Sampler(signal, mode=Mode.SDK_RATIO, sampling_percentage=0, sdk=sdk, sdk_ratio=ratio, **more)


class TestRecorded:
    """What the SDKs themselves said."""

    @pytest.mark.parametrize(
        ("name", "sdk"),
        [("python", SDK.PYTHON), ("go", SDK.GO), ("java", SDK.JAVA), ("js", SDK.JS), ("rust", SDK.GO)]
        + [("jaeger", SDK.JAEGER), ("datadog", SDK.DATADOG)],
    )
    @pytest.mark.parametrize("signal", [Signal.TRACES, Signal.LOGS])
    def test_decides_as_the_sdk(self, name: str, sdk: SDK, signal: Signal) -> None:
        """Every id at every ratio, limits and odd ids included, for spans and for log records."""
        ids, answers = recorded()
        mine = [answer for answer in answers if answer.sdk == name]
        assert len(mine) > 10
        for answer in mine:
            assert answer.kept == kept_by(sdk_ratio(sdk, answer.ratio, signal), ids, signal), answer.ratio

    def test_datadog_libraries_agree_but_at_zero(self) -> None:
        """Datadog for Python keeps at 0 the ids whose low half is zero; that for Go keeps none."""
        _, answers = recorded()
        go, python = (
            {answer.ratio: answer.kept for answer in answers if answer.sdk == name}
            for name in ("datadog", "ddtrace")
        )
        assert [0.0] == [ratio for ratio in go if go[ratio] != python[ratio]]
        assert frozenset() == go[0.0]
        assert all(id[8:] == bytes(8) for id in python[0.0])

    def test_python_go_and_rust_agree_but_at_tiny_ratios(self) -> None:
        """Above 2^-11 the three keep the same, so one name serves for all; Python rounds otherwise below."""
        _, answers = recorded()
        python, go, rust = (
            {answer.ratio: answer.kept for answer in answers if answer.sdk == name}
            for name in ("python", "go", "rust")
        )
        assert go == rust
        assert {1e-19, 2e-17, 1e-10} == {ratio for ratio in go if go[ratio] != python[ratio]}

    def test_others_differ(self) -> None:
        """The ids tell all other variants apart: a mixed-up table would show."""
        _, answers = recorded()
        names = {"go", "java", "js", "jaeger", "datadog"}
        at_a_tenth = {answer.sdk: answer.kept for answer in answers if answer.ratio == 0.1}
        assert len(names) == len({at_a_tenth[name] for name in names})


def dotnet(id: bytes, ratio: float) -> bool:
    """Decide as the source of OpenTelemetry .NET says: this machine has no .NET."""
    number = int.from_bytes(id[:8], "big", signed=True)
    return ratio == 1 or abs(number) < int(ratio * 2**63)


class TestFormulas:
    """Beyond what was recorded."""

    @given(ratio=st.floats(0, 1), id=st.binary(min_size=16, max_size=16).filter(any))
    def test_python_in_process(self, ratio: float, id: bytes) -> None:
        """The SDK that is installed, on any id and ratio."""
        is_kept = (
            TraceIdRatioBased(ratio).should_sample(None, int.from_bytes(id, "big"), "").decision.is_sampled()
        )
        assert is_kept == bool(kept_by(sdk_ratio(SDK.PYTHON, ratio), [id]))

    @pytest.mark.parametrize("ratio", [0.0, 1e-19, 0.1, 0.5, 1 - 2**-53, 1.0])
    def test_dotnet(self, ratio: float) -> None:
        """By the high half. The id at which .NET's own absolute value overflows is dropped below 100 %."""
        ids, _ = recorded()
        assert {id for id in ids if dotnet(id, ratio)} == kept_by(sdk_ratio(SDK.DOTNET, ratio), ids)

    @pytest.mark.parametrize("ratio", [-0.1, 1.1, math.nan])
    def test_ratio_out_of_range(self, ratio: float) -> None:
        """The native op takes no other ratios."""
        with pytest.raises(NativeError, match="sdk_ratio must be a number from 0 to 1"):
            sdk_ratio(SDK.GO, ratio)

    @pytest.mark.parametrize(
        ("percentage", "ratio"),
        [(33.3, 0.333), (10, 0.1), (12.3, 0.123), (0.1, 0.001), (1e-5, 1e-7), (100, 1), (250, 1), (0, 0)]
        + [(55.5, 0.555), (7, 0.07), (29, 0.29), (33.33333333333333, 1 / 3)],
    )
    def test_percentage_is_the_ratio_that_was_written(self, percentage: float, ratio: float) -> None:
        """33.3 % is 0.333, which division would not give."""
        assert ratio == _sdk_ratio(percentage)

    @given(thousandths=st.integers(1, 100_000))
    def test_every_short_percentage(self, thousandths: int) -> None:
        """The same for whatever has five digits."""
        assert float(f"{thousandths}e-5") == _sdk_ratio(float(f"{thousandths}e-3"))


class TestSecondTier:
    """Behind the SDK that decided first."""

    @pytest.mark.parametrize("sdk", ["python", "js", "go"])
    def test_keeps_what_came(self, sdk: str) -> None:
        """At the same ratio nothing more is lost, at a higher one neither, at a lower one what the SDK would drop."""
        _, answers = recorded()
        kept = {answer.ratio: answer.kept for answer in answers if answer.sdk == sdk}
        for percentage in (1, 5, 10, 20):
            left = Harness(Config(mode="sdk_ratio", sdk=sdk, sampling_percentage=percentage)).run(
                *(span_of(id.hex()) for id in kept[0.1])
            )
            assert kept[0.1] & kept[percentage / 100] == {span.trace_id for span in left}

    @pytest.mark.parametrize(
        ("percentage", "arrived", "left"),
        [
            (90, "", ""),
            (90, "ot=th:8", ""),
            (90, "ot=th:8;rv:ffffffffffffff;a:b,v=1", "ot=rv:ffffffffffffff;a:b,v=1"),
            (90, "v=1 , w=2", "v=1 , w=2"),
            (90, "ot=rv:ffffffffffffff", "ot=rv:ffffffffffffff"),
            (90, "ot=th:zz", "ot=th:zz"),
            (100, "ot=th:8", "ot=th:8"),
        ],
    )
    def test_tracestate(self, percentage: float, arrived: str, left: str) -> None:
        """A threshold that is true no more is taken out; all else stays as it came, and none is made up."""
        config = Config(mode="sdk_ratio", sdk="python", sampling_percentage=percentage)
        assert [left] == [span.trace_state for span in Harness(config).run(span_of(ID.hex(), arrived))]

    @pytest.mark.parametrize(("priority", "percentage", "states"), [(1, 1, ["ot=th:8"]), (0, 100, [])])
    def test_priority_rules(self, priority: int, percentage: float, states: list[str]) -> None:
        """sampling.priority decides, and what is kept for certain keeps its threshold."""
        span = span_of(ID.hex(), "ot=th:8")
        span.attributes.append(otlp.attribute("sampling.priority", priority))
        config = Config(mode="sdk_ratio", sdk="python", sampling_percentage=percentage)
        assert states == [left.trace_state for left in Harness(config).run(span)]

    @pytest.mark.parametrize("fail_closed", [True, False])
    def test_no_trace_id(self, fail_closed: bool) -> None:
        """An id of zeros is none: fail_closed decides."""
        harness = Harness(Config(mode="sdk_ratio", sdk="go", sampling_percentage=50, fail_closed=fail_closed))
        assert (not fail_closed) == bool(harness.run(span_of("00" * 16)))
        assert {("missing_randomness", not fail_closed): 1} == harness.policies()

    def test_policy(self) -> None:
        """Decisions are counted under a policy of their own."""
        harness = Harness(Config(mode="sdk_ratio", sdk="go", sampling_percentage=100))
        harness.run(span_of(ID.hex()))
        assert {("trace_id_sdk", True): 1} == harness.policies()


class TestLogs:
    """Log records share the fate of their trace."""

    def run(self, percentage: float, *attributes: KeyValue) -> list[dict[str, str]]:
        """Return the attributes of what is left of a record."""
        config = Config(mode="sdk_ratio", sdk="python", sampling_percentage=percentage, sampling_priority="p")
        record = LogRecord(trace_id=ID, attributes=attributes)
        left = Harness(config, signal=Signal.LOGS).run(record)
        return [{pair.key: pair.value.string_value for pair in record.attributes} for record in left]

    def test_threshold_is_taken_out(self) -> None:
        """As of a span; other attributes stay."""
        marks = [otlp.attribute("sampling.threshold", "8"), otlp.attribute("sampling.randomness", "f" * 14)]
        assert [{"a": "b", "sampling.randomness": "f" * 14}] == self.run(90, *marks, otlp.attribute("a", "b"))
        assert 3 == len(self.run(100, *marks, otlp.attribute("a", "b"))[0])

    def test_priority_is_a_percentage(self) -> None:
        """The record's own percentage goes by the SDK's arithmetic: this id is at 63.99 %."""
        assert [] == self.run(50)
        assert [] == self.run(100, otlp.attribute("p", 60))
        assert [{"p": ""}] == self.run(1, otlp.attribute("p", 64))
        assert [{"p": ""}] == self.run(1, otlp.attribute("p", 64), otlp.attribute("sampling.threshold", "8"))
        assert 2 == len(self.run(1, otlp.attribute("p", 100), otlp.attribute("sampling.threshold", "8"))[0])


class TestConfiguration:
    """The two keys."""

    @pytest.mark.parametrize(
        ("keys", "problem"),
        [
            (
                {"mode": "sdk_ratio"},
                (
                    "sdk",
                    'unsupported sdk ""; sdk_ratio needs one of python, go, java, js, dotnet, jaeger, datadog',
                ),
            ),
            (
                {"mode": "sdk_ratio", "sdk": "Go"},
                (
                    "sdk",
                    'unsupported sdk "Go"; sdk_ratio needs one of python, go, java, js, dotnet, jaeger, datadog',
                ),
            ),
            (
                {"mode": "hash_seed", "sdk": "go"},
                ("sdk", 'has no effect with mode "hash_seed": set mode to sdk_ratio'),
            ),
            (
                {"mode": "sdk_ratio", "sdk": "go", "attribute_source": "record"},
                ("attribute_source", "sdk_ratio decides by the trace id: record cannot be its source"),
            ),
        ],
    )
    def test_problems(self, keys: Mapping[str, Any], problem: tuple[str, str]) -> None:
        """What cannot be meant is refused."""
        assert [problem] == list(Config(**keys).problems())


def _fixed_half(rng: random.Random) -> Iterable[bytes]:
    return (bytes.fromhex("0123456789abcdef") + rng.randbytes(8) for _ in range(3000))


IDS: Mapping[str, Callable[[random.Random], Iterable[bytes]]] = {
    "random": lambda rng: (rng.randbytes(16) for _ in range(3000)),
    "counting": lambda rng: (number.to_bytes(16, "big") for number in range(1, 3000)),
    "counting, little-endian": lambda rng: (number.to_bytes(16, "little") for number in range(1, 3000)),
    "zero high half": lambda rng: (bytes(8) + rng.randbytes(8) for _ in range(3000)),
    "zero low half": lambda rng: (rng.randbytes(8) + bytes(8) for _ in range(3000)),
    "constant half": _fixed_half,
    "of an SDK": lambda rng: (
        RandomIdGenerator().generate_trace_id().to_bytes(16, "big") for _ in range(3000)
    ),
}
MODES: Sequence[Mapping[str, str]] = [
    {"mode": "hash_seed"},
    {"mode": "proportional"},
    {"mode": "equalizing"},
    *({"mode": "sdk_ratio", "sdk": sdk.name.lower()} for sdk in SDK),
]


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: " ".join(mode.values()))
def test_kept_sets_are_nested(
    mode: Mapping[str, str], ids: Callable[[random.Random], Iterable[bytes]]
) -> None:
    """Whatever the ids, 5 % is part of 10 %, that of 20 %, and 100 % is all; equal ids have one fate."""
    spans = [span_of(id.hex()) for id in ids(random.Random(5))]
    previous: set[bytes] = set()
    for percentage in (0, 5, 10, 20, 50, 100):
        left = Harness(Config(**mode, sampling_percentage=percentage)).run(*spans)
        kept = {span.trace_id for span in left}
        assert previous <= kept
        previous = kept
    assert len(spans) == len(previous)


class TestAgreement:
    """The table in deploy/sampling.md: which SDK decides like which of the Collector's modes."""

    @pytest.mark.parametrize("sdk", SDK)
    @pytest.mark.parametrize("mode", [Mode.HASH_SEED, Mode.PROPORTIONAL, Mode.EQUALIZING])
    def test_collector_modes_agree_with_no_sdk(self, sdk: SDK, mode: Mode) -> None:
        """Of random ids that an SDK keeps at 10 %, the Collector's modes keep a tenth again, not all of them."""
        rng = random.Random(3)
        ids = [rng.randbytes(16) for _ in range(20_000)]
        first = kept_by(sdk_ratio(sdk, 0.1), ids)
        both = first & kept_by(Sampler(Signal.TRACES, mode=mode, sampling_percentage=10), ids)
        share = len(both) / len(first)
        assert abs(share - 0.1) < 5 * math.sqrt(0.09 / len(first))

    @pytest.mark.parametrize("first", SDK)
    @pytest.mark.parametrize("second", SDK)
    def test_overlap_of_sdks(self, first: SDK, second: SDK) -> None:
        """At 10 %: all of each other's traces, half where the same bits are read otherwise, a tenth elsewhere."""
        rng = random.Random(4)
        ids = [rng.randbytes(16) for _ in range(10_000)]
        kept = kept_by(sdk_ratio(first, 0.1), ids)
        share = len(kept & kept_by(sdk_ratio(second, 0.1), ids)) / len(kept)
        if first is second or {first, second} == {SDK.PYTHON, SDK.GO}:
            assert 1 == share
        else:
            kin = {SDK.PYTHON, SDK.GO, SDK.JAVA, SDK.JAEGER}
            assert abs(share - (0.5 if {first, second} <= kin else 0.1)) < 0.08


class TestNonrandomIds:
    """Trace ids that cannot be random are counted, and said once an hour."""

    @pytest.mark.parametrize(
        ("ids", "pattern"),
        [
            ("counting", Pattern.COUNTING),
            ("counting, little-endian", Pattern.ZERO_LOW_HALF),
            ("zero high half", Pattern.ZERO_HIGH_HALF),
            ("zero low half", Pattern.ZERO_LOW_HALF),
            ("constant half", Pattern.CONSTANT_HIGH_HALF),
        ],
    )
    @pytest.mark.parametrize("n_spans", [1, 3, 512])
    def test_pattern(self, ids: str, pattern: Pattern, n_spans: int) -> None:
        """In requests of any size, and under no other name."""
        harness = Harness(Config(sampling_percentage=10))
        spans = [span_of(id.hex()) for id in IDS[ids](random.Random(5))]
        for start in range(0, 1500, n_spans):
            harness.run(*spans[start : start + n_spans])
        counts = {found: count for found, count in harness.processors[0].op.patterns() if count}
        assert {pattern} == set(counts)
        assert counts[pattern] >= NONRANDOM_IDS_TO_WARN

    @pytest.mark.parametrize("byteorder", ["big", "little"])
    def test_counter_in_the_low_half(self, byteorder: Any) -> None:
        """Also behind a high half that is random."""
        rng = random.Random(1)
        harness = Harness(Config(sampling_percentage=10))
        harness.run(*(span_of((rng.randbytes(8) + n.to_bytes(8, byteorder)).hex()) for n in range(1, 100)))
        counts = {found for found, count in harness.processors[0].op.patterns() if count}
        assert {Pattern.COUNTING} == counts

    def test_constant_low_half(self) -> None:
        """Of log records too."""
        rng = random.Random(1)
        harness = Harness(Config(sampling_percentage=10), signal=Signal.LOGS)
        harness.run(*(LogRecord(trace_id=rng.randbytes(8) + b"constant") for _ in range(100)))
        counts = {found for found, count in harness.processors[0].op.patterns() if count}
        assert {Pattern.CONSTANT_LOW_HALF} == counts

    @pytest.mark.parametrize("ids", ["random", "of an SDK"])
    def test_random_ids_show_nothing(self, ids: str) -> None:
        """Not one of thousands, repeated traces and items without trace among them."""
        harness = Harness(Config(sampling_percentage=10))
        rng = random.Random(5)
        for id in IDS[ids](rng):
            harness.run(*[span_of(id.hex())] * rng.randint(1, 3), span_of("00" * 16), span_of(id.hex()))
        assert {0} == {count for _, count in harness.processors[0].op.patterns()}

    def test_false_alarms_are_practically_impossible(self) -> None:
        """A million ids a second for a century, random ones and those of X-Ray, whose high halves agree by 2^-32."""
        hours = 100 * 366 * 24
        for chance, at_most in ((2**-46, 1e-60), (2**-32, 1e-8)):
            expected = 1e6 * 3660 * chance  # a window, and what a late timer adds
            tail = (
                math.exp(-expected) * expected**NONRANDOM_IDS_TO_WARN / math.factorial(NONRANDOM_IDS_TO_WARN)
            )
            assert hours * 2 * tail < at_most

    def test_warns_once_an_hour(self, caplog: pytest.LogCaptureFixture) -> None:
        """Once for each pattern, again in the next hour if it goes on, and not for a few ids."""
        harness = Harness(Config(sampling_percentage=10))
        harness.processors[0].start()
        counting = [span_of(id.hex()) for id in IDS["counting"](random.Random(5))]

        def warnings_after(n_requests: int, seconds: float) -> int:
            caplog.clear()
            for _ in range(n_requests):
                harness.run(*counting[:1000])
            harness.timers.advance(seconds)
            return len([record for record in caplog.records if record.levelno == logging.WARNING])

        assert 0 == warnings_after(1, 60)
        assert 1 == warnings_after(3, 60)
        assert 0 == warnings_after(3, 60)
        assert 0 == warnings_after(0, 3600)
        assert 0 == warnings_after(0, 60)
        assert 1 == warnings_after(3, 60)
        assert "counting" == caplog.records[-1].fields["pattern"]  # type: ignore[attr-defined]

    def test_metric(self) -> None:
        """A counter with the pattern as label, there once it is more than zero."""
        harness = Harness(Config(sampling_percentage=10))
        name = "spansieve_processor_sampling_nonrandom_trace_ids"
        assert [] == [one for one in harness.processors[0].samples() if one.instrument.name == name]
        harness.run(*(span_of(id.hex()) for id in IDS["zero high half"](random.Random(5))))
        found = [one for one in harness.processors[0].samples() if one.instrument.name == name]
        assert [("pattern", "zero_high_half")] == [sample.labels[1] for sample in found]
        assert [7] == [sample.value for sample in found]
