/* Mixing for hash tables whose keys a peer may choose: with a seed it cannot know, keys do not pile up. */
#ifndef SS_HASH_H
#define SS_HASH_H

#include <stdint.h>

/* a is what a peer cannot know, mixed with the seed; b may be of its choice. The secret is in both factors: with b
 * alone in one of them a peer makes that 0 or 1, and what was mixed before is lost or can be cancelled out. */
static inline uint64_t ss_hash_mix(uint64_t a, uint64_t b) {
    uint64_t turned = a << 29 | a >> 35;
    __uint128_t product = (__uint128_t)(a ^ 0x9e3779b97f4a7c15u) * (b ^ turned ^ 0xd6e8feb86659fd93u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Where memory lies is not a peer's to know, and no output may depend on it. */
static inline uint64_t ss_hash_seed(const void *own) {
    return (uint64_t)(uintptr_t)own * 0x9e3779b97f4a7c15u;
}

#endif
