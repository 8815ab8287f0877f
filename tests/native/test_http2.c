/* OTLP/gRPC in memory: an nghttp2 client session for what clients do, bytes made by hand for what they should not. */
#include "check.h"
#include "transport_fixture.h"

#include "net/exchange.h"
#include "net/grpc.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define TRACES "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
#define METRICS "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
#define LOGS "/opentelemetry.proto.collector.logs.v1.LogsService/Export"

enum { MAX_CALLS = 400, HEADER_BYTES = 9, SECOND_NS = 1000000000 };

/* ------------------------------------------------------------------ the client */

typedef struct call {
    const uint8_t *body;
    size_t length, sent;
    size_t piece; /* bytes of a DATA frame; 0: as many as fit */
    bool withholds_end;
    int http_status;
    int grpc_status; /* -1: none came */
    char message[512];
    char details[512];
    char content_type[64];
    uint8_t data[600];
    size_t data_length;
    bool is_closed;
    uint32_t error_code;
} call;

typedef struct client {
    fixture server;
    nghttp2_session *session;
    call calls[MAX_CALLS]; /* by (stream id - 1) / 2 */
    size_t chunk;          /* bytes the server is fed at once; 0: all */
    size_t padding;
    uint32_t goaway_code;
    char goaway_text[32];
    int n_goaways;
    int32_t goaway_last_id;
    int n_pings; /* not answers */
} client;

static call *call_of(client *c, int32_t id) {
    return &c->calls[(id - 1) / 2];
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t capacity, uint32_t *flags,
                         nghttp2_data_source *source, void *user) {
    (void)session, (void)id, (void)user;
    call *k = source->ptr;
    size_t size = k->length - k->sent;
    size = size < capacity ? size : capacity;
    size = k->piece && k->piece < size ? k->piece : size;
    memcpy(out, k->body + k->sent, size);
    k->sent += size;
    if (k->sent == k->length) {
        if (k->withholds_end && size == 0) {
            return NGHTTP2_ERR_DEFERRED;
        }
        *flags |= k->withholds_end ? 0 : NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)size;
}

static ssize_t pad(nghttp2_session *session, const nghttp2_frame *frame, size_t max_length, void *user) {
    (void)session;
    size_t length = frame->hd.length + ((client *)user)->padding;
    return (ssize_t)(length < max_length ? length : max_length);
}

static void keep(char *to, size_t capacity, const uint8_t *value, size_t length) {
    snprintf(to, capacity, "%.*s", (int)length, (const char *)value);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t length, uint8_t flags, void *user) {
    (void)session, (void)flags;
    call *k = call_of(user, frame->hd.stream_id);
    char text[64];
    keep(text, sizeof text, name, name_length);
    if (strcmp(text, ":status") == 0) {
        k->http_status = atoi((const char *)value);
    } else if (strcmp(text, "grpc-status") == 0) {
        k->grpc_status = atoi((const char *)value);
    } else if (strcmp(text, "grpc-message") == 0) {
        keep(k->message, sizeof k->message, value, length);
    } else if (strcmp(text, "grpc-status-details-bin") == 0) {
        keep(k->details, sizeof k->details, value, length);
    } else if (strcmp(text, "content-type") == 0) {
        keep(k->content_type, sizeof k->content_type, value, length);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t length,
                   void *user) {
    (void)session, (void)flags;
    call *k = call_of(user, id);
    for (size_t i = 0; i < length && k->data_length < sizeof k->data; i++) {
        k->data[k->data_length++] = data[i];
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user) {
    (void)session;
    call_of(user, id)->is_closed = true;
    call_of(user, id)->error_code = code;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    (void)session;
    client *c = user;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        c->n_goaways++;
        c->goaway_code = frame->goaway.error_code;
        c->goaway_last_id = frame->goaway.last_stream_id;
        keep(c->goaway_text, sizeof c->goaway_text, frame->goaway.opaque_data, frame->goaway.opaque_data_len);
    }
    c->n_pings += frame->hd.type == NGHTTP2_PING && !(frame->hd.flags & NGHTTP2_FLAG_ACK);
    return 0;
}

static void client_connect(client *c) {
    nghttp2_session_callbacks *callbacks;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_select_padding_callback(callbacks, pad);
    nghttp2_option *option;
    nghttp2_option_new(&option);
    nghttp2_option_set_max_send_header_block_length(option, 1 << 20);
    nghttp2_session_client_new2(&c->session, callbacks, c, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, NULL, 0);
}

/* After a change of the configuration that counts from the start of a connection. */
static void client_reconnect(client *c) {
    nghttp2_session_del(c->session);
    fixture_disconnect(&c->server);
    fixture_connect(&c->server);
    client_connect(c);
}

static client *client_new(void) {
    client *c = calloc(1, sizeof *c);
    fixture_start(&c->server, SS_TRANSPORT_GRPC);
    client_connect(c);
    return c;
}

static void client_free(client *c) {
    nghttp2_session_del(c->session);
    fixture_stop(&c->server);
    CHECK_EQUAL(0, c->server.held_bytes);
    free(c);
}

/* Move bytes both ways until neither side has more to say. */
static void exchange(client *c) {
    for (bool moved = true; moved;) {
        moved = false;
        const uint8_t *bytes;
        for (ssize_t n; (n = nghttp2_session_mem_send(c->session, &bytes)) > 0;) {
            moved = true;
            size_t step = c->chunk ? c->chunk : (size_t)n;
            for (size_t pos = 0; pos < (size_t)n; pos += step) {
                size_t left = (size_t)n - pos;
                fixture_feed(&c->server, bytes + pos, left < step ? left : step);
            }
        }
        ss_buffer *output = &c->server.connection->output;
        if (output->length) {
            moved = true;
            (void)nghttp2_session_mem_recv(c->session, output->data, output->length);
            output->length = 0;
        }
    }
}

static nghttp2_nv nv(const char *name, const char *value) {
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

typedef struct options {
    const char *path, *method, *content_type, *encoding, *timeout, *length;
    size_t piece;
    bool withholds_end;
    size_t filler; /* bytes of one more header */
} options;

/* Start a call; its frames go out with exchange. */
static call *start_call(client *c, const options *o, const void *body, size_t length) {
    char *filler = calloc(1, o->filler + 1);
    memset(filler, 'x', o->filler);
    nghttp2_nv headers[11] = {nv(":method", o->method ? o->method : "POST"),
                              nv(":scheme", "http"),
                              nv(":path", o->path ? o->path : TRACES),
                              nv(":authority", "localhost"),
                              nv("te", "trailers"),
                              nv("grpc-timeout", o->timeout ? o->timeout : "10S")};
    size_t n = 6;
    if (!o->content_type || o->content_type[0]) {
        headers[n++] = nv("content-type", o->content_type ? o->content_type : "application/grpc");
    }
    if (o->encoding) {
        headers[n++] = nv("grpc-encoding", o->encoding);
    }
    if (o->length) {
        headers[n++] = nv("content-length", o->length);
    }
    if (o->filler) {
        headers[n++] = nv("filler", filler);
        headers[n - 1].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    }
    int32_t id = nghttp2_session_get_next_stream_id(c->session);
    call *k = call_of(c, id);
    *k =
        (call){.body = body, .length = length, .grpc_status = -1, .piece = o->piece, .withholds_end = o->withholds_end};
    nghttp2_data_provider provider = {.source.ptr = k, .read_callback = read_body};
    CHECK_EQUAL(id, nghttp2_submit_request(c->session, NULL, headers, n, body ? &provider : NULL, NULL));
    free(filler);
    return k;
}

static call *run_call(client *c, const options *o, const void *body, size_t length) {
    call *k = start_call(c, o, body, length);
    exchange(c);
    return k;
}

/* Send the rest of a call that has withheld its end. */
static void finish_call(client *c, call *k, size_t length) {
    k->length = length;
    k->withholds_end = false;
    nghttp2_session_resume_data(c->session, (int32_t)(k - c->calls) * 2 + 1);
    exchange(c);
}

static uint8_t *frame_message(uint8_t flag, const void *message, size_t length) {
    uint8_t *framed = malloc(length + SS_GRPC_PREFIX_BYTES);
    framed[0] = flag;
    for (int i = 0; i < 4; i++) {
        framed[1 + i] = (uint8_t)(length >> (24 - 8 * i));
    }
    memcpy(framed + SS_GRPC_PREFIX_BYTES, message, length);
    return framed;
}

static void check_success(const call *k) {
    static const uint8_t empty[SS_GRPC_PREFIX_BYTES] = {0};
    CHECK_EQUAL(200, k->http_status);
    CHECK_EQUAL(0, k->grpc_status);
    CHECK(strcmp("application/grpc", k->content_type) == 0);
    CHECK(k->data_length == sizeof empty && memcmp(k->data, empty, sizeof empty) == 0);
    CHECK(k->is_closed && k->error_code == NGHTTP2_NO_ERROR);
}

static void check_failure_at(int line, const call *k, int http_status, int grpc_status, const char *message) {
    if (http_status != k->http_status || grpc_status != k->grpc_status || strcmp(message, k->message) != 0 ||
        k->data_length || !k->is_closed) {
        fprintf(stderr, "line %d: wanted %d %d '%s', got %d %d '%s', closed %d\n", line, http_status, grpc_status,
                message, k->http_status, k->grpc_status, k->message, k->is_closed);
        CHECK(false);
    }
}

#define CHECK_FAILURE(k, http_status, grpc_status, message)                                                            \
    check_failure_at(__LINE__, k, http_status, grpc_status, message)

/* ------------------------------------------------------------------ calls */

static void test_signals(void) {
    static const char *const paths[] = {TRACES, METRICS, LOGS};
    client *c = client_new();
    uint8_t *body = frame_message(0, "hello", 5);
    for (int i = 0; i < 3; i++) {
        call *k =
            run_call(c, &(options){.path = paths[i], .content_type = i ? "application/grpc+proto" : NULL}, body, 10);
        check_success(k);
        CHECK_EQUAL(i + 1, c->server.n_accepted);
        CHECK_EQUAL(i, c->server.signal);
        CHECK_EQUAL(SS_TRANSPORT_GRPC, c->server.transport);
        CHECK(c->server.message.length == 5 && memcmp(c->server.message.data, "hello", 5) == 0);
    }
    check_success(run_call(c, &(options){.encoding = "gzip"}, body, 10)); /* announced, not used */
    free(body);
    client_free(c);
}

/* What is asked for is kept until the request is complete; the authority is the host as well. */
static void test_metadata(void) {
    static const char *const names[] = {"host", "te", "x-tenant"};
    static const char block[] = "\4host\11localhost\2te\10trailers";
    client *c = client_new();
    uint8_t *body = frame_message(0, "hello", 5);
    check_success(run_call(c, &(options){0}, body, 10));
    CHECK_EQUAL(0, c->server.metadata.length); /* nobody asks */
    CHECK_EQUAL(SS_OK, ss_names_copy(&c->server.listener.metadata_names, names, 3));
    check_success(run_call(c, &(options){.piece = 3}, body, 10));
    CHECK(c->server.metadata.length == sizeof block - 1 &&
          memcmp(c->server.metadata.data, block, sizeof block - 1) == 0);
    free(body);
    client_free(c);
}

static void test_empty_message(void) {
    client *c = client_new();
    static const uint8_t body[SS_GRPC_PREFIX_BYTES] = {0};
    check_success(run_call(c, &(options){0}, body, sizeof body));
    CHECK_EQUAL(1, c->server.n_accepted);
    CHECK_EQUAL(0, c->server.message.length);
    client_free(c);
}

static void test_encodings(void) {
    static const struct {
        const char *name;
        ss_encoding encoding;
    } known[] = {{"gzip", SS_ENCODING_GZIP}, {"zstd", SS_ENCODING_ZSTD}, {"snappy", SS_ENCODING_SNAPPY_FRAMED}};
    client *c = client_new();
    ss_codec *codec = ss_codec_new();
    uint8_t message[5000] = {1, 2, 3};
    for (size_t i = 0; i < 3; i++) {
        if (!ss_encoding_is_available(known[i].encoding)) {
            continue;
        }
        ss_buffer packed = {0};
        CHECK_EQUAL(SS_OK, ss_compress(codec, known[i].encoding, 0, message, sizeof message, &packed));
        uint8_t *body = frame_message(1, packed.data, packed.length);
        check_success(run_call(c, &(options){.encoding = known[i].name}, body, packed.length + 5));
        CHECK(c->server.message.length == sizeof message);
        CHECK(memcmp(c->server.message.data, message, sizeof message) == 0);
        body[5] ^= 0xff;
        body[8] ^= 0xff;
        call *k = run_call(c, &(options){.encoding = known[i].name}, body, packed.length + 5);
        CHECK_EQUAL(SS_CODE_INTERNAL, k->grpc_status);
        CHECK(strncmp(k->message, "grpc: failed to decompress the received message: ", 49) == 0);
        free(body);
        ss_buffer_free(&packed);
    }
    ss_codec_free(codec);
    client_free(c);
}

static void test_split_at_every_byte(void) {
    uint8_t *body = frame_message(0, "0123456789abcdef", 16);
    for (size_t chunk = 1; chunk < 60; chunk++) {
        client *c = client_new();
        c->chunk = chunk;
        c->padding = chunk % 7 * 5;
        check_success(run_call(c, &(options){.piece = chunk % 22}, body, 21));
        CHECK(c->server.message.length == 16 && memcmp(c->server.message.data, "0123456789abcdef", 16) == 0);
        client_free(c);
    }
    free(body);
}

static void test_interleaved_streams(void) {
    enum { STREAMS = 150, LENGTH = 9000 };
    client *c = client_new();
    c->server.listener.config.max_message_bytes = LENGTH;
    uint8_t *bodies[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        uint8_t message[LENGTH];
        memset(message, i, sizeof message);
        bodies[i] = frame_message(0, message, sizeof message);
        start_call(c, &(options){.piece = 1000}, bodies[i], LENGTH + 5);
    }
    c->chunk = 5000;
    exchange(c);
    int n_ok = 0;
    for (int i = 0; i < STREAMS; i++) {
        /* The bytes of unfinished requests are bounded on a connection: some may be told to come again. */
        n_ok += c->calls[i].grpc_status == SS_CODE_OK;
        CHECK(c->calls[i].grpc_status == SS_CODE_OK || c->calls[i].grpc_status == SS_CODE_RESOURCE_EXHAUSTED);
        CHECK(c->calls[i].is_closed);
        free(bodies[i]);
    }
    CHECK(n_ok >= 10);
    CHECK_EQUAL(n_ok, c->server.n_accepted);
    CHECK_EQUAL((size_t)n_ok * LENGTH, c->server.total_bytes);
    client_free(c);
}

static void test_message_over_a_window(void) {
    enum { LENGTH = 10 << 20 };
    client *c = client_new();
    c->server.listener.config.max_message_bytes = LENGTH;
    uint8_t *message = malloc(LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        message[i] = (uint8_t)(i * 31 >> 8);
    }
    uint8_t *body = frame_message(0, message, LENGTH);
    check_success(run_call(c, &(options){0}, body, LENGTH + 5));
    CHECK(c->server.message.length == LENGTH && memcmp(c->server.message.data, message, LENGTH) == 0);
    free(body);
    free(message);
    client_free(c);
}

/* ------------------------------------------------------------------ refusals */

static void test_quoting(void) {
    char quoted[15];
    ss_quote((const uint8_t *)"a\"\\\x01\xff", 5, quoted, sizeof quoted);
    CHECK(strcmp(quoted, "\"a\\\"\\\\\\x01\"") == 0); /* cut where an escape would not fit */
    ss_quote((const uint8_t *)"", 0, quoted, sizeof quoted);
    CHECK(strcmp(quoted, "\"\"") == 0);
}

static void test_refusals(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "x", 1);
    c->server.lacks_signal[SS_SIGNAL_LOGS] = true;
    CHECK_FAILURE(run_call(c, &(options){.path = LOGS}, body, 6), 200, 12,
                  "unknown service opentelemetry.proto.collector.logs.v1.LogsService");
    CHECK_FAILURE(
        run_call(c, &(options){.path = "/opentelemetry.proto.collector.trace.v1.TraceService/Import"}, body, 6), 200,
        12, "unknown method Import for service opentelemetry.proto.collector.trace.v1.TraceService");
    CHECK_FAILURE(run_call(c, &(options){.path = "/grpc.health.v1.Health/Check"}, body, 6), 200, 12,
                  "unknown service grpc.health.v1.Health");
    CHECK_FAILURE(run_call(c, &(options){.path = "/nothing"}, body, 6), 200, 12, "malformed method name: \"/nothing\"");
    CHECK_FAILURE(run_call(c, &(options){.path = "/s%/m"}, body, 6), 200, 12, "unknown service s%25");
    CHECK_FAILURE(run_call(c, &(options){.content_type = "application/grpcx"}, body, 6), 415, 3,
                  "invalid gRPC request content-type \"application/grpcx\"");
    CHECK_FAILURE(run_call(c, &(options){.content_type = ""}, body, 6), 415, 3,
                  "malformed header: missing HTTP content-type");
    CHECK_FAILURE(run_call(c, &(options){.method = "PUT"}, body, 6), 405, 13,
                  "Received a HEADERS frame with :method \"PUT\" which should be POST");
    CHECK_FAILURE(run_call(c, &(options){.encoding = "br"}, body, 6), 200, 12,
                  "grpc: Decompressor is not installed for grpc-encoding \"br\"");
    call *large = run_call(c, &(options){.filler = 65400}, body, 6);
    CHECK_EQUAL(SS_CODE_RESOURCE_EXHAUSTED, large->grpc_status);
    CHECK(strncmp(large->message, "request headers larger than max (", 33) == 0);
    CHECK_FAILURE(run_call(c, &(options){0}, body, 3), 200, 13, "unexpected EOF");
    CHECK_FAILURE(run_call(c, &(options){0}, body, 5), 200, 13, "unexpected EOF");
    CHECK_FAILURE(run_call(c, &(options){0}, body, 0), 200, 13,
                  "cardinality violation: received no request message from non-client-streaming RPC");
    CHECK_FAILURE(run_call(c, &(options){0}, NULL, 0), 200, 13,
                  "cardinality violation: received no request message from non-client-streaming RPC");
    uint8_t twice[12];
    memcpy(twice, body, 6);
    memcpy(twice + 6, body, 6);
    for (size_t piece = 0; piece < 12; piece++) {
        CHECK_FAILURE(run_call(c, &(options){.piece = piece}, twice, 12), 200, 13,
                      "cardinality violation: received multiple request messages for non-client-streaming RPC");
    }
    body[0] = 1;
    CHECK_FAILURE(run_call(c, &(options){0}, body, 6), 200, 13,
                  "grpc: compressed flag set with identity or empty encoding");
    body[0] = 2;
    CHECK_FAILURE(run_call(c, &(options){0}, body, 6), 200, 13, "grpc: received unexpected payload format 2");
    CHECK_EQUAL(0, c->server.n_accepted);
    body[0] = 0;
    check_success(run_call(c, &(options){0}, body, 6)); /* the connection has come through it all */
    free(body);
    client_free(c);
}

static void test_sizes(void) {
    client *c = client_new();
    c->server.listener.config.max_message_bytes = 1000;
    uint8_t message[2000] = {0};
    uint8_t *body = frame_message(0, message, 1000);
    check_success(run_call(c, &(options){0}, body, 1005));
    free(body);
    body = frame_message(0, message, 1001);
    CHECK_FAILURE(run_call(c, &(options){0}, body, 1006), 200, 8,
                  "grpc: received message larger than max (1001 vs. 1000)");
    /* Refused by its prefix, before it is there. */
    CHECK_FAILURE(run_call(c, &(options){.withholds_end = true}, body, 5), 200, 8,
                  "grpc: received message larger than max (1001 vs. 1000)");
    memset(body + 1, 0xff, 4);
    CHECK_FAILURE(run_call(c, &(options){.withholds_end = true}, body, 5), 200, 8,
                  "grpc: received message larger than max (4294967295 vs. 1000)");
    free(body);
    ss_codec *codec = ss_codec_new();
    ss_buffer packed = {0};
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_ZSTD, 0, message, 1001, &packed));
    body = frame_message(1, packed.data, packed.length);
    CHECK_FAILURE(run_call(c, &(options){.encoding = "zstd"}, body, packed.length + 5), 200, 8,
                  "grpc: received message after decompression larger than max (1001 vs. 1000)");
    free(body);
    ss_buffer_free(&packed);
    ss_codec_free(codec);
    CHECK_EQUAL(1, c->server.n_accepted);
    client_free(c);
}

/* A length of 4 GB that is within the limit costs only what has arrived. */
static void test_lying_length_costs_nothing(void) {
    client *c = client_new();
    c->server.listener.config.max_message_bytes = UINT32_MAX;
    uint8_t body[105] = {0, 0xff, 0xff, 0xff, 0xff};
    call *k = start_call(c, &(options){.withholds_end = true, .piece = 50}, body, sizeof body);
    exchange(c);
    CHECK_EQUAL(-1, k->grpc_status);
    CHECK_EQUAL(sizeof body, fixture_held_bytes(&c->server));
    client_free(c);
}

static void test_verdicts(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "x", 1);
    c->server.verdict = (ss_verdict){.code = SS_CODE_UNAVAILABLE, .message = "data refused: 100% \xc3\xa9\xff"};
    CHECK_FAILURE(run_call(c, &(options){0}, body, 6), 200, 14, "data refused: 100%25 %C3%A9?");
    c->server.verdict = (ss_verdict){
        .code = SS_CODE_RESOURCE_EXHAUSTED, .has_retry_delay = true, .retry_delay_ms = 1500, .message = "full"};
    call *k = run_call(c, &(options){0}, body, 6);
    CHECK_FAILURE(k, 200, 8, "full");
    /* Status {code 8, message "full", Any RetryInfo {1 s, 500000000 ns}}, from Google's own encoder. */
    CHECK(strcmp("CAgSBGZ1bGwaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIARCAyrXuAQ",
                 k->details) == 0);
    c->server.verdict = (ss_verdict){.rejected_items = 300, .message = "no"};
    k = run_call(c, &(options){0}, body, 6);
    static const uint8_t partial[] = {0, 0, 0, 0, 9, 0x0a, 7, 0x08, 0xac, 0x02, 0x12, 2, 'n', 'o'};
    CHECK_EQUAL(0, k->grpc_status);
    CHECK(k->data_length == sizeof partial && memcmp(k->data, partial, sizeof partial) == 0);
    free(body);
    client_free(c);
}

/* ------------------------------------------------------------------ answers that come later */

static void test_timeouts_are_read(void) {
    static const struct {
        const char *text;
        uint64_t ns;
    } cases[] = {{"1n", 1},
                 {"99999999u", 99999999000},
                 {"20m", 20000000},
                 {"3S", 3000000000},
                 {"2M", 120000000000},
                 {"1H", 3600000000000},
                 {"00000000S", 0},
                 {"99999999H", UINT64_MAX}, /* more than there is */
                 {"", UINT64_MAX},
                 {"S", UINT64_MAX},
                 {"1", UINT64_MAX},
                 {"1s", UINT64_MAX},
                 {"-1S", UINT64_MAX},
                 {"1 S", UINT64_MAX},
                 {"123456789S", UINT64_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_EQUAL(cases[i].ns, ss_grpc_read_timeout((const uint8_t *)cases[i].text, strlen(cases[i].text)));
    }
}

/* A call that is reset takes its request back, and its late answer goes nowhere; the next one is not affected. */
static void test_reset_while_pending(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "hello", 5);
    c->server.verdict.is_pending = true;
    call *gone = run_call(c, &(options){0}, body, 10), *patient = run_call(c, &(options){0}, body, 10);
    CHECK_EQUAL(2, c->server.n_waiting);
    nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, 1, NGHTTP2_CANCEL);
    exchange(c);
    CHECK_EQUAL(1, c->server.n_cancelled);
    fixture_answer(&c->server);
    fixture_answer(&c->server);
    exchange(c);
    CHECK_EQUAL(-1, gone->grpc_status);
    check_success(patient);
    CHECK_EQUAL(1, c->server.n_cancelled);
    run_call(c, &(options){0}, body, 10); /* is there when the connection goes */
    CHECK_EQUAL(1, c->server.n_waiting);
    fixture_disconnect(&c->server);
    CHECK_EQUAL(2, c->server.n_cancelled);
    fixture_connect(&c->server);
    free(body);
    client_free(c);
}

/* Whoever has said how long it waits is waited with for so long, whatever the order. */
static void test_deadlines_while_pending(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "hello", 5);
    c->server.verdict.is_pending = true;
    call *late = run_call(c, &(options){.timeout = "30S"}, body, 10);
    uint64_t begun_ns = c->server.scratch.now_ns;
    CHECK_EQUAL(begun_ns + 30ull * SECOND_NS, c->server.deadline_ns);
    call *never = run_call(c, &(options){.timeout = "broken"}, body, 10);
    CHECK_EQUAL(UINT64_MAX, c->server.deadline_ns);
    call *early = run_call(c, &(options){.timeout = "500m"}, body, 10);
    CHECK(c->server.connection->wake_ns >= begun_ns + SECOND_NS / 2);
    CHECK(c->server.connection->wake_ns <= begun_ns + SECOND_NS / 2 + SECOND_NS / 50);
    fixture_tick(&c->server, SECOND_NS / 2 - 1);
    exchange(c);
    CHECK(!early->is_closed);
    fixture_tick(&c->server, SECOND_NS / 50);
    exchange(c);
    CHECK(early->is_closed && early->error_code == NGHTTP2_CANCEL && early->grpc_status == -1);
    CHECK_EQUAL(1, c->server.n_cancelled);
    CHECK(c->server.connection->wake_ns > begun_ns + 29ull * SECOND_NS);
    fixture_tick(&c->server, 29ull * SECOND_NS);
    exchange(c);
    CHECK(!late->is_closed);
    fixture_tick(&c->server, SECOND_NS);
    exchange(c);
    CHECK(late->is_closed && late->error_code == NGHTTP2_CANCEL);
    CHECK_EQUAL(UINT64_MAX, c->server.connection->wake_ns);
    while (c->server.n_waiting) {
        fixture_answer(&c->server);
    }
    exchange(c);
    check_success(never);
    CHECK_EQUAL(2, c->server.n_cancelled);
    free(body);
    client_free(c);
}

/* Nothing is read from who brings too much before the last of its requests is answered, or gone. */
static void test_too_fast_is_not_read(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "hello", 5);
    const bool *is_paused = &c->server.connection->is_paused;
    c->server.verdict.is_pending = true;
    run_call(c, &(options){0}, body, 10);
    CHECK(!*is_paused);
    c->server.verdict.is_too_fast = true;
    call *first = run_call(c, &(options){0}, body, 10), *second = run_call(c, &(options){0}, body, 10);
    CHECK(*is_paused);
    fixture_answer(&c->server); /* one that was waited for otherwise */
    CHECK(*is_paused);
    fixture_answer(&c->server);
    CHECK(*is_paused);
    exchange(c);
    check_success(first);
    fixture_answer(&c->server);
    CHECK(!*is_paused);
    exchange(c);
    check_success(second);
    run_call(c, &(options){.timeout = "1S"}, body, 10);
    CHECK(*is_paused);
    fixture_tick(&c->server, 2ull * SECOND_NS);
    CHECK(!*is_paused);
    free(body);
    client_free(c);
}

/* ------------------------------------------------------------------ OTLP/HTTP */

static client *http_client_new(void) {
    client *c = calloc(1, sizeof *c);
    fixture_start(&c->server, SS_TRANSPORT_HTTP);
    fixture_disconnect(&c->server);
    c->server.has_http2 = true;
    fixture_connect(&c->server);
    client_connect(c);
    return c;
}

static const options http_post = {.path = "/v1/traces", .content_type = "application/x-protobuf"};

static options with_length(const char *length) {
    options o = http_post;
    o.length = length;
    return o;
}

static void check_http_at(int line, const call *k, int status, const char *body, size_t length) {
    if (status != k->http_status || k->data_length != length || memcmp(k->data, body, length) != 0 || !k->is_closed ||
        k->error_code != NGHTTP2_NO_ERROR) {
        fprintf(stderr, "line %d: wanted %d '%s', got %d '%.*s', closed %d\n", line, status, body, k->http_status,
                (int)k->data_length, (const char *)k->data, k->is_closed);
        CHECK(false);
    }
}

#define CHECK_HTTP(k, status, text) check_http_at(__LINE__, k, status, text, sizeof(text) - 1)

/* With a stated length and without, whole and in pieces, down to single bytes of the connection. */
static void test_http_requests(void) {
    for (int round = 0; round < 8; round++) {
        client *c = http_client_new();
        options o = round & 1 ? http_post : with_length("5");
        o.piece = round & 2 ? 2 : 0;
        c->chunk = round & 4 ? 1 : 0;
        for (int i = 1; i <= 2; i++) {
            call *k = run_call(c, &o, "hello", 5);
            CHECK_HTTP(k, 200, "");
            CHECK(strcmp("application/x-protobuf", k->content_type) == 0);
            CHECK_EQUAL(i, c->server.n_accepted);
            CHECK_EQUAL(SS_TRANSPORT_HTTP, c->server.transport);
            CHECK(c->server.message.length == 5 && memcmp(c->server.message.data, "hello", 5) == 0);
        }
        CHECK_EQUAL(2, c->server.scratch.stats.requests);
        client_free(c);
    }
}

/* The words of HTTP/1.1, since it is HTTP/1.1 that says them. */
static void test_http_refusals(void) {
    client *c = http_client_new();
    options o = http_post;
    o.path = "/nowhere";
    CHECK_HTTP(run_call(c, &o, "hello", 5), 404, "404 page not found\n");
    o = http_post;
    o.method = "GET";
    CHECK_HTTP(run_call(c, &o, NULL, 0), 405, "405 method not allowed, supported: [POST]");
    o.method = "HEAD";
    CHECK_HTTP(run_call(c, &o, NULL, 0), 405, "");
    o = http_post;
    o.content_type = "text/plain";
    CHECK_HTTP(run_call(c, &o, "hello", 5), 415,
               "415 unsupported media type, supported: [application/json, application/x-protobuf]");
    o = http_post;
    o.filler = SS_MAX_HEADER_BYTES;
    CHECK_HTTP(run_call(c, &o, "hello", 5), 431, "");
    c->server.verdict = (ss_verdict){.code = SS_CODE_UNAVAILABLE, .message = "full"};
    CHECK_HTTP(run_call(c, &http_post, "hello", 5), 503, "\x08\x0e\x12\4full");
    CHECK_EQUAL(1, c->server.n_accepted);
    client_free(c);
}

/* Before it comes where its length is stated, else when it has come; the connection goes on. */
static void test_http_sizes(void) {
    static const char too_large[] = "\x08\3\x12\x1chttp: request body too large";
    client *c = http_client_new();
    c->server.listener.config.max_message_bytes = 100;
    uint8_t body[300] = {0};
    options o = with_length("101");
    o.withholds_end = true;
    CHECK_HTTP(run_call(c, &o, body, 1), 400, too_large);
    o = http_post;
    o.withholds_end = true;
    o.piece = 60;
    CHECK_HTTP(run_call(c, &o, body, 300), 400, too_large);
    CHECK_HTTP(run_call(c, &http_post, body, 100), 200, "");
    CHECK_EQUAL(1, c->server.n_accepted);
    o = http_post; /* many that are not finished */
    o.withholds_end = true;
    int n_refused = 0;
    for (int i = 0; i < 30; i++) {
        n_refused += run_call(c, &o, body, 100)->http_status == 503;
    }
    CHECK(n_refused > 0);
    CHECK(c->server.is_open);
    client_free(c);
}

static void test_http_answers_that_come_later(void) {
    client *c = http_client_new();
    c->server.verdict.is_pending = true;
    call *gone = run_call(c, &http_post, "hello", 5), *patient = run_call(c, &http_post, "hello", 5);
    CHECK_EQUAL(2, c->server.n_waiting);
    nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, 1, NGHTTP2_CANCEL);
    exchange(c);
    CHECK_EQUAL(1, c->server.n_cancelled);
    c->server.verdict.rejected_items = 1;
    fixture_answer(&c->server);
    fixture_answer(&c->server);
    exchange(c);
    CHECK_EQUAL(0, gone->http_status);
    CHECK_HTTP(patient, 200, "\x0a\2\x08\1");
    run_call(c, &http_post, "hello", 5);
    fixture_disconnect(&c->server);
    CHECK_EQUAL(2, c->server.n_cancelled);
    fixture_connect(&c->server);
    client_free(c);
}

static void test_http_keys_of_the_connection(void) {
    client *c = http_client_new();
    c->server.listener.config.read_timeout_ns = SECOND_NS;
    options o = http_post;
    o.withholds_end = true;
    call *slow = run_call(c, &o, "hel", 3);
    fixture_tick(&c->server, 2ull * SECOND_NS);
    exchange(c);
    CHECK_HTTP(slow, 408, "");
    for (int i = 0; i < 10; i++) { /* nobody minds */
        nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
        exchange(c);
    }
    CHECK_HTTP(run_call(c, &http_post, "hello", 5), 200, "");
    CHECK_EQUAL(0, c->n_goaways);
    c->server.listener.config.closes_after_answer = true;
    CHECK_HTTP(run_call(c, &http_post, "hello", 5), 200, "");
    CHECK(c->n_goaways > 0);
    CHECK_EQUAL(NGHTTP2_NO_ERROR, c->goaway_code);
    client_free(c);
}

/* What could become another request is none: nghttp2 would have to let it through first. */
static void test_http_heads_cannot_be_split(void) {
    static const struct {
        const char *name, *value;
        size_t length;
        ss_status status;
    } cases[] = {{":method", "POST", 4, SS_OK},
                 {":method", "PO ST", 5, SS_ERR_MALFORMED},
                 {":method", "", 0, SS_ERR_MALFORMED},
                 {":path", "/a", 2, SS_OK},
                 {":path", "/a HTTP/1.1", 11, SS_ERR_MALFORMED},
                 {":path", "/a\tb", 4, SS_ERR_MALFORMED},
                 {"a", "b\r\nc: d", 7, SS_ERR_MALFORMED},
                 {"a", "b\nc", 3, SS_ERR_MALFORMED},
                 {"a", "b\0c", 3, SS_ERR_MALFORMED},
                 {"a\n", "b", 1, SS_ERR_MALFORMED},
                 {"a", "b c", 3, SS_OK},
                 {"transfer-encoding", "chunked", 7, SS_OK}, /* and is not passed on */
                 {":authority", "x", 1, SS_OK},
                 {"host", "y", 1, SS_OK}}; /* the same again */
    ss_exchange_head head = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_EQUAL(cases[i].status, ss_exchange_head_add(&head, (const uint8_t *)cases[i].name, strlen(cases[i].name),
                                                          (const uint8_t *)cases[i].value, cases[i].length));
    }
    static const char lines[] = "a: b c\r\nhost: x\r\n";
    CHECK(head.lines.length == sizeof lines - 1 && memcmp(head.lines.data, lines, sizeof lines - 1) == 0);
    ss_exchange_head_free(&head);
}

/* ------------------------------------------------------------------ connections */

static void test_reset_mid_body(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "0123456789", 10);
    call *k = start_call(c, &(options){.withholds_end = true, .piece = 4}, body, 9);
    exchange(c);
    CHECK_EQUAL(9, fixture_held_bytes(&c->server));
    nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, 1, NGHTTP2_CANCEL);
    exchange(c);
    CHECK_EQUAL(0, fixture_held_bytes(&c->server));
    CHECK(k->is_closed);
    check_success(run_call(c, &(options){0}, body, 15));
    CHECK_EQUAL(1, c->server.n_accepted);
    free(body);
    client_free(c);
}

static void test_response_waits_for_the_window(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "x", 1);
    nghttp2_settings_entry none = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, &none, 1);
    call *k = run_call(c, &(options){0}, body, 6);
    CHECK_EQUAL(1, c->server.n_accepted);
    CHECK_EQUAL(200, k->http_status);
    CHECK(!k->is_closed && k->data_length == 0);
    nghttp2_submit_window_update(c->session, NGHTTP2_FLAG_NONE, 1, 3); /* less than the message: sent in pieces */
    exchange(c);
    check_success(k);
    (void)run_call(c, &(options){0}, body, 6); /* left waiting: freed with the connection */
    free(body);
    client_free(c);
}

static void test_drain(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "0123456789", 10);
    call *half = start_call(c, &(options){.withholds_end = true}, body, 8);
    exchange(c);
    CHECK(c->server.connection->protocol->drain(c->server.connection));
    (void)c->server.connection->protocol->produce(c->server.connection);
    call *late = start_call(c, &(options){0}, body, 15); /* sent before the notice arrives */
    exchange(c); /* notice, ping, and the final GOAWAY after the ping's answer */
    CHECK_EQUAL(2, c->n_goaways);
    CHECK_EQUAL(NGHTTP2_NO_ERROR, c->goaway_code);
    CHECK_EQUAL(3, c->goaway_last_id);
    check_success(late);
    CHECK(c->server.is_open);
    finish_call(c, half, 15);
    check_success(half);
    CHECK(!c->server.is_open);
    CHECK_EQUAL(0, c->server.scratch.stats.protocol_errors);
    free(body);
    client_free(c);
}

static void test_drain_takes_the_request_of_a_connection_that_has_just_begun(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "0123456789", 10);
    CHECK(c->server.connection->protocol->drain(c->server.connection)); /* before the preface has arrived */
    (void)c->server.connection->protocol->produce(c->server.connection);
    call *k = start_call(c, &(options){0}, body, 15);
    exchange(c);
    check_success(k);
    CHECK_EQUAL(NGHTTP2_NO_ERROR, c->goaway_code);
    CHECK(!c->server.is_open);
    free(body);
    client_free(c);
}

static void test_drain_does_not_wait_for_a_silent_peer(void) {
    client *c = client_new();
    exchange(c);
    CHECK(c->server.connection->protocol->drain(c->server.connection));
    (void)c->server.connection->protocol->produce(c->server.connection);
    fixture_tick(&c->server, SECOND_NS);
    CHECK(!c->server.is_open);
    client_free(c);
}

static void test_timeouts(void) {
    client *c = client_new();
    c->server.listener.config.read_timeout_ns = 10ull * SECOND_NS;
    uint8_t *body = frame_message(0, "0123456789", 10);
    call *k = start_call(c, &(options){.withholds_end = true}, body, 8);
    exchange(c);
    fixture_tick(&c->server, 5ull * SECOND_NS);
    exchange(c);
    CHECK_EQUAL(-1, k->grpc_status);
    fixture_tick(&c->server, 6ull * SECOND_NS);
    exchange(c);
    CHECK_FAILURE(k, 200, 4, "request was not complete within the read timeout");
    CHECK(c->server.is_open);
    CHECK_EQUAL(0, fixture_held_bytes(&c->server));
    free(body);
    client_free(c);
}

/* A connection without calls ends when it is idle, with one it does not, and pings make it no less idle. */
static void test_idle_connection_ends(void) {
    client *c = client_new();
    c->server.listener.config.idle_timeout_ns = 100ull * SECOND_NS;
    uint8_t *body = frame_message(0, "0123456789", 10);
    call *half = start_call(c, &(options){.withholds_end = true}, body, 8);
    exchange(c);
    fixture_tick(&c->server, 1000ull * SECOND_NS);
    exchange(c);
    CHECK_EQUAL(0, c->n_goaways);
    finish_call(c, half, 15);
    check_success(half);
    fixture_tick(&c->server, 99ull * SECOND_NS);
    nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
    exchange(c);
    CHECK_EQUAL(0, c->n_goaways);
    fixture_tick(&c->server, 2ull * SECOND_NS);
    exchange(c);
    CHECK(!c->server.is_open);
    CHECK_EQUAL(1, c->n_goaways); /* which is all that this client waits for */
    CHECK_EQUAL(NGHTTP2_NO_ERROR, c->goaway_code);
    free(body);
    client_free(c);
}

/* A connection that is too old takes no new calls, and ends with the last of the old ones, or with its grace. */
static void test_old_connection_ends(void) {
    uint8_t *body = frame_message(0, "0123456789", 10);
    for (int has_grace = 0; has_grace < 2; has_grace++) {
        client *c = client_new();
        c->server.listener.config.max_age_ns = 100ull * SECOND_NS;
        c->server.listener.config.max_age_grace_ns = has_grace ? 30ull * SECOND_NS : 0; /* more than ages differ */
        client_reconnect(c);
        call *half = start_call(c, &(options){.withholds_end = true}, body, 8);
        exchange(c);
        fixture_tick(&c->server, 89ull * SECOND_NS); /* a tenth less than the age at the earliest */
        exchange(c);
        CHECK_EQUAL(0, c->n_goaways);
        fixture_tick(&c->server, 22ull * SECOND_NS); /* a tenth more at the latest */
        exchange(c);
        CHECK_EQUAL(2, c->n_goaways);
        CHECK_EQUAL(NGHTTP2_NO_ERROR, c->goaway_code);
        CHECK(strcmp("max_age", c->goaway_text) == 0);
        CHECK(c->server.is_open);
        if (has_grace) {
            fixture_tick(&c->server, 31ull * SECOND_NS);
            CHECK(!c->server.is_open);
            CHECK_EQUAL(-1, half->grpc_status);
        } else {
            fixture_tick(&c->server, 1000ull * SECOND_NS);
            exchange(c);
            CHECK(c->server.is_open);
            finish_call(c, half, 15);
            check_success(half);
            CHECK(!c->server.is_open);
        }
        CHECK_EQUAL(0, c->server.scratch.stats.protocol_errors);
        client_free(c);
    }
    free(body);
}

/* A silent peer is pinged, and let be if it answers. */
static void test_silent_peer_is_pinged(void) {
    client *c = client_new();
    c->server.listener.config.ping_after_ns = 10ull * SECOND_NS;
    c->server.listener.config.ping_timeout_ns = 2ull * SECOND_NS;
    exchange(c);
    for (int i = 0; i < 5; i++) {
        fixture_tick(&c->server, 11ull * SECOND_NS);
        CHECK_EQUAL(i + 1, c->n_pings + (c->server.connection->output.length > 0));
        exchange(c); /* the answer */
        CHECK_EQUAL(i + 1, c->n_pings);
        fixture_tick(&c->server, 9ull * SECOND_NS);
        exchange(c);
        CHECK_EQUAL(i + 1, c->n_pings);
        c->server.scratch.now_ns += SECOND_NS;
        nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL); /* anything it says will do */
        exchange(c);
    }
    fixture_tick(&c->server, 11ull * SECOND_NS);
    fixture_tick(&c->server, 2ull * SECOND_NS);
    CHECK(c->server.is_open);
    fixture_tick(&c->server, SECOND_NS / 10);
    CHECK(!c->server.is_open);
    client_free(c);
}

/* What a peer says while nothing is read from it, it has not failed to say. */
static void test_paused_peer_is_not_given_up(void) {
    client *c = client_new();
    uint8_t *body = frame_message(0, "hello", 5);
    c->server.listener.config.ping_after_ns = 10ull * SECOND_NS;
    c->server.listener.config.ping_timeout_ns = 2ull * SECOND_NS;
    c->server.verdict.is_pending = c->server.verdict.is_too_fast = true;
    exchange(c);
    fixture_tick(&c->server, 11ull * SECOND_NS);
    CHECK(c->server.connection->output.length > 0); /* a ping, whose answer comes too late to be read */
    call *waiting = run_call(c, &(options){.timeout = "90S"}, body, 10);
    CHECK(c->server.connection->is_paused);
    for (int i = 0; i < 30; i++) {
        fixture_tick(&c->server, SECOND_NS);
        CHECK(c->server.is_open);
    }
    fixture_answer(&c->server);
    CHECK(!c->server.connection->is_paused);
    fixture_tick(&c->server, 3ull * SECOND_NS);
    CHECK(c->server.is_open);
    exchange(c);
    check_success(waiting);
    fixture_tick(&c->server, 8ull * SECOND_NS);
    fixture_tick(&c->server, 3ull * SECOND_NS); /* from then on it is waited for as before */
    CHECK(!c->server.is_open);
    free(body);
    client_free(c);
}

/* The third ping too soon after another is the last; a call in between makes up for all before it. */
static void test_too_many_pings(void) {
    static const struct {
        bool has_call, is_permitted;
        uint64_t interval_s;
        bool is_ended;
    } cases[] = {{false, false, 7199, true}, {false, false, 7200, false}, {false, true, 299, true},
                 {false, true, 300, false},  {true, false, 299, true},    {true, false, 300, false}};
    uint8_t *body = frame_message(0, "0123456789", 10);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        client *c = client_new();
        c->server.listener.config.pings_without_calls = cases[i].is_permitted;
        c->server.listener.config.min_ping_interval_ns = 300ull * SECOND_NS;
        if (cases[i].has_call) {
            start_call(c, &(options){.withholds_end = true}, body, 8);
        }
        for (const char *step = "a...a...."; *step; step++) {
            CHECK(c->server.is_open);
            if (*step == 'a') {
                check_success(run_call(c, &(options){0}, body, 15));
            } else if (*step == '.') { /* the first after an answer is free */
                c->server.scratch.now_ns += cases[i].interval_s * SECOND_NS;
                nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
                exchange(c);
            }
        }
        if (cases[i].is_ended == c->server.is_open) {
            fprintf(stderr, "case %zu\n", i);
            CHECK(false);
        }
        if (cases[i].is_ended) {
            CHECK_EQUAL(NGHTTP2_ENHANCE_YOUR_CALM, c->goaway_code);
            CHECK(strcmp("too_many_pings", c->goaway_text) == 0);
        }
        client_free(c);
    }
    free(body);
}

/* ------------------------------------------------------------------ health */

static size_t health_request(uint8_t *out, const char *service) {
    size_t length = strlen(service);
    const uint8_t head[] = {0, 0, 0, 0, (uint8_t)(length + 2), 0x0a, (uint8_t)length};
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, service, length);
    return sizeof head + length;
}

static void check_health(const call *k, const char *statuses) {
    size_t n = strlen(statuses);
    CHECK_EQUAL(7 * n, k->data_length);
    for (size_t i = 0; i < n && k->data_length == 7 * n; i++) {
        const uint8_t expected[] = {0, 0, 0, 0, 2, 0x08, (uint8_t)(statuses[i] - '0')};
        CHECK(memcmp(expected, k->data + 7 * i, sizeof expected) == 0);
    }
}

static void test_health_check(void) {
    client *c = client_new();
    c->server.listener.config.has_health = true;
    const options check = {.path = "/grpc.health.v1.Health/Check"};
    uint8_t body[200];
    static const char traces[] = "opentelemetry.proto.collector.trace.v1.TraceService";
    call *k = run_call(c, &check, "\0\0\0\0", 5);
    check_health(k, "1");
    CHECK(k->grpc_status == 0 && k->is_closed);
    k = run_call(c, &check, body, health_request(body, traces));
    check_health(k, "1");
    c->server.lacks_signal[SS_SIGNAL_TRACES] = true;
    k = run_call(c, &check, body, health_request(body, traces));
    check_health(k, "2");
    k = run_call(c, &check, body, health_request(body, ""));
    check_health(k, "1");
    c->server.lacks_signal[SS_SIGNAL_METRICS] = c->server.lacks_signal[SS_SIGNAL_LOGS] = true;
    k = run_call(c, &check, body, health_request(body, ""));
    check_health(k, "2");
    CHECK_FAILURE(run_call(c, &check, body, health_request(body, "other")), 200, 5, "unknown service");
    CHECK_FAILURE(run_call(c, &check, "\0\0\0\0\1\12", 6), 200, 13, "grpc: error unmarshalling request");
    CHECK_FAILURE(run_call(c, &(options){.path = "/grpc.health.v1.Health/List"}, body, 5), 200, 12,
                  "unknown service grpc.health.v1.Health");
    CHECK_EQUAL(0, c->server.n_accepted);
    client_free(c);
}

/* A watcher is told at once, and when it changes; the end of the server ends it. */
static void test_health_watch(void) {
    client *c = client_new();
    c->server.listener.config.has_health = true;
    c->server.listener.config.read_timeout_ns = c->server.listener.config.idle_timeout_ns = SECOND_NS;
    const options watch = {.path = "/grpc.health.v1.Health/Watch"};
    uint8_t all[20], none[20];
    call *k = run_call(c, &watch, all, health_request(all, ""));
    call *unknown = run_call(c, &watch, none, health_request(none, "other"));
    call *cancelled = run_call(c, &watch, all, health_request(all, ""));
    check_health(k, "1");
    check_health(unknown, "3");
    for (int i = 0; i < SS_N_SIGNALS; i++) {
        fixture_tick(&c->server, 10ull * SECOND_NS);
        exchange(c);
        check_health(k, "1");
        c->server.lacks_signal[i] = true;
    }
    nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, 5, NGHTTP2_CANCEL);
    exchange(c);
    CHECK(cancelled->is_closed);
    fixture_tick(&c->server, 10ull * SECOND_NS);
    exchange(c);
    check_health(k, "12");
    c->server.lacks_signal[SS_SIGNAL_LOGS] = false;
    fixture_tick(&c->server, SECOND_NS);
    exchange(c);
    check_health(k, "121");
    CHECK(!k->is_closed && c->server.is_open);
    CHECK(c->server.connection->protocol->drain(c->server.connection));
    (void)c->server.connection->protocol->produce(c->server.connection);
    exchange(c);
    check_health(k, "1212");
    check_health(unknown, "3");
    CHECK_EQUAL(14, k->grpc_status);
    CHECK_EQUAL(14, unknown->grpc_status);
    CHECK(!c->server.is_open);
    client_free(c);
}

/* ------------------------------------------------------------------ bytes made by hand */

typedef struct raw {
    fixture server;
    ss_buffer input;
} raw;

static void put(raw *r, const void *bytes, size_t length) {
    CHECK_EQUAL(SS_OK, ss_buffer_append(&r->input, bytes, length));
}

static void put_frame(raw *r, uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t length) {
    const uint8_t head[HEADER_BYTES] = {
        (uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length,    type,       flags,
        (uint8_t)(id >> 24),     (uint8_t)(id >> 16),    (uint8_t)(id >> 8), (uint8_t)id};
    put(r, head, sizeof head);
    put(r, payload, length);
}

/* The request's headers: literals without indexing, names in full. */
static size_t header_block(uint8_t *out) {
    static const char *const fields[][2] = {{":method", "POST"},
                                            {":scheme", "http"},
                                            {":path", TRACES},
                                            {":authority", "x"},
                                            {"content-type", "application/grpc"}};
    size_t used = 0;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        out[used++] = 0;
        for (int side = 0; side < 2; side++) {
            size_t length = strlen(fields[i][side]);
            out[used++] = (uint8_t)length;
            memcpy(out + used, fields[i][side], length);
            used += length;
        }
    }
    return used;
}

static raw *raw_new(void) {
    raw *r = calloc(1, sizeof *r);
    fixture_start(&r->server, SS_TRANSPORT_GRPC);
    put(r, PREFACE, 24);
    put_frame(r, NGHTTP2_SETTINGS, 0, 0, "", 0);
    return r;
}

static void raw_free(raw *r) {
    ss_buffer_free(&r->input);
    fixture_stop(&r->server);
    CHECK_EQUAL(0, r->server.held_bytes);
    free(r);
}

static void raw_send(raw *r) {
    fixture_feed(&r->server, r->input.data, r->input.length);
    r->input.length = 0;
}

/* The error code of the last frame where it is a GOAWAY; -1 where it is not. */
static long last_goaway(const raw *r) {
    const ss_buffer *output = &r->server.connection->output;
    long code = -1;
    for (size_t pos = 0; pos + HEADER_BYTES <= output->length;) {
        const uint8_t *frame = output->data + pos;
        size_t length = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
        code = frame[3] == NGHTTP2_GOAWAY ? (long)frame[HEADER_BYTES + 7] : -1;
        pos += HEADER_BYTES + length;
    }
    return code;
}

static void put_request(raw *r, uint32_t id) {
    uint8_t block[300], *body = frame_message(0, "hi", 2);
    put_frame(r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, block, header_block(block));
    put_frame(r, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, id, body, 7);
    free(body);
}

/* Every way to cut a connection's first bytes in two, CONTINUATION and padding among them. */
static void test_every_cut(void) {
    uint8_t block[300], padded[20] = {4};
    size_t length = header_block(block);
    raw *r = raw_new();
    put_frame(r, NGHTTP2_HEADERS, 0, 1, block, 10);
    put_frame(r, NGHTTP2_CONTINUATION, 0, 1, block + 10, 50);
    put_frame(r, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, block + 60, length - 60);
    uint8_t *body = frame_message(0, "0123", 4);
    memcpy(padded + 1, body, 9);
    put_frame(r, NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, padded, 14);
    put_frame(r, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "", 0);
    ss_buffer input = r->input;
    r->input = (ss_buffer){0};
    for (size_t cut = 0; cut <= input.length; cut++) {
        fixture_disconnect(&r->server);
        fixture_connect(&r->server);
        r->server.n_accepted = 0;
        fixture_feed(&r->server, input.data, cut);
        fixture_feed(&r->server, input.data + cut, input.length - cut);
        CHECK_EQUAL(1, r->server.n_accepted);
        CHECK(r->server.message.length == 4 && memcmp(r->server.message.data, "0123", 4) == 0);
        CHECK(r->server.is_open);
    }
    ss_buffer_free(&input);
    free(body);
    raw_free(r);
}

static void check_flood(raw *r, const char *what) {
    raw_send(r);
    if (r->server.is_open || last_goaway(r) != NGHTTP2_ENHANCE_YOUR_CALM ||
        r->server.scratch.stats.protocol_errors != 1) {
        fprintf(stderr, "%s: open %d, goaway %ld, errors %llu\n", what, r->server.is_open, last_goaway(r),
                (unsigned long long)r->server.scratch.stats.protocol_errors);
        CHECK(false);
    }
    raw_free(r);
}

static void test_floods(void) {
    enum { MANY = 3000 };
    static const uint8_t eight[8] = {0}, cancel[4] = {0, 0, 0, NGHTTP2_CANCEL}, one[4] = {0, 0, 0, 1},
                         most[4] = {0x7f, 0xff, 0xff, 0xff};
    uint8_t block[300];
    size_t length = header_block(block);
    raw *r = raw_new();
    for (int i = 0; i < MANY; i++) {
        put_frame(r, NGHTTP2_PING, 0, 0, eight, 8);
    }
    check_flood(r, "PING");
    r = raw_new();
    for (int i = 0; i < MANY; i++) {
        put_frame(r, NGHTTP2_SETTINGS, 0, 0, "", 0);
    }
    check_flood(r, "SETTINGS");
    r = raw_new();
    for (int i = 0; i < MANY; i++) {
        put_frame(r, NGHTTP2_WINDOW_UPDATE, 0, 0, one, 4);
    }
    check_flood(r, "WINDOW_UPDATE");
    r = raw_new();
    for (int i = 0; i < MANY; i++) {
        put_frame(r, NGHTTP2_PRIORITY, 0, 5, eight, 5);
    }
    check_flood(r, "PRIORITY");
    r = raw_new();
    for (uint32_t i = 0; i < MANY; i++) {
        put_frame(r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1, block, length);
        put_frame(r, NGHTTP2_RST_STREAM, 0, 2 * i + 1, cancel, 4);
    }
    check_flood(r, "rapid reset");
    r = raw_new();
    for (uint32_t i = 0; i < MANY; i++) { /* the server is made to reset: the window overflows */
        put_frame(r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1, block, length);
        put_frame(r, NGHTTP2_WINDOW_UPDATE, 0, 2 * i + 1, most, 4);
    }
    check_flood(r, "made to reset");
    r = raw_new();
    put_frame(r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, block, length);
    for (int i = 0; i < MANY; i++) {
        put_frame(r, NGHTTP2_DATA, 0, 1, "", 0);
    }
    check_flood(r, "empty DATA");
    r = raw_new();
    put_frame(r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, block, length);
    for (int i = 0; i < MANY; i++) {
        static const uint8_t padding[4] = {3};
        put_frame(r, NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, padding, 4);
    }
    check_flood(r, "DATA of padding");
    r = raw_new();
    put_frame(r, NGHTTP2_HEADERS, 0, 1, block, length);
    for (int i = 0; i < MANY; i++) {
        put_frame(r, NGHTTP2_CONTINUATION, 0, 1, "", 0);
    }
    check_flood(r, "CONTINUATION");
    r = raw_new(); /* one field of 4000 bytes in the table, then named again and again by one byte */
    uint8_t bomb[16000] = {0x40, 1, 'a', 0x7f, 0xa1, 0x1e};
    memset(bomb + 6, 'x', 4000);
    memset(bomb + 4006, 0xbe, sizeof bomb - 4006);
    put_frame(r, NGHTTP2_HEADERS, 0, 1, block, length);
    put_frame(r, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, bomb, sizeof bomb);
    check_flood(r, "header bomb");
}

/* A client that exports a signal without a pipeline, on and on, is answered each time. */
static void test_refused_requests_are_no_flood(void) {
    raw *r = raw_new();
    r->server.lacks_signal[SS_SIGNAL_TRACES] = true;
    for (uint32_t i = 0; i < 3000; i++) {
        put_request(r, 2 * i + 1);
        if (i % 100 == 99) {
            raw_send(r);
        }
    }
    CHECK(r->server.is_open);
    CHECK_EQUAL(3000, r->server.scratch.stats.requests);
    raw_free(r);
}

/* What would be a flood in a row is fine with time, and with requests in between. */
static void test_steady_control_frames_are_no_flood(void) {
    raw *r = raw_new();
    static const uint8_t eight[8] = {0};
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 40; k++) {
            put_frame(r, NGHTTP2_PING, 0, 0, eight, 8);
        }
        raw_send(r);
        fixture_tick(&r->server, SECOND_NS);
    }
    CHECK(r->server.is_open);
    for (uint32_t i = 0; i < 2000; i++) {
        put_request(r, 2 * i + 1);
        put_frame(r, NGHTTP2_PING, 0, 0, eight, 8);
        put_frame(r, NGHTTP2_PING, 0, 0, eight, 8);
        raw_send(r);
    }
    CHECK(r->server.is_open);
    CHECK_EQUAL(2000, r->server.n_accepted);
    raw_free(r);
}

static void test_protocol_errors_end_the_connection(void) {
    raw *r = raw_new();
    put_frame(r, NGHTTP2_DATA, 0, 1, "x", 1); /* of a stream that never was */
    raw_send(r);
    CHECK(!r->server.is_open);
    CHECK_EQUAL(NGHTTP2_PROTOCOL_ERROR, last_goaway(r));
    CHECK_EQUAL(1, r->server.scratch.stats.protocol_errors);
    raw_free(r);
    r = raw_new();
    static const uint8_t huge[3] = {0xff, 0xff, 0xff};
    put(r, huge, 3);
    put(r, "\0\0\0\0\0\1", 6);
    raw_send(r);
    CHECK(!r->server.is_open);
    CHECK_EQUAL(NGHTTP2_FRAME_SIZE_ERROR, last_goaway(r));
    raw_free(r);
}

static void test_too_many_streams_are_refused(void) {
    raw *r = raw_new();
    uint8_t block[300];
    size_t length = header_block(block);
    for (uint32_t i = 0; i < 210; i++) {
        put_frame(r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1, block, length);
    }
    raw_send(r);
    CHECK(r->server.is_open);
    int n_refused = 0;
    const ss_buffer *output = &r->server.connection->output;
    for (size_t pos = 0; pos + HEADER_BYTES <= output->length;) {
        const uint8_t *frame = output->data + pos;
        n_refused += frame[3] == NGHTTP2_RST_STREAM && frame[HEADER_BYTES + 3] == NGHTTP2_REFUSED_STREAM;
        pos += HEADER_BYTES + ((size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2]);
    }
    CHECK_EQUAL(10, n_refused);
    raw_free(r);
}

static void test_other_protocols_on_this_port(void) {
    static const struct {
        const char *input;
        int n_http1, n_tls;
    } cases[] = {{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1, 0},
                 {"POST /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n", 1, 0},
                 {"\x16\x03\x01\x02", 0, 1},
                 {"\x01", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        raw *r = raw_new();
        r->input.length = 0;
        put(r, cases[i].input, strlen(cases[i].input));
        raw_send(r);
        CHECK(!r->server.is_open);
        CHECK(r->server.connection->output.length > 12 &&
              memcmp(r->server.connection->output.data, "HTTP/1.1 400", 12) == 0);
        const ss_server_stats *stats = &r->server.scratch.stats;
        CHECK_EQUAL(1, stats->protocol_errors);
        CHECK_EQUAL(cases[i].n_http1, stats->misdirected[SS_TRANSPORT_GRPC][SS_STRANGER_HTTP1]);
        CHECK_EQUAL(cases[i].n_tls, stats->misdirected[SS_TRANSPORT_GRPC][SS_STRANGER_TLS]);
        raw_free(r);
    }
}

static void test_slow_preface_and_headers_end(void) {
    raw *r = raw_new();
    r->server.listener.config.read_timeout_ns = SECOND_NS;
    r->input.length = 10;
    raw_send(r);
    CHECK(r->server.is_open);
    fixture_tick(&r->server, 2ull * SECOND_NS);
    CHECK(!r->server.is_open);
    raw_free(r);
    r = raw_new(); /* without a limit, there is one all the same */
    fixture_tick(&r->server, 120ull * SECOND_NS);
    CHECK(r->server.is_open);
    fixture_tick(&r->server, 1);
    CHECK(!r->server.is_open);
    raw_free(r);
    r = raw_new();
    r->server.listener.config.read_timeout_ns = SECOND_NS;
    uint8_t block[300];
    header_block(block);
    put_frame(r, NGHTTP2_HEADERS, 0, 1, block, 9); /* the rest never comes */
    raw_send(r);
    CHECK(r->server.is_open);
    fixture_tick(&r->server, 2ull * SECOND_NS);
    CHECK(!r->server.is_open);
    CHECK_EQUAL(NGHTTP2_ENHANCE_YOUR_CALM, last_goaway(r));
    raw_free(r);
}

int main(void) {
    test_signals();
    test_metadata();
    test_empty_message();
    test_encodings();
    test_split_at_every_byte();
    test_interleaved_streams();
    test_message_over_a_window();
    test_quoting();
    test_refusals();
    test_sizes();
    test_lying_length_costs_nothing();
    test_verdicts();
    test_timeouts_are_read();
    test_reset_while_pending();
    test_deadlines_while_pending();
    test_too_fast_is_not_read();
    test_http_requests();
    test_http_refusals();
    test_http_sizes();
    test_http_answers_that_come_later();
    test_http_keys_of_the_connection();
    test_http_heads_cannot_be_split();
    test_reset_mid_body();
    test_response_waits_for_the_window();
    test_drain();
    test_drain_takes_the_request_of_a_connection_that_has_just_begun();
    test_drain_does_not_wait_for_a_silent_peer();
    test_timeouts();
    test_idle_connection_ends();
    test_old_connection_ends();
    test_silent_peer_is_pinged();
    test_paused_peer_is_not_given_up();
    test_too_many_pings();
    test_health_check();
    test_health_watch();
    test_every_cut();
    test_floods();
    test_refused_requests_are_no_flood();
    test_steady_control_frames_are_no_flood();
    test_protocol_errors_end_the_connection();
    test_too_many_streams_are_refused();
    test_other_protocols_on_this_port();
    test_slow_preface_and_headers_end();
    return check_finish();
}
