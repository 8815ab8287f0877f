/* Any bytes as a batch: what is regrouped has the same items under the same resources and scopes, is shorter, and is
 * valid where the batch was. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/hash.h"
#include "otlp/regroup.h"
#include "spansieve.h"

enum { CHILDREN = 2, LEVEL_ITEMS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) {
        abort();
    }
}

static uint64_t hash(uint64_t start, const uint8_t *from, const uint8_t *end) {
    uint64_t value = ss_hash_mix(start, (uint64_t)(end - from));
    for (; from < end; from++) {
        value = ss_hash_mix(value, *from);
    }
    return value;
}

/* Of the message's items, each with the fields of all messages around it, whatever the order of anything. */
static uint64_t sum_items(ss_reader message, unsigned level, uint64_t around) {
    uint64_t sum = 0;
    for (int is_second = 0; is_second < 2; is_second++) { /* first the fields, then the children under them */
        ss_reader reader = message;
        while (reader.pos < reader.end) {
            const uint8_t *start = reader.pos;
            uint64_t tag;
            ss_reader body;
            require(ss_read_varint(&reader, &tag) && ss_read_bytes(&reader, &body));
            bool is_child = !level || tag >> 3 == CHILDREN;
            if (!is_child && !is_second) {
                around += hash(level, start, reader.pos);
            } else if (is_child && is_second) {
                sum += level < LEVEL_ITEMS ? sum_items(body, level + 1, ss_hash_mix(around, level))
                                           : hash(around, start, reader.pos);
            }
        }
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* A copy of the exact size lets the sanitizer see a read past the end. */
    uint8_t *bytes = malloc(size ? size : 1);
    require(bytes);
    if (size) {
        memcpy(bytes, data, size);
    }
    ss_buffer out = {0};
    bool is_done;
    require(ss_regroup(bytes, size, &out, &is_done) == SS_OK);
    if (is_done) {
        ss_reader before = {bytes, bytes + size}, after = {out.data, out.data + out.length};
        require(out.length < size);
        require(sum_items(before, 0, 0) == sum_items(after, 0, 0));
        ss_table *table = ss_table_new();
        ss_error error;
        require(table);
        for (int signal = 0; signal < SS_N_SIGNALS; signal++) {
            bool was_valid = ss_scan((ss_signal)signal, bytes, size, table, &error) == SS_OK;
            uint32_t n_rows = table->n_rows;
            bool is_valid = ss_scan((ss_signal)signal, out.data, out.length, table, &error) == SS_OK;
            require(was_valid == is_valid && (!is_valid || table->n_rows == n_rows));
        }
        ss_table_free(table);
    } else {
        require(!out.length);
    }
    ss_buffer_free(&out);
    free(bytes);
    return 0;
}
