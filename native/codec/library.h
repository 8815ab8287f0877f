/* Libraries that are loaded when they are first needed, here, by net and by ops; how encodings tell a failure. */
#ifndef SS_CODEC_LIBRARY_H
#define SS_CODEC_LIBRARY_H

#include "spansieve.h"

/* A function of a library, and the pointer to functions that is to hold it. */
typedef struct ss_symbol {
    const char *name;
    void *function;
} ss_symbol;

/* Load a shared library and find its functions; NULL when it or one of them is not there. */
void *ss_library_load(const char *file, const ss_symbol *symbols, size_t n_symbols);
void ss_library_unload(void *library);

/* Fill error, which may be NULL, and return code. */
ss_status ss_codec_fail(ss_error *error, ss_status code, size_t offset, const char *reason);

#endif
