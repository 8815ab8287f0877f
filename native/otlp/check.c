#include "otlp/check.h"

bool ss_check_fail(ss_check *check, const uint8_t *pos, ss_status code, const char *reason) {
    check->pos = pos;
    check->code = code;
    check->reason = reason;
    check->fault = SS_N_FAULTS;
    return false;
}

bool ss_check_fault(ss_check *check, const uint8_t *tag_at, ss_fault fault) {
    static const char *const reasons[SS_N_FAULTS] = {
        [SS_FAULT_TRACE_ID] = "trace id must be 16 bytes",
        [SS_FAULT_SPAN_ID] = "span id must be 8 bytes",
        [SS_FAULT_PARENT_SPAN_ID] = "parent span id must be 8 bytes",
        [SS_FAULT_WIRE_TYPE] = "field has a wire type that it cannot have",
        [SS_FAULT_NESTING] = "messages are nested too deeply",
    };
    ss_check_fail(check, tag_at, fault == SS_FAULT_NESTING ? SS_ERR_LIMIT : SS_ERR_MALFORMED, reasons[fault]);
    check->fault = fault;
    return false;
}

bool ss_check_tag_slow(ss_check *check, ss_reader *reader, uint32_t *tag) {
    const uint8_t *at = reader->pos;
    uint64_t value;
    if (!ss_read_varint32(reader, &value) || value > UINT32_MAX || value >> 3 == 0) {
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

/* The value of a length-delimited field that holds no message. */
static bool check_value(ss_check *check, ss_reader *reader, unsigned kind, const uint8_t *tag_at) {
    const uint8_t *at = reader->pos;
    ss_reader value;
    if (!ss_read_bytes(reader, &value)) {
        return ss_check_fail(check, at, SS_ERR_MALFORMED, SS_REASON_LENGTH);
    }
    size_t length = (size_t)(value.end - value.pos);
    switch (kind) {
    case SS_VALUE_TEXT: ss_check_text(check, value.pos, value.end); return true;
    case SS_VALUE_PACKED_FIXED64:
        return length % 8 == 0 ||
               ss_check_fail(check, at, SS_ERR_MALFORMED, "packed values must be a multiple of 8 bytes");
    case SS_VALUE_TRACE_ID: return length == 0 || length == 16 || ss_check_fault(check, tag_at, SS_FAULT_TRACE_ID);
    case SS_VALUE_SPAN_ID: return length == 0 || length == 8 || ss_check_fault(check, tag_at, SS_FAULT_SPAN_ID);
    case SS_VALUE_PARENT_SPAN_ID:
        return length == 0 || length == 8 || ss_check_fault(check, tag_at, SS_FAULT_PARENT_SPAN_ID);
    default: return true;
    }
}

bool ss_check_field(ss_check *check, ss_reader *reader, uint32_t tag, const uint8_t *tag_at, ss_check_shape shape,
                    unsigned depth) {
    enum { GROUPS = 1 << SS_WIRE_START_GROUP | 1 << SS_WIRE_END_GROUP };
    const uint32_t number = tag >> 3;
    const unsigned wire = tag & 7;
    uint64_t ignored;
    /* No field has number 0, so its entry is that of those which are not known. */
    const ss_check_entry *entry = &ss_check_table[shape][number < SS_CHECK_FIELDS ? number : 0];
    if (__builtin_expect((entry->refused | GROUPS) >> wire & 1, 0)) {
        return ss_check_fault(check, tag_at, SS_FAULT_WIRE_TYPE);
    }
    if (wire == SS_WIRE_BYTES) {
        switch (entry->kind) {
        case SS_VALUE_MESSAGE:
            return entry->child == SS_CHECK_KEY_VALUE
                       ? ss_check_attribute(check, reader, depth)
                       : ss_check_message(check, reader, (ss_check_shape)entry->child, depth);
        case SS_VALUE_PACKED_VARINT: return check_packed_varints(check, reader);
        case SS_VALUE_OPAQUE: break;
        default: return check_value(check, reader, entry->kind, tag_at);
        }
    } else if (wire == SS_WIRE_FIXED64 && ss_read_fixed64(reader, &ignored)) {
        return true;
    } else if (wire == SS_WIRE_VARINT && ss_read_varint(reader, &ignored)) {
        return true;
    }
    return ss_check_skip(check, reader, tag, tag_at);
}

bool ss_check_message(ss_check *check, ss_reader *reader, ss_check_shape shape, unsigned depth) {
    const uint8_t *at = reader->pos;
    ss_reader body;
    if (!ss_read_bytes(reader, &body)) {
        return ss_check_fail(check, at, SS_ERR_MALFORMED, SS_REASON_LENGTH);
    }
    if (depth > SS_DEPTH_MAX) {
        return ss_check_fault(check, at, SS_FAULT_NESTING);
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
