#include "core/arena.h"

#include <stdlib.h>

struct ss_arena_block {
    struct ss_arena_block *next;
    size_t capacity;
    size_t used;
    max_align_t data[];
};

enum { BLOCK_BYTES = 64 * 1024 };

void *ss_arena_take(ss_arena *arena, size_t n, size_t size) {
    const size_t align = sizeof(max_align_t);
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2) {
        arena->is_exhausted = true;
        return NULL;
    }
    bytes = (bytes + align - 1) / align * align;
    struct ss_arena_block *block = arena->current;
    while (block && block->capacity - block->used < bytes && block->next) {
        block = block->next;
        block->used = 0;
    }
    if (!block || block->capacity - block->used < bytes) {
        size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct ss_arena_block *fresh = ss_arena_hold(arena, capacity) ? malloc(sizeof *fresh + capacity) : NULL;
        if (!fresh) {
            arena->is_exhausted = true;
            return NULL;
        }
        *fresh = (struct ss_arena_block){.capacity = capacity};
        *(block ? &block->next : &arena->first) = fresh;
        arena->capacity += capacity;
        block = fresh;
    }
    arena->current = block;
    void *taken = (uint8_t *)block->data + block->used;
    block->used += bytes;
    return taken;
}

void ss_arena_reset(ss_arena *arena) {
    arena->current = arena->first;
    if (arena->first) {
        arena->first->used = 0;
    }
    arena->is_exhausted = false;
}

bool ss_arena_hold(ss_arena *arena, size_t bytes) {
    if (arena->holding) {
        if (ss_holding_take(arena->holding, bytes) != SS_OK) {
            return false;
        }
        arena->counted += bytes;
    }
    return true;
}

void ss_arena_count(ss_arena *arena, ss_holding *holding) {
    if (arena->holding) {
        ss_holding_give(arena->holding, arena->counted);
    }
    arena->counted = 0;
    arena->holding = holding;
}

void ss_arena_free(ss_arena *arena) {
    ss_arena_count(arena, NULL);
    for (struct ss_arena_block *block = arena->first; block;) {
        struct ss_arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (ss_arena){0};
}

bool ss_gather(ss_arena *arena, ss_gathered *gathered, ss_bytes piece) {
    ss_bytes *bytes = &gathered->bytes;
    if (!piece.length) {
        return true;
    }
    if (!bytes->length) {
        *gathered = (ss_gathered){.bytes = piece};
        return true;
    }
    if (!gathered->capacity && bytes->data + bytes->length == piece.data) {
        bytes->length += piece.length;
        return true;
    }
    size_t length = bytes->length + piece.length;
    if (gathered->capacity < length) {
        /* Doubled, so that a field split into thousands of pieces costs no more than its bytes. */
        uint8_t *data = ss_arena_take(arena, length, 2);
        if (!data) {
            return false;
        }
        memcpy(data, bytes->data, bytes->length);
        *gathered = (ss_gathered){.bytes = {data, bytes->length}, .capacity = length * 2};
    }
    memcpy((uint8_t *)bytes->data + bytes->length, piece.data, piece.length);
    bytes->length = length;
    return true;
}
