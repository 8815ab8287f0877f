/*
 * Drops spans that nobody will look at, told by three signs: short, without attributes, a name that matches. Spans that
 * somebody may look at are never dropped: errors, exceptions, links.
 */
#include "core/bytes.h"
#include "core/hash.h"
#include "core/verdict.h"
#include "ops/op.h"
#include "otlp/table.h"
#include "otlp_fields.h"

#include <stdlib.h>

enum { STATUS_ERROR = 2, SIGN_SETS = 8 };

typedef struct pattern {
    char *text;
    size_t length;
    bool is_plain; /* no * or ? in it */
} pattern;

typedef struct low_value {
    ss_op op;
    uint64_t min_duration_ns;
    bool keep_roots;
    bool reparent;
    bool uses_names;
    uint8_t rule_of[SIGN_SETS]; /* for each set of signs: 1 + the first rule that holds, 0: none */
    size_t n_patterns;
    pattern *patterns;
} low_value;

/* Match with * (any run) and ? (any byte). Linear but for backtracking to the last star, so at most length squared. */
static bool matches_glob(const pattern *glob, const uint8_t *name, size_t length) {
    size_t p = 0;
    size_t n = 0;
    size_t star = SIZE_MAX;
    size_t resume = 0;
    while (n < length) {
        if (p < glob->length && glob->text[p] == '*') {
            star = p++;
            resume = n;
        } else if (p < glob->length && (glob->text[p] == '?' || (uint8_t)glob->text[p] == name[n])) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++resume;
        } else {
            return false;
        }
    }
    while (p < glob->length && glob->text[p] == '*') {
        p++;
    }
    return p == glob->length;
}

static bool matches_name(const low_value *self, const uint8_t *name, size_t length) {
    for (size_t i = 0; i < self->n_patterns; i++) {
        const pattern *one = &self->patterns[i];
        bool matches = one->is_plain ? one->length == length && memcmp(one->text, name, length) == 0
                                     : matches_glob(one, name, length);
        if (matches) {
            return true;
        }
    }
    return false;
}

/* What was found for the names seen last: a request repeats a few names hundreds of times. */
typedef struct memo_entry {
    uint32_t name_offset;
    uint32_t name_length; /* SS_NO_INDEX: empty */
    bool matches;
} memo_entry;

enum { MEMO_SLOTS = 64, MEMO_MIN_ROWS = 16 };

static uint32_t memo_slot(const uint8_t *name, size_t length) {
    uint64_t head = 0;
    uint64_t tail = 0;
    if (length >= 8) {
        memcpy(&head, name, 8);
        memcpy(&tail, name + length - 8, 8);
    } else if (length) {
        head = (uint64_t)name[0] << 16 | (uint64_t)name[length / 2] << 8 | name[length - 1];
    }
    return (uint32_t)(((head + tail * 31 + length) * 0x9e3779b97f4a7c15u) >> 58);
}

/* memo: MEMO_SLOTS entries, NULL for a request too small to repeat itself. */
static bool matches_name_of(const low_value *self, const ss_table *table, uint32_t row, memo_entry *memo) {
    const uint8_t *name = table->bytes + table->name_offset[row];
    size_t length = table->name_length[row];
    if (!memo) {
        return matches_name(self, name, length);
    }
    memo_entry *entry = &memo[memo_slot(name, length)];
    if (entry->name_length != length || memcmp(table->bytes + entry->name_offset, name, length) != 0) {
        *entry = (memo_entry){table->name_offset[row], (uint32_t)length, matches_name(self, name, length)};
    }
    return entry->matches;
}

static uint64_t id_of(const uint8_t *ids, uint32_t row) {
    uint64_t id;
    memcpy(&id, ids + (size_t)row * 8, 8);
    return id;
}

static bool is_protected(const low_value *self, const ss_table *table, uint32_t row) {
    return table->status_code[row] == STATUS_ERROR || (table->marks[row] & SS_MARK_EXCEPTION) ||
           table->link_count[row] || (self->keep_roots && id_of(table->parent_span_id, row) == 0);
}

/* 1 + the rule that drops the span, 0: none. A span whose end is before its start is never short. */
static unsigned rule_for(const low_value *self, const ss_table *table, uint32_t row, memo_entry *memo) {
    unsigned signs = 0;
    uint64_t start = table->start_time_unix_nano[row];
    uint64_t end = table->end_time_unix_nano[row];
    if (end >= start && end - start < self->min_duration_ns) {
        signs |= SS_SIGN_SHORT;
    }
    if (!table->attribute_count[row]) {
        signs |= SS_SIGN_NO_ATTRIBUTES;
    }
    if (self->uses_names && matches_name_of(self, table, row, memo)) {
        signs |= SS_SIGN_NAME;
    }
    unsigned rule = self->rule_of[signs];
    return rule && !is_protected(self, table, row) ? rule : 0;
}

/* ---------------------------------------------------------------- re-parenting */

/* The dropped spans of a request. up: for each the index of a dropped ancestor, its own where it is the last. slots:
 * 1 + index by trace and span id, open addressing. */
typedef struct lineage {
    const ss_table *table;
    uint32_t *rows;
    uint32_t *up;
    uint32_t *slots;
    uint32_t n;
    uint32_t mask;
    uint64_t seed;
} lineage;

/* A power of two, at most half full. */
static uint32_t slots_for(uint32_t n_dropped) {
    return 1u << (33 - __builtin_clz(n_dropped | 1));
}

/* The slot of the dropped span with this id in the trace of row, or the empty one where it would be. */
static uint32_t find_slot(const lineage *l, uint32_t row, uint64_t span_id) {
    const ss_table *table = l->table;
    const uint8_t *trace_id = table->trace_id + (size_t)row * 16;
    uint64_t halves[2];
    memcpy(halves, trace_id, 16);
    uint64_t hash = ss_hash_mix(ss_hash_mix(halves[0] ^ l->seed, halves[1]), span_id);
    uint32_t slot = (uint32_t)hash & l->mask;
    while (l->slots[slot]) {
        uint32_t found = l->rows[l->slots[slot] - 1];
        if (id_of(table->span_id, found) == span_id &&
            memcmp(table->trace_id + (size_t)found * 16, trace_id, 16) == 0) {
            break;
        }
        slot = (slot + 1) & l->mask;
    }
    return slot;
}

/* The last dropped ancestor; the way there is halved for those who come after, so that no chain is walked twice. */
static uint32_t last_dropped(uint32_t *up, uint32_t index) {
    while (up[index] != index) {
        up[index] = up[up[index]];
        index = up[index];
    }
    return index;
}

static void trace_lineage(lineage *l) {
    const ss_table *table = l->table;
    memset(l->slots, 0, ((size_t)l->mask + 1) * sizeof *l->slots);
    for (uint32_t i = 0; i < l->n; i++) {
        uint64_t span_id = id_of(table->span_id, l->rows[i]);
        l->up[i] = i;
        if (span_id) { /* without one it is nobody's parent */
            uint32_t slot = find_slot(l, l->rows[i], span_id);
            l->slots[slot] = l->slots[slot] ? l->slots[slot] : i + 1;
        }
    }
    for (uint32_t i = 0; i < l->n; i++) {
        uint64_t parent = id_of(table->parent_span_id, l->rows[i]);
        uint32_t found = parent ? l->slots[find_slot(l, l->rows[i], parent)] : 0;
        if (found) {
            l->up[i] = last_dropped(l->up, found - 1); /* a ring closes in i itself, and ends there */
        }
    }
}

/* Write parent into the span: over the value where the field is there, which is where a parent was read. */
static ss_status set_parent(ss_table *table, uint32_t row, uint64_t parent) {
    uint32_t value = table->parent_offset[row];
    uint8_t bytes[8];
    memcpy(bytes, &parent, 8);
    if (!parent && table->bytes[value - 1] == 8) {
        /* A root has no parent. The field stays, empty, since without it one before it would count again. */
        return ss_table_edit(table, row, value - 1, 9, (const uint8_t *)"", 1);
    }
    return ss_table_edit(table, row, value, 8, bytes, 8); /* a padded length is left with the all-zero id */
}

/* Children of dropped spans take the nearest kept ancestor of the request, or what the last dropped one had. */
static ss_status reparent(low_value *self, ss_table *table, lineage *l) {
    trace_lineage(l);
    ss_status status = SS_OK;
    uint32_t moved = 0;
    for (uint32_t row = 0; row < table->n_rows && status == SS_OK; row++) {
        uint64_t parent = id_of(table->parent_span_id, row);
        if (table->verdict[row] != SS_KEEP || !parent) {
            continue;
        }
        uint32_t found = l->slots[find_slot(l, row, parent)];
        if (found) {
            status = set_parent(table, row, id_of(table->parent_span_id, l->rows[last_dropped(l->up, found - 1)]));
            moved++;
        }
    }
    ss_op_count(&self->op, table, SS_LOW_VALUE_REPARENTED, moved);
    return status;
}

/* ---------------------------------------------------------------- the op */

static ss_status low_value_run(ss_op *op, ss_table *table, ss_verdict *verdict) {
    low_value *self = (low_value *)op;
    uint32_t counts[SS_LOW_VALUE_RULES_MAX] = {0};
    lineage dropped = {.table = table, .seed = ss_hash_seed(self)};
    memo_entry slots[MEMO_SLOTS];
    memo_entry *memo = table->n_kept < MEMO_MIN_ROWS ? NULL : slots;
    if (memo) {
        memset(slots, 0xff, sizeof slots);
    }
    if (self->reparent) {
        size_t entries = 2 * (size_t)table->n_rows + slots_for(table->n_rows);
        dropped.rows = ss_table_scratch(table, entries * sizeof *dropped.rows);
        if (!dropped.rows) {
            return ss_refuse(verdict, "out of memory", 1000);
        }
    }
    for (uint32_t row = 0; row < table->n_rows; row++) {
        if (table->verdict[row] != SS_KEEP) {
            continue;
        }
        unsigned rule = rule_for(self, table, row, memo);
        if (rule) {
            counts[rule - 1]++;
            ss_table_drop(table, row);
            if (dropped.rows) {
                dropped.rows[dropped.n++] = row;
            }
        }
    }
    for (uint32_t rule = 0; rule < SS_LOW_VALUE_RULES_MAX; rule++) {
        ss_op_count(op, table, rule, counts[rule]);
    }
    if (dropped.n && table->n_kept) {
        dropped.up = dropped.rows + table->n_rows;
        dropped.slots = dropped.up + table->n_rows;
        dropped.mask = slots_for(dropped.n) - 1;
        if (reparent(self, table, &dropped) != SS_OK) {
            return ss_refuse(verdict, "out of memory", 1000);
        }
    }
    return SS_OK;
}

static void low_value_free(ss_op *op) {
    low_value *self = (low_value *)op;
    for (size_t i = 0; i < self->n_patterns; i++) {
        free(self->patterns[i].text);
    }
    free(self->patterns);
    free(self);
}

static const ss_op_vtable low_value_vtable = {SS_COLUMN_PARENT | SS_COLUMN_ATTRIBUTES, SS_COLUMN_PARENT, low_value_run,
                                              low_value_free};

ss_op *ss_low_value_new(const ss_low_value_config *config, ss_error *error) {
    if (config->n_rules > SS_LOW_VALUE_RULES_MAX) {
        *error = (ss_error){SS_ERR_ARGUMENT, 0, "too many rules"};
        return NULL;
    }
    *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
    low_value *self = calloc(1, sizeof *self);
    if (!self) {
        return NULL;
    }
    self->op.vtable = &low_value_vtable;
    self->min_duration_ns = config->min_duration_ns;
    self->keep_roots = config->keep_roots;
    self->reparent = config->reparent;
    for (size_t rule = config->n_rules; rule-- > 0;) {
        uint8_t wanted = config->rules[rule];
        self->uses_names |= (wanted & SS_SIGN_NAME) != 0;
        for (unsigned signs = 0; signs < SIGN_SETS; signs++) {
            if ((signs & wanted) == wanted && wanted) {
                self->rule_of[signs] = (uint8_t)(rule + 1);
            }
        }
    }
    self->patterns = calloc(config->n_names ? config->n_names : 1, sizeof *self->patterns);
    for (size_t i = 0; self->patterns && i < config->n_names; i++) {
        char *text = strdup(config->names[i]);
        if (!text) {
            break;
        }
        self->patterns[self->n_patterns++] = (pattern){text, strlen(text), !strpbrk(text, "*?")};
    }
    if (self->n_patterns != config->n_names || !self->patterns) {
        low_value_free(&self->op);
        return NULL;
    }
    return &self->op;
}
