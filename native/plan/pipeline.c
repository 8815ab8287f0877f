/* The compiled pipeline: ops over one table, with a rewrite only where an op reads what an earlier one has edited. */
#include "ops/op.h"
#include "otlp/table.h"
#include "plan/consumer.h"
#include "core/verdict.h"

#include <stdlib.h>

typedef struct pipeline {
    ss_consumer consumer;
    uint64_t incoming_items; /* atomic */
    uint64_t outgoing_items; /* atomic */
    ss_consumer *next;
    size_t n_ops;
    ss_op *ops[];
} pipeline;

static bool has_edits(const ss_table *table) {
    return table->private_state->n_edits != 0;
}

static ss_status run_ops(pipeline *self, size_t index, ss_worker *worker, const ss_view *view, ss_verdict *verdict);

/* Run the ops from index on over the request that view has become, rewritten. */
static ss_status run_rewritten(pipeline *self, size_t index, ss_worker *worker, const ss_view *view,
                               ss_verdict *verdict) {
    ss_view settled;
    ss_frame *frame;
    ss_status status = ss_view_settle(worker, view, &settled, &frame, verdict);
    if (status == SS_OK) {
        status = run_ops(self, index, worker, &settled, verdict);
    }
    ss_view_release(worker, frame);
    return status;
}

static ss_status run_ops(pipeline *self, size_t index, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    ss_table *table = view->table;
    const uint32_t first_tally = table->private_state->n_tallies;
    table->private_state->metadata = view->metadata;
    table->private_state->metadata_length = view->metadata_length;
    ss_status status = SS_OK;
    uint32_t edited = 0;
    for (; status == SS_OK && index < self->n_ops && table->n_kept; index++) {
        ss_op *op = self->ops[index];
        if (edited & op->vtable->reads) {
            status = run_rewritten(self, index, worker, view, verdict);
            ss_op_settle_counts(table, first_tally, status == SS_OK);
            return status;
        }
        status = ss_op_run(op, table, verdict);
        edited |= has_edits(table) ? op->vtable->edits : 0;
    }
    if (status == SS_OK && table->n_kept) {
        ss_view kept = *view;
        kept.n_items = table->n_kept;
        status = ss_consume(self->next, worker, &kept, verdict);
        if (status == SS_OK) {
            __atomic_fetch_add(&self->outgoing_items, kept.n_items, __ATOMIC_RELAXED);
        }
    }
    ss_op_settle_counts(table, first_tally, status == SS_OK);
    return status;
}

static ss_status pipeline_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    pipeline *self = (pipeline *)consumer;
    __atomic_fetch_add(&self->incoming_items, view->n_items, __ATOMIC_RELAXED);
    return run_rewritten(self, 0, worker, view, verdict);
}

static void pipeline_free(ss_consumer *consumer) {
    free(consumer);
}

static const ss_consumer_vtable pipeline_vtable = {pipeline_consume, pipeline_free};

ss_consumer *ss_pipeline_new(ss_signal signal, ss_op *const *ops, size_t n_ops, ss_consumer *next) {
    pipeline *self = calloc(1, sizeof *self + n_ops * sizeof *self->ops);
    if (!self) {
        return NULL;
    }
    self->consumer = (ss_consumer){&pipeline_vtable, signal};
    self->next = next;
    self->n_ops = n_ops;
    for (size_t i = 0; i < n_ops; i++) {
        self->ops[i] = ops[i];
    }
    return &self->consumer;
}

uint64_t ss_pipeline_incoming_items(const ss_consumer *consumer) {
    return __atomic_load_n(&((const pipeline *)consumer)->incoming_items, __ATOMIC_RELAXED);
}

uint64_t ss_pipeline_outgoing_items(const ss_consumer *consumer) {
    return __atomic_load_n(&((const pipeline *)consumer)->outgoing_items, __ATOMIC_RELAXED);
}
