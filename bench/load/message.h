/* What the load generator and the sink know of OTLP: where items, ids and times are in a request. */
#ifndef LOAD_MESSAGE_H
#define LOAD_MESSAGE_H

#include "spansieve.h"

/* A growable list of byte offsets. Zero-initialised is empty. */
typedef struct load_offsets {
    uint32_t *at;
    size_t n, capacity;
} load_offsets;

/* Places in one request whose bytes may change without a change of length. */
typedef struct load_places {
    load_offsets trace_ids; /* 16 bytes */
    load_offsets span_ids;  /* 8 bytes; parents, links and exemplars too */
    load_offsets times;     /* 8 bytes, little endian */
} load_places;

/* Count the spans, data points or log records of an Export*ServiceRequest. Reads no further than to each item's
 * length. False: the bytes are no such request. */
bool message_count_items(ss_signal signal, const uint8_t *bytes, size_t length, uint64_t *n_items);

/* Find the ids and times that are set: zero and absent ones say something by that, and stay. REQUIRES: places is
 * empty; length fits into 32 bits. False: no such request, or no memory. */
bool message_find_places(ss_signal signal, const uint8_t *bytes, size_t length, load_places *places);
void places_free(load_places *places);

/* How one sending of a request differs from its original. */
typedef struct load_disguise {
    uint64_t trace_id[2]; /* every trace id is XORed with it, so that equal ids stay equal */
    uint64_t span_id;     /* the same for span ids, so that parents and links follow */
    uint64_t shift_ns;    /* added to every time, so that durations and order stay */
} load_disguise;

/* Turn bytes from one disguise into another; the original has none, all zero. */
void message_change(uint8_t *bytes, const load_places *places, const load_disguise *from, const load_disguise *to);

#endif
