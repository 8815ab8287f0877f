/* Columns of values, edits of attributes, and the thread between a queue and a consumer, at the C seam. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "made_request.h"
#include "otlp/table.h"
#include "spansieve.h"
#include "wire.h"

#define TEXT(literal) ((ss_text){literal, sizeof(literal) - 1})

enum { ROWS = 3 };
static const uint64_t MINUTE_NS = UINT64_C(60000000000);

/* ---------------------------------------------------------------- columns */

/* An attribute whose value stands in two pieces in front of its key: what a parser reads as one. */
static void put_odd_attribute(ss_buffer *out, uint32_t field, const char *key, const char *text) {
    ss_buffer value = {0}, pair = {0};
    put_bytes(&value, SS_ANY_VALUE_STRING_VALUE, "lost", 4);
    put_message(&pair, SS_KEY_VALUE_VALUE, &value);
    put_bytes(&value, SS_ANY_VALUE_STRING_VALUE, text, strlen(text));
    put_message(&pair, SS_KEY_VALUE_VALUE, &value);
    put_bytes(&pair, SS_KEY_VALUE_KEY, key, strlen(key));
    put_message(out, field, &pair);
    ss_buffer_free(&value);
    ss_buffer_free(&pair);
}

/* Three spans: a=x; none; a=x twice over, oddly. */
static ss_buffer three_spans(void) {
    ss_buffer span = {0}, scope = {0}, resource = {0}, request = {0};
    put_attribute(&span, SS_SPAN_ATTRIBUTES, "a", "x");
    put_message(&scope, SS_SCOPE_SPANS_SPANS, &span);
    put_message(&scope, SS_SCOPE_SPANS_SPANS, &span);
    put_odd_attribute(&span, SS_SPAN_ATTRIBUTES, "a", "x");
    put_attribute(&span, SS_SPAN_ATTRIBUTES, "a", "y");
    put_message(&scope, SS_SCOPE_SPANS_SPANS, &span);
    put_message(&resource, SS_RESOURCE_SPANS_SCOPE_SPANS, &scope);
    put_message(&request, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, &resource);
    ss_buffer_free(&span);
    ss_buffer_free(&scope);
    ss_buffer_free(&resource);
    return request;
}

typedef struct texts {
    ss_text_column column;
    uint32_t ends[ROWS];
    int32_t index[ROWS];
} texts;

static void read_texts(const ss_table *table, ss_column_source source, ss_text key, texts *read) {
    *read = (texts){0};
    read->column.ends = read->ends;
    read->column.index = read->index;
    CHECK_EQUAL(SS_OK, ss_table_texts(table, source, key, &read->column));
}

static bool text_is(const texts *read, uint32_t row, const char *expected) {
    if (read->index[row] < 0) {
        return !expected;
    }
    const uint32_t text = (uint32_t)read->index[row];
    const uint32_t start = text ? read->ends[text - 1] : 0;
    return expected && read->ends[text] - start == strlen(expected) &&
           (!expected[0] || memcmp(read->column.bytes.data + start, expected, strlen(expected)) == 0);
}

static void test_texts(void) {
    ss_buffer request = three_spans();
    ss_table *table = ss_table_new();
    ss_error error;
    texts read;
    double numbers[ROWS];
    CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, request.data, request.length, table, &error));
    CHECK_EQUAL(ROWS, table->n_rows);
    read_texts(table, SS_SOURCE_ATTRIBUTE, TEXT("a"), &read);
    CHECK(text_is(&read, 0, "x") && text_is(&read, 1, NULL) && text_is(&read, 2, "x"));
    CHECK_EQUAL(2, read.column.n_texts); /* neighbours share one, others do not */
    ss_buffer_free(&read.column.bytes);
    read_texts(table, SS_SOURCE_NAME, TEXT(""), &read);
    CHECK(text_is(&read, 0, "") && text_is(&read, 2, ""));
    CHECK_EQUAL(1, read.column.n_texts);
    ss_buffer_free(&read.column.bytes);
    read_texts(table, SS_SOURCE_RESOURCE_ATTRIBUTE, TEXT("a"), &read);
    CHECK(text_is(&read, 0, NULL) && text_is(&read, 2, NULL));
    ss_buffer_free(&read.column.bytes);
    read_texts(table, SS_SOURCE_BODY, TEXT(""), &read);
    CHECK(text_is(&read, 0, NULL) && text_is(&read, 2, NULL));
    ss_buffer_free(&read.column.bytes);
    CHECK_EQUAL(SS_OK, ss_table_numbers(table, SS_SOURCE_ATTRIBUTE, TEXT("a"), numbers));
    CHECK(isnan(numbers[0]) && isnan(numbers[1]) && isnan(numbers[2]));
    ss_table_free(table);
    ss_buffer_free(&request);
}

/* ---------------------------------------------------------------- edits */

static void test_edits(void) {
    ss_buffer request = three_spans(), held = {0};
    ss_table *table = ss_table_new();
    ss_error error;
    texts read;
    double numbers[ROWS];
    const ss_value values[] = {{.type = SS_TYPE_INT, .integer = -7}, {.type = SS_TYPE_STRING, .string = TEXT("z")}};
    const uint32_t chosen[ROWS] = {0, 1, UINT32_MAX};
    const uint8_t all[ROWS] = {1, 1, 1};
    CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, request.data, request.length, table, &error));
    CHECK_EQUAL(SS_OK, ss_table_settle(table, &held, &error));
    CHECK_EQUAL(0, held.length); /* nothing was edited */
    CHECK_EQUAL(SS_OK, ss_table_set_attribute(table, TEXT("a"), values, 2, chosen));
    CHECK_EQUAL(SS_OK, ss_table_settle(table, &held, &error));
    CHECK(table->bytes == held.data);
    CHECK(ss_table_is_untouched(table));
    ss_buffer_free(&request); /* no longer needed */
    read_texts(table, SS_SOURCE_ATTRIBUTE, TEXT("a"), &read);
    CHECK(text_is(&read, 0, "-7") && text_is(&read, 1, "z") && text_is(&read, 2, "x"));
    ss_buffer_free(&read.column.bytes);
    CHECK_EQUAL(SS_OK, ss_table_numbers(table, SS_SOURCE_ATTRIBUTE, TEXT("a"), numbers));
    CHECK(numbers[0] == -7 && isnan(numbers[1]));
    CHECK_EQUAL(SS_OK, ss_table_delete_attribute(table, TEXT("a"), all));
    CHECK_EQUAL(SS_OK, ss_table_settle(table, &held, &error));
    CHECK_EQUAL(0, table->attribute_count[0] + table->attribute_count[1] + table->attribute_count[2]);
    ss_table_free(table);
    ss_buffer_free(&held);
}

/* A processor may not make a small request huge at once. */
static void test_growth_is_bounded(void) {
    enum { N = 2000, LENGTH = 1 << 20 };
    ss_buffer request = make_request(N);
    ss_table *table = ss_table_new();
    ss_error error;
    char *text = calloc(1, LENGTH);
    uint32_t *chosen = calloc(N, sizeof *chosen);
    CHECK(text && chosen);
    const ss_value value = {.type = SS_TYPE_STRING, .string = {text, LENGTH}};
    CHECK_EQUAL(SS_OK, ss_scan(SS_SIGNAL_TRACES, request.data, request.length, table, &error));
    CHECK_EQUAL(SS_ERR_LIMIT, ss_table_set_attribute(table, TEXT("a"), &value, 1, chosen));
    free(text);
    free(chosen);
    ss_table_free(table);
    ss_buffer_free(&request);
}

/* ---------------------------------------------------------------- between a queue and a consumer */

typedef struct line {
    ss_runtime *runtime;
    ss_consumer *queue;
    ss_consumer *output;
} line;

/* Drops the first row of each request until the queue is closed. */
static void *work(void *argument) {
    const line *l = argument;
    ss_table_worker *self = ss_table_worker_new();
    ss_worker *worker = ss_worker_new(l->runtime);
    while (ss_table_worker_next(self, l->queue, MINUTE_NS) == SS_OK) {
        self->table->verdict[0] = SS_DROP;
        ss_table_recount(self->table);
        CHECK_EQUAL(SS_OK, ss_table_worker_pass(self, l->queue, worker, l->output));
        CHECK(!self->item.handle);
    }
    ss_worker_free(worker);
    ss_table_worker_free(self);
    return NULL;
}

static void *push(void *argument) {
    const line *l = argument;
    ss_worker *worker = ss_worker_new(l->runtime);
    for (uint32_t n = 1; n <= 100; n++) {
        ss_buffer request = make_request(n);
        ss_verdict verdict;
        CHECK_EQUAL(SS_OK, ss_consumer_push(l->queue, worker, request.data, request.length, &verdict));
        ss_buffer_free(&request);
    }
    ss_worker_free(worker);
    return NULL;
}

static void test_requests_of_many_threads(void) {
    ss_error error;
    line l = {.runtime = ss_runtime_new(), .output = ss_discard_new(SS_SIGNAL_TRACES)};
    l.queue = ss_queue_new(l.runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 1000, false, &error);
    pthread_t worker, pushers[2];
    pthread_create(&worker, NULL, work, &l);
    for (int i = 0; i < 2; i++) {
        pthread_create(&pushers[i], NULL, push, &l);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(pushers[i], NULL);
    }
    ss_queue_close(l.queue);
    pthread_join(worker, NULL);
    CHECK_EQUAL(2 * (100 * 101 / 2 - 100), ss_discard_items(l.output));
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(l.runtime));
    ss_consumer_free(l.queue);
    ss_consumer_free(l.output);
    ss_runtime_free(l.runtime);
}

/* What the output refuses stays at hand, and can be passed on again. */
static void test_a_refusal_keeps_the_request(void) {
    ss_error error;
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_consumer *queue = ss_queue_new(runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 10, false, &error);
    ss_consumer *output = ss_queue_new(runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 1, false, &error);
    ss_table_worker *self = ss_table_worker_new();
    ss_buffer request = make_request(2);
    ss_queue_item item;
    ss_verdict verdict;
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_table_worker_next(self, queue, 0));
    CHECK_EQUAL(SS_OK, ss_consumer_push(output, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(SS_OK, ss_consumer_push(queue, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(SS_OK, ss_table_worker_next(self, queue, MINUTE_NS));
    CHECK(ss_table_worker_pass(self, queue, worker, output) != SS_OK);
    CHECK_EQUAL(SS_CODE_UNAVAILABLE, self->verdict.code);
    CHECK(self->item.handle != NULL);
    CHECK_EQUAL(SS_OK, ss_queue_pop(output, 0, &item));
    CHECK(ss_queue_done(output, &item, &(ss_verdict){0}, 0));
    CHECK_EQUAL(SS_OK, ss_table_worker_pass(self, queue, worker, output));
    CHECK_EQUAL(SS_CODE_OK, self->verdict.code);
    CHECK(!self->item.handle);
    ss_queue_close(queue);
    CHECK_EQUAL(SS_ERR_CLOSED, ss_table_worker_next(self, queue, MINUTE_NS));
    ss_buffer_free(&request);
    ss_table_worker_free(self);
    ss_consumer_free(queue);
    ss_consumer_free(output);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
}

static void test_nothing_of_a_giant_request_is_kept(void) {
    enum { MANY = 200000 };
    ss_error error;
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_consumer *queue = ss_queue_new(runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 10, false, &error);
    ss_table_worker *self = ss_table_worker_new();
    ss_buffer spans = {0}, scope = {0}, request = {0};
    for (int i = 0; i < MANY; i++) {
        put_bytes(&spans, SS_SCOPE_SPANS_SPANS, "", 0);
    }
    put_message(&scope, SS_RESOURCE_SPANS_SCOPE_SPANS, &spans);
    put_message(&request, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, &scope);
    ss_verdict verdict;
    CHECK_EQUAL(SS_OK, ss_consumer_push(queue, worker, request.data, request.length, &verdict));
    CHECK_EQUAL(SS_OK, ss_table_worker_next(self, queue, 0));
    CHECK_EQUAL(MANY, self->table->n_rows);
    CHECK(self->table->private_state->holding.held > SS_HOLDING_KEPT);
    (void)ss_queue_done(queue, &self->item, NULL, 0);
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_table_worker_next(self, queue, 0));
    CHECK(self->table->private_state->holding.held <= SS_HOLDING_KEPT);
    ss_table_worker_free(self);
    ss_buffer_free(&spans);
    ss_buffer_free(&scope);
    ss_buffer_free(&request);
    ss_consumer_free(queue);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
}

int main(void) {
    test_texts();
    test_edits();
    test_growth_is_bounded();
    test_requests_of_many_threads();
    test_a_refusal_keeps_the_request();
    test_nothing_of_a_giant_request_is_kept();
    return check_finish();
}
