/* The events of YAML: their kinds, lines and texts, and faults. */
#include <string.h>

#include "check.h"
#include "spansieve.h"

static ss_yaml *reading(const char *text) {
    return ss_yaml_new((const uint8_t *)text, strlen(text));
}

/* The kinds of the events of text, a letter each; ! for the fault that ends it. */
static void check_kinds(const char *kinds, const char *text) {
    static const char letters[] = {
        [SS_YAML_OTHER] = '.',   [SS_YAML_DOCUMENT] = 'D', [SS_YAML_SCALAR] = 's', [SS_YAML_SEQUENCE] = '[',
        [SS_YAML_MAPPING] = '{', [SS_YAML_END] = '/',      [SS_YAML_ALIAS] = '*',  [SS_YAML_STREAM_END] = 'E'};
    char found[32] = {0};
    ss_yaml *yaml = reading(text);
    ss_yaml_event event;
    ss_error error = {0};
    for (size_t i = 0; i < sizeof found - 1; i++) {
        if (ss_yaml_next(yaml, &event, &error) != SS_OK) {
            CHECK_EQUAL(SS_ERR_MALFORMED, error.code);
            CHECK(error.reason != NULL && (event.line > 0) == (event.begin > 0));
            found[i] = '!';
            break;
        }
        found[i] = letters[event.kind];
        if (event.kind == SS_YAML_STREAM_END) {
            break;
        }
    }
    if (strcmp(kinds, found) != 0) {
        fprintf(stderr, "\"%s\": %s, not %s\n", text, found, kinds);
    }
    CHECK(strcmp(kinds, found) == 0);
    ss_yaml_free(yaml);
}

static void test_kinds(void) {
    check_kinds(".E", "");
    check_kinds(".Ds.E", "a");
    check_kinds(".D{s[ss/s*/.E", "a: &x [b, c]\nd: *x");
    check_kinds(".Ds.Ds.E", "a\n---\nb");
    check_kinds(".D{ss!", "a: b: c");
    check_kinds("!", "\x01");
    check_kinds("!", "\xff\xfe");
}

static void test_texts_and_lines(void) {
    ss_yaml *yaml = reading("a:\n  &here !!str \"b\\0c\"");
    ss_yaml_event event = {0};
    ss_error error = {0};
    for (int i = 0; i < 5; i++) {
        CHECK_EQUAL(SS_OK, ss_yaml_next(yaml, &event, &error));
    }
    CHECK_EQUAL(SS_YAML_SCALAR, event.kind);
    CHECK_EQUAL(2, event.line);
    CHECK(!event.is_plain);
    CHECK_EQUAL(3, event.length);
    CHECK(memcmp(event.value, "b\0c", 3) == 0);
    CHECK(strcmp(event.anchor, "here") == 0);
    CHECK(strcmp(event.tag, "tag:yaml.org,2002:str") == 0);
    ss_yaml_free(yaml);
}

static void test_a_fault_has_reason_line_and_offset(void) {
    ss_yaml *yaml = reading("a: 1\nb: [1\n");
    ss_yaml_event event;
    ss_error error = {0};
    while (ss_yaml_next(yaml, &event, &error) == SS_OK) {
    }
    CHECK_EQUAL(SS_ERR_MALFORMED, error.code);
    CHECK(strcmp(error.reason, "did not find expected ',' or ']'") == 0);
    CHECK_EQUAL(3, event.line);
    CHECK_EQUAL(2, event.begin);
    CHECK_EQUAL(11, error.offset);
    ss_yaml_free(yaml);
}

static void test_nothing_comes_after_the_end(void) {
    ss_yaml *yaml = reading("");
    ss_yaml_event event;
    ss_error error = {0};
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(SS_OK, ss_yaml_next(yaml, &event, &error));
    }
    CHECK_EQUAL(SS_YAML_STREAM_END, event.kind);
    ss_yaml_free(yaml);
    ss_yaml_free(NULL);
}

int main(void) {
    test_kinds();
    test_texts_and_lines();
    test_a_fault_has_reason_line_and_offset();
    test_nothing_comes_after_the_end();
    return check_finish();
}
