/* The graph of consumers: routing, batches, queues, grace periods, and the counts that must add up. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "made_request.h"
#include "plan/consumer.h"
#include "spansieve.h"

static ss_code accept(ss_receiver *receiver, ss_worker *worker, const ss_buffer *request) {
    ss_verdict verdict;
    const ss_request wire = {SS_SIGNAL_TRACES, SS_TRANSPORT_GRPC, SS_PAYLOAD_PROTOBUF, request->data, request->length};
    ss_receiver_accept(receiver, worker, &wire, &verdict);
    return verdict.code;
}

static uint64_t drain_items(ss_consumer *queue, uint32_t *requests, size_t *largest) {
    ss_queue_item item;
    uint64_t items = 0;
    while (ss_queue_pop(queue, 0, &item) == SS_OK) {
        items += item.n_items;
        *requests += 1;
        *largest = item.length > *largest ? item.length : *largest;
        ss_queue_done(queue, &item, &(ss_verdict){0}, 0);
    }
    return items;
}

static void test_receiver_routes_and_counts(void) {
    ss_error error;
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_receiver *receiver = ss_receiver_new(runtime, SS_INVALID_REJECT_ITEM);
    ss_consumer *queue = ss_queue_new(runtime, SS_SIGNAL_TRACES, SS_SIZER_ITEMS, 5, false, &error);
    ss_buffer three = make_request(3);
    ss_buffer bad = {(uint8_t *)"\x0a\x05zz", 4, 0};
    ss_buffer empty = {0};
    ss_receiver_stats stats;

    CHECK_EQUAL(SS_CODE_UNIMPLEMENTED, accept(receiver, worker, &three));
    ss_receiver_publish(receiver, SS_SIGNAL_TRACES, queue);
    CHECK_EQUAL(SS_CODE_OK, accept(receiver, worker, &three));
    CHECK_EQUAL(SS_CODE_UNAVAILABLE, accept(receiver, worker, &three)); /* 6 > 5 items */
    CHECK_EQUAL(SS_CODE_INVALID_ARGUMENT, accept(receiver, worker, &bad));
    CHECK_EQUAL(SS_CODE_OK, accept(receiver, worker, &empty));
    ss_receiver_read_stats(receiver, &stats);
    CHECK_EQUAL(3, stats.accepted[SS_SIGNAL_TRACES][SS_TRANSPORT_GRPC]);
    CHECK_EQUAL(3, stats.refused[SS_SIGNAL_TRACES][SS_TRANSPORT_GRPC]);
    CHECK_EQUAL(1, stats.malformed[SS_SIGNAL_TRACES][SS_TRANSPORT_GRPC]);
    CHECK_EQUAL(5, stats.requests[SS_SIGNAL_TRACES][SS_TRANSPORT_GRPC]);

    ss_queue_item item;
    CHECK_EQUAL(SS_OK, ss_queue_pop(queue, 0, &item));
    CHECK_EQUAL(three.length, item.length);
    CHECK(memcmp(three.data, item.bytes, item.length) == 0);
    CHECK(ss_runtime_in_flight_bytes(runtime) >= three.length);
    CHECK_EQUAL(SS_CODE_UNAVAILABLE, accept(receiver, worker, &three)); /* popped is not done */
    ss_queue_done(queue, &item, &(ss_verdict){0}, 0);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(runtime));
    CHECK_EQUAL(SS_CODE_OK, accept(receiver, worker, &three));
    ss_queue_close(queue);
    CHECK_EQUAL(SS_CODE_UNAVAILABLE, accept(receiver, worker, &three));
    CHECK_EQUAL(SS_OK, ss_queue_pop(queue, 0, &item));
    ss_queue_done(queue, &item, &(ss_verdict){0}, 0);
    CHECK_EQUAL(SS_ERR_CLOSED, ss_queue_pop(queue, 0, &item));

    ss_receiver_free(receiver);
    ss_consumer_free(queue);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
    ss_buffer_free(&three);
}

typedef struct batch_case {
    ss_batch_config config;
    uint32_t spans; /* of each request */
    uint32_t requests;
    uint32_t batches; /* expected */
    size_t largest;   /* bytes at most in one; 0: not looked at */
} batch_case;

static void test_batch_sizes(void) {
    const uint64_t never = 3600u * 1000000000ull;
    const batch_case cases[] = {
        {{never, 10, 0, 0}, 4, 5, 2, 0},          /* 12 at the third, the rest at drain */
        {{never, 10, 10, 0}, 4, 5, 2, 0},         /* exactly 10 and 10 */
        {{never, 10, 10, 0}, 25, 1, 3, 0},        /* 10, 10, 5 */
        {{0, 10, 0, 0}, 4, 5, 5, 0},              /* no timeout: each at once */
        {{never, 0, 0, 0}, 4, 5, 5, 0},           /* no size: each at once */
        {{never, 100, 0, 1000}, 100, 1, 7, 1000}, /* 16 spans and 12 bytes of framing fit */
        {{never, 1000, 0, 30}, 3, 1, 3, 0},       /* each span alone is larger than the limit */
        {{never, 1000, 0, 1000}, 10, 3, 3, 1000}, /* two requests of 612 do not fit into one */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const batch_case *c = &cases[i];
        ss_error error;
        ss_verdict verdict;
        ss_runtime *runtime = ss_runtime_new();
        ss_worker *worker = ss_worker_new(runtime);
        ss_consumer *queue = ss_queue_new(runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 100, false, &error);
        ss_consumer *batch = ss_batch_new(runtime, SS_SIGNAL_TRACES, &c->config, &queue, 1, &error);
        ss_buffer request = make_request(c->spans);
        ss_batch_stats stats;
        for (uint32_t n = 0; n < c->requests; n++) {
            /* However late the batch's thread is: nothing behind it refuses. */
            CHECK_EQUAL(SS_OK, ss_consumer_push(batch, worker, request.data, request.length, &verdict));
        }
        CHECK_EQUAL(SS_OK, ss_batch_drain(batch, never));
        ss_batch_read_stats(batch, &stats);
        uint32_t batches = 0;
        size_t largest = 0;
        CHECK_EQUAL(c->spans * c->requests, drain_items(queue, &batches, &largest));
        CHECK_EQUAL(c->batches, batches);
        CHECK(c->largest == 0 || largest <= c->largest);
        CHECK_EQUAL(c->spans * c->requests, stats.sent_items);
        CHECK_EQUAL(0, stats.pending_items);
        CHECK_EQUAL(0, ss_runtime_in_flight_bytes(runtime));
        CHECK_EQUAL(SS_ERR_REFUSED, ss_consumer_push(batch, worker, request.data, request.length, &verdict));
        ss_consumer_free(batch);
        ss_consumer_free(queue);
        ss_worker_free(worker);
        ss_runtime_free(runtime);
        ss_buffer_free(&request);
    }
}

typedef struct hostile_case {
    uint32_t spans;
    uint32_t resource_bytes; /* an attribute of the resource, repeated in each batch */
    ss_batch_config config;
    uint64_t bytes_max; /* of all batches */
} hostile_case;

typedef struct sink {
    ss_consumer consumer;
    atomic_ullong bytes;
    atomic_ullong items;
} sink;

static ss_status sink_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker;
    (void)verdict;
    ((sink *)consumer)->bytes += view->length;
    ((sink *)consumer)->items += view->n_items;
    return SS_OK;
}

static const ss_consumer_vtable sink_vtable = {sink_consume, NULL};

/* However a request is to be split, memory does not grow with the square of what was sent. Nor does time, says
 * test_growth.c. */
static void test_batch_bounds_the_cost_of_splitting(void) {
    enum { MIB = 1 << 20 };
    const uint64_t never = 3600u * 1000000000ull;
    const hostile_case cases[] = {
        {100000, 0, {never, 2, 2, 0}, 32 * MIB},                 /* very many parts, */
        {100000, 0, {never, 1000000, 0, 200}, 32 * MIB},         /* by bytes, */
        {20000, MIB, {never, 1, 1, 0}, 160 * MIB},               /* each with a large resource, */
        {20000, MIB, {never, 1000000, 0, MIB / 2}, 5 * MIB},     /* larger than a batch may be, */
        {20000, MIB, {never, 1000000, 0, MIB + 100}, 160 * MIB}, /* or nearly as large */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const hostile_case *c = &cases[i];
        ss_error error;
        ss_verdict verdict;
        sink out = {.consumer = {&sink_vtable, SS_SIGNAL_TRACES}};
        ss_consumer *outputs[] = {&out.consumer};
        ss_runtime *runtime = ss_runtime_new();
        ss_worker *worker = ss_worker_new(runtime);
        ss_consumer *batch = ss_batch_new(runtime, SS_SIGNAL_TRACES, &c->config, outputs, 1, &error);
        ss_buffer spans = make_request(c->spans);
        ss_buffer request = {0};
        /* The resource is a message of its own in front of the ScopeSpans: field 1 of ResourceSpans, length padded. */
        ss_buffer_append(&request, spans.data, 6);
        if (c->resource_bytes) {
            const uint32_t n = c->resource_bytes - 12;
            const uint32_t lengths[] = {n + 6, n}; /* of the resource; of an unknown field in it */
            for (int level = 0; level < 2; level++) {
                uint8_t head[6] = {level == 0 ? 0x0a : 0x7a};
                for (int byte = 0; byte < 5; byte++) {
                    head[1 + byte] = (uint8_t)((lengths[level] >> (7 * byte) & 0x7f) | (byte < 4 ? 0x80 : 0));
                }
                ss_buffer_append(&request, head, sizeof head);
            }
            ss_buffer_reserve(&request, n);
            memset(request.data + request.length, 'r', n);
            request.length += n;
            for (int byte = 0; byte < 5; byte++) {
                request.data[1 + byte] =
                    (uint8_t)(((c->resource_bytes + spans.length - 6) >> (7 * byte) & 0x7f) | (byte < 4 ? 0x80 : 0));
            }
        }
        ss_buffer_append(&request, spans.data + 6, spans.length - 6);
        CHECK_EQUAL(SS_OK, ss_consumer_push(batch, worker, request.data, request.length, &verdict));
        CHECK_EQUAL(SS_OK, ss_batch_drain(batch, never));
        CHECK_EQUAL(c->spans, out.items);
        CHECK(out.bytes <= c->bytes_max);
        ss_consumer_free(batch);
        ss_worker_free(worker);
        ss_runtime_free(runtime);
        ss_buffer_free(&spans);
        ss_buffer_free(&request);
    }
}

/* A full queue behind a batch: requests are refused while two batches wait for it, and none that was taken is lost. */
static void test_batch_refuses_instead_of_losing(void) {
    ss_error error;
    ss_verdict verdict;
    const ss_batch_config config = {1000000, 10, 0, 0};
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_consumer *queue = ss_queue_new(runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 1, false, &error);
    ss_consumer *batch = ss_batch_new(runtime, SS_SIGNAL_TRACES, &config, &queue, 1, &error);
    ss_buffer request = make_request(10);
    uint64_t taken = 0;
    uint64_t refused = 0;
    uint64_t received = 0;
    uint32_t batches = 0;
    size_t largest = 0;
    for (int i = 0; i < 2000 || refused == 0; i++) {
        ss_status status = ss_consumer_push(batch, worker, request.data, request.length, &verdict);
        taken += status == SS_OK ? 10 : 0;
        refused += status != SS_OK;
        CHECK(status == SS_OK || verdict.code == SS_CODE_UNAVAILABLE);
        if (i % 7 == 0) {
            received += drain_items(queue, &batches, &largest);
        }
    }
    for (ss_batch_stats stats;;) {
        received += drain_items(queue, &batches, &largest);
        ss_batch_read_stats(batch, &stats);
        if (!stats.pending_items) {
            break;
        }
    }
    received += drain_items(queue, &batches, &largest);
    CHECK(refused > 0);
    CHECK_EQUAL(taken, received);
    ss_consumer_free(batch);
    ss_consumer_free(queue);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
    ss_buffer_free(&request);
}

typedef struct load {
    ss_runtime *runtime;
    ss_receiver *receiver;
    const ss_buffer *request;
    atomic_bool stop;
    atomic_ullong taken;
} load;

static void *push_until_stopped(void *argument) {
    load *self = argument;
    ss_worker *worker = ss_worker_new(self->runtime);
    while (!self->stop) {
        if (accept(self->receiver, worker, self->request) == SS_CODE_OK) {
            self->taken += 7;
        }
    }
    ss_worker_free(worker);
    return NULL;
}

/* A batch in front of a queue that waits for room: with nobody to empty it the drain still ends, and says that it
 * lost what it had. A drain without a limit, and a pop without one, wait. */
static void test_drain_ends_before_a_queue_that_blocks(void) {
    ss_error error;
    ss_verdict verdict;
    const ss_batch_config config = {0, 0, 0, 0};
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_consumer *queue = ss_queue_new(runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 1, true, &error);
    ss_consumer *batch = ss_batch_new(runtime, SS_SIGNAL_TRACES, &config, &queue, 1, &error);
    ss_buffer request = make_request(3);
    ss_batch_stats stats;
    ss_queue_item item;
    CHECK_EQUAL(SS_OK, ss_consumer_push(batch, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(SS_OK, ss_queue_pop(queue, UINT64_MAX, &item)); /* keeps its place */
    CHECK_EQUAL(SS_OK, ss_consumer_push(batch, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_batch_drain(batch, 1));
    ss_batch_read_stats(batch, &stats);
    ss_queue_stats queue_stats;
    ss_queue_read_stats(queue, &queue_stats);
    CHECK_EQUAL(0, queue_stats.enqueue_failed_items); /* the batch has counted what it gave up */
    CHECK_EQUAL(3, stats.sent_items);
    CHECK_EQUAL(3, stats.failed_items);
    ss_queue_done(queue, &item, &(ss_verdict){0}, 0);
    ss_consumer_free(batch);
    batch = ss_batch_new(runtime, SS_SIGNAL_TRACES, &config, &queue, 1, &error);
    CHECK_EQUAL(SS_OK, ss_consumer_push(batch, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(SS_OK, ss_batch_drain(batch, UINT64_MAX));
    ss_consumer_free(batch);
    ss_consumer_free(queue);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
    ss_buffer_free(&request);
}

/* Routes are swapped and old graphs freed while three threads push: every span taken is counted exactly once. */
static void test_reload_under_load(void) {
    enum { THREADS = 3, RELOADS = 60 };
    ss_error error;
    ss_buffer request = make_request(7);
    load shared = {.runtime = ss_runtime_new(), .request = &request};
    shared.receiver = ss_receiver_new(shared.runtime, SS_INVALID_REJECT_ITEM);
    const ss_batch_config config = {1000000, 100, 100, 4000};
    ss_consumer *discard = ss_discard_new(SS_SIGNAL_TRACES);
    const uint8_t rules[] = {SS_SIGN_NAME};
    const char *const names[] = {"absent"};
    const ss_low_value_config filter = {.names = names, .n_names = 1, .rules = rules, .n_rules = 1};
    ss_op *op = ss_low_value_new(&filter, &error);
    pthread_t threads[THREADS];
    ss_consumer *old[3] = {NULL, NULL, NULL};
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, push_until_stopped, &shared);
    }
    for (int i = 0; i < RELOADS; i++) {
        ss_consumer *batch = ss_batch_new(shared.runtime, SS_SIGNAL_TRACES, &config, &discard, 1, &error);
        ss_consumer *outputs[] = {ss_pipeline_new(SS_SIGNAL_TRACES, &op, 1, batch)};
        ss_consumer *fanout = ss_fanout_new(SS_SIGNAL_TRACES, outputs, 1);
        ss_receiver_publish(shared.receiver, SS_SIGNAL_TRACES, fanout);
        ss_runtime_synchronize(shared.runtime);
        ss_consumer_free(old[0]);
        ss_consumer_free(old[1]);
        if (old[2]) {
            CHECK_EQUAL(SS_OK, ss_batch_drain(old[2], 10000000000u));
        }
        ss_consumer_free(old[2]);
        old[0] = fanout;
        old[1] = outputs[0];
        old[2] = batch;
    }
    shared.stop = true;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQUAL(SS_OK, ss_batch_drain(old[2], 10000000000u));
    CHECK_EQUAL(shared.taken, ss_discard_items(discard));
    CHECK(shared.taken > 0);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(shared.runtime));
    for (int i = 0; i < 3; i++) {
        ss_consumer_free(old[i]);
    }
    ss_op_free(op);
    ss_consumer_free(discard);
    ss_receiver_free(shared.receiver);
    ss_runtime_free(shared.runtime);
    ss_buffer_free(&request);
}

/* A pushed-back request must not count as dropped: the client sends it again. */
static void test_refused_request_leaves_no_count(void) {
    ss_error error;
    ss_verdict verdict;
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_consumer *queue = ss_queue_new(runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 1, false, &error);
    const uint8_t rules[] = {SS_SIGN_SHORT};
    const ss_low_value_config config = {.min_duration_ns = 5, .rules = rules, .n_rules = 1};
    ss_op *op = ss_low_value_new(&config, &error);
    ss_consumer *pipeline = ss_pipeline_new(SS_SIGNAL_TRACES, &op, 1, queue);
    ss_buffer request = make_request(3);
    /* All three are short; the last becomes long: end time, field 8, appended to the message's last span by hand is
     * awkward, so two requests are joined instead, the second of which has one span with an end time. */
    const uint8_t slow[] = {0x0a, 0x0d, 0x12, 0x0b, 0x12, 0x09, 0x41, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0};
    ss_buffer_append(&request, slow, sizeof slow);
    CHECK_EQUAL(SS_OK, ss_consumer_push(pipeline, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(3, ss_op_counter(op, 0));
    CHECK_EQUAL(SS_ERR_REFUSED, ss_consumer_push(pipeline, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(3, ss_op_counter(op, 0));
    CHECK_EQUAL(1, ss_pipeline_outgoing_items(pipeline));
    ss_consumer_free(pipeline);
    ss_consumer_free(queue);
    ss_op_free(op);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
    ss_buffer_free(&request);
}

/* Two outputs behind a pipeline that drops nothing share its table: its counts come once, and not from a refusal. */
static void test_fanout_keeps_the_counts_of_the_pipeline_before_it(void) {
    ss_error error;
    ss_verdict verdict;
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_op *first = ss_memory_limiter_new(runtime, 1 << 30, 1 << 30, &error);
    ss_op *behind = ss_memory_limiter_new(runtime, 1 << 30, 1 << 30, &error);
    ss_consumer *queue = ss_queue_new(runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 1, false, &error);
    ss_consumer *discard = ss_discard_new(SS_SIGNAL_TRACES);
    ss_consumer *outputs[] = {ss_pipeline_new(SS_SIGNAL_TRACES, &behind, 1, discard), queue};
    ss_consumer *fanout = ss_fanout_new(SS_SIGNAL_TRACES, outputs, 2);
    ss_consumer *pipeline = ss_pipeline_new(SS_SIGNAL_TRACES, &first, 1, fanout);
    ss_buffer request = make_request(3);

    CHECK_EQUAL(SS_OK, ss_consumer_push(pipeline, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(3, ss_op_counter(first, SS_MEMORY_LIMITER_ACCEPTED));
    CHECK_EQUAL(3, ss_op_outgoing_items(first));
    CHECK_EQUAL(3, ss_op_counter(behind, SS_MEMORY_LIMITER_ACCEPTED));
    CHECK_EQUAL(SS_ERR_REFUSED, ss_consumer_push(pipeline, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(3, ss_op_counter(first, SS_MEMORY_LIMITER_ACCEPTED));  /* the queue was full */
    CHECK_EQUAL(6, ss_op_counter(behind, SS_MEMORY_LIMITER_ACCEPTED)); /* its output took them */

    ss_consumer_free(pipeline);
    ss_consumer_free(fanout);
    ss_consumer_free(outputs[0]);
    ss_consumer_free(queue);
    ss_consumer_free(discard);
    ss_op_free(first);
    ss_op_free(behind);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
    ss_buffer_free(&request);
}

/* A fan-out behind a batch is handed bytes without a table: where they cannot be read it refuses them. */
static void test_fanout_refuses_what_it_cannot_read(void) {
    ss_verdict verdict = {0};
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_consumer *discard = ss_discard_new(SS_SIGNAL_TRACES);
    ss_consumer *fanout = ss_fanout_new(SS_SIGNAL_TRACES, &discard, 1);
    const ss_view too_long = {SS_SIGNAL_TRACES, (const uint8_t *)"", (size_t)INT32_MAX + 1, 1, NULL, false};
    CHECK_EQUAL(SS_ERR_ARGUMENT, ss_consume(fanout, worker, &too_long, &verdict));
    CHECK_EQUAL(0, ss_discard_items(discard));
    ss_consumer_free(fanout);
    ss_consumer_free(discard);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
}

int main(void) {
    test_fanout_keeps_the_counts_of_the_pipeline_before_it();
    test_fanout_refuses_what_it_cannot_read();
    test_receiver_routes_and_counts();
    test_batch_sizes();
    test_batch_bounds_the_cost_of_splitting();
    test_batch_refuses_instead_of_losing();
    test_refused_request_leaves_no_count();
    test_drain_ends_before_a_queue_that_blocks();
    test_reload_under_load();
    return check_finish();
}
