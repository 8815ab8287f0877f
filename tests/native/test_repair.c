/* Repair of texts that are not UTF-8: whatever the scan takes is repaired, however deep the text lies. */
#include <string.h>

#include "check.h"
#include "otlp/faults.h"
#include "otlp/table.h"

enum { AROUND_MAX = 6 }; /* messages around an attribute, the deepest in a metric's data point */

/* Put field number, a message, around what is in buffer. */
static void wrap(ss_buffer *buffer, uint32_t number) {
    uint8_t head[1 + 5] = {(uint8_t)(number << 3 | 2)};
    size_t size = 1;
    uint64_t length = buffer->length;
    for (; length >= 0x80; length >>= 7) {
        head[size++] = (uint8_t)(length | 0x80);
    }
    head[size++] = (uint8_t)length;
    ss_buffer_reserve(buffer, size);
    memmove(buffer->data + size, buffer->data, buffer->length);
    memcpy(buffer->data, head, size);
    buffer->length += size;
}

/* A request whose only text lies in n lists within an attribute; around: the numbers of the fields outside of it. */
static ss_buffer make_nested(uint32_t n, const uint32_t around[AROUND_MAX]) {
    ss_buffer request = {0};
    const uint8_t text[] = {0x0a, 2, 'a', 0xff};
    ss_buffer_append(&request, text, sizeof text);
    for (uint32_t i = 0; i < n; i++) {
        wrap(&request, 1); /* ArrayValue.values */
        wrap(&request, 5); /* AnyValue.array_value */
    }
    wrap(&request, 2); /* KeyValue.value */
    for (int i = 0; i < AROUND_MAX && around[i]; i++) {
        wrap(&request, around[i]);
    }
    return request;
}

static void test_texts_are_repaired_at_every_depth(void) {
    static const uint32_t around[SS_N_SIGNALS][AROUND_MAX] = {
        [SS_SIGNAL_TRACES] = {9, 2, 2, 1}, [SS_SIGNAL_METRICS] = {7, 1, 5, 2, 2, 1}, [SS_SIGNAL_LOGS] = {6, 2, 2, 1}};
    ss_table *table = ss_table_new();
    for (int signal = 0; signal < SS_N_SIGNALS; signal++) {
        bool is_taken = true;
        uint32_t depth = 0, faults_of_nesting = 0;
        for (; depth < 100 && is_taken; depth++) {
            ss_buffer request = make_nested(depth, around[signal]), repaired = {0};
            ss_faults faults;
            ss_error error;
            uint64_t n_texts = 0;
            CHECK_EQUAL(SS_OK, ss_scan_items(signal, request.data, request.length, true, table, &faults, &error));
            is_taken = faults.n_items == 0;
            faults_of_nesting = faults.by_fault[SS_FAULT_NESTING];
            if (is_taken) {
                CHECK(faults.has_bad_text);
                CHECK_EQUAL(SS_OK, ss_repair_texts(signal, request.data, request.length, NULL, &repaired, &n_texts));
                CHECK_EQUAL(1, n_texts);
                CHECK_EQUAL(SS_OK, ss_scan_items(signal, repaired.data, repaired.length, true, table, &faults, &error));
                CHECK(!faults.has_bad_text);
                CHECK_EQUAL(1, table->n_rows);
            }
            ss_buffer_free(&repaired);
            ss_buffer_free(&request);
        }
        CHECK_EQUAL(1, faults_of_nesting);
        CHECK(depth > 40);
    }
    ss_table_free(table);
}

int main(void) {
    test_texts_are_repaired_at_every_depth();
    return check_finish();
}
