/* Sources: gRPC "PROTOCOL-HTTP2.md", OTLP specification, google/rpc/status.proto and error_details.proto. */
#include "net/grpc.h"

#include "core/bytes.h"
#include "core/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { METHOD_PATH_MAX = 80, MESSAGE_BYTES = sizeof((ss_verdict){0}.message) };

void ss_verdict_fail(ss_verdict *verdict, ss_code code, const char *format, ...) {
    *verdict = (ss_verdict){.code = code};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verdict->message, sizeof verdict->message, format, arguments);
    va_end(arguments);
}

void ss_quote(const uint8_t *text, size_t length, char *out, size_t capacity) {
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;
    out[used++] = '"';
    for (size_t i = 0; i < length && used + 6 <= capacity; i++) { /* an escape, the quote, the end */
        uint8_t byte = text[i];
        if (byte < 0x20 || byte > 0x7e) {
            out[used++] = '\\';
            out[used++] = 'x';
            out[used++] = digits[byte >> 4];
            out[used++] = digits[byte & 15];
        } else {
            if (byte == '"' || byte == '\\') {
                out[used++] = '\\';
            }
            out[used++] = (char)byte;
        }
    }
    out[used++] = '"';
    out[used] = 0;
}

/* ------------------------------------------------------------------ requests */

const char *const ss_grpc_services[SS_N_SIGNALS] = {
    "opentelemetry.proto.collector.trace.v1.TraceService",
    "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "opentelemetry.proto.collector.logs.v1.LogsService",
};

bool ss_grpc_route(const uint8_t *path, size_t length, ss_signal *signal, ss_verdict *verdict) {
    char quoted[160];
    const uint8_t *slash = path + length; /* the last one */
    while (slash > path && *--slash != '/') {
    }
    if (slash == path || path[0] != '/') {
        ss_quote(path, length, quoted, sizeof quoted);
        ss_verdict_fail(verdict, SS_CODE_UNIMPLEMENTED, "malformed method name: %s", quoted);
        return false;
    }
    const uint8_t *service = path + 1, *method = slash + 1;
    size_t service_length = (size_t)(slash - service), method_length = length - (size_t)(method - path);
    for (int i = 0; i < SS_N_SIGNALS; i++) {
        const char *name = ss_grpc_services[i];
        if (service_length != strlen(name) || memcmp(service, name, service_length) != 0) {
            continue;
        }
        if (method_length == 6 && memcmp(method, "Export", 6) == 0) {
            *signal = (ss_signal)i;
            return true;
        }
        ss_quote(method, method_length, quoted, METHOD_PATH_MAX);
        ss_verdict_fail(verdict, SS_CODE_UNIMPLEMENTED, "unknown method %.*s for service %s", (int)strlen(quoted) - 2,
                        quoted + 1, name);
        return false;
    }
    ss_quote(service, service_length, quoted, sizeof quoted);
    ss_verdict_fail(verdict, SS_CODE_UNIMPLEMENTED, "unknown service %.*s", (int)strlen(quoted) - 2, quoted + 1);
    return false;
}

bool ss_grpc_find_encoding(const uint8_t *name, size_t length, ss_encoding *encoding) {
    static const struct {
        const char *name;
        ss_encoding encoding;
    } known[] = {{"identity", SS_ENCODING_IDENTITY},
                 {"gzip", SS_ENCODING_GZIP},
                 {"zstd", SS_ENCODING_ZSTD},
                 {"snappy", SS_ENCODING_SNAPPY_FRAMED}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (length == strlen(known[i].name) && memcmp(name, known[i].name, length) == 0) {
            *encoding = known[i].encoding;
            return ss_encoding_is_available(*encoding);
        }
    }
    return false;
}

uint64_t ss_grpc_read_timeout(const uint8_t *text, size_t length) {
    static const struct {
        char name;
        uint64_t ns;
    } units[] = {{'n', 1}, {'u', 1000}, {'m', 1000000}, {'S', 1000000000}, {'M', 60000000000}, {'H', 3600000000000}};
    enum { DIGITS_MAX = 8 };
    uint64_t value = 0;
    if (length < 2 || length > DIGITS_MAX + 1) {
        return UINT64_MAX;
    }
    for (size_t i = 0; i < length - 1; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return UINT64_MAX;
        }
        value = 10 * value + (uint64_t)(text[i] - '0');
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (text[length - 1] == units[i].name) {
            return __builtin_mul_overflow(value, units[i].ns, &value) ? UINT64_MAX : value;
        }
    }
    return UINT64_MAX;
}

const char *ss_grpc_accept_encoding(void) {
    return ss_encoding_is_available(SS_ENCODING_SNAPPY_FRAMED) ? "identity,gzip,zstd,snappy" : "identity,gzip,zstd";
}

bool ss_grpc_check_prefix(const uint8_t prefix[SS_GRPC_PREFIX_BYTES], ss_encoding encoding, size_t max_message_bytes,
                          uint32_t *length, ss_verdict *verdict) {
    *length = (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 | prefix[4];
    if (prefix[0] > 1) {
        ss_verdict_fail(verdict, SS_CODE_INTERNAL, "grpc: received unexpected payload format %u", prefix[0]);
        return false;
    }
    if (prefix[0] == 1 && encoding == SS_ENCODING_IDENTITY) {
        ss_verdict_fail(verdict, SS_CODE_INTERNAL, "grpc: compressed flag set with identity or empty encoding");
        return false;
    }
    if (*length > max_message_bytes) {
        ss_verdict_fail(verdict, SS_CODE_RESOURCE_EXHAUSTED, "grpc: received message larger than max (%u vs. %zu)",
                        *length, max_message_bytes);
        return false;
    }
    return true;
}

bool ss_grpc_unpack(ss_encoding encoding, const uint8_t *body, size_t body_length, size_t max_message_bytes,
                    const uint8_t **message, size_t *message_length, ss_verdict *verdict) {
    if (body_length == 0) {
        ss_verdict_fail(verdict, SS_CODE_INTERNAL,
                        "cardinality violation: received no request message from non-client-streaming RPC");
        return false;
    }
    uint32_t length = 0;
    if (body_length < SS_GRPC_PREFIX_BYTES) {
        ss_verdict_fail(verdict, SS_CODE_INTERNAL, "unexpected EOF");
        return false;
    }
    if (!ss_grpc_check_prefix(body, encoding, max_message_bytes, &length, verdict)) {
        return false;
    }
    if (length > body_length - SS_GRPC_PREFIX_BYTES) {
        ss_verdict_fail(verdict, SS_CODE_INTERNAL, "unexpected EOF");
        return false;
    }
    if (length < body_length - SS_GRPC_PREFIX_BYTES) {
        ss_verdict_fail(verdict, SS_CODE_INTERNAL,
                        "cardinality violation: received multiple request messages for non-client-streaming RPC");
        return false;
    }
    *message = body + SS_GRPC_PREFIX_BYTES;
    *message_length = length;
    return true;
}

void ss_grpc_fail_inflation(ss_status status, const ss_error *error, size_t max_message_bytes, ss_verdict *verdict) {
    if (status == SS_ERR_LIMIT) {
        ss_verdict_fail(verdict, SS_CODE_RESOURCE_EXHAUSTED,
                        "grpc: received message after decompression larger than max (%zu vs. %zu)",
                        max_message_bytes + 1, max_message_bytes);
    } else if (status == SS_ERR_NO_MEMORY) {
        ss_verdict_fail(verdict, SS_CODE_UNAVAILABLE, "no memory to decompress the message");
    } else {
        ss_verdict_fail(verdict, SS_CODE_INTERNAL, "grpc: failed to decompress the received message: %s",
                        error->reason);
    }
}

/* ------------------------------------------------------------------ answers */

/* A message that was cut inside a character, or quotes its input, must not make the answer unreadable. */
static size_t clean_message(const char *message, char out[MESSAGE_BYTES]) {
    size_t length = strnlen(message, MESSAGE_BYTES - 1);
    for (size_t i = 0; i < length;) {
        unsigned size = ss_utf8_length((const uint8_t *)message + i, (const uint8_t *)message + length);
        if (size == 0) {
            out[i++] = '?';
        } else {
            memcpy(out + i, message + i, size);
            i += size;
        }
    }
    out[length] = 0;
    return length;
}

size_t ss_grpc_encode_message(const char *message, char out[SS_GRPC_MESSAGE_TEXT_BYTES]) {
    static const char digits[] = "0123456789ABCDEF";
    char text[MESSAGE_BYTES];
    size_t length = clean_message(message, text);
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)text[i];
        if (byte < 0x20 || byte > 0x7e || byte == '%') {
            out[used++] = '%';
            out[used++] = digits[byte >> 4];
            out[used++] = digits[byte & 15];
        } else {
            out[used++] = (char)byte;
        }
    }
    out[used] = 0;
    return used;
}

ss_status ss_base64_append(const uint8_t *bytes, size_t length, ss_buffer *out) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ss_status status = ss_buffer_reserve(out, length / 3 * 4 + 4);
    if (status != SS_OK) {
        return status;
    }
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        uint32_t group =
            (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
        for (size_t digit = 0; digit < (left > 2 ? 4 : left + 1); digit++) {
            out->data[out->length++] = (uint8_t)alphabet[group >> (18 - 6 * digit) & 63];
        }
    }
    return SS_OK;
}

/* Messages of at most a few hundred bytes are built in an array that is large enough for the largest. */
enum { ANSWER_BYTES = 2 * MESSAGE_BYTES };

static uint8_t *put_varint(uint8_t *to, uint32_t field, uint64_t value) {
    to = ss_write_varint(to, field << 3 | SS_WIRE_VARINT);
    return ss_write_varint(to, value);
}

static uint8_t *put_bytes(uint8_t *to, uint32_t field, const void *bytes, size_t length) {
    to = ss_write_varint(to, field << 3 | SS_WIRE_BYTES);
    to = ss_write_varint(to, length);
    memcpy(to, bytes, length);
    return to + length;
}

/* google.rpc.Status {1 code, 2 message, 3 details {1 type_url, 2 RetryInfo {1 retry_delay {1 seconds, 2 nanos}}}} */
static size_t write_rpc_status(const ss_verdict *verdict, const char *message, size_t length, uint8_t *out) {
    static const char type_url[] = "type.googleapis.com/google.rpc.RetryInfo";
    uint8_t *to = put_varint(out, 1, (uint64_t)verdict->code);
    if (length) {
        to = put_bytes(to, 2, message, length);
    }
    if (verdict->has_retry_delay) {
        uint8_t duration[24], retry_info[32], any[96];
        uint8_t *end = put_varint(duration, 1, verdict->retry_delay_ms / 1000);
        end = put_varint(end, 2, verdict->retry_delay_ms % 1000 * 1000000ull);
        uint8_t *retry_end = put_bytes(retry_info, 1, duration, (size_t)(end - duration));
        uint8_t *any_end = put_bytes(any, 1, type_url, sizeof type_url - 1);
        any_end = put_bytes(any_end, 2, retry_info, (size_t)(retry_end - retry_info));
        to = put_bytes(to, 3, any, (size_t)(any_end - any));
    }
    return (size_t)(to - out);
}

/* Quoted and escaped; at most 6 bytes a byte. */
static size_t write_json_string(const char *text, size_t length, char *out) {
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;
    out[used++] = '"';
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)text[i];
        if (byte == '"' || byte == '\\') {
            out[used++] = '\\';
            out[used++] = (char)byte;
        } else if (byte < 0x20) {
            memcpy(out + used, "\\u00", 4);
            out[used + 4] = digits[byte >> 4];
            out[used + 5] = digits[byte & 15];
            used += 6;
        } else {
            out[used++] = (char)byte;
        }
    }
    out[used++] = '"';
    out[used] = 0;
    return used;
}

ss_status ss_rpc_status_append(const ss_verdict *verdict, ss_payload payload, ss_buffer *out) {
    char message[MESSAGE_BYTES];
    size_t length = clean_message(verdict->message, message);
    if (payload == SS_PAYLOAD_PROTOBUF) {
        uint8_t status[ANSWER_BYTES];
        return ss_buffer_append(out, status, write_rpc_status(verdict, message, length, status));
    }
    char quoted[6 * MESSAGE_BYTES + 3], delay[160] = "", text[sizeof quoted + sizeof delay + 64];
    write_json_string(message, length, quoted);
    if (verdict->has_retry_delay) {
        uint32_t seconds = verdict->retry_delay_ms / 1000, rest = verdict->retry_delay_ms % 1000;
        char fraction[8] = "";
        if (rest) {
            snprintf(fraction, sizeof fraction, ".%03u", rest);
        }
        snprintf(delay, sizeof delay,
                 ",\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"%u%ss\"}]",
                 seconds, fraction);
    }
    int size = snprintf(text, sizeof text, "{\"code\":%d,\"message\":%s%s}", (int)verdict->code, quoted, delay);
    return ss_buffer_append(out, (const uint8_t *)text, (size_t)size);
}

ss_status ss_export_response_append(const ss_verdict *verdict, ss_signal signal, ss_payload payload, ss_buffer *out) {
    static const char *const rejected[SS_N_SIGNALS] = {"rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"};
    bool is_partial = verdict->rejected_items || verdict->message[0];
    if (!is_partial) {
        static const char success[] = "{\"partialSuccess\":{}}";
        size_t length = payload == SS_PAYLOAD_JSON ? sizeof success - 1 : 0;
        return ss_buffer_append(out, (const uint8_t *)success, length);
    }
    char message[MESSAGE_BYTES];
    size_t length = clean_message(verdict->message, message);
    if (payload == SS_PAYLOAD_PROTOBUF) { /* {1 partial_success {1 rejected, 2 error_message}} */
        uint8_t partial[ANSWER_BYTES], response[ANSWER_BYTES];
        uint8_t *end = partial;
        if (verdict->rejected_items) {
            end = put_varint(end, 1, verdict->rejected_items);
        }
        if (length) {
            end = put_bytes(end, 2, message, length);
        }
        end = put_bytes(response, 1, partial, (size_t)(end - partial));
        return ss_buffer_append(out, response, (size_t)(end - response));
    }
    char quoted[6 * MESSAGE_BYTES + 3], text[sizeof quoted + 128];
    write_json_string(message, length, quoted);
    int size = snprintf(text, sizeof text, "{\"partialSuccess\":{\"%s\":\"%llu\",\"errorMessage\":%s}}",
                        rejected[signal], (unsigned long long)verdict->rejected_items, quoted);
    return ss_buffer_append(out, (const uint8_t *)text, (size_t)size);
}

int ss_http_status_of(ss_code code) {
    switch ((int)code) {
    case SS_CODE_OK: return 200;
    case SS_CODE_CANCELLED:
    case SS_CODE_DEADLINE_EXCEEDED:
    case 10: /* ABORTED */
    case 11: /* OUT_OF_RANGE */
    case SS_CODE_UNAVAILABLE:
    case 15: /* DATA_LOSS */ return 503;
    case SS_CODE_RESOURCE_EXHAUSTED: return 429;
    case SS_CODE_INVALID_ARGUMENT: return 400;
    case SS_CODE_UNAUTHENTICATED: return 401;
    case 7: /* PERMISSION_DENIED */ return 403;
    case SS_CODE_UNIMPLEMENTED: return 404;
    default: return 500;
    }
}
