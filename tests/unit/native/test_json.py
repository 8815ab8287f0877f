"""The C JSON reader and writer against Google's protobuf JSON, on generated requests and on real ones."""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.errors import LimitExceeded, MalformedInput
from collector.ids import Signal
from collector.native.json import json_to_otlp, otlp_to_json
from tests.support import otlp

REQUESTS: dict[Signal, type[Message]] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
}
ROOT_KEYS = {
    "resourceSpans": Signal.TRACES,
    "resource_spans": Signal.TRACES,
    "resourceMetrics": Signal.METRICS,
    "resource_metrics": Signal.METRICS,
    "resourceLogs": Signal.LOGS,
    "resource_logs": Signal.LOGS,
}
ID_SIZES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
ID_KEYS = {"traceId", "spanId", "parentSpanId", *ID_SIZES}
ID_LENGTHS = {0, 16, 32}
CORPUS = Path(os.environ.get("SPANSIEVE_CORPUS", Path(__file__).parents[3].parent / "shared" / "corpus"))

INTEGERS = {
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_FIXED64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_SINT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED32: (0, 2**32 - 1),
}
TEXTS = [
    "",
    "a",
    "GET /cart",
    'quo"ted',
    "back\\slash",
    "\n\t\r\x00\x1f\x7f",
    "h\u00e9",
    "\u20ac",
    "\U0001f600",
    "x" * 200,
]
DOUBLES = [0.0, -0.0, 1.0, 0.1, -2.5, 1e22, 1e-7, 5e-324, 1.7976931348623157e308, math.inf, -math.inf]


def scalar(random: Random, field: FieldDescriptor) -> Any:
    """Return a value for a field of a scalar type: one of the extremes, or any."""
    if field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        return random.choice([0, 1, low, high, random.randint(low, high), random.randint(0, 300)])
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return random.choice(
            [*DOUBLES, random.random(), random.gauss(0, 1e6), random.randint(-(2**60), 2**60) / 64]
        )
    if field.type == FieldDescriptor.TYPE_BOOL:
        return random.random() < 0.5
    if field.type == FieldDescriptor.TYPE_ENUM:
        return random.choice([value.number for value in field.enum_type.values])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return random.randbytes(
            random.choice([0, ID_SIZES[field.name]]) if field.name in ID_SIZES else random.randint(0, 9)
        )
    return random.choice(TEXTS)


def is_repeated(message: Message, field: FieldDescriptor) -> bool:
    """Return whether field is an array, in every version of protobuf."""
    return hasattr(getattr(message, field.name), "append")


def fill(random: Random, message: Message, depth: int = 0) -> None:
    """Set some of message's fields; a later member of a oneof takes the place of an earlier one."""
    for field in message.DESCRIPTOR.fields:
        leads_to_items = depth < 3 and field.message_type is not None
        if depth > 11 or not (leads_to_items or random.random() < 0.6):
            continue
        child = getattr(message, field.name)
        count = random.choice([1, 1, 2, 3]) if is_repeated(message, field) else 1
        if field.message_type is not None:
            for _ in range(count):
                one = child.add() if is_repeated(message, field) else child
                one.SetInParent()
                fill(random, one, depth + (1 if depth < 5 else 2))
        elif is_repeated(message, field):
            child.extend(scalar(random, field) for _ in range(count))
        else:
            setattr(message, field.name, scalar(random, field))


def sample(random: Random) -> tuple[Signal, Message]:
    """Return a signal and a random request of it."""
    signal = random.choice(list(Signal))
    message = REQUESTS[signal]()
    fill(random, message)
    return signal, message


def with_ids(value: Any, convert: Any) -> Any:
    """Return value, decoded JSON, with convert applied to each id."""
    if isinstance(value, dict):
        return {
            key: convert(item) if key in ID_KEYS and isinstance(item, str) else with_ids(item, convert)
            for key, item in value.items()
        }
    return [with_ids(item, convert) for item in value] if isinstance(value, list) else value


def hex_from_base64(text: str) -> str:
    """Return an id as OTLP/JSON has it."""
    return base64.b64decode(text).hex()


def base64_from_hex(text: str) -> str:
    """Return an id as protobuf JSON has it."""
    return base64.b64encode(bytes.fromhex(text)).decode()


def parse(signal: Signal, data: bytes) -> Message:
    """Return the message that data serializes."""
    return REQUESTS[signal].FromString(data)


# True randomness: one seed makes a whole request, with every kind of field, where drawing each value would not.
RANDOMS = st.randoms(use_true_random=True)
many = settings(max_examples=100, deadline=None)


@many
@given(RANDOMS, st.booleans(), st.booleans())
def test_googles_json_is_read_to_googles_bytes(random: Random, snake_case: bool, enum_numbers: bool) -> None:
    """JSON of Google's writer is read to exactly the bytes of Google's serializer, in either spelling."""
    signal, message = sample(random)
    value = json_format.MessageToDict(
        message, preserving_proto_field_name=snake_case, use_integers_for_enums=enum_numbers
    )
    text = json.dumps(with_ids(value, hex_from_base64), indent=2 if snake_case else None)
    assert message.SerializeToString(deterministic=True) == json_to_otlp(signal, text.encode())


@many
@given(RANDOMS)
def test_our_json_is_read_by_google_to_the_same_message(random: Random) -> None:
    """What the writer writes means to Google's parser what the bytes meant."""
    signal, message = sample(random)
    text = otlp_to_json(signal, message.SerializeToString())
    value = json.loads(text, parse_int=lambda digits: -0.0 if digits == "-0" else int(digits))
    assert message == json_format.ParseDict(with_ids(value, base64_from_hex), REQUESTS[signal]())


@many
@given(RANDOMS)
def test_round_trip_keeps_the_message(random: Random) -> None:
    """Bytes to JSON to bytes is the same message."""
    signal, message = sample(random)
    assert message == parse(signal, json_to_otlp(signal, otlp_to_json(signal, message.SerializeToString())))


@given(st.floats())
def test_doubles_survive_exactly(value: float) -> None:
    """Every double is written as a number that Python, too, reads as that double; NaN stays NaN."""
    message = ExportMetricsServiceRequest()
    message.resource_metrics.add().scope_metrics.add().metrics.add().gauge.data_points.add().as_double = value
    text = otlp_to_json(Signal.METRICS, message.SerializeToString())
    back = parse(Signal.METRICS, json_to_otlp(Signal.METRICS, text))
    if math.isnan(value):
        assert b'"asDouble":"NaN"' in text
    else:
        assert message.SerializeToString() == back.SerializeToString()
        written = text.split(b'"asDouble":')[1].split(b"}")[0].strip(b'"').decode()
        assert value == float(written)


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_decimals_become_the_nearest_double(text: str) -> None:
    """A number of any length is rounded as Python rounds it; what is too large is refused."""
    gauge = f'{{"gauge":{{"dataPoints":[{{"asDouble":{text}}}]}}}}'
    request = f'{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{gauge}]}}]}}]}}'
    if math.isinf(float(text)):
        with pytest.raises(MalformedInput, match="too large for a double"):
            json_to_otlp(Signal.METRICS, request.encode())
        return
    message = parse(Signal.METRICS, json_to_otlp(Signal.METRICS, request.encode()))
    assert isinstance(message, ExportMetricsServiceRequest)
    point = message.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points[0]
    assert math.copysign(1, float(text)) == math.copysign(1, point.as_double)
    assert float(text) == point.as_double


class TestErrors:
    """How a bad request is reported."""

    def test_base64_trace_id_is_named(self) -> None:
        """A base64 id, the commonest mistake of senders, is named with its place."""
        text = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"S/kvNXezTaajzpKdDg5HNg=="}]}]}]}'
        with pytest.raises(MalformedInput) as raised:
            json_to_otlp(Signal.LOGS, text)
        assert text.index(b'"S/kv') == raised.value.offset
        message = "otlp json logs: trace id must be 32 hex digits; this looks like base64 at byte 57"
        assert message == str(raised.value)

    def test_truncated_protobuf_is_malformed(self) -> None:
        """Bytes that run past their end are refused with their offset."""
        with pytest.raises(MalformedInput, match="otlp traces: malformed field at byte 0"):
            otlp_to_json(Signal.TRACES, b"\x0a\x05\x0a")

    @pytest.mark.parametrize("n_arrays", [10, 60])
    def test_deep_nesting_is_a_limit(self, n_arrays: int) -> None:
        """A hundred messages in one another, of which an array is two."""
        value = '{"arrayValue":{"values":[' * n_arrays + "{}" + "]}}" * n_arrays
        text = f'{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{value}}}]}}]}}]}}'.encode()
        if n_arrays == 10:
            assert json_to_otlp(Signal.LOGS, text)
        else:
            with pytest.raises(LimitExceeded, match="messages are nested too deeply"):
                json_to_otlp(Signal.LOGS, text)

    @pytest.mark.parametrize("depth", [1, 7, 8, 9, 64, 100_000])
    def test_what_is_skipped_may_be_as_deep_as_it_likes(self, depth: int) -> None:
        """It goes nowhere, and no stack is needed for it; its grammar is looked at all the same."""
        deep = b'{"a":1,"b":[' * depth + b"]}" * depth
        assert b"" == json_to_otlp(Signal.LOGS, b'{"x":' + deep + b"}")
        mixed = deep.replace(b"]}", b"}]", 1)
        with pytest.raises(MalformedInput, match="expected a value|expected ',' or '.'"):
            json_to_otlp(Signal.LOGS, b'{"x":' + mixed + b"}")
        with pytest.raises(MalformedInput, match="body ends early"):
            json_to_otlp(Signal.LOGS, b'{"x":' + deep[:-1])

    def test_byte_order_mark_is_no_part_of_the_text(self) -> None:
        """RFC 8259 lets a reader ignore one; only at the beginning."""
        assert b"" == json_to_otlp(Signal.LOGS, "\ufeff {}".encode())
        for text in ("\ufeff\ufeff{}", "{}\ufeff", "{\ufeff}"):
            with pytest.raises(MalformedInput):
                json_to_otlp(Signal.LOGS, text.encode())

    @pytest.mark.parametrize(
        ("first", "expected"),
        [
            ('"name":"a"', {"name": ""}),
            ('"traceId":"4bf92f3577b34da6a3ce929d0e0e4736"', {"trace_id": b""}),
            ('"kind":2', {"kind": 0}),
            ('"startTimeUnixNano":"5"', {"start_time_unix_nano": 0}),
            ('"flags":5', {"flags": 0}),
            ('"status":{"code":2}', {"status": Status(code=Status.STATUS_CODE_ERROR)}),
            ('"events":[{}]', {"events": [Span.Event()]}),
        ],
    )
    def test_null_behind_a_value_of_its_key_takes_a_scalar_back(
        self, first: str, expected: dict[str, Any]
    ) -> None:
        """The last of two counts, and null is no value; arrays and messages of one key are put together."""
        key = first.partition(":")[0]
        text = f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{first},{key}:null}}]}}]}}]}}'
        (span,) = otlp.items(otlp.decode(Signal.TRACES, json_to_otlp(Signal.TRACES, text.encode())))
        assert Span(**expected) == span

    def test_empty_request_is_empty(self) -> None:
        """An empty object is an empty request, and the reverse."""
        assert b"" == json_to_otlp(Signal.LOGS, b"{}")
        assert b"{}" == otlp_to_json(Signal.LOGS, b"")


def json_values(text: str) -> Iterator[Any]:
    """Yield the JSON values that stand one behind the other in text, up to the first that is none."""
    decoder = json.JSONDecoder()
    text = text.strip()
    while text:
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            return
        yield value
        text = text[end:].lstrip()


def requests_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the OTLP requests anywhere in value."""
    if isinstance(value, dict) and ROOT_KEYS.keys() & value.keys():
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from requests_in(item)


def ids_in(value: Any) -> Iterator[str]:
    """Yield the ids anywhere in value."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ID_KEYS and isinstance(item, str):
                yield item
            else:
                yield from ids_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from ids_in(item)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus here")
def test_corpus_is_read_as_google_reads_it() -> None:
    """Every request of the corpus is read to what Google's parser makes of it; what both refuse is malformed."""
    agreed = 0
    for path in sorted(CORPUS.rglob("*.json*")):
        for value in json_values(path.read_text(encoding="utf-8", errors="replace")):
            for request in requests_in(value):
                signal = next(ROOT_KEYS[key] for key in request if key in ROOT_KEYS)
                text = json.dumps(request).encode()
                try:
                    ours = parse(signal, json_to_otlp(signal, text))
                except MalformedInput as error:
                    # Only the collection of invalid cases may hold what we refuse.
                    assert "fluent-bit" in str(path), f"{path}: {error}"
                    continue
                assert {len(text) for text in ids_in(request)} <= ID_LENGTHS
                expected = json_format.ParseDict(
                    with_ids(request, base64_from_hex), REQUESTS[signal](), ignore_unknown_fields=True
                )
                # As bytes, since a NaN is not equal to itself.
                assert expected.SerializeToString() == ours.SerializeToString()
                agreed += 1
    assert agreed > 100
