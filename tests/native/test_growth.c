/*
 * No request makes work grow with its square. Each dimension of a request is doubled in front of each operation, and
 * what is counted is steps, so that this says the same on every machine: the library is compiled so that each basic
 * block tells, and the linker puts our own functions in place of those that move or compare bytes.
 */
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "check.h"
#include "ops/op.h"
#include "otlp/regroup.h"
#include "otlp/table.h"
#include "otlp_fields.h"
#include "plan/metadata.h"
#include "spansieve.h"
#include "wire.h"

#define TEXT(literal) ((ss_text){literal, sizeof(literal) - 1})
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---------------------------------------------------------------- steps */

static uint64_t steps;

enum { BYTES_A_STEP = 16 };

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    steps++;
}

void *__real_memcpy(void *to, const void *from, size_t length);
void *__real_memmove(void *to, const void *from, size_t length);
void *__real_memset(void *to, int byte, size_t length);
void *__real_memchr(const void *from, int byte, size_t length);
void *__real_realloc(void *data, size_t length);
void *__wrap_memcpy(void *to, const void *from, size_t length);
void *__wrap_memmove(void *to, const void *from, size_t length);
void *__wrap_memset(void *to, int byte, size_t length);
void *__wrap_memchr(const void *from, int byte, size_t length);
int __wrap_memcmp(const void *a, const void *b, size_t length);
void *__wrap_realloc(void *data, size_t length);

void *__wrap_memcpy(void *to, const void *from, size_t length) {
    steps += length / BYTES_A_STEP;
    return __real_memcpy(to, from, length);
}

void *__wrap_memmove(void *to, const void *from, size_t length) {
    steps += length / BYTES_A_STEP;
    return __real_memmove(to, from, length);
}

void *__wrap_memset(void *to, int byte, size_t length) {
    steps += length / BYTES_A_STEP;
    return __real_memset(to, byte, length);
}

void *__wrap_memchr(const void *from, int byte, size_t length) {
    const uint8_t *found = __real_memchr(from, byte, length);
    steps += (found ? (size_t)(found - (const uint8_t *)from) : length) / BYTES_A_STEP;
    return (void *)found;
}

/* As far as the two are equal. */
int __wrap_memcmp(const void *a, const void *b, size_t length) {
    const uint8_t *x = a, *y = b;
    size_t at = 0;
    while (at < length && x[at] == y[at]) {
        at++;
    }
    steps += at / BYTES_A_STEP;
    return at == length ? 0 : x[at] - y[at];
}

/* An array that grows by a constant is moved as often as it has entries. */
void *__wrap_realloc(void *data, size_t length) {
    steps += length / BYTES_A_STEP;
    return __real_realloc(data, length);
}

/* What PCRE2 is given counts as gone through once; where it may go back, our own function counts. */
int __real_pcre2_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE length, PCRE2_SIZE start, uint32_t options,
                         pcre2_match_data *data, pcre2_match_context *context);
int __wrap_pcre2_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE length, PCRE2_SIZE start, uint32_t options,
                         pcre2_match_data *data, pcre2_match_context *context);
int __real_pcre2_dfa_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE length, PCRE2_SIZE start,
                             uint32_t options, pcre2_match_data *data, pcre2_match_context *context, int *workspace,
                             PCRE2_SIZE n_workspace);
int __wrap_pcre2_dfa_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE length, PCRE2_SIZE start,
                             uint32_t options, pcre2_match_data *data, pcre2_match_context *context, int *workspace,
                             PCRE2_SIZE n_workspace);

int __wrap_pcre2_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE length, PCRE2_SIZE start, uint32_t options,
                         pcre2_match_data *data, pcre2_match_context *context) {
    steps += length;
    return __real_pcre2_match_8(code, text, length, start, options, data, context);
}

int __wrap_pcre2_dfa_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE length, PCRE2_SIZE start,
                             uint32_t options, pcre2_match_data *data, pcre2_match_context *context, int *workspace,
                             PCRE2_SIZE n_workspace) {
    steps += length;
    return __real_pcre2_dfa_match_8(code, text, length, start, options, data, context, workspace, n_workspace);
}

/* ---------------------------------------------------------------- dimensions of a request */

/* The body of a message of each level, to which a dimension adds; the levels are put together behind it. */
typedef struct draft {
    ss_signal signal;
    ss_buffer item;      /* span, log record or data point */
    ss_buffer items;     /* further ones, as fields of what they lie in */
    ss_buffer data;      /* the data container of a metric */
    ss_buffer metric;    /* behind its data */
    ss_buffer scope;     /* of the Scope* message, in front of its items */
    ss_buffer resource;  /* the same of the Resource* message */
    ss_buffer resources; /* further ones, as fields of the request */
    uint32_t data_field; /* of metrics: which kind */
} draft;

typedef void dimension(draft *d, uint32_t n);

static const uint32_t attribute_fields[] = {SS_SPAN_ATTRIBUTES, SS_NUMBER_DATA_POINT_ATTRIBUTES,
                                            SS_LOG_RECORD_ATTRIBUTES};

static uint32_t attributes_of(const draft *d) {
    switch (d->data_field) {
    case SS_METRIC_HISTOGRAM: return SS_HISTOGRAM_DATA_POINT_ATTRIBUTES;
    case SS_METRIC_EXPONENTIAL_HISTOGRAM: return SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ATTRIBUTES;
    default: return attribute_fields[d->signal];
    }
}

static const char *numbered(char text[32], const char *prefix, uint32_t number) {
    snprintf(text, 32, "%s%u", prefix, number);
    return text;
}

static void put_id(ss_buffer *out, uint32_t field, uint64_t id, size_t size) {
    uint8_t bytes[16] = {0};
    memcpy(bytes, &id, sizeof id);
    bytes[size - 1] = 1;
    put_bytes(out, field, bytes, size);
}

/* What every item has: ids and names repeat as those of an attacker do, or do not. */
static void fill_item(const draft *d, ss_buffer *item, uint32_t number) {
    char text[32];
    if (d->signal == SS_SIGNAL_TRACES) {
        put_id(item, SS_SPAN_TRACE_ID, 1, 16);
        put_id(item, SS_SPAN_SPAN_ID, number + 1, 8);
        put_id(item, SS_SPAN_PARENT_SPAN_ID, number, 8);
        put_bytes(item, SS_SPAN_NAME, number % 4 ? "d" : "kept", number % 4 ? 1 : 4);
    } else if (d->signal == SS_SIGNAL_LOGS) {
        put_id(item, SS_LOG_RECORD_TRACE_ID, number, 16);
    } else {
        put_fixed64(item, SS_NUMBER_DATA_POINT_TIME_UNIX_NANO, 9);
        if (d->data_field == SS_METRIC_GAUGE || d->data_field == SS_METRIC_SUM) {
            put_fixed64(item, SS_NUMBER_DATA_POINT_AS_INT, number);
        } else if (d->data_field == SS_METRIC_HISTOGRAM) {
            put_fixed64(item, SS_HISTOGRAM_DATA_POINT_COUNT, 1);
            put_fixed64(item, SS_HISTOGRAM_DATA_POINT_BUCKET_COUNTS, 1);
        } else if (d->data_field == SS_METRIC_EXPONENTIAL_HISTOGRAM) {
            put_fixed64(item, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_COUNT, 1);
        }
    }
    put_attribute(item, attributes_of(d), "k", numbered(text, "v", number));
}

static uint32_t items_field(const draft *d) {
    return d->signal == SS_SIGNAL_METRICS ? SS_SUM_DATA_POINTS : SS_SCOPE_SPANS_SPANS;
}

static void many_items(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer item = {0};
        fill_item(d, &item, i);
        put_message(&d->items, items_field(d), &item);
        ss_buffer_free(&item);
    }
}

static void put_span(draft *d, char name, uint64_t trace, uint64_t id, uint64_t parent) {
    ss_buffer item = {0};
    put_id(&item, SS_SPAN_TRACE_ID, trace, 16);
    put_id(&item, SS_SPAN_SPAN_ID, id, 8);
    put_id(&item, SS_SPAN_PARENT_SPAN_ID, parent, 8);
    put_bytes(&item, SS_SPAN_NAME, &name, 1);
    put_message(&d->items, SS_SCOPE_SPANS_SPANS, &item);
    ss_buffer_free(&item);
}

/* Spans named d are dropped, and their children move up. */
static void ring_of_spans(draft *d, uint32_t n) {
    for (uint32_t i = 1; i <= n; i++) {
        put_span(d, 'd', 1, i, i % n + 1);
        put_span(d, 'k', 1, n + i, n - i + 1);
    }
}

static void one_span_id_in_all_traces(draft *d, uint32_t n) {
    for (uint32_t i = 1; i <= n; i++) {
        put_span(d, 'd', i, 1, 0);
        put_span(d, 'k', i, 2, 1);
    }
}

static void spans_without_ids(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        put_bytes(&d->items, SS_SCOPE_SPANS_SPANS,
                  "\x2a\x01"
                  "d",
                  3);
        put_span(d, 'k', 0, 0, 1);
    }
}

static void attributes_of_one_key(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        put_attribute(&d->item, attributes_of(d), "k", "v");
    }
}

static void attributes_of_many_keys(draft *d, uint32_t n) {
    char text[32];
    for (uint32_t i = 0; i < n; i++) {
        put_attribute(&d->item, attributes_of(d), numbered(text, "k", i), "v");
    }
}

/* Every second one stays, so that edits cannot be put together. */
static void attributes_in_turn(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        put_attribute(&d->item, attributes_of(d), i % 2 ? "other" : "k", "v");
    }
}

static void put_pair(draft *d, ss_buffer *value) {
    ss_buffer pair = {0};
    put_bytes(&pair, SS_KEY_VALUE_KEY, "k", 1);
    put_message(&pair, SS_KEY_VALUE_VALUE, value);
    put_message(&d->item, attributes_of(d), &pair);
    ss_buffer_free(&pair);
    ss_buffer_free(value);
}

static void keys_and_values_of_one_attribute(draft *d, uint32_t n) {
    ss_buffer pair = {0}, value = {0};
    for (uint32_t i = 0; i < n; i++) {
        put_bytes(&pair, SS_KEY_VALUE_KEY, "k", 1);
        put_bytes(&value, SS_ANY_VALUE_STRING_VALUE, "v", 1);
        put_message(&pair, SS_KEY_VALUE_VALUE, &value);
    }
    put_message(&d->item, attributes_of(d), &pair);
    ss_buffer_free(&pair);
    ss_buffer_free(&value);
}

static void map_in_an_attribute(draft *d, uint32_t n) {
    ss_buffer map = {0}, value = {0};
    char text[32];
    for (uint32_t i = 0; i < n; i++) {
        put_attribute(&map, SS_KEY_VALUE_LIST_VALUES, i % 2 ? "same" : numbered(text, "k", n - i), "v");
    }
    put_message(&value, SS_ANY_VALUE_KVLIST_VALUE, &map);
    put_pair(d, &value);
    ss_buffer_free(&map);
}

static void array_in_an_attribute(draft *d, uint32_t n) {
    ss_buffer array = {0}, value = {0};
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer one = {0};
        put_bytes(&one, SS_ANY_VALUE_STRING_VALUE, "\"\n", 2);
        put_message(&array, SS_ARRAY_VALUE_VALUES, &one);
        ss_buffer_free(&one);
    }
    put_message(&value, SS_ANY_VALUE_ARRAY_VALUE, &array);
    put_pair(d, &value);
    ss_buffer_free(&array);
}

static ss_buffer long_text(uint32_t n) {
    ss_buffer text = {0};
    for (uint32_t i = 0; i < n; i++) {
        put(&text, "a d=1;", 6);
    }
    return text;
}

static void long_value(draft *d, uint32_t n) {
    ss_buffer value = {0}, text = long_text(n);
    put_message(&value, SS_ANY_VALUE_STRING_VALUE, &text);
    put_pair(d, &value);
    ss_buffer_free(&text);
}

static void long_key(draft *d, uint32_t n) {
    ss_buffer pair = {0}, text = long_text(n);
    put_message(&pair, SS_KEY_VALUE_KEY, &text);
    put_message(&d->item, attributes_of(d), &pair);
    ss_buffer_free(&pair);
    ss_buffer_free(&text);
}

static void unknown_fields(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        put_bytes(&d->item, 99, "u", 1);
    }
}

static void long_name(draft *d, uint32_t n) {
    ss_buffer text = long_text(n);
    put_message(d->signal == SS_SIGNAL_TRACES ? &d->item : &d->metric,
                d->signal == SS_SIGNAL_TRACES ? SS_SPAN_NAME : SS_METRIC_NAME, &text);
    ss_buffer_free(&text);
}

static void many_names(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (d->signal == SS_SIGNAL_TRACES) {
            put_bytes(&d->item, SS_SPAN_NAME, "d", 1);
        } else {
            put_bytes(&d->metric, SS_METRIC_NAME, "m", 1);
        }
    }
}

static void parents_and_states(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        put_id(&d->item, SS_SPAN_PARENT_SPAN_ID, i, 8);
        put_bytes(&d->item, SS_SPAN_TRACE_STATE, "ot=th:8,a=1", 11);
    }
}

static void long_state(draft *d, uint32_t n) {
    ss_buffer state = {0};
    for (uint32_t i = 0; i < n; i++) {
        put(&state, i ? ",ot=th:8" : "ot=th:8", i ? 8 : 7);
    }
    put_message(&d->item, SS_SPAN_TRACE_STATE, &state);
    ss_buffer_free(&state);
}

static void events_and_links(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer event = {0}, link = {0};
        put_bytes(&event, SS_SPAN_EVENT_NAME, "e", 1);
        put_id(&link, SS_SPAN_LINK_SPAN_ID, i, 8);
        put_message(&d->item, SS_SPAN_EVENTS, &event);
        put_message(&d->item, SS_SPAN_LINKS, &link);
        ss_buffer_free(&event);
        ss_buffer_free(&link);
    }
}

static void long_body(draft *d, uint32_t n) {
    ss_buffer value = {0}, text = long_text(n);
    put_message(&value, SS_ANY_VALUE_STRING_VALUE, &text);
    put_message(&d->item, SS_LOG_RECORD_BODY, &value);
    ss_buffer_free(&value);
    ss_buffer_free(&text);
}

static void body_in_pieces(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer value = {0};
        put_bytes(&value, SS_ANY_VALUE_STRING_VALUE, "b", 1);
        put_message(&d->item, SS_LOG_RECORD_BODY, &value);
        put_bytes(&d->item, SS_LOG_RECORD_SEVERITY_TEXT, "s", 1);
        ss_buffer_free(&value);
    }
}

static void resource_attributes(draft *d, uint32_t n) {
    ss_buffer resource = {0};
    char text[32];
    for (uint32_t i = 0; i < n; i++) {
        put_attribute(&resource, SS_RESOURCE_ATTRIBUTES, i % 2 ? "k" : numbered(text, "k", i), "v");
    }
    put_message(&d->resource, SS_RESOURCE_SPANS_RESOURCE, &resource);
    ss_buffer_free(&resource);
}

static void resource_pieces(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer resource = {0};
        put_attribute(&resource, SS_RESOURCE_ATTRIBUTES, "k", "v");
        put_message(&d->resource, SS_RESOURCE_SPANS_RESOURCE, &resource);
        ss_buffer_free(&resource);
    }
}

static void scope_pieces(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer scope = {0};
        put_bytes(&scope, SS_INSTRUMENTATION_SCOPE_NAME, "s", 1);
        put_message(&d->scope, SS_SCOPE_SPANS_SCOPE, &scope);
        ss_buffer_free(&scope);
    }
}

/* The body of a metric with the item in one data container. */
static void put_metric(const draft *d, ss_buffer *metric, uint32_t number) {
    ss_buffer data = {0}, item = {0};
    fill_item(d, &item, number);
    put_message(&data, items_field(d), &item);
    put_message(metric, d->data_field, &data);
    ss_buffer_free(&data);
    ss_buffer_free(&item);
}

/* A message between the resource and one item of its own. */
static void put_scope(const draft *d, ss_buffer *out, uint32_t number) {
    ss_buffer scope = {0}, inner = {0};
    if (d->signal == SS_SIGNAL_METRICS) {
        put_bytes(&inner, SS_METRIC_NAME, "m", 1);
        put_metric(d, &inner, number);
    } else {
        fill_item(d, &inner, number);
    }
    put_message(&scope, SS_SCOPE_SPANS_SPANS, &inner);
    put_message(out, SS_RESOURCE_SPANS_SCOPE_SPANS, &scope);
    ss_buffer_free(&inner);
    ss_buffer_free(&scope);
}

static void many_scopes(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        put_scope(d, &d->resource, i);
    }
}

static void many_resources(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer resource = {0}, container = {0};
        put_attribute(&resource, SS_RESOURCE_ATTRIBUTES, "k", "v");
        put_message(&container, SS_RESOURCE_SPANS_RESOURCE, &resource);
        put_scope(d, &container, i);
        put_message(&d->resources, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, &container);
        ss_buffer_free(&resource);
        ss_buffer_free(&container);
    }
}

/* Whatever a resource says, finding it again must not take longer the more there are. The second word of these is the
 * public constant of ss_hash_mix, which would make a factor 0 were there no secret in it. */
static void chosen_resources(draft *d, uint32_t n) {
    enum { BYTES = 30 };
    static const uint8_t constant[] = {0x93, 0xfd, 0x59, 0x66, 0xb8, 0xfe, 0xe8, 0xd6};
    for (uint32_t i = 0; i < n + n / 8; i++) {
        const uint32_t number = i < n ? i : 0; /* enough of it to be worth the copy */
        ss_buffer resource = {0}, container = {0};
        uint8_t unknown[BYTES] = {0};
        memcpy(unknown, &number, sizeof number);
        memcpy(unknown + 18, constant, sizeof constant); /* with tags and lengths: the last of the first four words */
        put_bytes(&resource, 9, unknown, sizeof unknown);
        put_message(&container, SS_RESOURCE_SPANS_RESOURCE, &resource);
        put_scope(d, &container, 0);
        put_message(&d->resources, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, &container);
        ss_buffer_free(&resource);
        ss_buffer_free(&container);
    }
}

static void empty_scopes_and_resources(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        put_bytes(&d->resource, SS_RESOURCE_SPANS_SCOPE_SPANS, "", 0);
        put_bytes(&d->resources, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, "", 0);
    }
}

static void many_metrics(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer metric = {0};
        put_bytes(&metric, SS_METRIC_NAME, "m", 1);
        put_metric(d, &metric, i);
        put_message(&d->scope, SS_SCOPE_METRICS_METRICS, &metric);
        ss_buffer_free(&metric);
    }
}

static void points_without_value(draft *d, uint32_t n) {
    char text[32];
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer item = {0};
        put_attribute(&item, attributes_of(d), "k", numbered(text, "v", i));
        put_message(&d->items, items_field(d), &item);
        ss_buffer_free(&item);
    }
}

static void put_bucket(ss_buffer *item, uint32_t number) {
    put_fixed64(item, SS_HISTOGRAM_DATA_POINT_BUCKET_COUNTS, 1);
    put_fixed64(item, SS_HISTOGRAM_DATA_POINT_EXPLICIT_BOUNDS, number);
}

/* Of points that differ in what may not be merged. */
static void points_of_a_long_name(draft *d, uint32_t n) {
    enum { LONG = 20 };
    points_without_value(d, n);
    long_name(d, LONG * n);
}

static void points_of_many_shapes(draft *d, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer item = {0};
        if (d->data_field == SS_METRIC_HISTOGRAM) {
            put_fixed64(&item, SS_HISTOGRAM_DATA_POINT_COUNT, 1);
            put_bucket(&item, i);
        }
        put_attribute(&item, attributes_of(d), "k", "v");
        put_message(&d->items, items_field(d), &item);
        ss_buffer_free(&item);
    }
}

static void many_exemplars(draft *d, uint32_t n) {
    const uint32_t field = d->data_field == SS_METRIC_HISTOGRAM ? SS_HISTOGRAM_DATA_POINT_EXEMPLARS
                           : d->data_field == SS_METRIC_EXPONENTIAL_HISTOGRAM
                               ? SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_EXEMPLARS
                               : SS_NUMBER_DATA_POINT_EXEMPLARS;
    for (uint32_t i = 0; i < n; i++) {
        ss_buffer exemplar = {0}, item = {0};
        put_fixed64(&exemplar, SS_EXEMPLAR_TIME_UNIX_NANO, i);
        put_bytes(&d->item, field, exemplar.data, exemplar.length);
        put_bytes(&d->item, 99, "u", 1);
        fill_item(d, &item, i);
        put_message(&item, field, &exemplar);
        put_message(&d->items, items_field(d), &item);
        ss_buffer_free(&exemplar);
        ss_buffer_free(&item);
    }
}

static void many_buckets(draft *d, uint32_t n) {
    const bool is_exponential = d->data_field == SS_METRIC_EXPONENTIAL_HISTOGRAM;
    for (uint32_t point = 0; point < 2; point++) {
        ss_buffer item = {0}, buckets = {0};
        put_attribute(&item, attributes_of(d), "k", point ? "v" : "w");
        put_fixed64(&item, SS_HISTOGRAM_DATA_POINT_COUNT, n);
        for (uint32_t i = 0; i < n; i++) {
            if (is_exponential) {
                put_varint(&buckets, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_BUCKETS_BUCKET_COUNTS << 3 | SS_WIRE_VARINT);
                put_varint(&buckets, i % 3);
                if (i % 64 == 0) {
                    put_message(&item, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_POSITIVE, &buckets);
                }
            } else if (d->data_field == SS_METRIC_HISTOGRAM) {
                put_bucket(&item, i);
            }
        }
        put_message(&d->items, items_field(d), &item);
        ss_buffer_free(&item);
        ss_buffer_free(&buckets);
    }
}

typedef struct named_dimension {
    const char *name;
    uint32_t signals; /* bit of each that has it */
    dimension *grow;
} named_dimension;

enum { TRACES = 1 << SS_SIGNAL_TRACES, METRICS = 1 << SS_SIGNAL_METRICS, LOGS = 1 << SS_SIGNAL_LOGS };
enum { ALL = TRACES | METRICS | LOGS };

static const named_dimension dimensions[] = {
    {"items", ALL, many_items},
    {"ring of spans", TRACES, ring_of_spans},
    {"one span id in all traces", TRACES, one_span_id_in_all_traces},
    {"spans without ids", TRACES, spans_without_ids},
    {"attributes of one key", ALL, attributes_of_one_key},
    {"attributes of many keys", ALL, attributes_of_many_keys},
    {"attributes in turn", ALL, attributes_in_turn},
    {"keys and values of one attribute", ALL, keys_and_values_of_one_attribute},
    {"map", ALL, map_in_an_attribute},
    {"array", ALL, array_in_an_attribute},
    {"long value", ALL, long_value},
    {"long key", ALL, long_key},
    {"unknown fields", ALL, unknown_fields},
    {"names", TRACES | METRICS, many_names},
    {"long name", TRACES | METRICS, long_name},
    {"parents and states", TRACES, parents_and_states},
    {"long state", TRACES, long_state},
    {"events and links", TRACES, events_and_links},
    {"long body", LOGS, long_body},
    {"body in pieces", LOGS, body_in_pieces},
    {"resource attributes", ALL, resource_attributes},
    {"resource in pieces", ALL, resource_pieces},
    {"scope in pieces", ALL, scope_pieces},
    {"scopes", ALL, many_scopes},
    {"resources", ALL, many_resources},
    {"chosen resources", ALL, chosen_resources},
    {"empty scopes and resources", ALL, empty_scopes_and_resources},
    {"metrics", METRICS, many_metrics},
    {"points without a value", METRICS, points_without_value},
    {"points of a long name", METRICS, points_of_a_long_name},
    {"points of many shapes", METRICS, points_of_many_shapes},
    {"exemplars", METRICS, many_exemplars},
    {"buckets", METRICS, many_buckets},
};

/* All dimensions at once find what one of them costs for each of another. */
static const named_dimension all_dimensions = {"all at once", ALL, NULL};

static void grow(draft *d, const named_dimension *wanted, uint32_t n) {
    for (size_t i = 0; i < COUNT(dimensions); i++) {
        const named_dimension *each = &dimensions[i];
        bool is_wanted = wanted == each || (wanted == &all_dimensions && each->signals >> d->signal & 1);
        if (is_wanted) {
            each->grow(d, n);
        }
    }
}

static ss_buffer request_of(ss_signal signal, uint32_t data_field, const named_dimension *wanted, uint32_t n) {
    draft d = {.signal = signal, .data_field = data_field};
    fill_item(&d, &d.item, 0);
    grow(&d, wanted, n);
    ss_buffer request = {0};
    ss_buffer *items = signal == SS_SIGNAL_METRICS ? &d.data : &d.scope;
    put_message(items, items_field(&d), &d.item);
    put(items, d.items.data, d.items.length);
    if (signal == SS_SIGNAL_METRICS) {
        ss_buffer metric = {0};
        put_bytes(&metric, SS_METRIC_NAME, "m", 1);
        put_message(&metric, data_field, &d.data);
        put(&metric, d.metric.data, d.metric.length);
        put_message(&d.scope, SS_SCOPE_METRICS_METRICS, &metric);
        ss_buffer_free(&metric);
    }
    put_message(&d.resource, SS_RESOURCE_SPANS_SCOPE_SPANS, &d.scope);
    put_message(&request, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, &d.resource);
    put(&request, d.resources.data, d.resources.length);
    ss_buffer *const buffers[] = {&d.item, &d.items, &d.data, &d.metric, &d.scope, &d.resource, &d.resources};
    for (size_t i = 0; i < COUNT(buffers); i++) {
        ss_buffer_free(buffers[i]);
    }
    return request;
}

/* ---------------------------------------------------------------- operations */

static const ss_value number_value = {.type = SS_TYPE_INT, .integer = 7};
static const ss_value text_value = {.type = SS_TYPE_STRING, .string = {"v", 1}};

static ss_op *attributes_op(const ss_attribute_action *actions, size_t n, const ss_attribute_match *include,
                            bool is_resource) {
    const ss_attributes_config config = {
        .is_resource = is_resource, .actions = actions, .n_actions = n, .include = include};
    ss_error error = {0};
    ss_op *op = ss_attributes_new(&config, &error);
    CHECK(op != NULL);
    return op;
}

static ss_op *delete_keys(void) {
    const ss_attribute_action actions[] = {{.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("k")},
                                           {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("k7")},
                                           {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("k9")}};
    return attributes_op(actions, COUNT(actions), NULL, false);
}

static const ss_attribute_action every_action[] = {
    {.verb = SS_ATTRIBUTE_INSERT, .key = TEXT("new"), .value = &text_value},
    {.verb = SS_ATTRIBUTE_UPDATE, .key = TEXT("k3"), .value = &number_value},
    {.verb = SS_ATTRIBUTE_UPSERT, .key = TEXT("copy"), .from_attribute = TEXT("k")},
    {.verb = SS_ATTRIBUTE_UPSERT, .key = TEXT("header"), .from_metadata = TEXT("x"), .otherwise = &text_value},
    {.verb = SS_ATTRIBUTE_EXTRACT, .key = TEXT("copy"), .pattern = TEXT("a d=(?P<digit>\\d)")},
    {.verb = SS_ATTRIBUTE_CONVERT, .key = TEXT("k"), .converted_type = SS_TYPE_STRING},
    {.verb = SS_ATTRIBUTE_CONVERT, .key = TEXT("copy"), .converted_type = SS_TYPE_INT},
    {.verb = SS_ATTRIBUTE_HASH, .key = TEXT("copy"), .pattern = TEXT("^k\\d*[13579]$")},
    {.verb = SS_ATTRIBUTE_EXTRACT, .key = TEXT("k"), .pattern = TEXT("(?P<end>(\\w+ ?)+;)!")},
    {.verb = SS_ATTRIBUTE_HASH, .key = TEXT(""), .pattern = TEXT("^(a+)+ .*\\1!$")},
    {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("k1"), .pattern = TEXT("^k")},
};

static ss_op *do_every_action(void) {
    return attributes_op(every_action, COUNT(every_action), NULL, false);
}

static ss_op *do_every_action_on_resources(void) {
    return attributes_op(every_action, COUNT(every_action), NULL, true);
}

/* What include asks of a row, of its scope and of its resource. */
static ss_op *delete_where_all_match(void) {
    static const ss_value pattern = {.type = SS_TYPE_STRING, .string = {"v.*", 3}};
    static const ss_text any[] = {{"nothing", 7}, {".*=.*", 5}, {".", 1}};
    const ss_attribute_condition condition = {TEXT("k"), &pattern};
    const ss_library_condition library = {.name = TEXT("s*")};
    const ss_attribute_match include = {.is_regexp = true,
                                        .log_bodies = {any, 3},
                                        .log_severity_texts = {any, 3},
                                        .libraries = &library,
                                        .n_libraries = 1,
                                        .resources = {&condition, 1},
                                        .attributes = {&condition, 1}};
    const ss_attribute_action action = {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("k")};
    return attributes_op(&action, 1, &include, false);
}

static ss_op *delete_where_name_matches(void) {
    static const ss_text any[] = {{"nothing", 7}, {".*=.*", 5}, {".", 1}};
    const ss_attribute_match match = {.is_regexp = true, .names = {any, 3}};
    const ss_attribute_action action = {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("k")};
    return attributes_op(&action, 1, &match, false);
}

static ss_op *delete_where_map_is_equal(void) {
    static const ss_text keys[] = {{"same", 4}};
    static const ss_value map = {.type = SS_TYPE_MAP, .items = &text_value, .keys = keys, .n_items = 1};
    const ss_attribute_condition condition = {TEXT("k"), &map};
    const ss_attribute_match include = {.attributes = {&condition, 1}};
    const ss_attribute_action action = {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("k")};
    return attributes_op(&action, 1, &include, false);
}

static ss_op *sampler_op(ss_signal signal, ss_sampler_mode mode) {
    const ss_sampler_config config = {.signal = signal,
                                      .mode = mode,
                                      .sampling_percentage = 90,
                                      .sampling_precision = 4,
                                      .from_attribute = "k",
                                      .sampling_priority = "p"};
    ss_error error = {0};
    ss_op *op = ss_sampler_new(&config, &error);
    CHECK(op != NULL);
    return op;
}

static ss_op *sample_spans(void) {
    return sampler_op(SS_SIGNAL_TRACES, SS_SAMPLER_HASH_SEED);
}

static ss_op *sample_spans_proportionally(void) {
    return sampler_op(SS_SIGNAL_TRACES, SS_SAMPLER_PROPORTIONAL);
}

static ss_op *sample_logs(void) {
    return sampler_op(SS_SIGNAL_LOGS, SS_SAMPLER_HASH_SEED);
}

static ss_op *drop_low_value(void) {
    static const char *const names[] = {"d", "*a*d*=*x"};
    static const uint8_t rules[] = {SS_SIGN_NAME};
    const ss_low_value_config config = {.names = names, .n_names = 2, .rules = rules, .n_rules = 1, .reparent = true};
    ss_error error = {0};
    return ss_low_value_new(&config, &error);
}

static ss_op *metrics_op(const ss_metric_operation *operations, size_t n) {
    static const char *const labels[] = {"k", "v"};
    const ss_metric_transform transforms[] = {
        {.include = "m", .new_name = "renamed", .operations = operations, .n_operations = n},
        {.include = "(a d)?.*",
         .is_regexp = true,
         .match_labels = labels,
         .n_match_labels = 2,
         .new_name = "${1}again",
         .operations = operations,
         .n_operations = n},
    };
    const ss_metrics_transform_config config = {transforms, 2};
    ss_error error = {0};
    ss_op *op = ss_metrics_transform_new(&config, &error);
    CHECK(op != NULL);
    return op;
}

static ss_op *delete_label(void) {
    const ss_metric_operation operation = {.action = SS_METRIC_ACTION_DELETE_LABEL, .label = "k"};
    return metrics_op(&operation, 1);
}

static ss_op *aggregate_labels(void) {
    static const char *const kept[] = {"other", "k1"};
    const ss_metric_operation operations[] = {
        {.action = SS_METRIC_ACTION_AGGREGATE_LABEL_VALUES,
         .aggregation = SS_AGGREGATION_MEDIAN,
         .label = "k",
         .new_value = "w",
         .texts = kept,
         .n_texts = 2},
        {.action = SS_METRIC_ACTION_AGGREGATE_LABELS, .aggregation = SS_AGGREGATION_MAX, .texts = kept, .n_texts = 2}};
    return metrics_op(operations, 2);
}

static ss_op *change_labels(void) {
    static const char *const values[] = {"v", "w"};
    const ss_metric_operation operations[] = {
        {.action = SS_METRIC_ACTION_ADD_LABEL, .new_label = "added", .new_value = "v"},
        {.action = SS_METRIC_ACTION_UPDATE_LABEL, .label = "k", .new_label = "k2", .texts = values, .n_texts = 2},
        {.action = SS_METRIC_ACTION_TOGGLE_SCALAR_TYPE},
        {.action = SS_METRIC_ACTION_SCALE_VALUE, .scale = 3},
        {.action = SS_METRIC_ACTION_DELETE_LABEL_VALUE, .label = "k9", .texts = values, .n_texts = 1}};
    return metrics_op(operations, 5);
}

typedef struct named_op {
    const char *name;
    uint32_t signals;
    ss_op *(*make)(void);
} named_op;

static const named_op ops[] = {
    {"delete keys", ALL, delete_keys},
    {"every action", ALL, do_every_action},
    {"every action on resources", ALL, do_every_action_on_resources},
    {"delete where all match", ALL, delete_where_all_match},
    {"delete where the name matches", TRACES | METRICS, delete_where_name_matches},
    {"delete where a map is equal", ALL, delete_where_map_is_equal},
    {"sampler", TRACES, sample_spans},
    {"sampler, proportional", TRACES, sample_spans_proportionally},
    {"sampler of logs", LOGS, sample_logs},
    {"low-value filter", TRACES, drop_low_value},
    {"delete label", METRICS, delete_label},
    {"aggregate labels", METRICS, aggregate_labels},
    {"change labels", METRICS, change_labels},
};

/* Headers of a request grow with it too: all but the one that is written, which would be written as often. */
static uint64_t steps_of_op(const named_op *op, ss_signal signal, const ss_buffer *request, uint32_t n) {
    ss_error error = {0};
    ss_verdict verdict = {0};
    ss_buffer out = {0}, metadata = {0};
    for (uint32_t i = 0; i < n; i++) {
        CHECK_EQUAL(SS_OK, ss_metadata_append(&metadata, i ? "y" : "x", "v", 1));
    }
    ss_op *made = op->make();
    ss_table *table = ss_table_new();
    steps = 0;
    CHECK_EQUAL(SS_OK, ss_scan(signal, request->data, request->length, table, &error));
    table->private_state->metadata = metadata.data;
    table->private_state->metadata_length = metadata.length;
    CHECK_EQUAL(SS_OK, ss_op_run(made, table, &verdict));
    CHECK_EQUAL(SS_OK, ss_emit(table, 0, table->n_rows, &out));
    const uint64_t taken = steps;
    ss_table_free(table);
    ss_op_free(made);
    ss_buffer_free(&out);
    ss_buffer_free(&metadata);
    return taken;
}

/* In tenths: what grows twofold may cost twice and a logarithm. A square would be 40. Splitting goes in stages, each of
 * which is as much as the one before: a doubling may pass two of them. */
enum { TWOFOLD = 27, TWOFOLD_IN_STAGES = 35 };

static void check_growth(const char *what, ss_signal signal, const char *how, uint64_t once, uint64_t twice,
                         uint32_t limit) {
    if (twice * 10 > once * limit) {
        fprintf(stderr, "%s, signal %d, %s: %llu steps, and %llu for twice as much\n", what, (int)signal, how,
                (unsigned long long)once, (unsigned long long)twice);
    }
    CHECK(twice * 10 <= once * limit);
}

enum { N = 1000 };
static const uint64_t NEVER_NS = 3600u * UINT64_C(1000000000);

typedef uint64_t measured(const void *what, ss_signal signal, const ss_buffer *request, uint32_t n);
static measured measure_batches;

static void double_dimension(const char *what, ss_signal signal, uint32_t kind, const named_dimension *grown,
                             measured *measure, const void *argument) {
    /* A small request is measured anew for each part that it is split into: only a large one is cut in between. */
    const uint32_t n = measure == measure_batches ? 16 * N : N;
    ss_buffer small = request_of(signal, kind, grown, n), large = request_of(signal, kind, grown, 2 * n);
    const uint64_t once = measure(argument, signal, &small, n);
    check_growth(what, signal, grown->name, once, measure(argument, signal, &large, 2 * n),
                 measure == measure_batches ? TWOFOLD_IN_STAGES : TWOFOLD);
    ss_buffer_free(&small);
    ss_buffer_free(&large);
}

static bool is_split(const named_dimension *grown) {
    return grown->grow == many_items || grown->grow == many_scopes || grown->grow == many_resources;
}

static void double_dimensions(const char *what, uint32_t signals, measured *measure, const void *argument) {
    static const uint32_t kinds[] = {SS_METRIC_GAUGE, SS_METRIC_HISTOGRAM, SS_METRIC_EXPONENTIAL_HISTOGRAM};
    for (ss_signal signal = 0; signal < SS_N_SIGNALS; signal++) {
        for (size_t i = 0; (signals >> signal & 1) && i <= COUNT(dimensions); i++) {
            const named_dimension *grown = i < COUNT(dimensions) ? &dimensions[i] : &all_dimensions;
            if (!(grown->signals >> signal & 1) || (measure == measure_batches && !is_split(grown))) {
                continue;
            }
            for (size_t kind = 0; kind < (signal == SS_SIGNAL_METRICS ? COUNT(kinds) : 1); kind++) {
                double_dimension(what, signal, signal == SS_SIGNAL_METRICS ? kinds[kind] : 0, grown, measure, argument);
            }
        }
    }
}

static uint64_t measure_op(const void *op, ss_signal signal, const ss_buffer *request, uint32_t n) {
    return steps_of_op(op, signal, request, n);
}

static void test_work_of_ops_grows_with_the_request(void) {
    for (size_t i = 0; i < COUNT(ops); i++) {
        double_dimensions(ops[i].name, ops[i].signals, measure_op, &ops[i]);
    }
}

/* ---------------------------------------------------------------- what is around operations */

static uint64_t measure_regrouping(const void *unused, ss_signal signal, const ss_buffer *request, uint32_t n) {
    (void)unused, (void)signal, (void)n;
    ss_buffer out = {0};
    bool is_done;
    steps = 0;
    CHECK_EQUAL(SS_OK, ss_regroup(request->data, request->length, &out, &is_done));
    ss_buffer_free(&out);
    return steps;
}

static uint64_t measure_json(const void *unused, ss_signal signal, const ss_buffer *request, uint32_t n) {
    (void)unused, (void)n;
    ss_buffer json = {0}, out = {0};
    ss_error error = {0};
    steps = 0;
    CHECK_EQUAL(SS_OK, ss_otlp_to_json(signal, request->data, request->length, &json, &error));
    CHECK_EQUAL(SS_OK, ss_json_to_otlp(signal, json.data, json.length, &out, &error));
    ss_buffer_free(&json);
    ss_buffer_free(&out);
    return steps;
}

static uint64_t measure_names(const void *unused, ss_signal signal, const ss_buffer *request, uint32_t n) {
    (void)unused, (void)n;
    ss_error error = {0};
    ss_table *table = ss_table_new();
    CHECK_EQUAL(SS_OK, ss_scan(signal, request->data, request->length, table, &error));
    ss_text_column names = {.ends = calloc(table->n_rows, sizeof *names.ends),
                            .index = calloc(table->n_rows, sizeof *names.index)};
    steps = 0;
    CHECK_EQUAL(SS_OK, ss_table_texts(table, SS_SOURCE_NAME, TEXT(""), &names));
    const uint64_t taken = steps;
    ss_buffer_free(&names.bytes);
    free(names.ends);
    free(names.index);
    ss_table_free(table);
    return taken;
}

/* Through the receiver into small batches. */
static uint64_t measure_batches(const void *config, ss_signal signal, const ss_buffer *request, uint32_t n) {
    (void)n;
    ss_error error = {0};
    ss_verdict verdict = {0};
    ss_runtime *runtime = ss_runtime_new();
    ss_worker *worker = ss_worker_new(runtime);
    ss_consumer *discard = ss_discard_new(signal);
    ss_consumer *batch = ss_batch_new(runtime, signal, config, &discard, 1, &error);
    ss_receiver *receiver = ss_receiver_new(runtime, SS_INVALID_REJECT_ITEM);
    ss_receiver_publish(receiver, signal, batch);
    const ss_request whole = {.signal = signal, .bytes = request->data, .length = request->length};
    steps = 0;
    ss_receiver_accept(receiver, worker, &whole, &verdict);
    CHECK_EQUAL(SS_OK, ss_batch_drain(batch, NEVER_NS));
    const uint64_t taken = steps;
    ss_receiver_free(receiver);
    ss_consumer_free(batch);
    ss_consumer_free(discard);
    ss_worker_free(worker);
    ss_runtime_free(runtime);
    return taken;
}

static void test_work_around_ops_grows_with_the_request(void) {
    double_dimensions("regrouping", ALL, measure_regrouping, NULL);
    double_dimensions("JSON", ALL, measure_json, NULL);
    double_dimensions("names", TRACES | METRICS, measure_names, NULL);
    const ss_batch_config few = {.timeout_ns = NEVER_NS, .send_batch_size = 8, .send_batch_max_size = 8};
    const ss_batch_config small = {.timeout_ns = NEVER_NS, .send_batch_max_bytes = 200};
    double_dimensions("batches of few items", TRACES, measure_batches, &few);
    double_dimensions("batches of few bytes", TRACES | LOGS, measure_batches, &small);
}

int main(void) {
    test_work_of_ops_grows_with_the_request();
    test_work_around_ops_grows_with_the_request();
    return check_finish();
}
