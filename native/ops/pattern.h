/* Regular expressions on names and values: RE2's behaviour, found with PCRE2 under a step limit. */
#ifndef SS_PATTERN_H
#define SS_PATTERN_H

#include "core/arena.h"

/* A compiled pattern: read-only after it was made, shared by threads. */
typedef struct ss_pattern ss_pattern;

/* Where one match is kept; one thread at a time. Zero-initialised is empty and valid. */
typedef struct ss_pattern_match {
    void *data;
    uint32_t n_groups;
    uint32_t n_exhausted; /* searches since it was reserved that have taken all steps they may take */
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

/* Find pattern anywhere in text. A search that takes more steps than any sensible one finds nothing; nor does one that
 * takes many behind too many of those.
 * REQUIRES: match has room for the pattern's groups. */
bool ss_pattern_find(const ss_pattern *pattern, ss_bytes text, ss_pattern_match *match);

/* What a group has caught of the text last searched; empty where it has no part in the match. */
ss_bytes ss_pattern_group(const ss_pattern *pattern, const ss_pattern_match *match, ss_bytes text, int64_t group);

/* Replace $1, ${1}, $name and ${name} in template by the groups last found, $$ by $; as Go's Regexp.Expand, where a
 * group that does not exist is empty. False: out of memory. */
bool ss_pattern_expand(const ss_pattern *pattern, const ss_pattern_match *match, ss_bytes text, ss_bytes template_text,
                       ss_arena *arena, ss_bytes *expanded);

#endif
