/* UTF-8: characters, whole texts, and repair. Source: RFC 3629; Unicode, "Well-Formed UTF-8 Byte Sequences". */
#ifndef SS_UTF8_H
#define SS_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SS_UTF8_REPLACEMENT_BYTES = 3 };

/* Bytes of the character at pos; 0 when it is not well-formed. REQUIRES: pos < end. */
static inline unsigned ss_utf8_length(const uint8_t *pos, const uint8_t *end) {
    uint8_t lead = pos[0];
    if (lead < 0x80) {
        return 1;
    }
    /* The second byte's range excludes overlong forms, surrogates, and what lies beyond U+10FFFF. */
    uint8_t low = 0x80, high = 0xbf;
    unsigned length;
    if (lead < 0xc2) {
        return 0;
    } else if (lead < 0xe0) {
        length = 2;
    } else if (lead < 0xf0) {
        length = 3;
        low = lead == 0xe0 ? 0xa0 : 0x80;
        high = lead == 0xed ? 0x9f : 0xbf;
    } else if (lead < 0xf5) {
        length = 4;
        low = lead == 0xf0 ? 0x90 : 0x80;
        high = lead == 0xf4 ? 0x8f : 0xbf;
    } else {
        return 0;
    }
    if ((size_t)(end - pos) < length || pos[1] < low || pos[1] > high) {
        return 0;
    }
    for (unsigned i = 2; i < length; i++) {
        if ((pos[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

static inline uint64_t ss_utf8_word(const uint8_t *pos) {
    uint64_t word;
    memcpy(&word, pos, sizeof word);
    return word;
}

/* The bytes of 32, or'ed into 8. */
static inline uint64_t ss_utf8_block(const uint8_t *pos) {
    return ss_utf8_word(pos) | ss_utf8_word(pos + 8) | ss_utf8_word(pos + 16) | ss_utf8_word(pos + 24);
}

/* True when [pos, end) is ASCII. Nothing else is found in most of what is looked at, so no branch depends on the bytes;
 * the last block overlaps the one before instead of being read byte by byte. */
static inline bool ss_utf8_is_ascii(const uint8_t *pos, const uint8_t *end) {
    const uint64_t high_bits = UINT64_C(0x8080808080808080);
    const size_t length = (size_t)(end - pos);
    uint64_t seen = 0;
    if (length >= 32) {
        for (; end - pos > 64; pos += 64) {
            seen |= ss_utf8_block(pos) | ss_utf8_block(pos + 32);
        }
        seen |= ss_utf8_block(end - 32) | ss_utf8_block(end - pos > 32 ? pos : end - 32);
    } else if (length >= 16) {
        seen = ss_utf8_word(pos) | ss_utf8_word(pos + 8) | ss_utf8_word(end - 16) | ss_utf8_word(end - 8);
    } else if (length >= 8) {
        seen = ss_utf8_word(pos) | ss_utf8_word(end - 8);
    } else {
        for (; pos < end; pos++) {
            seen |= *pos;
        }
    }
    return !(seen & high_bits);
}

bool ss_utf8_is_valid_slow(const uint8_t *pos, const uint8_t *end);

/* True when [pos, end) is well-formed. */
static inline bool ss_utf8_is_valid(const uint8_t *pos, const uint8_t *end) {
    return __builtin_expect(ss_utf8_is_ascii(pos, end), 1) || ss_utf8_is_valid_slow(pos, end);
}

/* Bytes that ss_utf8_repair of [pos, end) writes: at most SS_UTF8_REPLACEMENT_BYTES times as many. */
size_t ss_utf8_repaired_size(const uint8_t *pos, const uint8_t *end);

/* Write [pos, end) with U+FFFD in place of each byte that is part of no character, as Go does. Returns the end. */
uint8_t *ss_utf8_repair(const uint8_t *pos, const uint8_t *end, uint8_t *out);

#endif
