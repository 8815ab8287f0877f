#include "ops/tracestate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ops/number.h"

static const char *parse(ss_tracestate *state, const char *text) {
    return ss_tracestate_parse(state, (const uint8_t *)text, strlen(text));
}

/* Parse text, expect problem (NULL: none) and what is left of it when it is written again. */
static void check_text(const char *text, const char *problem, const char *written) {
    ss_tracestate state;
    uint8_t out[SS_TRACESTATE_FORMAT_MAX];
    const char *actual = parse(&state, text);
    size_t length = ss_tracestate_format(&state, out);
    bool is_same_problem = problem ? actual && strcmp(actual, problem) == 0 : !actual;
    if (!is_same_problem || length != strlen(written) || memcmp(out, written, length) != 0) {
        fprintf(stderr, "\"%s\": %s, written \"%.*s\"\n", text, actual ? actual : "no problem", (int)length,
                (const char *)out);
    }
    CHECK(is_same_problem);
    CHECK(length == strlen(written) && memcmp(out, written, length) == 0);
}

static void test_grammar(void) {
    static const char syntax[] = "invalid syntax";
    check_text("", NULL, "");
    check_text(",, \t,", NULL, "");
    check_text("a=1", NULL, "a=1");
    check_text(" a=1 ,\tb=2\t", NULL, "a=1,b=2");
    check_text("a= 1", NULL, "a= 1");
    check_text("a-_*/9=!\"~", NULL, "a-_*/9=!\"~");
    check_text("0t@sys=1", NULL, "0t@sys=1");
    check_text("a", syntax, "");
    check_text("=1", syntax, "");
    check_text("a=", syntax, "");
    check_text("a= ", syntax, "");
    check_text("a =1", syntax, "");
    check_text("A=1", syntax, "");
    check_text("0a=1", syntax, "");
    check_text("a=1=2", syntax, "");
    check_text("a=\x7f", syntax, "");
    check_text("a=1\t2", syntax, "");
    check_text("@s=1", syntax, "");
    check_text("t@=1", syntax, "");
    check_text("t@0=1", syntax, "");
    check_text("t@s@s=1", syntax, "");
    check_text("v=1,ot=th:8,B=1", syntax, "");
}

static void test_ot(void) {
    static const char syntax[] = "invalid syntax";
    check_text("ot=th:8", NULL, "ot=th:8");
    check_text("v=1,ot=th:80;rv:0123456789ABCD", NULL, "ot=rv:0123456789ABCD;th:80,v=1");
    check_text("ot=x9:;th:0;y:A-z_.9", NULL, "ot=th:0;x9:;y:A-z_.9");
    check_text("ot=a:1,ot=b:2", NULL, "ot=b:2");
    check_text("ot=th:1;th:2", NULL, "ot=th:2");
    check_text("ot=th", syntax, "");
    check_text("ot=:1", syntax, "");
    check_text("ot=a:1;", syntax, "");
    check_text("ot=a:1;;b:2", syntax, "");
    check_text("ot=a:1:2", syntax, "");
    check_text("ot=a:1 ;b:2", syntax, "");
    check_text("ot=9:1,v=1", syntax, "v=1");
    check_text("ot=rv:abababababababab", "r-value must have 14 hex digits", "");
    check_text("ot=rv:;th:8,v=1", "r-value must have 14 hex digits", "ot=th:8,v=1");
    check_text("ot=rv:g0000000000000;a:1", syntax, "ot=a:1");
    check_text("ot=th:abababababababab", "t-value exceeds 14 hex digits", "");
    check_text("ot=th:;x:1", "t-value is empty", "ot=x:1");
    check_text("ot=th:-1", syntax, "");
    check_text("ot=rv:x;th:", "r-value must have 14 hex digits", "");
}

static void repeat(char *out, size_t *length, const char *text, size_t times) {
    for (size_t i = 0; i < times; i++) {
        memcpy(out + *length, text, strlen(text));
        *length += strlen(text);
    }
    out[*length] = '\0';
}

static void test_limits(void) {
    static const char size[] = "invalid tracestate size";
    static const char syntax[] = "invalid syntax";
    char text[2048];
    size_t length = 0;
    repeat(text, &length, "a=1,", 31);
    text[--length] = '\0';
    check_text(text, NULL, text);
    repeat(text, &length, ",ot=th:8", 1);
    char kept[2048];
    memcpy(kept, text, sizeof kept);
    kept[31 * 4 - 1] = '\0';
    check_text(text, size, kept);
    repeat(text, &length, ",?", 1);
    check_text(text, syntax, "");

    /* Key, tenant, system and value at their limits and one above. */
    length = 0;
    repeat(text, &length, "k", 256);
    repeat(text, &length, "=", 1);
    repeat(text, &length, "v", 256);
    check_text(text, NULL, text);
    repeat(text, &length, "v", 1);
    check_text(text, syntax, "");
    length = 0;
    repeat(text, &length, "k", 257);
    repeat(text, &length, "=1,v=1", 1);
    check_text(text, size, "v=1");
    length = 0;
    repeat(text, &length, "t", 241);
    repeat(text, &length, "@", 1);
    repeat(text, &length, "s", 14);
    repeat(text, &length, "=1", 1);
    check_text(text, NULL, text);
    check_text("t@sssssssssssssss=1", size, "");
    length = 0;
    repeat(text, &length, "t", 242);
    repeat(text, &length, "@s=1", 1);
    check_text(text, size, "");

    /* The longest text, and what rv and th add to it. */
    ss_tracestate state;
    length = 0;
    repeat(text, &length, "ot=", 1);
    repeat(text, &length, "a:;", 85);
    text[--length] = '\0';
    for (int i = 0; i < 3; i++) {
        repeat(text, &length, ",k=", 1);
        repeat(text, &length, "v", 252);
    }
    repeat(text, &length, " ", SS_TRACESTATE_MAX - length);
    CHECK(parse(&state, text) == NULL);
    uint8_t out[SS_TRACESTATE_FORMAT_MAX];
    ss_tracestate_set_randomness(&state, SS_RANDOMNESS_MAX);
    ss_tracestate_set_threshold(&state, 1);
    length = ss_tracestate_format(&state, out);
    CHECK(length > SS_TRACESTATE_MAX && length <= sizeof out);
    length = SS_TRACESTATE_MAX;
    repeat(text, &length, " ", 1);
    check_text(text, size, "");
}

static void test_every_prefix_is_safe(void) {
    static const char text[] = "v=1, ot=rv:0123456789abcd;th:8;x:1,tenant@sys=2";
    for (size_t length = 0; length <= sizeof text - 1; length++) {
        uint8_t *copy = malloc(length ? length : 1); /* exactly as long, for the sanitizer */
        ss_tracestate state;
        uint8_t out[SS_TRACESTATE_FORMAT_MAX];
        memcpy(copy, text, length);
        (void)ss_tracestate_parse(&state, copy, length);
        CHECK(ss_tracestate_format(&state, out) <= length + 1);
        free(copy);
    }
}

static void test_values(void) {
    uint64_t value = 0;
    CHECK(!ss_threshold_parse((const uint8_t *)"8", 1, &value));
    CHECK_EQUAL(INT64_C(1) << 55, value);
    CHECK(!ss_threshold_parse((const uint8_t *)"0000000000000F", 14, &value));
    CHECK_EQUAL(15, value);
    CHECK(!ss_randomness_parse((const uint8_t *)"fFfFfFfFfFfFfF", 14, &value));
    CHECK_EQUAL(SS_RANDOMNESS_MAX, value);
    uint8_t out[SS_SAMPLING_DIGITS];
    CHECK_EQUAL(1, ss_threshold_format(0, out));
    CHECK_EQUAL('0', out[0]);
    CHECK_EQUAL(14, ss_threshold_format(SS_RANDOMNESS_MAX, out));
    CHECK_EQUAL(14, ss_threshold_format(1, out));
    CHECK_EQUAL(0, ss_threshold_format(SS_THRESHOLD_NEVER, out));
}

static void check_number(const char *text, bool is_number, double expected) {
    double value = -1;
    bool actual = ss_number_parse((const uint8_t *)text, strlen(text), &value);
    if (actual != is_number || (is_number && !(value == expected || (isnan(value) && isnan(expected))))) {
        fprintf(stderr, "\"%s\"\n", text);
    }
    CHECK_EQUAL(is_number, actual);
    CHECK(!is_number || value == expected || (isnan(value) && isnan(expected)));
}

static void test_number_parse(void) {
    check_number("0", true, 0);
    check_number("+1", true, 1);
    check_number("-1.5", true, -1.5);
    check_number(".5", true, .5);
    check_number("5.", true, 5);
    check_number("1_23.50_0_0e+1_2", true, 1.235e14);
    check_number("0x_1_2.3_4_5p+1_2", true, 74565);
    check_number("0X.8P1", true, 1);
    check_number("1e-400", true, 0);
    check_number("inf", true, INFINITY);
    check_number("-InFiNiTy", true, -INFINITY);
    check_number("nAn", true, NAN);
    static const char *const bad[] = {
        "",     " 1",    "1 ",    "+",      ".",   "e5", "1e",     "1e+",  "-nan",  "infin",
        "0x1",  "0x",    "0xp1",  "1__2",   "_1",  "1_", "1_.5",   "1._5", "1e_5",  "1_e5",
        "0x_p", "0b1p1", "1e400", "-1e400", "1,5", "1f", "0x1p1_", "--1",  "1.2.3",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_number(bad[i], false, 0);
    }
    char digits[SS_NUMBER_LITERAL_MAX + 2] = {0};
    memset(digits, '0', SS_NUMBER_LITERAL_MAX);
    check_number(digits, true, 0);
    digits[SS_NUMBER_LITERAL_MAX] = '1';
    check_number(digits, false, 0);
}

static void check_format(double value, const char *expected) {
    char out[SS_NUMBER_FORMAT_MAX];
    size_t length = ss_number_format(value, out);
    if (length != strlen(expected) || memcmp(out, expected, length) != 0) {
        fprintf(stderr, "%s: %.*s\n", expected, (int)length, out);
    }
    CHECK(length == strlen(expected) && memcmp(out, expected, length) == 0);
}

static void test_number_format(void) {
    check_format(0, "0");
    check_format(-0.0, "-0");
    check_format(123, "123");
    check_format(-1.5, "-1.5");
    check_format(0.1, "0.1");
    check_format(1e20, "100000000000000000000");
    check_format(1e21, "1e+21");
    check_format(123456789012345678, "123456789012345680");
    check_format(1e-6, "0.000001");
    check_format(1.5e-6, "0.0000015");
    check_format(1e-7, "1e-7");
    check_format(-1.25e-9, "-1.25e-9");
    check_format(5e-324, "5e-324");
    check_format(1.7976931348623157e308, "1.7976931348623157e+308");
    check_format(1.0 / 3, "0.3333333333333333");
    check_format(NAN, "NaN");
    check_format(INFINITY, "Infinity");
    check_format(-INFINITY, "-Infinity");
}

int main(void) {
    test_grammar();
    test_ot();
    test_limits();
    test_every_prefix_is_safe();
    test_values();
    test_number_parse();
    test_number_format();
    return check_finish();
}
