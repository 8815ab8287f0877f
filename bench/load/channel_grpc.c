/*
 * OTLP/gRPC: many calls at once on one HTTP/2 connection.
 *
 * A session of a library takes about as long over a small request as a fast server does. Here all requests have one
 * header block, which is compressed once, and frames are written where they are known. Only header compression is
 * nghttp2's. Source: RFC 9113 (HTTP/2), RFC 7541 (HPACK).
 */
#include "channel.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAD_BYTES = 9,
    BLOCK_BYTES = 1024,
    SETTING_BYTES = 6,
    PRIORITY_BYTES = 5,
    PING_BYTES = 8,
    RECEIVED_FRAME_MAX = 16384, /* of a payload: what a peer may send that was told nothing else */
    RECEIVED_WINDOW = 1 << 20,  /* of a stream, and of the connection */
    FIRST_WINDOW = 65535,
    FIRST_FRAME_MAX = 16384,
    TABLE_BYTES = 4096,
    STREAM_ID_MAX = 0x7fffffff,
    WINDOW_MAX = 0x7fffffff
};

static const char *const encodings[SS_N_ENCODINGS] = {[SS_ENCODING_GZIP] = "gzip", [SS_ENCODING_ZSTD] = "zstd"};

typedef struct grpc_state {
    nghttp2_hd_deflater *deflater;
    nghttp2_hd_inflater *inflater;
    uint8_t block[BLOCK_BYTES]; /* of the last request's headers */
    size_t block_length;
    bool is_block_fixed;             /* from now on it is the same for each request */
    ss_buffer input;                 /* a frame of which the rest has not come */
    uint32_t open_id;                /* stream whose header block goes on in the next frame; 0: none */
    bool ends_stream;                /* with that header block */
    load_call **streams;             /* by id, see slot_of */
    size_t n_slots;                  /* a power of two */
    uint32_t next_id;                /* of a stream */
    uint32_t n_open, n_max;          /* streams */
    uint32_t frame_max;              /* of a payload that the peer takes */
    int64_t window;                  /* bytes that may be sent on the connection */
    int64_t first_window;            /* the same, of a new stream */
    uint32_t n_received;             /* bytes that the peer has not been given back */
    load_call *unsent, **unsent_end; /* calls that wait for a window, the oldest first */
    bool is_leaving;
} grpc_state;

/* ------------------------------------------------------------------ streams */

static load_call **slot_of(const grpc_state *s, uint32_t id) {
    return &s->streams[(id >> 1) & (s->n_slots - 1)];
}

static load_call *find_call(const grpc_state *s, uint32_t id) {
    load_call *call = *slot_of(s, id);
    return call && call->stream_id == id ? call : NULL;
}

static void forget(grpc_state *s, load_call *call) {
    *slot_of(s, call->stream_id) = NULL;
    s->n_open--;
    for (load_call **at = &s->unsent; *at; at = &(*at)->next_unsent) {
        if (*at == call) {
            *at = call->next_unsent;
            s->unsent_end = *at ? s->unsent_end : at;
            return;
        }
    }
}

/* ------------------------------------------------------------------ what is written */

static void put32(uint8_t *out, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

static void put_head(uint8_t out[HEAD_BYTES], size_t length, uint8_t type, uint8_t flags, uint32_t id) {
    put32(out, (uint32_t)length << 8 | type);
    out[4] = flags;
    put32(out + 5, id);
}

static bool write_frame(load_queue *queue, uint8_t type, uint8_t flags, uint32_t id, const void *payload,
                        size_t length) {
    uint8_t head[HEAD_BYTES];
    put_head(head, length, type, flags, id);
    return queue_text(queue, head, sizeof head) && queue_text(queue, payload, length);
}

/* A frame whose payload is one number. */
static bool write_number(load_queue *queue, uint8_t type, uint32_t id, uint32_t number) {
    uint8_t payload[4];
    put32(payload, number);
    return write_frame(queue, type, NGHTTP2_FLAG_NONE, id, payload, sizeof payload);
}

static nghttp2_nv field(const char *name, const char *value) {
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name, /* nghttp2 does not write */
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

/* Compress the headers anew until that gives the same twice: then all are in the peer's table, or none ever will be. */
static bool make_block(grpc_state *s, const load_target *target) {
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
    uint8_t block[BLOCK_BYTES];
    ssize_t n = nghttp2_hd_deflate_hd(s->deflater, block, sizeof block, fields, n_fields);
    if (n < 0) {
        return false;
    }
    s->is_block_fixed = (size_t)n == s->block_length && memcmp(block, s->block, s->block_length) == 0;
    memcpy(s->block, block, (size_t)n);
    s->block_length = (size_t)n;
    return true;
}

/* Queue what the windows allow of a body. */
static bool write_body(load_channel *channel, load_call *call) {
    grpc_state *s = channel->state;
    load_queue *queue = &channel->queue;
    size_t total = CALL_PREFIX_BYTES + call->length;
    while (call->n_taken < total && s->window > 0 && call->window > 0) {
        int64_t window = s->window < call->window ? s->window : call->window;
        size_t room = window < s->frame_max ? (size_t)window : s->frame_max;
        size_t left = total - call->n_taken, n = left < room ? left : room;
        uint8_t head[HEAD_BYTES];
        put_head(head, n, NGHTTP2_DATA, n == left ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE, call->stream_id);
        bool is_queued = queue_text(queue, head, sizeof head);
        size_t n_prefix = 0;
        if (call->n_taken < CALL_PREFIX_BYTES) {
            n_prefix = CALL_PREFIX_BYTES - call->n_taken;
            n_prefix = n_prefix < n ? n_prefix : n;
            is_queued = is_queued && queue_text(queue, call->prefix + call->n_taken, n_prefix);
        }
        size_t offset = call->n_taken + n_prefix - CALL_PREFIX_BYTES;
        is_queued = is_queued && (n == n_prefix || queue_body(queue, call->bytes + offset, n - n_prefix));
        if (!is_queued) {
            return false;
        }
        call->n_taken += n;
        call->window -= (int64_t)n;
        s->window -= (int64_t)n;
    }
    return true;
}

static bool is_sent(const load_call *call) {
    return call->n_taken == CALL_PREFIX_BYTES + call->length;
}

static bool grpc_produce(load_channel *channel) {
    grpc_state *s = channel->state;
    load_call **at = &s->unsent;
    while (*at && s->window > 0) {
        load_call *call = *at;
        if (!write_body(channel, call)) {
            return false;
        }
        if (is_sent(call)) {
            *at = call->next_unsent;
        } else {
            at = &call->next_unsent;
        }
    }
    while (*at) {
        at = &(*at)->next_unsent;
    }
    s->unsent_end = at;
    return true;
}

static bool grpc_begin(load_channel *channel, load_call *call) {
    grpc_state *s = channel->state;
    while (*slot_of(s, s->next_id)) {
        s->next_id += 2; /* ids may be left out */
    }
    call->stream_id = s->next_id;
    s->next_id += 2;
    *slot_of(s, call->stream_id) = call;
    s->n_open++;
    call->window = s->first_window;
    call->n_taken = 0;
    call->next_unsent = NULL;
    call->prefix[0] = channel->target->encoding != SS_ENCODING_IDENTITY;
    put32(call->prefix + 1, (uint32_t)call->length);
    ss_client_response_reset(&call->response);
    if ((!s->is_block_fixed && !make_block(s, channel->target)) ||
        !write_frame(&channel->queue, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, call->stream_id, s->block,
                     s->block_length) ||
        (!s->unsent && !write_body(channel, call))) {
        return false;
    }
    if (!is_sent(call)) {
        *s->unsent_end = call;
        s->unsent_end = &call->next_unsent;
    }
    return true;
}

static bool grpc_cancel(load_channel *channel, load_call *call) {
    forget(channel->state, call);
    return write_number(&channel->queue, NGHTTP2_RST_STREAM, call->stream_id, NGHTTP2_CANCEL);
}

static bool grpc_may_begin(const load_channel *channel) {
    const grpc_state *s = channel->state;
    return !s->is_leaving && s->n_open < s->n_max && s->next_id < STREAM_ID_MAX - 2 * s->n_slots;
}

/* ------------------------------------------------------------------ what is read */

static uint32_t get32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | (uint32_t)bytes[3];
}

/* A frame, without its padding. */
typedef struct frame {
    uint8_t type, flags;
    uint32_t id;
    const uint8_t *payload;
    size_t length;
} frame;

static bool end_call(load_channel *channel, load_call *call, uint32_t error_code) {
    load_outcome outcome = {.kind = OUTCOME_FAILED};
    if (error_code == NGHTTP2_NO_ERROR || call->response.has_grpc_status) {
        ss_client_result result = {0};
        ss_client_response_result(&call->response, &result);
        outcome.kind = result.grpc_status == SS_CODE_OK ? OUTCOME_OK : OUTCOME_REFUSED;
        outcome.code = result.grpc_status;
        outcome.rejected_items = result.rejected_items;
    }
    forget(channel->state, call);
    /* Answered early: the rest need not go out. */
    bool is_written = error_code != NGHTTP2_NO_ERROR || is_sent(call) ||
                      write_number(&channel->queue, NGHTTP2_RST_STREAM, call->stream_id, NGHTTP2_NO_ERROR);
    engine_answered(channel->target->engine, call, &outcome);
    return is_written;
}

static bool unpad(frame *f) {
    if (f->flags & NGHTTP2_FLAG_PADDED) {
        if (f->length == 0 || f->payload[0] >= f->length) {
            return false;
        }
        f->length -= 1 + (size_t)f->payload[0];
        f->payload++;
    }
    return true;
}

static bool on_data(load_channel *channel, frame *f) {
    grpc_state *s = channel->state;
    load_call *call = find_call(s, f->id);
    s->n_received += (uint32_t)f->length; /* padding counts */
    if (s->n_received > RECEIVED_WINDOW / 2) {
        if (!write_number(&channel->queue, NGHTTP2_WINDOW_UPDATE, 0, s->n_received)) {
            return false;
        }
        s->n_received = 0;
    }
    if (!unpad(f)) {
        return false;
    }
    /* An answer that is too large says so in its result. */
    if (call && ss_client_response_data(&call->response, f->payload, f->length) == SS_ERR_NO_MEMORY) {
        return false;
    }
    return !call || !(f->flags & NGHTTP2_FLAG_END_STREAM) || end_call(channel, call, NGHTTP2_NO_ERROR);
}

/* Read a piece of a header block, also one of a call that is no more: later ones build upon it. */
static bool read_fields(grpc_state *s, load_call *call, const uint8_t *bytes, size_t length, bool is_last) {
    for (;;) {
        nghttp2_nv found;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(s->inflater, &found, &flags, bytes, length, is_last);
        if (n < 0) {
            return false;
        }
        bytes += n;
        length -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            if (call && ss_client_response_header(&call->response, found.name, found.namelen, found.value,
                                                  found.valuelen) != SS_OK) {
                return false;
            }
        } else if (flags & NGHTTP2_HD_INFLATE_FINAL) {
            return nghttp2_hd_inflate_end_headers(s->inflater) == 0;
        } else if (length == 0) {
            return !is_last;
        }
    }
}

static bool on_headers(load_channel *channel, frame *f) {
    grpc_state *s = channel->state;
    if (f->type == NGHTTP2_HEADERS) {
        size_t n_skipped = f->flags & NGHTTP2_FLAG_PRIORITY ? PRIORITY_BYTES : 0;
        if (s->open_id || !unpad(f) || f->length < n_skipped) {
            return false;
        }
        f->payload += n_skipped;
        f->length -= n_skipped;
        s->ends_stream = f->flags & NGHTTP2_FLAG_END_STREAM;
    }
    load_call *call = find_call(s, f->id);
    bool is_last = f->flags & NGHTTP2_FLAG_END_HEADERS;
    if (!read_fields(s, call, f->payload, f->length, is_last)) {
        return false;
    }
    s->open_id = is_last ? 0 : f->id;
    return !is_last || !call || !s->ends_stream || end_call(channel, call, NGHTTP2_NO_ERROR);
}

static bool on_setting(load_channel *channel, unsigned name, uint32_t value) {
    grpc_state *s = channel->state;
    switch (name) {
    case NGHTTP2_SETTINGS_HEADER_TABLE_SIZE:
        if (value < TABLE_BYTES) { /* entries that push one another out would make each block another one */
            s->is_block_fixed = false;
            return nghttp2_hd_deflate_change_table_size(s->deflater, 0) == 0;
        }
        return true;
    case NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS: s->n_max = value; return true;
    case NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE:
        for (size_t i = 0; i < channel->n_calls; i++) {
            channel->calls[i].window += (int64_t)value - s->first_window;
        }
        s->first_window = value;
        return value <= WINDOW_MAX;
    case NGHTTP2_SETTINGS_MAX_FRAME_SIZE: s->frame_max = value; return value >= FIRST_FRAME_MAX && value < 1 << 24;
    default: return true;
    }
}

static bool on_settings(load_channel *channel, const frame *f) {
    if (f->flags & NGHTTP2_FLAG_ACK) {
        return true;
    }
    for (size_t at = 0; at < f->length; at += SETTING_BYTES) {
        if (f->length - at < SETTING_BYTES ||
            !on_setting(channel, (unsigned)f->payload[at] << 8 | f->payload[at + 1], get32(f->payload + at + 2))) {
            return false;
        }
    }
    return write_frame(&channel->queue, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
}

static bool on_window_update(grpc_state *s, const frame *f) {
    if (f->length != 4) {
        return false;
    }
    load_call *call = find_call(s, f->id);
    int64_t *window = f->id == 0 ? &s->window : call ? &call->window : NULL;
    if (window) {
        *window += get32(f->payload) & WINDOW_MAX;
    }
    return !window || *window <= WINDOW_MAX;
}

/* No new streams; those that the peer has not looked at are lost. */
static bool on_goaway(load_channel *channel, const frame *f) {
    grpc_state *s = channel->state;
    s->is_leaving = true;
    for (size_t i = 0; f->length >= 8 && i < s->n_slots; i++) {
        load_call *call = s->streams[i];
        if (call && call->stream_id > (get32(f->payload) & STREAM_ID_MAX)) {
            end_call(channel, call, NGHTTP2_REFUSED_STREAM);
        }
    }
    return f->length >= 8;
}

static bool on_frame(load_channel *channel, frame *f) {
    grpc_state *s = channel->state;
    if (s->open_id && (f->type != NGHTTP2_CONTINUATION || f->id != s->open_id)) {
        return false;
    }
    load_call *call;
    switch (f->type) {
    case NGHTTP2_DATA: return on_data(channel, f);
    case NGHTTP2_HEADERS: return on_headers(channel, f);
    case NGHTTP2_CONTINUATION: return s->open_id && on_headers(channel, f);
    case NGHTTP2_RST_STREAM:
        call = find_call(s, f->id);
        return f->length == 4 && (!call || end_call(channel, call, get32(f->payload)));
    case NGHTTP2_SETTINGS: return on_settings(channel, f);
    case NGHTTP2_PUSH_PROMISE: return false; /* was forbidden */
    case NGHTTP2_PING:
        return f->length == PING_BYTES &&
               (f->flags & NGHTTP2_FLAG_ACK ||
                write_frame(&channel->queue, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, f->payload, f->length));
    case NGHTTP2_GOAWAY: return on_goaway(channel, f);
    case NGHTTP2_WINDOW_UPDATE: return on_window_update(s, f);
    default: return true;
    }
}

/* Read whole frames; n_read: their bytes. */
static bool read_frames(load_channel *channel, const uint8_t *bytes, size_t length, size_t *n_read) {
    size_t at = 0;
    while (length - at >= HEAD_BYTES) {
        const uint8_t *head = bytes + at;
        size_t n = get32(head) >> 8;
        if (n > RECEIVED_FRAME_MAX) {
            return false;
        }
        if (length - at - HEAD_BYTES < n) {
            break;
        }
        frame f = {.type = head[3],
                   .flags = head[4],
                   .id = get32(head + 5) & STREAM_ID_MAX,
                   .payload = head + HEAD_BYTES,
                   .length = n};
        if (!on_frame(channel, &f)) {
            return false;
        }
        at += HEAD_BYTES + n;
    }
    *n_read = at;
    return true;
}

static bool grpc_receive(load_channel *channel, const uint8_t *bytes, size_t length) {
    grpc_state *s = channel->state;
    ss_buffer *input = &s->input;
    bool is_kept = input->length;
    if (is_kept) {
        if (ss_buffer_append(input, bytes, length) != SS_OK) {
            return false;
        }
        bytes = input->data;
        length = input->length;
    }
    size_t n;
    if (!read_frames(channel, bytes, length, &n)) {
        return false;
    }
    if (is_kept) {
        memmove(input->data, input->data + n, length - n);
        input->length = length - n;
        return true;
    }
    return n == length || ss_buffer_append(input, bytes + n, length - n) == SS_OK;
}

/* ------------------------------------------------------------------ connections */

static bool write_greeting(load_queue *queue) {
    uint8_t settings[2 * SETTING_BYTES] = {[1] = NGHTTP2_SETTINGS_ENABLE_PUSH,
                                           [SETTING_BYTES + 1] = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE};
    put32(settings + SETTING_BYTES + 2, RECEIVED_WINDOW);
    return queue_text(queue, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN) &&
           write_frame(queue, NGHTTP2_SETTINGS, NGHTTP2_FLAG_NONE, 0, settings, sizeof settings) &&
           write_number(queue, NGHTTP2_WINDOW_UPDATE, 0, RECEIVED_WINDOW - FIRST_WINDOW);
}

static bool grpc_open(load_channel *channel) {
    grpc_state *s = calloc(1, sizeof *s);
    channel->state = s;
    if (!s) {
        return false;
    }
    s->n_slots = 2;
    while (s->n_slots < 2 * channel->n_calls) {
        s->n_slots *= 2;
    }
    s->next_id = 1;
    s->n_max = UINT32_MAX;
    s->frame_max = FIRST_FRAME_MAX;
    s->window = s->first_window = FIRST_WINDOW;
    s->unsent_end = &s->unsent;
    s->streams = calloc(s->n_slots, sizeof(load_call *));
    return s->streams && nghttp2_hd_deflate_new(&s->deflater, TABLE_BYTES) == 0 &&
           nghttp2_hd_inflate_new(&s->inflater) == 0 && write_greeting(&channel->queue);
}

static void grpc_close(load_channel *channel) {
    grpc_state *s = channel->state;
    if (s->deflater) {
        nghttp2_hd_deflate_del(s->deflater);
    }
    if (s->inflater) {
        nghttp2_hd_inflate_del(s->inflater);
    }
    ss_buffer_free(&s->input);
    free(s->streams);
    free(s);
}

const load_protocol grpc_protocol = {.open = grpc_open,
                                     .close = grpc_close,
                                     .begin = grpc_begin,
                                     .cancel = grpc_cancel,
                                     .receive = grpc_receive,
                                     .produce = grpc_produce,
                                     .may_begin = grpc_may_begin};
