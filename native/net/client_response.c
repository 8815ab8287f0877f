#include "net/client_response.h"

#include <string.h>

#include "core/arena.h"
#include "net/grpc.h"
#include "otlp_fields.h"

/* google.rpc has no place in the OTLP descriptors. Source: google/rpc/status.proto, error_details.proto,
 * google/protobuf/any.proto, duration.proto. */
enum {
    RPC_STATUS_CODE = 1,
    RPC_STATUS_MESSAGE = 2,
    RPC_STATUS_DETAILS = 3,
    ANY_TYPE_URL = 1,
    ANY_VALUE = 2,
    RETRY_INFO_RETRY_DELAY = 1,
    DURATION_SECONDS = 1,
    DURATION_NANOS = 2
};

/* The three responses and partial successes have one shape, so one reader serves all signals. */
_Static_assert((int)SS_EXPORT_TRACE_SERVICE_RESPONSE_PARTIAL_SUCCESS ==
                       (int)SS_EXPORT_METRICS_SERVICE_RESPONSE_PARTIAL_SUCCESS &&
                   (int)SS_EXPORT_TRACE_SERVICE_RESPONSE_PARTIAL_SUCCESS ==
                       (int)SS_EXPORT_LOGS_SERVICE_RESPONSE_PARTIAL_SUCCESS,
               "partial_success has one number");
_Static_assert((int)SS_EXPORT_TRACE_PARTIAL_SUCCESS_REJECTED_SPANS ==
                       (int)SS_EXPORT_METRICS_PARTIAL_SUCCESS_REJECTED_DATA_POINTS &&
                   (int)SS_EXPORT_TRACE_PARTIAL_SUCCESS_REJECTED_SPANS ==
                       (int)SS_EXPORT_LOGS_PARTIAL_SUCCESS_REJECTED_LOG_RECORDS,
               "the rejected count has one number");
_Static_assert((int)SS_EXPORT_TRACE_PARTIAL_SUCCESS_ERROR_MESSAGE ==
                       (int)SS_EXPORT_METRICS_PARTIAL_SUCCESS_ERROR_MESSAGE &&
                   (int)SS_EXPORT_TRACE_PARTIAL_SUCCESS_ERROR_MESSAGE ==
                       (int)SS_EXPORT_LOGS_PARTIAL_SUCCESS_ERROR_MESSAGE,
               "error_message has one number");

void ss_client_copy_text(char *out, size_t out_size, const uint8_t *text, size_t length) {
    if (length >= out_size) {
        length = out_size - 1;
        while (length && (text[length] & 0xc0) == 0x80) {
            length--; /* not in the middle of a UTF-8 character */
        }
    }
    if (length) {
        memcpy(out, text, length);
    }
    out[length] = '\0';
}

void ss_client_response_reset(ss_client_response *response) {
    ss_buffer details = response->details, body = response->body, inflated = response->inflated;
    details.length = 0;
    body.length = 0;
    *response = (ss_client_response){.details = details, .body = body, .inflated = inflated, .codec = response->codec};
}

void ss_client_response_free(ss_client_response *response) {
    ss_buffer_free(&response->details);
    ss_buffer_free(&response->body);
    ss_buffer_free(&response->inflated);
    ss_codec_free(response->codec);
}

static int hex_digit(uint8_t byte) {
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Source: gRPC over HTTP2, "Percent-Encoded"; a broken escape is kept as it is, as the specification asks. */
static void copy_percent_decoded(char *out, size_t out_size, const uint8_t *text, size_t length) {
    uint8_t decoded[512];
    size_t n = 0;
    for (size_t i = 0; i < length && n < sizeof decoded; i++) {
        int high = -1, low = -1;
        if (text[i] == '%' && length - i > 2) {
            high = hex_digit(text[i + 1]);
            low = hex_digit(text[i + 2]);
        }
        if (high >= 0 && low >= 0) {
            decoded[n++] = (uint8_t)(high << 4 | low);
            i += 2;
        } else {
            decoded[n++] = text[i];
        }
    }
    ss_client_copy_text(out, out_size, decoded, n);
}

/* A decimal grpc-status; what is none counts as UNKNOWN, as in grpc-go and grpc-java. */
static int32_t parse_grpc_status(const uint8_t *text, size_t length) {
    int32_t value = 0;
    if (length == 0 || length > 3) {
        return SS_CODE_UNKNOWN;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return SS_CODE_UNKNOWN;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

static bool is_named(const uint8_t *name, size_t length, const char *expected) {
    return length == strlen(expected) && memcmp(name, expected, length) == 0;
}

static bool is_grpc_content_type(const uint8_t *value, size_t length) {
    static const char type[] = "application/grpc";
    size_t n = sizeof type - 1;
    return length >= n && memcmp(value, type, n) == 0 &&
           (length == n || value[n] == '+' || value[n] == ';' || value[n] == ' ');
}

ss_status ss_client_response_header(ss_client_response *response, const uint8_t *name, size_t name_length,
                                    const uint8_t *value, size_t value_length) {
    response->header_bytes += name_length + value_length;
    if (response->header_bytes > SS_CLIENT_HEADER_BYTES_MAX) {
        return SS_ERR_LIMIT;
    }
    if (is_named(name, name_length, ":status")) {
        int status = 0;
        for (size_t i = 0; i < value_length && i < 3; i++) {
            status = status * 10 + (value[i] - '0'); /* three digits: nghttp2 has checked that */
        }
        response->http_status = status;
    } else if (is_named(name, name_length, "content-type")) {
        response->is_grpc = is_grpc_content_type(value, value_length);
    } else if (is_named(name, name_length, "grpc-encoding")) {
        response->has_unknown_encoding = !ss_grpc_find_encoding(value, value_length, &response->encoding);
    } else if (is_named(name, name_length, "grpc-status")) {
        response->has_grpc_status = true;
        response->grpc_status = parse_grpc_status(value, value_length);
    } else if (is_named(name, name_length, "grpc-message")) {
        copy_percent_decoded(response->message, sizeof response->message, value, value_length);
    } else if (is_named(name, name_length, "grpc-status-details-bin")) {
        response->details.length = 0;
        return ss_buffer_append(&response->details, value, value_length);
    }
    return SS_OK;
}

ss_status ss_client_response_data(ss_client_response *response, const uint8_t *bytes, size_t length) {
    if (length > SS_CLIENT_BODY_BYTES_MAX - response->body.length) {
        response->is_too_large = true;
        return SS_ERR_LIMIT;
    }
    return ss_buffer_append(&response->body, bytes, length);
}

static int base64_digit(uint8_t byte) {
    if (byte >= 'A' && byte <= 'Z') {
        return byte - 'A';
    }
    if (byte >= 'a' && byte <= 'z') {
        return byte - 'a' + 26;
    }
    if (byte >= '0' && byte <= '9') {
        return byte - '0' + 52;
    }
    return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

/* Decode in place up to padding, a comma (a second value) or the end. False: not base64. */
static bool decode_base64(ss_buffer *buffer) {
    uint32_t bits = 0;
    unsigned n_bits = 0;
    size_t n = 0;
    for (size_t i = 0; i < buffer->length; i++) {
        if (buffer->data[i] == '=' || buffer->data[i] == ',') {
            break;
        }
        int digit = base64_digit(buffer->data[i]);
        if (digit < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)digit;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            buffer->data[n++] = (uint8_t)(bits >> n_bits);
        }
    }
    buffer->length = n;
    return true;
}

/* Read the tag of the next field. False at the end, and, with *is_broken set, on a malformed one. */
static bool next_field(ss_reader *reader, uint32_t *tag, bool *is_broken) {
    uint64_t value;
    if (reader->pos == reader->end) {
        return false;
    }
    if (!ss_read_varint(reader, &value) || value > UINT32_MAX || value >> 3 == 0) {
        *is_broken = true;
        return false;
    }
    *tag = (uint32_t)value;
    return true;
}

static inline uint32_t tag_of(uint32_t field, uint32_t wire) {
    return field << 3 | wire;
}

static bool read_duration(ss_reader reader, uint64_t *delay_ns) {
    bool is_broken = false;
    uint64_t seconds = 0, nanos = 0;
    for (uint32_t tag; next_field(&reader, &tag, &is_broken);) {
        bool is_read = tag == tag_of(DURATION_SECONDS, SS_WIRE_VARINT) ? ss_read_varint(&reader, &seconds)
                       : tag == tag_of(DURATION_NANOS, SS_WIRE_VARINT) ? ss_read_varint(&reader, &nanos)
                                                                       : ss_skip_field(&reader, tag, 0);
        if (!is_read) {
            return false;
        }
    }
    /* A negative or absurd delay is no delay: int64 and int32 arrive sign-extended. */
    bool is_sane = seconds <= INT32_MAX && nanos < 1000000000;
    *delay_ns = is_sane ? seconds * 1000000000 + nanos : 0;
    return !is_broken;
}

static bool read_retry_info(ss_reader reader, ss_client_result *result) {
    bool is_broken = false;
    for (uint32_t tag; next_field(&reader, &tag, &is_broken);) {
        ss_reader body;
        if (tag == tag_of(RETRY_INFO_RETRY_DELAY, SS_WIRE_BYTES)) {
            if (!ss_read_bytes(&reader, &body) || !read_duration(body, &result->retry_delay_ns)) {
                return false;
            }
        } else if (!ss_skip_field(&reader, tag, 0)) {
            return false;
        }
    }
    result->has_retry_delay = !is_broken; /* present without a delay counts, as in the Collector */
    return !is_broken;
}

static bool read_detail(ss_reader reader, ss_client_result *result) {
    static const char type[] = "google.rpc.RetryInfo"; /* the URL's host is free */
    bool is_broken = false, is_retry_info = false;
    ss_reader value = {0};
    for (uint32_t tag; next_field(&reader, &tag, &is_broken);) {
        ss_reader body;
        if (tag == tag_of(ANY_TYPE_URL, SS_WIRE_BYTES)) {
            if (!ss_read_bytes(&reader, &body)) {
                return false;
            }
            size_t length = (size_t)(body.end - body.pos), n = sizeof type - 1;
            is_retry_info = length > n && body.end[-(ptrdiff_t)n - 1] == '/' && memcmp(body.end - n, type, n) == 0;
        } else if (tag == tag_of(ANY_VALUE, SS_WIRE_BYTES)) {
            if (!ss_read_bytes(&reader, &value)) {
                return false;
            }
        } else if (!ss_skip_field(&reader, tag, 0)) {
            return false;
        }
    }
    return !is_broken && (!is_retry_info || read_retry_info(value, result));
}

ss_status ss_rpc_status_read(const uint8_t *bytes, size_t length, ss_client_result *result) {
    ss_reader reader = ss_reader_of((ss_bytes){bytes, length});
    bool is_broken = false;
    for (uint32_t tag; next_field(&reader, &tag, &is_broken);) {
        ss_reader body;
        uint64_t code;
        bool is_read;
        if (tag == tag_of(RPC_STATUS_CODE, SS_WIRE_VARINT)) {
            is_read = ss_read_varint(&reader, &code);
            result->grpc_status = is_read ? (int32_t)code : result->grpc_status;
        } else if (tag == tag_of(RPC_STATUS_MESSAGE, SS_WIRE_BYTES)) {
            is_read = ss_read_bytes(&reader, &body);
            if (is_read) {
                ss_client_copy_text(result->message, sizeof result->message, body.pos, (size_t)(body.end - body.pos));
            }
        } else if (tag == tag_of(RPC_STATUS_DETAILS, SS_WIRE_BYTES)) {
            is_read = ss_read_bytes(&reader, &body) && read_detail(body, result);
        } else {
            is_read = ss_skip_field(&reader, tag, 0);
        }
        if (!is_read) {
            return SS_ERR_MALFORMED;
        }
    }
    return is_broken ? SS_ERR_MALFORMED : SS_OK;
}

static bool read_partial_success(ss_reader reader, ss_client_result *result) {
    bool is_broken = false;
    for (uint32_t tag; next_field(&reader, &tag, &is_broken);) {
        ss_reader text;
        uint64_t rejected;
        if (tag == tag_of(SS_EXPORT_TRACE_PARTIAL_SUCCESS_REJECTED_SPANS, SS_WIRE_VARINT)) {
            if (!ss_read_varint(&reader, &rejected)) {
                return false;
            }
            result->rejected_items = rejected <= INT64_MAX ? rejected : 0;
        } else if (tag == tag_of(SS_EXPORT_TRACE_PARTIAL_SUCCESS_ERROR_MESSAGE, SS_WIRE_BYTES)) {
            if (!ss_read_bytes(&reader, &text)) {
                return false;
            }
            ss_client_copy_text(result->partial_message, sizeof result->partial_message, text.pos,
                                (size_t)(text.end - text.pos));
        } else if (!ss_skip_field(&reader, tag, 0)) {
            return false;
        }
    }
    return !is_broken;
}

ss_status ss_export_response_read(const uint8_t *bytes, size_t length, ss_client_result *result) {
    ss_reader reader = ss_reader_of((ss_bytes){bytes, length});
    bool is_broken = false;
    for (uint32_t tag; next_field(&reader, &tag, &is_broken);) {
        ss_reader body;
        bool is_read = tag == tag_of(SS_EXPORT_TRACE_SERVICE_RESPONSE_PARTIAL_SUCCESS, SS_WIRE_BYTES)
                           ? ss_read_bytes(&reader, &body) && read_partial_success(body, result)
                           : ss_skip_field(&reader, tag, 0);
        if (!is_read) {
            return SS_ERR_MALFORMED;
        }
    }
    return is_broken ? SS_ERR_MALFORMED : SS_OK;
}

/* Codes for answers without a grpc-status: what stands between us and the server speaks plain HTTP. 429 is UNAVAILABLE
 * as in gRPC's own mapping, since RESOURCE_EXHAUSTED without RetryInfo would drop the data. */
static int32_t code_for_http(int http_status) {
    switch (http_status) {
    case 400: return SS_CODE_INVALID_ARGUMENT;
    case 401: return SS_CODE_UNAUTHENTICATED;
    case 403: return SS_CLIENT_CODE_PERMISSION_DENIED;
    case 404: return SS_CODE_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504: return SS_CODE_UNAVAILABLE;
    default: return SS_CODE_UNKNOWN;
    }
}

static void fail_result(ss_client_result *result, int32_t code, const char *text) {
    result->grpc_status = code;
    ss_client_copy_text(result->message, sizeof result->message, (const uint8_t *)text, strlen(text));
}

/* "HTTP status NNN": a number without printf, which knows locales. */
static void fail_with_http_status(ss_client_result *result, int http_status) {
    char text[] = "the server answered HTTP status 000 without a grpc-status";
    char *digits = strstr(text, "000");
    digits[0] = (char)('0' + http_status / 100 % 10);
    digits[1] = (char)('0' + http_status / 10 % 10);
    digits[2] = (char)('0' + http_status % 10);
    fail_result(result, code_for_http(http_status), text);
}

/* Sending the request once more would double it: this is no failure to try again after. */
static void fail_answer(ss_client_result *result, int32_t code, const char *why) {
    fail_result(result, code, "the server has taken the request, but its answer cannot be read: ");
    size_t n = strlen(result->message);
    ss_client_copy_text(result->message + n, sizeof result->message - n, (const uint8_t *)why, strlen(why));
    result->is_answer_unreadable = true;
}

/* Decompress a message into the response's own buffer, and show it there. */
static bool inflate(ss_client_response *response, const uint8_t **message, size_t *length, ss_verdict *verdict) {
    ss_error error;
    response->inflated.length = 0;
    ss_status status = ss_decompress(response->codec, response->encoding, *message, *length, SS_CLIENT_BODY_BYTES_MAX,
                                     &response->inflated, &error);
    if (status != SS_OK) {
        ss_grpc_fail_inflation(status, &error, SS_CLIENT_BODY_BYTES_MAX, verdict);
        return false;
    }
    *message = response->inflated.data;
    *length = response->inflated.length;
    return true;
}

/* Servers choose the encoding of their message, whatever grpc-accept-encoding says: grpc-go takes the request's. No
 * message at all says what an empty one says. */
static void read_message(ss_client_response *response, ss_client_result *result) {
    const ss_buffer *body = &response->body;
    const uint8_t *message;
    size_t length;
    ss_verdict verdict = {0};
    ss_client_result partial = {0};
    if (body->length == 0) {
        return;
    }
    if (body->data[0] && response->has_unknown_encoding) {
        fail_answer(result, SS_CODE_INTERNAL, "it is compressed in a way that is not known here");
        return;
    }
    if (body->data[0] && !response->codec && !(response->codec = ss_codec_new())) {
        fail_answer(result, SS_CODE_INTERNAL, "no memory to decompress it");
        return;
    }
    if (!ss_grpc_unpack(response->encoding, body->data, body->length, SS_CLIENT_BODY_BYTES_MAX, &message, &length,
                        &verdict) ||
        (body->data[0] && !inflate(response, &message, &length, &verdict))) {
        fail_answer(result, (int32_t)verdict.code, verdict.message);
    } else if (ss_export_response_read(message, length, &partial) != SS_OK) {
        fail_answer(result, SS_CODE_INTERNAL, "it is no Export*ServiceResponse");
    } else {
        result->rejected_items = partial.rejected_items;
        memcpy(result->partial_message, partial.partial_message, sizeof partial.partial_message);
    }
}

void ss_client_response_result(ss_client_response *response, ss_client_result *result) {
    /* Of what a proxy answers in HTTP, however long its page is, the status counts. */
    const bool is_message = response->http_status == 200 && response->is_grpc && !response->has_grpc_status;
    if (response->is_too_large && is_message) {
        fail_answer(result, SS_CODE_RESOURCE_EXHAUSTED, "it is larger than 64 KiB");
        return;
    }
    if (!response->has_grpc_status) {
        if (response->http_status != 200) {
            fail_with_http_status(result, response->http_status);
        } else if (!response->is_grpc) {
            fail_result(result, SS_CODE_UNKNOWN,
                        "the server does not speak gRPC: the content-type is not application/grpc");
        } else {
            fail_result(result, SS_CODE_UNKNOWN, "the server ended the stream without a grpc-status");
        }
        return;
    }
    /* Details that cannot be read are no reason to distrust the status that came with them. */
    if (response->details.length && decode_base64(&response->details)) {
        ss_client_result details = {0};
        if (ss_rpc_status_read(response->details.data, response->details.length, &details) == SS_OK) {
            result->has_retry_delay = details.has_retry_delay;
            result->retry_delay_ns = details.retry_delay_ns;
        }
    }
    result->grpc_status = response->grpc_status;
    memcpy(result->message, response->message, sizeof result->message);
    if (response->grpc_status == SS_CODE_OK) {
        read_message(response, result);
    }
}
