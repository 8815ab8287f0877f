#include "plan/runtime.h"
#include "otlp/table.h"

#include <stdlib.h>
#include <time.h>

/* What grew for one giant request is not kept. */
enum { POOLED_BYTES_MAX = 8 << 20, FRAME_BYTES_MAX = 1 << 20, GRACE_POLL_NS = 50000 };

/* glibc keeps up to 64 MiB that a giant request has freed, unless it is asked for them. */
enum { RELEASED_FROM_BYTES = 16 << 20 };

ss_runtime *ss_runtime_new(void) {
    ss_runtime *runtime = calloc(1, sizeof *runtime);
    if (runtime) {
        runtime->n_holders = 1;
        runtime->limit_bytes = UINT64_MAX;
        pthread_mutex_init(&runtime->workers_lock, NULL);
        pthread_mutex_init(&runtime->pool_lock, NULL);
    }
    return runtime;
}

ss_runtime *ss_runtime_hold(ss_runtime *runtime) {
    __atomic_fetch_add(&runtime->n_holders, 1, __ATOMIC_RELAXED);
    return runtime;
}

void ss_runtime_free(ss_runtime *runtime) {
    if (runtime && __atomic_sub_fetch(&runtime->n_holders, 1, __ATOMIC_ACQ_REL) == 0) {
        while (runtime->n_pool) {
            ss_buffer_free(&runtime->pool[--runtime->n_pool]);
        }
        pthread_mutex_destroy(&runtime->workers_lock);
        pthread_mutex_destroy(&runtime->pool_lock);
        free(runtime);
    }
}

void ss_runtime_account(ss_runtime *runtime, int64_t bytes) {
    __atomic_fetch_add(&runtime->in_flight_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

uint64_t ss_runtime_in_flight_bytes(const ss_runtime *runtime) {
    return __atomic_load_n(&runtime->in_flight_bytes, __ATOMIC_RELAXED);
}

ss_status ss_runtime_take(ss_runtime *runtime, uint64_t bytes, uint64_t held) {
    uint64_t limit = __atomic_load_n(&runtime->limit_bytes, __ATOMIC_RELAXED);
    ss_runtime_account(runtime, (int64_t)bytes); /* before the look, since others take at the same time */
    if (ss_runtime_usage(runtime) < limit) {
        return SS_OK;
    }
    ss_runtime_account(runtime, -(int64_t)bytes);
    return __atomic_load_n(&runtime->rss_least, __ATOMIC_RELAXED) + held >= limit ? SS_ERR_LIMIT : SS_ERR_NO_MEMORY;
}

/* With the lock: the lowest limit counts. */
static void set_limit(ss_runtime *runtime) {
    uint64_t lowest = UINT64_MAX;
    for (const ss_memory_limit *limit = runtime->limits; limit; limit = limit->next) {
        lowest = limit->bytes < lowest ? limit->bytes : lowest;
    }
    __atomic_store_n(&runtime->limit_bytes, lowest, __ATOMIC_RELAXED);
}

void ss_runtime_add_limit(ss_runtime *runtime, ss_memory_limit *limit) {
    ss_runtime_hold(runtime);
    pthread_mutex_lock(&runtime->pool_lock);
    limit->next = runtime->limits;
    runtime->limits = limit;
    set_limit(runtime);
    pthread_mutex_unlock(&runtime->pool_lock);
}

void ss_runtime_remove_limit(ss_runtime *runtime, ss_memory_limit *limit) {
    pthread_mutex_lock(&runtime->pool_lock);
    ss_memory_limit **link = &runtime->limits;
    while (*link != limit) {
        link = &(*link)->next;
    }
    *link = limit->next;
    set_limit(runtime);
    pthread_mutex_unlock(&runtime->pool_lock);
    ss_runtime_free(runtime);
}

void ss_runtime_set_rss(ss_runtime *runtime, uint64_t rss_bytes) {
    uint64_t least = __atomic_load_n(&runtime->rss_least, __ATOMIC_RELAXED);
    if (!least || rss_bytes < least) {
        __atomic_store_n(&runtime->rss_least, rss_bytes, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&runtime->rss_in_flight, ss_runtime_in_flight_bytes(runtime), __ATOMIC_RELAXED);
    __atomic_store_n(&runtime->rss_bytes, rss_bytes, __ATOMIC_RELAXED);
}

uint64_t ss_runtime_usage(const ss_runtime *runtime) {
    uint64_t in_flight = ss_runtime_in_flight_bytes(runtime);
    uint64_t then = __atomic_load_n(&runtime->rss_in_flight, __ATOMIC_RELAXED);
    uint64_t usage = __atomic_load_n(&runtime->rss_bytes, __ATOMIC_RELAXED);
    usage += in_flight > then ? in_flight - then : 0;
    return usage > in_flight ? usage : in_flight;
}

uint64_t ss_runtime_limit(const ss_runtime *runtime) {
    return __atomic_load_n(&runtime->limit_bytes, __ATOMIC_RELAXED);
}

uint64_t ss_runtime_room(const ss_runtime *runtime) {
    uint64_t usage = ss_runtime_usage(runtime), limit = ss_runtime_limit(runtime);
    return limit > usage ? limit - usage : 0;
}

ss_buffer ss_runtime_take_buffer(ss_runtime *runtime) {
    ss_buffer buffer = {0};
    pthread_mutex_lock(&runtime->pool_lock);
    if (runtime->n_pool) {
        buffer = runtime->pool[--runtime->n_pool];
    }
    pthread_mutex_unlock(&runtime->pool_lock);
    return buffer;
}

void ss_runtime_give_buffer(ss_runtime *runtime, ss_buffer buffer) {
    pthread_mutex_lock(&runtime->pool_lock);
    if (buffer.data && buffer.capacity <= POOLED_BYTES_MAX && runtime->n_pool < SS_POOL_MAX) {
        buffer.length = 0;
        runtime->pool[runtime->n_pool++] = buffer;
        buffer = (ss_buffer){0};
    }
    pthread_mutex_unlock(&runtime->pool_lock);
    ss_buffer_free(&buffer);
}

/*
 * Grace periods. A worker's epoch is odd while it is inside a request. A publisher stores the new route and then reads
 * the epochs; a worker stores its epoch and then reads the route. All four are sequentially consistent, so a worker
 * that read the old route is seen as odd, and is waited for until its epoch moves.
 */
void ss_worker_enter(ss_worker *worker) {
    __atomic_store_n(&worker->epoch, worker->epoch + 1, __ATOMIC_SEQ_CST);
}

void ss_worker_exit(ss_worker *worker) {
    __atomic_store_n(&worker->epoch, worker->epoch + 1, __ATOMIC_RELEASE);
}

void ss_runtime_synchronize(ss_runtime *runtime) {
    pthread_mutex_lock(&runtime->workers_lock);
    for (ss_worker *worker = runtime->workers; worker; worker = worker->next) {
        uint64_t epoch = __atomic_load_n(&worker->epoch, __ATOMIC_SEQ_CST);
        while (epoch % 2 && __atomic_load_n(&worker->epoch, __ATOMIC_SEQ_CST) == epoch) {
            nanosleep(&(struct timespec){0, GRACE_POLL_NS}, NULL);
        }
    }
    pthread_mutex_unlock(&runtime->workers_lock);
}

ss_worker *ss_worker_new(ss_runtime *runtime) {
    ss_worker *worker = calloc(1, sizeof *worker);
    if (worker) {
        worker->runtime = ss_runtime_hold(runtime);
        pthread_mutex_lock(&runtime->workers_lock);
        worker->next = runtime->workers;
        runtime->workers = worker;
        pthread_mutex_unlock(&runtime->workers_lock);
    }
    return worker;
}

void ss_worker_free(ss_worker *worker) {
    if (!worker) {
        return;
    }
    pthread_mutex_lock(&worker->runtime->workers_lock);
    ss_worker **link = &worker->runtime->workers;
    while (*link != worker) {
        link = &(*link)->next;
    }
    *link = worker->next;
    pthread_mutex_unlock(&worker->runtime->workers_lock);
    for (uint32_t i = 0; i < SS_FRAMES_MAX; i++) {
        ss_buffer_free(&worker->frames[i].bytes);
        ss_table_free(worker->frames[i].table);
    }
    ss_runtime_free(worker->runtime);
    free(worker);
}

ss_frame *ss_worker_push_frame(ss_worker *worker) {
    if (worker->depth == SS_FRAMES_MAX) {
        return NULL;
    }
    ss_frame *frame = &worker->frames[worker->depth];
    if (!frame->table && !(frame->table = ss_table_new())) {
        return NULL;
    }
    ss_frame_holding(frame)->runtime = worker->is_taking ? worker->runtime : NULL;
    frame->bytes.length = 0;
    worker->depth++;
    return frame;
}

void ss_worker_pop_frame(ss_worker *worker) {
    ss_frame *frame = &worker->frames[--worker->depth];
    const size_t held = ss_frame_holding(frame)->held;
    if (frame->bytes.capacity > FRAME_BYTES_MAX) {
        ss_holding_free(ss_frame_holding(frame), &frame->bytes);
    }
    ss_table_trim(frame->table);
    if (held > RELEASED_FROM_BYTES) { /* what it takes is little beside such a request */
        ss_runtime_release_memory(worker->runtime);
    }
}
