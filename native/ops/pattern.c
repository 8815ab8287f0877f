#define PCRE2_CODE_UNIT_WIDTH 8

#include "ops/pattern.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps and KiB of back-tracking that one search may take: about a millisecond. After so many searches of a request
 * that have taken all of it, one may take less: a peer can send a hundred thousand texts that a bad pattern is slow
 * with. */
enum { STEPS_MAX = 50000, HEAP_MAX_KIB = 1024, EXHAUSTED_MAX = 100, STEPS_MAX_THEN = 1000 };

struct ss_pattern {
    pcre2_code *code;
    pcre2_match_context *limits, *tight_limits;
    uint32_t n_groups; /* the whole match included */
};

bool ss_pattern_match_reserve(ss_pattern_match *match, uint32_t n_groups) {
    if (match->n_groups < n_groups) {
        ss_pattern_match_free(match);
        match->data = pcre2_match_data_create(n_groups, NULL);
        match->n_groups = match->data ? n_groups : 0;
    }
    match->n_exhausted = 0;
    return match->n_groups >= n_groups;
}

void ss_pattern_match_free(ss_pattern_match *match) {
    pcre2_match_data_free(match->data);
    *match = (ss_pattern_match){0};
}

uint32_t ss_pattern_n_groups(const ss_pattern *pattern) {
    return pattern->n_groups;
}

/* `$` is the very end only and broken UTF-8 in a name is no error: RE2's ways. */
static pcre2_code *compile(ss_bytes pattern, int *code, size_t *offset) {
    const uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C;
    static const uint8_t nothing[1];
    return pcre2_compile(pattern.data ? pattern.data : nothing, pattern.length, options, code, offset, NULL);
}

ss_pattern *ss_pattern_new(ss_bytes text, ss_error *error) {
    int code = 0;
    size_t offset = 0;
    ss_pattern *pattern = calloc(1, sizeof *pattern);
    if (!pattern) {
        *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
        return NULL;
    }
    pattern->code = compile(text, &code, &offset);
    if (!pattern->code) {
        *error = (ss_error){SS_ERR_ARGUMENT, offset, "not a valid regular expression"};
        ss_pattern_free(pattern);
        return NULL;
    }
    pattern->limits = pcre2_match_context_create(NULL);
    pattern->tight_limits = pcre2_match_context_create(NULL);
    if (!pattern->limits || !pattern->tight_limits) {
        *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
        ss_pattern_free(pattern);
        return NULL;
    }
    pcre2_set_match_limit(pattern->limits, STEPS_MAX);
    pcre2_set_heap_limit(pattern->limits, HEAP_MAX_KIB);
    pcre2_set_match_limit(pattern->tight_limits, STEPS_MAX_THEN);
    pcre2_set_heap_limit(pattern->tight_limits, HEAP_MAX_KIB);
    pcre2_pattern_info(pattern->code, PCRE2_INFO_CAPTURECOUNT, &pattern->n_groups);
    pattern->n_groups++;
    return pattern;
}

void ss_pattern_free(ss_pattern *pattern) {
    if (pattern) {
        pcre2_match_context_free(pattern->limits);
        pcre2_match_context_free(pattern->tight_limits);
        pcre2_code_free(pattern->code);
        free(pattern);
    }
}

ss_bytes ss_pattern_group_name(const ss_pattern *pattern, uint32_t group) {
    uint32_t n_names = 0;
    uint32_t entry_size = 0;
    PCRE2_SPTR entry = NULL;
    pcre2_pattern_info(pattern->code, PCRE2_INFO_NAMECOUNT, &n_names);
    pcre2_pattern_info(pattern->code, PCRE2_INFO_NAMEENTRYSIZE, &entry_size);
    pcre2_pattern_info(pattern->code, PCRE2_INFO_NAMETABLE, &entry);
    /* An entry is the number of the group in two bytes, and its name. */
    for (; n_names--; entry += entry_size) {
        if ((uint32_t)(entry[0] << 8 | entry[1]) == group) {
            return (ss_bytes){entry + 2, strlen((const char *)entry + 2)};
        }
    }
    return (ss_bytes){0};
}

bool ss_pattern_check(const char *pattern, size_t length, uint32_t *n_groups, uint32_t *n_named, char *message,
                      size_t message_length) {
    int code = 0;
    size_t offset = 0;
    *n_groups = 0;
    *n_named = 0;
    pcre2_code *compiled = compile((ss_bytes){(const uint8_t *)pattern, length}, &code, &offset);
    if (compiled) {
        pcre2_pattern_info(compiled, PCRE2_INFO_CAPTURECOUNT, n_groups);
        pcre2_pattern_info(compiled, PCRE2_INFO_NAMECOUNT, n_named);
        pcre2_code_free(compiled);
        return true;
    }
    PCRE2_UCHAR reason[256];
    pcre2_get_error_message(code, reason, sizeof reason);
    snprintf(message, message_length, "%s at byte %zu", (const char *)reason, offset);
    return false;
}

bool ss_pattern_find(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match) {
    static const uint8_t nothing[1];
    const uint8_t *subject = text.data ? text.data : nothing;
    pcre2_match_context *limits = match->n_exhausted < EXHAUSTED_MAX ? pattern->limits : pattern->tight_limits;
    int found = pcre2_match(pattern->code, subject, text.length, 0, 0, match->data, limits);
    match->n_exhausted += found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_HEAPLIMIT;
    return found > 0;
}

ss_bytes ss_pattern_group(const ss_pattern *pattern, const ss_pattern_match *match, ss_bytes text, int64_t group) {
    if (group < 0 || group >= pattern->n_groups) {
        return (ss_bytes){0};
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(match->data) + 2 * group;
    if (ends[0] == PCRE2_UNSET || ends[1] < ends[0]) {
        return (ss_bytes){0};
    }
    return (ss_bytes){text.data + ends[0], ends[1] - ends[0]};
}

/* ---------------------------------------------------------------- templates */

static bool is_name_byte(uint8_t byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           byte == '_' || byte >= 0x80;
}

/* The name that `$` at `at` refers to. Returns the position behind it; 0 when the `$` is only a `$`. */
static size_t read_reference(ss_bytes text, size_t at, ss_bytes *name) {
    size_t start = at + 1;
    bool is_braced = start < text.length && text.data[start] == '{';
    start += is_braced;
    size_t end = start;
    while (end < text.length && is_name_byte(text.data[end])) {
        end++;
    }
    if (end == start || (is_braced && (end == text.length || text.data[end] != '}'))) {
        return 0;
    }
    *name = (ss_bytes){text.data + start, end - start};
    return end + is_braced;
}

/* The bytes of the group called name, which may be a number. */
static ss_bytes group_named(const ss_pattern *pattern, const ss_pattern_match *match, ss_bytes text, ss_bytes name) {
    enum { NAME_MAX_BYTES = 128, NO_GROUP = INT32_MAX }; /* PCRE2 allows 32 characters */
    int64_t group = 0;
    for (size_t i = 0; i < name.length && group != NO_GROUP; i++) {
        bool is_digit = name.data[i] >= '0' && name.data[i] <= '9';
        group = is_digit && group < UINT16_MAX ? group * 10 + (name.data[i] - '0') : NO_GROUP;
    }
    if (group == NO_GROUP && name.length < NAME_MAX_BYTES) {
        char buffer[NAME_MAX_BYTES] = {0};
        memcpy(buffer, name.data, name.length);
        group = pcre2_substring_number_from_name(pattern->code, (PCRE2_SPTR)buffer);
    }
    return ss_pattern_group(pattern, match, text, group);
}

bool ss_pattern_expand(const ss_pattern *pattern, const ss_pattern_match *match, ss_bytes text, ss_bytes template_text,
                       ss_arena *arena, ss_bytes *expanded) {
    ss_gathered out = {0};
    ss_bytes t = template_text;
    for (size_t at = 0; at < t.length;) {
        ss_bytes piece = {t.data + at, 1};
        ss_bytes name;
        size_t behind = at + 1;
        if (t.data[at] == '$' && behind < t.length && t.data[behind] == '$') {
            behind++;
        } else if (t.data[at] == '$' && read_reference(t, at, &name)) {
            behind = read_reference(t, at, &name);
            piece = group_named(pattern, match, text, name);
        }
        if (!ss_gather(arena, &out, piece)) {
            return false;
        }
        at = behind;
    }
    *expanded = out.bytes;
    return true;
}
