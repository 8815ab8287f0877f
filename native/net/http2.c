/*
 * OTLP/gRPC on HTTP/2, and OTLP/HTTP where TLS has agreed on HTTP/2. nghttp2 keeps the protocol's state; this file
 * turns streams into requests and answers, and keeps peers within bounds.
 *
 * Bounds: every frame that makes work without bringing a request costs a credit, and answered requests bring credits
 * back, so that all floods (PING, SETTINGS, WINDOW_UPDATE, PRIORITY, empty DATA, reset streams in whichever way) run
 * dry alike. CONTINUATIONs and header bytes are counted for each header block, bytes of unfinished requests for each
 * connection. Output is bounded by the loop, which reads nothing while output waits.
 * The life of a connection (age, idleness, pings both ways) is that of grpc-go's servers.
 * Sources: RFC 9113, gRPC "PROTOCOL-HTTP2.md".
 */
#include "core/clock.h"
#include "core/hash.h"
#include "net/exchange.h"
#include "net/grpc.h"
#include "net/health.h"
#include "net/refusal.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CREDIT_MAX = 1000,            /* frames without a request that a peer may send at once */
    CREDIT_PER_REQUEST = 6,       /* a request may bring window updates, pings and an empty DATA frame */
    CREDIT_PER_SECOND = 50,       /* for keepalive and cancelled calls of a quiet connection */
    MAX_CONTINUATIONS = 8,        /* of one header block */
    HEADER_FLOOD_FACTOR = 4,      /* a block that decodes to this many times the limit ends the connection */
    CONNECTION_WINDOW_FACTOR = 4, /* connection window, in stream windows */
    HELD_FACTOR = 16, /* bytes of unfinished requests a connection may hold, in messages of the largest size */
    SPARE_STREAMS = 64,
    COUNTED_STREAMS = 16,     /* so many are counted as held at once, for as long as the connection lives */
    STREAM_BYTES = 1024,      /* of a stream here and in nghttp2; its message is counted apart */
    EXCHANGE_BYTES = 4096,    /* of one over HTTP, with its answer */
    KEPT_HEAD_BYTES = 4096,   /* of header lines; what is more is counted as held, and freed with its request */
    UNKNOWN_TEXT_BYTES = 128, /* kept of a path or encoding that is not known, for the answer */
    MAX_PING_STRIKES = 2,
    HEALTH_BYTES = SS_GRPC_PREFIX_BYTES + 2 /* a framed HealthCheckResponse */
};

static const uint64_t second_ns = 1000000000;
static const uint64_t preface_patience_ns = 120000000000;
static const uint64_t ping_interval_without_calls_ns = 7200000000000;
/* How long the last GOAWAY waits for the answer to the ping that says that the first one has arrived. */
static const uint64_t ended_patience_ns = 5000000000;
static const uint64_t stopped_patience_ns = 200000000;
static const uint64_t deadline_grain_ns = 10000000;

typedef struct stream {
    struct stream *previous, *next;
    struct stream_list *list; /* of the connection's lists, the one it is in */
    int32_t id;
    ss_health_method health; /* none: an Export of signal */
    ss_signal signal;
    int subject;    /* of a health request */
    ss_health told; /* what a watcher knows */
    ss_encoding encoding;
    bool headers_done;
    bool answered;          /* what still arrives is ignored */
    bool complete;          /* the peer's side is closed */
    uint32_t stated_length; /* of the message, prefix included; 0 until the prefix is there */
    uint64_t started_ns;
    uint64_t deadline_ns; /* of the client, UINT64_MAX: it has none */
    ss_reply *reply;      /* that is to come; NULL: none is */
    bool is_too_fast;     /* nothing is read until then */
    ss_body body;         /* the request; then the response where it is not the usual empty one */
    ss_buffer metadata;
    size_t reply_sent;
    ss_exchange exchange; /* of a listener for HTTP */
} stream;

typedef struct stream_list {
    stream *first, *last;
} stream_list;

struct ss_http2_shared {
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    stream *spare;
    size_t n_spare;
};

/* What the header block being read has said so far. Blocks are never interleaved. */
typedef struct head {
    size_t bytes;
    uint32_t n_continuations;
    bool is_post;
    bool has_host;
    bool has_content_type;
    bool is_grpc;
    bool has_encoding;
    ss_encoding encoding;
    uint64_t timeout_ns; /* UINT64_MAX: none */
    uint8_t path[UNKNOWN_TEXT_BYTES];
    size_t path_length; /* whole; what is over the array is not kept */
    uint8_t content_type[UNKNOWN_TEXT_BYTES];
    size_t content_type_length;
    uint8_t unknown_encoding[UNKNOWN_TEXT_BYTES];
    size_t unknown_encoding_length;
    uint8_t method[16];
    size_t method_length;
} head;

typedef struct http2 {
    ss_connection base;
    nghttp2_session *session;
    stream_list unfinished; /* oldest first */
    stream_list pending;    /* complete, and waiting for their answers: the first deadline first */
    stream_list answered;   /* whose response is on its way */
    stream_list watching;   /* health, until they have had enough */
    stream *borrowing;      /* whose body lies in the read buffer */
    size_t n_too_fast;      /* pending streams */
    head head;
    ss_exchange_head exchange_head;
    size_t held_bytes;
    size_t n_streams;
    size_t counted_streams; /* as held; the first ones of gRPC are counted with their connection */
    size_t counted_head;    /* bytes of exchange_head that are counted as held */
    int32_t credit;
    uint64_t credit_ns; /* when credit was last given by time */
    uint64_t opened_ns;
    uint64_t expires_ns;   /* when it is too old; 0: never */
    uint64_t idle_ns;      /* since when there has been no stream */
    uint64_t read_ns;      /* when the peer was last heard */
    uint64_t resumed_ns;   /* since when it has been read from, after a pause */
    uint64_t pinged_ns;    /* when it was last pinged; 0: never */
    uint64_t last_ping_ns; /* when it has last pinged; 0: never */
    uint32_t ping_strikes;
    bool has_sent;            /* of a response, since the peer's last ping */
    uint32_t failure;         /* HTTP/2 error code that ends the connection; NGHTTP2_NO_ERROR: none */
    const char *failure_text; /* for the peer's people */
    bool has_settings;        /* the peer's preface is complete */
    bool is_stopping;         /* the server ends */
    const char *drain_reason; /* NULL: not draining */
    uint64_t final_goaway_ns; /* when the last GOAWAY is due; 0: not draining, or sent */
} http2;

/* ------------------------------------------------------------------ streams */

/* before: NULL: it becomes the first. */
static void list_insert(stream_list *list, stream *before, stream *s) {
    s->list = list;
    s->previous = before;
    s->next = before ? before->next : list->first;
    *(before ? &before->next : &list->first) = s;
    *(s->next ? &s->next->previous : &list->last) = s;
}

static void list_append(stream_list *list, stream *s) {
    list_insert(list, list->last, s);
}

static void list_remove(stream *s) {
    stream_list *list = s->list;
    *(s->previous ? &s->previous->next : &list->first) = s->next;
    *(s->next ? &s->next->previous : &list->last) = s->previous;
}

static bool is_http(const http2 *connection) {
    return connection->base.listener->config.transport == SS_TRANSPORT_HTTP;
}

static bool has_streams(const http2 *connection) {
    return connection->unfinished.first || connection->pending.first || connection->answered.first ||
           connection->watching.first;
}

static size_t stream_bytes(const http2 *connection) {
    return is_http(connection) ? EXCHANGE_BYTES : STREAM_BYTES;
}

/* Streams are counted as held in groups, so that a usual connection counts but once. */
static bool count_stream(http2 *connection) {
    if (connection->n_streams == connection->counted_streams) {
        if (!ss_hold_bytes(connection->base.scratch, COUNTED_STREAMS * stream_bytes(connection))) {
            return false;
        }
        connection->counted_streams += COUNTED_STREAMS;
    }
    connection->n_streams++;
    return true;
}

/* REQUIRES: the stream is counted. */
static stream *stream_new(http2 *connection, int32_t id) {
    struct ss_http2_shared *shared = connection->base.scratch->http2;
    stream *s = shared->spare;
    if (s) {
        shared->spare = s->next;
        shared->n_spare--;
        *s = (stream){0};
    } else if (!(s = calloc(1, sizeof *s))) {
        return NULL;
    }
    s->id = id;
    s->started_ns = connection->base.scratch->now_ns;
    list_append(&connection->unfinished, s);
    return s;
}

static void release_request(http2 *connection, stream *s) {
    if (connection->borrowing == s) {
        connection->borrowing = NULL;
    }
    connection->held_bytes -= s->body.held.length + s->metadata.length + s->exchange.held;
    if (s->metadata.length) {
        ss_release_bytes(connection->base.scratch, s->metadata.length);
    }
    s->exchange.held = 0;
    ss_body_release(connection->base.scratch, &s->body);
    ss_buffer_free(&s->metadata);
}

/* The stream waits no longer. */
static void read_on(http2 *connection, stream *s) {
    if (!s->is_too_fast) {
        return;
    }
    s->is_too_fast = false;
    connection->base.is_paused = --connection->n_too_fast;
    connection->resumed_ns = connection->base.scratch->now_ns;
}

static void stream_free(http2 *connection, stream *s) {
    struct ss_http2_shared *shared = connection->base.scratch->http2;
    list_remove(s);
    connection->n_streams--;
    ss_reply_abandon(s->reply);
    read_on(connection, s);
    release_request(connection, s);
    ss_exchange_end(&s->exchange);
    if (!has_streams(connection)) {
        connection->idle_ns = connection->base.scratch->now_ns;
    }
    if (shared->n_spare < SPARE_STREAMS) {
        s->next = shared->spare;
        shared->spare = s;
        shared->n_spare++;
    } else {
        free(s);
    }
}

/* ------------------------------------------------------------------ answers */

#define NV(name_text, value_text)                                                                                      \
    {(uint8_t *)(name_text), (uint8_t *)(value_text), sizeof(name_text) - 1, sizeof(value_text) - 1,                   \
     NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE}

static const nghttp2_nv status_200 = NV(":status", "200");
static const nghttp2_nv content_type_grpc = NV("content-type", "application/grpc");
static const nghttp2_nv grpc_status_ok = NV("grpc-status", "0");

static nghttp2_nv nv_of(const char *name, const void *value, size_t length) {
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), length, NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

static nghttp2_nv accept_encoding(void) {
    const char *value = ss_grpc_accept_encoding();
    nghttp2_nv nv = nv_of("grpc-accept-encoding", value, strlen(value));
    nv.flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    return nv;
}

static ssize_t read_reply(nghttp2_session *session, int32_t id, uint8_t *out, size_t capacity, uint32_t *flags,
                          nghttp2_data_source *source, void *user) {
    (void)user;
    static const uint8_t empty_message[SS_GRPC_PREFIX_BYTES] = {0};
    stream *s = source->ptr;
    const ss_buffer *held = &s->body.held;
    const uint8_t *bytes = held->data ? held->data : empty_message;
    size_t left = (held->data ? held->length : sizeof empty_message) - s->reply_sent;
    size_t size = left < capacity ? left : capacity;
    memcpy(out, bytes + s->reply_sent, size);
    s->reply_sent += size;
    if (size == left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(session, id, &grpc_status_ok, 1) != 0) {
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
    }
    return (ssize_t)size;
}

static int hold_reply(http2 *connection, stream *s, const uint8_t *bytes, size_t length) {
    if (ss_buffer_append(&s->body.held, bytes, length) != SS_OK) {
        return NGHTTP2_ERR_NOMEM;
    }
    ss_count_bytes(connection->base.scratch, length);
    connection->held_bytes += length;
    return 0;
}

static int submit_reply(http2 *connection, stream *s, nghttp2_data_source_read_callback read) {
    const nghttp2_nv headers[] = {status_200, content_type_grpc, accept_encoding()};
    const nghttp2_data_provider provider = {.source.ptr = s, .read_callback = read};
    return nghttp2_submit_response(connection->session, s->id, headers, sizeof headers / sizeof headers[0], &provider);
}

static int answer_success(http2 *connection, stream *s, const ss_verdict *verdict) {
    if (verdict->rejected_items || verdict->message[0]) {
        ss_buffer *reply = &connection->base.scratch->answer;
        uint8_t prefix[SS_GRPC_PREFIX_BYTES] = {0};
        reply->length = 0;
        if (ss_buffer_append(reply, prefix, sizeof prefix) != SS_OK ||
            ss_export_response_append(verdict, s->signal, SS_PAYLOAD_PROTOBUF, reply) != SS_OK) {
            return NGHTTP2_ERR_NOMEM;
        }
        size_t length = reply->length - sizeof prefix; /* a few hundred bytes */
        reply->data[3] = (uint8_t)(length >> 8);
        reply->data[4] = (uint8_t)length;
        if (hold_reply(connection, s, reply->data, reply->length) != 0) {
            return NGHTTP2_ERR_NOMEM;
        }
    }
    return submit_reply(connection, s, read_reply);
}

/* Trailers-Only: the header block is the whole response. */
static int answer_failure(http2 *connection, stream *s, const ss_verdict *verdict, const char *http_status) {
    ss_buffer *answer = &connection->base.scratch->answer;
    char code[12], message[SS_GRPC_MESSAGE_TEXT_BYTES];
    snprintf(code, sizeof code, "%d", (int)verdict->code);
    size_t message_length = ss_grpc_encode_message(verdict->message, message);
    nghttp2_nv headers[6] = {nv_of(":status", http_status, strlen(http_status)), content_type_grpc,
                             nv_of("grpc-status", code, strlen(code)), nv_of("grpc-message", message, message_length)};
    size_t n = 4;
    if (verdict->code == SS_CODE_UNIMPLEMENTED) {
        headers[n++] = accept_encoding(); /* what the peer may send instead */
    }
    if (verdict->has_retry_delay) {
        answer->length = 0;
        ss_status status = ss_rpc_status_append(verdict, SS_PAYLOAD_PROTOBUF, answer);
        size_t binary = answer->length;
        if (status == SS_OK && ss_buffer_reserve(answer, 2 * binary + 4) == SS_OK &&
            ss_base64_append(answer->data, binary, answer) == SS_OK) {
            headers[n++] = nv_of("grpc-status-details-bin", answer->data + binary, answer->length - binary);
        }
    }
    return nghttp2_submit_response(connection->session, s->id, headers, n, NULL);
}

/* The request is done with; the answer follows. */
static void finish_request(http2 *connection, stream *s, stream_list *list) {
    release_request(connection, s);
    list_remove(s);
    list_append(list, s);
    s->started_ns = connection->base.scratch->now_ns;
    s->answered = true;
    connection->credit += CREDIT_PER_REQUEST;
    if (connection->credit > CREDIT_MAX) {
        connection->credit = CREDIT_MAX;
    }
    ss_count(&connection->base.scratch->stats.requests, 1);
}

static int answer(http2 *connection, stream *s, const ss_verdict *verdict, const char *http_status) {
    finish_request(connection, s, &connection->answered);
    return verdict->code == SS_CODE_OK ? answer_success(connection, s, verdict)
                                       : answer_failure(connection, s, verdict, http_status);
}

/* Answer a request that no pipeline sees. */
static int refuse(http2 *connection, stream *s, ss_refusal refusal, const ss_verdict *verdict) {
    ss_refuse_request(&connection->base, refusal, "%s", verdict->message);
    return answer(connection, s, verdict, "200");
}

static int refuse_no_room(http2 *connection, stream *s) {
    ss_verdict verdict;
    ss_verdict_no_room(&verdict);
    return refuse(connection, s, SS_REFUSAL_MEMORY, &verdict);
}

/* ------------------------------------------------------------------ health */

static ss_health health_of(const http2 *connection, const stream *s) {
    ss_health health = ss_health_of(connection->base.scratch->service, s->subject);
    return connection->is_stopping && health == SS_HEALTH_SERVING ? SS_HEALTH_NOT_SERVING : health;
}

/* Send what is held; then wait until there is news, or the server ends. */
static ssize_t read_watch(nghttp2_session *session, int32_t id, uint8_t *out, size_t capacity, uint32_t *flags,
                          nghttp2_data_source *source, void *user) {
    static const nghttp2_nv stopped[] = {NV("grpc-status", "14"), NV("grpc-message", "the server is shutting down")};
    const http2 *connection = user;
    stream *s = source->ptr;
    ss_buffer *held = &s->body.held;
    if (s->reply_sent == held->length) {
        ss_health health = health_of(connection, s);
        if (health == s->told && connection->is_stopping) {
            *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
            return nghttp2_submit_trailer(session, id, stopped, 2) == 0 ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
        if (health == s->told) {
            return NGHTTP2_ERR_DEFERRED;
        }
        s->told = health;
        s->reply_sent = 0;
        held->data[HEALTH_BYTES - 1] = (uint8_t)health;
    }
    size_t left = held->length - s->reply_sent;
    size_t size = left < capacity ? left : capacity;
    memcpy(out, held->data + s->reply_sent, size);
    s->reply_sent += size;
    return (ssize_t)size;
}

static int answer_health(http2 *connection, stream *s, const uint8_t *message, size_t length) {
    ss_verdict verdict;
    bool is_watch = s->health == SS_HEALTH_WATCH;
    if (!ss_health_read(message, length, &s->subject)) {
        ss_verdict_fail(&verdict, SS_CODE_INTERNAL, "grpc: error unmarshalling request");
        return answer(connection, s, &verdict, "200");
    }
    if (s->subject == SS_HEALTH_OF_NOTHING && !is_watch) {
        ss_verdict_fail(&verdict, SS_CODE_NOT_FOUND, "unknown service");
        return answer(connection, s, &verdict, "200");
    }
    finish_request(connection, s, is_watch ? &connection->watching : &connection->answered);
    s->told = health_of(connection, s);
    const uint8_t reply[HEALTH_BYTES] = {0, 0, 0, 0, 2, 0x08, (uint8_t)s->told};
    int result = hold_reply(connection, s, reply, sizeof reply);
    return result == 0 ? submit_reply(connection, s, is_watch ? read_watch : read_reply) : result;
}

static void wake_watchers(http2 *connection) {
    for (stream *s = connection->watching.first; s; s = s->next) {
        if (connection->is_stopping || s->told != health_of(connection, s)) {
            /* Fails where something is on its way already, behind which it looks again. */
            (void)nghttp2_session_resume_data(connection->session, s->id);
        }
    }
}

/* ------------------------------------------------------------------ requests */

/* Find the method; false where verdict says why there is none. */
static bool route(http2 *connection, stream *s, ss_refusal *refusal, ss_verdict *verdict) {
    const head *h = &connection->head;
    const ss_service *service = connection->base.scratch->service;
    if (connection->base.listener->config.has_health) {
        s->health = ss_health_route(h->path, h->path_length);
    }
    if (s->health != SS_HEALTH_NONE) {
        return true;
    }
    *refusal = SS_REFUSAL_UNKNOWN_PATH;
    if (!ss_grpc_route(h->path, h->path_length, &s->signal, verdict)) {
        return false;
    }
    if (!service->has_signal(service->receiver, s->signal)) {
        *refusal = SS_REFUSAL_NO_PIPELINE;
        ss_verdict_fail(verdict, SS_CODE_UNIMPLEMENTED, "unknown service %s", ss_grpc_services[s->signal]);
        return false;
    }
    return true;
}

/* Go on, or refuse at once what the header block already shows to be refused. */
static int take_headers(http2 *connection, stream *s) {
    const head *h = &connection->head;
    ss_verdict verdict = {0};
    char quoted[2 * UNKNOWN_TEXT_BYTES];
    const char *http_status = "200";
    ss_refusal refusal = SS_REFUSAL_HEADERS_TOO_LARGE;
    s->headers_done = true;
    s->encoding = h->encoding;
    s->deadline_ns = ss_clock_after(s->started_ns, h->timeout_ns);
    if (h->bytes > SS_MAX_HEADER_BYTES) {
        ss_verdict_fail(&verdict, SS_CODE_RESOURCE_EXHAUSTED, "request headers larger than max (%zu vs. %d)", h->bytes,
                        SS_MAX_HEADER_BYTES);
    } else if (!h->is_grpc) {
        http_status = "415";
        refusal = SS_REFUSAL_MEDIA_TYPE;
        if (h->has_content_type) {
            ss_quote(h->content_type, h->content_type_length, quoted, sizeof quoted);
            ss_verdict_fail(&verdict, SS_CODE_INVALID_ARGUMENT, "invalid gRPC request content-type %s", quoted);
        } else {
            ss_verdict_fail(&verdict, SS_CODE_INVALID_ARGUMENT, "malformed header: missing HTTP content-type");
        }
    } else if (!h->is_post) {
        http_status = "405";
        refusal = SS_REFUSAL_METHOD;
        ss_quote(h->method, h->method_length, quoted, sizeof quoted);
        ss_verdict_fail(&verdict, SS_CODE_INTERNAL, "Received a HEADERS frame with :method %s which should be POST",
                        quoted);
    } else if (!route(connection, s, &refusal, &verdict)) {
        /* verdict says why */
    } else if (h->unknown_encoding_length) {
        refusal = SS_REFUSAL_ENCODING;
        ss_quote(h->unknown_encoding, h->unknown_encoding_length, quoted, sizeof quoted);
        ss_verdict_fail(&verdict, SS_CODE_UNIMPLEMENTED, "grpc: Decompressor is not installed for grpc-encoding %s",
                        quoted);
    }
    if (verdict.code == SS_CODE_OK) {
        return 0;
    }
    ss_refuse_request(&connection->base, refusal, "%s", verdict.message);
    return answer(connection, s, &verdict, http_status);
}

/* Have the deadlines of pending streams from s on watched; those of a moment together. */
static void watch_deadlines(http2 *connection, const stream *s) {
    uint64_t deadline_ns = s ? s->deadline_ns : UINT64_MAX;
    bool is_set = deadline_ns <= UINT64_MAX - deadline_grain_ns;
    uint64_t wake_ns = is_set ? (deadline_ns / deadline_grain_ns + 1) * deadline_grain_ns : UINT64_MAX;
    ss_connection_wake(&connection->base, wake_ns);
}

/* Let the stream wait for its answer. */
static void await(http2 *connection, stream *s, bool is_too_fast) {
    stream *before = connection->pending.last;
    while (before && before->deadline_ns > s->deadline_ns) { /* seldom: clients have one timeout */
        before = before->previous;
    }
    list_remove(s);
    list_insert(&connection->pending, before, s);
    ss_connection_await(&connection->base, s, &s->reply);
    s->is_too_fast = is_too_fast;
    connection->n_too_fast += is_too_fast;
    connection->base.is_paused |= is_too_fast;
    if (connection->pending.first == s) {
        watch_deadlines(connection, s);
    }
}

/* Find the message, decompressed; false: verdict and refusal say what is wrong. */
static bool unpack(http2 *connection, stream *s, ss_request *request, ss_refusal *refusal, ss_verdict *verdict) {
    ss_scratch *scratch = connection->base.scratch;
    const size_t limit = connection->base.listener->config.max_message_bytes;
    const uint8_t *body = ss_body_bytes(&s->body);
    bool is_found =
        ss_grpc_unpack(s->encoding, body, ss_body_length(&s->body), limit, &request->bytes, &request->length, verdict);
    if (is_found && *body != 0) { /* a message may be sent as it is whatever its stream says */
        ss_error error = {0};
        ss_status status = ss_inflate(scratch, s->encoding, request->bytes, request->length, limit, &error);
        is_found = status == SS_OK;
        if (status == SS_ERR_REFUSED) {
            ss_verdict_no_room(verdict);
        } else if (status != SS_OK) {
            ss_grpc_fail_inflation(status, &error, limit, verdict);
        }
        request->encoding = s->encoding;
        request->bytes = ss_bytes_of(&scratch->inflated);
        request->length = scratch->inflated.length;
    }
    *refusal = verdict->code == SS_CODE_RESOURCE_EXHAUSTED ? SS_REFUSAL_TOO_LARGE
               : verdict->code == SS_CODE_UNAVAILABLE      ? SS_REFUSAL_MEMORY
                                                           : SS_REFUSAL_MALFORMED;
    return is_found;
}

/* The peer has said all: hand the message over. */
static int take_request(http2 *connection, stream *s) {
    ss_scratch *scratch = connection->base.scratch;
    const ss_service *service = scratch->service;
    ss_verdict verdict = {0};
    ss_request request = {.signal = s->signal,
                          .transport = SS_TRANSPORT_GRPC,
                          .payload = SS_PAYLOAD_PROTOBUF,
                          .route = ss_connection_route(&connection->base, s->deadline_ns),
                          .metadata = s->metadata.data,
                          .metadata_length = s->metadata.length};
    ss_refusal refusal;
    if (!unpack(connection, s, &request, &refusal, &verdict)) {
        return refuse(connection, s, refusal, &verdict);
    }
    if (s->health != SS_HEALTH_NONE) {
        int result = answer_health(connection, s, request.bytes, request.length);
        ss_inflated_done(scratch);
        return result;
    }
    service->accept(service->receiver, scratch->worker, &request, &verdict);
    ss_inflated_done(scratch);
    if (verdict.code == SS_CODE_INVALID_ARGUMENT) {
        return refuse(connection, s, verdict.needs_memory ? SS_REFUSAL_MEMORY : SS_REFUSAL_MALFORMED, &verdict);
    }
    if (verdict.is_pending) {
        release_request(connection, s);
        await(connection, s, verdict.is_too_fast);
        return 0;
    }
    return answer(connection, s, &verdict, "200");
}

/* Once the prefix has arrived: refuse what it announces, before it comes. */
static int check_prefix(http2 *connection, stream *s) {
    uint32_t length;
    ss_verdict verdict = {0};
    if (!ss_grpc_check_prefix(ss_body_bytes(&s->body), s->encoding, connection->base.listener->config.max_message_bytes,
                              &length, &verdict)) {
        bool is_too_large = verdict.code == SS_CODE_RESOURCE_EXHAUSTED;
        return refuse(connection, s, is_too_large ? SS_REFUSAL_TOO_LARGE : SS_REFUSAL_MALFORMED, &verdict);
    }
    s->stated_length = length > UINT32_MAX - SS_GRPC_PREFIX_BYTES ? UINT32_MAX : length + SS_GRPC_PREFIX_BYTES;
    return 0;
}

static int settle(http2 *connection) {
    stream *s = connection->borrowing;
    if (!s) {
        return 0;
    }
    connection->borrowing = NULL;
    ss_status status = ss_body_settle(connection->base.scratch, &s->body, s->stated_length);
    connection->held_bytes += s->body.held.length;
    if (status == SS_ERR_REFUSED) {
        return refuse_no_room(connection, s);
    }
    return status == SS_OK ? 0 : NGHTTP2_ERR_NOMEM;
}

static int take_data(http2 *connection, stream *s, const uint8_t *bytes, size_t length) {
    if (s != connection->borrowing && settle(connection) != 0) {
        return NGHTTP2_ERR_NOMEM;
    }
    size_t before = s->body.held.length;
    ss_status status = ss_body_append(connection->base.scratch, &s->body, bytes, length, s->stated_length);
    connection->borrowing = s->body.borrowed ? s : NULL;
    connection->held_bytes += s->body.held.length - before;
    if (status != SS_OK) {
        return status == SS_ERR_REFUSED ? refuse_no_room(connection, s) : NGHTTP2_ERR_NOMEM;
    }
    ss_verdict verdict = {0};
    size_t body_length = ss_body_length(&s->body);
    if (!s->stated_length && body_length >= SS_GRPC_PREFIX_BYTES) {
        int result = check_prefix(connection, s);
        if (result != 0 || s->answered) {
            return result;
        }
    }
    if (s->stated_length && body_length > s->stated_length) {
        ss_verdict_fail(&verdict, SS_CODE_INTERNAL,
                        "cardinality violation: received multiple request messages for non-client-streaming RPC");
        return refuse(connection, s, SS_REFUSAL_MALFORMED, &verdict);
    }
    if (connection->held_bytes / HELD_FACTOR > connection->base.listener->config.max_message_bytes) {
        ss_verdict_fail(&verdict, SS_CODE_RESOURCE_EXHAUSTED,
                        "too many bytes of unfinished requests on one connection");
        verdict.has_retry_delay = true;
        return refuse(connection, s, SS_REFUSAL_MEMORY, &verdict);
    }
    return 0;
}

/* ------------------------------------------------------------------ OTLP/HTTP */

/* Take no new streams, and end when those that are there have ended. Requests on their way are still taken: the last
 * word is said when the peer has answered the ping. */
static void start_drain(http2 *connection, const char *reason, uint64_t patience_ns) {
    static const uint8_t opaque[8] = {'d', 'r', 'a', 'i', 'n', 0, 0, 0};
    uint64_t final_ns = connection->base.scratch->now_ns + patience_ns;
    if (!connection->drain_reason) {
        connection->drain_reason = reason;
        connection->final_goaway_ns = final_ns;
        nghttp2_submit_shutdown_notice(connection->session);
        nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, opaque);
    } else if (connection->final_goaway_ns > final_ns) {
        connection->final_goaway_ns = final_ns;
    }
}

static ssize_t read_exchange(nghttp2_session *session, int32_t id, uint8_t *out, size_t capacity, uint32_t *flags,
                             nghttp2_data_source *source, void *user) {
    (void)session, (void)id, (void)user;
    stream *s = source->ptr;
    size_t left = s->exchange.length - s->reply_sent;
    size_t size = left < capacity ? left : capacity;
    memcpy(out, s->exchange.inner->output.data + s->exchange.body + s->reply_sent, size);
    s->reply_sent += size;
    *flags |= size == left ? NGHTTP2_DATA_FLAG_EOF : 0;
    return (ssize_t)size;
}

static int answer_exchange(http2 *connection, stream *s) {
    size_t n_fields;
    finish_request(connection, s, &connection->answered);
    nghttp2_nv *fields = ss_exchange_answer(&s->exchange, &n_fields);
    if (!fields) {
        return NGHTTP2_ERR_NOMEM;
    }
    const nghttp2_data_provider provider = {.source.ptr = s, .read_callback = read_exchange};
    int result =
        nghttp2_submit_response(connection->session, s->id, fields, n_fields, s->exchange.length ? &provider : NULL);
    free(fields);
    if (connection->base.listener->config.closes_after_answer) {
        start_drain(connection, "", stopped_patience_ns);
    }
    return result;
}

/* A request that is not looked at. */
static int refuse_with_status(http2 *connection, stream *s, ss_refusal refusal, const char *status) {
    ss_refuse_request(&connection->base, refusal, "a request over HTTP/2, answered %s", status);
    const nghttp2_nv field = nv_of(":status", status, strlen(status));
    finish_request(connection, s, &connection->answered);
    return nghttp2_submit_response(connection->session, s->id, &field, 1, NULL);
}

/* After the request has gone on. */
static int follow_exchange(http2 *connection, stream *s, ss_status status) {
    const ss_exchange *exchange = &s->exchange;
    if (status != SS_OK) {
        return NGHTTP2_ERR_NOMEM;
    }
    if (ss_exchange_is_answered(exchange)) {
        return answer_exchange(connection, s);
    }
    if (exchange->inner->is_paused) {
        release_request(connection, s);
        list_remove(s);
        list_append(&connection->pending, s); /* without a deadline: behind those that have one */
    } else if (connection->held_bytes / HELD_FACTOR > connection->base.listener->config.max_message_bytes) {
        return refuse_with_status(connection, s, SS_REFUSAL_MEMORY, "503");
    }
    return 0;
}

/* Give back what the head of a request has used beyond the usual. */
static void drop_head(http2 *connection) {
    if (connection->counted_head) {
        ss_release_bytes(connection->base.scratch, connection->counted_head);
        connection->counted_head = 0;
        ss_exchange_head_free(&connection->exchange_head);
    }
}

static int begin_exchange(http2 *connection, stream *s) {
    s->headers_done = true;
    s->deadline_ns = UINT64_MAX;
    if (connection->head.bytes > SS_MAX_HEADER_BYTES) {
        return refuse_with_status(connection, s, SS_REFUSAL_HEADERS_TOO_LARGE, "431");
    }
    ss_status status = ss_exchange_begin(&s->exchange, &connection->exchange_head, !s->complete, &connection->base, s);
    drop_head(connection);
    return follow_exchange(connection, s, status);
}

static int feed_exchange(http2 *connection, stream *s, const uint8_t *bytes, size_t length) {
    connection->held_bytes += length;
    return follow_exchange(connection, s, ss_exchange_feed(&s->exchange, bytes, length, false));
}

/* ------------------------------------------------------------------ nghttp2's callbacks */

static int fail(http2 *connection, uint32_t code) {
    connection->failure = code;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* Memory is short: nothing on this connection can be relied on. */
static int checked(http2 *connection, int result) {
    return result == 0 ? 0 : fail(connection, NGHTTP2_INTERNAL_ERROR);
}

static int charge(http2 *connection) {
    return --connection->credit < 0 ? fail(connection, NGHTTP2_ENHANCE_YOUR_CALM) : 0;
}

/* A peer that pings for no reason, and more often than it may, is ended. Answers make up for pings. */
static int take_ping(http2 *connection) {
    const ss_listener_config *config = &connection->base.listener->config;
    if (is_http(connection)) {
        return 0; /* only gRPC's servers mind; floods run dry */
    }
    uint64_t now = connection->base.scratch->now_ns, last = connection->last_ping_ns;
    connection->last_ping_ns = now;
    if (connection->has_sent) {
        connection->has_sent = false;
        connection->ping_strikes = 0;
        return 0;
    }
    uint64_t least = has_streams(connection) || config->pings_without_calls ? config->min_ping_interval_ns
                                                                            : ping_interval_without_calls_ns;
    if (last == 0 || now - last >= least || ++connection->ping_strikes <= MAX_PING_STRIKES) {
        return 0;
    }
    connection->failure_text = "too_many_pings";
    return fail(connection, NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *frame, void *user) {
    (void)session;
    http2 *connection = user;
    switch (frame->type) {
    case NGHTTP2_DATA:
        if (frame->length > 0) {
            return 0;
        }
        break;
    case NGHTTP2_CONTINUATION:
        if (++connection->head.n_continuations > MAX_CONTINUATIONS) {
            return fail(connection, NGHTTP2_ENHANCE_YOUR_CALM);
        }
        return 0;
    case NGHTTP2_HEADERS: connection->head.n_continuations = 0; break;
    default: break;
    }
    return charge(connection);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    http2 *connection = user;
    connection->head = (head){.timeout_ns = UINT64_MAX};
    ss_exchange_head_reset(&connection->exchange_head);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0; /* trailers, of which gRPC clients send none that matter */
    }
    if (!count_stream(connection)) {
        ss_refuse_request(&connection->base, SS_REFUSAL_MEMORY, "stream %d of its connection", frame->hd.stream_id);
        /* Without a stream of ours its frames are passed over. */
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM) == 0
                   ? 0
                   : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    stream *s = stream_new(connection, frame->hd.stream_id);
    if (!s) {
        connection->n_streams--;
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
    return 0;
}

static size_t keep_text(uint8_t *to, size_t capacity, const uint8_t *text, size_t length) {
    size_t size = length < capacity ? length : capacity;
    memcpy(to, text, size);
    return size;
}

/* "application/grpc", alone or with a message format or parameters. */
static bool is_grpc_content_type(const uint8_t *value, size_t length) {
    static const char type[] = "application/grpc";
    size_t size = sizeof type - 1;
    return length >= size && memcmp(value, type, size) == 0 &&
           (length == size || value[size] == '+' || value[size] == ';');
}

static int keep_value(http2 *connection, stream *s, const void *name, size_t name_length, const uint8_t *value,
                      size_t length) {
    const char *kept = ss_names_find(&connection->base.listener->metadata_names, name, name_length);
    size_t before = s->metadata.length;
    if (kept && ss_metadata_append(&s->metadata, kept, value, length) != SS_OK) {
        return NGHTTP2_ERR_NOMEM;
    }
    /* At most SS_MAX_HEADER_BYTES, which no refusal would make fewer. */
    ss_count_bytes(connection->base.scratch, s->metadata.length - before);
    connection->held_bytes += s->metadata.length - before;
    return 0;
}

/* :authority and host are one, and the first of them counts. */
static int keep_metadata(http2 *connection, stream *s, const uint8_t *name, size_t name_length, const uint8_t *value,
                         size_t length) {
    static const char authority[] = ":authority", host[] = "host";
    bool is_host = (name_length == sizeof authority - 1 && memcmp(name, authority, name_length) == 0) ||
                   (name_length == sizeof host - 1 && memcmp(name, host, name_length) == 0);
    if (!is_host) {
        return keep_value(connection, s, name, name_length, value, length);
    }
    if (connection->head.has_host) {
        return 0;
    }
    connection->head.has_host = true;
    int result = keep_value(connection, s, authority, sizeof authority - 1, value, length);
    return result == 0 ? keep_value(connection, s, host, sizeof host - 1, value, length) : result;
}

/* Header lines beyond the usual are held, too: at most SS_MAX_HEADER_BYTES a connection. */
static void count_head(http2 *connection) {
    size_t capacity = connection->exchange_head.lines.capacity;
    if (capacity > KEPT_HEAD_BYTES && capacity > connection->counted_head) {
        ss_count_bytes(connection->base.scratch, capacity - connection->counted_head);
        connection->counted_head = capacity;
    }
}

static int take_field(http2 *connection, const uint8_t *name, size_t name_length, const uint8_t *value, size_t length) {
    switch (ss_exchange_head_add(&connection->exchange_head, name, name_length, value, length)) {
    case SS_OK: count_head(connection); return 0;
    case SS_ERR_MALFORMED: return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
    default: return fail(connection, NGHTTP2_INTERNAL_ERROR);
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t length, uint8_t flags, void *user) {
    (void)flags;
    http2 *connection = user;
    head *h = &connection->head;
    h->bytes += name_length + length + 32; /* as HPACK and SETTINGS_MAX_HEADER_LIST_SIZE count */
    if (h->bytes > SS_MAX_HEADER_BYTES) {
        return h->bytes > (size_t)SS_MAX_HEADER_BYTES * HEADER_FLOOD_FACTOR
                   ? fail(connection, NGHTTP2_ENHANCE_YOUR_CALM)
                   : 0;
    }
    if (is_http(connection)) {
        return frame->headers.cat == NGHTTP2_HCAT_REQUEST ? take_field(connection, name, name_length, value, length)
                                                          : 0;
    }
    if (connection->base.listener->metadata_names.n && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (s && checked(connection, keep_metadata(connection, s, name, name_length, value, length)) != 0) {
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
    }
    switch (name_length) {
    case 5:
        if (memcmp(name, ":path", 5) == 0) {
            h->path_length = keep_text(h->path, sizeof h->path, value, length);
        }
        break;
    case 7:
        if (memcmp(name, ":method", 7) == 0) {
            h->is_post = length == 4 && memcmp(value, "POST", 4) == 0;
            h->method_length = keep_text(h->method, sizeof h->method, value, length);
        }
        break;
    case 12:
        if (memcmp(name, "content-type", 12) == 0) {
            h->has_content_type = true;
            h->is_grpc = is_grpc_content_type(value, length);
            h->content_type_length = keep_text(h->content_type, sizeof h->content_type, value, length);
        } else if (memcmp(name, "grpc-timeout", 12) == 0) {
            h->timeout_ns = ss_grpc_read_timeout(value, length);
        }
        break;
    case 13:
        if (memcmp(name, "grpc-encoding", 13) == 0 && length > 0 &&
            !ss_grpc_find_encoding(value, length, &h->encoding)) {
            h->unknown_encoding_length = keep_text(h->unknown_encoding, sizeof h->unknown_encoding, value, length);
        }
        break;
    default: break;
    }
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length,
                         void *user) {
    (void)flags;
    http2 *connection = user;
    stream *s = nghttp2_session_get_stream_user_data(session, id);
    if (!s || s->answered) {
        return 0;
    }
    return checked(connection, is_http(connection) ? feed_exchange(connection, s, bytes, length)
                                                   : take_data(connection, s, bytes, length));
}

/* The headers of a call, or its end, may have come. */
static int go_on(http2 *connection, stream *s) {
    int result = s->headers_done ? 0 : take_headers(connection, s);
    return result == 0 && s->complete && !s->answered && !s->reply ? take_request(connection, s) : result;
}

static int go_on_with_exchange(http2 *connection, stream *s) {
    if (!s->headers_done) {
        return begin_exchange(connection, s);
    }
    return s->complete && !s->answered ? follow_exchange(connection, s, ss_exchange_feed(&s->exchange, NULL, 0, true))
                                       : 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    http2 *connection = user;
    stream *s;
    switch (frame->hd.type) {
    case NGHTTP2_DATA:
        if (frame->hd.length > 0 && frame->hd.length == frame->data.padlen && charge(connection) != 0) {
            return NGHTTP2_ERR_CALLBACK_FAILURE; /* nothing but padding; frames of no length are charged already */
        }
        /* fall through */
    case NGHTTP2_HEADERS:
        s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (!s) {
            return 0;
        }
        s->complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        return checked(connection, is_http(connection) ? go_on_with_exchange(connection, s) : go_on(connection, s));
    case NGHTTP2_SETTINGS: connection->has_settings = true; return 0;
    case NGHTTP2_PING:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
            return take_ping(connection);
        }
        if (connection->final_goaway_ns) {
            connection->final_goaway_ns = 1; /* every request sent before our notice has arrived */
        }
        return 0;
    default: return 0;
    }
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    http2 *connection = user;
    connection->has_sent |= frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR) {
        ss_count(&connection->base.scratch->stats.protocol_errors, 1);
    }
    bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (may_end && frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        const stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (s && !s->complete) { /* answered early: the rest need not come */
            return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
        }
    }
    return 0;
}

/* nghttp2 resets the stream, or ends the connection. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user) {
    (void)session, (void)frame;
    http2 *connection = user;
    ss_refuse_request(&connection->base, SS_REFUSAL_PROTOCOL, "HTTP/2 that cannot be read: %s",
                      nghttp2_strerror(error));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user) {
    (void)code;
    stream *s = nghttp2_session_get_stream_user_data(session, id);
    if (s) {
        nghttp2_session_set_stream_user_data(session, id, NULL);
        stream_free(user, s);
    }
    return 0;
}

/* ------------------------------------------------------------------ the protocol */

/* A frame made by hand: the session cannot be used after a failure. */
static ss_status append_goaway(ss_buffer *output, uint32_t last_stream_id, uint32_t code, const char *text) {
    enum { BYTES = 17 };
    size_t length = strlen(text), payload = length + 8;
    const uint32_t words[] = {last_stream_id, code};
    uint8_t frame[BYTES] = {(uint8_t)(payload >> 16), (uint8_t)(payload >> 8), (uint8_t)payload, NGHTTP2_GOAWAY};
    for (size_t i = 0; i < 8; i++) {
        frame[BYTES - 8 + i] = (uint8_t)(words[i / 4] >> (24 - i % 4 * 8));
    }
    ss_status status = ss_buffer_append(output, frame, sizeof frame);
    return status == SS_OK ? ss_buffer_append(output, (const uint8_t *)text, length) : status;
}

/* End the connection with a last word, which without memory is not said. */
static bool end(http2 *connection, uint32_t code) {
    ss_count(&connection->base.scratch->stats.protocol_errors, 1);
    ss_refuse_request(&connection->base, SS_REFUSAL_PROTOCOL, "a connection that was ended: %s",
                      connection->failure_text ? connection->failure_text : nghttp2_http2_strerror(code));
    uint32_t last = (uint32_t)nghttp2_session_get_last_proc_stream_id(connection->session);
    const char *text = connection->failure_text ? connection->failure_text : "";
    (void)append_goaway(&connection->base.output, last, code, text);
    return false;
}

static bool refuse_stranger(http2 *connection, uint8_t first) {
    enum { TLS_HANDSHAKE = 22 };
    static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
                               "Connection: close\r\n\r\n"
                               "this port speaks gRPC over HTTP/2; OTLP/HTTP has a port of its own\n";
    if (first == TLS_HANDSHAKE) {
        ss_count_stranger(&connection->base, SS_STRANGER_TLS);
    } else if (first >= 'A' && first <= 'Z') { /* of a method */
        ss_count_stranger(&connection->base, SS_STRANGER_HTTP1);
    } else {
        ss_refuse_request(&connection->base, SS_REFUSAL_PROTOCOL, "it speaks no HTTP/2");
    }
    ss_count(&connection->base.scratch->stats.protocol_errors, 1);
    (void)ss_buffer_append(&connection->base.output, (const uint8_t *)text, sizeof text - 1);
    return false;
}

static bool receive(ss_connection *base, const uint8_t *bytes, size_t length) {
    http2 *connection = (http2 *)base;
    connection->read_ns = base->scratch->now_ns;
    ssize_t used = nghttp2_session_mem_recv(connection->session, bytes, length);
    if (used == NGHTTP2_ERR_BAD_CLIENT_MAGIC && !is_http(connection)) {
        return refuse_stranger(connection, bytes[0]);
    }
    if (used < 0) {
        connection->borrowing = NULL; /* the bytes are not needed any more */
        if (used == NGHTTP2_ERR_CALLBACK_FAILURE) {
            return end(connection, connection->failure);
        }
        /* What else ends a session is nghttp2's own limits on floods, which differ from version to version. */
        return end(connection, used == NGHTTP2_ERR_NOMEM ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_ENHANCE_YOUR_CALM);
    }
    return settle(connection) == 0 || end(connection, NGHTTP2_INTERNAL_ERROR);
}

static bool produce(ss_connection *base) {
    http2 *connection = (http2 *)base;
    nghttp2_session *session = connection->session;
    if (connection->final_goaway_ns && connection->final_goaway_ns <= base->scratch->now_ns) {
        connection->final_goaway_ns = 0;
        nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session),
                              NGHTTP2_NO_ERROR, (const uint8_t *)connection->drain_reason,
                              strlen(connection->drain_reason));
    }
    for (;;) {
        const uint8_t *bytes;
        ssize_t length = nghttp2_session_mem_send(session, &bytes);
        if (length < 0) {
            return end(connection, NGHTTP2_INTERNAL_ERROR);
        }
        if (length == 0) {
            return nghttp2_session_want_read(session) || nghttp2_session_want_write(session);
        }
        if (ss_buffer_append(&base->output, bytes, (size_t)length) != SS_OK) {
            return false;
        }
    }
}

/* Since when the peer has been read from: what we do not read is not late. */
static uint64_t when_read_from(const http2 *connection) {
    return connection->base.is_paused ? connection->base.scratch->now_ns : connection->resumed_ns;
}

/* End what is too old or idle, and who does not answer pings; false: at once. */
static bool supervise(http2 *connection) {
    static const uint8_t opaque[8] = {'a', 'l', 'i', 'v', 'e', 0, 0, 0};
    const ss_listener_config *config = &connection->base.listener->config;
    uint64_t now = connection->base.scratch->now_ns;
    bool is_idle =
        config->idle_timeout_ns && !has_streams(connection) && now - connection->idle_ns > config->idle_timeout_ns;
    if (!connection->has_settings) {
        return now - connection->opened_ns <= preface_patience_ns && !is_idle;
    }
    if (connection->expires_ns && now >= connection->expires_ns) {
        if (config->max_age_grace_ns && now - connection->expires_ns >= config->max_age_grace_ns) {
            return false;
        }
        start_drain(connection, "max_age", ended_patience_ns);
    }
    if (is_idle) {
        start_drain(connection, "max_idle", ended_patience_ns);
    }
    uint64_t resumed_ns = when_read_from(connection);
    uint64_t heard_ns = connection->read_ns > resumed_ns ? connection->read_ns : resumed_ns;
    if (connection->pinged_ns > heard_ns) {
        return now - connection->pinged_ns <= config->ping_timeout_ns;
    }
    if (config->ping_after_ns && now - heard_ns > config->ping_after_ns) {
        connection->pinged_ns = now;
        nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, opaque);
    }
    return true;
}

static bool end_slow_requests(http2 *connection) {
    uint64_t limit_ns = connection->base.listener->config.read_timeout_ns;
    uint64_t now = connection->base.scratch->now_ns;
    if (!connection->has_settings && now - connection->opened_ns > limit_ns) {
        return end(connection, NGHTTP2_PROTOCOL_ERROR);
    }
    uint64_t resumed_ns = when_read_from(connection);
    for (stream *s; (s = connection->unfinished.first);) {
        if (now - (s->started_ns > resumed_ns ? s->started_ns : resumed_ns) <= limit_ns) {
            break;
        }
        if (!s->headers_done) {
            return end(connection, NGHTTP2_ENHANCE_YOUR_CALM); /* no other stream can go on either */
        }
        ss_verdict verdict;
        ss_verdict_fail(&verdict, SS_CODE_DEADLINE_EXCEEDED, "request was not complete within the read timeout");
        int result = is_http(connection) ? refuse_with_status(connection, s, SS_REFUSAL_TIMEOUT, "408")
                                         : refuse(connection, s, SS_REFUSAL_TIMEOUT, &verdict);
        if (result != 0) {
            return end(connection, NGHTTP2_INTERNAL_ERROR);
        }
    }
    return true;
}

/* Answers that their clients leave no window for are given up. */
static void end_untaken_answers(http2 *connection) {
    uint64_t now = connection->base.scratch->now_ns;
    uint64_t limit_ns = connection->base.listener->config.write_timeout_ns;
    const stream *s = limit_ns ? connection->answered.first : NULL;
    for (; s && now - s->started_ns > limit_ns; s = s->next) { /* they go when the frames are written */
        ss_refuse_request(&connection->base, SS_REFUSAL_TIMEOUT, "an answer that was not taken");
        (void)nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
    }
}

/* Their clients have stopped waiting. Source: gRPC's Go server, which resets them, too. */
static void end_overdue_calls(http2 *connection) {
    uint64_t now = connection->base.scratch->now_ns;
    const stream *s = connection->pending.first;
    for (; s && s->deadline_ns <= now; s = s->next) { /* they go when the frames are written */
        (void)nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
    }
    watch_deadlines(connection, s);
}

static bool tick(ss_connection *base) {
    http2 *connection = (http2 *)base;
    uint64_t now = base->scratch->now_ns;
    uint64_t earned = (now - connection->credit_ns) / (second_ns / CREDIT_PER_SECOND);
    if (earned > 0) {
        connection->credit_ns = now;
        connection->credit =
            earned < (uint64_t)(CREDIT_MAX - connection->credit) ? connection->credit + (int32_t)earned : CREDIT_MAX;
    }
    wake_watchers(connection);
    end_overdue_calls(connection);
    end_untaken_answers(connection);
    return supervise(connection) && (!base->listener->config.read_timeout_ns || end_slow_requests(connection));
}

static bool drain(ss_connection *base) {
    http2 *connection = (http2 *)base;
    connection->is_stopping = true;
    start_drain(connection, "", stopped_patience_ns);
    wake_watchers(connection);
    return true;
}

static bool answer_pending(ss_connection *base, void *waiting, const ss_verdict *verdict) {
    http2 *connection = (http2 *)base;
    stream *s = waiting;
    read_on(connection, s);
    int result;
    if (is_http(connection)) {
        ss_connection *inner = s->exchange.inner;
        result = inner->protocol->answer(inner, NULL, verdict) || ss_exchange_is_answered(&s->exchange)
                     ? answer_exchange(connection, s)
                     : NGHTTP2_ERR_NOMEM;
    } else {
        result = answer(connection, s, verdict, "200");
    }
    return result == 0 || end(connection, NGHTTP2_INTERNAL_ERROR);
}

static void http2_free(ss_connection *base) {
    http2 *connection = (http2 *)base;
    nghttp2_session_del(connection->session);
    stream_list *const lists[] = {&connection->unfinished, &connection->pending, &connection->answered,
                                  &connection->watching};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        while (lists[i]->first) {
            stream_free(connection, lists[i]->first);
        }
    }
    drop_head(connection);
    ss_exchange_head_free(&connection->exchange_head);
    size_t uncounted = is_http(connection) ? 0 : COUNTED_STREAMS;
    ss_release_bytes(base->scratch, (connection->counted_streams - uncounted) * stream_bytes(connection));
    free(connection);
}

static const ss_protocol http2_protocol = {
    .receive = receive, .produce = produce, .tick = tick, .drain = drain, .answer = answer_pending, .free = http2_free};

/* ------------------------------------------------------------------ construction */

static struct ss_http2_shared *shared_new(void) {
    struct ss_http2_shared *shared = calloc(1, sizeof *shared);
    if (!shared) {
        return NULL;
    }
    if (nghttp2_session_callbacks_new(&shared->callbacks) != 0 || nghttp2_option_new(&shared->option) != 0) {
        ss_http2_shared_free(shared);
        return NULL;
    }
    nghttp2_session_callbacks_set_on_begin_frame_callback(shared->callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(shared->callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(shared->callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(shared->callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(shared->callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(shared->callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(shared->callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(shared->callbacks, on_stream_close);
    nghttp2_option_set_no_closed_streams(shared->option, 1);
    return shared;
}

void ss_http2_shared_free(struct ss_http2_shared *shared) {
    if (!shared) {
        return;
    }
    for (stream *s; (s = shared->spare);) {
        shared->spare = s->next;
        free(s);
    }
    nghttp2_option_del(shared->option);
    nghttp2_session_callbacks_del(shared->callbacks);
    free(shared);
}

ss_connection *ss_http2_new(ss_scratch *scratch, ss_listener *listener) {
    if (!scratch->http2 && !(scratch->http2 = shared_new())) {
        return NULL;
    }
    http2 *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return NULL;
    }
    connection->base = (ss_connection){
        .protocol = &http2_protocol, .scratch = scratch, .listener = listener, .wake_ns = UINT64_MAX, .fd = -1};
    connection->credit = CREDIT_MAX;
    connection->counted_streams = is_http(connection) ? 0 : COUNTED_STREAMS;
    connection->opened_ns = connection->credit_ns = connection->idle_ns = connection->read_ns = scratch->now_ns;
    const ss_listener_config *config = &listener->config;
    if (config->max_age_ns) { /* not all connections of a restart end at once */
        uint64_t spread = ss_hash_mix(ss_hash_seed(connection), scratch->now_ns) % (config->max_age_ns / 5 + 1);
        connection->expires_ns = scratch->now_ns + config->max_age_ns - config->max_age_ns / 10 + spread;
    }
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, config->max_concurrent_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, config->initial_window_bytes},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, SS_MAX_HEADER_BYTES},
    };
    uint64_t window = (uint64_t)config->initial_window_bytes * CONNECTION_WINDOW_FACTOR;
    nghttp2_session **session = &connection->session;
    if (nghttp2_session_server_new2(session, scratch->http2->callbacks, connection, scratch->http2->option) != 0 ||
        nghttp2_submit_settings(*session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof settings[0]) != 0 ||
        nghttp2_session_set_local_window_size(*session, NGHTTP2_FLAG_NONE, 0,
                                              window > INT32_MAX ? INT32_MAX : (int32_t)window) != 0) {
        nghttp2_session_del(*session);
        free(connection);
        return NULL;
    }
    return &connection->base;
}
