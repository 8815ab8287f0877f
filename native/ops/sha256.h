/* SHA-256 by OpenSSL, which is loaded when it is first needed. */
#ifndef SS_SHA256_H
#define SS_SHA256_H

#include "core/arena.h"

enum { SS_SHA256_HEX = 64 };

typedef struct ss_sha256 ss_sha256;
/* NULL: error says why. */
ss_sha256 *ss_sha256_new(ss_error *error);
/* REQUIRES: all states of it are freed. */
void ss_sha256_free(ss_sha256 *sha256);

/* Memory of a computation. One thread at a time. Zero-initialised is empty and valid. */
typedef struct ss_sha256_state {
    const ss_sha256 *owner;
    void *context;
} ss_sha256_state;

/* Write the hash of bytes in lower-case hex. False: out of memory. */
bool ss_sha256_hex(const ss_sha256 *sha256, ss_sha256_state *state, ss_bytes bytes, uint8_t out[SS_SHA256_HEX]);
void ss_sha256_state_free(ss_sha256_state *state);

#endif
