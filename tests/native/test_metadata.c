/* Request metadata, and the batches that are kept apart by it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "made_request.h"
#include "plan/consumer.h"
#include "plan/metadata.h"

enum { TENANTS = 40, REQUESTS = 300, SPANS = 3, THREADS = 4 };

static const char *const names[] = {"tenant", "x-zone"};
static const uint64_t hour_ns = 3600000000000;

static void add(ss_buffer *block, const char *name, const char *value) {
    CHECK_EQUAL(SS_OK, ss_metadata_append(block, name, value, strlen(value)));
}

/* The key of the block that name, value, name, value ... NULL is. */
static ss_buffer key_of(const char *const *texts) {
    ss_names wanted;
    ss_buffer block = {0}, key = {0};
    CHECK_EQUAL(SS_OK, ss_names_copy(&wanted, names, 2));
    for (; *texts; texts += 2) {
        add(&block, texts[0], texts[1]);
    }
    CHECK_EQUAL(SS_OK, ss_metadata_select(block.data, block.length, &wanted, &key));
    ss_buffer_free(&block);
    ss_names_free(&wanted);
    return key;
}

static bool are_alike(const char *const *a, const char *const *b) {
    ss_buffer keys[] = {key_of(a), key_of(b)};
    bool alike = keys[0].length == keys[1].length &&
                 (!keys[0].length || memcmp(keys[0].data, keys[1].data, keys[0].length) == 0);
    ss_buffer_free(&keys[0]);
    ss_buffer_free(&keys[1]);
    return alike;
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* All values of each name count, in their order; nothing else does. */
static void test_keys(void) {
    const char *const nothing[] = {NULL};
    CHECK(are_alike(TEXTS("tenant", "a"), TEXTS("tenant", "a")));
    CHECK(are_alike(TEXTS("tenant", "a", "x-zone", "b"), TEXTS("x-zone", "b", "other", "c", "tenant", "a")));
    CHECK(are_alike(TEXTS("other", "a"), nothing));
    CHECK(!are_alike(TEXTS("tenant", "a"), TEXTS("tenant", "b")));
    CHECK(!are_alike(TEXTS("tenant", "a"), TEXTS("x-zone", "a")));
    CHECK(!are_alike(TEXTS("tenant", ""), nothing));
    CHECK(!are_alike(TEXTS("tenant", "a", "tenant", "b"), TEXTS("tenant", "b", "tenant", "a")));
    CHECK(!are_alike(TEXTS("tenant", "a", "tenant", "b"), TEXTS("tenant", "a", "tenant", "b", "tenant", "b")));
    CHECK(!are_alike(TEXTS("tenant", "a", "tenant", "b"), TEXTS("tenant", "ab")));
    CHECK(!are_alike(TEXTS("tenant", "a"), TEXTS("tenants", "a")));
}

/* A block that is cut anywhere is read as far as it goes. */
static void test_cut_blocks(void) {
    ss_names wanted;
    ss_buffer block = {0};
    CHECK_EQUAL(SS_OK, ss_names_copy(&wanted, names, 2));
    add(&block, "tenant", "first");
    size_t first = block.length;
    add(&block, "tenant", "second");
    for (size_t length = 0; length <= block.length; length++) {
        uint8_t *cut = malloc(length ? length : 1);
        memcpy(cut, block.data, length);
        ss_buffer key = {0};
        CHECK_EQUAL(SS_OK, ss_metadata_select(cut, length, &wanted, &key));
        CHECK_EQUAL(length < first ? 0 : length < block.length ? first : block.length, key.length);
        ss_buffer_free(&key);
        free(cut);
    }
    ss_buffer_free(&block);
    ss_names_free(&wanted);
}

static void test_names_in_any_case(void) {
    ss_names wanted;
    CHECK_EQUAL(SS_OK, ss_names_copy(&wanted, names, 2));
    CHECK(ss_names_find(&wanted, "TENANT", 6) == wanted.names[0]);
    CHECK(ss_names_find(&wanted, "X-Zone", 6) == wanted.names[1]);
    CHECK(!ss_names_find(&wanted, "tenan", 5) && !ss_names_find(&wanted, "tenants", 7));
    ss_names_free(&wanted);
    CHECK_EQUAL(SS_OK, ss_names_copy(&wanted, NULL, 0));
    CHECK(!ss_names_find(&wanted, "tenant", 6));
    ss_names_free(&wanted);
}

/* Counts the items of each tenant, t0 to t39, and the batches in which they come. */
typedef struct output {
    ss_consumer consumer;
    uint64_t items[TENANTS + 1];   /* the last: without a tenant */
    uint64_t batches[TENANTS + 1]; /* only the batch's thread writes them */
} output;

static ss_status count(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker;
    (void)verdict;
    output *self = (output *)consumer;
    ss_buffer expected = {0};
    for (int tenant = 0; tenant <= TENANTS; tenant++) {
        char text[16];
        expected.length = 0;
        snprintf(text, sizeof text, "t%d", tenant);
        if (tenant < TENANTS) {
            add(&expected, "tenant", text);
        }
        if (view->metadata_length == expected.length &&
            (!expected.length || memcmp(view->metadata, expected.data, expected.length) == 0)) {
            self->items[tenant] += view->n_items;
            self->batches[tenant]++;
        }
    }
    ss_buffer_free(&expected);
    return SS_OK;
}

static void free_nothing(ss_consumer *consumer) {
    (void)consumer;
}

typedef struct setup {
    ss_runtime *runtime;
    output output;
    ss_consumer *batch, *front;
    ss_receiver *receiver;
    ss_buffer request;
} setup;

static void set_up(setup *s, ss_batch_config config) {
    static const ss_consumer_vtable vtable = {count, free_nothing};
    ss_error error;
    *s = (setup){.runtime = ss_runtime_new(), .output = {.consumer = {&vtable, SS_SIGNAL_TRACES}}};
    ss_consumer *outputs[] = {&s->output.consumer};
    config.metadata_names = names;
    config.n_metadata_names = 2;
    s->batch = ss_batch_new(s->runtime, SS_SIGNAL_TRACES, &config, outputs, 1, &error);
    s->front = ss_fanout_new(SS_SIGNAL_TRACES, &s->batch, 1);
    s->receiver = ss_receiver_new(s->runtime, SS_INVALID_REJECT_ITEM);
    ss_receiver_publish(s->receiver, SS_SIGNAL_TRACES, s->front);
    s->request = make_request(SPANS);
}

static void tear_down(setup *s) {
    CHECK_EQUAL(SS_OK, ss_batch_drain(s->batch, UINT64_MAX));
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s->runtime));
    ss_receiver_free(s->receiver);
    ss_consumer_free(s->front);
    ss_consumer_free(s->batch);
    ss_runtime_free(s->runtime);
    ss_buffer_free(&s->request);
}

/* Send the request of a tenant; TENANTS: of none. */
static ss_verdict bring(const setup *s, ss_worker *worker, int tenant) {
    ss_buffer block = {0};
    char text[16];
    ss_verdict verdict;
    snprintf(text, sizeof text, "t%d", tenant);
    add(&block, "other", "x");
    if (tenant < TENANTS) {
        add(&block, "tenant", text);
    }
    const ss_request request = {.signal = SS_SIGNAL_TRACES,
                                .bytes = s->request.data,
                                .length = s->request.length,
                                .metadata = block.data,
                                .metadata_length = block.length};
    ss_receiver_accept(s->receiver, worker, &request, &verdict);
    ss_buffer_free(&block);
    return verdict;
}

static ss_batch_stats stats_of(const setup *s) {
    ss_batch_stats stats;
    ss_batch_read_stats(s->batch, &stats);
    return stats;
}

/* Whoever sends in whatever order, a batch holds the items of one tenant, and says whose. */
static void test_tenants_are_kept_apart(void) {
    setup s;
    set_up(&s, (ss_batch_config){.timeout_ns = hour_ns, .send_batch_size = 100 * SPANS});
    ss_worker *worker = ss_worker_new(s.runtime);
    for (int i = 0; i < 150 * (TENANTS + 1); i++) {
        CHECK_EQUAL(SS_CODE_OK, bring(&s, worker, i % (TENANTS + 1)).code);
    }
    CHECK_EQUAL(TENANTS + 1, stats_of(&s).n_combinations);
    ss_worker_free(worker);
    CHECK_EQUAL(SS_OK, ss_batch_drain(s.batch, UINT64_MAX));
    for (int tenant = 0; tenant <= TENANTS; tenant++) {
        CHECK_EQUAL(150 * SPANS, s.output.items[tenant]);
        CHECK_EQUAL(2, s.output.batches[tenant]);
    }
    CHECK_EQUAL(0, stats_of(&s).n_combinations);
    CHECK_EQUAL(TENANTS + 1, stats_of(&s).size_trigger_send);
    tear_down(&s);
}

/* One combination more than allowed is refused for good and takes nothing; a batch that has left makes room. */
static void test_combinations_are_limited(void) {
    setup s;
    set_up(&s, (ss_batch_config){.timeout_ns = hour_ns, .send_batch_size = 2 * SPANS, .max_combinations = 2});
    ss_worker *worker = ss_worker_new(s.runtime);
    CHECK_EQUAL(SS_CODE_OK, bring(&s, worker, 0).code);
    CHECK_EQUAL(SS_CODE_OK, bring(&s, worker, TENANTS).code);
    ss_verdict verdict = bring(&s, worker, 1);
    CHECK_EQUAL(SS_CODE_INTERNAL, verdict.code);
    CHECK(strcmp("Permanent error: too many batcher metadata-value combinations", verdict.message) == 0);
    CHECK(!verdict.has_retry_delay);
    CHECK_EQUAL(2 * SPANS, stats_of(&s).pending_items);
    CHECK_EQUAL(SS_CODE_OK, bring(&s, worker, 0).code); /* which fills and sends its batch */
    CHECK_EQUAL(SS_CODE_OK, bring(&s, worker, 1).code);
    ss_worker_free(worker);
    CHECK_EQUAL(SS_OK, ss_batch_drain(s.batch, UINT64_MAX));
    CHECK_EQUAL(2 * SPANS, s.output.items[0]);
    CHECK_EQUAL(SPANS, s.output.items[1]);
    CHECK_EQUAL(SPANS, s.output.items[TENANTS]);
    tear_down(&s);
}

/* A request cut into several batches stays with its tenant. */
static void test_parts_stay_with_their_tenant(void) {
    setup s;
    set_up(&s, (ss_batch_config){.timeout_ns = hour_ns, .send_batch_size = 2, .send_batch_max_size = 2});
    ss_worker *worker = ss_worker_new(s.runtime);
    CHECK_EQUAL(SS_CODE_OK, bring(&s, worker, 0).code);
    CHECK_EQUAL(SS_CODE_OK, bring(&s, worker, 1).code);
    CHECK_EQUAL(2, stats_of(&s).n_combinations);
    CHECK_EQUAL(SS_CODE_OK, bring(&s, worker, 0).code);
    ss_worker_free(worker);
    CHECK_EQUAL(SS_OK, ss_batch_drain(s.batch, UINT64_MAX));
    CHECK_EQUAL(3, s.output.batches[0]);
    CHECK_EQUAL(2, s.output.batches[1]);
    CHECK_EQUAL(SPANS, s.output.items[1]);
    tear_down(&s);
}

typedef struct sender {
    const setup *setup;
    int first;
} sender;

static void *send_all(void *argument) {
    const sender *self = argument;
    ss_worker *worker = ss_worker_new(self->setup->runtime);
    for (int i = 0; i < REQUESTS; i++) {
        CHECK_EQUAL(SS_CODE_OK, bring(self->setup, worker, (self->first + i) % TENANTS).code);
    }
    ss_worker_free(worker);
    return NULL;
}

/* Senders at once, while batches open, time out and are forgotten. */
static void test_many_senders(void) {
    setup s;
    pthread_t threads[THREADS];
    sender senders[THREADS];
    set_up(&s, (ss_batch_config){.timeout_ns = 100000, .send_batch_size = 5 * SPANS});
    for (int i = 0; i < THREADS; i++) {
        senders[i] = (sender){&s, i * 10};
        pthread_create(&threads[i], NULL, send_all, &senders[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQUAL(SS_OK, ss_batch_drain(s.batch, UINT64_MAX));
    uint64_t items = 0;
    for (int tenant = 0; tenant < TENANTS; tenant++) {
        items += s.output.items[tenant];
    }
    CHECK_EQUAL(THREADS * REQUESTS * SPANS, items);
    CHECK_EQUAL(0, s.output.items[TENANTS]);
    tear_down(&s);
}

int main(void) {
    test_keys();
    test_cut_blocks();
    test_names_in_any_case();
    test_tenants_are_kept_apart();
    test_combinations_are_limited();
    test_parts_stay_with_their_tenant();
    test_many_senders();
    return check_finish();
}
