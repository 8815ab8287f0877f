#define _GNU_SOURCE /* memmem */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "ops/pattern.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * PCRE2 back-tracks, which is fast with most texts and takes as long as it likes with some. So it is let try with a
 * short text, a few steps from each place at which a match may begin; beyond that the text is read once, by PCRE2's
 * other matcher, which follows all ways at a time and says whether there is a match, but not where its groups are. Only
 * to find groups in a long text, and for what that matcher cannot do (back references), it back-tracks all the same,
 * each step counted: so many steps a byte, and no more. Then the search is given up, and its caller is told.
 */
enum { SHORT_BYTES = 512, STEPS_MAX = 1000, HEAP_MAX_KIB = 1024 };
/* A request whose short texts take long, or that has very many of them, has less time for each. */
enum { EXHAUSTED_MAX = 16, HASTY_BYTES = 256 << 10, STEPS_MAX_THEN = 64 };
/* What back-tracking in a long text may cost: a step, or so many bytes gone over. */
enum { STEPS_A_BYTE = 32, STEPS_BEYOND = 1 << 16, BYTES_A_STEP = 16 };
/* For as many states as a pattern has that a person wrote; each byte costs up to the square of them. */
enum { WORKSPACE_INTS = 1024 };
#define ODD SIZE_MAX

struct ss_pattern {
    pcre2_code *code;
    pcre2_code *counted; /* the same, with a call in front of each of its parts */
    pcre2_code *whole;   /* of a text that is read once, from its beginning; NULL: there is no such pattern */
    pcre2_match_context *limits, *tight_limits;
    uint32_t n_groups; /* the whole match included */
    bool repeats;      /* else what is tried at each place of a text does not depend on its length */
};

bool ss_pattern_match_reserve(ss_pattern_match *match, uint32_t n_groups) {
    if (match->n_groups < n_groups) {
        ss_pattern_match_free(match);
        match->data = pcre2_match_data_create(n_groups, NULL);
        match->counted = pcre2_match_context_create(NULL);
        match->n_groups = match->data && match->counted ? n_groups : 0;
        if (match->counted) {
            pcre2_set_heap_limit(match->counted, HEAP_MAX_KIB);
        }
    }
    match->n_exhausted = 0;
    match->n_bytes = 0;
    match->n_undecided = 0;
    return match->n_groups >= n_groups;
}

void ss_pattern_match_free(ss_pattern_match *match) {
    pcre2_match_data_free(match->data);
    pcre2_match_context_free(match->counted);
    *match = (ss_pattern_match){0};
}

uint32_t ss_pattern_n_groups(const ss_pattern *pattern) {
    return pattern->n_groups;
}

/* `$` is the very end only: RE2's way. */
enum { OPTIONS = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C };
/* Where matching can go back: broken UTF-8 in a text is no error. */
enum { CODE_OPTIONS = OPTIONS | PCRE2_MATCH_INVALID_UTF };

static pcre2_code *compile(ss_bytes pattern, uint32_t options, int *code, size_t *offset) {
    static const uint8_t nothing[1];
    return pcre2_compile(pattern.data ? pattern.data : nothing, pattern.length, options, code, offset, NULL);
}

/* The bytes of the escape at `at`; ODD: it stands for something else than a character. */
static size_t escape_length(ss_bytes text, size_t at) {
    const uint8_t *pos = text.data + at, *end = text.data + text.length;
    const size_t left = (size_t)(end - pos);
    if (left < 2 || (pos[1] && strchr("0123456789cgkoEGKNQR", pos[1]))) {
        return ODD;
    }
    if (pos[1] != 'p' && pos[1] != 'P' && pos[1] != 'x') {
        return 2;
    }
    if (left > 2 && pos[2] == '{') {
        const uint8_t *close = memchr(pos, '}', left);
        return close ? (size_t)(close + 1 - pos) : ODD;
    }
    const size_t length = pos[1] == 'x' ? 4 : 3;
    return length <= left ? length : ODD;
}

/* The bytes of the class at `at`. */
static size_t class_length(ss_bytes text, size_t at) {
    size_t pos = at + 1;
    pos += pos < text.length && text.data[pos] == '^';
    for (pos += pos < text.length && text.data[pos] == ']'; pos < text.length && text.data[pos] != ']'; pos++) {
        if (text.data[pos] == '\\') {
            pos++;
        } else if (text.data[pos] == '[' && pos + 1 < text.length && text.data[pos + 1] == ':') {
            const uint8_t *close = memchr(text.data + pos, ']', text.length - pos); /* [:alpha:] */
            pos = close ? (size_t)(close - text.data) : text.length;
        }
    }
    return pos < text.length ? pos + 1 - at : ODD;
}

/* The bytes of the escape, the class or the character at `at`; 0: it is none of these. */
static size_t atom_length(ss_bytes text, size_t at) {
    switch (text.data[at]) {
    case '\\': return escape_length(text, at);
    case '[': return class_length(text, at);
    case '^':
    case '$':
    case '|':
    case '(':
    case ')':
    case '*':
    case '+':
    case '?':
    case '{':
    case '}': return 0;
    default: break;
    }
    size_t length = 1;
    while (at + length < text.length && (text.data[at + length] & 0xc0) == 0x80) { /* the rest of a character */
        length++;
    }
    return length;
}

static bool is_letter(uint8_t byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* Is the group at `at`, "(?", more than a group, a name or flags: a comment, a look around it, the pattern once more?
 * For each place where it is tried the matcher that reads a text once would read as much again as such a part asks for.
 * Or one in which white space stands for nothing? */
static bool is_odd_group(ss_bytes text, size_t at) {
    size_t pos = at + 2;
    bool has_x = false;
    for (; pos < text.length && (is_letter(text.data[pos]) || text.data[pos] == '-' || text.data[pos] == '^'); pos++) {
        has_x |= text.data[pos] == 'x';
    }
    if (pos + 1 >= text.length || text.data[at + 2] == 'R') {
        return true;
    }
    const uint8_t sign = text.data[pos], next = text.data[pos + 1];
    const bool has_name = sign == '\'' || (sign == '<' && next != '=' && next != '!');
    return !has_name && (has_x || (sign != ':' && sign != ')'));
}

static bool append(ss_buffer *out, const void *bytes, size_t length) {
    return ss_buffer_append(out, bytes, length) == SS_OK;
}

/* Write the pattern that matches from the beginning of each text in which this one is to be found. x+ becomes (?:x)+:
 * the matcher that reads a text once would else count the x of each place where a match may have begun.
 * SS_ERR_UNSUPPORTED: the pattern has what no other expression language has. */
static ss_status write_whole(ss_bytes text, ss_buffer *out) {
    static const char start[] = "(?s:.*)(?:";
    bool ok = append(out, start, sizeof start - 1);
    for (size_t at = 0, length; ok && at < text.length; at += length) {
        length = atom_length(text, at);
        const uint8_t next = at + 1 < text.length ? text.data[at + 1] : 0;
        if (length == ODD || (text.data[at] == '(' && (next == '*' || (next == '?' && is_odd_group(text, at))))) {
            return SS_ERR_UNSUPPORTED;
        }
        const size_t behind = at + length;
        const bool repeats = length && behind < text.length && text.data[behind] == '+' &&
                             !(behind + 1 < text.length && text.data[behind + 1] == '+');
        length += !length;
        ok = (!repeats || append(out, "(?:", 3)) && append(out, text.data + at, length) &&
             (!repeats || append(out, ")", 1));
    }
    return ok && append(out, ")", 1) ? SS_OK : SS_ERR_NO_MEMORY;
}

/* False: out of memory. */
static bool compile_whole(ss_pattern *pattern, ss_bytes text) {
    ss_buffer out = {0};
    int code;
    size_t offset;
    ss_status status = write_whole(text, &out);
    if (status == SS_OK) {
        pattern->whole = compile((ss_bytes){out.data, out.length}, OPTIONS, &code, &offset);
    }
    ss_buffer_free(&out);
    return status != SS_ERR_NO_MEMORY;
}

/* Is there anything in it that may match a text of any length? */
static bool has_repeats(ss_bytes text) {
    static const char *const signs[] = {"*", "+", "{", "(?R", "(?P>", "(?&", "\\g", "(?0", "(?1"};
    for (size_t i = 0; text.length && i < sizeof signs / sizeof signs[0]; i++) {
        if (memmem(text.data, text.length, signs[i], strlen(signs[i]))) {
            return true;
        }
    }
    return false;
}

ss_pattern *ss_pattern_new(ss_bytes text, ss_error *error) {
    int code = 0;
    size_t offset = 0;
    ss_pattern *pattern = calloc(1, sizeof *pattern);
    if (!pattern) {
        *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
        return NULL;
    }
    pattern->code = compile(text, CODE_OPTIONS, &code, &offset);
    if (!pattern->code) {
        *error = (ss_error){SS_ERR_ARGUMENT, offset, "not a valid regular expression"};
        ss_pattern_free(pattern);
        return NULL;
    }
    pattern->counted = compile(text, CODE_OPTIONS | PCRE2_AUTO_CALLOUT, &code, &offset);
    pattern->repeats = has_repeats(text);
    pattern->limits = pcre2_match_context_create(NULL);
    pattern->tight_limits = pcre2_match_context_create(NULL);
    if (!pattern->counted || !pattern->limits || !pattern->tight_limits || !compile_whole(pattern, text)) {
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
        pcre2_code_free(pattern->counted);
        pcre2_code_free(pattern->whole);
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
    pcre2_code *compiled = compile((ss_bytes){(const uint8_t *)pattern, length}, CODE_OPTIONS, &code, &offset);
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

/* ---------------------------------------------------------------- searching */

static ss_found found_of(int result) {
    return result >= 0 ? SS_FOUND : result == PCRE2_ERROR_NOMATCH ? SS_NOT_FOUND : SS_UNDECIDED;
}

/* Back-track, with few steps from each place; SS_UNDECIDED: more are needed. */
static ss_found try_short(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match) {
    const bool is_hasty = match->n_exhausted >= EXHAUSTED_MAX || match->n_bytes >= HASTY_BYTES;
    match->n_bytes += text.length;
    ss_found found = found_of(pcre2_match(pattern->code, text.data, text.length, 0, 0, match->data,
                                          is_hasty ? pattern->tight_limits : pattern->limits));
    match->n_exhausted += found == SS_UNDECIDED;
    return found;
}

/* Read the text once. SS_UNDECIDED: the pattern asks for more than can be done so. */
static ss_found read_once(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match) {
    int workspace[WORKSPACE_INTS];
    if (!pattern->whole) {
        return SS_UNDECIDED;
    }
    return found_of(pcre2_dfa_match(pattern->whole, text.data, text.length, 0, PCRE2_ANCHORED | PCRE2_DFA_SHORTEST,
                                    match->data, pattern->limits, workspace, WORKSPACE_INTS));
}

typedef struct budget {
    uint64_t left;
    size_t at;
} budget;

/* PCRE2 calls it in front of each part of a pattern that it tries. */
static int count_step(pcre2_callout_block *block, void *data) {
    budget *b = data;
    const size_t at = block->current_position;
    const size_t moved = at > b->at ? at - b->at : b->at - at;
    const uint64_t cost = 1 + moved / BYTES_A_STEP;
    if (cost > b->left) {
        return PCRE2_ERROR_MATCHLIMIT;
    }
    b->at = at;
    b->left -= cost;
    return 0;
}

/* Back-track, and count. */
static ss_found try_long(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match) {
    budget b = {.left = (uint64_t)text.length * STEPS_A_BYTE};
    b.left += match->n_undecided < EXHAUSTED_MAX ? STEPS_BEYOND : STEPS_MAX_THEN;
    pcre2_set_callout(match->counted, count_step, &b);
    return found_of(pcre2_match(pattern->counted, text.data, text.length, 0, 0, match->data, match->counted));
}

static ss_found find(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match, bool wants_groups) {
    static const uint8_t nothing[1];
    text.data = text.data ? text.data : nothing;
    ss_found found = SS_UNDECIDED;
    if (text.length <= SHORT_BYTES || !pattern->repeats) {
        found = try_short(pattern, text, match);
    }
    if (found == SS_UNDECIDED) {
        found = read_once(pattern, text, match);
        if (found == SS_UNDECIDED || (found == SS_FOUND && wants_groups)) {
            found = try_long(pattern, text, match);
            match->n_undecided += found == SS_UNDECIDED;
        }
    }
    return found;
}

ss_found ss_pattern_find(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match) {
    return find(pattern, text, match, false);
}

ss_found ss_pattern_find_groups(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match) {
    return find(pattern, text, match, true);
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
    return is_letter(byte) || (byte >= '0' && byte <= '9') || byte == '_' || byte >= 0x80;
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
