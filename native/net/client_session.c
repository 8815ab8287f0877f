#include "net/client_session.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

enum {
    OUT_BYTES = 64 * 1024, /* frames are gathered up to this for one write; a frame more may go over it */
    PREFIX_BYTES = 5,
    N_OWN_FIELDS = 10
};

struct ss_client_session {
    nghttp2_session *http2;
    const ss_client_head *head;
    nghttp2_nv *fields; /* N_OWN_FIELDS and the configured headers */
    size_t n_fields;
    ss_buffer out;
    size_t out_sent;

    const ss_client_call *call; /* NULL between calls */
    int32_t stream_id;
    uint8_t prefix[PREFIX_BYTES];
    size_t body_sent; /* of prefix and message */
    ss_client_response response;
    bool is_ended;  /* END_STREAM came, or the response is no longer of interest */
    bool is_closed; /* nghttp2 has let go of the stream */
    uint32_t error_code;
};

static const char *const paths[SS_N_SIGNALS] = {
    [SS_SIGNAL_TRACES] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    [SS_SIGNAL_METRICS] = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    [SS_SIGNAL_LOGS] = "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
};

static const char *const encoding_names[SS_N_ENCODINGS] = {
    [SS_ENCODING_IDENTITY] = NULL, /* the absent header */
    [SS_ENCODING_GZIP] = "gzip",    [SS_ENCODING_ZSTD] = "zstd",
    [SS_ENCODING_ZLIB] = "deflate", [SS_ENCODING_SNAPPY_FRAMED] = "snappy",
};

static bool is_current(const ss_client_session *session, int32_t stream_id) {
    return session->call && stream_id == session->stream_id;
}

static int on_header(nghttp2_session *http2, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *user) {
    (void)http2;
    (void)flags;
    ss_client_session *session = user;
    if (!is_current(session, frame->hd.stream_id)) {
        return 0;
    }
    ss_status status = ss_client_response_header(&session->response, name, name_length, value, value_length);
    return status == SS_OK ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *http2, uint8_t flags, int32_t stream_id, const uint8_t *bytes, size_t length,
                   void *user) {
    (void)http2;
    (void)flags;
    ss_client_session *session = user;
    if (!is_current(session, stream_id) || session->is_ended) {
        return 0;
    }
    ss_status status = ss_client_response_data(&session->response, bytes, length);
    session->is_ended |= session->response.is_too_large;
    return status == SS_ERR_NO_MEMORY ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *user) {
    (void)http2;
    ss_client_session *session = user;
    bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (may_end && frame->hd.flags & NGHTTP2_FLAG_END_STREAM && is_current(session, frame->hd.stream_id)) {
        session->is_ended = true;
    }
    return 0;
}

static int on_stream_close(nghttp2_session *http2, int32_t stream_id, uint32_t error_code, void *user) {
    (void)http2;
    ss_client_session *session = user;
    if (is_current(session, stream_id)) {
        session->is_closed = true;
        session->error_code = error_code;
    }
    return 0;
}

static ssize_t read_body(nghttp2_session *http2, int32_t stream_id, uint8_t *out, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user) {
    (void)http2;
    (void)source;
    ss_client_session *session = user;
    if (!is_current(session, stream_id)) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the call is over, and its message gone */
    }
    const ss_client_call *call = session->call;
    size_t written = 0;
    if (session->body_sent < PREFIX_BYTES) {
        size_t n = PREFIX_BYTES - session->body_sent;
        n = n < room ? n : room;
        memcpy(out, session->prefix + session->body_sent, n);
        session->body_sent += n;
        written = n;
    }
    if (written < room && session->body_sent >= PREFIX_BYTES) {
        size_t offset = session->body_sent - PREFIX_BYTES, n = call->length - offset;
        n = n < room - written ? n : room - written;
        if (n) {
            memcpy(out + written, call->message + offset, n);
        }
        session->body_sent += n;
        written += n;
    }
    if (session->body_sent == PREFIX_BYTES + call->length) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)written;
}

static nghttp2_session *new_http2(ss_client_session *session) {
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *http2 = NULL;
    if (nghttp2_session_callbacks_new(&callbacks)) {
        return NULL;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    int failed = nghttp2_session_client_new(&http2, callbacks, session);
    nghttp2_session_callbacks_del(callbacks);
    if (failed) {
        return NULL;
    }
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, SS_CLIENT_HEADER_BYTES_MAX},
    };
    if (nghttp2_submit_settings(http2, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof settings[0])) {
        nghttp2_session_del(http2);
        return NULL;
    }
    return http2;
}

ss_client_session *ss_client_session_new(const ss_client_head *head) {
    ss_client_session *session = calloc(1, sizeof *session);
    if (!session) {
        return NULL;
    }
    session->head = head;
    session->fields = calloc(N_OWN_FIELDS + head->n_headers / 2, sizeof *session->fields);
    session->http2 = session->fields ? new_http2(session) : NULL;
    if (!session->http2) {
        ss_client_session_free(session);
        return NULL;
    }
    return session;
}

void ss_client_session_free(ss_client_session *session) {
    if (!session) {
        return;
    }
    nghttp2_session_del(session->http2);
    ss_client_response_free(&session->response);
    ss_buffer_free(&session->out);
    free(session->fields);
    free(session);
}

bool ss_client_session_is_usable(ss_client_session *session) {
    return nghttp2_session_check_request_allowed(session->http2) && nghttp2_session_want_read(session->http2);
}

bool ss_client_session_is_over(ss_client_session *session) {
    return !nghttp2_session_want_read(session->http2) && !nghttp2_session_want_write(session->http2) &&
           session->out_sent == session->out.length;
}

static void add_field(ss_client_session *session, const char *name, const char *value, uint8_t flags) {
    session->fields[session->n_fields++] = (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name, /* nghttp2 copies and does not write */
        .value = (uint8_t *)(uintptr_t)value,
        .namelen = strlen(name),
        .valuelen = strlen(value),
        .flags = flags,
    };
}

/* grpc-timeout: at most 8 digits and a unit; the finest unit that fits, cut down. Source: gRPC over HTTP2, "Timeout".
 */
static void format_timeout(uint64_t timeout_ns, char out[10]) {
    static const struct {
        char unit;
        uint64_t ns;
    } units[] = {{'n', 1}, {'u', 1000}, {'m', 1000000}, {'S', 1000000000}, {'M', 60000000000}, {'H', 3600000000000}};
    size_t i = 0;
    while (i < 5 && timeout_ns / units[i].ns > 99999999) {
        i++;
    }
    char digits[20];
    size_t n = 0;
    for (uint64_t value = timeout_ns / units[i].ns; n == 0 || value; value /= 10) {
        digits[n++] = (char)('0' + value % 10);
    }
    size_t written = 0;
    while (n) {
        out[written++] = digits[--n];
    }
    out[written++] = units[i].unit;
    out[written] = '\0';
}

ss_status ss_client_session_begin(ss_client_session *session, const ss_client_call *call) {
    if (call->length > UINT32_MAX) {
        return SS_ERR_LIMIT; /* the message prefix has 32 bits for it */
    }
    const char *encoding = encoding_names[call->encoding];
    char timeout[10];
    session->n_fields = 0;
    add_field(session, ":method", "POST", NGHTTP2_NV_FLAG_NONE);
    add_field(session, ":scheme", "http", NGHTTP2_NV_FLAG_NONE);
    add_field(session, ":path", paths[call->signal], NGHTTP2_NV_FLAG_NONE);
    add_field(session, ":authority", session->head->authority, NGHTTP2_NV_FLAG_NONE);
    add_field(session, "te", "trailers", NGHTTP2_NV_FLAG_NONE);
    if (call->timeout_ns != UINT64_MAX) {
        format_timeout(call->timeout_ns, timeout);
        /* Another value each time: not worth a place in the compression table. */
        add_field(session, "grpc-timeout", timeout, NGHTTP2_NV_FLAG_NO_INDEX);
    }
    add_field(session, "content-type", "application/grpc", NGHTTP2_NV_FLAG_NONE);
    if (encoding) {
        /* Not indexed either: gRPC's C core fails every later grpc-encoding whose name refers to an entry with one
         * that it does not know, which would make falling back to another encoding on this connection hopeless. */
        add_field(session, "grpc-encoding", encoding, NGHTTP2_NV_FLAG_NO_INDEX);
    }
    add_field(session, "grpc-accept-encoding", "identity", NGHTTP2_NV_FLAG_NONE);
    add_field(session, "user-agent", session->head->user_agent, NGHTTP2_NV_FLAG_NONE);
    for (size_t i = 0; i + 1 < session->head->n_headers; i += 2) {
        add_field(session, session->head->headers[i], session->head->headers[i + 1], NGHTTP2_NV_FLAG_NONE);
    }

    session->prefix[0] = encoding != NULL;
    for (int i = 0; i < 4; i++) {
        session->prefix[1 + i] = (uint8_t)(call->length >> (24 - 8 * i));
    }
    session->body_sent = 0;
    session->is_ended = false;
    session->is_closed = false;
    session->error_code = NGHTTP2_NO_ERROR;
    ss_client_response_reset(&session->response);
    nghttp2_data_provider body = {.read_callback = read_body};
    int32_t stream_id = nghttp2_submit_request(session->http2, NULL, session->fields, session->n_fields, &body, NULL);
    if (stream_id < 0) {
        return stream_id == NGHTTP2_ERR_NOMEM ? SS_ERR_NO_MEMORY : SS_ERR_IO;
    }
    session->stream_id = stream_id;
    session->call = call;
    return SS_OK;
}

ss_status ss_client_session_receive(ss_client_session *session, const uint8_t *bytes, size_t length) {
    ssize_t taken = nghttp2_session_mem_recv(session->http2, bytes, length);
    return taken < 0 ? SS_ERR_IO : SS_OK;
}

ss_status ss_client_session_pending(ss_client_session *session, const uint8_t **bytes, size_t *length) {
    if (session->out_sent == session->out.length) {
        session->out_sent = 0;
        session->out.length = 0;
        while (session->out.length < OUT_BYTES) {
            const uint8_t *frame;
            ssize_t n = nghttp2_session_mem_send(session->http2, &frame);
            if (n < 0) {
                return SS_ERR_IO;
            }
            if (n == 0) {
                break;
            }
            if (ss_buffer_append(&session->out, frame, (size_t)n) != SS_OK) {
                return SS_ERR_NO_MEMORY;
            }
        }
    }
    *bytes = session->out.data ? session->out.data + session->out_sent : NULL;
    *length = session->out.length - session->out_sent;
    return SS_OK;
}

void ss_client_session_sent(ss_client_session *session, size_t length) {
    session->out_sent += length;
}

bool ss_client_session_is_done(const ss_client_session *session) {
    return session->is_ended || session->is_closed;
}

bool ss_client_session_is_unprocessed(const ss_client_session *session) {
    bool is_refused = session->is_closed && session->error_code == NGHTTP2_REFUSED_STREAM;
    bool is_unanswered = session->response.http_status == 0 && !ss_client_session_is_done(session);
    return is_refused || is_unanswered;
}

/* Source: gRPC over HTTP2, "HTTP2 Transport Mapping", errors. */
static int32_t code_for_reset(uint32_t error_code) {
    switch (error_code) {
    case NGHTTP2_REFUSED_STREAM: return SS_CODE_UNAVAILABLE;
    case NGHTTP2_CANCEL: return SS_CODE_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM: return SS_CODE_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY: return SS_CLIENT_CODE_PERMISSION_DENIED;
    case NGHTTP2_STREAM_CLOSED:
    case NGHTTP2_HTTP_1_1_REQUIRED: return SS_CODE_UNKNOWN;
    default: return SS_CODE_INTERNAL;
    }
}

void ss_client_session_finish(ss_client_session *session, ss_client_result *result) {
    result->transport_status = SS_OK;
    if (session->is_ended || session->response.has_grpc_status) {
        ss_client_response_result(&session->response, result);
    } else {
        static const char text[] = "the server reset the stream: ";
        const char *name = nghttp2_http2_strerror(session->error_code);
        result->grpc_status = code_for_reset(session->error_code);
        memcpy(result->message, text, sizeof text);
        ss_client_copy_text(result->message + sizeof text - 1, sizeof result->message - (sizeof text - 1),
                            (const uint8_t *)name, strlen(name));
    }
    session->call = NULL;
    if (!session->is_closed) {
        /* An early answer: the rest of the message is not wanted. Failing that, the connection is not reused. */
        nghttp2_submit_rst_stream(session->http2, NGHTTP2_FLAG_NONE, session->stream_id, NGHTTP2_CANCEL);
    }
}
