/* Which items an operation is for: include and exclude. Source: OpenTelemetry Collector contrib, internal/filter. */
#include "core/hash.h"
#include "ops/attributes.h"
#include "otlp/any_value.h"
#include "otlp/table.h"

enum { SCOPE_LEVEL = 2, RESOURCE_LEVEL = 1 };

/* The field numbers of all three signals are the same. */
_Static_assert(SS_RESOURCE_SPANS_RESOURCE == SS_RESOURCE_METRICS_RESOURCE &&
                   SS_RESOURCE_SPANS_RESOURCE == SS_RESOURCE_LOGS_RESOURCE &&
                   SS_SCOPE_SPANS_SCOPE == SS_SCOPE_METRICS_SCOPE && SS_SCOPE_SPANS_SCOPE == SS_SCOPE_LOGS_SCOPE,
               "resource and scope have one field number in all signals");

/* ---------------------------------------------------------------- texts and patterns */

static bool lies_in_request(const ss_table *table, ss_bytes text) {
    uintptr_t start = (uintptr_t)table->bytes, at = (uintptr_t)text.data;
    return at >= start && at + text.length <= start + table->bytes_length;
}

static size_t memo_slot(const ss_pattern *pattern, ss_bytes text) {
    uint64_t head = 0;
    uint64_t tail = 0;
    if (text.length >= 8) {
        memcpy(&head, text.data, 8);
        memcpy(&tail, text.data + text.length - 8, 8);
    } else {
        memcpy(&head, text.data, text.length);
    }
    uint64_t hash = ss_hash_mix(ss_hash_mix(head ^ ss_hash_seed(pattern), tail), text.length);
    return hash % SS_MEMO_SLOTS;
}

ss_found ss_attributes_find(ss_attributes_scratch *scratch, const ss_table *table, const ss_pattern *pattern,
                            ss_bytes text) {
    if (!text.length || !lies_in_request(table, text)) {
        return ss_pattern_find(pattern, text, &scratch->match);
    }
    ss_memo_entry *entry = &scratch->memo[memo_slot(pattern, text)];
    if (entry->pattern != pattern || !ss_bytes_equal((ss_bytes){entry->text, entry->length}, text)) {
        *entry = (ss_memo_entry){pattern, text.data, text.length, ss_pattern_find(pattern, text, &scratch->match)};
    }
    return entry->found;
}

static bool finds(const ss_pattern *pattern, ss_attributes_scratch *scratch, const ss_table *table, ss_bytes text) {
    ss_found found = ss_attributes_find(scratch, table, pattern, text);
    return found == SS_FOUND || (found == SS_UNDECIDED && scratch->undecided_matches);
}

static bool matches_text(const ss_matcher *matcher, ss_attributes_scratch *scratch, const ss_table *table,
                         ss_bytes text) {
    return matcher->pattern ? finds(matcher->pattern, scratch, table, text) : ss_bytes_equal(matcher->text, text);
}

static bool matches_any(const ss_matchers *matchers, ss_attributes_scratch *scratch, const ss_table *table,
                        ss_bytes text) {
    bool matches = !matchers->n;
    for (size_t i = 0; i < matchers->n && !matches; i++) {
        matches = matches_text(&matchers->matchers[i], scratch, table, text);
    }
    return matches;
}

static ss_bytes text_of(const ss_buffer *buffer) {
    return (ss_bytes){buffer->data, buffer->length};
}

/* ---------------------------------------------------------------- attributes */

static bool meets_condition(const ss_condition *condition, ss_attributes_scratch *scratch, ss_attribute_list *list,
                            const ss_table *table) {
    const ss_attribute *attribute = ss_attribute_list_find(list, condition->key);
    if (!attribute || !condition->has_value) {
        return attribute != NULL;
    }
    if (!condition->pattern) {
        return ss_any_value_equal(&list->arena, condition->value, attribute->value);
    }
    ss_any_value value;
    if (!ss_any_value_read(ss_reader_of(attribute->value), &value)) {
        return false;
    }
    if (value.field == SS_ANY_VALUE_STRING_VALUE) {
        ss_bytes text = {value.bytes.pos, (size_t)(value.bytes.end - value.bytes.pos)};
        return finds(condition->pattern, scratch, table, text);
    }
    scratch->text.length = 0;
    return ss_any_value_match_text(&value, &scratch->text) &&
           finds(condition->pattern, scratch, table, text_of(&scratch->text));
}

static bool meets_all(const ss_conditions *conditions, ss_attributes_scratch *scratch, ss_attribute_list *list,
                      const ss_table *table) {
    bool meets = true;
    for (size_t i = 0; i < conditions->n && meets; i++) {
        meets = meets_condition(&conditions->conditions[i], scratch, list, table);
    }
    return meets;
}

/* ---------------------------------------------------------------- resource and scope */

/* The body of the container of level that a row lies in. */
static ss_reader container_of(const ss_table *table, uint32_t row, uint32_t level) {
    const ss_node *nodes = table->private_state->nodes;
    const ss_node *node = &nodes[table->node_index[row]];
    while (node->level > level) {
        node = &nodes[node->parent];
    }
    return (ss_reader){table->bytes + node->body_offset, table->bytes + node->end_offset};
}

ss_reader ss_resource_container(const ss_table *table, uint32_t row) {
    return container_of(table, row, RESOURCE_LEVEL);
}

static ss_status match_services(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                                bool *matches) {
    static const char key[] = "service.name", no_name[] = "<nil-service-name>";
    ss_attribute_list *resource = &scratch->container;
    const ss_attribute *service = ss_attribute_list_find(resource, (ss_bytes){(const uint8_t *)key, sizeof key - 1});
    ss_bytes name = {(const uint8_t *)no_name, sizeof no_name - 1};
    if (service) {
        scratch->text.length = 0;
        if (!ss_any_value_text(&resource->arena, service->value, &scratch->text)) {
            return SS_ERR_NO_MEMORY;
        }
        name = text_of(&scratch->text);
    }
    *matches = matches_any(&match->services, scratch, table, name);
    return SS_OK;
}

static ss_status match_libraries(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                                 uint32_t row, bool *matches) {
    ss_bytes scope;
    if (!ss_gather_field(&scratch->container.arena, container_of(table, row, SCOPE_LEVEL), SS_SCOPE_SPANS_SCOPE,
                         &scope)) {
        return SS_ERR_NO_MEMORY;
    }
    ss_bytes name = ss_last_field(ss_reader_of(scope), SS_INSTRUMENTATION_SCOPE_NAME);
    ss_bytes version = ss_last_field(ss_reader_of(scope), SS_INSTRUMENTATION_SCOPE_VERSION);
    for (size_t i = 0; i < match->n_libraries && *matches; i++) {
        const ss_library *library = &match->libraries[i];
        *matches = matches_text(&library->name, scratch, table, name) &&
                   (!library->has_version || matches_text(&library->version, scratch, table, version));
    }
    return SS_OK;
}

ss_status ss_item_match_resource(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                                 uint32_t row, bool *matches) {
    ss_attribute_list *resource = &scratch->container;
    *matches = true;
    scratch->undecided_matches = match->undecided_matches;
    if (!match->services.n && !match->resources.n) {
        return SS_OK;
    }
    ss_attribute_list_empty(resource);
    ss_status status = ss_attribute_list_read_message(resource, table->bytes, ss_resource_container(table, row),
                                                      SS_RESOURCE_SPANS_RESOURCE, SS_RESOURCE_ATTRIBUTES);
    if (status == SS_OK && match->services.n) {
        status = match_services(match, scratch, table, matches);
    }
    *matches = *matches && meets_all(&match->resources, scratch, resource, table);
    return status;
}

ss_status ss_item_match_scope(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                              uint32_t row, bool *matches) {
    *matches = true;
    scratch->undecided_matches = match->undecided_matches;
    if (!match->n_libraries) {
        return SS_OK;
    }
    ss_attribute_list_empty(&scratch->container); /* of what the scope before has needed */
    return match_libraries(match, scratch, table, row, matches);
}

/* ---------------------------------------------------------------- rows */

static ss_bytes kind_name(int32_t kind) {
    static const char *const names[] = {"SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER",
                                        "SPAN_KIND_CLIENT",      "SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"};
    const char *name = (uint32_t)kind < sizeof names / sizeof names[0] ? names[kind] : "";
    return (ss_bytes){(const uint8_t *)name, strlen(name)};
}

static bool matches_severity(const ss_item_match *match, int32_t number) {
    return number ? number >= match->min_severity_number : match->matches_undefined_severity;
}

static ss_status match_body(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                            ss_reader record, bool *matches) {
    ss_arena *arena = &scratch->list.arena;
    ss_bytes body;
    scratch->text.length = 0;
    if (!ss_gather_field(arena, record, SS_LOG_RECORD_BODY, &body) || !ss_any_value_text(arena, body, &scratch->text)) {
        return SS_ERR_NO_MEMORY;
    }
    *matches = matches_any(&match->log_bodies, scratch, table, text_of(&scratch->text));
    return SS_OK;
}

static bool matches_name(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                         uint32_t row) {
    if (!match->names.n) {
        return true;
    }
    const uint32_t offset = table->name_offset[row], length = table->name_length[row];
    ss_last_name *last = scratch->last_names;
    last += last->match && last->match != match;
    if (last->match != match || last->offset != offset || last->length != length) {
        const ss_bytes name = {table->bytes + offset, length};
        *last = (ss_last_name){match, offset, length, matches_any(&match->names, scratch, table, name)};
    }
    return last->matches;
}

ss_status ss_item_match_row(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                            uint32_t row, bool *matches) {
    const uint8_t *start = table->bytes + table->row_offset[row];
    ss_reader body = {table->bytes + table->body_offset[row], start + table->row_length[row]};
    ss_status status = SS_OK;
    scratch->undecided_matches = match->undecided_matches;
    *matches = matches_name(match, scratch, table, row) &&
               matches_any(&match->span_kinds, scratch, table, kind_name(table->kind[row])) &&
               (!match->has_severity_number || matches_severity(match, table->kind[row]));
    if (*matches && match->log_severity_texts.n) {
        ss_bytes text = ss_last_field(body, SS_LOG_RECORD_SEVERITY_TEXT);
        *matches = matches_any(&match->log_severity_texts, scratch, table, text);
    }
    if (*matches && match->log_bodies.n && table->signal == SS_SIGNAL_LOGS) {
        status = match_body(match, scratch, table, body, matches);
    }
    *matches = *matches && meets_all(&match->attributes, scratch, &scratch->list, table);
    return status;
}
