"""Knows the stock; one query in forty is slow. Exports over OTLP/HTTP with JSON."""

from __future__ import annotations

import os
import random
import time

from deploy.demo.json_exporters import JsonLogs, JsonMetrics, JsonSpans
from deploy.demo.service import Service
from deploy.demo.telemetry import Telemetry

_SLOW = 1 / 40
_SLOW_S = 0.08


def main() -> None:
    """Run the service."""
    base = f"http://{os.environ['OTLP_HTTP']}/v1"
    telemetry = Telemetry(
        "inventory",
        (JsonSpans(f"{base}/traces"), JsonMetrics(f"{base}/metrics"), JsonLogs(f"{base}/logs")),
    )
    queries = telemetry.histogram("db.client.operation.duration", "s", "Duration of queries.")

    def query(statement: str) -> int:
        with telemetry.tracer.start_as_current_span("look up cache"):
            start_s = time.monotonic()
        with telemetry.tracer.start_as_current_span(statement, attributes={"db.system.name": "postgresql"}):
            time.sleep(_SLOW_S if random.random() < _SLOW else 0.0)
        queries.record(time.monotonic() - start_s, {"db.operation.name": statement.split(" ", maxsplit=1)[0]})
        return 200

    Service(
        telemetry,
        {
            "GET /stock": lambda: query("SELECT stock"),
            "POST /reservations": lambda: query("UPDATE stock"),
        },
    ).run()


if __name__ == "__main__":
    main()
