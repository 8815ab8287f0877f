/* Protobuf wire format: the only place where a pointer into input or output moves. Source: protobuf "Encoding". */
#ifndef SS_BYTES_H
#define SS_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "spansieve.h"

enum {
    SS_WIRE_VARINT = 0,
    SS_WIRE_FIXED64 = 1,
    SS_WIRE_BYTES = 2,
    SS_WIRE_START_GROUP = 3,
    SS_WIRE_END_GROUP = 4,
    SS_WIRE_FIXED32 = 5
};
/* Bytes of a varint; of a tag or a length, for which Google's C++ parser reads no more, however they are padded. */
enum { SS_VARINT_MAX = 10, SS_VARINT32_MAX = 5, SS_NESTING_MAX = 100 };

/* Read position and end of the readable bytes. Never pos > end. */
typedef struct ss_reader {
    const uint8_t *pos;
    const uint8_t *end;
} ss_reader;

/* More than one byte, or too few: the path off the fast one. */
static inline bool ss_read_varint_slow(ss_reader *reader, unsigned size_max, uint64_t *value) {
    uint64_t result = 0;
    const uint8_t *pos = reader->pos;
    for (unsigned shift = 0; shift < 7 * size_max; shift += 7) {
        if (pos == reader->end) {
            return false;
        }
        uint8_t byte = *pos++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (shift == 63 && byte > 1) {
                return false; /* more than 64 bits */
            }
            reader->pos = pos;
            *value = result;
            return true;
        }
    }
    return false;
}

static inline bool ss_read_varint(ss_reader *reader, uint64_t *value) {
    if (__builtin_expect(reader->pos < reader->end && *reader->pos < 0x80, 1)) {
        *value = *reader->pos++;
        return true;
    }
    return ss_read_varint_slow(reader, SS_VARINT_MAX, value);
}

/* A tag or a length. */
static inline bool ss_read_varint32(ss_reader *reader, uint64_t *value) {
    if (__builtin_expect(reader->pos < reader->end && *reader->pos < 0x80, 1)) {
        *value = *reader->pos++;
        return true;
    }
    return ss_read_varint_slow(reader, SS_VARINT32_MAX, value);
}

/* A length prefix and that many bytes: body becomes a reader over them, reader moves behind them. */
static inline bool ss_read_bytes(ss_reader *reader, ss_reader *body) {
    uint64_t length;
    if (!ss_read_varint32(reader, &length) || length > (uint64_t)(reader->end - reader->pos)) {
        return false;
    }
    body->pos = reader->pos;
    body->end = reader->pos + length;
    reader->pos = body->end;
    return true;
}

static inline bool ss_read_fixed64(ss_reader *reader, uint64_t *value) {
    if (reader->end - reader->pos < 8) {
        return false;
    }
    memcpy(value, reader->pos, 8);
    reader->pos += 8;
    return true;
}

static inline bool ss_read_fixed32(ss_reader *reader, uint32_t *value) {
    if (reader->end - reader->pos < 4) {
        return false;
    }
    memcpy(value, reader->pos, 4);
    reader->pos += 4;
    return true;
}

/* Skip the value of a field whose tag was just read; groups are skipped whole. */
bool ss_skip_field(ss_reader *reader, uint32_t tag, unsigned depth);

static inline unsigned ss_varint_size(uint64_t value) {
    return (unsigned)((63 - __builtin_clzll(value | 1)) / 7 + 1);
}

/* REQUIRES: ss_varint_size(value) bytes of room. Returns the position behind. */
static inline uint8_t *ss_write_varint(uint8_t *out, uint64_t value) {
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

#endif
