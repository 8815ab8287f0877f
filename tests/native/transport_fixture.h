/* One connection in memory, with an accept that records: what the transport's tests and fuzz targets share. */
#ifndef SS_TRANSPORT_FIXTURE_H
#define SS_TRANSPORT_FIXTURE_H

#include "net/connection.h"
#include "net/cors.h"

#include <stdlib.h>
#include <string.h>

enum { FIXTURE_WAITING_MAX = 64 };

typedef struct fixture {
    ss_service service;
    ss_listener listener;
    ss_scratch scratch;
    ss_connection *connection;
    bool is_open;   /* false once the protocol has asked for the end */
    bool has_http2; /* of a listener for HTTP: agreed on with TLS, from the next connection on */

    /* What accept saw, and what it is to answer. */
    int n_accepted;
    ss_signal signal;
    ss_transport transport;
    ss_payload payload;
    ss_buffer message; /* the last one */
    ss_buffer metadata;
    size_t total_bytes;
    ss_verdict verdict;
    bool lacks_signal[SS_N_SIGNALS];

    /* With verdict.is_pending: what waits, oldest first. */
    struct fixture_call *waiting[FIXTURE_WAITING_MAX];
    size_t n_waiting;
    int n_cancelled;      /* whose client has gone before their answer */
    uint64_t deadline_ns; /* of the last request */
    uint64_t held_bytes;  /* at the end: of requests, more than 0 are a leak */
    ss_receiver *counter; /* of outcomes */
} fixture;

/* A request that waits for its answer. */
typedef struct fixture_call {
    ss_reply reply; /* first: the slip */
    ss_pledge pledge;
    fixture *fixture;
} fixture_call;

/* Too late, always, so that the answer comes nevertheless. */
static inline bool fixture_withdraw(ss_pledge *pledge) {
    fixture_call *call = (fixture_call *)((char *)pledge - offsetof(fixture_call, pledge));
    call->fixture->n_cancelled++;
    return false;
}

static inline void *fixture_open(ss_reply_route *route, ss_promise *promise) {
    fixture *f = route->context;
    f->waiting[f->n_waiting]->reply.promise = promise;
    return f->waiting[f->n_waiting];
}

/* What the loop does. */
static inline void fixture_send(void *slip, const ss_verdict *verdict) {
    fixture_call *call = slip;
    fixture *f = call->fixture;
    ss_connection *connection = ss_reply_take(&call->reply);
    if (connection && f->is_open) {
        f->is_open = connection->protocol->answer(connection, call->reply.stream, verdict) &&
                     connection->protocol->produce(connection);
    }
    ss_promise_release(call->reply.promise);
}

/* Take the request, as a queue would: its answer is given by fixture_answer. */
static inline bool fixture_await(fixture *f, const ss_request *request) {
    fixture_call *call = calloc(1, sizeof *call);
    ss_promise_slot slot = {.route = request->route};
    const ss_outcome outcome = {.receiver = f->counter};
    const ss_verdict taken = {0};
    *call = (fixture_call){.pledge.withdraw = fixture_withdraw, .fixture = f};
    f->waiting[f->n_waiting] = call;
    if (!ss_promise_join(&slot, &call->pledge)) {
        free(call);
        return false;
    }
    ss_promise_seal(slot.promise, &outcome, &taken);
    f->n_waiting++;
    f->deadline_ns = request->route->deadline_ns;
    return true;
}

static inline void fixture_accept(void *receiver, ss_worker *worker, const ss_request *request, ss_verdict *verdict) {
    (void)worker;
    fixture *f = receiver;
    f->n_accepted++;
    f->signal = request->signal;
    f->transport = request->transport;
    f->payload = request->payload;
    f->total_bytes += request->length;
    f->message.length = 0;
    (void)ss_buffer_append(&f->message, request->bytes, request->length);
    f->metadata.length = 0;
    (void)ss_buffer_append(&f->metadata, request->metadata, request->metadata_length);
    *verdict = f->verdict;
    verdict->is_pending = verdict->is_pending && request->route && f->n_waiting < FIXTURE_WAITING_MAX;
    verdict->is_pending = verdict->is_pending && fixture_await(f, request);
}

/* Answer the oldest request that waits; its client may be gone. */
static inline void fixture_answer(fixture *f) {
    fixture_call *call = f->waiting[0];
    const ss_verdict verdict = {.code = f->verdict.code, .rejected_items = f->verdict.rejected_items};
    memmove(f->waiting, f->waiting + 1, --f->n_waiting * sizeof(fixture_call *));
    ss_promise_tell(&call->pledge, &verdict);
    free(call);
}

static inline bool fixture_has_signal(const void *receiver, ss_signal signal) {
    return !((const fixture *)receiver)->lacks_signal[signal];
}

static inline void fixture_connect(fixture *f) {
    f->connection = f->has_http2 || f->listener.config.transport == SS_TRANSPORT_GRPC
                        ? ss_http2_new(&f->scratch, &f->listener)
                        : ss_http1_new(&f->scratch, &f->listener);
    f->is_open = f->connection != NULL;
}

static inline void fixture_disconnect(fixture *f) {
    ss_buffer_free(&f->connection->output);
    f->connection->protocol->free(f->connection);
    f->connection = NULL;
}

static inline void fixture_start(fixture *f, ss_transport transport) {
    *f = (fixture){0};
    f->service = (ss_service){
        .runtime = ss_runtime_new(), .accept = fixture_accept, .has_signal = fixture_has_signal, .receiver = f};
    ss_admin_init(&f->service.admin);
    f->listener.config = (ss_listener_config){.transport = transport,
                                              .max_message_bytes = 100000,
                                              .max_concurrent_streams = 200,
                                              .initial_window_bytes = 2 << 20,
                                              .pings_without_calls = true,
                                              .paths = {"/v1/traces", "/v1/metrics", "/v1/logs"}};
    (void)ss_scratch_init(&f->scratch, &f->service, 0);
    f->scratch.now_ns = 1000000000;
    f->scratch.route = (ss_reply_route){.open = fixture_open, .send = fixture_send, .context = f};
    f->counter = ss_receiver_new(NULL, SS_INVALID_REJECT_ITEM);
    fixture_connect(f);
}

static inline uint64_t fixture_held_bytes(const fixture *f) {
    return ss_runtime_in_flight_bytes(f->service.runtime);
}

static inline void fixture_stop(fixture *f) {
    fixture_disconnect(f);
    while (f->n_waiting) {
        fixture_answer(f);
    }
    ss_receiver_free(f->counter);
    f->held_bytes = fixture_held_bytes(f);
    ss_runtime_free(f->service.runtime);
    ss_scratch_release(&f->scratch);
    ss_buffer_free(&f->message);
    ss_buffer_free(&f->metadata);
    ss_names_free(&f->listener.metadata_names);
    ss_admin_release(&f->service.admin);
    ss_cors_free(f->listener.cors);
}

/* Give the connection bytes as one read would; output gathers in connection->output. */
static inline void fixture_feed(fixture *f, const void *bytes, size_t length) {
    if (!f->is_open) {
        return;
    }
    /* A copy of its own, freed at once: what is borrowed for too long shows under the address sanitizer. */
    uint8_t *copy = malloc(length ? length : 1);
    memcpy(copy, bytes, length);
    f->is_open = f->connection->protocol->receive(f->connection, copy, length);
    free(copy);
    if (f->is_open) {
        f->is_open = f->connection->protocol->produce(f->connection);
    }
}

static inline void fixture_tick(fixture *f, uint64_t passed_ns) {
    f->scratch.now_ns += passed_ns;
    if (f->is_open) {
        f->is_open = f->connection->protocol->tick(f->connection) && f->connection->protocol->produce(f->connection);
    }
}

#endif
