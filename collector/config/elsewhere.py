"""What to do without components that people know from the Collector; imported only to complain of one."""

from __future__ import annotations

from collector.ids import Kind

_ADVICE = {
    (Kind.RECEIVER, "jaeger"): "clients of Jaeger send OTLP today: use otlp",
    (Kind.RECEIVER, "zipkin"): "send OTLP to otlp",
    (Kind.RECEIVER, "opencensus"): "send OTLP to otlp",
    (Kind.PROCESSOR, "filter"): "low_value_filter drops health checks and empty spans",
    (Kind.PROCESSOR, "tail_sampling"): "probabilistic_sampler decides by trace ID",
    (Kind.PROCESSOR, "groupbytrace"): "probabilistic_sampler decides by trace ID, without waiting",
    (Kind.PROCESSOR, "queuebatch"): "use batch",
    (Kind.PROCESSOR, "k8sattributes"): "set OTEL_RESOURCE_ATTRIBUTES where the program runs",
    (Kind.PROCESSOR, "resource"): "set OTEL_RESOURCE_ATTRIBUTES where the program runs",
    (Kind.PROCESSOR, "resourcedetection"): "set OTEL_RESOURCE_ATTRIBUTES where the program runs",
    (Kind.EXPORTER, "logging"): "the logging exporter has been deprecated, use the debug exporter instead",
    (Kind.EXPORTER, "jaeger"): "Jaeger takes OTLP: use otlp_grpc",
    (Kind.EXPORTER, "prometheus"): "Prometheus takes OTLP: use otlp_http with metrics_endpoint",
    (Kind.EXPORTER, "prometheusremotewrite"): "Prometheus takes OTLP: use otlp_http with metrics_endpoint",
    (Kind.EXPORTER, "loadbalancing"): "otlp_grpc sends to one server",
    (Kind.EXTENSION, "healthcheckv2"): "use health_check",
    (
        Kind.EXTENSION,
        "pprof",
    ): "it serves profiles of a Go program: remove it, and profile this process from outside",
    (Kind.EXTENSION, "zpages"): "remove it: metrics are at localhost:8888/metrics, problems are in the log",
    (Kind.EXTENSION, "memory_ballast"): "remove it: there is no garbage collector of Go's to calm",
    (Kind.EXTENSION, "bearertokenauth"): "a fixed token can be set in the headers of an exporter",
    (Kind.EXTENSION, "basicauth"): "a fixed Authorization can be set in the headers of an exporter",
    (
        Kind.EXTENSION,
        "file_storage",
    ): "sending queues are in memory: remove it, and storage where it is named",
}


def advice_on(kind: Kind, type: str) -> str:
    """Return what to do instead of a component of the Collector; empty when there is nothing to say."""
    advice = _ADVICE.get((kind, type))
    return f"; {advice}" if advice else ""
