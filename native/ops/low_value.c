/*
 * Drops spans that nobody will look at, told by three signs: short, without attributes, a name that matches. Spans that
 * somebody may look at are never dropped: errors, exceptions, links.
 */
#include "core/bytes.h"
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

/* A power of two, at most half full. */
static uint32_t slots_for(uint32_t n_dropped) {
    return 1u << (33 - __builtin_clz(n_dropped | 1));
}

static uint32_t slot_of(uint64_t span_id, uint32_t mask) {
    return (uint32_t)((span_id * 0x9e3779b97f4a7c15u) >> 32) & mask;
}

/* The dropped row with this span id in the trace of row, SS_NO_INDEX: none. slots: open addressing, 1 + row. */
static uint32_t find_dropped(const ss_table *table, const uint32_t *slots, uint32_t mask, uint32_t row,
                             uint64_t span_id) {
    for (uint32_t slot = slot_of(span_id, mask); slots[slot]; slot = (slot + 1) & mask) {
        uint32_t found = slots[slot] - 1;
        if (id_of(table->span_id, found) == span_id &&
            memcmp(table->trace_id + (size_t)found * 16, table->trace_id + (size_t)row * 16, 16) == 0) {
            return found;
        }
    }
    return SS_NO_INDEX;
}

/* Write parent into the span: over the value where the field is there, which is where a parent was read. */
static ss_status set_parent(ss_table *table, uint32_t row, uint64_t parent) {
    uint32_t value = table->parent_offset[row];
    uint8_t bytes[8];
    memcpy(bytes, &parent, 8);
    if (parent) {
        return ss_table_edit(table, row, value, 8, bytes, 8);
    }
    /* A root has no parent field. Tag and length before an 8-byte value are one byte each unless padded, and a padded
     * prefix is left with an all-zero id, which means the same. */
    const uint8_t prefix[] = {SS_SPAN_PARENT_SPAN_ID << 3 | SS_WIRE_BYTES, 8};
    if (memcmp(table->bytes + value - 2, prefix, 2) == 0) {
        return ss_table_edit(table, row, value - 2, 10, NULL, 0);
    }
    return ss_table_edit(table, row, value, 8, bytes, 8);
}

/* Children of dropped spans take the nearest kept ancestor of the request, or what the last dropped one had. */
static ss_status reparent(low_value *self, ss_table *table, const uint32_t *dropped, uint32_t n_dropped,
                          uint32_t *slots) {
    uint32_t mask = slots_for(n_dropped) - 1;
    memset(slots, 0, (mask + 1) * sizeof *slots);
    for (uint32_t i = 0; i < n_dropped; i++) {
        uint32_t slot = slot_of(id_of(table->span_id, dropped[i]), mask);
        while (slots[slot]) {
            slot = (slot + 1) & mask;
        }
        slots[slot] = dropped[i] + 1;
    }
    ss_status status = SS_OK;
    uint32_t moved = 0;
    for (uint32_t row = 0; row < table->n_rows && status == SS_OK; row++) {
        uint64_t parent = id_of(table->parent_span_id, row);
        if (table->verdict[row] != SS_KEEP || !parent) {
            continue;
        }
        uint64_t ancestor = parent;
        /* A ring of dropped parents ends after as many steps as there are dropped spans. */
        for (uint32_t steps = 0; ancestor && steps <= n_dropped; steps++) {
            uint32_t found = find_dropped(table, slots, mask, row, ancestor);
            if (found == SS_NO_INDEX) {
                break;
            }
            ancestor = id_of(table->parent_span_id, found);
        }
        if (ancestor != parent) {
            status = set_parent(table, row, ancestor);
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
    uint32_t n_dropped = 0;
    uint32_t *dropped = NULL;
    memo_entry slots[MEMO_SLOTS];
    memo_entry *memo = table->n_kept < MEMO_MIN_ROWS ? NULL : slots;
    if (memo) {
        memset(slots, 0xff, sizeof slots);
    }
    if (self->reparent) {
        dropped = ss_table_scratch(table, ((size_t)table->n_rows + slots_for(table->n_rows)) * sizeof *dropped);
        if (!dropped) {
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
            if (dropped) {
                dropped[n_dropped++] = row;
            }
        }
    }
    for (uint32_t rule = 0; rule < SS_LOW_VALUE_RULES_MAX; rule++) {
        ss_op_count(op, table, rule, counts[rule]);
    }
    if (n_dropped && table->n_kept && reparent(self, table, dropped, n_dropped, dropped + table->n_rows) != SS_OK) {
        return ss_refuse(verdict, "out of memory", 1000);
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
