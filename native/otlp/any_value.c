/* Sources: opentelemetry-proto common/v1; OpenTelemetry Collector, pdata: Value.AsString. */
#include "otlp/any_value.h"

#include "core/utf8.h"
#include "otlp/check.h"
#include "otlp/json_text.h"

#include <math.h>
#include <stdlib.h>

#define TAG(field, wire) ((uint32_t)(field) << 3 | (wire))

/* ---------------------------------------------------------------- reading */

bool ss_any_value_read(ss_reader body, ss_any_value *value) {
    *value = (ss_any_value){0};
    while (body.pos < body.end) {
        uint64_t tag;
        bool ok = ss_read_varint(&body, &tag) && tag <= UINT32_MAX;
        if (!ok) {
            return false;
        }
        bool is_member = true;
        switch (tag) { /* a member of another wire type is an unknown field, as in every parser */
        case TAG(SS_ANY_VALUE_BOOL_VALUE, SS_WIRE_VARINT):
        case TAG(SS_ANY_VALUE_INT_VALUE, SS_WIRE_VARINT): ok = ss_read_varint(&body, &value->number); break;
        case TAG(SS_ANY_VALUE_DOUBLE_VALUE, SS_WIRE_FIXED64): ok = ss_read_fixed64(&body, &value->number); break;
        case TAG(SS_ANY_VALUE_STRING_VALUE, SS_WIRE_BYTES):
        case TAG(SS_ANY_VALUE_BYTES_VALUE, SS_WIRE_BYTES):
        case TAG(SS_ANY_VALUE_ARRAY_VALUE, SS_WIRE_BYTES):
        case TAG(SS_ANY_VALUE_KVLIST_VALUE, SS_WIRE_BYTES): ok = ss_read_bytes(&body, &value->bytes); break;
        default:
            is_member = false;
            ok = ss_skip_field(&body, (uint32_t)tag, 0);
            break;
        }
        if (!ok) {
            return false;
        }
        value->field = is_member ? tag >> 3 : value->field;
    }
    return true;
}

static ss_bytes bytes_of(ss_reader reader) {
    return (ss_bytes){reader.pos, (size_t)(reader.end - reader.pos)};
}

bool ss_next_field(ss_reader *message, uint32_t field, ss_reader *whole, ss_reader *body) {
    while (message->pos < message->end) {
        uint64_t tag;
        whole->pos = message->pos;
        if (!ss_read_varint(message, &tag) || tag > UINT32_MAX) {
            return false;
        }
        if (tag == TAG(field, SS_WIRE_BYTES)) {
            bool ok = ss_read_bytes(message, body);
            whole->end = message->pos;
            return ok;
        }
        if (!ss_skip_field(message, (uint32_t)tag, 0)) {
            return false;
        }
    }
    return false;
}

ss_bytes ss_last_field(ss_reader message, uint32_t field) {
    ss_bytes found = {0};
    for (ss_reader whole, body; ss_next_field(&message, field, &whole, &body);) {
        found = bytes_of(body);
    }
    return found;
}

bool ss_gather_field(ss_arena *arena, ss_reader message, uint32_t field, ss_bytes *found) {
    ss_gathered pieces = {0};
    for (ss_reader whole, body; ss_next_field(&message, field, &whole, &body);) {
        if (!ss_gather(arena, &pieces, bytes_of(body))) {
            return false;
        }
    }
    *found = pieces.bytes;
    return true;
}

/* Any layout: the last key counts, and all pieces of the value. */
static bool read_odd_key_value(ss_arena *arena, ss_reader body, ss_bytes *key, ss_bytes *value) {
    *key = ss_last_field(body, SS_KEY_VALUE_KEY);
    return ss_gather_field(arena, body, SS_KEY_VALUE_VALUE, value);
}

bool ss_key_value_read(ss_arena *arena, ss_reader body, ss_bytes *key, ss_bytes *value) {
    ss_reader rest = body, name, content;
    if (rest.end - rest.pos > 2 && *rest.pos == TAG(SS_KEY_VALUE_KEY, SS_WIRE_BYTES)) {
        rest.pos++;
        if (ss_read_bytes(&rest, &name) && rest.pos < rest.end && *rest.pos == TAG(SS_KEY_VALUE_VALUE, SS_WIRE_BYTES)) {
            rest.pos++;
            if (ss_read_bytes(&rest, &content) && rest.pos == rest.end) {
                *key = bytes_of(name);
                *value = bytes_of(content);
                return true;
            }
        }
    }
    return read_odd_key_value(arena, body, key, value);
}

static double double_of(const ss_any_value *value) {
    double number;
    memcpy(&number, &value->number, sizeof number);
    return number;
}

bool ss_any_value_number(const ss_any_value *value, double *number) {
    switch (value->field) {
    case SS_ANY_VALUE_INT_VALUE: *number = (double)(int64_t)value->number; return true;
    case SS_ANY_VALUE_DOUBLE_VALUE: *number = double_of(value); return true;
    default: return false;
    }
}

/* ---------------------------------------------------------------- the items of arrays and maps */

typedef struct item {
    ss_bytes key; /* of a map's */
    ss_bytes value;
} item;

typedef struct items {
    item *items;
    size_t n;
} items;

/* The items of an array, or of a map where has_keys, in their order. False: malformed or out of memory. */
static bool read_items(ss_arena *arena, ss_reader body, bool has_keys, items *found) {
    const uint32_t wanted =
        has_keys ? TAG(SS_KEY_VALUE_LIST_VALUES, SS_WIRE_BYTES) : TAG(SS_ARRAY_VALUE_VALUES, SS_WIRE_BYTES);
    *found = (items){0};
    for (int pass = 0; pass < 2; pass++) { /* count, then read */
        size_t n = 0;
        for (ss_reader rest = body; rest.pos < rest.end;) {
            uint64_t tag;
            ss_reader field;
            if (!ss_read_varint(&rest, &tag) || tag > UINT32_MAX) {
                return false;
            }
            if (tag != wanted) {
                if (!ss_skip_field(&rest, (uint32_t)tag, 0)) {
                    return false;
                }
                continue;
            }
            if (!ss_read_bytes(&rest, &field)) {
                return false;
            }
            if (pass == 1) {
                item *to = &found->items[n];
                *to = (item){.value = bytes_of(field)};
                if (has_keys && !ss_key_value_read(arena, field, &to->key, &to->value)) {
                    return false;
                }
            }
            n++;
        }
        if (pass == 0) {
            found->items = ss_arena_take(arena, n + 1, sizeof *found->items);
            if (!found->items) {
                return false;
            }
        }
        found->n = n;
    }
    return true;
}

static int compare_keys(ss_bytes a, ss_bytes b) {
    size_t length = a.length < b.length ? a.length : b.length;
    int order = length ? memcmp(a.data, b.data, length) : 0;
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

/* Sort by key, and leave of equal keys the last one. A merge sort from the bottom up: stable, and no sender makes it
 * slow. */
static bool sort_items(ss_arena *arena, items *map) {
    item *from = map->items;
    item *to = ss_arena_take(arena, map->n + 1, sizeof *to);
    if (!to) {
        return false;
    }
    for (size_t width = 1; width < map->n; width *= 2) {
        for (size_t start = 0; start < map->n; start += 2 * width) {
            size_t middle = start + width < map->n ? start + width : map->n;
            size_t end = middle + width < map->n ? middle + width : map->n;
            size_t left = start, right = middle;
            for (size_t i = start; i < end; i++) {
                bool takes_left = left < middle && (right == end || compare_keys(from[left].key, from[right].key) <= 0);
                to[i] = takes_left ? from[left++] : from[right++];
            }
        }
        item *sorted = to;
        to = from;
        from = sorted;
    }
    size_t n = 0;
    for (size_t i = 0; i < map->n; i++) {
        n -= n && ss_bytes_equal(from[n - 1].key, from[i].key);
        from[n++] = from[i];
    }
    *map = (items){from, n};
    return true;
}

/* ---------------------------------------------------------------- comparing */

/* One pair of items after the other: no deeper than the shallower of the two. */
static bool equal_items(ss_arena *arena, const ss_any_value *a, const ss_any_value *b) {
    bool is_map = a->field == SS_ANY_VALUE_KVLIST_VALUE;
    items x, y;
    if (!read_items(arena, a->bytes, is_map, &x) || !read_items(arena, b->bytes, is_map, &y) ||
        (is_map && !(sort_items(arena, &x) && sort_items(arena, &y)))) {
        return false;
    }
    bool is_equal = x.n == y.n;
    for (size_t i = 0; is_equal && i < x.n; i++) {
        is_equal = ss_bytes_equal(x.items[i].key, y.items[i].key) &&
                   ss_any_value_equal(arena, x.items[i].value, y.items[i].value);
    }
    return is_equal;
}

bool ss_any_value_equal(ss_arena *arena, ss_bytes a, ss_bytes b) {
    ss_any_value x, y;
    if (!ss_any_value_read(ss_reader_of(a), &x) || !ss_any_value_read(ss_reader_of(b), &y) || x.field != y.field) {
        return false;
    }
    switch (x.field) {
    case SS_ANY_VALUE_BOOL_VALUE: return !x.number == !y.number;
    case SS_ANY_VALUE_INT_VALUE: return x.number == y.number;
    case SS_ANY_VALUE_DOUBLE_VALUE: return double_of(&x) == double_of(&y);
    case SS_ANY_VALUE_STRING_VALUE:
    case SS_ANY_VALUE_BYTES_VALUE: return ss_bytes_equal(bytes_of(x.bytes), bytes_of(y.bytes));
    case SS_ANY_VALUE_ARRAY_VALUE:
    case SS_ANY_VALUE_KVLIST_VALUE: return equal_items(arena, &x, &y);
    default: return true;
    }
}

/* ---------------------------------------------------------------- text */

static bool put(ss_buffer *out, const void *bytes, size_t length) {
    return ss_buffer_append(out, bytes, length) == SS_OK;
}

static bool put_word(ss_buffer *out, const char *word) {
    return put(out, word, strlen(word));
}

static bool put_int(ss_buffer *out, int64_t number) {
    uint8_t text[1 + SS_UINT64_TEXT_MAX] = {'-'};
    uint8_t *end = ss_uint64_write(number < 0 ? 0 - (uint64_t)number : (uint64_t)number, text + (number < 0));
    return put(out, text, (size_t)(end - text));
}

static bool put_finite(ss_buffer *out, double number) {
    uint8_t text[SS_DOUBLE_TEXT_MAX];
    return put(out, text, (size_t)(ss_double_write(number, text) - text));
}

static bool put_double(ss_buffer *out, double number) {
    return isnan(number)   ? put_word(out, "NaN")
           : isinf(number) ? put_word(out, number > 0 ? "Infinity" : "-Infinity")
                           : put_finite(out, number);
}

static bool put_base64(ss_buffer *out, ss_reader bytes) {
    size_t size = ss_base64_size((size_t)(bytes.end - bytes.pos));
    if (ss_buffer_reserve(out, size) != SS_OK) {
        return false;
    }
    ss_base64_write(bytes.pos, bytes.end, out->data + out->length);
    out->length += size;
    return true;
}

/* A byte between quotes that cannot stand for itself, as Go's encoder without HTML escapes it. */
static bool put_escape(ss_buffer *out, uint8_t byte) {
    static const char digits[] = "0123456789abcdef";
    static const char letters[] = "b\bf\fn\nr\rt\t";
    for (const char *letter = letters; *letter; letter += 2) {
        if ((uint8_t)letter[1] == byte) {
            return put(out, (const char[]){'\\', letter[0]}, 2);
        }
    }
    if (byte >= ' ') {
        return put(out, (const char[]){'\\', (char)byte}, 2);
    }
    return put(out, (const char[]){'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 0xf]}, 6);
}

static bool put_json_text(ss_buffer *out, ss_bytes text) {
    const uint8_t *pos = text.data;
    const uint8_t *end = text.length ? pos + text.length : pos;
    bool ok = put_word(out, "\"");
    while (ok && pos < end) {
        const uint8_t *special = ss_find_special(pos, end);
        ok = put(out, pos, (size_t)(special - pos));
        pos = special;
        if (!ok || pos == end) {
            break;
        }
        unsigned length = ss_utf8_length(pos, end);
        if (length == 0) {
            ok = put_word(out, "\\ufffd");
            pos++;
        } else if (length == 1) {
            ok = put_escape(out, *pos++);
        } else if (length == 3 && pos[0] == 0xe2 && pos[1] == 0x80 && (pos[2] & 0xfe) == 0xa8) {
            ok = put_word(out, pos[2] & 1 ? "\\u2029" : "\\u2028"); /* lines of JavaScript end there */
            pos += length;
        } else {
            ok = put(out, pos, length);
            pos += length;
        }
    }
    return ok && put_word(out, "\"");
}

/* JSON of a value. has_json stays true unless something in it has none: infinity, or what is not a number. */
static bool put_json(ss_arena *arena, ss_bytes body, ss_buffer *out, bool *has_json) {
    ss_any_value value;
    items found;
    if (!ss_any_value_read(ss_reader_of(body), &value)) {
        return false;
    }
    const bool is_map = value.field == SS_ANY_VALUE_KVLIST_VALUE;
    bool ok = true;
    switch (value.field) {
    case SS_ANY_VALUE_BOOL_VALUE: return put_word(out, value.number ? "true" : "false");
    case SS_ANY_VALUE_INT_VALUE: return put_int(out, (int64_t)value.number);
    case SS_ANY_VALUE_DOUBLE_VALUE:
        *has_json = *has_json && isfinite(double_of(&value));
        return *has_json ? put_finite(out, double_of(&value)) : true;
    case SS_ANY_VALUE_STRING_VALUE: return put_json_text(out, bytes_of(value.bytes));
    case SS_ANY_VALUE_BYTES_VALUE:
        return value.bytes.pos == value.bytes.end
                   ? put_word(out, "null")
                   : put_word(out, "\"") && put_base64(out, value.bytes) && put_word(out, "\"");
    case SS_ANY_VALUE_ARRAY_VALUE:
    case SS_ANY_VALUE_KVLIST_VALUE:
        ok = read_items(arena, value.bytes, is_map, &found) && (!is_map || sort_items(arena, &found)) &&
             put_word(out, is_map ? "{" : "[");
        for (size_t i = 0; ok && i < found.n; i++) {
            ok = (i == 0 || put_word(out, ",")) &&
                 (!is_map || (put_json_text(out, found.items[i].key) && put_word(out, ":"))) &&
                 put_json(arena, found.items[i].value, out, has_json);
        }
        return ok && put_word(out, is_map ? "}" : "]");
    default: return put_word(out, "null");
    }
}

bool ss_any_value_text(ss_arena *arena, ss_bytes body, ss_buffer *out) {
    ss_any_value value;
    const size_t start = out->length;
    bool has_json = true;
    if (!ss_any_value_read(ss_reader_of(body), &value)) {
        return false;
    }
    switch (value.field) {
    case SS_ANY_VALUE_DOUBLE_VALUE: return put_double(out, double_of(&value));
    case SS_ANY_VALUE_STRING_VALUE: return put(out, value.bytes.pos, (size_t)(value.bytes.end - value.bytes.pos));
    case SS_ANY_VALUE_BYTES_VALUE: return put_base64(out, value.bytes);
    case 0: return true;
    default:
        if (!put_json(arena, body, out, &has_json)) {
            return false;
        }
        out->length = has_json ? out->length : start;
        return true;
    }
}

/* Digits without an exponent, of what ss_double_write writes. */
static bool put_plain(ss_buffer *out, double number) {
    uint8_t text[SS_DOUBLE_TEXT_MAX + 1];
    *ss_double_write(number, text) = 0;
    char *e = strchr((char *)text, 'e');
    if (!e) {
        return put_word(out, (const char *)text);
    }
    /* [-]d[.ddd]e[+-]xx: the digits move behind or in front of zeros. */
    long exponent = strtol(e + 1, NULL, 10);
    char digits[SS_DOUBLE_TEXT_MAX];
    size_t n_digits = 0;
    for (const char *pos = (const char *)text; pos < e; pos++) {
        if (*pos >= '0' && *pos <= '9') {
            digits[n_digits++] = *pos;
        }
    }
    bool ok = (text[0] != '-' || put_word(out, "-")) && (exponent > 0 || put_word(out, "0."));
    for (long zeros = -exponent - 1; ok && zeros > 0; zeros--) {
        ok = put_word(out, "0");
    }
    ok = ok && put(out, digits, n_digits); /* no double with an exponent above 20 has a fraction */
    for (long zeros = exponent + 1 - (long)n_digits; ok && exponent > 0 && zeros > 0; zeros--) {
        ok = put_word(out, "0");
    }
    return ok;
}

bool ss_any_value_match_text(const ss_any_value *value, ss_buffer *out) {
    double number;
    switch (value->field) {
    case SS_ANY_VALUE_BOOL_VALUE: return put_word(out, value->number ? "true" : "false");
    case SS_ANY_VALUE_INT_VALUE: return put_int(out, (int64_t)value->number);
    case SS_ANY_VALUE_DOUBLE_VALUE:
        number = double_of(value);
        return isnan(number)   ? put_word(out, "NaN")
               : isinf(number) ? put_word(out, number > 0 ? "+Inf" : "-Inf")
                               : put_plain(out, number);
    case SS_ANY_VALUE_STRING_VALUE: return put(out, value->bytes.pos, (size_t)(value->bytes.end - value->bytes.pos));
    default: return false;
    }
}

/* ---------------------------------------------------------------- writing */

/* A field that holds body. No data: out of memory. */
static ss_bytes wrap(ss_arena *arena, uint32_t field, ss_bytes body) {
    uint8_t *start = ss_arena_take(arena, 2 * SS_VARINT_MAX + body.length, 1);
    if (!start) {
        return (ss_bytes){0};
    }
    uint8_t *pos = ss_write_varint(ss_write_varint(start, TAG(field, SS_WIRE_BYTES)), body.length);
    if (body.length) {
        memcpy(pos, body.data, body.length);
    }
    return (ss_bytes){start, (size_t)(pos - start) + body.length};
}

ss_bytes ss_any_value_of_text(ss_arena *arena, ss_bytes text) {
    return wrap(arena, SS_ANY_VALUE_STRING_VALUE, text);
}

static ss_bytes of_varint(ss_arena *arena, uint32_t field, uint64_t number) {
    uint8_t *body = ss_arena_take(arena, 2 * SS_VARINT_MAX, 1);
    if (!body) {
        return (ss_bytes){0};
    }
    uint8_t *end = ss_write_varint(ss_write_varint(body, TAG(field, SS_WIRE_VARINT)), number);
    return (ss_bytes){body, (size_t)(end - body)};
}

ss_bytes ss_any_value_of_int(ss_arena *arena, int64_t number) {
    return of_varint(arena, SS_ANY_VALUE_INT_VALUE, (uint64_t)number);
}

ss_bytes ss_any_value_of_double(ss_arena *arena, double number) {
    uint8_t *body = ss_arena_take(arena, 1 + sizeof number, 1);
    if (!body) {
        return (ss_bytes){0};
    }
    *body = TAG(SS_ANY_VALUE_DOUBLE_VALUE, SS_WIRE_FIXED64);
    memcpy(body + 1, &number, sizeof number);
    return (ss_bytes){body, 1 + sizeof number};
}

/* A map's entry. */
static ss_bytes of_entry(ss_arena *arena, ss_text key, ss_bytes value) {
    ss_gathered pair = {0};
    ss_bytes first = wrap(arena, SS_KEY_VALUE_KEY, (ss_bytes){(const uint8_t *)key.data, key.length});
    ss_bytes second = value.data ? wrap(arena, SS_KEY_VALUE_VALUE, value) : value;
    bool ok = first.data && second.data && ss_gather(arena, &pair, first) && ss_gather(arena, &pair, second);
    return ok ? pair.bytes : (ss_bytes){0};
}

/* An array or a map. */
static ss_bytes of_items(ss_arena *arena, const ss_value *value, unsigned depth) {
    const bool is_map = value->type == SS_TYPE_MAP;
    const uint32_t field = is_map ? SS_KEY_VALUE_LIST_VALUES : SS_ARRAY_VALUE_VALUES;
    ss_gathered fields = {0};
    for (size_t i = 0; i < value->n_items; i++) {
        ss_bytes body = ss_any_value_of(arena, &value->items[i], depth - 1);
        body = is_map ? of_entry(arena, value->keys[i], body) : body;
        body = body.data ? wrap(arena, field, body) : body;
        if (!body.data || !ss_gather(arena, &fields, body)) {
            return (ss_bytes){0};
        }
    }
    return wrap(arena, is_map ? SS_ANY_VALUE_KVLIST_VALUE : SS_ANY_VALUE_ARRAY_VALUE, fields.bytes);
}

ss_bytes ss_any_value_of(ss_arena *arena, const ss_value *value, unsigned depth) {
    ss_bytes text = {(const uint8_t *)value->string.data, value->string.length};
    switch (value->type) {
    case SS_TYPE_STRING: return ss_any_value_of_text(arena, text);
    case SS_TYPE_BOOL: return of_varint(arena, SS_ANY_VALUE_BOOL_VALUE, value->integer != 0);
    case SS_TYPE_INT: return ss_any_value_of_int(arena, value->integer);
    case SS_TYPE_DOUBLE: return ss_any_value_of_double(arena, value->real);
    case SS_TYPE_ARRAY:
    case SS_TYPE_MAP: return depth ? of_items(arena, value, depth) : (ss_bytes){0};
    default: return (ss_bytes){(const uint8_t *)"", 0};
    }
}
