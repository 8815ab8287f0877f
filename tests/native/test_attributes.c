/* attributes and resource at the C seam: exact bytes, odd encodings of the same data, bad configuration, threads.
 * What it costs is in test_growth.c. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ops/op.h"
#include "otlp/table.h"
#include "plan/metadata.h"
#include "spansieve.h"
#include "wire.h"

#define TEXT(literal) ((ss_text){literal, sizeof(literal) - 1})

/* ---------------------------------------------------------------- running */

static ss_op *new_op(const ss_attribute_action *actions, size_t n_actions, bool is_resource) {
    const ss_attributes_config config = {.is_resource = is_resource, .actions = actions, .n_actions = n_actions};
    ss_error error = {0};
    ss_op *op = ss_attributes_new(&config, &error);
    CHECK(op != NULL);
    return op;
}

static ss_op *delete_op(const char *first, const char *second, bool is_resource) {
    const ss_attribute_action actions[] = {
        {.verb = SS_ATTRIBUTE_DELETE, .key = {first, strlen(first)}},
        {.verb = SS_ATTRIBUTE_DELETE, .key = {second, strlen(second)}},
    };
    return new_op(actions, second[0] ? 2 : 1, is_resource);
}

/* What op makes of request; it is freed. Returns whether it was left as it was. */
static bool apply(ss_op *op, ss_signal signal, const ss_buffer *request, ss_buffer *out) {
    ss_table *table = ss_table_new();
    ss_error error;
    ss_verdict verdict = {0};
    CHECK_EQUAL(SS_OK, ss_scan(signal, request->data, request->length, table, &error));
    CHECK_EQUAL(SS_OK, ss_op_run(op, table, &verdict));
    bool is_untouched = ss_table_is_untouched(table);
    out->length = 0;
    CHECK_EQUAL(SS_OK, ss_emit(table, 0, table->n_rows, out));
    ss_table_free(table);
    return is_untouched;
}

/* The request around a span, and a resource where there is one; takes both. */
static ss_buffer request_of(ss_buffer *span, ss_buffer *resource) {
    ss_buffer scope = {0}, container = {0}, request = {0};
    put_message(&scope, SS_SCOPE_SPANS_SPANS, span);
    if (resource) {
        put_message(&container, SS_RESOURCE_SPANS_RESOURCE, resource);
        ss_buffer_free(resource);
    }
    put_message(&container, SS_RESOURCE_SPANS_SCOPE_SPANS, &scope);
    put_message(&request, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, &container);
    ss_buffer_free(span);
    ss_buffer_free(&scope);
    ss_buffer_free(&container);
    return request;
}

static ss_buffer copy_of(const void *bytes, size_t length) {
    ss_buffer copy = {0};
    put(&copy, bytes, length);
    return copy;
}

/* Run op on a span and expect another one; op is freed. */
static void check_span(ss_op *op, ss_buffer *span, ss_buffer *expected) {
    ss_buffer request = request_of(span, NULL), wanted = request_of(expected, NULL), out = {0};
    CHECK(!apply(op, SS_SIGNAL_TRACES, &request, &out));
    check_bytes(&wanted, &out);
    ss_buffer_free(&request);
    ss_buffer_free(&wanted);
    ss_buffer_free(&out);
    ss_op_free(op);
}

/* A span with an attribute for each letter, whose value is the letter twice; capitals are fields that nobody knows. */
static ss_buffer span_of(const char *letters) {
    ss_buffer span = {0};
    put_bytes(&span, SS_SPAN_NAME, "name", 4);
    for (; *letters; letters++) {
        if (*letters >= 'A' && *letters <= 'Z') {
            put_bytes(&span, 99, letters, 1);
        } else {
            put_attribute(&span, SS_SPAN_ATTRIBUTES, (const char[]){*letters, 0},
                          (const char[]){*letters, *letters, 0});
        }
    }
    put_fixed64(&span, SS_SPAN_END_TIME_UNIX_NANO, 9);
    return span;
}

/* ---------------------------------------------------------------- delete */

static void test_deleted_attributes_leave_exact_bytes(void) {
    const char *const cases[][2] = {
        {"a", ""},   {"ab", "b"},   {"ba", "b"},         {"bac", "bc"}, {"XaY", "XY"}, {"XaYbZaW", "XYbZaW"},
        {"aa", "a"}, {"axa", "xa"}, {"bcdefa", "bcdef"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_buffer span = span_of(cases[i][0]), expected = span_of(cases[i][1]);
        check_span(delete_op("a", "", false), &span, &expected);
    }
    ss_buffer span = span_of("XabYaZbW"), expected = span_of("XYaZbW");
    check_span(delete_op("a", "b", false), &span, &expected);
}

static void test_span_without_the_key_is_left_alone(void) {
    const char *const cases[] = {"", "b", "bcd", "XbY", "A"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_buffer span = span_of(cases[i]), out = {0};
        ss_buffer request = request_of(&span, NULL);
        ss_op *op = delete_op("a", "ab", false);
        CHECK(apply(op, SS_SIGNAL_TRACES, &request, &out));
        check_bytes(&request, &out);
        ss_op_free(op);
        ss_buffer_free(&request);
        ss_buffer_free(&out);
    }
}

/* Any layout that a parser takes is the same attribute: a padded tag or length, the value first, the key twice. */
static void test_odd_layouts_are_found(void) {
    const char *const layouts[] = {
        "\xca\x80\x00\x03\x0a\x01"
        "a",
        "\x4a\x83\x80\x00\x0a\x01"
        "a",
        "\x4a\x07\x12\x02\x10\x01\x0a\x01"
        "a",
        "\x4a\x0a\x0a\x01"
        "b\x12\x02\x10\x01\x0a\x01"
        "a",
        "\x4a\x0a\x0a\x01"
        "a\x12\x02\x10\x01\x98\x06\x01",
    };
    const size_t lengths[] = {7, 7, 9, 12, 12};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        ss_buffer span = span_of("b"), expected = span_of("b");
        put(&span, layouts[i], lengths[i]);
        check_span(delete_op("a", "", false), &span, &expected);
    }
    ss_buffer span = span_of("b"), out = {0};
    put(&span,
        "\x4a\x0a\x0a\x01"
        "a\x12\x02\x10\x01\x0a\x01"
        "b",
        12); /* it is b: the last key counts */
    ss_buffer request = request_of(&span, NULL);
    ss_op *op = delete_op("a", "", false);
    CHECK(apply(op, SS_SIGNAL_TRACES, &request, &out));
    ss_op_free(op);
    ss_buffer_free(&request);
    ss_buffer_free(&out);
}

/* ---------------------------------------------------------------- all other actions */

static void test_actions_leave_exact_bytes(void) {
    const ss_value text = {.type = SS_TYPE_STRING, .string = TEXT("new")};
    const ss_attribute_action actions[] = {
        {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("a"), .pattern = TEXT("^[xy]$")},
        {.verb = SS_ATTRIBUTE_UPDATE, .key = TEXT("b"), .value = &text},
        {.verb = SS_ATTRIBUTE_UPDATE, .key = TEXT("nothing"), .value = &text},
        {.verb = SS_ATTRIBUTE_INSERT, .key = TEXT("c"), .value = &text},
        {.verb = SS_ATTRIBUTE_INSERT, .key = TEXT("d"), .value = &text},
        {.verb = SS_ATTRIBUTE_UPSERT, .key = TEXT("e"), .from_attribute = TEXT("c")},
        {.verb = SS_ATTRIBUTE_EXTRACT, .key = TEXT("c"), .pattern = TEXT("(?P<first>.)(?P<none>z)?")},
    };
    ss_buffer span = span_of("Xaxbca"), expected = {0};
    put_bytes(&expected, SS_SPAN_NAME, "name", 4);
    put_bytes(&expected, 99, "X", 1);
    put_attribute(&expected, SS_SPAN_ATTRIBUTES, "b", "new");
    put_attribute(&expected, SS_SPAN_ATTRIBUTES, "c", "cc");
    put_attribute(&expected, SS_SPAN_ATTRIBUTES, "a", "aa");
    put_fixed64(&expected, SS_SPAN_END_TIME_UNIX_NANO, 9);
    put_attribute(&expected, SS_SPAN_ATTRIBUTES, "d", "new");
    put_attribute(&expected, SS_SPAN_ATTRIBUTES, "e", "cc");
    put_attribute(&expected, SS_SPAN_ATTRIBUTES, "first", "c");
    put_attribute(&expected, SS_SPAN_ATTRIBUTES, "none", "");
    check_span(new_op(actions, sizeof actions / sizeof actions[0], false), &span, &expected);
}

/* Source of the hashes: FIPS 180-4, the examples for SHA-256. */
static void test_hash_is_sha256(void) {
    const ss_attribute_action action = {.verb = SS_ATTRIBUTE_HASH, .key = TEXT("k")};
    const char *const cases[][2] = {
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_buffer span = {0}, expected = {0};
        put_attribute(&span, SS_SPAN_ATTRIBUTES, "k", cases[i][0]);
        put_attribute(&expected, SS_SPAN_ATTRIBUTES, "k", cases[i][1]);
        check_span(new_op(&action, 1, false), &span, &expected);
    }
}

/* ---------------------------------------------------------------- resources */

static void check_resource(const char *before, const char *after, ss_op *op) {
    ss_buffer span = span_of("a"), same = span_of("a"), resource = {0}, wanted = {0}, out = {0};
    for (; *before; before++) {
        put_attribute(&resource, SS_RESOURCE_ATTRIBUTES, (const char[]){*before, 0}, "v");
    }
    for (; *after; after++) {
        put_attribute(&wanted, SS_RESOURCE_ATTRIBUTES, (const char[]){*after, 0}, "v");
    }
    ss_buffer request = request_of(&span, resource.length ? &resource : NULL);
    ss_buffer expected = request_of(&same, &wanted);
    CHECK(!apply(op, SS_SIGNAL_TRACES, &request, &out));
    check_bytes(&expected, &out);
    ss_buffer_free(&request);
    ss_buffer_free(&expected);
    ss_buffer_free(&out);
    ss_op_free(op);
}

static void test_resource_is_changed_and_spans_are_not(void) {
    const ss_value value = {.type = SS_TYPE_STRING, .string = TEXT("v")};
    const ss_attribute_action insert = {.verb = SS_ATTRIBUTE_INSERT, .key = TEXT("n"), .value = &value};
    check_resource("bac", "bc", delete_op("a", "", true));
    check_resource("a", "", delete_op("a", "", true));
    check_resource("ab", "abn", new_op(&insert, 1, true));
    check_resource("", "n", new_op(&insert, 1, true));
}

/* A resource in two pieces is one: what is new goes into the last, each of the others is written back by itself. */
static void test_resource_in_pieces(void) {
    const ss_value value = {.type = SS_TYPE_STRING, .string = TEXT("v")};
    const ss_attribute_action actions[] = {
        {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("a")},
        {.verb = SS_ATTRIBUTE_INSERT, .key = TEXT("c"), .value = &value},
        {.verb = SS_ATTRIBUTE_INSERT, .key = TEXT("d"), .value = &value},
    };
    ss_buffer requests[2] = {{0}, {0}}, out = {0};
    for (int i = 0; i < 2; i++) {
        ss_buffer scope = {0}, container = {0}, resource = {0}, span = span_of("");
        const char *first = i == 0 ? "ab" : "b";
        const char *second = i == 0 ? "c" : "cd";
        for (; *first; first++) {
            put_attribute(&resource, SS_RESOURCE_ATTRIBUTES, (const char[]){*first, 0}, "v");
        }
        put_message(&container, SS_RESOURCE_SPANS_RESOURCE, &resource);
        put_message(&scope, SS_SCOPE_SPANS_SPANS, &span);
        put_message(&container, SS_RESOURCE_SPANS_SCOPE_SPANS, &scope);
        for (; *second; second++) {
            put_attribute(&resource, SS_RESOURCE_ATTRIBUTES, (const char[]){*second, 0}, "v");
        }
        put_message(&container, SS_RESOURCE_SPANS_RESOURCE, &resource);
        put_message(&requests[i], SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, &container);
        ss_buffer_free(&scope);
        ss_buffer_free(&container);
        ss_buffer_free(&resource);
        ss_buffer_free(&span);
    }
    ss_op *op = new_op(actions, 3, true);
    CHECK(!apply(op, SS_SIGNAL_TRACES, &requests[0], &out));
    check_bytes(&requests[1], &out);
    ss_op_free(op);
    ss_buffer_free(&requests[0]);
    ss_buffer_free(&requests[1]);
    ss_buffer_free(&out);
}

/* ---------------------------------------------------------------- beside other operations */

/* The tracestate may stand anywhere, between attributes too: each operation edits its own field. */
static void test_sampler_edits_between_attributes(void) {
    const ss_sampler_config config = {.signal = SS_SIGNAL_TRACES,
                                      .mode = SS_SAMPLER_PROPORTIONAL,
                                      .sampling_percentage = 100,
                                      .sampling_precision = 4};
    ss_buffer span = {0}, expected = {0}, out = {0};
    ss_error error;
    ss_verdict verdict = {0};
    put_bytes(&span, SS_SPAN_TRACE_ID, "0123456789abcdef", 16);
    put_bytes(&expected, SS_SPAN_TRACE_ID, "0123456789abcdef", 16);
    for (int i = 0; i < 2; i++) {
        put_attribute(&span, SS_SPAN_ATTRIBUTES, "x", "1");
        put_attribute(&span, SS_SPAN_ATTRIBUTES, "x", "2");
        put_bytes(i == 0 ? &span : &expected, SS_SPAN_TRACE_STATE, i == 0 ? "a=b" : "ot=th:0,a=b", i == 0 ? 3 : 11);
    }
    const ss_attribute_action action = {.verb = SS_ATTRIBUTE_DELETE, .pattern = TEXT("x")};
    ss_buffer request = request_of(&span, NULL), wanted = request_of(&expected, NULL);
    ss_op *ops[] = {ss_sampler_new(&config, &error), new_op(&action, 1, false)};
    ss_table *table = ss_table_new();
    CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, request.data, request.length, table, &error));
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(SS_OK, ss_op_run(ops[i], table, &verdict));
        ss_op_free(ops[i]);
    }
    CHECK_EQUAL(SS_OK, ss_emit(table, 0, table->n_rows, &out));
    check_bytes(&wanted, &out);
    ss_table_free(table);
    ss_buffer_free(&request);
    ss_buffer_free(&wanted);
    ss_buffer_free(&out);
}

/* ---------------------------------------------------------------- limits */

static void test_bad_configuration_is_an_error(void) {
    ss_error error = {0};
    const ss_attribute_action bad = {.verb = SS_ATTRIBUTE_DELETE, .pattern = TEXT("ab(")};
    ss_attributes_config config = {.actions = &bad, .n_actions = 1};
    CHECK(ss_attributes_new(&config, &error) == NULL);
    CHECK_EQUAL(SS_ERR_ARGUMENT, error.code);
    CHECK_EQUAL(3, error.offset);

    enum { DEPTH = 200 };
    ss_value nested[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        nested[i] = (ss_value){.type = SS_TYPE_ARRAY, .items = &nested[i + 1], .n_items = i + 1 < DEPTH};
    }
    const ss_attribute_action deep = {.verb = SS_ATTRIBUTE_INSERT, .key = TEXT("k"), .value = nested};
    config.actions = &deep;
    CHECK(ss_attributes_new(&config, &error) == NULL);
    CHECK_EQUAL(SS_ERR_LIMIT, error.code);
}

/* A header that goes into each item makes no small request a huge one. */
static void test_header_in_each_item_is_bounded(void) {
    enum { N = 20000, VALUES = 3000, VALUE_BYTES = 10 };
    ss_buffer metadata = {0};
    for (int i = 0; i < VALUES; i++) {
        CHECK_EQUAL(SS_OK, ss_metadata_append(&metadata, "x", "0123456789", VALUE_BYTES));
    }
    const ss_attribute_action action = {.verb = SS_ATTRIBUTE_INSERT, .key = TEXT("k"), .from_metadata = TEXT("x")};
    ss_op *op = new_op(&action, 1, false);
    for (int is_there = 0; is_there < 2; is_there++) {
        ss_buffer span = {0}, scope = {0}, container = {0}, request = {0};
        for (int i = 0; i < N; i++) {
            put_attribute(&span, SS_SPAN_ATTRIBUTES, is_there ? "k" : "other", "v");
            put_message(&scope, SS_SCOPE_SPANS_SPANS, &span);
        }
        put_message(&container, SS_RESOURCE_SPANS_SCOPE_SPANS, &scope);
        put_message(&request, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, &container);
        ss_table *table = ss_table_new();
        ss_error error;
        ss_verdict verdict = {0};
        CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, request.data, request.length, table, &error));
        table->private_state->metadata = metadata.data;
        table->private_state->metadata_length = metadata.length;
        CHECK_EQUAL(is_there ? SS_OK : SS_ERR_LIMIT, ss_op_run(op, table, &verdict));
        CHECK(table->private_state->replacements.length <= (64 << 20) + 16 * request.length);
        CHECK(!is_there || ss_table_is_untouched(table));
        ss_table_free(table);
        ss_buffer *const buffers[] = {&span, &scope, &container, &request};
        for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
            ss_buffer_free(buffers[i]);
        }
    }
    ss_op_free(op);
    ss_buffer_free(&metadata);
}

/* Very many texts that back-tracking is slow with keep none that matches from being found. */
static void test_slow_texts_hide_no_other(void) {
    ss_buffer span = {0}, out = {0};
    char key[40];
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "aaaaaaaaaaaaaaaaaaaaaaaaaaa%05d!", i);
        put_attribute(&span, SS_SPAN_ATTRIBUTES, key, "v");
    }
    put_attribute(&span, SS_SPAN_ATTRIBUTES, "k", "v");
    ss_buffer request = request_of(&span, NULL);
    const ss_attribute_action action = {.verb = SS_ATTRIBUTE_DELETE, .pattern = TEXT("^(\\w+\\s?)*$")};
    ss_op *op = new_op(&action, 1, false);
    for (int i = 0; i < 2; i++) {
        CHECK(!apply(op, SS_SIGNAL_TRACES, &request, &out));
        CHECK(out.length < request.length); /* k is found nevertheless */
    }
    ss_op_free(op);
    ss_buffer_free(&request);
    ss_buffer_free(&out);
}

static void test_every_truncation_is_refused_or_done(void) {
    ss_buffer span = span_of("XaYbZc"), resource = {0};
    put_attribute(&resource, SS_RESOURCE_ATTRIBUTES, "a", "v");
    ss_buffer request = request_of(&span, &resource);
    const ss_attribute_action actions[] = {
        {.verb = SS_ATTRIBUTE_HASH, .key = TEXT("a"), .pattern = TEXT("b")},
        {.verb = SS_ATTRIBUTE_CONVERT, .key = TEXT("c"), .converted_type = SS_TYPE_INT},
    };
    for (int is_resource = 0; is_resource < 2; is_resource++) {
        ss_op *op = new_op(actions, 2, is_resource);
        for (size_t length = 0; length <= request.length; length++) {
            ss_buffer part = copy_of(request.data, length), out = {0};
            ss_table *table = ss_table_new();
            ss_error error;
            ss_verdict verdict = {0};
            if (ss_scan(SS_SIGNAL_TRACES, part.data, part.length, table, &error) == SS_OK) {
                CHECK_EQUAL(SS_OK, ss_op_run(op, table, &verdict));
                CHECK_EQUAL(SS_OK, ss_emit(table, 0, table->n_rows, &out));
            }
            ss_table_free(table);
            ss_buffer_free(&part);
            ss_buffer_free(&out);
        }
        ss_op_free(op);
    }
    ss_buffer_free(&request);
}

typedef struct job {
    ss_op *op;
    const ss_buffer *request;
    const ss_buffer *expected;
} job;

static void *work(void *argument) {
    const job *j = argument;
    ss_buffer out = {0};
    for (int i = 0; i < 200; i++) {
        CHECK(!apply(j->op, SS_SIGNAL_TRACES, j->request, &out));
        check_bytes(j->expected, &out);
    }
    ss_buffer_free(&out);
    return NULL;
}

static void test_threads_share_one_op(void) {
    enum { THREADS = 4 };
    const ss_attribute_action actions[] = {
        {.verb = SS_ATTRIBUTE_HASH, .key = TEXT("a"), .pattern = TEXT("^b")},
        {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("c")},
    };
    ss_buffer span = span_of("abcde"), expected = {0};
    ss_buffer request = request_of(&span, NULL);
    ss_op *op = new_op(actions, 2, false);
    CHECK(!apply(op, SS_SIGNAL_TRACES, &request, &expected));
    job j = {op, &request, &expected};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, &j) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ss_op_free(op);
    ss_buffer_free(&request);
    ss_buffer_free(&expected);
}

int main(void) {
    test_deleted_attributes_leave_exact_bytes();
    test_span_without_the_key_is_left_alone();
    test_odd_layouts_are_found();
    test_actions_leave_exact_bytes();
    test_hash_is_sha256();
    test_resource_is_changed_and_spans_are_not();
    test_resource_in_pieces();
    test_sampler_edits_between_attributes();
    test_bad_configuration_is_an_error();
    test_header_in_each_item_is_bounded();
    test_slow_texts_hide_no_other();
    test_every_truncation_is_refused_or_done();
    test_threads_share_one_op();
    return check_finish();
}
