#include "core/utf8.h"

bool ss_utf8_is_valid_slow(const uint8_t *pos, const uint8_t *end) {
    while (pos < end) {
        if (end - pos >= 32 && ss_utf8_is_ascii(pos, pos + 32)) {
            pos += 32;
            continue;
        }
        unsigned length = ss_utf8_length(pos, end);
        if (length == 0) {
            return false;
        }
        pos += length;
    }
    return true;
}

size_t ss_utf8_repaired_size(const uint8_t *pos, const uint8_t *end) {
    size_t size = 0;
    while (pos < end) {
        unsigned length = ss_utf8_length(pos, end);
        size += length ? length : SS_UTF8_REPLACEMENT_BYTES;
        pos += length ? length : 1;
    }
    return size;
}

uint8_t *ss_utf8_repair(const uint8_t *pos, const uint8_t *end, uint8_t *out) {
    static const uint8_t replacement[SS_UTF8_REPLACEMENT_BYTES] = {0xef, 0xbf, 0xbd};
    while (pos < end) {
        unsigned length = ss_utf8_length(pos, end);
        if (length) {
            memcpy(out, pos, length);
            out += length;
            pos += length;
        } else {
            memcpy(out, replacement, sizeof replacement);
            out += sizeof replacement;
            pos++;
        }
    }
    return out;
}
