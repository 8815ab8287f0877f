#include "otlp/table.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 64, FIRST_NODES = 16 };

enum { REPLACEMENTS_MAX = 1 << 30, GROWTH_MAX = 16, GROWTH_FREE = 64 << 20 };

ss_table *ss_table_new(void) {
    ss_table *table = calloc(1, sizeof *table);
    if (table) {
        table->private_state = calloc(1, sizeof *table->private_state);
        if (!table->private_state) {
            free(table);
            return NULL;
        }
    }
    return table;
}

/* Every column with the bytes of one entry. */
typedef struct column {
    void **data;
    size_t entry;
} column;

enum { N_COLUMNS = 26 };

static void list_columns(ss_table *table, column columns[N_COLUMNS]) {
    const column all[] = {
        {(void **)&table->trace_id, 16},
        {(void **)&table->span_id, 8},
        {(void **)&table->parent_span_id, 8},
        {(void **)&table->start_time_unix_nano, 8},
        {(void **)&table->end_time_unix_nano, 8},
        {(void **)&table->kind, 4},
        {(void **)&table->status_code, 4},
        {(void **)&table->flags, 4},
        {(void **)&table->name_offset, 4},
        {(void **)&table->name_length, 4},
        {(void **)&table->tracestate_offset, 4},
        {(void **)&table->tracestate_length, 4},
        {(void **)&table->attributes_offset, 4},
        {(void **)&table->attributes_length, 4},
        {(void **)&table->attribute_count, 4},
        {(void **)&table->event_count, 4},
        {(void **)&table->link_count, 4},
        {(void **)&table->resource_index, 4},
        {(void **)&table->scope_index, 4},
        {(void **)&table->node_index, 4},
        {(void **)&table->row_offset, 4},
        {(void **)&table->row_length, 4},
        {(void **)&table->body_offset, 4},
        {(void **)&table->parent_offset, 4},
        {(void **)&table->marks, 1},
        {(void **)&table->verdict, 1},
    };
    _Static_assert(sizeof all / sizeof all[0] == N_COLUMNS, "one entry a column");
    memcpy(columns, all, sizeof all);
}

static size_t row_bytes(const column columns[N_COLUMNS]) {
    size_t bytes = 0;
    for (size_t i = 0; i < N_COLUMNS; i++) {
        bytes += columns[i].entry;
    }
    return bytes;
}

static void free_columns(ss_table *table) {
    struct ss_table_private *own = table->private_state;
    column columns[N_COLUMNS];
    list_columns(table, columns);
    for (size_t i = 0; i < N_COLUMNS; i++) {
        free(*columns[i].data);
        *columns[i].data = NULL;
    }
    ss_holding_give(&own->holding, own->row_capacity * row_bytes(columns));
    own->row_capacity = 0;
}

/* Make room for more entries of an array, twice as many as it has. Returns the array, or NULL: *status says why, and
 * the array is as it was. */
static void *grow(struct ss_table_private *own, void *array, uint32_t *capacity, uint32_t first, size_t entry,
                  ss_status *status) {
    uint32_t larger = *capacity ? *capacity * 2 : first;
    size_t more = (larger - *capacity) * entry;
    *status = larger > *capacity ? ss_holding_take(&own->holding, more) : SS_ERR_LIMIT;
    void *grown = *status == SS_OK ? realloc(array, larger * entry) : NULL;
    if (grown) {
        *capacity = larger;
    } else if (*status == SS_OK) {
        ss_holding_give(&own->holding, more);
        *status = SS_ERR_NO_MEMORY;
    }
    return grown;
}

static void free_array(struct ss_table_private *own, void *array, uint32_t *capacity, size_t entry) {
    free(array);
    ss_holding_give(&own->holding, *capacity * entry);
    *capacity = 0;
}

static void free_arrays(ss_table *table) {
    struct ss_table_private *own = table->private_state;
    free_columns(table);
    free_array(own, own->nodes, &own->node_capacity, sizeof *own->nodes);
    free_array(own, own->edits, &own->edit_capacity, sizeof *own->edits);
    free_array(own, own->row_edits, &own->row_edits_capacity, sizeof *own->row_edits);
    own->nodes = NULL;
    own->edits = NULL;
    own->row_edits = NULL;
    ss_holding_free(&own->holding, &own->replacements);
    ss_holding_free(&own->holding, &own->scratch);
}

void ss_table_free(ss_table *table) {
    if (table) {
        free_arrays(table);
        free(table->private_state);
        free(table);
    }
}

ss_status ss_table_grow(ss_table *table) {
    struct ss_table_private *own = table->private_state;
    uint32_t capacity = own->row_capacity ? own->row_capacity * 2 : FIRST_ROWS;
    if (capacity <= own->row_capacity) {
        return SS_ERR_LIMIT;
    }
    column columns[N_COLUMNS];
    list_columns(table, columns);
    size_t more = (capacity - own->row_capacity) * row_bytes(columns);
    ss_status status = ss_holding_take(&own->holding, more);
    for (size_t i = 0; i < N_COLUMNS && status == SS_OK; i++) {
        void *data = realloc(*columns[i].data, capacity * columns[i].entry);
        if (!data) {
            ss_holding_give(&own->holding, more);
            return SS_ERR_NO_MEMORY; /* the smaller columns are still whole */
        }
        *columns[i].data = data;
    }
    own->row_capacity = status == SS_OK ? capacity : own->row_capacity;
    return status;
}

ss_status ss_table_grow_nodes(ss_table *table) {
    struct ss_table_private *own = table->private_state;
    ss_status status;
    ss_node *nodes = grow(own, own->nodes, &own->node_capacity, FIRST_NODES, sizeof *nodes, &status);
    own->nodes = nodes ? nodes : own->nodes;
    return status;
}

void ss_table_trim(ss_table *table) {
    struct ss_table_private *own = table->private_state;
    if (own->holding.held > SS_HOLDING_KEPT) {
        free_arrays(table);
    }
    table->n_rows = 0;
    table->n_kept = 0;
    own->n_nodes = 0;
    own->n_edits = 0;
    own->n_row_edits = 0;
    own->last_node = SS_NO_INDEX;
    own->replacements.length = 0;
}

void ss_table_begin(ss_table *table, ss_signal signal, const uint8_t *bytes, size_t length) {
    struct ss_table_private *own = table->private_state;
    ss_table_trim(table);
    table->signal = signal;
    table->bytes = bytes;
    table->bytes_length = length;
    own->n_tallies = 0;
    own->metadata = NULL;
    own->metadata_length = 0;
}

void *ss_table_scratch(ss_table *table, size_t bytes) {
    ss_buffer *scratch = &table->private_state->scratch;
    scratch->length = 0;
    return ss_holding_reserve(&table->private_state->holding, scratch, bytes) == SS_OK ? scratch->data : NULL;
}

void ss_table_recount(ss_table *table) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < table->n_rows; i++) {
        kept += table->verdict[i] == SS_KEEP;
    }
    table->n_kept = kept;
}

void ss_table_reset(ss_table *table) {
    struct ss_table_private *own = table->private_state;
    if (table->n_kept != table->n_rows) {
        memset(table->verdict, SS_KEEP, table->n_rows);
        table->n_kept = table->n_rows;
    }
    if (own->n_edits) {
        for (uint32_t i = 0; i < own->n_nodes; i++) {
            own->nodes[i].first_edit = SS_NO_INDEX;
        }
        own->n_edits = 0;
        own->n_row_edits = 0;
        own->last_node = SS_NO_INDEX;
        own->replacements.length = 0;
    }
}

bool ss_table_is_untouched(const ss_table *table) {
    return table->n_kept == table->n_rows && table->private_state->n_edits == 0;
}

void ss_table_node_range(const ss_table *table, uint32_t node, unsigned level_up, uint32_t *offset, uint32_t *end) {
    const ss_node *nodes = table->private_state->nodes;
    for (; level_up && nodes[node].parent != SS_NO_INDEX; level_up--) {
        node = nodes[node].parent;
    }
    *offset = nodes[node].body_offset;
    *end = nodes[node].end_offset;
}

static __attribute__((noinline)) ss_status grow_edits(struct ss_table_private *own) {
    ss_status status;
    ss_edit *edits = grow(own, own->edits, &own->edit_capacity, FIRST_ROWS, sizeof *edits, &status);
    own->edits = edits ? edits : own->edits;
    return status;
}

/* Make row_edits show that no row has an edit yet. */
static __attribute__((noinline)) ss_status begin_row_edits(const ss_table *table) {
    struct ss_table_private *own = table->private_state;
    if (own->row_edits_capacity < table->n_rows) {
        ss_status status;
        free_array(own, own->row_edits, &own->row_edits_capacity, sizeof *own->row_edits);
        own->row_edits = grow(own, NULL, &own->row_edits_capacity, own->row_capacity, sizeof *own->row_edits, &status);
        if (status != SS_OK) {
            return status;
        }
    }
    memset(own->row_edits, 0xff, table->n_rows * sizeof *own->row_edits);
    return SS_OK;
}

/* Edits may bring a request so many bytes at most: what they bring can be of the sender, as a header is that goes into
 * each item, and the sender must not choose how much memory a small request takes. */
static inline size_t replacements_max(const ss_table *table) {
    size_t growth = table->bytes_length < REPLACEMENTS_MAX / GROWTH_MAX ? table->bytes_length * GROWTH_MAX + GROWTH_FREE
                                                                        : REPLACEMENTS_MAX;
    return growth < REPLACEMENTS_MAX ? growth : REPLACEMENTS_MAX;
}

/* Put a new edit into the list that starts at *first, by offset; edits at one offset keep their order. before: one of
 * the list that it goes behind, SS_NO_INDEX where none is known. */
static inline ss_status add_edit(ss_table *table, uint32_t *first, uint32_t before, uint32_t offset, uint32_t length,
                                 const uint8_t *replacement, size_t replacement_length) {
    struct ss_table_private *own = table->private_state;
    ss_status status = SS_OK;
    if (__builtin_expect(own->n_edits == own->edit_capacity, 0) && (status = grow_edits(own)) != SS_OK) {
        return status;
    }
    const size_t at = own->replacements.length;
    if (replacement_length) {
        if (replacement_length > replacements_max(table) - at) {
            return SS_ERR_LIMIT;
        }
        if (__builtin_expect(replacement_length > own->replacements.capacity - at, 0) &&
            (status = ss_holding_reserve(&own->holding, &own->replacements, replacement_length)) != SS_OK) {
            return status;
        }
        memcpy(own->replacements.data + at, replacement, replacement_length);
        own->replacements.length += replacement_length;
    }
    uint32_t *link = before == SS_NO_INDEX ? first : &own->edits[before].next;
    while (*link != SS_NO_INDEX && own->edits[*link].offset <= offset) {
        link = &own->edits[*link].next;
    }
    own->edits[own->n_edits] = (ss_edit){offset, length, (uint32_t)at, (uint32_t)replacement_length, *link};
    *link = own->n_edits++;
    return SS_OK;
}

ss_status ss_table_edit(ss_table *table, uint32_t row, uint32_t offset, uint32_t length, const uint8_t *replacement,
                        size_t replacement_length) {
    struct ss_table_private *own = table->private_state;
    if (row >= table->n_rows || offset < table->row_offset[row] ||
        (uint64_t)offset + length > (uint64_t)table->row_offset[row] + table->row_length[row]) {
        return SS_ERR_ARGUMENT;
    }
    ss_status status = SS_OK;
    if (__builtin_expect(!own->n_row_edits, 0) && (status = begin_row_edits(table)) != SS_OK) {
        return status;
    }
    status = add_edit(table, &own->row_edits[row], SS_NO_INDEX, offset, length, replacement, replacement_length);
    own->n_row_edits += status == SS_OK;
    return status;
}

ss_status ss_table_edit_node(ss_table *table, uint32_t node, uint32_t offset, uint32_t length,
                             const uint8_t *replacement, size_t replacement_length) {
    struct ss_table_private *own = table->private_state;
    if (node >= own->n_nodes) {
        return SS_ERR_ARGUMENT;
    }
    uint32_t owner = own->nodes[node].parent;
    while (owner != SS_NO_INDEX &&
           (offset < own->nodes[owner].body_offset || (uint64_t)offset + length > own->nodes[owner].end_offset)) {
        owner = own->nodes[owner].parent;
    }
    if (owner == SS_NO_INDEX) {
        return SS_ERR_ARGUMENT;
    }
    uint32_t before = SS_NO_INDEX;
    if (own->last_node == owner && own->edits[own->last_node_edit].offset <= offset) {
        before = own->last_node_edit;
    }
    ss_status status =
        add_edit(table, &own->nodes[owner].first_edit, before, offset, length, replacement, replacement_length);
    if (status == SS_OK) {
        own->last_node = owner;
        own->last_node_edit = own->n_edits - 1;
    }
    return status;
}

uint32_t ss_table_parts(const ss_table *table) {
    return table->n_rows + table->private_state->n_nodes;
}
