/*
 * OTLP/JSON -> protobuf: a pull parser that walks the text along the message shapes and writes wire bytes as it
 * goes; one pass, no tree. Source: OTLP specification, "JSON Protobuf Encoding"; RFC 8259. More lenient than the
 * specification exactly where the OpenTelemetry Collector's reader is.
 *
 * A nested message is written behind room for its length, as wide as the last one of its kind needed, and moved by
 * a byte or two when the guess was wrong. Repeated keys need no memory: on the wire, too, the last value wins.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/bytes.h"
#include "core/utf8.h"
#include "otlp/check.h"
#include "otlp/faults.h"
#include "otlp/json_text.h"
#include "otlp_shapes.h"

enum { TAG_MAX = 2, TRACE_ID_SIZE = 16, SPAN_ID_SIZE = 8 };

typedef struct json_reader {
    const uint8_t *begin, *pos, *end;
    uint8_t *out, *out_end; /* write position in buffer and the end of its room; buffer->length is stale meanwhile */
    ss_buffer *buffer;
    ss_holding *holding; /* of the buffers; NULL: nobody counts them */
    ss_buffer decoded;   /* the last string that held escapes, or was repaired */
    ss_buffer brackets;  /* of a value that is skipped */
    ss_error error;
    char path[SS_PATH_SIZE]; /* of the field with the error, written from its end on */
    bool judges_items;       /* ids that are none, texts that are not UTF-8 and deep values are no failure */
    uint64_t n_repaired;     /* texts */
    /* Where in its message's keys the next one stood when last this one was seen, less what the order of the table
     * suggests; senders repeat themselves. The last entries are for the first key of a message. */
    uint16_t follows[SS_N_SHAPE_KEYS + SS_N_SHAPES];
    uint8_t extra_width[SS_N_SHAPES]; /* bytes beyond the first of the last length prefix */
} json_reader;

/* A string's content, either in the input or in json_reader.decoded. */
typedef struct json_text {
    const uint8_t *data;
    size_t length;
} json_text;

static bool fail(json_reader *reader, ss_status code, const uint8_t *at, const char *reason) {
    reader->error = (ss_error){code, (uint64_t)(at - reader->begin), reason};
    return false;
}

/* Put text before the path. What gets too long loses its end. */
static void put_before(json_reader *reader, const char *text, size_t length) {
    static const char cut[] = "...";
    enum { LENGTH_MAX = SS_PATH_SIZE - 1 };
    char *path = reader->path;
    size_t before = strlen(path), rest = before < LENGTH_MAX - length ? before : LENGTH_MAX - length;
    memmove(path + length, path, rest);
    memcpy(path, text, length);
    path[length + rest] = 0;
    if (rest < before) {
        memcpy(path + LENGTH_MAX - (sizeof cut - 1), cut, sizeof cut);
    }
}

/* Put a name or a place before those steps of the path to the error that are within it. */
static void add_step(json_reader *reader, const char *step, size_t length) {
    if (reader->path[0] && reader->path[0] != '[') {
        put_before(reader, ".", 1);
    }
    put_before(reader, step, length);
}

static void add_place(json_reader *reader, size_t place) {
    char step[24];
    add_step(reader, step, (size_t)snprintf(step, sizeof step, "[%zu]", place));
}

/* What stands at the position is not what should, or the body ends there. */
static bool malformed(json_reader *reader, const char *reason, const char *reason_at_end) {
    return fail(reader, SS_ERR_MALFORMED, reader->pos, reader->pos == reader->end ? reason_at_end : reason);
}

static bool is_of_word(uint8_t byte) {
    return (uint8_t)((byte | 0x20) - 'a') < 26 || (uint8_t)(byte - '0') < 10 || (byte && strchr("+-.", byte));
}

/* The same of a number or a literal, within which, too, the body may end. */
static bool malformed_word(json_reader *reader, const char *reason, const char *reason_at_end) {
    const uint8_t *pos = reader->pos;
    while (pos < reader->end && is_of_word(*pos)) {
        pos++;
    }
    reader->pos = pos == reader->end ? pos : reader->pos;
    return malformed(reader, reason, reason_at_end);
}

/* ------------------------------------------------------------------ output */

static bool reserve(json_reader *reader, ss_buffer *buffer, size_t n) {
    ss_status status = ss_holding_reserve(reader->holding, buffer, n);
    return status == SS_OK || fail(reader, status, reader->pos, ss_reason_memory);
}

/* Set the write position behind buffer->length, with room for n bytes. */
static bool place_output(json_reader *reader, size_t n) {
    ss_buffer *buffer = reader->buffer;
    if (!reserve(reader, buffer, n)) {
        return false;
    }
    reader->out = buffer->data + buffer->length;
    reader->out_end = buffer->data + buffer->capacity;
    return true;
}

static bool grow(json_reader *reader, size_t n) {
    reader->buffer->length = (size_t)(reader->out - reader->buffer->data);
    return place_output(reader, n);
}

static inline bool make_room(json_reader *reader, size_t n) {
    return __builtin_expect((size_t)(reader->out_end - reader->out) >= n, 1) || grow(reader, n);
}

/* REQUIRES: room for TAG_MAX bytes. */
static inline void put_tag(json_reader *reader, const ss_shape_field *field) {
    memcpy(reader->out, field->tag, TAG_MAX);
    reader->out += field->tag_length;
}

static bool put_bytes(json_reader *reader, const ss_shape_field *field, json_text text) {
    if (!make_room(reader, TAG_MAX + SS_VARINT_MAX + text.length)) {
        return false;
    }
    put_tag(reader, field);
    reader->out = ss_write_varint(reader->out, text.length);
    if (text.length) {
        memcpy(reader->out, text.data, text.length);
        reader->out += text.length;
    }
    return true;
}

/* Start a length-delimited value of unknown length; returns where its length prefix stands.
 * REQUIRES: room for SS_VARINT_MAX bytes. */
static size_t open_length(json_reader *reader, uint8_t extra_width) {
    size_t at = (size_t)(reader->out - reader->buffer->data);
    reader->out += 1 + extra_width;
    return at;
}

static bool close_length(json_reader *reader, size_t at, uint8_t *extra_width) {
    size_t width = 1 + (size_t)*extra_width;
    size_t length = (size_t)(reader->out - reader->buffer->data) - at - width;
    size_t need = ss_varint_size(length);
    if (need != width) {
        if (!make_room(reader, need)) {
            return false;
        }
        uint8_t *prefix = reader->buffer->data + at;
        memmove(prefix + need, prefix + width, length);
        reader->out = prefix + need + length;
        *extra_width = (uint8_t)(need - 1);
    }
    ss_write_varint(reader->buffer->data + at, length);
    return true;
}

/* ------------------------------------------------------------------ tokens */

static inline void skip_space(json_reader *reader) {
    const uint8_t *pos = reader->pos;
    while (pos < reader->end && (*pos == ' ' || *pos == '\n' || *pos == '\r' || *pos == '\t')) {
        pos++;
    }
    reader->pos = pos;
}

/* The byte at the position; 0, which begins no token, at the end. */
static inline uint8_t peek(const json_reader *reader) {
    return reader->pos < reader->end ? *reader->pos : 0;
}

static inline bool take(json_reader *reader, uint8_t byte) {
    if (peek(reader) != byte) {
        return false;
    }
    reader->pos++;
    return true;
}

static bool take_word(json_reader *reader, const char *word, size_t length) {
    if ((size_t)(reader->end - reader->pos) < length || memcmp(reader->pos, word, length) != 0) {
        return false;
    }
    reader->pos += length;
    return true;
}

/* A literal null stands for an absent field. */
static inline bool take_null(json_reader *reader) {
    return peek(reader) == 'n' && take_word(reader, "null", 4);
}

static const uint8_t not_hex = 0xff;

static inline uint8_t hex_digit(uint8_t byte) {
    if ((uint8_t)(byte - '0') < 10) {
        return (uint8_t)(byte - '0');
    }
    uint8_t letter = (uint8_t)((byte | 0x20) - 'a');
    return letter < 6 ? (uint8_t)(letter + 10) : not_hex;
}

/* The four digits of a \u escape. */
static bool read_code_unit(const uint8_t *pos, const uint8_t *end, uint32_t *unit) {
    if (end - pos < 4) {
        return false;
    }
    *unit = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint8_t digit = hex_digit(pos[i]);
        if (digit == not_hex) {
            return false;
        }
        *unit = *unit << 4 | digit;
    }
    return true;
}

static uint8_t *write_utf8(uint8_t *out, uint32_t character) {
    if (character < 0x80) {
        *out++ = (uint8_t)character;
    } else if (character < 0x800) {
        *out++ = (uint8_t)(0xc0 | character >> 6);
        *out++ = (uint8_t)(0x80 | (character & 0x3f));
    } else if (character < 0x10000) {
        *out++ = (uint8_t)(0xe0 | character >> 12);
        *out++ = (uint8_t)(0x80 | (character >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (character & 0x3f));
    } else {
        *out++ = (uint8_t)(0xf0 | character >> 18);
        *out++ = (uint8_t)(0x80 | (character >> 12 & 0x3f));
        *out++ = (uint8_t)(0x80 | (character >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (character & 0x3f));
    }
    return out;
}

/* Read the escape at *pos, a backslash, and write its character; a surrogate without its partner becomes U+FFFD. */
static bool decode_escape(json_reader *reader, const uint8_t **pos, const uint8_t *end, uint8_t **out) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const uint8_t *at = *pos + 1; /* the scan of the string saw to it that there is a byte */
    if (*at != 'u') {
        const char *letter = *at ? strchr(letters, *at) : NULL;
        if (!letter) {
            return fail(reader, SS_ERR_MALFORMED, *pos, "unknown escape in a string");
        }
        *(*out)++ = (uint8_t)meanings[letter - letters];
        *pos = at + 1;
        return true;
    }
    uint32_t unit, low;
    if (!read_code_unit(at + 1, end, &unit)) {
        return fail(reader, SS_ERR_MALFORMED, *pos, "\\u must be followed by 4 hex digits");
    }
    at += 5;
    if (unit >= 0xd800 && unit < 0xdc00 && end - at >= 2 && at[0] == '\\' && at[1] == 'u' &&
        read_code_unit(at + 2, end, &low) && low >= 0xdc00 && low < 0xe000) {
        unit = 0x10000 + ((unit - 0xd800) << 10 | (low - 0xdc00));
        at += 6;
    } else if (unit >= 0xd800 && unit < 0xe000) {
        unit = 0xfffd;
    }
    *out = write_utf8(*out, unit);
    *pos = at;
    return true;
}

/* Decode the string content [pos, end), which has escapes or is not all UTF-8, into reader->decoded. */
static bool decode_string(json_reader *reader, const uint8_t *pos, const uint8_t *end, json_text *text) {
    reader->decoded.length = 0;
    if (!reserve(reader, &reader->decoded, ss_utf8_repaired_size(pos, end))) {
        return false;
    }
    uint8_t *out = reader->decoded.data; /* every escape is at least as long as its character */
    while (pos < end) {
        const uint8_t *escape = memchr(pos, '\\', (size_t)(end - pos));
        const uint8_t *plain_end = escape ? escape : end;
        out = ss_utf8_repair(pos, plain_end, out);
        pos = plain_end;
        if (pos < end && !decode_escape(reader, &pos, end, &out)) {
            return false;
        }
    }
    *text = (json_text){reader->decoded.data, (size_t)(out - reader->decoded.data)};
    return true;
}

/* Read a string; text is valid until the next string. */
static bool read_string(json_reader *reader, json_text *text) {
    if (!take(reader, '"')) {
        return malformed(reader, "expected a string", "body ends early, before a string");
    }
    const uint8_t *begin = reader->pos, *pos = begin, *end = reader->end;
    bool has_escapes = false, is_broken = false;
    for (;;) {
        pos = ss_find_special(pos, end);
        if (pos == end) {
            return fail(reader, SS_ERR_MALFORMED, begin - 1, "body ends early, in the string that begins");
        }
        if (*pos == '"') {
            break;
        }
        if (*pos == '\\') {
            has_escapes = true;
            pos += end - pos >= 2 ? 2 : 1;
            continue;
        }
        if (*pos < ' ') {
            return fail(reader, SS_ERR_MALFORMED, pos, "control character in a string");
        }
        unsigned length = ss_utf8_length(pos, end);
        if (length == 0) {
            /* Where no quote follows, the character may have been cut off with the body. */
            if (!reader->judges_items && memchr(pos, '"', (size_t)(end - pos))) {
                return fail(reader, SS_ERR_MALFORMED, pos, "string is not valid UTF-8");
            }
            is_broken = true;
            length = 1;
        }
        pos += length;
    }
    reader->pos = pos + 1;
    if (has_escapes || is_broken) {
        reader->n_repaired += is_broken;
        return decode_string(reader, begin, pos, text);
    }
    *text = (json_text){begin, (size_t)(pos - begin)};
    return true;
}

/* Move past the colon behind a key, to the value. */
static inline bool read_colon(json_reader *reader) {
    skip_space(reader);
    if (!take(reader, ':')) {
        return malformed(reader, "expected ':'", "body ends early, behind a key");
    }
    skip_space(reader);
    return true;
}

/* Behind an element: true when another one follows. Otherwise *is_done tells the end from an error. */
static inline bool read_comma(json_reader *reader, uint8_t closer, bool *is_done) {
    skip_space(reader);
    if (take(reader, ',')) {
        skip_space(reader);
        return true;
    }
    *is_done = take(reader, closer);
    if (!*is_done) {
        bool in_object = closer == '}';
        malformed(reader, in_object ? "expected ',' or '}'" : "expected ',' or ']'",
                  in_object ? "body ends early, in an object" : "body ends early, in an array");
    }
    return false;
}

static bool skip_scalar(json_reader *reader) {
    json_text ignored_text;
    ss_decimal ignored_number;
    if (peek(reader) == '"') {
        return read_string(reader, &ignored_text);
    }
    const uint8_t *behind = ss_decimal_scan(reader->pos, reader->end, true, &ignored_number);
    if (behind) {
        reader->pos = behind;
        return true;
    }
    return take_word(reader, "true", 4) || take_word(reader, "false", 5) || take_null(reader) ||
           malformed_word(reader, "expected a value", "body ends early, in a value");
}

static bool skip_key(json_reader *reader) {
    json_text ignored_text;
    return read_string(reader, &ignored_text) && read_colon(reader);
}

/* Remember of the object or the array that begins which it is: a bit a level. */
static bool push_bracket(json_reader *reader, size_t depth, bool is_object) {
    ss_buffer *brackets = &reader->brackets;
    brackets->length = depth / 8;
    if (!reserve(reader, brackets, 1)) {
        return false;
    }
    uint8_t bit = (uint8_t)(1 << depth % 8);
    uint8_t *byte = &brackets->data[depth / 8];
    *byte = (uint8_t)(is_object ? *byte | bit : *byte & ~bit);
    return true;
}

/* Skip any value, however deep, checking its grammar. */
static bool skip_value(json_reader *reader) {
    for (size_t depth = 0;;) {
        const uint8_t first = peek(reader);
        bool has_begun = false;
        if (first == '{' || first == '[') {
            reader->pos++;
            skip_space(reader);
            has_begun = !take(reader, first == '{' ? '}' : ']');
            if (has_begun && (!push_bracket(reader, depth++, first == '{') || (first == '{' && !skip_key(reader)))) {
                return false;
            }
        } else if (!skip_scalar(reader)) {
            return false;
        }
        while (!has_begun) { /* behind a value: another one, or the end of what it is in */
            if (depth == 0) {
                return true;
            }
            const bool in_object = reader->brackets.data[(depth - 1) / 8] >> (depth - 1) % 8 & 1;
            bool is_done = false;
            if (read_comma(reader, in_object ? '}' : ']', &is_done)) {
                if (in_object && !skip_key(reader)) {
                    return false;
                }
                has_begun = true;
            } else if (is_done) {
                depth--;
            } else {
                return false;
            }
        }
    }
}

/* ------------------------------------------------------------------ scalars */

/* Take a number, bare or in a string as senders write 64-bit integers; false, having moved nowhere, where there is none
 * or where its string has escapes. */
static bool take_decimal(json_reader *reader, ss_decimal *number) {
    bool is_quoted = peek(reader) == '"';
    const uint8_t *behind = ss_decimal_scan(reader->pos + is_quoted, reader->end, !is_quoted, number);
    if (!behind || (is_quoted && (behind == reader->end || *behind != '"'))) {
        return false;
    }
    reader->pos = behind + is_quoted;
    return true;
}

/* Read the string where take_decimal found no number. */
static bool read_number_text(json_reader *reader, json_text *text) {
    return peek(reader) == '"' ? read_string(reader, text)
                               : malformed_word(reader, "expected a number", "body ends early, in a number");
}

static bool parse_decimal(json_text text, ss_decimal *number) {
    const uint8_t *end = text.data + text.length;
    return ss_decimal_scan(text.data, end, false, number) == end;
}

/* Read an integer of at most bits bits as the wire's varint or fixed value has it. */
static bool read_integer(json_reader *reader, bool is_signed, unsigned bits, uint64_t *value) {
    const uint8_t *at = reader->pos;
    json_text text;
    ss_decimal number;
    uint64_t magnitude;
    if (!take_decimal(reader, &number)) {
        if (!read_number_text(reader, &text)) {
            return false;
        }
        if (!parse_decimal(text, &number)) {
            return fail(reader, SS_ERR_MALFORMED, at, "expected a number");
        }
    }
    if (!ss_decimal_to_uint64(&number, &magnitude)) {
        return fail(reader, SS_ERR_MALFORMED, at, "expected an integer that fits its field");
    }
    uint64_t largest = UINT64_MAX >> (64 - bits + is_signed);
    if (magnitude > largest + (is_signed && number.negative) || (!is_signed && number.negative && magnitude)) {
        return fail(reader, SS_ERR_MALFORMED, at, "integer out of its field's range");
    }
    *value = number.negative ? 0 - magnitude : magnitude;
    return true;
}

static bool equals_ignoring_case(json_text text, const char *lower_case, size_t length) {
    if (text.length != length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if ((text.data[i] | 0x20) != lower_case[i]) {
            return false;
        }
    }
    return true;
}

/* The values that have no digits, in the spellings of Go's ParseFloat, where case does not count. */
static bool parse_special_double(json_text text, double *value) {
    if (equals_ignoring_case(text, "nan", 3)) {
        *value = (double)NAN;
        return true;
    }
    bool is_negative = text.length && *text.data == '-';
    if (is_negative || (text.length && *text.data == '+')) {
        text = (json_text){text.data + 1, text.length - 1};
    }
    *value = is_negative ? -(double)INFINITY : (double)INFINITY;
    return equals_ignoring_case(text, "inf", 3) || equals_ignoring_case(text, "infinity", 8);
}

static bool read_double(json_reader *reader, uint64_t *bits) {
    const uint8_t *at = reader->pos;
    json_text text;
    ss_decimal number;
    double value;
    bool is_special = false;
    if (!take_decimal(reader, &number)) {
        if (!read_number_text(reader, &text)) {
            return false;
        }
        is_special = parse_special_double(text, &value);
        if (!is_special && !parse_decimal(text, &number)) {
            return fail(reader, SS_ERR_MALFORMED, at, "expected a number");
        }
    }
    if (!is_special && !ss_decimal_to_double(&number, &value)) {
        return fail(reader, SS_ERR_MALFORMED, at, "number too large for a double");
    }
    memcpy(bits, &value, sizeof value);
    return true;
}

static bool read_bool(json_reader *reader, uint64_t *value) {
    *value = peek(reader) == 't';
    return take_word(reader, "true", 4) || take_word(reader, "false", 5) ||
           malformed_word(reader, "expected true or false", "body ends early, in true or false");
}

/* Read an enum, by number or by name. */
static bool read_enum(json_reader *reader, const ss_shape_field *field, uint64_t *value) {
    if (peek(reader) != '"') {
        return read_integer(reader, true, 32, value);
    }
    const uint8_t *at = reader->pos;
    json_text text;
    if (!read_string(reader, &text)) {
        return false;
    }
    for (unsigned i = field->first_enum; i < field->end_enum; i++) {
        const ss_enum_name *name = &ss_enum_names[i];
        if (name->length == text.length && memcmp(name->name, text.data, text.length) == 0) {
            *value = (uint64_t)(int64_t)name->value;
            return true;
        }
    }
    reader->pos = at;
    return read_integer(reader, true, 32, value) ||
           fail(reader, SS_ERR_MALFORMED, at, "expected a number or a name of this enum");
}

/* Read a scalar that is not a string or bytes as the value that stands on the wire. */
static bool read_scalar(json_reader *reader, const ss_shape_field *field, uint64_t *value) {
    switch (field->type) {
    case SS_FIELD_DOUBLE: return read_double(reader, value);
    case SS_FIELD_BOOL: return read_bool(reader, value);
    case SS_FIELD_ENUM: return read_enum(reader, field, value);
    case SS_FIELD_INT64:
    case SS_FIELD_SFIXED64: return read_integer(reader, true, 64, value);
    case SS_FIELD_UINT64:
    case SS_FIELD_FIXED64: return read_integer(reader, false, 64, value);
    case SS_FIELD_UINT32:
    case SS_FIELD_FIXED32: return read_integer(reader, false, 32, value);
    case SS_FIELD_INT32: return read_integer(reader, true, 32, value);
    default: /* SS_FIELD_SINT32 */
        if (!read_integer(reader, true, 32, value)) {
            return false;
        }
        *value = (*value << 1 ^ (uint64_t)((int64_t)*value >> 63)) & UINT32_MAX;
        return true;
    }
}

/* REQUIRES: room for SS_VARINT_MAX bytes. */
static inline void put_scalar(json_reader *reader, const ss_shape_field *field, uint64_t value) {
    if (field->wire == SS_WIRE_VARINT) {
        reader->out = ss_write_varint(reader->out, value);
    } else {
        size_t size = field->wire == SS_WIRE_FIXED64 ? 8 : 4;
        memcpy(reader->out, &value, size);
        reader->out += size;
    }
}

/* ------------------------------------------------------------------ bytes */

static const uint8_t not_base64 = 0xff;

static uint8_t base64_digit(uint8_t byte) {
    if (byte >= 'A' && byte <= 'Z') {
        return (uint8_t)(byte - 'A');
    }
    if (byte >= 'a' && byte <= 'z') {
        return (uint8_t)(byte - 'a' + 26);
    }
    if (byte >= '0' && byte <= '9') {
        return (uint8_t)(byte - '0' + 52);
    }
    if (byte == '+' || byte == '-') {
        return 62;
    }
    return byte == '/' || byte == '_' ? 63 : not_base64;
}

/* The length without padding; false when padding or length cannot be. */
static bool trim_base64(json_text *text) {
    size_t padding = 0;
    while (padding < 2 && padding < text->length && text->data[text->length - 1 - padding] == '=') {
        padding++;
    }
    if (padding && text->length % 4 != 0) {
        return false;
    }
    text->length -= padding;
    return text->length % 4 != 1;
}

/* Read standard or URL-safe base64, padded or not. */
static bool read_base64(json_reader *reader, const ss_shape_field *field, bool keep_empty) {
    const uint8_t *at = reader->pos;
    json_text text;
    if (!read_string(reader, &text)) {
        return false;
    }
    if (!trim_base64(&text)) {
        return fail(reader, SS_ERR_MALFORMED, at, "bytes must be base64");
    }
    size_t length = text.length / 4 * 3 + (text.length % 4 + 1) / 2;
    if (length == 0 && !keep_empty) {
        return true;
    }
    if (!make_room(reader, TAG_MAX + SS_VARINT_MAX + length)) {
        return false;
    }
    put_tag(reader, field);
    reader->out = ss_write_varint(reader->out, length);
    uint32_t bits = 0;
    for (size_t i = 0; i < text.length; i++) {
        uint8_t digit = base64_digit(text.data[i]);
        if (digit == not_base64) {
            return fail(reader, SS_ERR_MALFORMED, at, "bytes must be base64");
        }
        bits = bits << 6 | digit;
        if (i % 4 != 0) {
            *reader->out++ = (uint8_t)(bits >> (6 - 2 * (i % 4)));
        }
    }
    return true;
}

bool ss_json_id_is_base64(const uint8_t *data, size_t length, size_t size) {
    json_text text = {data, length};
    if (!trim_base64(&text) || text.length != (size * 8 + 5) / 6) {
        return false;
    }
    for (size_t i = 0; i < text.length; i++) {
        if (base64_digit(text.data[i]) == not_base64) {
            return false;
        }
    }
    return true;
}

/* An id that is none. Where it may cost its item alone it goes on as its text, with a NUL behind it where it would have
 * the length of an id: whoever reads the request sees that it is none, and what was sent. */
static bool judge_id(json_reader *reader, const ss_shape_field *field, const uint8_t *at, json_text text, size_t size) {
    static const char *const reasons[3][2] = {
        {"trace id must be 32 hex digits", "trace id must be 32 hex digits; this looks like base64"},
        {"span id must be 16 hex digits", "span id must be 16 hex digits; this looks like base64"},
        {"parent span id must be 16 hex digits", "parent span id must be 16 hex digits; this looks like base64"},
    };
    if (!reader->judges_items) {
        bool is_base64 = ss_json_id_is_base64(text.data, text.length, size);
        return fail(reader, SS_ERR_MALFORMED, at, reasons[field->type - SS_FIELD_TRACE_ID][is_base64]);
    }
    size_t padding = text.length == size;
    if (!make_room(reader, TAG_MAX + SS_VARINT_MAX + text.length + padding)) {
        return false;
    }
    put_tag(reader, field);
    reader->out = ss_write_varint(reader->out, text.length + padding);
    memcpy(reader->out, text.data, text.length);
    reader->out += text.length;
    if (padding) {
        *reader->out++ = 0;
    }
    return true;
}

/* Read an id: hex digits of either case, or nothing. */
static bool read_id(json_reader *reader, const ss_shape_field *field, bool keep_empty) {
    const uint8_t *at = reader->pos;
    json_text text;
    if (!read_string(reader, &text)) {
        return false;
    }
    if (text.length == 0) {
        return !keep_empty || put_bytes(reader, field, text);
    }
    size_t size = field->type == SS_FIELD_TRACE_ID ? TRACE_ID_SIZE : SPAN_ID_SIZE;
    if (text.length != 2 * size) {
        return judge_id(reader, field, at, text, size);
    }
    uint8_t id[TRACE_ID_SIZE];
    unsigned bad = 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t high = hex_digit(text.data[2 * i]), low = hex_digit(text.data[2 * i + 1]);
        bad |= high | low;
        id[i] = (uint8_t)(high << 4 | (low & 0xf));
    }
    return bad <= 0xf ? put_bytes(reader, field, (json_text){id, size}) : judge_id(reader, field, at, text, size);
}

/* ------------------------------------------------------------------ messages */

static bool read_message(json_reader *reader, unsigned shape_index, unsigned depth);

/* Read a message as the value of field. */
static bool read_submessage(json_reader *reader, const ss_shape_field *field, unsigned depth) {
    if (!make_room(reader, TAG_MAX + SS_VARINT_MAX)) {
        return false;
    }
    put_tag(reader, field);
    /* A copy, since a message may hold more of its own kind. */
    uint8_t extra_width = reader->extra_width[field->shape];
    size_t at = open_length(reader, extra_width);
    if (!read_message(reader, field->shape, depth + 1) || !close_length(reader, at, &extra_width)) {
        return false;
    }
    reader->extra_width[field->shape] = extra_width;
    return true;
}

/* A null behind a value of the same key takes a scalar back, and adds nothing to an array or a message: as in the
 * Collector. */
static bool put_zero(json_reader *reader, const ss_shape_field *field) {
    if (field->is_repeated || field->type == SS_FIELD_MESSAGE) {
        return true;
    }
    if (field->wire == SS_WIRE_BYTES) {
        return put_bytes(reader, field, (json_text){NULL, 0});
    }
    if (!make_room(reader, TAG_MAX + SS_VARINT_MAX)) {
        return false;
    }
    put_tag(reader, field);
    put_scalar(reader, field, 0);
    return true;
}

/* Read one value that is no array. keep_zero: write it even where absence would say the same. */
static bool read_value(json_reader *reader, const ss_shape_field *field, bool keep_zero, unsigned depth) {
    json_text text;
    uint64_t value;
    switch (field->type) {
    case SS_FIELD_MESSAGE: return read_submessage(reader, field, depth);
    case SS_FIELD_STRING:
        return read_string(reader, &text) && ((!text.length && !keep_zero) || put_bytes(reader, field, text));
    case SS_FIELD_BYTES: return read_base64(reader, field, keep_zero);
    case SS_FIELD_TRACE_ID:
    case SS_FIELD_SPAN_ID:
    case SS_FIELD_PARENT_SPAN_ID: return read_id(reader, field, keep_zero);
    default:
        if (!read_scalar(reader, field, &value) || !make_room(reader, TAG_MAX + SS_VARINT_MAX)) {
            return false;
        }
        if (value || keep_zero) {
            put_tag(reader, field);
            put_scalar(reader, field, value);
        }
        return true;
    }
}

static inline bool read_element(json_reader *reader, const ss_shape_field *field, unsigned depth) {
    if (field->is_packed) {
        uint64_t value;
        if (!read_scalar(reader, field, &value) || !make_room(reader, SS_VARINT_MAX)) {
            return false;
        }
        put_scalar(reader, field, value);
        return true;
    }
    if (field->type == SS_FIELD_MESSAGE && take_null(reader)) {
        /* Holds a place, as the null of an AnyValue array does. */
        return put_bytes(reader, field, (json_text){NULL, 0});
    }
    return read_value(reader, field, true, depth);
}

/* Read the elements of an array behind its bracket; there is at least one. */
static bool read_elements(json_reader *reader, const ss_shape_field *field, unsigned depth) {
    bool is_done = false;
    size_t place = 0;
    do {
        if (!read_element(reader, field, depth)) {
            add_place(reader, place);
            return false;
        }
        place++;
    } while (read_comma(reader, ']', &is_done));
    return is_done;
}

static bool read_array(json_reader *reader, const ss_shape_field *field, unsigned depth) {
    if (!take(reader, '[')) {
        return malformed(reader, "expected an array", "body ends early, before an array");
    }
    skip_space(reader);
    if (take(reader, ']')) {
        return true;
    }
    if (!field->is_packed) {
        return read_elements(reader, field, depth);
    }
    if (!make_room(reader, TAG_MAX + SS_VARINT_MAX)) {
        return false;
    }
    put_tag(reader, field);
    uint8_t extra_width = 0;
    size_t at = open_length(reader, extra_width);
    return read_elements(reader, field, depth) && close_length(reader, at, &extra_width);
}

/* Read a key and its colon. NULL: none of this message's keys, or an error when reader->error says so.
 * guess: where to expect it; remembers where it was. */
static const ss_shape_key *read_key(json_reader *reader, const ss_shape *shape, unsigned guess_from, uint16_t *guess) {
    unsigned guessed = (uint16_t)(guess_from + *guess);
    if (guessed >= shape->first_key && guessed < shape->end_key) {
        const ss_shape_key *key = &ss_shape_keys[guessed];
        const uint8_t *pos = reader->pos;
        if ((size_t)(reader->end - pos) > key->length + 2u && pos[0] == '"' && pos[key->length + 1] == '"' &&
            memcmp(pos + 1, key->name, key->length) == 0) {
            reader->pos = pos + key->length + 2;
            return read_colon(reader) ? key : NULL;
        }
    }
    json_text text;
    if (!read_string(reader, &text) || !read_colon(reader)) {
        return NULL;
    }
    for (unsigned i = shape->first_key; i < shape->end_key; i++) {
        const ss_shape_key *key = &ss_shape_keys[i];
        if (key->length == text.length && memcmp(key->name, text.data, text.length) == 0) {
            *guess = (uint16_t)(i - guess_from);
            return key;
        }
    }
    return NULL;
}

static bool read_message(json_reader *reader, unsigned shape_index, unsigned depth) {
    const ss_shape *shape = &ss_shapes[shape_index];
    if (depth >
        SS_DEPTH_MAX) { /* an item may be the only one that is so deep: the scan sees that by the empty message */
        return reader->judges_items ? skip_value(reader)
                                    : fail(reader, SS_ERR_LIMIT, reader->pos, "messages are nested too deeply");
    }
    if (!take(reader, '{')) {
        return malformed(reader, "expected an object", "body ends early, before an object");
    }
    skip_space(reader);
    if (take(reader, '}')) {
        return true;
    }
    unsigned guess_from = shape->first_key;
    uint16_t *guess = &reader->follows[SS_N_SHAPE_KEYS + shape_index];
    uint32_t seen = 0; /* fields written so far: a zero after another value must be written to count */
    bool is_done = false;
    do {
        const ss_shape_key *key = read_key(reader, shape, guess_from, guess);
        if (!key) {
            if (reader->error.code != SS_OK || !skip_value(reader)) {
                return false;
            }
            continue;
        }
        unsigned key_index = (unsigned)(key - ss_shape_keys);
        guess_from = key_index + 1;
        guess = &reader->follows[key_index];
        const ss_shape_field *field = &ss_shape_fields[key->field];
        uint32_t bit = UINT32_C(1) << (key->field - shape->first_field);
        if (take_null(reader)) {
            if ((seen & bit) && !put_zero(reader, field)) {
                return false;
            }
            continue;
        }
        bool keep_zero = field->has_presence || (seen & bit);
        seen |= bit;
        if (!(field->is_repeated ? read_array(reader, field, depth) : read_value(reader, field, keep_zero, depth))) {
            add_step(reader, key->name, key->length);
            return false;
        }
    } while (read_comma(reader, '}', &is_done));
    return is_done;
}

static bool read_request(json_reader *reader, ss_signal signal) {
    if (reader->pos == reader->end) {
        return fail(reader, SS_ERR_MALFORMED, reader->pos, "empty body");
    }
    static const uint8_t byte_order_mark[] = {0xef, 0xbb, 0xbf};
    take_word(reader, (const char *)byte_order_mark, sizeof byte_order_mark);
    skip_space(reader);
    if (!read_message(reader, (unsigned)signal, 0)) {
        return false;
    }
    skip_space(reader);
    return reader->pos == reader->end ||
           fail(reader, SS_ERR_MALFORMED, reader->pos, "unexpected text behind the request");
}

static ss_status read_into(json_reader *reader, ss_signal signal, size_t length, ss_buffer *out, ss_error *error) {
    _Static_assert(SS_SHAPE_FIELDS_MAX <= 32, "read_message's seen has a bit for each field");
    size_t length_before = out->length;
    reader->buffer = out;
    /* Wire bytes are about half as long as their JSON. */
    if (place_output(reader, length / 2 + SS_VARINT_MAX) && read_request(reader, signal)) {
        out->length = (size_t)(reader->out - out->data);
    } else {
        out->length = length_before;
        if (error) {
            *error = reader->error;
        }
    }
    ss_holding_free(reader->holding, &reader->decoded);
    ss_holding_free(reader->holding, &reader->brackets);
    return reader->error.code;
}

ss_status ss_json_to_otlp(ss_signal signal, const uint8_t *json, size_t length, ss_buffer *out, ss_error *error) {
    json_reader reader = {.begin = json, .pos = json, .end = length ? json + length : json};
    return read_into(&reader, signal, length, out, error);
}

ss_status ss_json_to_otlp_items(ss_signal signal, const uint8_t *json, size_t length, ss_holding *holding,
                                ss_buffer *out, uint64_t *n_texts, char path[SS_PATH_SIZE], ss_error *error) {
    json_reader reader = {
        .begin = json, .pos = json, .end = length ? json + length : json, .holding = holding, .judges_items = true};
    ss_status status = read_into(&reader, signal, length, out, error);
    *n_texts = reader.n_repaired;
    memcpy(path, reader.path, SS_PATH_SIZE);
    return status;
}
