/* What an operation is to the plan that runs it. One file an operation; ops do not include one another. */
#ifndef SS_OP_H
#define SS_OP_H

#include "spansieve.h"

/* The last two count for every op, in ss_op_run. */
enum { SS_OP_COUNTERS = 24, SS_OP_INCOMING = SS_OP_COUNTERS, SS_OP_OUTGOING, SS_OP_COUNTERS_ALL };

/* Columns that an edit makes stale. An op that reads one which an earlier op has edited is given a fresh scan. */
typedef enum ss_columns {
    SS_COLUMN_TRACESTATE = 1,
    SS_COLUMN_PARENT = 2,
    SS_COLUMN_ATTRIBUTES = 4,
    SS_COLUMN_POINTS = 8, /* anything in a metric */
    SS_COLUMN_RESOURCE = 16
} ss_columns;

typedef struct ss_op_vtable {
    uint32_t reads; /* ss_columns */
    uint32_t edits; /* ss_columns */
    /* Mark and edit the table. Other than SS_OK refuses the whole request with verdict.
     * Called from several threads at once: state is read-only but for counters. */
    ss_status (*run)(ss_op *op, ss_table *table, ss_verdict *verdict);
    void (*free)(ss_op *op);
} ss_op_vtable;

/* First member of every op. */
struct ss_op {
    const ss_op_vtable *vtable;
    uint64_t counters[SS_OP_COUNTERS_ALL]; /* relaxed atomics */
};

/* Count items of the request that table shows: they are added when the request is taken, and forgotten when it is
 * refused further on, since the client will send it again. */
void ss_op_count(ss_op *op, ss_table *table, uint32_t index, uint32_t items);

/* Add what was counted on table to the ops, or forget it: the tallies from first on. Pipelines that follow one another
 * on one untouched table each settle their own. */
void ss_op_settle_counts(ss_table *table, uint32_t first, bool taken);

/* What a pipeline calls: runs the op and counts what came to it and what it kept. */
static inline ss_status ss_op_run(ss_op *op, ss_table *table, ss_verdict *verdict) {
    uint32_t n_incoming = table->n_kept;
    ss_status status = op->vtable->run(op, table, verdict);
    if (status == SS_OK) {
        ss_op_count(op, table, SS_OP_INCOMING, n_incoming);
        ss_op_count(op, table, SS_OP_OUTGOING, table->n_kept);
    }
    return status;
}

static inline void ss_table_drop(ss_table *table, uint32_t row) {
    table->n_kept -= table->verdict[row] == SS_KEEP;
    table->verdict[row] = SS_DROP;
}

#endif
