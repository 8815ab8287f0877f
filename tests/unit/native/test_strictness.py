"""What a receiver passes on, every parser behind it takes: what some would refuse costs its item, or its request.

A backend that reads as the Collector does refuses a whole batch for one field that has another wire type than OTLP
gives it. The oracles are Google's protobuf (upb) and a reader of our own that is as strict as the Collector's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from collector.ids import Signal
from tests.conformance.bodies import varint
from tests.interop import mutations
from tests.support import otlp
from tests.support.door import Door

INVALID_ARGUMENT = 3
POINTS = ("Number", "Histogram", "ExponentialHistogram", "Summary")
ITEMS = {"Span", "LogRecord", *(f"{kind}DataPoint" for kind in POINTS)}


class Case(NamedTuple):
    """A field with a wire type that it cannot have, the numbers of the fields around it, and its path."""

    signal: Signal
    around: tuple[int, ...]
    path: str
    bad: bytes
    is_in_item: bool


VALUES = {0: b"\x05", 1: bytes(8), 2: b"\x00", 3: b"\x08\x05", 4: b"", 5: bytes(4)}


def _wrong(field: FieldDescriptor) -> Iterator[bytes]:
    for wire in {*VALUES} - mutations.wire_types(field):
        end = varint(field.number << 3 | 4) if wire == 3 else b""
        yield varint(field.number << 3 | wire) + VALUES[wire] + end


def _places(signal: Signal) -> Iterator[tuple[Descriptor, tuple[int, ...], str, bool]]:
    """Yield each message: where it stands, by numbers and by names; in items and outside of them."""
    waiting: list[tuple[Any, tuple[int, ...], str, bool]] = [
        (otlp.REQUESTS[signal].DESCRIPTOR, (), "", False)
    ]
    seen = set()
    for descriptor, around, path, is_within in waiting:
        is_in_item = is_within or descriptor.name in ITEMS
        if (descriptor.full_name, is_in_item) in seen:
            continue
        seen.add((descriptor.full_name, is_in_item))
        yield descriptor, around, path, is_in_item
        waiting += [
            (
                field.message_type,
                (*around, field.number),
                f"{path}{field.json_name}{'[0]' if field.is_repeated else ''}.",
                is_in_item,
            )
            for field in descriptor.fields
            if field.message_type is not None
        ]


def _cases() -> Iterator[Case]:
    for signal in Signal:
        for descriptor, around, path, is_in_item in _places(signal):
            for field in descriptor.fields:
                name = f"{path}{field.json_name}{'[0]' if field.is_repeated else ''}"
                for bad in _wrong(field):
                    yield Case(signal, around, name, bad, is_in_item)
            group = varint(15000 << 3 | 3) + varint(15000 << 3 | 4)
            yield Case(signal, around, f"{path}field 15000", group, is_in_item)


def _wrap(around: tuple[int, ...], body: bytes) -> bytes:
    for number in reversed(around):
        body = varint(number << 3 | 2) + varint(len(body)) + body
    return body


GOOD = {
    Signal.TRACES: otlp.traces(otlp.span("good")),
    Signal.METRICS: otlp.sums("good", NumberDataPoint(as_int=1)),
    Signal.LOGS: otlp.logs(LogRecord(severity_text="good")),
}


def test_known_field_with_another_wire_type_costs_its_item_or_its_request() -> None:
    """Every field of every message that is passed on: the neighbours of the item are taken, the path is told."""
    door = Door()
    n_cases = 0
    for case in _cases():
        n_cases += 1
        good = GOOD[case.signal].SerializeToString()
        verdict, passed = door.send(case.signal, _wrap(case.around, case.bad) + good)
        if case.is_in_item:
            assert (0, 1) == (verdict.code, verdict.rejected_items), case
            path = case.path if case.path.count(".") < 12 else case.path[:60]
            assert (
                f": {path}: wire type {case.bad[0] & 7}" in verdict.message or "field 15000" in case.path
            ), case
            assert [good] == passed, case
        else:
            assert (INVALID_ARGUMENT, []) == (verdict.code, passed), case
            assert f"otlp {case.signal.value}: {case.path}: " in verdict.message, (case, verdict)
    assert n_cases > 1000


def test_all_or_nothing_refuses_the_request() -> None:
    """With `invalid_items: reject_request` the same costs every item."""
    door = Door(rejects_requests=True)
    for case in _cases():
        verdict, passed = door.send(
            case.signal, _wrap(case.around, case.bad) + GOOD[case.signal].SerializeToString()
        )
        assert (INVALID_ARGUMENT, []) == (verdict.code, passed), case


def test_log_request_on_the_path_of_traces_is_refused() -> None:
    """What a log exporter sends to `/v1/traces`: nothing of it may reach a batch of others."""
    body = bytes.fromhex("0a16121412120905000000000000002a070a0568656c6c6f")
    verdict, passed = Door().send(Signal.TRACES, body)
    assert (INVALID_ARGUMENT, []) == (verdict.code, passed)
    place = "resourceSpans[0].scopeSpans[0].spans[0].traceId"
    assert f"otlp traces: {place}: wire type 1 is none that it can have, at byte 6" == verdict.message


def _nested(n_arrays: int, signal: Signal, around: tuple[int, ...]) -> bytes:
    """Return a request with one attribute, under the last of the numbers, of arrays in one another."""
    value = b"\x0a\x01x"
    for _ in range(n_arrays):
        value = _wrap((5, 1), value)
    return _wrap((*around, 2), value) + GOOD[signal].SerializeToString()


@pytest.mark.parametrize(
    ("signal", "around"),
    [
        (Signal.TRACES, (1, 2, 2, 9)),
        (Signal.TRACES, (1, 2, 2, 11, 3)),
        (Signal.TRACES, (1, 2, 2, 13, 4)),
        (Signal.METRICS, (1, 2, 2, 5, 1, 7)),
        (Signal.METRICS, (1, 2, 2, 7, 1, 5, 7)),
        (Signal.LOGS, (1, 2, 2, 6)),
    ],
)
def test_item_is_nested_as_deep_as_parsers_take(signal: Signal, around: tuple[int, ...]) -> None:
    """A hundred messages in one another are Google's limit; an item that is deeper is rejected alone."""
    door = Door()
    verdicts = set()
    for depth in range(40, 60):
        body = _nested(depth, signal, around)
        verdict, passed = door.send(signal, body)
        try:
            otlp.decode(signal, body)
        except DecodeError:
            assert (0, 1) == (verdict.code, verdict.rejected_items)
            assert [GOOD[signal].SerializeToString()] == passed
        else:
            assert (0, 0, [body]) == (verdict.code, verdict.rejected_items, passed)
        verdicts.add(verdict.rejected_items)
    assert {0, 1} == verdicts


@pytest.mark.parametrize("padding", range(10))
@pytest.mark.parametrize("what", ["tag", "length", "value"])
def test_padded_varints_are_taken_as_parsers_take_them(what: str, padding: int) -> None:
    """A varint may be longer than it need be: of a value up to 10 bytes, of a tag or a length 5."""

    def pad(value: int, is_padded: bool) -> bytes:
        number = varint(value)
        return (
            number[:-1] + bytes([number[-1] | 0x80, *[0x80] * (padding - 1), 0])
            if is_padded and padding
            else number
        )

    text = pad(5 << 3 | 2, what == "tag") + pad(1, what == "length") + b"x"
    kind = b"\x30" + pad(1, what == "value")
    body = _wrap((1, 2, 2), text + kind)
    verdict, passed = Door().send(Signal.TRACES, body)
    try:
        otlp.decode(Signal.TRACES, body)
    except DecodeError:
        assert (INVALID_ARGUMENT, []) == (verdict.code, passed)
    else:
        assert (0, [body]) == (verdict.code, passed)


@pytest.mark.parametrize("seed", range(8))
def test_what_goes_on_of_damaged_requests_is_read_by_all(seed: int) -> None:
    """Bits flipped, bytes cut, put in and repeated: whatever is taken, is taken by the strictest of readers."""
    rng = random.Random(seed)
    door = Door()
    n_passed = 0
    for _ in range(600):
        signal = rng.choice([*Signal])
        _, passed = door.send(signal, mutations.protobuf(rng, signal))
        for body in passed:
            n_passed += 1
            otlp.decode(signal, body)
            assert not mutations.oddities(signal, body) - {"scopes of old", "dictionary"}, body
    assert n_passed > 50
