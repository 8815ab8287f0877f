#include "ops/sdk_ratio.h"

#include <math.h>

/* How many numbers from 0 are kept below ratio 1, where the SDK compares with `<`. */
static uint64_t bound_of(ss_sampler_sdk sdk, double ratio) {
    switch (sdk) {
    case SS_SAMPLER_SDK_PYTHON: return (uint64_t)rint(ratio * 0x1p64); /* half to even, as Python rounds */
    case SS_SAMPLER_SDK_JS: return (uint64_t)(ratio * UINT32_MAX);
    case SS_SAMPLER_SDK_JAVA: return (uint64_t)(ratio * 0x1p63) ^ UINT64_C(1) << 63;
    default: return (uint64_t)(ratio * 0x1p63);
    }
}

bool ss_sdk_ratio_last(ss_sampler_sdk sdk, double ratio, uint64_t *last) {
    if (sdk == SS_SAMPLER_SDK_JAEGER) { /* the one that keeps something at 0: ids whose 63 bits are 0 */
        *last = (uint64_t)(ratio * 0x1p63);
        return true;
    }
    if (ratio >= 1) { /* Java's largest number stays out, as its comparison has it */
        *last = sdk == SS_SAMPLER_SDK_JAVA ? UINT64_MAX - 1 : UINT64_MAX;
        return true;
    }
    if (!(ratio > 0)) {
        return false;
    }
    if (sdk == SS_SAMPLER_SDK_DATADOG) {
        *last = (uint64_t)(ratio * 0x1p64);
        return true;
    }
    uint64_t bound = bound_of(sdk, ratio);
    *last = bound - 1;
    return bound > 0;
}
