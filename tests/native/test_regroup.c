/* Regrouping: each resource and scope once, nothing lost; and what cannot be taken apart, or is not worth it, stays. */
#include "otlp/regroup.h"

#include <string.h>

#include "check.h"

enum { OWNER = 1, CHILDREN = 2, SCHEMA_URL = 3 };

static void append_field(ss_buffer *buffer, uint32_t number, const uint8_t *body, size_t length) {
    const uint8_t head[] = {(uint8_t)(number << 3 | 2), (uint8_t)(length & 0x7f) | 0x80, (uint8_t)(length >> 7)};
    ss_buffer_append(buffer, head, sizeof head);
    ss_buffer_append(buffer, body, length);
}

static void append_text(ss_buffer *buffer, uint32_t number, const char *text) {
    append_field(buffer, number, (const uint8_t *)text, strlen(text));
}

/* A Scope* or, around one, a Resource* message; NULL texts are left out. */
static void append_enclosure(ss_buffer *request, uint32_t number, const char *owner, const ss_buffer *children,
                             const char *schema_url) {
    ss_buffer body = {0};
    if (owner) {
        append_text(&body, OWNER, owner);
    }
    ss_buffer_append(&body, children->data, children->length);
    if (schema_url) {
        append_text(&body, SCHEMA_URL, schema_url);
    }
    append_field(request, number, body.data, body.length);
    ss_buffer_free(&body);
}

typedef struct item {
    const char *resource, *resource_url, *scope, *scope_url, *text;
} item;

static void append_item(ss_buffer *request, const item *i) {
    ss_buffer items = {0}, scopes = {0};
    append_text(&items, CHILDREN, i->text);
    append_enclosure(&scopes, CHILDREN, i->scope, &items, i->scope_url);
    append_enclosure(request, OWNER, i->resource, &scopes, i->resource_url);
    ss_buffer_free(&items);
    ss_buffer_free(&scopes);
}

static const char long_name[] = "a resource that is long enough for its repetition to be worth the copy";

static ss_buffer make(const item *items, size_t n) {
    ss_buffer request = {0};
    for (size_t i = 0; i < n; i++) {
        append_item(&request, &items[i]);
    }
    return request;
}

static bool regroup(const ss_buffer *request, ss_buffer *out) {
    bool is_done;
    CHECK_EQUAL(SS_OK, ss_regroup(request->data, request->length, out, &is_done));
    CHECK(is_done || !out->length);
    return is_done;
}

/* Where text stands from at on; the length where it does not. */
static size_t find(const ss_buffer *bytes, size_t at, const char *text) {
    size_t length = strlen(text);
    while (at + length <= bytes->length && memcmp(bytes->data + at, text, length) != 0) {
        at++;
    }
    return at + length <= bytes->length ? at : bytes->length;
}

static size_t count(const ss_buffer *bytes, const char *text) {
    size_t n = 0;
    for (size_t at = find(bytes, 0, text); at < bytes->length; at = find(bytes, at + 1, text)) {
        n++;
    }
    return n;
}

static void test_equal_resources_and_scopes_stand_once(void) {
    const item items[] = {{long_name, "u", "s", "v", "first"}, {"other", "u", "s", "v", "second"},
                          {long_name, "u", "s", "v", "third"}, {long_name, "u", "t", "v", "fourth"},
                          {long_name, "u", "s", "w", "fifth"}, {long_name, "x", "s", "v", "sixth"},
                          {long_name, NULL, "s", "v", "last"}, {long_name, "u", NULL, NULL, "eighth"}};
    ss_buffer request = make(items, sizeof items / sizeof *items), out = {0};
    CHECK(regroup(&request, &out));
    CHECK_EQUAL(3, count(&out, long_name)); /* with u, with x, without URL */
    CHECK_EQUAL(1, count(&out, "other"));
    static const char *const order[] = {"first", "third", "fourth", "fifth", "eighth", "second", "sixth", "last"};
    size_t at = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        CHECK_EQUAL(1, count(&out, order[i]));
        at = find(&out, at, order[i]);
        CHECK(at < out.length);
    }
    ss_buffer again = {0};
    CHECK(!regroup(&out, &again));
    ss_buffer_free(&request);
    ss_buffer_free(&out);
}

static void test_bytes_are_exact(void) {
    enum { NAME = 41 };
    static const uint8_t ends[2][11] = {{0x12, 7, 0x0a, 1, 's', 0x12, 2, 0x08, 0, 0x1a, 0},
                                        {0x12, 7, 0x0a, 1, 's', 0x12, 2, 0x08, 1, 0x1a, 0}};
    static const uint8_t end[] = {0x12, 11, 0x0a, 1, 's', 0x12, 2, 0x08, 0, 0x12, 2, 0x08, 1, 0x1a, 0};
    uint8_t name[NAME];
    memset(name, 'r', sizeof name);
    ss_buffer request = {0}, expected = {0}, out = {0};
    for (int i = 0; i < 2; i++) {
        ss_buffer_append(&request, (const uint8_t[]){0x0a, 2 + NAME + sizeof ends[i], 0x0a, NAME}, 4);
        ss_buffer_append(&request, name, sizeof name);
        ss_buffer_append(&request, ends[i], sizeof ends[i]);
    }
    ss_buffer_append(&expected, (const uint8_t[]){0x0a, 2 + NAME + sizeof end, 0x0a, NAME}, 4);
    ss_buffer_append(&expected, name, sizeof name);
    ss_buffer_append(&expected, end, sizeof end);
    CHECK(regroup(&request, &out));
    CHECK_EQUAL(expected.length, out.length);
    CHECK(out.length == expected.length && memcmp(out.data, expected.data, out.length) == 0);
    ss_buffer_free(&request);
    ss_buffer_free(&expected);
    ss_buffer_free(&out);
}

static void test_what_cannot_be_taken_apart_stays(void) {
    const item items[] = {{long_name, "u", "s", "v", "first"}, {long_name, "u", "s", "v", "second"}};
    static const uint8_t unknown[] = {0xc2, 0x3e, 0x01, 'x'}; /* field 1000 */
    for (int where = 0; where < 3; where++) {
        ss_buffer request = make(items, 2), out = {0}, scopes = {0}, children = {0};
        if (where == 0) {
            ss_buffer_append(&request, unknown, sizeof unknown);
        } else {
            ss_buffer_append(&children, unknown, sizeof unknown);
            append_enclosure(&scopes, CHILDREN, "s", &children, NULL);
            append_enclosure(&request, OWNER, long_name, where == 1 ? &children : &scopes, NULL);
        }
        CHECK(!regroup(&request, &out));
        ss_buffer_free(&request);
        ss_buffer_free(&scopes);
        ss_buffer_free(&children);
    }
    for (size_t cut = 1; cut < 40; cut++) {
        ss_buffer request = make(items, 2), out = {0};
        request.length -= cut;
        CHECK(!regroup(&request, &out));
        ss_buffer_free(&request);
    }
}

static void test_little_to_save_stays(void) {
    char text[101];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    item items[] = {{"r", NULL, "s", NULL, text}, {"r", NULL, "s", NULL, text}};
    ss_buffer request = make(items, 2), out = {0};
    CHECK(!regroup(&request, &out));
    ss_buffer_free(&request);
    ss_buffer empty = {0};
    CHECK(!regroup(&empty, &out));
}

/* More resources than there are first places, in two turns. */
static void test_many_resources(void) {
    enum { N = 1000 };
    char name[64];
    ss_buffer request = {0}, out = {0};
    for (int i = 0; i < 2 * N; i++) {
        snprintf(name, sizeof name, "a resource with a number of its own: %04d", i % N);
        append_item(&request, &(item){name, NULL, "s", NULL, i < N ? "early" : "late"});
    }
    CHECK(regroup(&request, &out));
    CHECK_EQUAL(N, count(&out, "a resource"));
    CHECK_EQUAL(N, count(&out, "early"));
    CHECK_EQUAL(N, count(&out, "late"));
    ss_buffer_free(&request);
    ss_buffer_free(&out);
}

int main(void) {
    test_equal_resources_and_scopes_stand_once();
    test_bytes_are_exact();
    test_what_cannot_be_taken_apart_stays();
    test_little_to_save_stays();
    test_many_resources();
    return check_finish();
}
