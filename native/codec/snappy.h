/*
 * Snappy: the raw block format and the framed format.
 *
 * The library is loaded when it is first needed: it brings the C++ runtime along, a megabyte that collectors whose
 * peers never send snappy do not pay.
 */
#ifndef SS_CODEC_SNAPPY_H
#define SS_CODEC_SNAPPY_H

#include "codec/library.h"

/* The loaded library. Zero-initialised: not needed yet. */
typedef struct ss_snappy {
    void *library;
    int (*compress)(const char *bytes, size_t length, char *out, size_t *out_length);
    int (*uncompress)(const char *bytes, size_t length, char *out, size_t *out_length);
    int (*uncompressed_length)(const char *bytes, size_t length, size_t *out_length);
    size_t (*max_compressed_length)(size_t length);
} ss_snappy;

void ss_snappy_release(ss_snappy *snappy);

/* True when the library was there at build time. */
bool ss_snappy_is_available(void);
/* Appends one raw block. */
ss_status ss_snappy_compress(ss_snappy *snappy, const uint8_t *bytes, size_t length, ss_buffer *out);
/* Appends a framed stream. */
ss_status ss_snappy_compress_framed(ss_snappy *snappy, const uint8_t *bytes, size_t length, ss_buffer *out);
/* Appends the content of a raw block, or of a framed stream where bytes begin with the stream identifier. */
ss_status ss_snappy_decompress(ss_snappy *snappy, const uint8_t *bytes, size_t length, size_t max_length,
                               ss_buffer *out, ss_error *error);

#endif
