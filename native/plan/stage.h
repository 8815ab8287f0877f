/*
 * A stage: a consumer that keeps state between requests. Event loops bring requests, which it takes under its lock and
 * files in groups, each known by a key until it is due. A thread of its own wakes for what is due and passes on what
 * is ready: it waits where an output refuses, and drains at the end. What a stage does of its own is in its vtable,
 * whose functions are the messages of OTel-Arrow's engine: take, timer, ack, nack, collect telemetry, shutdown.
 */
#ifndef SS_STAGE_H
#define SS_STAGE_H

#include <pthread.h>

#include "core/arena.h"
#include "plan/consumer.h"

typedef struct ss_stage ss_stage;

/* What groups are told apart by, and its hash with a seed that no peer knows. */
typedef struct ss_key {
    ss_bytes bytes; /* borrowed */
    uint64_t hash;
} ss_key;

typedef enum ss_group_state {
    SS_GROUP_OPEN, /* known by its key: to be added to, sent or discarded */
    SS_GROUP_READY /* waits for the thread, or is being passed on */
} ss_group_state;

/* A request in the making. */
typedef struct ss_group ss_group;
struct ss_group {
    ss_buffer bytes; /* a message of the signal that the stage emits */
    uint64_t n_items;
    uint64_t deadline_ns; /* when it is due; monotonic */
    /* What follows is the stage's own. */
    ss_group_state state;
    ss_group *previous, *next; /* among the open ones, or the ready ones: oldest first */
    ss_group *next_alike;      /* in the same bucket */
    size_t n_accounted;        /* bytes */
    uint64_t hash;
    size_t key_length;
    uint8_t key[];
};

typedef struct ss_group_list {
    ss_group *first, *last;
} ss_group_list;

/* All are called with the stage's lock, unless they say otherwise. */
typedef struct ss_stage_vtable {
    /* Take the request, or refuse it with verdict. In the thread that brings it; view has a table where the stage
     * reads rows. */
    ss_status (*take)(ss_stage *stage, ss_worker *worker, const ss_view *view, ss_verdict *verdict);
    /* An open group's deadline has come, or the stage drains: send the group, or discard it. */
    void (*due)(ss_stage *stage, ss_group *group, bool is_draining);
    /* interval_ns have passed, or the stage drains and calls for the last time. NULL where there is no interval. */
    void (*timer)(ss_stage *stage);
    /* A group is about to leave: last changes to its bytes. Called without the lock. NULL: there are none. */
    void (*prepare)(ss_stage *stage, ss_group *group);
    /* Every output has taken the group. */
    void (*ack)(ss_stage *stage, const ss_group *group);
    /* An output refused it for good, or until the stage gave up. */
    void (*nack)(ss_stage *stage, const ss_group *group);
    /* Copy the stage's counts to what the caller of ss_stage_collect gave. */
    void (*collect)(const ss_stage *stage, void *counts);
    /* Free what the stage has beside ss_stage. Called without the lock, by one thread. */
    void (*release)(ss_stage *stage);
} ss_stage_vtable;

/* First member of every stage; allocated with calloc, freed by ss_consumer_free. */
struct ss_stage {
    ss_consumer consumer;
    const ss_stage_vtable *vtable;
    ss_runtime *runtime;
    bool reads_rows;      /* to be set before the start: every view that is taken has a table */
    uint64_t interval_ns; /* to be set before the start: of the timer; 0: none */
    ss_signal emits;      /* to be set before the start where it is not the signal that the stage takes */
    uint64_t n_open;      /* groups */
    ss_group_list open;   /* oldest first: all are given the same time, so it is due first */
    /* What follows is the stage's own. */
    ss_worker *worker; /* the thread's */
    pthread_t thread;
    bool is_started;
    pthread_mutex_t lock; /* guards what follows, and what is open */
    pthread_cond_t work;  /* for the thread: something is ready, due sooner, or the stage drains */
    pthread_cond_t eased; /* for who brings requests: one group less is ready */
    pthread_cond_t idle;  /* for ss_stage_drain: the thread has finished */
    ss_group **buckets;   /* of the open ones, by hash */
    size_t n_buckets;     /* a power of two */
    ss_group_list ready;
    uint32_t n_ready;
    size_t n_ready_bytes;
    struct ss_waiter *waiters; /* clients that are told once the thread has caught up */
    uint64_t timer_ns;         /* of the next call; UINT64_MAX: no more */
    bool is_held_up;           /* an output refuses the oldest group */
    bool has_failed;           /* at least one group was given up */
    bool is_finished;
    uint64_t give_up_ns; /* draining: when to stop trying; 0: not draining */
    size_t n_outputs;
    ss_consumer **outputs;
};

/* Make stage a consumer of signal in front of outputs, which are borrowed. To be freed after a failure, too. */
ss_status ss_stage_init(ss_stage *stage, const ss_stage_vtable *vtable, ss_runtime *runtime, ss_signal signal,
                        ss_consumer *const *outputs, size_t n_outputs);

/* Start the thread; requests may come from then on. SS_ERR_LIMIT: there are too many threads. */
ss_status ss_stage_start(ss_stage *stage);

/* Pass on what is held and refuse requests from now on; waits until that is done, or given up after timeout_ns:
 * SS_ERR_TIMEOUT. */
ss_status ss_stage_drain(ss_stage *stage, uint64_t timeout_ns);

/* Have the vtable's collect copy to counts, under the lock. */
void ss_stage_collect(const ss_stage *stage, void *counts);

/* ---------------------------------------------------------------- for the vtable's functions, under the lock */

ss_key ss_stage_key(const ss_stage *stage, const void *data, size_t length);

/* The open group with this key; NULL: none is. */
ss_group *ss_stage_find(const ss_stage *stage, const ss_key *key);

/* Open an empty group that is due after timeout_ns, the same for all groups of a stage. REQUIRES: none is open with
 * this key. NULL: no memory. */
ss_group *ss_stage_open(ss_stage *stage, const ss_key *key, uint64_t timeout_ns);

/* Account for what an open group's bytes have become. */
void ss_stage_account(ss_stage *stage, ss_group *group);

/* Pass the open group on: the thread will, and acks or nacks it. */
void ss_stage_send(ss_stage *stage, ss_group *group);

/* Forget the open group. */
void ss_stage_discard(ss_stage *stage, ss_group *group);

#endif
