/* Pieces of memory that are used and given back together, and the bytes that lie in them or elsewhere. */
#ifndef SS_ARENA_H
#define SS_ARENA_H

#include "core/account.h"
#include "core/bytes.h"

/* Bytes of the request, of the configuration, or of an arena. */
typedef struct ss_bytes {
    const uint8_t *data;
    size_t length;
} ss_bytes;

static inline bool ss_bytes_equal(ss_bytes a, ss_bytes b) {
    return a.length == b.length && (!a.length || __builtin_memcmp(a.data, b.data, a.length) == 0);
}

/* What is absent has no data, to which not even 0 may be added. */
static inline ss_reader ss_reader_of(ss_bytes bytes) {
    return (ss_reader){bytes.data, bytes.length ? bytes.data + bytes.length : bytes.data};
}

/* Memory for one piece of work at a time: taken piece by piece, given back at once. Zero-initialised is empty and
 * valid.
 */
typedef struct ss_arena {
    struct ss_arena_block *first;
    struct ss_arena_block *current;
    size_t capacity;
    bool is_exhausted;   /* an allocation failed */
    ss_holding *holding; /* of what it grows by; NULL: nobody counts that */
    size_t counted;      /* bytes in holding */
} ss_arena;

/* Memory aligned for any type, not cleared. NULL: out of memory; the arena remembers it. */
void *ss_arena_take(ss_arena *arena, size_t n, size_t size);
void ss_arena_reset(ss_arena *arena); /* keeps the blocks */
void ss_arena_free(ss_arena *arena);  /* leaves the arena empty and valid */

/* Count in holding from now on what the arena grows by; NULL: that ends, and what was counted is given back. */
void ss_arena_count(ss_arena *arena, ss_holding *holding);
/* Count bytes that are about to be allocated beside the arena, for the same work. False: there is no room for them. */
bool ss_arena_hold(ss_arena *arena, size_t bytes);

/* The pieces of a repeated field put together. */
typedef struct ss_gathered {
    ss_bytes bytes;
    size_t capacity; /* of bytes in the arena; 0: they are borrowed */
} ss_gathered;

/* Append piece: bytes are copied only where they do not already lie behind one another. */
bool ss_gather(ss_arena *arena, ss_gathered *gathered, ss_bytes piece);

#endif
