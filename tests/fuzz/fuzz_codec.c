/* Decompression of anything within its limit, and the round trip of what the rest of the input is. */
#include "spansieve.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { LIMIT = 1 << 16 };
    if (size == 0) {
        return 0;
    }
    ss_codec *codec = ss_codec_new();
    ss_encoding encoding = (ss_encoding)(data[0] % SS_N_ENCODINGS);
    ss_buffer out = {0}, packed = {0};
    ss_error error = {0};
    ss_status status = ss_decompress(codec, encoding, data + 1, size - 1, LIMIT, &out, &error);
    if (out.length > LIMIT || out.capacity > 4 * LIMIT + 32 * size || (status != SS_OK) != (error.reason != NULL) ||
        error.offset > size) {
        __builtin_trap();
    }
    out.length = 0;
    if (ss_compress(codec, encoding, 0, data, size, &packed) == SS_OK) {
        if (ss_decompress(codec, encoding, packed.data, packed.length, size, &out, NULL) != SS_OK ||
            out.length != size || memcmp(out.data, data, size) != 0) {
            __builtin_trap();
        }
    }
    ss_buffer_free(&out);
    ss_buffer_free(&packed);
    ss_codec_free(codec);
    return 0;
}
