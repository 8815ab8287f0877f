#include "otlp/check.h"

bool ss_check_fail(ss_check *check, const uint8_t *pos, ss_status code, const char *reason) {
    *check = (ss_check){pos, code, reason};
    return false;
}

bool ss_check_tag_slow(ss_check *check, ss_reader *reader, uint32_t *tag) {
    const uint8_t *at = reader->pos;
    uint64_t value;
    if (!ss_read_varint(reader, &value)) {
        return ss_check_fail(check, at, SS_ERR_MALFORMED, SS_REASON_VARINT);
    }
    if (value > UINT32_MAX || value >> 3 == 0) {
        return ss_check_fail(check, at, SS_ERR_MALFORMED, SS_REASON_TAG);
    }
    *tag = (uint32_t)value;
    return true;
}

bool ss_check_skip(ss_check *check, ss_reader *reader, uint32_t tag, const uint8_t *tag_at) {
    if (ss_skip_field(reader, tag, 0)) {
        return true;
    }
    const char *reason = (tag & 7) == SS_WIRE_BYTES                                      ? SS_REASON_LENGTH
                         : (tag & 7) == SS_WIRE_VARINT                                   ? SS_REASON_VARINT
                         : (tag & 7) > SS_WIRE_FIXED32 || (tag & 7) == SS_WIRE_END_GROUP ? SS_REASON_TAG
                                                                                         : SS_REASON_END;
    return ss_check_fail(check, tag_at, SS_ERR_MALFORMED, reason);
}

static bool check_packed_varints(ss_check *check, ss_reader *reader) {
    const uint8_t *at = reader->pos;
    ss_reader values;
    uint64_t ignored;
    if (!ss_read_bytes(reader, &values)) {
        return ss_check_fail(check, at, SS_ERR_MALFORMED, SS_REASON_LENGTH);
    }
    while (values.pos < values.end) {
        at = values.pos;
        if (!ss_read_varint(&values, &ignored)) {
            return ss_check_fail(check, at, SS_ERR_MALFORMED, SS_REASON_VARINT);
        }
    }
    return true;
}

/* A length-delimited value whose length must be 0, or exactly size, or with size 0 a multiple of 8. */
static bool check_sized(ss_check *check, ss_reader *reader, size_t size, const char *reason) {
    const uint8_t *at = reader->pos;
    ss_reader value;
    if (!ss_read_bytes(reader, &value)) {
        return ss_check_fail(check, at, SS_ERR_MALFORMED, SS_REASON_LENGTH);
    }
    size_t length = (size_t)(value.end - value.pos);
    bool fits = length == 0 || (size ? length == size : length % 8 == 0);
    return fits || ss_check_fail(check, at, SS_ERR_MALFORMED, reason);
}

bool ss_check_field(ss_check *check, ss_reader *reader, uint32_t tag, const uint8_t *tag_at, ss_check_shape shape,
                    unsigned depth) {
    uint32_t number = tag >> 3;
    if ((tag & 7) == SS_WIRE_BYTES && number < SS_CHECK_FIELDS) {
        const ss_check_entry *entry = &ss_check_table[shape][number];
        switch (entry->kind) {
        case SS_VALUE_MESSAGE:
            return entry->child == SS_CHECK_KEY_VALUE
                       ? ss_check_key_value(check, reader, depth)
                       : ss_check_message(check, reader, (ss_check_shape)entry->child, depth);
        case SS_VALUE_PACKED_VARINT: return check_packed_varints(check, reader);
        case SS_VALUE_PACKED_FIXED64:
            return check_sized(check, reader, 0, "packed values must be a multiple of 8 bytes");
        case SS_VALUE_TRACE_ID: return check_sized(check, reader, 16, "trace id must be 16 bytes");
        case SS_VALUE_SPAN_ID: return check_sized(check, reader, 8, "span id must be 8 bytes");
        default: break;
        }
    }
    return ss_check_skip(check, reader, tag, tag_at);
}

bool ss_check_message(ss_check *check, ss_reader *reader, ss_check_shape shape, unsigned depth) {
    const uint8_t *at = reader->pos;
    ss_reader body;
    if (!ss_read_bytes(reader, &body)) {
        return ss_check_fail(check, at, SS_ERR_MALFORMED, SS_REASON_LENGTH);
    }
    if (depth >= SS_DEPTH_MAX) {
        return ss_check_fail(check, at, SS_ERR_LIMIT, "messages are nested too deeply");
    }
    while (body.pos < body.end) {
        const uint8_t *tag_at = body.pos;
        uint32_t tag;
        if (!ss_check_tag(check, &body, &tag) || !ss_check_field(check, &body, tag, tag_at, shape, depth + 1)) {
            return false;
        }
    }
    return true;
}

bool ss_key_of(const uint8_t *body, const uint8_t *end, ss_reader *key) {
    ss_reader reader = {body, end};
    ss_reader pair;
    bool found = false;
    if (!ss_read_bytes(&reader, &pair)) {
        return false;
    }
    for (uint64_t tag; pair.pos < pair.end && ss_read_varint(&pair, &tag);) {
        if (tag == (SS_KEY_VALUE_KEY << 3 | SS_WIRE_BYTES)) {
            found = ss_read_bytes(&pair, key);
        } else if (!ss_skip_field(&pair, (uint32_t)tag, 0)) {
            return false;
        }
    }
    return found;
}
