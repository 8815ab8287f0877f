/* Any bytes as a request: scanned in bounds, and what is emitted of them scans again to the rows that were kept. Items
 * with a fault are left out alone, and texts that are not UTF-8 are repaired. */
#include <stdlib.h>
#include <string.h>

#include "otlp/faults.h"
#include "otlp/table.h"
#include "spansieve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) {
        abort();
    }
}

/* The bytes of the node that are no row's. */
static ss_buffer bytes_between(const ss_table *table, uint32_t index) {
    const ss_node *node = &table->private_state->nodes[index];
    ss_buffer between = {0};
    uint32_t from = node->body_offset;
    for (uint32_t row = node->first_row; row < node->end_row; row++) {
        require(ss_buffer_append(&between, table->bytes + from, table->row_offset[row] - from) == SS_OK);
        from = table->row_offset[row] + table->row_length[row];
    }
    require(ss_buffer_append(&between, table->bytes + from, node->end_offset - from) == SS_OK);
    return between;
}

/* Without edits: the kept rows of table are those of again, byte for byte, and so is what stands between them. */
static void compare(const ss_table *table, const ss_table *again) {
    uint32_t at = 0;
    uint32_t last_node = SS_NO_INDEX;
    for (uint32_t row = 0; row < table->n_rows; row++) {
        if (table->verdict[row] != SS_KEEP) {
            continue;
        }
        require(table->row_length[row] == again->row_length[at]);
        require(memcmp(table->bytes + table->row_offset[row], again->bytes + again->row_offset[at],
                       table->row_length[row]) == 0);
        if (table->node_index[row] != last_node) {
            last_node = table->node_index[row];
            ss_buffer before = bytes_between(table, last_node);
            ss_buffer after = bytes_between(again, again->node_index[at]);
            require(before.length == after.length &&
                    (!before.length || memcmp(before.data, after.data, before.length) == 0));
            ss_buffer_free(&before);
            ss_buffer_free(&after);
        }
        at++;
    }
    require(at == again->n_rows);
}

/* Emit rows [first, end) and scan the result. Returns its rows. */
static uint32_t emit_and_scan(ss_table *table, uint32_t first, uint32_t end, ss_table *again) {
    ss_buffer out = {0};
    ss_error error;
    size_t size = ss_emit_size(table, first, end);
    require(ss_emit(table, first, end, &out) == SS_OK);
    require(out.length == 0 || out.length == size || ss_table_is_untouched(table));
    require(ss_scan(table->signal, out.data, out.length, again, &error) == SS_OK);
    uint32_t rows = again->n_rows;
    if (first == 0 && end == table->n_rows && !table->private_state->n_edits) {
        compare(table, again);
    }
    ss_buffer_free(&out);
    return rows;
}

/* What a receiver does: the rows without a fault are valid, and after the repair all texts are. */
static void judge(ss_signal signal, const uint8_t *bytes, size_t size, ss_table *table, ss_table *again) {
    ss_error error;
    ss_faults faults;
    char text[100];
    uint64_t n_texts;
    bool is_valid = ss_scan(signal, bytes, size, table, &error) == SS_OK;
    const uint32_t n_rows = table->n_rows;
    if (ss_scan_items(signal, bytes, size, true, table, &faults, &error) != SS_OK) {
        require(!is_valid && error.offset <= size && error.reason);
        return;
    }
    require(is_valid == !faults.n_items && (!is_valid || table->n_rows == n_rows));
    uint32_t n_faults = 0;
    for (int fault = 0; fault < SS_N_FAULTS; fault++) {
        n_faults += faults.by_fault[fault];
    }
    require(faults.n_items == n_faults);
    require(table->n_kept == table->n_rows - faults.n_items);
    ss_faults_describe(&faults, table, size % 2 ? SS_PAYLOAD_JSON : SS_PAYLOAD_PROTOBUF, text, sizeof text);
    require((strnlen(text, sizeof text) < sizeof text) && !faults.n_items == !text[0]);
    require(emit_and_scan(table, 0, table->n_rows, again) == table->n_kept);

    ss_faults after;
    ss_buffer repaired = {0};
    require(ss_repair_texts(signal, bytes, size, NULL, &repaired, &n_texts) == SS_OK);
    require(faults.has_bad_text ? n_texts > 0 : n_texts == 0 || faults.n_items); /* behind a fault no text is seen */
    require(ss_scan_items(signal, repaired.data, repaired.length, true, again, &after, &error) == SS_OK);
    require(!after.has_bad_text && after.n_items == faults.n_items && again->n_rows == table->n_rows);
    ss_buffer_free(&repaired);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    ss_signal signal = (ss_signal)(data[0] % SS_N_SIGNALS);
    uint8_t choice = data[1];
    /* A copy of the exact size lets the sanitizer see a read past the end. */
    uint8_t *bytes = malloc(size - 2 ? size - 2 : 1);
    ss_table *table = ss_table_new();
    ss_table *again = ss_table_new();
    ss_error error;
    require(bytes && table && again);
    memcpy(bytes, data + 2, size - 2);
    judge(signal, bytes, size - 2, table, again);
    if (ss_scan(signal, bytes, size - 2, table, &error) == SS_OK) {
        uint32_t n = table->n_rows;
        require(emit_and_scan(table, 0, n, again) == n);
        require(n == 0 || emit_and_scan(table, 0, n / 2, again) + emit_and_scan(table, n / 2, n, again) == n);
        uint32_t kept = 0;
        for (uint32_t row = 0; row < n; row++) {
            table->verdict[row] = (uint8_t)((choice >> (row % 8)) & 1);
            kept += table->verdict[row] == SS_KEEP;
        }
        ss_table_recount(table);
        require(emit_and_scan(table, 0, n, again) == kept);
        for (uint32_t row = 0; row < n; row += 3) {
            /* An unknown field at the end, and at the start, of some rows. */
            const uint8_t field[] = {0x82, 0x7d, 0x01, choice};
            uint32_t end = table->row_offset[row] + table->row_length[row];
            require(ss_table_edit(table, row, end, 0, field, sizeof field) == SS_OK);
            require(ss_table_edit(table, row, table->body_offset[row], 0, field, sizeof field) == SS_OK);
        }
        require(table->n_kept == kept);
        require(emit_and_scan(table, 0, n, again) == kept);
    } else {
        require(error.offset <= size - 2 && error.reason);
    }
    ss_table_free(again);
    ss_table_free(table);
    free(bytes);
    return 0;
}
