/* What the parts of a running collector are to one another: a view of a request goes from consumer to consumer. */
#ifndef SS_CONSUMER_H
#define SS_CONSUMER_H

#include "plan/promise.h"
#include "plan/runtime.h"
#include "spansieve.h"

/*
 * One request on its way.
 * With a table the request is what ss_emit writes; bytes are what was scanned, and are the request itself while the
 * table is untouched. The one who is handed the view may mark the table. Without a table bytes are the request.
 */
typedef struct ss_view {
    ss_signal signal;
    const uint8_t *bytes; /* borrowed */
    size_t length;
    uint64_t n_items;         /* rows kept, at least 1 */
    ss_table *table;          /* NULL: not scanned */
    bool is_retried;          /* the one who hands it over keeps it, tries again, and counts what it gives up */
    ss_promise_slot *promise; /* of the client that waits for the outcome; NULL: none does */
    const uint8_t *metadata;  /* of the request, see plan/metadata.h; borrowed */
    size_t metadata_length;
} ss_view;

typedef struct ss_consumer_vtable {
    /* Take the request or refuse it with verdict. May be called from several threads, each with its worker. */
    ss_status (*consume)(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict);
    void (*free)(ss_consumer *consumer);
} ss_consumer_vtable;

/* First member of every consumer. */
struct ss_consumer {
    const ss_consumer_vtable *vtable;
    ss_signal signal;
};

static inline ss_status ss_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    return consumer->vtable->consume(consumer, worker, view, verdict);
}

/* Scan bytes into table and make view show it; a malformed message is answered INVALID_ARGUMENT in verdict. */
ss_status ss_view_scan(ss_signal signal, const uint8_t *bytes, size_t length, ss_table *table, ss_view *view,
                       ss_verdict *verdict);

/* Answer verdict for a message that could not be read; path: the field with the fault, or "". */
ss_status ss_view_reject(ss_verdict *verdict, ss_signal signal, const ss_error *error, const char *path);

/* Make settled the same request with an untouched table: view itself, or rewritten into *frame, which the caller gives
 * back with ss_view_release, also after a failure. */
ss_status ss_view_settle(ss_worker *worker, const ss_view *view, ss_view *settled, ss_frame **frame,
                         ss_verdict *verdict);
void ss_view_release(ss_worker *worker, ss_frame *frame);

#endif
