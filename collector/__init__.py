"""spansieve: an OpenTelemetry Collector as a Python sidecar with a C data plane."""

__version__ = "0.1.0"
