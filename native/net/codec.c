/*
 * Message and content encodings over zlib (or libdeflate), zstd, snappy and lz4, with contexts that live as long as
 * the codec, but for lz4's, which are large and quickly made.
 *
 * Decompression never trusts a stated size with memory: a size is believed only while it is plausible for the bytes
 * that carry it, and the output grows in steps up to the caller's limit. Nothing needs a window of its own, since the
 * output is one piece of memory: what a decoder holds is its output and its tables.
 * Sources: RFC 1950, RFC 1952, RFC 8878, snappy's format and framing descriptions.
 */
#include "net/codec_lz4.h"
#include "net/codec_snappy.h"
#include "spansieve.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>
/* libdeflate's level 1 is within 9 % of the size of level 6 for less than half of its time; zlib's is not. */
#if SPANSIEVE_HAVE_DEFLATE
#include <libdeflate.h>
enum { DEFLATE_DEFAULT_LEVEL = 1 };
#else
enum { DEFLATE_DEFAULT_LEVEL = 6 };
#endif

enum {
    DEFLATE_MAX_RATIO = 1032, /* no deflate stream expands by more */
    ZLIB_WINDOW_BITS = 15,
    GZIP_WINDOW_BITS = 15 + 16, /* zlib's way to ask for the gzip wrapper */
    ZSTD_DEFAULT_LEVEL = 1,
    /* What level 1 is made into for large batches. Their repetitions lie far apart and are long: a window over the
     * whole batch and a table of 256 KiB find them, matches of 5 bytes are not worth looking for. On captures this is
     * within 2 % of the size of level 3 for 15 % less time, and 5 to 12 % smaller than level 1 at about its cost. */
    ZSTD_LARGE_FROM = 1 << 20, /* bytes of input */
    ZSTD_LARGE_WINDOW_LOG = 22,
    ZSTD_LARGE_HASH_LOG = 16,
    ZSTD_LARGE_MIN_MATCH = 6,
    FIRST_STEP = 4096 /* smallest piece of output asked for */
};

struct ss_codec {
    z_stream inflate;
    bool has_inflate;
    ZSTD_DCtx *zstd_in;
    ZSTD_CCtx *zstd_out;
    ss_snappy snappy;
    ss_lz4 lz4;
    int deflate_level; /* of the compressor below */
#if SPANSIEVE_HAVE_DEFLATE
    struct libdeflate_decompressor *decompressor;
    struct libdeflate_compressor *compressor;
#else
    z_stream deflate;
    ss_encoding deflate_encoding; /* IDENTITY: deflate is not made */
#endif
};

bool ss_encoding_is_available(ss_encoding encoding) {
    switch (encoding) {
    case SS_ENCODING_IDENTITY:
    case SS_ENCODING_GZIP:
    case SS_ENCODING_ZSTD:
    case SS_ENCODING_ZLIB: return true;
    case SS_ENCODING_SNAPPY:
    case SS_ENCODING_SNAPPY_FRAMED: return ss_snappy_is_available();
    case SS_ENCODING_LZ4: return ss_lz4_is_available();
    case SS_N_ENCODINGS: break;
    }
    return false;
}

ss_codec *ss_codec_new(void) {
    return calloc(1, sizeof(ss_codec));
}

void ss_codec_free(ss_codec *codec) {
    if (!codec) {
        return;
    }
    if (codec->has_inflate) {
        inflateEnd(&codec->inflate);
    }
    ZSTD_freeDCtx(codec->zstd_in);
    ZSTD_freeCCtx(codec->zstd_out);
    ss_snappy_release(&codec->snappy);
    ss_lz4_release(&codec->lz4);
#if SPANSIEVE_HAVE_DEFLATE
    if (codec->decompressor) {
        libdeflate_free_decompressor(codec->decompressor);
    }
    if (codec->compressor) {
        libdeflate_free_compressor(codec->compressor);
    }
#else
    if (codec->deflate_encoding != SS_ENCODING_IDENTITY) {
        deflateEnd(&codec->deflate);
    }
#endif
    free(codec);
}

/* ------------------------------------------------------------------ compression */

#if SPANSIEVE_HAVE_DEFLATE

static ss_status deflate_bytes(ss_codec *codec, ss_encoding encoding, int level, const uint8_t *bytes, size_t length,
                               ss_buffer *out) {
    if (codec->compressor && codec->deflate_level != level) {
        libdeflate_free_compressor(codec->compressor);
        codec->compressor = NULL;
    }
    if (!codec->compressor && !(codec->compressor = libdeflate_alloc_compressor(level))) {
        return SS_ERR_NO_MEMORY;
    }
    codec->deflate_level = level;
    bool gzip = encoding == SS_ENCODING_GZIP;
    size_t bound = gzip ? libdeflate_gzip_compress_bound(codec->compressor, length)
                        : libdeflate_zlib_compress_bound(codec->compressor, length);
    ss_status status = ss_buffer_reserve(out, bound);
    if (status != SS_OK) {
        return status;
    }
    uint8_t *to = out->data + out->length;
    out->length += gzip ? libdeflate_gzip_compress(codec->compressor, bytes, length, to, bound)
                        : libdeflate_zlib_compress(codec->compressor, bytes, length, to, bound);
    return SS_OK;
}

#else

static ss_status deflate_bytes(ss_codec *codec, ss_encoding encoding, int level, const uint8_t *bytes, size_t length,
                               ss_buffer *out) {
    if (codec->deflate_encoding != encoding || codec->deflate_level != level) {
        if (codec->deflate_encoding != SS_ENCODING_IDENTITY) {
            deflateEnd(&codec->deflate);
        }
        codec->deflate = (z_stream){0};
        codec->deflate_encoding = SS_ENCODING_IDENTITY;
        int bits = encoding == SS_ENCODING_GZIP ? GZIP_WINDOW_BITS : ZLIB_WINDOW_BITS;
        if (deflateInit2(&codec->deflate, level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
            return SS_ERR_NO_MEMORY;
        }
        codec->deflate_encoding = encoding;
        codec->deflate_level = level;
    } else {
        deflateReset(&codec->deflate);
    }
    z_stream *stream = &codec->deflate;
    size_t bound = deflateBound(stream, (uLong)length);
    if (length > UINT32_MAX || bound > UINT32_MAX) {
        return SS_ERR_LIMIT;
    }
    ss_status status = ss_buffer_reserve(out, bound);
    if (status != SS_OK) {
        return status;
    }
    stream->next_in = (Bytef *)bytes;
    stream->avail_in = (uInt)length;
    stream->next_out = out->data + out->length;
    stream->avail_out = (uInt)bound;
    deflate(stream, Z_FINISH);
    out->length += bound - stream->avail_out;
    return SS_OK;
}

#endif

/* Level 0 is the default, which depends on length. */
static void zstd_set_level(ZSTD_CCtx *zstd, int level, size_t length) {
    ZSTD_CCtx_reset(zstd, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level ? level : ZSTD_DEFAULT_LEVEL);
    if (level == 0 && length >= ZSTD_LARGE_FROM) {
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, ZSTD_LARGE_WINDOW_LOG);
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_hashLog, ZSTD_LARGE_HASH_LOG);
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_minMatch, ZSTD_LARGE_MIN_MATCH);
    }
}

static ss_status zstd_compress_bytes(ss_codec *codec, int level, const uint8_t *bytes, size_t length, ss_buffer *out) {
    if (!codec->zstd_out && !(codec->zstd_out = ZSTD_createCCtx())) {
        return SS_ERR_NO_MEMORY;
    }
    size_t bound = ZSTD_compressBound(length);
    ss_status status = ss_buffer_reserve(out, bound);
    if (status != SS_OK) {
        return status;
    }
    zstd_set_level(codec->zstd_out, level, length);
    size_t size = ZSTD_compress2(codec->zstd_out, out->data + out->length, bound, bytes, length);
    if (ZSTD_isError(size)) {
        return SS_ERR_NO_MEMORY; /* the bound leaves no other cause */
    }
    out->length += size;
    return SS_OK;
}

ss_status ss_compress(ss_codec *codec, ss_encoding encoding, int level, const uint8_t *bytes, size_t length,
                      ss_buffer *out) {
    switch (encoding) {
    case SS_ENCODING_IDENTITY: return ss_buffer_append(out, bytes, length);
    case SS_ENCODING_GZIP:
    case SS_ENCODING_ZLIB:
        if (level < 0 || level > 9) {
            return SS_ERR_ARGUMENT;
        }
        return deflate_bytes(codec, encoding, level ? level : DEFLATE_DEFAULT_LEVEL, bytes, length, out);
    case SS_ENCODING_ZSTD:
        if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel()) {
            return SS_ERR_ARGUMENT;
        }
        return zstd_compress_bytes(codec, level, bytes, length, out);
    case SS_ENCODING_SNAPPY: return level ? SS_ERR_ARGUMENT : ss_snappy_compress(&codec->snappy, bytes, length, out);
    case SS_ENCODING_SNAPPY_FRAMED:
        return level ? SS_ERR_ARGUMENT : ss_snappy_compress_framed(&codec->snappy, bytes, length, out);
    case SS_ENCODING_LZ4: return level ? SS_ERR_ARGUMENT : ss_lz4_compress(&codec->lz4, bytes, length, out);
    case SS_N_ENCODINGS: break;
    }
    return SS_ERR_UNSUPPORTED;
}

/* ------------------------------------------------------------------ decompression */

/* The grammar of gzip (any number of members) or zlib (exactly one stream), in steps of output. */
static ss_status inflate_stream(ss_codec *codec, ss_encoding encoding, const uint8_t *bytes, size_t length,
                                size_t max_length, ss_buffer *out, ss_error *error) {
    z_stream *stream = &codec->inflate;
    int bits = encoding == SS_ENCODING_GZIP ? GZIP_WINDOW_BITS : ZLIB_WINDOW_BITS;
    if ((codec->has_inflate ? inflateReset2(stream, bits) : inflateInit2(stream, bits)) != Z_OK) {
        return ss_codec_fail(error, SS_ERR_NO_MEMORY, 0, "no memory for the inflater");
    }
    codec->has_inflate = true;
    size_t start = out->length;
    size_t pos = 0;
    for (;;) {
        size_t room = max_length - (out->length - start);
        size_t step = room;
        if (step > 4 * length + FIRST_STEP) {
            step = 4 * length + FIRST_STEP;
        }
        ss_status status = ss_buffer_reserve(out, step);
        if (status != SS_OK) {
            return ss_codec_fail(error, status, pos, "no memory for the decompressed bytes");
        }
        if (step < room && out->capacity - out->length > step) {
            step = out->capacity - out->length < room ? out->capacity - out->length : room;
        }
        uint8_t beyond; /* a byte that lands here is one too many */
        stream->next_out = step ? out->data + out->length : &beyond;
        stream->avail_out = step > INT32_MAX ? INT32_MAX : (step ? (uInt)step : 1);
        stream->next_in = (Bytef *)(bytes + pos);
        stream->avail_in = length - pos > INT32_MAX ? INT32_MAX : (uInt)(length - pos);
        uInt out_before = stream->avail_out, in_before = stream->avail_in;
        int result = inflate(stream, Z_NO_FLUSH);
        uInt written = out_before - stream->avail_out;
        pos += in_before - stream->avail_in;
        if (step) {
            out->length += written;
        } else if (written) {
            return ss_codec_fail(error, SS_ERR_LIMIT, pos, "decompressed size exceeds the limit");
        }
        if (result == Z_STREAM_END) {
            if (pos == length) {
                return SS_OK;
            }
            if (encoding == SS_ENCODING_ZLIB) {
                return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "bytes after the end of the zlib stream");
            }
            inflateReset(stream);
        } else if (result == Z_BUF_ERROR || (result == Z_OK && pos == length && stream->avail_out)) {
            return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "compressed data ends too early");
        } else if (result == Z_MEM_ERROR) {
            return ss_codec_fail(error, SS_ERR_NO_MEMORY, pos, "no memory for the inflater");
        } else if (result != Z_OK) {
            return ss_codec_fail(error, SS_ERR_MALFORMED, pos,
                                 encoding == SS_ENCODING_GZIP ? "invalid gzip data" : "invalid zlib data");
        }
    }
}

#if SPANSIEVE_HAVE_DEFLATE

/* The common case at twice the speed: one gzip member whose last four bytes tell its true size.
 * False: not that case, nothing was appended. */
static bool inflate_member(ss_codec *codec, const uint8_t *bytes, size_t length, size_t max_length, ss_buffer *out) {
    if (length < 18) {
        return false; /* shorter than header and trailer */
    }
    const uint8_t *trailer = bytes + length - 4;
    size_t size = (size_t)trailer[0] | (size_t)trailer[1] << 8 | (size_t)trailer[2] << 16 | (size_t)trailer[3] << 24;
    if (size > max_length || size / DEFLATE_MAX_RATIO > length || ss_buffer_reserve(out, size) != SS_OK) {
        return false;
    }
    if (!codec->decompressor && !(codec->decompressor = libdeflate_alloc_decompressor())) {
        return false;
    }
    size_t used = 0;
    size_t written = 0;
    enum libdeflate_result result = libdeflate_gzip_decompress_ex(codec->decompressor, bytes, length,
                                                                  out->data + out->length, size, &used, &written);
    if (result != LIBDEFLATE_SUCCESS || used != length) {
        return false;
    }
    out->length += written;
    return true;
}

#endif

/* Append one zstd frame. The output is contiguous, so that a frame's window costs no memory. */
static ss_status unpack_zstd_frame(ss_codec *codec, const uint8_t *frame, size_t length, size_t room, ss_buffer *out,
                                   ss_error *error, size_t offset) {
    unsigned long long stated = ZSTD_getFrameContentSize(frame, length);
    if (stated == ZSTD_CONTENTSIZE_ERROR) {
        return ss_codec_fail(error, SS_ERR_MALFORMED, offset, "invalid zstd frame header");
    }
    bool is_stated = stated != ZSTD_CONTENTSIZE_UNKNOWN;
    if (is_stated && stated > room) {
        return ss_codec_fail(error, SS_ERR_LIMIT, offset, "decompressed size exceeds the limit");
    }
    /* Twenty times covers almost all; a frame that states more (or nothing) and needs it is tried again with four
     * times the room, which costs a third more at worst. */
    size_t step = length > SIZE_MAX / 32 ? SIZE_MAX : 20 * length + FIRST_STEP;
    for (;;) {
        size_t limit = is_stated ? (size_t)stated : room;
        if (step > limit) {
            step = limit;
        }
        ss_status status = ss_buffer_reserve(out, step ? step : 1);
        if (status != SS_OK) {
            return ss_codec_fail(error, status, offset, "no memory for the decompressed bytes");
        }
        size_t size = ZSTD_decompressDCtx(codec->zstd_in, out->data + out->length, step, frame, length);
        if (!ZSTD_isError(size)) {
            out->length += size;
            return SS_OK;
        }
        if (ZSTD_getErrorCode(size) != ZSTD_error_dstSize_tooSmall) {
            return ss_codec_fail(error, SS_ERR_MALFORMED, offset, "invalid zstd data");
        }
        if (step == limit) {
            return is_stated ? ss_codec_fail(error, SS_ERR_MALFORMED, offset, "zstd frame is larger than it states")
                             : ss_codec_fail(error, SS_ERR_LIMIT, offset, "decompressed size exceeds the limit");
        }
        step = step > SIZE_MAX / 4 ? SIZE_MAX : 4 * step;
    }
}

static ss_status unpack_zstd(ss_codec *codec, const uint8_t *bytes, size_t length, size_t max_length, ss_buffer *out,
                             ss_error *error) {
    if (!codec->zstd_in && !(codec->zstd_in = ZSTD_createDCtx())) {
        return ss_codec_fail(error, SS_ERR_NO_MEMORY, 0, "no memory for the zstd context");
    }
    size_t start = out->length;
    size_t pos = 0;
    do {
        size_t frame = ZSTD_findFrameCompressedSize(bytes + pos, length - pos); /* also of a skippable one */
        if (ZSTD_isError(frame) || frame == 0) {
            return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "invalid or incomplete zstd frame");
        }
        ss_status status =
            unpack_zstd_frame(codec, bytes + pos, frame, max_length - (out->length - start), out, error, pos);
        if (status != SS_OK) {
            return status;
        }
        pos += frame;
    } while (pos < length);
    return SS_OK;
}

static ss_status decompress(ss_codec *codec, ss_encoding encoding, const uint8_t *bytes, size_t length,
                            size_t max_length, ss_buffer *out, ss_error *error) {
    switch (encoding) {
    case SS_ENCODING_IDENTITY:
        if (length > max_length) {
            return ss_codec_fail(error, SS_ERR_LIMIT, max_length, "size exceeds the limit");
        }
        return ss_buffer_append(out, bytes, length);
    case SS_ENCODING_GZIP:
#if SPANSIEVE_HAVE_DEFLATE
        if (inflate_member(codec, bytes, length, max_length, out)) {
            return SS_OK;
        }
#endif
        return inflate_stream(codec, encoding, bytes, length, max_length, out, error);
    case SS_ENCODING_ZLIB: return inflate_stream(codec, encoding, bytes, length, max_length, out, error);
    case SS_ENCODING_ZSTD: return unpack_zstd(codec, bytes, length, max_length, out, error);
    case SS_ENCODING_SNAPPY:
    case SS_ENCODING_SNAPPY_FRAMED: return ss_snappy_decompress(&codec->snappy, bytes, length, max_length, out, error);
    case SS_ENCODING_LZ4: return ss_lz4_decompress(&codec->lz4, bytes, length, max_length, out, error);
    case SS_N_ENCODINGS: break;
    }
    return ss_codec_fail(error, SS_ERR_UNSUPPORTED, 0, "encoding is not available");
}

ss_status ss_decompress(ss_codec *codec, ss_encoding encoding, const uint8_t *bytes, size_t length, size_t max_length,
                        ss_buffer *out, ss_error *error) {
    size_t start = out->length;
    ss_status status = decompress(codec, encoding, bytes, length, max_length, out, error);
    if (status != SS_OK) {
        out->length = start; /* a failure appends nothing */
    }
    return status;
}
