"""One suite, two transports: every conformance test runs against both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collector.native.library import has_net
from tests.conformance.bodies import MIB
from tests.conformance.harness import Collector


@pytest.fixture(scope="session", params=["native", "grpcio"])
def transport(request: pytest.FixtureRequest) -> str:
    """The name of the transport under test."""
    name: str = request.param
    if name == "native" and not has_net():
        pytest.skip("built without the native transport")
    return name


@pytest.fixture(scope="session")
def shared_collector(transport: str) -> Iterator[Collector]:
    """A collector whose messages are at most 1 MiB, shared by all tests that leave it as it was."""
    with Collector(
        transport, grpc={"max_recv_msg_size_mib": 1}, http={"max_request_body_size": MIB}
    ) as collector:
        yield collector


@pytest.fixture
def collector(shared_collector: Collector) -> Collector:
    """The shared collector with empty sinks."""
    for sink in shared_collector.sinks.values():
        sink.take()
    return shared_collector
