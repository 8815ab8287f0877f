/* Memory is counted before it is taken: whatever a request makes grow is in the account while it is held, ends at the
 * limit, and leaves nothing behind. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/verdict.h"
#include "otlp/faults.h"
#include "otlp/table.h"
#include "plan/consumer.h"
#include "plan/runtime.h"

enum { MIB = 1 << 20, AT_REST = 20 * MIB, LIMIT = 100 * MIB, N_OPS_MAX = 2 };

/* Notes how much is in the account while a request is passed on. */
typedef struct probe {
    ss_consumer consumer;
    ss_runtime *runtime;
    uint64_t in_flight;
} probe;

static ss_status probe_consume(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker, (void)view, (void)verdict;
    probe *self = (probe *)consumer;
    self->in_flight = ss_runtime_in_flight_bytes(self->runtime);
    return SS_OK;
}

static void probe_free(ss_consumer *consumer) {
    (void)consumer;
}

static const ss_consumer_vtable probe_vtable = {probe_consume, probe_free};

/* A receiver before a pipeline of ops; with a memory limiter where limit is not 0. */
typedef struct scene {
    ss_runtime *runtime;
    ss_worker *worker;
    ss_receiver *receiver;
    ss_consumer *pipeline;
    ss_op *ops[N_OPS_MAX];
    size_t n_ops;
    probe behind;
} scene;

static void open_scene(scene *s, ss_signal signal, ss_op *op, uint64_t limit) {
    ss_error error;
    *s = (scene){.runtime = ss_runtime_new()};
    s->worker = ss_worker_new(s->runtime);
    s->receiver = ss_receiver_new(s->runtime, SS_INVALID_REJECT_ITEM);
    s->behind = (probe){.consumer = {&probe_vtable, signal}, .runtime = s->runtime};
    if (limit) {
        s->ops[s->n_ops++] = ss_memory_limiter_new(s->runtime, limit, limit, &error);
    }
    if (op) {
        s->ops[s->n_ops++] = op;
    }
    s->pipeline = ss_pipeline_new(signal, s->ops, s->n_ops, &s->behind.consumer);
    ss_receiver_publish(s->receiver, signal, s->pipeline);
    ss_runtime_set_rss(s->runtime, AT_REST);
}

static ss_verdict send_to(scene *s, ss_signal signal, ss_payload payload, const ss_buffer *request) {
    ss_verdict verdict;
    const ss_request r = {.signal = signal,
                          .transport = SS_TRANSPORT_HTTP,
                          .payload = payload,
                          .bytes = request->data,
                          .length = request->length};
    s->behind.in_flight = 0;
    ss_receiver_accept(s->receiver, s->worker, &r, &verdict);
    return verdict;
}

static void close_scene(scene *s) {
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s->runtime));
    for (uint32_t i = 0; i < SS_FRAMES_MAX; i++) {
        const ss_frame *frame = &s->worker->frames[i];
        CHECK(!frame->table || ss_frame_holding(frame)->held <= SS_HOLDING_KEPT);
    }
    ss_receiver_publish(s->receiver, s->behind.consumer.signal, NULL);
    ss_consumer_free(s->pipeline);
    for (size_t i = 0; i < s->n_ops; i++) {
        ss_op_free(s->ops[i]);
    }
    ss_receiver_free(s->receiver);
    ss_worker_free(s->worker);
    ss_runtime_free(s->runtime);
}

static void append(ss_buffer *buffer, const void *bytes, size_t length) {
    CHECK_EQUAL(SS_OK, ss_buffer_append(buffer, bytes, length));
}

/* Put field number, a message, around what is in buffer. */
static void wrap(ss_buffer *buffer, uint32_t number) {
    uint8_t head[1 + 5] = {(uint8_t)(number << 3 | 2)};
    for (int i = 0; i < 5; i++) {
        head[1 + i] = (uint8_t)((buffer->length >> (7 * i) & 0x7f) | (i < 4 ? 0x80 : 0));
    }
    CHECK_EQUAL(SS_OK, ss_buffer_reserve(buffer, sizeof head));
    memmove(buffer->data + sizeof head, buffer->data, buffer->length);
    memcpy(buffer->data, head, sizeof head);
    buffer->length += sizeof head;
}

/* A request of n items that are all item, in one scope. */
static ss_buffer make_items(uint32_t n, const void *item, size_t length) {
    ss_buffer request = {0};
    for (uint32_t i = 0; i < n; i++) {
        append(&request, item, length);
    }
    wrap(&request, 2);
    wrap(&request, 1);
    return request;
}

static const uint8_t small_item[] = {0x12, 7, 0x2a, 5, 'n', 'a', 'm', 'e', 's'};

static void test_rows_are_memory(void) {
    scene s;
    open_scene(&s, SS_SIGNAL_TRACES, NULL, 0);
    ss_buffer request = make_items(1000, small_item, sizeof small_item);
    CHECK_EQUAL(SS_CODE_OK, send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request).code);
    CHECK_EQUAL(0, s.behind.in_flight); /* of what is kept anyhow, nobody is told */
    ss_buffer_free(&request);
    request = make_items(400000, small_item, sizeof small_item);
    CHECK_EQUAL(SS_CODE_OK, send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request).code);
    CHECK(s.behind.in_flight > UINT64_C(400000) * 100 - SS_HOLDING_KEPT);
    ss_buffer_free(&request);
    close_scene(&s);
}

/* 4 million small spans took half a gigabyte, whatever the limit was. */
static void test_request_that_can_never_fit_is_rejected(void) {
    scene s;
    open_scene(&s, SS_SIGNAL_TRACES, NULL, LIMIT);
    ss_buffer request = make_items(4000000, small_item, sizeof small_item);
    ss_verdict verdict = send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request);
    CHECK_EQUAL(SS_CODE_INVALID_ARGUMENT, verdict.code);
    CHECK(!verdict.has_retry_delay);
    CHECK(strstr(verdict.message, "memory_limiter") != NULL);
    ss_buffer_free(&request);
    close_scene(&s);
}

/* Without a limit, too, memory is in proportion to what was sent: empty items would take sixty times their bytes. */
static void test_items_that_say_nothing_are_granted_little(void) {
    static const uint8_t empty_item[] = {0x12, 0};
    scene s;
    open_scene(&s, SS_SIGNAL_TRACES, NULL, 0);
    ss_buffer request = make_items(30000, empty_item, sizeof empty_item);
    CHECK_EQUAL(SS_CODE_OK, send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request).code);
    ss_buffer_free(&request);
    request = make_items(4000000, empty_item, sizeof empty_item);
    ss_verdict verdict = send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request);
    CHECK_EQUAL(SS_CODE_INVALID_ARGUMENT, verdict.code);
    CHECK(strstr(verdict.message, "too many items") != NULL);
    ss_buffer_free(&request);
    close_scene(&s);
}

static void test_request_that_does_not_fit_now_is_refused(void) {
    scene s;
    open_scene(&s, SS_SIGNAL_TRACES, NULL, LIMIT);
    ss_buffer request = make_items(400000, small_item, sizeof small_item);
    ss_runtime_account(s.runtime, LIMIT / 2);
    ss_verdict verdict = send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request);
    CHECK_EQUAL(SS_CODE_UNAVAILABLE, verdict.code);
    CHECK(verdict.has_retry_delay);
    CHECK_EQUAL(0, s.behind.in_flight);
    ss_runtime_account(s.runtime, -LIMIT / 2);
    CHECK_EQUAL(SS_CODE_OK, send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request).code);
    CHECK(s.behind.in_flight > 0);
    ss_buffer_free(&request);
    close_scene(&s);
}

/* A span brings 10 bytes of JSON, a bucket 2; on the wire a bucket is 8. */
static void test_what_json_becomes_is_memory(void) {
    static const char head[] =
        "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"histogram\":{\"dataPoints\":[{"
        "\"bucketCounts\":[0";
    static const char tail[] = "]}]}}]}]}]}";
    scene s;
    open_scene(&s, SS_SIGNAL_METRICS, NULL, LIMIT);
    for (uint32_t n = 1000000; n <= 12000000; n += 11000000) {
        ss_buffer request = {0};
        append(&request, head, sizeof head - 1);
        for (uint32_t i = 0; i < n; i++) {
            append(&request, ",0", 2);
        }
        append(&request, tail, sizeof tail - 1);
        ss_verdict verdict = send_to(&s, SS_SIGNAL_METRICS, SS_PAYLOAD_JSON, &request);
        CHECK_EQUAL(n == 1000000 ? SS_CODE_OK : SS_CODE_INVALID_ARGUMENT, verdict.code);
        CHECK(n == 1000000 ? s.behind.in_flight >= 8 * UINT64_C(1000000) - SS_HOLDING_KEPT : s.behind.in_flight == 0);
        ss_buffer_free(&request);
    }
    close_scene(&s);
}

static ss_op *new_insertion(void) {
    ss_error error;
    static const ss_value value = {.type = SS_TYPE_STRING, .string = {"0123456789012345678901234567890123456789", 40}};
    static const ss_attribute_action actions[] = {{.verb = SS_ATTRIBUTE_UPSERT, .key = {"k", 1}, .value = &value}};
    return ss_attributes_new(&(ss_attributes_config){.actions = actions, .n_actions = 1}, &error);
}

static void test_edits_are_memory(void) {
    scene s;
    open_scene(&s, SS_SIGNAL_TRACES, new_insertion(), 0);
    ss_buffer request = make_items(100000, small_item, sizeof small_item);
    CHECK_EQUAL(SS_CODE_OK, send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request).code);
    uint64_t with_edits = s.behind.in_flight;
    close_scene(&s);
    open_scene(&s, SS_SIGNAL_TRACES, NULL, 0);
    CHECK_EQUAL(SS_CODE_OK, send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request).code);
    CHECK(with_edits > s.behind.in_flight + UINT64_C(100000) * (50 + sizeof(ss_edit)));
    close_scene(&s);
    /* The rows have room, and the edits of so many have not. */
    open_scene(&s, SS_SIGNAL_TRACES, new_insertion(), s.behind.in_flight + AT_REST + 2 * MIB);
    CHECK(send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request).code != SS_CODE_OK);
    CHECK_EQUAL(0, s.behind.in_flight);
    close_scene(&s);
    ss_buffer_free(&request);
}

/* What an op makes of an item while it works on it: empty attributes, of two bytes, and data points with a time. */
static void test_scratch_is_memory(void) {
    enum { MANY = 2000000 };
    ss_error error;
    const ss_value value = {.type = SS_TYPE_INT, .integer = 1};
    const ss_attribute_action upsert[] = {{.verb = SS_ATTRIBUTE_UPSERT, .key = {"k", 1}, .value = &value}};
    const ss_metric_operation add_up[] = {{.action = SS_METRIC_ACTION_AGGREGATE_LABELS}};
    const ss_metric_transform transform = {.include = "", .operations = add_up, .n_operations = 1};
    static const uint32_t around[SS_N_SIGNALS] = {[SS_SIGNAL_TRACES] = 0, [SS_SIGNAL_METRICS] = 5};
    for (int signal = SS_SIGNAL_TRACES; signal <= SS_SIGNAL_METRICS; signal++) {
        bool is_metrics = signal == SS_SIGNAL_METRICS;
        ss_op *op = is_metrics
                        ? ss_metrics_transform_new(
                              &(ss_metrics_transform_config){.transforms = &transform, .n_transforms = 1}, &error)
                        : ss_attributes_new(&(ss_attributes_config){.actions = upsert, .n_actions = 1}, &error);
        static const uint8_t attribute[] = {0x4a, 0}, point[] = {0x0a, 9, 0x19, 1, 2, 3, 4, 5, 6, 7, 8};
        ss_buffer request = {0};
        for (uint32_t i = 0; i < (is_metrics ? MANY / 8 : MANY); i++) {
            append(&request, is_metrics ? point : attribute, is_metrics ? sizeof point : sizeof attribute);
        }
        if (around[signal]) {
            wrap(&request, around[signal]);
        }
        for (int level = 0; level < 3; level++) {
            wrap(&request, level == 2 ? 1 : 2);
        }
        scene s;
        open_scene(&s, (ss_signal)signal, op, AT_REST + 50 * MIB);
        ss_verdict verdict = send_to(&s, (ss_signal)signal, SS_PAYLOAD_PROTOBUF, &request);
        CHECK_EQUAL(SS_CODE_UNAVAILABLE, verdict.code);
        CHECK(strstr(verdict.message, is_metrics ? "metricstransform: " : "attributes: ") != NULL);
        ss_buffer_free(&request);
        close_scene(&s);
    }
}

/* A huge item's memory is given back behind it, and that of the next one is counted all the same. */
static void test_scratch_behind_a_huge_item_is_memory(void) {
    static const uint32_t n_attributes[] = {100000, 2000000};
    static const uint8_t attribute[] = {0x4a, 0};
    ss_buffer request = {0}, span = {0};
    for (int i = 0; i < 2; i++) {
        span.length = 0;
        for (uint32_t n = 0; n < n_attributes[i]; n++) {
            append(&span, attribute, sizeof attribute);
        }
        wrap(&span, 2);
        append(&request, span.data, span.length);
    }
    wrap(&request, 2);
    wrap(&request, 1);
    scene s;
    open_scene(&s, SS_SIGNAL_TRACES, new_insertion(), AT_REST + 50 * MIB);
    ss_verdict verdict = send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request);
    CHECK_EQUAL(SS_CODE_UNAVAILABLE, verdict.code);
    CHECK(strstr(verdict.message, "attributes: ") != NULL);
    close_scene(&s);
    ss_buffer_free(&span);
    ss_buffer_free(&request);
}

/* Bytes that are no UTF-8 become three each. */
static void test_repaired_texts_are_memory(void) {
    scene s;
    open_scene(&s, SS_SIGNAL_TRACES, NULL, 0);
    ss_buffer request = {0};
    CHECK_EQUAL(SS_OK, ss_buffer_reserve(&request, 8 * MIB));
    memset(request.data, 0xff, 8 * MIB);
    request.length = 8 * MIB;
    wrap(&request, 5);
    wrap(&request, 2);
    wrap(&request, 2);
    wrap(&request, 1);
    CHECK_EQUAL(SS_CODE_OK, send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request).code);
    CHECK(s.behind.in_flight > 20 * MIB);
    close_scene(&s);
    open_scene(&s, SS_SIGNAL_TRACES, NULL, AT_REST + 16 * MIB);
    CHECK_EQUAL(SS_CODE_INVALID_ARGUMENT, send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &request).code);
    close_scene(&s);
    ss_buffer_free(&request);
}

/* What a batch or another thread brings has been acknowledged: it goes on, or nothing would ever make room. */
static void test_what_has_been_taken_ends_at_no_limit(void) {
    scene s;
    open_scene(&s, SS_SIGNAL_TRACES, new_insertion(), LIMIT);
    ss_buffer request = make_items(2000000, small_item, sizeof small_item);
    ss_verdict verdict;
    CHECK_EQUAL(SS_OK, ss_consumer_push(s.pipeline, s.worker, request.data, request.length, &verdict));
    close_scene(&s);
    ss_buffer_free(&request);
}

static ss_status refuse_all(ss_consumer *consumer, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)consumer, (void)worker, (void)view;
    return ss_refuse(verdict, "full", 0);
}

/* Each batch repeats what is around its items: as long as there is room for that. The rest is one batch then. */
static void test_batches_repeat_what_there_is_room_for(void) {
    static const ss_consumer_vtable vtable = {refuse_all, probe_free};
    const ss_batch_config config = {.timeout_ns = UINT64_MAX, .send_batch_size = 1, .send_batch_max_size = 1};
    ss_consumer full = {&vtable, SS_SIGNAL_TRACES}, *outputs[] = {&full};
    ss_buffer request = make_items(2000, small_item, sizeof small_item), resource = {0};
    CHECK_EQUAL(SS_OK, ss_buffer_reserve(&resource, 100000));
    memset(resource.data, 0, 100000);
    resource.length = 100000;
    wrap(&resource, 15); /* a field that is not known */
    wrap(&resource, 1);
    append(&resource, request.data + 6, request.length - 6);
    wrap(&resource, 1);
    for (int has_limit = 0; has_limit < 2; has_limit++) {
        scene s;
        ss_error error;
        open_scene(&s, SS_SIGNAL_TRACES, NULL, has_limit ? AT_REST + 30 * MIB : 0);
        ss_consumer *batch = ss_batch_new(s.runtime, SS_SIGNAL_TRACES, &config, outputs, 1, &error);
        ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, batch);
        CHECK_EQUAL(SS_CODE_OK, send_to(&s, SS_SIGNAL_TRACES, SS_PAYLOAD_PROTOBUF, &resource).code);
        uint64_t in_flight = ss_runtime_in_flight_bytes(s.runtime);
        CHECK(has_limit ? in_flight > 20 * MIB && in_flight < 31 * MIB : in_flight > 64 * MIB);
        ss_receiver_publish(s.receiver, SS_SIGNAL_TRACES, NULL);
        ss_consumer_free(batch);
        close_scene(&s);
    }
    ss_buffer_free(&resource);
    ss_buffer_free(&request);
}

/* The lowest of the limits counts, and one that is gone does not. */
static void test_limits_come_and_go(void) {
    ss_runtime *runtime = ss_runtime_new();
    ss_error error;
    CHECK_EQUAL(SS_OK, ss_runtime_take(runtime, UINT64_C(1) << 40, 0));
    ss_runtime_account(runtime, -(INT64_C(1) << 40));
    ss_op *high = ss_memory_limiter_new(runtime, 20, 20, &error);
    ss_op *low = ss_memory_limiter_new(runtime, 10, 10, &error);
    CHECK_EQUAL(SS_ERR_LIMIT, ss_runtime_take(runtime, 10, 10));
    CHECK_EQUAL(SS_OK, ss_runtime_take(runtime, 5, 5));
    CHECK_EQUAL(SS_ERR_NO_MEMORY, ss_runtime_take(runtime, 5, 5));
    CHECK_EQUAL(5, ss_runtime_in_flight_bytes(runtime));
    ss_op_free(low);
    CHECK_EQUAL(SS_OK, ss_runtime_take(runtime, 5, 5));
    ss_runtime_free(runtime); /* the other limit keeps it */
    ss_op_free(high);
}

int main(void) {
    test_rows_are_memory();
    test_request_that_can_never_fit_is_rejected();
    test_items_that_say_nothing_are_granted_little();
    test_request_that_does_not_fit_now_is_refused();
    test_what_json_becomes_is_memory();
    test_edits_are_memory();
    test_scratch_is_memory();
    test_scratch_behind_a_huge_item_is_memory();
    test_repaired_texts_are_memory();
    test_what_has_been_taken_ends_at_no_limit();
    test_batches_repeat_what_there_is_room_for();
    test_limits_come_and_go();
    return check_finish();
}
