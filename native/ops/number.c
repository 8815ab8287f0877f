#define _GNU_SOURCE /* strtod_l */
#include "ops/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct literal {
    const uint8_t *text;
    size_t length;
    size_t pos;
    char clean[SS_NUMBER_LITERAL_MAX + 1]; /* without underscores, for strtod */
    size_t clean_length;
} literal;

static char peek(const literal *source) {
    return source->pos < source->length ? (char)source->text[source->pos] : '\0';
}

static void take(literal *source) {
    source->clean[source->clean_length++] = peek(source);
    source->pos++;
}

static bool take_one_of(literal *source, const char *set) {
    bool found = peek(source) && strchr(set, peek(source));
    if (found) {
        take(source);
    }
    return found;
}

static bool is_digit(char letter, bool hex) {
    char lower = (char)(letter | 0x20);
    return (letter >= '0' && letter <= '9') || (hex && lower >= 'a' && lower <= 'f');
}

/* Digits with single underscores between them; one may also stand before them where follows_prefix. */
static size_t take_digits(literal *source, bool hex, bool follows_prefix) {
    size_t digits = 0;
    for (;; digits++) {
        bool may_separate = digits || follows_prefix;
        if (peek(source) == '_' && may_separate && source->pos + 1 < source->length &&
            is_digit((char)source->text[source->pos + 1], hex)) {
            source->pos++;
        }
        if (!is_digit(peek(source), hex)) {
            return digits;
        }
        take(source);
    }
}

static bool scan_literal(literal *source) {
    bool hex = false;
    (void)take_one_of(source, "+-");
    if (peek(source) == '0' && source->pos + 1 < source->length && (source->text[source->pos + 1] | 0x20) == 'x') {
        hex = true;
        take(source);
        take(source);
    }
    size_t digits = take_digits(source, hex, hex);
    if (take_one_of(source, ".")) {
        digits += take_digits(source, hex, false);
    }
    if (!digits) {
        return false;
    }
    if (take_one_of(source, hex ? "pP" : "eE")) {
        (void)take_one_of(source, "+-");
        if (!take_digits(source, false, false)) {
            return false;
        }
    } else if (hex) {
        return false;
    }
    return source->pos == source->length;
}

static bool is_word(const uint8_t *text, size_t length, const char *word) {
    return length == strlen(word) && strncasecmp((const char *)text, word, length) == 0;
}

static bool parse_word(const uint8_t *text, size_t length, double *value) {
    if (is_word(text, length, "nan")) {
        *value = NAN;
        return true;
    }
    double sign = length && text[0] == '-' ? -1 : 1;
    size_t skipped = length && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    *value = sign * INFINITY;
    return is_word(text + skipped, length - skipped, "inf") || is_word(text + skipped, length - skipped, "infinity");
}

bool ss_number_parse(const uint8_t *text, size_t length, double *value) {
    if (length > SS_NUMBER_LITERAL_MAX) {
        return false;
    }
    if (parse_word(text, length, value)) {
        return true;
    }
    literal source = {.text = text, .length = length};
    if (!scan_literal(&source)) {
        return false;
    }
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) {
        return false;
    }
    int saved_errno = errno;
    *value = strtod_l(source.clean, NULL, c_locale);
    errno = saved_errno;
    freelocale(c_locale);
    return !isinf(*value);
}

size_t ss_number_format(double value, char out[SS_NUMBER_FORMAT_MAX]) {
    if (isnan(value) || isinf(value)) {
        const char *name = isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
        return (size_t)snprintf(out, SS_NUMBER_FORMAT_MAX, "%s", name);
    }
    /* The fewest digits that read back; whatever the locale puts for the point is skipped over. */
    char text[SS_NUMBER_FORMAT_MAX];
    int saved_errno = errno;
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, fabs(value));
        if (strtod(text, NULL) == fabs(value)) {
            break;
        }
    }
    errno = saved_errno;
    char digits[SS_NUMBER_FORMAT_MAX];
    int n_digits = 0;
    const char *pos = text;
    for (; *pos != 'e'; pos++) {
        if (*pos >= '0' && *pos <= '9') {
            digits[n_digits++] = *pos;
        }
    }
    int exponent = atoi(pos + 1);

    char *end = out;
    if (signbit(value)) {
        *end++ = '-';
    }
    if (value != 0 && (exponent < -6 || exponent >= 21)) {
        *end++ = digits[0];
        if (n_digits > 1) {
            *end++ = '.';
            memcpy(end, digits + 1, (size_t)n_digits - 1);
            end += n_digits - 1;
        }
        return (size_t)(end - out) + (size_t)snprintf(end, 8, "e%+d", exponent);
    }
    if (exponent < 0) {
        memcpy(end, "0.00000", 7); /* at most five zeros: smaller values took the branch above */
        end += 1 - exponent;
        memcpy(end, digits, (size_t)n_digits);
        return (size_t)(end + n_digits - out);
    }
    for (int i = 0; i < n_digits || i <= exponent; i++) {
        if (i == exponent + 1) {
            *end++ = '.';
        }
        *end++ = i < n_digits ? digits[i] : '0';
    }
    return (size_t)(end - out);
}

int64_t ss_int_of(double value) {
    if (isnan(value)) {
        return 0;
    }
    return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : (int64_t)value;
}
