"""The generator of field numbers and message shapes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

SCRIPT = Path(__file__).parents[3] / "proto" / "generate_fields.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("generate_fields", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def message(*fields: FieldDescriptorProto, oneofs: int = 0) -> Descriptor:
    """Return a message with these fields."""
    file = FileDescriptorProto(name="test.proto", package="test", syntax="proto3")
    proto = file.message_type.add(name="Sample")
    proto.field.extend(fields)
    for index in range(oneofs):
        proto.oneof_decl.add(name=f"choice_{index}")
    pool = DescriptorPool()
    pool.Add(file)
    return pool.FindMessageTypeByName("test.Sample")


def field(number: int, type_number: int, name: str = "", **more: int | bool) -> FieldDescriptorProto:
    """Return one field."""
    label = (
        FieldDescriptorProto.LABEL_REPEATED
        if more.pop("repeated", False)
        else FieldDescriptorProto.LABEL_OPTIONAL
    )
    return FieldDescriptorProto(
        name=name or f"field_{number}", number=number, type=type_number, label=label, **more
    )


def test_field_numbers_are_those_of_the_descriptors(generator: ModuleType) -> None:
    """Numbers of nested messages carry the names of those around them."""
    text = generator.fields_header()
    for line in (
        "SS_SPAN_TRACE_ID = 1,",
        "SS_SPAN_FLAGS = 16,",
        "SS_SPAN_EVENT_NAME = 2,",
        "SS_LOG_RECORD_BODY = 5,",
    ):
        assert f"    {line}\n" in text


def test_shapes_of_requests_stand_at_their_signal(generator: ModuleType) -> None:
    """The C code finds the shape of a request by ss_signal."""
    text = generator.shapes_header()
    assert "SS_SHAPE_EXPORT_TRACE_SERVICE_REQUEST = 0," in text
    assert "SS_SHAPE_EXPORT_METRICS_SERVICE_REQUEST = 1," in text
    assert "SS_SHAPE_EXPORT_LOGS_SERVICE_REQUEST = 2," in text


def test_ids_are_told_from_other_bytes(generator: ModuleType) -> None:
    """The three ids are hex in JSON, any other bytes field is base64."""
    bytes_type = FieldDescriptorProto.TYPE_BYTES
    own = generator.fields_of(
        message(field(1, bytes_type, "parent_span_id"), field(2, bytes_type, "bytes_value"))
    )
    assert ["PARENT_SPAN_ID", "BYTES"] == [one.type for one in own]


def test_repeated_numbers_are_packed(generator: ModuleType) -> None:
    """A packed field's tag says length-delimited; a repeated string's is the same as a single one's."""
    own = generator.fields_of(
        message(
            field(1, FieldDescriptorProto.TYPE_FIXED64, repeated=True),
            field(2, FieldDescriptorProto.TYPE_STRING, repeated=True),
            field(3, FieldDescriptorProto.TYPE_FIXED64),
        )
    )
    assert [(True, 1 << 3 | 2), (False, 2 << 3 | 2), (False, 3 << 3 | 1)] == [
        (one.is_packed, one.tag) for one in own
    ]


def test_presence_is_of_oneofs_and_optional_fields(generator: ModuleType) -> None:
    """Zero is written where absence would not say it; the oneof that stands for `optional` is none."""
    own = generator.fields_of(
        message(
            field(1, FieldDescriptorProto.TYPE_INT64),
            field(2, FieldDescriptorProto.TYPE_INT64, oneof_index=0),
            field(3, FieldDescriptorProto.TYPE_DOUBLE, oneof_index=1, proto3_optional=True),
            oneofs=2,
        )
    )
    assert [False, True, True] == [one.has_presence for one in own]
    assert [False, True, False] == [one.in_oneof for one in own]


def test_both_spellings_are_keys(generator: ModuleType) -> None:
    """A name of one word is one key, any other two, lowerCamelCase first."""
    string = FieldDescriptorProto.TYPE_STRING
    own = generator.fields_of(message(field(1, string, "schema_url"), field(2, string, "name")))
    assert [["schemaUrl", "schema_url"], ["name"]] == [one.spellings for one in own]


def test_unsupported_type_stops_the_build(generator: ModuleType) -> None:
    """A new field that the C code could not carry is refused by name, not lost."""
    with pytest.raises(generator.UnsupportedSchema, match=r"test\.Sample\.ratio"):
        generator.fields_of(message(field(1, FieldDescriptorProto.TYPE_FLOAT, "ratio")))


def test_second_oneof_stops_the_build(generator: ModuleType) -> None:
    """The writer keeps track of one oneof a message."""
    with pytest.raises(generator.UnsupportedSchema, match=r"test\.Sample: .* one oneof"):
        generator.fields_of(
            message(
                field(1, FieldDescriptorProto.TYPE_INT64, oneof_index=0),
                field(2, FieldDescriptorProto.TYPE_INT64, oneof_index=1),
                oneofs=2,
            )
        )


def test_script_writes_both_headers(generator: ModuleType, tmp_path: Path) -> None:
    """Tags are varints, byte by byte: that of Span.flags, number 16, has two."""
    assert [0x85, 0x01] == generator.varint(16 << 3 | 5)
    assert '{0x85, 0x1}, 8, "\\"flags\\":"}' in generator.shapes_header()
