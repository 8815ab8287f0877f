"""Charges for orders; one in eight is declined. Exports over OTLP/HTTP with protobuf."""

from __future__ import annotations

import os
import random

from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from deploy.demo.service import Peer, Service
from deploy.demo.telemetry import Telemetry

_DECLINED = 1 / 8


class Declined(Exception):
    """The bank said no."""


def main() -> None:
    """Run the service."""
    base = f"http://{os.environ['OTLP_HTTP']}/v1"
    telemetry = Telemetry(
        "checkout",
        (
            OTLPSpanExporter(f"{base}/traces"),
            OTLPMetricExporter(f"{base}/metrics"),
            OTLPLogExporter(f"{base}/logs"),
        ),
    )
    inventory = Peer(telemetry, int(os.environ["INVENTORY_PORT"]))
    charges = telemetry.counter("shop.charges", "Charges by result.")

    def charge() -> int:
        with telemetry.tracer.start_as_current_span("check cart"):
            status = inventory.call("POST", "/reservations")
        try:
            with telemetry.tracer.start_as_current_span("charge card", attributes={"payment.method": "card"}):
                if random.random() < _DECLINED:
                    raise Declined("card declined")
        except Declined as error:
            telemetry.log(SeverityNumber.ERROR, str(error))
            charges.add(1, {"result": "declined"})
            return 502
        charges.add(1, {"result": "paid"})
        return status

    Service(telemetry, {"POST /charges": charge}).run()


if __name__ == "__main__":
    main()
