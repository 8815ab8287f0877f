/* The sampler between scan and emit, on requests of one row. */
#include "ops/op.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/bytes.h"
#include "ops/tracestate.h"
#include "otlp_fields.h"

enum { BODY_MAX = 2048 };

/* A message that grows by fields; the row of a request, and afterwards what is left of it. */
typedef struct record {
    uint8_t bytes[BODY_MAX];
    size_t length;
    ss_signal signal;
    bool kept;
    bool untouched;
} record;

static void put(record *r, const void *data, size_t length) {
    memcpy(r->bytes + r->length, data, length);
    r->length += length;
}

static void put_varint(record *r, uint64_t value) {
    r->length = (size_t)(ss_write_varint(r->bytes + r->length, value) - r->bytes);
}

static void put_bytes(record *r, uint32_t field, const void *data, size_t length) {
    put_varint(r, field << 3 | SS_WIRE_BYTES);
    put_varint(r, length);
    put(r, data, length);
}

/* type:text, such as int:2 or string:x; bytes, bool, double, array and none too. */
static size_t encode_value(uint8_t *out, const char *typed) {
    const char *text = strchr(typed, ':') + 1;
    size_t length = strlen(text);
    uint8_t *pos = out;
    if (strncmp(typed, "int:", 4) == 0) {
        *pos++ = SS_ANY_VALUE_INT_VALUE << 3 | SS_WIRE_VARINT;
        pos = ss_write_varint(pos, (uint64_t)strtoll(text, NULL, 10));
    } else if (strncmp(typed, "bool:", 5) == 0) {
        *pos++ = SS_ANY_VALUE_BOOL_VALUE << 3 | SS_WIRE_VARINT;
        *pos++ = *text == '1';
    } else if (strncmp(typed, "double:", 7) == 0) {
        double value = strtod(text, NULL);
        *pos++ = SS_ANY_VALUE_DOUBLE_VALUE << 3 | SS_WIRE_FIXED64;
        memcpy(pos, &value, sizeof value);
        pos += sizeof value;
    } else if (strncmp(typed, "none:", 5) != 0) {
        int field = *typed == 's' ? SS_ANY_VALUE_STRING_VALUE : SS_ANY_VALUE_BYTES_VALUE;
        *pos++ = (uint8_t)(field << 3 | SS_WIRE_BYTES);
        *pos++ = (uint8_t)length;
        memcpy(pos, text, length);
        pos += length;
    }
    return (size_t)(pos - out);
}

static void put_attribute(record *r, uint32_t field, const char *key, const char *typed) {
    record inner = {.length = 0};
    uint8_t value[256];
    put_bytes(&inner, SS_KEY_VALUE_KEY, key, strlen(key));
    put_bytes(&inner, SS_KEY_VALUE_VALUE, value, encode_value(value, typed));
    put_bytes(r, field, inner.bytes, inner.length);
}

static void begin(record *r, ss_signal signal, const char *trace_id) {
    *r = (record){.signal = signal};
    uint8_t id[16];
    for (int i = 0; i < 16; i++) {
        char pair[3] = {trace_id[2 * i], trace_id[2 * i + 1], 0};
        id[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    put_bytes(r, signal == SS_SIGNAL_LOGS ? SS_LOG_RECORD_TRACE_ID : SS_SPAN_TRACE_ID, id, sizeof id);
}

static void put_tracestate(record *r, const char *text) {
    put_bytes(r, SS_SPAN_TRACE_STATE, text, strlen(text));
}

/* The last field of a number in body: as a parser would have it. */
static ss_reader last_field(ss_reader reader, uint32_t field) {
    ss_reader found = {reader.pos, reader.pos};
    while (reader.pos < reader.end) {
        uint64_t tag = 0;
        bool ok = ss_read_varint(&reader, &tag);
        if (ok && tag == (field << 3 | SS_WIRE_BYTES)) {
            ok = ss_read_bytes(&reader, &found);
        } else if (ok) {
            ok = ss_skip_field(&reader, (uint32_t)tag, 0);
        }
        CHECK(ok);
        if (!ok) {
            break;
        }
    }
    return found;
}

/* Scan a request with r as its only row, run op, emit. r becomes what is left of the row. */
static void run(record *r, ss_op *op) {
    record scope = {.length = 0}, resource = {.length = 0}, request = {.length = 0};
    put_bytes(&scope, SS_SCOPE_SPANS_SPANS, r->bytes, r->length);
    put_bytes(&resource, SS_RESOURCE_SPANS_SCOPE_SPANS, scope.bytes, scope.length);
    put_bytes(&request, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, resource.bytes, resource.length);
    uint8_t *exact = malloc(request.length); /* no byte more, for the sanitizer */
    memcpy(exact, request.bytes, request.length);

    ss_table *table = ss_table_new();
    ss_error error = {0};
    ss_verdict verdict = {0};
    ss_buffer out = {0};
    CHECK_EQUAL(SS_OK, ss_scan(r->signal, exact, request.length, table, &error));
    CHECK_EQUAL(1, table->n_rows);
    CHECK_EQUAL(SS_OK, op->vtable->run(op, table, &verdict));
    CHECK_EQUAL(SS_CODE_OK, verdict.code);
    ss_op_settle_counts(table, 0, true);
    r->kept = table->verdict[0] == SS_KEEP;
    r->untouched = ss_table_is_untouched(table);
    CHECK_EQUAL(r->kept, table->n_kept);
    CHECK_EQUAL(SS_OK, ss_emit(table, 0, 1, &out));
    if (r->kept) {
        ss_reader row = {out.data, out.data + out.length};
        row = last_field(row, SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS);
        row = last_field(row, SS_RESOURCE_SPANS_SCOPE_SPANS);
        row = last_field(row, SS_SCOPE_SPANS_SPANS);
        r->length = (size_t)(row.end - row.pos);
        memcpy(r->bytes, row.pos, r->length);
    }
    ss_buffer_free(&out);
    ss_table_free(table);
    free(exact);
}

static void check_tracestate(const record *r, const char *expected) {
    ss_reader state = last_field((ss_reader){r->bytes, r->bytes + r->length}, SS_SPAN_TRACE_STATE);
    size_t length = (size_t)(state.end - state.pos);
    if (length != strlen(expected) || memcmp(state.pos, expected, length) != 0) {
        fprintf(stderr, "expected \"%s\", got \"%.*s\"\n", expected, (int)length, (const char *)state.pos);
    }
    CHECK(length == strlen(expected) && memcmp(state.pos, expected, length) == 0);
}

/* Attribute name of a log record as text; "-" when it is not there, "?" when it is there twice. */
static void log_attribute(const record *r, const char *name, char out[64]) {
    ss_reader reader = {r->bytes, r->bytes + r->length};
    strcpy(out, "-");
    while (reader.pos < reader.end) {
        uint64_t tag = 0;
        ss_reader value = {0};
        CHECK(ss_read_varint(&reader, &tag) && ss_read_bytes(&reader, &value));
        if (tag != (SS_LOG_RECORD_ATTRIBUTES << 3 | SS_WIRE_BYTES)) {
            continue;
        }
        ss_reader key = last_field(value, SS_KEY_VALUE_KEY);
        ss_reader text = last_field(last_field(value, SS_KEY_VALUE_VALUE), SS_ANY_VALUE_STRING_VALUE);
        if ((size_t)(key.end - key.pos) == strlen(name) && memcmp(key.pos, name, strlen(name)) == 0) {
            bool is_first = strcmp(out, "-") == 0;
            snprintf(out, 64, "%.*s", is_first ? (int)(text.end - text.pos) : 1,
                     is_first ? (const char *)text.pos : "?");
        }
    }
}

static ss_op *make(ss_sampler_config config) {
    ss_error error = {0};
    ss_op *op = ss_sampler_new(&config, &error);
    CHECK(op != NULL);
    return op;
}

/* ---------------------------------------------------------------- vector files */

static FILE *open_vectors(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s", __FILE__);
    char *slash = strrchr(path, '/');
    size_t used = slash ? (size_t)(slash - path) + 1 : 0;
    snprintf(path + used, sizeof path - used, "../data/sampler/%s", name);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    return file;
}

static char *trimmed(char *text) {
    text += strspn(text, " \n");
    size_t length = strlen(text);
    while (length && strchr(" \n", text[length - 1])) {
        text[--length] = '\0';
    }
    return text;
}

static void check_span_vector(char mode, char *const *fields) {
    ss_op *op = make((ss_sampler_config){.signal = SS_SIGNAL_TRACES,
                                         .mode = mode == 'H'   ? SS_SAMPLER_HASH_SEED
                                                 : mode == 'P' ? SS_SAMPLER_PROPORTIONAL
                                                               : SS_SAMPLER_EQUALIZING,
                                         .sampling_percentage = strtof(fields[1], NULL),
                                         .sampling_precision = (uint32_t)atoi(fields[2]),
                                         .fail_closed = *fields[6] == '1'});
    record r;
    begin(&r, SS_SIGNAL_TRACES, fields[3]);
    if (*fields[4]) {
        put_tracestate(&r, fields[4]);
    }
    if (*fields[5]) {
        put_attribute(&r, SS_SPAN_ATTRIBUTES, "other", "int:7");
        put_attribute(&r, SS_SPAN_ATTRIBUTES, "sampling.priority", fields[5]);
        put_attribute(&r, SS_SPAN_ATTRIBUTES, "sampling.priority", "string:the first one counts");
    }
    int failures = check_failures;
    run(&r, op);
    CHECK_EQUAL(*fields[7] == '1', r.kept);
    if (r.kept) {
        check_tracestate(&r, fields[8]);
        CHECK_EQUAL(strcmp(fields[4], fields[8]) == 0, r.untouched);
    }
    if (failures != check_failures) {
        fprintf(stderr, "in mode %c: %s | %s | %s | %s | %s\n", mode, fields[1], fields[2], fields[3], fields[4],
                fields[5]);
    }
    ss_op_free(op);
}

static void test_span_vectors(void) {
    FILE *file = open_vectors("spans.txt");
    char line[1024];
    int n_vectors = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (*line == '#') {
            continue;
        }
        char *fields[9] = {0};
        char *rest = line;
        for (int i = 0; i < 9; i++) {
            char *end = rest + strcspn(rest, "|");
            bool is_last = *end == '\0';
            *end = '\0';
            fields[i] = trimmed(rest);
            rest = is_last ? end : end + 1;
        }
        for (const char *mode = fields[0]; *mode; mode++, n_vectors++) {
            check_span_vector(*mode, fields);
        }
    }
    CHECK(n_vectors > 100);
    if (file) {
        fclose(file);
    }
}

static void test_hash_seed_vectors(void) {
    FILE *file = open_vectors("hash_seed.txt");
    char line[128];
    int n_vectors = 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned seed;
        char id[33];
        int kept;
        if (*line == '#' || sscanf(line, "%u %32s %d", &seed, id, &kept) != 3) {
            continue;
        }
        ss_op *op = make((ss_sampler_config){
            .signal = SS_SIGNAL_TRACES, .hash_seed = seed, .sampling_percentage = 50, .fail_closed = true});
        record r;
        begin(&r, SS_SIGNAL_TRACES, id);
        run(&r, op);
        CHECK_EQUAL(kept, r.kept);
        CHECK_EQUAL(1, ss_op_counter(op, 2 * SS_SAMPLER_TRACE_ID_HASH + (uint32_t)kept));
        ss_op_free(op);
        n_vectors++;
    }
    CHECK_EQUAL(100, n_vectors);
    if (file) {
        fclose(file);
    }
}

static void test_threshold_vectors(void) {
    FILE *file = open_vectors("thresholds.txt");
    char line[128];
    int n_vectors = 0;
    while (file && fgets(line, sizeof line, file)) {
        char number[64], expected[16];
        unsigned precision;
        if (*line == '#' || sscanf(line, "%63s %u %15s", number, &precision, expected) != 3) {
            continue;
        }
        char *end;
        double probability = strtod(number, &end);
        if (*end == '%') {
            probability = (double)(float)probability / 100;
        }
        uint64_t threshold = 0;
        uint8_t text[SS_SAMPLING_DIGITS];
        CHECK(ss_sampler_threshold(probability, precision, &threshold));
        size_t length = ss_threshold_format(threshold, text);
        bool is_same = length == strlen(expected) && memcmp(text, expected, length) == 0;
        if (!is_same) {
            fprintf(stderr, "%s: got %.*s", line, (int)length, (const char *)text);
        }
        CHECK(is_same);
        n_vectors++;
    }
    CHECK(n_vectors > 30);
    if (file) {
        fclose(file);
    }
    uint64_t ignored;
    CHECK(!ss_sampler_threshold(0x1p-57, 4, &ignored));
    CHECK(!ss_sampler_threshold(1.0000001, 4, &ignored));
    CHECK(!ss_sampler_threshold(NAN, 4, &ignored));
}

/* ---------------------------------------------------------------- what the vectors leave out */

static void test_hash(void) {
    static const uint8_t zero[16];
    CHECK_EQUAL(0x3515, ss_sampler_hash(0, NULL, 0) & 0x3fff);
    CHECK_EQUAL(0x2455, ss_sampler_hash(0, zero, sizeof zero) & 0x3fff);
    static const struct {
        float percentage;
        uint32_t buckets;
    } cases[] = {{15.5F, 2539},    {33.333332F, 5461}, {1, 163},         {10, 1638},       {0.03F, 4},
                 {99.9F, 16367},   {0.006F, 0},        {0.0062F, 1},     {100, 16384},     {150, 16384},
                 {99.999F, 16383}, {65.802F, 10781},   {72.052F, 11805}, {90.802F, 14877}, {97.052F, 15901}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_EQUAL(cases[i].buckets, ss_sampler_buckets(cases[i].percentage));
    }
}

static void test_non_minimal_prefix_is_replaced(void) {
    ss_op *op = make((ss_sampler_config){
        .signal = SS_SIGNAL_TRACES, .mode = SS_SAMPLER_EQUALIZING, .sampling_percentage = 25, .fail_closed = true});
    record r;
    begin(&r, SS_SIGNAL_TRACES, "ffffffffffffffffffffffffffffffff");
    put(&r, "\x9a\x80\x00\x83\x80\x80\x00v=1", 10); /* tag in 3 bytes, length in 4 */
    put_bytes(&r, SS_SPAN_NAME, "n", 1);
    run(&r, op);
    check_tracestate(&r, "ot=th:c,v=1");
    CHECK_EQUAL(18 + 3 + 1 + 11 + 3, r.length); /* id, the tag as it was, the rest anew, name */
    ss_op_free(op);
}

static void test_last_of_two_tracestates_counts(void) {
    ss_op *op = make((ss_sampler_config){
        .signal = SS_SIGNAL_TRACES, .mode = SS_SAMPLER_EQUALIZING, .sampling_percentage = 25, .fail_closed = true});
    record r;
    begin(&r, SS_SIGNAL_TRACES, "ffffffffffffffffffffffffffffffff");
    put_tracestate(&r, "ot=th:e");
    put_tracestate(&r, "ot=th:8");
    run(&r, op);
    check_tracestate(&r, "ot=th:c");
    begin(&r, SS_SIGNAL_TRACES, "ffffffffffffffffffffffffffffffff");
    put_tracestate(&r, "ot=th:e");
    put_tracestate(&r, "");
    put_bytes(&r, SS_SPAN_NAME, "n", 1);
    run(&r, op);
    check_tracestate(&r, "ot=th:c");
    ss_op_free(op);
}

/* Legal encodings of sampling.priority = 0 that no encoder writes: found as every parser finds it. */
static void test_odd_encodings_of_priority(void) {
    ss_op *op =
        make((ss_sampler_config){.signal = SS_SIGNAL_TRACES, .mode = SS_SAMPLER_HASH_SEED, .sampling_percentage = 100});
    static const uint8_t padded[] = "\x0a\x91\x00sampling.priority\x12\x02\x18\x00";
    static const uint8_t unknown_behind[] = "\x0a\x11sampling.priority\x12\x05\x18\x00\xf8\x07\x05";
    static const struct {
        const uint8_t *bytes;
        size_t length;
    } attributes[] = {{padded, sizeof padded - 1}, {unknown_behind, sizeof unknown_behind - 1}};
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        record r;
        begin(&r, SS_SIGNAL_TRACES, "ffffffffffffffffffffffffffffffff");
        put_bytes(&r, SS_SPAN_ATTRIBUTES, attributes[i].bytes, attributes[i].length);
        run(&r, op);
        CHECK(!r.kept);
    }
    ss_op_free(op);
}

static void test_long_tracestate_takes_two_length_bytes(void) {
    char text[301] = "v=";
    memset(text + 2, 'x', 250);
    ss_op *op = make((ss_sampler_config){
        .signal = SS_SIGNAL_TRACES, .mode = SS_SAMPLER_EQUALIZING, .sampling_percentage = 25, .fail_closed = true});
    record r;
    begin(&r, SS_SIGNAL_TRACES, "ffffffffffffffffffffffffffffffff");
    put_tracestate(&r, text);
    run(&r, op);
    char expected[400];
    snprintf(expected, sizeof expected, "ot=th:c,%s", text);
    check_tracestate(&r, expected);
    ss_op_free(op);
}

static void test_errors_are_counted(void) {
    static const struct {
        ss_sampler_mode mode;
        const char *trace_id, *tracestate;
        ss_sampler_policy policy;
        ss_sampler_error error;
    } cases[] = {
        {SS_SAMPLER_HASH_SEED, "00", "", SS_SAMPLER_MISSING_RANDOMNESS, SS_SAMPLER_NO_RANDOMNESS},
        {SS_SAMPLER_HASH_SEED, "01", "ot=th:8;rv:01234567890123", SS_SAMPLER_TRACE_ID_HASH,
         SS_SAMPLER_RANDOMNESS_IN_USE},
        {SS_SAMPLER_HASH_SEED, "01", "ot=th:8", SS_SAMPLER_TRACE_ID_HASH, SS_SAMPLER_THRESHOLD_IN_USE},
        {SS_SAMPLER_HASH_SEED, "01", "?", SS_SAMPLER_TRACE_ID_HASH, SS_SAMPLER_UNREADABLE},
        {SS_SAMPLER_EQUALIZING, "00", "", SS_SAMPLER_MISSING_RANDOMNESS, SS_SAMPLER_NO_RANDOMNESS},
        {SS_SAMPLER_EQUALIZING, "01", "?", SS_SAMPLER_MISSING_RANDOMNESS, SS_SAMPLER_UNREADABLE},
        {SS_SAMPLER_PROPORTIONAL, "01", "ot=th:8", SS_SAMPLER_TRACE_ID_W3C, SS_SAMPLER_INCONSISTENT},
        {SS_SAMPLER_PROPORTIONAL, "01", "ot=th:8;rv:00000000000000", SS_SAMPLER_SAMPLING_RANDOMNESS,
         SS_SAMPLER_INCONSISTENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int fail_closed = 0; fail_closed < 2; fail_closed++) {
            ss_op *op = make((ss_sampler_config){.signal = SS_SIGNAL_TRACES,
                                                 .mode = cases[i].mode,
                                                 .sampling_percentage = 50,
                                                 .fail_closed = fail_closed});
            char id[33];
            snprintf(id, sizeof id, "000000000000000000000000000000%s", cases[i].trace_id);
            record r;
            begin(&r, SS_SIGNAL_TRACES, id);
            put_tracestate(&r, cases[i].tracestate);
            run(&r, op);
            CHECK_EQUAL(!fail_closed, r.kept);
            for (uint32_t counter = 0; counter < SS_OP_COUNTERS; counter++) {
                bool counts = counter == cases[i].error || counter == 2 * cases[i].policy + !fail_closed;
                CHECK_EQUAL(counts, ss_op_counter(op, counter));
            }
            ss_op_free(op);
        }
    }
}

/* Run one span through tier 2 (seed, percentage) with allow_resampling; "" when dropped. */
static void resample(uint32_t seed, float percentage, const char *tracestate, const char *expected) {
    ss_op *op = make((ss_sampler_config){.signal = SS_SIGNAL_TRACES,
                                         .hash_seed = seed,
                                         .sampling_percentage = percentage,
                                         .fail_closed = true,
                                         .allow_resampling = true});
    record r;
    begin(&r, SS_SIGNAL_TRACES, "4bf92f3577b34da6a3ce929d0e0e4736");
    put_tracestate(&r, tracestate);
    run(&r, op);
    CHECK_EQUAL(*expected != '\0', r.kept);
    if (*expected) {
        check_tracestate(&r, expected);
    }
    ss_op_free(op);
}

static void test_resampling(void) {
    /* The same seed before: the same hash, so the higher threshold holds. */
    resample(0, 50, "ot=rv:fdc80d0b42008d;th:4", "ot=rv:fdc80d0b42008d;th:8");
    resample(0, 50, "ot=rv:fdc80d0b42008d;th:c", "ot=rv:fdc80d0b42008d;th:c");
    /* Another hash before: probabilities multiply and the randomness stays above the threshold. */
    resample(0, 50, "ot=th:8", "ot=rv:fee40685a10046;th:c");
    resample(0, 50, "ot=rv:ffffffffffffff;th:c,v=1", "ot=rv:ff720342d08023;th:e,v=1");
    resample(0, 50, "ot=rv:00000000000000", "ot=rv:fdc80d0b42008d;th:8");
    resample(0, 0.5F, "ot=th:8", "");
    resample(0, 50, "ot=th:x", "");
}

/* ---------------------------------------------------------------- logs */

static const char ID[] = "4bf92f3577b34da6a3ce929d0e0e4736";
static const char NO_ID[] = "00000000000000000000000000000000";

typedef struct log_case {
    ss_sampler_config config;
    const char *trace_id;
    const char *attributes[4][2];
    bool kept;
    const char *threshold, *randomness; /* texts after; "-": not there */
    uint32_t policy;
} log_case;

static void check_log(const log_case *c) {
    ss_sampler_config config = c->config;
    config.signal = SS_SIGNAL_LOGS;
    ss_op *op = make(config);
    record r;
    begin(&r, SS_SIGNAL_LOGS, c->trace_id);
    for (int i = 0; i < 4 && c->attributes[i][0]; i++) {
        put_attribute(&r, SS_LOG_RECORD_ATTRIBUTES, c->attributes[i][0], c->attributes[i][1]);
    }
    run(&r, op);
    CHECK_EQUAL(c->kept, r.kept);
    CHECK_EQUAL(1, ss_op_counter(op, 2 * c->policy + c->kept));
    if (c->kept) {
        char text[64];
        log_attribute(&r, "sampling.threshold", text);
        CHECK(strcmp(c->threshold, text) == 0);
        log_attribute(&r, "sampling.randomness", text);
        CHECK(strcmp(c->randomness, text) == 0);
    }
    ss_op_free(op);
}

static void test_logs(void) {
    const ss_sampler_config by_id = {.sampling_percentage = 50,
                                     .fail_closed = true,
                                     .hash_trace_id = true,
                                     .from_attribute = "id",
                                     .sampling_priority = "p",
                                     .sampling_precision = 4};
    ss_sampler_config by_record = by_id, open = by_id, equalizing = by_id, proportional = by_id, never = by_id;
    by_record.hash_trace_id = false;
    open.fail_closed = false;
    equalizing.mode = SS_SAMPLER_EQUALIZING;
    proportional.mode = SS_SAMPLER_PROPORTIONAL;
    never.sampling_percentage = 0;
    ss_sampler_config all_by_record = by_record, open_record = open, resampling = by_id;
    all_by_record.sampling_percentage = 100;
    open_record.hash_trace_id = false;
    resampling.allow_resampling = true;
    const log_case cases[] = {
        {by_id, ID, {{0}}, true, "8", "fdc80d0b42008d", SS_SAMPLER_TRACE_ID_HASH},
        {by_id, ID, {{"id", "string:x"}}, true, "8", "fdc80d0b42008d", SS_SAMPLER_TRACE_ID_HASH},
        {by_id, NO_ID, {{0}}, false, "", "", SS_SAMPLER_MISSING_RANDOMNESS},
        {open, NO_ID, {{0}}, true, "0", "-", SS_SAMPLER_MISSING_RANDOMNESS},
        {open_record, ID, {{"id", "string:"}}, true, "0", "-", SS_SAMPLER_MISSING_RANDOMNESS},
        {open_record, ID, {{"id", "none:"}}, true, "0", "-", SS_SAMPLER_MISSING_RANDOMNESS},
        {by_record, ID, {{"other", "int:1"}}, false, "", "", SS_SAMPLER_MISSING_RANDOMNESS},
        {by_id, ID, {{"sampling.threshold", "string:8"}}, false, "", "", SS_SAMPLER_TRACE_ID_HASH},
        {open, ID, {{"sampling.threshold", "string:8"}}, true, "8", "-", SS_SAMPLER_TRACE_ID_HASH},
        {open, ID, {{"sampling.randomness", "string:x"}}, true, "-", "x", SS_SAMPLER_TRACE_ID_HASH},
        {by_id,
         ID,
         {{"sampling.threshold", "string:"}, {"sampling.randomness", "int:1"}},
         true,
         "8",
         "fdc80d0b42008d",
         SS_SAMPLER_TRACE_ID_HASH},
        {resampling, ID, {{"sampling.threshold", "string:80"}}, true, "c", "fee40685a10046", SS_SAMPLER_TRACE_ID_HASH},
        {equalizing, ID, {{0}}, true, "8", "-", SS_SAMPLER_TRACE_ID_W3C},
        {equalizing,
         NO_ID,
         {{"sampling.randomness", "string:80000000000000"}},
         true,
         "8",
         "80000000000000",
         SS_SAMPLER_SAMPLING_RANDOMNESS},
        {equalizing, ID, {{"sampling.threshold", "string:c"}}, true, "c", "-", SS_SAMPLER_TRACE_ID_W3C},
        {proportional, ID, {{"sampling.threshold", "string:8"}}, true, "c", "-", SS_SAMPLER_TRACE_ID_W3C},
        {proportional, ID, {{"sampling.threshold", "string:ff"}}, false, "", "", SS_SAMPLER_TRACE_ID_W3C},
        {proportional, ID, {{"sampling.threshold", "string:zz"}}, false, "", "", SS_SAMPLER_MISSING_RANDOMNESS},
        /* Priority: a percentage that replaces the decision, up or down; anything else is not looked at. */
        {by_record, NO_ID, {{"p", "int:100"}}, true, "0", "-", SS_SAMPLER_SAMPLING_PRIORITY},
        {by_id, ID, {{"p", "double:0.5"}}, false, "", "", SS_SAMPLER_SAMPLING_PRIORITY},
        {by_id, ID, {{"p", "int:1"}}, true, "fd70a", "fdc80d0b42008d", SS_SAMPLER_SAMPLING_PRIORITY},
        {by_id, ID, {{"p", "int:0"}}, true, "8", "fdc80d0b42008d", SS_SAMPLER_TRACE_ID_HASH},
        {by_id, ID, {{"p", "int:101"}}, true, "8", "fdc80d0b42008d", SS_SAMPLER_TRACE_ID_HASH},
        {by_id, ID, {{"p", "int:-1"}}, true, "8", "fdc80d0b42008d", SS_SAMPLER_TRACE_ID_HASH},
        {by_id, ID, {{"p", "string:1"}}, true, "8", "fdc80d0b42008d", SS_SAMPLER_TRACE_ID_HASH},
        {never, ID, {{"p", "int:1"}}, true, "fd70a", "-", SS_SAMPLER_SAMPLING_PRIORITY},
        {never, ID, {{0}}, false, "", "", SS_SAMPLER_SAMPLING_PRIORITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int failures = check_failures;
        check_log(&cases[i]);
        if (failures != check_failures) {
            fprintf(stderr, "in log case %zu\n", i);
        }
    }
    /* Numbers hash as their text. */
    static const char *const twins[][2] = {{"int:123", "string:123"},    {"int:-5", "string:-5"},
                                           {"double:1.5", "string:1.5"}, {"double:1e21", "string:1e+21"},
                                           {"bool:1", "string:true"},    {"bool:0", "string:false"},
                                           {"bytes:raw", "string:raw"}};
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        const char *text = strchr(twins[i][1], ':') + 1;
        char randomness[15] = {0};
        ss_randomness_format(ss_sampler_hash(0, (const uint8_t *)text, strlen(text)), (uint8_t *)randomness);
        for (int twin = 0; twin < 2; twin++) {
            log_case c = {all_by_record, NO_ID, {{"id", twins[i][twin]}}, true, "0", randomness, SS_SAMPLER_ATTRIBUTE};
            check_log(&c);
        }
    }
}

/* A threshold that sdk_ratio makes untrue is taken out, the field with its bytes; at 100 % it stays true. */
static void test_sdk_ratio_takes_the_threshold_out(void) {
    for (int is_log = 0; is_log < 2; is_log++) {
        ss_signal signal = is_log ? SS_SIGNAL_LOGS : SS_SIGNAL_TRACES;
        for (int is_whole = 0; is_whole < 2; is_whole++) {
            ss_op *op = make((ss_sampler_config){.signal = signal,
                                                 .mode = SS_SAMPLER_SDK_RATIO,
                                                 .sdk = SS_SAMPLER_SDK_PYTHON,
                                                 .sdk_ratio = is_whole ? 1 : 0.5,
                                                 .fail_closed = true});
            record r, expected;
            begin(&r, signal, "ffffffffffffffff0000000000000001");
            expected = r;
            if (is_log) {
                put_attribute(&r, SS_LOG_RECORD_ATTRIBUTES, "sampling.threshold", "string:8");
            } else {
                put_tracestate(&r, "ot=th:8");
                put_tracestate(&expected, "");
            }
            run(&r, op);
            CHECK(r.kept);
            CHECK_EQUAL(is_whole, r.untouched);
            if (!is_whole) {
                CHECK_EQUAL(expected.length, r.length);
                CHECK(memcmp(expected.bytes, r.bytes, r.length) == 0);
            }
            ss_op_free(op);
        }
    }
}

/* Two threads through one sampler: the state about random ids is theirs by turns. */
static void *push_counting_ids(void *op) {
    for (int i = 1; i < 400; i++) {
        char id[33];
        record r;
        snprintf(id, sizeof id, "%032x", i);
        begin(&r, SS_SIGNAL_TRACES, id);
        run(&r, op);
    }
    return NULL;
}

static void test_ids_are_watched_by_several_threads(void) {
    ss_op *op = make((ss_sampler_config){.signal = SS_SIGNAL_TRACES, .sampling_percentage = 10});
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, push_counting_ids, op));
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK(ss_op_counter(op, SS_SAMPLER_COUNTING) > 0);
    CHECK_EQUAL(0, ss_op_counter(op, SS_SAMPLER_CONSTANT_LOW_HALF));
    ss_op_free(op);
}

static void test_bad_configuration_is_refused(void) {
    const ss_sampler_config good = {.signal = SS_SIGNAL_TRACES, .sampling_percentage = 10};
    ss_sampler_config bad[7] = {good, good, good, good, good, good, good};
    bad[0].signal = SS_SIGNAL_METRICS;
    bad[1].sampling_percentage = -1;
    bad[2].sampling_percentage = NAN;
    bad[3].sampling_percentage = INFINITY;
    bad[4].sampling_precision = 15;
    bad[5].mode = bad[6].mode = SS_SAMPLER_SDK_RATIO;
    bad[5].sdk = SS_SAMPLER_N_SDKS;
    bad[6].sdk_ratio = NAN;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ss_error error = {0};
        CHECK(ss_sampler_new(&bad[i], &error) == NULL);
        CHECK_EQUAL(SS_ERR_ARGUMENT, error.code);
        CHECK(error.reason != NULL);
    }
}

int main(void) {
    test_span_vectors();
    test_hash_seed_vectors();
    test_threshold_vectors();
    test_hash();
    test_non_minimal_prefix_is_replaced();
    test_last_of_two_tracestates_counts();
    test_odd_encodings_of_priority();
    test_long_tracestate_takes_two_length_bytes();
    test_errors_are_counted();
    test_resampling();
    test_logs();
    test_sdk_ratio_takes_the_threshold_out();
    test_ids_are_watched_by_several_threads();
    test_bad_configuration_is_refused();
    return check_finish();
}
