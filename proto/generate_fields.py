"""Write the C header of OTLP field numbers from the opentelemetry-proto descriptors.

Usage: generate_fields.py OUTPUT. Every field of every message reachable from the three export requests
becomes `SS_<MESSAGE>_<FIELD> = number`, so that no field number is ever typed by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from google.protobuf.descriptor import Descriptor
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

REQUESTS = (
    trace_service_pb2.ExportTraceServiceRequest.DESCRIPTOR,
    trace_service_pb2.ExportTraceServiceResponse.DESCRIPTOR,
    metrics_service_pb2.ExportMetricsServiceRequest.DESCRIPTOR,
    metrics_service_pb2.ExportMetricsServiceResponse.DESCRIPTOR,
    logs_service_pb2.ExportLogsServiceRequest.DESCRIPTOR,
    logs_service_pb2.ExportLogsServiceResponse.DESCRIPTOR,
)


def upper_snake(name: str) -> str:
    """Return CamelCase or snake_case as UPPER_SNAKE_CASE."""
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in name)
    return words.lstrip("_").upper()


def reachable(roots: tuple[Descriptor, ...]) -> list[Descriptor]:
    """Return the messages that roots can contain, roots included, in a stable order."""
    found: dict[str, Descriptor] = {}
    waiting = list(roots)
    while waiting:
        message = waiting.pop(0)
        if message.full_name not in found:
            found[message.full_name] = message
            waiting += [field.message_type for field in message.fields if field.message_type]
    return list(found.values())


def path_name(message: Descriptor) -> str:
    """Return the message's name with its enclosing messages', such as SPAN_EVENT."""
    own = upper_snake(message.name)
    return f"{path_name(message.containing_type)}_{own}" if message.containing_type else own


def header() -> str:
    """Return the text of the C header."""
    lines = [
        "/* Generated from the opentelemetry-proto descriptors by proto/generate_fields.py. */",
        "#ifndef SS_OTLP_FIELDS_H",
        "#define SS_OTLP_FIELDS_H",
        "",
        "enum {",
    ]
    for message in reachable(REQUESTS):
        lines += [f"    SS_{path_name(message)}_{field.name.upper()} = {field.number}," for field in message.fields]
    return "\n".join([*lines, "};", "", "#endif", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(header(), encoding="ascii")
