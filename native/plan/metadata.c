#include "plan/metadata.h"

#include "core/bytes.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void ss_names_free(ss_names *names) {
    for (size_t i = 0; i < names->n; i++) {
        free(names->names[i]);
    }
    free(names->names);
    *names = (ss_names){0};
}

ss_status ss_names_copy(ss_names *out, const char *const *names, size_t n) {
    *out = (ss_names){0};
    if (!n) {
        return SS_OK;
    }
    out->names = calloc(n, sizeof *out->names);
    while (out->names && out->n < n && (out->names[out->n] = strdup(names[out->n]))) {
        out->n++;
    }
    if (out->n == n) {
        return SS_OK;
    }
    ss_names_free(out);
    return SS_ERR_NO_MEMORY;
}

const char *ss_names_find(const ss_names *names, const void *name, size_t length) {
    for (size_t i = 0; i < names->n; i++) {
        if (strlen(names->names[i]) == length && strncasecmp(names->names[i], name, length) == 0) {
            return names->names[i];
        }
    }
    return NULL;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t length) {
    to = ss_write_varint(to, length);
    if (length) {
        memcpy(to, bytes, length);
    }
    return to + length;
}

ss_status ss_metadata_append(ss_buffer *block, const char *name, const void *value, size_t length) {
    size_t name_length = strlen(name);
    ss_status status = ss_buffer_reserve(block, name_length + length + 2 * SS_VARINT_MAX);
    if (status == SS_OK) {
        uint8_t *end = put(block->data + block->length, name, name_length);
        block->length = (size_t)(put(end, value, length) - block->data);
    }
    return status;
}

ss_status ss_metadata_select(const uint8_t *block, size_t length, const ss_names *names, ss_buffer *key) {
    for (size_t i = 0; length && i < names->n; i++) {
        const char *wanted = names->names[i];
        ss_reader reader = {block, block + length}, name, value;
        while (ss_read_bytes(&reader, &name) && ss_read_bytes(&reader, &value)) {
            size_t name_length = (size_t)(name.end - name.pos);
            if (name_length != strlen(wanted) || memcmp(name.pos, wanted, name_length) != 0) {
                continue;
            }
            ss_status status = ss_metadata_append(key, wanted, value.pos, (size_t)(value.end - value.pos));
            if (status != SS_OK) {
                return status;
            }
        }
    }
    return SS_OK;
}
