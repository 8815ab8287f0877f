#include "ops/op.h"
#include "otlp/table.h"

void ss_op_free(ss_op *op) {
    if (op) {
        op->vtable->free(op);
    }
}

uint64_t ss_op_counter(const ss_op *op, uint32_t index) {
    return index < SS_OP_COUNTERS ? __atomic_load_n(&op->counters[index], __ATOMIC_RELAXED) : 0;
}

uint64_t ss_op_incoming_items(const ss_op *op) {
    return __atomic_load_n(&op->counters[SS_OP_INCOMING], __ATOMIC_RELAXED);
}

uint64_t ss_op_outgoing_items(const ss_op *op) {
    return __atomic_load_n(&op->counters[SS_OP_OUTGOING], __ATOMIC_RELAXED);
}

void ss_op_count(ss_op *op, ss_table *table, uint32_t index, uint32_t items) {
    struct ss_table_private *own = table->private_state;
    if (!items) {
        return;
    }
    if (own->n_tallies == SS_TALLIES_MAX) {
        /* More counters than any real pipeline has: exactness after a refusal is given up, not the count. */
        __atomic_fetch_add(&op->counters[index], items, __ATOMIC_RELAXED);
        return;
    }
    own->tallies[own->n_tallies++] = (ss_tally){op, index, items};
}

void ss_op_settle_counts(ss_table *table, uint32_t first, bool taken) {
    struct ss_table_private *own = table->private_state;
    for (uint32_t i = first; taken && i < own->n_tallies; i++) {
        ss_op *op = own->tallies[i].op;
        __atomic_fetch_add(&op->counters[own->tallies[i].index], own->tallies[i].items, __ATOMIC_RELAXED);
    }
    own->n_tallies = first;
}
