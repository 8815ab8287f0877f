/* The atoms of JSON text, for the reader and the writers: numbers, base64, plain runs of strings. Source: RFC 8259. */
#ifndef SS_JSON_TEXT_H
#define SS_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A decimal number, mantissa x 10^exponent. No decimal point of any locale is involved. */
typedef struct ss_decimal {
    uint64_t mantissa;
    int64_t exponent;
    bool negative;
    bool is_truncated;          /* digits other than zero did not fit into mantissa */
    const uint8_t *begin, *end; /* its text */
} ss_decimal;

/* Read the number at the start of [pos, end) and return the position behind it; NULL where none begins.
 * strict: the JSON grammar. Otherwise, for numbers in strings, also a plus sign, leading zeros and a bare point on
 * either side, as Go's ParseFloat takes them. */
const uint8_t *ss_decimal_scan(const uint8_t *pos, const uint8_t *end, bool strict, ss_decimal *number);

/* The absolute value as an integer; false when it has a fraction or does not fit. */
bool ss_decimal_to_uint64(const ss_decimal *number, uint64_t *value);

/* The nearest double, ties to even; false when it would be infinite. */
bool ss_decimal_to_double(const ss_decimal *number, double *value);

/* Write the shortest text that reads back as value, which is finite, as ECMAScript and Go's JSON do: plain between
 * 1e-6 and 1e21, else with an exponent. Returns the end of at most SS_DOUBLE_TEXT_MAX bytes. */
enum { SS_DOUBLE_TEXT_MAX = 32 };
uint8_t *ss_double_write(double value, uint8_t *out);

enum { SS_UINT64_TEXT_MAX = 20 };
uint8_t *ss_uint64_write(uint64_t value, uint8_t *out);

/* Base64 with padding. Source: RFC 4648. */
static inline size_t ss_base64_size(size_t length) {
    return (length + 2) / 3 * 4;
}
void ss_base64_write(const uint8_t *pos, const uint8_t *end, uint8_t *out);

/* The first byte at or after pos that cannot be copied between quotes unseen: a quote, a backslash, a control
 * character, or the start of something beyond ASCII. */
static inline const uint8_t *ss_find_special(const uint8_t *pos, const uint8_t *end) {
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones * 0x80;
    while (end - pos >= 8) {
        uint64_t word;
        memcpy(&word, pos, 8);
        uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
        /* The top bit of each byte that is zero, or below a space, or has its top bit set; exact up to the first. */
        uint64_t hit =
            ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | ((word - ones * ' ') & ~word) | word;
        hit &= tops;
        if (hit) {
            return pos + (__builtin_ctzll(hit) >> 3);
        }
        pos += 8;
    }
    while (pos < end && *pos >= ' ' && *pos < 0x80 && *pos != '"' && *pos != '\\') {
        pos++;
    }
    return pos;
}

#endif
