/* Regular expressions: long texts and short ones have the same answer, no text takes steps without end, and a search
 * that was given up says so. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ops/pattern.h"
#include "wire.h"

static ss_bytes bytes_of(const char *text) {
    return (ss_bytes){(const uint8_t *)text, strlen(text)};
}

static ss_pattern *new_pattern(const char *text) {
    ss_error error = {0};
    ss_pattern *pattern = ss_pattern_new(bytes_of(text), &error);
    CHECK(pattern != NULL);
    return pattern;
}

/* before, then fill until there are n bytes, then after. */
static ss_buffer text_of(const char *before, const char *fill, size_t n, const char *after) {
    ss_buffer text = {0};
    put(&text, before, strlen(before));
    while (text.length < n) {
        put(&text, fill, strlen(fill));
    }
    put(&text, after, strlen(after));
    return text;
}

static ss_found find(const ss_pattern *pattern, const ss_buffer *text, bool wants_groups, uint32_t *n_undecided) {
    ss_pattern_match match = {0};
    CHECK(ss_pattern_match_reserve(&match, ss_pattern_n_groups(pattern)));
    ss_found found = (wants_groups ? ss_pattern_find_groups
                                   : ss_pattern_find)(pattern, (ss_bytes){text->data, text->length}, &match);
    *n_undecided = match.n_undecided;
    ss_pattern_match_free(&match);
    return found;
}

enum { LONG = 1 << 18 };

/* Whatever the length: of patterns of all kinds. */
static void test_length_makes_no_difference(void) {
    const struct {
        const char *pattern, *found, *not_found;
    } cases[] = {
        {".*password.*", "the password is 1", "the passwort is 1"},
        {"password", "password", "passwor"},
        {"a.*b.*c", "a b c", "b"},
        {"\\w+Exception", "JavaException", " Exception"},
        {"(\\w+\\s?)+!", "one two!", "!"},
        {"(a+)+b", "aaab", "ac"},
        {"(?:\\d+\\.)+x", "1.22.x", "1.22.y"},
        {"[a-z]+@[a-z]+", "a@b", "a@@b"},
        {"[]a]+\\]", "a]", "a["},
        {"[[:alpha:]]+:[^:]+:", "a:b:", "a::"},
        {"\\x41+\\x{42}+", "AABB", "AACC"},
        {"\\pL+\\p{Nd}+;",
         "\xc3\xa4\xc3\xb6"
         "12;",
         "12;"},
        {"\xc3\xa4+\xc3\xb6", "\xc3\xa4\xc3\xa4\xc3\xb6", "\xc3\xa4"},
        {"(?i)PASS(word)?=\\w+", "pass=1", "pass"},
        {"x{3,}y", "xxxxy", "xxy"},
        {"(user|name)=(\\w+?);", "name=a;", "name=;"},
        {"\\.+\\*+", "..**", "**"},
        {"a\\+b+", "a+bb", "aab"},
        {"\\bkey\\b.*=", "key =", "monkey ="},
        {"\\d++x", "11x", "x"},
        {"(?# comment + )k+v", "kkv", "v"},
        {"(?x) k + v", "kkv", "v"},
        {"(k)+\\1v", "kkv", "kv"},
        {"k(?R)?v", "kkvv", "kk"},
        {"\\Qa+\\E+b", "a++b", "ab"},
        {"\\w+(?=;)", "key;", "key"},
        {"k+(?!v)[a-z]", "kkw", "kv"},
        {"(?<=k)v+", "kvv", "vv"},
        {"(?<!-)v+;", "kv;", "-v;"},
        {"(?>k+)v", "kkv", "kk"},
        {"(?<key>k+)v", "kkv", "kk"},
        {"(?'key'k+)v", "kkv", "kk"},
        {"(?i:K+)v(?-i)", "kkv", "kk"},
        {"(?&key)v(?<key>k+){0}", "kkv", "kk"},
    };
    const size_t lengths[] = {0, 300, 600, 60000, LONG};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_pattern *pattern = new_pattern(cases[i].pattern);
        for (size_t at = 0; at < sizeof lengths / sizeof lengths[0]; at++) {
            for (int is_first = 0; is_first < 2; is_first++) {
                const char *const texts[] = {cases[i].not_found, cases[i].found};
                for (int is_there = 0; is_there < 2; is_there++) {
                    ss_buffer text =
                        text_of(is_first ? texts[is_there] : " ", "- ", lengths[at], is_first ? " " : texts[is_there]);
                    uint32_t n_undecided;
                    ss_found found = find(pattern, &text, false, &n_undecided);
                    if (found != (is_there ? SS_FOUND : SS_NOT_FOUND)) {
                        fprintf(stderr, "%s, %zu bytes, first %d\n", cases[i].pattern, text.length, is_first);
                    }
                    CHECK_EQUAL(is_there ? SS_FOUND : SS_NOT_FOUND, found);
                    CHECK_EQUAL(0, n_undecided);
                    ss_buffer_free(&text);
                }
            }
        }
        ss_pattern_free(pattern);
    }
}

/* Texts that make back-tracking take for ever have an answer all the same. */
static void test_no_text_explodes(void) {
    const struct {
        const char *pattern, *fill, *after;
        ss_found expected;
    } cases[] = {
        {"^(\\w+\\s?)*$", "word ", "!", SS_NOT_FOUND},
        {"^(\\w+\\s?)*$", "word ", "", SS_FOUND},
        {"(a+)+b", "a", "", SS_NOT_FOUND},
        {"(a+)+b", "a", "b", SS_FOUND},
        {"(a|aa)+$", "a", "!", SS_NOT_FOUND},
        {"a.*b.*c", "ab", "", SS_NOT_FOUND},
        {"user=.*;pw=.*;end", "user=user=;pw=", "", SS_NOT_FOUND},
        {"\\w+Exception", "a", "", SS_NOT_FOUND},
        {"(x+x+)+y", "x", "", SS_NOT_FOUND},
        {"\\s+$", " ", "x", SS_NOT_FOUND},
    };
    const size_t lengths[] = {30, 500, 5000, LONG};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_pattern *pattern = new_pattern(cases[i].pattern);
        for (size_t at = 0; at < sizeof lengths / sizeof lengths[0]; at++) {
            ss_buffer text = text_of("", cases[i].fill, lengths[at], cases[i].after);
            uint32_t n_undecided;
            CHECK_EQUAL(cases[i].expected, find(pattern, &text, false, &n_undecided));
            CHECK_EQUAL(0, n_undecided);
            ss_buffer_free(&text);
        }
        ss_pattern_free(pattern);
    }
}

static void test_groups_of_a_long_text(void) {
    ss_pattern *pattern = new_pattern("(?P<what>\\w+)Exception: (.*)");
    ss_buffer text = text_of("", "at line 1\n", LONG, "JavaException: why");
    ss_pattern_match match = {0};
    CHECK(ss_pattern_match_reserve(&match, ss_pattern_n_groups(pattern)));
    const ss_bytes bytes = {text.data, text.length};
    CHECK_EQUAL(SS_FOUND, ss_pattern_find_groups(pattern, bytes, &match));
    CHECK(ss_bytes_equal(bytes_of("Java"), ss_pattern_group(pattern, &match, bytes, 1)));
    CHECK(ss_bytes_equal(bytes_of("why"), ss_pattern_group(pattern, &match, bytes, 2)));
    ss_pattern_match_free(&match);
    ss_buffer_free(&text);
    ss_pattern_free(pattern);
}

/* Where only back-tracking would tell, and takes too long, the answer is that there is none. */
static void test_what_is_given_up_is_told(void) {
    const struct {
        const char *pattern;
        bool wants_groups;
    } cases[] = {{"(a+)+\\1b", false}, {"(a|aa)+(?=b)\\1c", false}, {"((a+)+)b", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_pattern *pattern = new_pattern(cases[i].pattern);
        ss_buffer text = text_of("", "a", 20000, cases[i].wants_groups ? " aab" : " b c");
        uint32_t n_undecided;
        CHECK_EQUAL(SS_UNDECIDED, find(pattern, &text, cases[i].wants_groups, &n_undecided));
        CHECK_EQUAL(1, n_undecided);
        ss_buffer_free(&text);
        ss_pattern_free(pattern);
    }
}

/* What looks ahead, or goes into itself, reads the rest of the text at each place where it may: such steps are counted,
 * and no other matcher takes them. */
static void test_looking_ahead_has_its_limit(void) {
    const char *const patterns[] = {"a(?=.*x)b", "a(?!.*b)c", "a(?>.*x)b", "(.*x){0}a(?1)b"};
    ss_buffer fill = text_of("a", "-", 500, "");
    put(&fill, "", 1); /* its end */
    ss_buffer text = text_of("", (const char *)fill.data, LONG, " bc");
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        ss_pattern *pattern = new_pattern(patterns[i]);
        uint32_t n_undecided;
        CHECK_EQUAL(SS_UNDECIDED, find(pattern, &text, false, &n_undecided));
        CHECK_EQUAL(1, n_undecided);
        ss_pattern_free(pattern);
    }
    ss_buffer_free(&fill);
    ss_buffer_free(&text);
}

/* A text that is not UTF-8 is searched around what is broken. */
static void test_broken_text(void) {
    const char *const patterns[] = {"pass.*d", "pass", "^.*pass"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        ss_pattern *pattern = new_pattern(patterns[i]);
        for (size_t length = 0; length <= 4000; length += 2000) {
            ss_buffer text = text_of("", "x ", length, "pass word \xff");
            uint32_t n_undecided;
            CHECK_EQUAL(SS_FOUND, find(pattern, &text, false, &n_undecided));
            ss_buffer_free(&text);
        }
        ss_pattern_free(pattern);
    }
}

int main(void) {
    test_length_makes_no_difference();
    test_no_text_explodes();
    test_groups_of_a_long_text();
    test_what_is_given_up_is_told();
    test_looking_ahead_has_its_limit();
    test_broken_text();
    return check_finish();
}
