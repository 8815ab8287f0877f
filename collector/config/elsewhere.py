"""The components that the Collector has and spansieve has not, by their names old and new, and what to do instead.

Imported only to complain of one. Marks between words do not count in a name: `hostmetrics` and `host_metrics` are the
old and the new name of one receiver, as of most that were renamed. Source: the lists of components of the Collector's
distributions (opentelemetry-collector-contrib, reports/distributions) and the types of components that were removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.ids import Kind
from collector.lean import NamedTuple

_TYPES = {
    Kind.RECEIVER: """
        active_directory_ds active_directory_inv aerospike apache apache_spark aws_cloudwatch aws_lambda
        awscontainerinsightreceiver awscontainerinsightskueuereceiver awsecscontainermetrics awsfirehose awss3 awsxray
        azure_blob azure_event_hub azure_monitor bigip carbon chrony cisco_os cloud_foundry cloudflare collectd couchdb
        datadog docker_stats dotnet_diagnostics elasticsearch envoy_als expvar faro file_log file_stats flink_metrics
        fluent_forward github gitlab google_cloud_spanner googlecloudmonitoring googlecloudpubsub googlecloudpubsubpush
        haproxy host_metrics http_check iis influxdb jaeger jmx journald k8s_cluster k8s_events k8s_objects kafka
        kafka_metrics kubelet_stats libhoney loki macos_unified_logging memcached mongodb mongodb_atlas mysql named_pipe
        netflow nginx nsxt ntp opencensus oracledb otelarrow otlp_json_file podman_stats postgresql pprof prometheus
        prometheus_exec prometheus_remote_write prometheus_simple pulsar purefa purefb rabbitmq receiver_creator redis
        riak sapm saphana signalfx skywalking snmp snowflake solace splunk_enterprise splunk_hec sql_query sqlserver
        ssh_check statsd stef syslog systemd tcp_check tcp_log tls_check udp_log vcenter wavefront webhook_event
        windows_event_log windows_perf_counters windows_service yang_grpc zipkin zookeeper
    """,
    Kind.PROCESSOR: """
        cardinality_guardian coralogix cumulative_to_delta datadog datadogsemantics delta_to_cumulative delta_to_rate
        drain experimental_metricsgeneration filter gen_ai_normalizer geoip groupbyattrs groupbytrace interval
        isolationforest k8s_attributes k8s_tagger log_dedup logstransform metric_start_time metricsgeneration
        queued_retry queuebatch redaction remotetap resource_detection routing schema service_graph span span_metrics
        span_pruning sumologic tail_sampling transform unroll
    """,
    Kind.EXPORTER: """
        alertmanager alibabacloud_logservice awscloudwatchlogs awsemf awskinesis awsprometheusremotewrite awss3 awsxray
        azure_blob azure_monitor azuredataexplorer bmc_helix carbon cassandra clickhouse coralogix datadog dataset doris
        dynatrace elastic elasticsearch f5cloud faro google_cloud_storage googlecloud googlecloudpubsub
        googlemanagedprometheus honeycomb honeycomb_marker humio influxdb instana jaeger jaeger_thrift kafka
        load_balancing logging logicmonitor logzio loki mezmo newrelic observiq opencensus opensearch otelarrow parquet
        prometheus prometheus_remote_write pulsar rabbitmq sapm sentry signalfx skywalking splunk_hec stackdriver stef
        sumologic syslog tanzuobservability tencentcloud_logservice tinybird zipkin
    """,
    Kind.CONNECTOR: """
        count datadog exceptions failover grafanacloud otlp_json round_robin routing service_graph signal_to_metrics
        span_metrics sum
    """,
    Kind.EXTENSION: """
        ack asapclient avro_log_encoding aws_iam_db_auth aws_logs_encoding awscloudwatchmetricstreams_encoding awsproxy
        azure_auth azure_encoding basicauth bearertokenauth cfgarden_observer cgroup_runtime datadog db_storage
        docker_observer ecs_observer ecs_task_observer file_storage fluentbit google_cloud_logentry_encoding
        googleclientauth headers_setter host_observer http_forwarder jaeger_encoding jaegerremotesampling
        json_log_encoding k8s_leader_elector k8s_observer kafkatopics_observer memory_ballast memory_limiter
        oauth2client oidc opamp otlp_encoding pebble_tail_storage redis_storage remotetap sd_notify sigv4auth
        skywalking_encoding solarwindsapmsettings sumologic text_encoding tpm zipkin_encoding
    """,
}
_INSTEAD = {
    Kind.RECEIVER: "let a Collector that has it send OTLP to the receiver otlp",
    Kind.PROCESSOR: "let a Collector behind this one do it",
    Kind.EXPORTER: "send OTLP, by otlp_grpc or otlp_http, to the backend if it takes that, or to a Collector",
    Kind.CONNECTOR: "let a Collector behind this one do it",
    Kind.EXTENSION: "remove it, and what names it",
}
_OTLP = "its clients can send OTLP today: use otlp"
_RESOURCE = "set OTEL_RESOURCE_ATTRIBUTES where the program runs"
_BY_TRACE_ID = "probabilistic_sampler decides by trace ID, without waiting"
_FOR_PROMETHEUS = (
    "Prometheus takes OTLP: use otlp_http with metrics_endpoint http://HOST:9090/api/v1/otlp/v1/metrics"
)
_FROM_SPANS = "let the backend, or a Collector in front of the sampling, make metrics of spans"
_OBSERVER = "nothing here asks an observer: remove it"
_ADVICE = {
    (Kind.RECEIVER, "jaeger"): _OTLP,
    (Kind.RECEIVER, "zipkin"): _OTLP,
    (Kind.RECEIVER, "opencensus"): _OTLP,
    (Kind.RECEIVER, "prometheus"): "let Prometheus or a Collector scrape, or the program send OTLP to otlp",
    (Kind.RECEIVER, "prometheus_simple"): "let Prometheus or a Collector scrape",
    (Kind.RECEIVER, "host_metrics"): "let a Collector on the host gather them and send OTLP to otlp",
    (Kind.RECEIVER, "file_log"): "let the program send its logs as OTLP to otlp, or a Collector read the files",
    (Kind.RECEIVER, "otlp_json_file"): "let a Collector read the files and send OTLP to otlp",
    (Kind.PROCESSOR, "filter"): "low_value_filter drops health checks and very short spans without attributes",
    (Kind.PROCESSOR, "tail_sampling"): _BY_TRACE_ID,
    (Kind.PROCESSOR, "groupbytrace"): _BY_TRACE_ID,
    (Kind.PROCESSOR, "transform"): "attributes and resource set, copy, hash and delete attributes",
    (Kind.PROCESSOR, "span"): "attributes takes parts of attributes out by patterns; names of spans stay",
    (Kind.PROCESSOR, "redaction"): "attributes deletes and hashes by key and pattern",
    (Kind.PROCESSOR, "queuebatch"): "use batch",
    (Kind.PROCESSOR, "queued_retry"): "remove it: exporters have sending_queue and retry_on_failure",
    (Kind.PROCESSOR, "k8s_attributes"): f"{_RESOURCE}, from the downward API",
    (Kind.PROCESSOR, "k8s_tagger"): f"{_RESOURCE}, from the downward API",
    (Kind.PROCESSOR, "resource_detection"): _RESOURCE,
    (Kind.PROCESSOR, "span_metrics"): _FROM_SPANS,
    (Kind.PROCESSOR, "service_graph"): _FROM_SPANS,
    (Kind.PROCESSOR, "routing"): "a pipeline for each receiver is what there is of routing",
    (Kind.EXPORTER, "logging"): "the logging exporter has been deprecated, use the debug exporter instead; "
    "spansieve validate --fix FILE writes it",
    (Kind.EXPORTER, "jaeger"): "Jaeger takes OTLP: use otlp_grpc, port 4317",
    (Kind.EXPORTER, "jaeger_thrift"): "Jaeger takes OTLP: use otlp_grpc, port 4317",
    (Kind.EXPORTER, "loki"): "Loki takes OTLP: use otlp_http with endpoint: http://loki:3100/otlp",
    (Kind.EXPORTER, "prometheus"): _FOR_PROMETHEUS,
    (Kind.EXPORTER, "prometheus_remote_write"): _FOR_PROMETHEUS,
    (Kind.EXPORTER, "load_balancing"): "otlp_grpc sends to one server; put a load balancer for gRPC before several",
    (Kind.EXPORTER, "datadog"): "the Datadog Agent takes OTLP: use otlp_grpc",
    (Kind.EXPORTER, "elastic"): "Elastic takes OTLP: use otlp_grpc",
    (Kind.EXPORTER, "honeycomb"): "Honeycomb takes OTLP: use otlp_grpc",
    (Kind.EXPORTER, "newrelic"): "New Relic takes OTLP: use otlp_http",
    (Kind.EXPORTER, "dynatrace"): "Dynatrace takes OTLP: use otlp_http",
    (Kind.CONNECTOR, "span_metrics"): _FROM_SPANS,
    (Kind.CONNECTOR, "service_graph"): _FROM_SPANS,
    (Kind.CONNECTOR, "routing"): "a pipeline for each receiver is what there is of routing",
    (Kind.EXTENSION, "memory_ballast"): "remove it: there is no garbage collector of Go's to calm",
    (Kind.EXTENSION, "memory_limiter"): "use the processor memory_limiter",
    (Kind.EXTENSION, "bearertokenauth"): "a fixed token can be set in the headers of an exporter",
    (Kind.EXTENSION, "basicauth"): "a fixed Authorization can be set in the headers of an exporter",
    (Kind.EXTENSION, "headers_setter"): "fixed headers can be set in the headers of an exporter",
    (Kind.EXTENSION, "file_storage"): "sending queues are in memory: remove it, and storage where it is named",
    (Kind.EXTENSION, "db_storage"): "sending queues are in memory: remove it, and storage where it is named",
    (Kind.EXTENSION, "redis_storage"): "sending queues are in memory: remove it, and storage where it is named",
    (Kind.EXTENSION, "docker_observer"): _OBSERVER,
    (Kind.EXTENSION, "host_observer"): _OBSERVER,
    (Kind.EXTENSION, "k8s_observer"): _OBSERVER,
}  # fmt: skip


class Elsewhere(NamedTuple):
    """A component of the Collector that spansieve has not.

    Attributes:
        type: its name of today, or the last one that it had.
        advice: what to do instead.
    """

    type: str
    advice: str


def find(kind: Kind, type: str) -> Elsewhere | None:
    """Return the component of the Collector that type is, or was, the name of; None when there is none."""
    for known in types(kind):
        if known.replace("_", "") == type.replace("_", ""):
            return Elsewhere(known, _ADVICE.get((kind, known), _INSTEAD[kind]))
    return None


def types(kind: Kind) -> Iterator[str]:
    """Yield the types of kind that the Collector has and spansieve has not."""
    yield from _TYPES[kind].split()


def advised() -> Iterator[tuple[Kind, str]]:
    """Yield the components of which there is more to say than of others of their kind."""
    yield from _ADVICE
