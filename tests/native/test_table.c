/* The table: how much memory a message can make it take, and that it gives that back. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "otlp/table.h"
#include "plan/runtime.h"

/* n empty messages of field 2 in each of the levels above: spans, or with is_scopes the ScopeSpans around them. */
static ss_buffer make_empty(uint32_t n, bool is_scopes) {
    ss_buffer request = {0};
    for (int level = is_scopes; level < 2; level++) {
        uint32_t length = 2 * n + (level == 0 ? 6 : 0);
        uint8_t head[6] = {level == is_scopes ? 0x0a : 0x12};
        for (int i = 0; i < 5; i++) {
            head[1 + i] = (uint8_t)((length >> (7 * i) & 0x7f) | (i < 4 ? 0x80 : 0));
        }
        ss_buffer_append(&request, head, sizeof head);
    }
    ss_buffer_reserve(&request, 2 * (size_t)n);
    for (uint32_t i = 0; i < n; i++) {
        request.data[request.length++] = 0x12;
        request.data[request.length++] = 0;
    }
    return request;
}

static void test_number_of_rows_and_containers_is_bounded(void) {
    enum { MANY = 5000000 };
    for (int is_scopes = 0; is_scopes < 2; is_scopes++) {
        ss_error error;
        ss_table *table = ss_table_new();
        ss_buffer request = make_empty(MANY, is_scopes);
        CHECK_EQUAL(SS_ERR_LIMIT, ss_scan(SS_SIGNAL_TRACES, request.data, request.length, table, &error));
        CHECK_EQUAL(0, table->n_rows);
        ss_table_free(table);
        ss_buffer_free(&request);
    }
}

/* Each look at the data of a metric is one at its name, which a sender makes as long as it likes. */
static void test_number_of_data_of_a_metric_is_bounded(void) {
    enum { MOST = 8, LENGTHS = 6 };
    for (uint8_t n = MOST; n <= MOST + 1; n++) {
        uint8_t size = (uint8_t)(4 * n);
        uint8_t request[LENGTHS + 4 * (MOST + 1)] = {0x0a, (uint8_t)(size + 4), 0x12, (uint8_t)(size + 2), 0x12, size};
        for (uint8_t i = 0; i < n; i++) {
            memcpy(request + LENGTHS + 4 * i, "\x2a\x02\x0a", 4); /* a gauge of an empty data point */
        }
        ss_error error;
        ss_table *table = ss_table_new();
        ss_status status = ss_scan(SS_SIGNAL_METRICS, request, LENGTHS + size, table, &error);
        CHECK_EQUAL(n > MOST ? SS_ERR_LIMIT : SS_OK, status);
        CHECK_EQUAL(n > MOST ? 0 : MOST, table->n_rows);
        CHECK(n <= MOST || error.offset == LENGTHS + 4 * MOST);
        ss_table_free(table);
    }
}

static void test_giant_request_leaves_no_memory_behind(void) {
    enum { MANY = 200000 };
    ss_error error;
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    for (int is_scopes = 0; is_scopes < 2; is_scopes++) {
        ss_buffer giant = make_empty(MANY, is_scopes);
        ss_frame *frame = ss_worker_push_frame(worker);
        struct ss_table_private *own = frame->table->private_state;
        CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, giant.data, giant.length, frame->table, &error));
        CHECK_EQUAL(is_scopes ? 0 : MANY, frame->table->n_rows);
        for (uint32_t row = 0; row < frame->table->n_rows; row++) {
            CHECK_EQUAL(SS_OK, ss_table_edit(frame->table, row, frame->table->body_offset[row], 0, giant.data, 8));
        }
        CHECK(ss_table_scratch(frame->table, 8 * MANY * sizeof(uint64_t)) != NULL);
        ss_worker_pop_frame(worker);
        CHECK(own->row_capacity + own->node_capacity + own->edit_capacity + own->row_edits_capacity < 100000);
        CHECK(own->replacements.capacity + own->scratch.capacity < 10 << 20);
        ss_buffer_free(&giant);
    }
    ss_worker_free(worker);
    ss_runtime_free(runtime);
}

/* Deletions alone leave no replacement bytes, and a table reads on after one. */
static void test_edit_that_only_deletes(void) {
    ss_error error;
    ss_buffer out = {0};
    ss_table *table = ss_table_new();
    const uint8_t request[] = {0x0a, 7, 0x12, 5, 0x12, 3, 0x2a, 1, 'n'};
    CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, request, sizeof request, table, &error));
    CHECK_EQUAL(SS_OK, ss_table_edit(table, 0, 6, 3, NULL, 0));
    CHECK_EQUAL(SS_OK, ss_emit(table, 0, 1, &out));
    const uint8_t expected[] = {0x0a, 4, 0x12, 2, 0x12, 0};
    CHECK(out.length == sizeof expected && memcmp(out.data, expected, sizeof expected) == 0);
    ss_buffer_free(&out);
    ss_table_free(table);
}

int main(void) {
    test_number_of_rows_and_containers_is_bounded();
    test_number_of_data_of_a_metric_is_bounded();
    test_giant_request_leaves_no_memory_behind();
    test_edit_that_only_deletes();
    return check_finish();
}
