/* Source: lz4's "lz4_Frame_format.md" and the interface of its frame library. */
#include "codec/lz4.h"

#if SPANSIEVE_HAVE_LZ4

enum { FRAME_API_VERSION = 100, FIRST_STEP = 4096 };

bool ss_lz4_is_available(void) {
    return true;
}

static ss_status load(ss_lz4 *lz4) {
    if (lz4->library) {
        return SS_OK;
    }
    const ss_symbol symbols[] = {
        {"LZ4F_isError", &lz4->is_error},
        {"LZ4F_compressFrameBound", &lz4->compress_bound},
        {"LZ4F_compressFrame", &lz4->compress},
        {"LZ4F_createDecompressionContext", &lz4->context_new},
        {"LZ4F_freeDecompressionContext", &lz4->context_free},
        {"LZ4F_decompress", &lz4->decompress},
    };
    lz4->library = ss_library_load("liblz4.so.1", symbols, sizeof symbols / sizeof symbols[0]);
    return lz4->library ? SS_OK : SS_ERR_UNSUPPORTED;
}

void ss_lz4_release(ss_lz4 *lz4) {
    ss_library_unload(lz4->library);
    *lz4 = (ss_lz4){0};
}

ss_status ss_lz4_compress(ss_lz4 *lz4, const uint8_t *bytes, size_t length, ss_buffer *out) {
    ss_status status = load(lz4);
    if (status != SS_OK) {
        return status;
    }
    size_t bound = lz4->compress_bound(length, NULL);
    status = ss_buffer_reserve(out, bound);
    if (status != SS_OK) {
        return status;
    }
    size_t size = lz4->compress(out->data + out->length, bound, bytes, length, NULL);
    if (lz4->is_error(size)) {
        return SS_ERR_NO_MEMORY; /* the bound leaves no other cause */
    }
    out->length += size;
    return SS_OK;
}

/* The context holds up to two blocks, whose size a frame's header states: 4 MiB each at most. */
static ss_status unpack(const ss_lz4 *lz4, void *context, const uint8_t *bytes, size_t length, size_t max_length,
                        ss_buffer *out, ss_error *error) {
    size_t start = out->length;
    for (size_t pos = 0, hint = 0; pos < length || hint != 0;) {
        size_t room = max_length - (out->length - start);
        size_t step = length > (SIZE_MAX - FIRST_STEP) / 4 ? SIZE_MAX : 4 * length + FIRST_STEP;
        ss_status status = ss_buffer_reserve(out, step < room ? step : room);
        if (status != SS_OK) {
            return ss_codec_fail(error, status, pos, "no memory for the decompressed bytes");
        }
        uint8_t beyond; /* a byte that lands here is one too many */
        size_t capacity = out->capacity - out->length;
        size_t written = room ? (capacity < room ? capacity : room) : sizeof beyond;
        size_t used = length - pos;
        hint = lz4->decompress(context, room ? out->data + out->length : &beyond, &written, bytes + pos, &used, NULL);
        if (lz4->is_error(hint)) {
            return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "invalid lz4 data");
        }
        if (written && !room) {
            return ss_codec_fail(error, SS_ERR_LIMIT, pos, "decompressed size exceeds the limit");
        }
        pos += used;
        out->length += written;
        if (used == 0 && written == 0) {
            return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "compressed data ends too early");
        }
    }
    return SS_OK;
}

ss_status ss_lz4_decompress(ss_lz4 *lz4, const uint8_t *bytes, size_t length, size_t max_length, ss_buffer *out,
                            ss_error *error) {
    ss_status status = load(lz4);
    if (status != SS_OK) {
        return ss_codec_fail(error, status, 0, "the lz4 library cannot be loaded");
    }
    void *context = NULL;
    if (lz4->is_error(lz4->context_new(&context, FRAME_API_VERSION))) {
        return ss_codec_fail(error, SS_ERR_NO_MEMORY, 0, "no memory for the lz4 context");
    }
    status = unpack(lz4, context, bytes, length, max_length, out, error);
    lz4->context_free(context);
    return status;
}

#else

void ss_lz4_release(ss_lz4 *lz4) {
    (void)lz4;
}

bool ss_lz4_is_available(void) {
    return false;
}

ss_status ss_lz4_compress(ss_lz4 *lz4, const uint8_t *bytes, size_t length, ss_buffer *out) {
    (void)lz4, (void)bytes, (void)length, (void)out;
    return SS_ERR_UNSUPPORTED;
}

ss_status ss_lz4_decompress(ss_lz4 *lz4, const uint8_t *bytes, size_t length, size_t max_length, ss_buffer *out,
                            ss_error *error) {
    (void)lz4, (void)bytes, (void)length, (void)max_length, (void)out;
    return ss_codec_fail(error, SS_ERR_UNSUPPORTED, 0, "lz4 was not there at build time");
}

#endif
