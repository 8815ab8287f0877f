"""`batch` and fan-out: the same items in requests of the same sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.ids import Signal
from tests.conformance.bodies import GRPC_PATHS
from tests.conformance.peers import GrpcPeer, call_headers, exchange, grpc_frame, http_request
from tests.interop import inputs
from tests.interop.harness import Pair, Ports, Process, base, items_by_name, run_both, to_sink
from tests.interop.test_sampler import send
from tests.support import otlp


def _sizes(pair: Pair, path: str, signal: Signal) -> dict[str, list[int]]:
    """Return the items of each request that arrived, by side."""
    return {
        side: [len(list(otlp.items(otlp.decode(signal, body)))) for body in bodies]
        for side, bodies in pair.received(path).items()
    }


@pytest.mark.parametrize(
    "keys",
    [
        {"send_batch_size": 100, "timeout": "1h"},
        {"send_batch_size": 100, "send_batch_max_size": 100, "timeout": "1h"},
        {"send_batch_size": 100, "send_batch_max_size": 150, "timeout": "1h"},
        {"send_batch_size": 1000, "send_batch_max_size": 1000, "timeout": "1h"},
        {"send_batch_size": 0, "send_batch_max_size": 70, "timeout": "0s"},
        {"send_batch_size": 8192, "timeout": "1h"},
    ],
    ids=str,
)
@pytest.mark.parametrize("items", [1, 99, 100, 101, 250])
def test_batches_are_of_the_same_sizes(keys: dict[str, Any], items: int, tmp_path: Path) -> None:
    """Requests of any size leave in batches of the Collector's sizes, the rest on shutdown, in order."""

    def config(ports: Ports) -> dict[str, Any]:
        return base(
            ports,
            processors={"batch": keys},
            exporters={"otlp_http": to_sink(ports)},
            pipelines={"logs": {"receivers": ["otlp"], "processors": ["batch"], "exporters": ["otlp_http"]}},
        )

    records = list(inputs.records(6, "record", marked=False))[: items * 11]
    requests = [
        otlp.logs(*records[start : start + items]).SerializeToString()
        for start in range(0, len(records), items)
    ]
    with run_both(config, tmp_path) as pair:
        pair.each(lambda process: send(process, Signal.LOGS, requests))
        pair.drain()
        sizes = _sizes(pair, "/v1/logs", Signal.LOGS)
        received = pair.received("/v1/logs")
    assert sizes["collector"] == sizes["spansieve"]
    theirs, ours = (items_by_name(Signal.LOGS, received[side]) for side in ("collector", "spansieve"))
    assert list(theirs) == list(ours)
    assert theirs == ours


def test_every_pipeline_and_exporter_gets_its_own(tmp_path: Path) -> None:
    """One receiver, three pipelines, one with two exporters, one behind a connector: nobody sees another's changes."""

    def config(ports: Ports) -> dict[str, Any]:
        def half(seed: int) -> dict[str, Any]:
            return {"sampling_percentage": 50, "hash_seed": seed}

        names = ("whole", "again", "half", "quarter")
        return base(
            ports,
            processors={"probabilistic_sampler/1": half(1), "probabilistic_sampler/2": half(2)},
            connectors={"forward": {}},
            exporters={f"otlp_http/{name}": to_sink(ports, f"/{name}") for name in names},
            pipelines={
                "traces/whole": {"receivers": ["otlp"], "exporters": ["otlp_http/whole", "otlp_http/again"]},
                "traces/half": {
                    "receivers": ["otlp"],
                    "processors": ["probabilistic_sampler/1"],
                    "exporters": ["otlp_http/half"],
                },
                "traces/sieve": {
                    "receivers": ["otlp"],
                    "processors": ["probabilistic_sampler/2"],
                    "exporters": ["forward"],
                },
                "traces/quarter": {"receivers": ["forward"], "exporters": ["otlp_http/quarter"]},
            },
        )

    requests = inputs.requests(inputs.plain_spans(7), otlp.traces)
    with run_both(config, tmp_path) as pair:
        pair.each(lambda process: send(process, Signal.TRACES, requests))
        pair.drain()
        for name in ("whole", "again", "half", "quarter"):
            received = pair.received(f"/{name}/v1/traces")
            theirs, ours = (
                items_by_name(Signal.TRACES, received[side]) for side in ("collector", "spansieve")
            )
            assert list(theirs) == list(ours), name
            assert theirs == ours, name


def test_clients_are_kept_apart_by_their_headers(tmp_path: Path) -> None:
    """The same batches over both protocols; one combination more than allowed is refused with the same answer."""

    def config(ports: Ports) -> dict[str, Any]:
        keys = {"timeout": "1h", "metadata_keys": ["X-Tenant", "host"], "metadata_cardinality_limit": 7}
        return base(
            ports,
            grpc={"include_metadata": True},
            http={"include_metadata": True},
            processors={"batch": keys, "probabilistic_sampler": {"sampling_percentage": 100}},
            exporters={"otlp_http": to_sink(ports)},
            pipelines={
                "traces": {
                    "receivers": ["otlp"],
                    "processors": ["probabilistic_sampler", "batch"],
                    "exporters": ["otlp_http"],
                }
            },
        )

    def request(name: str) -> bytes:
        return otlp.traces(otlp.span(name=name)).SerializeToString()

    def call(process: Process, name: str, *tenants: str) -> tuple[int | None, str]:
        headers = [*call_headers(GRPC_PATHS[Signal.TRACES]), *(("x-tenant", tenant) for tenant in tenants)]
        with GrpcPeer(process.grpc) as peer:
            answer = peer.call(headers, grpc_frame(request(name)))
        return answer.status, answer.message

    def post(process: Process, name: str, *tenants: str) -> tuple[int, bytes]:
        headers = [("Content-Type", "application/x-protobuf"), *(("X-TENANT", tenant) for tenant in tenants)]
        answer = exchange(process.http, http_request("/v1/traces", request(name), headers))
        return answer.status, b"" if answer.status == 200 else answer.body

    def feed(process: Process) -> list[Any]:
        tenants = [("one",), ("two",), ("one", "two"), ("two", "one"), (), ("",), ("ONE",)]
        answers: list[Any] = []
        for number, values in enumerate(tenants):
            answers += [call(process, f"call {number}", *values), post(process, f"post {number}", *values)]
        answers += [call(process, "call too many", "three"), post(process, "post too many", "three")]
        return [*answers, process.samples("metadata_cardinality")]

    with run_both(config, tmp_path) as pair:
        answers = pair.each(feed)
        pair.drain()
        received = pair.received("/v1/traces")
    assert answers["collector"] == answers["spansieve"]
    theirs, ours = (
        sorted(
            [span.name for span in otlp.items(otlp.decode(Signal.TRACES, body))] for body in received[side]
        )
        for side in ("collector", "spansieve")
    )
    assert 7 == len(ours)
    assert theirs == ours
