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
from collector.native.table import SpanTable
from tests.support import otlp

SIGNALS = list(Signal)


def serialized(items: Any) -> list[bytes]:
    """Return each item's bytes."""
    return [item.SerializeToString() for item in items]


class TestScan:
    """The columns are what protobuf reads."""

    def check(self, request: Any) -> None:
        """Compare all columns of a trace request."""
        table = SpanTable.scan(Signal.TRACES, request.SerializeToString())
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
        assert [span.name for span in spans] == [table.name(row) for row in range(len(table))]
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
        table = SpanTable.scan(Signal.TRACES, otlp.traces(plain, failed, urgent, near).SerializeToString())
        assert [0, 1, 2, 0] == table.marks.tolist()

    def test_columns_are_views_of_native_memory(self) -> None:
        """Nothing is copied: a verdict written through numpy is what emit reads."""
        table = SpanTable.scan(Signal.TRACES, otlp.traces(otlp.span("a"), otlp.span("b")).SerializeToString())
        assert not table.verdict.flags.owndata
        table.verdict[0] = 1
        assert ["b"] == [span.name for span in otlp.items(otlp.decode(Signal.TRACES, table.emit()))]

    @pytest.mark.parametrize("signal", SIGNALS)
    def test_counts_equal_those_of_protobuf(self, signal: Signal) -> None:
        """Rows are counted as protobuf counts items, in all signals."""

        @given(request=otlp.requests[signal])
        def check(request: Any) -> None:
            assert len(list(otlp.items(request))) == len(SpanTable.scan(signal, request.SerializeToString()))

        check()

    def test_name_behind_the_points_is_found(self) -> None:
        """A metric's name counts wherever its field stands."""
        request = otlp.sums("requests", otlp.NumberDataPoint(as_int=1))
        metric = request.resource_metrics[0].scope_metrics[0].metrics[0]
        name, data = b"\x0a\x08requests", metric.SerializeToString().removeprefix(b"\x0a\x08requests")
        raw = b"".join(reversed([name, data]))
        for tag in (b"\x12", b"\x12", b"\x0a"):
            raw = tag + bytes([len(raw)]) + raw
        assert "requests" == SpanTable.scan(Signal.METRICS, raw).name(0)


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
                    SpanTable.scan(signal, prefix)
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
            SpanTable.scan(Signal.TRACES, request.SerializeToString())

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
            SpanTable.scan(Signal.LOGS, record)

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
                SpanTable.scan(Signal.TRACES, bytes(data))
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
        assert raw == SpanTable.scan(signal, raw).emit()

    @given(signal=st.sampled_from(SIGNALS), data=st.data())
    def test_kept_items_are_byte_identical_and_dropped_ones_gone(
        self, signal: Signal, data: st.DataObject
    ) -> None:
        """Same multiset of items for any choice, no emptied container, everything else as it was."""
        request = data.draw(otlp.requests[signal])
        table = SpanTable.scan(signal, request.SerializeToString())
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
        table = SpanTable.scan(Signal.TRACES, hipstershop)
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
        table = SpanTable.scan(Signal.TRACES, request)
        table.verdict[0] = 1
        out = table.emit()
        assert out.count(unknown) == 4
        assert ["kept"] == [span.name for span in otlp.items(otlp.decode(Signal.TRACES, out))]
