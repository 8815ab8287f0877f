/* Refuses requests while memory use is at the soft limit or above. Source: the Collector's memory_limiter. */
#include "core/account.h"
#include "core/verdict.h"
#include "ops/op.h"

#include <stdlib.h>

enum { RETRY_MS = 1000 };

typedef struct memory_limiter {
    ss_op op;
    ss_runtime *runtime;
    uint64_t soft_limit_bytes;
    ss_memory_limit limit; /* the hard one: of all that is held, before a request gets here, too */
} memory_limiter;

static ss_status memory_limiter_run(ss_op *op, ss_table *table, ss_verdict *verdict) {
    memory_limiter *self = (memory_limiter *)op;
    if (ss_runtime_usage(self->runtime) < self->soft_limit_bytes) {
        ss_op_count(op, table, SS_MEMORY_LIMITER_ACCEPTED, table->n_kept);
        return SS_OK;
    }
    __atomic_fetch_add(&op->counters[SS_MEMORY_LIMITER_REFUSED], table->n_kept, __ATOMIC_RELAXED);
    return ss_refuse(verdict, "data refused due to high memory usage", RETRY_MS);
}

static void memory_limiter_free(ss_op *op) {
    memory_limiter *self = (memory_limiter *)op;
    ss_runtime_remove_limit(self->runtime, &self->limit);
    free(self);
}

static const ss_op_vtable memory_limiter_vtable = {0, 0, memory_limiter_run, memory_limiter_free};

ss_op *ss_memory_limiter_new(ss_runtime *runtime, uint64_t soft_limit_bytes, uint64_t hard_limit_bytes,
                             ss_error *error) {
    memory_limiter *self = calloc(1, sizeof *self);
    if (!self) {
        *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
        return NULL;
    }
    self->op.vtable = &memory_limiter_vtable;
    self->runtime = runtime;
    self->soft_limit_bytes = soft_limit_bytes;
    self->limit.bytes = hard_limit_bytes;
    ss_runtime_add_limit(runtime, &self->limit);
    return &self->op;
}
