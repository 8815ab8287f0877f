"""One bad item does not cost the batch: what is taken, what is told, what is counted, over both transports.

Source: OTLP specification, "Partial Success" and "Full Success"; the cases B25, R44 and R45 of public reports.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Exemplar, NumberDataPoint

from collector.ids import Signal
from collector.receivers.otlp import InvalidItems
from tests.conformance.bodies import GRPC_PATHS, HTTP_PATHS
from tests.conformance.harness import Collector, full_queue
from tests.conformance.peers import GrpcPeer, call_headers, exchange, grpc_frame, http_request
from tests.support import otlp

PROTOBUF, JSON = "application/x-protobuf", "application/json"
INVALID_ARGUMENT, UNAVAILABLE = 3, 14
RESPONSES = {
    Signal.TRACES: ExportTraceServiceResponse,
    Signal.METRICS: ExportMetricsServiceResponse,
    Signal.LOGS: ExportLogsServiceResponse,
}
REJECTED = {
    Signal.TRACES: "rejected_spans",
    Signal.METRICS: "rejected_data_points",
    Signal.LOGS: "rejected_log_records",
}


class Answer(NamedTuple):
    """What a client was told: the code, the items rejected, and the text of the failure or the partial success."""

    code: int
    rejected: int
    message: str


Send = Callable[[Collector, Signal, bytes], Answer]


def _success(signal: Signal, response: Message) -> Answer:
    partial: Any = response.partial_success  # type: ignore[attr-defined]
    return Answer(0, getattr(partial, REJECTED[signal]), partial.error_message)


def _send_grpc(collector: Collector, signal: Signal, body: bytes) -> Answer:
    with GrpcPeer(collector.grpc) as peer:
        answer = peer.call(call_headers(GRPC_PATHS[signal]), grpc_frame(body))
    if answer.status:
        return Answer(answer.status, 0, answer.message)
    return _success(signal, RESPONSES[signal].FromString(answer.body))


def _send_http(collector: Collector, signal: Signal, body: bytes, content_type: str = PROTOBUF) -> Answer:
    answer = exchange(
        collector.http, http_request(HTTP_PATHS[signal], body, [("Content-Type", content_type)])
    )
    assert content_type == answer.headers["content-type"]
    is_json = content_type == JSON
    if answer.status != 200:
        status = status_pb2.Status()
        json_format.Parse(answer.body, status) if is_json else status.ParseFromString(answer.body)
        return Answer(status.code, 0, status.message)
    response = RESPONSES[signal]()
    json_format.Parse(answer.body, response) if is_json else response.ParseFromString(answer.body)
    return _success(signal, response)


def _send_json(collector: Collector, signal: Signal, body: bytes) -> Answer:
    return _send_http(collector, signal, body, JSON)


protobuf_senders = pytest.mark.parametrize("send", [_send_grpc, _send_http], ids=["grpc", "http"])


def _taken(collector: Collector, signal: Signal = Signal.TRACES) -> list[Any]:
    """Return the items that arrived, all readable to Google's protobuf."""
    return [item for body in collector.take(signal) for item in otlp.items(otlp.decode(signal, body))]


def _names(collector: Collector) -> list[str]:
    return [span.name for span in _taken(collector)]


def _json_traces(*spans: dict[str, Any]) -> bytes:
    """Return spans, with ids where none are given, as the JSON of one scope."""
    full = [
        {"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7", **span}
        for span in spans
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": full}]}]}).encode()


def _linked(**ids: bytes) -> Any:
    span = otlp.span("linked")
    span.links.add(**{"trace_id": b"t" * 16, "span_id": b"s" * 8, **ids})
    return span


# ------------------------------------------------------------------------------------------------------------ ids

BAD_SPANS = {
    "trace id of 15": (otlp.span(trace_id=b"t" * 15), "traceId: expected 16 bytes, got 15"),
    "trace id of 17": (otlp.span(trace_id=b"t" * 17), "traceId: expected 16 bytes, got 17"),
    "span id of 1": (otlp.span(span_id=b"s"), "spanId: expected 8 bytes, got 1"),
    "span id of 16": (otlp.span(span_id=b"s" * 16), "spanId: expected 8 bytes, got 16"),
    "parent id of 7": (otlp.span(parent_span_id=b"p" * 7), "parentSpanId: expected 8 bytes, got 7"),
    "linked trace": (_linked(trace_id=b"t" * 8), "links[0].traceId: expected 16 bytes, got 8"),
    "linked span": (_linked(span_id=b"t" * 9), "links[0].spanId: expected 8 bytes, got 9"),
}


@protobuf_senders
@pytest.mark.parametrize("case", BAD_SPANS)
def test_span_with_a_bad_id_is_rejected_alone(case: str, send: Send, collector: Collector) -> None:
    """Its neighbours are taken as they came, and the client is told which span, what was expected, what came."""
    bad, problem = BAD_SPANS[case]
    good = [otlp.span("a"), otlp.span("b")]
    answer = send(collector, Signal.TRACES, otlp.traces(good[0], bad, good[1]).SerializeToString())
    message = f"1 of 3 spans rejected: resourceSpans[0].scopeSpans[0].spans[1].{problem}"
    assert Answer(0, 1, message) == answer
    assert good == _taken(collector)


@protobuf_senders
def test_ids_may_be_absent_or_zero(send: Send, collector: Collector) -> None:
    """No id, an empty one and one of zeros are no reason to reject, as in the Collector."""
    spans = [
        otlp.span("a", trace_id=b"", span_id=b"", parent_span_id=b""),
        otlp.span("b", trace_id=bytes(16), span_id=bytes(8), parent_span_id=bytes(8)),
    ]
    assert Answer(0, 0, "") == send(collector, Signal.TRACES, otlp.traces(*spans).SerializeToString())
    assert spans == _taken(collector)


@protobuf_senders
def test_log_record_with_a_bad_id_is_rejected_alone(send: Send, collector: Collector) -> None:
    """The same for records."""
    good = LogRecord(trace_id=b"t" * 16, span_id=b"s" * 8, severity_text="good")
    bad = LogRecord(trace_id=b"t" * 16, span_id=b"s" * 7)
    answer = send(collector, Signal.LOGS, otlp.logs(bad, good).SerializeToString())
    message = "1 of 2 log records rejected: resourceLogs[0].scopeLogs[0].logRecords[0].spanId: expected 8 bytes, got 7"
    assert Answer(0, 1, message) == answer
    assert [good] == _taken(collector, Signal.LOGS)


@protobuf_senders
def test_data_point_with_a_bad_id_in_an_exemplar_is_rejected_alone(send: Send, collector: Collector) -> None:
    """The same for points, whose exemplars have ids."""
    good = NumberDataPoint(as_int=1, exemplars=[Exemplar(trace_id=b"t" * 16, span_id=b"s" * 8)])
    bad = NumberDataPoint(as_int=2, exemplars=[Exemplar(), Exemplar(trace_id=b"t")])
    answer = send(collector, Signal.METRICS, otlp.sums("m", good, bad, good).SerializeToString())
    message = (
        "1 of 3 data points rejected: resourceMetrics[0].scopeMetrics[0].metrics[0].sum.dataPoints[1]"
        ".exemplars[1].traceId: expected 16 bytes, got 1"
    )
    assert Answer(0, 1, message) == answer
    assert [good, good] == _taken(collector, Signal.METRICS)


@protobuf_senders
def test_first_of_many_bad_items_are_told_with_their_places(send: Send, collector: Collector) -> None:
    """Three of them, wherever they stand; all are counted, and the message has an end."""
    request = otlp.traces(otlp.span("a"))
    request.MergeFrom(otlp.traces(*[otlp.span(trace_id=b"t")] * 50, otlp.span("b")))
    request.resource_spans[1].scope_spans.add(spans=[otlp.span("c")])
    answer = send(collector, Signal.TRACES, request.SerializeToString())
    places = "; ".join(
        f"resourceSpans[1].scopeSpans[0].spans[{place}].traceId: expected 16 bytes, got 1"
        for place in range(3)
    )
    assert Answer(0, 50, f"50 of 53 spans rejected: {places}") == answer
    assert ["a", "b", "c"] == _names(collector)


@protobuf_senders
def test_request_without_a_valid_item_is_refused(send: Send, collector: Collector) -> None:
    """Nothing of it is taken, so the answer is the Collector's, and no partial success."""
    answer = send(collector, Signal.TRACES, otlp.traces(otlp.span(trace_id=b"t")).SerializeToString())
    place = "resourceSpans[0].scopeSpans[0].spans[0].traceId"
    assert Answer(INVALID_ARGUMENT, 0, f"otlp traces: {place}: expected 16 bytes, got 1") == answer
    assert [] == _taken(collector)


@protobuf_senders
def test_broken_framing_costs_the_request(send: Send, collector: Collector) -> None:
    """Where an item ends is not known then, so nothing is taken."""
    body = otlp.traces(otlp.span("a"), otlp.span("b", trace_id=b"t")).SerializeToString()[:-1]
    answer = send(collector, Signal.TRACES, body)
    assert INVALID_ARGUMENT == answer.code
    assert " at byte " in answer.message
    assert [] == _taken(collector)


@protobuf_senders
def test_all_or_nothing_refuses_the_request(send: Send, transport: str) -> None:
    """With `invalid_items: reject_request` one bad id costs the request, as in the Collector."""
    body = otlp.traces(otlp.span("a"), otlp.span(trace_id=b"t")).SerializeToString()
    with Collector(transport, invalid_items=InvalidItems.REJECT_REQUEST) as collector:
        assert INVALID_ARGUMENT == send(collector, Signal.TRACES, body).code
        assert [] == _taken(collector)
        assert 0 == sum(
            value for (name, *_), value in collector.metrics().items() if name.endswith(("spans", "items"))
        )


@protobuf_senders
def test_refused_request_is_no_partial_success(send: Send, transport: str) -> None:
    """Under overload the client is asked to come again with everything, bad items included."""
    body = otlp.traces(otlp.span("a"), otlp.span(trace_id=b"t")).SerializeToString()
    with Collector(transport, consumers=full_queue) as collector:
        assert Answer(UNAVAILABLE, 0, "sending queue is full") == send(collector, Signal.TRACES, body)
        metrics = collector.metrics()
    assert 2 == sum(metrics["otelcol_receiver_refused_spans", way, ""] for way in ("grpc", "http"))
    assert 0 == sum(metrics["spansieve_receiver_rejected_items", way, "traces"] for way in ("grpc", "http"))


# ----------------------------------------------------------------------------------------------------------- json

BAD_JSON_IDS = {
    "31 digits": ("traceId", "4" * 31, f'expected 32 hex digits, got "{"4" * 31}"'),
    "no hex": ("traceId", "g" * 32, f'expected 32 hex digits, got "{"g" * 32}"'),
    "16 characters": ("traceId", "x" * 16, f'expected 32 hex digits, got "{"x" * 16}"'),
    "base64": (
        "traceId",
        base64.b64encode(b"t" * 16).decode(),
        'expected 32 hex digits, got "dHR0dHR0dHR0dHR0dHR0dA==", this looks like base64',
    ),
    "span id of 8 characters": ("spanId", "12345678", 'expected 16 hex digits, got "12345678"'),
    "parent id": ("parentSpanId", "12", 'expected 16 hex digits, got "12"'),
    "long": ("spanId", "é" * 500, f'expected 16 hex digits, got "{"é" * 20}..."'),
}


@pytest.mark.parametrize("case", BAD_JSON_IDS)
def test_json_span_with_a_bad_id_is_rejected_alone(case: str, collector: Collector) -> None:
    """B25, R45: what is no id in hex costs its span, and the answer says where it stands and what it looks like."""
    key, value, problem = BAD_JSON_IDS[case]
    body = _json_traces({"name": "a"}, {"name": "b", key: value}, {"name": "c"})
    answer = _send_json(collector, Signal.TRACES, body)
    message = f"1 of 3 spans rejected: resourceSpans[0].scopeSpans[0].spans[1].{key}: {problem}"
    assert Answer(0, 1, message) == answer
    assert ["a", "c"] == _names(collector)


def test_json_request_without_a_valid_item_is_refused(collector: Collector) -> None:
    """R45: 400, with the path of the field and a hint at base64."""
    body = _json_traces({"traceId": base64.b64encode(b"t" * 16).decode()})
    answer = _send_json(collector, Signal.TRACES, body)
    assert INVALID_ARGUMENT == answer.code
    assert "resourceSpans[0].scopeSpans[0].spans[0].traceId" in answer.message
    assert "this looks like base64" in answer.message
    assert [] == _taken(collector)


def test_json_that_is_none_costs_the_request(collector: Collector) -> None:
    """A fault of the grammar leaves nothing to go on with."""
    body = _json_traces({"name": "a"}, {"traceId": "x"})[:-1]
    assert INVALID_ARGUMENT == _send_json(collector, Signal.TRACES, body).code
    assert [] == _taken(collector)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"kind": {}}, "kind: expected a number at byte "),
        ({"name": 5}, "name: expected a string at byte "),
        ({"events": [{}, {"timeUnixNano": "x"}]}, "events[1].timeUnixNano: expected a number at byte "),
        ({"attributes": {"a": 1}}, "attributes: expected an array at byte "),
        ({"attributes": [{"value": {"arrayValue": {"values": [{}, 1]}}}]},
         "attributes[0].value.arrayValue.values[1]: expected an object at byte "),
    ],
)  # fmt: skip
def test_json_of_another_type_is_told_with_its_path(
    fields: dict[str, Any], problem: str, collector: Collector
) -> None:
    """Where in the request the field stands, what was expected, and at which byte."""
    answer = _send_json(collector, Signal.TRACES, _json_traces({}, {}, fields))
    assert INVALID_ARGUMENT == answer.code
    assert answer.message.startswith(f"otlp traces: resourceSpans[0].scopeSpans[0].spans[2].{problem}")


def test_json_span_that_is_nested_too_deeply_is_rejected_alone(collector: Collector) -> None:
    """Sixty maps in one another are more messages than protobuf's parsers take; the others are taken."""
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
    attributes = [{"key": "k", "value": value}]
    answer = _send_json(
        collector, Signal.TRACES, _json_traces({"name": "a"}, {"attributes": attributes}, {"name": "b"})
    )
    assert (0, 1) == (answer.code, answer.rejected)
    place = "resourceSpans[0].scopeSpans[0].spans[1].attributes[0].value.kvlistValue."
    assert answer.message.startswith(f"1 of 3 spans rejected: {place}")
    assert answer.message.endswith("...: expected at most 100 messages in one another")
    assert ["a", "b"] == _names(collector)


def test_json_ids_are_read_in_either_case_and_numbers_exactly(collector: Collector) -> None:
    """B25: upper-case hex is an id, and 64-bit numbers lose no digit, in quotes or bare."""
    body = _json_traces(
        {"traceId": "4BF92F3577B34DA6A3CE929D0E0E4736", "startTimeUnixNano": "1700000000000000001"},
        {"startTimeUnixNano": 1700000000000000001},
    )
    assert Answer(0, 0, "") == _send_json(collector, Signal.TRACES, body)
    spans = _taken(collector)
    assert [bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")] * 2 == [span.trace_id for span in spans]
    assert [1700000000000000001] * 2 == [span.start_time_unix_nano for span in spans]


@pytest.mark.parametrize("invalid_items", InvalidItems)
def test_json_text_that_is_not_utf8_is_repaired(invalid_items: InvalidItems, transport: str) -> None:
    """Escapes around it are read all the same, and the item is taken, whatever other faults cost."""
    body = _json_traces({"name": "a\\n!b"}, {"name": "c"}).replace(b"!", b"\xff\xfe")
    with Collector(transport, invalid_items=invalid_items) as collector:
        answer = _send_json(collector, Signal.TRACES, body)
        assert Answer(0, 0, "1 text was not UTF-8 and has been repaired") == answer
        assert ["a\\n\ufffd\ufffdb", "c"] == _names(collector)


# ---------------------------------------------------------------------------------------------------------- texts


def _spoilt(request: Message, old: bytes, new: bytes) -> bytes:
    """Return request with old, which stands in it once, replaced by as many bytes of no UTF-8."""
    body = request.SerializeToString()
    assert (1, len(old)) == (body.count(old), len(new))
    return body.replace(old, new)


def _texts() -> Iterator[tuple[str, Signal, Message]]:
    """Yield requests that hold the text `@@@` in one place each."""
    mark = "@@@"
    yield "span name", Signal.TRACES, otlp.traces(otlp.span(f"a{mark}b"))
    yield "tracestate", Signal.TRACES, otlp.traces(otlp.span(trace_state=mark))
    yield "attribute", Signal.TRACES, otlp.traces(otlp.span(attributes={"n": 200, "k": mark, "d": 0.5}))
    yield "attribute of 1 KiB", Signal.TRACES, otlp.traces(otlp.span(attributes={"k": "x" * 1024 + mark}))
    yield "key", Signal.TRACES, otlp.traces(otlp.span(attributes={"a": 1, mark: 300, "b": "x"}))
    yield "resource", Signal.TRACES, otlp.traces(otlp.span(), service=mark)
    status = otlp.span()
    status.status.message = mark
    yield "status message", Signal.TRACES, otlp.traces(status)
    event = otlp.span()
    event.events.add(name=mark, time_unix_nano=1)
    yield "event name", Signal.TRACES, otlp.traces(event)
    event = otlp.span()
    event.events.add(name="e").attributes.append(otlp.attribute("k", mark))
    yield "event attribute", Signal.TRACES, otlp.traces(event)
    linked = otlp.span()
    linked.links.add(trace_id=b"t" * 16, span_id=b"s" * 8, trace_state=mark)
    yield "link", Signal.TRACES, otlp.traces(linked)
    nested = otlp.span()
    pair = nested.attributes.add(key="k").value.kvlist_value.values.add(key="inner")
    pair.value.array_value.values.add(string_value=mark)
    yield "nested value", Signal.TRACES, otlp.traces(nested)
    scope = otlp.traces(otlp.span())
    scope.resource_spans[0].scope_spans[0].scope.version = mark
    yield "scope version", Signal.TRACES, scope
    schema = otlp.traces(otlp.span())
    schema.resource_spans[0].schema_url = mark
    yield "schema url", Signal.TRACES, schema
    yield "metric name", Signal.METRICS, otlp.sums(mark, NumberDataPoint(as_int=1))
    point = NumberDataPoint(as_int=1, attributes=[otlp.attribute("k", mark)])
    yield "point attribute", Signal.METRICS, otlp.sums("m", point)
    exemplar = Exemplar(filtered_attributes=[otlp.attribute(mark, 1)])
    yield "exemplar", Signal.METRICS, otlp.sums("m", NumberDataPoint(exemplars=[exemplar]))
    yield "severity text", Signal.LOGS, otlp.logs(LogRecord(severity_text=mark))
    yield "event name of a record", Signal.LOGS, otlp.logs(LogRecord(event_name=mark))
    record = LogRecord()
    record.body.string_value = mark
    yield "body", Signal.LOGS, otlp.logs(record)
    yield "record attribute", Signal.LOGS, otlp.logs(LogRecord(attributes=[otlp.attribute(mark, True)]))


TEXTS = {name: (signal, request) for name, signal, request in _texts()}


@protobuf_senders
@pytest.mark.parametrize("case", TEXTS)
def test_text_that_is_not_utf8_is_repaired_wherever_it_stands(
    case: str, send: Send, collector: Collector
) -> None:
    """R44: every item is taken, U+FFFD stands for each bad byte, nothing else changes, and the client is told."""
    signal, request = TEXTS[case]
    answer = send(collector, signal, _spoilt(request, b"@@@", b"\xff\xfeA"))
    assert Answer(0, 0, "1 text was not UTF-8 and has been repaired") == answer
    (body,) = collector.take(signal)
    repaired = str(otlp.decode(signal, body))
    assert str(request).replace("@@@", "\ufffd\ufffdA") == repaired


@protobuf_senders
def test_one_bad_text_of_a_hundred_spans_costs_none(send: Send, collector: Collector) -> None:
    """R44, as it was reported: 100 spans come, 100 go on, and one repair is counted."""
    before = collector.metrics()
    spans = [otlp.span(f"span {i}", attributes={"i": i}) for i in range(99)]
    request = otlp.traces(*spans, otlp.span("last", attributes={"k": "@@@"}))
    answer = send(collector, Signal.TRACES, _spoilt(request, b"@@@", b"\xff\xfeA"))
    assert (0, 0) == answer[:2]
    assert 100 == len(_taken(collector))
    after = collector.metrics()
    key = "spansieve_receiver_repaired_texts"
    assert 1 == sum(after[key, way, "traces"] - before[key, way, "traces"] for way in ("grpc", "http"))


@protobuf_senders
@pytest.mark.parametrize("text", ["", "é", "日本語", "😀" * 20, "a" * 31 + "é" + "b" * 40, "\x00\x7f"])
def test_text_that_is_utf8_goes_on_byte_by_byte(text: str, send: Send, collector: Collector) -> None:
    """What needs no repair is not touched, non-canonical encodings and unknown fields included."""
    body = otlp.traces(otlp.span(text, attributes={text: text, "n": 1 << 40})).SerializeToString()
    body += b"\x82\x7d\x01x"
    assert Answer(0, 0, "") == send(collector, Signal.TRACES, body)
    assert [body] == collector.take()


@protobuf_senders
def test_bytes_need_not_be_text(send: Send, collector: Collector) -> None:
    """A value of bytes may hold any, and so may a field that OTLP does not know."""
    span = otlp.span()
    span.attributes.add(key="k").value.bytes_value = b"\xff\xfe"
    body = otlp.traces(span).SerializeToString() + b"\x82\x7d\x01\xff"
    assert Answer(0, 0, "") == send(collector, Signal.TRACES, body)
    assert [body] == collector.take()


@protobuf_senders
def test_text_that_is_not_utf8_goes_on_as_it_came_where_all_or_nothing(send: Send, transport: str) -> None:
    """With `invalid_items: reject_request` texts in protobuf are not looked at, as in the Collector."""
    body = _spoilt(otlp.traces(otlp.span("@@@")), b"@@@", b"\xff\xfeA")
    with Collector(transport, invalid_items=InvalidItems.REJECT_REQUEST) as collector:
        assert Answer(0, 0, "") == send(collector, Signal.TRACES, body)
        assert [body] == collector.take()


@protobuf_senders
def test_bad_text_and_bad_id_are_both_told(send: Send, collector: Collector) -> None:
    """The places named are those of the request as it was sent."""
    request = otlp.traces(otlp.span("@@@"), otlp.span("b", span_id=b"s"))
    answer = send(collector, Signal.TRACES, _spoilt(request, b"@@@", b"\xff\xfeA"))
    message = (
        "1 text was not UTF-8 and has been repaired; 1 of 2 spans rejected: "
        "resourceSpans[0].scopeSpans[0].spans[1].spanId: expected 8 bytes, got 1"
    )
    assert Answer(0, 1, message) == answer
    assert ["\ufffd\ufffdA"] == _names(collector)


# -------------------------------------------------------------------------------------------------- counts and log


def test_rejected_items_are_counted_by_reason_and_as_refused(transport: str) -> None:
    """received = accepted + refused, and the reason is a label."""
    request = otlp.traces(
        otlp.span(), otlp.span(trace_id=b"t"), _linked(trace_id=b"t"), otlp.span(parent_span_id=b"p")
    )
    with Collector(transport) as collector:
        _send_grpc(collector, Signal.TRACES, request.SerializeToString())
        metrics = collector.metrics()
        reasons = {
            dict(sample.labels)["reason"]: sample.value
            for sample in collector.receiver.samples()
            if sample.instrument.name == "spansieve_receiver_rejected_items"
            and {("transport", "grpc"), ("otel_signal", "traces")} <= set(sample.labels)
        }
    assert 1 == metrics["otelcol_receiver_accepted_spans", "grpc", ""]
    assert 3 == metrics["otelcol_receiver_refused_spans", "grpc", ""]
    expected = {"trace_id": 2, "span_id": 0, "parent_span_id": 1, "wire_type": 0, "nesting": 0}
    assert expected == reasons


def test_faults_are_logged_once_a_period(transport: str, caplog: pytest.LogCaptureFixture) -> None:
    """However many items were rejected, one line says how many, and the last fault; silence has no line."""
    caplog.set_level(logging.WARNING)
    body = otlp.traces(otlp.span(), otlp.span(trace_id=b"t")).SerializeToString()
    with Collector(transport) as collector:
        for _ in range(5):
            _send_http(collector, Signal.TRACES, body)
        for _ in range(3):
            collector.timer.fire()
        (record,) = [record for record in caplog.records if record.msg == "Invalid items received"]
    fields = vars(record)["fields"]
    assert 5 == fields["rejected_items"]
    assert 0 == fields["repaired_texts"]
    assert "spans[1].traceId: expected 16 bytes, got 1" in fields["last"]


# ------------------------------------------------------------------------------------------- unknown and absent fields


def _with_unknown(value: Any) -> Any:
    """Return a document with a field that OTLP does not have in each of its objects."""
    if isinstance(value, dict):
        return {"notInOtlp": {"deep": [1, None]}, **{key: _with_unknown(more) for key, more in value.items()}}
    return [_with_unknown(more) for more in value] if isinstance(value, list) else value


def test_unknown_json_fields_at_every_level_change_nothing(collector: Collector) -> None:
    """R47: root, resource, scope, span, event, link, attribute and value; what is known is exact."""
    attributes = [{"key": "k", "value": {"arrayValue": {"values": [{"intValue": "1"}]}}}]
    span = {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "name": "a",
        "attributes": attributes,
        "events": [{"name": "e", "attributes": attributes}],
        "links": [{"traceId": "3" * 32, "spanId": "4" * 16}],
        "status": {"code": 2},
    }
    scope = {"scope": {"name": "s"}, "spans": [span]}
    document = {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [scope]}]}
    plain, odd = (json.dumps(body).encode() for body in (document, _with_unknown(document)))
    assert Answer(0, 0, "") == _send_json(collector, Signal.TRACES, plain)
    assert Answer(0, 0, "") == _send_json(collector, Signal.TRACES, odd)
    first, second = collector.take()
    assert first == second


@pytest.mark.parametrize("fields", [{"attributes": None}, {"attributes": []}, {"events": None, "links": []}])
def test_null_and_empty_json_fields_are_absent(fields: dict[str, Any], collector: Collector) -> None:
    """R47: no value, no resource, and empty arrays are no fault."""
    assert Answer(0, 0, "") == _send_json(collector, Signal.TRACES, _json_traces({"name": "a", **fields}))
    assert ["a"] == _names(collector)
    assert Answer(0, 0, "") == _send_json(collector, Signal.TRACES, b'{"resourceSpans":[{"scopeSpans":[]}]}')
