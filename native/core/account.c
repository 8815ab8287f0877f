#include "core/account.h"

const char ss_reason_memory[] = "request needs more memory than the limit of the memory_limiter leaves,";

ss_status ss_holding_take(ss_holding *holding, size_t bytes) {
    size_t held;
    if (__builtin_add_overflow(holding->held, bytes, &held)) {
        return SS_ERR_LIMIT;
    }
    if (holding->runtime && held > SS_HOLDING_KEPT) {
        size_t more = held - SS_HOLDING_KEPT - holding->counted;
        ss_status status = ss_runtime_take(holding->runtime, more, held);
        if (status != SS_OK) {
            return status;
        }
        holding->counted += more;
    }
    holding->held = held;
    return SS_OK;
}

void ss_holding_give(ss_holding *holding, size_t bytes) {
    holding->held -= bytes;
    size_t to_count = holding->held > SS_HOLDING_KEPT ? holding->held - SS_HOLDING_KEPT : 0;
    if (holding->counted > to_count) {
        ss_runtime_account(holding->runtime, -(int64_t)(holding->counted - to_count));
        holding->counted = to_count;
    }
}

ss_status ss_holding_reserve(ss_holding *holding, ss_buffer *buffer, size_t extra) {
    size_t before = buffer->capacity, capacity = ss_buffer_capacity_with(buffer, extra);
    if (!holding || capacity == before) {
        return ss_buffer_reserve(buffer, extra);
    }
    ss_status status = ss_holding_take(holding, capacity - before);
    if (status == SS_OK && (status = ss_buffer_reserve(buffer, extra)) != SS_OK) {
        ss_holding_give(holding, capacity - before);
    }
    return status;
}

void ss_holding_free(ss_holding *holding, ss_buffer *buffer) {
    if (holding) {
        ss_holding_give(holding, buffer->capacity);
    }
    ss_buffer_free(buffer);
}
