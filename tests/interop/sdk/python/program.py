"""Make what ../scenario.py describes: `program.py ROUNDS [PAUSE]`. The environment says where it goes."""

import json
import sys

from opentelemetry import _logs, metrics, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

BASE = 1_700_000_000_000_000_000
ROUNDS = int(sys.argv[1])
PAUSE = int(sys.argv[2]) if len(sys.argv) > 2 else None

tracer = trace.get_tracer("interop", "1.2.3")
meter = metrics.get_meter("interop", "1.2.3")
logger = _logs.get_logger("interop", "1.2.3")
providers = [trace.get_tracer_provider(), metrics.get_meter_provider(), _logs.get_logger_provider()]

requests = meter.create_counter("requests", unit="1", description="Requests served")
seconds = meter.create_counter("busy", unit="s")
active = meter.create_up_down_counter("active")
latency = meter.create_histogram("latency", unit="ms")
temperature = meter.create_gauge("temperature", unit="Cel")
meter.create_observable_counter(
    "observed", [lambda options: [metrics.Observation(ROUNDS, {"by": "callback"})]]
)


def status(i):
    if i % 3 == 0:
        return Status(StatusCode.OK)
    return Status(StatusCode.ERROR, f"failed {i}") if i % 3 == 1 else Status(StatusCode.UNSET)


def make_round(i, previous):
    start = BASE + i * 1_000_000_000
    root = tracer.start_span(
        f"round {i}",
        kind=SpanKind.SERVER,
        start_time=start,
        links=[Link(previous, {"of": i - 1})] if previous else [],
        attributes={
            "string": f"round {i} \u00e4\u20ac\U0001f600",
            "empty": "",
            "int": 4294967296 + i,
            "negative": -1 - i,
            "double": i + 0.5,
            "bool": i % 2 == 0,
            "strings": ["a", f"b{i}"],
            "ints": [i, -1],
            "doubles": [0.5, i + 0.25],
            "bools": [True, False],
        },
    )
    root.add_event("event", {"n": i, "text": "in between"}, timestamp=start + 1000)
    root.set_status(status(i))
    context = trace.set_span_in_context(root)
    step = tracer.start_span(f"step {i}", context, SpanKind.CLIENT, start_time=start + 2000)
    step.end(start + 3000)
    root.end(start + 2_000_000 + i)

    is_even = i % 2 == 0
    body = f"record {i}"
    if not is_even:
        body = {"text": body, "n": i, "list": [1, "two", True, 0.5], "bytes": b"\x00\x01\xff"}
    logger.emit(
        timestamp=start + 4000,
        observed_timestamp=start + 5000,
        context=context,
        severity_number=_logs.SeverityNumber.INFO if is_even else _logs.SeverityNumber.ERROR,
        severity_text="INFO" if is_even else "ERROR",
        body=body,
        attributes={"string": f"log {i}", "int": i, "double": i + 0.5, "bool": is_even},
        event_name="done",
    )

    path = {"path": "/even" if is_even else "/odd"}
    requests.add(i + 1, path)
    seconds.add(0.5, path)
    active.add(3 if is_even else -1)
    latency.record(i * 1.5, path)
    temperature.set(i + 0.25)
    made.append(
        [f"{root.context.trace_id:032x}", f"{root.context.span_id:016x}", f"{step.context.span_id:016x}"]
    )
    return root.context


made = []
previous = None
for i in range(ROUNDS):
    if i == PAUSE:
        for provider in providers:
            provider.force_flush()
        print("paused", flush=True)
        sys.stdin.readline()
    previous = make_round(i, previous)

print("flushing", flush=True)
for provider in providers:
    provider.shutdown()
print(json.dumps(made), flush=True)
