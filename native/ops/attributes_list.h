/* The attributes of one item or resource: read from a message, changed in memory, written back as edits of the table.
 */
#ifndef SS_ATTRIBUTES_LIST_H
#define SS_ATTRIBUTES_LIST_H

#include "core/arena.h"
#include "otlp_fields.h"
#include "spansieve.h"

typedef struct ss_attribute {
    uint32_t offset; /* of the field in the table's bytes */
    uint32_t length; /* 0: it is new */
    bool is_changed;
    bool is_gone;
    ss_bytes key;
    ss_bytes value; /* body of the AnyValue */
} ss_attribute;

/* The number of the field that an item has its attributes in. */
static inline uint32_t ss_attributes_field(const ss_table *table, uint32_t row) {
    if (table->signal == SS_SIGNAL_TRACES) {
        return SS_SPAN_ATTRIBUTES;
    }
    if (table->signal == SS_SIGNAL_LOGS) {
        return SS_LOG_RECORD_ATTRIBUTES;
    }
    switch (table->kind[row]) {
    case SS_METRIC_HISTOGRAM: return SS_HISTOGRAM_DATA_POINT_ATTRIBUTES;
    case SS_METRIC_EXPONENTIAL_HISTOGRAM: return SS_EXPONENTIAL_HISTOGRAM_DATA_POINT_ATTRIBUTES;
    case SS_METRIC_SUMMARY: return SS_SUMMARY_DATA_POINT_ATTRIBUTES;
    default: return SS_NUMBER_DATA_POINT_ATTRIBUTES;
    }
}

/* The fields of an item from its first attribute to its last. */
static inline ss_reader ss_attributes_of(const ss_table *table, uint32_t row) {
    const uint8_t *start = table->bytes + table->attributes_offset[row];
    return (ss_reader){start, start + table->attributes_length[row]};
}

/* Zero-initialised is empty and valid. One thread at a time. */
typedef struct ss_attribute_list {
    ss_arena arena; /* of what is read and made; given back when the list is emptied */
    ss_attribute *attributes;
    uint32_t n;
    uint32_t capacity;
    bool is_changed;
    ss_buffer out; /* of what is written */
} ss_attribute_list;

void ss_attribute_list_free(ss_attribute_list *list);
void ss_attribute_list_empty(ss_attribute_list *list);

/* Append the attributes among the fields of a message, which lie in base and were scanned. SS_ERR_NO_MEMORY. */
ss_status ss_attribute_list_read(ss_attribute_list *list, const uint8_t *base, ss_reader fields, uint32_t field);

/* The first one of that key, or NULL. */
ss_attribute *ss_attribute_list_find(const ss_attribute_list *list, ss_bytes key);

/* Change a value. value is of the request, the configuration or the arena. */
void ss_attribute_list_set(ss_attribute_list *list, ss_attribute *attribute, ss_bytes value);
void ss_attribute_list_remove(ss_attribute_list *list, ss_attribute *attribute);
/* SS_ERR_NO_MEMORY. */
ss_status ss_attribute_list_add(ss_attribute_list *list, ss_bytes key, ss_bytes value);

/* Edit the row from which the list was read to have these attributes, new ones at its end; field is theirs. */
ss_status ss_attribute_list_write_row(ss_attribute_list *list, ss_table *table, uint32_t row, uint32_t field);

/* The same for a message that is a field within [start, end) of the container that node lies in: the resource of a
 * request. Pieces of it are merged when they are read, each is written back as it came; without any it is put in front.
 */
ss_status ss_attribute_list_read_message(ss_attribute_list *list, const uint8_t *base, ss_reader container,
                                         uint32_t message, uint32_t field);
ss_status ss_attribute_list_write_message(ss_attribute_list *list, ss_table *table, uint32_t node, ss_reader container,
                                          uint32_t message, uint32_t field);

#endif
