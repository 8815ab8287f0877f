/* What the load generator changes, and the sink counts: any bytes that scan keep their shape in disguise, and come back
 * as they were; any bytes at all are counted in bounds. */
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "spansieve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) {
        abort();
    }
}

static void require_same_rows(ss_table *before, ss_table *after) {
    require(before->n_rows == after->n_rows);
    for (uint32_t row = 0; row < before->n_rows; row++) {
        require(before->row_offset[row] == after->row_offset[row]);
        require(before->row_length[row] == after->row_length[row]);
        require(before->kind[row] == after->kind[row] && before->marks[row] == after->marks[row]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    ss_signal signal = (ss_signal)(data[0] % SS_N_SIGNALS);
    size_t length = size - 1;
    /* Copies of the exact size let the sanitizer see a read past the end. */
    uint8_t *original = malloc(length ? length : 1);
    uint8_t *changed = malloc(length ? length : 1);
    ss_table *before = ss_table_new(), *after = ss_table_new();
    ss_error error;
    require(original && changed && before && after);
    memcpy(original, data + 1, length);
    memcpy(changed, data + 1, length);
    uint64_t n_items;
    bool is_counted = message_count_items(signal, original, length, &n_items);
    load_places places = {0};
    bool is_found = message_find_places(signal, original, length, &places);
    if (ss_scan(signal, original, length, before, &error) == SS_OK) {
        require(is_counted && n_items == before->n_rows && is_found);
        const load_disguise none = {0};
        const load_disguise some = {
            .trace_id = {0x0123456789abcdef, 0xfedcba9876543210}, .span_id = 0x5a5a5a5a5a5a5a5a, .shift_ns = 1};
        message_change(changed, &places, &none, &some);
        require(ss_scan(signal, changed, length, after, &error) == SS_OK);
        require_same_rows(before, after);
        message_change(changed, &places, &some, &none);
        require(length == 0 || memcmp(changed, original, length) == 0);
    }
    places_free(&places);
    ss_table_free(after);
    ss_table_free(before);
    free(changed);
    free(original);
    return 0;
}
