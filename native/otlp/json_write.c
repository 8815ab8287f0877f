/*
 * OTLP protobuf -> JSON, one line, as the OpenTelemetry Collector writes it: lowerCamelCase keys in the order of the
 * .proto files, ids in hex, 64-bit integers as strings, enums as integers, bytes as base64.
 *
 * The wire may hold a message's fields in any order, more than once, and arrays in pieces. So each message is walked
 * twice: to see where its fields are, then to write them.
 */
#include <math.h>
#include <string.h>

#include "core/bytes.h"
#include "core/utf8.h"
#include "otlp/json_text.h"
#include "otlp_shapes.h"

enum { ESCAPE_MAX = 6, NUMBER_TEXT_MAX = SS_DOUBLE_TEXT_MAX + 2 };

typedef struct json_writer {
    ss_buffer *out;
    const uint8_t *bytes;
    const uint8_t *merged_at; /* where in bytes the first piece of the merged message being written is; or NULL */
    size_t merge_budget;      /* bytes that may still be copied to merge messages that came in pieces */
    ss_error error;
} json_writer;

/* Where a message holds one of its fields. */
typedef struct occurrence {
    const uint8_t *at; /* the tag: of a repeated field's and of a message's first, of any other's last */
    uint32_t count;
} occurrence;

static bool fail(json_writer *writer, ss_status code, const uint8_t *at, const char *reason) {
    at = writer->merged_at ? writer->merged_at : at;
    writer->error = (ss_error){code, (uint64_t)(at - writer->bytes), reason};
    return false;
}

/* ------------------------------------------------------------------ text */

static bool make_room(json_writer *writer, size_t n) {
    return writer->out->capacity - writer->out->length >= n || ss_buffer_reserve(writer->out, n) == SS_OK ||
           fail(writer, SS_ERR_NO_MEMORY, writer->bytes, "out of memory");
}

/* REQUIRES: room. */
static inline void put(json_writer *writer, const void *text, size_t length) {
    memcpy(writer->out->data + writer->out->length, text, length);
    writer->out->length += length;
}

static inline void put_byte(json_writer *writer, char byte) {
    writer->out->data[writer->out->length++] = (uint8_t)byte;
}

/* Write a byte that cannot stand between quotes, or the replacement of one that is not UTF-8. */
static void put_escape(json_writer *writer, uint8_t byte) {
    static const char digits[] = "0123456789abcdef";
    char letter = byte == '\n' ? 'n' : byte == '\r' ? 'r' : byte == '\t' ? 't' : (char)byte;
    if (byte >= 0x80) {
        put(writer, "\xef\xbf\xbd", 3);
    } else if (byte < ' ' && letter == (char)byte) {
        put(writer, "\\u00", 4);
        put_byte(writer, digits[byte >> 4]);
        put_byte(writer, digits[byte & 0xf]);
    } else {
        put_byte(writer, '\\');
        put_byte(writer, letter);
    }
}

static bool write_string(json_writer *writer, ss_reader text) {
    if (!make_room(writer, (size_t)(text.end - text.pos) + 2)) {
        return false;
    }
    put_byte(writer, '"');
    while (text.pos < text.end) {
        /* Whole characters that need no escape, then one byte that does. */
        const uint8_t *pos = text.pos;
        unsigned length = 1;
        while ((pos = ss_find_special(pos, text.end)) < text.end && *pos >= 0x80 &&
               (length = ss_utf8_length(pos, text.end)) != 0) {
            pos += length;
        }
        put(writer, text.pos, (size_t)(pos - text.pos));
        text.pos = pos;
        if (pos < text.end) {
            if (!make_room(writer, ESCAPE_MAX + (size_t)(text.end - pos) + 1)) {
                return false;
            }
            put_escape(writer, *text.pos++);
        }
    }
    put_byte(writer, '"');
    return true;
}

static bool write_hex(json_writer *writer, ss_reader bytes) {
    static const char digits[] = "0123456789abcdef";
    if (!make_room(writer, 2 * (size_t)(bytes.end - bytes.pos) + 2)) {
        return false;
    }
    put_byte(writer, '"');
    for (; bytes.pos < bytes.end; bytes.pos++) {
        put_byte(writer, digits[*bytes.pos >> 4]);
        put_byte(writer, digits[*bytes.pos & 0xf]);
    }
    put_byte(writer, '"');
    return true;
}

static bool write_base64(json_writer *writer, ss_reader bytes) {
    size_t size = ss_base64_size((size_t)(bytes.end - bytes.pos));
    if (!make_room(writer, size + 2)) {
        return false;
    }
    put_byte(writer, '"');
    ss_base64_write(bytes.pos, bytes.end, writer->out->data + writer->out->length);
    writer->out->length += size;
    put_byte(writer, '"');
    return true;
}

static uint8_t *write_int64(int64_t value, uint8_t *out) {
    if (value < 0) {
        *out++ = '-';
        return ss_uint64_write(0 - (uint64_t)value, out);
    }
    return ss_uint64_write((uint64_t)value, out);
}

static uint8_t *write_word(const char *word, uint8_t *out) {
    size_t length = strlen(word);
    memcpy(out, word, length);
    return out + length;
}

static uint8_t *write_double(double value, uint8_t *out) {
    if (isnan(value)) {
        return write_word("\"NaN\"", out);
    }
    if (isinf(value)) {
        return write_word(value < 0 ? "\"-Infinity\"" : "\"Infinity\"", out);
    }
    return ss_double_write(value, out);
}

/* Write a scalar that stands as value on the wire. */
static bool write_scalar(json_writer *writer, const ss_shape_field *field, uint64_t value) {
    if (!make_room(writer, NUMBER_TEXT_MAX)) {
        return false;
    }
    uint8_t *begin = writer->out->data + writer->out->length, *out = begin;
    uint32_t low = (uint32_t)value;
    double number;
    switch (field->type) {
    case SS_FIELD_DOUBLE:
        memcpy(&number, &value, sizeof number);
        out = write_double(number, out);
        break;
    case SS_FIELD_BOOL: out = write_word(value ? "true" : "false", out); break;
    case SS_FIELD_INT64:
    case SS_FIELD_SFIXED64:
        *out++ = '"';
        out = write_int64((int64_t)value, out);
        *out++ = '"';
        break;
    case SS_FIELD_UINT64:
    case SS_FIELD_FIXED64:
        *out++ = '"';
        out = ss_uint64_write(value, out);
        *out++ = '"';
        break;
    case SS_FIELD_UINT32:
    case SS_FIELD_FIXED32: out = ss_uint64_write(low, out); break;
    case SS_FIELD_SINT32: out = write_int64((int32_t)(low >> 1 ^ (0 - (low & 1))), out); break;
    default: out = write_int64((int32_t)low, out); break; /* int32, enum */
    }
    writer->out->length += (size_t)(out - begin);
    return true;
}

/* ------------------------------------------------------------------ messages */

static inline bool is_scalar(const ss_shape_field *field) {
    return field->wire != SS_WIRE_BYTES;
}

static bool read_tag(ss_reader *reader, uint32_t *tag) {
    uint64_t value;
    if (!ss_read_varint(reader, &value) || value > UINT32_MAX) {
        return false;
    }
    *tag = (uint32_t)value;
    return true;
}

static bool read_scalar(ss_reader *reader, const ss_shape_field *field, uint64_t *value) {
    uint32_t value32 = 0;
    switch (field->wire) {
    case SS_WIRE_VARINT: return ss_read_varint(reader, value);
    case SS_WIRE_FIXED64: return ss_read_fixed64(reader, value);
    default: {
        bool ok = ss_read_fixed32(reader, &value32);
        *value = value32;
        return ok;
    }
    }
}

/* The field of shape that tag introduces; NULL for a number or a wire type that it does not know. */
static const ss_shape_field *find_field(const ss_shape *shape, uint32_t tag) {
    uint32_t number = tag >> 3, wire = tag & 7;
    if (number > SS_SHAPE_NUMBER_MAX || !shape->by_number[number]) {
        return NULL;
    }
    const ss_shape_field *field = &ss_shape_fields[shape->first_field + shape->by_number[number] - 1];
    /* Repeated numbers may come packed or one by one, whatever the schema says. */
    return wire == field->wire || (field->is_packed && wire == SS_WIRE_BYTES) ? field : NULL;
}

/* Move rest behind the tag of the next occurrence of field. */
static bool next_occurrence(ss_reader *rest, const ss_shape *shape, const ss_shape_field *field, uint32_t *tag) {
    while (read_tag(rest, tag)) {
        if (find_field(shape, *tag) == field) {
            return true;
        }
        if (!ss_skip_field(rest, *tag, 0)) {
            return false;
        }
    }
    return false;
}

/* Note where body holds which fields; checks all of its grammar but what lies in nested messages and packed runs. */
static bool find_fields(json_writer *writer, const ss_shape *shape, ss_reader body, occurrence *found) {
    const ss_shape_field *fields = &ss_shape_fields[shape->first_field];
    occurrence *chosen = NULL; /* of the oneof */
    while (body.pos < body.end) {
        const uint8_t *at = body.pos;
        uint32_t tag;
        if (!read_tag(&body, &tag) || !ss_skip_field(&body, tag, 0)) {
            return fail(writer, SS_ERR_MALFORMED, at, "malformed field");
        }
        const ss_shape_field *field = find_field(shape, tag);
        if (!field) {
            continue;
        }
        occurrence *own = &found[field - fields];
        if (field->in_oneof) {
            if (chosen && chosen != own) {
                chosen->count = 0;
            }
            chosen = own;
        }
        if (own->count == 0 || !(field->is_repeated || field->type == SS_FIELD_MESSAGE)) {
            own->at = at;
        }
        own->count++;
    }
    return true;
}

static bool write_message(json_writer *writer, unsigned shape_index, ss_reader body, unsigned depth);

/* Write a message that came in pieces. Protobuf merges them, which is the same as to read them joined. */
static bool write_merged(json_writer *writer, const ss_shape *parent, const ss_shape_field *field, occurrence found,
                         ss_reader body, unsigned depth) {
    ss_buffer merged = {0};
    ss_reader rest = {found.at, body.end}, piece;
    ss_status status = ss_buffer_reserve(&merged, 1); /* a pointer, even when all pieces are empty */
    uint32_t tag;
    while (found.count-- && status == SS_OK && next_occurrence(&rest, parent, field, &tag) &&
           ss_read_bytes(&rest, &piece)) {
        size_t length = (size_t)(piece.end - piece.pos);
        status = length > writer->merge_budget ? SS_ERR_LIMIT : ss_buffer_append(&merged, piece.pos, length);
        writer->merge_budget -= status == SS_OK ? length : 0;
    }
    bool ok = status == SS_OK ||
              fail(writer, status, found.at, status == SS_ERR_LIMIT ? "too many messages in pieces" : "out of memory");
    if (ok) {
        const uint8_t *outer = writer->merged_at;
        writer->merged_at = outer ? outer : found.at;
        ok = write_message(writer, field->shape, (ss_reader){merged.data, merged.data + merged.length}, depth + 1);
        writer->merged_at = outer;
    }
    ss_buffer_free(&merged);
    return ok;
}

static bool write_delimited(json_writer *writer, const ss_shape_field *field, ss_reader value, unsigned depth) {
    switch (field->type) {
    case SS_FIELD_MESSAGE: return write_message(writer, field->shape, value, depth + 1);
    case SS_FIELD_STRING: return write_string(writer, value);
    case SS_FIELD_BYTES: return write_base64(writer, value);
    default: return write_hex(writer, value); /* ids */
    }
}

/* Write the comma between elements. */
static bool separate(json_writer *writer, bool *is_first) {
    if (!*is_first) {
        if (!make_room(writer, 1)) {
            return false;
        }
        put_byte(writer, ',');
    }
    *is_first = false;
    return true;
}

static bool write_key(json_writer *writer, const ss_shape_field *field, bool *is_first) {
    if (!separate(writer, is_first) || !make_room(writer, SS_SHAPE_KEY_SIZE)) {
        return false;
    }
    /* All of the array, which is quicker than its right length. */
    memcpy(writer->out->data + writer->out->length, field->key, SS_SHAPE_KEY_SIZE);
    writer->out->length += field->key_length;
    return true;
}

/* Write a field that is not repeated, unless it says what its absence says. */
static bool write_singular(json_writer *writer, const ss_shape *shape, const ss_shape_field *field, occurrence found,
                           ss_reader body, unsigned depth, bool *is_first) {
    ss_reader reader = {found.at, body.end}, value = {NULL, NULL};
    uint32_t tag;
    uint64_t scalar = 0;
    if (!read_tag(&reader, &tag) ||
        !(is_scalar(field) ? read_scalar(&reader, field, &scalar) : ss_read_bytes(&reader, &value))) {
        return fail(writer, SS_ERR_MALFORMED, found.at, "malformed field");
    }
    if (field->type == SS_FIELD_MESSAGE) {
        return write_key(writer, field, is_first) &&
               (found.count > 1 ? write_merged(writer, shape, field, found, body, depth)
                                : write_delimited(writer, field, value, depth));
    }
    if (!field->has_presence && !scalar && value.pos == value.end) {
        return true;
    }
    return write_key(writer, field, is_first) &&
           (is_scalar(field) ? write_scalar(writer, field, scalar) : write_delimited(writer, field, value, depth));
}

/* Write the numbers of a packed run. */
static bool write_packed(json_writer *writer, const ss_shape_field *field, ss_reader run, bool *is_first) {
    while (run.pos < run.end) {
        const uint8_t *at = run.pos;
        uint64_t scalar;
        if (!read_scalar(&run, field, &scalar)) {
            return fail(writer, SS_ERR_MALFORMED, at, "malformed number in a packed field");
        }
        if (!separate(writer, is_first) || !write_scalar(writer, field, scalar)) {
            return false;
        }
    }
    return true;
}

static bool write_repeated(json_writer *writer, const ss_shape *shape, const ss_shape_field *field, occurrence found,
                           ss_reader body, unsigned depth) {
    ss_reader rest = {found.at, body.end}, value;
    bool is_first = true;
    if (!make_room(writer, 1)) {
        return false;
    }
    put_byte(writer, '[');
    for (uint32_t tag; found.count && next_occurrence(&rest, shape, field, &tag); found.count--) {
        const uint8_t *at = rest.pos;
        uint64_t scalar;
        bool is_delimited = (tag & 7) == SS_WIRE_BYTES;
        if (!(is_delimited ? ss_read_bytes(&rest, &value) : read_scalar(&rest, field, &scalar))) {
            return fail(writer, SS_ERR_MALFORMED, at, "malformed field");
        }
        bool ok;
        if (is_delimited && is_scalar(field)) {
            ok = write_packed(writer, field, value, &is_first);
        } else {
            ok = separate(writer, &is_first) &&
                 (is_delimited ? write_delimited(writer, field, value, depth) : write_scalar(writer, field, scalar));
        }
        if (!ok) {
            return false;
        }
    }
    if (!make_room(writer, 1)) {
        return false;
    }
    put_byte(writer, ']');
    return true;
}

static bool write_message(json_writer *writer, unsigned shape_index, ss_reader body, unsigned depth) {
    const ss_shape *shape = &ss_shapes[shape_index];
    unsigned n_fields = (unsigned)(shape->end_field - shape->first_field);
    occurrence found[SS_SHAPE_FIELDS_MAX];
    if (depth > SS_NESTING_MAX) {
        return fail(writer, SS_ERR_LIMIT, body.pos, "nested too deeply");
    }
    memset(found, 0, n_fields * sizeof *found);
    if (!find_fields(writer, shape, body, found) || !make_room(writer, 1)) {
        return false;
    }
    put_byte(writer, '{');
    bool is_first = true;
    for (unsigned i = 0; i < n_fields; i++) {
        const ss_shape_field *field = &ss_shape_fields[shape->first_field + i];
        if (found[i].count == 0) {
            continue;
        }
        bool ok = field->is_repeated ? write_key(writer, field, &is_first) &&
                                           write_repeated(writer, shape, field, found[i], body, depth)
                                     : write_singular(writer, shape, field, found[i], body, depth, &is_first);
        if (!ok) {
            return false;
        }
    }
    if (!make_room(writer, 1)) {
        return false;
    }
    put_byte(writer, '}');
    return true;
}

ss_status ss_otlp_to_json(ss_signal signal, const uint8_t *bytes, size_t length, ss_buffer *out, ss_error *error) {
    static const uint8_t nothing[1] = {0};
    const uint8_t *begin = length ? bytes : nothing;
    size_t length_before = out->length;
    /* The pieces of a sound message are fewer bytes than the message; nested merging could multiply them. */
    json_writer writer = {.out = out, .bytes = begin, .merge_budget = length};
    if (!write_message(&writer, (unsigned)signal, (ss_reader){begin, begin + length}, 0)) {
        out->length = length_before;
        if (error) {
            *error = writer.error;
        }
    }
    return writer.error.code;
}
