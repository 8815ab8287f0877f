/* OTLP/HTTP with protobuf: one call at a time on an HTTP/1.1 connection. */
#include "channel.h"

#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEAD_BYTES = 512, STATUS_OK = 200 };

typedef struct http_state {
    llhttp_t parser;
    load_channel *channel;
    load_call *call; /* whose answer is awaited */
    bool is_leaving;
} http_state;

static int on_body(llhttp_t *parser, const char *at, size_t length) {
    const http_state *state = parser->data;
    if (!state->call) {
        return HPE_USER;
    }
    return ss_client_response_data(&state->call->response, (const uint8_t *)at, length) == SS_ERR_NO_MEMORY ? HPE_USER
                                                                                                            : 0;
}

static int on_message_complete(llhttp_t *parser) {
    http_state *state = parser->data;
    load_call *call = state->call;
    if (!call) {
        return HPE_USER; /* nobody has asked */
    }
    state->call = NULL;
    state->is_leaving = !llhttp_should_keep_alive(parser);
    load_outcome outcome = {.kind = OUTCOME_REFUSED, .code = parser->status_code};
    if (parser->status_code == STATUS_OK) {
        const ss_buffer *body = &call->response.body;
        ss_client_result result = {0};
        outcome.kind = OUTCOME_OK;
        if (body->length && ss_export_response_read(body->data, body->length, &result) == SS_OK) {
            outcome.rejected_items = result.rejected_items;
        }
    }
    engine_answered(state->channel->target->engine, call, &outcome);
    return 0;
}

static const llhttp_settings_t settings = {.on_body = on_body, .on_message_complete = on_message_complete};

static bool http_open(load_channel *channel) {
    http_state *state = calloc(1, sizeof *state);
    if (!state) {
        return false;
    }
    state->channel = channel;
    llhttp_init(&state->parser, HTTP_RESPONSE, &settings);
    state->parser.data = state;
    channel->state = state;
    return true;
}

static void http_close(load_channel *channel) {
    free(channel->state);
}

static bool http_begin(load_channel *channel, load_call *call) {
    static const char *const encodings[SS_N_ENCODINGS] = {
        [SS_ENCODING_GZIP] = "Content-Encoding: gzip\r\n", [SS_ENCODING_ZSTD] = "Content-Encoding: zstd\r\n"};
    const load_target *target = channel->target;
    const char *encoding = encodings[target->encoding];
    http_state *state = channel->state;
    char head[HEAD_BYTES];
    int n = snprintf(head, sizeof head,
                     "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-protobuf\r\n%s"
                     "User-Agent: spansieve-load\r\nContent-Length: %zu\r\n\r\n",
                     target->path, target->authority, encoding ? encoding : "", call->length);
    ss_client_response_reset(&call->response);
    state->call = call;
    return n > 0 && n < HEAD_BYTES && queue_text(&channel->queue, head, (size_t)n) &&
           queue_body(&channel->queue, call->bytes, call->length);
}

/* There is no way to take a request back but to hang up. */
static bool http_cancel(load_channel *channel, load_call *call) {
    (void)channel, (void)call;
    return false;
}

static bool http_receive(load_channel *channel, const uint8_t *bytes, size_t length) {
    http_state *state = channel->state;
    return llhttp_execute(&state->parser, (const char *)bytes, length) == HPE_OK;
}

static bool http_produce(load_channel *channel) {
    (void)channel;
    return true; /* begin has queued all */
}

static bool http_may_begin(const load_channel *channel) {
    return !((const http_state *)channel->state)->is_leaving;
}

const load_protocol http_protocol = {.open = http_open,
                                     .close = http_close,
                                     .begin = http_begin,
                                     .cancel = http_cancel,
                                     .receive = http_receive,
                                     .produce = http_produce,
                                     .may_begin = http_may_begin};
