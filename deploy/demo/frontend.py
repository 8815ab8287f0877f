"""The shop's front: lists products, takes orders. Exports over OTLP/gRPC."""

from __future__ import annotations

import os
import random
import time

from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.util.types import AnyValue

from deploy.demo.service import Peer, Service
from deploy.demo.telemetry import Telemetry

USERS = 200


def main() -> None:
    """Run the service."""
    endpoint = os.environ["OTLP_GRPC"]
    telemetry = Telemetry(
        "frontend",
        (
            OTLPSpanExporter(endpoint, insecure=True),
            OTLPMetricExporter(endpoint, insecure=True),
            OTLPLogExporter(endpoint, insecure=True),
        ),
    )
    checkout = Peer(telemetry, int(os.environ["CHECKOUT_PORT"]))
    inventory = Peer(telemetry, int(os.environ["INVENTORY_PORT"]))
    requests = telemetry.counter("shop.requests", "Requests of shoppers.")
    durations = telemetry.histogram("shop.request.duration", "s", "Duration of shoppers' requests.")

    def measured(route: str, peer: Peer, method: str, path: str) -> int:
        start_s = time.monotonic()
        with telemetry.tracer.start_as_current_span("load session"):
            user = f"user-{random.randrange(USERS)}"
        status = peer.call(method, path)
        attributes: dict[str, AnyValue] = {
            "http.route": route,
            "http.response.status_code": status,
            "user.id": user,
        }
        requests.add(1, attributes)
        durations.record(time.monotonic() - start_s, attributes)
        severity = SeverityNumber.ERROR if status >= 500 else SeverityNumber.INFO
        telemetry.log(severity, "request served", **attributes)
        return status

    # A sampler at the head cannot know that a request will fail. Orders are the requests that may, and each is worth
    # keeping: their traces are marked at the root.
    Service(
        telemetry,
        {
            "GET /products": lambda: measured("/products", inventory, "GET", "/stock"),
            "POST /orders": lambda: measured("/orders", checkout, "POST", "/charges"),
        },
        vital=frozenset({"POST /orders"}),
    ).run()


if __name__ == "__main__":
    main()
