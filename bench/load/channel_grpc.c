/* OTLP/gRPC: many calls at once on one HTTP/2 connection. */
#include "channel.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

enum { FRAME_HEAD_BYTES = 9 };

static const char *const encodings[SS_N_ENCODINGS] = {[SS_ENCODING_GZIP] = "gzip", [SS_ENCODING_ZSTD] = "zstd"};

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *user) {
    (void)flags, (void)user;
    load_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!call) {
        return 0;
    }
    ss_status status = ss_client_response_header(&call->response, name, name_length, value, value_length);
    return status == SS_OK ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes, size_t length,
                   void *user) {
    (void)flags, (void)user;
    load_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    /* An answer that is too large says so in its result. */
    return call && ss_client_response_data(&call->response, bytes, length) == SS_ERR_NO_MEMORY
               ? NGHTTP2_ERR_CALLBACK_FAILURE
               : 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    (void)user;
    bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!may_end || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        return 0;
    }
    const load_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (call && call->n_taken < CALL_PREFIX_BYTES + call->length) { /* answered early: the rest need not go out */
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code, void *user) {
    load_channel *channel = user;
    load_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    if (!call) {
        return 0;
    }
    load_outcome outcome = {.kind = OUTCOME_FAILED};
    if (error_code == NGHTTP2_NO_ERROR || call->response.has_grpc_status) {
        ss_client_result result = {0};
        ss_client_response_result(&call->response, &result);
        outcome.kind = result.grpc_status == SS_CODE_OK ? OUTCOME_OK : OUTCOME_REFUSED;
        outcome.code = result.grpc_status;
        outcome.rejected_items = result.rejected_items;
    }
    engine_answered(channel->target->engine, call, &outcome);
    return 0;
}

/* Says only how much there is: write_data sends it from where it lies. */
static ssize_t read_data(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user) {
    (void)session, (void)stream_id, (void)out, (void)user;
    const load_call *call = source->ptr;
    size_t left = CALL_PREFIX_BYTES + call->length - call->n_taken;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (left <= room) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)left;
    }
    return (ssize_t)room;
}

static int write_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
                      nghttp2_data_source *source, void *user) {
    (void)session, (void)frame;
    load_queue *queue = &((load_channel *)user)->queue;
    load_call *call = source->ptr;
    bool is_queued = queue_text(queue, head, FRAME_HEAD_BYTES);
    if (call->n_taken < CALL_PREFIX_BYTES) {
        size_t left = CALL_PREFIX_BYTES - call->n_taken, n = left < length ? left : length;
        is_queued = is_queued && queue_text(queue, call->prefix + call->n_taken, n);
        call->n_taken += n;
        length -= n;
    }
    is_queued = is_queued && queue_body(queue, call->bytes + call->n_taken - CALL_PREFIX_BYTES, length);
    call->n_taken += length;
    return is_queued ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static ssize_t write_frame(nghttp2_session *session, const uint8_t *bytes, size_t length, int flags, void *user) {
    (void)session, (void)flags;
    return queue_text(&((load_channel *)user)->queue, bytes, length) ? (ssize_t)length : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static bool grpc_open(load_channel *channel) {
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        return false;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_send_callback(callbacks, write_frame);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, write_data);
    nghttp2_option *options;
    if (nghttp2_option_new(&options) != 0) {
        nghttp2_session_callbacks_del(callbacks);
        return false;
    }
    /* What the server is measured by should not wait for the load generator: it takes answers as they are. */
    nghttp2_option_set_no_http_messaging(options, 1);
    nghttp2_option_set_no_closed_streams(options, 1);
    nghttp2_session *session = NULL;
    int result = nghttp2_session_client_new2(&session, callbacks, channel, options);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    channel->state = session;
    return result == 0 && nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 1) == 0;
}

static void grpc_close(load_channel *channel) {
    nghttp2_session_del(channel->state);
}

/* name and value lie still as long as the connection. */
static nghttp2_nv field(const char *name, const char *value) {
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name, /* nghttp2 does not write */
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value),
                        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

static bool grpc_begin(load_channel *channel, load_call *call) {
    const load_target *target = channel->target;
    const char *encoding = encodings[target->encoding];
    nghttp2_nv fields[8] = {field(":method", "POST"),
                            field(":scheme", "http"),
                            field(":path", target->path),
                            field(":authority", target->authority),
                            field("te", "trailers"),
                            field("content-type", "application/grpc"),
                            field("user-agent", "spansieve-load")};
    size_t n_fields = 7;
    if (encoding) {
        fields[n_fields++] = field("grpc-encoding", encoding);
    }
    call->prefix[0] = encoding != NULL;
    for (int i = 0; i < 4; i++) {
        call->prefix[1 + i] = (uint8_t)(call->length >> (24 - 8 * i));
    }
    call->n_taken = 0;
    ss_client_response_reset(&call->response);
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_data};
    call->stream_id = nghttp2_submit_request(channel->state, NULL, fields, n_fields, &body, call);
    return call->stream_id > 0;
}

static bool grpc_cancel(load_channel *channel, load_call *call) {
    nghttp2_session_set_stream_user_data(channel->state, call->stream_id, NULL);
    return nghttp2_submit_rst_stream(channel->state, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL) == 0;
}

static bool grpc_receive(load_channel *channel, const uint8_t *bytes, size_t length) {
    return nghttp2_session_mem_recv(channel->state, bytes, length) >= 0;
}

static bool grpc_produce(load_channel *channel) {
    return nghttp2_session_send(channel->state) == 0;
}

static bool grpc_may_begin(const load_channel *channel) {
    return nghttp2_session_check_request_allowed(channel->state);
}

const load_protocol grpc_protocol = {.open = grpc_open,
                                     .close = grpc_close,
                                     .begin = grpc_begin,
                                     .cancel = grpc_cancel,
                                     .receive = grpc_receive,
                                     .produce = grpc_produce,
                                     .may_begin = grpc_may_begin};
