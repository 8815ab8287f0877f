/* What the parts of a running collector are to one another: a view of a request goes from consumer to consumer. */
#ifndef SS_CONSUMER_H
#define SS_CONSUMER_H

#include "spansieve.h"

/* One request on its way. Either table shows it (scanned, perhaps marked), or table is NULL and bytes are all there is. */
typedef struct ss_view {
    ss_signal signal;
    const uint8_t *bytes; /* borrowed; the message as it came to this consumer when the table is untouched */
    size_t length;
    uint64_t n_items; /* rows kept; counted already */
    ss_table *table;  /* NULL: not scanned */
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

#endif
