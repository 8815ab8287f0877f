/* OTLP/HTTP and admin requests in memory: answers to the byte, bodies in every cut, bad and slow clients. */
#include "check.h"
#include "core/account.h"
#include "transport_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#define POST(path, type, extra)                                                                                        \
    "POST " path " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " type "\r\n" extra "Content-Length: 5\r\n\r\nhello"
#define PROTOBUF "application/x-protobuf"
#define OK_PROTOBUF "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n"

enum { SECOND_NS = 1000000000 };

static void feed(fixture *f, const char *text) {
    fixture_feed(f, text, strlen(text));
}

static void expect_at(int line, fixture *f, const char *expected) {
    ss_buffer *output = &f->connection->output;
    if (output->length != strlen(expected) || memcmp(ss_bytes_of(output), expected, output->length) != 0) {
        fprintf(stderr, "line %d: wanted\n%s\ngot\n%.*s\n", line, expected, (int)output->length,
                (const char *)ss_bytes_of(output));
        CHECK(false);
    }
    output->length = 0;
}

#define EXPECT(f, text) expect_at(__LINE__, f, text)

static void restart(fixture *f) {
    fixture_disconnect(f);
    fixture_connect(f);
}

static bool message_is(const fixture *f, const char *text) {
    return f->message.length == strlen(text) && memcmp(f->message.data, text, f->message.length) == 0;
}

static void test_signals_and_payloads(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    EXPECT(&f, OK_PROTOBUF);
    CHECK(f.n_accepted == 1 && f.signal == SS_SIGNAL_TRACES && f.payload == SS_PAYLOAD_PROTOBUF &&
          message_is(&f, "hello"));
    CHECK_EQUAL(SS_TRANSPORT_HTTP, f.transport);
    feed(&f, POST("/v1/metrics?x=1", "application/json; charset=utf-8", ""));
    EXPECT(&f,
           "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{\"partialSuccess\":{}}");
    CHECK(f.n_accepted == 2 && f.signal == SS_SIGNAL_METRICS && f.payload == SS_PAYLOAD_JSON);
    feed(&f, POST("/v1/logs", "Application/X-Protobuf;a=b", ""));
    EXPECT(&f, OK_PROTOBUF);
    CHECK(f.n_accepted == 3 && f.signal == SS_SIGNAL_LOGS);
    feed(&f,
         "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n");
    EXPECT(&f, OK_PROTOBUF);
    CHECK(f.n_accepted == 4 && f.message.length == 0);
    CHECK(f.is_open);
    CHECK_EQUAL(4, f.scratch.stats.requests);
    fixture_stop(&f);
}

/* What is asked for is kept, cut anywhere; the next request on the connection begins anew. */
static void test_metadata(void) {
    static const char *const names[] = {"tenant", "x-empty"};
    static const char request[] =
        POST("/v1/traces", PROTOBUF, "TENANT: \ta b \t\r\nother: x\r\nX-Empty:\r\ntenant: c\r\n");
    static const char block[] = "\6tenant\3a b\7x-empty\0\6tenant\1c";
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    feed(&f, request);
    CHECK_EQUAL(0, f.metadata.length); /* nobody asks */
    CHECK_EQUAL(SS_OK, ss_names_copy(&f.listener.metadata_names, names, 2));
    for (size_t cut = 1; cut < sizeof request - 1; cut++) {
        fixture_feed(&f, request, cut);
        fixture_feed(&f, request + cut, sizeof request - 1 - cut);
        CHECK(f.metadata.length == sizeof block - 1 && memcmp(f.metadata.data, block, sizeof block - 1) == 0);
        feed(&f, POST("/v1/traces", PROTOBUF, ""));
        CHECK_EQUAL(0, f.metadata.length);
        f.connection->output.length = 0;
    }
    CHECK(f.is_open);
    CHECK_EQUAL(2 * (sizeof request - 2) + 1, f.n_accepted);
    fixture_stop(&f);
}

static void test_refusals(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.lacks_signal[SS_SIGNAL_LOGS] = true;
    static const char not_found[] = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                    "Content-Length: 19\r\n\r\n404 page not found\n";
    feed(&f, POST("/v1/logs", PROTOBUF, ""));
    EXPECT(&f, not_found);
    feed(&f, POST("/v1/traces/", PROTOBUF, ""));
    EXPECT(&f, not_found);
    feed(&f, "GET /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT(&f, "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\nAllow: POST\r\n"
               "Content-Length: 41\r\n\r\n"
               "405 method not allowed, supported: [POST]");
    static const char unsupported[] =
        "HTTP/1.1 415 Unsupported Media Type\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 81\r\n\r\n"
        "415 unsupported media type, supported: [application/json, application/x-protobuf]";
    feed(&f, POST("/v1/traces", "text/plain", ""));
    EXPECT(&f, unsupported);
    feed(&f, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    EXPECT(&f, unsupported);
    f.listener.config.encodings = 1 << SS_CONTENT_GZIP | 1 << SS_CONTENT_ZSTD;
    feed(&f, POST("/v1/traces", "application/json", "Content-Encoding: br\r\n"));
    EXPECT(&f,
           "HTTP/1.1 415 Unsupported Media Type\r\nContent-Type: application/json\r\nAccept-Encoding: gzip, zstd\r\n"
           "Content-Length: 78\r\n\r\n"
           "{\"code\":3,\"message\":\"unsupported Content-Encoding: br; supported: gzip, zstd\"}");
    feed(&f, POST("/v1/traces", PROTOBUF, "Content-Encoding: gzip, zstd\r\n"));
    EXPECT(&f, "HTTP/1.1 415 Unsupported Media Type\r\nContent-Type: application/x-protobuf\r\n"
               "Accept-Encoding: gzip, zstd\r\nContent-Length: 67\r\n\r\n"
               "\x08\x03\x12\x3f"
               "unsupported Content-Encoding: gzip, zstd; supported: gzip, zstd");
    f.listener.config.encodings = 0;
    feed(&f, POST("/v1/traces", "application/json", "Content-Encoding: gzip\r\n")); /* corrupt */
    EXPECT(&f, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n"
               "{\"code\":3,\"message\":\"invalid gzip data\"}");
    CHECK_EQUAL(0, f.n_accepted);
    CHECK(f.is_open);
    feed(&f, POST("/v1/traces", PROTOBUF, "Content-Encoding: Identity\r\n"));
    EXPECT(&f, OK_PROTOBUF);
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    EXPECT(&f, OK_PROTOBUF);
    fixture_stop(&f);
}

static void test_verdicts(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.verdict =
        (ss_verdict){.code = SS_CODE_UNAVAILABLE, .has_retry_delay = true, .retry_delay_ms = 2500, .message = "full"};
    feed(&f, POST("/v1/traces", "application/json", ""));
    EXPECT(&f, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 2\r\n"
               "Content-Length: 115\r\n\r\n{\"code\":14,\"message\":\"full\",\"details\":[{\"@type\":"
               "\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"2.500s\"}]}");
    f.verdict = (ss_verdict){.code = SS_CODE_RESOURCE_EXHAUSTED, .message = "a \"b\"\n"};
    feed(&f, POST("/v1/traces", "application/json", ""));
    EXPECT(&f, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n"
               "{\"code\":8,\"message\":\"a \\\"b\\\"\\u000a\"}");
    f.verdict = (ss_verdict){.code = SS_CODE_INVALID_ARGUMENT, .message = "bad"};
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    EXPECT(&f, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/x-protobuf\r\nContent-Length: 7\r\n\r\n"
               "\x08\x03\x12\x03"
               "bad");
    f.verdict = (ss_verdict){.rejected_items = 3, .message = "no"};
    feed(&f, POST("/v1/logs", "application/json", ""));
    EXPECT(&f, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 65\r\n\r\n"
               "{\"partialSuccess\":{\"rejectedLogRecords\":\"3\",\"errorMessage\":\"no\"}}");
    fixture_stop(&f);
}

static void test_encodings(void) {
    static const struct {
        const char *name;
        ss_encoding encoding;
    } known[] = {{"gzip", SS_ENCODING_GZIP},     {"zstd", SS_ENCODING_ZSTD},
                 {"GZip", SS_ENCODING_GZIP},     {"X-GZIP", SS_ENCODING_GZIP},
                 {"x-gzip", SS_ENCODING_GZIP},   {"ZSTD", SS_ENCODING_ZSTD},
                 {"zlib", SS_ENCODING_ZLIB},     {"deflate", SS_ENCODING_ZLIB},
                 {"snappy", SS_ENCODING_SNAPPY}, {"x-snappy-framed", SS_ENCODING_SNAPPY_FRAMED},
                 {"lz4", SS_ENCODING_LZ4}};
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    ss_codec *codec = ss_codec_new();
    uint8_t message[2000] = {7};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!ss_encoding_is_available(known[i].encoding)) {
            continue;
        }
        ss_buffer packed = {0}, request = {0};
        CHECK_EQUAL(SS_OK, ss_compress(codec, known[i].encoding, 0, message, sizeof message, &packed));
        char head[300];
        int size = snprintf(head, sizeof head,
                            "POST /v1/traces HTTP/1.1\r\nHost: x\r\ncontent-encoding: %s \r\n"
                            "content-type: application/x-protobuf\r\ncontent-length: %zu\r\n\r\n",
                            known[i].name, packed.length);
        CHECK_EQUAL(SS_OK, ss_buffer_append(&request, (const uint8_t *)head, (size_t)size));
        CHECK_EQUAL(SS_OK, ss_buffer_append(&request, packed.data, packed.length));
        f.listener.config.max_message_bytes = sizeof message;
        fixture_feed(&f, request.data, request.length);
        EXPECT(&f, OK_PROTOBUF);
        CHECK(f.message.length == sizeof message && memcmp(f.message.data, message, sizeof message) == 0);
        f.listener.config.max_message_bytes = sizeof message - 1;
        fixture_feed(&f, request.data, request.length);
        EXPECT(&f, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/x-protobuf\r\nContent-Length: 32\r\n\r\n"
                   "\x08\x03\x12\x1c"
                   "http: request body too large");
        ss_buffer_free(&packed);
        ss_buffer_free(&request);
    }
    CHECK(f.is_open);
    ss_codec_free(codec);
    fixture_stop(&f);
}

/* Two pipelined requests, one of them chunked with a trailer, cut at every byte. */
static void test_every_cut(void) {
    static const char input[] =
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na;x=y\r\n0123456789\r\n0\r\nT: v\r\n\r\n" POST("/v1/logs",
                                                                                                      PROTOBUF, "");
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    for (size_t cut = 0; cut < sizeof input; cut++) {
        restart(&f);
        f.n_accepted = 0;
        f.total_bytes = 0;
        fixture_feed(&f, input, cut);
        fixture_feed(&f, input + cut, sizeof input - 1 - cut);
        EXPECT(&f, OK_PROTOBUF OK_PROTOBUF);
        CHECK(f.n_accepted == 2 && f.total_bytes == 18 && message_is(&f, "hello"));
    }
    restart(&f);
    f.n_accepted = 0;
    for (size_t i = 0; i < sizeof input - 1; i++) { /* and byte by byte */
        fixture_feed(&f, input + i, 1);
    }
    EXPECT(&f, OK_PROTOBUF OK_PROTOBUF);
    CHECK_EQUAL(2, f.n_accepted);
    fixture_stop(&f);
    CHECK_EQUAL(0, f.held_bytes);
}

static void test_too_large_stops_the_read(void) {
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
                                 "Content-Length: 51\r\n\r\n{\"code\":3,\"message\":\"http: request body too large\"}";
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.listener.config.max_message_bytes = 10;
    feed(&f, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n");
    EXPECT(&f, answer);
    CHECK(!f.is_open);
    restart(&f);
    feed(&f, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Transfer-Encoding: chunked\r\n\r\n8\r\n01234567\r\n");
    EXPECT(&f, "");
    CHECK(f.is_open);
    feed(&f, "3\r\n012");
    EXPECT(&f, answer);
    CHECK(!f.is_open);
    CHECK_EQUAL(0, f.n_accepted);
    fixture_stop(&f);
    CHECK_EQUAL(0, f.held_bytes);
}

static void test_expect_continue(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    feed(&f, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nExpect: 100-continue\r\n"
             "Content-Length: 5\r\n\r\n");
    EXPECT(&f, "HTTP/1.1 100 Continue\r\n\r\n");
    feed(&f, "hello");
    EXPECT(&f, OK_PROTOBUF);
    feed(&f, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nExpect: 100-continue\r\n"
             "Content-Length: 5\r\n\r\n"); /* refused without asking for the body */
    EXPECT(&f, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
               "Content-Length: 19\r\n\r\n404 page not found\n");
    CHECK(!f.is_open);
    fixture_stop(&f);
}

static void test_keep_alive(void) {
    static const char closing[] = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nConnection: close\r\n"
                                  "Content-Length: 0\r\n\r\n";
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    feed(&f, POST("/v1/traces", PROTOBUF, "Connection: close\r\n"));
    EXPECT(&f, closing);
    CHECK(!f.is_open);
    restart(&f);
    feed(&f, "POST /v1/traces HTTP/1.0\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n");
    EXPECT(&f, closing);
    CHECK(!f.is_open);
    restart(&f);
    feed(&f, "POST /v1/traces HTTP/1.0\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n"
             "Connection: keep-alive\r\n\r\n");
    EXPECT(&f, "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nConnection: keep-alive\r\n"
               "Content-Length: 0\r\n\r\n");
    CHECK(f.is_open);
    restart(&f); /* an offer to upgrade is passed over */
    feed(&f,
         POST("/v1/traces", PROTOBUF, "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n"));
    EXPECT(&f, OK_PROTOBUF);
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    EXPECT(&f, OK_PROTOBUF);
    CHECK(f.is_open);
    feed(&f, "POST /v1/traces HTTP/2.0\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n");
    EXPECT(&f, "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Type: text/plain; charset=utf-8\r\n"
               "Connection: close\r\nContent-Length: 60\r\n\r\n"
               "505 HTTP Version Not Supported: unsupported protocol version");
    CHECK(!f.is_open);
    fixture_stop(&f);
}

/* What a client that takes us for its proxy asks for, cut anywhere. */
static void test_whole_targets(void) {
    static const char *const taken[] = {POST("http://localhost:4318/v1/traces", PROTOBUF, ""),
                                        POST("HTTPS://a/v1/traces?b=//c", PROTOBUF, "")};
    static const char *const unknown[] = {POST("http://a", PROTOBUF, ""), POST("http://a?/v1/traces", PROTOBUF, ""),
                                          POST("http://a/b//v1/traces", PROTOBUF, "")};
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        for (size_t cut = 1; cut < strlen(taken[i]); cut++) {
            fixture_feed(&f, taken[i], cut);
            fixture_feed(&f, taken[i] + cut, strlen(taken[i]) - cut);
            EXPECT(&f, OK_PROTOBUF);
        }
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        feed(&f, unknown[i]);
        EXPECT(&f, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n\r\n"
                   "404 page not found\n");
    }
    fixture_stop(&f);
}

static void test_malformed(void) {
    static const char *const inputs[] = {
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", /* TLS */
        "GET / HTTP/9.9\r\n\r\n",
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: "
        "chunked\r\n\r\nzz\r\n",
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        "Content-Length: 5\r\n\r\nhello",
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
    };
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        restart(&f);
        feed(&f, inputs[i]);
        const ss_buffer *output = &f.connection->output;
        if (f.is_open || output->length < 12 || memcmp(output->data, "HTTP/1.1 400", 12) != 0) {
            fprintf(stderr, "input %zu: open %d, %zu bytes of output\n", i, f.is_open, output->length);
            CHECK(false);
        }
        CHECK_EQUAL(i + 1, f.scratch.stats.protocol_errors);
    }
    CHECK_EQUAL(0, f.n_accepted);
    fixture_stop(&f);
    CHECK_EQUAL(0, f.held_bytes);
}

/* What RFC 9112 has servers refuse, cut anywhere: none, or half, of the request is taken. */
static void test_syntax(void) {
    static const struct {
        const char *input;
        int status; /* 0: it is whole, and taken */
    } cases[] = {
        {"POST /v1/traces HTTP/1.1\r\nContent-Type: " PROTOBUF "\r\nContent-Length: 0\r\n\r\n", 400}, /* no Host */
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {POST("/v1/traces", PROTOBUF, "Host: b\r\n"), 400},
        {POST("/v1/traces", PROTOBUF, "hOST: localhost\r\n"), 400},
        {POST("/v1/traces", PROTOBUF, "Host:\r\n"), 400},
        {POST("/v1/traces", PROTOBUF, ": value\r\n"), 400},
        {POST("/v1/traces", PROTOBUF, ":\r\n"), 400},
        {POST("/v1/traces", PROTOBUF, "X-A: b\r\n c\r\n"), 400},
        {POST("/v1/traces", PROTOBUF, "X-A: b\r\n\tc\r\n"), 400},
        {POST("/v1/traces", PROTOBUF, "X-A:\r\n b\r\n"), 400},
        {POST("/v1/traces", PROTOBUF, "X-A:   \r\n   \t b\r\n"), 400},
        {POST("/v1/traces", PROTOBUF, "X-A: b\r\n \r\n"), 400},
        {POST("/v1/traces", PROTOBUF, "X-A:\r\n \r\n"), 400},
        {"GET /\r\n", 400},
        {"GET /v1/traces\n", 400},
        {"GET / HTTP/0.9\r\n", 505},
        {"GET / HTTP/2.0\r\n", 505},
        {"POST /v1/traces HTTP/1.0\r\nContent-Type: " PROTOBUF "\r\nContent-Length: 0\r\n\r\n", 0},
        {POST("/v1/traces", PROTOBUF, "X-A:  b \t c  d \r\nX-B:\r\nX-C: \r\nX-D:\t\r\n"), 0},
        {"POST /v1/traces HTTP/1.1\r\nHost:\r\nContent-Type: " PROTOBUF "\r\nContent-Length: 0\r\n\r\n", 0},
    };
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *input = cases[i].input;
        size_t length = strlen(input);
        for (size_t cut = 0; cut < 2 * length; cut++) { /* in two pieces, then in ever longer ones */
            size_t step = cut <= length ? cut : cut - length;
            restart(&f);
            f.n_accepted = 0;
            if (cut <= length) {
                fixture_feed(&f, input, step);
                fixture_feed(&f, input + step, length - step);
            }
            for (size_t pos = 0; cut > length && pos < length; pos += step) {
                fixture_feed(&f, input + pos, length - pos < step ? length - pos : step);
            }
            char expected[20];
            snprintf(expected, sizeof expected, "HTTP/1.1 %d ", cases[i].status ? cases[i].status : 200);
            const ss_buffer *output = &f.connection->output;
            if (output->length < 13 || memcmp(output->data, expected, 13) != 0 ||
                (cases[i].status && (f.is_open || f.n_accepted))) {
                fprintf(stderr, "case %zu, cut %zu: open %d, wanted %s, got %.*s\n", i, cut, f.is_open, expected,
                        (int)output->length, (const char *)ss_bytes_of(output));
                CHECK(false);
                break;
            }
        }
    }
    fixture_stop(&f);
    CHECK_EQUAL(0, f.held_bytes);
}

/* Many requests in one read: no more answers are made than a client takes, and what waits is counted as held. */
static void test_pipelined_requests_wait_for_their_client(void) {
    enum { MANY = 2000, MOST = 17 * 1024 };
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", answer[] = "HTTP/1.1 404";
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    ss_buffer input = {0};
    for (int i = 0; i < MANY; i++) {
        CHECK_EQUAL(SS_OK, ss_buffer_append(&input, (const uint8_t *)request, sizeof request - 1));
    }
    fixture_feed(&f, input.data, input.length);
    int n_turns = 0;
    for (; f.is_open && f.connection->output.length; n_turns++) {
        CHECK(f.connection->output.length <= MOST);
        CHECK(memcmp(f.connection->output.data, answer, sizeof answer - 1) == 0);
        CHECK(!f.connection->has_more || fixture_held_bytes(&f) > 0);
        f.connection->output.length = 0; /* taken */
        f.is_open = f.connection->protocol->produce(f.connection);
    }
    CHECK(f.is_open && n_turns > 5);
    CHECK_EQUAL(MANY, f.scratch.stats.requests);
    CHECK_EQUAL(0, fixture_held_bytes(&f));
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    EXPECT(&f, OK_PROTOBUF);
    fixture_feed(&f, input.data, input.length);
    feed(&f, request); /* comes nevertheless */
    CHECK(f.is_open && f.connection->output.length <= MOST);
    ss_buffer_free(&input);
    fixture_stop(&f);
    CHECK_EQUAL(0, f.held_bytes);
}

static void expect_refusal_at(int line, fixture *f, ss_refusal refusal, const char *text) {
    ss_refusal_note note = {.text = ""};
    bool has_note = ss_refusals_take(&f->service.refusals, SS_TRANSPORT_HTTP, refusal, &note);
    uint64_t count = f->scratch.stats.refused[SS_TRANSPORT_HTTP][refusal];
    if (!has_note || strcmp(text, note.text) != 0 || count != 1) {
        fprintf(stderr, "line %d: %llu refused, note '%s'\n", line, (unsigned long long)count, note.text);
        CHECK(false);
    }
}

#define EXPECT_REFUSAL(f, refusal, text) expect_refusal_at(__LINE__, f, refusal, text)

static void test_refusals_are_counted_and_described(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.lacks_signal[SS_SIGNAL_LOGS] = true;
    f.listener.config.max_message_bytes = 10;
    f.listener.config.read_timeout_ns = SECOND_NS;
    feed(&f, POST("/v1/pro\"files?key=secret", PROTOBUF, ""));
    EXPECT_REFUSAL(&f, SS_REFUSAL_UNKNOWN_PATH, "POST \"/v1/pro\\\"files\"");
    feed(&f, POST("/v1/logs", PROTOBUF, ""));
    EXPECT_REFUSAL(&f, SS_REFUSAL_NO_PIPELINE, "POST \"/v1/logs\"");
    feed(&f, "GET /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_REFUSAL(&f, SS_REFUSAL_METHOD, "GET \"/v1/traces\"");
    feed(&f, POST("/v1/traces",
                  "text/\x9b"
                  "plain",
                  ""));
    EXPECT_REFUSAL(&f, SS_REFUSAL_MEDIA_TYPE, "Content-Type \"text/\\x9bplain\"");
    feed(&f, POST("/v1/traces", PROTOBUF, "Content-Encoding: br\r\n"));
    EXPECT_REFUSAL(&f, SS_REFUSAL_ENCODING, "Content-Encoding \"br\"");
    feed(&f, POST("/v1/traces", PROTOBUF, "Content-Encoding: gzip\r\n"));
    EXPECT_REFUSAL(&f, SS_REFUSAL_MALFORMED, "invalid gzip data");
    CHECK(f.is_open);
    feed(&f, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: " PROTOBUF "\r\nContent-Length: 11\r\n\r\n");
    EXPECT_REFUSAL(&f, SS_REFUSAL_TOO_LARGE, "a body of more than 10 bytes");
    restart(&f);
    feed(&f, "GET / HTTP/1.1\r\n\r\n");
    EXPECT_REFUSAL(&f, SS_REFUSAL_PROTOCOL, "HTTP that cannot be read: no Host");
    restart(&f);
    feed(&f, "GET / HTTP/1.1\r\n");
    fixture_tick(&f, SECOND_NS + 1);
    EXPECT_REFUSAL(&f, SS_REFUSAL_TIMEOUT, "a request that was not complete after 1.0 s");
    restart(&f);
    feed(&f, POST("/a", PROTOBUF, "") POST("/b", PROTOBUF, "")); /* one note until it has been taken */
    CHECK_EQUAL(3, f.scratch.stats.refused[SS_TRANSPORT_HTTP][SS_REFUSAL_UNKNOWN_PATH]);
    ss_refusal_note note;
    CHECK(ss_refusals_take(&f.service.refusals, SS_TRANSPORT_HTTP, SS_REFUSAL_UNKNOWN_PATH, &note));
    CHECK(strcmp("POST \"/a\"", note.text) == 0 && note.client[0] == 0);
    CHECK(!ss_refusals_take(&f.service.refusals, SS_TRANSPORT_HTTP, SS_REFUSAL_UNKNOWN_PATH, &note));
    f.verdict = (ss_verdict){.code = SS_CODE_INVALID_ARGUMENT, .message = "otlp traces: bad at byte 1"};
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    CHECK(ss_refusals_take(&f.service.refusals, SS_TRANSPORT_HTTP, SS_REFUSAL_MALFORMED, &note));
    CHECK(strcmp("otlp traces: bad at byte 1", note.text) == 0);
    f.verdict.needs_memory = true;
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    CHECK(!ss_refusals_take(&f.service.refusals, SS_TRANSPORT_HTTP, SS_REFUSAL_MALFORMED, &note));
    CHECK(ss_refusals_take(&f.service.refusals, SS_TRANSPORT_HTTP, SS_REFUSAL_MEMORY, &note));
    f.verdict = (ss_verdict){.code = SS_CODE_UNAVAILABLE};
    feed(&f, POST("/v1/traces", PROTOBUF, "")); /* refused behind the door, where it is counted */
    CHECK(!ss_refusals_take(&f.service.refusals, SS_TRANSPORT_HTTP, SS_REFUSAL_MEMORY, &note));
    fixture_stop(&f);
}

/* A body that comes in pieces is refused once there is no room for the next, whoever has taken the room. */
static void test_memory_is_counted_before_it_is_held(void) {
    static const char head[] =
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: " PROTOBUF "\r\nContent-Length: 3000\r\n\r\n";
    char piece[1000] = "";
    ss_memory_limit limit = {.bytes = 2500};
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.service.max_held_bytes = 2500;
    for (int i = 0; i < 2; i++) { /* the second time by the limit of the process */
        restart(&f);
        feed(&f, head);
        fixture_feed(&f, piece, sizeof piece);
        fixture_feed(&f, piece, sizeof piece);
        CHECK(f.is_open);
        CHECK_EQUAL(2000, fixture_held_bytes(&f));
        fixture_feed(&f, piece, sizeof piece);
        CHECK(!f.is_open && f.n_accepted == 0);
        CHECK(memcmp(f.connection->output.data, "HTTP/1.1 503", 12) == 0);
        CHECK_EQUAL(i + 1, f.scratch.stats.refused[SS_TRANSPORT_HTTP][SS_REFUSAL_MEMORY]);
        CHECK_EQUAL(0, fixture_held_bytes(&f));
        f.service.max_held_bytes = 0;
        if (i == 0) {
            ss_runtime_add_limit(f.service.runtime, &limit);
        }
    }
    ss_runtime_set_rss(f.service.runtime, 2500 - sizeof piece); /* what others hold counts as well */
    restart(&f);
    feed(&f, head);
    fixture_feed(&f, piece, sizeof piece);
    CHECK(!f.is_open);
    ss_runtime_remove_limit(f.service.runtime, &limit);
    restart(&f);
    feed(&f, head);
    for (int i = 0; i < 3; i++) {
        fixture_feed(&f, piece, sizeof piece);
    }
    CHECK(f.is_open && f.n_accepted == 1);
    fixture_stop(&f);
    CHECK_EQUAL(0, f.held_bytes);
    CHECK_EQUAL(0, f.service.held_bytes);
}

static void test_header_limit(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    feed(&f, "POST /v1/traces HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 5000 && f.is_open; i++) {
        feed(&f, "x-filler: 0123456789\r\n");
    }
    CHECK(!f.is_open);
    EXPECT(&f, "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n"
               "Connection: close\r\nContent-Length: 29\r\n\r\nrequest headers are too large");
    fixture_stop(&f);
}

static void test_timeouts(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.listener.config.read_timeout_ns = SECOND_NS;
    feed(&f, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Le");
    fixture_tick(&f, SECOND_NS / 2);
    CHECK(f.is_open);
    feed(&f, "ngth: 5\r\n");
    fixture_tick(&f, SECOND_NS / 2 + 1);
    CHECK(!f.is_open);
    EXPECT(&f, "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
               "Content-Length: 19\r\n\r\n408 Request Timeout");
    restart(&f);
    fixture_tick(&f, 10ull * SECOND_NS); /* no request at hand: only idle */
    CHECK(f.is_open);
    f.listener.config.idle_timeout_ns = 11ull * SECOND_NS;
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    EXPECT(&f, OK_PROTOBUF);
    fixture_tick(&f, 11ull * SECOND_NS);
    CHECK(f.is_open);
    fixture_tick(&f, 1);
    CHECK(!f.is_open);
    EXPECT(&f, "");
    fixture_stop(&f);
}

/* The head of a request has a limit of its own, from the start of the connection on; its body has the whole one's. */
static void test_header_timeout(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.listener.config.header_timeout_ns = SECOND_NS;
    f.listener.config.idle_timeout_ns = 9ull * SECOND_NS;
    fixture_tick(&f, SECOND_NS + 1);
    CHECK(!f.is_open);
    EXPECT(&f, "");
    restart(&f);
    feed(&f, "POST /v1/traces HTTP/1.1\r\nHost: x\r\n");
    fixture_tick(&f, SECOND_NS + 1);
    CHECK(!f.is_open);
    CHECK(memcmp(f.connection->output.data, "HTTP/1.1 408", 12) == 0);
    restart(&f);
    feed(&f, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: " PROTOBUF "\r\nContent-Length: 5\r\n\r\nhel");
    fixture_tick(&f, 100ull * SECOND_NS);
    CHECK(f.is_open);
    feed(&f, "lo");
    EXPECT(&f, OK_PROTOBUF);
    fixture_tick(&f, 8ull * SECOND_NS); /* between requests it is idle */
    CHECK(f.is_open);
    fixture_stop(&f);
}

/* The longest path that a request's is, or lies below, decides. */
static void test_paths(void) {
    static const struct {
        const char *path;
        int signal; /* -1: none */
    } cases[] = {{"/all/", 0}, {"/all/x", 0}, {"/all/logs/", 2}, {"/all/logs/a/b?c", 2}, {"/all/metrics", 1},
                 {"/all", -1}, {"/allx", -1}, {"/", -1},         {"/all/metrics/", 0},   {"/all/logs", 0}};
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    const char *const paths[] = {"/all/", "/all/metrics", "/all/logs/"};
    memcpy(f.listener.config.paths, paths, sizeof paths);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[200];
        snprintf(request, sizeof request,
                 "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: " PROTOBUF "\r\nContent-Length: 0\r\n\r\n",
                 cases[i].path);
        f.n_accepted = 0;
        feed(&f, request);
        if (f.n_accepted != (cases[i].signal >= 0) || (f.n_accepted && (int)f.signal != cases[i].signal)) {
            fprintf(stderr, "%s: accepted %d, signal %d\n", cases[i].path, f.n_accepted, (int)f.signal);
            CHECK(false);
        }
        f.connection->output.length = 0;
    }
    fixture_stop(&f);
}

/* Only the names that are listed are decoded; with none, bodies are taken as they come. */
static void test_choice_of_encodings(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.listener.config.encodings = 1 << SS_CONTENT_DEFLATE;
    static const char refused[] =
        "HTTP/1.1 415 Unsupported Media Type\r\nContent-Type: application/json\r\nAccept-Encoding: deflate\r\n"
        "Content-Length: %d\r\n\r\n{\"code\":3,\"message\":\"unsupported Content-Encoding: %s; supported: deflate\"}";
    char expected[300];
    snprintf(expected, sizeof expected, refused, 73, "");
    feed(&f, POST("/v1/traces", "application/json", ""));
    EXPECT(&f, expected);
    feed(&f, POST("/nowhere", "text/plain", "")); /* before anything else is looked at */
    EXPECT(&f, expected);
    snprintf(expected, sizeof expected, refused, 77, "zlib");
    feed(&f, POST("/v1/traces", "application/json", "Content-Encoding: zlib\r\n"));
    EXPECT(&f, expected);
    static const uint8_t hi[] = {0x78, 0x01, 0x01, 2, 0, 0xfd, 0xff, 'h', 'i', 0x01, 0x3b, 0, 0xd2};
    ss_buffer request = {0};
    const char head[] = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: " PROTOBUF
                        "\r\nContent-Encoding: deflate\r\nContent-Length: 13\r\n\r\n";
    (void)ss_buffer_append(&request, (const uint8_t *)head, sizeof head - 1);
    (void)ss_buffer_append(&request, hi, sizeof hi);
    fixture_feed(&f, request.data, request.length);
    EXPECT(&f, OK_PROTOBUF);
    CHECK(message_is(&f, "hi"));
    ss_buffer_free(&request);
    f.listener.config.ignores_encoding = true;
    feed(&f, POST("/v1/traces", PROTOBUF, "Content-Encoding: br\r\n"));
    EXPECT(&f, OK_PROTOBUF);
    CHECK(message_is(&f, "hello"));
    fixture_stop(&f);
}

/* Other protocols are told so, and counted. */
static void test_other_protocols_on_this_port(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    feed(&f, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    CHECK(!f.is_open);
    CHECK(memcmp(f.connection->output.data, "HTTP/1.1 400", 12) == 0);
    CHECK_EQUAL(1, f.scratch.stats.misdirected[SS_TRANSPORT_HTTP][SS_STRANGER_HTTP2]);
    restart(&f);
    feed(&f, "\x16\x03\x01\x02");
    CHECK(!f.is_open);
    CHECK(memcmp(f.connection->output.data, "HTTP/1.1 400", 12) == 0);
    CHECK_EQUAL(1, f.scratch.stats.misdirected[SS_TRANSPORT_HTTP][SS_STRANGER_TLS]);
    CHECK_EQUAL(2, f.scratch.stats.protocol_errors);
    fixture_stop(&f);
}

/* Headers of the configuration are in every answer to a request; a connection may be for one request only. */
static void test_configured_answers(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.listener.config.response_headers = "X-A: b\r\nX-C: d\r\n";
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    EXPECT(&f,
           "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nX-A: b\r\nX-C: d\r\n\r\n");
    feed(&f, POST("/nowhere", PROTOBUF, ""));
    EXPECT(&f, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\nX-A: b\r\n"
               "X-C: d\r\n\r\n404 page not found\n");
    f.listener.config.response_headers = NULL;
    f.listener.config.closes_after_answer = true;
    feed(&f, POST("/v1/traces", PROTOBUF, "") POST("/v1/traces", PROTOBUF, ""));
    EXPECT(&f,
           "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    CHECK(!f.is_open);
    fixture_stop(&f);
}

/* ------------------------------------------------------------------ CORS */

#define PREFLIGHT(origin, method, headers)                                                                             \
    "OPTIONS /v1/traces HTTP/1.1\r\nHost: x\r\nOrigin: " origin "\r\nAccess-Control-Request-Method: " method           \
    "\r\n" headers "\r\n"
#define PREFLIGHT_VARY "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n"
#define PREFLIGHT_REFUSED "HTTP/1.1 204 No Content\r\n" PREFLIGHT_VARY "\r\n"
#define ALLOWED(origin) "Access-Control-Allow-Origin: " origin "\r\nAccess-Control-Allow-Credentials: true\r\n"

static void set_cors(fixture *f, const ss_cors_config *config) {
    ss_cors_free(f->listener.cors);
    f->listener.cors = config ? ss_cors_new(config) : NULL;
    restart(f);
}

static void test_preflights(void) {
    static const char *const origins[] = {"https://Shop.example", "http://*.pages.example:8080"};
    static const char *const headers[] = {"X-Tenant", "content-type", "Authorization"};
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    set_cors(&f, &(ss_cors_config){.origins = origins, .n_origins = 2, .max_age_s = 600});
    feed(&f, PREFLIGHT("https://shop.example", "POST", "Access-Control-Request-Headers: content-type\r\n"));
    EXPECT(&f, "HTTP/1.1 204 No Content\r\n" PREFLIGHT_VARY ALLOWED(
                   "https://shop.example") "Access-Control-Allow-Methods: POST\r\nAccess-Control-Allow-Headers: "
                                           "content-type\r\n"
                                           "Access-Control-Max-Age: 600\r\n\r\n");
    CHECK(f.is_open && f.n_accepted == 0);
    feed(&f, PREFLIGHT("http://a.b.pages.example:8080", "GET", ""));
    EXPECT(&f, "HTTP/1.1 204 No Content\r\n" PREFLIGHT_VARY ALLOWED(
                   "http://a.b.pages.example:8080") "Access-Control-Allow-Methods: GET\r\nAccess-Control-Max-Age: "
                                                    "600\r\n\r\n");
    static const char *const refused[] = {
        PREFLIGHT("https://shop.example:1", "POST", ""),
        PREFLIGHT("https://other.example", "POST", ""),
        PREFLIGHT("http://pages.example:8080", "POST", ""),
        PREFLIGHT("", "POST", ""),
        PREFLIGHT("https://shop.example", "PUT", ""),
        PREFLIGHT("https://shop.example", "post", ""),
        PREFLIGHT("https://shop.example", "POST", "Access-Control-Request-Headers: content-type,x-tenant\r\n"),
        PREFLIGHT("https://shop.example", "POST", "Access-Control-Request-Headers: content-type,accept\r\n"),
        PREFLIGHT("https://shop.example", "POST", "Access-Control-Request-Headers: accept,accept\r\n"),
        PREFLIGHT("https://shop.example", "POST", "Access-Control-Request-Headers: Accept\r\n"),
        PREFLIGHT("https://shop.example", "POST", "Access-Control-Request-Headers: accept,  content-type\r\n"),
        PREFLIGHT("https://shop.example", "POST", "Access-Control-Request-Headers: ,,,,,,,,,,,,,,,,, ,accept\r\n"),
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        feed(&f, refused[i]);
        EXPECT(&f, PREFLIGHT_REFUSED);
    }
    set_cors(
        &f, &(ss_cors_config){.origins = origins, .n_origins = 2, .headers = headers, .n_headers = 3, .max_age_s = -1});
    feed(&f, PREFLIGHT("https://shop.example", "POST",
                       "Access-Control-Request-Headers: authorization, content-type ,,x-tenant\r\n"));
    EXPECT(&f, "HTTP/1.1 204 No Content\r\n" PREFLIGHT_VARY ALLOWED(
                   "https://shop.example") "Access-Control-Allow-Methods: POST\r\n"
                                           "Access-Control-Allow-Headers: authorization, content-type ,,x-tenant\r\n"
                                           "Access-Control-Max-Age: 0\r\n\r\n");
    static const char *const all[] = {"*"};
    set_cors(&f, &(ss_cors_config){.origins = all, .n_origins = 1, .headers = all, .n_headers = 1});
    feed(&f, PREFLIGHT("null", "OPTIONS", "Access-Control-Request-Headers: Any-Thing\r\n"));
    EXPECT(&f, "HTTP/1.1 204 No Content\r\n" PREFLIGHT_VARY ALLOWED(
                   "*") "Access-Control-Allow-Methods: OPTIONS\r\nAccess-Control-Allow-Headers: Any-Thing\r\n\r\n");
    set_cors(&f, NULL);
    feed(&f, PREFLIGHT("null", "POST", "")); /* without CORS it is a method like any other */
    CHECK(memcmp(f.connection->output.data, "HTTP/1.1 405", 12) == 0);
    fixture_stop(&f);
}

static void test_cross_origin_requests(void) {
    static const char *const origins[] = {"*.example"};
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    set_cors(&f, &(ss_cors_config){.origins = origins, .n_origins = 1, .exposed_headers = "X-Id, Retry-After"});
    f.listener.config.response_headers = "X-A: b\r\n";
    feed(&f, POST("/v1/traces", PROTOBUF, "Origin: https://a.example\r\n"));
    EXPECT(&f, "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nX-A: b\r\nVary: "
               "Origin\r\n" ALLOWED("https://a.example") "Access-Control-Expose-Headers: X-Id, Retry-After\r\n\r\n");
    /* What the request before has said is forgotten. */
    feed(&f, POST("/v1/traces", PROTOBUF, ""));
    static const char plain[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nX-A: b\r\n"
        "Vary: Origin\r\n\r\n";
    EXPECT(&f, plain);
    feed(&f, POST("/v1/traces", PROTOBUF, "Origin: https://a.example.org\r\n"));
    EXPECT(&f, plain); /* refused by the browser, not by us */
    CHECK_EQUAL(3, f.n_accepted);
    /* An origin that is too long to be looked at as a whole is none that its beginning may be taken for. */
    char request[2000], origin[520];
    memset(origin, 'a', sizeof origin);
    memcpy(origin + 504, ".example.evil", 13);
    snprintf(request, sizeof request, POST("/v1/traces", PROTOBUF, "Origin: %.517s\r\n"), origin);
    feed(&f, request);
    EXPECT(&f, plain);
    /* Not even where it arrives in pieces, of which the last one is empty. */
    snprintf(request, sizeof request,
             "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: " PROTOBUF "\r\nOrigin: %.517s", origin);
    feed(&f, request);
    feed(&f, "\r\nContent-Length: 5\r\n\r\nhello");
    EXPECT(&f, plain);
    feed(&f, "OPTIONS /v1/traces HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n\r\n"); /* no preflight */
    EXPECT(&f, "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\nAllow: POST\r\n"
               "Content-Length: 41\r\nX-A: b\r\nVary: Origin\r\n" ALLOWED(
                   "https://a.example") "Access-Control-Expose-Headers: X-Id, Retry-After\r\n\r\n405 method not "
                                        "allowed, supported: [POST]");
    fixture_stop(&f);
}

static void test_drain(void) {
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    CHECK(f.connection->protocol->drain(f.connection)); /* idle: a request may be on its way */
    fixture_tick(&f, SECOND_NS / 10);
    CHECK(f.is_open);
    fixture_tick(&f, SECOND_NS / 5);
    CHECK(!f.is_open);
    restart(&f);
    feed(&f,
         "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 5\r\n\r\nhel");
    CHECK(f.connection->protocol->drain(f.connection));
    feed(&f, "lo");
    EXPECT(&f,
           "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    CHECK(!f.is_open);
    CHECK_EQUAL(1, f.n_accepted);
    fixture_stop(&f);
}

static void expect_admin_at(int line, fixture *f, const char *method, const char *path, const char *query) {
    ss_admin_request request = {0};
    if (!ss_admin_pop(&f->service.admin, &request) || request.token != f->connection->admin_token ||
        strcmp(method, request.method) != 0 || strcmp(path, request.path) != 0 || strcmp(query, request.query) != 0) {
        fprintf(stderr, "line %d: got %s %s ? %s\n", line, request.method, request.path, request.query);
        CHECK(false);
    }
}

/* Two requests at once to an admin listener: the second waits for the reply to the first. */
static void test_admin(void) {
    fixture f;
    ss_admin_request none;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.listener.config.is_admin = true;
    feed(&f, "GET /metrics?name=x HTTP/1.1\r\nHost: x\r\n\r\nHEAD /health? HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT(&f, "");
    expect_admin_at(__LINE__, &f, "GET", "/metrics", "name=x");
    CHECK(!ss_admin_pop(&f.service.admin, &none));
    CHECK(ss_http1_reply(f.connection, 200, "text/plain", (const uint8_t *)"up 1\n", 5));
    EXPECT(&f, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nup 1\n");
    expect_admin_at(__LINE__, &f, "HEAD", "/health", "");
    CHECK(ss_http1_reply(f.connection, 503, "application/json", (const uint8_t *)"{}", 2));
    EXPECT(&f, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n");
    feed(&f, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
    CHECK(f.is_open);
    expect_admin_at(__LINE__, &f, "POST", "/", "");
    CHECK(!ss_http1_reply(f.connection, 405, "text/plain", (const uint8_t *)"", 0));
    EXPECT(&f,
           "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain\r\nAllow: GET, HEAD\r\nConnection: close\r\n"
           "Content-Length: 0\r\n\r\n");
    restart(&f);
    char longer[700] = "GET /";
    memset(longer + 5, 'x', 600);
    memcpy(longer + 605, " HTTP/1.1\r\nHost: x\r\n\r\n", 22);
    feed(&f, longer);
    CHECK(!ss_admin_pop(&f.service.admin, &none));
    CHECK(f.connection->output.length > 12 && memcmp(f.connection->output.data, "HTTP/1.1 404", 12) == 0);
    feed(&f, "GET /left HTTP/1.1\r\nHost: x\r\n\r\n"); /* gone before the reply */
    fixture_stop(&f);
}

int main(void) {
    test_signals_and_payloads();
    test_metadata();
    test_refusals();
    test_verdicts();
    test_encodings();
    test_every_cut();
    test_too_large_stops_the_read();
    test_expect_continue();
    test_keep_alive();
    test_whole_targets();
    test_malformed();
    test_header_limit();
    test_timeouts();
    test_header_timeout();
    test_syntax();
    test_pipelined_requests_wait_for_their_client();
    test_refusals_are_counted_and_described();
    test_memory_is_counted_before_it_is_held();
    test_paths();
    test_choice_of_encodings();
    test_other_protocols_on_this_port();
    test_configured_answers();
    test_preflights();
    test_cross_origin_requests();
    test_drain();
    test_admin();
    return check_finish();
}
