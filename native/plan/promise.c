#include "plan/promise.h"

#include <pthread.h>
#include <stdlib.h>

struct ss_promise {
    uint32_t n_holders;                                  /* atomic: the outcomes together, and the slip or who waits */
    void (*send)(void *slip, const ss_verdict *verdict); /* NULL: somebody waits */
    void *slip;
    ss_outcome outcome;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t is_known;
    ss_pledge *pledges;
    uint32_t n_open; /* outcomes that are not known yet, the receiver's part included */
    ss_verdict verdict;
};

static ss_promise *promise_new(ss_reply_route *route) {
    ss_promise *promise = calloc(1, sizeof *promise);
    if (promise && route) {
        promise->send = route->send;
        promise->slip = route->slip = route->open(route, promise);
        if (!promise->slip) {
            free(promise);
            return NULL;
        }
    }
    if (promise) {
        promise->n_holders = 2;
        promise->n_open = 1;
        pthread_mutex_init(&promise->lock, NULL);
        pthread_cond_init(&promise->is_known, NULL);
    }
    return promise;
}

void ss_promise_release(ss_promise *promise) {
    if (__atomic_sub_fetch(&promise->n_holders, 1, __ATOMIC_ACQ_REL) == 0) {
        ss_receiver_free(promise->outcome.receiver);
        pthread_cond_destroy(&promise->is_known);
        pthread_mutex_destroy(&promise->lock);
        free(promise);
    }
}

bool ss_promise_join(ss_promise_slot *slot, ss_pledge *pledge) {
    if (!slot->promise && !(slot->promise = promise_new(slot->route))) {
        return false;
    }
    ss_promise *promise = slot->promise;
    pledge->promise = promise;
    slot->n_joined++;
    pthread_mutex_lock(&promise->lock);
    pledge->next = promise->pledges;
    promise->pledges = pledge;
    promise->n_open++;
    pthread_mutex_unlock(&promise->lock);
    return true;
}

/* n outcomes are this. Called with the lock. True: they were the last, and finish is to be called without the lock. */
static bool add_outcomes(ss_promise *promise, uint32_t n, const ss_verdict *verdict) {
    ss_verdict *joint = &promise->verdict;
    if (joint->code == SS_CODE_OK) {
        uint64_t rejected = joint->rejected_items;
        if (verdict->code != SS_CODE_OK || !joint->message[0]) {
            *joint = *verdict;
        }
        uint64_t largest = rejected > verdict->rejected_items ? rejected : verdict->rejected_items;
        joint->rejected_items = joint->code == SS_CODE_OK ? largest : 0;
    }
    promise->n_open -= n;
    return promise->n_open == 0;
}

static void finish(ss_promise *promise) {
    if (promise->send) {
        ss_outcome_settle(&promise->outcome, &promise->verdict);
        promise->send(promise->slip, &promise->verdict);
    } else {
        pthread_cond_signal(&promise->is_known);
    }
    ss_promise_release(promise);
}

void ss_promise_tell(ss_pledge *pledge, const ss_verdict *verdict) {
    ss_promise *promise = pledge->promise;
    pthread_mutex_lock(&promise->lock);
    ss_pledge **link = &promise->pledges;
    while (*link != pledge) {
        link = &(*link)->next;
    }
    *link = pledge->next;
    pledge->promise = NULL;
    bool is_last = add_outcomes(promise, 1, verdict);
    pthread_mutex_unlock(&promise->lock);
    if (is_last) {
        finish(promise);
    }
}

void ss_promise_hold(ss_pledge *pledge, void (*change)(ss_pledge *pledge, void *context), void *context) {
    ss_promise *promise = pledge->promise;
    if (!promise) {
        change(pledge, context);
        return;
    }
    pthread_mutex_lock(&promise->lock);
    change(pledge, context);
    pthread_mutex_unlock(&promise->lock);
}

void ss_promise_cancel(ss_promise *promise) {
    static const ss_verdict cancelled = {.code = SS_CODE_CANCELLED, .message = "request is cancelled or timed out"};
    uint32_t n_withdrawn = 0;
    pthread_mutex_lock(&promise->lock);
    for (ss_pledge **link = &promise->pledges; *link;) {
        ss_pledge *pledge = *link, *next = pledge->next;
        if (pledge->withdraw(pledge)) {
            *link = next;
            n_withdrawn++;
        } else {
            link = &pledge->next;
        }
    }
    bool is_last = n_withdrawn && add_outcomes(promise, n_withdrawn, &cancelled);
    pthread_mutex_unlock(&promise->lock);
    if (is_last) {
        finish(promise);
    }
}

void ss_promise_seal(ss_promise *promise, const ss_outcome *outcome, const ss_verdict *verdict) {
    promise->outcome = *outcome;
    ss_receiver_hold(outcome->receiver);
    pthread_mutex_lock(&promise->lock);
    bool is_last = add_outcomes(promise, 1, verdict);
    pthread_mutex_unlock(&promise->lock);
    if (is_last) {
        finish(promise);
    }
}

void ss_promise_wait(ss_promise *promise, ss_verdict *verdict) {
    pthread_mutex_lock(&promise->lock);
    while (promise->n_open) {
        pthread_cond_wait(&promise->is_known, &promise->lock);
    }
    pthread_mutex_unlock(&promise->lock);
    *verdict = promise->verdict;
    ss_outcome_settle(&promise->outcome, verdict);
    ss_promise_release(promise);
}
