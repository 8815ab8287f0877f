"""Sections that null switches on, and a key that only one of them has."""

from __future__ import annotations

from collector.component import Factory, Stability
from collector.config.fields import option, section
from collector.ids import Signal


@section
class Grpc:
    endpoint: str = option("localhost:4317", doc="Where to listen.")
    max_recv_msg_size_mib: int = option(4, doc="Largest message.", unit="MiB", minimum=1)


@section
class Http:
    endpoint: str = option("localhost:4318", doc="Where to listen.")


@section
class Protocols:
    grpc: Grpc | None = option(None, doc="gRPC.", null_enables=True)
    http: Http | None = option(None, doc="HTTP.", null_enables=True)


@section
class Config:
    protocols: Protocols = option(factory=Protocols, doc="What is spoken.")

    def problems(self):
        if self.protocols.grpc is None and self.protocols.http is None:
            yield "", "must specify at least one protocol when using the OTLP receiver"


factory = Factory(config=Config, create=lambda *_: None, signals=frozenset(Signal), stability=Stability.BETA)
