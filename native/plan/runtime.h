/* What the threads of one collector share, and what each has for itself. */
#ifndef SS_RUNTIME_H
#define SS_RUNTIME_H

#include <pthread.h>

#include "otlp/table.h"
#include "spansieve.h"

/* Frames: more than a configuration that passes its checks can need, collector/config/pipelines.py. */
enum { SS_FRAMES_MAX = 256, SS_POOL_MAX = 4 };

/* Space for one rewrite of a request: nested pipelines each use one. */
typedef struct ss_frame {
    ss_table *table;
    ss_buffer bytes; /* grows by ss_frame_holding only */
} ss_frame;

/* What counts the memory of the frame. */
static inline ss_holding *ss_frame_holding(const ss_frame *frame) {
    return &frame->table->private_state->holding;
}

struct ss_worker {
    ss_runtime *runtime;
    ss_worker *next; /* in the runtime's list */
    uint64_t epoch;  /* odd while inside a request; atomic */
    uint32_t depth;  /* frames in use */
    bool is_taking;  /* what can still be refused: its memory is counted, and ends at the limit; of what has been
                        acknowledged it must not, or what is to make room could not go on */
    ss_frame frames[SS_FRAMES_MAX];
};

struct ss_runtime {
    uint64_t n_holders;           /* its maker, workers and queues; atomic */
    uint64_t in_flight_bytes;     /* atomic */
    uint64_t rss_bytes;           /* the last sample; atomic */
    uint64_t rss_in_flight;       /* in_flight_bytes at that sample; atomic */
    uint64_t rss_least;           /* of all samples; atomic */
    uint64_t limit_bytes;         /* the lowest of limits; UINT64_MAX: there is none; atomic */
    pthread_mutex_t workers_lock; /* held through a grace period, so never taken inside a request */
    ss_worker *workers;
    pthread_mutex_t pool_lock; /* guards what follows */
    ss_memory_limit *limits;
    ss_buffer pool[SS_POOL_MAX]; /* emptied batch buffers, to be filled again */
    uint32_t n_pool;
};

/* Keep the runtime for one more ss_runtime_free: for what touches it while being freed itself. Returns it. Any thread.
 */
ss_runtime *ss_runtime_hold(ss_runtime *runtime);

/* Take a buffer whose memory is still warm, or an empty one; give it back when it is done with. Any thread. */
ss_buffer ss_runtime_take_buffer(ss_runtime *runtime);
void ss_runtime_give_buffer(ss_runtime *runtime, ss_buffer buffer);

/* Mark the worker as inside a request, so that a grace period waits for it. */
void ss_worker_enter(ss_worker *worker);
void ss_worker_exit(ss_worker *worker);

/* The next unused frame, with an empty buffer; NULL when requests are nested too deeply or memory is out. Returned by
 * ss_worker_pop_frame, last taken first. */
ss_frame *ss_worker_push_frame(ss_worker *worker);
void ss_worker_pop_frame(ss_worker *worker);

#endif
