/* Checks message bytes against their grammar without keeping anything of them. */
#ifndef SS_CHECK_MESSAGES_H
#define SS_CHECK_MESSAGES_H

#include "core/bytes.h"
#include "core/utf8.h"
#include "otlp_checks.h"
#include "otlp_fields.h"

/* Messages within the request, one in the other, as in Google's parsers of C++ and Java. */
enum { SS_DEPTH_MAX = 100 };

/* Where and why a check failed, and what it found of the texts. */
typedef struct ss_check {
    const uint8_t *pos; /* of a fault: the field's tag */
    ss_status code;
    const char *reason;
    ss_fault fault;    /* what costs the item that it is in; SS_N_FAULTS: it costs the request */
    bool checks_texts; /* has_bad_text tells whether one is not UTF-8; otherwise texts may hold any bytes */
    bool has_bad_text;
    const uint8_t *unread; /* checking texts: of a run of attributes, what has not been looked at */
} ss_check;

#define SS_REASON_LENGTH "length runs past the end"
#define SS_REASON_VARINT "varint is cut off or longer than 64 bits"
#define SS_REASON_END "value runs past the end"
#define SS_REASON_TAG "field tag is not valid"

/* Record the failure; always false. */
bool ss_check_fail(ss_check *check, const uint8_t *pos, ss_status code, const char *reason);

/* Record a failure that costs no more than an item; always false. */
bool ss_check_fault(ss_check *check, const uint8_t *tag_at, ss_fault fault);

bool ss_check_tag_slow(ss_check *check, ss_reader *reader, uint32_t *tag);

/* Read a field's tag. */
static inline bool ss_check_tag(ss_check *check, ss_reader *reader, uint32_t *tag) {
    uint8_t byte = *reader->pos; /* REQUIRES: reader is not empty */
    if (__builtin_expect(byte < 0x80 && byte >= 8, 1)) {
        reader->pos++;
        *tag = byte;
        return true;
    }
    return ss_check_tag_slow(check, reader, tag);
}

/* Look whether a text, or bytes that are texts and ASCII between them, are UTF-8. */
static inline void ss_check_text(ss_check *check, const uint8_t *pos, const uint8_t *end) {
    if (check->checks_texts && !ss_utf8_is_valid(pos, end)) {
        check->has_bad_text = true;
    }
}

/* Skip a field of which nothing but its length is checked; tag_at is where its tag stood. */
bool ss_check_skip(ss_check *check, ss_reader *reader, uint32_t tag, const uint8_t *tag_at);

/* Check a field of a message of shape, nested messages included; depth: that of a message in it. */
bool ss_check_field(ss_check *check, ss_reader *reader, uint32_t tag, const uint8_t *tag_at, ss_check_shape shape,
                    unsigned depth);

/* Check a length-delimited message of shape, the depth-th within the request. */
bool ss_check_message(ss_check *check, ss_reader *reader, ss_check_shape shape, unsigned depth);

/* Find the last key of the KeyValue at body (its length prefix) .. end, which was checked. */
bool ss_key_of(const uint8_t *body, const uint8_t *end, ss_reader *key);

/* Check a length-delimited KeyValue. The layout that every encoder writes for a scalar value (length, 0x0a, key length,
 * key, 0x12, value length, value tag, value; each length in one byte) is checked in place, any other by the table.
 *
 * What stands between the texts of that layout is ASCII, so a run of such attributes is UTF-8 when they are, and is
 * looked at as a whole: the caller sets check->unread to its start and looks at what is unread at its end. Bytes that
 * are neither text nor ASCII end one stretch and begin another. */
static inline bool ss_check_key_value(ss_check *check, ss_reader *reader, unsigned depth) {
    const uint8_t *pos = reader->pos;
    size_t room = (size_t)(reader->end - pos);
    if (__builtin_expect(room > 8, 1)) {
        size_t length = pos[0];
        size_t key = pos[2];
        if (__builtin_expect(length < 0x80 && length < room && pos[1] == (SS_KEY_VALUE_KEY << 3 | SS_WIRE_BYTES) &&
                                 key + 6 <= length, /* so the key's length is one byte and four bytes follow the key */
                             1)) {
            const uint8_t *stop = pos + 1 + length;
            const uint8_t *value = pos + 3 + key;
            size_t rest = (size_t)(stop - value) - 4; /* behind value tag, value length, AnyValue tag, one byte */
            bool ok = value[0] == (SS_KEY_VALUE_VALUE << 3 | SS_WIRE_BYTES) && value[1] == rest + 2;
            switch (value[2]) {
            case SS_ANY_VALUE_STRING_VALUE << 3 | SS_WIRE_BYTES: ok &= value[3] == rest; break;
            case SS_ANY_VALUE_INT_VALUE << 3 | SS_WIRE_VARINT:
            case SS_ANY_VALUE_BOOL_VALUE << 3 | SS_WIRE_VARINT: {
                ss_reader number = {value + 3, stop};
                uint64_t ignored;
                ok = ok && ss_read_varint(&number, &ignored) && number.pos == stop;
                if (ok && rest) {
                    ss_check_text(check, check->unread, value);
                    check->unread = stop;
                }
                break;
            }
            case SS_ANY_VALUE_DOUBLE_VALUE << 3 | SS_WIRE_FIXED64:
                ok &= rest == 7;
                if (ok) {
                    ss_check_text(check, check->unread, value);
                    check->unread = stop;
                }
                break;
            default: ok = false;
            }
            if (__builtin_expect(ok, 1)) {
                reader->pos = stop;
                return true;
            }
        }
    }
    ss_check_text(check, check->unread, pos);
    bool ok = ss_check_message(check, reader, SS_CHECK_KEY_VALUE, depth);
    check->unread = reader->pos;
    return ok;
}

/* Check a length-delimited KeyValue that is no part of a run. */
static inline bool ss_check_attribute(ss_check *check, ss_reader *reader, unsigned depth) {
    check->unread = reader->pos;
    if (!ss_check_key_value(check, reader, depth)) {
        return false;
    }
    ss_check_text(check, check->unread, reader->pos);
    return true;
}

#endif
