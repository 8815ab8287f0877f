/*
 * Headers of a request that somebody asks for, as one block of bytes: for each value the name in lower case and the
 * value, both with their lengths before them. A block is written once and borrowed from then on.
 */
#ifndef SS_METADATA_H
#define SS_METADATA_H

#include "spansieve.h"

/* Names of headers, in lower case. */
typedef struct ss_names {
    size_t n;
    char **names;
} ss_names;

/* Copies n names, each NUL-terminated and in lower case. Without memory out is empty. */
ss_status ss_names_copy(ss_names *out, const char *const *names, size_t n);
void ss_names_free(ss_names *names);
/* The name among names that a header of this name has, in any case; NULL: none. */
const char *ss_names_find(const ss_names *names, const void *name, size_t length);

/* Append one value to the block. */
ss_status ss_metadata_append(ss_buffer *block, const char *name, const void *value, size_t length);

/* Append those of block whose names are among names to key, in the order of names, then of block: blocks with the
 * same values of all names, and no others, have the same key. block need not be well-formed. */
ss_status ss_metadata_select(const uint8_t *block, size_t length, const ss_names *names, ss_buffer *key);

#endif
