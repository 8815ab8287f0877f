/* Answers that come later: each request gets exactly one, whoever ends first, and nothing is left behind. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "core/verdict.h"
#include "made_request.h"
#include "plan/consumer.h"

enum { CLIENTS = 4, REQUESTS = 300, QUEUES = 2, SPANS = 3 };

static const uint64_t KEPT = 1; /* a deadline that has slips kept */

/* A transport without sockets: what it has been told. */
typedef struct transport {
    bool has_memory;
    atomic_uint n_open; /* slips that have not been sent */
    atomic_uint n_ok, n_failed, n_cancelled;
} transport;

/* Like the loop's, it goes when it has been sent and its client has let go of it. */
typedef struct slip {
    transport *transport;
    ss_promise *promise;
    atomic_int n_holders;
} slip;

static void let_go(slip *held) {
    if (--held->n_holders == 0) {
        ss_promise_release(held->promise);
        free(held);
    }
}

static void *open_slip(ss_reply_route *route, ss_promise *promise) {
    transport *t = route->context;
    slip *made = t->has_memory ? malloc(sizeof *made) : NULL;
    if (made) {
        *made = (slip){.transport = t, .promise = promise, .n_holders = route->deadline_ns == KEPT ? 2 : 1};
        t->n_open++;
    }
    return made;
}

static void send_slip(void *sent, const ss_verdict *verdict) {
    slip *answered = sent;
    transport *t = answered->transport;
    *(verdict->code == SS_CODE_OK          ? &t->n_ok
      : verdict->code == SS_CODE_CANCELLED ? &t->n_cancelled
                                           : &t->n_failed) += 1;
    t->n_open--;
    let_go(answered);
}

static void transport_start(transport *t) {
    *t = (transport){.has_memory = true};
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
        ss_queue_hold_answers(s->queues[i], i == 0 ? CLIENTS * REQUESTS : 0);
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

static void tear_down(setup *s) {
    ss_receiver_free(s->receiver);
    free_queues(s);
    ss_runtime_free(s->runtime);
    ss_buffer_free(&s->request);
}

static ss_verdict accept(setup *s, ss_worker *worker, ss_reply_route *route) {
    ss_verdict verdict;
    const ss_request request = {
        .transport = SS_TRANSPORT_HTTP, .bytes = s->request.data, .length = s->request.length, .route = route};
    ss_receiver_accept(s->receiver, worker, &request, &verdict);
    *(verdict.is_pending ? &s->n_pending : &s->n_at_once) += 1;
    return verdict;
}

/* Ask and have the answer sent; kept, unless it is NULL, gets the slip for which it will be. */
static ss_verdict ask(setup *s, ss_worker *worker, slip **kept) {
    ss_reply_route route = {
        .open = open_slip, .send = send_slip, .context = &s->transport, .deadline_ns = kept ? KEPT : UINT64_MAX};
    ss_verdict verdict = accept(s, worker, &route);
    if (kept) {
        *kept = route.slip;
    }
    return verdict;
}

static void *run_client(void *argument) {
    setup *s = argument;
    ss_worker *worker = ss_worker_new(s->runtime);
    for (int i = 0; i < REQUESTS; i++) {
        (void)ask(s, worker, NULL);
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
    tear_down(&s);
}

/* As in a reload that waits for nobody's backend: receiver, runtime and worker go before the queue, the queue before
 * who has popped from it would have answered. */
static void test_answers_outlive_the_receiver(void) {
    setup s;
    set_up(&s);
    ss_worker *worker = ss_worker_new(s.runtime);
    CHECK(ask(&s, worker, NULL).is_pending);
    CHECK(ask(&s, worker, NULL).is_pending);
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
    CHECK(ask(&s, worker, NULL).is_pending);
    CHECK_EQUAL(1, s.transport.n_open);
    const ss_verdict good = {0};
    ss_queue_item item;
    CHECK_EQUAL(SS_OK, ss_queue_pop(s.queues[0], 0, &item));
    ss_queue_done(s.queues[0], &item, &good, 0);
    CHECK_EQUAL(0, s.transport.n_open);
    CHECK_EQUAL(1, s.transport.n_failed);
    s.transport.has_memory = false; /* then nothing is queued, and nothing is pending */
    CHECK_EQUAL(SS_CODE_UNAVAILABLE, ask(&s, worker, NULL).code);
    CHECK_EQUAL(1, s.n_at_once);
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_queue_pop(s.queues[0], 0, &item));
    ss_worker_free(worker);
    tear_down(&s);
}

static void *run_waiting_client(void *argument) {
    setup *s = argument;
    ss_worker *worker = ss_worker_new(s->runtime);
    for (int i = 0; i < REQUESTS; i++) {
        ss_verdict verdict = accept(s, worker, NULL);
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
    tear_down(&s);
}

/* ---------------------------------------------------------------- clients that go */

static ss_queue_stats stats_of(const ss_consumer *queue) {
    ss_queue_stats stats;
    ss_queue_read_stats(queue, &stats);
    return stats;
}

static bool is_readable(int fd) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

/* What nobody has begun to send is dropped everywhere, and counted once. */
static void test_requests_go_with_their_client(void) {
    setup s;
    set_up(&s);
    ss_worker *worker = ss_worker_new(s.runtime);
    slip *kept[3];
    for (int i = 0; i < 3; i++) {
        CHECK(ask(&s, worker, &kept[i]).is_pending);
    }
    ss_promise_cancel(kept[1]->promise);
    CHECK_EQUAL(1, s.transport.n_cancelled);
    ss_promise_cancel(kept[1]->promise); /* says nothing new */
    const ss_verdict good = {0};
    for (int i = 0; i < QUEUES; i++) {
        ss_queue_item item;
        CHECK_EQUAL(SPANS, stats_of(s.queues[i]).withdrawn_items);
        CHECK_EQUAL(2 * SPANS, stats_of(s.queues[i]).items);
        CHECK_EQUAL(2, stats_of(s.queues[i]).size);
        for (int left = 0; left < 2; left++) { /* the neighbours are as they were */
            CHECK_EQUAL(SS_OK, ss_queue_pop(s.queues[i], 0, &item));
            ss_queue_done(s.queues[i], &item, &good, 0);
        }
        CHECK_EQUAL(SS_ERR_TIMEOUT, ss_queue_pop(s.queues[i], 0, &item));
        CHECK_EQUAL(2 * SPANS, stats_of(s.queues[i]).sent_items);
    }
    CHECK_EQUAL(2, s.transport.n_ok);
    ss_receiver_stats counted;
    ss_receiver_read_stats(s.receiver, &counted);
    CHECK_EQUAL(2 * SPANS, counted.accepted[SS_SIGNAL_TRACES][SS_TRANSPORT_HTTP]);
    CHECK_EQUAL(SPANS, counted.refused[SS_SIGNAL_TRACES][SS_TRANSPORT_HTTP]);
    for (int i = 0; i < 3; i++) {
        let_go(kept[i]);
    }
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    ss_worker_free(worker);
    tear_down(&s);
}

/* Who sends it is told, by its file descriptor and in its wait, and has the last word. */
static void test_sender_is_told_that_the_client_has_gone(void) {
    const ss_verdict good = {0};
    setup s;
    set_up(&s);
    ss_worker *worker = ss_worker_new(s.runtime);
    ss_consumer *queue = s.queues[0];
    for (int round = 0; round < 2; round++) { /* the second with what the first has used */
        slip *kept;
        ss_queue_item item;
        CHECK(ask(&s, worker, &kept).is_pending);
        CHECK_EQUAL(SS_OK, ss_queue_pop(queue, 0, &item));
        CHECK_EQUAL(KEPT, item.deadline_ns);
        CHECK(item.cancel_fd >= 0 && !is_readable(item.cancel_fd));
        CHECK_EQUAL(SS_ERR_TIMEOUT, ss_queue_wait(queue, &item, 1, true));
        ss_promise_cancel(kept->promise);
        CHECK(is_readable(item.cancel_fd));
        CHECK_EQUAL(SS_ERR_CANCELLED, ss_queue_wait(queue, &item, UINT64_MAX, true));
        CHECK_EQUAL(round, s.transport.n_cancelled); /* the other queue has dropped it, this one has not */
        ss_queue_done(queue, &item, &good, 0);
        CHECK_EQUAL(round + 1, s.transport.n_cancelled);
        let_go(kept);
    }
    CHECK_EQUAL(2 * SPANS, stats_of(queue).sent_items);
    CHECK_EQUAL(0, stats_of(queue).withdrawn_items);
    CHECK_EQUAL(2 * SPANS, stats_of(s.queues[1]).withdrawn_items);
    CHECK(ask(&s, worker, NULL).is_pending);
    ss_queue_item item;
    CHECK_EQUAL(SS_OK, ss_queue_pop(queue, 0, &item));
    ss_queue_close(queue);
    CHECK_EQUAL(SS_ERR_CLOSED, ss_queue_wait(queue, &item, UINT64_MAX, true));
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_queue_wait(queue, &item, 1, false)); /* who knows that waits all the same */
    ss_queue_done(queue, &item, &good, 0);
    ss_worker_free(worker);
    tear_down(&s);
}

/* Beside those that nobody waits for, so many are taken and no more. */
static void test_waiting_requests_are_bounded(void) {
    ss_error error;
    setup s;
    set_up(&s);
    ss_worker *worker = ss_worker_new(s.runtime);
    ss_consumer *queue = ss_queue_new(s.runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 1, false, &error);
    ss_queue_hold_answers(queue, 2);
    ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, queue);
    slip *kept[2];
    ss_verdict verdict;
    CHECK(ask(&s, worker, &kept[0]).is_pending);
    CHECK(ask(&s, worker, &kept[1]).is_pending);
    CHECK(ask(&s, worker, NULL).is_pending); /* a promise of a refusal, kept at once */
    CHECK_EQUAL(1, s.transport.n_failed);
    CHECK_EQUAL(SPANS, stats_of(queue).enqueue_failed_items);
    CHECK_EQUAL(SS_ERR_REFUSED, ss_consumer_push(queue, worker, s.request.data, s.request.length, &verdict));
    ss_promise_cancel(kept[0]->promise); /* makes room */
    CHECK(ask(&s, worker, NULL).is_pending);
    CHECK_EQUAL(2, s.transport.n_open);
    let_go(kept[0]);
    let_go(kept[1]);
    ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, NULL);
    ss_consumer_free(queue);
    CHECK_EQUAL(0, s.transport.n_open);
    ss_worker_free(worker);
    tear_down(&s);
}

/* ---------------------------------------------------------------- all at once */

enum { STRESS_REQUESTS = 2000, OUTSTANDING = 8 };

static uint32_t next_random(uint32_t *state) {
    return *state = *state * 1664525 + 1013904223;
}

/* Keeps some requests open, gives up about half of them, now or later, and stops caring about the others. */
static void *run_fickle_client(void *argument) {
    setup *s = argument;
    ss_worker *worker = ss_worker_new(s->runtime);
    slip *open[OUTSTANDING] = {NULL};
    uint32_t state = (uint32_t)(uintptr_t)worker;
    for (int i = 0; i < STRESS_REQUESTS + OUTSTANDING; i++) {
        slip **place = &open[i % OUTSTANDING];
        if (*place) {
            if (next_random(&state) >> 31) {
                ss_promise_cancel((*place)->promise);
            }
            let_go(*place);
            *place = NULL;
        }
        slip *kept;
        if (i < STRESS_REQUESTS && ask(s, worker, &kept).is_pending) {
            *place = kept;
            if (next_random(&state) >> 29 == 0) {
                ss_promise_cancel(kept->promise);
            }
        }
    }
    ss_worker_free(worker);
    return NULL;
}

typedef struct fickle_backend {
    ss_consumer *queue;
    uint64_t unknown; /* items of which it did not say what became of them */
} fickle_backend;

static void *run_fickle_backend(void *argument) {
    fickle_backend *backend = argument;
    uint32_t state = (uint32_t)(uintptr_t)argument;
    ss_queue_item item;
    while (ss_queue_pop(backend->queue, UINT64_MAX, &item) == SS_OK) {
        if (next_random(&state) >> 31) {
            if (!ss_queue_pass_on(backend->queue, &item)) {
                ss_queue_put_back(backend->queue, &item, 0);
            }
            continue;
        }
        uint32_t choice = next_random(&state) >> 30;
        ss_verdict verdict = {.code = choice ? SS_CODE_OK : SS_CODE_UNAVAILABLE};
        if (choice == 1 && ss_queue_wait(backend->queue, &item, 20000, true) == SS_ERR_CANCELLED) {
            CHECK(item.cancel_fd < 0 || is_readable(item.cancel_fd));
            verdict.code = SS_CODE_CANCELLED;
        }
        bool says = choice != 2;
        backend->unknown += says ? 0 : item.n_items;
        ss_queue_done(backend->queue, &item, says ? &verdict : NULL, 0);
    }
    return NULL;
}

/* Clients give up, backends fail, one queue is closed in the midst and freed with what it holds: every request has one
 * outcome and one answer, and each queue knows where every item went. */
static void test_nothing_is_lost_or_doubled_under_stress(void) {
    setup s;
    set_up(&s);
    pthread_t clients[CLIENTS], backends[2 * QUEUES];
    fickle_backend fickle[2 * QUEUES] = {{NULL}};
    for (int i = 0; i < CLIENTS; i++) {
        pthread_create(&clients[i], NULL, run_fickle_client, &s);
    }
    for (int i = 0; i < 2 * QUEUES; i++) {
        fickle[i].queue = s.queues[i % QUEUES];
        pthread_create(&backends[i], NULL, run_fickle_backend, &fickle[i]);
    }
    while (s.n_pending < CLIENTS * STRESS_REQUESTS / 2) {
        sched_yield();
    }
    ss_queue_close(s.queues[1]);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i], NULL);
    }
    ss_queue_close(s.queues[0]);
    uint64_t unknown[QUEUES] = {0};
    for (int i = 0; i < 2 * QUEUES; i++) {
        pthread_join(backends[i], NULL);
        unknown[i % QUEUES] += fickle[i].unknown;
    }
    CHECK_EQUAL(CLIENTS * STRESS_REQUESTS, s.n_pending);
    CHECK_EQUAL(0, s.transport.n_open);
    CHECK_EQUAL(s.n_pending, s.transport.n_ok + s.transport.n_failed + s.transport.n_cancelled);
    for (int i = 0; i < QUEUES; i++) {
        ss_queue_stats stats = stats_of(s.queues[i]);
        CHECK_EQUAL(0, stats.items);
        CHECK_EQUAL(SPANS * CLIENTS * STRESS_REQUESTS, stats.sent_items + stats.failed_items + unknown[i] +
                                                           stats.withdrawn_items + stats.enqueue_failed_items);
    }
    CHECK(stats_of(s.queues[0]).withdrawn_items > 0);
    ss_receiver_stats counted;
    ss_receiver_read_stats(s.receiver, &counted);
    CHECK_EQUAL(SPANS * s.transport.n_ok, counted.accepted[SS_SIGNAL_TRACES][SS_TRANSPORT_HTTP]);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    tear_down(&s);
}

/* A reload puts another queue in the place of one that clients wait at: whoever takes a request answers it, and
 * together they know where every item went. */
static void test_successor_takes_what_clients_wait_for(void) {
    setup s;
    set_up(&s);
    ss_error error;
    ss_consumer *former = s.queues[0];
    ss_consumer *successor = ss_queue_new(s.runtime, SS_SIGNAL_TRACES, SS_SIZER_ITEMS, 20 * SPANS, false, &error);
    ss_queue_hold_answers(successor, 0);
    ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, former);
    pthread_t clients[CLIENTS], backends[4];
    fickle_backend fickle[4] = {{former, 0}, {former, 0}, {successor, 0}, {successor, 0}};
    for (int i = 0; i < CLIENTS; i++) {
        pthread_create(&clients[i], NULL, run_fickle_client, &s);
    }
    for (int i = 0; i < 4; i++) {
        pthread_create(&backends[i], NULL, run_fickle_backend, &fickle[i]);
    }
    while (s.n_pending < CLIENTS * STRESS_REQUESTS / 2) {
        sched_yield();
    }
    ss_queue_hand_over(former, successor);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i], NULL);
    }
    ss_queue_close(former);
    pthread_join(backends[0], NULL);
    pthread_join(backends[1], NULL);
    ss_queue_close(successor);
    pthread_join(backends[2], NULL);
    pthread_join(backends[3], NULL);
    CHECK_EQUAL(0, s.transport.n_open);
    CHECK_EQUAL(s.n_pending, s.transport.n_ok + s.transport.n_failed + s.transport.n_cancelled);
    uint64_t n_items = 0;
    for (int i = 0; i < 4; i += 2) {
        ss_queue_stats stats = stats_of(fickle[i].queue);
        CHECK_EQUAL(0, stats.items + stats.size + stats.in_flight_requests);
        n_items += stats.sent_items + stats.failed_items + stats.withdrawn_items + stats.enqueue_failed_items +
                   fickle[i].unknown + fickle[i + 1].unknown;
    }
    CHECK_EQUAL(SPANS * CLIENTS * STRESS_REQUESTS, n_items);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, NULL);
    tear_down(&s);
    ss_consumer_free(successor);
}

enum { RELOADS = 20 };

/* One reload after another, each while the queue before it is being emptied by way of its successor: every queue is
 * freed as soon as its own threads have ended, and whatever came by any of them has one outcome. */
static void test_reloads_in_a_row(void) {
    setup s;
    set_up(&s);
    ss_error error;
    pthread_t clients[CLIENTS], backends[2], next_backends[2];
    fickle_backend fickle[RELOADS + 1][2] = {{{NULL}}};
    uint64_t n_items = 0;
    ss_consumer *now = NULL;
    for (int reload = 0; reload <= RELOADS + 1; reload++) {
        ss_consumer *next = NULL;
        if (reload <= RELOADS) {
            next = ss_queue_new(s.runtime, SS_SIGNAL_TRACES, (ss_queue_sizer)(reload % 3), 5000, reload % 2, &error);
            ss_queue_hold_answers(next, reload % 4 < 2 ? CLIENTS * STRESS_REQUESTS : 0);
            CHECK_EQUAL(SS_OK, ss_queue_set_compression(next, reload % 2 ? SS_ENCODING_ZSTD : SS_ENCODING_IDENTITY, 0));
            for (int i = 0; i < 2; i++) {
                fickle[reload][i].queue = next;
                pthread_create(&next_backends[i], NULL, run_fickle_backend, &fickle[reload][i]);
            }
            ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, next);
        }
        for (int i = 0; i < CLIENTS; i++) {
            if (!now) {
                pthread_create(&clients[i], NULL, run_fickle_client, &s);
            } else if (!next) {
                pthread_join(clients[i], NULL);
            }
        }
        if (now) {
            if (next) {
                ss_queue_hand_over(now, next);
                ss_runtime_synchronize(s.runtime);
            }
            ss_queue_close(now);
            for (int i = 0; i < 2; i++) {
                pthread_join(backends[i], NULL);
                n_items += fickle[reload - 1][i].unknown;
            }
            ss_queue_stats stats = stats_of(now);
            CHECK_EQUAL(0, stats.items + stats.size + stats.in_flight_requests);
            n_items += stats.sent_items + stats.failed_items + stats.withdrawn_items + stats.enqueue_failed_items;
            ss_consumer_free(now);
        }
        now = next;
        memcpy(backends, next_backends, sizeof backends);
        const unsigned wanted = (unsigned)(reload + 1) * (CLIENTS * STRESS_REQUESTS / (RELOADS + 2));
        while (now && s.n_pending < wanted) {
            sched_yield();
        }
    }
    CHECK_EQUAL(0, s.transport.n_open);
    CHECK_EQUAL(s.n_pending, s.transport.n_ok + s.transport.n_failed + s.transport.n_cancelled);
    CHECK_EQUAL(SPANS * CLIENTS * STRESS_REQUESTS, n_items);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, NULL);
    tear_down(&s);
}

/* A client that goes while its request is between two queues is told of by the second, before anything is sent. */
static void test_client_may_go_before_its_request_is_passed_on(void) {
    setup s;
    set_up(&s);
    ss_worker *worker = ss_worker_new(s.runtime);
    slip *kept;
    ss_queue_item item;
    ss_consumer *former = s.queues[0], *successor = s.queues[1];
    ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, former);
    CHECK(ask(&s, worker, &kept).is_pending);
    CHECK_EQUAL(SS_OK, ss_queue_pop(former, 0, &item));
    ss_queue_hand_over(former, successor);
    CHECK_EQUAL(SS_ERR_CLOSED, ss_queue_wait(former, &item, UINT64_MAX, true));
    ss_promise_cancel(kept->promise);
    CHECK(ss_queue_pass_on(former, &item));
    CHECK(!item.handle);
    CHECK_EQUAL(0, stats_of(former).items);
    CHECK_EQUAL(SS_OK, ss_queue_pop(successor, 0, &item));
    CHECK(is_readable(item.cancel_fd));
    CHECK_EQUAL(SS_ERR_CANCELLED, ss_queue_wait(successor, &item, UINT64_MAX, false));
    ss_queue_done(successor, &item, &(ss_verdict){.code = SS_CODE_CANCELLED}, 0);
    CHECK_EQUAL(1, s.transport.n_cancelled);
    let_go(kept);
    CHECK(ask(&s, worker, &kept).is_pending); /* by way of the former */
    CHECK_EQUAL(0, stats_of(former).items);
    ss_promise_cancel(kept->promise);
    CHECK_EQUAL(SPANS, stats_of(successor).withdrawn_items);
    let_go(kept);
    ss_worker_free(worker);
    ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, NULL);
    tear_down(&s);
}

static void *run_leaving_client(void *argument) {
    slip **kept = argument;
    for (int i = 0; i < REQUESTS; i++) {
        ss_promise_cancel(kept[i]->promise);
    }
    return NULL;
}

/* A reload gives up a queue while clients go: whoever is first, the other finds nothing. */
static void test_queue_goes_while_clients_go(void) {
    setup s;
    set_up(&s);
    ss_worker *worker = ss_worker_new(s.runtime);
    slip *kept[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        CHECK(ask(&s, worker, &kept[i]).is_pending);
    }
    pthread_t client;
    pthread_create(&client, NULL, run_leaving_client, kept);
    ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, NULL);
    free_queues(&s);
    pthread_join(client, NULL);
    CHECK_EQUAL(0, s.transport.n_open);
    CHECK_EQUAL(REQUESTS, s.transport.n_failed + s.transport.n_cancelled);
    for (int i = 0; i < REQUESTS; i++) {
        let_go(kept[i]);
    }
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    ss_receiver_free(s.receiver);
    ss_worker_free(worker);
    ss_runtime_free(s.runtime);
    ss_buffer_free(&s.request);
}

/* ---------------------------------------------------------------- batches that are late */

/* Takes what it is given once it is let. */
typedef struct gate {
    ss_consumer consumer;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int n_let; /* guarded by lock */
    bool refuses;
    atomic_uint n_taken;
} gate;

static ss_status pass_gate(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker, (void)view;
    gate *self = (gate *)consumer;
    pthread_mutex_lock(&self->lock);
    while (!self->n_let) {
        pthread_cond_wait(&self->opened, &self->lock);
    }
    self->n_let -= !self->refuses;
    bool refuses = self->refuses;
    pthread_mutex_unlock(&self->lock);
    self->n_taken += !refuses;
    return refuses ? ss_refuse(verdict, "closed", 0) : SS_OK;
}

static void free_gate(ss_consumer *consumer) {
    (void)consumer;
}

static const ss_consumer_vtable gate_vtable = {pass_gate, free_gate};

static void let(gate *self, int n, bool refuses) {
    pthread_mutex_lock(&self->lock);
    self->n_let += n;
    self->refuses = refuses;
    pthread_cond_signal(&self->opened);
    pthread_mutex_unlock(&self->lock);
}

static void wait_for(const atomic_uint *counter, unsigned n) {
    while (atomic_load(counter) != n) {
        sched_yield();
    }
}

typedef struct late {
    setup setup;
    gate gate;
    ss_consumer *batch;
    ss_worker *worker;
} late;

/* Requests of 2.4 MB, each a batch of its own. */
static void set_up_late(late *l, bool has_queue) {
    ss_error error;
    *l = (late){.gate = {.consumer = {&gate_vtable, SS_SIGNAL_TRACES}}};
    set_up(&l->setup);
    pthread_mutex_init(&l->gate.lock, NULL);
    pthread_cond_init(&l->gate.opened, NULL);
    ss_buffer_free(&l->setup.request);
    l->setup.request = make_request(40000);
    l->worker = ss_worker_new(l->setup.runtime);
    ss_consumer *output = &l->gate.consumer;
    const ss_batch_config config = {.timeout_ns = UINT64_MAX, .send_batch_size = 1};
    l->batch = ss_batch_new(l->setup.runtime, SS_SIGNAL_TRACES, &config, &output, 1, &error);
    ss_consumer_free(l->setup.fanout);
    ss_consumer *outputs[] = {l->batch, l->setup.queues[0]};
    l->setup.fanout = ss_fanout_new(SS_SIGNAL_TRACES, outputs, has_queue ? 2 : 1);
    ss_receiver_publish(l->setup.receiver, SS_SIGNAL_TRACES, l->setup.fanout);
}

static void tear_down_late(late *l) {
    ss_receiver_publish(l->setup.receiver, SS_SIGNAL_TRACES, NULL);
    ss_consumer_free(l->batch);
    ss_worker_free(l->worker);
    tear_down(&l->setup);
    pthread_cond_destroy(&l->gate.opened);
    pthread_mutex_destroy(&l->gate.lock);
}

/* Beside one that is, or may soon be, worked off, a client is told later, and nobody's thread is held up. */
static void test_late_batch_parks_its_clients(void) {
    late l;
    set_up_late(&l, false);
    const transport *t = &l.setup.transport;
    ss_verdict verdict = ask(&l.setup, l.worker, NULL);
    CHECK(!verdict.is_pending && verdict.code == SS_CODE_OK);
    slip *kept;
    CHECK(ask(&l.setup, l.worker, &kept).is_pending);
    verdict = ask(&l.setup, l.worker, NULL);
    CHECK(verdict.is_pending && verdict.is_too_fast);
    CHECK_EQUAL(2, t->n_open);
    ss_promise_cancel(kept->promise); /* it is gathered already */
    CHECK_EQUAL(2, t->n_open);
    let(&l.gate, 1, false);
    wait_for(&l.gate.n_taken, 1);
    CHECK_EQUAL(2, t->n_open); /* still late */
    let(&l.gate, 1, false);
    wait_for(&t->n_ok, 2);
    CHECK(ask(&l.setup, l.worker, NULL).is_pending);
    let(&l.gate, 1, true); /* an output refuses: who comes from now on is refused, and who is in is in */
    wait_for(&t->n_ok, 3);
    let_go(kept);
    let(&l.gate, 10, false);
    CHECK_EQUAL(SS_OK, ss_batch_drain(l.batch, UINT64_MAX));
    CHECK_EQUAL(4, l.gate.n_taken);
    tear_down_late(&l);
    CHECK_EQUAL(0, t->n_open);
    CHECK_EQUAL(0, t->n_failed + t->n_cancelled);
}

/* A client that waits for a backend as well is read from meanwhile: that may take minutes. */
static void test_late_batch_beside_a_backend(void) {
    late l;
    set_up_late(&l, true);
    for (int i = 0; i < 3; i++) {
        ss_verdict verdict = ask(&l.setup, l.worker, NULL);
        CHECK(verdict.is_pending && !verdict.is_too_fast);
    }
    let(&l.gate, 3, false);
    CHECK_EQUAL(SS_OK, ss_batch_drain(l.batch, UINT64_MAX));
    CHECK_EQUAL(3, l.setup.transport.n_open);
    tear_down_late(&l);
    CHECK_EQUAL(3, l.setup.transport.n_failed);
}

/* Where nobody can be told later, the thread waits, for a while. */
static void test_late_batch_holds_up_who_cannot_wait(void) {
    late l;
    set_up_late(&l, false);
    ss_verdict verdict;
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(SS_OK, ss_consumer_push(l.batch, l.worker, l.setup.request.data, l.setup.request.length, &verdict));
    }
    let(&l.gate, 3, false);
    tear_down_late(&l);
    CHECK_EQUAL(3, l.gate.n_taken);
}

int main(void) {
    test_every_request_is_answered_once();
    test_answers_outlive_the_receiver();
    test_a_refusal_beside_a_promise_is_the_answer();
    test_a_caller_waits_for_its_answer();
    test_requests_go_with_their_client();
    test_sender_is_told_that_the_client_has_gone();
    test_waiting_requests_are_bounded();
    test_nothing_is_lost_or_doubled_under_stress();
    test_successor_takes_what_clients_wait_for();
    test_reloads_in_a_row();
    test_client_may_go_before_its_request_is_passed_on();
    test_queue_goes_while_clients_go();
    test_late_batch_parks_its_clients();
    test_late_batch_beside_a_backend();
    test_late_batch_holds_up_who_cannot_wait();
    return check_finish();
}
