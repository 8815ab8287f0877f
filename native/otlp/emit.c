/*
 * Writes a message again without the dropped rows and with the edits. The input is treated as one string of bytes: rows
 * are cut out, edits are spliced in, the length prefixes of the messages around them are written anew, and all other
 * bytes keep their place and order. So unknown fields survive and nothing is ever decoded.
 */
#include "core/bytes.h"
#include "otlp/table.h"

typedef struct emitter {
    ss_table *table;
    struct ss_table_private *own;
    uint32_t first_row;
    uint32_t end_row;
    uint8_t *out;
} emitter;

static int64_t edits_delta(const struct ss_table_private *own, uint32_t edit) {
    int64_t delta = 0;
    for (; edit != SS_NO_INDEX; edit = own->edits[edit].next) {
        delta += (int64_t)own->edits[edit].replacement_length - own->edits[edit].length;
    }
    return delta;
}

static uint32_t first_edit_of(const struct ss_table_private *own, uint32_t row) {
    return own->n_row_edits ? own->row_edits[row] : SS_NO_INDEX;
}

/* An edit that replaces the row as a whole brings its own tag and length. */
static bool replaces_row(const ss_table *table, const ss_edit *edit, uint32_t row) {
    return edit->offset == table->row_offset[row] && edit->length == table->row_length[row];
}

static uint32_t row_tag_length(const ss_table *table, uint32_t row) {
    uint32_t length = 1;
    while (table->bytes[table->row_offset[row] + length - 1] >= 0x80) {
        length++;
    }
    return length;
}

static uint32_t row_body_length(const ss_table *table, uint32_t row) {
    return table->row_offset[row] + table->row_length[row] - table->body_offset[row];
}

/* Bytes of a kept row in the output. */
static uint32_t row_size(const ss_table *table, uint32_t row) {
    const struct ss_table_private *own = table->private_state;
    uint32_t edit = first_edit_of(own, row);
    if (edit == SS_NO_INDEX) {
        return table->row_length[row];
    }
    if (replaces_row(table, &own->edits[edit], row)) {
        return own->edits[edit].replacement_length;
    }
    uint32_t body = (uint32_t)(row_body_length(table, row) + edits_delta(own, edit));
    return row_tag_length(table, row) + ss_varint_size(body) + body;
}

static bool emits_row(const emitter *e, uint32_t row) {
    return row >= e->first_row && row < e->end_row && e->table->verdict[row] == SS_KEEP;
}

/* A message that came without rows goes with the part that holds the row behind it, so that a split writes it once. */
static bool keeps_empty(const emitter *e, const ss_node *node) {
    bool last = node->first_row == e->table->n_rows && e->end_row == e->table->n_rows;
    return (node->first_row >= e->first_row && node->first_row < e->end_row) || last;
}

/* Fill new_length and is_kept of every node, children first. Returns the bytes of the whole output. */
static size_t measure(emitter *e) {
    struct ss_table_private *own = e->own;
    for (uint32_t i = 0; i < own->n_nodes; i++) {
        ss_node *node = &own->nodes[i];
        node->new_length =
            (uint32_t)(node->end_offset - node->body_offset - node->rows_bytes + edits_delta(own, node->first_edit));
        node->is_kept = node->level > 2 && node->first_row == node->end_row && keeps_empty(e, node);
    }
    for (uint32_t i = own->n_nodes; i-- > 0;) {
        ss_node *node = &own->nodes[i];
        if (node->rows_bytes) {
            uint32_t row = node->first_row > e->first_row ? node->first_row : e->first_row;
            uint32_t end = node->end_row < e->end_row ? node->end_row : e->end_row;
            for (; row < end; row++) {
                if (e->table->verdict[row] == SS_KEEP) {
                    node->new_length += row_size(e->table, row);
                    node->is_kept = true;
                }
            }
        }
        if (node->parent != SS_NO_INDEX) {
            ss_node *parent = &own->nodes[node->parent];
            parent->new_length -= node->end_offset - node->tag_offset;
            if (node->is_kept) {
                parent->new_length +=
                    node->length_offset - node->tag_offset + ss_varint_size(node->new_length) + node->new_length;
                parent->is_kept |= node->level <= 2 || node->first_row != node->end_row;
            }
        }
    }
    return own->nodes[0].new_length;
}

static void copy(emitter *e, uint32_t from, uint32_t to) {
    memcpy(e->out, e->table->bytes + from, to - from);
    e->out += to - from;
}

/* Copy [from, to) with the edits of the list that starts at *edit and lie there; *edit moves behind them. */
static void copy_edited(emitter *e, uint32_t from, uint32_t to, uint32_t *edit) {
    for (; *edit != SS_NO_INDEX && e->own->edits[*edit].offset <= to; *edit = e->own->edits[*edit].next) {
        const ss_edit *now = &e->own->edits[*edit];
        if (now->offset + now->length > to) {
            break;
        }
        copy(e, from, now->offset);
        if (now->replacement_length) { /* else there may be no replacements at all */
            memcpy(e->out, e->own->replacements.data + now->replacement_offset, now->replacement_length);
        }
        e->out += now->replacement_length;
        from = now->offset + now->length;
    }
    copy(e, from, to);
}

static void write_edited_row(emitter *e, uint32_t row, uint32_t edit) {
    const ss_table *table = e->table;
    uint32_t offset = table->row_offset[row];
    uint32_t end = offset + table->row_length[row];
    if (!replaces_row(table, &e->own->edits[edit], row)) {
        uint32_t tag = row_tag_length(table, row);
        copy(e, offset, offset + tag);
        e->out = ss_write_varint(e->out, (uint64_t)(row_body_length(table, row) + edits_delta(e->own, edit)));
        offset = table->body_offset[row];
    }
    copy_edited(e, offset, end, &edit);
}

/* The body of a node that holds rows: runs of kept rows, with what stands between them, are one copy. */
static void write_rows(emitter *e, const ss_node *node) {
    const ss_table *table = e->table;
    uint32_t from = node->body_offset;
    for (uint32_t row = node->first_row; row < node->end_row; row++) {
        uint32_t edit = first_edit_of(e->own, row);
        if (emits_row(e, row) && edit == SS_NO_INDEX) {
            continue;
        }
        copy(e, from, table->row_offset[row]);
        if (emits_row(e, row)) {
            write_edited_row(e, row, edit);
        }
        from = table->row_offset[row] + table->row_length[row];
    }
    copy(e, from, node->end_offset);
}

/* The bodies of the nodes above: depth is the level, SS_LEVELS_MAX at most. */
static void write_body(emitter *e, uint32_t index) {
    const ss_node *node = &e->own->nodes[index];
    if (node->rows_bytes) {
        write_rows(e, node);
        return;
    }
    uint32_t from = node->body_offset;
    uint32_t edit = node->first_edit;
    for (uint32_t i = index + 1; i < node->subtree_end; i = e->own->nodes[i].subtree_end) {
        const ss_node *child = &e->own->nodes[i];
        copy_edited(e, from, child->tag_offset, &edit);
        if (child->is_kept) {
            copy(e, child->tag_offset, child->length_offset);
            e->out = ss_write_varint(e->out, child->new_length);
            write_body(e, i);
        }
        from = child->end_offset;
    }
    copy_edited(e, from, node->end_offset, &edit);
}

/* Whether what is emitted is the message as it came, unusual encodings of lengths included. */
static bool is_whole(const ss_table *table, uint32_t first_row, uint32_t end_row) {
    return first_row == 0 && end_row == table->n_rows && ss_table_is_untouched(table);
}

size_t ss_emit_bound(const ss_table *table) {
    const struct ss_table_private *own = table->private_state;
    return table->bytes_length + own->replacements.length + (size_t)own->n_edits * 16; /* lengths that become longer */
}

size_t ss_emit_size(ss_table *table, uint32_t first_row, uint32_t end_row) {
    if (is_whole(table, first_row, end_row)) {
        return table->bytes_length;
    }
    emitter e = {.table = table, .own = table->private_state, .first_row = first_row, .end_row = end_row};
    return e.own->n_nodes ? measure(&e) : 0;
}

ss_status ss_emit(ss_table *table, uint32_t first_row, uint32_t end_row, ss_buffer *out) {
    if (end_row > table->n_rows || first_row > end_row) {
        return SS_ERR_ARGUMENT;
    }
    if (is_whole(table, first_row, end_row)) {
        return ss_buffer_append(out, table->bytes, table->bytes_length);
    }
    emitter e = {.table = table, .own = table->private_state, .first_row = first_row, .end_row = end_row};
    if (!e.own->n_nodes) {
        return SS_OK;
    }
    size_t size = measure(&e);
    if (!e.own->nodes[0].is_kept) {
        return SS_OK; /* no row is left: no message either */
    }
    ss_status status = ss_buffer_reserve(out, size);
    if (status == SS_OK) {
        e.out = out->data + out->length;
        write_body(&e, 0);
        out->length += size;
    }
    return status;
}
