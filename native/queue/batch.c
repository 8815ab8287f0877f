/*
 * Gathers requests into batches. Event loops append under a short lock; a thread of the batch's own passes batches on,
 * waits where an output refuses, and wakes at the timeout. Requests are concatenated: a protobuf message followed by
 * another of its type is their merge. The thread then writes each resource once. Where metadata names are given,
 * requests with other values of them are gathered apart: a batch is known by those values, its key, until it is sealed,
 * and then forgotten. Source: semantics of the Collector's batch processor, with a size in bytes beside the count,
 * without its losses, and without remembering values of which nothing is gathered.
 */
#include "core/clock.h"
#include "core/hash.h"
#include "otlp/regroup.h"
#include "otlp/table.h"
#include "plan/consumer.h"
#include "plan/metadata.h"
#include "core/verdict.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* READY_MAX: batches that may wait for an output that refuses before requests are refused, too. Where no output refuses
 * and only the thread is late, because it has much to compress or the machine is busy, who brings more than
 * READY_BYTES_EASY is told so late that it is taken, and not read from meanwhile: peers are slowed down by their own
 * connection, others behind the same event loop are not, and the thread gets the processor. Who cannot wait so, or
 * brings more than READY_BYTES_LATE, is held up in its thread.
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

/* A request is measured as a whole for each of its parts. One of more parts than SLICES is therefore cut into about so
 * many slices first, which are read on their own, unless it is small. */
enum { SLICES = 8, SMALL_TABLE = 512 };

enum { BUCKETS_FIRST = 16 };

enum { NICENESS = 10 };

/* Each part repeats the messages around its items. A request grows by this factor and so many bytes at most: what is
 * left then goes as one batch, however large, since the sender must not choose how much memory it takes. */
enum { GROWTH_MAX = 16, GROWTH_FREE = 64 << 20 };

/* The Collector's, for its otelcol_processor_batch_batch_send_size. */
static const uint32_t size_bounds[SS_BATCH_N_BOUNDS] = {10,   25,    50,    75,    100,   250,   500,  750,
                                                        1000, 2000,  3000,  4000,  5000,  6000,  7000, 8000,
                                                        9000, 10000, 20000, 30000, 50000, 100000};

typedef enum trigger { TRIGGER_SIZE, TRIGGER_TIMEOUT, TRIGGER_BYTES, TRIGGER_DRAIN } trigger;

typedef struct gathered gathered;
struct gathered {
    ss_buffer bytes;
    uint64_t n_items;
    uint64_t deadline_ns;      /* when it must go */
    gathered *previous, *next; /* among those that are open, or ready: oldest first */
    uint64_t hash;             /* of key */
    gathered *next_alike;      /* in the same bucket */
    size_t key_length;
    uint8_t key[]; /* metadata */
};

typedef struct gathered_list {
    gathered *first, *last;
} gathered_list;

/* A client whose request is gathered, and who does not know it yet. */
typedef struct parked parked;
struct parked {
    ss_pledge pledge; /* first */
    parked *next;
};

typedef struct batch {
    ss_consumer consumer;
    ss_runtime *runtime;
    ss_worker *worker; /* the thread's */
    ss_batch_config config;
    pthread_t thread;
    pthread_mutex_t lock;    /* guards what follows */
    pthread_cond_t work;     /* for the thread: something is ready, or gathering has begun, or draining */
    pthread_cond_t eased;    /* for who brings requests: a batch less is waiting */
    pthread_cond_t idle;     /* for ss_batch_drain: the thread has finished */
    gathered_list open;      /* to be added to; all have items, and the same timeout, so the oldest is due first */
    gathered **buckets;      /* of the open ones, by hash; NULL without metadata names: then there is one at most */
    size_t n_buckets;        /* a power of two */
    ss_buffer key;           /* of the request at hand */
    uint64_t key_hash;       /* its hash */
    gathered *active;        /* the open one with that key; NULL: none is */
    uint64_t gathered_bytes; /* ever */
    gathered_list ready;
    uint32_t n_ready;
    size_t n_ready_bytes;
    parked *parked;      /* until the thread has caught up */
    bool is_held_up;     /* an output refuses the oldest */
    uint64_t give_up_ns; /* draining: when to stop trying; 0: not draining */
    bool is_finished;
    ss_batch_stats stats;
    ss_names names; /* of metadata */
    size_t n_outputs;
    ss_consumer *outputs[];
} batch;

static void wait_until(batch *self, pthread_cond_t *condition, uint64_t deadline_ns) {
    struct timespec at = ss_clock_timespec(deadline_ns);
    pthread_cond_timedwait(condition, &self->lock, &at);
}

/* ---------------------------------------------------------------- gathering, under the lock */

static void list_append(gathered_list *list, gathered *g) {
    g->previous = list->last;
    g->next = NULL;
    *(list->last ? &list->last->next : &list->first) = g;
    list->last = g;
}

static void list_remove(gathered_list *list, gathered *g) {
    *(g->previous ? &g->previous->next : &list->first) = g->next;
    *(g->next ? &g->next->previous : &list->last) = g->previous;
}

static gathered **bucket_of(batch *self, uint64_t hash) {
    return &self->buckets[hash & (self->n_buckets - 1)];
}

/* Make room for one more; without memory the chains become longer. */
static void grow_buckets(batch *self) {
    if (self->stats.n_combinations < self->n_buckets) {
        return;
    }
    gathered **grown = calloc(2 * self->n_buckets, sizeof *grown);
    if (!grown) {
        return;
    }
    free(self->buckets);
    self->buckets = grown;
    self->n_buckets *= 2;
    for (gathered *g = self->open.first; g; g = g->next) {
        gathered **bucket = bucket_of(self, g->hash);
        g->next_alike = *bucket;
        *bucket = g;
    }
}

static uint64_t hash_key(const batch *self) {
    uint64_t hash = ss_hash_mix(ss_hash_seed(self), self->key.length);
    for (size_t at = 0; at < self->key.length; at += sizeof hash) {
        uint64_t word = 0;
        size_t left = self->key.length - at;
        memcpy(&word, self->key.data + at, left < sizeof word ? left : sizeof word);
        hash = ss_hash_mix(hash, word);
    }
    return hash;
}

/* Find the open batch for a request with this metadata. */
static ss_status choose(batch *self, const ss_view *view) {
    if (!self->names.n) {
        self->active = self->open.first;
        return SS_OK;
    }
    self->key.length = 0;
    ss_status status = ss_metadata_select(view->metadata, view->metadata_length, &self->names, &self->key);
    if (status != SS_OK) {
        return status;
    }
    self->key_hash = hash_key(self);
    gathered *g = *bucket_of(self, self->key_hash);
    while (g && (g->hash != self->key_hash || g->key_length != self->key.length ||
                 (g->key_length && memcmp(g->key, self->key.data, g->key_length) != 0))) {
        g = g->next_alike;
    }
    self->active = g;
    bool is_full = self->config.max_combinations && self->stats.n_combinations >= self->config.max_combinations;
    return g || !is_full ? SS_OK : SS_ERR_LIMIT;
}

/* Begin a batch for the request at hand. */
static ss_status open_batch(batch *self) {
    gathered *g = calloc(1, sizeof *g + self->key.length);
    if (!g) {
        return SS_ERR_NO_MEMORY;
    }
    g->bytes = ss_runtime_take_buffer(self->runtime);
    g->hash = self->key_hash;
    g->key_length = self->key.length;
    if (g->key_length) {
        memcpy(g->key, self->key.data, g->key_length);
    }
    if (self->buckets) {
        grow_buckets(self);
        gathered **bucket = bucket_of(self, g->hash);
        g->next_alike = *bucket;
        *bucket = g;
    }
    list_append(&self->open, g);
    ss_runtime_account(self->runtime, (int64_t)g->key_length);
    self->stats.n_combinations++;
    self->active = g;
    return SS_OK;
}

/* Take g from those that are open. */
static void close_batch(batch *self, gathered *g) {
    if (self->buckets) {
        gathered **link = bucket_of(self, g->hash);
        while (*link != g) {
            link = &(*link)->next_alike;
        }
        *link = g->next_alike;
    }
    list_remove(&self->open, g);
    self->stats.n_combinations--;
    self->active = NULL;
}

static void give_back(batch *self, const gathered *g) {
    ss_runtime_account(self->runtime, -(int64_t)(g->bytes.length + g->key_length));
    ss_runtime_give_buffer(self->runtime, g->bytes);
}

static uint64_t active_items(const batch *self) {
    return self->active ? self->active->n_items : 0;
}

static size_t active_length(const batch *self) {
    return self->active ? self->active->bytes.length : 0;
}

/* Move what is gathered in an open batch to the ready list. */
static void seal(batch *self, gathered *sealed, trigger why) {
    close_batch(self, sealed);
    list_append(&self->ready, sealed);
    self->n_ready++;
    self->n_ready_bytes += sealed->bytes.length;
    self->stats.size_trigger_send += why == TRIGGER_SIZE;
    self->stats.timeout_trigger_send += why == TRIGGER_TIMEOUT;
    self->stats.bytes_trigger_send += why == TRIGGER_BYTES;
    pthread_cond_signal(&self->work);
}

static bool would_pass_bytes(const batch *self, size_t more) {
    return self->config.send_batch_max_bytes && active_length(self) + more > self->config.send_batch_max_bytes;
}

static bool would_pass_items(const batch *self, uint64_t more) {
    return self->config.send_batch_max_size && active_items(self) + more > self->config.send_batch_max_size;
}

/* Append rows [first, end) of the table, or without one the bytes as they are; seal what has become full. */
static ss_status gather(batch *self, const ss_view *view, uint32_t first, uint32_t end, uint64_t n_items) {
    ss_status status = self->active ? SS_OK : open_batch(self);
    if (status != SS_OK) {
        return status;
    }
    gathered *active = self->active;
    ss_buffer *bytes = &active->bytes;
    size_t before = bytes->length;
    status = view->table ? ss_emit(view->table, first, end, bytes) : ss_buffer_append(bytes, view->bytes, view->length);
    if (status != SS_OK) {
        bytes->length = before;
        if (!active->n_items) {
            close_batch(self, active);
            give_back(self, active);
            free(active);
        }
        return status;
    }
    ss_runtime_account(self->runtime, (int64_t)(bytes->length - before));
    self->gathered_bytes += bytes->length - before;
    if (!active->n_items) {
        active->deadline_ns = ss_clock_deadline(self->config.timeout_ns);
        if (active == self->open.first) {
            pthread_cond_signal(&self->work);
        }
    }
    active->n_items += n_items;
    self->stats.pending_items += n_items;
    bool is_full = active->n_items >= self->config.send_batch_size; /* always, with send_batch_size 0 */
    if (is_full || !self->config.timeout_ns) {
        seal(self, active, TRIGGER_SIZE);
    }
    return SS_OK;
}

/* The end of the rows from first on that hold room kept ones, or fewer where there are no more; *n_items are kept. */
static uint32_t end_of_items(const ss_table *table, uint32_t first, uint64_t room, uint64_t *n_items) {
    uint32_t end = first;
    *n_items = 0;
    for (; end < table->n_rows && (*n_items < room || table->verdict[end] != SS_KEEP); end++) {
        *n_items += table->verdict[end] == SS_KEEP;
    }
    return end;
}

/* Bytes that rows from first on may take in the active batch. In an empty one the first item has room whatever its
 * size; and where the messages around it alone are too large, so many more that these are not repeated for each. */
static size_t bytes_room(const batch *self, ss_table *table, uint32_t first) {
    size_t limit = self->config.send_batch_max_bytes;
    if (self->active) {
        size_t length = active_length(self);
        return length < limit ? limit - length : 0;
    }
    uint64_t one;
    uint32_t end = end_of_items(table, first, 1, &one);
    size_t alone = ss_emit_size(table, first, end);
    if (alone <= limit || !one) {
        return limit;
    }
    while (table->verdict[--end] != SS_KEEP) {
    }
    size_t around = alone > table->row_length[end] ? alone - table->row_length[end] : 0;
    return alone > 2 * around ? alone : 2 * around;
}

/* The end of the rows from first on that still fit into the active batch; *n_items becomes the kept among them. The
 * bytes of a part are those of its rows and of the messages around them: measured, by bisection. */
static uint32_t fit_rows(const batch *self, ss_table *table, uint32_t first, uint64_t *n_items) {
    uint64_t room =
        self->config.send_batch_max_size ? self->config.send_batch_max_size - active_items(self) : UINT64_MAX;
    uint32_t end = end_of_items(table, first, room, n_items);
    if (!self->config.send_batch_max_bytes) {
        return end;
    }
    size_t room_bytes = bytes_room(self, table, first);
    if (ss_emit_size(table, first, end) <= room_bytes) {
        return end;
    }
    uint32_t low = first; /* rows up to low fit, rows up to end do not */
    while (end - low > 1) {
        uint32_t middle = low + (end - low) / 2;
        if (ss_emit_size(table, first, middle) <= room_bytes) {
            low = middle;
        } else {
            end = middle;
        }
    }
    *n_items = 0;
    for (uint32_t row = first; row < low; row++) {
        *n_items += table->verdict[row] == SS_KEEP;
    }
    return low;
}

/* A request on its way into several batches. */
typedef struct splitting {
    batch *self;
    ss_worker *worker;
    uint64_t end_bytes; /* gathered_bytes at which the rest goes as it is */
} splitting;

static ss_status gather_parts(splitting *s, const ss_view *view);

/* Append the rows from first on, cut into slices, each read into frame. */
static ss_status gather_slices(splitting *s, ss_frame *frame, const ss_view *view, uint32_t first) {
    ss_table *table = view->table;
    const uint32_t max_items = s->self->config.send_batch_max_size;
    uint64_t n_left;
    ss_verdict ignored;
    end_of_items(table, first, UINT64_MAX, &n_left);
    uint64_t n_slice = n_left / SLICES + 1;
    n_slice -= max_items && n_slice > max_items ? n_slice % max_items : 0; /* whole batches */
    while (first < table->n_rows) {
        uint64_t n_items;
        uint32_t end = end_of_items(table, first, n_slice, &n_items);
        if (n_items) {
            ss_view slice;
            frame->bytes.length = 0;
            ss_status status = ss_emit_held(table, first, end, ss_frame_holding(frame), &frame->bytes);
            if (status == SS_OK) {
                status =
                    ss_view_scan(view->signal, frame->bytes.data, frame->bytes.length, frame->table, &slice, &ignored);
            }
            if (status == SS_OK) {
                status = gather_parts(s, &slice);
            }
            if (status != SS_OK) {
                return status;
            }
        }
        first = end;
    }
    return SS_OK;
}

/* Recursion ends because a slice has fewer items than what it is cut from, and when frames run out. */
static ss_status gather_parts(splitting *s, const ss_view *view) {
    batch *self = s->self;
    ss_table *table = view->table;
    bool is_small = table->n_rows + table->private_state->n_nodes < SMALL_TABLE;
    for (uint32_t first = 0, end; first < table->n_rows; first = end) {
        uint64_t n_items;
        bool was_empty = !self->active; /* else the part may be small for want of room */
        end = self->gathered_bytes < s->end_bytes ? fit_rows(self, table, first, &n_items)
                                                  : end_of_items(table, first, UINT64_MAX, &n_items);
        if (n_items) {
            ss_status status = gather(self, view, first, end, n_items);
            if (status != SS_OK) {
                return status;
            }
        } else if (self->active && end < table->n_rows) {
            seal(self, self->active, would_pass_items(self, 1) ? TRIGGER_SIZE : TRIGGER_BYTES);
        }
        bool has_many_parts = was_empty && (table->n_rows - end) / SLICES > end - first;
        ss_frame *frame = has_many_parts && !is_small ? ss_worker_push_frame(s->worker) : NULL;
        if (frame) {
            ss_status status = gather_slices(s, frame, view, end);
            ss_worker_pop_frame(s->worker);
            return status;
        }
    }
    return SS_OK;
}

/* Append a request that does not fit into one batch, in parts. */
static ss_status gather_split(batch *self, ss_worker *worker, const ss_view *view) {
    uint64_t growth = (uint64_t)view->length * GROWTH_MAX + GROWTH_FREE;
    return gather_parts(&(splitting){self, worker, self->gathered_bytes + growth}, view);
}

static ss_status take(batch *self, ss_worker *worker, const ss_view *view) {
    size_t size = view->length;
    if (view->table) {
        /* Emitting never writes more than this; the exact size is worth its pass only near the limit. */
        size += view->table->private_state->replacements.length + (size_t)view->table->private_state->n_edits * 16;
        if (would_pass_bytes(self, size)) {
            size = ss_emit_size(view->table, 0, view->table->n_rows);
        }
    }
    bool too_many = self->config.send_batch_max_size && view->n_items > self->config.send_batch_max_size;
    bool too_large = self->config.send_batch_max_bytes && size > self->config.send_batch_max_bytes;
    /* The Collector fills each batch to exactly send_batch_max_size items; bytes only start a new batch. */
    if (view->table && (too_many || too_large || would_pass_items(self, view->n_items))) {
        return gather_split(self, worker, view);
    }
    if (self->active && would_pass_bytes(self, size)) {
        seal(self, self->active, TRIGGER_BYTES);
    }
    return gather(self, view, 0, view->table ? view->table->n_rows : 0, view->n_items);
}

/* ---------------------------------------------------------------- who brings too much */

static bool is_late(const batch *self, size_t easy_bytes) {
    return self->n_ready >= READY_MAX && self->n_ready_bytes >= easy_bytes && !self->is_held_up && !self->give_up_ns;
}

/* It is gathered, and will be sent. */
static bool is_withdrawn(ss_pledge *pledge) {
    (void)pledge;
    return false;
}

/* Let the client of a request that has been gathered wait. Without memory it need not. */
static void park(batch *self, ss_promise_slot *slot) {
    parked *waiting = calloc(1, sizeof *waiting);
    if (waiting) {
        waiting->pledge.withdraw = is_withdrawn;
        if (!ss_promise_join(slot, &waiting->pledge)) {
            free(waiting);
            return;
        }
        slot->n_late++;
        waiting->next = self->parked;
        self->parked = waiting;
    }
}

/* Tell those who wait, unless it is too early. Called with the lock, which is let go meanwhile. */
static void unpark(batch *self) {
    static const ss_verdict taken = {0};
    parked *waiting = is_late(self, READY_BYTES_EASY) ? NULL : self->parked;
    if (!waiting) {
        return;
    }
    self->parked = NULL;
    pthread_mutex_unlock(&self->lock);
    for (parked *next; waiting; waiting = next) {
        next = waiting->next;
        ss_promise_tell(&waiting->pledge, &taken);
        free(waiting);
    }
    pthread_mutex_lock(&self->lock);
}

/* Let the thread catch up. */
static void wait_while_late(batch *self, bool can_park) {
    uint64_t end_ns = 0;
    while (is_late(self, can_park ? READY_BYTES_LATE : READY_BYTES_EASY)) {
        end_ns = end_ns ? end_ns : ss_clock_deadline(LATE_WAIT_MAX_NS);
        if (ss_clock_ns() >= end_ns) {
            break;
        }
        wait_until(self, &self->eased, end_ns);
    }
}

/* The Collector's answer, after which clients give up; a batch in front of this one tries again. */
static ss_status refuse_combination(const ss_view *view, ss_verdict *verdict) {
    static const char text[] = "Permanent error: too many batcher metadata-value combinations";
    return view->is_retried ? ss_refuse(verdict, text + sizeof "Permanent error:", REFUSAL_RETRY_MS)
                            : ss_reject(verdict, SS_ERR_LIMIT, SS_CODE_INTERNAL, text);
}

static ss_status batch_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    batch *self = (batch *)consumer;
    ss_view scanned;
    ss_frame *frame = NULL;
    ss_status status = SS_OK;
    if (!view->table && (self->config.send_batch_max_size || self->config.send_batch_max_bytes)) {
        status = ss_view_settle(worker, view, &scanned, &frame, verdict);
        view = &scanned;
    }
    if (status == SS_OK) {
        pthread_mutex_lock(&self->lock);
        wait_while_late(self, view->promise);
        if (self->give_up_ns) {
            status = ss_refuse(verdict, "collector is shutting down", REFUSAL_RETRY_MS);
        } else if (self->n_ready >= READY_MAX && (self->is_held_up || self->n_ready_bytes >= READY_BYTES_MAX)) {
            status = ss_refuse(verdict, "batches are waiting: sending queue is full", REFUSAL_RETRY_MS);
        } else if ((status = choose(self, view)) == SS_ERR_LIMIT) {
            status = refuse_combination(view, verdict);
        } else if (status != SS_OK || (status = take(self, worker, view)) != SS_OK) {
            status = ss_refuse(verdict, "out of memory", REFUSAL_RETRY_MS);
        } else if (view->promise && is_late(self, READY_BYTES_EASY)) {
            park(self, view->promise);
        }
        pthread_mutex_unlock(&self->lock);
    }
    ss_view_release(worker, frame);
    return status;
}

/* ---------------------------------------------------------------- passing on, in the thread */

static void count_sent(ss_batch_stats *stats, uint64_t n_items) {
    stats->sent_items += n_items;
    stats->sent_batches++;
    size_t i = 0;
    while (i < SS_BATCH_N_BOUNDS && n_items > size_bounds[i]) {
        i++;
    }
    if (i < SS_BATCH_N_BOUNDS) {
        stats->sent_by_size[i]++;
    }
}

/* Write each resource once. Without memory the batch goes as it is. */
static void regroup(batch *self, gathered *full) {
    ss_buffer bytes = ss_runtime_take_buffer(self->runtime);
    bool is_done = false;
    ss_regroup(full->bytes.data, full->bytes.length, &bytes, &is_done);
    if (is_done) {
        ss_runtime_account(self->runtime, (int64_t)bytes.length - (int64_t)full->bytes.length);
        ss_buffer before = full->bytes;
        full->bytes = bytes;
        bytes = before;
    }
    ss_runtime_give_buffer(self->runtime, bytes);
}

/* Give the oldest batch to all outputs, again and again to those that refuse it for now. Called with the lock, which
 * is let go meanwhile. */
static void pass_on(batch *self) {
    gathered *full = self->ready.first;
    const size_t waiting = full->bytes.length;
    pthread_mutex_unlock(&self->lock);
    regroup(self, full);
    ss_view view = {.signal = self->consumer.signal,
                    .bytes = full->bytes.data,
                    .length = full->bytes.length,
                    .n_items = full->n_items,
                    .is_retried = true,
                    .metadata = full->key,
                    .metadata_length = full->key_length};
    uint64_t failed = 0;
    for (size_t i = 0; i < self->n_outputs; i++) {
        uint64_t pause_ns = RETRY_FIRST_NS;
        for (;;) {
            ss_verdict verdict = {0};
            ss_status status = ss_consume(self->outputs[i], self->worker, &view, &verdict);
            if (status == SS_OK) {
                break;
            }
            pthread_mutex_lock(&self->lock);
            self->is_held_up = true;
            pthread_cond_broadcast(&self->eased); /* to be refused */
            unpark(self);
            bool gives_up = status != SS_ERR_REFUSED || (self->give_up_ns && ss_clock_ns() >= self->give_up_ns);
            if (!gives_up) {
                wait_until(self, &self->work, ss_clock_deadline(pause_ns));
            }
            pthread_mutex_unlock(&self->lock);
            if (gives_up) {
                failed = full->n_items;
                break;
            }
            pause_ns = pause_ns * 2 < RETRY_LAST_NS ? pause_ns * 2 : RETRY_LAST_NS;
        }
    }
    give_back(self, full);
    pthread_mutex_lock(&self->lock);
    self->is_held_up = false;
    self->n_ready_bytes -= waiting;
    self->stats.pending_items -= full->n_items;
    self->stats.failed_items += failed;
    count_sent(&self->stats, full->n_items - failed);
    /* Only now is its place free: a batch that is being passed on counts as waiting. */
    list_remove(&self->ready, full);
    self->n_ready--;
    pthread_cond_broadcast(&self->eased);
    free(full);
    unpark(self);
}

/* Compressing a batch takes milliseconds, a request microseconds: where both share a processor, requests go first, and
 * the thread keeps a tenth of it. A thread may always lower its own priority (setpriority(2), per thread on Linux). */
static void lower_priority(void) {
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICENESS);
}

static void *run(void *argument) {
    batch *self = argument;
    lower_priority();
    pthread_mutex_lock(&self->lock);
    for (;;) {
        gathered *oldest = self->open.first;
        bool is_due = oldest && (self->give_up_ns || ss_clock_ns() >= oldest->deadline_ns);
        if (self->ready.first) {
            pass_on(self);
        } else if (is_due) {
            seal(self, oldest, self->give_up_ns ? TRIGGER_DRAIN : TRIGGER_TIMEOUT);
        } else if (self->give_up_ns) {
            break;
        } else if (oldest) {
            wait_until(self, &self->work, oldest->deadline_ns);
        } else {
            pthread_cond_wait(&self->work, &self->lock);
        }
    }
    self->is_finished = true;
    pthread_cond_broadcast(&self->idle);
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* ---------------------------------------------------------------- lifecycle */

ss_status ss_batch_drain(ss_consumer *consumer, uint64_t timeout_ns) {
    batch *self = (batch *)consumer;
    pthread_mutex_lock(&self->lock);
    if (!self->give_up_ns) {
        self->give_up_ns = ss_clock_deadline(timeout_ns);
        pthread_cond_signal(&self->work);
        pthread_cond_broadcast(&self->eased);
        unpark(self);
    }
    while (!self->is_finished) {
        pthread_cond_wait(&self->idle, &self->lock);
    }
    ss_status status = self->stats.failed_items ? SS_ERR_TIMEOUT : SS_OK;
    pthread_mutex_unlock(&self->lock);
    return status;
}

static void release(batch *self) {
    ss_names_free(&self->names);
    ss_buffer_free(&self->key);
    free(self->buckets);
    ss_worker_free(self->worker);
    pthread_cond_destroy(&self->work);
    pthread_cond_destroy(&self->eased);
    pthread_cond_destroy(&self->idle);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static void batch_free(ss_consumer *consumer) {
    batch *self = (batch *)consumer;
    ss_batch_drain(consumer, 0);
    pthread_join(self->thread, NULL);
    release(self);
}

uint32_t ss_batch_size_bound(size_t index) {
    return index < SS_BATCH_N_BOUNDS ? size_bounds[index] : 0;
}

void ss_batch_read_stats(const ss_consumer *consumer, ss_batch_stats *stats) {
    batch *self = (batch *)(uintptr_t)consumer; /* the lock is no part of what const promises */
    pthread_mutex_lock(&self->lock);
    *stats = self->stats;
    pthread_mutex_unlock(&self->lock);
}

static const ss_consumer_vtable batch_vtable = {batch_consume, batch_free};

ss_consumer *ss_batch_new(ss_runtime *runtime, ss_signal signal, const ss_batch_config *config,
                          ss_consumer *const *outputs, size_t n_outputs, ss_error *error) {
    if (config->send_batch_max_size && config->send_batch_max_size < config->send_batch_size) {
        *error = (ss_error){SS_ERR_ARGUMENT, 0, "send_batch_max_size must be greater or equal to send_batch_size"};
        return NULL;
    }
    batch *self = calloc(1, sizeof *self + n_outputs * sizeof *self->outputs);
    *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
    if (!self) {
        return NULL;
    }
    self->consumer = (ss_consumer){&batch_vtable, signal};
    self->runtime = runtime;
    self->config = *config;
    self->n_outputs = n_outputs;
    for (size_t i = 0; i < n_outputs; i++) {
        self->outputs[i] = outputs[i];
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->work, &monotonic);
    pthread_cond_init(&self->eased, &monotonic);
    pthread_cond_init(&self->idle, NULL);
    pthread_condattr_destroy(&monotonic);
    self->worker = ss_worker_new(runtime);
    bool has_memory =
        self->worker && ss_names_copy(&self->names, config->metadata_names, config->n_metadata_names) == SS_OK;
    if (self->names.n) {
        self->n_buckets = BUCKETS_FIRST;
        self->buckets = calloc(self->n_buckets, sizeof *self->buckets);
        has_memory = has_memory && self->buckets;
    }
    if (has_memory && pthread_create(&self->thread, NULL, run, self)) {
        has_memory = false;
        error->reason = "its thread cannot start";
    }
    if (!has_memory) {
        release(self);
        return NULL;
    }
    return &self->consumer;
}
