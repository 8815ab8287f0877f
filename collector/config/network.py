"""The keys that say where a server listens.

Source: OpenTelemetry Collector, confignet.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.values import split_address
from collector.lean import Protocol, StrEnum


class Network(StrEnum):
    """What an endpoint is an address of."""

    TCP = "tcp"
    TCP4 = "tcp4"
    TCP6 = "tcp6"
    UNIX = "unix"


class HasEndpoint(Protocol):
    """A section with the keys `endpoint` and `transport`."""

    @property
    def endpoint(self) -> str:
        """`host:port`, or the path of a unix socket."""

    @property
    def transport(self) -> Network:
        """What endpoint is."""


def endpoint_problems(config: HasEndpoint) -> Iterator[tuple[str, str]]:
    """Yield (field, message) for an endpoint that is no address of its transport."""
    if config.transport is Network.UNIX:
        if not config.endpoint:
            yield "endpoint", "expected the path of a unix socket, got ''"
        return
    try:
        split_address(config.endpoint)
    except ValueError as error:
        yield "endpoint", str(error)
