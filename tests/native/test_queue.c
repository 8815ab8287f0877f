/* The sending queue: what waits in it, compressed or not, and what becomes of it at the end; the batch before it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "made_request.h"
#include "plan/consumer.h"
#include "spansieve.h"

typedef struct setup {
    ss_runtime *runtime;
    ss_worker *worker;
    ss_consumer *queue;
    ss_codec *codec;
} setup;

static setup set_up(ss_queue_sizer sizer, uint64_t capacity) {
    ss_error error;
    setup s = {.runtime = ss_runtime_new(), .codec = ss_codec_new()};
    s.worker = ss_worker_new(s.runtime);
    s.queue = ss_queue_new(s.runtime, SS_SIGNAL_TRACES, sizer, capacity, false, &error);
    return s;
}

static void tear_down(setup *s) {
    ss_consumer_free(s->queue);
    ss_worker_free(s->worker);
    ss_codec_free(s->codec);
    ss_runtime_free(s->runtime);
}

static ss_status push(setup *s, const ss_buffer *request) {
    ss_verdict verdict;
    return ss_consumer_push(s->queue, s->worker, request->data, request->length, &verdict);
}

/* Whether the oldest request is this one, in encoding; takes it out. */
static bool next_is(setup *s, const ss_buffer *request, ss_encoding encoding) {
    ss_queue_item item;
    ss_buffer plain = {0};
    ss_error error;
    if (ss_queue_pop(s->queue, 0, &item) != SS_OK) {
        return false;
    }
    bool same = item.encoding == encoding && item.original_length == request->length &&
                ss_decompress(s->codec, encoding, item.bytes, item.length, request->length, &plain, &error) == SS_OK &&
                plain.length == request->length && memcmp(plain.data, request->data, plain.length) == 0;
    ss_buffer_free(&plain);
    ss_queue_done(s->queue, &item, &(ss_verdict){0}, 0);
    return same;
}

/* Each request waits as was asked for when it came, and comes out whole. */
static void test_compression_may_change(void) {
    setup s = set_up(SS_SIZER_REQUESTS, 100);
    static const ss_encoding encodings[] = {SS_ENCODING_IDENTITY, SS_ENCODING_ZSTD, SS_ENCODING_GZIP, SS_ENCODING_ZLIB,
                                            SS_ENCODING_IDENTITY};
    enum { N = sizeof encodings / sizeof encodings[0] };
    ss_buffer requests[N];
    for (uint32_t i = 0; i < N; i++) {
        requests[i] = make_request(i * 50 + 1);
        CHECK_EQUAL(SS_OK, ss_queue_set_compression(s.queue, encodings[i], 0));
        CHECK_EQUAL(SS_OK, push(&s, &requests[i]));
    }
    for (uint32_t i = 0; i < N; i++) {
        CHECK(next_is(&s, &requests[i], encodings[i]));
        ss_buffer_free(&requests[i]);
    }
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    tear_down(&s);
}

/* What the compression does not have is refused, and the one before stays. */
static void test_a_wrong_level_changes_nothing(void) {
    setup s = set_up(SS_SIZER_REQUESTS, 100);
    ss_buffer request = make_request(3);
    CHECK_EQUAL(SS_OK, ss_queue_set_compression(s.queue, SS_ENCODING_ZSTD, 3));
    CHECK_EQUAL(SS_ERR_ARGUMENT, ss_queue_set_compression(s.queue, SS_ENCODING_ZSTD, 100));
    CHECK_EQUAL(SS_ERR_ARGUMENT, ss_queue_set_compression(s.queue, SS_ENCODING_GZIP, 10));
    CHECK_EQUAL(SS_OK, push(&s, &request));
    CHECK(next_is(&s, &request, SS_ENCODING_ZSTD));
    ss_buffer_free(&request);
    tear_down(&s);
}

/* The capacity in bytes is that of uncompressed requests, as the Collector counts; memory is what really waits. */
static void test_bytes_are_counted_before_compression(void) {
    ss_buffer request = make_request(200);
    setup s = set_up(SS_SIZER_BYTES, 2 * request.length + 1);
    CHECK_EQUAL(SS_OK, ss_queue_set_compression(s.queue, SS_ENCODING_ZSTD, 0));
    CHECK_EQUAL(SS_OK, push(&s, &request));
    CHECK_EQUAL(SS_OK, push(&s, &request));
    CHECK_EQUAL(SS_ERR_REFUSED, push(&s, &request));
    ss_queue_stats stats;
    ss_queue_read_stats(s.queue, &stats);
    CHECK_EQUAL(2 * request.length, stats.size);
    CHECK_EQUAL(400, stats.items);
    CHECK_EQUAL(200, stats.enqueue_failed_items);
    uint64_t held = ss_runtime_in_flight_bytes(s.runtime);
    CHECK(held > 0 && held < request.length / 2);
    CHECK(next_is(&s, &request, SS_ENCODING_ZSTD));
    CHECK_EQUAL(SS_OK, push(&s, &request));
    ss_buffer_free(&request);
    tear_down(&s);
}

/* Many small requests are more than their bytes. */
static void test_what_goes_around_small_requests_is_memory(void) {
    enum { MANY = 1000, AROUND = 100 };
    ss_buffer request = make_request(1);
    setup s = set_up(SS_SIZER_BYTES, 1 << 30);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQUAL(SS_OK, push(&s, &request));
    }
    CHECK(ss_runtime_in_flight_bytes(s.runtime) > MANY * (request.length + AROUND));
    for (int i = 0; i < MANY; i++) {
        CHECK(next_is(&s, &request, SS_ENCODING_IDENTITY));
    }
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    ss_buffer_free(&request);
    tear_down(&s);
}

/* What a pipeline has edited or thinned out is compressed as it goes out. */
static void test_rows_are_compressed_as_they_are_kept(void) {
    setup s = set_up(SS_SIZER_BYTES, 1 << 20);
    CHECK_EQUAL(SS_OK, ss_queue_set_compression(s.queue, SS_ENCODING_GZIP, 0));
    ss_buffer request = make_request(20), kept = {0};
    ss_table *table = ss_table_new();
    ss_error error;
    CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, request.data, request.length, table, &error));
    for (uint32_t row = 0; row < 20; row += 2) {
        table->verdict[row] = SS_DROP;
        table->n_kept--;
    }
    CHECK_EQUAL(SS_OK, ss_emit(table, 0, 20, &kept));
    ss_view view = {
        .signal = SS_SIGNAL_TRACES, .bytes = request.data, .length = request.length, .n_items = 10, .table = table};
    ss_verdict verdict;
    CHECK_EQUAL(SS_OK, ss_consume(s.queue, s.worker, &view, &verdict));
    ss_queue_stats stats;
    ss_queue_read_stats(s.queue, &stats);
    CHECK_EQUAL(kept.length, stats.size);
    CHECK(next_is(&s, &kept, SS_ENCODING_GZIP));
    ss_table_free(table);
    ss_buffer_free(&kept);
    ss_buffer_free(&request);
    tear_down(&s);
}

/* State and counts change together; what has no outcome is not counted. */
static void test_outcomes_are_counted(void) {
    setup s = set_up(SS_SIZER_REQUESTS, 100);
    ss_buffer request = make_request(10);
    const ss_verdict in_part = {.rejected_items = 3}, failed = {.code = SS_CODE_INTERNAL};
    const ss_verdict *const verdicts[] = {&in_part, &failed, NULL};
    for (int i = 0; i < 3; i++) {
        ss_queue_item item;
        CHECK_EQUAL(SS_OK, push(&s, &request));
        CHECK_EQUAL(SS_OK, ss_queue_pop(s.queue, 0, &item));
        CHECK(ss_queue_done(s.queue, &item, verdicts[i], 77));
        CHECK(!ss_queue_done(s.queue, &item, verdicts[i], 77)); /* only once */
    }
    ss_queue_stats stats;
    ss_queue_read_stats(s.queue, &stats);
    CHECK_EQUAL(10, stats.sent_items);
    CHECK_EQUAL(3, stats.rejected_items);
    CHECK_EQUAL(10, stats.failed_items);
    CHECK_EQUAL(77, stats.sent_bytes);
    CHECK_EQUAL(request.length, stats.uncompressed_bytes);
    CHECK_EQUAL(0, stats.size + stats.items + stats.in_flight_requests);
    ss_buffer_free(&request);
    tear_down(&s);
}

static ss_queue_stats stats_of(const ss_consumer *queue) {
    ss_queue_stats stats;
    ss_queue_read_stats(queue, &stats);
    return stats;
}

/* What could not be sent goes behind the others, with the time of its next attempt, and keeps its place. */
static void test_a_request_is_put_back_behind_the_others(void) {
    setup s = set_up(SS_SIZER_REQUESTS, 2);
    ss_buffer first = make_request(1), second = make_request(2);
    ss_queue_item item;
    CHECK_EQUAL(SS_OK, push(&s, &first));
    CHECK_EQUAL(SS_OK, push(&s, &second));
    CHECK_EQUAL(SS_OK, ss_queue_pop(s.queue, 0, &item));
    CHECK_EQUAL(0, item.not_before_ns);
    ss_queue_close(s.queue);
    ss_queue_put_back(s.queue, &item, 77);
    CHECK(!item.handle);
    CHECK_EQUAL(3, stats_of(s.queue).items);
    CHECK_EQUAL(0, stats_of(s.queue).in_flight_requests);
    CHECK(next_is(&s, &second, SS_ENCODING_IDENTITY));
    CHECK_EQUAL(SS_OK, ss_queue_pop(s.queue, 0, &item));
    CHECK_EQUAL(77, item.not_before_ns);
    CHECK_EQUAL(1, item.n_items);
    ss_queue_done(s.queue, &item, &(ss_verdict){0}, 0);
    CHECK_EQUAL(SS_ERR_CLOSED, ss_queue_pop(s.queue, 0, &item));
    ss_buffer_free(&first);
    ss_buffer_free(&second);
    tear_down(&s);
}

/* A successor gets what waits, what comes later, and what its threads let go of, whatever its capacity and unit are. */
static void test_a_successor_takes_over(void) {
    setup s = set_up(SS_SIZER_REQUESTS, 3);
    ss_error error;
    ss_consumer *former = s.queue;
    ss_consumer *successor = ss_queue_new(s.runtime, SS_SIGNAL_TRACES, SS_SIZER_BYTES, 1, false, &error);
    ss_buffer requests[] = {make_request(1), make_request(2), make_request(3)};
    ss_queue_item item;
    CHECK_EQUAL(SS_OK, ss_queue_set_compression(former, SS_ENCODING_ZSTD, 0));
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(SS_OK, push(&s, &requests[i]));
    }
    CHECK_EQUAL(SS_OK, ss_queue_pop(former, 0, &item));
    CHECK(!ss_queue_pass_on(former, &item)); /* to nobody yet */
    ss_queue_hand_over(former, successor);
    CHECK_EQUAL(1, stats_of(former).items);
    CHECK_EQUAL(5, stats_of(successor).items);
    CHECK_EQUAL(requests[1].length + requests[2].length, stats_of(successor).size);
    CHECK(ss_queue_pass_on(former, &item));
    CHECK_EQUAL(0, stats_of(former).items + stats_of(former).size + stats_of(former).in_flight_requests);
    CHECK_EQUAL(SS_ERR_LIMIT, push(&s, &requests[0])); /* by the successor's capacity */
    s.queue = successor;
    CHECK(next_is(&s, &requests[1], SS_ENCODING_ZSTD));
    CHECK(next_is(&s, &requests[2], SS_ENCODING_ZSTD));
    CHECK(next_is(&s, &requests[0], SS_ENCODING_ZSTD));
    CHECK_EQUAL(6, stats_of(successor).sent_items);
    CHECK_EQUAL(0, stats_of(successor).size);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    for (int i = 0; i < 3; i++) {
        ss_buffer_free(&requests[i]);
    }
    ss_consumer_free(former);
    tear_down(&s);
}

/* One that is at its end takes nothing, and the former does its work itself, within its own capacity. */
static void test_a_closed_successor_takes_nothing(void) {
    setup s = set_up(SS_SIZER_REQUESTS, 2);
    ss_error error;
    ss_consumer *successor = ss_queue_new(s.runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 9, false, &error);
    ss_buffer request = make_request(1);
    ss_queue_item item;
    CHECK_EQUAL(SS_OK, push(&s, &request));
    CHECK_EQUAL(SS_OK, ss_queue_pop(s.queue, 0, &item));
    CHECK_EQUAL(SS_OK, push(&s, &request));
    ss_queue_close(successor);
    ss_queue_hand_over(s.queue, successor);
    CHECK(!ss_queue_pass_on(s.queue, &item));
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_queue_wait(s.queue, &item, 1, true));
    CHECK_EQUAL(SS_ERR_REFUSED, push(&s, &request));
    CHECK_EQUAL(2, stats_of(s.queue).items);
    ss_queue_done(s.queue, &item, &(ss_verdict){0}, 0);
    CHECK(next_is(&s, &request, SS_ENCODING_IDENTITY));
    ss_buffer_free(&request);
    ss_consumer_free(successor);
    tear_down(&s);
}

typedef struct pusher {
    setup *setup;
    const ss_buffer *request;
    atomic_ullong *taken;
} pusher;

static void *push_until_closed(void *argument) {
    pusher *self = argument;
    ss_worker *worker = ss_worker_new(self->setup->runtime);
    ss_verdict verdict;
    const ss_buffer *request = self->request;
    for (;;) {
        ss_status status = ss_consumer_push(self->setup->queue, worker, request->data, request->length, &verdict);
        if (status == SS_OK) {
            *self->taken += 1;
        } else if (strcmp(verdict.message, "sending queue is stopped") == 0) {
            break;
        }
    }
    ss_worker_free(worker);
    return NULL;
}

static void *pop_until_closed(void *argument) {
    setup *s = argument;
    uint64_t popped = 0;
    ss_queue_item item;
    for (;;) {
        ss_status status = ss_queue_pop(s->queue, 1000000, &item);
        if (status == SS_OK) {
            popped++;
            ss_queue_done(s->queue, &item, &(ss_verdict){0}, 0);
        } else if (status == SS_ERR_CLOSED) {
            return (void *)(uintptr_t)popped;
        }
    }
}

/* Threads bring and take while it is closed: whatever was taken in comes out, since closed is said only after the last
 * one has been written. */
static void test_nothing_is_lost_at_the_end(void) {
    enum { THREADS = 3, ROUNDS = 20 };
    ss_buffer request = make_request(100);
    for (int round = 0; round < ROUNDS; round++) {
        setup s = set_up(SS_SIZER_REQUESTS, 8);
        CHECK_EQUAL(SS_OK, ss_queue_set_compression(s.queue, SS_ENCODING_ZSTD, 0));
        atomic_ullong taken = 0;
        pusher self = {&s, &request, &taken};
        pthread_t pushers[THREADS], poppers[2];
        for (int i = 0; i < THREADS; i++) {
            pthread_create(&pushers[i], NULL, push_until_closed, &self);
        }
        for (int i = 0; i < 2; i++) {
            pthread_create(&poppers[i], NULL, pop_until_closed, &s);
        }
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        ss_queue_close(s.queue);
        uint64_t popped = 0;
        for (int i = 0; i < 2; i++) {
            void *count;
            pthread_join(poppers[i], &count);
            popped += (uintptr_t)count;
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(pushers[i], NULL);
        }
        CHECK_EQUAL(taken, popped);
        CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
        tear_down(&s);
    }
    ss_buffer_free(&request);
}

/* An output that takes its time, as compression does. */
typedef struct slow_output {
    ss_consumer consumer;
    atomic_ullong items;
} slow_output;

static ss_status take_slowly(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker, (void)verdict;
    nanosleep(&(struct timespec){0, 10000000}, NULL);
    ((slow_output *)consumer)->items += view->n_items;
    return SS_OK;
}

static void free_nothing(ss_consumer *consumer) {
    (void)consumer;
}

/* Who brings more than the batch's thread can pass on is made to wait, not refused, and memory stays bounded. */
static void test_a_late_thread_slows_down_who_brings(void) {
    enum { REQUESTS = 200 };
    static const ss_consumer_vtable vtable = {take_slowly, free_nothing};
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    slow_output output = {.consumer = {&vtable, SS_SIGNAL_TRACES}};
    ss_consumer *outputs[] = {&output.consumer};
    const ss_batch_config config = {.timeout_ns = 1000000000, .send_batch_size = 20000};
    ss_error error;
    ss_verdict verdict;
    ss_consumer *batch = ss_batch_new(runtime, SS_SIGNAL_TRACES, &config, outputs, 1, &error);
    ss_buffer request = make_request(10000); /* 600 kB; two make a batch */
    uint64_t most = 0;
    for (int i = 0; i < REQUESTS; i++) {
        CHECK_EQUAL(SS_OK, ss_consumer_push(batch, worker, request.data, request.length, &verdict));
        uint64_t held = ss_runtime_in_flight_bytes(runtime);
        most = held > most ? held : most;
    }
    CHECK(most < 8 << 20); /* of 120 MB */
    CHECK_EQUAL(SS_OK, ss_batch_drain(batch, UINT64_MAX));
    CHECK_EQUAL(REQUESTS * 10000, output.items);
    ss_consumer_free(batch);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
    ss_buffer_free(&request);
}

int main(void) {
    test_compression_may_change();
    test_a_wrong_level_changes_nothing();
    test_bytes_are_counted_before_compression();
    test_what_goes_around_small_requests_is_memory();
    test_rows_are_compressed_as_they_are_kept();
    test_outcomes_are_counted();
    test_a_request_is_put_back_behind_the_others();
    test_a_successor_takes_over();
    test_a_closed_successor_takes_nothing();
    test_nothing_is_lost_at_the_end();
    test_a_late_thread_slows_down_who_brings();
    return check_finish();
}
