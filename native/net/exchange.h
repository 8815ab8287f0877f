/* An HTTP request on a stream of HTTP/2: it is written as HTTP/1.1 into a connection of its own, whose checks, limits
 * and answers are then those of OTLP/HTTP whichever way it came. */
#ifndef SS_EXCHANGE_H
#define SS_EXCHANGE_H

#include "net/connection.h"

#include <nghttp2/nghttp2.h>

/* The header block being read. Zero-initialised is empty. */
typedef struct ss_exchange_head {
    ss_buffer method, target;
    ss_buffer lines; /* of all other fields, each with its end */
    bool has_host;
    bool has_length;
} ss_exchange_head;

void ss_exchange_head_reset(ss_exchange_head *head);
void ss_exchange_head_free(ss_exchange_head *head);
/* Take a field, pseudo-header fields included. SS_ERR_MALFORMED: it would be something else in HTTP/1.1. */
ss_status ss_exchange_head_add(ss_exchange_head *head, const uint8_t *name, size_t name_length, const uint8_t *value,
                               size_t length);

typedef struct ss_exchange {
    ss_connection *inner; /* NULL: not begun */
    bool is_chunked;
    bool is_open;        /* the inner connection takes more */
    size_t held;         /* bytes of the body that were fed */
    size_t body, length; /* of the answer in inner's output, once it is read */
} ss_exchange;

/* Begin with a request that has a body, or not. The answer to a pending one goes to stream of carrier. */
ss_status ss_exchange_begin(ss_exchange *exchange, ss_exchange_head *head, bool has_body, ss_connection *carrier,
                            void *stream);
/* Bytes of the body; the last of them, or none. */
ss_status ss_exchange_feed(ss_exchange *exchange, const uint8_t *bytes, size_t length, bool is_last);
/* True once there is an answer. */
bool ss_exchange_is_answered(const ss_exchange *exchange);
/* Read the answer's head: *fields, to be freed, point into it. NULL: no memory. */
nghttp2_nv *ss_exchange_answer(ss_exchange *exchange, size_t *n_fields);
void ss_exchange_end(ss_exchange *exchange);

#endif
