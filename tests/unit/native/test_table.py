"""Scan and emit against Google's protobuf."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.errors import LimitExceeded, MalformedInput
from collector.ids import Signal
from collector.native.table import COLUMNS, SpanTable
from tests.support import otlp

SIGNALS = list(Signal)


def serialized(items: Any) -> list[bytes]:
    """Return each item's bytes."""
    return [item.SerializeToString() for item in items]


class TestScan:
    """The columns are what protobuf reads."""

    def check(self, request: Any) -> None:
        """Compare all columns of a trace request."""
        table = SpanTable(Signal.TRACES, request.SerializeToString())
        spans = list(otlp.items(request))
        assert len(spans) == len(table)
        assert [span.trace_id or bytes(16) for span in spans] == [bytes(row) for row in table.trace_id]
        assert [span.span_id or bytes(8) for span in spans] == [bytes(row) for row in table.span_id]
        assert [span.parent_span_id or bytes(8) for span in spans] == [
            bytes(row) for row in table.parent_span_id
        ]
        assert [span.start_time_unix_nano for span in spans] == table.start_time_unix_nano.tolist()
        assert [span.end_time_unix_nano for span in spans] == table.end_time_unix_nano.tolist()
        assert [span.kind for span in spans] == table.kind.tolist()
        assert [span.status.code for span in spans] == table.status_code.tolist()
        assert [span.flags for span in spans] == table.flags.tolist()
        assert [span.name for span in spans] == table.name.tolist()
        assert [len(span.attributes) for span in spans] == table.attribute_count.tolist()
        assert [len(span.events) for span in spans] == table.event_count.tolist()
        assert [len(span.links) for span in spans] == table.link_count.tolist()

    @given(request=otlp.requests[Signal.TRACES])
    def test_any_request_gives_the_columns_protobuf_reads(self, request: Any) -> None:
        """Every column equals the field of Google's parser."""
        self.check(request)

    def test_capture_gives_the_columns_protobuf_reads(self, astronomy: list[bytes]) -> None:
        """The same on real spans of eleven services."""
        for message in astronomy[:60]:
            self.check(otlp.decode(Signal.TRACES, message))

    def test_marks_show_exceptions_and_priorities(self) -> None:
        """An event named exception and an attribute named sampling.priority set their bits."""
        plain = otlp.span()
        failed = otlp.span(events=[{"name": "exception"}])
        urgent = otlp.span(attributes={"a": 1, "sampling.priority": 1})
        near = otlp.span(attributes={"sampling.prioritz": 1}, events=[{"name": "exceptions"}])
        table = SpanTable(Signal.TRACES, otlp.traces(plain, failed, urgent, near).SerializeToString())
        assert [0, 1, 2, 0] == table.marks.tolist()

    def test_a_verdict_that_was_written_is_what_emit_reads(self) -> None:
        """The verdicts are the one column to write to."""
        table = SpanTable(Signal.TRACES, otlp.traces(otlp.span("a"), otlp.span("b")).SerializeToString())
        table.verdict[0] = 1
        assert ["b"] == [span.name for span in otlp.items(otlp.decode(Signal.TRACES, table.emit()))]

    @pytest.mark.parametrize("signal", SIGNALS)
    def test_counts_equal_those_of_protobuf(self, signal: Signal) -> None:
        """Rows are counted as protobuf counts items, in all signals."""

        @given(request=otlp.requests[signal])
        def check(request: Any) -> None:
            assert len(list(otlp.items(request))) == len(SpanTable(signal, request.SerializeToString()))

        check()

    def test_name_behind_the_points_is_found(self) -> None:
        """A metric's name counts wherever its field stands."""
        request = otlp.sums("requests", otlp.NumberDataPoint(as_int=1))
        metric = request.resource_metrics[0].scope_metrics[0].metrics[0]
        name, data = b"\x0a\x08requests", metric.SerializeToString().removeprefix(b"\x0a\x08requests")
        raw = b"".join(reversed([name, data]))
        for tag in (b"\x12", b"\x12", b"\x0a"):
            raw = tag + bytes([len(raw)]) + raw
        assert "requests" == SpanTable(Signal.METRICS, raw).name[0]


class TestMalformed:
    """Bad bytes are refused with the place, and cost nothing else."""

    @pytest.mark.parametrize("signal", SIGNALS)
    def test_every_truncation_is_whole_or_refused_in_bounds(self, signal: Signal) -> None:
        """A prefix is either a message that protobuf reads too, or malformed at an offset within it."""

        @settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
        @given(request=otlp.requests[signal])
        def check(request: Any) -> None:
            data = request.SerializeToString()
            for length in range(len(data)):
                prefix = data[:length]
                try:
                    SpanTable(signal, prefix)
                except MalformedInput as error:
                    assert 0 <= error.offset <= length
                    with pytest.raises(DecodeError):
                        otlp.decode(signal, prefix)
                else:
                    otlp.decode(signal, prefix)

        check()

    @pytest.mark.parametrize("size", [1, 15, 17, 32])
    def test_trace_id_of_wrong_length_is_malformed(self, size: int) -> None:
        """The message says what was expected."""
        request = otlp.traces(otlp.span(trace_id=b"x" * size))
        with pytest.raises(MalformedInput, match=r"otlp traces: trace id must be 16 bytes at byte \d+"):
            SpanTable(Signal.TRACES, request.SerializeToString())

    def test_nesting_past_the_limit_is_refused(self) -> None:
        """A value nested a thousand times neither crashes nor passes."""
        value = otlp.AnyValue()
        data = value.SerializeToString()
        for _ in range(1000):
            inner = b"\x0a" + varint(len(data)) + data
            data = b"\x2a" + varint(len(inner)) + inner
        record = b"\x2a" + varint(len(data)) + data
        for tag in (b"\x12", b"\x12", b"\x0a"):
            record = tag + varint(len(record)) + record
        with pytest.raises(LimitExceeded, match="nested too deeply"):
            SpanTable(Signal.LOGS, record)

    def test_mutated_bytes_never_pass_what_protobuf_refuses(self) -> None:
        """Flipped bytes are accepted only if Google's parser, UTF-8 apart, accepts them."""
        random_source = random.Random(7)
        golden = otlp.traces(
            otlp.span("a", attributes={"k": "v", "n": 3}), otlp.span("b", events=[{"name": "exception"}])
        ).SerializeToString()
        refused = 0
        for _ in range(3000):
            data = bytearray(golden)
            for _ in range(random_source.randint(1, 3)):
                data[random_source.randrange(len(data))] = random_source.randrange(256)
            try:
                SpanTable(Signal.TRACES, bytes(data))
            except (MalformedInput, LimitExceeded):
                refused += 1
            else:
                assert parses(bytes(data))
        assert refused > 300


def varint(value: int) -> bytes:
    """Return value as a protobuf varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def parses(data: bytes) -> bool:
    """Tell whether Google's parser reads data, strings with broken UTF-8 apart."""
    try:
        otlp.decode(Signal.TRACES, data)
    except Exception as error:  # noqa: BLE001 upb and the pure parser raise different types
        return "UTF-8" in str(error) or not _is_ascii(data)
    return True


def _is_ascii(data: bytes) -> bool:
    return all(byte < 0x80 for byte in data)


class TestEmit:
    """What is kept leaves as the bytes it came in."""

    @given(signal=st.sampled_from(SIGNALS), data=st.data())
    def test_untouched_request_is_the_same_bytes(self, signal: Signal, data: st.DataObject) -> None:
        """Nothing dropped, nothing re-encoded."""
        raw = data.draw(otlp.requests[signal]).SerializeToString()
        assert raw == SpanTable(signal, raw).emit()

    @given(signal=st.sampled_from(SIGNALS), data=st.data())
    def test_kept_items_are_byte_identical_and_dropped_ones_gone(
        self, signal: Signal, data: st.DataObject
    ) -> None:
        """Same multiset of items for any choice, no emptied container, everything else as it was."""
        request = data.draw(otlp.requests[signal])
        table = SpanTable(signal, request.SerializeToString())
        choice = data.draw(st.lists(st.integers(0, 1), min_size=len(table), max_size=len(table)))
        if len(table):
            table.verdict[:] = choice
        expected = [
            item for item, dropped in zip(serialized(otlp.items(request)), choice, strict=True) if not dropped
        ]
        out = table.emit()
        kept = otlp.decode(signal, out)
        assert expected == serialized(otlp.items(kept))
        if any(choice) and signal is Signal.TRACES:
            assert all(scope.spans for resource in kept.resource_spans for scope in resource.scope_spans)
        if not expected and any(choice):
            assert out == b""

    def test_capture_survives_any_share(self, hipstershop: bytes) -> None:
        """86,583 real spans: kept ones byte-identical at several shares."""
        table = SpanTable(Signal.TRACES, hipstershop)
        spans = serialized(otlp.items(otlp.decode(Signal.TRACES, hipstershop)))
        generator = numpy.random.default_rng(3)
        for share in (0.001, 0.1, 0.5, 0.99):
            dropped = generator.random(len(spans)) >= share
            table.verdict[:] = dropped
            kept = serialized(otlp.items(otlp.decode(Signal.TRACES, table.emit())))
            assert [span for span, gone in zip(spans, dropped, strict=True) if not gone] == kept

    def test_unknown_fields_survive_at_every_level(self) -> None:
        """Fields of a newer schema pass through request, resource, scope and span."""
        unknown = b"\xba\x3e\x03new"  # field 999
        kept = otlp.span("kept").SerializeToString() + unknown
        dropped = otlp.span("dropped").SerializeToString()
        scope = b"".join(b"\x12" + varint(len(raw)) + raw for raw in (dropped, kept)) + unknown
        resource = b"\x12" + varint(len(scope)) + scope + unknown
        request = unknown + b"\x0a" + varint(len(resource)) + resource
        table = SpanTable(Signal.TRACES, request)
        table.verdict[0] = 1
        out = table.emit()
        assert out.count(unknown) == 4
        assert ["kept"] == [span.name for span in otlp.items(otlp.decode(Signal.TRACES, out))]


def shop() -> SpanTable:
    """Return a table of three spans."""
    return SpanTable(
        Signal.TRACES,
        otlp.traces(
            otlp.span("a", attributes={"route": "/", "n": 7, "ok": True}),
            otlp.span("b", attributes={"n": 1.5}),
            otlp.span("\u00e9", attributes={"route": "/\u00e9", "n": "7"}),
        ).SerializeToString(),
    )


def read(table: SpanTable) -> list[dict[str, Any]]:
    """Return the attributes of each row as protobuf reads them; of a key that comes twice, a list."""
    found = []
    for span in otlp.items(otlp.decode(table.signal, table.emit())):
        values: dict[str, list[Any]] = {}
        for pair in span.attributes:
            field = pair.value.WhichOneof("value")
            values.setdefault(pair.key, []).append(getattr(pair.value, field) if field else None)
        found.append({key: value[0] if len(value) == 1 else value for key, value in values.items()})
    return found


class TestAssignments:
    """A table takes what it can keep, and refuses the rest."""

    @pytest.mark.parametrize("mask", [[True, False, True], [1, 0, 1], numpy.array([1, 0, 1], "int64")])
    def test_mask_becomes_the_verdict(self, mask: Any) -> None:
        """Booleans, or 0 and 1, of any width."""
        table = shop()
        table.verdict = mask
        assert [1, 0, 1] == table.verdict.tolist()
        assert 1 == len(read(table))

    def test_mask_is_copied(self) -> None:
        """What its owner does to it later is no verdict."""
        table, mask = shop(), numpy.zeros(3, "bool")
        table.verdict = mask
        mask[:] = True
        assert 3 == len(read(table))

    def test_verdicts_may_be_joined(self) -> None:
        """`|=` assigns what it has changed."""
        table = shop()
        table.verdict |= table.name == "a"
        table.verdict |= table.name == "b"
        assert [1, 1, 0] == table.verdict.tolist()

    @pytest.mark.parametrize(
        ("value", "error", "message"),
        [
            (
                [True, False],
                ValueError,
                r"table.verdict takes one value a row, shape \(3,\); got shape \(2,\)",
            ),
            (1, ValueError, r"got shape \(\)"),
            ([[True], [True], [False]], ValueError, r"got shape \(3, 1\)"),
            ([0.0, 1.0, 0.0], TypeError, "got float64"),
            ([0, numpy.nan, 1], TypeError, "got float64"),
            ([0, -1, 1], ValueError, "got other numbers"),
            ([0, 2, 1], ValueError, "got other numbers"),
            ([0, 256, 1], ValueError, "got other numbers"),
            (["0", "1", "0"], TypeError, "got <U1"),
            ([None, None, None], TypeError, "got object"),
        ],
    )
    def test_wrong_verdict_is_refused(self, value: Any, error: type[Exception], message: str) -> None:
        """With what was expected and what came; the verdict stays as it was."""
        table = shop()
        table.verdict[1] = 1
        with pytest.raises(error, match=message):
            table.verdict = value
        assert [0, 1, 0] == table.verdict.tolist()

    @pytest.mark.parametrize("value", [2, 255])
    def test_verdict_beyond_its_values_is_told_before_it_counts(self, value: int) -> None:
        """Also where it is written into the array."""
        table = shop()
        table.verdict[2] = value
        with pytest.raises(ValueError, match=rf"table.verdict\[2\] is {value}; 0 keeps a row, 1 drops it"):
            table.emit()

    def test_verdict_of_another_shape_still_counts_for_its_rows(self) -> None:
        """What is done to the array object leaves the bytes behind it."""
        table = shop()
        table.verdict.shape = (3, 1)
        table.verdict[2, 0] = 1
        with pytest.raises(ValueError, match="resize"):
            table.verdict.resize(1, refcheck=False)
        assert 2 == len(read(table))

    @pytest.mark.parametrize("name", ["kind", "name", "trace_id", "data", "signal", "_n_rows", "anything"])
    def test_nothing_else_can_be_assigned_or_deleted(self, name: str) -> None:
        """A column that is shadowed would be a lie."""
        table = shop()
        with pytest.raises(AttributeError, match=f"table.{name} cannot be assigned"):
            setattr(table, name, [1, 1, 1])
        with pytest.raises(AttributeError, match=f"table.{name} cannot be deleted"):
            delattr(table, name)

    def test_every_column_but_the_verdict_is_read_only(self) -> None:
        """A write would be lost."""
        table = shop()
        names = [*COLUMNS, "name", "scope_name", "severity_text", "body"]
        for name in names:
            column = getattr(table, name)
            assert column is getattr(table, name)
            with pytest.raises(ValueError, match="read-only"):
                column[...] = 0
        with pytest.raises(AttributeError, match="a table has no column 'nmae'"):
            _ = table.nmae

    def test_columns_outlive_their_table(self) -> None:
        """An array owns what it shows."""
        columns = [(shop().start_time_unix_nano, shop().trace_id) for _ in range(100)]
        for start, trace_id in columns:
            assert [1_700_000_000_000_000_000] * 3 == start.tolist()
            assert bytes(range(1, 17)) * 3 == trace_id.tobytes()


class TestValues:
    """Texts and numbers of rows."""

    def test_texts_and_numbers_of_attributes(self) -> None:
        """Text of any value, None where there is none; numbers only of numbers."""
        table = shop()
        assert ["a", "b", "\u00e9"] == table.name.tolist()
        assert ["/", None, "/\u00e9"] == table.attribute("route").tolist()
        assert ["7", "1.5", "7"] == table.attribute("n").tolist()
        assert ["true", None, None] == table.attribute("ok").tolist()
        assert ["shop"] * 3 == table.resource_attribute("service.name").tolist()
        assert ["test"] * 3 == table.scope_name.tolist()
        assert [None] * 3 == table.resource_attribute("route").tolist() == table.body.tolist()
        numpy.testing.assert_array_equal([7, 1.5, numpy.nan], table.number("n"))
        assert [True, False, False] == (table.attribute("route") == "/").tolist()

    def test_texts_of_log_records(self) -> None:
        """Body and severity; a body that is a map is JSON."""
        body = otlp.AnyValue(kvlist_value={"values": [otlp.attribute("k", 1)]})
        records = [
            otlp.LogRecord(severity_text="INFO", body=otlp.AnyValue(string_value="hello")),
            otlp.LogRecord(body=body),
            otlp.LogRecord(),
        ]
        table = SpanTable(Signal.LOGS, otlp.logs(*records).SerializeToString())
        assert ["INFO", "", ""] == table.severity_text.tolist()
        assert ["hello", '{"k":1}', ""] == table.body.tolist()

    @given(signal=st.sampled_from(SIGNALS), data=st.data())
    def test_first_of_a_key_is_the_value(self, signal: Signal, data: st.DataObject) -> None:
        """Of any request, as protobuf reads it."""
        request = data.draw(otlp.requests[signal])
        table = SpanTable(signal, request.SerializeToString())
        pairs = [pair for item in otlp.items(request) for pair in item.attributes]
        key = data.draw(st.sampled_from([pair.key for pair in pairs])) if pairs else "k"
        expected: list[Any] = []
        numbers: list[float] = []
        for item in otlp.items(request):
            first = next((pair.value for pair in item.attributes if pair.key == key), None)
            field = first and first.WhichOneof("value")
            expected.append(first.string_value if field == "string_value" else first is not None)
            is_number = field in ("int_value", "double_value")
            numbers.append(float(getattr(first, field)) if is_number else numpy.nan)
        found = table.attribute(key).tolist()
        texts = [
            text if isinstance(wanted, str) else text is not None
            for text, wanted in zip(found, expected, strict=True)
        ]
        assert expected == texts
        numpy.testing.assert_array_equal(numbers, table.number(key))


class TestEdits:
    """Attributes that a processor changes."""

    def test_value_for_all_and_for_each(self) -> None:
        """What is there is replaced in its place, what is not comes last; None leaves a row alone."""
        table = shop()
        table.set_attribute("route", "x")
        table.set_attribute("new", [1, None, True], where=[True, True, False])
        table.set_attribute("real", numpy.array([0.5, 1.0, 2.0]))
        assert [
            {"route": "x", "n": 7, "ok": True, "new": 1, "real": 0.5},
            {"n": 1.5, "route": "x", "real": 1.0},
            {"route": "x", "n": "7", "real": 2.0},
        ] == read(table)
        assert ["x"] * 3 == table.attribute("route").tolist()
        assert [5, 3, 3] == table.attribute_count.tolist()

    def test_types_of_equal_values_stay_apart(self) -> None:
        """1, 1.0 and True are three values."""
        table = shop()
        table.set_attribute("v", [1, 1.0, True])
        assert [int, float, bool] == [type(values["v"]) for values in read(table)]

    def test_texts_of_a_column_can_be_set(self) -> None:
        """A copy of an attribute under another name, where it is there."""
        table = shop()
        table.set_attribute("copy", table.attribute("route"))
        assert ["/", None, "/\u00e9"] == [values.get("copy") for values in read(table)]

    def test_deleted_attribute_is_gone_wherever_it_stands(self) -> None:
        """All of its key, in the rows that where chooses."""
        span = otlp.span(attributes={"a": 1, "b": 2})
        span.attributes.append(otlp.attribute("a", "again"))
        table = SpanTable(Signal.TRACES, otlp.traces(span, span).SerializeToString())
        table.delete_attribute("a", where=[False, True])
        assert [{"a": [1, "again"], "b": 2}, {"b": 2}] == read(table)
        table.delete_attribute("a")
        assert [{"b": 2}, {"b": 2}] == read(table)
        table.delete_attribute("a")
        assert [None, None] == table.attribute("a").tolist()

    def test_verdicts_survive_edits(self) -> None:
        """Rows keep their numbers."""
        table = shop()
        table.verdict[0] = 1
        table.set_attribute("late", "yes")
        table.verdict[1] = 1
        assert [{"route": "/\u00e9", "n": "7", "late": "yes"}] == read(table)

    @pytest.mark.parametrize(
        ("values", "where", "error", "message"),
        [
            ([1, 2], None, ValueError, "values must be one, or one for each of 3 rows; got 2"),
            ([b"x"] * 3, None, TypeError, "an attribute is a str, bool, int or float; got bytes"),
            (object(), None, TypeError, "got object"),
            ({"a": 1, "b": 2, "c": [3]}.values(), None, TypeError, "got list"),
            (2**63, None, OverflowError, "too big|bit"),
            ("\ud800", None, UnicodeEncodeError, "surrogates not allowed"),
            (1, [1, 0, 1], TypeError, "where takes booleans; got int64"),
            (1, [True], ValueError, r"where takes one value a row, shape \(3,\); got shape \(1,\)"),
            (1, True, ValueError, r"got shape \(\)"),
        ],
    )
    def test_wrong_values_change_nothing(
        self, values: Any, where: Any, error: type[Exception], message: str
    ) -> None:
        """With what was expected and what came."""
        table = shop()
        before = table.data
        with pytest.raises(error, match=message):
            table.set_attribute("k", values, where)
        assert before == table.data

    @given(signal=st.sampled_from(SIGNALS), data=st.data())
    def test_any_request_is_edited_as_protobuf_would(self, signal: Signal, data: st.DataObject) -> None:
        """Of each chosen item the first of the key has the value or comes last; all else is as it was."""
        request = data.draw(otlp.requests[signal])
        table = SpanTable(signal, request.SerializeToString())
        items = list(otlp.items(request))
        pairs = [pair for item in items for pair in item.attributes]
        key = data.draw(st.sampled_from([pair.key for pair in pairs])) if pairs else "k"
        where = data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
        table.set_attribute(key, "set", numpy.array(where, "bool"))
        for item, is_chosen in zip(items, where, strict=True):
            first = next((pair for pair in item.attributes if pair.key == key), None)
            if is_chosen and first is not None:
                first.CopyFrom(otlp.attribute(key, "set"))
            elif is_chosen:
                item.attributes.append(otlp.attribute(key, "set"))
        assert serialized(items) == serialized(otlp.items(otlp.decode(signal, table.emit())))
        table.delete_attribute(key)
        for item in items:
            kept = [pair for pair in item.attributes if pair.key != key]
            del item.attributes[:]
            item.attributes.extend(kept)
        assert serialized(items) == serialized(otlp.items(otlp.decode(signal, table.emit())))
