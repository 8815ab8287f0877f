/* OTLP/JSON to protobuf and back, case by case with exact bytes. */
#define _GNU_SOURCE /* memmem */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/bytes.h"
#include "otlp/json_text.h"
#include "spansieve.h"

/* JSON around the members of a span, and around the value of one of its attributes. */
#define SPAN_BEGIN "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{"
#define VALUE_BEGIN SPAN_BEGIN "\"attributes\":[{\"value\":"
#define SPAN(members) SPAN_BEGIN members "}]}]}]}"
#define VALUE(any_value) VALUE_BEGIN any_value "}]}]}]}]}"
enum { SPAN_OFFSET = sizeof SPAN_BEGIN - 1, VALUE_OFFSET = sizeof VALUE_BEGIN - 1 };
#define POINT(members)                                                                                                 \
    "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"gauge\":{\"dataPoints\":[{" members "}]}}]}]}]}"

/* Prints which case failed, since the line is the same for all. */
#define CHECK_CASE(condition, text)                                                                                    \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "in case %s:\n", text);                                                                    \
            CHECK(condition);                                                                                          \
        }                                                                                                              \
    } while (0)

static ss_status to_otlp(ss_signal signal, const char *json, ss_buffer *out, ss_error *error) {
    /* A copy of exactly this length, so that the sanitizer sees a read behind it. */
    size_t length = strlen(json);
    uint8_t *copy = malloc(length ? length : 1);
    memcpy(copy, json, length);
    ss_status status = ss_json_to_otlp(signal, copy, length, out, error);
    free(copy);
    return status;
}

/* The bytes of the one span in a traces request; each of the three prefixes around it is a tag and a length byte. */
static void check_span(const char *json, const char *wire, size_t wire_length) {
    ss_buffer out = {0};
    ss_error error = {0};
    ss_status status = to_otlp(SS_SIGNAL_TRACES, json, &out, &error);
    CHECK_CASE(status == SS_OK, json);
    if (status == SS_OK) {
        CHECK_CASE(out.length == 6 + wire_length && memcmp(out.data + 6, wire, wire_length) == 0, json);
    }
    ss_buffer_free(&out);
}

static void test_fields_are_read(void) {
    static const struct {
        const char *json, *wire;
        size_t wire_length;
    } cases[] = {
#define CASE(json, wire) {json, wire, sizeof(wire) - 1}
        CASE(SPAN(""), ""),
        CASE(SPAN(" \"name\" : \"a\" , \"traceState\":\"b\"\r\n\t"), "\x2a\1a\x1a\1b"),
        /* both spellings, escapes in a key, unknown keys, null, repeated keys */
        CASE(SPAN("\"trace_state\":\"b\""), "\x1a\1b"),
        CASE(SPAN("\"n\\u0061me\":\"b\""), "\x2a\1b"),
        CASE(SPAN("\"new\":{\"a\":[1,-0.5e+9,true,false,null,\"\\n\",{},[]]},\"name\":\"b\",\"\":0"), "\x2a\1b"),
        CASE(SPAN("\"name\":null,\"attributes\":null,\"status\":null,\"kind\":null,\"traceId\":null"), ""),
        CASE(SPAN("\"kind\":2,\"kind\":0"), "\x30\2\x30\0"),
        CASE(SPAN("\"name\":\"b\",\"name\":\"\""), "\x2a\1b\x2a\0"),
        /* defaults are left out */
        CASE(SPAN("\"kind\":0,\"name\":\"\",\"traceId\":\"\",\"startTimeUnixNano\":\"0\",\"attributes\":[]"), ""),
        CASE(SPAN("\"status\":{},\"events\":[{},null]"), "\x7a\0\x5a\0\x5a\0"),
        /* ids */
        CASE(SPAN("\"traceId\":\"4BF92F3577B34da6a3ce929d0e0e4736\""),
             "\x0a\x10\x4b\xf9\x2f\x35\x77\xb3\x4d\xa6\xa3\xce\x92\x9d\x0e\x0e\x47\x36"),
        CASE(SPAN("\"spanId\":\"0123456789abcdef\",\"parentSpanId\":\"0000000000000000\""),
             "\x12\x08\x01\x23\x45\x67\x89\xab\xcd\xef\x22\x08\0\0\0\0\0\0\0\0"),
        /* integers: exact, as number or string, with fraction or exponent when integral */
        CASE(SPAN("\"startTimeUnixNano\":1700000000000000001"), "\x39\x01\x00\x2a\x36\xfe\x9c\x97\x17"),
        CASE(SPAN("\"startTimeUnixNano\":\"1700000000000000001\""), "\x39\x01\x00\x2a\x36\xfe\x9c\x97\x17"),
        CASE(SPAN("\"startTimeUnixNano\":17000000000000000010e-1"), "\x39\x01\x00\x2a\x36\xfe\x9c\x97\x17"),
        CASE(SPAN("\"startTimeUnixNano\":1700000000000000001.000"), "\x39\x01\x00\x2a\x36\xfe\x9c\x97\x17"),
        CASE(SPAN("\"endTimeUnixNano\":18446744073709551615"), "\x41\xff\xff\xff\xff\xff\xff\xff\xff"),
        CASE(SPAN("\"endTimeUnixNano\":\"1e3\""), "\x41\xe8\x03\0\0\0\0\0\0"),
        CASE(SPAN("\"flags\":257,\"droppedLinksCount\":\"4294967295\""),
             "\x85\x01\x01\x01\0\0\x70\xff\xff\xff\xff\x0f"),
        CASE(VALUE("{\"intValue\":-1}"), "\x4a\x0d\x12\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        CASE(VALUE("{\"intValue\":\"-9223372036854775808\"}"),
             "\x4a\x0d\x12\x0b\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
        CASE(VALUE("{\"intValue\":-0}"), "\x4a\4\x12\2\x18\0"),
        /* enums */
        CASE(SPAN("\"kind\":\"SPAN_KIND_SERVER\",\"status\":{\"code\":\"STATUS_CODE_ERROR\"}"), "\x30\2\x7a\2\x18\2"),
        CASE(SPAN("\"kind\":\"3\",\"status\":{\"code\":77}"), "\x30\3\x7a\2\x18\x4d"),
        /* the members of a oneof are kept when they are zero */
        CASE(VALUE("{\"stringValue\":\"\"}"), "\x4a\4\x12\2\x0a\0"),
        CASE(VALUE("{\"boolValue\":false}"), "\x4a\4\x12\2\x10\0"),
        CASE(VALUE("{\"boolValue\":true}"), "\x4a\4\x12\2\x10\1"),
        CASE(VALUE("{\"doubleValue\":0}"), "\x4a\x0b\x12\x09\x21\0\0\0\0\0\0\0\0"),
        CASE(VALUE("{\"arrayValue\":{}}"), "\x4a\4\x12\2\x2a\0"),
        CASE(VALUE("{\"kvlistValue\":{\"values\":[]}}"), "\x4a\4\x12\2\x32\0"),
        CASE(VALUE("{\"arrayValue\":{\"values\":[{\"intValue\":1},null]}}"),
             "\x4a\x0a\x12\x08\x2a\x06\x0a\x02\x18\x01\x0a\0"),
        CASE(VALUE("{}"), "\x4a\2\x12\0"),
        /* bytes: standard or URL-safe base64, padded or not, escaped slashes */
        CASE(VALUE("{\"bytesValue\":\"\"}"), "\x4a\4\x12\2\x3a\0"),
        CASE(VALUE("{\"bytesValue\":\"+/+/\"}"), "\x4a\7\x12\5\x3a\3\xfb\xff\xbf"),
        CASE(VALUE("{\"bytesValue\":\"-_-_\"}"), "\x4a\7\x12\5\x3a\3\xfb\xff\xbf"),
        CASE(VALUE("{\"bytesValue\":\"+\\/8=\"}"), "\x4a\6\x12\4\x3a\2\xfb\xff"),
        CASE(VALUE("{\"bytesValue\":\"AQ==\"}"), "\x4a\5\x12\3\x3a\1\1"),
        CASE(VALUE("{\"bytesValue\":\"AQ\"}"), "\x4a\5\x12\3\x3a\1\1"),
        /* strings */
        CASE(SPAN("\"name\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\""), "\x2a\x09\"\\/\b\f\n\r\t\0"),
        CASE(SPAN("\"name\":\"\\u00e9\\u20AC\\ud83d\\ude00\""), "\x2a\x09\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
        CASE(SPAN("\"name\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\""),
             "\x2a\x0a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f"),
        CASE(SPAN("\"name\":\"\\ud83dx\\ude00\\ud83d\\u0041\""), "\x2a\x0b\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd"
                                                                 "A"),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_span(cases[i].json, cases[i].wire, cases[i].wire_length);
    }
}

/* Long bodies need longer length prefixes, in messages, strings and packed arrays. */
static void test_lengths_grow(void) {
    static const char array_begin[] =
        "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"histogram\":{\"dataPoints\":["
        "{\"bucketCounts\":[";
    static const char array_end[] = "],\"count\":\"7\"}]}}]}]}]}";
    for (size_t n = 1; n < 40000; n = n * 3 + 1) {
        size_t capacity = sizeof array_begin + sizeof array_end + 2 * n;
        char *json = malloc(capacity);
        size_t length = (size_t)snprintf(json, capacity, "%s", array_begin);
        for (size_t i = 0; i < n; i++) {
            length += (size_t)snprintf(json + length, capacity - length, i ? ",5" : "5");
        }
        snprintf(json + length, capacity - length, "%s", array_end);
        ss_buffer wire = {0}, back = {0};
        ss_error error = {0};
        CHECK_EQUAL(SS_OK, to_otlp(SS_SIGNAL_METRICS, json, &wire, &error));
        CHECK_EQUAL(SS_OK, ss_otlp_to_json(SS_SIGNAL_METRICS, wire.data, wire.length, &back, &error));
        /* count stands before bucketCounts, whose elements are now in quotes */
        const char *counts = back.data ? strstr((char *)back.data, "\"count\":\"7\",\"bucketCounts\":[\"5\"") : NULL;
        CHECK(counts != NULL);
        size_t fives = 0;
        for (size_t i = 0; i < back.length; i++) {
            fives += back.data[i] == '5';
        }
        CHECK_EQUAL(n, fives);
        ss_buffer_free(&wire);
        ss_buffer_free(&back);
        free(json);
    }
}

static void test_bad_input_is_refused(void) {
    static const struct {
        const char *json;
        uint64_t offset;
        const char *reason;
    } cases[] = {
        {"", 0, "empty body"},
        {" ", 1, "body ends early, before an object"},
        {"null", 0, "expected an object"},
        {"[]", 0, "expected an object"},
        {"\xef\xbb\xbf\xef\xbb\xbf{}", 3, "expected an object"},
        {"{}{}", 2, "unexpected text behind the request"},
        {"{} \n x", 5, "unexpected text behind the request"},
        {"{", 1, "body ends early, before a string"},
        {"{\"a\"", 4, "body ends early, behind a key"},
        {"{\"a\":", 5, "body ends early, in a value"},
        {"{\"a\":tru", 8, "body ends early, in a value"},
        {"{\"a\":-1.", 8, "body ends early, in a value"},
        {"{\"a\":1", 6, "body ends early, in an object"},
        {"{\"a\":[1", 7, "body ends early, in an array"},
        {"{\"a\":[", 6, "body ends early, in a value"},
        {"{,}", 1, "expected a string"},
        {"{\"a\":1,}", 7, "expected a string"},
        {"{\"a\" 1}", 5, "expected ':'"},
        {"{\"a\":1 \"b\":2}", 7, "expected ',' or '}'"},
        {"{\"a\":[1 2]}", 8, "expected ',' or ']'"},
        {"{\"a\":[1,]}", 8, "expected a value"},
        {"{\"a\":nul}", 5, "expected a value"},
        {"{\"a\":01}", 5, "expected a value"},
        {"{\"a\":1.}", 5, "expected a value"},
        {"{\"a\":.5}", 5, "expected a value"},
        {"{\"a\":+1}", 5, "expected a value"},
        {"{\"a\":1e}", 5, "expected a value"},
        {"{\"a\":'b'}", 5, "expected a value"},
        {"{\"a\":NaN}", 5, "expected a value"},
        {"{\"a\":\"b", 5, "body ends early, in the string that begins"},
        {"{\"a\":\"b\\", 5, "body ends early, in the string that begins"},
        {"{\"a\":\"b\\\"", 5, "body ends early, in the string that begins"},
        {"{\"a\":\"b\n\"}", 7, "control character in a string"},
        {"{\"a\":\"\\x\"}", 6, "unknown escape in a string"},
        {"{\"a\":\"\\u12g4\"}", 6, "\\u must be followed by 4 hex digits"},
        {"{\"a\":\"\\u123\"}", 6, "\\u must be followed by 4 hex digits"},
        {"{\"a\":\"b\xff\"}", 7, "string is not valid UTF-8"},
        {"{\"a\":\"\xc3\"}", 6, "string is not valid UTF-8"},
        {"{\"a\":\"\xed\xa0\x80\"}", 6, "string is not valid UTF-8"},
        {"{\"a\":\"\xc0\x80\"}", 6, "string is not valid UTF-8"},
        {"{\"a\":\"\xf4\x90\x80\x80\"}", 6, "string is not valid UTF-8"},
        {"{\"resourceSpans\":{}}", 17, "expected an array"},
        {"{\"resourceSpans\":[1]}", 18, "expected an object"},
        {"{\"resourceSpans\": ", 18, "body ends early, before an array"},
        {"{\"resourceSpans\":[", 18, "body ends early, before an object"},
        {"{\"resourceSpans\":[{}", 20, "body ends early, in an array"},
        {SPAN_BEGIN "\"kind\":1e+", SPAN_OFFSET + 10, "body ends early, in a number"},
        {SPAN("\"name\":5"), SPAN_OFFSET + 7, "expected a string"},
        {SPAN("\"status\":\"ok\""), SPAN_OFFSET + 9, "expected an object"},
        {SPAN("\"kind\":\"SERVER\""), SPAN_OFFSET + 7, "expected a number or a name of this enum"},
        {SPAN("\"kind\":true"), SPAN_OFFSET + 7, "expected a number"},
        {SPAN("\"startTimeUnixNano\":\"\""), SPAN_OFFSET + 20, "expected a number"},
        {SPAN("\"startTimeUnixNano\":\"1 \""), SPAN_OFFSET + 20, "expected a number"},
        {SPAN("\"startTimeUnixNano\":-1"), SPAN_OFFSET + 20, "integer out of its field's range"},
        {SPAN("\"startTimeUnixNano\":1.5"), SPAN_OFFSET + 20, "expected an integer that fits its field"},
        {SPAN("\"startTimeUnixNano\":18446744073709551616"), SPAN_OFFSET + 20,
         "expected an integer that fits its field"},
        {SPAN("\"startTimeUnixNano\":1e20"), SPAN_OFFSET + 20, "expected an integer that fits its field"},
        {SPAN("\"flags\":4294967296"), SPAN_OFFSET + 8, "integer out of its field's range"},
        {SPAN("\"kind\":2147483648"), SPAN_OFFSET + 7, "integer out of its field's range"},
        {VALUE("{\"intValue\":9223372036854775808}"), VALUE_OFFSET + 12, "integer out of its field's range"},
        {VALUE("{\"intValue\":-9223372036854775809}"), VALUE_OFFSET + 12, "integer out of its field's range"},
        {VALUE("{\"boolValue\":1}"), VALUE_OFFSET + 13, "expected true or false"},
        {VALUE("{\"doubleValue\":1e309}"), VALUE_OFFSET + 15, "number too large for a double"},
        {VALUE("{\"doubleValue\":\"nope\"}"), VALUE_OFFSET + 15, "expected a number"},
        {VALUE("{\"bytesValue\":\"AQI=A\"}"), VALUE_OFFSET + 14, "bytes must be base64"},
        {VALUE("{\"bytesValue\":\"AQ=\"}"), VALUE_OFFSET + 14, "bytes must be base64"},
        {VALUE("{\"bytesValue\":\"A\"}"), VALUE_OFFSET + 14, "bytes must be base64"},
        {VALUE("{\"bytesValue\":\"A*==\"}"), VALUE_OFFSET + 14, "bytes must be base64"},
        {SPAN("\"traceId\":\"4bf92f3577b34da6a3ce929d0e0e473\""), SPAN_OFFSET + 10, "trace id must be 32 hex digits"},
        {SPAN("\"traceId\":\"4bf92f3577b34da6a3ce929d0e0e473g\""), SPAN_OFFSET + 10, "trace id must be 32 hex digits"},
        {SPAN("\"traceId\":\"S/kvNXezTaajzpKdDg5HNg==\""), SPAN_OFFSET + 10,
         "trace id must be 32 hex digits; this looks like base64"},
        {SPAN("\"spanId\":\"7uGbfsPBsXQ=\""), SPAN_OFFSET + 9, "span id must be 16 hex digits; this looks like base64"},
        {SPAN("\"spanId\":\"00\""), SPAN_OFFSET + 9, "span id must be 16 hex digits"},
        {SPAN("\"parent_span_id\":\"xy\""), SPAN_OFFSET + 17, "parent span id must be 16 hex digits"},
        {SPAN("\"links\":[{\"traceId\":\"x\"}]"), SPAN_OFFSET + 20, "trace id must be 32 hex digits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ss_buffer out = {0};
        ss_error error = {0};
        ss_buffer_append(&out, (const uint8_t *)"kept", 4);
        CHECK_CASE(to_otlp(SS_SIGNAL_TRACES, cases[i].json, &out, &error) == SS_ERR_MALFORMED, cases[i].json);
        CHECK_CASE(error.reason && strcmp(error.reason, cases[i].reason) == 0, cases[i].json);
        CHECK_CASE(error.offset == cases[i].offset, cases[i].json);
        CHECK_EQUAL(4, out.length);
        ss_buffer_free(&out);
    }
}

static const char golden[] =
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"shop\"}}"
    "]},"
    "\"scopeSpans\":[{\"scope\":{\"name\":\"lib\"},\"spans\":[{\"traceId\":\"4bf92f3577b34da6a3ce929d0e0e4736\","
    "\"spanId\":\"0123456789abcdef\",\"flags\":257,\"name\":\"GET \\\"\\u001f/\xc3\xa9\",\"kind\":2,"
    "\"startTimeUnixNano\":\"1700000000000000001\",\"attributes\":[{\"key\":\"a\",\"value\":{\"arrayValue\":{"
    "\"values\":["
    "{\"boolValue\":false},{\"intValue\":\"-7\"},{\"doubleValue\":0.1},{\"doubleValue\":\"-Infinity\"},"
    "{\"bytesValue\":\"AQID/w==\"},{}]}}}],\"events\":[{\"name\":\"e\"}],\"links\":[{\"traceId\":"
    "\"4bf92f3577b34da6a3ce929d0e0e4736\"}],\"status\":{\"code\":2}}],\"schemaUrl\":\"u\"}]}]}";

/* The golden text is what the writer writes: it comes back byte for byte. */
static void test_round_trip_is_exact(void) {
    ss_buffer wire = {0}, json = {0};
    ss_error error = {0};
    CHECK_EQUAL(SS_OK, to_otlp(SS_SIGNAL_TRACES, golden, &wire, &error));
    CHECK_EQUAL(SS_OK, ss_otlp_to_json(SS_SIGNAL_TRACES, wire.data, wire.length, &json, &error));
    CHECK(json.length == sizeof golden - 1 && memcmp(json.data, golden, json.length) == 0);
    ss_buffer_free(&wire);
    ss_buffer_free(&json);
}

static void test_every_truncation_is_refused(void) {
    ss_buffer wire = {0};
    ss_error error = {0};
    CHECK_EQUAL(SS_OK, to_otlp(SS_SIGNAL_TRACES, golden, &wire, &error));
    for (size_t length = 0; length < sizeof golden - 1; length++) {
        ss_buffer out = {0};
        char *prefix = strndup(golden, length);
        CHECK_EQUAL(SS_ERR_MALFORMED, to_otlp(SS_SIGNAL_TRACES, prefix, &out, &error));
        CHECK_CASE(length == 0 || strstr(error.reason, "body ends early") == error.reason, prefix);
        CHECK(error.offset <= length && out.length == 0);
        free(prefix);
        ss_buffer_free(&out);
    }
    for (size_t length = 1; length < wire.length; length++) {
        ss_buffer out = {0};
        uint8_t *prefix = malloc(length);
        memcpy(prefix, wire.data, length);
        CHECK_EQUAL(SS_ERR_MALFORMED, ss_otlp_to_json(SS_SIGNAL_TRACES, prefix, length, &out, &error));
        CHECK(error.offset <= length && out.length == 0);
        free(prefix);
        ss_buffer_free(&out);
    }
    ss_buffer_free(&wire);
}

static void test_deep_nesting_is_refused(void) {
    static const char begin[] = "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"attributes\":[{\"value\":";
    static const char level[] = "{\"arrayValue\":{\"values\":[";
    char json[100000];
    size_t length = (size_t)snprintf(json, sizeof json, "%s", begin);
    for (int i = 0; i < 1000; i++) {
        length += (size_t)snprintf(json + length, sizeof json - length, "%s", level);
    }
    ss_buffer out = {0};
    ss_error error = {0};
    CHECK_EQUAL(SS_ERR_LIMIT, to_otlp(SS_SIGNAL_TRACES, json, &out, &error));
    CHECK_EQUAL(0, out.length);
    ss_buffer_free(&out);
    /* The same in protobuf, built from the inside: one more AnyValue in an ArrayValue each time. */
    uint8_t wire[4000];
    size_t at = sizeof wire;
    static const uint8_t outer_tags[] = {0x0a, 0x12, 0x12, 0x4a, 0x12}; /* request ... attribute's value */
    for (int i = 0; i < 405; i++) {
        length = sizeof wire - at;
        at -= ss_varint_size(length);
        ss_write_varint(wire + at, length);
        wire[--at] = i < 400 ? (i % 2 ? 0x2a : 0x0a) : outer_tags[404 - i];
    }
    CHECK_EQUAL(SS_ERR_LIMIT, ss_otlp_to_json(SS_SIGNAL_TRACES, wire + at, sizeof wire - at, &out, &error));
    ss_buffer_free(&out);
}

static void test_wire_variants_are_written(void) {
    static const struct {
        ss_signal signal;
        const char *wire;
        size_t wire_length;
        const char *json;
    } cases[] = {
#define CASE(signal, wire, json) {signal, wire, sizeof(wire) - 1, json}
        CASE(SS_SIGNAL_LOGS, "", "{}"),
        /* unknown numbers and known ones of another wire type are left out, groups too */
        CASE(SS_SIGNAL_TRACES, "\x7a\1x\x08\5\x7b\x08\1\x7c\xfa\xff\x07\1x", "{}"),
        CASE(SS_SIGNAL_TRACES, "\x0a\2\x12\0", "{\"resourceSpans\":[{\"scopeSpans\":[{}]}]}"),
        /* repeated fields in pieces */
        CASE(SS_SIGNAL_TRACES, "\x0a\x0c\x12\0\x1a\1u\x12\3\x1a\1v\x12\0",
             "{\"resourceSpans\":[{\"scopeSpans\":[{},{\"schemaUrl\":\"v\"},{}],\"schemaUrl\":\"u\"}]}"),
        /* the last scalar counts, messages are merged */
        CASE(SS_SIGNAL_TRACES, "\x0a\x06\x1a\1u\x1a\1v", "{\"resourceSpans\":[{\"schemaUrl\":\"v\"}]}"),
        CASE(SS_SIGNAL_TRACES, "\x0a\x09\x1a\1u\x1a\1v\x1a\1w", "{\"resourceSpans\":[{\"schemaUrl\":\"w\"}]}"),
        CASE(SS_SIGNAL_TRACES, "\x0a\x0c\x0a\2\x10\7\x1a\0\x0a\4\x0a\0\x10\x08",
             "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{}],\"droppedAttributesCount\":8}}]}"),
        CASE(SS_SIGNAL_TRACES, "\x0a\4\x0a\0\x0a\0", "{\"resourceSpans\":[{\"resource\":{}}]}"),
        /* of a oneof the last member counts */
        CASE(SS_SIGNAL_LOGS, "\x0a\x0d\x12\x0b\x12\x09\x2a\x07\x18\5\x0a\1x\x18\6",
             "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"body\":{\"intValue\":\"6\"}}]}]}]}"),
        CASE(SS_SIGNAL_LOGS, "\x0a\x0b\x12\x09\x12\x07\x2a\x05\x18\5\x0a\1x",
             "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"body\":{\"stringValue\":\"x\"}}]}]}]}"),
        /* ids of any length; text that is not UTF-8; a severity below zero */
        CASE(SS_SIGNAL_LOGS,
             "\x0a\x18\x12\x16\x12\x14\x4a\2\xab\xcd\x1a\3a\xff\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\1",
             "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"severityNumber\":-1,\"severityText\":"
             "\"a\xef\xbf\xbd\\u0001\",\"traceId\":\"abcd\"}]}]}]}"),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ss_buffer out = {0};
        ss_error error = {0};
        ss_status status =
            ss_otlp_to_json(cases[i].signal, (const uint8_t *)cases[i].wire, cases[i].wire_length, &out, &error);
        CHECK_CASE(status == SS_OK, cases[i].json);
        CHECK_CASE(out.length == strlen(cases[i].json) && memcmp(out.data, cases[i].json, out.length) == 0,
                   cases[i].json);
        ss_buffer_free(&out);
    }
}

/* A point's bucket counts, packed and one by one, are one array. */
static void test_packed_and_unpacked_numbers_are_one_array(void) {
    static const uint8_t point[] = "\x32\x10\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\x31\3\0\0\0\0\0\0\0";
    uint8_t wire[64], *end = wire;
    static const uint8_t tags[] = {0x0a, 0x12, 0x12, 0x4a, 0x0a};
    size_t point_length = sizeof point - 1;
    for (size_t i = 0; i < sizeof tags; i++) {
        *end++ = tags[i];
        *end++ = (uint8_t)(point_length + 2 * (sizeof tags - 1 - i));
    }
    memcpy(end, point, point_length);
    end += point_length;
    ss_buffer out = {0};
    ss_error error = {0};
    CHECK_EQUAL(SS_OK, ss_otlp_to_json(SS_SIGNAL_METRICS, wire, (size_t)(end - wire), &out, &error));
    static const char counts[] = "{\"bucketCounts\":[\"1\",\"2\",\"3\"]}";
    CHECK(out.data && memmem(out.data, out.length, counts, sizeof counts - 1) != NULL);
    ss_buffer_free(&out);
}

/* Messages in pieces within messages in pieces may not multiply what is held. */
static void test_merging_is_bounded(void) {
    ss_buffer wire = {0}, next = {0}, out = {0};
    ss_error error = {0};
    /* AnyValue { kvlist { values { value { kvlist ... } } } }, each kvlist given twice */
    for (int i = 0; i < 40; i++) {
        static const uint8_t tags[] = {0x32, 0x12, 0x0a};
        const uint8_t *body = wire.data;
        size_t length = wire.length;
        next.length = 0;
        uint8_t tag = tags[i % 3], prefix[SS_VARINT_MAX];
        if (tag == 0x32) {
            ss_buffer_append(&next, (const uint8_t *)"\x32\0", 2);
        }
        ss_buffer_append(&next, &tag, 1);
        ss_buffer_append(&next, prefix, (size_t)(ss_write_varint(prefix, length) - prefix));
        ss_buffer_append(&next, body, length);
        ss_buffer swap = wire;
        wire = next;
        next = swap;
    }
    static const uint8_t around[] = {0x2a, 0x12, 0x12, 0x0a}; /* log record's body ... resource logs */
    for (size_t i = 0; i < sizeof around; i++) {
        uint8_t prefix[SS_VARINT_MAX];
        next.length = 0;
        ss_buffer_append(&next, &around[i], 1);
        ss_buffer_append(&next, prefix, (size_t)(ss_write_varint(prefix, wire.length) - prefix));
        ss_buffer_append(&next, wire.data, wire.length);
        ss_buffer swap = wire;
        wire = next;
        next = swap;
    }
    CHECK_EQUAL(SS_ERR_LIMIT, ss_otlp_to_json(SS_SIGNAL_LOGS, wire.data, wire.length, &out, &error));
    CHECK(error.reason && strcmp(error.reason, "too many messages in pieces") == 0 && error.offset < wire.length);
    ss_buffer_free(&wire);
    ss_buffer_free(&next);
    ss_buffer_free(&out);
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double parse(const char *text, bool strict) {
    ss_decimal number;
    double value = NAN;
    const uint8_t *begin = (const uint8_t *)text, *end = begin + strlen(text);
    if (ss_decimal_scan(begin, end, strict, &number) == end && !ss_decimal_to_double(&number, &value)) {
        return INFINITY;
    }
    return value;
}

/* Decimal to double is right to the last bit on every path: exact, 128-bit quotient, and far. */
static void test_doubles_are_parsed_exactly(void) {
    static const char *const texts[] = {
        "0",
        "-0",
        "1",
        "0.1",
        "-0.3",
        "123456789.123456789",
        "9007199254740993",
        "9007199254740993.0000000000000001",
        "0.1234567890123456789",
        "1844674407370955.1615",
        "18446744073709551615",
        "18446744073709551616",
        "3.14159265358979323846264338327950288",
        "1e22",
        "1e23",
        "8.5e-19",
        "1.7976931348623157e308",
        "2.2250738585072014e-308",
        "4.9e-324",
        "2e-324",
        "1e-400",
        "123456789012345678901234567890e-10",
        "0.000000000000000000000000000001",
        "100000000000000000000000000000000000000000000000001",
        "9007199254740992.99999999999999999999999999",
        "2.2250738585072011360574097967091319759348e-308",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203126",
        "7e-19",
        "0e999999999999999999999",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK_CASE(bits_of(parse(texts[i], true)) == bits_of(strtod(texts[i], NULL)), texts[i]);
    }
    CHECK(isinf(parse("1e309", true)) && isinf(parse("1e99999999999999999999", true)));
    CHECK(parse("+.5", false) == 0.5 && parse("5.", false) == 5 && parse("007", false) == 7);
    CHECK(isnan(parse("+.5", true)) && isnan(parse(".", false)) && isnan(parse("-", false)));
    /* More digits than can be kept; an exponent that makes up for them. */
    char text[3000];
    memset(text, '0', sizeof text);
    text[0] = '1';
    strcpy(text + 2000, "e-2000");
    CHECK(parse(text, true) == 0.1);
    /* Half way between two doubles, but for the last of a thousand digits. */
    strcpy(text, "9007199254740993.");
    memset(text + 17, '0', 1000);
    strcpy(text + 1017, "1");
    CHECK(parse(text, true) == 9007199254740994.0);
}

static void test_doubles_are_written_shortest(void) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-2.5, "-2.5"},
        {0.1, "0.1"},
        {0.3, "0.3"},
        {0.1 + 0.2, "0.30000000000000004"},
        {100, "100"},
        {1e20, "100000000000000000000"},
        {1e21, "1e+21"},
        {1.5e300, "1.5e+300"},
        {1e-6, "0.000001"},
        {1e-7, "1e-7"},
        {1.25e-9, "1.25e-9"},
        {123456.789, "123456.789"},
        {9007199254740993.0, "9007199254740992"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {1.0 / 3, "0.3333333333333333"},
        {1234567890.123, "1234567890.123"},
        {123456789012345680000.0, "123456789012345680000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t text[SS_DOUBLE_TEXT_MAX + 1];
        *ss_double_write(cases[i].value, text) = 0;
        CHECK_CASE(strcmp((char *)text, cases[i].text) == 0, cases[i].text);
    }
    /* Any double comes back, and with no more than 17 digits. */
    uint64_t state = 1;
    for (int i = 0; i < 200000; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t bits = state ^ state >> 29;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) {
            uint8_t text[SS_DOUBLE_TEXT_MAX + 1];
            *ss_double_write(value, text) = 0;
            CHECK(bits_of(parse((char *)text, true)) == bits);
            CHECK(bits_of(strtod((char *)text, NULL)) == bits);
        }
    }
}

/* Where the locale's decimal point is a comma, JSON's is not. */
static void test_locale_has_no_say(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !setlocale(LC_ALL, names[i]); i++) {
    }
    uint8_t text[SS_DOUBLE_TEXT_MAX + 1];
    *ss_double_write(1.0 / 3, text) = 0;
    CHECK(strcmp((char *)text, "0.3333333333333333") == 0);
    CHECK(parse("3.14159265358979323846264338327950288", true) == 3.14159265358979323846);
    setlocale(LC_ALL, "C");
}

static void test_special_doubles(void) {
    static const struct {
        const char *json;
        double value;
    } cases[] = {
        {POINT("\"asDouble\":\"Infinity\""), INFINITY},
        {POINT("\"asDouble\":\"-Infinity\""), -INFINITY},
        {POINT("\"asDouble\":\"+Inf\""), INFINITY},
        {POINT("\"asDouble\":\"-inf\""), -INFINITY},
        {POINT("\"asDouble\":\"NaN\""), NAN},
        {POINT("\"asDouble\":\"nan\""), NAN},
        {POINT("\"asDouble\":\"-1.5e3\""), -1500},
        {POINT("\"asDouble\":\"\\u0031\""), 1},
        {POINT("\"asDouble\":-0.0"), -0.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ss_buffer out = {0};
        ss_error error = {0};
        double value = 0;
        CHECK_CASE(to_otlp(SS_SIGNAL_METRICS, cases[i].json, &out, &error) == SS_OK, cases[i].json);
        if (out.length >= sizeof value) {
            memcpy(&value, out.data + out.length - sizeof value, sizeof value);
        }
        CHECK_CASE(isnan(cases[i].value) ? isnan(value) : bits_of(value) == bits_of(cases[i].value), cases[i].json);
        ss_buffer_free(&out);
    }
}

int main(void) {
    test_fields_are_read();
    test_lengths_grow();
    test_bad_input_is_refused();
    test_round_trip_is_exact();
    test_every_truncation_is_refused();
    test_deep_nesting_is_refused();
    test_wire_variants_are_written();
    test_packed_and_unpacked_numbers_are_one_array();
    test_merging_is_bounded();
    test_doubles_are_parsed_exactly();
    test_doubles_are_written_shortest();
    test_locale_has_no_say();
    test_special_doubles();
    return check_finish();
}
