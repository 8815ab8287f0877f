/* The answer to a request whose outcome is not known yet when it has been taken: the last one who knows gives it. */
#ifndef SS_PROMISE_H
#define SS_PROMISE_H

#include "spansieve.h"

typedef struct ss_promise ss_promise;

/* How a transport gives an answer later. */
struct ss_reply_route {
    /* Make ready for one reply; NULL: no memory. The slip has promise until it gives it to ss_promise_release. */
    void *(*open)(ss_reply_route *route, ss_promise *promise);
    void (*send)(void *slip, const ss_verdict *verdict); /* give what open made ready for. Any thread */
    void *context;                                       /* of the transport */
    void *slip;                                          /* what open has made for the request at hand */
    uint64_t deadline_ns; /* monotonic, when the client stops waiting; UINT64_MAX: it has not said */
};

/* A request's promise, once a consumer has joined it. */
typedef struct ss_promise_slot {
    ss_reply_route *route; /* NULL: whoever handed the request over waits */
    ss_promise *promise;
    uint32_t n_joined;
    uint32_t n_late; /* those among them that wait only to slow the client down */
} ss_promise_slot;

/* One of the outcomes that a promise waits for, inside of what will have it. */
typedef struct ss_pledge ss_pledge;
struct ss_pledge {
    /* The client has gone. True: nothing will come of the request, the outcome counts as told, and the pledge may be
     * gone. False: it is too late, and will be told. Called with the promise's lock, so nothing of a promise may be
     * called with a lock that withdraw takes. */
    bool (*withdraw)(ss_pledge *pledge);
    ss_promise *promise; /* NULL: nobody waits */
    ss_pledge *next;
};

/* What the receiver knows of a request: it is counted, and told, once the outcome is known. */
typedef struct ss_outcome {
    ss_receiver *receiver;
    ss_signal signal;
    ss_transport transport;
    uint64_t n_items;                              /* that came */
    uint64_t n_valid;                              /* that were passed on */
    uint64_t rejected[SS_N_FAULTS];                /* that were not */
    uint64_t n_repaired;                           /* texts */
    char message[sizeof((ss_verdict){0}.message)]; /* about those; "" where there are none */
} ss_outcome;

/* One more outcome to wait for: pledge stays where it is until it is told. False: no memory. */
bool ss_promise_join(ss_promise_slot *slot, ss_pledge *pledge);

/* Tell an outcome, once for each pledge: the first failure is the answer, or else the largest partial success. Any
 * thread. */
void ss_promise_tell(ss_pledge *pledge, const ss_verdict *verdict);

/* Call change with pledge while nobody can withdraw it. The pledge has not been told. */
void ss_promise_hold(ss_pledge *pledge, void (*change)(ss_pledge *pledge, void *context), void *context);

/* The receiver's part, after the request has been handed over with status verdict: the answer comes by the route, or
 * without one is waited for with ss_promise_wait. Copies outcome. */
void ss_promise_seal(ss_promise *promise, const ss_outcome *outcome, const ss_verdict *verdict);
void ss_promise_wait(ss_promise *promise, ss_verdict *verdict);

/* The client has gone: withdraw what can be. What cannot is told as ever, and so the answer still comes. Any thread
 * that has the promise. */
void ss_promise_cancel(ss_promise *promise);
void ss_promise_release(ss_promise *promise);

/* Count outcome by what became of the request, and add what it says to verdict. Any thread. */
void ss_outcome_settle(const ss_outcome *outcome, ss_verdict *verdict);

/* Keep the receiver for one more ss_receiver_free. Returns it. Any thread. */
ss_receiver *ss_receiver_hold(ss_receiver *receiver);

#endif
