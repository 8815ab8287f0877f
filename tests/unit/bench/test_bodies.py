from __future__ import annotations

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench import bodies
from collector.ids import Signal
from collector.native.table import SpanTable


def _spans(request: bytes) -> list[bytes]:
    message = ExportTraceServiceRequest.FromString(request)
    return [
        span.SerializeToString()
        for resource_spans in message.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def test_generated_requests_are_valid_and_repeat() -> None:
    """A seed gives the same request always, with as many spans as asked for, each with an id."""
    request = bodies.generate(300, seed=5)
    assert request == bodies.generate(300, seed=5)
    assert request != bodies.generate(300, seed=6)
    table = SpanTable.scan(Signal.TRACES, request)
    assert 300 == len(table)
    assert table.trace_id.any(axis=1).all()


def test_a_cut_is_those_spans_and_no_others() -> None:
    """Spans are moved as they are, and a cut may be made after another one."""
    request = bodies.generate(200, seed=1)
    cutter = bodies.Cutter(request)
    assert _spans(request)[150:160] == _spans(cutter.cut(150, 160))
    assert _spans(request)[:3] == _spans(cutter.cut(0, 3))


def test_a_found_body_is_kept_by_the_usual_share() -> None:
    """The measured request is one of which the pipeline keeps a tenth, and at least one span."""
    cutter = bodies.Cutter(bodies.generate(2_000, seed=2))
    counter = bodies.KeptCounter()
    for n_spans, kept in ((1, 1), (10, 1)):
        body = cutter.find(n_spans, size=1_000)
        assert (n_spans, kept) == (body.spans, body.kept)
        assert kept == counter.count(body.data)
        assert n_spans == len(_spans(body.data))


def test_grpc_message_has_its_prefix() -> None:
    """Not compressed, length in four bytes, big-endian."""
    assert b"\0\0\0\0\x03abc" == bodies.Body(1, 1, b"abc").grpc_message
