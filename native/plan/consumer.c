#include "plan/consumer.h"
#include "otlp/table.h"
#include "plan/runtime.h"
#include "core/verdict.h"

#include <stdlib.h>

void ss_consumer_free(ss_consumer *consumer) {
    if (consumer) {
        consumer->vtable->free(consumer);
    }
}

ss_status ss_view_reject(ss_verdict *verdict, ss_signal signal, const ss_error *error, const char *path) {
    static const char *const names[] = {"traces", "metrics", "logs"};
    if (error->code == SS_ERR_NO_MEMORY) {
        return ss_refuse(verdict, "data refused due to high memory usage", 1000);
    }
    verdict->code = SS_CODE_INVALID_ARGUMENT;
    verdict->needs_memory = error->reason == ss_reason_memory;
    snprintf(verdict->message, sizeof verdict->message, "otlp %s: %s%s%s at byte %llu", names[signal], path,
             path[0] ? ": " : "", error->reason, (unsigned long long)error->offset);
    return error->code;
}

ss_status ss_view_scan(ss_signal signal, const uint8_t *bytes, size_t length, ss_table *table, ss_view *view,
                       ss_verdict *verdict) {
    ss_error error;
    if (ss_scan(signal, bytes, length, table, &error) != SS_OK) {
        return ss_view_reject(verdict, signal, &error, "");
    }
    *view = (ss_view){.signal = signal, .bytes = bytes, .length = length, .n_items = table->n_rows, .table = table};
    return SS_OK;
}

ss_status ss_view_settle(ss_worker *worker, const ss_view *view, ss_view *settled, ss_frame **frame,
                         ss_verdict *verdict) {
    *frame = NULL;
    *settled = *view;
    if (view->table && ss_table_is_untouched(view->table)) {
        return SS_OK;
    }
    *frame = ss_worker_push_frame(worker);
    if (!*frame) {
        return ss_reject(verdict, SS_ERR_LIMIT, SS_CODE_INTERNAL, "pipelines are nested too deeply");
    }
    const uint8_t *bytes = view->bytes;
    size_t length = view->length;
    if (view->table) {
        ss_status status =
            ss_emit_held(view->table, 0, view->table->n_rows, ss_frame_holding(*frame), &(*frame)->bytes);
        if (status != SS_OK) {
            return ss_view_reject(verdict, view->signal, &(ss_error){status, 0, ss_reason_memory}, "");
        }
        bytes = (*frame)->bytes.data;
        length = (*frame)->bytes.length;
    }
    ss_status status = ss_view_scan(view->signal, bytes, length, (*frame)->table, settled, verdict);
    settled->is_retried = view->is_retried;
    settled->promise = view->promise;
    settled->metadata = view->metadata;
    settled->metadata_length = view->metadata_length;
    return status;
}

void ss_view_release(ss_worker *worker, ss_frame *frame) {
    if (frame) {
        ss_worker_pop_frame(worker);
    }
}

ss_status ss_consumer_push(ss_consumer *consumer, ss_worker *worker, const uint8_t *bytes, size_t length,
                           ss_verdict *verdict) {
    ss_view view;
    *verdict = (ss_verdict){0};
    ss_worker_enter(worker);
    ss_frame *frame = ss_worker_push_frame(worker);
    ss_status status = frame ? ss_view_scan(consumer->signal, bytes, length, frame->table, &view, verdict)
                             : ss_refuse(verdict, "out of memory", 1000);
    if (status == SS_OK && view.n_items) {
        status = ss_consume(consumer, worker, &view, verdict);
    }
    ss_view_release(worker, frame);
    ss_worker_exit(worker);
    return status;
}

/* ---------------------------------------------------------------- fan-out */

typedef struct fanout {
    ss_consumer consumer;
    size_t n_outputs;
    ss_consumer *outputs[];
} fanout;

/* Every output sees the request as it came: marks of the one before are taken back. */
static ss_status fanout_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    fanout *self = (fanout *)consumer;
    ss_view settled;
    ss_frame *frame;
    ss_status result = ss_view_settle(worker, view, &settled, &frame, verdict);
    size_t n_outputs = result == SS_OK ? self->n_outputs : 0; /* without a table there is nothing to hand out */
    for (size_t i = 0; i < n_outputs; i++) {
        ss_verdict own = {0};
        ss_status status = ss_consume(self->outputs[i], worker, &settled, &own);
        ss_table_reset(settled.table);
        if (status != SS_OK && result == SS_OK) {
            result = status;
            *verdict = own;
        }
    }
    ss_view_release(worker, frame);
    return result;
}

static void fanout_free(ss_consumer *consumer) {
    free(consumer);
}

static const ss_consumer_vtable fanout_vtable = {fanout_consume, fanout_free};

ss_consumer *ss_fanout_new(ss_signal signal, ss_consumer *const *outputs, size_t n_outputs) {
    fanout *self = calloc(1, sizeof *self + n_outputs * sizeof *self->outputs);
    if (!self) {
        return NULL;
    }
    self->consumer = (ss_consumer){&fanout_vtable, signal};
    self->n_outputs = n_outputs;
    for (size_t i = 0; i < n_outputs; i++) {
        self->outputs[i] = outputs[i];
    }
    return &self->consumer;
}

/* ---------------------------------------------------------------- discard */

typedef struct discard {
    ss_consumer consumer;
    uint64_t items; /* atomic */
} discard;

static ss_status discard_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker;
    (void)verdict;
    __atomic_fetch_add(&((discard *)consumer)->items, view->n_items, __ATOMIC_RELAXED);
    return SS_OK;
}

static void discard_free(ss_consumer *consumer) {
    free(consumer);
}

static const ss_consumer_vtable discard_vtable = {discard_consume, discard_free};

ss_consumer *ss_discard_new(ss_signal signal) {
    discard *self = calloc(1, sizeof *self);
    if (self) {
        self->consumer = (ss_consumer){&discard_vtable, signal};
    }
    return self ? &self->consumer : NULL;
}

uint64_t ss_discard_items(const ss_consumer *consumer) {
    return __atomic_load_n(&((const discard *)consumer)->items, __ATOMIC_RELAXED);
}
