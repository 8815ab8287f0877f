/*
 * metricstransform: rename metrics, change and remove labels, merge the points that then coincide. Stateless: within
 * one metric of one request.
 *
 * Source: OpenTelemetry Collector contrib, metricstransform processor: the configuration and its meaning. Only what a
 * transform matches is decoded; only rows that changed are written anew; all other bytes stay what they are. A metric
 * without points has no row here and passes as it is.
 */
#include "core/bytes.h"
#include "core/hash.h"
#include "core/verdict.h"
#include "ops/pattern.h"
#include "ops/metrics_transform_point.h"
#include "ops/op.h"
#include "otlp/table.h"
#include "otlp_fields.h"

#include <math.h>
#include <stdlib.h>

/* A scratch that grew beyond this for one large request is not kept. */
enum { RETAINED_BYTES = 4 << 20, RETRY_MS = 1000 };

/* ---------------------------------------------------------------- the compiled configuration */

typedef struct matcher {
    ss_bytes label;
    ss_bytes value;
    ss_pattern *pattern; /* NULL: the value is compared */
} matcher;

typedef struct operation {
    ss_metric_action action;
    ss_aggregation aggregation;
    double scale;
    ss_bytes label;
    ss_bytes new_label;
    ss_bytes new_value;
    ss_bytes *texts;
    size_t n_texts;
} operation;

typedef struct transform {
    ss_bytes include;
    ss_pattern *pattern; /* NULL: include is compared */
    ss_bytes new_name;
    matcher *matchers;
    size_t n_matchers;
    operation *operations;
    size_t n_operations;
    bool hides; /* labels or points go */
} transform;

/* What one run needs of memory. */
typedef struct scratch {
    ss_arena arena;
    ss_buffer row;
    ss_pattern_match match;
} scratch;

typedef struct metrics_transform {
    ss_op op;
    ss_arena arena; /* of the configuration */
    transform *transforms;
    size_t n_transforms;
    uint32_t n_groups; /* of the pattern with the most; 0: no pattern */
    uint64_t seed;
    scratch *spare; /* of the run that ended last; taken and put back atomically */
} metrics_transform;

static void scratch_free(scratch *s) {
    if (s) {
        ss_arena_free(&s->arena);
        ss_buffer_free(&s->row);
        ss_pattern_match_free(&s->match);
        free(s);
    }
}

static void free_transform(ss_op *op) {
    metrics_transform *self = (metrics_transform *)op;
    for (size_t i = 0; i < self->n_transforms; i++) {
        transform *t = &self->transforms[i];
        ss_pattern_free(t->pattern);
        for (size_t j = 0; j < t->n_matchers; j++) {
            ss_pattern_free(t->matchers[j].pattern);
        }
    }
    scratch_free(self->spare);
    ss_arena_free(&self->arena);
    free(self);
}

/* ---------------------------------------------------------------- one metric */

typedef struct metric {
    ss_table *table;
    scratch *scratch;
    uint32_t first_row;
    uint32_t end_row;
    ss_bytes name;
    bool is_renamed;
    bool is_decoded;
    ss_points points;
    uint64_t seed;
} metric;

/* What a run has done. */
typedef struct tally {
    uint32_t deleted;
    uint32_t skipped;
    ss_merge_counts merge;
} tally;

static bool decode(metric *m) {
    m->is_decoded =
        m->is_decoded || ss_points_decode(m->table, m->first_row, m->end_row, &m->scratch->arena, &m->points);
    return m->is_decoded;
}

static bool matches_text(const transform *t, const ss_pattern *pattern, ss_bytes wanted, ss_bytes text,
                         ss_pattern_match *match) {
    if (!pattern) {
        return ss_bytes_equal(wanted, text);
    }
    ss_found found = ss_pattern_find(pattern, text, match);
    return found == SS_FOUND || (found == SS_UNDECIDED && t->hides);
}

/* A label that is absent or no string reads as "". */
static bool matches_point(const transform *t, const ss_point *point, ss_pattern_match *match) {
    for (size_t i = 0; i < t->n_matchers; i++) {
        const matcher *wanted = &t->matchers[i];
        const ss_attribute *attribute = ss_point_attribute(point, wanted->label);
        ss_bytes text = attribute && attribute->is_text ? attribute->text : (ss_bytes){0};
        if (!matches_text(t, wanted->pattern, wanted->value, text, match)) {
            return false;
        }
    }
    return true;
}

static bool contains(const operation *o, ss_bytes text) {
    for (size_t i = 0; i < o->n_texts; i++) {
        if (ss_bytes_equal(o->texts[i], text)) {
            return true;
        }
    }
    return false;
}

static void set_text(ss_point *point, ss_attribute *attribute, ss_bytes text) {
    *attribute = (ss_attribute){.key = attribute->key, .text = text, .is_text = true};
    point->has_new_attributes = true;
}

/* ---------------------------------------------------------------- operations on one point */

static bool add_label(metric *m, const operation *o, ss_point *point) {
    if (ss_point_attribute(point, o->new_label)) {
        return true;
    }
    point->has_new_attributes = true;
    ss_attribute attribute = {.key = o->new_label, .text = o->new_value, .is_text = true};
    return ss_point_add_attribute(&m->scratch->arena, point, attribute);
}

static void update_label(const operation *o, ss_point *point) {
    ss_attribute *attribute = ss_point_attribute(point, o->label);
    if (!attribute) {
        return;
    }
    if (o->new_label.length && !ss_bytes_equal(o->new_label, o->label)) {
        ss_attribute *other = ss_point_attribute(point, o->new_label);
        if (other) { /* the renamed one takes its place */
            ss_point_remove_attribute(point, other);
            attribute -= attribute > other;
        }
        attribute->key = o->new_label;
        attribute->raw = (ss_bytes){0};
        point->has_new_attributes = true;
    }
    for (size_t i = 0; attribute->is_text && i < o->n_texts; i += 2) {
        if (ss_bytes_equal(attribute->text, o->texts[i])) {
            set_text(point, attribute, o->texts[i + 1]);
            break;
        }
    }
}

static void keep_labels(const operation *o, ss_point *point) {
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < point->n_attributes; i++) {
        if (contains(o, point->attributes[i].key)) {
            point->attributes[n_kept++] = point->attributes[i];
        }
    }
    point->has_new_attributes |= n_kept < point->n_attributes;
    point->n_attributes = n_kept;
}

static bool has_label_value(const operation *o, const ss_point *point) {
    const ss_attribute *attribute = ss_point_attribute(point, o->label);
    return attribute && attribute->is_text && contains(o, attribute->text);
}

static void toggle_type(ss_point *point) {
    if (point->has_value) {
        if (point->is_double) {
            point->as_int = ss_int_of(point->as_double);
        } else {
            point->as_double = (double)point->as_int;
        }
        point->is_double = !point->is_double;
        point->has_new_value = true;
    }
}

/* False: out of memory. */
static bool scale_point(const metric *m, const operation *o, ss_point *point, tally *counts) {
    bool is_scaled;
    bool had_value = point->has_value;
    if (!ss_point_scale(&m->points, point, o->scale, &is_scaled)) {
        return false;
    }
    counts->skipped += had_value && !is_scaled;
    return true;
}

/* ---------------------------------------------------------------- operations on a metric */

/* The label is gone from all points; false when none had it. */
static bool delete_label(const operation *o, ss_points *points) {
    bool any = false;
    for (uint32_t i = 0; i < points->n_points; i++) {
        ss_point *point = &points->points[i];
        any |= !point->is_gone && ss_point_remove_attributes(point, o->label);
    }
    return any;
}

/* Would an aggregating operation change a label of the point? */
static bool touches(const operation *o, const ss_point *point) {
    if (o->action == SS_METRIC_ACTION_DELETE_LABEL) {
        return ss_point_attribute(point, o->label);
    }
    if (o->action == SS_METRIC_ACTION_AGGREGATE_LABEL_VALUES) {
        return has_label_value(o, point);
    }
    bool keeps_all = true;
    for (uint32_t i = 0; i < point->n_attributes && keeps_all; i++) {
        keeps_all = contains(o, point->attributes[i].key);
    }
    return !keeps_all;
}

static bool aggregate(metric *m, const operation *o, tally *counts) {
    ss_points *points = &m->points;
    if (points->kind == SS_METRIC_SUMMARY) { /* quantiles of a whole cannot be made from those of its parts */
        bool is_skipped = false;
        for (uint32_t i = 0; i < points->n_points && !is_skipped; i++) {
            is_skipped = !points->points[i].is_gone && touches(o, &points->points[i]);
        }
        counts->skipped += is_skipped;
        return true;
    }
    if (o->action == SS_METRIC_ACTION_DELETE_LABEL) {
        if (!delete_label(o, points)) {
            return true;
        }
    } else {
        for (uint32_t i = 0; i < points->n_points; i++) {
            ss_point *point = &points->points[i];
            if (o->action == SS_METRIC_ACTION_AGGREGATE_LABELS) {
                keep_labels(o, point);
            } else if (has_label_value(o, point)) {
                set_text(point, ss_point_attribute(point, o->label), o->new_value);
            }
        }
    }
    return ss_points_merge(points, o->aggregation, m->seed, &counts->merge);
}

/* Which operations need all points of the metric to match, which work on each that does. */
static bool is_for_whole_metric(ss_metric_action action) {
    return action != SS_METRIC_ACTION_UPDATE_LABEL && action != SS_METRIC_ACTION_TOGGLE_SCALAR_TYPE &&
           action != SS_METRIC_ACTION_SCALE_VALUE;
}

/* Can the operation be done on metrics of the kind? Bounds must rise, so no histogram is scaled below 0. */
static bool is_for_kind(const operation *o, int32_t kind) {
    bool is_number = kind == SS_METRIC_GAUGE || kind == SS_METRIC_SUM;
    switch (o->action) {
    case SS_METRIC_ACTION_TOGGLE_SCALAR_TYPE: return is_number;
    case SS_METRIC_ACTION_SCALE_VALUE: return is_number || (kind != SS_METRIC_SUMMARY && o->scale > 0);
    default: return true;
    }
}

static bool apply_to_point(metric *m, const operation *o, ss_point *point, tally *counts) {
    switch (o->action) {
    case SS_METRIC_ACTION_ADD_LABEL: return add_label(m, o, point);
    case SS_METRIC_ACTION_UPDATE_LABEL: update_label(o, point); return true;
    case SS_METRIC_ACTION_DELETE_LABEL_VALUE:
        point->is_gone = has_label_value(o, point);
        counts->deleted += point->is_gone;
        return true;
    case SS_METRIC_ACTION_TOGGLE_SCALAR_TYPE: toggle_type(point); return true;
    case SS_METRIC_ACTION_SCALE_VALUE: return scale_point(m, o, point, counts);
    default: return true;
    }
}

static bool apply(metric *m, const transform *t, const operation *o, bool all_match, tally *counts) {
    if (is_for_whole_metric(o->action) && !all_match) {
        return true;
    }
    if (!is_for_kind(o, m->points.kind)) {
        counts->skipped++;
        return true;
    }
    if (o->action == SS_METRIC_ACTION_DELETE_LABEL || o->action == SS_METRIC_ACTION_AGGREGATE_LABELS ||
        o->action == SS_METRIC_ACTION_AGGREGATE_LABEL_VALUES) {
        return aggregate(m, o, counts);
    }
    for (uint32_t i = 0; i < m->points.n_points; i++) {
        ss_point *point = &m->points.points[i];
        /* Asked now, not before the first operation: an operation sees what those before it left. */
        if (!point->is_gone && (is_for_whole_metric(o->action) || matches_point(t, point, &m->scratch->match)) &&
            !apply_to_point(m, o, point, counts)) {
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- transforms */

static bool rename_metric(metric *m, const transform *t) {
    ss_bytes name = t->new_name;
    if (t->pattern) {
        ss_bytes expanded;
        /* The groups of the name: matching labels has overwritten them, and in a long name they may not be found. */
        if (ss_pattern_find_groups(t->pattern, m->name, &m->scratch->match) != SS_FOUND) {
            return true;
        }
        if (!ss_pattern_expand(t->pattern, &m->scratch->match, m->name, t->new_name, &m->scratch->arena, &expanded)) {
            return false;
        }
        name = expanded.length ? expanded : name;
    }
    m->name = name;
    m->is_renamed = true;
    return true;
}

/* Does t apply to the metric: to some of its points, to all of them? */
static bool match_metric(metric *m, const transform *t, bool *any_match, bool *all_match) {
    *any_match = matches_text(t, t->pattern, t->include, m->name, &m->scratch->match);
    *all_match = *any_match;
    if (!*any_match || !t->n_matchers) {
        return true;
    }
    if (!decode(m)) {
        return false;
    }
    *any_match = false;
    for (uint32_t i = 0; i < m->points.n_points; i++) {
        const ss_point *point = &m->points.points[i];
        if (!point->is_gone) {
            bool matches = matches_point(t, point, &m->scratch->match);
            *any_match |= matches;
            *all_match &= matches;
        }
    }
    return true;
}

static bool has_points(const metric *m) {
    bool any = !m->is_decoded;
    for (uint32_t i = 0; m->is_decoded && i < m->points.n_points && !any; i++) {
        any = !m->points.points[i].is_gone;
    }
    return any;
}

static bool transform_metric(metric *m, const metrics_transform *self, tally *counts) {
    for (size_t i = 0; i < self->n_transforms && has_points(m); i++) {
        const transform *t = &self->transforms[i];
        bool any_match, all_match;
        if (!match_metric(m, t, &any_match, &all_match)) {
            return false;
        }
        if (!any_match) {
            continue;
        }
        if (t->new_name.length && all_match && !rename_metric(m, t)) {
            return false;
        }
        if (t->n_operations && !decode(m)) {
            return false;
        }
        for (size_t j = 0; j < t->n_operations; j++) {
            if (!apply(m, t, &t->operations[j], all_match, counts)) {
                return false;
            }
        }
    }
    return true;
}

/* ---------------------------------------------------------------- writing back */

/* The last name field of the metric is replaced, or one is put in front of its first field. */
static ss_status write_name(const metric *m) {
    ss_table *table = m->table;
    uint32_t node = table->node_index[m->first_row];
    uint32_t start, end;
    ss_table_node_range(table, node, 1, &start, &end);
    uint32_t offset = start;
    uint32_t length = 0;
    ss_reader reader = {table->bytes + start, table->bytes + end};
    while (reader.pos < reader.end) {
        const uint8_t *field = reader.pos;
        uint64_t tag;
        if (!ss_read_varint(&reader, &tag) || tag > UINT32_MAX || !ss_skip_field(&reader, (uint32_t)tag, 0)) {
            return SS_ERR_MALFORMED;
        }
        if (tag == (SS_METRIC_NAME << 3 | SS_WIRE_BYTES)) {
            offset = (uint32_t)(field - table->bytes);
            length = (uint32_t)(reader.pos - field);
        }
    }
    uint8_t head[1 + SS_VARINT_MAX];
    uint8_t *behind = ss_write_varint(ss_write_varint(head, SS_METRIC_NAME << 3 | SS_WIRE_BYTES), m->name.length);
    ss_buffer *out = &m->scratch->row;
    out->length = 0;
    ss_status status = ss_buffer_append(out, head, (size_t)(behind - head));
    if (status == SS_OK) {
        status = ss_buffer_append(out, m->name.data, m->name.length);
    }
    return status == SS_OK ? ss_table_edit_node(table, node, offset, length, out->data, out->length) : status;
}

static ss_status write_points(metric *m) {
    ss_table *table = m->table;
    for (uint32_t i = 0; i < m->points.n_points; i++) {
        const ss_point *point = &m->points.points[i];
        if (point->is_gone) {
            ss_table_drop(table, point->row);
        } else if (point->has_new_attributes || point->has_new_value) {
            ss_bytes row;
            if (!ss_point_encode(table, &m->points, point, &m->scratch->row, &row)) {
                return m->scratch->arena.is_exhausted ? SS_ERR_NO_MEMORY : SS_ERR_MALFORMED;
            }
            ss_status status = ss_table_edit(table, point->row, table->row_offset[point->row],
                                             table->row_length[point->row], row.data, row.length);
            if (status != SS_OK) {
                return status;
            }
        }
    }
    return SS_OK;
}

static uint32_t container_end(const ss_table *table, uint32_t row) {
    uint32_t end = row + 1;
    while (end < table->n_rows && table->node_index[end] == table->node_index[row]) {
        end++;
    }
    return end;
}

static uint32_t metric_start(const ss_table *table, uint32_t row) {
    uint32_t start, end;
    ss_table_node_range(table, table->node_index[row], 1, &start, &end);
    return start;
}

static ss_status run_with(const metrics_transform *self, ss_table *table, scratch *s, tally *counts) {
    uint32_t renamed = 0; /* start of the last metric renamed: one with two containers is renamed once */
    for (uint32_t row = 0, end; row < table->n_rows; row = end) {
        end = container_end(table, row);
        metric m = {
            .table = table,
            .scratch = s,
            .first_row = row,
            .end_row = end,
            .name = {table->bytes + table->name_offset[row], table->name_length[row]},
            .seed = self->seed,
        };
        ss_arena_reset(&s->arena);
        if (!transform_metric(&m, self, counts)) {
            return s->arena.is_exhausted ? SS_ERR_NO_MEMORY : SS_ERR_MALFORMED;
        }
        ss_status status = m.is_decoded ? write_points(&m) : SS_OK;
        if (status == SS_OK && m.is_renamed && metric_start(table, row) != renamed) {
            renamed = metric_start(table, row);
            status = write_name(&m);
        }
        if (status != SS_OK) {
            return status;
        }
    }
    return SS_OK;
}

/* ---------------------------------------------------------------- the op */

static scratch *take_scratch(metrics_transform *self) {
    scratch *s = __atomic_exchange_n(&self->spare, NULL, __ATOMIC_ACQ_REL);
    if (!s) {
        s = calloc(1, sizeof *s);
    }
    if (s && !ss_pattern_match_reserve(&s->match, self->n_groups)) {
        scratch_free(s);
        s = NULL;
    }
    return s;
}

static void give_scratch(metrics_transform *self, scratch *s) {
    if (s->arena.capacity + s->row.capacity > RETAINED_BYTES) {
        ss_arena_free(&s->arena);
        ss_buffer_free(&s->row);
    }
    scratch_free(__atomic_exchange_n(&self->spare, s, __ATOMIC_ACQ_REL));
}

static ss_status run(ss_op *op, ss_table *table, ss_verdict *verdict) {
    metrics_transform *self = (metrics_transform *)op;
    if (table->signal != SS_SIGNAL_METRICS) {
        return SS_OK;
    }
    tally counts = {0};
    uint32_t n_undecided = 0;
    scratch *s = take_scratch(self);
    ss_status status = SS_ERR_NO_MEMORY;
    if (s) {
        ss_arena_count(&s->arena, &table->private_state->holding);
        status = run_with(self, table, s, &counts);
        ss_arena_count(&s->arena, NULL);
        n_undecided = s->match.n_undecided;
        give_scratch(self, s);
    }
    if (status == SS_ERR_NO_MEMORY) {
        return ss_refuse(verdict, "metricstransform: out of memory", RETRY_MS);
    }
    if (status != SS_OK) {
        return ss_reject(verdict, status, SS_CODE_INVALID_ARGUMENT, "metricstransform: malformed or too large metric");
    }
    ss_op_count(op, table, SS_METRICS_TRANSFORM_DELETED, counts.deleted);
    ss_op_count(op, table, SS_METRICS_TRANSFORM_MERGED, counts.merge.merged);
    ss_op_count(op, table, SS_METRICS_TRANSFORM_APART, counts.merge.apart);
    ss_op_count(op, table, SS_METRICS_TRANSFORM_SKIPPED, counts.skipped);
    ss_op_count(op, table, SS_METRICS_TRANSFORM_SUPERSEDED, counts.merge.superseded);
    ss_op_count(op, table, SS_METRICS_TRANSFORM_UNDECIDED, n_undecided);
    return SS_OK;
}

static const ss_op_vtable vtable = {
    .reads = SS_COLUMN_ATTRIBUTES | SS_COLUMN_POINTS,
    .edits = SS_COLUMN_ATTRIBUTES | SS_COLUMN_POINTS,
    .run = run,
    .free = free_transform,
};

/* ---------------------------------------------------------------- construction */

/* NULL and "" are both empty. */
static bool copy_text(ss_arena *arena, const char *text, ss_bytes *copy) {
    size_t length = text ? strlen(text) : 0;
    uint8_t *data = ss_arena_take(arena, length + 1, 1);
    if (!data) {
        return false;
    }
    if (length) {
        memcpy(data, text, length);
    }
    *copy = (ss_bytes){data, length};
    return true;
}

static void *take_zeroed(ss_arena *arena, size_t n, size_t size) {
    void *taken = ss_arena_take(arena, n, size);
    return taken ? memset(taken, 0, n * size) : NULL;
}

static bool copy_operation(ss_arena *arena, const ss_metric_operation *config, operation *o) {
    o->action = config->action;
    o->aggregation = config->aggregation;
    o->scale = config->scale;
    o->texts = take_zeroed(arena, config->n_texts, sizeof *o->texts);
    if (!o->texts || !copy_text(arena, config->label, &o->label) ||
        !copy_text(arena, config->new_label, &o->new_label) || !copy_text(arena, config->new_value, &o->new_value)) {
        return false;
    }
    for (; o->n_texts < config->n_texts; o->n_texts++) {
        if (!copy_text(arena, config->texts[o->n_texts], &o->texts[o->n_texts])) {
            return false;
        }
    }
    return true;
}

/* False with error set; what was made so far is freed with the op. */
static bool copy_pattern(metrics_transform *self, ss_bytes text, ss_pattern **pattern, ss_error *error) {
    *pattern = ss_pattern_new(text, error);
    if (*pattern && ss_pattern_n_groups(*pattern) > self->n_groups) {
        self->n_groups = ss_pattern_n_groups(*pattern);
    }
    return *pattern != NULL;
}

static bool hides(ss_metric_action action) {
    return action == SS_METRIC_ACTION_DELETE_LABEL || action == SS_METRIC_ACTION_DELETE_LABEL_VALUE ||
           action == SS_METRIC_ACTION_AGGREGATE_LABELS || action == SS_METRIC_ACTION_AGGREGATE_LABEL_VALUES;
}

static bool copy_transform(metrics_transform *self, const ss_metric_transform *config, transform *t, ss_error *error) {
    ss_arena *arena = &self->arena;
    t->matchers = take_zeroed(arena, config->n_match_labels / 2, sizeof *t->matchers);
    t->operations = take_zeroed(arena, config->n_operations, sizeof *t->operations);
    if (!t->matchers || !t->operations || !copy_text(arena, config->include, &t->include) ||
        !copy_text(arena, config->new_name, &t->new_name)) {
        return false;
    }
    if (config->is_regexp && !copy_pattern(self, t->include, &t->pattern, error)) {
        return false;
    }
    for (; t->n_matchers < config->n_match_labels / 2; t->n_matchers++) {
        matcher *wanted = &t->matchers[t->n_matchers];
        const char *const *pair = &config->match_labels[t->n_matchers * 2];
        if (!copy_text(arena, pair[0], &wanted->label) || !copy_text(arena, pair[1], &wanted->value) ||
            (config->is_regexp && !copy_pattern(self, wanted->value, &wanted->pattern, error))) {
            return false;
        }
    }
    for (; t->n_operations < config->n_operations; t->n_operations++) {
        t->hides |= hides(config->operations[t->n_operations].action);
        if (!copy_operation(arena, &config->operations[t->n_operations], &t->operations[t->n_operations])) {
            return false;
        }
    }
    return true;
}

ss_op *ss_metrics_transform_new(const ss_metrics_transform_config *config, ss_error *error) {
    *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
    metrics_transform *self = calloc(1, sizeof *self);
    if (!self) {
        return NULL;
    }
    self->op.vtable = &vtable;
    self->seed = ss_hash_seed(self);
    self->transforms = take_zeroed(&self->arena, config->n_transforms, sizeof *self->transforms);
    if (!self->transforms) {
        free_transform(&self->op);
        return NULL;
    }
    for (; self->n_transforms < config->n_transforms; self->n_transforms++) {
        size_t i = self->n_transforms;
        if (!copy_transform(self, &config->transforms[i], &self->transforms[i], error)) {
            self->n_transforms++; /* the one half made is freed too */
            free_transform(&self->op);
            return NULL;
        }
    }
    *error = (ss_error){0};
    return &self->op;
}
