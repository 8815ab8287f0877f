/* The private half of ss_table: containers, edits, scratch. */
#ifndef SS_TABLE_H
#define SS_TABLE_H

#include "spansieve.h"

enum { SS_NO_INDEX = UINT32_MAX, SS_LEVELS_MAX = 5 };

/* A message that holds rows, directly or through others: the request itself, Resource*, Scope*, Metric, Gauge, ...
 * Nodes stand in document order, so the descendants of node i are i + 1 .. subtree_end. */
typedef struct ss_node {
    uint32_t parent;
    uint32_t level; /* 0: the request */
    uint32_t tag_offset;
    uint32_t length_offset; /* behind the tag */
    uint32_t body_offset;
    uint32_t end_offset;
    uint32_t subtree_end;
    uint32_t first_row; /* rows first_row .. end_row lie in the subtree */
    uint32_t end_row;
    uint32_t rows_bytes; /* bytes of the rows that the node holds directly */
    uint32_t first_edit; /* of bytes that are no row's; SS_NO_INDEX: none */
    uint32_t new_length; /* of the body; the emitter's */
    bool is_kept;        /* the emitter's */
} ss_node;

typedef struct ss_edit {
    uint32_t offset;
    uint32_t length;
    uint32_t replacement_offset; /* into replacements */
    uint32_t replacement_length;
    uint32_t next; /* of the same row or node, by offset; SS_NO_INDEX: last */
} ss_edit;

/* Items that an op has counted for this request; they count once the request is taken. */
typedef struct ss_tally {
    void *op;
    uint32_t index;
    uint32_t items;
} ss_tally;

enum { SS_TALLIES_MAX = 128 };

struct ss_table_private {
    uint32_t n_tallies;
    ss_tally tallies[SS_TALLIES_MAX];
    uint32_t row_capacity;
    uint32_t node_capacity;
    uint32_t edit_capacity;
    uint32_t n_nodes;
    uint32_t n_edits;
    uint32_t leaf_level; /* level of the nodes that hold rows */
    ss_node *nodes;
    ss_edit *edits;
    uint32_t *row_edits; /* first edit of each row; valid while n_row_edits != 0 */
    uint32_t row_edits_capacity;
    uint32_t n_row_edits;
    uint32_t last_node; /* whose list the edit of a node went into that was filed last; SS_NO_INDEX: none was */
    uint32_t last_node_edit;
    ss_buffer replacements;
    ss_buffer scratch;
    const uint8_t *metadata; /* of the request, as plan/metadata.h says; borrowed. None after a scan */
    size_t metadata_length;
};

/* Empty the table for the scan of a message. */
void ss_table_begin(ss_table *table, ss_signal signal, const uint8_t *bytes, size_t length);

/* Empty the table and free those of its arrays that have more entries than n_kept. */
void ss_table_trim(ss_table *table, size_t n_kept);

/* Make room for one more row. */
ss_status ss_table_grow(ss_table *table);

/* At least bytes of scratch for one op; its content is undefined. NULL: out of memory. */
void *ss_table_scratch(ss_table *table, size_t bytes);

/* Replace bytes of the message around a data container, outside it: node holds the rows; the edit belongs to the
 * nearest enclosing message that contains it. Else as ss_table_edit. */
ss_status ss_table_edit_node(ss_table *table, uint32_t node, uint32_t offset, uint32_t length,
                             const uint8_t *replacement, size_t replacement_length);

/* The body of the message level_up levels above node: [*offset, *end). */
void ss_table_node_range(const ss_table *table, uint32_t node, unsigned level_up, uint32_t *offset, uint32_t *end);

/* Forget verdicts and edits: the table shows its input again. */
void ss_table_reset(ss_table *table);

/* Rows and the messages around them: what one look at the whole table costs. */
uint32_t ss_table_parts(const ss_table *table);

/* Bytes that ss_emit of all rows never exceeds, known without a look at them. */
size_t ss_emit_bound(const ss_table *table);

/* Bytes that ss_emit of the same rows would append. */
size_t ss_emit_size(ss_table *table, uint32_t first_row, uint32_t end_row);

#endif
