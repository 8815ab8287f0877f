"""Write the C headers of OTLP field numbers and message shapes from the opentelemetry-proto descriptors.

Usage: generate_fields.py FIELDS SHAPES.

- FIELDS: every field of every message reachable from the export requests and responses, as
  `SS_<MESSAGE>_<FIELD> = number`, so that no field number is ever typed by hand.
- SHAPES: the tables that drive the JSON reader and writer (native/otlp/json_shape.h holds their types).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
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

# In the order of ss_signal: the shape of a signal's request is found by the signal's number.
SHAPE_ROOTS = (REQUESTS[0], REQUESTS[2], REQUESTS[4])

# Bytes fields that OTLP/JSON writes as hex instead of base64. Source: OTLP specification, "JSON Protobuf Encoding".
ID_FIELDS = ("trace_id", "span_id", "parent_span_id")

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
TYPES = {
    FieldDescriptorProto.TYPE_DOUBLE: ("DOUBLE", FIXED64),
    FieldDescriptorProto.TYPE_INT64: ("INT64", VARINT),
    FieldDescriptorProto.TYPE_UINT64: ("UINT64", VARINT),
    FieldDescriptorProto.TYPE_INT32: ("INT32", VARINT),
    FieldDescriptorProto.TYPE_FIXED64: ("FIXED64", FIXED64),
    FieldDescriptorProto.TYPE_FIXED32: ("FIXED32", FIXED32),
    FieldDescriptorProto.TYPE_BOOL: ("BOOL", VARINT),
    FieldDescriptorProto.TYPE_STRING: ("STRING", BYTES),
    FieldDescriptorProto.TYPE_MESSAGE: ("MESSAGE", BYTES),
    FieldDescriptorProto.TYPE_BYTES: ("BYTES", BYTES),
    FieldDescriptorProto.TYPE_UINT32: ("UINT32", VARINT),
    FieldDescriptorProto.TYPE_ENUM: ("ENUM", VARINT),
    FieldDescriptorProto.TYPE_SFIXED64: ("SFIXED64", FIXED64),
    FieldDescriptorProto.TYPE_SINT32: ("SINT32", VARINT),
}


JSON_KEY_EXTRA = len('"":')


class UnsupportedSchema(Exception):
    """The descriptors hold something that the C code would not carry."""


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


def fields_header() -> str:
    """Return the text of the header of field numbers."""
    lines = [
        "/* Generated from the opentelemetry-proto descriptors by proto/generate_fields.py. */",
        "#ifndef SS_OTLP_FIELDS_H",
        "#define SS_OTLP_FIELDS_H",
        "",
        "enum {",
    ]
    for message in reachable(REQUESTS):
        lines += [
            f"    SS_{path_name(message)}_{field.name.upper()} = {field.number}," for field in message.fields
        ]
    return "\n".join([*lines, "};", "", "#endif", ""])


class Field(NamedTuple):
    """One field as the C tables show it."""

    name: str
    json_name: str
    number: int
    type: str
    wire: int
    is_repeated: bool
    is_packed: bool
    has_presence: bool
    in_oneof: bool
    message: Descriptor | None
    enum: EnumDescriptor | None

    @property
    def tag(self) -> int:
        """The varint before each of its values."""
        return self.number << 3 | (BYTES if self.is_packed else self.wire)

    @property
    def spellings(self) -> list[str]:
        """The keys that name it in JSON, the canonical one first."""
        return list(dict.fromkeys((self.json_name, self.name)))


def field_of(message: Descriptor, proto: FieldDescriptorProto) -> Field:
    """Return the table's view of one field of message.

    Raises:
        UnsupportedSchema: its type is not among those that the C code reads and writes.
    """
    descriptor = message.fields_by_name[proto.name]
    if proto.type not in TYPES or (
        descriptor.message_type and descriptor.message_type.GetOptions().map_entry
    ):
        raise UnsupportedSchema(
            f"{message.full_name}.{proto.name}: a type that native/otlp/json_*.c does not handle"
        )
    type_name, wire = TYPES[proto.type]
    if type_name == "BYTES" and proto.name in ID_FIELDS:
        type_name = upper_snake(proto.name)
    is_repeated = proto.label == FieldDescriptorProto.LABEL_REPEATED
    in_oneof = proto.HasField("oneof_index") and not proto.proto3_optional
    return Field(
        name=proto.name,
        json_name=proto.json_name or descriptor.camelcase_name,
        number=proto.number,
        type=type_name,
        wire=wire,
        is_repeated=is_repeated,
        is_packed=is_repeated and wire != BYTES,
        has_presence=in_oneof or proto.proto3_optional,
        in_oneof=in_oneof,
        message=descriptor.message_type,
        enum=descriptor.enum_type,
    )


def fields_of(message: Descriptor) -> list[Field]:
    """Return message's fields in the order of the .proto file, which is the Collector's order in JSON.

    Raises:
        UnsupportedSchema: the message has two oneofs, or a field that cannot be carried.
    """
    proto = DescriptorProto()
    message.CopyToProto(proto)
    oneofs = {
        field.oneof_index
        for field in proto.field
        if field.HasField("oneof_index") and not field.proto3_optional
    }
    if len(oneofs) > 1:
        raise UnsupportedSchema(
            f"{message.full_name}: native/otlp/json_write.c keeps track of one oneof a message"
        )
    return [field_of(message, field) for field in proto.field]


def varint(value: int) -> list[int]:
    """Return value's varint, byte by byte."""
    encoded = []
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return [*encoded, value]


def c_bool(value: bool) -> str:
    """Return C's word for value."""
    return "true" if value else "false"


def field_row(field: Field, enum_range: tuple[int, int]) -> str:
    """Return field as an ss_shape_field."""
    flags = (field.is_repeated, field.is_packed, field.has_presence, field.in_oneof)
    tag = varint(field.tag)
    columns = [
        f"SS_FIELD_{field.type}",
        str(field.wire),
        *map(c_bool, flags),
        f"SS_SHAPE_{path_name(field.message)}" if field.message else "0",
        *map(str, enum_range),
        str(len(tag)),
        f"{{{', '.join(map(hex, tag))}}}",
        str(len(field.json_name) + JSON_KEY_EXTRA),
        f'"\\"{field.json_name}\\":"',
    ]
    return f"{{{', '.join(columns)}}},"


def table(declaration: str, rows: list[str]) -> list[str]:
    """Return the lines of a constant array."""
    return [f"static const {declaration} = {{", *(f"    {row}" for row in rows), "};", ""]


def shapes_header() -> str:
    """Return the text of the header of message shapes.

    Raises:
        UnsupportedSchema: the descriptors hold something that the C code would not carry.
    """
    messages = reachable(SHAPE_ROOTS)
    fields = [fields_of(message) for message in messages]
    every_field = [field for own in fields for field in own]
    number_max = max(field.number for field in every_field)

    enum_rows: list[str] = []
    enum_ranges: dict[str, tuple[int, int]] = {}
    for enum in (field.enum for field in every_field if field.enum):
        if enum.full_name not in enum_ranges:
            first = len(enum_rows)
            enum_rows += [f'{{{value.number}, {len(value.name)}, "{value.name}"}},' for value in enum.values]
            enum_ranges[enum.full_name] = (first, len(enum_rows))

    field_rows: list[str] = []
    key_rows: list[str] = []
    shape_rows: list[str] = []
    for index, (message, own) in enumerate(zip(messages, fields, strict=True)):
        first_field, first_key = len(field_rows), len(key_rows)
        field_rows += [
            field_row(field, enum_ranges[field.enum.full_name] if field.enum else (0, 0)) for field in own
        ]
        # The canonical spellings first: the reader expects keys in the order of this table.
        keys = [(place, key) for place, field in enumerate(own) for key in field.spellings[:1]]
        keys += [(place, key) for place, field in enumerate(own) for key in field.spellings[1:]]
        key_rows += [f'{{{index}, {len(key)}, {first_field + place}, "{key}"}},' for place, key in keys]
        by_number = [0] * (number_max + 1)
        for place, field in enumerate(own, start=1):
            by_number[field.number] = place
        shape_rows.append(
            f"{{{first_field}, {len(field_rows)}, {first_key}, {len(key_rows)}, "
            f"{{{', '.join(map(str, by_number))}}}}}, /* {message.full_name} */"
        )

    name_size = max(len(name) for field in every_field for name in field.spellings) + 1
    enum_names = [value.name for field in every_field if field.enum for value in field.enum.values]
    return "\n".join(
        [
            "/* Generated from the opentelemetry-proto descriptors by proto/generate_fields.py. */",
            "#ifndef SS_OTLP_SHAPES_H",
            "#define SS_OTLP_SHAPES_H",
            "",
            "enum {",
            *(f"    SS_SHAPE_{path_name(message)} = {index}," for index, message in enumerate(messages)),
            f"    SS_N_SHAPES = {len(messages)},",
            f"    SS_N_SHAPE_KEYS = {len(key_rows)},",
            f"    SS_SHAPE_FIELDS_MAX = {max(map(len, fields))},",
            f"    SS_SHAPE_NUMBER_MAX = {number_max},",
            f"    SS_SHAPE_NAME_SIZE = {name_size},",
            f"    SS_SHAPE_KEY_SIZE = {name_size + JSON_KEY_EXTRA},",
            f"    SS_ENUM_NAME_SIZE = {max(map(len, enum_names)) + 1},",
            "};",
            "",
            '#include "otlp/json_shape.h"',
            "",
            *table("ss_enum_name ss_enum_names[]", enum_rows),
            *table("ss_shape_field ss_shape_fields[]", field_rows),
            *table("ss_shape_key ss_shape_keys[SS_N_SHAPE_KEYS]", key_rows),
            *table("ss_shape ss_shapes[SS_N_SHAPES]", shape_rows),
            "#endif",
            "",
        ]
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(fields_header(), encoding="ascii")
    Path(sys.argv[2]).write_text(shapes_header(), encoding="ascii")
