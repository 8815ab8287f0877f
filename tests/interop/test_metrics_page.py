"""The metrics page: after the same traffic the same names, types, help, labels and values, or what is listed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from prometheus_client.parser import text_string_to_metric_families

from collector.ids import Signal
from tests.conformance.bodies import GOLDEN, HTTP_PATHS
from tests.conformance.peers import exchange, http_request
from tests.integration.harness import wait_for
from tests.interop import differences, inputs
from tests.interop.harness import Answer, Pair, Ports, Process, base, run_both, to_sink
from tests.interop.test_sampler import SAMPLED, send
from tests.support import otlp

PROTOBUF = [("Content-Type", "application/x-protobuf")]
NO_RETRY = {"retry_on_failure": {"enabled": False}}
HOLD = "/hold/v1/traces"


class Value(NamedTuple):
    """What a page says of one thing, as an outcome to compare."""

    text: str
    content: tuple[bytes, ...] = ()

    def __str__(self) -> str:
        return self.text


class Page(NamedTuple):
    """A metrics page, read.

    Attributes:
        help, types: by name of the family.
        series: values by `name{label="value",...}`, labels sorted.
    """

    help: dict[str, str]
    types: dict[str, str]
    series: dict[str, float]


def read(process: Process) -> Page:
    """Return the page of a process, without what must differ: ours is not counted by dashboards, nor is the rest."""
    page = Page({}, {}, {})
    for line in process.page().splitlines():
        kind, _, rest = line.partition(" ")[2].partition(" ") if line.startswith("#") else ("", "", "")
        if kind:
            name, _, text = rest.partition(" ")
            if not name.startswith("spansieve_"):
                # A maturity in brackets is the Collector's own promise, and its texts end with a stop or without.
                (page.help if kind == "HELP" else page.types)[name] = re.sub(r"\.?( \[\w+\])?$", "", text)
    for family in text_string_to_metric_families(process.page()):
        for sample in family.samples:
            labels = dict(sample.labels)
            if sample.name.startswith("spansieve_") or sample.name == "target_info":
                continue
            if re.search(SAMPLED, sample.name):
                labels.pop("processor", None)  # the Collector adds all samplers up
            name = sample.name if sample.name in page.types else _as_written(sample.name, page.types)
            pairs = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
            key = f"{name}{{{pairs}}}"
            page.series[key] = page.series.get(key, 0) + sample.value
    return page


def _as_written(name: str, families: Mapping[str, str]) -> str:
    """Return the name as it stands on the page: the parser ends the names of all counters in `_total`."""
    plain = name.removesuffix("_total")
    return plain if plain in families else name


def compare(pages: Mapping[str, Page], sinks: Mapping[str, int]) -> None:
    """Hold both pages to say the same, but for what differences.md lists and for our series that are still zero.

    Args:
        sinks: the port of the sink behind each side, which is a label of both.
    """
    theirs, ours = pages["collector"], pages["spansieve"]
    problems: list[str] = []
    for about in ("help", "types"):
        left, right = getattr(theirs, about), getattr(ours, about)
        for name in sorted({**left, **right}):
            if name in left and name in right:
                problems.append(_find(f"page: {about} of {name}", left[name], right[name]))
    values = {side: _told(pages[side].series, sinks[side]) for side in pages}
    for series in sorted({**values["collector"], **values["spansieve"]}):
        left, right = (values[side].get(series, "absent") for side in ("collector", "spansieve"))
        if (left, right) != ("absent", "0"):
            problems.append(_find(f"page: {series}", left, right))
    found = [problem for problem in problems if problem]
    assert not found, "not in differences.md:\n" + "\n".join(found)


def _find(case: str, theirs: str, ours: str) -> str:
    return differences.find(case, {"collector": Value(theirs), "spansieve": Value(ours)})


def _told(series: Mapping[str, float], sink: int) -> dict[str, str]:
    """Return values as texts; those of a process that nobody can foretell as whether they are there."""
    return {
        name.replace(f'server_port="{sink}"', 'server_port="SINK"'): (
            "there" if name.startswith("otelcol_process_") and value > 0 else f"{value:.15g}"
        )
        for name, value in series.items()
    }


def settle(pair: Pair, expected: Mapping[str, float]) -> None:
    """Wait until both have counted what the traffic must come to: sums of all series whose name matches."""

    def is_settled(process: Process) -> bool:
        return all(sum(process.samples(name).values()) == value for name, value in expected.items())

    for process in pair.processes.values():
        try:
            wait_for(lambda process=process: is_settled(process))
        except AssertionError:
            counted = {name: process.samples(name) for name in expected}
            raise AssertionError(f"expected {expected}, counted {counted}") from None


def compare_pages(pair: Pair) -> None:
    """Compare what the pages say now."""
    compare(pair.each(read), {side: sink.server_port for side, sink in pair.sinks.items()})


def _post(process: Process, signal: Signal, body: bytes) -> int:
    return exchange(process.http, http_request(HTTP_PATHS[signal], body, PROTOBUF)).status


def _ordinary(ports: Ports) -> dict[str, Any]:
    """Return a bit of everything: all processors, several exporters, fan-out, connectors, one exporter that fails."""
    to_all = ["otlp_http", "otlp_grpc/dead", "debug", "nop"]
    pipelines: dict[str, Any] = {
        signal.value: {
            "receivers": ["otlp"],
            "processors": ["memory_limiter", "batch"],
            "exporters": to_all,
        }
        for signal in Signal
    }
    pipelines["traces"]["processors"].insert(1, "probabilistic_sampler")
    return base(
        ports,
        processors={
            "batch": {"send_batch_size": 1000, "timeout": "1h"},
            "batch/timed": {"send_batch_size": 100_000, "timeout": "2s"},
            "batch/split": {"send_batch_size": 100, "send_batch_max_size": 100, "timeout": "1h"},
            "batch/off": {"send_batch_size": 0, "timeout": "0s"},
            "probabilistic_sampler": {"sampling_percentage": 50},
            "probabilistic_sampler/logs": {"sampling_percentage": 25},
            "memory_limiter": {"check_interval": "1s", "limit_mib": 4000},
            "metricstransform": {"transforms": [{"include": "m", "action": "update", "new_name": "n"}]},
        },
        connectors={"forward": {}},
        exporters={
            "otlp_http": to_sink(ports),
            "otlp_http/split": to_sink(ports, "/split/"),
            "otlp_http/timed": {**to_sink(ports), "logs_endpoint": f"http://localhost:{ports.sink}/l"},
            "debug": {},
            "nop": {},
            "otlp_grpc/dead": {"endpoint": "127.0.0.1:1", "tls": {"insecure": True}, **NO_RETRY},
        },
        pipelines={
            **pipelines,
            "traces/fan": {"receivers": ["otlp"], "exporters": ["forward"]},
            "traces/split": {
                "receivers": ["forward"],
                "processors": ["batch/split"],
                "exporters": ["otlp_http/split"],
            },
            "logs/sampled": {
                "receivers": ["otlp"],
                "processors": ["probabilistic_sampler/logs", "batch/timed"],
                "exporters": ["otlp_http/timed"],
            },
            "metrics/changed": {
                "receivers": ["otlp"],
                "processors": ["metricstransform", "batch/off"],
                "exporters": ["otlp_http/timed"],
            },
        },
    )


def test_pages_agree_after_ordinary_traffic(tmp_path: Path) -> None:
    """Whatever was accepted, empty, malformed, sampled, batched, sent or failed is counted alike, under one name."""
    spans = inputs.requests(list(inputs.marked_spans(8))[:4500], otlp.traces)
    records = inputs.requests(list(inputs.records(9, "record", marked=True))[:2500], otlp.logs)
    with run_both(_ordinary, tmp_path) as pair:

        def feed(process: Process) -> list[int]:
            bodies = (GOLDEN, dict.fromkeys(Signal, b""), dict.fromkeys(Signal, b"\1"))
            statuses = [_post(process, signal, each[signal]) for each in bodies for signal in Signal]
            send(process, Signal.LOGS, records)
            send(process, Signal.METRICS, [GOLDEN[Signal.METRICS]] * 1000)
            send(process, Signal.TRACES, spans)
            with pytest.raises(grpc.RpcError):
                send(process, Signal.TRACES, [b"\1"])
            return statuses

        statuses = pair.each(feed)
        assert statuses["collector"] == statuses["spansieve"] == [200] * 6 + [400] * 3
        settle(pair, {"^otelcol_receiver_accepted_spans$": 4501, "^otelcol_exporter_queue_size$": 0})
        # The batch with a timeout comes last, and what all have sent is then on its way.
        settle(pair, {"^otelcol_processor_batch_timeout_trigger_send$": 1})
        settle(pair, {"^otelcol_exporter_in_flight_requests$": 0, "^otelcol_exporter_queue_size$": 0})
        compare_pages(pair)


@pytest.mark.parametrize("key", ["without_type_suffix", "without_units"])
def test_names_agree_with_suffixes(key: str, tmp_path: Path) -> None:
    """A reader that is asked for suffixes shows `_total` and units, both of either key."""

    def config(ports: Ports) -> dict[str, Any]:
        found = _ordinary(ports)
        reader = found["service"]["telemetry"]["metrics"]["readers"][0]
        reader["pull"]["exporter"]["prometheus"][key] = False
        return found

    with run_both(config, tmp_path) as pair:
        pair.each(lambda process: send(process, Signal.TRACES, [GOLDEN[Signal.TRACES]]))
        settle(pair, {"^otelcol_receiver_accepted_spans$": 1})
        names = pair.each(lambda process: set(read(process).types))
    of_suffixes = {
        side: {re.sub("_(total|seconds_total|bytes)$", "", name): name for name in found}
        for side, found in names.items()
    }
    for plain, name in of_suffixes["spansieve"].items():
        assert name == of_suffixes["collector"].get(plain, name)


def _failing(ports: Ports) -> dict[str, Any]:
    """Return exporters whose backends refuse once, refuse for good, take a part, and never come back."""
    retries = {
        "retry_on_failure": {"initial_interval": "20ms", "max_interval": "20ms", "max_elapsed_time": "2s"}
    }
    exporters = {
        "otlp_http/busy": {**to_sink(ports, "/busy"), **retries},
        "otlp_http/bad": {**to_sink(ports, "/bad"), **retries},
        "otlp_http/part": {**to_sink(ports, "/part"), **retries},
        "otlp_http/gone": {
            **to_sink(ports, "/gone"),
            "retry_on_failure": {
                "initial_interval": "20ms",
                "max_interval": "20ms",
                "max_elapsed_time": "200ms",
            },
        },
        "otlp_http/once": {**to_sink(ports, "/gone"), **NO_RETRY},
        "otlp_http/queueless": {
            **to_sink(ports, "/busy2"),
            **retries,
            "sending_queue": {"enabled": False},
        },
    }
    return base(
        ports,
        exporters=exporters,
        pipelines={"traces": {"receivers": ["otlp"], "exporters": list(exporters)}},
    )


def test_pages_agree_about_backends_that_refuse(tmp_path: Path) -> None:
    """Retries count once, what is given up and what is refused for good counts as failed, a partial success as sent."""
    partial = ExportTraceServiceResponse()
    partial.partial_success.rejected_spans = 1
    with run_both(_failing, tmp_path) as pair:
        for sink in pair.sinks.values():
            for path in ("/busy", "/busy2"):
                sink.scripts[f"{path}/v1/traces"] = [Answer(503), Answer(429), Answer()]
            sink.scripts["/bad/v1/traces"] = [Answer(400)]
            sink.scripts["/part/v1/traces"] = [Answer(200, partial.SerializeToString())]
            sink.scripts["/gone/v1/traces"] = [Answer(503)]
        pair.each(lambda process: send(process, Signal.TRACES, [GOLDEN[Signal.TRACES]]))
        settle(pair, {"^otelcol_exporter_sent_spans$": 3, "^otelcol_exporter_send_failed_spans$": 3})
        compare_pages(pair)


@pytest.mark.parametrize("sizer", ["requests", "items"])
def test_pages_agree_about_full_queues(sizer: str, tmp_path: Path) -> None:
    """What finds no room is refused and counted so; size and capacity are told in the queue's unit."""

    def config(ports: Ports) -> dict[str, Any]:
        queue = {"num_consumers": 1, "queue_size": 3 if sizer == "requests" else 25, "sizer": sizer}
        exporters = {"otlp_http": {**to_sink(ports, "/hold"), "sending_queue": queue}}
        pipeline = {"receivers": ["otlp"], "exporters": list(exporters)}
        return base(ports, exporters=exporters, pipelines={"traces": pipeline})

    bodies = [otlp.traces(*[otlp.span()] * 10).SerializeToString()] * 6
    with run_both(config, tmp_path) as pair:
        gates = {side: sink.close_gate(HOLD) for side, sink in pair.sinks.items()}
        statuses = {}
        for side, process in pair.processes.items():
            statuses[side] = [_post(process, Signal.TRACES, bodies[0])]
            wait_for(lambda sink=pair.sinks[side]: sink.waiting.get(HOLD))
            statuses[side] += [_post(process, Signal.TRACES, body) for body in bodies[1:]]
        assert statuses["collector"] == statuses["spansieve"]
        assert {200, 503} == set(statuses["spansieve"])
        compare_pages(pair)
        for gate in gates.values():
            gate.set()
        settle(pair, {"^otelcol_exporter_queue_size$": 0})
        compare_pages(pair)


def test_pages_agree_about_refused_memory(tmp_path: Path) -> None:
    """Above its limit the memory limiter refuses all, and receiver and processor count it."""

    def config(ports: Ports) -> dict[str, Any]:
        pipelines = {
            signal.value: {
                "receivers": ["otlp"],
                "processors": ["memory_limiter"],
                "exporters": ["otlp_http"],
            }
            for signal in Signal
        }
        limiter = {"check_interval": "100ms", "limit_mib": 1}
        return base(
            ports,
            processors={"memory_limiter": limiter},
            exporters={"otlp_http": to_sink(ports)},
            pipelines=pipelines,
        )

    with run_both(config, tmp_path) as pair:
        for process in pair.processes.values():
            wait_for(lambda process=process: "above soft limit" in "".join(process.log))
        statuses = pair.each(
            lambda process: [_post(process, signal, GOLDEN[signal]) for signal in Signal for _ in range(3)]
        )
        assert statuses["collector"] == statuses["spansieve"] == [503] * 9
        compare_pages(pair)


@pytest.mark.usefixtures("whole_module")
def test_every_listed_difference_is_still_there() -> None:
    """A row of differences.md about the page that no test of this module has shown is out of date."""
    assert [] == differences.out_of_date("page: ")
