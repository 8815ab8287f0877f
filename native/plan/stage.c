#include "plan/stage.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/verdict.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/*
 * How a stage slows down those who bring more than its thread passes on. READY_MAX groups may wait.
 *
 * - An output refuses: requests are refused as well.
 * - No output refuses, and the thread alone is late, because it has much to compress or the machine is busy. Above
 *   READY_BYTES_EASY the request is taken and its client is answered only when the thread has caught up; the event loop
 *   does not read from the client meanwhile, but serves all others. Above READY_BYTES_LATE, and for a caller that has
 *   nobody to answer, the thread that brings the request waits, LATE_WAIT_MAX_NS at most. Above READY_BYTES_MAX
 *   requests are refused.
 */
enum {
    READY_MAX = 2,
    READY_BYTES_EASY = 4 << 20,
    READY_BYTES_LATE = 16 << 20,
    READY_BYTES_MAX = 64 << 20,
    LATE_WAIT_MAX_NS = 100000000,
    RETRY_FIRST_NS = 5000000,
    RETRY_LAST_NS = 200000000,
    REFUSAL_RETRY_MS = 1000
};

enum { BUCKETS_FIRST = 16 };

enum { NICENESS = 10 };

/* A client whose request is taken, and who does not know it yet. */
typedef struct ss_waiter waiter;
struct ss_waiter {
    ss_pledge pledge; /* first */
    waiter *next;
};

static void wait_until(ss_stage *stage, pthread_cond_t *condition, uint64_t deadline_ns) {
    struct timespec at = ss_clock_timespec(deadline_ns);
    pthread_cond_timedwait(condition, &stage->lock, &at);
}

/* ---------------------------------------------------------------- groups, under the lock */

static void list_append(ss_group_list *list, ss_group *group) {
    group->previous = list->last;
    group->next = NULL;
    *(list->last ? &list->last->next : &list->first) = group;
    list->last = group;
}

static void list_remove(ss_group_list *list, ss_group *group) {
    *(group->previous ? &group->previous->next : &list->first) = group->next;
    *(group->next ? &group->next->previous : &list->last) = group->previous;
}

static ss_group **bucket_of(const ss_stage *stage, uint64_t hash) {
    return &stage->buckets[hash & (stage->n_buckets - 1)];
}

static void file_in_bucket(ss_stage *stage, ss_group *group) {
    ss_group **bucket = bucket_of(stage, group->hash);
    group->next_alike = *bucket;
    *bucket = group;
}

/* Make room for one more; without memory the chains become longer. */
static void grow_buckets(ss_stage *stage) {
    ss_group **grown =
        stage->n_open < stage->n_buckets ? NULL : (ss_group **)calloc(2 * stage->n_buckets, sizeof(ss_group *));
    if (!grown) {
        return;
    }
    free(stage->buckets);
    stage->buckets = grown;
    stage->n_buckets *= 2;
    for (ss_group *group = stage->open.first; group; group = group->next) {
        file_in_bucket(stage, group);
    }
}

ss_key ss_stage_key(const ss_stage *stage, const void *data, size_t length) {
    const uint8_t *bytes = data;
    uint64_t hash = ss_hash_mix(ss_hash_seed(stage), length);
    for (size_t at = 0; at < length; at += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, length - at < sizeof word ? length - at : sizeof word);
        hash = ss_hash_mix(hash, word);
    }
    return (ss_key){{bytes, length}, hash};
}

ss_group *ss_stage_find(const ss_stage *stage, const ss_key *key) {
    ss_group *group = *bucket_of(stage, key->hash);
    while (group &&
           (group->hash != key->hash || !ss_bytes_equal((ss_bytes){group->key, group->key_length}, key->bytes))) {
        group = group->next_alike;
    }
    return group;
}

void ss_stage_account(ss_stage *stage, ss_group *group) {
    size_t n_held = group->bytes.length + group->key_length;
    ss_runtime_account(stage->runtime, (int64_t)n_held - (int64_t)group->n_accounted);
    group->n_accounted = n_held;
}

ss_group *ss_stage_open(ss_stage *stage, const ss_key *key, uint64_t timeout_ns) {
    assert(!ss_stage_find(stage, key));
    ss_group *group = calloc(1, sizeof *group + key->bytes.length);
    if (!group) {
        return NULL;
    }
    group->state = SS_GROUP_OPEN;
    group->bytes = ss_runtime_take_buffer(stage->runtime);
    group->deadline_ns = ss_clock_deadline(timeout_ns);
    group->hash = key->hash;
    group->key_length = key->bytes.length;
    if (group->key_length) {
        memcpy(group->key, key->bytes.data, group->key_length);
    }
    grow_buckets(stage);
    file_in_bucket(stage, group);
    list_append(&stage->open, group);
    stage->n_open++;
    ss_stage_account(stage, group);
    if (group == stage->open.first) {
        pthread_cond_signal(&stage->work);
    }
    return group;
}

/* Take the group from those that are open. */
static void close_group(ss_stage *stage, ss_group *group) {
    assert(group->state == SS_GROUP_OPEN);
    ss_group **link = bucket_of(stage, group->hash);
    while (*link != group) {
        link = &(*link)->next_alike;
    }
    *link = group->next_alike;
    list_remove(&stage->open, group);
    stage->n_open--;
}

void ss_stage_send(ss_stage *stage, ss_group *group) {
    close_group(stage, group);
    group->state = SS_GROUP_READY;
    list_append(&stage->ready, group);
    stage->n_ready++;
    stage->n_ready_bytes += group->bytes.length;
    pthread_cond_signal(&stage->work);
}

static void give_back_bytes(ss_stage *stage, ss_group *group) {
    ss_runtime_account(stage->runtime, -(int64_t)group->n_accounted);
    ss_runtime_give_buffer(stage->runtime, group->bytes);
}

void ss_stage_discard(ss_stage *stage, ss_group *group) {
    close_group(stage, group);
    give_back_bytes(stage, group);
    free(group);
}

/* ---------------------------------------------------------------- those who bring requests */

static bool is_late(const ss_stage *stage, size_t easy_bytes) {
    return stage->n_ready >= READY_MAX && stage->n_ready_bytes >= easy_bytes && !stage->is_held_up &&
           !stage->give_up_ns;
}

/* The request is taken, and will be sent. */
static bool is_withdrawn(ss_pledge *pledge) {
    (void)pledge;
    return false;
}

/* Let the client of a request that has been taken wait. Without memory it need not. */
static void park(ss_stage *stage, ss_promise_slot *slot) {
    waiter *parked = calloc(1, sizeof *parked);
    if (!parked) {
        return;
    }
    parked->pledge.withdraw = is_withdrawn;
    if (!ss_promise_join(slot, &parked->pledge)) {
        free(parked);
        return;
    }
    slot->n_late++;
    parked->next = stage->waiters;
    stage->waiters = parked;
}

/* Tell those who wait, unless the thread is still late. Called with the lock, which is let go meanwhile. */
static void unpark(ss_stage *stage) {
    static const ss_verdict taken = {0};
    waiter *parked = is_late(stage, READY_BYTES_EASY) ? NULL : stage->waiters;
    if (!parked) {
        return;
    }
    stage->waiters = NULL;
    pthread_mutex_unlock(&stage->lock);
    for (waiter *next; parked; parked = next) {
        next = parked->next;
        ss_promise_tell(&parked->pledge, &taken);
        free(parked);
    }
    pthread_mutex_lock(&stage->lock);
}

/* Let the thread catch up. */
static void wait_while_late(ss_stage *stage, bool can_park) {
    uint64_t end_ns = 0;
    while (is_late(stage, can_park ? READY_BYTES_LATE : READY_BYTES_EASY)) {
        end_ns = end_ns ? end_ns : ss_clock_deadline(LATE_WAIT_MAX_NS);
        if (ss_clock_ns() >= end_ns) {
            break;
        }
        wait_until(stage, &stage->eased, end_ns);
    }
}

static ss_status admit(ss_stage *stage, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    wait_while_late(stage, view->promise);
    if (stage->give_up_ns) {
        return ss_refuse(verdict, "collector is shutting down", REFUSAL_RETRY_MS);
    }
    if (stage->n_ready >= READY_MAX && (stage->is_held_up || stage->n_ready_bytes >= READY_BYTES_MAX)) {
        return ss_refuse(verdict, "batches are waiting: sending queue is full", REFUSAL_RETRY_MS);
    }
    ss_status status = stage->vtable->take(stage, worker, view, verdict);
    if (status == SS_ERR_NO_MEMORY) {
        return ss_refuse(verdict, "out of memory", REFUSAL_RETRY_MS);
    }
    if (status == SS_OK && view->promise && is_late(stage, READY_BYTES_EASY)) {
        park(stage, view->promise);
    }
    return status;
}

static ss_status stage_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    ss_stage *stage = (ss_stage *)consumer;
    assert(stage->is_started);
    ss_view scanned;
    ss_frame *frame = NULL;
    ss_status status = SS_OK;
    if (!view->table && stage->reads_rows) {
        status = ss_view_settle(worker, view, &scanned, &frame, verdict);
        view = &scanned;
    }
    if (status == SS_OK) {
        pthread_mutex_lock(&stage->lock);
        status = admit(stage, worker, view, verdict);
        pthread_mutex_unlock(&stage->lock);
    }
    ss_view_release(worker, frame);
    return status;
}

/* ---------------------------------------------------------------- the thread */

/* Give view to output, again and again while it refuses. False: it never took it. */
static bool offer(ss_stage *stage, ss_consumer *output, const ss_view *view) {
    for (uint64_t pause_ns = RETRY_FIRST_NS;; pause_ns = pause_ns * 2 < RETRY_LAST_NS ? pause_ns * 2 : RETRY_LAST_NS) {
        ss_verdict verdict = {0};
        ss_status status = ss_consume(output, stage->worker, view, &verdict);
        if (status == SS_OK) {
            return true;
        }
        pthread_mutex_lock(&stage->lock);
        stage->is_held_up = true;
        pthread_cond_broadcast(&stage->eased); /* to be refused */
        unpark(stage);
        bool gives_up = status != SS_ERR_REFUSED || (stage->give_up_ns && ss_clock_ns() >= stage->give_up_ns);
        if (!gives_up) {
            wait_until(stage, &stage->work, ss_clock_deadline(pause_ns));
        }
        pthread_mutex_unlock(&stage->lock);
        if (gives_up) {
            return false;
        }
    }
}

/* Give the oldest ready group to all outputs. Called with the lock, which is let go meanwhile. */
static void pass_on(ss_stage *stage) {
    ss_group *group = stage->ready.first;
    const size_t waiting = group->bytes.length;
    pthread_mutex_unlock(&stage->lock);
    if (stage->vtable->prepare) {
        stage->vtable->prepare(stage, group);
        ss_stage_account(stage, group);
    }
    const ss_view view = {.signal = stage->emits,
                          .bytes = group->bytes.data,
                          .length = group->bytes.length,
                          .n_items = group->n_items,
                          .is_retried = true,
                          .metadata = group->key,
                          .metadata_length = group->key_length};
    bool is_taken = true;
    for (size_t i = 0; i < stage->n_outputs; i++) {
        is_taken = offer(stage, stage->outputs[i], &view) && is_taken;
    }
    give_back_bytes(stage, group);
    pthread_mutex_lock(&stage->lock);
    stage->is_held_up = false;
    stage->has_failed = stage->has_failed || !is_taken;
    (is_taken ? stage->vtable->ack : stage->vtable->nack)(stage, group);
    /* Only now is its place free: a group that is being passed on counts as waiting. */
    stage->n_ready_bytes -= waiting;
    stage->n_ready--;
    list_remove(&stage->ready, group);
    free(group);
    pthread_cond_broadcast(&stage->eased);
    unpark(stage);
}

/* Do one thing that there is to do, or wait for one. Called with the lock. False: the stage has drained. */
static bool step(ss_stage *stage) {
    if (stage->ready.first) {
        pass_on(stage);
        return true;
    }
    const bool drains = stage->give_up_ns != 0;
    ss_group *oldest = stage->open.first;
    uint64_t next_ns = oldest ? oldest->deadline_ns : UINT64_MAX;
    next_ns = stage->timer_ns < next_ns ? stage->timer_ns : next_ns;
    const uint64_t now_ns = next_ns == UINT64_MAX ? 0 : ss_clock_ns();
    if (stage->timer_ns != UINT64_MAX && (drains || now_ns >= stage->timer_ns)) {
        stage->timer_ns = drains ? UINT64_MAX : ss_clock_after(now_ns, stage->interval_ns);
        stage->vtable->timer(stage);
    } else if (oldest && (drains || now_ns >= oldest->deadline_ns)) {
        stage->vtable->due(stage, oldest, drains);
        assert(stage->open.first != oldest);
    } else if (drains) {
        return false;
    } else if (next_ns == UINT64_MAX) {
        pthread_cond_wait(&stage->work, &stage->lock);
    } else {
        wait_until(stage, &stage->work, next_ns);
    }
    return true;
}

/* Compressing a batch takes milliseconds, a request microseconds: where both share a processor, requests go first, and
 * the thread keeps a tenth of it. A thread may always lower its own priority (setpriority(2), per thread on Linux). */
static void lower_priority(void) {
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICENESS);
}

static void *run(void *argument) {
    ss_stage *stage = argument;
    lower_priority();
    pthread_mutex_lock(&stage->lock);
    while (step(stage)) {
    }
    stage->is_finished = true;
    pthread_cond_broadcast(&stage->idle);
    pthread_mutex_unlock(&stage->lock);
    return NULL;
}

/* ---------------------------------------------------------------- lifecycle */

ss_status ss_stage_drain(ss_stage *stage, uint64_t timeout_ns) {
    pthread_mutex_lock(&stage->lock);
    if (!stage->give_up_ns) {
        stage->give_up_ns = ss_clock_deadline(timeout_ns);
        pthread_cond_signal(&stage->work);
        pthread_cond_broadcast(&stage->eased);
        unpark(stage);
    }
    while (!stage->is_finished) {
        pthread_cond_wait(&stage->idle, &stage->lock);
    }
    ss_status status = stage->has_failed ? SS_ERR_TIMEOUT : SS_OK;
    pthread_mutex_unlock(&stage->lock);
    return status;
}

void ss_stage_collect(const ss_stage *stage, void *counts) {
    ss_stage *self = (ss_stage *)(uintptr_t)stage; /* the lock is no part of what const promises */
    pthread_mutex_lock(&self->lock);
    self->vtable->collect(self, counts);
    pthread_mutex_unlock(&self->lock);
}

static void stage_free(ss_consumer *consumer) {
    ss_stage *stage = (ss_stage *)consumer;
    if (stage->is_started) {
        ss_stage_drain(stage, 0);
        pthread_join(stage->thread, NULL);
    }
    assert(!stage->open.first && !stage->ready.first && !stage->waiters);
    stage->vtable->release(stage);
    free(stage->outputs);
    free(stage->buckets);
    ss_worker_free(stage->worker);
    pthread_cond_destroy(&stage->work);
    pthread_cond_destroy(&stage->eased);
    pthread_cond_destroy(&stage->idle);
    pthread_mutex_destroy(&stage->lock);
    free(stage);
}

static const ss_consumer_vtable stage_vtable = {stage_consume, stage_free};

ss_status ss_stage_init(ss_stage *stage, const ss_stage_vtable *vtable, ss_runtime *runtime, ss_signal signal,
                        ss_consumer *const *outputs, size_t n_outputs) {
    stage->consumer = (ss_consumer){&stage_vtable, signal};
    stage->vtable = vtable;
    stage->runtime = runtime;
    stage->emits = signal;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&stage->lock, NULL);
    pthread_cond_init(&stage->work, &monotonic);
    pthread_cond_init(&stage->eased, &monotonic);
    pthread_cond_init(&stage->idle, NULL);
    pthread_condattr_destroy(&monotonic);
    stage->worker = ss_worker_new(runtime);
    stage->n_buckets = BUCKETS_FIRST;
    stage->buckets = (ss_group **)calloc(stage->n_buckets, sizeof(ss_group *));
    stage->outputs = (ss_consumer **)calloc(n_outputs, sizeof(ss_consumer *));
    if (!stage->worker || !stage->buckets || (n_outputs && !stage->outputs)) {
        return SS_ERR_NO_MEMORY;
    }
    for (; stage->n_outputs < n_outputs; stage->n_outputs++) {
        stage->outputs[stage->n_outputs] = outputs[stage->n_outputs];
    }
    return SS_OK;
}

ss_status ss_stage_start(ss_stage *stage) {
    assert(!stage->interval_ns == !stage->vtable->timer);
    stage->timer_ns = stage->interval_ns ? ss_clock_deadline(stage->interval_ns) : UINT64_MAX;
    stage->is_started = pthread_create(&stage->thread, NULL, run, stage) == 0;
    return stage->is_started ? SS_OK : SS_ERR_LIMIT;
}
