/*
 * One pass over an Export*ServiceRequest: every byte is checked against the grammar of its message, every row's
 * columns are filled. Source: opentelemetry-proto trace/v1, metrics/v1, logs/v1; protobuf "Encoding".
 *
 * As in every protobuf parser a scalar that comes twice takes its last value. What some parser behind us would refuse
 * goes no further, for it would be refused with all that is in the same batch: so a known field number with another
 * wire type is no unknown field, as to Google's parsers, but a fault, as to the Collector's. A text that is not UTF-8
 * fails no scan: a sender's slip must not cost the request.
 */
#include "core/bytes.h"
#include "otlp/check.h"
#include "otlp/faults.h"
#include "otlp/table.h"
#include "otlp_fields.h"

enum { SCOPE_LEVEL = 2, METRIC_LEVEL = 3, DATA_LEVEL = 4 }; /* of the nodes; messages are as deep */

/* A row of two bytes takes 60 times that in the table, a container 25 times: where no limit of memory is set, their
 * number bounds what a small message can make of it. */
enum { ROWS_MAX = 1 << 22, NODES_MAX = 1 << 22 };

/* Rows and nodes may take so many bytes, and so many more for each byte of the message, before they are made twice as
 * many. Items that say anything are far from it; empty ones would take sixty times their length, and a message of them
 * may have come in a few compressed bytes. ROW_BYTES: of all columns, about. */
enum { GRANTED_FREE = 4 << 20, GRANTED_PER_BYTE = 16, ROW_BYTES = 128 };

/* A metric has one kind of data, and the last counts where there are more; but whoever reads it looks at the name of
 * the metric for each, so a name of a megabyte must not be that of a million. */
enum { DATA_MAX = 8 };

typedef struct scan {
    ss_table *table;
    ss_faults *faults; /* NULL: an item's fault fails the scan */
    const uint8_t *bytes;
    ss_check check;
    unsigned depth;          /* of a message in an item */
    uint32_t resource_index; /* of the one being read; SS_NO_INDEX before the first, so that counting on gives 0 */
    uint32_t scope_index;
} scan;

#define TAG(field, wire) ((uint32_t)(field) << 3 | (wire))

static uint32_t offset_of(const scan *s, const uint8_t *pos) {
    return (uint32_t)(pos - s->bytes);
}

static bool fail(scan *s, const uint8_t *pos, ss_status code, const char *reason) {
    return ss_check_fail(&s->check, pos, code, reason);
}

/* A length prefix and its bytes; at is what a fault is told of. */
static inline bool read_body(scan *s, ss_reader *reader, const uint8_t *at, ss_reader *body) {
    if (ss_read_bytes(reader, body)) {
        return true;
    }
    fail(s, at, SS_ERR_MALFORMED, SS_REASON_LENGTH);
    return false; /* as the compiler sees it, too: body is set where this is true */
}

/* ---------------------------------------------------------------- containers */

static bool is_out_of_proportion(const ss_table *table, size_t n, size_t entry) {
    return table->private_state->holding.runtime && /* else it is too late to refuse it */
           n * entry > GRANTED_FREE + GRANTED_PER_BYTE * table->bytes_length;
}

/* Open a node for a message that was just read. Returns its index, SS_NO_INDEX: out of memory. */
static uint32_t open_node(scan *s, uint32_t parent, uint32_t level, const uint8_t *tag, const uint8_t *tag_end,
                          ss_reader body) {
    struct ss_table_private *own = s->table->private_state;
    if (own->n_nodes == own->node_capacity) {
        if (own->n_nodes >= NODES_MAX || is_out_of_proportion(s->table, own->n_nodes, sizeof *own->nodes)) {
            fail(s, tag, SS_ERR_LIMIT, "too many containers");
            return SS_NO_INDEX;
        }
        ss_status status = ss_table_grow_nodes(s->table);
        if (status != SS_OK) {
            fail(s, tag, status, ss_reason_memory);
            return SS_NO_INDEX;
        }
    }
    own->nodes[own->n_nodes] = (ss_node){
        .parent = parent,
        .level = level,
        .tag_offset = offset_of(s, tag),
        .length_offset = offset_of(s, tag_end),
        .body_offset = offset_of(s, body.pos),
        .end_offset = offset_of(s, body.end),
        .first_row = s->table->n_rows,
        .first_edit = SS_NO_INDEX,
    };
    return own->n_nodes++;
}

static void close_node(scan *s, uint32_t node) {
    struct ss_table_private *own = s->table->private_state;
    own->nodes[node].subtree_end = own->n_nodes;
    own->nodes[node].end_row = s->table->n_rows;
}

/* ---------------------------------------------------------------- rows */

/* Start the next row with empty columns. Returns its index, SS_NO_INDEX on failure. */
static uint32_t open_row(scan *s, uint32_t node, const uint8_t *tag, ss_reader body) {
    ss_table *table = s->table;
    if (__builtin_expect(table->n_rows == table->private_state->row_capacity, 0)) {
        bool is_full = table->n_rows >= ROWS_MAX || is_out_of_proportion(table, table->n_rows, ROW_BYTES);
        ss_status status = is_full ? SS_ERR_LIMIT : ss_table_grow(table);
        if (status != SS_OK) {
            fail(s, tag, status, is_full ? "too many items" : ss_reason_memory);
            return SS_NO_INDEX;
        }
    }
    uint32_t row = table->n_rows++;
    uint32_t length = (uint32_t)(body.end - tag);
    table->resource_index[row] = s->resource_index;
    table->scope_index[row] = s->scope_index;
    table->node_index[row] = node;
    table->row_offset[row] = offset_of(s, tag);
    table->row_length[row] = length;
    table->body_offset[row] = offset_of(s, body.pos);
    table->verdict[row] = SS_KEEP;
    table->private_state->nodes[node].rows_bytes += length;
    return row;
}

/* Copy an id of size bytes, or leave it zero when it is empty. */
static inline __attribute__((always_inline)) bool read_id(scan *s, ss_reader *reader, const uint8_t *tag_at,
                                                          uint8_t *id, size_t size, ss_fault fault) {
    ss_reader value;
    if (!read_body(s, reader, reader->pos, &value)) {
        return false;
    }
    size_t length = (size_t)(value.end - value.pos);
    if (__builtin_expect(length == size, 1)) {
        memcpy(id, value.pos, size);
        return true;
    }
    memset(id, 0, size);
    return length == 0 || ss_check_fault(&s->check, tag_at, fault);
}

static bool read_span_event(scan *s, ss_reader *reader, uint8_t *marks) {
    ss_reader event;
    const uint8_t *at = reader->pos;
    if (!read_body(s, reader, at, &event)) {
        return false;
    }
    while (event.pos < event.end) {
        const uint8_t *tag_at = event.pos;
        uint32_t tag;
        if (!ss_check_tag(&s->check, &event, &tag)) {
            return false;
        }
        ss_reader value;
        switch (tag) {
        case TAG(SS_SPAN_EVENT_NAME, SS_WIRE_BYTES):
            if (!read_body(s, &event, tag_at, &value)) {
                return false;
            }
            ss_check_text(&s->check, value.pos, value.end);
            if (value.end - value.pos == 9 && memcmp(value.pos, "exception", 9) == 0) {
                *marks |= SS_MARK_EXCEPTION;
            }
            break;
        case TAG(SS_SPAN_EVENT_ATTRIBUTES, SS_WIRE_BYTES):
            if (!ss_check_attribute(&s->check, &event, s->depth + 1)) {
                return false;
            }
            break;
        default:
            if (!ss_check_field(&s->check, &event, tag, tag_at, SS_CHECK_SPAN_EVENT, s->depth + 1)) {
                return false;
            }
        }
    }
    return true;
}

static bool read_span_status(scan *s, ss_reader *reader, int32_t *code) {
    ss_reader status;
    const uint8_t *at = reader->pos;
    if (!read_body(s, reader, at, &status)) {
        return false;
    }
    while (status.pos < status.end) {
        const uint8_t *tag_at = status.pos;
        uint32_t tag;
        uint64_t value;
        if (!ss_check_tag(&s->check, &status, &tag)) {
            return false;
        }
        if (tag == TAG(SS_STATUS_CODE, SS_WIRE_VARINT)) {
            if (!ss_read_varint(&status, &value)) {
                return fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_VARINT);
            }
            *code = (int32_t)value;
        } else if (!ss_check_field(&s->check, &status, tag, tag_at, SS_CHECK_STATUS, s->depth + 1)) {
            return false;
        }
    }
    return true;
}

/* The columns of a row while it is read; written to the table once. */
typedef struct row_columns {
    uint64_t start;
    uint64_t end;
    int32_t kind;
    int32_t status;
    uint32_t flags;
    uint32_t name_offset;
    uint32_t name_length;
    uint32_t tracestate_offset;
    uint32_t tracestate_length;
    uint32_t attributes_offset;
    uint32_t attributes_end;
    uint32_t attribute_count;
    uint32_t event_count;
    uint32_t link_count;
    uint32_t parent_offset;
    uint8_t marks;
} row_columns;

static void write_row(ss_table *table, uint32_t row, const row_columns *c) {
    table->start_time_unix_nano[row] = c->start;
    table->end_time_unix_nano[row] = c->end;
    table->kind[row] = c->kind;
    table->status_code[row] = c->status;
    table->flags[row] = c->flags;
    table->name_offset[row] = c->name_offset;
    table->name_length[row] = c->name_length;
    table->tracestate_offset[row] = c->tracestate_offset;
    table->tracestate_length[row] = c->tracestate_length;
    table->attributes_offset[row] = c->attributes_offset;
    table->attributes_length[row] = c->attributes_end - c->attributes_offset;
    table->attribute_count[row] = c->attribute_count;
    table->event_count[row] = c->event_count;
    table->link_count[row] = c->link_count;
    table->parent_offset[row] = c->parent_offset;
    table->marks[row] = c->marks;
}

/* The item that was begun last cannot be read to its end. True where that costs it alone: it is dropped, and the next
 * one is found behind it. */
static __attribute__((noinline)) bool reject_row(scan *s) {
    const ss_check *check = &s->check;
    ss_faults *faults = s->faults;
    if (!faults || check->fault == SS_N_FAULTS) {
        return false;
    }
    if (faults->n_items < SS_FIRST_FAULTS) {
        faults->first[faults->n_items] = (ss_item_fault){check->fault, offset_of(s, check->pos)};
    }
    faults->n_items++;
    faults->by_fault[check->fault]++;
    uint32_t row = s->table->n_rows - 1;
    write_row(s->table, row, &(row_columns){0});
    s->table->verdict[row] = SS_DROP;
    return true;
}

/* An attribute of a row: checked, counted, and its place remembered. */
static inline bool read_attribute(scan *s, ss_reader *reader, const uint8_t *tag_at, row_columns *c) {
    static const char priority[] = "sampling.priority";
    const uint8_t *body = reader->pos;
    if (!ss_check_key_value(&s->check, reader, s->depth)) {
        return false;
    }
    if (!c->attribute_count++) {
        c->attributes_offset = offset_of(s, tag_at);
    }
    c->attributes_end = offset_of(s, reader->pos);
    /* The key's length byte stands at body[2] in every encoder's output; an odd layout is walked. */
    enum { KEY = sizeof priority - 1 };
    if (__builtin_expect(reader->pos - body < KEY + 3, 0)) {
        return true; /* too short to hold that key */
    }
    if (__builtin_expect(body[0] < 0x80 && body[1] == TAG(SS_KEY_VALUE_KEY, SS_WIRE_BYTES) && body[2] < 0x80, 1)) {
        if (__builtin_expect(body[2] == KEY, 0) && memcmp(body + 3, priority, KEY) == 0) {
            c->marks |= SS_MARK_PRIORITY;
        }
        return true;
    }
    ss_reader key;
    if (ss_key_of(body, reader->pos, &key) && key.end - key.pos == KEY && memcmp(key.pos, priority, KEY) == 0) {
        c->marks |= SS_MARK_PRIORITY;
    }
    return true;
}

/* An attribute whose tag was just read, and those that follow it directly. */
static bool read_attributes(scan *s, ss_reader *reader, const uint8_t *tag_at, uint32_t tag, row_columns *c) {
    s->check.unread = reader->pos;
    while (read_attribute(s, reader, tag_at, c)) {
        if (reader->pos == reader->end || *reader->pos != tag) {
            ss_check_text(&s->check, s->check.unread, reader->pos);
            return true;
        }
        tag_at = reader->pos++;
    }
    return false;
}

static bool read_text(scan *s, ss_reader *reader, const uint8_t *tag_at, uint32_t *offset, uint32_t *length) {
    ss_reader value;
    if (!read_body(s, reader, tag_at, &value)) {
        return false;
    }
    ss_check_text(&s->check, value.pos, value.end);
    *offset = offset_of(s, value.pos);
    *length = (uint32_t)(value.end - value.pos);
    return true;
}

/* Encoders write the fields of a span in the order of their numbers, ids at full length and short names: read as many
 * as come in that form without a dispatch. What is left, or is in another form, is for the caller's loop. */
static inline void read_leading_fields(scan *s, ss_reader *body, uint8_t *trace_id, uint8_t *span_id, uint8_t *parent,
                                       row_columns *c) {
    const uint8_t *pos = body->pos;
    const uint8_t *end = body->end;
    enum { LEADING = 18 + 10 + 10 + 2 }; /* trace id, span id, parent, and the head of the name */
    if (end - pos < LEADING || pos[0] != TAG(SS_SPAN_TRACE_ID, SS_WIRE_BYTES) || pos[1] != 16 ||
        pos[18] != TAG(SS_SPAN_SPAN_ID, SS_WIRE_BYTES) || pos[19] != 8) {
        return;
    }
    memcpy(trace_id, pos + 2, 16);
    memcpy(span_id, pos + 20, 8);
    pos += 28;
    if (pos[0] == TAG(SS_SPAN_PARENT_SPAN_ID, SS_WIRE_BYTES) && pos[1] == 8) {
        memcpy(parent, pos + 2, 8);
        c->parent_offset = offset_of(s, pos + 2);
        pos += 10;
    }
    if (pos[0] == TAG(SS_SPAN_NAME, SS_WIRE_BYTES) && pos[1] < 0x80 && pos[1] + 2 + 20 <= end - pos) {
        c->name_offset = offset_of(s, pos + 2);
        c->name_length = pos[1];
        ss_check_text(&s->check, pos + 2, pos + 2 + pos[1]);
        pos += 2 + pos[1];
        if (pos[0] == TAG(SS_SPAN_KIND, SS_WIRE_VARINT) && pos[1] < 0x80) {
            c->kind = pos[1];
            pos += 2;
        }
        if (pos[0] == TAG(SS_SPAN_START_TIME_UNIX_NANO, SS_WIRE_FIXED64) &&
            pos[9] == TAG(SS_SPAN_END_TIME_UNIX_NANO, SS_WIRE_FIXED64)) {
            memcpy(&c->start, pos + 1, 8);
            memcpy(&c->end, pos + 10, 8);
            pos += 18;
        }
    }
    body->pos = pos;
}

static bool scan_span(scan *s, uint32_t node, const uint8_t *tag_start, ss_reader body) {
    uint32_t row = open_row(s, node, tag_start, body);
    if (row == SS_NO_INDEX) {
        return false;
    }
    ss_table *table = s->table;
    row_columns c = {0};
    uint8_t *trace_id = table->trace_id + (size_t)row * 16;
    uint8_t *span_id = table->span_id + (size_t)row * 8;
    uint8_t *parent = table->parent_span_id + (size_t)row * 8;
    memset(trace_id, 0, 16);
    memset(span_id, 0, 8);
    memset(parent, 0, 8);
    read_leading_fields(s, &body, trace_id, span_id, parent, &c);
    while (body.pos < body.end) {
        const uint8_t *tag_at = body.pos;
        uint32_t tag;
        uint64_t value = 0;
        bool ok = true;
        if (!ss_check_tag(&s->check, &body, &tag)) {
            return false;
        }
        switch (tag) {
        case TAG(SS_SPAN_TRACE_ID, SS_WIRE_BYTES):
            ok = read_id(s, &body, tag_at, trace_id, 16, SS_FAULT_TRACE_ID);
            break;
        case TAG(SS_SPAN_SPAN_ID, SS_WIRE_BYTES): ok = read_id(s, &body, tag_at, span_id, 8, SS_FAULT_SPAN_ID); break;
        case TAG(SS_SPAN_TRACE_STATE, SS_WIRE_BYTES):
            ok = read_text(s, &body, tag_at, &c.tracestate_offset, &c.tracestate_length);
            break;
        case TAG(SS_SPAN_PARENT_SPAN_ID, SS_WIRE_BYTES):
            ok = read_id(s, &body, tag_at, parent, 8, SS_FAULT_PARENT_SPAN_ID);
            c.parent_offset = offset_of(s, body.pos) - 8;
            break;
        case TAG(SS_SPAN_NAME, SS_WIRE_BYTES): ok = read_text(s, &body, tag_at, &c.name_offset, &c.name_length); break;
        case TAG(SS_SPAN_KIND, SS_WIRE_VARINT):
            if (!ss_read_varint(&body, &value)) {
                return fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_VARINT);
            }
            c.kind = (int32_t)value;
            break;
        case TAG(SS_SPAN_START_TIME_UNIX_NANO, SS_WIRE_FIXED64):
            if (!ss_read_fixed64(&body, &c.start)) {
                return fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_END);
            }
            break;
        case TAG(SS_SPAN_END_TIME_UNIX_NANO, SS_WIRE_FIXED64):
            if (!ss_read_fixed64(&body, &c.end)) {
                return fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_END);
            }
            break;
        case TAG(SS_SPAN_ATTRIBUTES, SS_WIRE_BYTES): ok = read_attributes(s, &body, tag_at, tag, &c); break;
        case TAG(SS_SPAN_EVENTS, SS_WIRE_BYTES):
            c.event_count++;
            ok = read_span_event(s, &body, &c.marks);
            break;
        case TAG(SS_SPAN_LINKS, SS_WIRE_BYTES):
            c.link_count++;
            ok = ss_check_message(&s->check, &body, SS_CHECK_SPAN_LINK, s->depth);
            break;
        case TAG(SS_SPAN_STATUS, SS_WIRE_BYTES): ok = read_span_status(s, &body, &c.status); break;
        case TAG(SS_SPAN_FLAGS, SS_WIRE_FIXED32):
            if (!ss_read_fixed32(&body, &c.flags)) {
                return fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_END);
            }
            break;
        default: ok = ss_check_field(&s->check, &body, tag, tag_at, SS_CHECK_SPAN, s->depth);
        }
        if (__builtin_expect(!ok, 0)) {
            return false;
        }
    }
    write_row(table, row, &c);
    return true;
}

static bool scan_log_record(scan *s, uint32_t node, const uint8_t *tag_start, ss_reader body) {
    uint32_t row = open_row(s, node, tag_start, body);
    if (row == SS_NO_INDEX) {
        return false;
    }
    ss_table *table = s->table;
    row_columns c = {0};
    uint8_t *trace_id = table->trace_id + (size_t)row * 16;
    uint8_t *span_id = table->span_id + (size_t)row * 8;
    memset(trace_id, 0, 16);
    memset(span_id, 0, 8);
    memset(table->parent_span_id + (size_t)row * 8, 0, 8);
    while (body.pos < body.end) {
        const uint8_t *tag_at = body.pos;
        uint32_t tag;
        uint64_t value = 0;
        bool ok = true;
        if (!ss_check_tag(&s->check, &body, &tag)) {
            return false;
        }
        switch (tag) {
        case TAG(SS_LOG_RECORD_TIME_UNIX_NANO, SS_WIRE_FIXED64):
            ok = ss_read_fixed64(&body, &c.end) || fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_END);
            break;
        case TAG(SS_LOG_RECORD_OBSERVED_TIME_UNIX_NANO, SS_WIRE_FIXED64):
            ok = ss_read_fixed64(&body, &c.start) || fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_END);
            break;
        case TAG(SS_LOG_RECORD_SEVERITY_NUMBER, SS_WIRE_VARINT):
            ok = ss_read_varint(&body, &value) || fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_VARINT);
            c.kind = (int32_t)value;
            break;
        case TAG(SS_LOG_RECORD_BODY, SS_WIRE_BYTES):
            ok = ss_check_message(&s->check, &body, SS_CHECK_ANY_VALUE, s->depth);
            break;
        case TAG(SS_LOG_RECORD_ATTRIBUTES, SS_WIRE_BYTES): ok = read_attributes(s, &body, tag_at, tag, &c); break;
        case TAG(SS_LOG_RECORD_FLAGS, SS_WIRE_FIXED32):
            ok = ss_read_fixed32(&body, &c.flags) || fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_END);
            break;
        case TAG(SS_LOG_RECORD_TRACE_ID, SS_WIRE_BYTES):
            ok = read_id(s, &body, tag_at, trace_id, 16, SS_FAULT_TRACE_ID);
            break;
        case TAG(SS_LOG_RECORD_SPAN_ID, SS_WIRE_BYTES):
            ok = read_id(s, &body, tag_at, span_id, 8, SS_FAULT_SPAN_ID);
            break;
        default: ok = ss_check_field(&s->check, &body, tag, tag_at, SS_CHECK_LOG_RECORD, s->depth);
        }
        if (!ok) {
            return false;
        }
    }
    write_row(table, row, &c);
    return true;
}

/* Where the kinds of data point differ. Start and end time are fields 2 and 3 of all of them. */
typedef struct point_shape {
    uint32_t metric_field; /* of Metric's oneof */
    uint32_t attributes_field;
    uint32_t flags_field;
    ss_check_shape data;  /* the message around the points */
    ss_check_shape check; /* what else is in the point */
} point_shape;

static const point_shape point_shapes[] = {
    {SS_METRIC_GAUGE, SS_NUMBER_DATA_POINT_ATTRIBUTES, SS_NUMBER_DATA_POINT_FLAGS, SS_CHECK_GAUGE,
     SS_CHECK_NUMBER_DATA_POINT},
    {SS_METRIC_SUM, SS_NUMBER_DATA_POINT_ATTRIBUTES, SS_NUMBER_DATA_POINT_FLAGS, SS_CHECK_SUM,
     SS_CHECK_NUMBER_DATA_POINT},
    {SS_METRIC_HISTOGRAM, SS_HISTOGRAM_DATA_POINT_ATTRIBUTES, SS_HISTOGRAM_DATA_POINT_FLAGS, SS_CHECK_HISTOGRAM,
     SS_CHECK_HISTOGRAM_DATA_POINT},
    {SS_METRIC_EXPONENTIAL_HISTOGRAM, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ATTRIBUTES,
     SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_FLAGS, SS_CHECK_EXPONENTIAL_HISTOGRAM,
     SS_CHECK_EXPONENTIAL_HISTOGRAM_DATA_POINT},
    {SS_METRIC_SUMMARY, SS_SUMMARY_DATA_POINT_ATTRIBUTES, SS_SUMMARY_DATA_POINT_FLAGS, SS_CHECK_SUMMARY,
     SS_CHECK_SUMMARY_DATA_POINT},
};
_Static_assert(SS_NUMBER_DATA_POINT_TIME_UNIX_NANO == 3 && SS_HISTOGRAM_DATA_POINT_TIME_UNIX_NANO == 3 &&
                   SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_TIME_UNIX_NANO == 3 &&
                   SS_SUMMARY_DATA_POINT_TIME_UNIX_NANO == 3 && SS_NUMBER_DATA_POINT_START_TIME_UNIX_NANO == 2 &&
                   SS_HISTOGRAM_DATA_POINT_START_TIME_UNIX_NANO == 2 &&
                   SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_START_TIME_UNIX_NANO == 2 &&
                   SS_SUMMARY_DATA_POINT_START_TIME_UNIX_NANO == 2,
               "times have one field number in all data points");

static bool scan_data_point(scan *s, uint32_t node, const point_shape *shape, const uint8_t *tag_start,
                            ss_reader body) {
    uint32_t row = open_row(s, node, tag_start, body);
    if (row == SS_NO_INDEX) {
        return false;
    }
    ss_table *table = s->table;
    row_columns c = {.kind = (int32_t)shape->metric_field};
    memset(table->trace_id + (size_t)row * 16, 0, 16);
    memset(table->span_id + (size_t)row * 8, 0, 8);
    memset(table->parent_span_id + (size_t)row * 8, 0, 8);
    while (body.pos < body.end) {
        const uint8_t *tag_at = body.pos;
        uint32_t tag;
        uint64_t value = 0;
        bool ok = true;
        if (!ss_check_tag(&s->check, &body, &tag)) {
            return false;
        }
        if (tag == TAG(shape->attributes_field, SS_WIRE_BYTES)) {
            ok = read_attributes(s, &body, tag_at, tag, &c);
        } else if (tag == TAG(SS_NUMBER_DATA_POINT_START_TIME_UNIX_NANO, SS_WIRE_FIXED64)) {
            ok = ss_read_fixed64(&body, &c.start) || fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_END);
        } else if (tag == TAG(SS_NUMBER_DATA_POINT_TIME_UNIX_NANO, SS_WIRE_FIXED64)) {
            ok = ss_read_fixed64(&body, &c.end) || fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_END);
        } else if (tag == TAG(shape->flags_field, SS_WIRE_VARINT)) {
            ok = ss_read_varint(&body, &value) || fail(s, tag_at, SS_ERR_MALFORMED, SS_REASON_VARINT);
            c.flags = (uint32_t)value;
        } else {
            ok = ss_check_field(&s->check, &body, tag, tag_at, shape->check, s->depth);
        }
        if (!ok) {
            return false;
        }
    }
    write_row(table, row, &c);
    return true;
}

/* ---------------------------------------------------------------- the tree above the rows */

/* Sum, Histogram ... hold rows in field 1, whichever they are. */
_Static_assert(SS_GAUGE_DATA_POINTS == 1 && SS_SUM_DATA_POINTS == 1 && SS_HISTOGRAM_DATA_POINTS == 1 &&
                   SS_EXPONENTIAL_HISTOGRAM_DATA_POINTS == 1 && SS_SUMMARY_DATA_POINTS == 1,
               "data_points has one field number in all metric types");

static const point_shape *point_shape_of(uint32_t tag) {
    for (size_t i = 0; i < sizeof point_shapes / sizeof point_shapes[0]; i++) {
        if (tag == TAG(point_shapes[i].metric_field, SS_WIRE_BYTES)) {
            return &point_shapes[i];
        }
    }
    return NULL;
}

static bool scan_data(scan *s, uint32_t parent, const point_shape *shape, const uint8_t *tag_start,
                      const uint8_t *tag_end, ss_reader body) {
    uint32_t node = open_node(s, parent, DATA_LEVEL, tag_start, tag_end, body);
    if (node == SS_NO_INDEX) {
        return false;
    }
    while (body.pos < body.end) {
        const uint8_t *tag_at = body.pos;
        uint32_t tag;
        ss_reader point;
        if (!ss_check_tag(&s->check, &body, &tag)) {
            return false;
        }
        if (tag == TAG(SS_SUM_DATA_POINTS, SS_WIRE_BYTES)) {
            if (!read_body(s, &body, tag_at, &point)) {
                return false;
            }
            if (!scan_data_point(s, node, shape, tag_at, point) && !reject_row(s)) {
                return false;
            }
        } else if (!ss_check_field(&s->check, &body, tag, tag_at, shape->data, s->depth)) {
            return false;
        }
    }
    close_node(s, node);
    return true;
}

static bool scan_metric(scan *s, uint32_t parent, const uint8_t *tag_start, const uint8_t *tag_end, ss_reader body) {
    uint32_t node = open_node(s, parent, METRIC_LEVEL, tag_start, tag_end, body);
    uint32_t name_offset = 0;
    uint32_t name_length = 0;
    unsigned n_data = 0;
    if (node == SS_NO_INDEX) {
        return false;
    }
    while (body.pos < body.end) {
        const uint8_t *tag_at = body.pos;
        uint32_t tag;
        if (!ss_check_tag(&s->check, &body, &tag)) {
            return false;
        }
        const point_shape *shape = point_shape_of(tag);
        if (shape) {
            const uint8_t *tag_behind = body.pos;
            ss_reader data;
            if (n_data++ == DATA_MAX) {
                return fail(s, tag_at, SS_ERR_LIMIT, "metric has too many data");
            }
            if (!read_body(s, &body, tag_at, &data)) {
                return false;
            }
            if (!scan_data(s, node, shape, tag_at, tag_behind, data)) {
                return false;
            }
        } else if (tag == TAG(SS_METRIC_NAME, SS_WIRE_BYTES)) {
            if (!read_text(s, &body, tag_at, &name_offset, &name_length)) {
                return false;
            }
        } else if (!ss_check_field(&s->check, &body, tag, tag_at, SS_CHECK_METRIC, METRIC_LEVEL + 1)) {
            return false;
        }
    }
    close_node(s, node);
    /* The name may stand behind the points. */
    for (uint32_t row = s->table->private_state->nodes[node].first_row; row < s->table->n_rows; row++) {
        s->table->name_offset[row] = name_offset;
        s->table->name_length[row] = name_length;
    }
    return true;
}

/* What the levels above Metric, Span and LogRecord hold: request, Resource*, Scope*. */
typedef struct container_shape {
    uint32_t child_field;
    ss_check_shape check; /* its other fields */
} container_shape;

enum { RESOURCE_LEVEL = 1, OLD_SCOPES = 1000 };

static const container_shape container_shapes[SS_N_SIGNALS][SCOPE_LEVEL + 1] = {
    [SS_SIGNAL_TRACES] = {{SS_EXPORT_TRACE_SERVICE_REQUEST_RESOURCE_SPANS, SS_CHECK_EXPORT_TRACE_SERVICE_REQUEST},
                          {SS_RESOURCE_SPANS_SCOPE_SPANS, SS_CHECK_RESOURCE_SPANS},
                          {SS_SCOPE_SPANS_SPANS, SS_CHECK_SCOPE_SPANS}},
    [SS_SIGNAL_METRICS] = {{SS_EXPORT_METRICS_SERVICE_REQUEST_RESOURCE_METRICS,
                            SS_CHECK_EXPORT_METRICS_SERVICE_REQUEST},
                           {SS_RESOURCE_METRICS_SCOPE_METRICS, SS_CHECK_RESOURCE_METRICS},
                           {SS_SCOPE_METRICS_METRICS, SS_CHECK_SCOPE_METRICS}},
    [SS_SIGNAL_LOGS] = {{SS_EXPORT_LOGS_SERVICE_REQUEST_RESOURCE_LOGS, SS_CHECK_EXPORT_LOGS_SERVICE_REQUEST},
                        {SS_RESOURCE_LOGS_SCOPE_LOGS, SS_CHECK_RESOURCE_LOGS},
                        {SS_SCOPE_LOGS_LOG_RECORDS, SS_CHECK_SCOPE_LOGS}},
};

static bool scan_container(scan *s, uint32_t parent, uint32_t level, const uint8_t *tag_start, const uint8_t *tag_end,
                           ss_reader body);

/* What a container of the given level holds: another container, or below Scope* what the signal is about. */
static inline bool scan_child(scan *s, uint32_t node, uint32_t level, const uint8_t *tag_start, const uint8_t *tag_end,
                              ss_reader body) {
    if (level < SCOPE_LEVEL) {
        return scan_container(s, node, level + 1, tag_start, tag_end, body);
    }
    switch (s->table->signal) {
    case SS_SIGNAL_TRACES: return scan_span(s, node, tag_start, body) || reject_row(s);
    case SS_SIGNAL_METRICS: return scan_metric(s, node, tag_start, tag_end, body);
    default: return scan_log_record(s, node, tag_start, body) || reject_row(s);
    }
}

/* A field of a container that holds no row. Under 1000 OTLP before 0.15 had the scopes of a resource, and there the
 * Collector reads them still: what it could not read costs the request. */
static bool check_other(scan *s, ss_reader *reader, uint32_t tag, const uint8_t *tag_at, uint32_t level) {
    const container_shape *shapes = container_shapes[s->table->signal];
    if (level == RESOURCE_LEVEL && tag >> 3 == OLD_SCOPES) {
        const bool has_bad_text = s->check.has_bad_text; /* of fields that are OTLP today */
        bool ok = (tag & 7) == SS_WIRE_BYTES
                      ? ss_check_message(&s->check, reader, shapes[SCOPE_LEVEL].check, SCOPE_LEVEL)
                      : ss_check_fault(&s->check, tag_at, SS_FAULT_WIRE_TYPE);
        s->check.has_bad_text = has_bad_text;
        return ok;
    }
    return ss_check_field(&s->check, reader, tag, tag_at, shapes[level].check, level + 1);
}

/* Recursion ends at SCOPE_LEVEL. */
static bool scan_container(scan *s, uint32_t parent, uint32_t level, const uint8_t *tag_start, const uint8_t *tag_end,
                           ss_reader body) {
    const container_shape *shape = &container_shapes[s->table->signal][level];
    const uint32_t child_tag = TAG(shape->child_field, SS_WIRE_BYTES);
    uint32_t node = open_node(s, parent, level, tag_start, tag_end, body);
    if (node == SS_NO_INDEX) {
        return false;
    }
    s->resource_index += level == RESOURCE_LEVEL;
    s->scope_index += level == SCOPE_LEVEL;
    while (body.pos < body.end) {
        const uint8_t *tag_at = body.pos;
        uint32_t tag;
        ss_reader child;
        bool ok;
        if (!ss_check_tag(&s->check, &body, &tag)) {
            return false;
        }
        if (tag != child_tag) {
            ok = check_other(s, &body, tag, tag_at, level);
        } else {
            const uint8_t *tag_behind = body.pos;
            ok = read_body(s, &body, tag_at, &child) && scan_child(s, node, level, tag_at, tag_behind, child);
        }
        if (!ok) {
            return false;
        }
    }
    close_node(s, node);
    return true;
}

static ss_status scan_request(ss_signal signal, const uint8_t *bytes, size_t length, bool checks_texts, ss_table *table,
                              ss_faults *faults, ss_error *error) {
    if ((unsigned)signal >= SS_N_SIGNALS || length > INT32_MAX) {
        *error = (ss_error){SS_ERR_ARGUMENT, 0, "signal or length out of range"};
        return SS_ERR_ARGUMENT;
    }
    bytes = length ? bytes : (const uint8_t *)""; /* an empty buffer may have no memory */
    ss_table_begin(table, signal, bytes, length);
    scan s = {.table = table,
              .faults = faults,
              .bytes = bytes,
              .check = {.checks_texts = checks_texts},
              .depth = (signal == SS_SIGNAL_METRICS ? DATA_LEVEL : SCOPE_LEVEL) + 2,
              .resource_index = SS_NO_INDEX,
              .scope_index = SS_NO_INDEX};
    if (!scan_container(&s, SS_NO_INDEX, 0, bytes, bytes, (ss_reader){bytes, bytes + length})) {
        *error = (ss_error){s.check.code, (uint64_t)(s.check.pos - bytes), s.check.reason};
        table->n_rows = 0;
        table->n_kept = 0;
        return s.check.code;
    }
    table->n_kept = table->n_rows;
    if (faults) {
        table->n_kept -= faults->n_items;
        faults->has_bad_text = s.check.has_bad_text;
    }
    return SS_OK;
}

ss_status ss_scan(ss_signal signal, const uint8_t *bytes, size_t length, ss_table *table, ss_error *error) {
    return scan_request(signal, bytes, length, false, table, NULL, error);
}

ss_status ss_scan_items(ss_signal signal, const uint8_t *bytes, size_t length, bool checks_texts, ss_table *table,
                        ss_faults *faults, ss_error *error) {
    *faults = (ss_faults){0};
    return scan_request(signal, bytes, length, checks_texts, table, faults, error);
}
