/*
 * Connections, and the protocols that run on them, without a socket: a protocol takes bytes and appends its answers to
 * the connection's output. The loop (loop.c) moves both between here and the sockets; tests and fuzz targets do the
 * same from memory.
 */
#ifndef SS_CONNECTION_H
#define SS_CONNECTION_H

#include "plan/metadata.h"
#include "plan/promise.h"
#include "spansieve.h"

#include <pthread.h>

enum {
    SS_READ_BYTES = 256 * 1024,      /* most that is read at once: one system call for a usual request */
    SS_MAX_HEADER_BYTES = 64 * 1024, /* of one request, decoded */
    SS_KEPT_OUTPUT_BYTES = 1024,     /* output buffers above are freed when drained: a usual answer needs no more */
    SS_ADMIN_LOOP_BITS = 8,          /* of an admin token: the loop its connection lives on */
    SS_SPARE_BODIES = 8,
    SS_SPARE_BODY_BYTES = 512 * 1024, /* body buffers above are freed, not kept */
    SS_KEPT_SCRATCH_BYTES = 1 << 20   /* the same for scratch, now and then */
};

/* Admin requests on their way to Python; shared by the loops of a server. */
typedef struct ss_admin {
    pthread_mutex_t lock;
    int fd; /* eventfd: readable while requests wait; -1 without admin listeners */
    struct ss_admin_entry *first, *last;
    uint64_t last_token;
} ss_admin;

/* The notes of what was refused; shared by the loops of a server. See net/refusal.h. */
typedef struct ss_refusals {
    pthread_mutex_t lock;                          /* guards notes, and each write of has_note */
    bool has_note[SS_N_TRANSPORTS][SS_N_REFUSALS]; /* atomic */
    ss_refusal_note notes[SS_N_TRANSPORTS][SS_N_REFUSALS];
} ss_refusals;

void ss_refusals_init(ss_refusals *refusals);
void ss_refusals_release(ss_refusals *refusals);
bool ss_refusals_take(ss_refusals *refusals, ss_transport transport, ss_refusal refusal, ss_refusal_note *note);

/* What a server gives its connections beside the listener. */
typedef struct ss_service {
    ss_runtime *runtime;
    ss_accept_fn accept;
    bool (*has_signal)(const void *receiver, ss_signal signal);
    void *receiver;
    ss_admin admin;
    ss_refusals refusals;
    uint64_t max_held_bytes; /* 0: no limit */
    uint64_t held_bytes;     /* by connections; atomic */
    int max_fd;              /* connections have lower ones; 0: no limit */
} ss_service;

typedef struct ss_listener {
    ss_listener_config
        config;              /* fd: our dup; paths and response_headers: owned; cors, metadata_names: not to be used */
    struct ss_cors *cors;    /* NULL: no CORS */
    ss_names metadata_names; /* of headers that are kept */
    uint32_t n_connections;  /* atomic */
} ss_listener;

typedef struct ss_connection ss_connection;

/* A request that waits for its answer, as its connection knows it: the slip of its route. The loop's thread only. */
typedef struct ss_reply ss_reply;
struct ss_reply {
    ss_connection *connection; /* NULL: nobody waits any more */
    void *stream;              /* of the protocol; NULL: it has no streams */
    ss_reply **holder;         /* the protocol's pointer to this */
    ss_promise *promise;
};

/* What one thread's connections share: nothing here is touched by another thread but the counters, which are read. */
typedef struct ss_scratch {
    ss_service *service;
    ss_worker *worker;
    ss_codec *codec;
    struct ss_http2_shared *http2; /* made with the first HTTP/2 connection */
    ss_buffer inflated;            /* the message at hand, decompressed */
    size_t counted_inflated;       /* bytes of it that are counted as held */
    ss_buffer answer;              /* the answer at hand */
    ss_buffer spare_bodies[SS_SPARE_BODIES];
    size_t n_spare_bodies;
    uint64_t now_ns;  /* monotonic, of this turn of the loop */
    uint64_t wake_ns; /* when the first of the connections wants its tick */
    uint32_t loop_index;
    ss_reply_route route;  /* to the loop; its functions are NULL where there is none */
    ss_server_stats stats; /* written by this thread, read by any; connections_open stays 0 */
    uint64_t connections_closed;
} ss_scratch;

/* Count bytes that a connection is about to hold; false: there is no room for them, and nothing is counted. */
bool ss_hold_bytes(ss_scratch *scratch, size_t bytes);
/* The same of bytes that are held whether there is room or not. */
void ss_count_bytes(ss_scratch *scratch, size_t bytes);
/* They are held no more. */
void ss_release_bytes(ss_scratch *scratch, size_t bytes);
/* Decompress bytes to scratch->inflated, at most limit of them, which counts as held until ss_inflated_done.
 * SS_ERR_REFUSED: there is no room for them; all else as ss_decompress. */
ss_status ss_inflate(ss_scratch *scratch, ss_encoding encoding, const uint8_t *bytes, size_t length, size_t limit,
                     ss_error *error);
void ss_inflated_done(ss_scratch *scratch);
/* What is told to a client whose bytes cannot be held. */
void ss_verdict_no_room(ss_verdict *verdict);

ss_status ss_scratch_init(ss_scratch *scratch, ss_service *service, uint32_t loop_index);
void ss_scratch_release(ss_scratch *scratch);
/* Give back what an unusually large request has left. */
void ss_scratch_trim(ss_scratch *scratch);

/* Add to a counter that only this thread writes. */
static inline void ss_count(uint64_t *counter, uint64_t n) {
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* A request body as it arrives. The first piece is only borrowed from the read buffer: a body that is complete before
 * the buffer is read into again is never copied. Zero-initialised is empty. */
typedef struct ss_body {
    const uint8_t *borrowed;
    size_t borrowed_length;
    ss_buffer held;
} ss_body;

/* The bytes of a buffer; never NULL, which readers of no bytes would stumble over. */
static inline const uint8_t *ss_bytes_of(const ss_buffer *buffer) {
    return buffer->data ? buffer->data : (const uint8_t *)"";
}

static inline size_t ss_body_length(const ss_body *body) {
    return body->borrowed ? body->borrowed_length : body->held.length;
}

static inline const uint8_t *ss_body_bytes(const ss_body *body) {
    return body->borrowed ? body->borrowed : ss_bytes_of(&body->held);
}

/* Of these three, SS_ERR_REFUSED: there is no room, and what was borrowed is given up.
 * expected: the stated length of the whole body, 0 where unknown; a hint that is believed only so far. */
ss_status ss_body_append(ss_scratch *scratch, ss_body *body, const uint8_t *bytes, size_t length, size_t expected);
/* Copy bytes to the end of what is held. REQUIRES: nothing is borrowed. */
ss_status ss_body_hold(ss_scratch *scratch, ss_body *body, const uint8_t *bytes, size_t length, size_t expected);
/* Copy what is borrowed, before the read buffer is used again. */
ss_status ss_body_settle(ss_scratch *scratch, ss_body *body, size_t expected);
/* Give the memory back; the body is empty then. */
void ss_body_release(ss_scratch *scratch, ss_body *body);

/* receive and produce return false when the connection is to end once its output is written. */
typedef struct ss_protocol {
    /* Take bytes, which lie in the read buffer. */
    bool (*receive)(ss_connection *connection, const uint8_t *bytes, size_t length);
    /* Append what is ready to be sent to output. */
    bool (*produce)(ss_connection *connection);
    /* Now and then: end what takes too long. */
    bool (*tick)(ss_connection *connection);
    /* The server shuts down: no new request; false when there is nothing to finish. */
    bool (*drain)(ss_connection *connection);
    /* The answer to a request whose verdict was pending, and whose reply is not abandoned. Returns as receive does. */
    bool (*answer)(ss_connection *connection, void *stream, const ss_verdict *verdict);
    /* The peer of a paused connection sends nothing more, though it may still be there. NULL: its end is read later. */
    void (*hang_up)(ss_connection *connection);
    void (*free)(ss_connection *connection);
} ss_protocol;

typedef enum ss_connection_state {
    SS_CONNECTION_OPEN = 0,
    SS_CONNECTION_CLOSING,   /* the output is to be written, then no more */
    SS_CONNECTION_LINGERING, /* our side is shut; reads and discards, so that the last answer is not lost to a reset */
    SS_CONNECTION_DEAD       /* closed; freed at the end of the turn */
} ss_connection_state;

/* First member of each protocol's connection. */
struct ss_connection {
    const ss_protocol *protocol;
    ss_scratch *scratch;
    ss_listener *listener;
    ss_buffer output;
    size_t output_sent;
    bool has_more;        /* input is put by until the output has been written */
    uint64_t admin_token; /* of the admin request that waits for its reply: nothing is read meanwhile; else 0 */
    bool is_paused;       /* a request that is not an admin's waits for its answer, and nothing is read meanwhile */
    uint64_t wake_ns;     /* when it wants its tick at the latest; UINT64_MAX: like the others */

    /* One exchange in a connection of HTTP/2, see exchange.h. */
    ss_connection *carrier; /* NULL: it has a socket */
    void *carrier_stream;

    /* The loop's part. */
    int fd;
    struct ss_tls_stream *tls; /* NULL: plain text */
    bool has_read;             /* TLS has begun */
    bool has_hung_up;          /* and its protocol has been told */
    size_t output_sealed;      /* of output, from its front: is as it goes over the wire; what follows is plain */
    uint64_t handshake_by_ns;
    uint64_t stuck_ns;     /* since when output waits for the peer; 0: none does */
    size_t counted_output; /* bytes of output that are counted as held */
    uint32_t events;       /* registered with epoll */
    ss_connection_state state;
    uint64_t close_by_ns;
    ss_connection *previous, *next;
    bool is_answered; /* and is about to advance */
    ss_connection *next_answered;
};

/* The route of the answer to a request that is being handed over; NULL where there is none. */
ss_reply_route *ss_connection_route(ss_connection *connection, uint64_t deadline_ns);
/* The request is pending: *holder, which stays where it is, becomes its reply until that has come, stream's. */
void ss_connection_await(ss_connection *connection, void *stream, ss_reply **holder);
/* The answer has come: the connection that it is for, NULL where nobody waits any more. */
ss_connection *ss_reply_take(ss_reply *reply);
/* Nobody waits any more: what can still be spared is not done. reply, NULL for none, is not to be used then. */
void ss_reply_abandon(ss_reply *reply);
/* Have tick called at wake_ns, or soon after. */
void ss_connection_wake(ss_connection *connection, uint64_t wake_ns);

/* NULL: no memory. */
ss_connection *ss_http2_new(ss_scratch *scratch, ss_listener *listener);
ss_connection *ss_http1_new(ss_scratch *scratch, ss_listener *listener);
void ss_http2_shared_free(struct ss_http2_shared *shared);

/* Count a connection that speaks another protocol than its listener. */
void ss_count_stranger(ss_connection *connection, ss_stranger stranger);

/* The reply to the connection's waiting admin request. Returns as receive does. */
bool ss_http1_reply(ss_connection *connection, int http_status, const char *content_type, const uint8_t *body,
                    size_t length);

void ss_admin_init(ss_admin *admin);
ss_status ss_admin_open(ss_admin *admin); /* gives it its fd */
void ss_admin_release(ss_admin *admin);
/* Queue a request of a connection on the loop; sets and returns its token, 0 without memory. Any thread. */
uint64_t ss_admin_push(ss_admin *admin, uint32_t loop_index, ss_admin_request *request);
/* Take the oldest request; false when there is none. Any thread. */
bool ss_admin_pop(ss_admin *admin, ss_admin_request *request);

#endif
