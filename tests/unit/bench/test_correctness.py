from __future__ import annotations

import dataclasses

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench import bodies, scenarios
from bench.correctness import check
from collector.ids import Signal

ALL = scenarios.load_all()
SENT = [bodies.generate(Signal.TRACES, 40, seed) for seed in range(3)]


def edited(request: bytes, **fields: object) -> bytes:
    """Return a request whose first span has these fields."""
    message = ExportTraceServiceRequest.FromString(request)
    span = message.resource_spans[0].scope_spans[0].spans[0]
    for name, value in fields.items():
        setattr(span, name, value)
    return message.SerializeToString()


def test_what_went_in_may_come_out_in_any_order() -> None:
    """Batches are cut anew, attributes are a map: both may be sorted otherwise."""
    message = ExportTraceServiceRequest.FromString(b"".join(reversed(SENT)))
    for resource_spans in message.resource_spans:
        resource_spans.resource.attributes.reverse()
        for scope_spans in resource_spans.scope_spans:
            scope_spans.spans.reverse()
    assert {} == check(ALL["pass_through"], SENT, {"a": SENT, "b": [message.SerializeToString()]})


def test_a_lost_item_is_wrong_where_all_must_come_out() -> None:
    """Who drops is fast."""
    wrong = check(ALL["pass_through"], SENT, {"a": SENT, "b": SENT[1:]})
    assert {"b": "40 of 120 items are lost"} == wrong


def test_a_changed_or_doubled_item_is_wrong() -> None:
    """Every byte of a span counts, and every span once."""
    renamed = [edited(SENT[0], name="other"), *SENT[1:]]
    wrong = check(ALL["pass_through"], SENT, {"a": renamed, "b": [*SENT, SENT[0]]})
    assert {
        "a": "1 of 120 items differ from those that were sent, or came twice",
        "b": "40 of 160 items differ from those that were sent, or came twice",
    } == wrong


def without(request: bytes, key: str) -> bytes:
    """Return a request whose spans do not have this attribute."""
    message = ExportTraceServiceRequest.FromString(request)
    for resource_spans in message.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                kept = [pair for pair in span.attributes if pair.key != key]
                del span.attributes[:]
                span.attributes.extend(kept)
    return message.SerializeToString()


LEFT = [without(request, "net.peer.ip") for request in SENT]


def test_samplers_must_agree() -> None:
    """Where some come out, they are the same ones from all; what the sampler writes into a span does not count."""
    marked = [edited(LEFT[0], trace_state="ot=th:e")]
    assert {} == check(ALL["sidecar"], SENT, {"a": LEFT[:1], "b": marked})
    wrong = check(ALL["sidecar"], SENT, {"a": LEFT[:1], "b": LEFT[1:2]})
    assert {"b": "40 items that a does not send, 40 missing that it does"} == wrong


def test_an_attribute_must_be_deleted() -> None:
    """That one, and no other."""
    wrong = check(ALL["sidecar"], SENT, {"a": SENT[:1], "b": [without(LEFT[0], "rpc.method")]})
    problem = "40 of 40 items differ from those that were sent, or came twice"
    assert {"a": problem, "b": problem} == wrong


def test_nothing_at_all_is_wrong() -> None:
    """A system that discards everything is no system."""
    assert {"a": "lets nothing through"} == check(ALL["sidecar"], SENT, {"a": []})


def test_merged_points_must_add_up() -> None:
    """Fewer points of the same sums are right; as many, or other sums, are not."""
    sent = [bodies.generate(Signal.METRICS, 64, seed=1)]
    message = ExportMetricsServiceRequest.FromString(sent[0])
    for metric in message.resource_metrics[0].scope_metrics[0].metrics:
        points = metric.sum.data_points
        total = sum(point.as_int for point in points)
        del points[1:]
        del points[0].attributes[:]
        points[0].as_int = total
    merged = message.SerializeToString()
    scenario = ALL["metrics_label"]
    assert {} == check(scenario, sent, {"a": [merged], "b": [merged]})
    assert {"a": "merges no points"} == check(scenario, sent, {"a": sent})
    points[0].as_int *= 2
    assert "add up to" in check(scenario, sent, {"a": [message.SerializeToString()]})["a"]


def test_a_scenario_without_edits_forgives_none() -> None:
    """Edits are forgiven by name."""
    strict = dataclasses.replace(ALL["sidecar"], edits=())
    marked = [edited(LEFT[0], trace_state="ot=th:e")]
    assert "differ" in check(strict, SENT, {"a": marked})["a"]
