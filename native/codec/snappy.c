/* Source: snappy's "format_description.txt" and "framing_format.txt". */
#include "codec/snappy.h"

#include <string.h>

#if SPANSIEVE_HAVE_SNAPPY

enum {
    SNAPPY_OK = 0,           /* snappy's status for success */
    BLOCK_MAX_RATIO = 22,    /* the densest element copies 64 bytes and takes 3 */
    CHUNK_MAX_BYTES = 65536, /* of content, in the framed format */
    CHUNK_COMPRESSED = 0x00,
    CHUNK_UNCOMPRESSED = 0x01,
    CHUNK_FIRST_SKIPPABLE = 0x80,
    CHUNK_IDENTIFIER = 0xff,
    CHUNK_HEADER_BYTES = 4,
    CHECKSUM_BYTES = 4
};

static const uint8_t identifier[] = {0xff, 0x06, 0x00, 0x00, 's', 'N', 'a', 'P', 'p', 'Y'};

bool ss_snappy_is_available(void) {
    return true;
}

static ss_status load(ss_snappy *snappy) {
    if (snappy->library) {
        return SS_OK;
    }
    const ss_symbol symbols[] = {
        {"snappy_compress", &snappy->compress},
        {"snappy_uncompress", &snappy->uncompress},
        {"snappy_uncompressed_length", &snappy->uncompressed_length},
        {"snappy_max_compressed_length", &snappy->max_compressed_length},
    };
    snappy->library = ss_library_load("libsnappy.so.1", symbols, sizeof symbols / sizeof symbols[0]);
    return snappy->library ? SS_OK : SS_ERR_UNSUPPORTED;
}

void ss_snappy_release(ss_snappy *snappy) {
    ss_library_unload(snappy->library);
    *snappy = (ss_snappy){0};
}

ss_status ss_snappy_compress(ss_snappy *snappy, const uint8_t *bytes, size_t length, ss_buffer *out) {
    if (length > UINT32_MAX) {
        return SS_ERR_LIMIT; /* a block states its size in 32 bits */
    }
    ss_status status = load(snappy);
    if (status != SS_OK) {
        return status;
    }
    size_t size = snappy->max_compressed_length(length);
    status = ss_buffer_reserve(out, size);
    if (status != SS_OK) {
        return status;
    }
    snappy->compress((const char *)bytes, length, (char *)out->data + out->length, &size);
    out->length += size;
    return SS_OK;
}

/* CRC-32C, four bits a step: the framed format is rare, and a table of 16 entries needs no initialisation. */
static uint32_t crc32c(const uint8_t *bytes, size_t length) {
    static const uint32_t steps[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        crc = (crc >> 4) ^ steps[crc & 15];
        crc = (crc >> 4) ^ steps[crc & 15];
    }
    return ~crc;
}

/* The checksum of the framed format: masked, so that a checksum of data with checksums in it stays a good one. */
static uint32_t masked_checksum(const uint8_t *content, size_t length) {
    uint32_t crc = crc32c(content, length);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

static void put_little_endian(uint8_t *at, size_t n_bytes, uint32_t value) {
    for (size_t i = 0; i < n_bytes; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
}

ss_status ss_snappy_compress_framed(ss_snappy *snappy, const uint8_t *bytes, size_t length, ss_buffer *out) {
    ss_status status = load(snappy);
    if (status != SS_OK) {
        return status;
    }
    size_t start = out->length;
    status = ss_buffer_append(out, identifier, sizeof identifier);
    for (size_t pos = 0; pos < length && status == SS_OK; pos += CHUNK_MAX_BYTES) {
        size_t size = length - pos < CHUNK_MAX_BYTES ? length - pos : CHUNK_MAX_BYTES;
        uint8_t head[CHUNK_HEADER_BYTES + CHECKSUM_BYTES] = {CHUNK_COMPRESSED};
        put_little_endian(head + CHUNK_HEADER_BYTES, CHECKSUM_BYTES, masked_checksum(bytes + pos, size));
        size_t chunk = out->length;
        status = ss_buffer_append(out, head, sizeof head);
        if (status == SS_OK) {
            status = ss_snappy_compress(snappy, bytes + pos, size, out);
        }
        if (status == SS_OK) {
            /* At worst it has grown by a sixth: three bytes hold the size. */
            size_t packed = out->length - chunk - CHUNK_HEADER_BYTES;
            put_little_endian(out->data + chunk + 1, CHUNK_HEADER_BYTES - 1, (uint32_t)packed);
        }
    }
    if (status != SS_OK) {
        out->length = start;
    }
    return status;
}

static ss_status unpack_block(const ss_snappy *snappy, const uint8_t *bytes, size_t length, size_t room, ss_buffer *out,
                              ss_error *error, size_t offset) {
    size_t size;
    if (snappy->uncompressed_length((const char *)bytes, length, &size) != SNAPPY_OK ||
        size / BLOCK_MAX_RATIO > length) {
        return ss_codec_fail(error, SS_ERR_MALFORMED, offset, "invalid snappy block");
    }
    if (size > room) {
        return ss_codec_fail(error, SS_ERR_LIMIT, offset, "decompressed size exceeds the limit");
    }
    ss_status status = ss_buffer_reserve(out, size ? size : 1);
    if (status != SS_OK) {
        return ss_codec_fail(error, status, offset, "no memory for the decompressed bytes");
    }
    if (snappy->uncompress((const char *)bytes, length, (char *)out->data + out->length, &size) != SNAPPY_OK) {
        return ss_codec_fail(error, SS_ERR_MALFORMED, offset, "invalid snappy block");
    }
    out->length += size;
    return SS_OK;
}

static ss_status unpack_frames(const ss_snappy *snappy, const uint8_t *bytes, size_t length, size_t max_length,
                               ss_buffer *out, ss_error *error) {
    size_t start = out->length;
    if (ss_buffer_reserve(out, 0) != SS_OK) { /* even an empty chunk has its checksum, over bytes at out->data */
        return ss_codec_fail(error, SS_ERR_NO_MEMORY, 0, "no memory for the decompressed bytes");
    }
    for (size_t pos = 0; pos < length;) {
        if (length - pos < CHUNK_HEADER_BYTES) {
            return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "incomplete snappy chunk");
        }
        const uint8_t *chunk = bytes + pos;
        uint8_t type = chunk[0];
        size_t size = (size_t)chunk[1] | (size_t)chunk[2] << 8 | (size_t)chunk[3] << 16;
        if (size > length - pos - CHUNK_HEADER_BYTES) {
            return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "incomplete snappy chunk");
        }
        const uint8_t *body = chunk + CHUNK_HEADER_BYTES;
        if (type == CHUNK_COMPRESSED || type == CHUNK_UNCOMPRESSED) {
            if (size < CHECKSUM_BYTES) {
                return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "snappy chunk without a checksum");
            }
            size_t room = max_length - (out->length - start);
            if (room > CHUNK_MAX_BYTES) {
                room = CHUNK_MAX_BYTES;
            }
            size_t before = out->length;
            ss_status status;
            if (type == CHUNK_COMPRESSED) {
                status = unpack_block(snappy, body + CHECKSUM_BYTES, size - CHECKSUM_BYTES, room, out, error, pos);
            } else if (size - CHECKSUM_BYTES > room) {
                status = ss_codec_fail(error, SS_ERR_LIMIT, pos, "decompressed size exceeds the limit");
            } else {
                status = ss_buffer_append(out, body + CHECKSUM_BYTES, size - CHECKSUM_BYTES);
            }
            if (status != SS_OK) {
                return status;
            }
            uint32_t stated =
                (uint32_t)body[0] | (uint32_t)body[1] << 8 | (uint32_t)body[2] << 16 | (uint32_t)body[3] << 24;
            if (stated != masked_checksum(out->data + before, out->length - before)) {
                return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "snappy checksum does not match");
            }
        } else if (type == CHUNK_IDENTIFIER) {
            if (size != sizeof identifier - CHUNK_HEADER_BYTES || memcmp(chunk, identifier, sizeof identifier) != 0) {
                return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "invalid snappy stream identifier");
            }
        } else if (type < CHUNK_FIRST_SKIPPABLE) {
            return ss_codec_fail(error, SS_ERR_MALFORMED, pos, "unknown snappy chunk");
        }
        pos += CHUNK_HEADER_BYTES + size;
    }
    return SS_OK;
}

ss_status ss_snappy_decompress(ss_snappy *snappy, const uint8_t *bytes, size_t length, size_t max_length,
                               ss_buffer *out, ss_error *error) {
    ss_status status = load(snappy);
    if (status != SS_OK) {
        return ss_codec_fail(error, status, 0, "the snappy library cannot be loaded");
    }
    if (length >= sizeof identifier && memcmp(bytes, identifier, sizeof identifier) == 0) {
        return unpack_frames(snappy, bytes, length, max_length, out, error);
    }
    return unpack_block(snappy, bytes, length, max_length, out, error, 0);
}

#else

void ss_snappy_release(ss_snappy *snappy) {
    (void)snappy;
}

bool ss_snappy_is_available(void) {
    return false;
}

ss_status ss_snappy_compress(ss_snappy *snappy, const uint8_t *bytes, size_t length, ss_buffer *out) {
    (void)snappy, (void)bytes, (void)length, (void)out;
    return SS_ERR_UNSUPPORTED;
}

ss_status ss_snappy_compress_framed(ss_snappy *snappy, const uint8_t *bytes, size_t length, ss_buffer *out) {
    (void)snappy, (void)bytes, (void)length, (void)out;
    return SS_ERR_UNSUPPORTED;
}

ss_status ss_snappy_decompress(ss_snappy *snappy, const uint8_t *bytes, size_t length, size_t max_length,
                               ss_buffer *out, ss_error *error) {
    (void)snappy, (void)bytes, (void)length, (void)max_length, (void)out;
    return ss_codec_fail(error, SS_ERR_UNSUPPORTED, 0, "snappy was not there at build time");
}

#endif
