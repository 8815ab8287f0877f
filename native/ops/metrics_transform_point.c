#include "ops/metrics_transform_point.h"

#include "core/bytes.h"
#include "otlp/table.h"
#include "otlp_fields.h"

#include <stdlib.h>

#define TAG(field, wire) ((uint32_t)(field) << 3 | (wire))
#define BIT(field) (1u << (field))

/* ---------------------------------------------------------------- reading */

/* Where the kinds of data point differ. */
typedef struct layout {
    int32_t kind;
    uint32_t attributes;
    uint32_t exemplars;    /* 0: the kind has none */
    uint32_t value_fields; /* BIT of each field that is written anew with a new value */
} layout;

static const layout number_layout = {SS_METRIC_GAUGE, SS_NUMBER_DATA_POINT_ATTRIBUTES, SS_NUMBER_DATA_POINT_EXEMPLARS,
                                     BIT(SS_NUMBER_DATA_POINT_START_TIME_UNIX_NANO) |
                                         BIT(SS_NUMBER_DATA_POINT_AS_DOUBLE) | BIT(SS_NUMBER_DATA_POINT_AS_INT) |
                                         BIT(SS_NUMBER_DATA_POINT_EXEMPLARS)};
static const layout histogram_layout = {
    SS_METRIC_HISTOGRAM, SS_HISTOGRAM_DATA_POINT_ATTRIBUTES, SS_HISTOGRAM_DATA_POINT_EXEMPLARS,
    BIT(SS_HISTOGRAM_DATA_POINT_START_TIME_UNIX_NANO) | BIT(SS_HISTOGRAM_DATA_POINT_COUNT) |
        BIT(SS_HISTOGRAM_DATA_POINT_SUM) | BIT(SS_HISTOGRAM_DATA_POINT_BUCKET_COUNTS) |
        BIT(SS_HISTOGRAM_DATA_POINT_EXPLICIT_BOUNDS) | BIT(SS_HISTOGRAM_DATA_POINT_EXEMPLARS) |
        BIT(SS_HISTOGRAM_DATA_POINT_MIN) | BIT(SS_HISTOGRAM_DATA_POINT_MAX)};
static const layout exponential_layout = {
    SS_METRIC_EXPONENTIAL_HISTOGRAM, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ATTRIBUTES,
    SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_EXEMPLARS,
    BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_START_TIME_UNIX_NANO) | BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_COUNT) |
        BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_SUM) | BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_SCALE) |
        BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ZERO_COUNT) | BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ZERO_THRESHOLD) |
        BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_POSITIVE) | BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_NEGATIVE) |
        BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_EXEMPLARS) | BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_MIN) |
        BIT(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_MAX)};
static const layout summary_layout = {SS_METRIC_SUMMARY, SS_SUMMARY_DATA_POINT_ATTRIBUTES, 0, 0};

/* The field that all kinds of data point, and all containers with a temporality, have under one number. */
enum {
    START_FIELD = SS_NUMBER_DATA_POINT_START_TIME_UNIX_NANO,
    TEMPORALITY_FIELD = SS_SUM_AGGREGATION_TEMPORALITY,
    TEMPORALITY_DELTA = 1,
    FLAG_NO_RECORDED_VALUE = 1
};
_Static_assert((int)START_FIELD == SS_HISTOGRAM_DATA_POINT_START_TIME_UNIX_NANO &&
                   (int)START_FIELD == SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_START_TIME_UNIX_NANO,
               "start time has one number");
_Static_assert((int)TEMPORALITY_FIELD == SS_HISTOGRAM_AGGREGATION_TEMPORALITY &&
                   (int)TEMPORALITY_FIELD == SS_EXPONENTIAL_HISTOGRAM_AGGREGATION_TEMPORALITY,
               "temporality has one number");

static const layout *layout_of(int32_t kind) {
    switch (kind) {
    case SS_METRIC_HISTOGRAM: return &histogram_layout;
    case SS_METRIC_EXPONENTIAL_HISTOGRAM: return &exponential_layout;
    case SS_METRIC_SUMMARY: return &summary_layout;
    default: return &number_layout;
    }
}

static bool read_tag(ss_reader *reader, uint32_t *tag) {
    uint64_t value;
    if (!ss_read_varint(reader, &value) || value > UINT32_MAX) {
        return false;
    }
    *tag = (uint32_t)value;
    return true;
}

static bool read_slice(ss_reader *reader, ss_bytes *slice) {
    ss_reader body;
    if (!ss_read_bytes(reader, &body)) {
        return false;
    }
    *slice = (ss_bytes){body.pos, (size_t)(body.end - body.pos)};
    return true;
}

static bool read_double(ss_reader *reader, double *value) {
    uint64_t bits;
    if (!ss_read_fixed64(reader, &bits)) {
        return false;
    }
    memcpy(value, &bits, sizeof bits);
    return true;
}

static bool read_piece(ss_arena *arena, ss_reader *reader, ss_gathered *gathered) {
    ss_bytes piece;
    return read_slice(reader, &piece) && ss_gather(arena, gathered, piece);
}

/* One element of a repeated fixed64 that came without packing. */
static bool read_element(ss_arena *arena, ss_reader *reader, ss_gathered *gathered) {
    ss_bytes piece = {reader->pos, 8};
    uint64_t ignored;
    return ss_read_fixed64(reader, &ignored) && ss_gather(arena, gathered, piece);
}

/* The string of an AnyValue; the last field of its oneof counts. */
static bool read_any_value(ss_attribute *attribute) {
    ss_reader reader = ss_reader_of(attribute->value);
    while (reader.pos < reader.end) {
        uint32_t tag;
        if (!read_tag(&reader, &tag)) {
            return false;
        }
        if (tag == TAG(SS_ANY_VALUE_STRING_VALUE, SS_WIRE_BYTES)) {
            attribute->is_text = true;
            if (!read_slice(&reader, &attribute->text)) {
                return false;
            }
        } else {
            attribute->is_text &= tag >> 3 > SS_ANY_VALUE_STRING_VALUE_STRINDEX;
            if (!ss_skip_field(&reader, tag, 0)) {
                return false;
            }
        }
    }
    return true;
}

/* raw is the whole field, reader stands behind its tag. */
static bool read_attribute(ss_arena *arena, ss_point *point, ss_reader *reader, const uint8_t *field) {
    ss_attribute attribute = {0};
    ss_reader body;
    if (!ss_read_bytes(reader, &body)) {
        return false;
    }
    attribute.raw = (ss_bytes){field, (size_t)(reader->pos - field)};
    while (body.pos < body.end) {
        uint32_t tag;
        if (!read_tag(&body, &tag)) {
            return false;
        }
        bool ok = tag == TAG(SS_KEY_VALUE_KEY, SS_WIRE_BYTES)     ? read_slice(&body, &attribute.key)
                  : tag == TAG(SS_KEY_VALUE_VALUE, SS_WIRE_BYTES) ? read_slice(&body, &attribute.value)
                                                                  : ss_skip_field(&body, tag, 0);
        if (!ok) {
            return false;
        }
    }
    return read_any_value(&attribute) && ss_point_add_attribute(arena, point, attribute);
}

static bool read_number_field(ss_point *point, uint32_t tag, ss_reader *reader) {
    uint64_t bits;
    switch (tag) {
    case TAG(SS_NUMBER_DATA_POINT_AS_DOUBLE, SS_WIRE_FIXED64):
        point->is_double = true;
        point->has_value = true;
        return read_double(reader, &point->as_double);
    case TAG(SS_NUMBER_DATA_POINT_AS_INT, SS_WIRE_FIXED64):
        point->is_double = false;
        point->has_value = true;
        if (!ss_read_fixed64(reader, &bits)) {
            return false;
        }
        point->as_int = (int64_t)bits;
        return true;
    default: return ss_skip_field(reader, tag, 0);
    }
}

static bool read_histogram_field(ss_arena *arena, ss_distribution *d, uint32_t tag, ss_reader *reader) {
    switch (tag) {
    case TAG(SS_HISTOGRAM_DATA_POINT_COUNT, SS_WIRE_FIXED64): return ss_read_fixed64(reader, &d->count);
    case TAG(SS_HISTOGRAM_DATA_POINT_SUM, SS_WIRE_FIXED64): d->has_sum = true; return read_double(reader, &d->sum);
    case TAG(SS_HISTOGRAM_DATA_POINT_MIN, SS_WIRE_FIXED64): d->has_min = true; return read_double(reader, &d->min);
    case TAG(SS_HISTOGRAM_DATA_POINT_MAX, SS_WIRE_FIXED64): d->has_max = true; return read_double(reader, &d->max);
    case TAG(SS_HISTOGRAM_DATA_POINT_BUCKET_COUNTS, SS_WIRE_BYTES): return read_piece(arena, reader, &d->bucket_counts);
    case TAG(SS_HISTOGRAM_DATA_POINT_BUCKET_COUNTS, SS_WIRE_FIXED64):
        return read_element(arena, reader, &d->bucket_counts);
    case TAG(SS_HISTOGRAM_DATA_POINT_EXPLICIT_BOUNDS, SS_WIRE_BYTES):
        return read_piece(arena, reader, &d->explicit_bounds);
    case TAG(SS_HISTOGRAM_DATA_POINT_EXPLICIT_BOUNDS, SS_WIRE_FIXED64):
        return read_element(arena, reader, &d->explicit_bounds);
    default: return ss_skip_field(reader, tag, 0);
    }
}

static bool read_exponential_field(ss_arena *arena, ss_distribution *d, uint32_t tag, ss_reader *reader) {
    uint64_t zigzag;
    switch (tag) {
    case TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_COUNT, SS_WIRE_FIXED64): return ss_read_fixed64(reader, &d->count);
    case TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_SUM, SS_WIRE_FIXED64):
        d->has_sum = true;
        return read_double(reader, &d->sum);
    case TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_MIN, SS_WIRE_FIXED64):
        d->has_min = true;
        return read_double(reader, &d->min);
    case TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_MAX, SS_WIRE_FIXED64):
        d->has_max = true;
        return read_double(reader, &d->max);
    case TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_SCALE, SS_WIRE_VARINT):
        if (!ss_read_varint(reader, &zigzag)) {
            return false;
        }
        d->scale = (int32_t)((uint32_t)zigzag >> 1 ^ -((uint32_t)zigzag & 1));
        return true;
    case TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ZERO_COUNT, SS_WIRE_FIXED64):
        return ss_read_fixed64(reader, &d->zero_count);
    case TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ZERO_THRESHOLD, SS_WIRE_FIXED64):
        return read_double(reader, &d->zero_threshold);
    /* The bodies of a message that comes in pieces, one behind another, are the message. */
    case TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_POSITIVE, SS_WIRE_BYTES):
        return read_piece(arena, reader, &d->positive);
    case TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_NEGATIVE, SS_WIRE_BYTES):
        return read_piece(arena, reader, &d->negative);
    default: return ss_skip_field(reader, tag, 0);
    }
}

static ss_reader row_body(const ss_table *table, uint32_t row) {
    return (ss_reader){table->bytes + table->body_offset[row],
                       table->bytes + table->row_offset[row] + table->row_length[row]};
}

static bool read_point(const ss_table *table, const layout *shape, ss_arena *arena, ss_point *point) {
    uint32_t row = point->row;
    point->start_time_unix_nano = table->start_time_unix_nano[row];
    point->time_unix_nano = table->end_time_unix_nano[row];
    point->attributes = ss_arena_take(arena, table->attribute_count[row], sizeof *point->attributes);
    if (!point->attributes) {
        return false;
    }
    point->attribute_capacity = table->attribute_count[row];
    if (shape == &histogram_layout || shape == &exponential_layout) {
        point->distribution = ss_arena_take(arena, 1, sizeof *point->distribution);
        if (!point->distribution) {
            return false;
        }
        *point->distribution = (ss_distribution){0};
        point->has_value = true;
    }
    ss_reader reader = row_body(table, row);
    while (reader.pos < reader.end) {
        const uint8_t *field = reader.pos;
        uint32_t tag;
        bool ok;
        if (!read_tag(&reader, &tag)) {
            return false;
        }
        if (tag == TAG(shape->attributes, SS_WIRE_BYTES)) {
            ok = read_attribute(arena, point, &reader, field);
        } else if (shape->exemplars && tag == TAG(shape->exemplars, SS_WIRE_BYTES)) {
            ok = ss_skip_field(&reader, tag, 0) &&
                 ss_gather(arena, &point->exemplars, (ss_bytes){field, (size_t)(reader.pos - field)});
        } else if (shape == &number_layout) {
            ok = read_number_field(point, tag, &reader);
        } else if (shape == &histogram_layout) {
            ok = read_histogram_field(arena, point->distribution, tag, &reader);
        } else if (shape == &exponential_layout) {
            ok = read_exponential_field(arena, point->distribution, tag, &reader);
        } else {
            ok = ss_skip_field(&reader, tag, 0);
        }
        if (!ok) {
            return false;
        }
    }
    point->has_value &= !(table->flags[row] & FLAG_NO_RECORDED_VALUE);
    return true;
}

static bool read_temporality(ss_reader container, bool *is_delta) {
    while (container.pos < container.end) {
        uint32_t tag;
        uint64_t value;
        if (!read_tag(&container, &tag)) {
            return false;
        }
        if (tag == TAG(TEMPORALITY_FIELD, SS_WIRE_VARINT)) {
            if (!ss_read_varint(&container, &value)) {
                return false;
            }
            *is_delta = value == TEMPORALITY_DELTA;
        } else if (!ss_skip_field(&container, tag, 0)) {
            return false;
        }
    }
    return true;
}

bool ss_points_decode(const ss_table *table, uint32_t first_row, uint32_t end_row, ss_arena *arena, ss_points *points) {
    int32_t kind = table->kind[first_row];
    const layout *shape = layout_of(kind);
    *points = (ss_points){.arena = arena, .kind = kind};
    points->points = ss_arena_take(arena, end_row - first_row, sizeof *points->points);
    if (!points->points) {
        return false;
    }
    for (uint32_t row = first_row; row < end_row; row++) {
        if (table->verdict[row] == SS_KEEP) {
            ss_point *point = &points->points[points->n_points++];
            *point = (ss_point){.row = row};
            if (!read_point(table, shape, arena, point)) {
                return false;
            }
        }
    }
    if (kind == SS_METRIC_GAUGE || kind == SS_METRIC_SUMMARY) {
        return true;
    }
    uint32_t offset, end;
    ss_table_node_range(table, table->node_index[first_row], 0, &offset, &end);
    return read_temporality((ss_reader){table->bytes + offset, table->bytes + end}, &points->is_delta);
}

/* ---------------------------------------------------------------- attributes */

ss_attribute *ss_point_attribute(const ss_point *point, ss_bytes key) {
    for (uint32_t i = 0; i < point->n_attributes; i++) {
        if (ss_bytes_equal(point->attributes[i].key, key)) {
            return &point->attributes[i];
        }
    }
    return NULL;
}

bool ss_point_add_attribute(ss_arena *arena, ss_point *point, ss_attribute attribute) {
    if (point->n_attributes == point->attribute_capacity) {
        uint32_t capacity = point->attribute_capacity * 2 + 2;
        ss_attribute *attributes = ss_arena_take(arena, capacity, sizeof *attributes);
        if (!attributes) {
            return false;
        }
        memcpy(attributes, point->attributes, point->n_attributes * sizeof *attributes);
        point->attributes = attributes;
        point->attribute_capacity = capacity;
    }
    point->attributes[point->n_attributes++] = attribute;
    return true;
}

void ss_point_remove_attribute(ss_point *point, ss_attribute *attribute) {
    ss_attribute *end = point->attributes + point->n_attributes--;
    memmove(attribute, attribute + 1, (size_t)(end - attribute - 1) * sizeof *attribute);
    point->has_new_attributes = true;
}

bool ss_point_remove_attributes(ss_point *point, ss_bytes key) {
    ss_attribute *kept = ss_point_attribute(point, key);
    if (!kept) {
        return false;
    }
    const ss_attribute *end = point->attributes + point->n_attributes;
    for (const ss_attribute *attribute = kept + 1; attribute < end; attribute++) {
        if (!ss_bytes_equal(attribute->key, key)) {
            *kept++ = *attribute;
        }
    }
    point->n_attributes = (uint32_t)(kept - point->attributes);
    point->has_new_attributes = true;
    return true;
}

/* ---------------------------------------------------------------- writing */

/* Room for the row's tag and length in front of its body. */
enum { HEAD_BYTES = 1 + SS_VARINT_MAX };

/* Output that remembers the first failure. */
typedef struct writer {
    ss_buffer *out;
    bool is_exhausted;
} writer;

static void put(writer *w, ss_bytes bytes) {
    w->is_exhausted |= ss_buffer_append(w->out, bytes.data, bytes.length) != SS_OK;
}

static void put_varint(writer *w, uint64_t value) {
    uint8_t bytes[SS_VARINT_MAX];
    put(w, (ss_bytes){bytes, (size_t)(ss_write_varint(bytes, value) - bytes)});
}

static void put_fixed64(writer *w, uint32_t field, uint64_t value) {
    uint8_t bytes[8];
    memcpy(bytes, &value, sizeof bytes);
    put_varint(w, TAG(field, SS_WIRE_FIXED64));
    put(w, (ss_bytes){bytes, sizeof bytes});
}

static void put_double(writer *w, uint32_t field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_fixed64(w, field, bits);
}

static void put_slice(writer *w, uint32_t field, ss_bytes slice) {
    put_varint(w, TAG(field, SS_WIRE_BYTES));
    put_varint(w, slice.length);
    put(w, slice);
}

static size_t slice_size(size_t length) {
    return 1 + ss_varint_size(length) + length; /* all fields used here have one-byte tags */
}

static void put_attribute(writer *w, uint32_t field, const ss_attribute *attribute) {
    if (attribute->raw.data) {
        put(w, attribute->raw);
        return;
    }
    bool is_new_text = attribute->is_text && !attribute->value.data;
    size_t value = is_new_text ? slice_size(attribute->text.length) : attribute->value.length;
    bool has_value = is_new_text || attribute->value.data;
    put_varint(w, TAG(field, SS_WIRE_BYTES));
    put_varint(w, slice_size(attribute->key.length) + (has_value ? slice_size(value) : 0));
    put_slice(w, SS_KEY_VALUE_KEY, attribute->key);
    if (is_new_text) {
        put_varint(w, TAG(SS_KEY_VALUE_VALUE, SS_WIRE_BYTES));
        put_varint(w, value);
        put_slice(w, SS_ANY_VALUE_STRING_VALUE, attribute->text);
    } else if (has_value) {
        put_slice(w, SS_KEY_VALUE_VALUE, attribute->value);
    }
}

static void put_histogram(writer *w, const ss_distribution *d) {
    put_fixed64(w, SS_HISTOGRAM_DATA_POINT_COUNT, d->count);
    if (d->has_sum) {
        put_double(w, SS_HISTOGRAM_DATA_POINT_SUM, d->sum);
    }
    if (d->bucket_counts.bytes.length) {
        put_slice(w, SS_HISTOGRAM_DATA_POINT_BUCKET_COUNTS, d->bucket_counts.bytes);
    }
    if (d->explicit_bounds.bytes.length) {
        put_slice(w, SS_HISTOGRAM_DATA_POINT_EXPLICIT_BOUNDS, d->explicit_bounds.bytes);
    }
    if (d->has_min) {
        put_double(w, SS_HISTOGRAM_DATA_POINT_MIN, d->min);
    }
    if (d->has_max) {
        put_double(w, SS_HISTOGRAM_DATA_POINT_MAX, d->max);
    }
}

static void put_exponential(writer *w, const ss_distribution *d) {
    put_fixed64(w, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_COUNT, d->count);
    if (d->has_sum) {
        put_double(w, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_SUM, d->sum);
    }
    put_varint(w, TAG(SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_SCALE, SS_WIRE_VARINT));
    put_varint(w, (uint32_t)d->scale << 1 ^ (d->scale < 0 ? UINT32_MAX : 0));
    put_fixed64(w, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ZERO_COUNT, d->zero_count);
    if (d->zero_threshold != 0) {
        put_double(w, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ZERO_THRESHOLD, d->zero_threshold);
    }
    if (d->positive.bytes.length) {
        put_slice(w, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_POSITIVE, d->positive.bytes);
    }
    if (d->negative.bytes.length) {
        put_slice(w, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_NEGATIVE, d->negative.bytes);
    }
    if (d->has_min) {
        put_double(w, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_MIN, d->min);
    }
    if (d->has_max) {
        put_double(w, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_MAX, d->max);
    }
}

static void put_value(writer *w, const layout *shape, const ss_point *point) {
    if (point->start_time_unix_nano) {
        put_fixed64(w, START_FIELD, point->start_time_unix_nano);
    }
    if (shape == &histogram_layout) {
        put_histogram(w, point->distribution);
    } else if (shape == &exponential_layout) {
        put_exponential(w, point->distribution);
    } else if (point->is_double) {
        put_double(w, SS_NUMBER_DATA_POINT_AS_DOUBLE, point->as_double);
    } else {
        put_fixed64(w, SS_NUMBER_DATA_POINT_AS_INT, (uint64_t)point->as_int);
    }
    put(w, point->exemplars.bytes);
}

/* The fields of the row that are not written anew, unknown ones included, as they came. */
static bool put_rest(writer *w, ss_reader reader, uint32_t replaced) {
    const uint8_t *from = reader.pos;
    while (reader.pos < reader.end) {
        const uint8_t *field = reader.pos;
        uint32_t tag;
        if (!read_tag(&reader, &tag) || !ss_skip_field(&reader, tag, 0)) {
            return false;
        }
        if (tag >> 3 < 32 && replaced >> (tag >> 3) & 1) {
            put(w, (ss_bytes){from, (size_t)(field - from)});
            from = reader.pos;
        }
    }
    put(w, (ss_bytes){from, (size_t)(reader.end - from)});
    return true;
}

bool ss_point_encode(const ss_table *table, const ss_points *points, const ss_point *point, ss_buffer *out,
                     ss_bytes *row) {
    const layout *shape = layout_of(points->kind);
    uint32_t replaced =
        (point->has_new_attributes ? BIT(shape->attributes) : 0) | (point->has_new_value ? shape->value_fields : 0);
    writer w = {.out = out};
    out->length = 0;
    put(&w, (ss_bytes){(const uint8_t[HEAD_BYTES]){0}, HEAD_BYTES});
    if (!put_rest(&w, row_body(table, point->row), replaced)) {
        return false;
    }
    for (uint32_t i = 0; point->has_new_attributes && i < point->n_attributes; i++) {
        put_attribute(&w, shape->attributes, &point->attributes[i]);
    }
    if (point->has_new_value) {
        put_value(&w, shape, point);
    }
    if (w.is_exhausted) {
        points->arena->is_exhausted = true;
        return false;
    }
    /* Tag and length end right where the body begins. */
    size_t body = out->length - HEAD_BYTES;
    size_t head = 1 + ss_varint_size(body);
    uint8_t *start = out->data + HEAD_BYTES - head;
    ss_write_varint(ss_write_varint(start, TAG(SS_SUM_DATA_POINTS, SS_WIRE_BYTES)), body);
    *row = (ss_bytes){start, head + body};
    return true;
}
