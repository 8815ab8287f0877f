/* Mixing for hash tables whose keys a peer may choose: with a seed it cannot know, keys do not pile up. */
#ifndef SS_HASH_H
#define SS_HASH_H

#include <stdint.h>

static inline uint64_t ss_hash_mix(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Where memory lies is not a peer's to know, and no output may depend on it. */
static inline uint64_t ss_hash_seed(const void *own) {
    return (uint64_t)(uintptr_t)own * 0x9e3779b97f4a7c15u;
}

#endif
