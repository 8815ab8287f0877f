#include "otlp/faults.h"

#include "otlp/table.h"
#include "otlp_fields.h"

#include <stdarg.h>
#include <stdio.h>

enum { SHOWN_MAX = 40 }; /* characters of a value that are worth showing */

/* A text that grows in the caller's memory; what does not fit is cut. */
typedef struct line {
    char *text;
    size_t size;
    size_t length;
} line;

static __attribute__((format(printf, 2, 3))) void add(line *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(l->text + l->length, l->size - l->length, format, arguments);
    va_end(arguments);
    size_t room = l->size - l->length - 1;
    l->length += (size_t)written < room ? (size_t)written : room;
}

static const char *data_name(int32_t kind) {
    switch (kind) {
    case SS_METRIC_GAUGE: return "gauge";
    case SS_METRIC_SUM: return "sum";
    case SS_METRIC_HISTOGRAM: return "histogram";
    case SS_METRIC_EXPONENTIAL_HISTOGRAM: return "exponentialHistogram";
    default: return "summary";
    }
}

/* Place of a node among its parent's children. */
static uint32_t place_of(const ss_node *nodes, uint32_t node) {
    uint32_t place = 0;
    for (uint32_t i = nodes[node].parent + 1; i < node; i = nodes[i].subtree_end) {
        place++;
    }
    return place;
}

/* The row as OTLP/JSON names it: resourceSpans[0].scopeSpans[0].spans[0]. */
static void add_path(line *l, const ss_table *table, uint32_t row) {
    static const char *const containers[SS_N_SIGNALS][3] = {
        [SS_SIGNAL_TRACES] = {"resourceSpans", "scopeSpans"},
        [SS_SIGNAL_METRICS] = {"resourceMetrics", "scopeMetrics", "metrics"},
        [SS_SIGNAL_LOGS] = {"resourceLogs", "scopeLogs"},
    };
    static const char *const items[SS_N_SIGNALS] = {
        [SS_SIGNAL_TRACES] = "spans", [SS_SIGNAL_METRICS] = "dataPoints", [SS_SIGNAL_LOGS] = "logRecords"};
    const ss_node *nodes = table->private_state->nodes;
    uint32_t leaf = table->node_index[row];
    uint32_t chain[SS_LEVELS_MAX];
    size_t depth = 0;
    for (uint32_t node = leaf; nodes[node].parent != SS_NO_INDEX; node = nodes[node].parent) {
        chain[depth++] = node;
    }
    while (depth--) {
        uint32_t node = chain[depth];
        uint32_t level = nodes[node].level;
        if (level > 3) {
            add(l, "%s.", data_name(table->kind[row])); /* one of the oneof's fields: no array */
        } else {
            add(l, "%s[%u].", containers[table->signal][level - 1], place_of(nodes, node));
        }
    }
    add(l, "%s[%u]", items[table->signal], row - nodes[leaf].first_row);
}

static void add_fault(line *l, const ss_table *table, const ss_item_fault *fault, ss_payload payload) {
    static const char *const names[SS_N_IDS] = {
        [SS_ID_TRACE] = "traceId", [SS_ID_SPAN] = "spanId", [SS_ID_PARENT_SPAN] = "parentSpanId"};
    const uint8_t *value = table->bytes + fault->value_offset;
    const unsigned size = fault->id == SS_ID_TRACE ? 16 : 8;
    add_path(l, table, fault->row);
    add(l, ".%s%s: ", fault->within, names[fault->id]);
    if (payload == SS_PAYLOAD_PROTOBUF) {
        add(l, "expected %u bytes, got %u", size, fault->value_length);
        return;
    }
    bool is_long = fault->value_length > SHOWN_MAX;
    add(l, "expected %u hex digits, got \"%.*s%s\"", 2 * size, is_long ? SHOWN_MAX : (int)fault->value_length,
        (const char *)value, is_long ? "..." : "");
    if (ss_json_id_is_base64(value, fault->value_length, size)) {
        add(l, ", this looks like base64");
    }
}

void ss_faults_describe(const ss_faults *faults, const ss_table *table, ss_payload payload, char *out, size_t size) {
    line l = {out, size, 0};
    out[0] = 0;
    for (uint32_t i = 0; i < faults->n_items && i < SS_FIRST_FAULTS; i++) {
        add(&l, "%s", i ? "; " : "");
        add_fault(&l, table, &faults->first[i], payload);
    }
}
