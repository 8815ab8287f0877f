/* Requests of traces made by hand, so that a test needs no protobuf library. */
#ifndef SS_MADE_REQUEST_H
#define SS_MADE_REQUEST_H

#include "spansieve.h"

#include <string.h>

enum { SPAN_BYTES = 60 };

/* A request of n spans in one scope. */
static inline ss_buffer make_request(uint32_t n) {
    ss_buffer spans = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint8_t span[SPAN_BYTES] = {0x12, SPAN_BYTES - 2, 0x0a, 16};
        memcpy(span + 4, &i, sizeof i);
        span[4 + 15] = 1;
        uint8_t *pos = span + 20;
        *pos++ = 0x12;
        *pos++ = 8;
        memcpy(pos, &i, sizeof i);
        pos += 8;
        *pos++ = 0x2a; /* the name fills the rest */
        *pos = (uint8_t)(span + SPAN_BYTES - pos - 1);
        memset(pos + 1, 'n', *pos);
        ss_buffer_append(&spans, span, sizeof span);
    }
    ss_buffer request = {0};
    uint8_t head[16];
    uint32_t length = (uint32_t)spans.length;
    uint8_t *pos = head;
    /* Lengths as padded five-byte varints keep this simple. */
    for (uint32_t level = 0; level < 2; level++) {
        uint32_t value = length + (level == 0 ? 6 : 0);
        *pos++ = level == 0 ? 0x0a : 0x12;
        for (int byte = 0; byte < 4; byte++) {
            *pos++ = (uint8_t)(value >> (7 * byte) | 0x80);
        }
        *pos++ = (uint8_t)(value >> 28);
    }
    ss_buffer_append(&request, head, (size_t)(pos - head));
    ss_buffer_append(&request, spans.data, spans.length);
    ss_buffer_free(&spans);
    return request;
}

#endif
