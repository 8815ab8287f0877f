#include "otlp/faults.h"

#include "otlp/check.h"
#include "otlp/table.h"
#include "otlp_shapes.h"

#include <stdarg.h>
#include <stdio.h>

enum { SHOWN_MAX = 40 }; /* characters of a value that are worth showing */

/* A text that grows in the caller's memory; what does not fit is cut. */
typedef struct line {
    char *text;
    size_t size;
    size_t length;
} line;

static __attribute__((format(printf, 2, 3))) void add(line *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(l->text + l->length, l->size - l->length, format, arguments);
    va_end(arguments);
    size_t room = l->size - l->length - 1;
    l->length += (size_t)written < room ? (size_t)written : room;
}

/* Of the path to a field deep within an attribute, the beginning is told. */
enum { STEPS_MAX = 12 };

/* The field of shape with that number; NULL: OTLP has none. */
static const ss_shape_field *field_of(unsigned shape, uint32_t number) {
    uint8_t place = number <= SS_SHAPE_NUMBER_MAX ? ss_shapes[shape].by_number[number] : 0;
    return place ? &ss_shape_fields[ss_shapes[shape].first_field + place - 1] : NULL;
}

/* Name a field as OTLP/JSON does; place: among those of its number. */
static void add_step(line *l, const ss_shape_field *field, uint32_t number, uint32_t place) {
    enum { QUOTE = 1, AROUND = 3 }; /* key is quoted, with a colon behind it */
    const char *point = l->length ? "." : "";
    if (!field) {
        add(l, "%sfield %u", point, number);
    } else {
        add(l, "%s%.*s", point, field->key_length - AROUND, field->key + QUOTE);
        if (field->is_repeated) {
            add(l, "[%u]", place);
        }
    }
}

void ss_path_write(ss_signal signal, const uint8_t *bytes, size_t length, size_t offset, char *out, size_t size) {
    const uint8_t *target = bytes + offset;
    ss_reader message = {bytes, bytes + length};
    unsigned shape = (unsigned)signal; /* the shapes of requests are the first, in this order */
    uint32_t places[SS_SHAPE_NUMBER_MAX + 1] = {0};
    line l = {out, size, 0};
    out[0] = 0;
    for (unsigned steps = 0; message.pos < message.end;) {
        const uint8_t *tag_at = message.pos;
        uint64_t tag;
        if (!ss_read_varint32(&message, &tag) || tag > UINT32_MAX) {
            return;
        }
        const uint32_t number = (uint32_t)tag >> 3;
        const ss_shape_field *field = field_of(shape, number);
        ss_reader body = message;
        if (target != tag_at && ss_skip_field(&message, (uint32_t)tag, 0) && target >= message.pos) {
            places[field ? number : 0]++;
            continue;
        }
        if (steps++ == STEPS_MAX) {
            add(&l, "...");
            return;
        }
        add_step(&l, field, number, places[field ? number : 0]);
        if (target == tag_at || !field || field->type != SS_FIELD_MESSAGE || (tag & 7) != SS_WIRE_BYTES ||
            !ss_read_bytes(&body, &message)) {
            return;
        }
        shape = field->shape;
        memset(places, 0, sizeof places);
    }
}

static void add_fault(line *l, const ss_table *table, const ss_item_fault *fault, ss_payload payload) {
    char path[SS_PATH_SIZE];
    ss_path_write(table->signal, table->bytes, table->bytes_length, fault->offset, path, sizeof path);
    add(l, "%s: ", path);
    ss_reader reader = {table->bytes + fault->offset, table->bytes + table->bytes_length};
    ss_reader value = reader;
    uint64_t tag = 0;
    (void)ss_read_varint32(&reader, &tag);
    if (fault->fault == SS_FAULT_NESTING) {
        add(l, "expected at most %d messages in one another", SS_DEPTH_MAX);
        return;
    }
    if (fault->fault == SS_FAULT_WIRE_TYPE) {
        add(l, "wire type %u is none that it can have, at byte %u", (unsigned)(tag & 7), fault->offset);
        return;
    }
    (void)ss_read_bytes(&reader, &value); /* the scan has read it */
    const unsigned size = fault->fault == SS_FAULT_TRACE_ID ? 16 : 8;
    const size_t length = (size_t)(value.end - value.pos);
    if (payload == SS_PAYLOAD_PROTOBUF) {
        add(l, "expected %u bytes, got %zu", size, length);
        return;
    }
    bool is_long = length > SHOWN_MAX;
    add(l, "expected %u hex digits, got \"%.*s%s\"", 2 * size, is_long ? SHOWN_MAX : (int)length,
        (const char *)value.pos, is_long ? "..." : "");
    if (ss_json_id_is_base64(value.pos, length, size)) {
        add(l, ", this looks like base64");
    }
}

void ss_faults_describe(const ss_faults *faults, const ss_table *table, ss_payload payload, char *out, size_t size) {
    line l = {out, size, 0};
    out[0] = 0;
    for (uint32_t i = 0; i < faults->n_items && i < SS_FIRST_FAULTS; i++) {
        add(&l, "%s", i ? "; " : "");
        add_fault(&l, table, &faults->first[i], payload);
    }
}
