#include "bodies.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_BYTES = 4, FIRST_BODIES = 256, READ_STEP = 1 << 20 };

/* Times move by up to a second: the digits that differ between two events of one kind. */
static const uint64_t shift_mask_ns = (UINT64_C(1) << 30) - 1;

/* Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (SplitMix64). */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static bool say(char *message, size_t size, const char *path, const char *what) {
    snprintf(message, size, "%s: %s", path, what);
    return false;
}

static bool read_file(const char *path, ss_buffer *out, char *message, size_t message_size) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        return say(message, message_size, path, strerror(errno));
    }
    size_t n = 1;
    bool has_memory = true;
    while (n && (has_memory = ss_buffer_reserve(out, READ_STEP) == SS_OK)) {
        n = fread(out->data + out->length, 1, READ_STEP, file);
        out->length += n;
    }
    bool is_complete = has_memory && !ferror(file);
    fclose(file);
    return is_complete || say(message, message_size, path, has_memory ? "cannot be read" : "no memory");
}

static load_body *add(load_bodies *bodies, size_t *capacity) {
    if (bodies->n == *capacity) {
        size_t larger = *capacity ? 2 * *capacity : FIRST_BODIES;
        load_body *all = realloc(bodies->all, larger * sizeof *all);
        if (!all) {
            return NULL;
        }
        bodies->all = all;
        *capacity = larger;
    }
    load_body *added = &bodies->all[bodies->n++];
    *added = (load_body){0};
    return added;
}

/* Copy bytes into a body; the table proves that it is a good request. */
static const char *fill(load_body *body, ss_signal signal, const uint8_t *bytes, size_t length, ss_table *table) {
    ss_error error;
    if (ss_scan(signal, bytes, length, table, &error) != SS_OK) {
        return error.reason;
    }
    if (table->n_rows == 0) {
        return "has no items";
    }
    body->bytes = malloc(length);
    if (!body->bytes) {
        return "no memory";
    }
    memcpy(body->bytes, bytes, length);
    body->length = length;
    body->n_items = table->n_rows;
    return message_find_places(signal, body->bytes, length, &body->places) ? NULL : "no memory";
}

static bool split(load_bodies *bodies, const char *path, const ss_buffer *file, ss_signal signal, size_t n_wanted,
                  ss_table *table, char *message, size_t message_size) {
    size_t capacity = 0, pos = 0;
    do {
        const uint8_t *frame = file->data + pos;
        size_t left = file->length - pos;
        size_t length = left < FRAME_BYTES ? left
                                           : (size_t)frame[0] << 24 | (size_t)frame[1] << 16 | (size_t)frame[2] << 8 |
                                                 (size_t)frame[3];
        if (left < FRAME_BYTES || length > left - FRAME_BYTES) {
            return say(message, message_size, path, "is not a run of [4-byte length][request]");
        }
        load_body *added = add(bodies, &capacity);
        const char *problem = added ? fill(added, signal, frame + FRAME_BYTES, length, table) : "no memory";
        if (problem) {
            char text[256];
            snprintf(text, sizeof text, "request %zu: %s", bodies->n, problem);
            return say(message, message_size, path, text);
        }
        pos += FRAME_BYTES + length;
        if (pos == file->length && bodies->n < n_wanted) {
            pos = 0;
        }
    } while (pos < file->length);
    return true;
}

bool bodies_read(load_bodies *bodies, const char *path, ss_signal signal, size_t n_wanted, uint64_t seed, char *message,
                 size_t message_size) {
    *bodies = (struct load_bodies){.random = seed};
    ss_buffer file = {0};
    ss_table *table = ss_table_new();
    bool is_read = table && read_file(path, &file, message, message_size) &&
                   split(bodies, path, &file, signal, n_wanted, table, message, message_size);
    if (!table) {
        say(message, message_size, path, "no memory");
    }
    ss_table_free(table);
    ss_buffer_free(&file);
    return is_read;
}

void bodies_free(load_bodies *bodies) {
    for (size_t i = 0; i < bodies->n; i++) {
        free(bodies->all[i].bytes);
        places_free(&bodies->all[i].places);
    }
    free(bodies->all);
}

static void step(load_bodies *bodies) {
    bodies->next = bodies->next + 1 == bodies->n ? 0 : bodies->next + 1;
}

load_body *bodies_take(load_bodies *bodies, bool keep_ids) {
    while (bodies->all[bodies->next].is_taken) {
        step(bodies);
    }
    load_body *body = &bodies->all[bodies->next];
    step(bodies);
    body->is_taken = true;
    if (!keep_ids) {
        load_disguise fresh;
        fresh.trace_id[0] = next_random(&bodies->random);
        fresh.trace_id[1] = next_random(&bodies->random);
        fresh.span_id = next_random(&bodies->random);
        fresh.shift_ns = next_random(&bodies->random) & shift_mask_ns;
        message_change(body->bytes, &body->places, &body->disguise, &fresh);
        body->disguise = fresh;
    }
    return body;
}
