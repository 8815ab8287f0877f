/* Any metrics request under every operation: in bounds, and what is emitted scans again to the points that are left. */
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"
#include "spansieve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) {
        abort();
    }
}

/* The first byte of the input chooses action and aggregation, the second the rest. */
static ss_op *make_op(uint8_t first, uint8_t second) {
    static const char *const texts[] = {"user", "code"};
    static const char *const labels[] = {"user", ""};
    const ss_metric_operation operations[] = {
        {
            .action = (ss_metric_action)(first % (SS_METRIC_ACTION_SCALE_VALUE + 1)),
            .aggregation = (ss_aggregation)(first / 16 % (SS_AGGREGATION_COUNT + 1)),
            .scale = second & 8 ? 1e300 : -0.5,
            .label = "user",
            .new_label = second & 4 ? "code" : "user",
            .new_value = "all",
            .texts = texts,
            .n_texts = 2,
        },
        {.action = SS_METRIC_ACTION_DELETE_LABEL, .label = "code", .aggregation = SS_AGGREGATION_SUM},
        {.action = SS_METRIC_ACTION_AGGREGATE_LABELS, .aggregation = SS_AGGREGATION_MEDIAN},
    };
    const ss_metric_transform transform = {
        .include = ".*",
        .is_regexp = true,
        .new_name = second & 1 ? "new.$0" : NULL,
        .match_labels = labels,
        .n_match_labels = second & 2 ? 2 : 0,
        .operations = operations,
        .n_operations = 1 + second / 16 % 3,
    };
    const ss_metrics_transform_config config = {&transform, 1};
    ss_error error;
    ss_op *op = ss_metrics_transform_new(&config, &error);
    require(op != NULL);
    return op;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    /* A copy of the exact size lets the sanitizer see a read past the end. */
    uint8_t *bytes = malloc(size - 2 ? size - 2 : 1);
    ss_table *table = ss_table_new();
    ss_error error;
    require(bytes && table);
    memcpy(bytes, data + 2, size - 2);
    if (ss_scan(SS_SIGNAL_METRICS, bytes, size - 2, table, &error) == SS_OK) {
        ss_op *op = make_op(data[0], data[1]);
        ss_verdict verdict = {0};
        ss_buffer out = {0};
        ss_table *again = ss_table_new();
        require(again && op->vtable->run(op, table, &verdict) == SS_OK);
        ss_op_settle_counts(table, 0, true);
        uint64_t gone = ss_op_counter(op, SS_METRICS_TRANSFORM_DELETED);
        gone += ss_op_counter(op, SS_METRICS_TRANSFORM_MERGED);
        require(table->n_kept + gone == table->n_rows);
        require(ss_emit(table, 0, table->n_rows, &out) == SS_OK);
        require(ss_scan(SS_SIGNAL_METRICS, out.data, out.length, again, &error) == SS_OK);
        require(again->n_rows == table->n_kept);
        ss_buffer_free(&out);
        ss_table_free(again);
        ss_op_free(op);
    }
    ss_table_free(table);
    free(bytes);
    return 0;
}
