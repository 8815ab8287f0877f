#include "core/account.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY_FIRST = 256 };

size_t ss_buffer_capacity_with(const ss_buffer *buffer, size_t extra) {
    size_t need;
    if (__builtin_add_overflow(buffer->length, extra, &need)) {
        return SIZE_MAX;
    }
    if (need <= buffer->capacity && buffer->data) {
        return buffer->capacity;
    }
    size_t capacity = buffer->capacity < CAPACITY_FIRST ? CAPACITY_FIRST : buffer->capacity;
    while (capacity < need) {
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    }
    return capacity;
}

ss_status ss_buffer_reserve(ss_buffer *buffer, size_t extra) {
    size_t capacity = ss_buffer_capacity_with(buffer, extra);
    if (capacity == buffer->capacity && buffer->data) {
        return SS_OK;
    }
    uint8_t *data = capacity == SIZE_MAX ? NULL : realloc(buffer->data, capacity);
    if (!data) {
        return SS_ERR_NO_MEMORY;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return SS_OK;
}

ss_status ss_buffer_append(ss_buffer *buffer, const uint8_t *data, size_t length) {
    if (!length) {
        return SS_OK;
    }
    ss_status status = ss_buffer_reserve(buffer, length);
    if (status == SS_OK) {
        memcpy(buffer->data + buffer->length, data, length);
        buffer->length += length;
    }
    return status;
}

void ss_buffer_free(ss_buffer *buffer) {
    free(buffer->data);
    *buffer = (ss_buffer){0};
}
