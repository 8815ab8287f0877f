#include "otlp/json_text.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    POWER_OF_TEN_MAX = 19, /* the largest in 64 bits */
    DIGITS_MAX = 800,      /* a double's rounding depends on 767 digits at most, then on whether more follow */
    EXACT_DIGITS = 15,     /* decimals of so few digits are all different doubles */
    ROUND_TRIP_DIGITS = 17
};

/* Written exponents stop counting here; no text is so long that its digits could make up for it. */
static const int64_t exponent_max = INT64_C(1000000000000000);

static const double exact_integer_end = 9007199254740992.0; /* 2^53 */

static const uint64_t powers_of_ten[POWER_OF_TEN_MAX + 1] = {
    UINT64_C(1),
    UINT64_C(10),
    UINT64_C(100),
    UINT64_C(1000),
    UINT64_C(10000),
    UINT64_C(100000),
    UINT64_C(1000000),
    UINT64_C(10000000),
    UINT64_C(100000000),
    UINT64_C(1000000000),
    UINT64_C(10000000000),
    UINT64_C(100000000000),
    UINT64_C(1000000000000),
    UINT64_C(10000000000000),
    UINT64_C(100000000000000),
    UINT64_C(1000000000000000),
    UINT64_C(10000000000000000),
    UINT64_C(100000000000000000),
    UINT64_C(1000000000000000000),
    UINT64_C(10000000000000000000),
};

static bool is_digit(const uint8_t *pos, const uint8_t *end) {
    return pos < end && (uint8_t)(*pos - '0') < 10;
}

/* Take a run of digits into the mantissa while they fit; each one after the point lowers the exponent. */
static const uint8_t *scan_digits(const uint8_t *pos, const uint8_t *end, bool is_fraction, ss_decimal *number,
                                  bool *is_full) {
    for (; is_digit(pos, end); pos++) {
        uint64_t longer;
        *is_full = *is_full || __builtin_mul_overflow(number->mantissa, (uint64_t)10, &longer) ||
                   __builtin_add_overflow(longer, (uint64_t)(*pos - '0'), &longer);
        if (*is_full) {
            number->is_truncated |= *pos != '0';
            number->exponent += !is_fraction;
        } else {
            number->mantissa = longer;
            number->exponent -= is_fraction;
        }
    }
    return pos;
}

const uint8_t *ss_decimal_scan(const uint8_t *pos, const uint8_t *end, bool strict, ss_decimal *number) {
    *number = (ss_decimal){.begin = pos};
    if (pos < end && (*pos == '-' || (*pos == '+' && !strict))) {
        number->negative = *pos++ == '-';
    }
    const uint8_t *digits = pos;
    bool is_full = false;
    pos = scan_digits(pos, end, false, number, &is_full);
    size_t n_digits = (size_t)(pos - digits);
    if (strict && (n_digits == 0 || (*digits == '0' && n_digits > 1))) {
        return NULL;
    }
    if (pos < end && *pos == '.') {
        const uint8_t *fraction = pos + 1;
        pos = scan_digits(fraction, end, true, number, &is_full);
        if (strict && pos == fraction) {
            return NULL;
        }
        n_digits += (size_t)(pos - fraction);
    }
    if (n_digits == 0) {
        return NULL;
    }
    if (pos < end && (*pos | 0x20) == 'e') {
        pos++;
        bool negative = pos < end && *pos == '-';
        pos += pos < end && (*pos == '-' || *pos == '+');
        if (!is_digit(pos, end)) {
            return NULL;
        }
        int64_t exponent = 0;
        for (; is_digit(pos, end); pos++) {
            exponent = exponent < exponent_max ? exponent * 10 + (*pos - '0') : exponent;
        }
        number->exponent += negative ? -exponent : exponent;
    }
    number->end = pos;
    return pos;
}

bool ss_decimal_to_uint64(const ss_decimal *number, uint64_t *value) {
    uint64_t mantissa = number->mantissa;
    int64_t exponent = number->exponent;
    if (number->is_truncated) {
        return false;
    }
    for (; exponent < 0 && mantissa && mantissa % 10 == 0; exponent++) {
        mantissa /= 10;
    }
    *value = mantissa;
    if (exponent == 0 || mantissa == 0) {
        return true;
    }
    return exponent > 0 && exponent <= POWER_OF_TEN_MAX &&
           !__builtin_mul_overflow(mantissa, powers_of_ten[exponent], value);
}

/* The rare number of many digits or a large exponent: strtod over digits and exponent, without a point, which is
 * where locales differ. */
static bool far_to_double(const ss_decimal *number, double *value) {
    char text[DIGITS_MAX + 32];
    size_t length = 0;
    int64_t exponent = number->exponent;
    if (number->is_truncated) {
        /* All digits again; the exponent is that of the digits which the mantissa kept. */
        bool has_more = false;
        int64_t kept = 0;
        for (uint64_t mantissa = number->mantissa; mantissa; mantissa /= 10) {
            kept++;
        }
        for (const uint8_t *pos = number->begin; pos < number->end && (*pos | 0x20) != 'e'; pos++) {
            if (*pos < '0' || *pos > '9' || (length == 0 && *pos == '0')) {
                continue;
            }
            if (length < DIGITS_MAX) {
                text[length++] = (char)*pos;
            } else {
                has_more |= *pos != '0';
            }
        }
        exponent -= (int64_t)length - kept;
        if (has_more && text[length - 1] == '0') {
            text[length - 1] = '1';
        }
    } else {
        length = (size_t)(ss_uint64_write(number->mantissa, (uint8_t *)text) - (uint8_t *)text);
    }
    snprintf(text + length, sizeof text - length, "e%lld", (long long)exponent);
    int saved = errno;
    *value = strtod(text, NULL);
    errno = saved;
    return isfinite(*value);
}

bool ss_decimal_to_double(const ss_decimal *number, double *value) {
    uint64_t mantissa = number->mantissa;
    int64_t exponent = number->exponent;
    bool is_representable = true;
    if (mantissa == 0) {
        *value = 0;
    } else if (number->is_truncated || exponent > POWER_OF_TEN_MAX || exponent < -POWER_OF_TEN_MAX) {
        is_representable = far_to_double(number, value);
    } else if (exponent >= 0) {
        /* The product is exact in 128 bits; the conversion rounds once. */
        *value = (double)((unsigned __int128)mantissa * powers_of_ten[exponent]);
    } else if (mantissa <= UINT64_C(1) << 53) {
        /* Both exact, so the division rounds once. */
        *value = (double)mantissa / (double)powers_of_ten[-exponent];
    } else {
        /* A quotient of 64 bits or more, its last bit set when the division left a rest: rounds as the true value. */
        int shift = __builtin_clzll(mantissa) + 64;
        unsigned __int128 dividend = (unsigned __int128)mantissa << shift;
        unsigned __int128 quotient = dividend / powers_of_ten[-exponent];
        quotient |= quotient * powers_of_ten[-exponent] != dividend;
        *value = ldexp((double)quotient, -shift);
    }
    if (number->negative) {
        *value = -*value;
    }
    return is_representable;
}

uint8_t *ss_uint64_write(uint64_t value, uint8_t *out) {
    uint8_t digits[SS_UINT64_TEXT_MAX];
    unsigned first = SS_UINT64_TEXT_MAX;
    do {
        digits[--first] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value);
    memcpy(out, digits + first, SS_UINT64_TEXT_MAX - first);
    return out + SS_UINT64_TEXT_MAX - first;
}

/* Write mantissa x 10^exponent; mantissa > 0 does not end in zero. */
static uint8_t *write_decimal(uint64_t mantissa, int exponent, uint8_t *out) {
    uint8_t digits[SS_UINT64_TEXT_MAX];
    int n_digits = (int)(ss_uint64_write(mantissa, digits) - digits);
    int point = n_digits + exponent; /* digits before the point */
    if (point > 21 || point < -5) {
        *out++ = digits[0];
        if (n_digits > 1) {
            *out++ = '.';
            memcpy(out, digits + 1, (size_t)n_digits - 1);
            out += n_digits - 1;
        }
        *out++ = 'e';
        *out++ = point > 0 ? '+' : '-';
        return ss_uint64_write((uint64_t)abs(point - 1), out);
    }
    if (point <= 0) {
        *out++ = '0';
        *out++ = '.';
        memset(out, '0', (size_t)-point);
        memcpy(out - point, digits, (size_t)n_digits);
        return out - point + n_digits;
    }
    int n_whole = point < n_digits ? point : n_digits;
    memcpy(out, digits, (size_t)n_whole);
    out += n_whole;
    if (point < n_digits) {
        *out++ = '.';
        memcpy(out, digits + point, (size_t)(n_digits - point));
        return out + n_digits - point;
    }
    memset(out, '0', (size_t)(point - n_digits));
    return out + point - n_digits;
}

/* The fewest digits that read back as value > 0. 15 that do are the only ones, and end in zeros where fewer would do;
 * not so below the normal doubles, which are sparser. */
static void shortest_decimal(double value, uint64_t *mantissa, int *exponent) {
    for (int precision = value < DBL_MIN ? 1 : EXACT_DIGITS; precision <= ROUND_TRIP_DIGITS; precision++) {
        char text[32];
        snprintf(text, sizeof text, "%.*e", precision - 1, value);
        const char *pos = text;
        ss_decimal number = {.mantissa = 0};
        for (; *pos != 'e'; pos++) {
            if (*pos >= '0' && *pos <= '9') { /* what else there is, is the locale's decimal point */
                number.mantissa = number.mantissa * 10 + (uint64_t)(*pos - '0');
            }
        }
        number.exponent = strtol(pos + 1, NULL, 10) - (precision - 1);
        *mantissa = number.mantissa;
        *exponent = (int)number.exponent;
        double back;
        if (ss_decimal_to_double(&number, &back) && back == value) {
            break;
        }
    }
}

uint8_t *ss_double_write(double value, uint8_t *out) {
    if (signbit(value)) {
        *out++ = '-';
        value = -value;
    }
    if (value == 0) {
        *out++ = '0';
        return out;
    }
    uint64_t mantissa = 0;
    int exponent = 0;
    if (value < exact_integer_end && (double)(uint64_t)value == value) {
        mantissa = (uint64_t)value;
    } else {
        /* Most fractions have few decimals; of so few digits no shorter text can mean the same double. */
        exponent = -6;
        mantissa = value < 1e9 ? (uint64_t)(value * 1e6 + 0.5) : 0;
        if (mantissa == 0 || (double)mantissa / 1e6 != value) {
            shortest_decimal(value, &mantissa, &exponent);
        }
    }
    for (; mantissa % 10 == 0; exponent++) {
        mantissa /= 10;
    }
    return write_decimal(mantissa, exponent, out);
}

void ss_base64_write(const uint8_t *pos, const uint8_t *end, uint8_t *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; pos < end; pos += 3) {
        size_t n = end - pos < 3 ? (size_t)(end - pos) : 3;
        uint32_t bits = (uint32_t)pos[0] << 16 | (n > 1 ? (uint32_t)pos[1] << 8 : 0) | (n > 2 ? (uint32_t)pos[2] : 0);
        for (unsigned digit = 0; digit < 4; digit++) {
            *out++ = (uint8_t)(digit <= n ? digits[bits >> (18 - 6 * digit) & 0x3f] : '=');
        }
        if (n < 3) {
            break; /* not beyond end, not even by a pointer */
        }
    }
}
