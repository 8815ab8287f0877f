/* Where transports hand over: route by signal, scan once, count. */
#include "plan/consumer.h"
#include "core/verdict.h"

#include <stdlib.h>

struct ss_receiver {
    ss_runtime *runtime;
    ss_consumer *routes[SS_N_SIGNALS]; /* atomic */
    ss_receiver_stats stats;           /* relaxed atomics */
};

ss_receiver *ss_receiver_new(ss_runtime *runtime) {
    ss_receiver *receiver = calloc(1, sizeof *receiver);
    if (receiver) {
        receiver->runtime = runtime;
    }
    return receiver;
}

void ss_receiver_free(ss_receiver *receiver) {
    free(receiver);
}

void ss_receiver_publish(ss_receiver *receiver, ss_signal signal, ss_consumer *consumer) {
    if ((unsigned)signal < SS_N_SIGNALS) {
        __atomic_store_n(&receiver->routes[signal], consumer, __ATOMIC_SEQ_CST);
    }
}

bool ss_receiver_has_signal(const ss_receiver *receiver, ss_signal signal) {
    return (unsigned)signal < SS_N_SIGNALS && __atomic_load_n(&receiver->routes[signal], __ATOMIC_SEQ_CST);
}

static void add(uint64_t *counter, uint64_t value) {
    __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

/* Turn a JSON payload into protobuf bytes in frame; other payloads stay where they are. */
static ss_status decode(const ss_request *request, ss_frame *frame, const uint8_t **bytes, size_t *length,
                        ss_verdict *verdict) {
    ss_error error = {0};
    *bytes = request->bytes;
    *length = request->length;
    if (request->payload == SS_PAYLOAD_PROTOBUF) {
        return SS_OK;
    }
    if (ss_json_to_otlp(request->signal, request->bytes, request->length, &frame->bytes, &error) != SS_OK) {
        return ss_view_reject(verdict, request->signal, &error);
    }
    *bytes = frame->bytes.data;
    *length = frame->bytes.length;
    return SS_OK;
}

static void accept_routed(ss_receiver *receiver, ss_consumer *consumer, ss_worker *worker, const ss_request *request,
                          ss_verdict *verdict) {
    ss_frame *frame = ss_worker_push_frame(worker);
    if (!frame) {
        ss_refuse(verdict, "out of memory", 1000);
        return;
    }
    ss_receiver_stats *stats = &receiver->stats;
    unsigned signal = request->signal;
    unsigned transport = request->transport;
    const uint8_t *bytes;
    size_t length;
    ss_view view;
    ss_status status = decode(request, frame, &bytes, &length, verdict);
    if (status == SS_OK) {
        status = ss_view_scan(request->signal, bytes, length, frame->table, &view, verdict);
    }
    if (status != SS_OK) {
        add(&stats->malformed[signal][transport], 1);
    } else if (view.n_items) { /* an empty request is a success that goes nowhere */
        uint64_t n_items = view.n_items;
        status = ss_consume(consumer, worker, &view, verdict);
        add(status == SS_OK ? &stats->accepted[signal][transport] : &stats->refused[signal][transport], n_items);
    }
    ss_worker_pop_frame(worker);
}

void ss_receiver_accept(void *context, ss_worker *worker, const ss_request *request, ss_verdict *verdict) {
    ss_receiver *receiver = context;
    *verdict = (ss_verdict){0};
    ss_worker_enter(worker);
    ss_consumer *consumer = __atomic_load_n(&receiver->routes[request->signal], __ATOMIC_SEQ_CST);
    add(&receiver->stats.requests[request->signal][request->transport], 1);
    add(&receiver->stats.bytes[request->signal][request->transport], request->length);
    if (consumer) {
        accept_routed(receiver, consumer, worker, request, verdict);
    } else {
        ss_reject(verdict, SS_ERR_UNSUPPORTED, SS_CODE_UNIMPLEMENTED, "no pipeline takes this signal");
    }
    ss_worker_exit(worker);
}

void ss_receiver_read_stats(const ss_receiver *receiver, ss_receiver_stats *stats) {
    const uint64_t *from = (const uint64_t *)&receiver->stats;
    uint64_t *to = (uint64_t *)stats;
    for (size_t i = 0; i < sizeof *stats / sizeof *to; i++) {
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    }
}
