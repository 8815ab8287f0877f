/*
 * attributes and resource: insert, update, delete, hash, extract and convert attributes of items, or of resources.
 *
 * Source: OpenTelemetry Collector contrib, internal/coreinternal/attraction: the actions and their meaning. An item in
 * which no action finds what it looks for is not written anew, and not even read but for the keys.
 */
#include "ops/attributes.h"

#include "core/verdict.h"
#include "ops/number.h"
#include "otlp/any_value.h"
#include "otlp/table.h"

#include <stdlib.h>

#define TAG(field, wire) ((uint32_t)(field) << 3 | (wire))

enum { RETRY_MS = 1000, DELETED_MAX = 64, RETAINED_BYTES = 1 << 20 };

/* ---------------------------------------------------------------- the compiled configuration */

typedef struct action {
    ss_attribute_verb verb;
    ss_bytes key;
    ss_pattern *pattern; /* NULL: none */
    bool has_value;
    bool has_fallback;
    ss_bytes value;          /* body of an AnyValue */
    ss_bytes from_metadata;  /* empty: not from there */
    ss_bytes from_attribute; /* empty: not from there */
    ss_bytes fallback;       /* body of an AnyValue */
    ss_value_type converted_type;
} action;

typedef struct attributes {
    ss_op op;
    ss_arena arena; /* of the configuration */
    bool is_resource;
    action *actions;
    size_t n_actions;
    ss_item_match *include; /* NULL: all */
    ss_item_match *exclude; /* NULL: none */
    bool reads_list;        /* include or exclude ask for attributes of the item */
    bool hides;             /* an action deletes or hashes */
    bool reads_headers;     /* an action writes what a header says */

    /* An item without any of these keys stays as it is; a key whose bit is not set is none of them. */
    ss_bytes *watched;
    size_t n_watched;
    uint64_t watched_bits;
    uint64_t all_watched; /* a bit for each, where all are only deleted */
    bool watches_all;     /* an action does not depend on a key */
    bool only_deletes;    /* each key is watched once, to be deleted */

    ss_pattern **patterns; /* all of them */
    size_t n_patterns;
    size_t pattern_capacity;
    uint32_t n_groups;            /* of the pattern with the most */
    ss_sha256 *sha256;            /* NULL: nothing is hashed */
    ss_attributes_scratch *spare; /* of the run that ended last; taken and put back atomically */
} attributes;

/* A few keys among many are told apart by their lengths and their ends, which differ more often than their beginnings.
 * last: the last byte, 0 of an empty key. */
static inline uint64_t key_bit(size_t length, uint8_t last) {
    return UINT64_C(1) << ((length ^ last) % 64);
}

static uint8_t last_byte(ss_bytes key) {
    return key.length ? key.data[key.length - 1] : 0;
}

/* ---------------------------------------------------------------- actions */

typedef struct run {
    const attributes *self;
    ss_table *table;
    ss_attributes_scratch *scratch;
} run;

static ss_bytes string_of(const ss_any_value *value) {
    return (ss_bytes){value->bytes.pos, (size_t)(value->bytes.end - value->bytes.pos)};
}

/* Replace a value by one made in the arena, or say that there was no memory for it. */
static ss_status set_made(ss_attribute_list *list, ss_attribute *attribute, ss_bytes value) {
    if (!value.data) {
        return SS_ERR_NO_MEMORY;
    }
    ss_attribute_list_set(list, attribute, value);
    return SS_OK;
}

static ss_status set_text(ss_attribute_list *list, ss_attribute *attribute, ss_bytes text) {
    return set_made(list, attribute, ss_any_value_of_text(&list->arena, text));
}

/* The values of the header joined with ";". */
static ss_status join_header(const run *r, ss_bytes name, ss_header_value *header) {
    const struct ss_table_private *own = r->table->private_state;
    ss_buffer *text = &r->scratch->text;
    ss_status status = SS_OK;
    text->length = 0;
    ss_reader block = {own->metadata, own->metadata_length ? own->metadata + own->metadata_length : own->metadata};
    ss_reader key, value;
    while (status == SS_OK && ss_read_bytes(&block, &key) && ss_read_bytes(&block, &value)) {
        if (ss_bytes_equal((ss_bytes){key.pos, (size_t)(key.end - key.pos)}, name)) {
            status = header->is_found ? ss_buffer_append(text, (const uint8_t *)";", 1) : SS_OK;
            if (status == SS_OK) {
                status = ss_buffer_append(text, value.pos, (size_t)(value.end - value.pos));
            }
            header->is_found = true;
        }
    }
    if (header->is_found && status == SS_OK) {
        header->body = ss_any_value_of_text(&r->scratch->arena, (ss_bytes){text->data, text->length});
        status = header->body.data ? SS_OK : SS_ERR_NO_MEMORY;
    }
    header->is_known = status == SS_OK;
    return status;
}

/* False: there is no such header, or status says what went wrong. Once a request: it may have as many headers as
 * items. */
static bool find_metadata(const run *r, const action *a, ss_bytes *body, ss_status *status) {
    ss_header_value *header = &r->scratch->headers[a - r->self->actions];
    if (!header->is_known) {
        *status = join_header(r, a->from_metadata, header);
    }
    *body = header->body;
    return header->is_found && *status == SS_OK;
}

/* What an action writes. False: nothing, or status says why not. */
static bool find_source(const run *r, const action *a, ss_bytes *body, ss_status *status) {
    if (a->has_value) {
        *body = a->value;
        return true;
    }
    if (a->from_metadata.length && (find_metadata(r, a, body, status) || *status != SS_OK)) {
        return *status == SS_OK;
    }
    const ss_attribute *source =
        a->from_attribute.length ? ss_attribute_list_find(&r->scratch->list, a->from_attribute) : NULL;
    *body = source ? source->value : a->fallback;
    return source || a->has_fallback;
}

static ss_status put_value(const run *r, const action *a) {
    ss_attribute_list *list = &r->scratch->list;
    ss_status status = SS_OK;
    ss_bytes body;
    ss_attribute *attribute = ss_attribute_list_find(list, a->key);
    bool is_wanted = a->verb == SS_ATTRIBUTE_UPSERT || (a->verb == SS_ATTRIBUTE_UPDATE) == (attribute != NULL);
    if (!is_wanted || !find_source(r, a, &body, &status)) {
        return status;
    }
    if (attribute) {
        ss_attribute_list_set(list, attribute, body);
        return SS_OK;
    }
    return ss_attribute_list_add(list, a->key, body);
}

static ss_status hash_value(const run *r, ss_attribute *attribute) {
    ss_attribute_list *list = &r->scratch->list;
    ss_any_value value;
    uint8_t hex[SS_SHA256_HEX];
    uint8_t number[8];
    ss_bytes bytes = {number, sizeof number};
    if (!ss_any_value_read(ss_reader_of(attribute->value), &value)) {
        return SS_ERR_MALFORMED;
    }
    for (size_t i = 0; i < sizeof number; i++) {
        number[i] = (uint8_t)(value.number >> 8 * i);
    }
    switch (value.field) {
    case SS_ANY_VALUE_STRING_VALUE: bytes = string_of(&value); break;
    case SS_ANY_VALUE_BOOL_VALUE:
        number[0] = value.number != 0;
        bytes.length = 1;
        break;
    case SS_ANY_VALUE_INT_VALUE:
    case SS_ANY_VALUE_DOUBLE_VALUE: break;
    default: return set_text(list, attribute, (ss_bytes){0});
    }
    if (!ss_sha256_hex(r->self->sha256, &r->scratch->hash, bytes, hex)) {
        return SS_ERR_NO_MEMORY;
    }
    return set_text(list, attribute, (ss_bytes){hex, sizeof hex});
}

/* Delete or hash: the first attribute of the key, then all whose key the pattern finds, or may find: what should go
 * must not stay because it is long. */
static ss_status apply_to_keys(const run *r, const action *a) {
    ss_attribute_list *list = &r->scratch->list;
    ss_attribute *first = ss_attribute_list_find(list, a->key);
    ss_status status = SS_OK;
    if (first && a->verb == SS_ATTRIBUTE_DELETE) {
        ss_attribute_list_remove(list, first);
    } else if (first) {
        status = hash_value(r, first);
    }
    for (uint32_t i = 0; a->pattern && i < list->n && status == SS_OK; i++) {
        ss_attribute *attribute = &list->attributes[i];
        if (attribute->is_gone ||
            ss_attributes_find(r->scratch, r->table, a->pattern, attribute->key) == SS_NOT_FOUND) {
            continue;
        }
        if (a->verb == SS_ATTRIBUTE_DELETE) {
            ss_attribute_list_remove(list, attribute);
        } else {
            status = hash_value(r, attribute);
        }
    }
    return status;
}

static ss_status extract(const run *r, const action *a) {
    ss_attribute_list *list = &r->scratch->list;
    const ss_attribute *source = ss_attribute_list_find(list, a->key);
    ss_any_value value;
    if (!source) {
        return SS_OK;
    }
    if (!ss_any_value_read(ss_reader_of(source->value), &value)) {
        return SS_ERR_MALFORMED;
    }
    ss_bytes text = string_of(&value);
    if (value.field != SS_ANY_VALUE_STRING_VALUE ||
        ss_pattern_find_groups(a->pattern, text, &r->scratch->match) != SS_FOUND) {
        return SS_OK;
    }
    ss_status status = SS_OK;
    for (uint32_t group = 1; group < ss_pattern_n_groups(a->pattern) && status == SS_OK; group++) {
        ss_bytes key = ss_pattern_group_name(a->pattern, group);
        ss_bytes body =
            ss_any_value_of_text(&list->arena, ss_pattern_group(a->pattern, &r->scratch->match, text, group));
        ss_attribute *attribute = ss_attribute_list_find(list, key);
        if (attribute) {
            status = set_made(list, attribute, body);
        } else {
            status = body.data ? ss_attribute_list_add(list, key, body) : SS_ERR_NO_MEMORY;
        }
    }
    return status;
}

/* A whole decimal number with or without a sign, within 64 bits. */
static bool parse_int(ss_bytes text, int64_t *number) {
    bool is_negative = text.length && text.data[0] == '-';
    size_t at = text.length && (is_negative || text.data[0] == '+') ? 1 : 0;
    int64_t result = 0;
    if (at == text.length) {
        return false;
    }
    for (; at < text.length; at++) {
        int digit = text.data[at] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(result, 10, &result) ||
            __builtin_add_overflow(result, is_negative ? -digit : digit, &result)) {
            return false;
        }
    }
    *number = result;
    return true;
}

static ss_status convert_to_int(ss_attribute_list *list, ss_attribute *attribute, const ss_any_value *value) {
    int64_t number;
    double real;
    switch (value->field) {
    case SS_ANY_VALUE_BOOL_VALUE: number = value->number != 0; break;
    case SS_ANY_VALUE_DOUBLE_VALUE:
        (void)ss_any_value_number(value, &real);
        number = ss_int_of(real);
        break;
    case SS_ANY_VALUE_STRING_VALUE:
        if (!parse_int(string_of(value), &number)) {
            return SS_OK;
        }
        break;
    default: return SS_OK;
    }
    return set_made(list, attribute, ss_any_value_of_int(&list->arena, number));
}

static ss_status convert_to_double(ss_attribute_list *list, ss_attribute *attribute, const ss_any_value *value) {
    ss_bytes text = string_of(value);
    double number;
    switch (value->field) {
    case SS_ANY_VALUE_BOOL_VALUE: number = value->number != 0; break;
    case SS_ANY_VALUE_INT_VALUE: (void)ss_any_value_number(value, &number); break;
    case SS_ANY_VALUE_STRING_VALUE:
        if (!ss_number_parse(text.data, text.length, &number)) {
            return SS_OK;
        }
        break;
    default: return SS_OK;
    }
    return set_made(list, attribute, ss_any_value_of_double(&list->arena, number));
}

static ss_status convert(const run *r, const action *a) {
    ss_attribute_list *list = &r->scratch->list;
    ss_attribute *attribute = ss_attribute_list_find(list, a->key);
    ss_any_value value;
    if (!attribute) {
        return SS_OK;
    }
    if (!ss_any_value_read(ss_reader_of(attribute->value), &value)) {
        return SS_ERR_MALFORMED;
    }
    if (a->converted_type == SS_TYPE_INT) {
        return convert_to_int(list, attribute, &value);
    }
    if (a->converted_type == SS_TYPE_DOUBLE) {
        return convert_to_double(list, attribute, &value);
    }
    if (value.field == SS_ANY_VALUE_STRING_VALUE) {
        return SS_OK;
    }
    ss_buffer *text = &r->scratch->text;
    text->length = 0;
    if (!ss_any_value_text(&list->arena, attribute->value, text)) {
        return SS_ERR_NO_MEMORY;
    }
    return set_text(list, attribute, (ss_bytes){text->data, text->length});
}

static ss_status apply_actions(const run *r) {
    ss_status status = SS_OK;
    for (size_t i = 0; i < r->self->n_actions && status == SS_OK; i++) {
        const action *a = &r->self->actions[i];
        switch (a->verb) {
        case SS_ATTRIBUTE_DELETE:
        case SS_ATTRIBUTE_HASH: status = apply_to_keys(r, a); break;
        case SS_ATTRIBUTE_EXTRACT: status = extract(r, a); break;
        case SS_ATTRIBUTE_CONVERT: status = convert(r, a); break;
        default: status = put_value(r, a); break;
        }
    }
    return status;
}

/* ---------------------------------------------------------------- items */

/* An attribute among the fields of a message: [start, end) is the whole field. No start: there is none any more. */
typedef struct found_attribute {
    const uint8_t *start;
    const uint8_t *end;
    ss_bytes key;
} found_attribute;

/* Any layout: the last key counts. */
static __attribute__((noinline)) found_attribute find_odd_attribute(ss_reader fields, uint32_t tag) {
    ss_reader whole, pair;
    if (!ss_next_field(&fields, tag >> 3, &whole, &pair)) {
        return (found_attribute){0};
    }
    return (found_attribute){whole.pos, whole.end, ss_last_field(pair, SS_KEY_VALUE_KEY)};
}

/* The first four bytes of what every encoder writes for most attributes: tag, length, 0x0a, key length; key, 0x12,
 * value length and value follow. Each length has one byte. */
enum { HEAD = 4, VALUE_HEAD = 2 };
typedef struct usual_head {
    uint32_t mask;
    uint32_t wanted;
} usual_head;

static inline usual_head usual_head_of(uint32_t tag) {
    const uint8_t mask[HEAD] = {0xff, 0x80, 0xff, 0x80};
    const uint8_t wanted[HEAD] = {(uint8_t)tag, 0, TAG(SS_KEY_VALUE_KEY, SS_WIRE_BYTES), 0};
    usual_head head;
    memcpy(&head.mask, mask, HEAD);
    memcpy(&head.wanted, wanted, HEAD);
    return head;
}

/* The end of the attribute at pos, which has that layout and no other key; NULL: it has another layout, or is none. */
static inline const uint8_t *end_of_usual(const uint8_t *pos, const uint8_t *end, usual_head usual) {
    const size_t room = (size_t)(end - pos);
    uint32_t head;
    if (__builtin_expect(room <= HEAD + VALUE_HEAD, 0)) {
        return NULL;
    }
    memcpy(&head, pos, HEAD);
    const size_t length = pos[1], key_length = pos[3];
    if (__builtin_expect((head & usual.mask) != usual.wanted || length + 2 > room || key_length + HEAD > length, 0)) {
        return NULL;
    }
    const uint8_t *value = pos + HEAD + key_length;
    bool is_whole = value[0] == TAG(SS_KEY_VALUE_VALUE, SS_WIRE_BYTES) && value[1] == length - key_length - HEAD;
    return __builtin_expect(is_whole, 1) ? pos + 2 + length : NULL;
}

/* Find the first attribute in [pos, end) that may have a watched key. */
static inline __attribute__((always_inline)) found_attribute find_candidate(const attributes *self, const uint8_t *pos,
                                                                            const uint8_t *end, uint32_t tag) {
    const uint64_t watched_bits = self->watched_bits;
    const usual_head usual = usual_head_of(tag);
    while (pos < end) {
        const uint8_t *behind = end_of_usual(pos, end, usual);
        if (__builtin_expect(behind != NULL, 1)) {
            const uint8_t length = pos[3];
            const uint8_t last = pos[3 + length]; /* in front of an empty key stands its length, 0 */
            if (__builtin_expect((watched_bits & key_bit(length, last)) != 0, 0)) {
                return (found_attribute){pos, behind, {pos + HEAD, length}};
            }
        } else {
            found_attribute odd = find_odd_attribute((ss_reader){pos, end}, tag);
            if (!odd.start || watched_bits & key_bit(odd.key.length, last_byte(odd.key))) {
                return odd;
            }
            behind = odd.end;
        }
        pos = behind;
    }
    return (found_attribute){0};
}

/* The index of a watched key; n_watched: it is none. */
static inline size_t watched_index(const attributes *self, ss_bytes key) {
    size_t i = 0;
    while (i < self->n_watched && !ss_bytes_equal(self->watched[i], key)) {
        i++;
    }
    return i;
}

static bool has_watched_key(const attributes *self, ss_reader fields, uint32_t tag) {
    const uint8_t *pos = fields.pos;
    for (;;) {
        const found_attribute found = find_candidate(self, pos, fields.end, tag);
        if (!found.start || watched_index(self, found.key) < self->n_watched) {
            return found.start != NULL;
        }
        pos = found.end;
    }
}

/* Cut the first attribute of each watched key out of an item, without more of it being read than is needed. */
static inline ss_status delete_watched(const attributes *self, ss_table *table, uint32_t row, uint32_t tag) {
    const ss_reader fields = ss_attributes_of(table, row);
    const uint8_t *pos = fields.pos;
    uint64_t missing = self->all_watched;
    ss_status status = SS_OK;
    while (missing && status == SS_OK) {
        const found_attribute found = find_candidate(self, pos, fields.end, tag);
        if (!found.start) {
            break;
        }
        const size_t index = watched_index(self, found.key);
        if (index < self->n_watched && missing >> index & 1) {
            missing &= ~(UINT64_C(1) << index);
            status = ss_table_edit(table, row, (uint32_t)(found.start - table->bytes),
                                   (uint32_t)(found.end - found.start), (const uint8_t *)"", 0);
        }
        pos = found.end;
    }
    return status;
}

static ss_status change_item(const run *r, uint32_t row, uint32_t field, bool is_read) {
    ss_attribute_list *list = &r->scratch->list;
    ss_status status = SS_OK;
    if (!is_read) {
        ss_attribute_list_empty(list);
        status = ss_attribute_list_read(list, r->table->bytes, ss_attributes_of(r->table, row), field);
    }
    if (status == SS_OK) {
        status = apply_actions(r);
    }
    if (status == SS_OK && list->is_changed) {
        status = ss_attribute_list_write_row(list, r->table, row, field);
    }
    return status;
}

/* What include and exclude, which may be NULL, say of a resource, or of a scope and what it lies in. */
typedef struct admitted {
    uint32_t index; /* its number */
    bool includes;
    bool excludes;
} admitted;

/* Whether include and exclude let the actions have a row. Each resource and each scope is asked for once. */
typedef struct admission {
    admitted of_resource;
    admitted of_scope;
    bool has_read; /* the attributes of the row are in the list */
} admission;

typedef ss_status match_container(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                                  uint32_t row, bool *matches);

/* Ask match whether more of what a row lies in is let have; around: what lies around that. */
static ss_status admit_container(const run *r, uint32_t row, uint32_t index, match_container *match, admitted around,
                                 admitted *result) {
    const attributes *self = r->self;
    ss_status status = SS_OK;
    *result = around;
    result->index = index;
    if (self->include && around.includes) {
        status = match(self->include, r->scratch, r->table, row, &result->includes);
    }
    if (status == SS_OK && self->exclude && around.excludes) {
        status = match(self->exclude, r->scratch, r->table, row, &result->excludes);
    }
    return status;
}

static ss_status admit(const run *r, uint32_t row, uint32_t field, admission *known, bool *is_admitted) {
    const attributes *self = r->self;
    const ss_table *table = r->table;
    ss_status status = SS_OK;
    bool matches = true;
    if (known->of_resource.index != table->resource_index[row]) {
        const admitted all = {.includes = true, .excludes = self->exclude};
        status = admit_container(r, row, table->resource_index[row], ss_item_match_resource, all, &known->of_resource);
    }
    if (status == SS_OK && known->of_scope.index != table->scope_index[row]) {
        status =
            admit_container(r, row, table->scope_index[row], ss_item_match_scope, known->of_resource, &known->of_scope);
    }
    const admitted *of_scope = &known->of_scope;
    *is_admitted = of_scope->includes;
    known->has_read = false;
    if (status == SS_OK && *is_admitted && (self->include || of_scope->excludes)) {
        ss_attribute_list_empty(&r->scratch->list);
        if (self->reads_list) {
            known->has_read = true;
            status = ss_attribute_list_read(&r->scratch->list, r->table->bytes, ss_attributes_of(r->table, row), field);
        }
    }
    if (status == SS_OK && *is_admitted && self->include) {
        status = ss_item_match_row(self->include, r->scratch, r->table, row, is_admitted);
    }
    if (status == SS_OK && *is_admitted && of_scope->excludes) {
        status = ss_item_match_row(self->exclude, r->scratch, r->table, row, &matches);
        *is_admitted = !matches;
    }
    return status;
}

static __attribute__((noinline)) ss_status delete_from_items(const attributes *self, ss_table *table) {
    const bool is_of_points = table->signal == SS_SIGNAL_METRICS;
    const uint32_t n_rows = table->n_rows;
    uint32_t field = n_rows ? ss_attributes_field(table, 0) : 0;
    ss_status status = SS_OK;
    for (uint32_t row = 0; row < n_rows && status == SS_OK; row++) {
        if (table->verdict[row] == SS_KEEP) {
            field = is_of_points ? ss_attributes_field(table, row) : field;
            status = delete_watched(self, table, row, TAG(field, SS_WIRE_BYTES));
        }
    }
    return status;
}

static ss_status run_on_items(const run *r) {
    const attributes *self = r->self;
    const bool is_chosen = self->include || self->exclude;
    admission known = {.of_resource = {.index = SS_NO_INDEX}, .of_scope = {.index = SS_NO_INDEX}};
    ss_status status = SS_OK;
    for (uint32_t row = 0; row < r->table->n_rows && status == SS_OK; row++) {
        if (r->table->verdict[row] != SS_KEEP) {
            continue;
        }
        const uint32_t field = ss_attributes_field(r->table, row);
        const uint32_t tag = TAG(field, SS_WIRE_BYTES);
        bool is_admitted = true;
        if (is_chosen) {
            status = admit(r, row, field, &known, &is_admitted);
        }
        if (status != SS_OK || !is_admitted) {
            continue;
        }
        if (self->only_deletes) {
            status = delete_watched(self, r->table, row, tag);
        } else if (self->watches_all || has_watched_key(self, ss_attributes_of(r->table, row), tag)) {
            status = change_item(r, row, field, known.has_read);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- resources */

static ss_status change_resource(const run *r, uint32_t row) {
    ss_attribute_list *list = &r->scratch->list;
    ss_reader container = ss_resource_container(r->table, row);
    ss_attribute_list_empty(list);
    ss_status status = ss_attribute_list_read_message(list, r->table->bytes, container, SS_RESOURCE_SPANS_RESOURCE,
                                                      SS_RESOURCE_ATTRIBUTES);
    if (status == SS_OK) {
        status = apply_actions(r);
    }
    if (status == SS_OK && list->is_changed) {
        status = ss_attribute_list_write_message(list, r->table, r->table->node_index[row], container,
                                                 SS_RESOURCE_SPANS_RESOURCE, SS_RESOURCE_ATTRIBUTES);
    }
    return status;
}

/* Each resource that still has an item, once. */
static ss_status run_on_resources(const run *r) {
    const ss_table *table = r->table;
    uint32_t last = SS_NO_INDEX;
    ss_status status = SS_OK;
    for (uint32_t row = 0; row < table->n_rows && status == SS_OK; row++) {
        if (table->verdict[row] == SS_KEEP && table->resource_index[row] != last) {
            last = table->resource_index[row];
            status = change_resource(r, row);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- the op */

static void scratch_free(ss_attributes_scratch *scratch) {
    if (scratch) {
        ss_arena_free(&scratch->arena);
        ss_attribute_list_free(&scratch->list);
        ss_attribute_list_free(&scratch->container);
        ss_buffer_free(&scratch->text);
        ss_pattern_match_free(&scratch->match);
        ss_sha256_state_free(&scratch->hash);
        free(scratch);
    }
}

/* Nothing is known of the headers of another request. */
static bool take_headers(const attributes *self, ss_attributes_scratch *scratch) {
    if (!self->reads_headers) {
        return true;
    }
    ss_arena_reset(&scratch->arena);
    scratch->headers = ss_arena_take(&scratch->arena, self->n_actions, sizeof *scratch->headers);
    if (scratch->headers) {
        memset(scratch->headers, 0, self->n_actions * sizeof *scratch->headers);
    }
    return scratch->headers != NULL;
}

static ss_attributes_scratch *take_scratch(attributes *self) {
    ss_attributes_scratch *scratch = __atomic_exchange_n(&self->spare, NULL, __ATOMIC_ACQ_REL);
    if (!scratch) {
        scratch = calloc(1, sizeof *scratch);
    } else if (self->n_patterns) { /* of another request */
        memset(scratch->memo, 0, sizeof scratch->memo);
    }
    if (scratch) {
        memset(scratch->last_names, 0, sizeof scratch->last_names);
    }
    if (scratch && (!ss_pattern_match_reserve(&scratch->match, self->n_groups) || !take_headers(self, scratch))) {
        scratch_free(scratch);
        scratch = NULL;
    }
    return scratch;
}

/* What an unusual request has needed is not kept until the next. */
static void give_scratch(attributes *self, ss_attributes_scratch *scratch) {
    ss_attribute_list_empty(&scratch->list);
    ss_attribute_list_empty(&scratch->container);
    if (scratch->text.capacity + scratch->arena.capacity > RETAINED_BYTES) {
        ss_buffer_free(&scratch->text);
        ss_arena_free(&scratch->arena);
    }
    scratch_free(__atomic_exchange_n(&self->spare, scratch, __ATOMIC_ACQ_REL));
}

static ss_status run_op(ss_op *op, ss_table *table, ss_verdict *verdict) {
    attributes *self = (attributes *)op;
    run r = {self, table, NULL};
    uint32_t n_undecided = 0;
    ss_status status = SS_ERR_NO_MEMORY;
    if (self->only_deletes && !self->include && !self->exclude && !self->is_resource) {
        status = delete_from_items(self, table);
    } else if ((r.scratch = take_scratch(self))) {
        ss_arena_count(&r.scratch->list.arena, &table->private_state->holding);
        ss_arena_count(&r.scratch->container.arena, &table->private_state->holding);
        status = self->is_resource ? run_on_resources(&r) : run_on_items(&r);
        ss_arena_count(&r.scratch->list.arena, NULL);
        ss_arena_count(&r.scratch->container.arena, NULL);
        n_undecided = r.scratch->match.n_undecided;
        give_scratch(self, r.scratch);
    }
    if (status == SS_ERR_NO_MEMORY) {
        return ss_refuse(verdict, "attributes: out of memory", RETRY_MS);
    }
    if (status != SS_OK) {
        return ss_reject(verdict, status, SS_CODE_INVALID_ARGUMENT, "attributes: malformed or too large item");
    }
    ss_op_count(op, table, SS_ATTRIBUTES_UNDECIDED, n_undecided);
    return SS_OK;
}

static void free_attributes(ss_op *op) {
    attributes *self = (attributes *)op;
    scratch_free(self->spare);
    for (size_t i = 0; i < self->n_patterns; i++) {
        ss_pattern_free(self->patterns[i]);
    }
    free(self->patterns);
    ss_sha256_free(self->sha256);
    ss_arena_free(&self->arena);
    free(self);
}

static const ss_op_vtable items_vtable = {.reads = SS_COLUMN_ATTRIBUTES | SS_COLUMN_POINTS,
                                          .edits = SS_COLUMN_ATTRIBUTES,
                                          .run = run_op,
                                          .free = free_attributes};
static const ss_op_vtable chosen_items_vtable = {.reads = SS_COLUMN_ATTRIBUTES | SS_COLUMN_POINTS | SS_COLUMN_RESOURCE,
                                                 .edits = SS_COLUMN_ATTRIBUTES,
                                                 .run = run_op,
                                                 .free = free_attributes};
static const ss_op_vtable resources_vtable = {
    .reads = SS_COLUMN_RESOURCE, .edits = SS_COLUMN_RESOURCE, .run = run_op, .free = free_attributes};

/* ---------------------------------------------------------------- construction */

/* What is made for an op. Its functions return false with error set; what was made so far is freed with the op. */
typedef struct maker {
    attributes *self;
    ss_error *error;
} maker;

static bool fail(const maker *m, ss_status code, const char *reason) {
    *m->error = (ss_error){code, 0, reason};
    return false;
}

/* Memory for n of size bytes, cleared. NULL: error is set. */
static void *take_zeroed(const maker *m, size_t n, size_t size) {
    void *taken = ss_arena_take(&m->self->arena, n + !n, size);
    if (!taken) {
        (void)fail(m, SS_ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    return memset(taken, 0, n * size);
}

static bool copy_text(const maker *m, ss_text text, ss_bytes *copy) {
    uint8_t *data = take_zeroed(m, text.length, 1);
    if (data && text.length) {
        memcpy(data, text.data, text.length);
    }
    *copy = (ss_bytes){data, text.length};
    return data != NULL;
}

static bool copy_value(const maker *m, const ss_value *value, bool *is_given, ss_bytes *body) {
    *is_given = value != NULL;
    if (!value) {
        return true;
    }
    *body = ss_any_value_of(&m->self->arena, value, SS_VALUE_DEPTH_MAX);
    if (body->data) {
        return true;
    }
    return m->self->arena.is_exhausted ? fail(m, SS_ERR_NO_MEMORY, "out of memory")
                                       : fail(m, SS_ERR_LIMIT, "a value is nested too deeply");
}

static bool copy_pattern(const maker *m, ss_text text, ss_pattern **pattern) {
    attributes *self = m->self;
    if (self->n_patterns == self->pattern_capacity) {
        size_t capacity = self->pattern_capacity ? 2 * self->pattern_capacity : 8;
        ss_pattern **patterns = realloc(self->patterns, capacity * sizeof(ss_pattern *));
        if (!patterns) {
            return fail(m, SS_ERR_NO_MEMORY, "out of memory");
        }
        self->patterns = patterns;
        self->pattern_capacity = capacity;
    }
    *pattern = ss_pattern_new((ss_bytes){(const uint8_t *)text.data, text.length}, m->error);
    if (!*pattern) {
        return false;
    }
    self->patterns[self->n_patterns++] = *pattern;
    uint32_t n_groups = ss_pattern_n_groups(*pattern);
    self->n_groups = n_groups > self->n_groups ? n_groups : self->n_groups;
    return true;
}

static bool copy_matcher(const maker *m, ss_text text, bool is_regexp, ss_matcher *matcher) {
    return is_regexp ? copy_pattern(m, text, &matcher->pattern) : copy_text(m, text, &matcher->text);
}

static bool copy_matchers(const maker *m, ss_text_list list, bool is_regexp, ss_matchers *matchers) {
    matchers->matchers = take_zeroed(m, list.n, sizeof *matchers->matchers);
    bool ok = matchers->matchers != NULL;
    for (; ok && matchers->n < list.n; matchers->n++) {
        ok = copy_matcher(m, list.texts[matchers->n], is_regexp, &matchers->matchers[matchers->n]);
    }
    return ok;
}

static bool copy_conditions(const maker *m, ss_attribute_conditions config, bool is_regexp, ss_conditions *conditions) {
    conditions->conditions = take_zeroed(m, config.n, sizeof *conditions->conditions);
    bool ok = conditions->conditions != NULL;
    for (; ok && conditions->n < config.n; conditions->n++) {
        const ss_attribute_condition *from = &config.conditions[conditions->n];
        ss_condition *to = &conditions->conditions[conditions->n];
        ok = copy_text(m, from->key, &to->key);
        if (ok && is_regexp && from->value) {
            to->has_value = true;
            ok = copy_pattern(m, from->value->string, &to->pattern);
        } else if (ok) {
            ok = copy_value(m, from->value, &to->has_value, &to->value);
        }
    }
    return ok;
}

static bool copy_libraries(const maker *m, const ss_attribute_match *config, ss_item_match *match) {
    match->libraries = take_zeroed(m, config->n_libraries, sizeof *match->libraries);
    bool ok = match->libraries != NULL;
    for (; ok && match->n_libraries < config->n_libraries; match->n_libraries++) {
        const ss_library_condition *from = &config->libraries[match->n_libraries];
        ss_library *to = &match->libraries[match->n_libraries];
        to->has_version = from->has_version;
        ok = copy_matcher(m, from->name, config->is_regexp, &to->name) &&
             (!to->has_version || copy_matcher(m, from->version, config->is_regexp, &to->version));
    }
    return ok;
}

/* NULL stays NULL. */
static bool copy_match(const maker *m, const ss_attribute_match *config, ss_item_match **copy) {
    if (!config) {
        return true;
    }
    ss_item_match *match = *copy = take_zeroed(m, 1, sizeof *match);
    const bool is_regexp = config->is_regexp;
    if (!match || !copy_matchers(m, config->services, is_regexp, &match->services) ||
        !copy_matchers(m, config->names, is_regexp, &match->names) ||
        !copy_matchers(m, config->span_kinds, is_regexp, &match->span_kinds) ||
        !copy_matchers(m, config->log_bodies, is_regexp, &match->log_bodies) ||
        !copy_matchers(m, config->log_severity_texts, is_regexp, &match->log_severity_texts) ||
        !copy_libraries(m, config, match) || !copy_conditions(m, config->resources, is_regexp, &match->resources) ||
        !copy_conditions(m, config->attributes, is_regexp, &match->attributes)) {
        return false;
    }
    match->has_severity_number = config->has_severity_number;
    match->min_severity_number = config->min_severity_number;
    match->matches_undefined_severity = config->matches_undefined_severity;
    match->is_of_container = match->services.n || match->n_libraries || match->resources.n;
    m->self->reads_list |= match->attributes.n > 0;
    return true;
}

static bool copy_action(const maker *m, const ss_attribute_action *config, action *a) {
    a->verb = config->verb;
    a->converted_type = config->converted_type;
    m->self->hides |= a->verb == SS_ATTRIBUTE_DELETE || a->verb == SS_ATTRIBUTE_HASH;
    m->self->reads_headers |= config->from_metadata.length > 0;
    if (config->pattern.length && !copy_pattern(m, config->pattern, &a->pattern)) {
        return false;
    }
    if (a->verb == SS_ATTRIBUTE_HASH && !m->self->sha256) {
        m->self->sha256 = ss_sha256_new(m->error);
        if (!m->self->sha256) {
            return false;
        }
    }
    if (a->verb == SS_ATTRIBUTE_EXTRACT && !a->pattern) {
        return fail(m, SS_ERR_ARGUMENT, "extract needs a pattern");
    }
    return copy_text(m, config->key, &a->key) && copy_text(m, config->from_metadata, &a->from_metadata) &&
           copy_text(m, config->from_attribute, &a->from_attribute) &&
           copy_value(m, config->value, &a->has_value, &a->value) &&
           copy_value(m, config->otherwise, &a->has_fallback, &a->fallback);
}

/* The key without which an action does nothing. False: there is none. */
static bool needed_key(const action *a, ss_bytes *key) {
    bool is_from_elsewhere = a->has_value || a->has_fallback || a->from_metadata.length;
    switch (a->verb) {
    case SS_ATTRIBUTE_INSERT:
    case SS_ATTRIBUTE_UPSERT: *key = a->from_attribute; return !is_from_elsewhere;
    case SS_ATTRIBUTE_DELETE:
    case SS_ATTRIBUTE_HASH: *key = a->key; return !a->pattern;
    default: *key = a->key; return true;
    }
}

static bool watch_keys(const maker *m) {
    attributes *self = m->self;
    self->watched = take_zeroed(m, self->n_actions, sizeof *self->watched);
    if (!self->watched) {
        return false;
    }
    self->only_deletes = self->n_actions <= DELETED_MAX;
    for (size_t i = 0; i < self->n_actions; i++) {
        const action *a = &self->actions[i];
        ss_bytes key;
        bool is_needed = needed_key(a, &key);
        self->watches_all |= !is_needed;
        self->only_deletes &=
            is_needed && a->verb == SS_ATTRIBUTE_DELETE && watched_index(self, key) == self->n_watched;
        if (is_needed && watched_index(self, key) == self->n_watched) {
            self->watched[self->n_watched++] = key;
            self->watched_bits |= key_bit(key.length, last_byte(key));
            self->all_watched = self->all_watched << 1 | 1;
        }
    }
    return true;
}

static bool copy_config(const maker *m, const ss_attributes_config *config) {
    attributes *self = m->self;
    self->actions = take_zeroed(m, config->n_actions, sizeof *self->actions);
    bool ok = self->actions != NULL;
    for (; ok && self->n_actions < config->n_actions; self->n_actions++) {
        ok = copy_action(m, &config->actions[self->n_actions], &self->actions[self->n_actions]);
    }
    ok = ok && copy_match(m, config->include, &self->include) && copy_match(m, config->exclude, &self->exclude) &&
         watch_keys(m);
    if (ok && self->include) {
        self->include->undecided_matches = self->hides; /* exclude's does not: the actions are done then */
    }
    return ok;
}

static bool asks_for_container(const ss_item_match *match) {
    return match && match->is_of_container;
}

ss_op *ss_attributes_new(const ss_attributes_config *config, ss_error *error) {
    attributes *self = calloc(1, sizeof *self);
    const maker m = {self, error};
    if (!self) {
        *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
        return NULL;
    }
    self->is_resource = config->is_resource;
    if (!copy_config(&m, config)) {
        free_attributes(&self->op);
        return NULL;
    }
    bool is_chosen = asks_for_container(self->include) || asks_for_container(self->exclude);
    self->op.vtable = self->is_resource ? &resources_vtable : is_chosen ? &chosen_items_vtable : &items_vtable;
    *error = (ss_error){0};
    return &self->op;
}
