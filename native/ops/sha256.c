/* Source: OpenSSL's manual, EVP_DigestInit(3). */
#include "ops/sha256.h"

#include "codec/library.h"

#include <stdlib.h>

#ifdef SPANSIEVE_LIBCRYPTO

#include <openssl/evp.h>

/* Each name stands here once, for its pointer and for its symbol. */
#define EVP_FUNCTIONS(X)                                                                                               \
    X(EVP_DigestFinal_ex)                                                                                              \
    X(EVP_DigestInit_ex2)                                                                                              \
    X(EVP_DigestUpdate)                                                                                                \
    X(EVP_MD_CTX_free)                                                                                                 \
    X(EVP_MD_CTX_new)                                                                                                  \
    X(EVP_MD_fetch)                                                                                                    \
    X(EVP_MD_free)
#define POINTER(name) __typeof__(&(name)) name;
#define SYMBOL(name) {#name, &sha256->name},

struct ss_sha256 {
    void *library;
    EVP_MD *digest;
    EVP_FUNCTIONS(POINTER)
};

ss_sha256 *ss_sha256_new(ss_error *error) {
    ss_sha256 *sha256 = calloc(1, sizeof *sha256);
    if (!sha256) {
        *error = (ss_error){SS_ERR_NO_MEMORY, 0, "out of memory"};
        return NULL;
    }
    const ss_symbol symbols[] = {EVP_FUNCTIONS(SYMBOL)};
    sha256->library = ss_library_load(SPANSIEVE_LIBCRYPTO, symbols, sizeof symbols / sizeof symbols[0]);
    sha256->digest = sha256->library ? sha256->EVP_MD_fetch(NULL, "SHA256", NULL) : NULL;
    if (!sha256->digest) {
        *error = (ss_error){SS_ERR_UNSUPPORTED, 0, "hash needs OpenSSL: " SPANSIEVE_LIBCRYPTO " has no SHA-256"};
        ss_sha256_free(sha256);
        return NULL;
    }
    return sha256;
}

void ss_sha256_free(ss_sha256 *sha256) {
    if (sha256) {
        if (sha256->digest) {
            sha256->EVP_MD_free(sha256->digest);
        }
        ss_library_unload(sha256->library);
        free(sha256);
    }
}

bool ss_sha256_hex(const ss_sha256 *sha256, ss_sha256_state *state, ss_bytes bytes, uint8_t out[SS_SHA256_HEX]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[SS_SHA256_HEX / 2];
    if (!state->context) {
        *state = (ss_sha256_state){sha256, sha256->EVP_MD_CTX_new()};
    }
    if (!state->context || !sha256->EVP_DigestInit_ex2(state->context, sha256->digest, NULL) ||
        !sha256->EVP_DigestUpdate(state->context, bytes.data, bytes.length) ||
        !sha256->EVP_DigestFinal_ex(state->context, hash, NULL)) {
        return false;
    }
    for (size_t i = 0; i < sizeof hash; i++) {
        out[2 * i] = (uint8_t)digits[hash[i] >> 4];
        out[2 * i + 1] = (uint8_t)digits[hash[i] & 0xf];
    }
    return true;
}

void ss_sha256_state_free(ss_sha256_state *state) {
    if (state->context) {
        state->owner->EVP_MD_CTX_free(state->context);
        *state = (ss_sha256_state){0};
    }
}

#else

ss_sha256 *ss_sha256_new(ss_error *error) {
    *error = (ss_error){SS_ERR_UNSUPPORTED, 0, "this build has no OpenSSL, which hash needs"};
    return NULL;
}

void ss_sha256_free(ss_sha256 *sha256) {
    (void)sha256;
}

bool ss_sha256_hex(const ss_sha256 *sha256, ss_sha256_state *state, ss_bytes bytes, uint8_t out[SS_SHA256_HEX]) {
    (void)sha256, (void)state, (void)bytes, (void)out;
    return false;
}

void ss_sha256_state_free(ss_sha256_state *state) {
    (void)state;
}

#endif
