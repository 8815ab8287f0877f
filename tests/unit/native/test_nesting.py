"""How deep pipelines may be nested: as deep as a configuration that passes its checks can."""

from __future__ import annotations

import pytest

from collector.ids import Signal
from collector.native.attributes import Action, Verb, attributes
from collector.native.pipeline import Consumer, Discard, Fanout, Pipeline
from collector.native.runtime import Runtime, Worker
from tests.support import otlp

DEEP = 250


@pytest.mark.parametrize("n_pipelines", [1, DEEP // 3])
def test_edits_in_a_row_reach_the_end(n_pipelines: int) -> None:
    """In one pipeline, where each reads what the one before has written, or in many that fan out."""
    runtime = Runtime()
    last = Discard(Signal.TRACES)
    edits = [attributes([Action(Verb.INSERT, f"key.{number}", value=number)]) for number in range(DEEP - 3)]
    front: Consumer = last
    for number in reversed(range(n_pipelines)):
        own = edits[number::n_pipelines]
        front = Fanout(Signal.TRACES, [Pipeline(Signal.TRACES, own, front)])
    request = otlp.traces(otlp.span(span_id=b"12345678", trace_id=bytes(15) + b"1")).SerializeToString()
    front.push(Worker(runtime), request)
    assert 1 == last.items
