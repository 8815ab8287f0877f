/*
 * A bounded queue in memory, filled by event loops and batches, emptied by the exporter's threads. A request keeps its
 * place until the one who took it says what became of it. It is compressed before it waits, so that an outage of the
 * backend costs a tenth of the memory, and so that who brings too much is slowed down by the work, not by others'
 * memory. When a reload puts another exporter in the place of this one, what could not be sent yet moves to its queue.
 * Source: the Collector's sending_queue.
 */
#include "core/clock.h"
#include "otlp/table.h"
#include "plan/consumer.h"
#include "core/verdict.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { REFUSAL_RETRY_MS = 1000, PRESS_BYTES_MAX = 8 << 20 };

/* An event loop or a batch that waits for room waits no longer, since a shutdown and a reload wait for it: then the
 * request is refused and comes again. */
static const uint64_t BLOCK_MAX_NS = 1000000000;

/* What wakes the one who sends a request whose client goes. */
typedef struct bell bell;
struct bell {
    int fd;
    bell *next;
};

typedef struct queue queue;

typedef struct entry entry;
struct entry {
    ss_pledge pledge; /* to the client that waits, if one does; first */
    queue *queue;     /* where it is now. Where a client waits it changes only while withdraw cannot be called */
    ss_buffer bytes;
    ss_encoding encoding;
    size_t original_length;
    uint64_t n_items;
    uint64_t size; /* in sizer units */
    uint64_t deadline_ns;
    uint64_t not_before_ns; /* of the next attempt */
    bool takes_room;        /* of capacity; else it counts among those that wait */
    /* Guarded by the queue's lock. */
    bool is_popped;
    bool is_cancelled; /* too late to withdraw it */
    bell *bell;        /* NULL: nobody waits, or there is no file descriptor left */
    entry *previous, *next;
};

/* What one request at a time is compressed with. There are as many as threads that have brought requests at once. */
typedef struct press press;
struct press {
    ss_codec *codec;
    ss_buffer original;
    ss_buffer compressed;
    press *next;
};

struct queue {
    ss_consumer consumer;
    ss_runtime *runtime;
    ss_queue_sizer sizer;
    uint64_t capacity;
    bool block_on_overflow;
    bool holds_answers;
    uint64_t waiting_max;     /* 0: they take room */
    queue *successor;         /* atomic. NULL: none */
    pthread_mutex_t lock;     /* guards what follows */
    pthread_cond_t filled;    /* for poppers */
    pthread_cond_t freed;     /* for blocked pushers */
    pthread_cond_t cancelled; /* for those who wait with a request that they have popped; closing and the successor
                               * are told, too */
    entry *first, *last;
    uint64_t n_waiting; /* that take no room */
    bell *bells;        /* that are not in use */
    uint32_t n_filling; /* entries that have their place and are being written */
    int level;
    press *presses;
    bool has_given_up;
    ss_queue_stats stats;
};

static uint64_t size_in_units(const queue *self, uint64_t n_items, uint64_t length) {
    switch (self->sizer) {
    case SS_SIZER_REQUESTS: return 1;
    case SS_SIZER_ITEMS: return n_items;
    case SS_SIZER_BYTES: break;
    }
    return length;
}

static uint64_t size_of(const queue *self, const ss_view *view) {
    bool has_length = self->sizer != SS_SIZER_BYTES || !view->table;
    return size_in_units(self, view->n_items,
                         has_length ? view->length : ss_emit_size(view->table, 0, view->table->n_rows));
}

/* Who takes what is brought to self: the last successor, or self where that is at its end already. */
static queue *taker_of(queue *self) {
    queue *last = self;
    for (queue *next; (next = __atomic_load_n(&last->successor, __ATOMIC_ACQUIRE));) {
        last = next;
    }
    if (last == self) {
        return self;
    }
    pthread_mutex_lock(&last->lock);
    bool is_closed = last->stats.is_closed;
    pthread_mutex_unlock(&last->lock);
    return is_closed ? self : last;
}

/* Wait for room, or refuse. Called with the lock. */
static ss_status find_room(queue *self, const entry *added, ss_verdict *verdict) {
    uint64_t size = added->size;
    if (!added->takes_room && !self->stats.is_closed) {
        return self->n_waiting < self->waiting_max ? SS_OK
                                                   : ss_refuse(verdict, "sending queue is full", REFUSAL_RETRY_MS);
    }
    if (size > self->capacity) {
        return ss_reject(verdict, SS_ERR_LIMIT, SS_CODE_INTERNAL, "element size too large");
    }
    struct timespec deadline = ss_clock_timespec(ss_clock_deadline(self->block_on_overflow ? BLOCK_MAX_NS : 0));
    int timed_out = !self->block_on_overflow;
    while (!self->stats.is_closed && (self->stats.size > self->capacity || size > self->capacity - self->stats.size) &&
           taker_of(self) == self) {
        if (timed_out) {
            return ss_refuse(verdict, "sending queue is full", REFUSAL_RETRY_MS);
        }
        timed_out = pthread_cond_timedwait(&self->freed, &self->lock, &deadline);
    }
    return self->stats.is_closed ? ss_refuse(verdict, "sending queue is stopped", REFUSAL_RETRY_MS) : SS_OK;
}

static press *take_press(queue *self) {
    pthread_mutex_lock(&self->lock);
    press *taken = self->presses;
    if (taken) {
        self->presses = taken->next;
    }
    pthread_mutex_unlock(&self->lock);
    if (!taken && (taken = calloc(1, sizeof *taken)) && !(taken->codec = ss_codec_new())) {
        free(taken);
        taken = NULL;
    }
    return taken;
}

static void free_press(press *gone) {
    ss_codec_free(gone->codec);
    ss_buffer_free(&gone->original);
    ss_buffer_free(&gone->compressed);
    free(gone);
}

static void trim(ss_buffer *buffer) {
    if (buffer->capacity > PRESS_BYTES_MAX) {
        ss_buffer_free(buffer);
    }
    buffer->length = 0;
}

static void give_press(queue *self, press *given) {
    trim(&given->original);
    trim(&given->compressed);
    pthread_mutex_lock(&self->lock);
    given->next = self->presses;
    self->presses = given;
    pthread_mutex_unlock(&self->lock);
}

/* Append the request to out as it would go out uncompressed. */
static ss_status write_request(const ss_view *view, ss_buffer *out) {
    return view->table ? ss_emit(view->table, 0, view->table->n_rows, out)
                       : ss_buffer_append(out, view->bytes, view->length);
}

static ss_status fill_compressed(queue *self, entry *added, int level, const ss_view *view) {
    press *used = take_press(self);
    if (!used) {
        return SS_ERR_NO_MEMORY;
    }
    const uint8_t *bytes = view->bytes;
    size_t length = view->length;
    ss_status status = SS_OK;
    if (view->table && (status = write_request(view, &used->original)) == SS_OK) {
        bytes = used->original.data;
        length = used->original.length;
    }
    added->original_length = length;
    if (status == SS_OK) {
        status = ss_compress(used->codec, added->encoding, level, bytes, length, &used->compressed);
    }
    if (status == SS_OK) {
        status = ss_buffer_append(&added->bytes, used->compressed.data, used->compressed.length);
    }
    give_press(self, used);
    return status;
}

static ss_status fill_plain(queue *self, entry *added, const ss_view *view) {
    added->bytes = ss_runtime_take_buffer(self->runtime);
    ss_status status = write_request(view, &added->bytes);
    added->original_length = added->bytes.length;
    return status;
}

static void free_entry(queue *self, entry *gone) {
    if (gone->encoding == SS_ENCODING_IDENTITY) {
        ss_runtime_give_buffer(self->runtime, gone->bytes);
    } else {
        ss_buffer_free(&gone->bytes); /* of the size of its content: of no use to others */
    }
    free(gone);
}

/* Of a small request most is what goes around its bytes. */
static int64_t memory_of(const entry *held) {
    return (int64_t)(sizeof *held + held->bytes.capacity);
}

/* Called with the lock, as free_place. */
static void take_place(queue *self, const entry *added) {
    self->n_waiting += !added->takes_room;
    self->stats.size += added->size;
    self->stats.items += added->n_items;
}

/* Give back the place of an entry. Called with the lock. */
static void free_place(queue *self, const entry *gone) {
    self->n_waiting -= !gone->takes_room;
    self->stats.size -= gone->size;
    self->stats.items -= gone->n_items;
    pthread_cond_broadcast(&self->freed);
}

/* Tell the client that waits; without a verdict nobody knows what became of its request, and it is to come again. */
static void answer(entry *answered, const ss_verdict *verdict) {
    if (!answered->pledge.promise) {
        return;
    }
    ss_verdict stopping = {0};
    ss_refuse(&stopping, "collector is shutting down", REFUSAL_RETRY_MS);
    ss_promise_tell(&answered->pledge, verdict ? verdict : &stopping);
}

/* ---------------------------------------------------------------- the line, under the lock */

static void line_append(queue *self, entry *added) {
    added->previous = self->last;
    added->next = NULL;
    *(self->last ? &self->last->next : &self->first) = added;
    self->last = added;
}

static void line_remove(queue *self, entry *gone) {
    *(gone->previous ? &gone->previous->next : &self->first) = gone->next;
    *(gone->next ? &gone->next->previous : &self->last) = gone->previous;
}

static bell *take_bell(queue *self) {
    bell *taken = self->bells;
    if (taken) {
        self->bells = taken->next;
        return taken;
    }
    taken = calloc(1, sizeof *taken);
    if (taken && (taken->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        free(taken);
        taken = NULL;
    }
    return taken;
}

static void give_bell(queue *self, const entry *gone) {
    uint64_t rings;
    if (!gone->bell) {
        return;
    }
    if (gone->is_cancelled) {
        (void)!read(gone->bell->fd, &rings, sizeof rings);
    }
    gone->bell->next = self->bells;
    self->bells = gone->bell;
}

static void ring(const bell *rung) {
    const uint64_t one = 1;
    if (rung) {
        (void)!write(rung->fd, &one, sizeof one);
    }
}

/* ---------------------------------------------------------------- cancellation */

static void discard(queue *self, entry *gone) {
    ss_runtime_account(self->runtime, -memory_of(gone));
    free_entry(self, gone);
}

static bool withdraw(ss_pledge *pledge) {
    entry *unwanted = (entry *)pledge;
    queue *self = unwanted->queue;
    pthread_mutex_lock(&self->lock);
    bool is_in_time = !unwanted->is_popped;
    if (is_in_time) {
        line_remove(self, unwanted);
        free_place(self, unwanted);
        self->stats.withdrawn_items += unwanted->n_items;
        if (self->stats.is_closed) {
            pthread_cond_broadcast(&self->filled); /* it may have been the last */
        }
        discard(self, unwanted); /* under the lock, which ss_consumer_free takes: the queue may go as soon as it can */
    } else {
        unwanted->is_cancelled = true;
        pthread_cond_broadcast(&self->cancelled);
        ring(unwanted->bell);
    }
    pthread_mutex_unlock(&self->lock);
    return is_in_time;
}

ss_status ss_queue_wait(ss_consumer *consumer, const ss_queue_item *item, uint64_t timeout_ns, bool ends_with_queue) {
    queue *self = (queue *)consumer;
    const entry *waiting = item->handle;
    struct timespec deadline = ss_clock_timespec(ss_clock_deadline(timeout_ns));
    ss_status status = SS_OK;
    pthread_mutex_lock(&self->lock);
    for (int timed_out = 0; status == SS_OK;) {
        if (waiting->is_cancelled) {
            status = SS_ERR_CANCELLED;
        } else if (ends_with_queue && (self->stats.is_closed || taker_of(self) != self)) {
            status = SS_ERR_CLOSED;
        } else if (timed_out) {
            status = SS_ERR_TIMEOUT;
        } else {
            timed_out = pthread_cond_timedwait(&self->cancelled, &self->lock, &deadline);
        }
    }
    pthread_mutex_unlock(&self->lock);
    return status;
}

/* ---------------------------------------------------------------- in and out */

static ss_status queue_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker;
    queue *self = taker_of((queue *)consumer);
    entry *added = calloc(1, sizeof *added);
    bool is_awaited = self->holds_answers && view->promise;
    if (added) {
        added->queue = self;
        added->pledge.withdraw = withdraw;
        added->n_items = view->n_items;
        added->size = size_of(self, view);
        added->takes_room = !is_awaited || !self->waiting_max;
        added->deadline_ns = is_awaited && view->promise->route ? view->promise->route->deadline_ns : UINT64_MAX;
    }
    if (!added || (is_awaited && !ss_promise_join(view->promise, &added->pledge))) {
        free(added);
        return ss_refuse(verdict, "out of memory", REFUSAL_RETRY_MS);
    }
    pthread_mutex_lock(&self->lock);
    added->encoding = self->stats.encoding;
    int level = self->level;
    ss_status status = find_room(self, added, verdict);
    if (status == SS_OK) {
        self->n_filling++;
        take_place(self, added);
    } else {
        /* A batch tries again several times a second, and counts itself what it gives up. */
        self->stats.enqueue_failed_items += view->is_retried ? 0 : added->n_items;
    }
    pthread_mutex_unlock(&self->lock);
    if (status != SS_OK) {
        answer(added, verdict);
        free(added);
        return status;
    }
    status = added->encoding == SS_ENCODING_IDENTITY ? fill_plain(self, added, view)
                                                     : fill_compressed(self, added, level, view);
    pthread_mutex_lock(&self->lock);
    self->n_filling--;
    if (status == SS_OK) {
        ss_runtime_account(self->runtime, memory_of(added));
        line_append(self, added);
    } else {
        free_place(self, added);
    }
    if (self->stats.is_closed) {
        pthread_cond_broadcast(&self->filled); /* who waits for the last entry finds out that there is none */
    }
    pthread_mutex_unlock(&self->lock);
    if (status == SS_OK) {
        pthread_cond_signal(&self->filled); /* with the lock, who wakes would at once sleep again until it is free */
    } else {
        status = ss_refuse(verdict, "out of memory", REFUSAL_RETRY_MS);
        answer(added, verdict);
        free_entry(self, added);
    }
    return status;
}

ss_status ss_queue_set_compression(ss_consumer *consumer, ss_encoding encoding, int level) {
    queue *self = (queue *)consumer;
    static const uint8_t nothing[1] = {0};
    press *trial = take_press(self);
    if (!trial) {
        return SS_ERR_NO_MEMORY;
    }
    ss_status status = ss_compress(trial->codec, encoding, level, nothing, 0, &trial->compressed);
    give_press(self, trial);
    if (status == SS_OK) {
        pthread_mutex_lock(&self->lock);
        self->stats.encoding = encoding;
        self->level = level;
        pthread_mutex_unlock(&self->lock);
    }
    return status;
}

/* ---------------------------------------------------------------- a successor, and another try */

typedef struct move {
    queue *to;
    bool is_done;
    entry before; /* once it has moved it may be gone */
} move;

/* The entry is in nobody's line. Its client cannot go meanwhile. */
static void move_entry(ss_pledge *pledge, void *context) {
    move *self = context;
    entry *moved = (entry *)pledge;
    queue *to = self->to;
    self->before = *moved;
    pthread_mutex_lock(&to->lock);
    self->is_done = !to->stats.is_closed;
    if (self->is_done) {
        moved->queue = to;
        moved->size = size_in_units(to, moved->n_items, moved->original_length);
        moved->takes_room = !pledge->promise || !to->waiting_max;
        moved->not_before_ns = 0;
        moved->is_popped = false;
        moved->bell = NULL;
        take_place(to, moved); /* more than there are, perhaps: it was taken in before */
        line_append(to, moved);
        pthread_cond_signal(&to->filled);
    }
    pthread_mutex_unlock(&to->lock);
}

/* Give an entry that was popped to who has taken over. False: nobody has, or is at its end. */
static bool pass_on(queue *self, entry *passed, bool is_in_flight) {
    move moving = {.to = taker_of(self)};
    if (moving.to == self || moving.to->runtime != self->runtime) {
        return false;
    }
    ss_promise_hold(&passed->pledge, move_entry, &moving);
    if (moving.is_done) {
        pthread_mutex_lock(&self->lock);
        free_place(self, &moving.before);
        give_bell(self, &moving.before);
        self->stats.in_flight_requests -= is_in_flight;
        pthread_mutex_unlock(&self->lock);
    }
    return moving.is_done;
}

/* Called with the lock. */
static void line_return(queue *self, entry *returned) {
    returned->is_popped = false;
    line_append(self, returned);
    pthread_cond_signal(&self->filled);
}

/* Take the first one out of the line, so that its client cannot. */
static entry *pop(queue *self) {
    pthread_mutex_lock(&self->lock);
    entry *taken = self->first;
    if (taken) {
        line_remove(self, taken);
        taken->is_popped = true;
    }
    pthread_mutex_unlock(&self->lock);
    return taken;
}

void ss_queue_hand_over(ss_consumer *consumer, ss_consumer *successor) {
    queue *self = (queue *)consumer;
    pthread_mutex_lock(&self->lock);
    __atomic_store_n(&self->successor, (queue *)successor, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&self->freed);
    pthread_cond_broadcast(&self->cancelled);
    pthread_mutex_unlock(&self->lock);
    for (entry *passed; (passed = pop(self));) {
        if (!pass_on(self, passed, false)) {
            pthread_mutex_lock(&self->lock);
            line_return(self, passed);
            pthread_mutex_unlock(&self->lock);
            break;
        }
    }
}

bool ss_queue_pass_on(ss_consumer *consumer, ss_queue_item *item) {
    queue *self = (queue *)consumer;
    pthread_mutex_lock(&self->lock);
    bool has_given_up = self->has_given_up;
    pthread_mutex_unlock(&self->lock);
    if (has_given_up || !pass_on(self, item->handle, true)) {
        return false;
    }
    *item = (ss_queue_item){0};
    return true;
}

void ss_queue_put_back(ss_consumer *consumer, ss_queue_item *item, uint64_t not_before_ns) {
    queue *self = (queue *)consumer;
    entry *returned = item->handle;
    *item = (ss_queue_item){0};
    pthread_mutex_lock(&self->lock);
    give_bell(self, returned);
    returned->bell = NULL;
    returned->not_before_ns = not_before_ns;
    self->stats.in_flight_requests--;
    line_return(self, returned);
    pthread_mutex_unlock(&self->lock);
}

/* ---------------------------------------------------------------- out, and what became of it */

/* Closed, and nothing more will come. Called with the lock. */
static bool is_over(const queue *self) {
    return self->stats.is_closed && !self->n_filling;
}

ss_status ss_queue_pop(ss_consumer *consumer, uint64_t timeout_ns, ss_queue_item *item) {
    queue *self = (queue *)consumer;
    struct timespec deadline = ss_clock_timespec(ss_clock_deadline(timeout_ns));
    pthread_mutex_lock(&self->lock);
    while (!self->first && !is_over(self)) {
        if (pthread_cond_timedwait(&self->filled, &self->lock, &deadline)) {
            break;
        }
    }
    entry *taken = self->first;
    ss_status status = taken ? SS_OK : is_over(self) ? SS_ERR_CLOSED : SS_ERR_TIMEOUT;
    if (taken) {
        line_remove(self, taken);
        taken->is_popped = true;
        taken->bell = taken->pledge.promise ? take_bell(self) : NULL;
        if (taken->is_cancelled) {
            ring(taken->bell);
        }
        self->stats.in_flight_requests++;
        *item = (ss_queue_item){.bytes = taken->bytes.data,
                                .length = taken->bytes.length,
                                .encoding = taken->encoding,
                                .original_length = taken->original_length,
                                .n_items = taken->n_items,
                                .deadline_ns = taken->deadline_ns,
                                .not_before_ns = taken->not_before_ns,
                                .cancel_fd = taken->bell ? taken->bell->fd : -1,
                                .handle = taken};
    }
    pthread_mutex_unlock(&self->lock);
    return status;
}

void ss_queue_hold_answers(ss_consumer *consumer, uint64_t waiting_max) {
    queue *self = (queue *)consumer;
    self->holds_answers = true;
    self->waiting_max = waiting_max;
}

/* Count what became of an entry. Called with the lock. */
static void count(queue *self, const entry *gone, const ss_verdict *verdict, uint64_t bytes_sent) {
    if (verdict->code != SS_CODE_OK) {
        self->stats.failed_items += gone->n_items;
        return;
    }
    self->stats.sent_items += gone->n_items;
    self->stats.sent_bytes += bytes_sent;
    self->stats.uncompressed_bytes += gone->original_length;
    self->stats.rejected_items += verdict->rejected_items;
}

bool ss_queue_done(ss_consumer *consumer, ss_queue_item *item, const ss_verdict *verdict, uint64_t bytes_sent) {
    queue *self = (queue *)consumer;
    entry *gone = item->handle;
    if (!gone) {
        return false;
    }
    *item = (ss_queue_item){0};
    pthread_mutex_lock(&self->lock);
    bool is_counted = !self->has_given_up;
    if (is_counted && verdict) {
        count(self, gone, verdict, bytes_sent);
    }
    free_place(self, gone);
    give_bell(self, gone);
    gone->bell = NULL; /* its client may still go */
    self->stats.in_flight_requests--;
    pthread_mutex_unlock(&self->lock);
    answer(gone, verdict);
    discard(self, gone);
    return is_counted;
}

uint64_t ss_queue_give_up(ss_consumer *consumer) {
    queue *self = (queue *)consumer;
    pthread_mutex_lock(&self->lock);
    uint64_t left = self->has_given_up ? 0 : self->stats.items;
    self->has_given_up = true;
    self->stats.failed_items += left;
    pthread_mutex_unlock(&self->lock);
    return left;
}

void ss_queue_close(ss_consumer *consumer) {
    queue *self = (queue *)consumer;
    pthread_mutex_lock(&self->lock);
    self->stats.is_closed = true;
    pthread_cond_broadcast(&self->filled);
    pthread_cond_broadcast(&self->freed);
    pthread_cond_broadcast(&self->cancelled);
    pthread_mutex_unlock(&self->lock);
}

void ss_queue_read_stats(const ss_consumer *consumer, ss_queue_stats *stats) {
    queue *self = (queue *)(uintptr_t)consumer; /* the lock is no part of what const promises */
    pthread_mutex_lock(&self->lock);
    *stats = self->stats;
    stats->capacity = self->capacity;
    pthread_mutex_unlock(&self->lock);
}

static void queue_free(ss_consumer *consumer) {
    queue *self = (queue *)consumer;
    for (entry *left; (left = pop(self));) {
        answer(left, NULL);
        discard(self, left);
    }
    for (press *next, *left = self->presses; left; left = next) {
        next = left->next;
        free_press(left);
    }
    for (bell *next, *left = self->bells; left; left = next) {
        next = left->next;
        close(left->fd);
        free(left);
    }
    pthread_cond_destroy(&self->filled);
    pthread_cond_destroy(&self->freed);
    pthread_cond_destroy(&self->cancelled);
    pthread_mutex_destroy(&self->lock);
    ss_runtime_free(self->runtime);
    free(self);
}

static const ss_consumer_vtable queue_vtable = {queue_consume, queue_free};

ss_consumer *ss_queue_new(ss_runtime *runtime, ss_signal signal, ss_queue_sizer sizer, uint64_t capacity,
                          bool block_on_overflow, ss_error *error) {
    if (!capacity) {
        *error = (ss_error){SS_ERR_ARGUMENT, 0, "`queue_size` must be positive"};
        return NULL;
    }
    queue *self = calloc(1, sizeof *self);
    if (!self) {
        *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
        return NULL;
    }
    self->consumer = (ss_consumer){&queue_vtable, signal};
    self->runtime = ss_runtime_hold(runtime);
    self->sizer = sizer;
    self->capacity = capacity;
    self->block_on_overflow = block_on_overflow;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->filled, &monotonic);
    pthread_cond_init(&self->freed, &monotonic);
    pthread_cond_init(&self->cancelled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return &self->consumer;
}
