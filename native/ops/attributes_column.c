/* Values of all rows of a table in one call, and edits of them, for processors that see a request as columns. */
#include "ops/attributes_list.h"
#include "otlp/any_value.h"
#include "otlp/table.h"

#include <math.h>

enum { SCOPE_LEVEL = 2, RESOURCE_LEVEL = 1 };

static ss_bytes bytes_of(ss_text text) {
    return (ss_bytes){(const uint8_t *)text.data, text.length};
}

/* ---------------------------------------------------------------- reading */

typedef struct column_reader {
    const ss_table *table;
    ss_column_source source;
    ss_bytes key;
    ss_attribute_list list; /* of the resource at hand; its arena is of all that is read */
    ss_buffer text;         /* of a value that is no text */
    uint32_t container;     /* number of the resource or scope that value is of; SS_NO_INDEX: of none */
    bool is_found;
    ss_bytes value; /* body of an AnyValue, or a text where the source is one */
} column_reader;

static void reader_free(column_reader *r) {
    ss_attribute_list_free(&r->list);
    ss_buffer_free(&r->text);
}

/* The body of the container of level that a row lies in. */
static ss_reader container_of(const ss_table *table, uint32_t row, uint32_t level) {
    const uint32_t node = table->node_index[row];
    uint32_t offset, end;
    ss_table_node_range(table, node, table->private_state->nodes[node].level - level, &offset, &end);
    return (ss_reader){table->bytes + offset, table->bytes + end};
}

static ss_status find_in_row(column_reader *r, uint32_t row) {
    ss_reader fields = ss_attributes_of(r->table, row);
    const uint32_t field = ss_attributes_field(r->table, row);
    ss_bytes key;
    r->is_found = false;
    for (ss_reader whole, pair; !r->is_found && ss_next_field(&fields, field, &whole, &pair);) {
        if (!ss_key_value_read(&r->list.arena, pair, &key, &r->value)) {
            return SS_ERR_NO_MEMORY;
        }
        r->is_found = ss_bytes_equal(key, r->key);
    }
    return SS_OK;
}

static ss_status find_in_resource(column_reader *r, uint32_t row) {
    ss_reader container = container_of(r->table, row, RESOURCE_LEVEL);
    ss_attribute_list_empty(&r->list);
    ss_status status = ss_attribute_list_read_message(&r->list, r->table->bytes, container, SS_RESOURCE_SPANS_RESOURCE,
                                                      SS_RESOURCE_ATTRIBUTES);
    const ss_attribute *found = status == SS_OK ? ss_attribute_list_find(&r->list, r->key) : NULL;
    r->is_found = found != NULL;
    if (found) {
        r->value = found->value;
    }
    return status;
}

static ss_status find_scope_name(column_reader *r, uint32_t row) {
    ss_bytes scope;
    ss_arena_reset(&r->list.arena);
    if (!ss_gather_field(&r->list.arena, container_of(r->table, row, SCOPE_LEVEL), SS_SCOPE_SPANS_SCOPE, &scope)) {
        return SS_ERR_NO_MEMORY;
    }
    r->value = ss_last_field(ss_reader_of(scope), SS_INSTRUMENTATION_SCOPE_NAME);
    r->is_found = true;
    return SS_OK;
}

static ss_status find_in_record(column_reader *r, uint32_t row) {
    const ss_table *table = r->table;
    const uint8_t *end = table->bytes + table->row_offset[row] + table->row_length[row];
    ss_reader record = {table->bytes + table->body_offset[row], end};
    r->is_found = table->signal == SS_SIGNAL_LOGS;
    if (!r->is_found) {
        return SS_OK;
    }
    if (r->source == SS_SOURCE_SEVERITY_TEXT) {
        r->value = ss_last_field(record, SS_LOG_RECORD_SEVERITY_TEXT);
        return SS_OK;
    }
    return ss_gather_field(&r->list.arena, record, SS_LOG_RECORD_BODY, &r->value) ? SS_OK : SS_ERR_NO_MEMORY;
}

/* Data points of one metric share its name, however long it is. */
static void find_name(column_reader *r, uint32_t row, bool *is_same) {
    const ss_bytes name = {r->table->bytes + r->table->name_offset[row], r->table->name_length[row]};
    *is_same = r->is_found && r->value.data == name.data && r->value.length == name.length;
    r->value = name;
    r->is_found = true;
}

/* Find the value of a row; *is_same: it is that of the row before, which lies in the same container. */
static ss_status find_value(column_reader *r, uint32_t row, bool *is_same) {
    const ss_table *table = r->table;
    *is_same = false;
    if (r->source == SS_SOURCE_RESOURCE_ATTRIBUTE || r->source == SS_SOURCE_SCOPE_NAME) {
        const bool is_of_resource = r->source == SS_SOURCE_RESOURCE_ATTRIBUTE;
        const uint32_t container = is_of_resource ? table->resource_index[row] : table->scope_index[row];
        *is_same = container == r->container;
        r->container = container;
        return *is_same ? SS_OK : is_of_resource ? find_in_resource(r, row) : find_scope_name(r, row);
    }
    ss_arena_reset(&r->list.arena);
    switch (r->source) {
    case SS_SOURCE_ATTRIBUTE: return find_in_row(r, row);
    case SS_SOURCE_NAME: find_name(r, row, is_same); return SS_OK;
    default: return find_in_record(r, row);
    }
}

static bool is_any_value(ss_column_source source) {
    return source == SS_SOURCE_ATTRIBUTE || source == SS_SOURCE_RESOURCE_ATTRIBUTE || source == SS_SOURCE_BODY;
}

/* The text of the value that was found. */
static ss_status read_text(column_reader *r, ss_bytes *text) {
    ss_any_value value;
    *text = r->value;
    if (!is_any_value(r->source)) {
        return SS_OK;
    }
    if (ss_any_value_read(ss_reader_of(r->value), &value) && value.field == SS_ANY_VALUE_STRING_VALUE) {
        *text = (ss_bytes){value.bytes.pos, (size_t)(value.bytes.end - value.bytes.pos)};
        return SS_OK;
    }
    r->text.length = 0;
    if (!ss_any_value_text(&r->list.arena, r->value, &r->text)) {
        return SS_ERR_NO_MEMORY;
    }
    *text = (ss_bytes){r->text.data, r->text.length};
    return SS_OK;
}

/* Append a text, unless it is that of the row before. */
static ss_status put_text(ss_text_column *column, ss_bytes text, int32_t before, int32_t *index) {
    if (before >= 0) {
        const uint32_t start = before ? column->ends[before - 1] : 0;
        const size_t length = column->ends[before] - start;
        if (length == text.length && (!length || memcmp(column->bytes.data + start, text.data, length) == 0)) {
            *index = before;
            return SS_OK;
        }
    }
    if (text.length > INT32_MAX - column->bytes.length) {
        return SS_ERR_LIMIT;
    }
    ss_status status = ss_buffer_append(&column->bytes, text.data, text.length);
    column->ends[column->n_texts] = (uint32_t)column->bytes.length;
    *index = (int32_t)column->n_texts++;
    return status;
}

ss_status ss_table_texts(const ss_table *table, ss_column_source source, ss_text key, ss_text_column *column) {
    column_reader r = {.table = table, .source = source, .key = bytes_of(key), .container = SS_NO_INDEX};
    ss_status status = SS_OK;
    column->n_texts = 0;
    for (uint32_t row = 0; row < table->n_rows && status == SS_OK; row++) {
        const int32_t before = row ? column->index[row - 1] : -1;
        bool is_same;
        ss_bytes text;
        column->index[row] = -1;
        status = find_value(&r, row, &is_same);
        if (is_same) {
            column->index[row] = before;
        } else if (status == SS_OK && r.is_found) {
            status = read_text(&r, &text);
            status = status == SS_OK ? put_text(column, text, before, &column->index[row]) : status;
        }
    }
    reader_free(&r);
    return status;
}

ss_status ss_table_numbers(const ss_table *table, ss_column_source source, ss_text key, double *numbers) {
    column_reader r = {.table = table, .source = source, .key = bytes_of(key), .container = SS_NO_INDEX};
    ss_status status = SS_OK;
    for (uint32_t row = 0; row < table->n_rows && status == SS_OK; row++) {
        bool is_same;
        ss_any_value value;
        numbers[row] = NAN;
        status = find_value(&r, row, &is_same);
        if (status == SS_OK && r.is_found && is_any_value(source) && ss_any_value_read(ss_reader_of(r.value), &value)) {
            (void)ss_any_value_number(&value, &numbers[row]);
        }
    }
    reader_free(&r);
    return status;
}

/* ---------------------------------------------------------------- editing */

ss_status ss_table_set_attribute(ss_table *table, ss_text key, const ss_value *values, uint32_t n_values,
                                 const uint32_t *chosen) {
    ss_arena arena = {0};
    ss_attribute_list list = {0};
    ss_bytes *bodies = ss_arena_take(&arena, n_values + !n_values, sizeof *bodies);
    ss_status status = bodies ? SS_OK : SS_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n_values && status == SS_OK; i++) {
        bodies[i] = ss_any_value_of(&arena, &values[i], SS_VALUE_DEPTH_MAX);
        status = bodies[i].data ? SS_OK : arena.is_exhausted ? SS_ERR_NO_MEMORY : SS_ERR_LIMIT;
    }
    for (uint32_t row = 0; row < table->n_rows && status == SS_OK; row++) {
        const uint32_t field = ss_attributes_field(table, row);
        if (chosen[row] >= n_values) {
            continue;
        }
        ss_attribute_list_empty(&list);
        status = ss_attribute_list_read(&list, table->bytes, ss_attributes_of(table, row), field);
        if (status != SS_OK) {
            break;
        }
        ss_attribute *attribute = ss_attribute_list_find(&list, bytes_of(key));
        if (attribute) {
            ss_attribute_list_set(&list, attribute, bodies[chosen[row]]);
        } else {
            status = ss_attribute_list_add(&list, bytes_of(key), bodies[chosen[row]]);
        }
        if (status == SS_OK) {
            status = ss_attribute_list_write_row(&list, table, row, field);
        }
    }
    ss_attribute_list_free(&list);
    ss_arena_free(&arena);
    return status;
}

ss_status ss_table_delete_attribute(ss_table *table, ss_text key, const uint8_t *is_chosen) {
    ss_attribute_list list = {0};
    ss_status status = SS_OK;
    for (uint32_t row = 0; row < table->n_rows && status == SS_OK; row++) {
        const uint32_t field = ss_attributes_field(table, row);
        if (!is_chosen[row]) {
            continue;
        }
        ss_attribute_list_empty(&list);
        status = ss_attribute_list_read(&list, table->bytes, ss_attributes_of(table, row), field);
        for (uint32_t i = 0; i < list.n && status == SS_OK; i++) {
            if (ss_bytes_equal(list.attributes[i].key, bytes_of(key))) {
                ss_attribute_list_remove(&list, &list.attributes[i]);
            }
        }
        if (status == SS_OK && list.is_changed) {
            status = ss_attribute_list_write_row(&list, table, row, field);
        }
    }
    ss_attribute_list_free(&list);
    return status;
}

ss_status ss_table_settle(ss_table *table, ss_buffer *bytes, ss_error *error) {
    ss_buffer settled = {0};
    if (ss_table_is_untouched(table)) {
        return SS_OK;
    }
    ss_status status = ss_emit(table, 0, table->n_rows, &settled);
    if (status != SS_OK) {
        ss_buffer_free(&settled);
        *error = (ss_error){status, 0, "out of memory"};
        return status;
    }
    ss_buffer_free(bytes);
    *bytes = settled;
    return ss_scan(table->signal, bytes->data, bytes->length, table, error);
}
