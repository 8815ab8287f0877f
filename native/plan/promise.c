#include "plan/promise.h"

#include <pthread.h>
#include <stdlib.h>

struct ss_promise {
    void (*send)(void *slip, const ss_verdict *verdict); /* NULL: somebody waits */
    void *slip;
    ss_outcome outcome;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t is_known;
    uint32_t n_open; /* outcomes that are not known yet, the receiver's part included */
    ss_verdict verdict;
};

static ss_promise *promise_new(const ss_reply_route *route) {
    ss_promise *promise = calloc(1, sizeof *promise);
    if (promise && route) {
        promise->send = route->send;
        promise->slip = route->open(route);
        if (!promise->slip) {
            free(promise);
            return NULL;
        }
    }
    if (promise) {
        promise->n_open = 1;
        pthread_mutex_init(&promise->lock, NULL);
        pthread_cond_init(&promise->is_known, NULL);
    }
    return promise;
}

static void promise_free(ss_promise *promise) {
    ss_receiver_free(promise->outcome.receiver);
    pthread_cond_destroy(&promise->is_known);
    pthread_mutex_destroy(&promise->lock);
    free(promise);
}

ss_promise *ss_promise_join(ss_promise_slot *slot) {
    if (!slot->promise && !(slot->promise = promise_new(slot->route))) {
        return NULL;
    }
    pthread_mutex_lock(&slot->promise->lock);
    slot->promise->n_open++;
    pthread_mutex_unlock(&slot->promise->lock);
    return slot->promise;
}

void ss_promise_tell(ss_promise *promise, const ss_verdict *verdict) {
    pthread_mutex_lock(&promise->lock);
    ss_verdict *joint = &promise->verdict;
    if (joint->code == SS_CODE_OK) {
        uint64_t rejected = joint->rejected_items;
        if (verdict->code != SS_CODE_OK || !joint->message[0]) {
            *joint = *verdict;
        }
        uint64_t largest = rejected > verdict->rejected_items ? rejected : verdict->rejected_items;
        joint->rejected_items = joint->code == SS_CODE_OK ? largest : 0;
    }
    bool is_last = --promise->n_open == 0;
    if (is_last && !promise->send) {
        pthread_cond_signal(&promise->is_known);
    }
    bool sends = is_last && promise->send;
    pthread_mutex_unlock(&promise->lock);
    if (sends) {
        ss_outcome_settle(&promise->outcome, joint);
        promise->send(promise->slip, joint);
        promise_free(promise);
    }
}

void ss_promise_seal(ss_promise *promise, const ss_outcome *outcome, const ss_verdict *verdict) {
    promise->outcome = *outcome;
    ss_receiver_hold(outcome->receiver);
    ss_promise_tell(promise, verdict);
}

void ss_promise_wait(ss_promise *promise, ss_verdict *verdict) {
    pthread_mutex_lock(&promise->lock);
    while (promise->n_open) {
        pthread_cond_wait(&promise->is_known, &promise->lock);
    }
    pthread_mutex_unlock(&promise->lock);
    *verdict = promise->verdict;
    ss_outcome_settle(&promise->outcome, verdict);
    promise_free(promise);
}
