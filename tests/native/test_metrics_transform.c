/* metricstransform at the C seam: exact bytes, odd encodings of the same data, bad configuration, threads, cost. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/bytes.h"
#include "ops/op.h"
#include "otlp_fields.h"
#include "spansieve.h"
#include "wire.h"

/* ---------------------------------------------------------------- making requests */

static void put_number(ss_buffer *sum, const char *user, int64_t value) {
    ss_buffer point = {0};
    put_fixed64(&point, SS_NUMBER_DATA_POINT_TIME_UNIX_NANO, 9);
    put_fixed64(&point, SS_NUMBER_DATA_POINT_AS_INT, (uint64_t)value);
    put_attribute(&point, SS_NUMBER_DATA_POINT_ATTRIBUTES, "user", user);
    put_message(sum, SS_SUM_DATA_POINTS, &point);
    ss_buffer_free(&point);
}

/* The request around the body of a data container; takes data's bytes. */
static ss_buffer request_of(uint32_t metric_field, ss_buffer *data) {
    ss_buffer metric = {0};
    ss_buffer scope = {0};
    ss_buffer resource = {0};
    ss_buffer request = {0};
    put_bytes(&metric, SS_METRIC_NAME, "m", 1);
    put_message(&metric, metric_field, data);
    put_message(&scope, SS_SCOPE_METRICS_METRICS, &metric);
    put_message(&resource, SS_RESOURCE_METRICS_SCOPE_METRICS, &scope);
    put_message(&request, SS_EXPORT_METRICS_SERVICE_REQUEST_RESOURCE_METRICS, &resource);
    ss_buffer_free(data);
    ss_buffer_free(&metric);
    ss_buffer_free(&scope);
    ss_buffer_free(&resource);
    return request;
}

/* ---------------------------------------------------------------- running */

static ss_op *drop_user_op(void) {
    const ss_metric_operation operation = {.action = SS_METRIC_ACTION_DELETE_LABEL, .label = "user"};
    const ss_metric_transform transform = {.include = "m", .operations = &operation, .n_operations = 1};
    const ss_metrics_transform_config config = {&transform, 1};
    ss_error error;
    ss_op *op = ss_metrics_transform_new(&config, &error);
    CHECK(op != NULL);
    return op;
}

static ss_status apply(ss_op *op, const ss_buffer *request, ss_buffer *out) {
    ss_table *table = ss_table_new();
    ss_error error;
    ss_verdict verdict = {0};
    out->length = 0;
    ss_status status = ss_scan(SS_SIGNAL_METRICS, request->data, request->length, table, &error);
    if (status == SS_OK) {
        status = op->vtable->run(op, table, &verdict);
        CHECK(status == SS_OK);
        ss_op_settle_counts(table, 0, true);
        CHECK(ss_emit(table, 0, table->n_rows, out) == SS_OK);
    }
    ss_table_free(table);
    return status;
}

/* ---------------------------------------------------------------- tests */

static void test_merged_points_have_exact_bytes(void) {
    ss_buffer sum = {0};
    put_number(&sum, "a", 3);
    put_number(&sum, "b", 4);
    ss_buffer request = request_of(SS_METRIC_SUM, &sum);
    ss_buffer point = {0};
    put_fixed64(&point, SS_NUMBER_DATA_POINT_TIME_UNIX_NANO, 9);
    put_fixed64(&point, SS_NUMBER_DATA_POINT_AS_INT, 7);
    put_message(&sum, SS_SUM_DATA_POINTS, &point);
    ss_buffer expected = request_of(SS_METRIC_SUM, &sum);
    ss_buffer actual = {0};
    ss_op *op = drop_user_op();
    CHECK(apply(op, &request, &actual) == SS_OK);
    check_bytes(&expected, &actual);
    CHECK_EQUAL(1, ss_op_counter(op, SS_METRICS_TRANSFORM_MERGED));
    ss_op_free(op);
    ss_buffer_free(&point);
    ss_buffer_free(&request);
    ss_buffer_free(&expected);
    ss_buffer_free(&actual);
}

/* Counts in n_pieces fields of one element each, packed or not, mean what one packed field means. */
static void put_histogram(ss_buffer *data, const char *user, size_t n_buckets, int form) {
    ss_buffer point = {0};
    ss_buffer counts = {0};
    put_fixed64(&point, SS_HISTOGRAM_DATA_POINT_TIME_UNIX_NANO, 9);
    put_fixed64(&point, SS_HISTOGRAM_DATA_POINT_COUNT, n_buckets);
    put_attribute(&point, SS_HISTOGRAM_DATA_POINT_ATTRIBUTES, "user", user);
    for (uint64_t i = 0, one = 1; i < n_buckets; i++) {
        if (form == 0) {
            put(&counts, &one, 8);
        } else if (form == 1) {
            put_fixed64(&point, SS_HISTOGRAM_DATA_POINT_BUCKET_COUNTS, one);
        } else {
            put_bytes(&point, SS_HISTOGRAM_DATA_POINT_BUCKET_COUNTS, &one, 8);
        }
    }
    if (form == 0) {
        put_message(&point, SS_HISTOGRAM_DATA_POINT_BUCKET_COUNTS, &counts);
    }
    put_message(data, SS_HISTOGRAM_DATA_POINTS, &point);
    ss_buffer_free(&counts);
    ss_buffer_free(&point);
}

static void test_split_and_unpacked_counts_are_added(void) {
    enum { BUCKETS = 100000 }; /* in so many pieces, putting them together must stay linear */
    ss_buffer data = {0};
    ss_buffer actual = {0};
    for (int form = 0; form < 3; form++) {
        put_histogram(&data, (const char[]){(char)('a' + form), 0}, BUCKETS, form);
    }
    ss_buffer request = request_of(SS_METRIC_HISTOGRAM, &data);
    ss_op *op = drop_user_op();
    CHECK(apply(op, &request, &actual) == SS_OK);
    CHECK_EQUAL(2, ss_op_counter(op, SS_METRICS_TRANSFORM_MERGED));
    uint64_t last = 0;
    CHECK(actual.length > BUCKETS * 8);
    memcpy(&last, actual.data + actual.length - 8, 8);
    CHECK_EQUAL(3, last);
    ss_op_free(op);
    ss_buffer_free(&request);
    ss_buffer_free(&actual);
}

static void test_every_truncation_is_refused_or_done(void) {
    ss_buffer data = {0};
    ss_buffer actual = {0};
    put_number(&data, "a", 3);
    put_number(&data, "b", 4);
    ss_buffer request = request_of(SS_METRIC_GAUGE, &data);
    ss_op *op = drop_user_op();
    for (size_t length = 1; length < request.length; length++) {
        uint8_t *exact = malloc(length); /* the sanitizer sees a read past its end */
        memcpy(exact, request.data, length);
        ss_buffer cut = {exact, length, length};
        CHECK(apply(op, &cut, &actual) == SS_ERR_MALFORMED);
        free(exact);
    }
    ss_op_free(op);
    ss_buffer_free(&request);
    ss_buffer_free(&actual);
}

static void test_bad_pattern_is_an_error_with_its_place(void) {
    const ss_metric_transform transform = {.include = "ab(", .is_regexp = true};
    const ss_metrics_transform_config config = {&transform, 1};
    ss_error error = {0};
    CHECK(ss_metrics_transform_new(&config, &error) == NULL);
    CHECK_EQUAL(SS_ERR_ARGUMENT, error.code);
    CHECK_EQUAL(3, error.offset);
    char message[64];
    uint32_t n_groups, n_named;
    CHECK(!ss_pattern_check("ab(", 3, &n_groups, &n_named, message, sizeof message));
    CHECK(strstr(message, "at byte 3") != NULL);
    const char pattern[] = "^(a).*(?P<name>b)$";
    CHECK(ss_pattern_check(pattern, sizeof pattern - 1, &n_groups, &n_named, message, sizeof message));
    CHECK_EQUAL(2, n_groups);
    CHECK_EQUAL(1, n_named);
}

typedef struct job {
    ss_op *op;
    const ss_buffer *request;
    const ss_buffer *expected;
} job;

static void *work(void *argument) {
    const job *j = argument;
    ss_buffer actual = {0};
    for (int i = 0; i < 200; i++) {
        CHECK(apply(j->op, j->request, &actual) == SS_OK);
        check_bytes(j->expected, &actual);
    }
    ss_buffer_free(&actual);
    return NULL;
}

static void test_threads_share_one_op(void) {
    enum { THREADS = 4 };
    ss_buffer data = {0};
    ss_buffer expected = {0};
    for (int i = 0; i < 50; i++) {
        put_number(&data, (const char[]){(char)('0' + i), 0}, i);
    }
    ss_buffer request = request_of(SS_METRIC_SUM, &data);
    ss_op *op = drop_user_op();
    CHECK(apply(op, &request, &expected) == SS_OK);
    job j = {op, &request, &expected};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, &j) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQUAL(49 * (200 * THREADS + 1), ss_op_counter(op, SS_METRICS_TRANSFORM_MERGED));
    ss_op_free(op);
    ss_buffer_free(&request);
    ss_buffer_free(&expected);
}

int main(void) {
    test_merged_points_have_exact_bytes();
    test_split_and_unpacked_counts_are_added();
    test_every_truncation_is_refused_or_done();
    test_bad_pattern_is_an_error_with_its_place();
    test_threads_share_one_op();
    return check_finish();
}
