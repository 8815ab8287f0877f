/* Any request through scan, sampler, emit: what comes out is well-formed and holds the kept rows. */
#include "ops/op.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}

/* The first byte chooses the configuration, the rest is the request. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) {
        return 0;
    }
    ss_sampler_config config = {.signal = data[0] & 1 ? SS_SIGNAL_LOGS : SS_SIGNAL_TRACES,
                                .mode = (ss_sampler_mode)(data[0] >> 1 & 3),
                                .sampling_percentage = data[0] & 8 ? 100 : 50,
                                .sdk = (ss_sampler_sdk)(data[0] >> 4) % SS_SAMPLER_N_SDKS,
                                .sdk_ratio = data[0] & 8 ? 1 : 0.5,
                                .sampling_precision = 4,
                                .fail_closed = data[0] & 16,
                                .allow_resampling = data[0] & 32,
                                .hash_trace_id = data[0] & 64,
                                .from_attribute = "id",
                                .sampling_priority = "p"};
    ss_table *table = ss_table_new();
    ss_error error = {0};
    ss_verdict verdict = {0};
    ss_buffer out = {0};
    ss_op *op = ss_sampler_new(&config, &error);
    require(table && op);
    if (ss_scan(config.signal, data + 1, size - 1, table, &error) == SS_OK) {
        require(op->vtable->run(op, table, &verdict) == SS_OK);
        uint32_t n_kept = table->n_kept;
        require(ss_emit(table, 0, table->n_rows, &out) == SS_OK);
        ss_op_settle_counts(table, 0, true);
        require(ss_scan(config.signal, out.data, out.length, table, &error) == SS_OK);
        require(table->n_rows == n_kept);
    }
    ss_buffer_free(&out);
    ss_op_free(op);
    ss_table_free(table);
    return 0;
}
