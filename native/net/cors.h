/* Cross-origin requests of browsers: which are allowed, and the header lines that say so. */
#ifndef SS_CORS_H
#define SS_CORS_H

#include "spansieve.h"

/* A value as a request has it; length 0: absent. */
typedef struct ss_header_text {
    const char *bytes;
    size_t length;
} ss_header_text;

typedef struct ss_cors ss_cors;
/* Copies. NULL: no memory. */
ss_cors *ss_cors_new(const ss_cors_config *config);
void ss_cors_free(ss_cors *cors);
/* Append the header lines of the answer to a request, each with its end. is_simple: its method needs no leave. */
ss_status ss_cors_append_answer(const ss_cors *cors, ss_header_text origin, bool is_simple, ss_buffer *out);
/* The same for a preflight, which asks whether a request with this method and these headers may follow. */
ss_status ss_cors_append_preflight(const ss_cors *cors, ss_header_text origin, ss_header_text method,
                                   ss_header_text headers, ss_buffer *out);

#endif
