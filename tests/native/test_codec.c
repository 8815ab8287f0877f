/* Encodings: round trips, limits before allocation, damaged input, streams of several parts. */
#include "check.h"
#include "spansieve.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

static const ss_encoding all[] = {SS_ENCODING_IDENTITY, SS_ENCODING_GZIP,          SS_ENCODING_ZSTD, SS_ENCODING_SNAPPY,
                                  SS_ENCODING_ZLIB,     SS_ENCODING_SNAPPY_FRAMED, SS_ENCODING_LZ4};
enum { N_ALL = sizeof all / sizeof all[0], LARGE = 300000 };

/* Compressible, but not trivially. */
static uint8_t *sample(size_t length) {
    uint8_t *bytes = malloc(length ? length : 1);
    uint32_t state = 1;
    for (size_t i = 0; i < length; i++) {
        state = state * 1103515245 + 12345;
        bytes[i] = i >= 64 && state >> 29 ? bytes[i - 64] : (uint8_t)(state >> 16);
    }
    return bytes;
}

static void test_round_trips(ss_codec *codec) {
    static const size_t lengths[] = {0, 1, 100, 4096, LARGE};
    for (size_t e = 0; e < N_ALL; e++) {
        CHECK(ss_encoding_is_available(all[e]) || all[e] == SS_ENCODING_SNAPPY || all[e] == SS_ENCODING_SNAPPY_FRAMED ||
              all[e] == SS_ENCODING_LZ4);
        for (size_t i = 0; ss_encoding_is_available(all[e]) && i < sizeof lengths / sizeof lengths[0]; i++) {
            uint8_t *bytes = sample(lengths[i]);
            ss_buffer packed = {0}, out = {0};
            CHECK_EQUAL(SS_OK, ss_buffer_append(&out, (const uint8_t *)"kept", 4));
            CHECK_EQUAL(SS_OK, ss_compress(codec, all[e], 0, bytes, lengths[i], &packed));
            CHECK_EQUAL(SS_OK, ss_decompress(codec, all[e], packed.data, packed.length, lengths[i], &out, NULL));
            CHECK_EQUAL(lengths[i] + 4, out.length);
            CHECK(memcmp(out.data, "kept", 4) == 0 && memcmp(out.data + 4, bytes, lengths[i]) == 0);
            if (lengths[i]) { /* one byte less room */
                ss_error error = {0};
                CHECK_EQUAL(SS_ERR_LIMIT,
                            ss_decompress(codec, all[e], packed.data, packed.length, lengths[i] - 1, &out, &error));
                CHECK_EQUAL(SS_ERR_LIMIT, error.code);
                CHECK(error.reason != NULL);
                CHECK_EQUAL(lengths[i] + 4, out.length);
            }
            ss_buffer_free(&packed);
            ss_buffer_free(&out);
            free(bytes);
        }
    }
}

static void test_truncations_fail(ss_codec *codec) {
    enum { LENGTH = 700, SNAPPY_IDENTIFIER_BYTES = 10 };
    uint8_t *bytes = sample(LENGTH);
    for (size_t e = 1; e < N_ALL; e++) {
        if (!ss_encoding_is_available(all[e])) {
            continue;
        }
        ss_buffer packed = {0}, out = {0};
        CHECK_EQUAL(SS_OK, ss_compress(codec, all[e], 0, bytes, LENGTH, &packed));
        for (size_t length = 0; length < packed.length; length++) {
            if ((all[e] == SS_ENCODING_SNAPPY_FRAMED && length == SNAPPY_IDENTIFIER_BYTES) ||
                (all[e] == SS_ENCODING_LZ4 && length == 0)) {
                continue; /* a whole stream, of nothing */
            }
            uint8_t *exact = malloc(length ? length : 1); /* so that a read past the end shows */
            memcpy(exact, packed.data, length);
            ss_error error = {0};
            CHECK_EQUAL(SS_ERR_MALFORMED, ss_decompress(codec, all[e], exact, length, LARGE, &out, &error));
            CHECK(error.offset <= length);
            CHECK_EQUAL(0, out.length);
            free(exact);
        }
        for (size_t i = 0; i < packed.length; i++) { /* damage may go unseen, but must not do any */
            packed.data[i] ^= 0x10;
            out.length = 0;
            (void)ss_decompress(codec, all[e], packed.data, packed.length, LARGE, &out, NULL);
            packed.data[i] ^= 0x10;
        }
        ss_buffer_free(&packed);
        ss_buffer_free(&out);
    }
    free(bytes);
}

static void test_parts_are_joined(ss_codec *codec) {
    enum { LENGTH = 5000 };
    uint8_t *bytes = sample(LENGTH);
    static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
    static const ss_encoding joined[] = {SS_ENCODING_GZIP, SS_ENCODING_ZSTD, SS_ENCODING_LZ4};
    for (size_t e = 0; e < 3 && ss_encoding_is_available(joined[e]); e++) {
        ss_buffer packed = {0}, out = {0};
        CHECK_EQUAL(SS_OK, ss_compress(codec, joined[e], 0, bytes, LENGTH, &packed));
        if (joined[e] != SS_ENCODING_GZIP) { /* lz4 has the same skippable frames */
            CHECK_EQUAL(SS_OK, ss_buffer_append(&packed, skippable, sizeof skippable));
        }
        CHECK_EQUAL(SS_OK, ss_compress(codec, joined[e], 0, bytes, LENGTH, &packed));
        CHECK_EQUAL(SS_OK, ss_decompress(codec, joined[e], packed.data, packed.length, 2 * LENGTH, &out, NULL));
        CHECK_EQUAL(2 * LENGTH, out.length);
        CHECK(memcmp(out.data, bytes, LENGTH) == 0 && memcmp(out.data + LENGTH, bytes, LENGTH) == 0);
        CHECK_EQUAL(SS_ERR_LIMIT,
                    ss_decompress(codec, joined[e], packed.data, packed.length, 2 * LENGTH - 1, &out, NULL));
        CHECK_EQUAL(SS_OK, ss_buffer_append(&packed, (const uint8_t *)"garbage", 7));
        CHECK_EQUAL(SS_ERR_MALFORMED, ss_decompress(codec, joined[e], packed.data, packed.length, LARGE, &out, NULL));
        ss_buffer_free(&packed);
        ss_buffer_free(&out);
    }
    ss_buffer packed = {0}, out = {0};
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_ZLIB, 0, bytes, LENGTH, &packed));
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_ZLIB, 0, bytes, LENGTH, &packed));
    CHECK_EQUAL(SS_ERR_MALFORMED,
                ss_decompress(codec, SS_ENCODING_ZLIB, packed.data, packed.length, LARGE, &out, NULL));
    ss_buffer_free(&packed);
    ss_buffer_free(&out);
    free(bytes);
}

/* 64 MiB of zeros in a few kB must be refused while holding little more than the limit. */
static void test_bombs_are_refused_early(ss_codec *codec) {
    enum { BOMB = 64 << 20, LIMIT = 1 << 20 };
    uint8_t *zeros = calloc(1, BOMB);
    for (size_t e = 1; e < N_ALL; e++) {
        if (!ss_encoding_is_available(all[e])) {
            continue;
        }
        ss_buffer packed = {0}, out = {0};
        CHECK_EQUAL(SS_OK, ss_compress(codec, all[e], 0, zeros, BOMB, &packed));
        CHECK_EQUAL(SS_ERR_LIMIT, ss_decompress(codec, all[e], packed.data, packed.length, LIMIT, &out, NULL));
        CHECK(out.capacity <= 2 * LIMIT);
        ss_buffer_free(&packed);
        ss_buffer_free(&out);
    }
    free(zeros);
}

static size_t zstd_stream(const uint8_t *bytes, size_t length, int window_log, uint8_t *out, size_t capacity) {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    if (window_log) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
    }
    size_t size = ZSTD_compress2(context, out, capacity, bytes, length);
    ZSTD_freeCCtx(context);
    return size;
}

/* Streaming writers do not know the size; very compressible content needs several steps of output. */
static void test_unstated_sizes(ss_codec *codec) {
    enum { LENGTH = 2 << 20, CAPACITY = 1 << 20 };
    uint8_t *bytes = calloc(1, LENGTH);
    memcpy(bytes + LENGTH / 2, "needle", 6);
    uint8_t *packed = malloc(CAPACITY);
    ss_buffer out = {0};
    size_t size = zstd_stream(bytes, LENGTH, 0, packed, CAPACITY);
    CHECK_EQUAL(ZSTD_CONTENTSIZE_UNKNOWN, ZSTD_getFrameContentSize(packed, size));
    CHECK_EQUAL(SS_OK, ss_decompress(codec, SS_ENCODING_ZSTD, packed, size, LENGTH, &out, NULL));
    CHECK_EQUAL(LENGTH, out.length);
    CHECK(memcmp(out.data, bytes, LENGTH) == 0);
    out.length = 0;
    CHECK_EQUAL(SS_ERR_LIMIT, ss_decompress(codec, SS_ENCODING_ZSTD, packed, size, LENGTH - 1, &out, NULL));
    CHECK_EQUAL(SS_ERR_LIMIT, ss_decompress(codec, SS_ENCODING_ZSTD, packed, size, 0, &out, NULL));
    ss_buffer_free(&out);
    /* A window far beyond the content costs nothing, since the output is the window. */
    size = zstd_stream(bytes, 1000, 27, packed, CAPACITY);
    CHECK_EQUAL(SS_OK, ss_decompress(codec, SS_ENCODING_ZSTD, packed, size, 1000, &out, NULL));
    CHECK(out.capacity < 100000);
    ss_buffer_free(&out);
    free(packed);
    free(bytes);
}

/* The gzip trailer may state any size: too large, too small. */
static void test_lying_gzip_size(ss_codec *codec) {
    uint8_t *bytes = sample(3000);
    ss_buffer packed = {0}, out = {0};
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_GZIP, 0, bytes, 3000, &packed));
    static const uint32_t sizes[] = {0, 2999, 3001, 1 << 30, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (unsigned b = 0; b < 4; b++) {
            packed.data[packed.length - 4 + b] = (uint8_t)(sizes[i] >> (8 * b));
        }
        CHECK_EQUAL(SS_ERR_MALFORMED,
                    ss_decompress(codec, SS_ENCODING_GZIP, packed.data, packed.length, UINT32_MAX, &out, NULL));
        CHECK(out.capacity < 1 << 20);
    }
    ss_buffer_free(&packed);
    ss_buffer_free(&out);
    free(bytes);
}

static void test_framed_snappy(ss_codec *codec) {
    /* Identifier, padding, a skippable chunk, then "123456789" uncompressed with its masked CRC-32C. */
    uint8_t framed[] = {0xff, 6,   0, 0,  's', 'N', 'a', 'P', 'p', 'Y', 0xfe, 2,   0,   0,   0,   0,   0x80, 1,   0,
                        0,    'x', 1, 13, 0,   0,   0,   0,   0,   0,   '1',  '2', '3', '4', '5', '6', '7',  '8', '9'};
    const uint32_t crc = 0xe3069283; /* the check value of CRC-32C */
    const uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8;
    enum { CRC_AT = 25, TYPE_AT = 21 };
    for (unsigned b = 0; b < 4; b++) {
        framed[CRC_AT + b] = (uint8_t)(masked >> (8 * b));
    }
    ss_buffer out = {0};
    CHECK_EQUAL(SS_OK, ss_decompress(codec, SS_ENCODING_SNAPPY, framed, sizeof framed, 9, &out, NULL));
    CHECK_EQUAL(9, out.length);
    CHECK(memcmp(out.data, "123456789", 9) == 0);
    CHECK_EQUAL(SS_ERR_LIMIT, ss_decompress(codec, SS_ENCODING_SNAPPY, framed, sizeof framed, 8, &out, NULL));
    for (size_t length = 22; length < sizeof framed; length++) {
        CHECK_EQUAL(SS_ERR_MALFORMED, ss_decompress(codec, SS_ENCODING_SNAPPY, framed, length, 9, &out, NULL));
    }
    framed[CRC_AT] ^= 1;
    CHECK_EQUAL(SS_ERR_MALFORMED, ss_decompress(codec, SS_ENCODING_SNAPPY, framed, sizeof framed, 9, &out, NULL));
    framed[CRC_AT] ^= 1;
    framed[TYPE_AT] = 2; /* a chunk that may not be skipped */
    CHECK_EQUAL(SS_ERR_MALFORMED, ss_decompress(codec, SS_ENCODING_SNAPPY, framed, sizeof framed, 9, &out, NULL));
    framed[TYPE_AT] = 0; /* compressed: the content as a raw block in a chunk */
    ss_buffer block = {0}, stream = {0};
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_SNAPPY, 0, (const uint8_t *)"123456789", 9, &block));
    CHECK_EQUAL(SS_OK, ss_buffer_append(&stream, framed, TYPE_AT));
    const uint8_t header[] = {0, (uint8_t)(block.length + 4), 0, 0};
    CHECK_EQUAL(SS_OK, ss_buffer_append(&stream, header, sizeof header));
    CHECK_EQUAL(SS_OK, ss_buffer_append(&stream, framed + CRC_AT, 4));
    CHECK_EQUAL(SS_OK, ss_buffer_append(&stream, block.data, block.length));
    out.length = 0;
    CHECK_EQUAL(SS_OK, ss_decompress(codec, SS_ENCODING_SNAPPY, stream.data, stream.length, 9, &out, NULL));
    CHECK(out.length == 9 && memcmp(out.data, "123456789", 9) == 0);
    /* What is framed here: identifier, then chunks of 64 KiB of content with their checksums. */
    stream.length = 0;
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_SNAPPY_FRAMED, 0, (const uint8_t *)"123456789", 9, &stream));
    CHECK_EQUAL(sizeof header + 10 + 4 + block.length, stream.length);
    CHECK(memcmp(stream.data, framed, 10) == 0 && memcmp(stream.data + 10, header, sizeof header) == 0);
    CHECK(memcmp(stream.data + 14, framed + CRC_AT, 4) == 0);
    CHECK(memcmp(stream.data + 18, block.data, block.length) == 0);
    CHECK_EQUAL(SS_ERR_ARGUMENT, ss_compress(codec, SS_ENCODING_SNAPPY_FRAMED, 1, framed, 9, &stream));
    ss_buffer_free(&block);
    ss_buffer_free(&stream);
    ss_buffer_free(&out);
}

static void test_levels(ss_codec *codec) {
    uint8_t *bytes = sample(LARGE);
    ss_buffer fast = {0}, dense = {0}, out = {0};
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_GZIP, 1, bytes, LARGE, &fast));
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_GZIP, 9, bytes, LARGE, &dense));
    CHECK(dense.length < fast.length);
    CHECK_EQUAL(SS_ERR_ARGUMENT, ss_compress(codec, SS_ENCODING_GZIP, 10, bytes, 10, &out));
    CHECK_EQUAL(SS_ERR_ARGUMENT, ss_compress(codec, SS_ENCODING_ZSTD, 1000, bytes, 10, &out));
    fast.length = dense.length = 0;
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_ZSTD, 0, bytes, LARGE, &fast));
    CHECK_EQUAL(SS_OK, ss_compress(codec, SS_ENCODING_ZSTD, 1, bytes, LARGE, &dense));
    CHECK_EQUAL(fast.length, dense.length); /* small input: the default is level 1 */
    CHECK_EQUAL(SS_ERR_UNSUPPORTED, ss_compress(codec, SS_N_ENCODINGS, 0, bytes, 10, &out));
    ss_error error = {0};
    CHECK_EQUAL(SS_ERR_UNSUPPORTED, ss_decompress(codec, SS_N_ENCODINGS, bytes, 10, 10, &out, &error));
    CHECK(!ss_encoding_is_available(SS_N_ENCODINGS));
    ss_buffer_free(&fast);
    ss_buffer_free(&dense);
    ss_buffer_free(&out);
    free(bytes);
}

int main(void) {
    ss_codec_free(NULL);
    ss_codec *codec = ss_codec_new();
    test_round_trips(codec);
    test_truncations_fail(codec);
    test_parts_are_joined(codec);
    test_bombs_are_refused_early(codec);
    test_unstated_sizes(codec);
    test_lying_gzip_size(codec);
    test_levels(codec);
    if (ss_encoding_is_available(SS_ENCODING_SNAPPY)) {
        test_framed_snappy(codec);
    }
    ss_codec_free(codec);
    return check_finish();
}
