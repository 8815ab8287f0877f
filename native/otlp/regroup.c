/*
 * Writes a batch anew with each resource and each scope once. Requests that are gathered one after the other repeat
 * them: a batch of small requests is mostly resources, and so is what a sampler leaves of large ones.
 *
 * Export requests of traces, metrics and logs have one shape: Resource* messages that hold a resource, Scope* messages
 * and a schema URL, and Scope* messages that hold a scope, items and a schema URL, each under the same numbers. Both
 * are read as "enclosures" here. Source: opentelemetry-proto, trace.proto, metrics.proto, logs.proto.
 */
#include "otlp/regroup.h"

#include "core/arena.h"
#include "core/hash.h"

#include <stdlib.h>

enum { FIELD_RESOURCES = 1, FIELD_OWNER = 1, FIELD_CHILDREN = 2, FIELD_SCHEMA_URL = 3 };

/* GROUPS_MAX bounds the memory for a batch of tiny messages. To take a batch apart and copy it costs a tenth of its
 * compression, so a SAVED_SHARE th of its bytes is to be saved at least; that is guessed from the resources alone. */
enum { GROUPS_MAX = 1 << 16, GROUPS_FIRST = 64, SAVED_SHARE = 32, SEEN = 1024, NONE = 0 };

enum { CACHE_LINE = 64, AHEAD = 512 }; /* bytes */

typedef struct chunk {
    const uint8_t *pos;
    size_t length;
} chunk;

/* A Resource* or a Scope* message: fields with their tags. */
typedef struct enclosure {
    chunk owner; /* the resource or the scope */
    chunk children;
    chunk schema_url;
} enclosure;

/* What becomes one message. Groups are known by their index; the first is the request, and stands for none. */
typedef struct group {
    enclosure what; /* of the first message; children are of it alone, and only a scope's are written */
    uint64_t hash;
    uint32_t parent;
    uint32_t first, last; /* the groups in it; of a scope: the further runs of its items */
    uint32_t next;        /* in parent */
    size_t body;          /* bytes */
} group;

typedef struct regrouping {
    uint64_t seed;
    group *groups;
    uint32_t n_groups;
    uint32_t capacity;
    uint32_t
        *buckets; /* twice as many as capacity: indices of resources and scopes, by hash, the next one where taken */
} regrouping;

static bool read_field(ss_reader *reader, uint32_t *number, chunk *field) {
    const uint8_t *start = reader->pos;
    uint64_t tag;
    ss_reader ignored;
    if (!ss_read_varint(reader, &tag) || (tag & 7) != SS_WIRE_BYTES || tag >> 3 > FIELD_SCHEMA_URL ||
        !ss_read_bytes(reader, &ignored)) {
        return false;
    }
    *number = (uint32_t)(tag >> 3);
    *field = (chunk){start, (size_t)(reader->pos - start)};
    return true;
}

/* The value of a field that read_field has read. */
static ss_reader body_of(chunk field) {
    ss_reader reader = {field.pos, field.pos + field.length};
    ss_reader body = reader;
    uint64_t tag;
    if (ss_read_varint(&reader, &tag)) {
        ss_read_bytes(&reader, &body);
    }
    return body;
}

/* Each item is found by the length of the one before, and they lie too far apart and too unevenly for the processor to
 * guess: without this each would be waited for. Past the end it does nothing. */
static void fetch_ahead(const uint8_t *pos) {
    for (unsigned at = AHEAD; at < 2 * AHEAD; at += CACHE_LINE) {
        __builtin_prefetch((const void *)((uintptr_t)pos + at)); /* no pointer of C may point there */
    }
}

/* False for what cannot be taken apart: unknown fields, fields that come twice, children in several runs. */
static bool read_enclosure(ss_reader reader, enclosure *read) {
    *read = (enclosure){0};
    while (reader.pos < reader.end) {
        fetch_ahead(reader.pos);
        uint32_t number;
        chunk field;
        if (!read_field(&reader, &number, &field)) {
            return false;
        }
        chunk *place = number == FIELD_OWNER        ? &read->owner
                       : number == FIELD_CHILDREN   ? &read->children
                       : number == FIELD_SCHEMA_URL ? &read->schema_url
                                                    : NULL;
        if (!place) {
            return false;
        }
        if (!place->pos) {
            *place = field;
        } else if (number == FIELD_CHILDREN && place->pos + place->length == field.pos) {
            place->length += field.length;
        } else {
            return false;
        }
    }
    return true;
}

static bool equal(chunk a, chunk b) {
    return a.length == b.length && (!a.length || memcmp(a.pos, b.pos, a.length) == 0);
}

static bool is_same(const group *g, uint32_t parent, const enclosure *what) {
    return g->parent == parent && equal(g->what.owner, what->owner) && equal(g->what.schema_url, what->schema_url);
}

static uint64_t hash_bytes(uint64_t hash, chunk bytes) {
    uint64_t words[2];
    size_t at = 0;
    for (; at + sizeof words <= bytes.length; at += sizeof words) {
        memcpy(words, bytes.pos + at, sizeof words);
        hash = ss_hash_mix(hash ^ words[0], words[1]);
    }
    words[0] = bytes.length;
    words[1] = 0;
    for (; at < bytes.length; at++) {
        words[0] = words[0] << 8 | words[1] >> 56;
        words[1] = words[1] << 8 | bytes.pos[at];
    }
    return ss_hash_mix(hash ^ words[0], words[1]);
}

/* Bytes of resources that stood in the request before, few of them missed: one is forgotten for another one with the
 * same place. Messages whose first field is no resource count for nothing. */
static size_t guess_saved(ss_reader request) {
    chunk seen[SEEN] = {0};
    chunk *place = seen;
    uint64_t seed = ss_hash_seed(&request);
    size_t saved = 0;
    uint32_t number;
    for (chunk field, owner; request.pos < request.end && read_field(&request, &number, &field);) {
        ss_reader body = body_of(field);
        if (body.pos < body.end && read_field(&body, &number, &owner) && number == FIELD_OWNER) {
            place = equal(*place, owner) ? place : &seen[hash_bytes(seed, owner) % SEEN];
            saved += equal(*place, owner) ? owner.length : 0;
            *place = owner;
        }
    }
    return saved;
}

static void enter(regrouping *r, uint32_t index) {
    uint32_t mask = 2 * r->capacity - 1;
    uint32_t bucket = (uint32_t)r->groups[index].hash & mask;
    while (r->buckets[bucket]) {
        bucket = (bucket + 1) & mask;
    }
    r->buckets[bucket] = index;
}

static ss_status grow(regrouping *r) {
    uint32_t capacity = r->capacity ? 2 * r->capacity : GROUPS_FIRST;
    if (capacity > GROUPS_MAX) {
        return SS_ERR_LIMIT;
    }
    group *groups = realloc(r->groups, capacity * sizeof *groups);
    if (!groups) {
        return SS_ERR_NO_MEMORY;
    }
    r->groups = groups;
    uint32_t *buckets = calloc(2 * (size_t)capacity, sizeof *buckets);
    if (!buckets) {
        return SS_ERR_NO_MEMORY;
    }
    free(r->buckets);
    r->buckets = buckets;
    r->capacity = capacity;
    for (uint32_t i = 1; i < r->n_groups; i++) {
        if (r->groups[i].hash) {
            enter(r, i);
        }
    }
    return SS_OK;
}

/* Append a group to parent's; its index, or NONE where there is no room. hash 0: it is not to be found again. */
static uint32_t add(regrouping *r, uint32_t parent, const enclosure *what, uint64_t hash, ss_status *status) {
    if (r->n_groups == r->capacity && (*status = grow(r)) != SS_OK) {
        return NONE;
    }
    uint32_t index = r->n_groups++;
    group *g = &r->groups[index];
    *g = (group){.what = *what, .hash = hash, .parent = parent};
    if (hash) {
        enter(r, index);
    }
    if (index) {
        group *around = &r->groups[parent];
        *(around->first ? &r->groups[around->last].next : &around->first) = index;
        around->last = index;
    }
    return index;
}

/* The group in parent with the same owner and schema URL. *is_new: it was added. */
static uint32_t find(regrouping *r, uint32_t parent, const enclosure *what, bool *is_new, ss_status *status) {
    uint32_t last = r->groups[parent].last;
    *is_new = false;
    if (last && is_same(&r->groups[last], parent, what)) {
        return last;
    }
    uint64_t hash = hash_bytes(hash_bytes(ss_hash_mix(r->seed, parent), what->owner), what->schema_url) | 1;
    uint32_t mask = 2 * r->capacity - 1;
    for (uint32_t bucket = (uint32_t)hash & mask; r->buckets[bucket]; bucket = (bucket + 1) & mask) {
        uint32_t index = r->buckets[bucket];
        if (r->groups[index].hash == hash && is_same(&r->groups[index], parent, what)) {
            return index;
        }
    }
    *is_new = true;
    return add(r, parent, what, hash, status);
}

static ss_status read_scopes(regrouping *r, uint32_t resource, ss_reader scopes) {
    while (scopes.pos < scopes.end) {
        uint32_t number;
        chunk field;
        enclosure what;
        bool is_new;
        ss_status status = SS_OK;
        if (!read_field(&scopes, &number, &field) || !read_enclosure(body_of(field), &what)) {
            return SS_ERR_MALFORMED;
        }
        uint32_t scope = find(r, resource, &what, &is_new, &status);
        if (scope && !is_new && what.children.length) {
            add(r, scope, &(enclosure){.children = what.children}, 0, &status);
        }
        if (status != SS_OK) {
            return status;
        }
    }
    return SS_OK;
}

static ss_status read_request(regrouping *r, ss_reader request) {
    ss_status status = SS_OK;
    add(r, NONE, &(enclosure){0}, 0, &status);
    while (status == SS_OK && request.pos < request.end) {
        uint32_t number;
        chunk field;
        enclosure what;
        bool is_new;
        if (!read_field(&request, &number, &field) || number != FIELD_RESOURCES ||
            !read_enclosure(body_of(field), &what)) {
            return SS_ERR_MALFORMED;
        }
        uint32_t resource = find(r, NONE, &what, &is_new, &status);
        if (resource && what.children.length) {
            ss_reader scopes = {what.children.pos, what.children.pos + what.children.length};
            status = read_scopes(r, resource, scopes);
        }
    }
    return status;
}

static size_t message_size(size_t body) {
    return 1 + ss_varint_size(body) + body;
}

/* Fill the sizes of bodies. Returns the size of all. A group stands behind the one that it is in. */
static size_t measure(regrouping *r) {
    for (uint32_t i = r->n_groups; --i > 0;) {
        group *g = &r->groups[i];
        group *around = &r->groups[g->parent];
        bool is_resource = !g->parent, is_run = !is_resource && around->parent;
        if (is_run) {
            around->body += g->what.children.length;
            continue;
        }
        g->body += g->what.owner.length + g->what.schema_url.length + (is_resource ? 0 : g->what.children.length);
        around->body += message_size(g->body);
    }
    return r->groups[0].body;
}

static uint8_t *write_bytes(uint8_t *out, chunk bytes) {
    if (bytes.length) {
        memcpy(out, bytes.pos, bytes.length);
    }
    return out + bytes.length;
}

static uint8_t *begin_message(uint8_t *out, uint32_t number, const group *g) {
    *out++ = (uint8_t)(number << 3 | SS_WIRE_BYTES);
    out = ss_write_varint(out, g->body);
    return write_bytes(out, g->what.owner);
}

static uint8_t *write(const regrouping *r, uint8_t *out) {
    const group *groups = r->groups;
    for (uint32_t resource = groups[0].first; resource; resource = groups[resource].next) {
        out = begin_message(out, FIELD_RESOURCES, &groups[resource]);
        for (uint32_t scope = groups[resource].first; scope; scope = groups[scope].next) {
            out = begin_message(out, FIELD_CHILDREN, &groups[scope]);
            out = write_bytes(out, groups[scope].what.children);
            for (uint32_t run = groups[scope].first; run; run = groups[run].next) {
                out = write_bytes(out, groups[run].what.children);
            }
            out = write_bytes(out, groups[scope].what.schema_url);
        }
        out = write_bytes(out, groups[resource].what.schema_url);
    }
    return out;
}

ss_status ss_regroup(const uint8_t *bytes, size_t length, ss_buffer *out, bool *is_done) {
    const ss_reader request = ss_reader_of((ss_bytes){bytes, length});
    *is_done = false;
    if (guess_saved(request) < length / SAVED_SHARE) {
        return SS_OK;
    }
    regrouping r = {.seed = ss_hash_seed(&r)};
    ss_status status = read_request(&r, request);
    if (status == SS_OK) {
        size_t size = measure(&r);
        status = size < length ? ss_buffer_reserve(out, size) : SS_OK;
        if (size < length && status == SS_OK) {
            write(&r, out->data + out->length);
            out->length += size;
            *is_done = true;
        }
    }
    free(r.groups);
    free(r.buckets);
    return status == SS_ERR_NO_MEMORY ? status : SS_OK;
}
