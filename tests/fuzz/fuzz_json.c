/* JSON in: what is accepted must come out as JSON that means the same. The first byte chooses the signal. What is
 * accepted but for its ids and texts must be a request all the same. */
#include <stdlib.h>
#include <string.h>

#include "otlp/faults.h"
#include "otlp/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) {
        abort();
    }
}

static void judge(ss_signal signal, const uint8_t *text, size_t size, const ss_buffer *strict) {
    ss_buffer wire = {0};
    ss_error error = {0};
    ss_faults faults;
    uint64_t n_texts;
    char path[SS_PATH_SIZE];
    ss_table *table = ss_table_new();
    require(table != NULL);
    if (ss_json_to_otlp_items(signal, text, size, NULL, &wire, &n_texts, path, &error) != SS_OK) {
        require(error.reason && error.offset <= size && !wire.length && !strict && strlen(path) < sizeof path);
    } else if (ss_scan_items(signal, wire.data, wire.length, true, table, &faults, &error) != SS_OK) {
        require(error.code == SS_ERR_LIMIT); /* more items or containers than a table takes */
    } else {
        char told[100];
        ss_faults_describe(&faults, table, SS_PAYLOAD_JSON, told, sizeof told);
        require(!faults.has_bad_text && !faults.n_items == !told[0]);
        require(!strict || (!faults.n_items && !n_texts && strict->length == wire.length &&
                            (!wire.length || memcmp(strict->data, wire.data, wire.length) == 0)));
        require(strict || faults.n_items || n_texts);
    }
    ss_table_free(table);
    ss_buffer_free(&wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    ss_signal signal = (ss_signal)(data[0] % SS_N_SIGNALS);
    ss_buffer wire = {0}, json = {0}, wire_again = {0}, json_again = {0};
    ss_error error = {0};
    bool is_valid = ss_json_to_otlp(signal, data + 1, size - 1, &wire, &error) == SS_OK;
    judge(signal, data + 1, size - 1, is_valid ? &wire : NULL);
    if (!is_valid) {
        if (!error.reason || error.offset > size - 1 || wire.length) {
            abort();
        }
    } else if (ss_otlp_to_json(signal, wire.data, wire.length, &json, &error) != SS_OK) {
        if (error.code != SS_ERR_LIMIT) { /* a key given twice makes a message in pieces */
            abort();
        }
    } else if (ss_json_to_otlp(signal, json.data, json.length, &wire_again, &error) != SS_OK ||
               ss_otlp_to_json(signal, wire_again.data, wire_again.length, &json_again, &error) != SS_OK ||
               json.length != json_again.length || memcmp(json.data, json_again.data, json.length) != 0) {
        abort();
    }
    ss_buffer_free(&wire);
    ss_buffer_free(&json);
    ss_buffer_free(&wire_again);
    ss_buffer_free(&json_again);
    return 0;
}
