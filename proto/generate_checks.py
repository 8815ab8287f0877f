"""Write the C tables by which the scan checks nested messages, from the opentelemetry-proto descriptors.

Usage: generate_checks.py OUTPUT. For each message one row indexed by field number: what the field's bytes are, and
which wire types it cannot have.
"""

from __future__ import annotations

import sys
from pathlib import Path

from generate_fields import BYTES, FIXED32, FIXED64, REQUESTS, VARINT, fields_of, path_name, reachable
from google.protobuf.descriptor import Descriptor, FieldDescriptor

ID_SIZES = {
    "trace_id": "SS_VALUE_TRACE_ID",
    "span_id": "SS_VALUE_SPAN_ID",
    "parent_span_id": "SS_VALUE_PARENT_SPAN_ID",
}
WIRE_TYPES = (VARINT, FIXED64, BYTES, FIXED32)


def kind(field: FieldDescriptor, wire: int) -> str:
    """Return what the bytes of a field of that wire type are; SS_VALUE_OPAQUE where there is nothing to check."""
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return "SS_VALUE_MESSAGE"
    if field.type == FieldDescriptor.TYPE_BYTES and field.name in ID_SIZES:
        return ID_SIZES[field.name]
    if field.type == FieldDescriptor.TYPE_STRING:
        return "SS_VALUE_TEXT"
    if field.is_repeated and wire == FIXED64:
        return "SS_VALUE_PACKED_FIXED64"
    if field.is_repeated and wire == VARINT:
        return "SS_VALUE_PACKED_VARINT"
    return "SS_VALUE_OPAQUE"


def row(message: Descriptor) -> list[str]:
    """Return the initialisers of one message's table row."""
    entries = []
    for field in fields_of(message):
        descriptor = message.fields_by_number[field.number]
        allowed = {field.wire, BYTES} if field.is_packed else {field.wire}
        refused = sum(1 << wire for wire in WIRE_TYPES if wire not in allowed)
        child = f"SS_CHECK_{path_name(field.message)}" if field.message else "0"
        entries.append(
            f"        [{field.number}] = {{{kind(descriptor, field.wire)}, {child}, {refused:#x}}},"
        )
    return entries


def header() -> str:
    """Return the text of the C header."""
    messages = reachable(REQUESTS)
    width = 1 + max(field.number for message in messages for field in message.fields)
    lines = [
        "/* Generated from the opentelemetry-proto descriptors by proto/generate_checks.py. */",
        "#ifndef SS_OTLP_CHECKS_H",
        "#define SS_OTLP_CHECKS_H",
        "",
        "#include <stdint.h>",
        "",
        "enum { SS_VALUE_OPAQUE, SS_VALUE_MESSAGE, SS_VALUE_PACKED_VARINT, SS_VALUE_PACKED_FIXED64,",
        "       SS_VALUE_TEXT, SS_VALUE_TRACE_ID, SS_VALUE_SPAN_ID, SS_VALUE_PARENT_SPAN_ID };",
        "",
        "typedef enum ss_check_shape {",
        *(f"    SS_CHECK_{path_name(message)}," for message in messages),
        "    SS_N_CHECK_SHAPES",
        "} ss_check_shape;",
        "",
        f"enum {{ SS_CHECK_FIELDS = {width} }};",
        "",
        "typedef struct ss_check_entry {",
        "    uint8_t kind;    /* of the value, where it is length-delimited */",
        "    uint8_t child;   /* ss_check_shape of a SS_VALUE_MESSAGE */",
        "    uint8_t refused; /* a bit for each wire type that the field cannot have; none of a number not in use */",
        "} ss_check_entry;",
        "",
        "static const ss_check_entry ss_check_table[SS_N_CHECK_SHAPES][SS_CHECK_FIELDS] = {",
    ]
    for message in messages:
        lines += [f"    [SS_CHECK_{path_name(message)}] = {{", *row(message), "    },"]
    return "\n".join([*lines, "};", "", "#endif", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(header(), encoding="ascii")
