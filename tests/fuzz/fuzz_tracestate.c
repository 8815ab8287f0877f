/* Any bytes as a tracestate: what is written again reads the same, and fits. */
#include "ops/tracestate.h"

#include <stdlib.h>
#include <string.h>

#include "ops/number.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ss_tracestate state, again;
    uint8_t first[SS_TRACESTATE_FORMAT_MAX], second[SS_TRACESTATE_FORMAT_MAX];
    (void)ss_tracestate_parse(&state, data, size);
    size_t length = ss_tracestate_format(&state, first);
    require(length <= size + 1); /* nothing is made up; 1 for nothing at all */
    if (length <= SS_TRACESTATE_MAX) {
        require(!ss_tracestate_parse(&again, first, length));
        require(ss_tracestate_format(&again, second) == length && memcmp(first, second, length) == 0);
        require(state.sampling.has_randomness == again.sampling.has_randomness);
        require(state.sampling.has_threshold == again.sampling.has_threshold);
    }
    ss_tracestate_set_randomness(&state, SS_RANDOMNESS_MAX);
    ss_tracestate_set_threshold(&state, size);
    require(ss_tracestate_format(&state, first) <= sizeof first);

    double value;
    if (ss_number_parse(data, size, &value)) {
        char text[SS_NUMBER_FORMAT_MAX];
        require(ss_number_format(value, text) < sizeof text);
    }
    return 0;
}
