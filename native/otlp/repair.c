/*
 * Writes a request again with every text in UTF-8. Backends that read with Google's protobuf refuse a request for one
 * text that is not, and with it the items of everyone whose request went into the same batch.
 */
#include "otlp/check.h"
#include "otlp/faults.h"
#include "otlp/table.h"

typedef struct repair {
    ss_holding *holding;
    ss_buffer *out;
    ss_status status;
    uint64_t n_texts;
} repair;

static bool put(repair *r, const uint8_t *bytes, size_t length) {
    if ((r->status = ss_holding_reserve(r->holding, r->out, length)) != SS_OK) {
        return false;
    }
    memcpy(r->out->data + r->out->length, bytes, length);
    r->out->length += length;
    return true;
}

static bool put_repaired(repair *r, ss_reader text) {
    uint8_t prefix[SS_VARINT_MAX];
    size_t size = ss_utf8_repaired_size(text.pos, text.end);
    if (!put(r, prefix, (size_t)(ss_write_varint(prefix, size) - prefix)) ||
        (r->status = ss_holding_reserve(r->holding, r->out, size)) != SS_OK) {
        return false;
    }
    ss_utf8_repair(text.pos, text.end, r->out->data + r->out->length);
    r->out->length += size;
    r->n_texts++;
    return true;
}

static bool repair_message(repair *r, ss_reader body, ss_check_shape shape, unsigned depth);

/* A message of which nobody knows how long it will be: once written it makes room for its length. */
static bool put_message(repair *r, ss_reader body, ss_check_shape shape, unsigned depth) {
    size_t at = r->out->length;
    if (!repair_message(r, body, shape, depth)) {
        return false;
    }
    uint8_t prefix[SS_VARINT_MAX];
    size_t length = r->out->length - at;
    size_t width = (size_t)(ss_write_varint(prefix, length) - prefix);
    if (!put(r, prefix, width)) {
        return false;
    }
    memmove(r->out->data + at + width, r->out->data + at, length);
    memcpy(r->out->data + at, prefix, width);
    return true;
}

/* One field: what is no text and holds none is copied; and so is what cannot be read, to the end of its message, for
 * the scan has left it out with its item. */
static bool repair_field(repair *r, ss_reader *body, ss_check_shape shape, unsigned depth) {
    const uint8_t *at = body->pos;
    uint64_t tag = 0;
    ss_reader value;
    bool has_tag = ss_read_varint32(body, &tag);
    const uint8_t *value_at = body->pos;
    if (!has_tag || !ss_skip_field(body, (uint32_t)tag, 0)) {
        body->pos = body->end;
        return put(r, at, (size_t)(body->end - at));
    }
    if ((tag & 7) == SS_WIRE_BYTES && tag >> 3 < SS_CHECK_FIELDS) {
        const ss_check_entry *entry = &ss_check_table[shape][tag >> 3];
        ss_reader whole = {value_at, body->pos};
        if (entry->kind == SS_VALUE_MESSAGE && depth < SS_DEPTH_MAX && ss_read_bytes(&whole, &value)) {
            return put(r, at, (size_t)(value_at - at)) &&
                   put_message(r, value, (ss_check_shape)entry->child, depth + 1);
        }
        if (entry->kind == SS_VALUE_TEXT && ss_read_bytes(&whole, &value) && !ss_utf8_is_valid(value.pos, value.end)) {
            return put(r, at, (size_t)(value_at - at)) && put_repaired(r, value);
        }
    }
    return put(r, at, (size_t)(body->pos - at));
}

static bool repair_message(repair *r, ss_reader body, ss_check_shape shape, unsigned depth) {
    bool ok = true;
    while (ok && body.pos < body.end) {
        ok = repair_field(r, &body, shape, depth);
    }
    return ok;
}

ss_status ss_repair_texts(ss_signal signal, const uint8_t *bytes, size_t length, ss_holding *holding, ss_buffer *out,
                          uint64_t *n_texts) {
    static const ss_check_shape requests[SS_N_SIGNALS] = {
        [SS_SIGNAL_TRACES] = SS_CHECK_EXPORT_TRACE_SERVICE_REQUEST,
        [SS_SIGNAL_METRICS] = SS_CHECK_EXPORT_METRICS_SERVICE_REQUEST,
        [SS_SIGNAL_LOGS] = SS_CHECK_EXPORT_LOGS_SERVICE_REQUEST,
    };
    repair r = {.holding = holding, .out = out};
    (void)repair_message(&r, (ss_reader){bytes, bytes + length}, requests[signal], 0);
    *n_texts = r.n_texts;
    return r.status;
}
