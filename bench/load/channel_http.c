/* OTLP/HTTP with protobuf: one call at a time on an HTTP/1.1 connection. */
#include "channel.h"

#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEAD_BYTES = 512, STATUS_OK = 200 };

typedef struct http {
    llhttp_t parser;
    load_channel *channel;
    load_call *call; /* whose answer is awaited */
    bool is_leaving;
} http;

static int on_body(llhttp_t *parser, const char *at, size_t length) {
    const http *http = parser->data;
    if (!http->call) {
        return HPE_USER;
    }
    return ss_client_response_data(&http->call->response, (const uint8_t *)at, length) == SS_ERR_NO_MEMORY ? HPE_USER
                                                                                                           : 0;
}

static int on_message_complete(llhttp_t *parser) {
    http *http = parser->data;
    load_call *call = http->call;
    if (!call) {
        return HPE_USER; /* nobody has asked */
    }
    http->call = NULL;
    http->is_leaving = !llhttp_should_keep_alive(parser);
    load_outcome outcome = {.kind = OUTCOME_REFUSED, .code = parser->status_code};
    if (parser->status_code == STATUS_OK) {
        const ss_buffer *body = &call->response.body;
        ss_client_result result = {0};
        outcome.kind = OUTCOME_OK;
        if (body->length && ss_export_response_read(body->data, body->length, &result) == SS_OK) {
            outcome.rejected_items = result.rejected_items;
        }
    }
    engine_answered(http->channel->target->engine, call, &outcome);
    return 0;
}

static const llhttp_settings_t settings = {.on_body = on_body, .on_message_complete = on_message_complete};

static bool http_open(load_channel *channel) {
    http *http = calloc(1, sizeof *http);
    if (!http) {
        return false;
    }
    http->channel = channel;
    llhttp_init(&http->parser, HTTP_RESPONSE, &settings);
    http->parser.data = http;
    channel->state = http;
    return true;
}

static void http_close(load_channel *channel) {
    free(channel->state);
}

static bool http_begin(load_channel *channel, load_call *call) {
    static const char *const paths[SS_N_SIGNALS] = {"traces", "metrics", "logs"};
    static const char *const encodings[SS_N_ENCODINGS] = {
        [SS_ENCODING_GZIP] = "Content-Encoding: gzip\r\n", [SS_ENCODING_ZSTD] = "Content-Encoding: zstd\r\n"};
    const load_target *target = channel->target;
    const char *encoding = encodings[target->encoding];
    http *http = channel->state;
    char head[HEAD_BYTES];
    int n = snprintf(head, sizeof head,
                     "POST /v1/%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-protobuf\r\n%s"
                     "User-Agent: spansieve-load\r\nContent-Length: %zu\r\n\r\n",
                     paths[target->signal], target->authority, encoding ? encoding : "", call->length);
    ss_client_response_reset(&call->response);
    http->call = call;
    return n > 0 && n < HEAD_BYTES && queue_text(&channel->queue, head, (size_t)n) &&
           queue_borrowed(&channel->queue, call->bytes, call->length);
}

/* There is no way to take a request back but to hang up. */
static bool http_cancel(load_channel *channel, load_call *call) {
    (void)channel, (void)call;
    return false;
}

static bool http_receive(load_channel *channel, const uint8_t *bytes, size_t length) {
    http *http = channel->state;
    return llhttp_execute(&http->parser, (const char *)bytes, length) == HPE_OK;
}

static bool http_produce(load_channel *channel) {
    (void)channel;
    return true; /* begin has queued all */
}

static bool http_may_begin(const load_channel *channel) {
    return !((const http *)channel->state)->is_leaving;
}

const load_protocol http_protocol = {.open = http_open,
                                     .close = http_close,
                                     .begin = http_begin,
                                     .cancel = http_cancel,
                                     .receive = http_receive,
                                     .produce = http_produce,
                                     .may_begin = http_may_begin};
