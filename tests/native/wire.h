/* Messages made by hand, so that a test needs no protobuf library. Buffers are freed by whoever has them. */
#ifndef SS_WIRE_H
#define SS_WIRE_H

#include <string.h>

#include "check.h"
#include "core/bytes.h"
#include "otlp_fields.h"

static inline void put(ss_buffer *out, const void *data, size_t length) {
    CHECK(ss_buffer_append(out, data, length) == SS_OK);
}

static inline void put_varint(ss_buffer *out, uint64_t value) {
    uint8_t bytes[SS_VARINT_MAX];
    put(out, bytes, (size_t)(ss_write_varint(bytes, value) - bytes));
}

static inline void put_bytes(ss_buffer *out, uint32_t field, const void *data, size_t length) {
    put_varint(out, field << 3 | SS_WIRE_BYTES);
    put_varint(out, length);
    put(out, data, length);
}

/* Moves message into out as a field, and empties it. */
static inline void put_message(ss_buffer *out, uint32_t field, ss_buffer *message) {
    put_bytes(out, field, message->data, message->length);
    message->length = 0;
}

static inline void put_fixed64(ss_buffer *out, uint32_t field, uint64_t value) {
    put_varint(out, field << 3 | SS_WIRE_FIXED64);
    put(out, &value, 8);
}

/* An attribute whose value is a text. */
static inline void put_attribute(ss_buffer *out, uint32_t field, const char *key, const char *text) {
    ss_buffer value = {0};
    ss_buffer pair = {0};
    put_bytes(&value, SS_ANY_VALUE_STRING_VALUE, text, strlen(text));
    put_bytes(&pair, SS_KEY_VALUE_KEY, key, strlen(key));
    put_message(&pair, SS_KEY_VALUE_VALUE, &value);
    put_message(out, field, &pair);
    ss_buffer_free(&value);
    ss_buffer_free(&pair);
}

static inline void check_bytes(const ss_buffer *expected, const ss_buffer *actual) {
    CHECK_EQUAL(expected->length, actual->length);
    CHECK(expected->length == actual->length && memcmp(expected->data, actual->data, actual->length) == 0);
}

#endif
