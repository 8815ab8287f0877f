/* The answer to a request whose outcome is not known yet when it has been taken: the last one who knows gives it. */
#ifndef SS_PROMISE_H
#define SS_PROMISE_H

#include "spansieve.h"

/* How a transport gives an answer later. */
struct ss_reply_route {
    void *(*open)(const ss_reply_route *route);          /* make ready for one reply; NULL: no memory */
    void (*send)(void *slip, const ss_verdict *verdict); /* give what open made ready for. Any thread */
    void *postbox;
    uint64_t connection_id;
    int32_t stream_id;
};

typedef struct ss_promise ss_promise;

/* A request's promise, once a consumer has joined it. */
typedef struct ss_promise_slot {
    const ss_reply_route *route; /* NULL: whoever handed the request over waits */
    ss_promise *promise;
} ss_promise_slot;

/* What the receiver knows of a request: it is counted, and told, once the outcome is known. */
typedef struct ss_outcome {
    ss_receiver *receiver;
    ss_signal signal;
    ss_transport transport;
    uint64_t n_items;                              /* that came */
    uint64_t n_valid;                              /* that were passed on */
    uint64_t rejected[SS_N_IDS];                   /* that were not */
    uint64_t n_repaired;                           /* texts */
    char message[sizeof((ss_verdict){0}.message)]; /* about those; "" where there are none */
} ss_outcome;

/* One more outcome to wait for; NULL: no memory. */
ss_promise *ss_promise_join(ss_promise_slot *slot);

/* Tell an outcome, once for each join: the first failure is the answer, or else the largest partial success. Any
 * thread. */
void ss_promise_tell(ss_promise *promise, const ss_verdict *verdict);

/* The receiver's part, after the request has been handed over with status verdict: the answer comes by the route, or
 * without one is waited for with ss_promise_wait. Copies outcome. */
void ss_promise_seal(ss_promise *promise, const ss_outcome *outcome, const ss_verdict *verdict);
void ss_promise_wait(ss_promise *promise, ss_verdict *verdict);

/* Count outcome by what became of the request, and add what it says to verdict. Any thread. */
void ss_outcome_settle(const ss_outcome *outcome, ss_verdict *verdict);

/* Keep the receiver for one more ss_receiver_free. Returns it. Any thread. */
ss_receiver *ss_receiver_hold(ss_receiver *receiver);

#endif
