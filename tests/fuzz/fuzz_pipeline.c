/* Any request through a whole graph, ops and a batch with tiny limits: no item is lost or made up, and all that comes
 * out can be read again. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "ops/op.h"
#include "otlp/table.h"
#include "plan/consumer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}

/* Takes what the batch passes on, in the batch's thread. */
typedef struct sink {
    ss_consumer consumer;
    ss_table *table;
    uint64_t items;
    uint64_t batches;
    uint64_t max_items; /* 0: any */
    bool is_malformed;
} sink;

static ss_status sink_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker;
    (void)verdict;
    sink *self = (sink *)consumer;
    ss_error error;
    bool is_read = ss_scan(view->signal, view->bytes, view->length, self->table, &error) == SS_OK;
    self->is_malformed |= !is_read || self->table->n_rows != view->n_items || view->n_items == 0 ||
                          (self->max_items && view->n_items > self->max_items);
    self->items += view->n_items;
    self->batches++;
    return SS_OK;
}

static const ss_consumer_vtable sink_vtable = {sink_consume, NULL};

static ss_op *make_transform(uint8_t choice) {
    static const char *const texts[] = {"a", "b"};
    const ss_metric_operation operations[] = {
        {.action = SS_METRIC_ACTION_DELETE_LABEL_VALUE, .label = "a", .texts = texts, .n_texts = 1},
        {.action = SS_METRIC_ACTION_AGGREGATE_LABELS, .aggregation = SS_AGGREGATION_SUM, .texts = texts, .n_texts = 1},
        {.action = SS_METRIC_ACTION_TOGGLE_SCALAR_TYPE},
        {.action = SS_METRIC_ACTION_ADD_LABEL, .new_label = "c", .new_value = "v"},
    };
    const ss_metric_transform transforms[] = {
        {.include = ".*",
         .is_regexp = true,
         .new_name = "n$0",
         .operations = operations,
         .n_operations = choice & 4 ? 4 : 1},
    };
    const ss_metrics_transform_config config = {transforms, 1};
    ss_error error;
    return ss_metrics_transform_new(&config, &error);
}

static ss_op *make_sampler(ss_signal signal, uint8_t choice) {
    const ss_sampler_config config = {.signal = signal,
                                      .mode = (ss_sampler_mode)(choice % 3),
                                      .sampling_percentage = choice & 4 ? 100 : 60,
                                      .allow_resampling = choice & 8,
                                      .from_attribute = "id",
                                      .sampling_priority = "p"};
    ss_error error;
    return ss_sampler_new(&config, &error);
}

static ss_op *make_filter(uint8_t choice) {
    static const char *const names[] = {"a*", "?b"};
    static const uint8_t rules[] = {SS_SIGN_NAME, SS_SIGN_SHORT | SS_SIGN_NO_ATTRIBUTES};
    const ss_low_value_config config = {.min_duration_ns = 10,
                                        .names = names,
                                        .n_names = 2,
                                        .rules = rules,
                                        .n_rules = 2,
                                        .keep_roots = choice & 16,
                                        .reparent = true};
    ss_error error;
    return ss_low_value_new(&config, &error);
}

/* Changes what the others read: attributes of items and of resources. */
static ss_op *make_attributes(bool is_resource) {
    static const ss_value value = {.type = SS_TYPE_INT, .integer = 1};
    const ss_attribute_action actions[] = {
        {.verb = SS_ATTRIBUTE_DELETE, .key = {"a", 1}, .pattern = {"^s", 2}},
        {.verb = SS_ATTRIBUTE_UPSERT, .key = {"p", 1}, .value = &value},
    };
    const ss_attributes_config config = {.is_resource = is_resource, .actions = actions, .n_actions = 2};
    ss_error error;
    return ss_attributes_new(&config, &error);
}

/* Of each op: what came in is what it let through and what it counted as dropped. */
static void require_balance(const ss_op *op, ss_signal signal, bool is_sampler) {
    uint64_t dropped = 0;
    if (is_sampler) {
        for (uint32_t policy = 0; policy < SS_SAMPLER_N_POLICIES; policy++) {
            dropped += ss_op_counter(op, 2 * policy);
        }
    } else if (signal == SS_SIGNAL_METRICS) {
        dropped = ss_op_counter(op, SS_METRICS_TRANSFORM_DELETED) + ss_op_counter(op, SS_METRICS_TRANSFORM_MERGED);
    } else {
        for (uint32_t rule = 0; rule < SS_LOW_VALUE_RULES_MAX; rule++) {
            dropped += ss_op_counter(op, rule);
        }
    }
    require(ss_op_incoming_items(op) == ss_op_outgoing_items(op) + dropped);
}

/* Three bytes of choices, then the request. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) {
        return 0;
    }
    ss_signal signal = (ss_signal)(data[0] % SS_N_SIGNALS);
    const uint8_t choice = data[1];
    const uint32_t max_items = data[2] & 1 ? 1 + (data[2] >> 4) : 0;
    const ss_batch_config limits = {.timeout_ns = data[2] & 2 ? 1000000000000u : 0,
                                    .send_batch_size = max_items,
                                    .send_batch_max_size = max_items,
                                    .send_batch_max_bytes = data[2] & 4 ? 1 + data[2] : 0};
    size_t length = size - 3;
    uint8_t *bytes = malloc(length + !length);
    require(bytes != NULL);
    memcpy(bytes, data + 3, length);

    ss_error error;
    ss_verdict verdict;
    sink out = {.consumer = {&sink_vtable, signal}, .table = ss_table_new(), .max_items = max_items};
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_op *ops[4] = {NULL};
    size_t n_ops = 0;
    ss_op *plain[2] = {NULL}; /* those that drop nothing */
    size_t n_plain = 0;
    if (choice & 64) {
        plain[n_plain++] = ops[n_ops++] = make_attributes(data[2] & 8);
    }
    const ss_op *sampler = NULL;
    if (signal != SS_SIGNAL_METRICS) {
        sampler = ops[n_ops++] = make_sampler(signal, choice);
    }
    if (signal != SS_SIGNAL_LOGS) {
        ops[n_ops++] = signal == SS_SIGNAL_METRICS ? make_transform(choice) : make_filter(choice);
    }
    if (choice & 128) {
        plain[n_plain++] = ops[n_ops++] = make_attributes(false);
    }
    ss_consumer *outputs[] = {&out.consumer};
    ss_consumer *batch = ss_batch_new(runtime, signal, &limits, outputs, 1, &error);
    ss_consumer *discard = ss_discard_new(signal);
    ss_consumer *both[] = {batch, discard};
    ss_consumer *fanout = ss_fanout_new(signal, both, choice & 32 ? 2 : 1);
    ss_consumer *pipeline = ss_pipeline_new(signal, ops, n_ops, fanout);
    require(pipeline && fanout && batch && ops[n_ops - 1]);

    ss_status status = ss_consumer_push(pipeline, worker, bytes, length, &verdict);
    require(ss_batch_drain(batch, 1000000000000u) == SS_OK);
    require(!out.is_malformed);
    if (status == SS_OK) {
        require(out.items == ss_pipeline_outgoing_items(pipeline));
        require(out.items == (n_ops ? ss_op_outgoing_items(ops[n_ops - 1]) : out.items));
        require(!(choice & 32) || ss_discard_items(discard) == out.items);
        require(ss_pipeline_incoming_items(pipeline) == ss_op_incoming_items(ops[0]));
        for (size_t i = 0; i < n_ops; i++) {
            if (ops[i] == plain[0] || ops[i] == plain[1]) {
                require(ss_op_incoming_items(ops[i]) == ss_op_outgoing_items(ops[i]));
            } else {
                require_balance(ops[i], signal, ops[i] == sampler);
            }
            require(i == 0 || ss_op_incoming_items(ops[i]) == ss_op_outgoing_items(ops[i - 1]) ||
                    ss_op_outgoing_items(ops[i - 1]) == 0);
        }
    } else {
        require(out.items == 0);
    }
    require(ss_runtime_in_flight_bytes(runtime) == 0);

    ss_consumer_free(pipeline);
    ss_consumer_free(fanout);
    ss_consumer_free(batch);
    ss_consumer_free(discard);
    for (size_t i = 0; i < n_ops; i++) {
        ss_op_free(ops[i]);
    }
    ss_worker_free(worker);
    ss_runtime_free(runtime);
    ss_table_free(out.table);
    free(bytes);
    return 0;
}
