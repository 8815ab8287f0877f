/* The ratio samplers of SDKs: each makes a number of the trace id and keeps the trace when the number is small.
 * Source: the SDKs themselves; what they decide is recorded in tests/data/sampler/sdk_ratio.txt. */
#ifndef SS_SDK_RATIO_H
#define SS_SDK_RATIO_H

#include "spansieve.h"

#include <string.h>

/* The largest number that is kept at ratio, 0 to 1. False: none is. */
bool ss_sdk_ratio_last(ss_sampler_sdk sdk, double ratio, uint64_t *last);

static inline uint64_t ss_sdk_ratio_half(const uint8_t *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

/* Of a number in two's complement; the most negative one is its own, as in Java. */
static inline uint64_t ss_sdk_ratio_magnitude(uint64_t number) {
    return number >> 63 ? 0 - number : number;
}

static inline uint64_t ss_sdk_ratio_number(ss_sampler_sdk sdk, const uint8_t *trace_id) {
    const uint64_t sign = UINT64_C(1) << 63;
    uint64_t high = ss_sdk_ratio_half(trace_id);
    uint64_t low = ss_sdk_ratio_half(trace_id + 8);
    switch (sdk) {
    case SS_SAMPLER_SDK_PYTHON: return low;
    case SS_SAMPLER_SDK_GO: return low >> 1;
    case SS_SAMPLER_SDK_JAVA: return ss_sdk_ratio_magnitude(low) ^ sign; /* compares signed: the sign turned round */
    case SS_SAMPLER_SDK_JS: return ((high ^ low) >> 32) ^ ((high ^ low) & UINT32_MAX);
    case SS_SAMPLER_SDK_DOTNET: return ss_sdk_ratio_magnitude(high);
    case SS_SAMPLER_SDK_JAEGER: return low & ~sign;
    case SS_SAMPLER_SDK_DATADOG: return low * UINT64_C(1111111111111111111);
    default: return 0; /* no other is let into a sampler */
    }
}

#endif
