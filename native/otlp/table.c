#include "otlp/table.h"

#include <stdlib.h>
#include <string.h>

/* A table that once held a huge request gives the memory back at the first small one. */
enum { FIRST_ROWS = 64, RETAINED_ROWS = 16384, RETAINED_ROW_BYTES = 64 };

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

static void free_columns(ss_table *table) {
    column columns[N_COLUMNS];
    list_columns(table, columns);
    for (size_t i = 0; i < N_COLUMNS; i++) {
        free(*columns[i].data);
        *columns[i].data = NULL;
    }
    table->private_state->row_capacity = 0;
}

void ss_table_free(ss_table *table) {
    if (table) {
        free_columns(table);
        struct ss_table_private *own = table->private_state;
        free(own->nodes);
        free(own->edits);
        free(own->row_edits);
        ss_buffer_free(&own->replacements);
        ss_buffer_free(&own->scratch);
        free(own);
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
    for (size_t i = 0; i < N_COLUMNS; i++) {
        void *data = realloc(*columns[i].data, capacity * columns[i].entry);
        if (!data) {
            return SS_ERR_NO_MEMORY; /* the smaller columns are still whole */
        }
        *columns[i].data = data;
    }
    own->row_capacity = capacity;
    return SS_OK;
}

void ss_table_trim(ss_table *table, size_t n_kept) {
    struct ss_table_private *own = table->private_state;
    if (own->row_capacity > n_kept) {
        free_columns(table);
    }
    if (own->row_edits_capacity > n_kept) {
        free(own->row_edits);
        own->row_edits = NULL;
        own->row_edits_capacity = 0;
    }
    if (own->node_capacity > n_kept) {
        free(own->nodes);
        own->nodes = NULL;
        own->node_capacity = 0;
    }
    if (own->edit_capacity > n_kept) {
        free(own->edits);
        own->edits = NULL;
        own->edit_capacity = 0;
    }
    if (own->replacements.capacity / RETAINED_ROW_BYTES > n_kept) {
        ss_buffer_free(&own->replacements);
    }
    if (own->scratch.capacity / RETAINED_ROW_BYTES > n_kept) {
        ss_buffer_free(&own->scratch);
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
    ss_table_trim(table, length > RETAINED_ROWS ? length : RETAINED_ROWS);
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
    return ss_buffer_reserve(scratch, bytes) == SS_OK ? scratch->data : NULL;
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

static __attribute__((noinline)) bool grow_edits(struct ss_table_private *own) {
    uint32_t capacity = own->edit_capacity ? own->edit_capacity * 2 : FIRST_ROWS;
    ss_edit *edits = realloc(own->edits, capacity * sizeof *edits);
    if (!edits) {
        return false;
    }
    own->edits = edits;
    own->edit_capacity = capacity;
    return true;
}

/* Make row_edits show that no row has an edit yet. */
static __attribute__((noinline)) bool begin_row_edits(const ss_table *table) {
    struct ss_table_private *own = table->private_state;
    if (own->row_edits_capacity < table->n_rows) {
        uint32_t *row_edits = realloc(own->row_edits, own->row_capacity * sizeof *row_edits);
        if (!row_edits) {
            return false;
        }
        own->row_edits = row_edits;
        own->row_edits_capacity = own->row_capacity;
    }
    memset(own->row_edits, 0xff, table->n_rows * sizeof *own->row_edits);
    return true;
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
    if (__builtin_expect(own->n_edits == own->edit_capacity, 0) && !grow_edits(own)) {
        return SS_ERR_NO_MEMORY;
    }
    const size_t at = own->replacements.length;
    if (replacement_length) {
        if (replacement_length > replacements_max(table) - at) {
            return SS_ERR_LIMIT;
        }
        ss_status status = ss_buffer_append(&own->replacements, replacement, replacement_length);
        if (status != SS_OK) {
            return status;
        }
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
    if (__builtin_expect(!own->n_row_edits, 0) && !begin_row_edits(table)) {
        return SS_ERR_NO_MEMORY;
    }
    ss_status status =
        add_edit(table, &own->row_edits[row], SS_NO_INDEX, offset, length, replacement, replacement_length);
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
