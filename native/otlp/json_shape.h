/* What the JSON reader and writer know about OTLP messages: the types of the generated tables in otlp_shapes.h,
 * which includes this file. Indexes are into those tables; ranges are [first, end). */
#ifndef SS_JSON_SHAPE_H
#define SS_JSON_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

/* The types of protobuf that OTLP uses; the three ids are bytes that JSON shows as hex. */
typedef enum ss_field_type {
    SS_FIELD_DOUBLE,
    SS_FIELD_INT64,
    SS_FIELD_UINT64,
    SS_FIELD_INT32,
    SS_FIELD_FIXED64,
    SS_FIELD_FIXED32,
    SS_FIELD_BOOL,
    SS_FIELD_STRING,
    SS_FIELD_MESSAGE,
    SS_FIELD_BYTES,
    SS_FIELD_UINT32,
    SS_FIELD_ENUM,
    SS_FIELD_SFIXED64,
    SS_FIELD_SINT32,
    SS_FIELD_TRACE_ID,
    SS_FIELD_SPAN_ID,
    SS_FIELD_PARENT_SPAN_ID
} ss_field_type;

typedef struct ss_enum_name {
    int32_t value;
    uint8_t length;
    char name[SS_ENUM_NAME_SIZE];
} ss_enum_name;

typedef struct ss_shape_field {
    uint8_t type; /* ss_field_type */
    uint8_t wire; /* wire type of one value */
    bool is_repeated;
    bool is_packed;
    bool has_presence; /* a scalar that is written even when it is zero: optional, or of a oneof */
    bool in_oneof;
    uint8_t shape; /* of a message */
    uint16_t first_enum, end_enum;
    uint8_t tag_length;
    uint8_t tag[2];
    uint8_t key_length;
    char key[SS_SHAPE_KEY_SIZE]; /* as JSON text: quoted, with the colon */
} ss_shape_field;

/* One accepted spelling of a field's name. */
typedef struct ss_shape_key {
    uint8_t shape;
    uint8_t length;
    uint16_t field;
    char name[SS_SHAPE_NAME_SIZE];
} ss_shape_key;

/* One message. */
typedef struct ss_shape {
    uint16_t first_field, end_field;
    uint16_t first_key, end_key;
    uint8_t by_number[SS_SHAPE_NUMBER_MAX + 1]; /* 1 + place among the message's fields; 0: unknown */
} ss_shape;

#endif
