/*
 * Multiplying what points measure, as by a change of unit. The Collector's experimental_scale_value: numbers; of
 * histograms sum, min, max, bounds and exemplars. The buckets of an exponential histogram keep their counts and their
 * scale and move as a whole, to where the middle of a bucket comes to lie.
 */
#include "core/bytes.h"
#include "ops/metrics_transform_point.h"
#include "otlp_fields.h"

#include <math.h>

#define OFFSET_TAG ((uint64_t)SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_BUCKETS_OFFSET << 3 | SS_WIRE_VARINT)

static void scale_double(uint8_t *bytes, double factor) {
    double value;
    memcpy(&value, bytes, sizeof value);
    value *= factor;
    memcpy(bytes, &value, sizeof value);
}

static void scale_int(uint8_t *bytes, double factor) {
    int64_t value;
    memcpy(&value, bytes, sizeof value);
    value = ss_int_of((double)value * factor);
    memcpy(bytes, &value, sizeof value);
}

/* A copy that may be written to. False: out of memory. */
static bool own(ss_arena *arena, ss_gathered *gathered, uint8_t **bytes) {
    size_t length = gathered->bytes.length;
    *bytes = ss_arena_take(arena, length, 1);
    if (!*bytes) {
        return false;
    }
    if (length) {
        memcpy(*bytes, gathered->bytes.data, length);
    }
    *gathered = (ss_gathered){.bytes = {*bytes, length}, .capacity = length};
    return true;
}

static bool scale_bounds(ss_arena *arena, ss_gathered *bounds, double factor) {
    uint8_t *bytes;
    if (!own(arena, bounds, &bytes)) {
        return false;
    }
    for (size_t i = 0; i + 8 <= bounds->bytes.length; i += 8) {
        scale_double(bytes + i, factor);
    }
    return true;
}

/* The values lie in fields of fixed width, so they are written over. The scan has checked the grammar. */
static bool scale_exemplars(ss_arena *arena, ss_gathered *exemplars, double factor) {
    uint8_t *bytes;
    if (!own(arena, exemplars, &bytes)) {
        return false;
    }
    ss_reader reader = ss_reader_of(exemplars->bytes);
    ss_reader body;
    uint64_t tag, bits;
    while (ss_read_varint(&reader, &tag) && ss_read_bytes(&reader, &body)) {
        while (ss_read_varint(&body, &tag)) {
            uint8_t *value = bytes + (body.pos - exemplars->bytes.data);
            bool is_double = tag == ((uint64_t)SS_EXEMPLAR_AS_DOUBLE << 3 | SS_WIRE_FIXED64);
            if (!is_double && tag != ((uint64_t)SS_EXEMPLAR_AS_INT << 3 | SS_WIRE_FIXED64)) {
                if (!ss_skip_field(&body, (uint32_t)tag, 0)) {
                    break;
                }
            } else if (!ss_read_fixed64(&body, &bits)) {
                break;
            } else if (is_double) {
                scale_double(value, factor);
            } else {
                scale_int(value, factor);
            }
        }
    }
    return true;
}

/* Buckets as a distribution has them: where they begin, and whether there are any. */
static bool read_offset(const ss_gathered *buckets, int32_t *offset) {
    bool has_counts = false;
    uint64_t tag, zigzag;
    *offset = 0;
    for (ss_reader reader = ss_reader_of(buckets->bytes); ss_read_varint(&reader, &tag);) {
        has_counts |= tag >> 3 == SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_BUCKETS_BUCKET_COUNTS;
        if (tag == OFFSET_TAG) {
            if (!ss_read_varint(&reader, &zigzag)) {
                break;
            }
            *offset = (int32_t)((uint32_t)zigzag >> 1 ^ -((uint32_t)zigzag & 1));
        } else if (!ss_skip_field(&reader, (uint32_t)tag, 0)) {
            break;
        }
    }
    return has_counts;
}

/*
 * A bucket is 2^width times as high as it is low. Its middle, (1 + 2^width) / 2 above its low end, is what is scaled.
 * False: no index holds the result.
 */
static bool move_offset(int32_t scale, double factor, int32_t *offset) {
    double width = exp2(-(double)scale);
    double middle = width > 60 ? width - 1 : log1p(expm1(width * M_LN2) / 2) / M_LN2;
    double index = *offset + ceil((middle + log2(factor)) / width) - 1;
    if (!(index >= INT32_MIN && index <= INT32_MAX)) {
        return false;
    }
    *offset = (int32_t)index;
    return true;
}

/* The fields as they were, but for the offset, which comes last. */
static bool write_offset(ss_arena *arena, ss_gathered *buckets, int32_t offset) {
    uint8_t *bytes = ss_arena_take(arena, buckets->bytes.length + 1 + SS_VARINT_MAX, 1);
    if (!bytes) {
        return false;
    }
    uint8_t *pos = bytes;
    ss_reader reader = ss_reader_of(buckets->bytes);
    uint64_t tag;
    for (const uint8_t *field = reader.pos; ss_read_varint(&reader, &tag); field = reader.pos) {
        if (!ss_skip_field(&reader, (uint32_t)tag, 0)) {
            break;
        }
        if (tag != OFFSET_TAG) {
            memcpy(pos, field, (size_t)(reader.pos - field));
            pos += reader.pos - field;
        }
    }
    pos = ss_write_varint(pos, OFFSET_TAG);
    pos = ss_write_varint(pos, (uint32_t)offset << 1 ^ (offset < 0 ? UINT32_MAX : 0));
    *buckets = (ss_gathered){.bytes = {bytes, (size_t)(pos - bytes)}};
    return true;
}

static bool scale_buckets(ss_arena *arena, ss_distribution *d, double factor, bool *is_scaled) {
    int32_t positive, negative;
    bool has_positive = read_offset(&d->positive, &positive);
    bool has_negative = read_offset(&d->negative, &negative);
    *is_scaled = (!has_positive || move_offset(d->scale, factor, &positive)) &&
                 (!has_negative || move_offset(d->scale, factor, &negative));
    return !*is_scaled || ((!has_positive || write_offset(arena, &d->positive, positive)) &&
                           (!has_negative || write_offset(arena, &d->negative, negative)));
}

bool ss_point_scale(const ss_points *points, ss_point *point, double factor, bool *is_scaled) {
    ss_distribution *d = point->distribution;
    *is_scaled = point->has_value;
    if (!point->has_value) {
        return true;
    }
    if (!d) {
        point->as_int = ss_int_of((double)point->as_int * factor);
        point->as_double *= factor;
        point->has_new_value = true;
        return true;
    }
    bool is_explicit = points->kind == SS_METRIC_HISTOGRAM;
    if (!(is_explicit ? scale_bounds(points->arena, &d->explicit_bounds, factor)
                      : scale_buckets(points->arena, d, factor, is_scaled))) {
        return false;
    }
    if (*is_scaled) {
        d->sum *= factor;
        d->min *= factor;
        d->max *= factor;
        d->zero_threshold *= factor;
        point->has_new_value = true;
        return scale_exemplars(points->arena, &point->exemplars, factor);
    }
    return true;
}
