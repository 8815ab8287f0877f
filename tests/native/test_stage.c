/* What every stage has: groups by key, a timer, a drain, outputs that refuse. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "example_stage.h"
#include "made_request.h"

enum { SPANS = 3 };

static const uint64_t hour_ns = 3600000000000u;

/* Adds up the data points by tenant; refuses while told to. Only the stage's thread writes the sums. */
typedef struct output {
    ss_consumer consumer;
    uint64_t items[TENANTS_MAX + 1];
    uint64_t n_bad;
    atomic_uint n_requests;
    atomic_bool refuses;
} output;

static ss_status add_up(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker;
    output *self = (output *)consumer;
    if (atomic_load(&self->refuses)) {
        return ss_refuse(verdict, "not now", 1000);
    }
    ss_reader reader = {view->metadata, view->metadata + view->metadata_length}, name, value;
    uint32_t tenant = 0;
    uint64_t items;
    bool is_good = view->n_items == 1 && view->signal == SS_SIGNAL_METRICS && ss_read_bytes(&reader, &name) &&
                   ss_read_bytes(&reader, &value) && value.end - value.pos == sizeof tenant && view->length > 8;
    if (is_good) {
        memcpy(&tenant, value.pos, sizeof tenant);
        memcpy(&items, view->bytes + view->length - 8, sizeof items);
        self->items[tenant] += items;
    }
    self->n_bad += !is_good;
    atomic_fetch_add(&self->n_requests, 1);
    return SS_OK;
}

static void free_nothing(ss_consumer *consumer) {
    (void)consumer;
}

static const ss_consumer_vtable output_vtable = {add_up, free_nothing};

typedef struct setup {
    ss_runtime *runtime;
    ss_worker *worker;
    output output;
    ss_consumer *stage;
    ss_buffer request;
} setup;

static setup *set_up(uint64_t interval_ns) {
    setup *s = calloc(1, sizeof *s);
    s->runtime = ss_runtime_new();
    s->worker = ss_worker_new(s->runtime);
    s->output.consumer = (ss_consumer){&output_vtable, SS_SIGNAL_METRICS};
    s->stage = example_new(s->runtime, interval_ns, &s->output.consumer);
    s->request = make_request(SPANS);
    return s;
}

static void tear_down(setup *s) {
    ss_consumer_free(s->stage);
    CHECK_EQUAL(0, s->output.n_bad);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s->runtime));
    ss_worker_free(s->worker);
    ss_runtime_free(s->runtime);
    ss_buffer_free(&s->request);
    free(s);
}

/* A request of a tenant, whose number is the value of its header. */
static ss_status bring(setup *s, ss_worker *worker, uint32_t tenant) {
    ss_buffer block = {0};
    ss_verdict verdict = {0};
    CHECK_EQUAL(SS_OK, ss_metadata_append(&block, "tenant", &tenant, sizeof tenant));
    const ss_view view = {.signal = SS_SIGNAL_TRACES,
                          .bytes = s->request.data,
                          .length = s->request.length,
                          .n_items = SPANS,
                          .metadata = block.data,
                          .metadata_length = block.length};
    ss_status status = ss_consume(s->stage, worker, &view, &verdict);
    ss_buffer_free(&block);
    return status;
}

static ss_status drain(setup *s, uint64_t timeout_ns) {
    return ss_stage_drain((ss_stage *)s->stage, timeout_ns);
}

/* Each key has a group of its own, however many there are, and one more than the stage takes is refused. */
static void test_groups_are_known_by_their_keys(void) {
    setup *s = set_up(hour_ns);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t tenant = 0; tenant < TENANTS_MAX; tenant++) {
            CHECK_EQUAL(SS_OK, bring(s, s->worker, tenant));
        }
    }
    CHECK_EQUAL(SS_ERR_REFUSED, bring(s, s->worker, TENANTS_MAX));
    CHECK_EQUAL(SS_OK, bring(s, s->worker, 7));
    CHECK_EQUAL(0, atomic_load(&s->output.n_requests));
    CHECK(ss_runtime_in_flight_bytes(s->runtime) >= TENANTS_MAX * sizeof(uint32_t));
    CHECK_EQUAL(SS_OK, drain(s, UINT64_MAX));
    CHECK_EQUAL(TENANTS_MAX, atomic_load(&s->output.n_requests));
    for (uint32_t tenant = 0; tenant < TENANTS_MAX; tenant++) {
        CHECK_EQUAL((tenant == 7 ? 3 : 2) * SPANS, s->output.items[tenant]);
    }
    CHECK_EQUAL(SS_ERR_REFUSED, bring(s, s->worker, 1)); /* it has drained */
    tear_down(s);
}

/* The timer comes again and again, and what it has sent is open no more. */
static void test_timer_comes_again(void) {
    setup *s = set_up(1000000);
    for (uint32_t i = 1; i <= 3; i++) {
        CHECK_EQUAL(SS_OK, bring(s, s->worker, 5));
        while (atomic_load(&s->output.n_requests) < i) {
            sched_yield();
        }
    }
    CHECK_EQUAL(SS_OK, drain(s, UINT64_MAX));
    CHECK_EQUAL(3 * SPANS, s->output.items[5]);
    tear_down(s);
}

/* A drain gives up what an output refuses until its end, and says so; what it takes in time is acked. */
static void test_outputs_ack_or_nack(void) {
    for (int refuses = 0; refuses < 2; refuses++) {
        setup *s = set_up(hour_ns);
        uint64_t counts[2];
        atomic_store(&s->output.refuses, refuses);
        CHECK_EQUAL(SS_OK, bring(s, s->worker, 1));
        CHECK_EQUAL(SS_OK, bring(s, s->worker, 2));
        CHECK_EQUAL(refuses ? SS_ERR_TIMEOUT : SS_OK, drain(s, refuses ? 1 : UINT64_MAX));
        ss_stage_collect((ss_stage *)s->stage, counts);
        CHECK_EQUAL(refuses ? 0 : 2, counts[0]);
        CHECK_EQUAL(refuses ? 2 : 0, counts[1]);
        tear_down(s);
    }
}

enum { SENDERS = 3, ROUNDS = 400 };

static void *send_rounds(void *argument) {
    setup *s = argument;
    ss_worker *worker = ss_worker_new(s->runtime);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CHECK_EQUAL(SS_OK, bring(s, worker, i % 10));
    }
    ss_worker_free(worker);
    return NULL;
}

/* Senders at once beside a timer that always runs: nothing is counted twice or lost. */
static void test_senders_beside_the_timer(void) {
    setup *s = set_up(100000);
    pthread_t senders[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        CHECK(!pthread_create(&senders[i], NULL, send_rounds, s));
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(senders[i], NULL);
    }
    CHECK_EQUAL(SS_OK, drain(s, UINT64_MAX));
    for (uint32_t tenant = 0; tenant < 10; tenant++) {
        CHECK_EQUAL(SENDERS * ROUNDS / 10 * SPANS, s->output.items[tenant]);
    }
    tear_down(s);
}

int main(void) {
    test_groups_are_known_by_their_keys();
    test_timer_comes_again();
    test_outputs_ack_or_nack();
    test_senders_beside_the_timer();
    return check_finish();
}
