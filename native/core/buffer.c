#include "spansieve.h"

#include <stdlib.h>
#include <string.h>

ss_status ss_buffer_reserve(ss_buffer *buffer, size_t extra) {
    size_t need;
    if (__builtin_add_overflow(buffer->length, extra, &need)) {
        return SS_ERR_NO_MEMORY;
    }
    if (need <= buffer->capacity && buffer->data) {
        return SS_OK;
    }
    size_t capacity = buffer->capacity < 256 ? 256 : buffer->capacity;
    while (capacity < need) {
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    }
    uint8_t *data = realloc(buffer->data, capacity);
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
