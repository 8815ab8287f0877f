/*
 * One connection of the load generator, and the calls that run on it. A protocol turns calls into bytes to write and
 * bytes read into answers; the engine (load.c) decides when to call. Non-blocking; large bodies are written from where
 * they lie.
 */
#ifndef LOAD_CHANNEL_H
#define LOAD_CHANNEL_H

#include "net/client_response.h"
#include "spansieve.h"

enum { CALL_PREFIX_BYTES = 5, TARGET_PATH_BYTES = 96 };

/* What all channels have in common. */
typedef struct load_target {
    const char *host;
    uint16_t port;
    const char *authority;
    char path[TARGET_PATH_BYTES]; /* of a URL, or of a gRPC method */
    ss_encoding encoding;
    struct load_engine *engine;
} load_target;

typedef enum outcome_kind { OUTCOME_OK, OUTCOME_REFUSED, OUTCOME_FAILED } outcome_kind;

/* How a call ended. */
typedef struct load_outcome {
    outcome_kind kind;
    int code; /* of a refusal: gRPC code or HTTP status */
    uint64_t rejected_items;
} load_outcome;

typedef struct load_channel load_channel;

/* A stream's place for one request at a time; its request lies still from begin until the next begin. */
typedef struct load_call {
    load_channel *channel;
    struct load_call *next_idle;
    struct load_body *body; /* held until the next begin: bytes of it may wait to be written after an early answer */
    ss_buffer packed;       /* the body, compressed */
    const uint8_t *bytes;
    size_t length;

    uint64_t due_ns, sent_ns;
    uint64_t retry_ns; /* when a refused request is sent again; 0: it is not waiting for that */
    bool is_running;
    bool is_measured;

    /* The protocol's. */
    uint32_t stream_id;
    uint8_t prefix[CALL_PREFIX_BYTES];
    size_t n_taken; /* bytes of prefix and body that are queued */
    int64_t window; /* bytes that the peer takes now */
    struct load_call *next_unsent;
    ss_client_response response;
} load_call;

/* Functions that return bool say whether the connection is still of use. */
typedef struct load_protocol {
    bool (*open)(load_channel *channel); /* state for a fresh connection */
    void (*close)(load_channel *channel);
    bool (*begin)(load_channel *channel, load_call *call);
    bool (*cancel)(load_channel *channel, load_call *call);
    bool (*receive)(load_channel *channel, const uint8_t *bytes, size_t length); /* answers go to engine_answered */
    bool (*produce)(load_channel *channel);                                      /* queue what is ready */
    bool (*may_begin)(const load_channel *channel); /* false: no new calls, because the peer wants to close */
} load_protocol;

extern const load_protocol grpc_protocol;
extern const load_protocol http_protocol;

/* Bytes to be written: text at an offset of the queue's own buffer, or data that lies elsewhere. */
typedef struct load_segment {
    const uint8_t *data;
    size_t offset, length;
} load_segment;

typedef struct load_queue {
    ss_buffer text;
    load_segment *segments;
    size_t n, capacity;
    size_t first; /* the first that is not written whole */
} load_queue;

bool queue_text(load_queue *queue, const void *bytes, size_t length);    /* copies */
bool queue_body(load_queue *queue, const uint8_t *bytes, size_t length); /* borrows until written, if that is cheaper */

struct load_channel {
    const load_target *target;
    const load_protocol *protocol;
    void *state; /* the protocol's; NULL while there is no connection */
    int fd;      /* -1: none */
    uint32_t events;
    bool is_full;      /* the socket did not take all that is queued */
    bool is_touched;   /* something may be ready to be written */
    uint64_t retry_ns; /* when a lost connection is made again */
    load_queue queue;
    uint64_t n_written; /* bytes, over all its connections */
    load_call *calls;
    size_t n_calls, n_running;
    load_call *idle; /* a list */
};

/* Connect, waiting at most timeout_ns. message: room for 512 bytes of what failed. */
bool channel_connect(load_channel *channel, uint64_t timeout_ns, char *message, size_t message_size);
void channel_disconnect(load_channel *channel);
void channel_free(load_channel *channel);
/* Write what the socket takes. */
bool channel_write(load_channel *channel);

/* The engine's part: the call is over. */
void engine_answered(struct load_engine *engine, load_call *call, const load_outcome *outcome);

#endif
