#include "ops/attributes_list.h"

#include "otlp/any_value.h"
#include "otlp/table.h"

#include <stdlib.h>

#define TAG(field, wire) ((uint32_t)(field) << 3 | (wire))

enum { FIRST_ATTRIBUTES = 64, RETAINED_BYTES = 1 << 20 };

void ss_attribute_list_free(ss_attribute_list *list) {
    ss_arena_free(&list->arena);
    free(list->attributes);
    ss_buffer_free(&list->out);
    *list = (ss_attribute_list){0};
}

/* What one huge item has needed is not kept for the next, which is counted as well. */
void ss_attribute_list_empty(ss_attribute_list *list) {
    size_t held = list->arena.capacity + list->capacity * sizeof *list->attributes + list->out.capacity;
    if (__builtin_expect(held > RETAINED_BYTES, 0)) {
        ss_holding *holding = list->arena.holding;
        ss_attribute_list_free(list);
        ss_arena_count(&list->arena, holding);
    }
    ss_arena_reset(&list->arena);
    list->n = 0;
    list->is_changed = false;
}

/* ---------------------------------------------------------------- reading */

static __attribute__((noinline)) bool grow(ss_attribute_list *list) {
    uint32_t capacity = list->capacity ? list->capacity * 2 : FIRST_ATTRIBUTES;
    bool has_room = ss_arena_hold(&list->arena, (capacity - list->capacity) * sizeof(ss_attribute));
    ss_attribute *attributes = has_room ? realloc(list->attributes, capacity * sizeof *attributes) : NULL;
    if (!attributes) {
        return false;
    }
    list->attributes = attributes;
    list->capacity = capacity;
    return true;
}

static inline ss_attribute *append(ss_attribute_list *list) {
    if (__builtin_expect(list->n == list->capacity, 0) && !grow(list)) {
        return NULL;
    }
    return &list->attributes[list->n++];
}

ss_status ss_attribute_list_read(ss_attribute_list *list, const uint8_t *base, ss_reader fields, uint32_t field) {
    for (ss_reader whole, pair; ss_next_field(&fields, field, &whole, &pair);) {
        ss_attribute *attribute = append(list);
        if (!attribute) {
            return SS_ERR_NO_MEMORY;
        }
        *attribute =
            (ss_attribute){.offset = (uint32_t)(whole.pos - base), .length = (uint32_t)(whole.end - whole.pos)};
        if (!ss_key_value_read(&list->arena, pair, &attribute->key, &attribute->value)) {
            return SS_ERR_NO_MEMORY;
        }
    }
    return SS_OK;
}

/* ---------------------------------------------------------------- changing */

ss_attribute *ss_attribute_list_find(const ss_attribute_list *list, ss_bytes key) {
    for (uint32_t i = 0; i < list->n; i++) {
        ss_attribute *attribute = &list->attributes[i];
        if (!attribute->is_gone && ss_bytes_equal(attribute->key, key)) {
            return attribute;
        }
    }
    return NULL;
}

void ss_attribute_list_set(ss_attribute_list *list, ss_attribute *attribute, ss_bytes value) {
    attribute->value = value;
    attribute->is_changed = true;
    list->is_changed = true;
}

void ss_attribute_list_remove(ss_attribute_list *list, ss_attribute *attribute) {
    attribute->is_gone = true;
    list->is_changed = true;
}

ss_status ss_attribute_list_add(ss_attribute_list *list, ss_bytes key, ss_bytes value) {
    ss_attribute *attribute = append(list);
    if (!attribute) {
        return SS_ERR_NO_MEMORY;
    }
    *attribute = (ss_attribute){.key = key};
    ss_attribute_list_set(list, attribute, value);
    return SS_OK;
}

/* ---------------------------------------------------------------- writing */

static uint8_t *write_head(uint8_t *out, uint32_t field, size_t length) {
    return ss_write_varint(ss_write_varint(out, TAG(field, SS_WIRE_BYTES)), length);
}

static uint8_t *write_bytes(uint8_t *out, uint32_t field, ss_bytes bytes) {
    out = write_head(out, field, bytes.length);
    if (bytes.length) {
        memcpy(out, bytes.data, bytes.length);
    }
    return out + bytes.length;
}

/* Append a field of a message: an attribute that was changed or is new. Unknown fields of its KeyValue go. */
static ss_status put_attribute(ss_buffer *out, uint32_t field, const ss_attribute *attribute) {
    enum { HEADS = 3 * (5 + SS_VARINT_MAX) };
    ss_status status = ss_buffer_reserve(out, attribute->key.length + attribute->value.length + HEADS);
    if (status == SS_OK) {
        size_t length = 2 + ss_varint_size(attribute->key.length) + attribute->key.length +
                        ss_varint_size(attribute->value.length) + attribute->value.length;
        uint8_t *pos = write_head(out->data + out->length, field, length);
        pos = write_bytes(pos, SS_KEY_VALUE_KEY, attribute->key);
        pos = write_bytes(pos, SS_KEY_VALUE_VALUE, attribute->value);
        out->length = (size_t)(pos - out->data);
    }
    return status;
}

static bool is_edited(const ss_attribute *attribute) {
    return attribute->is_gone || attribute->is_changed;
}

/* Append what the attributes [first, end) have become. */
static ss_status put_attributes(ss_attribute_list *list, uint32_t field, uint32_t first, uint32_t end) {
    ss_status status = SS_OK;
    for (uint32_t i = first; i < end && status == SS_OK; i++) {
        if (!list->attributes[i].is_gone) {
            status = put_attribute(&list->out, field, &list->attributes[i]);
        }
    }
    return status;
}

static uint32_t first_new(const ss_attribute_list *list) {
    uint32_t first = list->n;
    while (first && !list->attributes[first - 1].length) {
        first--;
    }
    return first;
}

/* From behind, since an edit in front of the others is the one that costs nothing to file; each covers attributes that
 * follow one another directly, so that what stands between others may be another operation's to edit. */
ss_status ss_attribute_list_write_row(ss_attribute_list *list, ss_table *table, uint32_t row, uint32_t field) {
    const uint32_t n_old = first_new(list);
    list->out.length = 0;
    ss_status status = put_attributes(list, field, n_old, list->n);
    if (status == SS_OK && list->out.length) {
        uint32_t end = table->row_offset[row] + table->row_length[row];
        status = ss_table_edit(table, row, end, 0, list->out.data, list->out.length);
    }
    for (uint32_t end = n_old; end && status == SS_OK;) {
        uint32_t first = end - 1;
        const ss_attribute *last = &list->attributes[first];
        if (is_edited(last)) {
            while (first && is_edited(&list->attributes[first - 1]) &&
                   list->attributes[first - 1].offset + list->attributes[first - 1].length ==
                       list->attributes[first].offset) {
                first--;
            }
            uint32_t offset = list->attributes[first].offset;
            list->out.length = 0;
            status = put_attributes(list, field, first, end);
            if (status == SS_OK) {
                status = ss_table_edit(table, row, offset, last->offset + last->length - offset, list->out.data,
                                       list->out.length);
            }
        }
        end = first;
    }
    return status;
}

/* ---------------------------------------------------------------- messages within a container */

ss_status ss_attribute_list_read_message(ss_attribute_list *list, const uint8_t *base, ss_reader container,
                                         uint32_t message, uint32_t field) {
    ss_status status = SS_OK;
    for (ss_reader whole, body; status == SS_OK && ss_next_field(&container, message, &whole, &body);) {
        status = ss_attribute_list_read(list, base, body, field);
    }
    return status;
}

static ss_status put_raw(ss_buffer *out, const uint8_t *from, const uint8_t *to) {
    return ss_buffer_append(out, from, (size_t)(to - from));
}

/* Put what a message with the attributes [first, end) and new ones from first_added on has become in front of what it
 * was, which becomes the edit. */
static ss_status write_message(ss_attribute_list *list, ss_table *table, uint32_t node, ss_reader whole, ss_reader body,
                               uint32_t message, uint32_t field, uint32_t first, uint32_t end, uint32_t first_added) {
    enum { HEAD = 5 + SS_VARINT_MAX };
    ss_buffer *out = &list->out;
    out->length = 0;
    ss_status status = ss_buffer_reserve(out, HEAD);
    out->length = status == SS_OK ? HEAD : 0; /* for what is only known in the end */
    const uint8_t *pos = body.pos;
    for (uint32_t i = first; i < end && status == SS_OK; i++) {
        const ss_attribute *attribute = &list->attributes[i];
        if (is_edited(attribute)) {
            status = put_raw(out, pos, table->bytes + attribute->offset);
            pos = table->bytes + attribute->offset + attribute->length;
            if (status == SS_OK && !attribute->is_gone) {
                status = put_attribute(out, field, attribute);
            }
        }
    }
    if (status == SS_OK) {
        status = put_raw(out, pos, body.end);
    }
    if (status == SS_OK) {
        status = put_attributes(list, field, first_added, list->n);
    }
    if (status != SS_OK) {
        return status;
    }
    uint8_t head[HEAD];
    size_t head_length = (size_t)(write_head(head, message, out->length - HEAD) - head);
    uint8_t *start = out->data + HEAD - head_length;
    memcpy(start, head, head_length);
    return ss_table_edit_node(table, node, (uint32_t)(whole.pos - table->bytes), (uint32_t)(whole.end - whole.pos),
                              start, out->length - HEAD + head_length);
}

ss_status ss_attribute_list_write_message(ss_attribute_list *list, ss_table *table, uint32_t node, ss_reader container,
                                          uint32_t message, uint32_t field) {
    const uint32_t n_old = first_new(list);
    const bool adds = n_old < list->n;
    /* Where there is no message: an empty one, in front of all. */
    ss_reader whole = {container.pos, container.pos}, body = whole;
    ss_reader next, next_body;
    ss_status status = SS_OK;
    uint32_t first = 0;
    bool is_there = ss_next_field(&container, message, &next, &next_body);
    do {
        whole = is_there ? next : whole;
        body = is_there ? next_body : body;
        is_there = is_there && ss_next_field(&container, message, &next, &next_body);
        bool has_edits = adds && !is_there; /* new ones go into the last piece */
        uint32_t end = first;
        for (; end < n_old && table->bytes + list->attributes[end].offset < body.end; end++) {
            has_edits |= is_edited(&list->attributes[end]);
        }
        if (has_edits) {
            uint32_t first_added = is_there ? list->n : n_old;
            status = write_message(list, table, node, whole, body, message, field, first, end, first_added);
        }
        first = end;
    } while (is_there && status == SS_OK);
    return status;
}
