/*
 * Merging of points that have become one: what the Collector's aggregation does, and right where it is not.
 *
 * Identity is the set of attributes and the time, with delta temporality the start too; points of other times are
 * never merged. A point without a recorded value says that one input has ended: it vanishes in a group with a live
 * point, and a group of nothing else stays one such point. An int and a double give a double, and so does a sum that no
 * int64 holds. A count is 1 for a point that met no other. Explicit histograms need equal bounds. Exponential ones may
 * differ in scale and offset: counts are placed by index at the lowest scale. Sum, min and max of histograms stay only
 * if every point with a count has them, because half a sum is no sum.
 */
#include "core/bytes.h"
#include "core/hash.h"
#include "ops/metrics_transform_point.h"
#include "otlp_fields.h"

#include <stdlib.h>

/* Buckets a side that a merged exponential histogram may have; more where an input has more. SDKs' default. */
enum { MAX_BUCKETS = 160 };

/* ---------------------------------------------------------------- identity */

static uint64_t hash_bytes(uint64_t hash, ss_bytes bytes) {
    const uint8_t *data = bytes.data;
    size_t left = bytes.length;
    uint64_t word;
    for (; left >= 8; left -= 8, data += 8) {
        memcpy(&word, data, 8);
        hash = ss_hash_mix(hash ^ word, hash);
    }
    word = 0;
    if (left) {
        memcpy(&word, data, left);
    }
    return ss_hash_mix(hash ^ word, hash + bytes.length);
}

/* Any total order will do. */
static int compare_keys(const void *a, const void *b) {
    ss_bytes left = ((const ss_attribute *)a)->key;
    ss_bytes right = ((const ss_attribute *)b)->key;
    if (left.length != right.length) {
        return left.length < right.length ? -1 : 1;
    }
    return left.length ? memcmp(left.data, right.data, left.length) : 0;
}

static void sort_attributes(ss_point *point) {
    enum { FEW = 24 }; /* qsort allocates beyond that */
    if (point->n_attributes > FEW) {
        qsort(point->attributes, point->n_attributes, sizeof *point->attributes, compare_keys);
        return;
    }
    for (uint32_t i = 1; i < point->n_attributes; i++) {
        ss_attribute attribute = point->attributes[i];
        uint32_t at = i;
        for (; at && compare_keys(&point->attributes[at - 1], &attribute) > 0; at--) {
            point->attributes[at] = point->attributes[at - 1];
        }
        point->attributes[at] = attribute;
    }
}

static ss_bytes value_of(const ss_attribute *attribute) {
    return attribute->is_text ? attribute->text : attribute->value;
}

static uint64_t identity_hash(const ss_points *points, const ss_point *point, uint64_t seed) {
    uint64_t hash = ss_hash_mix(seed, point->time_unix_nano);
    if (points->is_delta) {
        hash = ss_hash_mix(hash, point->start_time_unix_nano);
    }
    for (uint32_t i = 0; i < point->n_attributes; i++) {
        hash = hash_bytes(hash, point->attributes[i].key);
        hash = hash_bytes(hash, value_of(&point->attributes[i]));
    }
    return hash;
}

static bool same_identity(const ss_points *points, const ss_point *a, const ss_point *b) {
    if (a->time_unix_nano != b->time_unix_nano || a->n_attributes != b->n_attributes ||
        (points->is_delta && a->start_time_unix_nano != b->start_time_unix_nano)) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_attributes; i++) {
        const ss_attribute *x = &a->attributes[i];
        const ss_attribute *y = &b->attributes[i];
        if (!ss_bytes_equal(x->key, y->key) || x->is_text != y->is_text || !ss_bytes_equal(value_of(x), value_of(y))) {
            return false;
        }
    }
    return true;
}

/* What must be equal beyond identity: numbers can always be merged. */
static uint64_t shape_hash(const ss_distribution *d, uint64_t hash) {
    if (!d) {
        return hash;
    }
    uint64_t threshold;
    memcpy(&threshold, &d->zero_threshold, sizeof threshold);
    return hash_bytes(ss_hash_mix(hash ^ threshold, d->bucket_counts.bytes.length), d->explicit_bounds.bytes);
}

static bool same_shape(const ss_distribution *a, const ss_distribution *b) {
    return !a || (memcmp(&a->zero_threshold, &b->zero_threshold, sizeof a->zero_threshold) == 0 &&
                  a->bucket_counts.bytes.length == b->bucket_counts.bytes.length &&
                  ss_bytes_equal(a->explicit_bounds.bytes, b->explicit_bounds.bytes));
}

/* ---------------------------------------------------------------- groups */

/* Open addressing over points; a slot holds a point's index. */
typedef struct lookup {
    uint32_t *slots;
    uint32_t mask;
} lookup;

static bool lookup_new(ss_arena *arena, uint32_t n_points, lookup *l) {
    uint32_t capacity = 4;
    while (capacity < n_points * 2) { /* rows are fewer than 2^29 */
        capacity *= 2;
    }
    *l = (lookup){ss_arena_take(arena, capacity, sizeof *l->slots), capacity - 1};
    return l->slots != NULL;
}

static void lookup_clear(lookup *l) {
    memset(l->slots, 0xff, ((size_t)l->mask + 1) * sizeof *l->slots);
}

/* The point found before that is the same as points[index]; index itself when it is the first. */
static uint32_t find_or_add(lookup *l, const ss_points *points, uint32_t index, bool by_shape) {
    const ss_point *point = &points->points[index];
    uint64_t hash = by_shape ? shape_hash(point->distribution, point->hash) : point->hash;
    for (uint64_t at = hash & l->mask;; at = (at + 1) & l->mask) {
        uint32_t found = l->slots[at];
        if (found == SS_NO_POINT) {
            l->slots[at] = index;
            return index;
        }
        const ss_point *other = &points->points[found];
        if (other->hash == point->hash && same_identity(points, other, point) &&
            (!by_shape || same_shape(other->distribution, point->distribution))) {
            return found;
        }
    }
}

/* ---------------------------------------------------------------- numbers */

static double number_of(const ss_point *point) {
    return point->is_double ? point->as_double : (double)point->as_int;
}

static void set_int(ss_point *point, __int128_t value) {
    if (value < INT64_MIN || value > INT64_MAX) {
        point->is_double = true;
        point->as_double = (double)value;
    } else {
        point->is_double = false;
        point->as_int = (int64_t)value;
    }
}

static void set_double(ss_point *point, double value) {
    point->is_double = true;
    point->as_double = value;
}

/* NaN before every number, so that the order is total. */
static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y || (x != x && y == y) ? -1 : x > y || (y != y && x == x);
}

static int compare_ints(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double least(double a, double b) {
    return a != a || a < b ? a : b; /* NaN wins */
}

static double greatest(double a, double b) {
    return a != a || a > b ? a : b;
}

static ss_point *next_of(const ss_points *points, const ss_point *point) {
    return point->next == SS_NO_POINT ? NULL : &points->points[point->next];
}

static bool combine_ints(const ss_points *points, ss_point *first, uint32_t n, ss_aggregation aggregation) {
    int64_t *values = ss_arena_take(points->arena, n, sizeof *values);
    if (!values) {
        return false;
    }
    __int128_t total = 0;
    int64_t low = INT64_MAX;
    int64_t high = INT64_MIN;
    size_t i = 0;
    for (const ss_point *point = first; point; point = next_of(points, point)) {
        values[i++] = point->as_int;
        total += point->as_int;
        low = point->as_int < low ? point->as_int : low;
        high = point->as_int > high ? point->as_int : high;
    }
    switch (aggregation) {
    case SS_AGGREGATION_SUM: set_int(first, total); break;
    case SS_AGGREGATION_MEAN: set_int(first, total / n); break;
    case SS_AGGREGATION_MIN: set_int(first, low); break;
    case SS_AGGREGATION_MAX: set_int(first, high); break;
    case SS_AGGREGATION_MEDIAN:
        qsort(values, n, sizeof *values, compare_ints);
        set_int(first, n % 2 ? values[n / 2] : ((__int128_t)values[n / 2 - 1] + values[n / 2]) / 2);
        break;
    case SS_AGGREGATION_COUNT: set_int(first, n); break;
    default: set_int(first, values[n - 1]); break;
    }
    return true;
}

static bool combine_doubles(const ss_points *points, ss_point *first, uint32_t n, ss_aggregation aggregation) {
    double *values = ss_arena_take(points->arena, n, sizeof *values);
    if (!values) {
        return false;
    }
    double total = number_of(first);
    double low = total;
    double high = total;
    size_t i = 0;
    for (const ss_point *point = first; point; point = next_of(points, point)) {
        double value = number_of(point);
        if (i) {
            total += value;
            low = least(value, low);
            high = greatest(value, high);
        }
        values[i++] = value;
    }
    switch (aggregation) {
    case SS_AGGREGATION_SUM: set_double(first, total); break;
    case SS_AGGREGATION_MEAN: set_double(first, total / n); break;
    case SS_AGGREGATION_MIN: set_double(first, low); break;
    case SS_AGGREGATION_MAX: set_double(first, high); break;
    case SS_AGGREGATION_MEDIAN:
        qsort(values, n, sizeof *values, compare_doubles);
        set_double(first, n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2);
        break;
    case SS_AGGREGATION_COUNT: set_double(first, n); break;
    default: set_double(first, values[n - 1]); break;
    }
    return true;
}

static bool combine_numbers(const ss_points *points, ss_point *first, uint32_t n, ss_aggregation aggregation) {
    bool any_double = false;
    for (const ss_point *point = first; point; point = next_of(points, point)) {
        any_double |= point->is_double;
    }
    return (any_double ? combine_doubles : combine_ints)(points, first, n, aggregation);
}

/* ---------------------------------------------------------------- histograms */

static uint64_t add_counts(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Count, sum, min, max and zero count of the group. Points without a count have nothing to say of them. */
static void combine_totals(const ss_points *points, ss_point *first) {
    ss_distribution total = *first->distribution;
    bool is_empty = true;
    for (const ss_point *point = first; point; point = next_of(points, point)) {
        const ss_distribution *d = point->distribution;
        if (!d->count) {
            continue;
        }
        if (is_empty) {
            is_empty = false;
            total.count = d->count;
            total.zero_count = d->zero_count;
            total.has_sum = d->has_sum;
            total.has_min = d->has_min;
            total.has_max = d->has_max;
            total.sum = d->sum;
            total.min = d->min;
            total.max = d->max;
            continue;
        }
        total.count = add_counts(total.count, d->count);
        total.zero_count = add_counts(total.zero_count, d->zero_count);
        total.has_sum &= d->has_sum;
        total.has_min &= d->has_min;
        total.has_max &= d->has_max;
        total.sum += d->sum;
        total.min = least(d->min, total.min);
        total.max = greatest(d->max, total.max);
    }
    *first->distribution = total;
}

static bool combine_buckets(const ss_points *points, ss_point *first) {
    ss_gathered *counts = &first->distribution->bucket_counts;
    size_t n_buckets = counts->bytes.length / 8;
    uint8_t *sums = ss_arena_take(points->arena, n_buckets, 8);
    if (!sums) {
        return false;
    }
    memset(sums, 0, n_buckets * 8);
    for (const ss_point *point = first; point; point = next_of(points, point)) {
        const uint8_t *from = point->distribution->bucket_counts.bytes.data;
        for (size_t i = 0; i < n_buckets; i++) {
            uint64_t sum, more;
            memcpy(&sum, sums + i * 8, 8);
            memcpy(&more, from + i * 8, 8);
            sum = add_counts(sum, more);
            memcpy(sums + i * 8, &sum, 8);
        }
    }
    *counts = (ss_gathered){.bytes = {sums, n_buckets * 8}};
    return true;
}

/* ---------------------------------------------------------------- exponential histograms */

/* The counts of one Buckets message, one after another. The scan has checked its grammar. */
typedef struct bucket_cursor {
    ss_reader body;
    ss_reader packed;
    int64_t index; /* of the next count */
} bucket_cursor;

static bucket_cursor open_buckets(const ss_gathered *buckets) {
    bucket_cursor cursor = {.body = ss_reader_of(buckets->bytes)};
    uint64_t tag, zigzag;
    for (ss_reader reader = cursor.body; ss_read_varint(&reader, &tag);) {
        if (tag == (SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_BUCKETS_OFFSET << 3 | SS_WIRE_VARINT)) {
            if (!ss_read_varint(&reader, &zigzag)) {
                break;
            }
            cursor.index = (int32_t)((uint32_t)zigzag >> 1 ^ -((uint32_t)zigzag & 1));
        } else if (!ss_skip_field(&reader, (uint32_t)tag, 0)) {
            break;
        }
    }
    return cursor;
}

/* The next count that is not 0, with its index. False: no more. */
static bool next_bucket(bucket_cursor *cursor, int64_t *index, uint64_t *count) {
    for (;;) {
        while (ss_read_varint(&cursor->packed, count)) {
            *index = cursor->index++;
            if (*count) {
                return true;
            }
        }
        uint64_t tag;
        if (!ss_read_varint(&cursor->body, &tag)) {
            return false;
        }
        if (tag == (SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_BUCKETS_BUCKET_COUNTS << 3 | SS_WIRE_BYTES)) {
            if (!ss_read_bytes(&cursor->body, &cursor->packed)) {
                return false;
            }
        } else if (tag == (SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_BUCKETS_BUCKET_COUNTS << 3 | SS_WIRE_VARINT)) {
            if (!ss_read_varint(&cursor->body, count)) {
                return false;
            }
            *index = cursor->index++;
            if (*count) {
                return true;
            }
        } else if (!ss_skip_field(&cursor->body, (uint32_t)tag, 0)) {
            return false;
        }
    }
}

/* Lowest and highest index with a count. */
typedef struct window {
    int64_t low;
    int64_t high;
} window;

static const window no_window = {INT64_MAX, INT64_MIN};

static int64_t width(const window *w) {
    return w->high < w->low ? 0 : w->high - w->low + 1;
}

/* Few enough buckets, and an offset that the message can hold. */
static bool fits(const window *w, int64_t limit) {
    return width(w) <= limit && (!width(w) || w->low <= INT32_MAX);
}

static int64_t downscale(int64_t index, int64_t steps) {
    return index >> (steps < 63 ? steps : 63);
}

static const ss_gathered *side_of(const ss_distribution *d, int side) {
    return side ? &d->negative : &d->positive;
}

/* Widen the windows by the buckets of d, seen at scale. Returns the larger width of d's own two sides. */
static int64_t widen(window windows[2], const ss_distribution *d, int64_t scale) {
    int64_t widest = 0;
    for (int side = 0; side < 2; side++) {
        window own = no_window;
        int64_t index;
        uint64_t count;
        for (bucket_cursor cursor = open_buckets(side_of(d, side)); next_bucket(&cursor, &index, &count);) {
            own.low = index < own.low ? index : own.low;
            own.high = index;
        }
        if (width(&own)) {
            int64_t low = downscale(own.low, d->scale - scale);
            int64_t high = downscale(own.high, d->scale - scale);
            windows[side].low = low < windows[side].low ? low : windows[side].low;
            windows[side].high = high > windows[side].high ? high : windows[side].high;
        }
        widest = width(&own) > widest ? width(&own) : widest;
    }
    return widest;
}

static bool write_buckets(ss_arena *arena, const uint64_t *counts, const window *w, ss_gathered *out) {
    size_t n_counts = (size_t)width(w);
    size_t length = 0;
    for (size_t i = 0; i < n_counts; i++) {
        length += ss_varint_size(counts[i]);
    }
    uint8_t *start = ss_arena_take(arena, length + 2 * (1 + SS_VARINT_MAX), 1);
    if (!start) {
        return false;
    }
    uint32_t zigzag = (uint32_t)w->low << 1 ^ (w->low < 0 ? UINT32_MAX : 0);
    uint8_t *pos = start;
    pos = ss_write_varint(pos, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_BUCKETS_OFFSET << 3 | SS_WIRE_VARINT);
    pos = ss_write_varint(pos, zigzag);
    pos = ss_write_varint(pos, SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_BUCKETS_BUCKET_COUNTS << 3 | SS_WIRE_BYTES);
    pos = ss_write_varint(pos, length);
    for (size_t i = 0; i < n_counts; i++) {
        pos = ss_write_varint(pos, counts[i]);
    }
    *out = (ss_gathered){.bytes = {start, (size_t)(pos - start)}};
    return true;
}

static bool combine_side(const ss_points *points, ss_point *first, int side, int64_t scale, const window *w,
                         ss_gathered *out) {
    size_t n_counts = (size_t)width(w);
    *out = (ss_gathered){0};
    if (!n_counts) {
        return true;
    }
    uint64_t *counts = ss_arena_take(points->arena, n_counts, sizeof *counts);
    if (!counts) {
        return false;
    }
    memset(counts, 0, n_counts * sizeof *counts);
    for (const ss_point *point = first; point; point = next_of(points, point)) {
        const ss_distribution *d = point->distribution;
        int64_t index;
        uint64_t count;
        for (bucket_cursor cursor = open_buckets(side_of(d, side)); next_bucket(&cursor, &index, &count);) {
            uint64_t *sum = &counts[downscale(index, d->scale - scale) - w->low];
            *sum = add_counts(*sum, count);
        }
    }
    return write_buckets(points->arena, counts, w, out);
}

/* Bring all to one scale, low enough that the buckets between the lowest and the highest count are few. */
static bool combine_exponential(const ss_points *points, ss_point *first) {
    int64_t scale = INT64_MAX;
    for (const ss_point *point = first; point; point = next_of(points, point)) {
        const ss_distribution *d = point->distribution;
        /* A point that has seen nothing may still show the scale it started with. */
        if (d->positive.bytes.length || d->negative.bytes.length) {
            scale = d->scale < scale ? d->scale : scale;
        }
    }
    if (scale == INT64_MAX) {
        return true;
    }
    window windows[2] = {no_window, no_window};
    int64_t limit = MAX_BUCKETS;
    for (const ss_point *point = first; point; point = next_of(points, point)) {
        int64_t widest = widen(windows, point->distribution, scale);
        limit = widest > limit ? widest : limit;
    }
    while (!fits(&windows[0], limit) || !fits(&windows[1], limit)) {
        scale--;
        for (int side = 0; side < 2; side++) {
            if (width(&windows[side])) {
                windows[side].low >>= 1;
                windows[side].high >>= 1;
            }
        }
    }
    ss_gathered positive, negative;
    if (!combine_side(points, first, 0, scale, &windows[0], &positive) ||
        !combine_side(points, first, 1, scale, &windows[1], &negative)) {
        return false;
    }
    first->distribution->scale = scale < INT32_MIN ? INT32_MIN : (int32_t)scale;
    first->distribution->positive = positive;
    first->distribution->negative = negative;
    return true;
}

/* ---------------------------------------------------------------- all kinds */

/* Write what the group has become into its first point; n points, all with a value. */
static bool combine(const ss_points *points, ss_point *first, uint32_t n, ss_aggregation aggregation) {
    for (const ss_point *point = next_of(points, first); point; point = next_of(points, point)) {
        if (point->start_time_unix_nano < first->start_time_unix_nano) {
            first->start_time_unix_nano = point->start_time_unix_nano;
        }
        if (!ss_gather(points->arena, &first->exemplars, point->exemplars.bytes)) {
            return false;
        }
    }
    first->has_new_value = true;
    switch (points->kind) {
    case SS_METRIC_HISTOGRAM: combine_totals(points, first); return combine_buckets(points, first);
    case SS_METRIC_EXPONENTIAL_HISTOGRAM:
        return combine_exponential(points, first) && (combine_totals(points, first), true);
    default: return combine_numbers(points, first, n, aggregation);
    }
}

/* Put each point with a value into the group of the first one like it. */
static void group_live(ss_points *points, lookup *l) {
    lookup_clear(l);
    for (uint32_t i = 0; i < points->n_points; i++) {
        ss_point *point = &points->points[i];
        if (point->is_gone || !point->has_value) {
            continue;
        }
        point->next = SS_NO_POINT;
        point->last = i;
        uint32_t first = find_or_add(l, points, i, true);
        if (first != i) {
            ss_point *group = &points->points[first];
            points->points[group->last].next = i;
            group->last = i;
            point->last = SS_NO_POINT;
        }
    }
}

/* Count the groups that differ in shape only, then let points without a value vanish where there is another. */
static void group_rest(ss_points *points, lookup *l, ss_merge_counts *counts) {
    lookup_clear(l);
    for (uint32_t i = 0; i < points->n_points; i++) {
        const ss_point *point = &points->points[i];
        if (!point->is_gone && point->has_value && point->last != SS_NO_POINT) {
            counts->apart += find_or_add(l, points, i, false) != i;
        }
    }
    for (uint32_t i = 0; i < points->n_points; i++) {
        ss_point *point = &points->points[i];
        if (!point->is_gone && !point->has_value && find_or_add(l, points, i, false) != i) {
            point->is_gone = true;
            counts->merged++;
        }
    }
}

bool ss_points_merge(ss_points *points, ss_aggregation aggregation, uint64_t seed, ss_merge_counts *counts) {
    lookup l;
    if (!lookup_new(points->arena, points->n_points, &l)) {
        return false;
    }
    for (uint32_t i = 0; i < points->n_points; i++) {
        ss_point *point = &points->points[i];
        if (!point->is_gone) {
            sort_attributes(point);
            point->hash = identity_hash(points, point, seed);
        }
    }
    group_live(points, &l);
    group_rest(points, &l, counts);
    const bool is_default = aggregation == SS_AGGREGATION_DEFAULT && points->kind == SS_METRIC_GAUGE;
    if (aggregation == SS_AGGREGATION_DEFAULT) {
        aggregation = is_default ? SS_AGGREGATION_LAST : SS_AGGREGATION_SUM;
    }
    bool counts_numbers =
        aggregation == SS_AGGREGATION_COUNT && (points->kind == SS_METRIC_GAUGE || points->kind == SS_METRIC_SUM);
    for (uint32_t i = 0; i < points->n_points; i++) {
        ss_point *first = &points->points[i];
        if (first->is_gone || !first->has_value) {
            continue;
        }
        uint32_t n = 1;
        for (ss_point *point = next_of(points, first); point; point = next_of(points, point)) {
            point->is_gone = true;
            n++;
        }
        counts->merged += n - 1;
        counts->superseded += is_default ? n - 1 : 0;
        if ((n > 1 || counts_numbers) && !combine(points, first, n, aggregation)) {
            return false;
        }
    }
    return true;
}
