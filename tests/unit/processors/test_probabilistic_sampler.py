"""The sampler: the Collector's vectors, an oracle on random items, chains of samplers, configuration, metrics."""

from __future__ import annotations

import collections
import functools
import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.config.fields import Option
from collector.errors import NativeError
from collector.ids import Signal
from collector.lean import fields, replace
from collector.native import sampler
from collector.processors import probabilistic_sampler
from collector.processors.probabilistic_sampler import Config
from tests.support import otlp
from tests.support.sampler_harness import Harness, span_of
from tests.support.sampling import Carrier, Oracle, hash_randomness, parse_float, threshold, threshold_text

DATA = Path(__file__).parents[2] / "data" / "sampler"
MODES = {"H": "hash_seed", "E": "equalizing", "P": "proportional"}
D = "fefefefefefefefefe80000000000000"


def vectors(name: str) -> list[str]:
    """Return the lines of a vector file."""
    return [line for line in (DATA / name).read_text().splitlines() if not line.startswith("#")]


def typed_value(text: str) -> AnyValue:
    """Return the AnyValue for type:text."""
    kind, _, value = text.partition(":")
    if kind == "string":
        return AnyValue(string_value=value)
    if kind == "double":
        return AnyValue(double_value=float(value))
    return AnyValue(int_value=int(value)) if kind == "int" else AnyValue(bool_value=value == "1")


class TestVectors:
    """What the Collector's own tests expect."""

    @pytest.mark.parametrize("line", vectors("spans.txt"))
    def test_spans(self, line: str) -> None:
        """The decision and the tracestate of every row, in each of its modes."""
        modes, percent, precision, trace_id, state, priority, closed, kept, out = (
            field.strip() for field in line.split("|")
        )
        for mode in modes:
            config = Config(
                mode=MODES[mode],
                sampling_percentage=float(percent),
                sampling_precision=int(precision) or 14,
                fail_closed=closed == "1",
            )
            left = Harness(config).run(span_of(trace_id, state, typed_value(priority) if priority else None))
            assert [out] * int(kept) == [span.trace_state for span in left]

    def test_hash_seed(self) -> None:
        """All hundred trace ids at 50 %."""
        for line in vectors("hash_seed.txt"):
            seed, trace_id, kept = line.split()
            left = Harness(Config(sampling_percentage=50, hash_seed=int(seed))).run(span_of(trace_id))
            assert int(kept) == len(left), line

    def test_thresholds(self) -> None:
        """Every probability at every precision."""
        for line in vectors("thresholds.txt"):
            number, precision, text = line.split()
            if number.endswith("%"):
                probability = struct.unpack("<f", struct.pack("<f", float(number[:-1])))[0] / 100
            else:
                probability = float.fromhex(number)
            actual = sampler.threshold(probability, int(precision))
            assert actual is not None
            assert text == threshold_text(actual), line

    @pytest.mark.parametrize(
        ("percentage", "buckets"),
        [(33.333332, 5461), (33.3333333333, 5461), (0.006, 0), (0.0062, 1), (99.999, 16383), (150, 16384)]
        + [(65.802, 10781), (72.052, 11805), (90.802, 14877), (97.052, 15901), (15.5, 2539), (10, 1638)],
    )
    def test_buckets_are_float32(self, percentage: float, buckets: int) -> None:
        """The product is rounded to float32, which some percentages show."""
        assert buckets == sampler.buckets(percentage)


MANY = 200
SEEDS = (0, 1, 22, 2**32 - 1)
PERCENTAGES = (0, 0.006, 0.0062, 0.03, 1, 10, 25, 100 / 3, 50, 65.802, 99.9, 99.99992, 100, 250)
PIECES = (
    [
        "ot=th:8",
        "ot=th:c",
        "ot=th:80",
        "ot=th:fd70a",
        "ot=th:0",
        "ot=rv:FD70A3D70A3D71",
        "ot=rv:9b8233f7e3a151;th:8",
    ]
    + [
        "ot=x:1;th:4;y:2",
        "ot=th:",
        "ot=rv:1",
        "ot=th:g",
        "ot=a:1;",
        "ot=",
        "ot",
        "a=1",
        " b=2 ",
        "",
        "t@s=1",
        "A=1",
    ]
    + ["ot=th:fffffffffffff8;rv:ffffffffffffff", "\t", "c= x", "d=x ", "t@" + "s" * 15 + "=1", "e=1,e=2"]
)
PRIORITIES: tuple[AnyValue, ...] = tuple(
    typed_value(text)
    for text in ("int:0", "int:1", "int:-1", "double:0.5", "double:nan", "double:-0.5", "bool:1")
    + (
        "string:0",
        "string:2.5",
        "string:-1",
        "string:x",
        "string:",
        "string:1_0",
        "string:1e400",
        "string:0x0p1",
    )
)


def span_priority(span: Any) -> int | None:
    """Return the threshold that a span's sampling.priority demands."""
    value = next((pair.value for pair in span.attributes if pair.key == "sampling.priority"), AnyValue())
    kind = value.WhichOneof("value")
    number = None
    if kind in ("int_value", "double_value"):
        number = getattr(value, kind)
    elif kind == "string_value":
        number = parse_float(value.string_value)
    if number is None or math.isnan(number) or number < 0:
        return None
    return 0 if number > 0 else 1 << 56


def check_spans(oracle: Oracle, spans: list[Any]) -> None:
    """Run spans, named by their position, and compare each with the oracle."""
    config = Config(
        mode=oracle.mode,
        sampling_percentage=oracle.percentage,
        hash_seed=oracle.seed,
        sampling_precision=oracle.precision,
        fail_closed=oracle.fail_closed,
    )
    harness = Harness(config)
    left = {int(span.name): span for span in harness.run(*spans)}
    policies: collections.Counter[tuple[str, bool]] = collections.Counter()
    for number, span in enumerate(spans):
        source = ("trace_id_hash", span.trace_id) if any(span.trace_id) else None
        outcome = oracle.decide(
            span.trace_id,
            Carrier.from_tracestate(span.trace_state),
            functools.partial(span_priority, span),
            source,
            is_log=False,
        )
        policies[outcome.policy, outcome.kept] += 1
        assert outcome.kept == (number in left), (oracle, span)
        if outcome.kept:
            expected = outcome.carrier.tracestate() if outcome.carrier else span.trace_state
            assert expected == left[number].trace_state, (oracle, span)
            left[number].trace_state = span.trace_state
            assert span == left[number]
    assert policies == harness.policies()


def random_spans(rng: random.Random) -> Iterator[Any]:
    """Yield spans of every kind, most of them plain, some of the trace of the one before."""
    trace_id = bytes(16)
    for number in range(MANY):
        if rng.random() < 0.7:
            trace_id = rng.randbytes(16) if rng.random() < 0.95 else bytes(16)
        pieces = rng.choices(PIECES, k=rng.choice((0, 0, 0, 0, 1, 1, 2, 3)))
        priority = rng.choice(PRIORITIES) if rng.random() < 0.1 else None
        yield span_of(trace_id.hex(), ",".join(pieces), priority, name=str(number))


class TestOracle:
    """The same outcome as the plain implementation, whatever comes."""

    @pytest.mark.parametrize("mode", MODES.values())
    def test_random_spans(self, mode: str) -> None:
        """Tens of thousands of spans over percentages, seeds, precisions and fail_closed."""
        rng = random.Random(mode)
        for percentage in PERCENTAGES:
            for seed in SEEDS:
                oracle = Oracle(mode, percentage, seed, rng.randint(1, 14), rng.random() < 0.5)
                check_spans(oracle, list(random_spans(rng)))

    @given(
        oracle=st.builds(
            Oracle,
            mode=st.sampled_from(sorted(MODES.values())),
            percentage=st.floats(0, 120, width=32).filter(lambda p: p == 0 or p / 100 >= 2**-56),
            seed=st.integers(0, 2**32 - 1),
            precision=st.integers(1, 14),
            fail_closed=st.booleans(),
        ),
        spans=st.lists(
            st.tuples(
                st.binary(min_size=16, max_size=16),
                st.one_of(
                    st.lists(st.sampled_from(PIECES), max_size=40).map(",".join),
                    st.text(alphabet=" ,;:=@ot rvh0189afAF_.-*/\t\x7f", max_size=40),
                ),
                st.one_of(
                    st.none(),
                    st.sampled_from(PRIORITIES),
                    st.text(alphabet="0123456789_.+-eExXpPinfa", max_size=8).map(
                        lambda t: AnyValue(string_value=t)
                    ),
                ),
            ),
            min_size=1,
            max_size=20,
        ),
    )
    def test_hostile_spans(self, oracle: Oracle, spans: list[tuple[bytes, str, AnyValue | None]]) -> None:
        """Tracestates and priorities made of the characters that matter."""
        check_spans(
            oracle,
            [span_of(i.hex(), state, priority, name=str(n)) for n, (i, state, priority) in enumerate(spans)],
        )

    @given(probability=st.floats(0, 1.1), precision=st.integers(1, 14))
    def test_threshold(self, probability: float, precision: int) -> None:
        """The arithmetic alone, out of range included."""
        assert threshold(probability, precision) == sampler.threshold(probability, precision)

    @given(seed=st.integers(0, 2**32 - 1), data=st.binary(max_size=40))
    def test_hash(self, seed: int, data: bytes) -> None:
        """The hash alone."""
        assert hash_randomness(seed, data) == sampler.hash_randomness(seed, data)


LOG_VALUES = (
    [AnyValue(string_value=text) for text in ("", "x", "8", "c", "9b8233f7e3a151", "fd70a3d70a3d71", "zz")]
    + [AnyValue(int_value=number) for number in (0, 7, 50, -3, 101)]
    + [AnyValue(double_value=number) for number in (0.0, 12.5, 99.9, 1e-9, math.nan)]
    + [AnyValue(bool_value=True), AnyValue(bytes_value=b"raw"), AnyValue()]
)
LOG_KEYS = ("sampling.threshold", "sampling.randomness", "id", "priority", "other")


def plain(value: AnyValue | None) -> Any:
    """Return the Python value."""
    kind = value.WhichOneof("value") if value is not None else None
    return getattr(value, kind) if kind else None


def text_of(value: Any) -> bytes:
    """Return what is hashed of an attribute; the doubles used here have the same text in Python but for 0.0."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return str(value).lower().encode()
    if isinstance(value, float):
        return b"NaN" if math.isnan(value) else f"{value:.15g}".replace("e-0", "e-").encode()
    return b"" if value is None else str(value).encode()


def first(record: LogRecord, key: str) -> AnyValue | None:
    """Return the first attribute named key."""
    return next((pair.value for pair in record.attributes if pair.key == key), None)


class TestLogs:
    """Log records: other sources of randomness, other marks, priority as a percentage."""

    @pytest.mark.parametrize("mode", MODES.values())
    def test_random_records(self, mode: str) -> None:
        """Thousands of records against the oracle."""
        rng = random.Random(mode)
        for percentage in PERCENTAGES:
            for source in ("traceID", "record"):
                oracle = Oracle(mode, percentage, rng.choice(SEEDS), rng.randint(1, 14), rng.random() < 0.5)
                records = []
                for number in range(100):
                    keys = rng.choices(LOG_KEYS, k=rng.choice((0, 1, 2, 5)))
                    records.append(
                        LogRecord(
                            time_unix_nano=number,
                            trace_id=rng.choice((b"", bytes(16), rng.randbytes(16), rng.randbytes(16))),
                            attributes=[KeyValue(key=key, value=rng.choice(LOG_VALUES)) for key in keys],
                        )
                    )
                self.check(oracle, source, records)

    def check(self, oracle: Oracle, source: str, records: list[LogRecord]) -> None:
        """Run records, told apart by their time, and compare each with the oracle."""
        config = Config(
            mode=oracle.mode,
            sampling_percentage=oracle.percentage,
            hash_seed=oracle.seed,
            sampling_precision=oracle.precision,
            fail_closed=oracle.fail_closed,
            attribute_source=source,
            from_attribute="id",
            sampling_priority="priority",
        )
        harness = Harness(config, signal=Signal.LOGS)
        left = {record.time_unix_nano: record for record in harness.run(*records)}
        policies: collections.Counter[tuple[str, bool]] = collections.Counter()
        for number, record in enumerate(records):
            hashed: tuple[str, bytes] | None = None
            if source == "traceID" and any(record.trace_id):
                hashed = ("trace_id_hash", record.trace_id)
            elif text_of(plain(first(record, "id"))):
                hashed = ("id", text_of(plain(first(record, "id"))))

            def priority(record: LogRecord = record) -> int | None:
                value = plain(first(record, "priority"))
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                return threshold(value / 100, oracle.precision) if is_number else None

            th, rv = (first(record, f"sampling.{name}") for name in ("threshold", "randomness"))
            outcome = oracle.decide(
                record.trace_id, Carrier.from_attributes(plain(th), plain(rv)), priority, hashed, is_log=True
            )
            policies[outcome.policy, outcome.kept] += 1
            assert outcome.kept == (number in left), (oracle, record)
            if outcome.kept:
                expected = LogRecord()
                expected.CopyFrom(record)
                if outcome.carrier:
                    self.put(expected, "sampling.randomness", outcome.carrier.rv)
                    self.put(expected, "sampling.threshold", outcome.carrier.th)
                assert expected == left[number], (oracle, record)
        assert policies == harness.policies()

    @staticmethod
    def put(record: LogRecord, key: str, text: str) -> None:
        """Set an attribute as the Collector does: the first of that name, or a new one at the end."""
        value = first(record, key)
        if not text:
            return
        if value is None:
            record.attributes.append(KeyValue(key=key, value=AnyValue(string_value=text)))
        else:
            value.string_value = text

    def test_numbers_and_texts_hash_alike(self) -> None:
        """An id of 123 and one of "123" share their fate, and a record without is missing its randomness."""
        config = Config(sampling_percentage=100, attribute_source="record", from_attribute="id")
        records = [
            LogRecord(attributes=[otlp.attribute("id", 123)]),
            LogRecord(attributes=[otlp.attribute("id", "123")]),
            LogRecord(attributes=[otlp.attribute("other", "123")]),
        ]
        left = Harness(config, signal=Signal.LOGS).run(*records)
        marks = [first(record, "sampling.randomness") for record in left]
        assert 2 == len(marks)
        assert marks[0] == marks[1]
        open_left = Harness(replace(config, fail_closed=False), signal=Signal.LOGS).run(*records)
        assert 3 == len(open_left)

    @pytest.mark.parametrize("value", [{"array_value": {"values": [{"int_value": 1}]}}, {"kvlist_value": {}}])
    def test_composite_sources_are_hashed_as_encoded(self, value: dict[str, Any]) -> None:
        """An array has randomness; an empty map has none."""
        config = Config(sampling_percentage=100, attribute_source="record", from_attribute="id")
        record = LogRecord(attributes=[KeyValue(key="id", value=AnyValue(**value))])
        assert ("array_value" in value) == bool(Harness(config, signal=Signal.LOGS).run(record))


FOUR = (
    "53a518291e91307e43cd8467bb06f986",
    "a56a02f843b9bc6ee0b13889249e90e6",
    "4e40762d3ee97a1c0932e4fa584f89a8",
    "474a03c76d75951a4b4c537ced8f1122",
)


class TestChains:
    """One sampler behind another."""

    def tiers(self, **second: Any) -> list[str]:
        """Return the trace ids that pass two tiers with seeds of their own."""
        harness = Harness(
            Config(sampling_percentage=50, hash_seed=22),
            Config(sampling_percentage=50, hash_seed=42, **second),
        )
        return [span.trace_id.hex() for span in harness.run(*(span_of(trace_id) for trace_id in FOUR))]

    def test_second_hash_seed_tier_drops_all(self) -> None:
        """As in the Collector: what the first one kept is marked, and a mark is an error."""
        assert [] == self.tiers()

    def test_second_tier_open_keeps_all(self) -> None:
        """fail_closed false passes on what the first kept."""
        assert [FOUR[0], FOUR[2]] == self.tiers(fail_closed=False)

    def test_allow_resampling_keeps_what_both_keep(self) -> None:
        """Ours: the second tier decides by its own hash."""
        assert [FOUR[2]] == self.tiers(allow_resampling=True)

    @pytest.mark.parametrize(("seed", "share"), [(2, 0.10), (3, 0.05)])
    def test_resampled_share(self, seed: int, share: float) -> None:
        """50 % then 10 %: 10 % with one seed and 5 % with two, the mark says so, and the next tier can rely on it."""
        rng = random.Random(share)
        harness = Harness(
            Config(sampling_percentage=50, hash_seed=2),
            Config(sampling_percentage=10, hash_seed=seed, allow_resampling=True),
        )
        spans = [span_of(rng.randbytes(16).hex()) for _ in range(20_000)]
        left = harness.run(*spans)
        assert abs(len(left) / len(spans) - share) < 4 * math.sqrt(share * (1 - share) / len(spans))
        carriers = [Carrier.from_tracestate(span.trace_state) for span in left]
        assert 1 == len({carrier.th for carrier in carriers})
        kept_of_all = 1 - int(carriers[0].th.ljust(14, "0"), 16) / 2**56
        assert kept_of_all == pytest.approx(share, rel=1e-3)
        again = Harness(Config(sampling_percentage=50, mode="proportional")).run(*left)
        assert abs(len(again) / len(left) - 0.5) < 4 * math.sqrt(0.25 / len(left))

    @pytest.mark.parametrize(
        ("mode", "percentage", "arrived", "left"),
        [
            ("equalizing", 25, "", ["ot=th:c"]),
            ("equalizing", 50, "ot=th:0;rv:9b8233f7e3a151", ["ot=rv:9b8233f7e3a151;th:8"]),
            ("proportional", 50, "ot=th:8", ["ot=th:c"]),
            ("proportional", 50, "a=x,ot=th:8,b=y", ["ot=th:c,a=x,b=y"]),
        ],
    )
    def test_reported_tracestates(self, mode: str, percentage: float, arrived: str, left: list[str]) -> None:
        """A kept span says its probability, that of both samplers in a row; other vendors' entries keep their order."""
        harness = Harness(Config(mode=mode, sampling_percentage=percentage))
        assert left == [span.trace_state for span in harness.run(span_of("f" * 32, arrived))]

    def test_equalizing_keeps_an_sdk_threshold(self) -> None:
        """An SDK's 25 % passes 50 % unchanged, and is multiplied by a proportional 50 %."""
        span = span_of("ffffffffffffffffffe0000000000000", "ot=th:c")
        states = {
            mode: [left.trace_state for left in Harness(Config(mode=mode, sampling_percentage=50)).run(span)]
            for mode in MODES.values()
        }
        assert {"hash_seed": [], "equalizing": ["ot=th:c"], "proportional": ["ot=th:e"]} == states

    @pytest.mark.parametrize("mode", MODES.values())
    def test_kept_sets_are_nested(self, mode: str) -> None:
        """What 5 % keeps 10 % keeps too, and the shares are right."""
        rng = random.Random(7)
        ids = [rng.randbytes(16) for _ in range(10_000)]
        previous: set[bytes] = set()
        for percentage in (0, 1, 5, 10, 20, 25, 50, 99, 100):
            left = Harness(Config(mode=mode, sampling_percentage=percentage)).run(
                *(span_of(trace_id.hex()) for trace_id in ids)
            )
            kept = {span.trace_id for span in left}
            assert previous <= kept
            share = percentage / 100
            assert abs(len(kept) - share * len(ids)) <= 3 * math.sqrt(share * (1 - share) * len(ids))
            previous = kept


class TestCorpus:
    """Real traffic."""

    def test_traces_stay_whole(self, astronomy: list[bytes]) -> None:
        """No trace is kept in part, and 10 % of them are kept."""
        harness = Harness(Config(sampling_percentage=10))
        arrived: collections.Counter[bytes] = collections.Counter()
        left: collections.Counter[bytes] = collections.Counter()
        for request in astronomy:
            arrived.update(span.trace_id for span in otlp.items(otlp.decode(Signal.TRACES, request)))
            left.update(span.trace_id for span in harness.push(request))
        assert all(arrived[trace_id] == count for trace_id, count in left.items())
        assert abs(len(left) / len(arrived) - 0.1) < 3 * math.sqrt(0.09 / len(arrived))

    @pytest.mark.parametrize("mode", MODES.values())
    def test_shares_are_right_and_nested(self, astronomy: list[bytes], mode: str) -> None:
        """Of the real traces each share is kept within three standard deviations, and each in the next one."""
        ids = {
            span.trace_id for request in astronomy for span in otlp.items(otlp.decode(Signal.TRACES, request))
        }
        assert 13_211 == len(ids)
        spans = [span_of(trace_id.hex()) for trace_id in ids]
        previous: set[bytes] = set()
        for percentage in (0, 1, 5, 10, 25, 50, 99, 100):
            kept = {
                span.trace_id
                for span in Harness(Config(mode=mode, sampling_percentage=percentage)).run(*spans)
            }
            share = percentage / 100
            assert abs(len(kept) - share * len(ids)) <= 3 * math.sqrt(share * (1 - share) * len(ids))
            assert previous <= kept
            previous = kept

    def test_ids_are_random(self, astronomy: list[bytes]) -> None:
        """Nothing in real traffic looks like ids that are not."""
        harness = Harness(Config(sampling_percentage=10))
        for request in astronomy:
            harness.push(request)
        assert {0} == {count for _, count in harness.processors[0].op.patterns()}


class TestConfig:
    """Keys, defaults and the Collector's texts."""

    def test_defaults(self) -> None:
        """The Collector's."""
        config = Config()
        assert ("", 0, 0, True, 4, "traceID", "", "") == (
            config.mode,
            config.sampling_percentage,
            config.hash_seed,
            config.fail_closed,
            config.sampling_precision,
            config.attribute_source,
            config.from_attribute,
            config.sampling_priority,
        )
        assert [] == list(config.problems())

    def test_two_keys_are_ours(self) -> None:
        """All other keys are the Collector's."""
        options: dict[str, Option] = {field.name: field.metadata for field in fields(Config)}
        assert ["sdk", "allow_resampling"] == [name for name, option in options.items() if option.ours]

    @pytest.mark.parametrize(
        ("key", "value", "problem"),
        [
            ("mode", "x", 'unsupported sampler mode "x"'),
            ("sampling_percentage", math.nan, "sampling rate is invalid: NaN%"),
            ("sampling_percentage", math.inf, "sampling rate is invalid: +Inf%"),
            ("sampling_percentage", -1e39, "sampling rate is invalid: -Inf%"),
            ("sampling_percentage", -1, "sampling rate is negative: -1.000000%"),
            ("sampling_percentage", 1e-16, "sampling rate is too small: 1e-16%"),
            ("sampling_percentage", 1.25e-15, "sampling rate is too small: 1.25e-15%"),
            ("attribute_source", "x", "invalid attribute source: x. Expected: traceID or record"),
            ("sampling_precision", 0, "invalid sampling precision: 0"),
            ("sampling_precision", -1, "invalid sampling precision: -1"),
            ("sampling_precision", 15, "sampling precision is too great, should be <= 14: 15"),
        ],
    )
    def test_problems(self, key: str, value: Any, problem: str) -> None:
        """Each fault at its key."""
        assert [(key, problem)] == list(Config(**{key: value}).problems())

    @pytest.mark.parametrize(
        ("key", "value"),
        [("sampling_percentage", 2**-56 * 100), ("sampling_percentage", 1e6), ("attribute_source", "")]
        + [("mode", mode) for mode in MODES.values()],
    )
    def test_no_problem(self, key: str, value: Any) -> None:
        """What the Collector takes is taken."""
        assert [] == list(Config(**{key: value}).problems())

    def test_empty_attribute_source_does_not_use_the_trace_id(self) -> None:
        """As in the Collector, where only `traceID` does."""
        record = LogRecord(trace_id=bytes.fromhex(D))
        config = Config(sampling_percentage=100, attribute_source="")
        assert [] == Harness(config, signal=Signal.LOGS).run(record)

    def test_metrics_are_no_signal_of_it(self) -> None:
        """The native op refuses what the factory does not offer."""
        assert {Signal.TRACES, Signal.LOGS} == probabilistic_sampler.factory.signals
        with pytest.raises(NativeError, match="signal must be traces or logs"):
            sampler.Sampler(Signal.METRICS, mode=sampler.Mode.HASH_SEED, sampling_percentage=1)


class TestSamples:
    """The processor's own metrics."""

    def test_names_and_labels(self) -> None:
        """Decisions by policy, drops by rule, errors by kind."""
        harness = Harness(Config(sampling_percentage=50))
        harness.run(span_of(FOUR[0]), span_of("00" * 16), span_of(D, "ot=th:8"), span_of(D, "?"))
        own = ("processor", "probabilistic_sampler/0")
        signal = ("otel_signal", "traces")
        prefix = "otelcol_processor_probabilistic_sampler_count"
        kept = len(Harness(Config(sampling_percentage=50)).run(span_of(FOUR[0])))
        decisions = {("trace_id_hash", "false"): 3 - kept, ("missing_randomness", "false"): 1}
        if kept:
            decisions["trace_id_hash", "true"] = 1
        expected = {
            (f"{prefix}_{name}", (own, ("policy", policy), ("sampled", sampled)), count)
            for name in ("traces_sampled", "spans_processed")
            for (policy, sampled), count in decisions.items()
        } | {
            ("spansieve_processor_dropped_items", (own, ("rule", "sampled_out"), signal), 4 - kept),
            ("spansieve_processor_sampling_errors", (own, ("error", "missing_randomness"), signal), 1),
            ("spansieve_processor_sampling_errors", (own, ("error", "threshold_in_use"), signal), 1),
            ("spansieve_processor_sampling_errors", (own, ("error", "invalid_syntax"), signal), 1),
        }
        actual = {(s.instrument.name, s.labels, int(s.value)) for s in harness.processors[0].samples()}
        assert expected == actual

    def test_log_policy_is_the_attribute(self) -> None:
        """Hashed attributes are counted under their name."""
        config = Config(sampling_percentage=100, attribute_source="record", from_attribute="user")
        harness = Harness(config, signal=Signal.LOGS)
        harness.run(LogRecord(attributes=[otlp.attribute("user", "x")]))
        assert {("user", True): 1} == harness.policies()
        names = {sample.instrument.name for sample in harness.processors[0].samples()}
        assert "otelcol_processor_probabilistic_sampler_count_logs_sampled" in names

    def test_received_is_dropped_and_kept(self) -> None:
        """No item is counted twice or lost."""
        rng = random.Random(0)
        harness = Harness(Config(sampling_percentage=30, fail_closed=False))
        left = harness.run(*random_spans(rng))
        assert MANY == sum(harness.policies().values())
        dropped = [
            s.value for s in harness.processors[0].samples() if s.instrument.name.endswith("dropped_items")
        ]
        assert [MANY - len(left)] == dropped


def test_shutdown_ends_the_watch() -> None:
    """The lifecycle is safe in any order, and leaves no timer."""
    harness = Harness(Config())
    processor = harness.processors[0]
    processor.shutdown(1)
    processor.start()
    assert 1 == len(harness.timers.callbacks)
    processor.shutdown(1)
    processor.shutdown(1)
    assert {} == harness.timers.callbacks
