/* Snappy: the raw block format both ways, the framed format on the way in. */
#ifndef SS_CODEC_SNAPPY_H
#define SS_CODEC_SNAPPY_H

#include "spansieve.h"

bool ss_snappy_is_available(void);
/* Appends one raw block. */
ss_status ss_snappy_compress(const uint8_t *bytes, size_t length, ss_buffer *out);
/* Appends the content of a raw block, or of a framed stream where bytes begin with the stream identifier. */
ss_status ss_snappy_decompress(const uint8_t *bytes, size_t length, size_t max_length, ss_buffer *out, ss_error *error);

#endif
