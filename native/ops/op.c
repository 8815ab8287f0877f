#include "ops/op.h"

void ss_op_free(ss_op *op) {
    if (op) {
        op->vtable->free(op);
    }
}

uint64_t ss_op_counter(const ss_op *op, uint32_t index) {
    return index < SS_OP_COUNTERS ? __atomic_load_n(&op->counters[index], __ATOMIC_RELAXED) : 0;
}

uint64_t ss_op_incoming_items(const ss_op *op) {
    return __atomic_load_n(&op->incoming_items, __ATOMIC_RELAXED);
}

uint64_t ss_op_outgoing_items(const ss_op *op) {
    return __atomic_load_n(&op->outgoing_items, __ATOMIC_RELAXED);
}
