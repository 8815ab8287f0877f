"""The demonstration: a small shop, instrumented with the OpenTelemetry SDK, behind spansieve. Run it with `make demo`."""
