/*
 * Gathers requests into batches: a stage whose groups are known by the values of metadata names, and are sent at a size
 * or a time. Requests are concatenated: a protobuf message followed by another of its type is their merge. The stage's
 * thread then writes each resource once. A combination of values is forgotten as soon as nothing is gathered for it.
 * Source: semantics of the Collector's batch processor, with a size in bytes beside the count, and without its losses.
 */
#include "core/account.h"
#include "core/verdict.h"
#include "otlp/regroup.h"
#include "otlp/table.h"
#include "plan/metadata.h"
#include "plan/stage.h"

#include <stdlib.h>

/* A request is measured as a whole for each of its parts. One of more parts than SLICES is therefore cut into about so
 * many slices first, which are read on their own, unless it is small. */
enum { SLICES = 8, SMALL_TABLE = 512 };

/* Each part repeats the messages around its items. A request grows by this factor and so many bytes at most, and not
 * beyond the limit of memory: what is left then goes as one batch, however large, since the sender must not choose how
 * much memory it takes. */
enum { GROWTH_MAX = 16, GROWTH_FREE = 64 << 20 };

enum { REFUSAL_RETRY_MS = 1000 };

/* The Collector's, for its otelcol_processor_batch_batch_send_size. */
static const uint32_t size_bounds[SS_BATCH_N_BOUNDS] = {10,   25,    50,    75,    100,   250,   500,  750,
                                                        1000, 2000,  3000,  4000,  5000,  6000,  7000, 8000,
                                                        9000, 10000, 20000, 30000, 50000, 100000};

typedef struct batch {
    ss_stage stage; /* first */
    ss_batch_config config;
    ss_names names; /* of metadata */
    ss_buffer key;  /* of the request that is being taken */
    ss_batch_stats stats;
} batch;

/* A request on its way into one batch or several. */
typedef struct gathering {
    batch *self;
    ss_worker *worker;
    ss_key key;
    ss_group *group;    /* the open one with that key; NULL: none is */
    uint64_t n_written; /* bytes, of this request */
    uint64_t n_max;     /* so many of them, and the rest goes as it is */
} gathering;

/* ---------------------------------------------------------------- one batch */

/* Pass on what is gathered in the open batch, and count why. */
static void seal(gathering *g, uint64_t *trigger) {
    (*trigger)++;
    ss_stage_send(&g->self->stage, g->group);
    g->group = NULL;
}

static size_t open_length(const gathering *g) {
    return g->group ? g->group->bytes.length : 0;
}

static uint64_t open_items(const gathering *g) {
    return g->group ? g->group->n_items : 0;
}

static bool would_pass_bytes(const gathering *g, size_t more) {
    size_t limit = g->self->config.send_batch_max_bytes;
    return limit && open_length(g) + more > limit;
}

static bool would_pass_items(const gathering *g, uint64_t more) {
    uint64_t limit = g->self->config.send_batch_max_size;
    return limit && open_items(g) + more > limit;
}

/* Append rows [first, end) of the table, or without one the bytes as they are; seal what has become full. */
static ss_status gather(gathering *g, const ss_view *view, uint32_t first, uint32_t end, uint64_t n_items) {
    batch *self = g->self;
    if (!g->group && !(g->group = ss_stage_open(&self->stage, &g->key, self->config.timeout_ns))) {
        return SS_ERR_NO_MEMORY;
    }
    ss_buffer *bytes = &g->group->bytes;
    size_t before = bytes->length;
    ss_status status =
        view->table ? ss_emit(view->table, first, end, bytes) : ss_buffer_append(bytes, view->bytes, view->length);
    if (status != SS_OK) {
        bytes->length = before;
        if (!g->group->n_items) {
            ss_stage_discard(&self->stage, g->group);
            g->group = NULL;
        }
        return status;
    }
    g->n_written += bytes->length - before;
    g->group->n_items += n_items;
    self->stats.pending_items += n_items;
    ss_stage_account(&self->stage, g->group);
    bool is_full = g->group->n_items >= self->config.send_batch_size; /* always, with send_batch_size 0 */
    if (is_full || !self->config.timeout_ns) {
        seal(g, &self->stats.size_trigger_send);
    }
    return SS_OK;
}

/* ---------------------------------------------------------------- a request that does not fit into one */

/* The end of the rows from first on that hold room kept ones, or fewer where there are no more; *n_items are kept. */
static uint32_t end_of_items(const ss_table *table, uint32_t first, uint64_t room, uint64_t *n_items) {
    uint32_t end = first;
    *n_items = 0;
    for (; end < table->n_rows && (*n_items < room || table->verdict[end] != SS_KEEP); end++) {
        *n_items += table->verdict[end] == SS_KEEP;
    }
    return end;
}

/* Bytes that rows from first on may take in the open batch. In an empty one the first item has room whatever its
 * size; and where the messages around it alone are too large, so many more that these are not repeated for each. */
static size_t bytes_room(const gathering *g, ss_table *table, uint32_t first) {
    size_t limit = g->self->config.send_batch_max_bytes;
    if (g->group) {
        size_t length = open_length(g);
        return length < limit ? limit - length : 0;
    }
    uint64_t one;
    uint32_t end = end_of_items(table, first, 1, &one);
    size_t alone = ss_emit_size(table, first, end);
    if (alone <= limit || !one) {
        return limit;
    }
    while (table->verdict[--end] != SS_KEEP) {
    }
    size_t around = alone > table->row_length[end] ? alone - table->row_length[end] : 0;
    return alone > 2 * around ? alone : 2 * around;
}

/* The end of the rows from first on that still fit into the open batch; *n_items becomes the kept among them. The
 * bytes of a part are those of its rows and of the messages around them: measured, by bisection. */
static uint32_t fit_rows(const gathering *g, ss_table *table, uint32_t first, uint64_t *n_items) {
    const ss_batch_config *config = &g->self->config;
    uint64_t room = config->send_batch_max_size ? config->send_batch_max_size - open_items(g) : UINT64_MAX;
    uint32_t end = end_of_items(table, first, room, n_items);
    if (!config->send_batch_max_bytes) {
        return end;
    }
    size_t room_bytes = bytes_room(g, table, first);
    if (ss_emit_size(table, first, end) <= room_bytes) {
        return end;
    }
    uint32_t low = first; /* rows up to low fit, rows up to end do not */
    while (end - low > 1) {
        uint32_t middle = low + (end - low) / 2;
        if (ss_emit_size(table, first, middle) <= room_bytes) {
            low = middle;
        } else {
            end = middle;
        }
    }
    *n_items = 0;
    for (uint32_t row = first; row < low; row++) {
        *n_items += table->verdict[row] == SS_KEEP;
    }
    return low;
}

static ss_status gather_parts(gathering *g, const ss_view *view);

/* Append the rows from first on, cut into slices, each read into frame. */
static ss_status gather_slices(gathering *g, ss_frame *frame, const ss_view *view, uint32_t first) {
    ss_table *table = view->table;
    const uint32_t max_items = g->self->config.send_batch_max_size;
    uint64_t n_left;
    ss_verdict ignored;
    end_of_items(table, first, UINT64_MAX, &n_left);
    uint64_t n_slice = n_left / SLICES + 1;
    n_slice -= max_items && n_slice > max_items ? n_slice % max_items : 0; /* whole batches */
    while (first < table->n_rows) {
        uint64_t n_items;
        uint32_t end = end_of_items(table, first, n_slice, &n_items);
        if (n_items) {
            ss_view slice;
            frame->bytes.length = 0;
            ss_status status = ss_emit_held(table, first, end, ss_frame_holding(frame), &frame->bytes);
            if (status == SS_OK) {
                status =
                    ss_view_scan(view->signal, frame->bytes.data, frame->bytes.length, frame->table, &slice, &ignored);
            }
            if (status == SS_OK) {
                status = gather_parts(g, &slice);
            }
            if (status != SS_OK) {
                return status;
            }
        }
        first = end;
    }
    return SS_OK;
}

/* Recursion ends because a slice has fewer items than what it is cut from, and when frames run out. */
static ss_status gather_parts(gathering *g, const ss_view *view) {
    ss_table *table = view->table;
    bool is_small = ss_table_parts(table) < SMALL_TABLE;
    for (uint32_t first = 0, end; first < table->n_rows; first = end) {
        uint64_t n_items;
        bool was_empty = !g->group; /* else the part may be small for want of room */
        end = g->n_written < g->n_max ? fit_rows(g, table, first, &n_items)
                                      : end_of_items(table, first, UINT64_MAX, &n_items);
        if (n_items) {
            ss_status status = gather(g, view, first, end, n_items);
            if (status != SS_OK) {
                return status;
            }
        } else if (g->group && end < table->n_rows) {
            ss_batch_stats *stats = &g->self->stats;
            seal(g, would_pass_items(g, 1) ? &stats->size_trigger_send : &stats->bytes_trigger_send);
        }
        bool has_many_parts = was_empty && (table->n_rows - end) / SLICES > end - first;
        ss_frame *frame = has_many_parts && !is_small ? ss_worker_push_frame(g->worker) : NULL;
        if (frame) {
            ss_frame_holding(frame)->runtime = NULL; /* no limit: half of the request has been taken */
            ss_status status = gather_slices(g, frame, view, end);
            ss_worker_pop_frame(g->worker);
            return status;
        }
    }
    return SS_OK;
}

/* ---------------------------------------------------------------- the stage */

/* The Collector's answer, after which clients give up; a batch in front of this one tries again. */
static ss_status refuse_combination(const ss_view *view, ss_verdict *verdict) {
    static const char text[] = "Permanent error: too many batcher metadata-value combinations";
    return view->is_retried ? ss_refuse(verdict, text + sizeof "Permanent error:", REFUSAL_RETRY_MS)
                            : ss_reject(verdict, SS_ERR_LIMIT, SS_CODE_INTERNAL, text);
}

static ss_status take_whole_or_in_parts(gathering *g, const ss_view *view) {
    const ss_batch_config *config = &g->self->config;
    size_t size = view->table ? ss_emit_bound(view->table) : view->length;
    if (view->table && would_pass_bytes(g, size)) { /* the exact size is worth its pass only near the limit */
        size = ss_emit_size(view->table, 0, view->table->n_rows);
    }
    bool too_many = config->send_batch_max_size && view->n_items > config->send_batch_max_size;
    bool too_large = config->send_batch_max_bytes && size > config->send_batch_max_bytes;
    /* The Collector fills each batch to exactly send_batch_max_size items; bytes only start a new batch. */
    if (view->table && (too_many || too_large || would_pass_items(g, view->n_items))) {
        return gather_parts(g, view);
    }
    if (g->group && would_pass_bytes(g, size)) {
        seal(g, &g->self->stats.bytes_trigger_send);
    }
    return gather(g, view, 0, view->table ? view->table->n_rows : 0, view->n_items);
}

/* So many bytes of a request may be written in parts. What is of a usual kind hardly grows, and so is always split: a
 * backend may take no more at a time. */
static uint64_t bytes_in_parts(const ss_stage *stage, const ss_view *view) {
    const uint64_t usual = (uint64_t)view->length * 2, most = (uint64_t)view->length * GROWTH_MAX + GROWTH_FREE;
    const uint64_t room = ss_runtime_room(stage->runtime);
    return room < usual ? usual : room < most ? room : most;
}

static ss_status batch_take(ss_stage *stage, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    batch *self = (batch *)stage;
    self->key.length = 0;
    ss_status status = ss_metadata_select(view->metadata, view->metadata_length, &self->names, &self->key);
    gathering g = {.self = self,
                   .worker = worker,
                   .key = ss_stage_key(stage, self->key.data, self->key.length),
                   .n_max = bytes_in_parts(stage, view)};
    g.group = ss_stage_find(stage, &g.key);
    if (status == SS_OK && !g.group && self->config.max_combinations &&
        stage->n_open >= self->config.max_combinations) {
        return refuse_combination(view, verdict);
    }
    if (status == SS_OK) {
        status = take_whole_or_in_parts(&g, view);
    }
    return status == SS_OK ? SS_OK : SS_ERR_NO_MEMORY;
}

static void batch_due(ss_stage *stage, ss_group *group, bool is_draining) {
    ((batch *)stage)->stats.timeout_trigger_send += !is_draining;
    ss_stage_send(stage, group);
}

/* Write each resource once. Without memory the batch goes as it is. */
static void batch_prepare(ss_stage *stage, ss_group *group) {
    ss_buffer bytes = ss_runtime_take_buffer(stage->runtime);
    bool is_done = false;
    ss_regroup(group->bytes.data, group->bytes.length, &bytes, &is_done);
    if (is_done) {
        ss_buffer before = group->bytes;
        group->bytes = bytes;
        bytes = before;
    }
    ss_runtime_give_buffer(stage->runtime, bytes);
}

static void count_sent(batch *self, const ss_group *group, uint64_t n_sent) {
    self->stats.pending_items -= group->n_items;
    self->stats.failed_items += group->n_items - n_sent;
    self->stats.sent_items += n_sent;
    self->stats.sent_batches++;
    size_t i = 0;
    while (i < SS_BATCH_N_BOUNDS && n_sent > size_bounds[i]) {
        i++;
    }
    if (i < SS_BATCH_N_BOUNDS) {
        self->stats.sent_by_size[i]++;
    }
}

static void batch_ack(ss_stage *stage, const ss_group *group) {
    count_sent((batch *)stage, group, group->n_items);
}

static void batch_nack(ss_stage *stage, const ss_group *group) {
    count_sent((batch *)stage, group, 0);
}

static void batch_collect(const ss_stage *stage, void *counts) {
    ss_batch_stats *stats = counts;
    *stats = ((const batch *)stage)->stats;
    stats->n_combinations = stage->n_open;
}

static void batch_release(ss_stage *stage) {
    batch *self = (batch *)stage;
    ss_names_free(&self->names);
    ss_buffer_free(&self->key);
}

static const ss_stage_vtable batch_vtable = {.take = batch_take,
                                             .due = batch_due,
                                             .prepare = batch_prepare,
                                             .ack = batch_ack,
                                             .nack = batch_nack,
                                             .collect = batch_collect,
                                             .release = batch_release};

ss_status ss_batch_drain(ss_consumer *consumer, uint64_t timeout_ns) {
    return ss_stage_drain((ss_stage *)consumer, timeout_ns);
}

uint32_t ss_batch_size_bound(size_t index) {
    return index < SS_BATCH_N_BOUNDS ? size_bounds[index] : 0;
}

void ss_batch_read_stats(const ss_consumer *consumer, ss_batch_stats *stats) {
    ss_stage_collect((const ss_stage *)consumer, stats);
}

ss_consumer *ss_batch_new(ss_runtime *runtime, ss_signal signal, const ss_batch_config *config,
                          ss_consumer *const *outputs, size_t n_outputs, ss_error *error) {
    if (config->send_batch_max_size && config->send_batch_max_size < config->send_batch_size) {
        *error = (ss_error){SS_ERR_ARGUMENT, 0, "send_batch_max_size must be greater or equal to send_batch_size"};
        return NULL;
    }
    *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
    batch *self = calloc(1, sizeof *self);
    if (!self) {
        return NULL;
    }
    self->config = *config;
    self->stage.reads_rows = config->send_batch_max_size || config->send_batch_max_bytes;
    ss_status status = ss_stage_init(&self->stage, &batch_vtable, runtime, signal, outputs, n_outputs);
    if (status == SS_OK) {
        status = ss_names_copy(&self->names, config->metadata_names, config->n_metadata_names);
    }
    if (status == SS_OK && ss_stage_start(&self->stage) != SS_OK) {
        status = error->code;
        error->reason = "its thread cannot start";
    }
    if (status != SS_OK) {
        ss_consumer_free(&self->stage.consumer);
        return NULL;
    }
    return &self->stage.consumer;
}
