"""`include_metadata` in front of a `batch` with `metadata_keys`: each client's items leave in batches of their own.

And in front of `attributes` with `from_context`: they carry what the headers say.

Source: OpenTelemetry Collector, `batch` processor, "metadata_keys" and "metadata_cardinality_limit".
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import pytest

from collector.component import Settings
from collector.config.attributes import Action
from collector.config.fields import Duration
from collector.ids import ComponentID, Signal
from collector.native.library import has_net, lib
from collector.native.pipeline import Consumer, Pipeline
from collector.native.runtime import Runtime
from collector.processors import attributes
from collector.processors.batch import BatchProcessor, Config
from collector.receivers import otlp as receiver
from collector.telemetry.logs import Log
from tests.conformance.bodies import GRPC_PATHS
from tests.conformance.harness import Collector, Sink
from tests.conformance.peers import GrpcPeer, call_headers, chunked, exchange, grpc_frame, http_request
from tests.support import otlp

pytestmark = pytest.mark.skipif(not has_net(), reason="built without the native transport")

TOO_MANY = "Permanent error: too many batcher metadata-value combinations"
PROTOBUF = ("Content-Type", "application/x-protobuf")


def _request(name: str) -> bytes:
    return otlp.traces(otlp.span(name=name)).SerializeToString()


class Tenants:
    """A receiver, a batch that sends only at its end, and a queue behind it."""

    def __init__(self, *keys: str, limit: int = 1000, includes: bool = True) -> None:
        self._config = Config(timeout=Duration(3600.0), metadata_keys=keys, metadata_cardinality_limit=limit)
        included = {"include_metadata": includes}
        self.collector = Collector(
            "native",
            grpc=included,
            http=included,
            consumers=self._consumers,
            metadata_names=self._config.metadata_names,
        )

    def _consumers(self, runtime: Runtime) -> Mapping[Signal, Consumer]:
        self.sink = Sink(runtime, Signal.TRACES)
        settings = Settings(
            id=ComponentID("batch"), signal=Signal.TRACES, runtime=runtime, log=Log(logging.getLogger("test"))
        )
        self.processor = BatchProcessor(self._config, settings)
        return {Signal.TRACES: self.processor.connect([self.sink.queue])}

    def post(self, name: str, *headers: tuple[str, str]) -> tuple[int, bytes]:
        answer = exchange(
            self.collector.http, http_request("/v1/traces", _request(name), [PROTOBUF, *headers])
        )
        return answer.status, answer.body

    def call(self, name: str, *headers: tuple[str, str]) -> tuple[int | None, str]:
        with GrpcPeer(self.collector.grpc) as peer:
            answer = peer.call(
                [*call_headers(GRPC_PATHS[Signal.TRACES]), *headers], grpc_frame(_request(name))
            )
        return answer.status, answer.message

    @property
    def cardinality(self) -> float:
        (value,) = (
            sample.value
            for sample in self.processor.samples()
            if sample.instrument.name == "otelcol_processor_batch_metadata_cardinality"
        )
        return value

    def batches(self) -> set[str]:
        """End, and return the span names of each batch, joined."""
        self.collector.receiver.shutdown(5)
        self.processor.shutdown(5)
        return {
            "".join(sorted(span.name for span in otlp.items(otlp.decode(Signal.TRACES, body))))
            for body in self.sink.take()
        }


@pytest.fixture
def tenants(request: pytest.FixtureRequest) -> Iterator[Tenants]:
    made = Tenants(*request.param[0], **request.param[1])
    with made.collector:
        yield made


@pytest.mark.parametrize("tenants", [(("X-Tenant",), {})], indirect=True)
def test_clients_are_kept_apart_over_both_protocols(tenants: Tenants) -> None:
    """By all values in their order, whatever the case of the name; no header and an empty one differ."""
    assert 200 == tenants.post("a", ("X-TENANT", "one"))[0]
    assert 0 == tenants.call("b", ("x-tenant", "one"))[0]
    assert 200 == tenants.post("c", ("x-tenant", " two\t"))[0]
    assert 0 == tenants.call("d", ("x-tenant", "two"), ("other", "x"))[0]
    assert 200 == tenants.post("e", ("x-tenant", "one"), ("X-Tenant", "two"))[0]
    assert 0 == tenants.call("f", ("x-tenant", "one"), ("x-tenant", "two"))[0]
    assert 0 == tenants.call("g", ("x-tenant", "two"), ("x-tenant", "one"))[0]
    assert 200 == tenants.post("h")[0]
    assert 0 == tenants.call("i")[0]
    assert 200 == tenants.post("j", ("X-Tenant", ""))[0]
    assert 6 == tenants.cardinality
    assert {"ab", "cd", "ef", "g", "hi", "j"} == tenants.batches()
    assert 0 == tenants.cardinality


@pytest.mark.parametrize("tenants", [(("x-tenant",), {})], indirect=True)
def test_json_and_chunks_and_kept_connections(tenants: Tenants) -> None:
    """Each request on a connection has its own headers; one behind the body does not count."""
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"j"}]}]}]}'
    request = http_request("/v1/traces", body, [("Content-Type", "application/json"), ("x-tenant", "one")])
    assert 200 == exchange(tenants.collector.http, request).status
    late = chunked("/v1/traces", [_request("c")], [PROTOBUF])
    late = late.removesuffix(b"\r\n") + b"X-Tenant: one\r\n\r\n"
    assert 200 == exchange(tenants.collector.http, late).status
    with GrpcPeer(tenants.collector.grpc) as peer:
        for name, headers in (("a", [("x-tenant", "one")]), ("b", [])):
            answer = peer.call(
                [*call_headers(GRPC_PATHS[Signal.TRACES]), *headers], grpc_frame(_request(name))
            )
            assert 0 == answer.status
    assert {"aj", "bc"} == tenants.batches()


@pytest.mark.parametrize("tenants", [(("tenant",), {"limit": 1})], indirect=True)
def test_a_combination_too_many_is_refused(tenants: Tenants) -> None:
    """For good, and nothing of it is kept; those that are there go on."""
    assert 200 == tenants.post("a", ("tenant", "one"))[0]
    status, body = tenants.post("b", ("tenant", "two"))
    assert 500 == status
    assert TOO_MANY.encode() in body
    assert (13, TOO_MANY) == tenants.call("c", ("tenant", "two"))
    assert 0 == tenants.call("d", ("tenant", "one"))[0]
    assert {"ad"} == tenants.batches()


@pytest.mark.parametrize("tenants", [(("tenant",), {"includes": False})], indirect=True)
def test_without_include_metadata_all_clients_are_one(tenants: Tenants) -> None:
    """As in the Collector: headers are kept only where the protocol says so."""
    assert 200 == tenants.post("a", ("tenant", "one"))[0]
    assert 0 == tenants.call("b", ("tenant", "two"))[0]
    assert {"ab"} == tenants.batches()


@pytest.mark.parametrize("tenants", [(("host", "a" * lib.SS_METADATA_NAME_MAX), {})], indirect=True)
def test_host_and_long_names(tenants: Tenants) -> None:
    """The authority of a call is its host, and a name may be as long as the configuration lets it."""
    long = "a" * lib.SS_METADATA_NAME_MAX
    assert 200 == tenants.post("a", (long, "1"))[0]
    assert 0 == tenants.call("b", (long, "1"), ("host", "elsewhere"))[0]
    assert 200 == tenants.post("c", (long + "a", "1"))[0]
    assert {"ab", "c"} == tenants.batches()


def test_portable_transport_refuses() -> None:
    """It keeps no headers, and says so instead of mixing clients up."""
    protocols = receiver.Protocols(
        grpc=receiver.Grpc(include_metadata=True), http=receiver.Http(include_metadata=True)
    )
    config = receiver.Config(protocols=protocols, transport=receiver.TransportName.GRPCIO)
    assert [
        ("protocols::grpc::include_metadata", "needs the native transport"),
        ("protocols::http::include_metadata", "needs the native transport"),
    ] == list(config.problems())


@pytest.mark.parametrize("includes", [True, False])
def test_attributes_are_made_of_headers(includes: bool) -> None:
    """By both protocols; several values are joined, an empty one is one, and none is none."""
    config = attributes.Config(
        actions=(
            Action(key="tenant", action="insert", from_context="metadata.X-Tenant", default_value="nobody"),
        )
    )
    sinks = []

    def consumers(runtime: Runtime) -> Mapping[Signal, Consumer]:
        sinks.append(Sink(runtime, Signal.TRACES))
        settings = Settings(
            id=ComponentID("attributes"),
            signal=Signal.TRACES,
            runtime=runtime,
            log=Log(logging.getLogger("test")),
        )
        op = attributes.factory.create(config, settings).op
        return {Signal.TRACES: Pipeline(Signal.TRACES, [op], sinks[0].queue)}

    included = {"include_metadata": includes}
    collector = Collector(
        "native", grpc=included, http=included, consumers=consumers, metadata_names=config.read_metadata
    )
    tenant = [("x-tenant", "one"), ("x-tenant", "two")]
    with collector, GrpcPeer(collector.grpc) as peer:
        for headers in ([], tenant[:1], tenant, [("x-tenant", "")]):
            http = http_request("/v1/traces", _request("h"), [PROTOBUF, *headers])
            assert 200 == exchange(collector.http, http).status
            call = [*call_headers(GRPC_PATHS[Signal.TRACES]), *headers]
            assert 0 == peer.call(call, grpc_frame(_request("g"))).status
    found = [
        span.attributes[0].value.string_value
        for body in sinks[0].take()
        for span in otlp.items(otlp.decode(Signal.TRACES, body))
    ]
    expected = ["nobody", "one", "one;two", ""] if includes else ["nobody"] * 4
    assert [text for text in expected for _ in range(2)] == found
