/* Data points as metricstransform works on them: decoded from a table's rows, merged, written back as rows. */
#ifndef SS_METRICS_TRANSFORM_POINT_H
#define SS_METRICS_TRANSFORM_POINT_H

#include "core/arena.h"
#include "ops/number.h"
#include "spansieve.h"

/* ------------------------------------------------------------------ points */

typedef struct ss_attribute {
    ss_bytes raw; /* the field as it came, its tag included; no data: the attribute was changed */
    ss_bytes key;
    ss_bytes value; /* body of the AnyValue; no data: there was none, or text replaces it */
    ss_bytes text;
    bool is_text; /* the value is a string: text */
} ss_attribute;

/* What a histogram point has beyond a number's fields; of both kinds of histogram. */
typedef struct ss_distribution {
    uint64_t count;
    double sum;
    double min;
    double max;
    bool has_sum;
    bool has_min;
    bool has_max;
    ss_gathered bucket_counts;   /* explicit: fixed64 each */
    ss_gathered explicit_bounds; /* explicit: double each */
    int32_t scale;
    uint64_t zero_count;
    double zero_threshold;
    ss_gathered positive; /* exponential: body of Buckets */
    ss_gathered negative;
} ss_distribution;

enum { SS_NO_POINT = UINT32_MAX };

typedef struct ss_point {
    uint32_t row;
    bool is_gone; /* deleted or merged away */
    bool has_new_attributes;
    bool has_new_value;
    bool has_value; /* false: no recorded value, a mark that the series ended */
    bool is_double; /* number: which of the two */
    int64_t as_int;
    double as_double;
    uint64_t start_time_unix_nano;
    uint64_t time_unix_nano;
    ss_attribute *attributes;
    uint32_t n_attributes;
    uint32_t attribute_capacity;
    ss_distribution *distribution; /* NULL: a number or a summary */
    ss_gathered exemplars;         /* whole fields */
    uint64_t hash;
    uint32_t next; /* in its group */
    uint32_t last; /* of the group that it is the first of */
} ss_point;

/* The points of one data container. */
typedef struct ss_points {
    ss_arena *arena;
    ss_point *points;
    uint32_t n_points;
    int32_t kind; /* field number of the metric's data oneof */
    bool is_delta;
} ss_points;

/* Decode the kept rows of [first_row, end_row), which lie in one container. False: out of memory or malformed. */
bool ss_points_decode(const ss_table *table, uint32_t first_row, uint32_t end_row, ss_arena *arena, ss_points *points);

/* The attribute named key, or NULL. */
ss_attribute *ss_point_attribute(const ss_point *point, ss_bytes key);
bool ss_point_add_attribute(ss_arena *arena, ss_point *point, ss_attribute attribute);
void ss_point_remove_attribute(ss_point *point, ss_attribute *attribute);
/* All named key, of which there may be as many as fit a request. False: there was none. */
bool ss_point_remove_attributes(ss_point *point, ss_bytes key);

/* Write the row that point has become into out, which is emptied first. False: out of memory or malformed. */
bool ss_point_encode(const ss_table *table, const ss_points *points, const ss_point *point, ss_buffer *out,
                     ss_bytes *row);

/* ------------------------------------------------------------------ scaling */

/* Multiply what point measured. is_scaled: not without a value, nor where buckets cannot be moved so far.
 * False: out of memory. REQUIRES: not a summary; a factor above 0 for histograms. */
bool ss_point_scale(const ss_points *points, ss_point *point, double factor, bool *is_scaled);

/* ------------------------------------------------------------------ merging */

typedef struct ss_merge_counts {
    uint32_t merged;     /* points added into another one */
    uint32_t apart;      /* points of one identity with another shape than the first */
    uint32_t superseded; /* of merged, points of a gauge of which nothing is left, since nobody said how to merge */
} ss_merge_counts;

/* Merge points of equal attributes and time (and start, when the temporality is delta) into the first of them.
 * seed makes the cost independent of what the sender chose. REQUIRES: not a summary. */
bool ss_points_merge(ss_points *points, ss_aggregation aggregation, uint64_t seed, ss_merge_counts *counts);

#endif
