/* Any request of any signal under any actions, chosen in any way: in bounds, no item is lost, what is emitted scans
 * again, and a second run of what finds nothing more to do leaves it alone. */
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"
#include "otlp/table.h"
#include "spansieve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) {
        abort();
    }
}

#define TEXT(literal) ((ss_text){literal, sizeof(literal) - 1})
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { ACTIONS_MAX = 3, CHOICES = 3 + 2 * ACTIONS_MAX };

static const ss_text keys[] = {TEXT("a"), TEXT("b"), TEXT(""), TEXT("service.name")};
static const ss_text patterns[] = {TEXT(""), TEXT("^a"), TEXT("(?P<a>.)(?P<c>x)?"), TEXT(".")};
static const ss_value items[] = {{.type = SS_TYPE_INT, .integer = -1}, {.type = SS_TYPE_DOUBLE, .real = 1e21}};
static const ss_value values[] = {
    {.type = SS_TYPE_STRING, .string = TEXT("a\"")},
    {.type = SS_TYPE_BOOL, .integer = 1},
    {.type = SS_TYPE_ARRAY, .items = items, .n_items = COUNT(items)},
    {.type = SS_TYPE_MAP, .items = items, .keys = keys, .n_items = COUNT(items)},
};

static ss_attribute_action make_action(uint8_t first, uint8_t second) {
    ss_attribute_action action = {
        .verb = (ss_attribute_verb)(first % (SS_ATTRIBUTE_CONVERT + 1)),
        .key = keys[first / 8 % COUNT(keys)],
        .value = first & 32 ? &values[second % COUNT(values)] : NULL,
        .from_attribute = keys[second / 4 % COUNT(keys)],
        .otherwise = second & 128 ? &values[first / 64] : NULL,
        .converted_type = second & 64   ? SS_TYPE_INT
                          : second & 32 ? SS_TYPE_DOUBLE
                                        : SS_TYPE_STRING,
    };
    if (action.verb == SS_ATTRIBUTE_EXTRACT) {
        action.pattern = patterns[2];
    } else if (action.verb == SS_ATTRIBUTE_DELETE || action.verb == SS_ATTRIBUTE_HASH) {
        action.pattern = patterns[second / 16 % COUNT(patterns)];
    }
    return action;
}

static ss_op *make_op(const uint8_t *choices) {
    const ss_attribute_condition condition = {.key = keys[choices[2] % COUNT(keys)],
                                              .value = choices[2] & 4 ? &values[choices[2] & 8 ? 0 : 3] : NULL};
    const ss_library_condition library = {.name = TEXT(""), .has_version = choices[2] & 16, .version = TEXT("1")};
    const ss_text_list texts = {patterns, choices[2] & 32 ? 2 : 0};
    const bool is_regexp = choices[1] & 1;
    const ss_attribute_match match = {
        .is_regexp = is_regexp,
        .services = choices[1] & 2 ? texts : (ss_text_list){0},
        .names = choices[1] & 4 ? texts : (ss_text_list){0},
        .span_kinds = choices[1] & 8 ? texts : (ss_text_list){0},
        .log_bodies = choices[1] & 16 ? texts : (ss_text_list){0},
        .log_severity_texts = choices[1] & 32 ? texts : (ss_text_list){0},
        .has_severity_number = choices[2] & 64,
        .min_severity_number = choices[2] / 128,
        .matches_undefined_severity = choices[2] & 128,
        .libraries = &library,
        .n_libraries = choices[2] & 16 ? 1 : 0,
        .resources = {&condition, choices[1] & 64 ? 1 : 0},
        .attributes = {&condition, choices[1] & 128 ? 1 : 0},
    };
    ss_attribute_action actions[ACTIONS_MAX];
    for (size_t i = 0; i < ACTIONS_MAX; i++) {
        actions[i] = make_action(choices[3 + 2 * i], choices[4 + 2 * i]);
    }
    const ss_attributes_config config = {
        .is_resource = choices[0] & 4,
        .actions = actions,
        .n_actions = 1 + choices[0] / 16 % ACTIONS_MAX,
        .include = choices[0] & 8 ? &match : NULL,
        .exclude = choices[0] & 128 ? &match : NULL,
    };
    ss_error error;
    ss_op *op = ss_attributes_new(&config, &error);
    require(op != NULL);
    return op;
}

/* What op makes of bytes, which were scanned into table. */
static ss_buffer run(ss_op *op, ss_table *table) {
    ss_verdict verdict = {0};
    ss_buffer out = {0};
    require(ss_op_run(op, table, &verdict) == SS_OK);
    require(table->n_kept == table->n_rows);
    require(ss_emit(table, 0, table->n_rows, &out) == SS_OK);
    return out;
}

/* Nine bytes choose, the rest is the request. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < CHOICES) {
        return 0;
    }
    const ss_signal signal = (ss_signal)(data[0] % 4 % SS_N_SIGNALS);
    const size_t length = size - CHOICES;
    /* A copy of the exact size lets the sanitizer see a read past the end. */
    uint8_t *bytes = malloc(length + !length);
    ss_table *table = ss_table_new();
    ss_error error;
    require(bytes && table);
    memcpy(bytes, data + CHOICES, length);
    if (ss_scan(signal, bytes, length, table, &error) == SS_OK) {
        const uint32_t n_rows = table->n_rows;
        ss_op *op = make_op(data);
        ss_buffer out = run(op, table);
        require(ss_scan(signal, out.data, out.length, table, &error) == SS_OK);
        require(table->n_rows == n_rows);
        const ss_attribute_action nothing = {.verb = SS_ATTRIBUTE_DELETE, .key = TEXT("no such key")};
        const ss_attributes_config config = {.is_resource = data[0] & 4, .actions = &nothing, .n_actions = 1};
        ss_op *idle = ss_attributes_new(&config, &error);
        require(idle != NULL);
        ss_buffer same = run(idle, table);
        require(ss_table_is_untouched(table) && same.length == out.length);
        ss_op_free(idle);
        ss_op_free(op);
        ss_buffer_free(&out);
        ss_buffer_free(&same);
    }
    ss_table_free(table);
    free(bytes);
    return 0;
}
