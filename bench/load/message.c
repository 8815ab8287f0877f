#include "message.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "otlp_fields.h"

typedef enum kind { MESSAGE, ITEM, TRACE_ID, SPAN_ID, TIME } kind;

/* A field to look at; all others are passed over. */
typedef struct field {
    uint32_t tag; /* number and wire type; 0 ends a list */
    kind kind;
    const struct field *fields; /* of MESSAGE and ITEM */
} field;

#define BYTES(number) ((number) << 3 | SS_WIRE_BYTES)
#define FIXED64(number) ((number) << 3 | SS_WIRE_FIXED64)

enum { TRACE_ID_BYTES = 16, SPAN_ID_BYTES = 8, TIME_BYTES = 8, FIRST_OFFSETS = 64 };

static const field event[] = {{FIXED64(SS_SPAN_EVENT_TIME_UNIX_NANO), TIME, NULL}, {0}};
static const field link[] = {
    {BYTES(SS_SPAN_LINK_TRACE_ID), TRACE_ID, NULL}, {BYTES(SS_SPAN_LINK_SPAN_ID), SPAN_ID, NULL}, {0}};
static const field span[] = {{BYTES(SS_SPAN_TRACE_ID), TRACE_ID, NULL},
                             {BYTES(SS_SPAN_SPAN_ID), SPAN_ID, NULL},
                             {BYTES(SS_SPAN_PARENT_SPAN_ID), SPAN_ID, NULL},
                             {FIXED64(SS_SPAN_START_TIME_UNIX_NANO), TIME, NULL},
                             {FIXED64(SS_SPAN_END_TIME_UNIX_NANO), TIME, NULL},
                             {BYTES(SS_SPAN_EVENTS), MESSAGE, event},
                             {BYTES(SS_SPAN_LINKS), MESSAGE, link},
                             {0}};
static const field scope_spans[] = {{BYTES(SS_SCOPE_SPANS_SPANS), ITEM, span}, {0}};
static const field resource_spans[] = {{BYTES(SS_RESOURCE_SPANS_SCOPE_SPANS), MESSAGE, scope_spans}, {0}};

static const field exemplar[] = {{FIXED64(SS_EXEMPLAR_TIME_UNIX_NANO), TIME, NULL},
                                 {BYTES(SS_EXEMPLAR_TRACE_ID), TRACE_ID, NULL},
                                 {BYTES(SS_EXEMPLAR_SPAN_ID), SPAN_ID, NULL},
                                 {0}};
static const field number_point[] = {{FIXED64(SS_NUMBER_DATA_POINT_START_TIME_UNIX_NANO), TIME, NULL},
                                     {FIXED64(SS_NUMBER_DATA_POINT_TIME_UNIX_NANO), TIME, NULL},
                                     {BYTES(SS_NUMBER_DATA_POINT_EXEMPLARS), MESSAGE, exemplar},
                                     {0}};
static const field histogram_point[] = {{FIXED64(SS_HISTOGRAM_DATA_POINT_START_TIME_UNIX_NANO), TIME, NULL},
                                        {FIXED64(SS_HISTOGRAM_DATA_POINT_TIME_UNIX_NANO), TIME, NULL},
                                        {BYTES(SS_HISTOGRAM_DATA_POINT_EXEMPLARS), MESSAGE, exemplar},
                                        {0}};
static const field exponential_point[] = {
    {FIXED64(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_START_TIME_UNIX_NANO), TIME, NULL},
    {FIXED64(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_TIME_UNIX_NANO), TIME, NULL},
    {BYTES(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_EXEMPLARS), MESSAGE, exemplar},
    {0}};
static const field summary_point[] = {{FIXED64(SS_SUMMARY_DATA_POINT_START_TIME_UNIX_NANO), TIME, NULL},
                                      {FIXED64(SS_SUMMARY_DATA_POINT_TIME_UNIX_NANO), TIME, NULL},
                                      {0}};
static const field gauge[] = {{BYTES(SS_GAUGE_DATA_POINTS), ITEM, number_point}, {0}};
static const field sum[] = {{BYTES(SS_SUM_DATA_POINTS), ITEM, number_point}, {0}};
static const field histogram[] = {{BYTES(SS_HISTOGRAM_DATA_POINTS), ITEM, histogram_point}, {0}};
static const field exponential[] = {{BYTES(SS_EXPONENTIAL_HISTOGRAM_DATA_POINTS), ITEM, exponential_point}, {0}};
static const field summary[] = {{BYTES(SS_SUMMARY_DATA_POINTS), ITEM, summary_point}, {0}};
static const field metric[] = {
    {BYTES(SS_METRIC_GAUGE), MESSAGE, gauge},         {BYTES(SS_METRIC_SUM), MESSAGE, sum},
    {BYTES(SS_METRIC_HISTOGRAM), MESSAGE, histogram}, {BYTES(SS_METRIC_EXPONENTIAL_HISTOGRAM), MESSAGE, exponential},
    {BYTES(SS_METRIC_SUMMARY), MESSAGE, summary},     {0}};
static const field scope_metrics[] = {{BYTES(SS_SCOPE_METRICS_METRICS), MESSAGE, metric}, {0}};
static const field resource_metrics[] = {{BYTES(SS_RESOURCE_METRICS_SCOPE_METRICS), MESSAGE, scope_metrics}, {0}};

static const field log_record[] = {{FIXED64(SS_LOG_RECORD_TIME_UNIX_NANO), TIME, NULL},
                                   {FIXED64(SS_LOG_RECORD_OBSERVED_TIME_UNIX_NANO), TIME, NULL},
                                   {BYTES(SS_LOG_RECORD_TRACE_ID), TRACE_ID, NULL},
                                   {BYTES(SS_LOG_RECORD_SPAN_ID), SPAN_ID, NULL},
                                   {0}};
static const field scope_logs[] = {{BYTES(SS_SCOPE_LOGS_LOG_RECORDS), ITEM, log_record}, {0}};
static const field resource_logs[] = {{BYTES(SS_RESOURCE_LOGS_SCOPE_LOGS), MESSAGE, scope_logs}, {0}};

static const field requests[SS_N_SIGNALS][2] = {
    [SS_SIGNAL_TRACES] = {{BYTES(SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS), MESSAGE, resource_spans}, {0}},
    [SS_SIGNAL_METRICS] = {{BYTES(SS_EXPORT_METRICS_SERVICE_REQUEST_RESOURCE_METRICS), MESSAGE, resource_metrics}, {0}},
    [SS_SIGNAL_LOGS] = {{BYTES(SS_EXPORT_LOGS_SERVICE_REQUEST_RESOURCE_LOGS), MESSAGE, resource_logs}, {0}},
};

typedef struct walk {
    const uint8_t *start;
    uint64_t n_items;
    load_places *places; /* NULL: items are only counted */
} walk;

static bool note(load_offsets *list, const walk *w, const uint8_t *value, size_t length) {
    static const uint8_t unset[TRACE_ID_BYTES];
    if (memcmp(value, unset, length) == 0) {
        return true;
    }
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : FIRST_OFFSETS;
        uint32_t *at = realloc(list->at, capacity * sizeof *at);
        if (!at) {
            return false;
        }
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->n++] = (uint32_t)(value - w->start);
    return true;
}

static const field *find(const field *fields, uint64_t tag) {
    while (fields->tag && fields->tag != tag) {
        fields++;
    }
    return fields->tag ? fields : NULL;
}

/* As deep as the lists above, whatever the bytes say. */
static bool walk_message(walk *w, ss_reader reader, const field *fields) {
    while (reader.pos < reader.end) {
        uint64_t tag;
        if (!ss_read_varint(&reader, &tag) || tag > UINT32_MAX) {
            return false;
        }
        const field *f = find(fields, tag);
        if (!f) {
            if (!ss_skip_field(&reader, (uint32_t)tag, 0)) {
                return false;
            }
            continue;
        }
        if (f->kind == TIME) {
            uint64_t time;
            const uint8_t *value = reader.pos;
            if (!ss_read_fixed64(&reader, &time) || !note(&w->places->times, w, value, TIME_BYTES)) {
                return false;
            }
            continue;
        }
        ss_reader body;
        if (!ss_read_bytes(&reader, &body)) {
            return false;
        }
        size_t length = (size_t)(body.end - body.pos);
        bool is_good = true;
        switch (f->kind) {
        case ITEM:
            w->n_items++;
            is_good = !w->places || walk_message(w, body, f->fields);
            break;
        case MESSAGE: is_good = walk_message(w, body, f->fields); break;
        case TRACE_ID: is_good = length != TRACE_ID_BYTES || note(&w->places->trace_ids, w, body.pos, length); break;
        case SPAN_ID: is_good = length != SPAN_ID_BYTES || note(&w->places->span_ids, w, body.pos, length); break;
        case TIME: break;
        }
        if (!is_good) {
            return false;
        }
    }
    return true;
}

bool message_count_items(ss_signal signal, const uint8_t *bytes, size_t length, uint64_t *n_items) {
    walk w = {.start = bytes};
    bool is_good = walk_message(&w, (ss_reader){bytes, bytes + length}, requests[signal]);
    *n_items = w.n_items;
    return is_good;
}

bool message_find_places(ss_signal signal, const uint8_t *bytes, size_t length, load_places *places) {
    walk w = {.start = bytes, .places = places};
    return walk_message(&w, (ss_reader){bytes, bytes + length}, requests[signal]);
}

void places_free(load_places *places) {
    free(places->trace_ids.at);
    free(places->span_ids.at);
    free(places->times.at);
}

static void xor_word(uint8_t *at, uint64_t key) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    word ^= key;
    memcpy(at, &word, sizeof word);
}

void message_change(uint8_t *bytes, const load_places *places, const load_disguise *from, const load_disguise *to) {
    uint64_t trace_id[2] = {from->trace_id[0] ^ to->trace_id[0], from->trace_id[1] ^ to->trace_id[1]};
    uint64_t span_id = from->span_id ^ to->span_id;
    uint64_t shift_ns = to->shift_ns - from->shift_ns; /* modulo 2^64, as the addition below */
    for (size_t i = 0; i < places->trace_ids.n; i++) {
        uint8_t *at = bytes + places->trace_ids.at[i];
        xor_word(at, trace_id[0]);
        xor_word(at + sizeof *trace_id, trace_id[1]);
    }
    for (size_t i = 0; i < places->span_ids.n; i++) {
        xor_word(bytes + places->span_ids.at[i], span_id);
    }
    for (size_t i = 0; i < places->times.n; i++) {
        uint8_t *at = bytes + places->times.at[i];
        uint64_t time;
        memcpy(&time, at, sizeof time);
        time += shift_ns;
        memcpy(at, &time, sizeof time);
    }
}
