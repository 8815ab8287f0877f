/* Where transports hand over: route by signal, scan once, judge the items, count. */
#include "core/verdict.h"
#include "otlp/faults.h"
#include "plan/consumer.h"

#include <stdlib.h>
#include <string.h>

struct ss_receiver {
    uint64_t n_holders; /* its maker, and promises; atomic */
    ss_runtime *runtime;
    ss_invalid_items invalid_items;
    ss_consumer *routes[SS_N_SIGNALS]; /* atomic */
    ss_receiver_stats stats;           /* relaxed atomics */
    pthread_mutex_t fault_lock;        /* guards what follows */
    char last_fault[sizeof((ss_verdict){0}.message)];
};

ss_receiver *ss_receiver_new(ss_runtime *runtime, ss_invalid_items invalid_items) {
    ss_receiver *receiver = calloc(1, sizeof *receiver);
    if (receiver) {
        receiver->n_holders = 1;
        receiver->runtime = runtime;
        receiver->invalid_items = invalid_items;
        pthread_mutex_init(&receiver->fault_lock, NULL);
    }
    return receiver;
}

ss_receiver *ss_receiver_hold(ss_receiver *receiver) {
    __atomic_fetch_add(&receiver->n_holders, 1, __ATOMIC_RELAXED);
    return receiver;
}

void ss_receiver_free(ss_receiver *receiver) {
    if (receiver && __atomic_sub_fetch(&receiver->n_holders, 1, __ATOMIC_ACQ_REL) == 0) {
        pthread_mutex_destroy(&receiver->fault_lock);
        free(receiver);
    }
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

/* A request on its way through the receiver. */
typedef struct reading {
    const ss_request *request;
    const uint8_t *bytes; /* of the request in protobuf, repaired */
    size_t length;
    ss_table *table;
    ss_faults faults;
    uint64_t n_repaired; /* texts */
    uint32_t n_frames;   /* taken from the worker */
} reading;

static ss_frame *take_frame(reading *r, ss_worker *worker) {
    ss_frame *frame = ss_worker_push_frame(worker);
    r->n_frames += frame != NULL;
    return frame;
}

/* Turn a JSON payload into protobuf bytes in frame; other payloads stay where they are. */
static ss_status decode(reading *r, ss_frame *frame, char path[SS_PATH_SIZE], ss_error *error) {
    const ss_request *request = r->request;
    r->bytes = request->bytes;
    r->length = request->length;
    if (request->payload == SS_PAYLOAD_PROTOBUF) {
        return SS_OK;
    }
    ss_status status = ss_json_to_otlp_items(request->signal, request->bytes, request->length, ss_frame_holding(frame),
                                             &frame->bytes, &r->n_repaired, path, error);
    r->bytes = frame->bytes.data;
    r->length = frame->bytes.length;
    return status;
}

static ss_status scan(reading *r, ss_frame *frame, bool checks_texts, ss_error *error) {
    r->table = frame->table;
    return ss_scan_items(r->request->signal, r->bytes, r->length, checks_texts, r->table, &r->faults, error);
}

/* Decode, scan, and repair what can be. Fails with verdict where the request cannot be read. */
static ss_status read_request(reading *r, ss_worker *worker, bool repairs_texts, ss_verdict *verdict) {
    ss_error error = {.code = SS_ERR_NO_MEMORY};
    ss_frame *frame = take_frame(r, worker);
    char path[SS_PATH_SIZE] = "";
    ss_status status = frame ? decode(r, frame, path, &error) : SS_ERR_NO_MEMORY;
    /* The texts of JSON have been looked at. */
    bool checks_texts = repairs_texts && r->request->payload == SS_PAYLOAD_PROTOBUF;
    if (status == SS_OK) {
        status = scan(r, frame, checks_texts, &error);
        if (status == SS_ERR_MALFORMED || status == SS_ERR_LIMIT) {
            ss_path_write(r->request->signal, r->bytes, r->length, error.offset, path, sizeof path);
        }
    }
    if (status == SS_OK && r->faults.has_bad_text) {
        frame = take_frame(r, worker);
        status = frame ? ss_repair_texts(r->request->signal, r->bytes, r->length, ss_frame_holding(frame),
                                         &frame->bytes, &r->n_repaired)
                       : SS_ERR_NO_MEMORY;
        error = (ss_error){.code = status, .reason = ss_reason_memory};
        if (status == SS_OK) {
            r->bytes = frame->bytes.data;
            r->length = frame->bytes.length;
            status = scan(r, frame, false, &error);
        }
    }
    return status == SS_OK ? SS_OK : ss_view_reject(verdict, r->request->signal, &error, path);
}

static void remember_fault(ss_receiver *receiver, const char *message) {
    pthread_mutex_lock(&receiver->fault_lock);
    snprintf(receiver->last_fault, sizeof receiver->last_fault, "%s", message);
    pthread_mutex_unlock(&receiver->fault_lock);
}

static void count_faults(const ss_outcome *outcome) {
    ss_receiver_stats *stats = &outcome->receiver->stats;
    for (unsigned fault = 0; fault < SS_N_FAULTS; fault++) {
        add(&stats->rejected[outcome->signal][outcome->transport][fault], outcome->rejected[fault]);
    }
    add(&stats->refused[outcome->signal][outcome->transport], outcome->n_items - outcome->n_valid);
    add(&stats->repaired_texts[outcome->signal][outcome->transport], outcome->n_repaired);
    remember_fault(outcome->receiver, outcome->message);
}

void ss_outcome_settle(const ss_outcome *outcome, ss_verdict *verdict) {
    ss_receiver_stats *stats = &outcome->receiver->stats;
    if (verdict->code != SS_CODE_OK) { /* the client sends all of them again, or none */
        add(&stats->refused[outcome->signal][outcome->transport], outcome->n_items);
        return;
    }
    add(&stats->accepted[outcome->signal][outcome->transport], outcome->n_valid);
    if (__builtin_expect(outcome->message[0] != 0, 0)) {
        char theirs[sizeof verdict->message]; /* of what is behind us */
        memcpy(theirs, verdict->message, sizeof theirs);
        memcpy(verdict->message, outcome->message, sizeof verdict->message);
        size_t length = strlen(verdict->message);
        if (theirs[0] && snprintf(verdict->message + length, sizeof verdict->message - length, "; %s", theirs) < 0) {
            verdict->message[length] = 0;
        }
        verdict->rejected_items += outcome->n_items - outcome->n_valid;
        count_faults(outcome);
    }
}

/* What is to be told of a request that is taken: nothing, most of the time. */
static void describe(const reading *r, ss_outcome *outcome) {
    static const char *const item_names[SS_N_SIGNALS] = {
        [SS_SIGNAL_TRACES] = "spans", [SS_SIGNAL_METRICS] = "data points", [SS_SIGNAL_LOGS] = "log records"};
    char *message = outcome->message;
    const size_t size = sizeof outcome->message;
    size_t length = 0;
    message[0] = 0;
    if (r->n_repaired) {
        length = (size_t)snprintf(message, size, "%llu %s not UTF-8 and %s been repaired%s",
                                  (unsigned long long)r->n_repaired, r->n_repaired == 1 ? "text was" : "texts were",
                                  r->n_repaired == 1 ? "has" : "have", r->faults.n_items ? "; " : "");
    }
    if (r->faults.n_items) {
        length += (size_t)snprintf(message + length, size - length, "%u of %u %s rejected: ", r->faults.n_items,
                                   r->table->n_rows, item_names[r->request->signal]);
        ss_faults_describe(&r->faults, r->table, r->request->payload, message + length, size - length);
    }
}

static void fill_outcome(ss_receiver *receiver, const reading *r, ss_outcome *outcome) {
    outcome->receiver = receiver;
    outcome->signal = r->request->signal;
    outcome->transport = r->request->transport;
    outcome->n_items = r->table->n_rows;
    outcome->n_valid = r->table->n_rows - r->faults.n_items; /* the table has been handed on, and marked */
    outcome->n_repaired = r->n_repaired;
    for (unsigned fault = 0; fault < SS_N_FAULTS; fault++) {
        outcome->rejected[fault] = r->faults.by_fault[fault];
    }
}

/* Nothing of the request is taken: no item is valid, or one that is not costs them all. */
static ss_status reject_request(ss_receiver *receiver, const reading *r, ss_verdict *verdict) {
    static const char *const names[SS_N_SIGNALS] = {"traces", "metrics", "logs"};
    ss_outcome outcome;
    fill_outcome(receiver, r, &outcome);
    int length = snprintf(outcome.message, sizeof outcome.message, "otlp %s: ", names[r->request->signal]);
    ss_faults_describe(&r->faults, r->table, r->request->payload, outcome.message + length,
                       sizeof outcome.message - (size_t)length);
    if (receiver->invalid_items == SS_INVALID_REJECT_ITEM) { /* else it is malformed as a whole */
        count_faults(&outcome);
    }
    return ss_reject(verdict, SS_ERR_MALFORMED, SS_CODE_INVALID_ARGUMENT, outcome.message);
}

/* Pass on the valid items. Returns the promise that the caller has to wait for, NULL: verdict is the answer. */
static ss_promise *pass_on(ss_receiver *receiver, ss_consumer *consumer, ss_worker *worker, const reading *r,
                           ss_verdict *verdict) {
    ss_promise_slot slot = {.route = r->request->route};
    const ss_view view = {.signal = r->request->signal,
                          .bytes = r->bytes,
                          .length = r->length,
                          .n_items = r->table->n_kept,
                          .table = r->table,
                          .promise = &slot,
                          .metadata = r->request->metadata,
                          .metadata_length = r->request->metadata_length};
    ss_outcome outcome;
    fill_outcome(receiver, r, &outcome);
    describe(r, &outcome);
    (void)ss_consume(consumer, worker, &view, verdict);
    if (!slot.promise) {
        ss_outcome_settle(&outcome, verdict);
        return NULL;
    }
    ss_promise_seal(slot.promise, &outcome, verdict);
    verdict->is_pending = slot.route != NULL;
    verdict->is_too_fast = slot.n_late == slot.n_joined; /* a backend may take minutes */
    return slot.route ? NULL : slot.promise;
}

static ss_promise *accept_routed(ss_receiver *receiver, ss_consumer *consumer, ss_worker *worker,
                                 const ss_request *request, ss_verdict *verdict) {
    reading r = {.request = request};
    ss_promise *promise = NULL;
    bool takes_parts = receiver->invalid_items == SS_INVALID_REJECT_ITEM;
    ss_status status = read_request(&r, worker, takes_parts, verdict);
    if (status == SS_OK && r.faults.n_items && (!takes_parts || !r.table->n_kept)) {
        status = reject_request(receiver, &r, verdict);
    }
    if (status != SS_OK) {
        add(&receiver->stats.malformed[request->signal][request->transport], verdict->code == SS_CODE_INVALID_ARGUMENT);
    } else if (r.table->n_kept) { /* an empty request is a success that goes nowhere */
        promise = pass_on(receiver, consumer, worker, &r, verdict);
    }
    while (r.n_frames--) {
        ss_worker_pop_frame(worker);
    }
    return promise;
}

void ss_receiver_accept(void *context, ss_worker *worker, const ss_request *request, ss_verdict *verdict) {
    ss_receiver *receiver = context;
    *verdict = (ss_verdict){0};
    ss_worker_enter(worker);
    ss_consumer *consumer = __atomic_load_n(&receiver->routes[request->signal], __ATOMIC_SEQ_CST);
    add(&receiver->stats.requests[request->signal][request->transport], 1);
    add(&receiver->stats.bytes[request->signal][request->transport], request->length);
    ss_promise *promise = NULL;
    if (consumer) {
        worker->is_taking = true;
        promise = accept_routed(receiver, consumer, worker, request, verdict);
        worker->is_taking = false;
    } else {
        ss_reject(verdict, SS_ERR_UNSUPPORTED, SS_CODE_UNIMPLEMENTED, "no pipeline takes this signal");
    }
    ss_worker_exit(worker);
    if (promise) {
        ss_promise_wait(promise, verdict); /* outside: a reload waits for nobody's backend */
    }
}

void ss_receiver_read_stats(const ss_receiver *receiver, ss_receiver_stats *stats) {
    const uint64_t *from = (const uint64_t *)&receiver->stats;
    uint64_t *to = (uint64_t *)stats;
    for (size_t i = 0; i < sizeof *stats / sizeof *to; i++) {
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    }
}

void ss_receiver_last_fault(const ss_receiver *receiver, char *text, size_t size) {
    ss_receiver *self = (ss_receiver *)(uintptr_t)receiver; /* the lock is no part of what const promises */
    pthread_mutex_lock(&self->fault_lock);
    snprintf(text, size, "%s", self->last_fault);
    pthread_mutex_unlock(&self->fault_lock);
}
