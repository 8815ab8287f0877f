/* Answers that come later: each request gets exactly one, whoever ends first, and nothing is left behind. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "made_request.h"
#include "plan/consumer.h"

enum { CLIENTS = 4, REQUESTS = 300, QUEUES = 2, SPANS = 3 };

/* A transport without sockets: what it has been told. */
typedef struct transport {
    ss_reply_route route;
    bool has_memory;
    atomic_uint n_open; /* slips that have not been sent */
    atomic_uint n_ok, n_failed;
} transport;

static void *open_slip(const ss_reply_route *route) {
    transport *t = route->postbox;
    if (t->has_memory) {
        t->n_open++;
    }
    return t->has_memory ? t : NULL;
}

static void send_slip(void *slip, const ss_verdict *verdict) {
    transport *t = slip;
    *(verdict->code == SS_CODE_OK ? &t->n_ok : &t->n_failed) += 1;
    t->n_open--;
}

static void transport_start(transport *t) {
    *t = (transport){.route = {.open = open_slip, .send = send_slip, .postbox = t}, .has_memory = true};
}

typedef struct setup {
    ss_runtime *runtime;
    ss_receiver *receiver;
    ss_consumer *queues[QUEUES];
    ss_consumer *fanout;
    transport transport;
    ss_buffer request;
    atomic_uint n_pending, n_at_once; /* how accept has ended */
} setup;

static void set_up(setup *s) {
    ss_error error;
    *s = (setup){.runtime = ss_runtime_new(), .request = make_request(SPANS)};
    s->receiver = ss_receiver_new(s->runtime, SS_INVALID_REJECT_ITEM);
    for (int i = 0; i < QUEUES; i++) {
        s->queues[i] = ss_queue_new(s->runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 20, false, &error);
        ss_queue_hold_answers(s->queues[i], i == 0);
    }
    s->fanout = ss_fanout_new(SS_SIGNAL_TRACES, s->queues, QUEUES);
    ss_receiver_publish(s->receiver, SS_SIGNAL_TRACES, s->fanout);
    transport_start(&s->transport);
}

static void free_queues(setup *s) {
    ss_consumer_free(s->fanout);
    for (int i = 0; i < QUEUES; i++) {
        ss_consumer_free(s->queues[i]);
    }
}

static ss_verdict ask(setup *s, ss_worker *worker, const ss_reply_route *route) {
    ss_verdict verdict;
    const ss_request request = {
        .transport = SS_TRANSPORT_HTTP, .bytes = s->request.data, .length = s->request.length, .route = route};
    ss_receiver_accept(s->receiver, worker, &request, &verdict);
    *(verdict.is_pending ? &s->n_pending : &s->n_at_once) += 1;
    return verdict;
}

static void *run_client(void *argument) {
    setup *s = argument;
    ss_worker *worker = ss_worker_new(s->runtime);
    for (int i = 0; i < REQUESTS; i++) {
        (void)ask(s, worker, &s->transport.route);
    }
    ss_worker_free(worker);
    return NULL;
}

/* Answers one of three requests well, one badly, and knows nothing of the third. */
static void *run_backend(void *argument) {
    ss_consumer *queue = argument;
    ss_queue_item item;
    for (unsigned n = 0;; n++) {
        ss_status status = ss_queue_pop(queue, 1000000, &item);
        if (status == SS_ERR_CLOSED) {
            return NULL;
        }
        if (status == SS_OK) {
            ss_verdict verdict = {.code = n % 3 ? SS_CODE_OK : SS_CODE_UNAVAILABLE};
            ss_queue_done(queue, &item, n % 3 == 2 ? NULL : &verdict, 0);
            ss_queue_done(queue, &item, &verdict, 0); /* the first one counts */
        }
    }
}

static void test_every_request_is_answered_once(void) {
    setup s;
    set_up(&s);
    pthread_t clients[CLIENTS], backends[QUEUES];
    for (int i = 0; i < QUEUES; i++) {
        pthread_create(&backends[i], NULL, run_backend, s.queues[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_create(&clients[i], NULL, run_client, &s);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i], NULL);
    }
    for (int i = 0; i < QUEUES; i++) {
        ss_queue_close(s.queues[i]);
        pthread_join(backends[i], NULL);
    }
    CHECK_EQUAL(CLIENTS * REQUESTS, s.n_pending);
    CHECK_EQUAL(0, s.n_at_once);
    CHECK_EQUAL(0, s.transport.n_open);
    CHECK_EQUAL(CLIENTS * REQUESTS, s.transport.n_ok + s.transport.n_failed);
    ss_receiver_stats stats;
    ss_receiver_read_stats(s.receiver, &stats);
    CHECK_EQUAL(SPANS * s.transport.n_ok, stats.accepted[SS_SIGNAL_TRACES][SS_TRANSPORT_HTTP]);
    CHECK_EQUAL(SPANS * s.transport.n_failed, stats.refused[SS_SIGNAL_TRACES][SS_TRANSPORT_HTTP]);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    ss_receiver_free(s.receiver);
    free_queues(&s);
    ss_runtime_free(s.runtime);
    ss_buffer_free(&s.request);
}

/* As in a reload that waits for nobody's backend: receiver, runtime and worker go before the queue, the queue before
 * who has popped from it would have answered. */
static void test_answers_outlive_the_receiver(void) {
    setup s;
    set_up(&s);
    ss_worker *worker = ss_worker_new(s.runtime);
    CHECK(ask(&s, worker, &s.transport.route).is_pending);
    CHECK(ask(&s, worker, &s.transport.route).is_pending);
    ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, NULL);
    ss_runtime_synchronize(s.runtime);
    ss_receiver_free(s.receiver);
    ss_worker_free(worker);
    ss_runtime_free(s.runtime);
    const ss_verdict good = {0};
    for (int i = 0; i < QUEUES; i++) {
        ss_queue_item item;
        CHECK_EQUAL(SS_OK, ss_queue_pop(s.queues[i], 0, &item));
        CHECK_EQUAL(0, s.transport.n_ok);
        ss_queue_done(s.queues[i], &item, &good, 0);
    }
    CHECK_EQUAL(1, s.transport.n_ok);
    CHECK_EQUAL(1, s.transport.n_open);
    free_queues(&s);
    CHECK_EQUAL(0, s.transport.n_open);
    CHECK_EQUAL(1, s.transport.n_failed);
    ss_buffer_free(&s.request);
}

/* One of two outputs refuses at once: the client hears so, when the other one has spoken, too. */
static void test_a_refusal_beside_a_promise_is_the_answer(void) {
    setup s;
    set_up(&s);
    ss_worker *worker = ss_worker_new(s.runtime);
    ss_queue_close(s.queues[1]);
    CHECK(ask(&s, worker, &s.transport.route).is_pending);
    CHECK_EQUAL(1, s.transport.n_open);
    const ss_verdict good = {0};
    ss_queue_item item;
    CHECK_EQUAL(SS_OK, ss_queue_pop(s.queues[0], 0, &item));
    ss_queue_done(s.queues[0], &item, &good, 0);
    CHECK_EQUAL(0, s.transport.n_open);
    CHECK_EQUAL(1, s.transport.n_failed);
    s.transport.has_memory = false; /* then nothing is queued, and nothing is pending */
    CHECK_EQUAL(SS_CODE_UNAVAILABLE, ask(&s, worker, &s.transport.route).code);
    CHECK_EQUAL(1, s.n_at_once);
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_queue_pop(s.queues[0], 0, &item));
    ss_receiver_free(s.receiver);
    ss_worker_free(worker);
    free_queues(&s);
    ss_runtime_free(s.runtime);
    ss_buffer_free(&s.request);
}

static void *run_waiting_client(void *argument) {
    setup *s = argument;
    ss_worker *worker = ss_worker_new(s->runtime);
    for (int i = 0; i < REQUESTS; i++) {
        ss_verdict verdict = ask(s, worker, NULL);
        *(verdict.code == SS_CODE_OK ? &s->transport.n_ok : &s->transport.n_failed) += 1;
    }
    ss_worker_free(worker);
    return NULL;
}

/* Without a route the call itself returns with the answer; a reload meanwhile need not wait for it. */
static void test_a_caller_waits_for_its_answer(void) {
    setup s;
    set_up(&s);
    pthread_t clients[CLIENTS], backends[QUEUES];
    for (int i = 0; i < CLIENTS; i++) {
        pthread_create(&clients[i], NULL, run_waiting_client, &s);
    }
    ss_queue_stats stats = {0};
    while (stats.size < CLIENTS) { /* all of them wait */
        ss_queue_read_stats(s.queues[1], &stats);
    }
    ss_runtime_synchronize(s.runtime);
    for (int i = 0; i < QUEUES; i++) {
        pthread_create(&backends[i], NULL, run_backend, s.queues[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i], NULL);
    }
    CHECK_EQUAL(CLIENTS * REQUESTS, s.n_at_once);
    CHECK_EQUAL(CLIENTS * REQUESTS, s.transport.n_ok + s.transport.n_failed);
    CHECK(s.transport.n_ok > 0 && s.transport.n_failed > 0);
    for (int i = 0; i < QUEUES; i++) {
        ss_queue_close(s.queues[i]);
        pthread_join(backends[i], NULL);
    }
    ss_receiver_free(s.receiver);
    free_queues(&s);
    ss_runtime_free(s.runtime);
    ss_buffer_free(&s.request);
}

int main(void) {
    test_every_request_is_answered_once();
    test_answers_outlive_the_receiver();
    test_a_refusal_beside_a_promise_is_the_answer();
    test_a_caller_waits_for_its_answer();
    return check_finish();
}
