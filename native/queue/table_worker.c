/* The calls of a thread that has requests looked at by what is not C: few, since each costs that thread a lock. */
#include "core/verdict.h"
#include "otlp/table.h"
#include "plan/consumer.h"

#include <stdlib.h>

enum { REFUSAL_RETRY_MS = 1000 };

ss_table_worker *ss_table_worker_new(void) {
    ss_table_worker *self = calloc(1, sizeof *self);
    if (self && !(self->table = ss_table_new())) {
        free(self);
        self = NULL;
    }
    return self;
}

void ss_table_worker_free(ss_table_worker *self) {
    if (self) {
        ss_table_free(self->table);
        ss_buffer_free(&self->edited);
        ss_buffer_free(&self->out);
        free(self);
    }
}

/* What a huge request has needed is not kept until the next comes. */
static void trim(ss_buffer *buffer) {
    enum { RETAINED_BYTES = 1 << 20 };
    if (buffer->capacity > RETAINED_BYTES) {
        ss_buffer_free(buffer);
    }
}

ss_status ss_table_worker_next(ss_table_worker *self, ss_consumer *queue, uint64_t timeout_ns) {
    ss_view view;
    ss_table_trim(self->table);
    trim(&self->edited);
    trim(&self->out);
    ss_status status = ss_queue_pop(queue, timeout_ns, &self->item);
    if (status != SS_OK) {
        return status;
    }
    self->verdict = (ss_verdict){0};
    return ss_view_scan(queue->signal, self->item.bytes, self->item.length, self->table, &view, &self->verdict);
}

ss_status ss_table_worker_emit(ss_table_worker *self, const uint8_t **request, size_t *length) {
    *request = self->table->bytes;
    *length = self->table->bytes_length;
    if (self->table->n_kept == self->table->n_rows) {
        return SS_OK;
    }
    self->out.length = 0;
    ss_status status = ss_emit(self->table, 0, self->table->n_rows, &self->out);
    *request = self->out.data;
    *length = self->out.length;
    return status;
}

ss_status ss_table_worker_pass(ss_table_worker *self, ss_consumer *queue, ss_worker *worker, ss_consumer *output) {
    const uint8_t *request;
    size_t length;
    if (ss_table_worker_emit(self, &request, &length) != SS_OK) {
        return ss_refuse(&self->verdict, "out of memory", REFUSAL_RETRY_MS);
    }
    ss_status status = SS_OK;
    if (self->table->n_kept) {
        status = ss_consumer_push(output, worker, request, length, &self->verdict);
    }
    if (status == SS_OK) {
        static const ss_verdict taken = {0};
        (void)ss_queue_done(queue, &self->item, &taken, 0);
    }
    return status;
}
