#include "ops/tracestate.h"

#include <math.h>
#include <string.h>

enum { MEMBERS_MAX = 32, TENANT_MAX = 241, SYSTEM_MAX = 14 };

static const char INVALID_SYNTAX[] = "invalid syntax";
static const char INVALID_SIZE[] = "invalid tracestate size";

typedef struct slice {
    const uint8_t *data;
    size_t length;
} slice;

static int hex_digit(uint8_t byte) {
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* REQUIRES: length <= SS_SAMPLING_DIGITS. */
static bool parse_hex(const uint8_t *text, size_t length, uint64_t *value) {
    uint64_t result = 0;
    for (size_t i = 0; i < length; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0) {
            return false;
        }
        result = result << 4 | (uint64_t)digit;
    }
    *value = result;
    return true;
}

const char *ss_randomness_parse(const uint8_t *text, size_t length, uint64_t *randomness) {
    if (length != SS_SAMPLING_DIGITS) {
        return "r-value must have 14 hex digits";
    }
    return parse_hex(text, length, randomness) ? NULL : INVALID_SYNTAX;
}

const char *ss_threshold_parse(const uint8_t *text, size_t length, uint64_t *threshold) {
    if (length > SS_SAMPLING_DIGITS) {
        return "t-value exceeds 14 hex digits";
    }
    if (length == 0) {
        return "t-value is empty";
    }
    if (!parse_hex(text, length, threshold)) {
        return INVALID_SYNTAX;
    }
    *threshold <<= 4 * (SS_SAMPLING_DIGITS - length);
    return NULL;
}

/* Eight hex digits, the first in the lowest byte: each nibble to a byte of its own, then all to ASCII at once. */
static uint64_t hex_digits(uint32_t value) {
    uint64_t nibbles = value;
    nibbles = (nibbles | nibbles << 16) & UINT64_C(0x0000ffff0000ffff);
    nibbles = (nibbles | nibbles << 8) & UINT64_C(0x00ff00ff00ff00ff);
    nibbles = (nibbles | nibbles << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t is_letter = (nibbles + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    return __builtin_bswap64(nibbles + UINT64_C(0x3030303030303030) + is_letter * ('a' - '0' - 10));
}

static void put_digits(uint8_t out[8], uint32_t value) {
    uint64_t digits = hex_digits(value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    digits = __builtin_bswap64(digits);
#endif
    memcpy(out, &digits, sizeof digits);
}

void ss_randomness_format(uint64_t randomness, uint8_t out[SS_SAMPLING_DIGITS]) {
    put_digits(out, (uint32_t)(randomness >> 24));
    put_digits(out + SS_SAMPLING_DIGITS - 8, (uint32_t)randomness); /* writes two of the digits again */
}

size_t ss_threshold_format(uint64_t threshold, uint8_t out[SS_SAMPLING_DIGITS]) {
    if (threshold >= SS_THRESHOLD_NEVER) {
        return 0;
    }
    ss_randomness_format(threshold, out);
    size_t length = SS_SAMPLING_DIGITS;
    while (length > 1 && out[length - 1] == '0') {
        length--;
    }
    return length;
}

/* Digits that are all 0 or all f at the front say nothing, so they do not count against the precision. Lives apart from
 * its callers: a product inlined into 1 - probability may be fused and then rounds differently. */
bool ss_sampler_threshold(double probability, uint32_t precision, uint64_t *threshold) {
    if (!(probability >= 0x1p-56 && probability <= 1)) {
        return false;
    }
    if (probability == 1) {
        *threshold = 0;
        return true;
    }
    int kept_exponent, dropped_exponent;
    (void)frexp(probability, &kept_exponent);
    (void)frexp(1 - probability, &dropped_exponent);
    int leading = kept_exponent / -4 > dropped_exponent / -4 ? kept_exponent / -4 : dropped_exponent / -4;
    int digits = precision && precision < SS_SAMPLING_DIGITS ? (int)precision + leading : SS_SAMPLING_DIGITS;
    uint64_t exact = SS_THRESHOLD_NEVER - (uint64_t)round(probability * 0x1p56);
    if (digits < SS_SAMPLING_DIGITS) {
        unsigned shift = 4 * (unsigned)(SS_SAMPLING_DIGITS - digits);
        exact = (exact + (UINT64_C(1) << (shift - 1))) >> shift << shift;
    }
    *threshold = exact;
    return true;
}

/* Take what stands before the first separator off rest, and the separator with it. */
static slice cut(slice *rest, uint8_t separator) {
    const uint8_t *end = memchr(rest->data, separator, rest->length);
    slice head = {rest->data, end ? (size_t)(end - rest->data) : rest->length};
    size_t taken = end ? head.length + 1 : head.length;
    rest->data += taken;
    rest->length -= taken;
    return head;
}

static bool is_blank(uint8_t byte) {
    return byte == ' ' || byte == '\t';
}

static slice trim(slice text) {
    while (text.length && is_blank(text.data[0])) {
        text.data++;
        text.length--;
    }
    while (text.length && is_blank(text.data[text.length - 1])) {
        text.length--;
    }
    return text;
}

static bool equals(slice text, const char *expected) {
    size_t length = strlen(expected);
    return text.length == length && memcmp(text.data, expected, length) == 0;
}

static bool is_lower(uint8_t byte) {
    return byte >= 'a' && byte <= 'z';
}

static bool is_digit(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

static bool is_key_part(slice text) {
    for (size_t i = 0; i < text.length; i++) {
        uint8_t byte = text.data[i];
        if (!is_lower(byte) && !is_digit(byte) && byte != '_' && byte != '-' && byte != '*' && byte != '/') {
            return false;
        }
    }
    return text.length > 0;
}

/* simple-key, or tenant-id "@" system-id. */
static bool is_key(slice key) {
    if (memchr(key.data, '@', key.length)) {
        slice tenant = cut(&key, '@');
        return is_key_part(tenant) && (is_lower(tenant.data[0]) || is_digit(tenant.data[0])) && is_key_part(key) &&
               is_lower(key.data[0]);
    }
    return is_key_part(key) && is_lower(key.data[0]);
}

static bool key_fits(slice key) {
    bool fits = key.length <= SS_TRACESTATE_MEMBER_MAX;
    if (memchr(key.data, '@', key.length)) {
        slice tenant = cut(&key, '@');
        fits = fits && tenant.length <= TENANT_MAX && key.length <= SYSTEM_MAX;
    }
    return fits;
}

static bool is_value(slice value) {
    for (size_t i = 0; i < value.length; i++) {
        uint8_t byte = value.data[i];
        if (byte < ' ' || byte > '~' || byte == ',' || byte == '=') {
            return false;
        }
    }
    return value.length > 0 && value.length <= SS_TRACESTATE_MEMBER_MAX; /* trimmed: no blank at the end */
}

static bool is_ot_pair(slice key, slice value) {
    for (size_t i = 0; i < key.length; i++) {
        if (!is_lower(key.data[i]) && (i == 0 || !is_digit(key.data[i]))) {
            return false;
        }
    }
    for (size_t i = 0; i < value.length; i++) {
        uint8_t byte = value.data[i];
        if (!is_lower((uint8_t)(byte | 0x20)) && !is_digit(byte) && byte != '.' && byte != '_' && byte != '-') {
            return false;
        }
    }
    return key.length > 0;
}

/* REQUIRES: room, which holds since all that is joined was cut from one input of the buffer's size. */
static void join(uint8_t *buffer, size_t *length, char separator, slice text) {
    if (*length) {
        buffer[(*length)++] = (uint8_t)separator;
    }
    memcpy(buffer + *length, text.data, text.length);
    *length += text.length;
}

static void clear_ot(ss_tracestate *state) {
    state->sampling = (ss_sampling){0};
    state->threshold_length = 0;
    state->extras_length = 0;
}

static const char *parse_randomness(ss_tracestate *state, slice text) {
    const char *problem = ss_randomness_parse(text.data, text.length, &state->sampling.randomness);
    state->sampling.has_randomness = !problem;
    if (!problem) {
        memcpy(state->randomness_text, text.data, text.length);
    }
    return problem;
}

static const char *parse_threshold(ss_tracestate *state, slice text) {
    const char *problem = ss_threshold_parse(text.data, text.length, &state->sampling.threshold);
    state->sampling.has_threshold = !problem;
    if (!problem) {
        memcpy(state->threshold_text, text.data, text.length);
        state->threshold_length = text.length;
    }
    return problem;
}

/* A later ot member replaces an earlier one; a later key of the same name too, but for the unknown ones. */
static const char *parse_ot(ss_tracestate *state, slice rest) {
    const char *first_problem = NULL;
    clear_ot(state);
    if (rest.data[rest.length - 1] == ';') {
        return INVALID_SYNTAX;
    }
    while (rest.length) {
        slice pair = cut(&rest, ';');
        bool has_colon = memchr(pair.data, ':', pair.length);
        slice value = pair;
        slice key = cut(&value, ':');
        if (!has_colon || !is_ot_pair(key, value)) {
            clear_ot(state);
            return INVALID_SYNTAX;
        }
        const char *problem = NULL;
        if (equals(key, "rv")) {
            problem = parse_randomness(state, value);
        } else if (equals(key, "th")) {
            problem = parse_threshold(state, value);
        } else {
            join(state->extras, &state->extras_length, ';', pair);
        }
        first_problem = first_problem ? first_problem : problem;
    }
    return first_problem;
}

const char *ss_tracestate_parse(ss_tracestate *state, const uint8_t *text, size_t length) {
    const char *first_problem = NULL;
    clear_ot(state);
    state->vendors_length = 0;
    if (length > SS_TRACESTATE_MAX) {
        return INVALID_SIZE;
    }
    slice rest = {text, length};
    for (unsigned n = 1; rest.length; n++) {
        slice member = trim(cut(&rest, ','));
        const char *problem = n >= MEMBERS_MAX ? INVALID_SIZE : NULL;
        if (member.length) {
            slice value = member;
            slice key = cut(&value, '=');
            /* A syntax error anywhere makes the whole text unusable, so members past the limit are checked too. */
            if (!is_key(key) || !is_value(value)) {
                clear_ot(state);
                state->vendors_length = 0;
                return INVALID_SYNTAX;
            }
            if (!key_fits(key)) {
                problem = INVALID_SIZE;
            } else if (n < MEMBERS_MAX && equals(key, "ot")) {
                problem = parse_ot(state, value);
            } else if (n < MEMBERS_MAX) {
                join(state->vendors, &state->vendors_length, ',', member);
            }
        }
        first_problem = first_problem ? first_problem : problem;
    }
    return first_problem;
}

void ss_tracestate_set_randomness(ss_tracestate *state, uint64_t randomness) {
    state->sampling.has_randomness = true;
    state->sampling.randomness = randomness;
    ss_randomness_format(randomness, state->randomness_text);
}

void ss_tracestate_set_threshold(ss_tracestate *state, uint64_t threshold) {
    state->sampling.has_threshold = true;
    state->sampling.threshold = threshold;
    state->threshold_length = ss_threshold_format(threshold, state->threshold_text);
}

static void join_pair(uint8_t *buffer, size_t *length, const char *key, const uint8_t *value, size_t value_length) {
    join(buffer, length, ';', (slice){(const uint8_t *)key, strlen(key)});
    memcpy(buffer + *length, value, value_length);
    *length += value_length;
}

size_t ss_tracestate_format(const ss_tracestate *state, uint8_t out[SS_TRACESTATE_FORMAT_MAX]) {
    static const char prefix[3] = "ot=";
    uint8_t *pairs = out + sizeof prefix;
    size_t pairs_length = 0;
    if (state->sampling.has_randomness) {
        join_pair(pairs, &pairs_length, "rv:", state->randomness_text, SS_SAMPLING_DIGITS);
    }
    if (state->sampling.has_threshold) {
        join_pair(pairs, &pairs_length, "th:", state->threshold_text, state->threshold_length);
    }
    if (state->extras_length) {
        join(pairs, &pairs_length, ';', (slice){state->extras, state->extras_length});
    }
    size_t length = 0;
    if (pairs_length) {
        memcpy(out, prefix, sizeof prefix);
        length = sizeof prefix + pairs_length;
    }
    if (state->vendors_length) {
        join(out, &length, ',', (slice){state->vendors, state->vendors_length});
    }
    return length;
}
