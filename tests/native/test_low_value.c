/* low_value_filter's re-parenting: who becomes whose child. What it costs is in test_growth.c. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ops/op.h"
#include "otlp/table.h"

enum { SPAN_MAX = 64 };

static size_t put_id(uint8_t *out, uint8_t tag, uint8_t size, uint64_t id) {
    out[0] = tag;
    out[1] = size;
    memset(out + 2, 0, size);
    memcpy(out + 2, &id, sizeof id);
    return (size_t)size + 2;
}

/* A span named d (to be dropped) or k. parents: parent_span_id, as often as it is written. */
static void add_span(ss_buffer *spans, char name, uint64_t trace, uint64_t id, const uint64_t *parents, size_t n) {
    uint8_t span[SPAN_MAX] = {0x12};
    size_t at = 2;
    at += put_id(span + at, 0x0a, 16, trace);
    at += put_id(span + at, 0x12, 8, id);
    for (size_t i = 0; i < n; i++) {
        at += put_id(span + at, 0x22, 8, parents[i]);
    }
    const uint8_t last[] = {0x2a, 1, (uint8_t)name};
    memcpy(span + at, last, sizeof last);
    at += sizeof last;
    span[1] = (uint8_t)(at - 2);
    ss_buffer_append(spans, span, at);
}

/* Drop spans named d from a request with these spans, which are freed. Returns a table over what is left, *out. */
static ss_table *filter(ss_buffer *spans, ss_buffer *out) {
    ss_buffer request = {0};
    for (int level = 0; level < 2; level++) { /* lengths as padded five-byte varints */
        uint32_t length = (uint32_t)spans->length + (level == 0 ? 6 : 0);
        uint8_t head[6] = {level == 0 ? 0x0a : 0x12};
        for (int i = 0; i < 5; i++) {
            head[1 + i] = (uint8_t)((length >> (7 * i) & 0x7f) | (i < 4 ? 0x80 : 0));
        }
        ss_buffer_append(&request, head, sizeof head);
    }
    ss_buffer_append(&request, spans->data, spans->length);
    ss_buffer_free(spans);
    const uint8_t rules[] = {SS_SIGN_NAME};
    const char *const names[] = {"d"};
    const ss_low_value_config config = {.names = names, .n_names = 1, .rules = rules, .n_rules = 1, .reparent = true};
    ss_error error;
    ss_verdict verdict = {0};
    ss_op *op = ss_low_value_new(&config, &error);
    ss_table *table = ss_table_new();
    CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, request.data, request.length, table, &error));
    CHECK_EQUAL(SS_OK, ss_op_run(op, table, &verdict));
    *out = (ss_buffer){0};
    CHECK_EQUAL(SS_OK, ss_emit(table, 0, table->n_rows, out));
    CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, out->data, out->length, table, &error));
    ss_op_free(op);
    ss_buffer_free(&request);
    return table;
}

static uint64_t parent_of(const ss_table *table, uint32_t row) {
    uint64_t id;
    memcpy(&id, table->parent_span_id + (size_t)row * 8, 8);
    return id;
}

static void add(ss_buffer *spans, char name, uint64_t trace, uint64_t id, uint64_t parent) {
    add_span(spans, name, trace, id, &parent, parent != 0);
}

static void test_children_take_the_nearest_kept_ancestor(void) {
    ss_buffer spans = {0};
    ss_buffer out;
    add(&spans, 'k', 1, 50, 40); /* children stand before their parents, and behind */
    add(&spans, 'd', 1, 40, 30);
    add(&spans, 'd', 1, 30, 20);
    add(&spans, 'k', 1, 20, 10);
    add(&spans, 'd', 1, 10, 0);
    add(&spans, 'k', 1, 60, 30);
    add(&spans, 'k', 2, 70, 30); /* another trace: its 30 is not here */
    add(&spans, 'd', 3, 80, 90); /* 90 is in another request */
    add(&spans, 'k', 3, 81, 80);
    ss_table *table = filter(&spans, &out);
    const uint64_t expected[] = {20, 0, 20, 30, 90};
    CHECK_EQUAL(5, table->n_rows);
    for (uint32_t row = 0; row < table->n_rows; row++) {
        CHECK_EQUAL(expected[row], parent_of(table, row));
    }
    ss_table_free(table);
    ss_buffer_free(&out);
}

/* A ring of dropped spans has no end: the walk has, and the children stay in the request. */
static void test_ring_of_dropped_spans_ends(void) {
    ss_buffer spans = {0};
    ss_buffer out;
    add(&spans, 'd', 1, 1, 3);
    add(&spans, 'd', 1, 2, 1);
    add(&spans, 'd', 1, 3, 2);
    add(&spans, 'd', 1, 4, 4);
    add(&spans, 'k', 1, 5, 2);
    add(&spans, 'k', 1, 6, 4);
    ss_table *table = filter(&spans, &out);
    CHECK_EQUAL(2, table->n_rows);
    CHECK(parent_of(table, 0) >= 1 && parent_of(table, 0) <= 3);
    CHECK_EQUAL(4, parent_of(table, 1));
    ss_table_free(table);
    ss_buffer_free(&out);
}

/* The last of two parent_span_id counts, also when it is to go. */
static void test_parent_written_twice(void) {
    ss_buffer spans = {0};
    ss_buffer out;
    const uint64_t parents[] = {7, 1};
    add(&spans, 'd', 1, 1, 0);
    add_span(&spans, 'k', 1, 2, parents, 2);
    ss_table *table = filter(&spans, &out);
    CHECK_EQUAL(1, table->n_rows);
    CHECK_EQUAL(0, parent_of(table, 0));
    ss_table_free(table);
    ss_buffer_free(&out);
}

int main(void) {
    test_children_take_the_nearest_kept_ancestor();
    test_ring_of_dropped_spans_ends();
    test_parent_written_twice();
    return check_finish();
}
