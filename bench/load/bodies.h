/* The requests to send, and what makes each sending of them unlike all others. */
#ifndef LOAD_BODIES_H
#define LOAD_BODIES_H

#include "message.h"
#include "spansieve.h"

typedef struct load_body {
    uint8_t *bytes;
    size_t length;
    uint64_t n_items;
    load_places places;
    load_disguise disguise; /* of what bytes are now */
    bool is_taken;          /* by a call, whose bytes they are */
} load_body;

typedef struct load_bodies {
    load_body *all;
    size_t n, next;
    uint64_t random; /* state of the generator */
} load_bodies;

/* Read a file of [length, 4 bytes, big-endian][Export*ServiceRequest], repeated; at least n_wanted bodies, by repeating
 * them where the file has fewer. False, with text in message: it cannot be read, or is not such a file. */
bool bodies_read(load_bodies *bodies, const char *path, ss_signal signal, size_t n_wanted, uint64_t seed, char *message,
                 size_t message_size);
void bodies_free(load_bodies *bodies);

/* Take the body whose turn it is, or the next that is not taken, in a new disguise unless keep_ids. REQUIRES: one is
 * not taken. */
load_body *bodies_take(load_bodies *bodies, bool keep_ids);

#endif
