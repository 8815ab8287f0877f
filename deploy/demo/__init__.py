"""The demonstration: a small shop with the OpenTelemetry SDK, behind spansieve. Run it with `make demo`."""
