/* The gRPC client: what it reads out of responses, its HTTP/2 without a socket, its pool over real sockets. */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "made_request.h"
#include "net/client_response.h"
#include "net/client_session.h"
#include "spansieve.h"

enum { SECOND = 1000000000 };

/* ------------------------------------------------------------------ bytes of a server, written by hand */

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, GOAWAY = 7, WINDOW_UPDATE = 8 };
enum { END_STREAM = 1, END_HEADERS = 4 };

static void put(ss_buffer *out, const void *bytes, size_t length) {
    CHECK_EQUAL(SS_OK, ss_buffer_append(out, bytes, length));
}

static void put_frame(ss_buffer *out, uint8_t type, uint8_t flags, uint32_t stream, const void *body, size_t length) {
    const uint8_t head[9] = {
        (uint8_t)(length >> 16), (uint8_t)(length >> 8),  (uint8_t)length,        type,           flags,
        (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    put(out, head, sizeof head);
    put(out, body, length);
}

/* A literal field that stays out of the dynamic table; values under 127 bytes. */
static void put_field(ss_buffer *out, const char *name, const char *value) {
    uint8_t n = (uint8_t)strlen(name), v = (uint8_t)strlen(value);
    put(out, "\0", 1);
    put(out, &n, 1);
    put(out, name, n);
    put(out, &v, 1);
    put(out, value, v);
}

static void put_response_head(ss_buffer *out, uint32_t stream) {
    ss_buffer fields = {0};
    put(&fields, "\x88", 1); /* :status 200 */
    put_field(&fields, "content-type", "application/grpc");
    put_frame(out, HEADERS, END_HEADERS, stream, fields.data, fields.length);
    ss_buffer_free(&fields);
}

static void put_trailers(ss_buffer *out, uint32_t stream, const char *status, const char *message) {
    ss_buffer fields = {0};
    put_field(&fields, "grpc-status", status);
    put_field(&fields, "grpc-message", message);
    put_frame(out, HEADERS, END_HEADERS | END_STREAM, stream, fields.data, fields.length);
    ss_buffer_free(&fields);
}

static void put_u32_frame(ss_buffer *out, uint8_t type, uint32_t stream, uint32_t value) {
    const uint8_t body[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    put_frame(out, type, 0, stream, body, sizeof body);
}

static void put_goaway(ss_buffer *out, uint32_t last_stream) {
    const uint8_t body[8] = {0, 0, 0, (uint8_t)last_stream, 0, 0, 0, 0};
    put_frame(out, GOAWAY, 0, 0, body, sizeof body);
}

/* Reads a client's frames. */
typedef struct peer {
    ss_buffer in;
    size_t read;
    bool has_preface;
    uint32_t stream;     /* of the last HEADERS */
    bool is_complete;    /* END_STREAM came on it */
    uint32_t reset_code; /* of a RST_STREAM */
    bool is_reset;
    ss_buffer body;
} peer;

static void peer_free(peer *self) {
    ss_buffer_free(&self->in);
    ss_buffer_free(&self->body);
}

/* Take bytes; open both windows again for whatever DATA came, as replies in out. */
static void peer_take(peer *self, const uint8_t *bytes, size_t length, ss_buffer *out) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    put(&self->in, bytes, length);
    if (!self->has_preface) {
        if (self->in.length < sizeof preface - 1) {
            return;
        }
        CHECK(memcmp(self->in.data, preface, sizeof preface - 1) == 0);
        self->read = sizeof preface - 1;
        self->has_preface = true;
    }
    while (self->in.length - self->read >= 9) {
        const uint8_t *head = self->in.data + self->read;
        uint32_t size = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
        uint32_t stream = (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
        const uint8_t *body = head + 9;
        if (self->in.length - self->read - 9 < size) {
            break;
        }
        if (head[3] == HEADERS) {
            self->stream = stream;
            self->is_complete = false;
            self->body.length = 0;
        } else if (head[3] == DATA) {
            put(&self->body, body, size);
            if (size) {
                put_u32_frame(out, WINDOW_UPDATE, 0, size);
                put_u32_frame(out, WINDOW_UPDATE, stream, size);
            }
            self->is_complete = head[4] & END_STREAM;
        } else if (head[3] == RST_STREAM) {
            self->is_reset = true;
            self->reset_code = (uint32_t)body[0] << 24 | (uint32_t)body[1] << 16 | (uint32_t)body[2] << 8 | body[3];
        }
        self->read += 9 + size;
    }
}

/* ------------------------------------------------------------------ responses */

static void header(ss_client_response *response, const char *name, const char *value) {
    CHECK_EQUAL(SS_OK, ss_client_response_header(response, (const uint8_t *)name, strlen(name), (const uint8_t *)value,
                                                 strlen(value)));
}

static ss_client_result result_of(const char *status, const char *type, const char *grpc_status, const char *message,
                                  const char *details) {
    ss_client_response response = {0};
    ss_client_result result = {0};
    header(&response, ":status", status);
    header(&response, "content-type", type);
    if (grpc_status) {
        header(&response, "grpc-status", grpc_status);
    }
    if (message) {
        header(&response, "grpc-message", message);
    }
    if (details) {
        header(&response, "grpc-status-details-bin", details);
    }
    ss_client_response_result(&response, &result);
    ss_client_response_free(&response);
    return result;
}

static void test_status_comes_from_grpc_status_else_from_http(void) {
    static const struct {
        const char *http, *type, *grpc;
        int code;
    } cases[] = {
        {"200", "application/grpc", "0", 0},
        {"200", "application/grpc+proto", "14", 14},
        {"200", "application/grpc;x=y", "16", 16},
        {"200", "application/grpc", NULL, 2},
        {"200", "application/grpcfoo", NULL, 2},
        {"200", "text/html", NULL, 2},
        {"200", "application/grpc", "fourteen", 2},
        {"200", "application/grpc", "", 2},
        {"200", "application/grpc", "99999999999", 2},
        {"503", "text/plain", "8", 8},
        {"400", "text/plain", NULL, 3},
        {"401", "text/plain", NULL, 16},
        {"403", "text/plain", NULL, 7},
        {"404", "text/plain", NULL, 12},
        {"429", "text/plain", NULL, 14},
        {"502", "text/plain", NULL, 14},
        {"503", "text/plain", NULL, 14},
        {"504", "text/plain", NULL, 14},
        {"500", "text/plain", NULL, 2},
        {"302", "text/plain", NULL, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_client_result result = result_of(cases[i].http, cases[i].type, cases[i].grpc, NULL, NULL);
        CHECK_EQUAL(cases[i].code, result.grpc_status);
        CHECK(cases[i].grpc || result.message[0]);
    }
    ss_client_result result = result_of("502", "text/html", NULL, NULL, NULL);
    CHECK(strstr(result.message, "HTTP status 502") != NULL);
}

static void test_message_is_percent_decoded(void) {
    static const struct {
        const char *raw, *expected;
    } cases[] = {
        {"plain", "plain"}, {"a%20b", "a b"}, {"%e2%82%AC", "\xe2\x82\xac"}, {"50%", "50%"}, {"%zz%2", "%zz%2"},
        {"%%41", "%A"},     {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_client_result result = result_of("200", "application/grpc", "3", cases[i].raw, NULL);
        CHECK(strcmp(cases[i].expected, result.message) == 0);
    }
}

static void test_long_text_is_cut_between_characters(void) {
    char out[4];
    ss_client_copy_text(out, sizeof out, (const uint8_t *)"ab\xe2\x82\xac", 5);
    CHECK(strcmp("ab", out) == 0);
    ss_client_copy_text(out, sizeof out, (const uint8_t *)"\xe2\x82\xac!", 4);
    CHECK(strcmp("\xe2\x82\xac", out) == 0);
    ss_client_copy_text(out, sizeof out, (const uint8_t *)"\x80\x80\x80\x80\x80", 5);
    CHECK(strcmp("", out) == 0);
}

/* Status{code 8, message "slow", details Any{type.googleapis.com/google.rpc.RetryInfo, RetryInfo{Duration{3, 500 ms}}}}
 */
static const uint8_t throttle[] = "\x08\x08\x12\x04slow\x1a\x36\x0a\x28type.googleapis.com/google.rpc.RetryInfo"
                                  "\x12\x0a\x0a\x08\x08\x03\x10\x80\xca\xb5\xee\x01";

static void test_retry_info_is_found(void) {
    static const char padded[] =
        "CAgSBHNsb3caNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIAxCAyrXuAQ==";
    ss_client_result result = result_of("200", "application/grpc", "8", "slow", padded);
    CHECK(result.has_retry_delay);
    CHECK_EQUAL(3500000000, result.retry_delay_ns);
    char bare[sizeof padded];
    memcpy(bare, padded, sizeof padded);
    *strchr(bare, '=') = '\0';
    result = result_of("200", "application/grpc", "8", "slow", bare);
    CHECK(result.has_retry_delay);
    CHECK_EQUAL(3500000000, result.retry_delay_ns);

    result = (ss_client_result){0};
    CHECK_EQUAL(SS_OK, ss_rpc_status_read(throttle, sizeof throttle - 1, &result));
    CHECK_EQUAL(8, result.grpc_status);
    CHECK(strcmp("slow", result.message) == 0);
    CHECK_EQUAL(3500000000, result.retry_delay_ns);
}

static void test_useless_details_leave_the_status_alone(void) {
    static const char *const details[] = {"!!!", "AA==", "CAgSBHNsb3cadwo", "", "=", "A"};
    for (size_t i = 0; i < sizeof details / sizeof details[0]; i++) {
        ss_client_result result = result_of("200", "application/grpc", "8", "slow", details[i]);
        CHECK_EQUAL(8, result.grpc_status);
        CHECK(!result.has_retry_delay);
    }
}

static void test_odd_retry_delays(void) {
    /* RetryInfo without a delay counts as one of zero; a negative one too. */
    static const uint8_t empty[] = "\x1a\x18\x0a\x16x/google.rpc.RetryInfo";
    static const uint8_t negative[] = "\x1a\x27\x0a\x16x/google.rpc.RetryInfo\x12\x0d\x0a\x0b\x08"
                                      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    static const uint8_t other[] = "\x1a\x18\x0a\x16x/google.rpc.ErrorInfo";
    ss_client_result result = {0};
    CHECK_EQUAL(SS_OK, ss_rpc_status_read(empty, sizeof empty - 1, &result));
    CHECK(result.has_retry_delay && result.retry_delay_ns == 0);
    result = (ss_client_result){0};
    CHECK_EQUAL(SS_OK, ss_rpc_status_read(negative, sizeof negative - 1, &result));
    CHECK(result.has_retry_delay && result.retry_delay_ns == 0);
    result = (ss_client_result){0};
    CHECK_EQUAL(SS_OK, ss_rpc_status_read(other, sizeof other - 1, &result));
    CHECK(!result.has_retry_delay);
}

static void test_partial_success_is_read(void) {
    static const uint8_t response[] = "\x0a\x0b\x08\x03\x12\x07no room";
    ss_client_result result = {0};
    CHECK_EQUAL(SS_OK, ss_export_response_read(response, sizeof response - 1, &result));
    CHECK_EQUAL(3, result.rejected_items);
    CHECK(strcmp("no room", result.partial_message) == 0);
    CHECK_EQUAL(SS_OK, ss_export_response_read(NULL, 0, &result));
    for (size_t n = 1; n < sizeof response - 1; n++) {
        /* A heap copy of the exact size, so that a read past it is seen. */
        uint8_t *copy = malloc(n);
        memcpy(copy, response, n);
        CHECK_EQUAL(SS_ERR_MALFORMED, ss_export_response_read(copy, n, &result));
        free(copy);
    }
}

static void test_every_truncation_of_a_status_is_safe(void) {
    for (size_t n = 0; n < sizeof throttle - 1; n++) {
        uint8_t *copy = malloc(n + 1);
        memcpy(copy, throttle, n);
        ss_client_result result = {0};
        ss_status status = ss_rpc_status_read(copy, n, &result);
        CHECK(status == SS_ERR_MALFORMED || n == 0 || n == 2 || n == 8); /* between fields it is a shorter status */
        free(copy);
    }
}

/* What a server that answers OK has said, with a message in encoding under this name; NULL: no grpc-encoding. */
static ss_client_result answer_of(ss_encoding encoding, const char *name, const uint8_t *message, size_t length) {
    ss_codec *codec = ss_codec_new();
    ss_buffer body = {0};
    ss_client_response response = {0};
    ss_client_result result = {0};
    const uint8_t placeholder[5] = {encoding != SS_ENCODING_IDENTITY};
    put(&body, placeholder, sizeof placeholder);
    if (encoding == SS_ENCODING_IDENTITY) {
        put(&body, message, length);
    } else {
        CHECK_EQUAL(SS_OK, ss_compress(codec, encoding, 0, message, length, &body));
    }
    for (int i = 0; i < 4; i++) {
        body.data[1 + i] = (uint8_t)((body.length - 5) >> (24 - 8 * i));
    }
    header(&response, ":status", "200");
    header(&response, "content-type", "application/grpc");
    if (name) {
        header(&response, "grpc-encoding", name);
    }
    header(&response, "grpc-status", "0");
    CHECK_EQUAL(SS_OK, ss_client_response_data(&response, body.data, body.length));
    ss_client_response_result(&response, &result);
    ss_client_response_free(&response);
    ss_buffer_free(&body);
    ss_codec_free(codec);
    return result;
}

/* A page of any length has the code of its HTTP status, and only what is gRPC's says that the request was taken. */
static void test_what_is_too_large(void) {
    static const struct {
        const char *http, *type;
        int code;
        bool is_taken;
    } cases[] = {
        {"200", "application/grpc", 8, true},
        {"200", "text/html", 2, false},
        {"503", "text/html", 14, false},
        {"429", "application/grpc", 14, false},
    };
    static const uint8_t page[SS_CLIENT_BODY_BYTES_MAX + 1];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_client_response response = {0};
        ss_client_result result = {0};
        header(&response, ":status", cases[i].http);
        header(&response, "content-type", cases[i].type);
        CHECK_EQUAL(SS_ERR_LIMIT, ss_client_response_data(&response, page, sizeof page));
        ss_client_response_result(&response, &result);
        CHECK_EQUAL(cases[i].code, result.grpc_status);
        CHECK_EQUAL(cases[i].is_taken, result.is_answer_unreadable);
        ss_client_response_free(&response);
    }
}

static const uint8_t partial_success[] = "\x0a\x0b\x08\x03\x12\x07no room";

static void test_compressed_answers_are_read(void) {
    static const struct {
        ss_encoding encoding;
        const char *name;
    } cases[] = {{SS_ENCODING_IDENTITY, NULL},   {SS_ENCODING_IDENTITY, "identity"},
                 {SS_ENCODING_IDENTITY, "gzip"}, /* named, but not used for this message */
                 {SS_ENCODING_IDENTITY, "br"},   {SS_ENCODING_GZIP, "gzip"},
                 {SS_ENCODING_ZSTD, "zstd"},     {SS_ENCODING_SNAPPY_FRAMED, "snappy"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!ss_encoding_is_available(cases[i].encoding)) {
            continue;
        }
        ss_client_result result =
            answer_of(cases[i].encoding, cases[i].name, partial_success, sizeof partial_success - 1);
        CHECK_EQUAL(0, result.grpc_status);
        CHECK(!result.is_answer_unreadable);
        CHECK_EQUAL(3, result.rejected_items);
        CHECK(strcmp("no room", result.partial_message) == 0);
        result = answer_of(cases[i].encoding, cases[i].name, NULL, 0);
        CHECK_EQUAL(0, result.grpc_status + (int)result.rejected_items);
    }
}

static void test_unreadable_answers_are_no_success(void) {
    static const uint8_t zeros[1 << 20]; /* a thousandth of it in gzip */
    const struct {
        ss_encoding encoding;
        const char *name;
        const uint8_t *message;
        size_t length;
        int code;
        const char *text;
    } cases[] = {
        {SS_ENCODING_GZIP, "br", partial_success, sizeof partial_success - 1, 13, "not known here"},
        {SS_ENCODING_GZIP, NULL, partial_success, sizeof partial_success - 1, 13, "compressed flag"},
        {SS_ENCODING_GZIP, "zstd", partial_success, sizeof partial_success - 1, 13, "decompress"},
        {SS_ENCODING_GZIP, "gzip", zeros, sizeof zeros, 8, "after decompression"},
        {SS_ENCODING_GZIP, "gzip", (const uint8_t *)"<html>", 6, 13, "no Export"},
        {SS_ENCODING_IDENTITY, NULL, (const uint8_t *)"<html>", 6, 13, "no Export"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_client_result result = answer_of(cases[i].encoding, cases[i].name, cases[i].message, cases[i].length);
        CHECK(result.is_answer_unreadable);
        CHECK_EQUAL(cases[i].code, result.grpc_status);
        CHECK(strstr(result.message, "taken the request") != NULL);
        CHECK(strstr(result.message, cases[i].text) != NULL);
        CHECK(!result.has_retry_delay && !result.rejected_items);
    }
}

/* ------------------------------------------------------------------ the session, without a socket */

static const ss_client_head head = {.authority = "localhost:4317", .user_agent = "test"};

/* Move what the session wants to send to the peer, and the peer's window updates back, until both are quiet. */
static void pump(ss_client_session *session, peer *server) {
    for (;;) {
        const uint8_t *bytes;
        size_t length;
        ss_buffer replies = {0};
        CHECK_EQUAL(SS_OK, ss_client_session_pending(session, &bytes, &length));
        if (!length) {
            return;
        }
        peer_take(server, bytes, length, &replies);
        ss_client_session_sent(session, length);
        CHECK_EQUAL(SS_OK, ss_client_session_receive(session, replies.data, replies.length));
        ss_buffer_free(&replies);
    }
}

static ss_status feed(ss_client_session *session, ss_buffer *bytes, size_t step) {
    ss_status status = SS_OK;
    for (size_t at = 0; at < bytes->length && status == SS_OK; at += step) {
        size_t n = bytes->length - at < step ? bytes->length - at : step;
        status = ss_client_session_receive(session, bytes->data + at, n);
    }
    bytes->length = 0;
    return status;
}

static void test_large_message_flows_through_small_windows(void) {
    size_t length = 1 << 20;
    uint8_t *message = malloc(length);
    for (size_t i = 0; i < length; i++) {
        message[i] = (uint8_t)(i * 7 + i / 251);
    }
    ss_client_session *session = ss_client_session_new(&head);
    peer server = {0};
    ss_buffer bytes = {0};
    put_frame(&bytes, SETTINGS, 0, 0, NULL, 0);
    CHECK_EQUAL(SS_OK, feed(session, &bytes, 1));
    for (uint32_t round = 0; round < 3; round++) {
        ss_client_call call = {SS_SIGNAL_TRACES, round ? SS_ENCODING_ZSTD : SS_ENCODING_IDENTITY, message, length,
                               SECOND};
        CHECK_EQUAL(SS_OK, ss_client_session_begin(session, &call));
        pump(session, &server);
        CHECK(server.is_complete);
        CHECK_EQUAL(1 + 2 * round, server.stream);
        CHECK_EQUAL(length + 5, server.body.length);
        CHECK_EQUAL(round != 0, server.body.data[0]);
        CHECK(memcmp(server.body.data + 1, "\0\x10\0\0", 4) == 0);
        CHECK(memcmp(server.body.data + 5, message, length) == 0);
        CHECK(!ss_client_session_is_done(session));
        CHECK(ss_client_session_is_unprocessed(session));

        put_response_head(&bytes, server.stream);
        put_frame(&bytes, DATA, 0, server.stream, "\0\0\0\0\x0d\x0a\x0b\x08\x03\x12\x07no room", 18);
        put_trailers(&bytes, server.stream, "0", "");
        CHECK_EQUAL(SS_OK, feed(session, &bytes, 1 + round * 8));
        CHECK(ss_client_session_is_done(session));
        ss_client_result result = {.transport_status = SS_ERR_IO};
        ss_client_session_finish(session, &result);
        CHECK_EQUAL(SS_OK, result.transport_status);
        CHECK_EQUAL(0, result.grpc_status);
        CHECK_EQUAL(3, result.rejected_items);
        CHECK(ss_client_session_is_usable(session));
    }
    ss_client_session_free(session);
    peer_free(&server);
    ss_buffer_free(&bytes);
    free(message);
}

/* A session whose call has sent what fits into the first window. */
static ss_client_session *begun(peer *server, const ss_client_call *call) {
    ss_client_session *session = ss_client_session_new(&head);
    ss_buffer bytes = {0}, ignored = {0};
    put_frame(&bytes, SETTINGS, 0, 0, NULL, 0);
    CHECK_EQUAL(SS_OK, feed(session, &bytes, 64));
    CHECK_EQUAL(SS_OK, ss_client_session_begin(session, call));
    for (;;) { /* window updates are not passed back */
        const uint8_t *out;
        size_t length;
        CHECK_EQUAL(SS_OK, ss_client_session_pending(session, &out, &length));
        if (!length) {
            break;
        }
        peer_take(server, out, length, &ignored);
        ss_client_session_sent(session, length);
    }
    ss_buffer_free(&bytes);
    ss_buffer_free(&ignored);
    return session;
}

static void test_early_answer_cancels_the_rest_of_the_message(void) {
    size_t length = 1 << 20;
    uint8_t *message = calloc(1, length);
    ss_client_call call = {SS_SIGNAL_LOGS, SS_ENCODING_IDENTITY, message, length, UINT64_MAX};
    peer server = {0};
    ss_client_session *session = begun(&server, &call);
    CHECK_EQUAL(65535, server.body.length);
    ss_buffer bytes = {0};
    put_response_head(&bytes, 1);
    put_trailers(&bytes, 1, "8", "too large");
    CHECK_EQUAL(SS_OK, feed(session, &bytes, 64));
    CHECK(ss_client_session_is_done(session));
    ss_client_result result = {0};
    ss_client_session_finish(session, &result);
    free(message); /* whatever is still sent must not read it */
    CHECK_EQUAL(8, result.grpc_status);
    CHECK(strcmp("too large", result.message) == 0);
    put_u32_frame(&bytes, WINDOW_UPDATE, 0, 1 << 20);
    put_u32_frame(&bytes, WINDOW_UPDATE, 1, 1 << 20);
    CHECK_EQUAL(SS_OK, feed(session, &bytes, 64));
    pump(session, &server);
    CHECK(server.is_reset);
    CHECK_EQUAL(8, server.reset_code); /* CANCEL */
    CHECK_EQUAL(65535, server.body.length);
    CHECK(ss_client_session_is_usable(session));
    ss_client_session_free(session);
    peer_free(&server);
    ss_buffer_free(&bytes);
}

static void test_resets_and_goaway_have_their_codes(void) {
    static const struct {
        uint32_t code;
        int grpc;
        bool is_unprocessed;
    } resets[] = {{7, 14, true},  {8, 1, false},  {2, 13, false}, {11, 8, false},
                  {12, 7, false}, {13, 2, false}, {0, 13, false}};
    ss_client_call call = {SS_SIGNAL_METRICS, SS_ENCODING_IDENTITY, (const uint8_t *)"x", 1, SECOND};
    for (size_t i = 0; i < sizeof resets / sizeof resets[0]; i++) {
        peer server = {0};
        ss_client_session *session = begun(&server, &call);
        ss_buffer bytes = {0};
        put_u32_frame(&bytes, RST_STREAM, 1, resets[i].code);
        CHECK_EQUAL(SS_OK, feed(session, &bytes, 3));
        CHECK(ss_client_session_is_done(session));
        CHECK_EQUAL(resets[i].is_unprocessed, ss_client_session_is_unprocessed(session));
        ss_client_result result = {0};
        ss_client_session_finish(session, &result);
        CHECK_EQUAL(resets[i].grpc, result.grpc_status);
        CHECK(ss_client_session_is_usable(session));
        ss_client_session_free(session);
        peer_free(&server);
        ss_buffer_free(&bytes);
    }
    for (uint32_t last_stream = 0; last_stream < 2; last_stream++) {
        peer server = {0};
        ss_client_session *session = begun(&server, &call);
        ss_buffer bytes = {0};
        put_goaway(&bytes, last_stream);
        CHECK_EQUAL(SS_OK, feed(session, &bytes, 64));
        CHECK_EQUAL(last_stream == 0, ss_client_session_is_done(session)); /* stream 1 may still be answered */
        CHECK(!ss_client_session_is_usable(session));
        ss_client_session_free(session);
        peer_free(&server);
        ss_buffer_free(&bytes);
    }
}

static void test_oversized_responses_are_cut_off(void) {
    static const uint8_t block[16384];
    ss_client_call call = {SS_SIGNAL_TRACES, SS_ENCODING_IDENTITY, (const uint8_t *)"x", 1, SECOND};
    peer server = {0};
    ss_client_session *session = begun(&server, &call);
    ss_buffer bytes = {0};
    put_response_head(&bytes, 1);
    for (int i = 0; i < 3; i++) {
        put_frame(&bytes, DATA, 0, 1, block, sizeof block);
    }
    CHECK_EQUAL(SS_OK, feed(session, &bytes, 4096));
    CHECK(!ss_client_session_is_done(session));
    pump(session, &server); /* our window updates */
    for (int i = 0; i < 2; i++) {
        put_frame(&bytes, DATA, 0, 1, block, sizeof block);
    }
    CHECK_EQUAL(SS_OK, feed(session, &bytes, 4096));
    CHECK(ss_client_session_is_done(session));
    ss_client_result result = {0};
    ss_client_session_finish(session, &result);
    CHECK_EQUAL(8, result.grpc_status);
    CHECK(!result.has_retry_delay);
    ss_client_session_free(session);

    session = begun(&server, &call);
    ss_status status = SS_OK;
    ss_buffer fields = {0};
    put(&fields, "\x88", 1);
    put_field(&fields, "content-type", "application/grpc");
    for (int i = 0; i < 100; i++) {
        char value[101] = {0};
        memset(value, 'v', 100);
        put_field(&fields, "x-filler", value);
    }
    for (int i = 0; i < 12 && status == SS_OK; i++) { /* informational heads have no end of their own */
        fields.data[0] = 0x08;                        /* :status, a literal of 3 digits follows */
        ss_buffer informational = {0};
        put(&informational,
            "\x08\x03"
            "103",
            5);
        put(&informational, fields.data + 1, fields.length - 1);
        put_frame(&bytes, HEADERS, END_HEADERS, 1, informational.data, informational.length);
        ss_buffer_free(&informational);
        status = feed(session, &bytes, 4096);
    }
    CHECK_EQUAL(SS_ERR_IO, status);
    ss_client_session_free(session);
    ss_buffer_free(&fields);
    peer_free(&server);
    ss_buffer_free(&bytes);
}

static void test_a_peer_that_is_no_http2_server_is_left(void) {
    ss_client_call call = {SS_SIGNAL_TRACES, SS_ENCODING_IDENTITY, (const uint8_t *)"x", 1, SECOND};
    ss_buffer bytes = {0};
    peer server = {0};
    ss_client_session *session = ss_client_session_new(&head);
    CHECK_EQUAL(SS_OK, ss_client_session_begin(session, &call));
    pump(session, &server);
    put(&bytes, "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", 48);
    ss_status status = feed(session, &bytes, 64);
    pump(session, &server);
    CHECK(status == SS_ERR_IO || ss_client_session_is_over(session));
    CHECK(!ss_client_session_is_usable(session));
    ss_client_session_free(session);
    peer_free(&server);
    ss_buffer_free(&bytes);
}

/* ------------------------------------------------------------------ the pool, over sockets */

typedef enum behaviour {
    ANSWER,
    CLOSE_AFTER_ONE,
    GOAWAY_AFTER_ONE,
    CLOSE_ON_SECOND, /* once it has been read, without an answer */
    REFUSE_SECOND,   /* REFUSED_STREAM */
    REJECT_SECOND,   /* another reset, which says nothing about what was done */
    SILENT,
    SILENT_ONCE,
    CLOSE_AT_ONCE
} behaviour;

typedef struct server {
    int listener;
    uint16_t port;
    behaviour behaviour;
    pthread_t thread;
    uint32_t n_connections; /* relaxed atomics */
    uint32_t n_calls;
    bool has_reset; /* the last connection; atomic */
} server;

typedef struct served {
    server *server;
    int fd;
} served;

static void write_all(int fd, ss_buffer *bytes) {
    for (size_t at = 0; at < bytes->length;) {
        ssize_t n = send(fd, bytes->data + at, bytes->length - at, MSG_NOSIGNAL);
        if (n <= 0) {
            break;
        }
        at += (size_t)n;
    }
    bytes->length = 0;
}

static void *serve_connection(void *argument) {
    served *self = argument;
    server *owner = self->server;
    peer client = {0};
    ss_buffer out = {0};
    uint8_t bytes[8192];
    uint32_t n_answers = 0;
    put_frame(&out, SETTINGS, 0, 0, NULL, 0);
    write_all(self->fd, &out);
    for (ssize_t n; owner->behaviour != CLOSE_AT_ONCE && (n = recv(self->fd, bytes, sizeof bytes, 0)) > 0;) {
        peer_take(&client, bytes, (size_t)n, &out);
        bool is_complete = client.is_complete;
        client.is_complete = false;
        if (is_complete) {
            __atomic_fetch_add(&owner->n_calls, 1, __ATOMIC_RELAXED);
        }
        bool is_second = is_complete && ++n_answers > 1;
        __atomic_store_n(&owner->has_reset, client.is_reset, __ATOMIC_RELEASE);
        if (is_second && owner->behaviour == CLOSE_ON_SECOND) {
            break;
        }
        if (is_second && (owner->behaviour == REFUSE_SECOND || owner->behaviour == REJECT_SECOND)) {
            put_u32_frame(&out, RST_STREAM, client.stream, owner->behaviour == REFUSE_SECOND ? 7 : 2);
        } else if (is_complete && owner->behaviour != SILENT &&
                   !(owner->behaviour == SILENT_ONCE && client.stream == 1)) {
            put_response_head(&out, client.stream);
            put_trailers(&out, client.stream, "0", "");
            if (owner->behaviour == GOAWAY_AFTER_ONE) {
                put_goaway(&out, client.stream);
            }
        }
        write_all(self->fd, &out);
        if (is_complete && owner->behaviour == CLOSE_AFTER_ONE) {
            break;
        }
    }
    close(self->fd);
    peer_free(&client);
    ss_buffer_free(&out);
    free(self);
    return NULL;
}

static void *serve(void *argument) {
    server *self = argument;
    pthread_t threads[64];
    uint32_t n = 0;
    for (int fd; n < 64 && (fd = accept(self->listener, NULL, NULL)) >= 0; n++) {
        served *connection = malloc(sizeof *connection);
        *connection = (served){self, fd};
        __atomic_fetch_add(&self->n_connections, 1, __ATOMIC_RELAXED);
        pthread_create(&threads[n], NULL, serve_connection, connection);
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    return NULL;
}

static void server_start(server *self, behaviour wanted, const char *path) {
    *self = (server){.behaviour = wanted};
    if (path) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        strcpy(address.sun_path, path);
        self->listener = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK_EQUAL(0, bind(self->listener, (struct sockaddr *)&address, sizeof address));
    } else {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        self->listener = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_EQUAL(0, bind(self->listener, (struct sockaddr *)&address, sizeof address));
        getsockname(self->listener, (struct sockaddr *)&address, &size);
        self->port = ntohs(address.sin_port);
    }
    CHECK_EQUAL(0, listen(self->listener, 64));
    pthread_create(&self->thread, NULL, serve, self);
}

static void server_stop(server *self) {
    shutdown(self->listener, SHUT_RDWR); /* ends accept */
    pthread_join(self->thread, NULL);
    close(self->listener);
}

static ss_client *new_client(const char *host, uint16_t port, uint32_t max_connections) {
    ss_error error;
    ss_client_config config = {.host = host,
                               .port = port,
                               .user_agent = "test",
                               .max_connections = max_connections,
                               .connect_timeout_ns = 60 * (uint64_t)SECOND};
    ss_client *client = ss_client_new(&config, &error);
    CHECK(client != NULL);
    return client;
}

static ss_client_result call(ss_client *client, uint64_t timeout_ns) {
    ss_client_result result;
    ss_client_export(client, SS_SIGNAL_TRACES, SS_ENCODING_IDENTITY, (const uint8_t *)"hello", 5, timeout_ns, -1,
                     &result);
    return result;
}

static void test_connections_are_reused_and_replaced(void) {
    static const struct {
        behaviour behaviour;
        uint32_t n_connections;
        uint32_t n_calls; /* that reached the server */
    } cases[] = {
        {ANSWER, 1, 5},          {CLOSE_AFTER_ONE, 5, 5}, {GOAWAY_AFTER_ONE, 5, 5},
        {CLOSE_ON_SECOND, 5, 9}, {REFUSE_SECOND, 5, 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        server backend;
        server_start(&backend, cases[i].behaviour, NULL);
        ss_client *client = new_client("127.0.0.1", backend.port, 4);
        for (int n = 0; n < 5; n++) {
            ss_client_result result = call(client, 60 * (uint64_t)SECOND);
            CHECK_EQUAL(SS_OK, result.transport_status);
            CHECK_EQUAL(0, result.grpc_status);
            CHECK(result.bytes_sent > 5 + 5 + 2 * 9);
        }
        CHECK_EQUAL(5, ss_client_accepted(client, SS_ENCODING_IDENTITY));
        CHECK_EQUAL(0, ss_client_accepted(client, SS_ENCODING_GZIP));
        ss_client_free(client);
        server_stop(&backend);
        CHECK_EQUAL(cases[i].n_connections, backend.n_connections);
        CHECK_EQUAL(cases[i].n_calls, backend.n_calls);
    }
}

static void test_failures_are_told_apart(void) {
    server backend;
    server_start(&backend, REJECT_SECOND, NULL);
    ss_client *rejected = new_client("127.0.0.1", backend.port, 1);
    CHECK_EQUAL(0, call(rejected, 60 * (uint64_t)SECOND).grpc_status);
    CHECK_EQUAL(SS_CODE_INTERNAL, call(rejected, 60 * (uint64_t)SECOND).grpc_status);
    CHECK_EQUAL(1, ss_client_accepted(rejected, SS_ENCODING_IDENTITY));
    ss_client_free(rejected);
    server_stop(&backend);
    CHECK_EQUAL(2, backend.n_calls); /* it may have been processed: the caller decides */

    server_start(&backend, SILENT, NULL);
    ss_client *client = new_client("127.0.0.1", backend.port, 1);
    ss_client_result result = call(client, SECOND / 20);
    CHECK_EQUAL(SS_ERR_TIMEOUT, result.transport_status);
    ss_client_close(client);
    CHECK_EQUAL(SS_ERR_CLOSED, call(client, 60 * (uint64_t)SECOND).transport_status);
    ss_client_free(client);
    server_stop(&backend);

    client = new_client("127.0.0.1", backend.port, 1); /* nobody listens there any more */
    result = call(client, 60 * (uint64_t)SECOND);
    CHECK_EQUAL(SS_ERR_IO, result.transport_status);
    CHECK(strstr(result.message, "connect: ") == result.message);
    ss_client_free(client);

    server_start(&backend, CLOSE_AT_ONCE, NULL);
    client = new_client("127.0.0.1", backend.port, 1);
    CHECK_EQUAL(SS_ERR_IO, call(client, 60 * (uint64_t)SECOND).transport_status);
    ss_client_free(client);
    server_stop(&backend);
    CHECK_EQUAL(1, backend.n_connections); /* a new connection gets no second try */
}

typedef struct caller {
    ss_client *client;
    pthread_t thread;
    int n_calls;
    uint64_t timeout_ns;
    ss_client_result last;
} caller;

static void *run_caller(void *argument) {
    caller *self = argument;
    for (int i = 0; i < self->n_calls; i++) {
        self->last = call(self->client, self->timeout_ns);
    }
    return NULL;
}

static void test_close_ends_calls_in_flight_and_waiting(void) {
    server backend;
    server_start(&backend, SILENT, NULL);
    ss_client *client = new_client("127.0.0.1", backend.port, 1);
    caller callers[2];
    for (int i = 0; i < 2; i++) {
        callers[i] = (caller){.client = client, .n_calls = 1, .timeout_ns = UINT64_MAX};
        pthread_create(&callers[i].thread, NULL, run_caller, &callers[i]);
    }
    while (__atomic_load_n(&backend.n_calls, __ATOMIC_RELAXED) == 0) {
        poll(NULL, 0, 1);
    }
    ss_client_close(client);
    for (int i = 0; i < 2; i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_EQUAL(SS_ERR_CLOSED, callers[i].last.transport_status);
    }
    ss_client_free(client);
    server_stop(&backend);
}

/* The call is reset, and the connection goes on. */
static void test_cancelled_calls(void) {
    static const uint8_t message[] = "hello";
    const uint64_t one = 1;
    server backend;
    server_start(&backend, SILENT_ONCE, NULL);
    ss_client *client = new_client("127.0.0.1", backend.port, 1);
    int cancel_fd = eventfd(0, EFD_CLOEXEC);
    CHECK_EQUAL(sizeof one, write(cancel_fd, &one, sizeof one));
    ss_client_result result;
    ss_client_export(client, SS_SIGNAL_TRACES, SS_ENCODING_IDENTITY, message, 5, UINT64_MAX, cancel_fd, &result);
    CHECK_EQUAL(SS_ERR_CANCELLED, result.transport_status);
    CHECK(strcmp("cancelled", result.message) == 0);
    result = call(client, 60 * (uint64_t)SECOND);
    CHECK_EQUAL(SS_OK, result.transport_status);
    CHECK_EQUAL(0, result.grpc_status);
    ss_client_free(client);
    server_stop(&backend);
    CHECK(backend.has_reset);
    CHECK_EQUAL(1, backend.n_connections);
    close(cancel_fd);
}

static void test_threads_share_the_pool(void) {
    server backend;
    server_start(&backend, ANSWER, NULL);
    ss_client *client = new_client("127.0.0.1", backend.port, 3);
    caller callers[6];
    for (int i = 0; i < 6; i++) {
        callers[i] = (caller){.client = client, .n_calls = 50, .timeout_ns = 60 * (uint64_t)SECOND};
        pthread_create(&callers[i].thread, NULL, run_caller, &callers[i]);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_EQUAL(SS_OK, callers[i].last.transport_status);
    }
    ss_client_free(client);
    server_stop(&backend);
    CHECK_EQUAL(300, backend.n_calls);
    CHECK(backend.n_connections <= 3);
}

/* ------------------------------------------------------------------ from a queue */

static const ss_export_watch no_watch = {60 * (uint64_t)SECOND, UINT32_MAX, UINT64_MAX};

typedef struct exporter {
    ss_runtime *runtime;
    ss_worker *worker;
    ss_consumer *queue;
    ss_client *client;
    server backend;
    pthread_t thread;
    ss_export_watch watch;
    ss_status status; /* of the last ss_client_export_queue */
    ss_queue_item item;
    ss_export_attempt attempt;
} exporter;

static void exporter_start(exporter *self, behaviour wanted) {
    ss_error error;
    *self = (exporter){.runtime = ss_runtime_new(), .watch = no_watch};
    self->worker = ss_worker_new(self->runtime);
    self->queue = ss_queue_new(self->runtime, SS_SIGNAL_TRACES, SS_SIZER_REQUESTS, 4, false, &error);
    server_start(&self->backend, wanted, NULL);
    self->client = new_client("127.0.0.1", self->backend.port, 4);
}

static void exporter_stop(exporter *self) {
    ss_client_free(self->client);
    server_stop(&self->backend);
    ss_consumer_free(self->queue);
    ss_worker_free(self->worker);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(self->runtime));
    ss_runtime_free(self->runtime);
}

static void *run_exporter(void *argument) {
    exporter *self = argument;
    self->status = ss_client_export_queue(self->client, self->queue, &self->watch, &self->item, &self->attempt);
    return NULL;
}

static ss_status push_spans(exporter *self, uint32_t n) {
    ss_verdict verdict;
    ss_buffer request = make_request(n);
    ss_status status = ss_consumer_push(self->queue, self->worker, request.data, request.length, &verdict);
    ss_buffer_free(&request);
    return status;
}

static ss_queue_stats stats_of(const exporter *self) {
    ss_queue_stats stats;
    ss_queue_read_stats(self->queue, &stats);
    return stats;
}

static void give_back(exporter *self, ss_code code) {
    CHECK(ss_queue_done(self->queue, &self->item, &(ss_verdict){.code = code}, 0));
}

/* What is delivered is counted with its place given back; close ends the wait. */
static void test_a_queue_is_sent_until_it_is_closed(void) {
    exporter e;
    exporter_start(&e, ANSWER);
    pthread_create(&e.thread, NULL, run_exporter, &e);
    for (uint32_t i = 0; i < 50; i++) {
        while (push_spans(&e, 3) != SS_OK) {
            poll(NULL, 0, 1);
        }
    }
    while (stats_of(&e).sent_items < 150) {
        poll(NULL, 0, 1);
    }
    ss_queue_stats stats = stats_of(&e);
    CHECK_EQUAL(0, stats.size + stats.items + stats.in_flight_requests + stats.failed_items + stats.rejected_items);
    CHECK(stats.sent_bytes > stats.uncompressed_bytes && stats.uncompressed_bytes > 50 * 3 * SPAN_BYTES);
    ss_queue_close(e.queue);
    pthread_join(e.thread, NULL);
    CHECK_EQUAL(SS_ERR_CLOSED, e.status);
    CHECK_EQUAL(50, e.backend.n_calls);
    exporter_stop(&e);
}

/* What did not go well comes back with what came of it, and keeps its place until it is done. */
static void test_a_failure_comes_back_with_its_request(void) {
    exporter e;
    exporter_start(&e, REJECT_SECOND);
    CHECK_EQUAL(SS_OK, push_spans(&e, 1));
    CHECK_EQUAL(SS_OK, push_spans(&e, 2));
    run_exporter(&e);
    CHECK_EQUAL(SS_OK, e.status);
    CHECK(e.attempt.is_made && e.attempt.duration_ns);
    CHECK_EQUAL(SS_CODE_INTERNAL, e.attempt.result.grpc_status);
    CHECK_EQUAL(2, e.item.n_items);
    CHECK_EQUAL(1, stats_of(&e).sent_items);
    CHECK_EQUAL(1, stats_of(&e).in_flight_requests);
    give_back(&e, SS_CODE_INTERNAL);
    CHECK_EQUAL(2, stats_of(&e).failed_items);
    CHECK_EQUAL(0, stats_of(&e).size);
    exporter_stop(&e);
}

/* Each reason to ask leaves the request unsent. */
static void test_what_needs_a_decision_is_not_sent(void) {
    enum { ENCODING, BUSY, OVERFLOW, CLOSED, N };
    for (int reason = 0; reason < N; reason++) {
        exporter e;
        exporter_start(&e, ANSWER);
        CHECK_EQUAL(SS_OK, push_spans(&e, 1));
        if (reason == ENCODING) {
            CHECK_EQUAL(SS_OK, ss_queue_set_compression(e.queue, SS_ENCODING_GZIP, 0));
        } else if (reason == BUSY) {
            e.watch.n_threads = 1;
        } else if (reason == CLOSED) {
            ss_queue_close(e.queue);
        } else {
            e.watch.reported_items = 0;
            while (push_spans(&e, 1) == SS_OK) {
            }
            pthread_create(&e.thread, NULL, run_exporter, &e); /* the first ones go out: it is too early to report */
            while (stats_of(&e).sent_items < 4) {
                poll(NULL, 0, 1);
            }
            poll(NULL, 0, 150);
            CHECK_EQUAL(SS_OK, push_spans(&e, 1));
            pthread_join(e.thread, NULL);
        }
        if (reason != OVERFLOW) {
            run_exporter(&e);
        }
        CHECK_EQUAL(SS_OK, e.status);
        CHECK(!e.attempt.is_made);
        CHECK_EQUAL(reason == OVERFLOW ? 4 : 0, e.backend.n_calls);
        give_back(&e, SS_CODE_OK);
        exporter_stop(&e);
    }
}

/* A client closed under a call hands the request back; what is given up is counted once. */
static void test_close_hands_the_request_back(void) {
    exporter e;
    exporter_start(&e, SILENT);
    pthread_create(&e.thread, NULL, run_exporter, &e);
    CHECK_EQUAL(SS_OK, push_spans(&e, 7));
    while (__atomic_load_n(&e.backend.n_calls, __ATOMIC_RELAXED) == 0) {
        poll(NULL, 0, 1);
    }
    ss_queue_close(e.queue);
    CHECK_EQUAL(7, ss_queue_give_up(e.queue));
    CHECK_EQUAL(0, ss_queue_give_up(e.queue));
    ss_client_close(e.client);
    pthread_join(e.thread, NULL);
    CHECK_EQUAL(SS_OK, e.status);
    CHECK(e.attempt.is_made);
    CHECK_EQUAL(SS_ERR_CLOSED, e.attempt.result.transport_status);
    CHECK(!ss_queue_done(e.queue, &e.item, &(ss_verdict){0}, 99));
    CHECK_EQUAL(7, stats_of(&e).failed_items);
    CHECK_EQUAL(0, stats_of(&e).sent_items);
    exporter_stop(&e);
}

static void test_unix_socket(void) {
    char path[] = "/tmp/spansieve-client-XXXXXX";
    int fd = mkstemp(path);
    close(fd);
    unlink(path);
    server backend;
    server_start(&backend, ANSWER, path);
    ss_client *client = new_client(path, 0, 1);
    CHECK_EQUAL(SS_OK, call(client, 60 * (uint64_t)SECOND).transport_status);
    ss_client_free(client);
    server_stop(&backend);
    unlink(path);
}

static void test_bad_configurations_are_refused(void) {
    const char *bad_name[] = {"Upper", "x"}, *pseudo[] = {":path", "x"}, *bad_value[] = {"x", "a\nb"};
    const ss_client_config cases[] = {
        {.host = "", .user_agent = "t", .max_connections = 1},
        {.host = "h", .user_agent = "t"},
        {.host = "h", .user_agent = "a\r\nb", .max_connections = 1},
        {.host = "h", .user_agent = "t", .authority = "a\nb", .max_connections = 1},
        {.host = "h", .user_agent = "t", .max_connections = 1, .headers = bad_name, .n_headers = 2},
        {.host = "h", .user_agent = "t", .max_connections = 1, .headers = pseudo, .n_headers = 2},
        {.host = "h", .user_agent = "t", .max_connections = 1, .headers = bad_value, .n_headers = 2},
        {.host = "h", .user_agent = "t", .max_connections = 1, .headers = bad_value, .n_headers = 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_error error = {0};
        CHECK(ss_client_new(&cases[i], &error) == NULL);
        CHECK_EQUAL(SS_ERR_ARGUMENT, error.code);
        CHECK(error.reason != NULL);
    }
}

int main(void) {
    test_status_comes_from_grpc_status_else_from_http();
    test_what_is_too_large();
    test_message_is_percent_decoded();
    test_long_text_is_cut_between_characters();
    test_retry_info_is_found();
    test_useless_details_leave_the_status_alone();
    test_odd_retry_delays();
    test_partial_success_is_read();
    test_every_truncation_of_a_status_is_safe();
    test_compressed_answers_are_read();
    test_unreadable_answers_are_no_success();
    test_large_message_flows_through_small_windows();
    test_early_answer_cancels_the_rest_of_the_message();
    test_resets_and_goaway_have_their_codes();
    test_oversized_responses_are_cut_off();
    test_a_peer_that_is_no_http2_server_is_left();
    test_connections_are_reused_and_replaced();
    test_failures_are_told_apart();
    test_close_ends_calls_in_flight_and_waiting();
    test_cancelled_calls();
    test_threads_share_the_pool();
    test_a_queue_is_sent_until_it_is_closed();
    test_a_failure_comes_back_with_its_request();
    test_what_needs_a_decision_is_not_sent();
    test_close_hands_the_request_back();
    test_unix_socket();
    test_bad_configurations_are_refused();
    return check_finish();
}
