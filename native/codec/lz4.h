/* lz4: frames, any number of them. The library is loaded when it is first needed. */
#ifndef SS_CODEC_LZ4_H
#define SS_CODEC_LZ4_H

#include "codec/library.h"

/* The loaded library. Zero-initialised: not needed yet. */
typedef struct ss_lz4 {
    void *library;
    unsigned (*is_error)(size_t result);
    size_t (*compress_bound)(size_t length, const void *preferences);
    size_t (*compress)(void *out, size_t capacity, const void *bytes, size_t length, const void *preferences);
    size_t (*context_new)(void **context, unsigned version);
    size_t (*context_free)(void *context);
    size_t (*decompress)(void *context, void *out, size_t *out_length, const void *bytes, size_t *length,
                         const void *options);
} ss_lz4;

void ss_lz4_release(ss_lz4 *lz4);

/* True when the library was there at build time. */
bool ss_lz4_is_available(void);
/* Appends one frame. */
ss_status ss_lz4_compress(ss_lz4 *lz4, const uint8_t *bytes, size_t length, ss_buffer *out);
/* Appends the content of all frames; no bytes are no frame, and no content. */
ss_status ss_lz4_decompress(ss_lz4 *lz4, const uint8_t *bytes, size_t length, size_t max_length, ss_buffer *out,
                            ss_error *error);

#endif
