/* What the parts of the attributes operation share: the compiled configuration, and what one run needs. */
#ifndef SS_ATTRIBUTES_H
#define SS_ATTRIBUTES_H

#include "ops/attributes_list.h"
#include "ops/op.h"
#include "ops/pattern.h"
#include "ops/sha256.h"

/* ------------------------------------------------------------------ the compiled configuration */

/* A text to compare with, or a pattern to find. */
typedef struct ss_matcher {
    ss_bytes text;
    ss_pattern *pattern; /* NULL: text is compared */
} ss_matcher;

typedef struct ss_matchers {
    ss_matcher *matchers;
    size_t n; /* 0: anything matches */
} ss_matchers;

typedef struct ss_condition {
    ss_bytes key;
    bool has_value;      /* else any will do */
    ss_bytes value;      /* body of an AnyValue, where there is no pattern */
    ss_pattern *pattern; /* of what the value is as text */
} ss_condition;

typedef struct ss_conditions {
    ss_condition *conditions;
    size_t n;
} ss_conditions;

typedef struct ss_library {
    ss_matcher name;
    bool has_version;
    ss_matcher version;
} ss_library;

typedef struct ss_item_match {
    ss_matchers services;
    ss_matchers names;
    ss_matchers span_kinds;
    ss_matchers log_bodies;
    ss_matchers log_severity_texts;
    bool has_severity_number;
    int32_t min_severity_number;
    bool matches_undefined_severity;
    ss_library *libraries;
    size_t n_libraries;
    ss_conditions resources;
    ss_conditions attributes;
    bool is_of_container;   /* something is asked of resource or scope */
    bool undecided_matches; /* a text in which the search for a pattern was given up counts as one that has it */
} ss_item_match;

/* ------------------------------------------------------------------ one run */

/* What was found of a pattern in a text that lies in the request. */
typedef struct ss_memo_entry {
    const ss_pattern *pattern;
    const uint8_t *text;
    size_t length;
    ss_found found;
} ss_memo_entry;

enum { SS_MEMO_SLOTS = 256 };

/* Whether the name that was looked at last is one that is asked for: data points of one metric share it. */
typedef struct ss_last_name {
    const ss_item_match *match; /* NULL: none was */
    uint32_t offset, length;
    bool matches;
} ss_last_name;

/* What an action writes of a header of the request: the same into each item. */
typedef struct ss_header_value {
    bool is_known; /* it was looked for */
    bool is_found;
    ss_bytes body; /* of the AnyValue */
} ss_header_value;

/* What one run needs of memory. */
typedef struct ss_attributes_scratch {
    ss_arena arena;              /* of the whole run */
    ss_header_value *headers;    /* of each action; NULL where none reads any */
    ss_attribute_list list;      /* of the item or resource at hand */
    ss_attribute_list container; /* of the resource or scope that include and exclude look at */
    ss_buffer text;
    ss_pattern_match match;
    bool undecided_matches; /* of the include or exclude at hand */
    ss_sha256_state hash;
    ss_last_name last_names[2]; /* of include and exclude */
    ss_memo_entry memo[SS_MEMO_SLOTS];
} ss_attributes_scratch;

/* Find pattern in text. What was found of the texts of a request is remembered: they repeat. */
ss_found ss_attributes_find(ss_attributes_scratch *scratch, const ss_table *table, const ss_pattern *pattern,
                            ss_bytes text);

/* Does the resource of the row meet what match asks of it? SS_OK and *matches, or SS_ERR_NO_MEMORY. To be called once a
 * resource: it reads all of it. */
ss_status ss_item_match_resource(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                                 uint32_t row, bool *matches);
/* And the scope of the row? Once a scope. */
ss_status ss_item_match_scope(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                              uint32_t row, bool *matches);
/* And the row the rest? Its attributes are in the list, where match asks for any. */
ss_status ss_item_match_row(const ss_item_match *match, ss_attributes_scratch *scratch, const ss_table *table,
                            uint32_t row, bool *matches);

/* The body of the ResourceSpans, ResourceMetrics or ResourceLogs of a row. */
ss_reader ss_resource_container(const ss_table *table, uint32_t row);

#endif
