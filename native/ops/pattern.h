/* Regular expressions on names and values: RE2's behaviour, found with PCRE2 in time that grows with the text alone. */
#ifndef SS_PATTERN_H
#define SS_PATTERN_H

#include "core/arena.h"

/* A compiled pattern: read-only after it was made, shared by threads. */
typedef struct ss_pattern ss_pattern;

/* Where one match is kept; one thread at a time. Zero-initialised is empty and valid. */
typedef struct ss_pattern_match {
    void *data;
    void *counted;
    uint32_t n_groups;
    /* Since it was reserved: */
    uint32_t n_exhausted; /* searches that have taken all steps that the first try may take */
    uint32_t n_undecided; /* searches that were given up */
    uint64_t n_bytes;     /* of texts in which it was tried */
} ss_pattern_match;

/* Make room for the groups of the largest pattern that match is used with; to be called for each request. False: out of
 * memory. */
bool ss_pattern_match_reserve(ss_pattern_match *match, uint32_t n_groups);
void ss_pattern_match_free(ss_pattern_match *match);

/* NULL with the offset of the fault, or with SS_ERR_NO_MEMORY. */
ss_pattern *ss_pattern_new(ss_bytes pattern, ss_error *error);
void ss_pattern_free(ss_pattern *pattern);
uint32_t ss_pattern_n_groups(const ss_pattern *pattern); /* the whole match included */
/* The name of a group, which lives as long as the pattern; empty where it has none. */
ss_bytes ss_pattern_group_name(const ss_pattern *pattern, uint32_t group);

/* Whether a text has what is looked for. SS_UNDECIDED: the search was given up, since it would have taken too long.
 * That happens only in a long text, to a pattern with a back reference or hundreds of states, or where groups are
 * wanted. */
typedef enum ss_found { SS_NOT_FOUND = 0, SS_FOUND, SS_UNDECIDED } ss_found;

/* Find pattern anywhere in text.
 * REQUIRES: match has room for the pattern's groups. */
ss_found ss_pattern_find(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match);
/* The same, and its groups are there then. */
ss_found ss_pattern_find_groups(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match);

/* What a group has caught of the text last searched; empty where it has no part in the match. */
ss_bytes ss_pattern_group(const ss_pattern *pattern, const ss_pattern_match *match, ss_bytes text, int64_t group);

/* Replace $1, ${1}, $name and ${name} in template by the groups last found, $$ by $; as Go's Regexp.Expand, where a
 * group that does not exist is empty. False: out of memory. */
bool ss_pattern_expand(const ss_pattern *pattern, const ss_pattern_match *match, ss_bytes text, ss_bytes template_text,
                       ss_arena *arena, ss_bytes *expanded);

#endif
