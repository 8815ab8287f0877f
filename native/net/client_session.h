/* One HTTP/2 connection of the client, without its socket: bytes in, bytes out, one call at a time. */
#ifndef SS_CLIENT_SESSION_H
#define SS_CLIENT_SESSION_H

#include "net/client_response.h"
#include "spansieve.h"

/* What all calls of a client have in common. Borrowed by its sessions. */
typedef struct ss_client_head {
    const char *authority;
    const char *user_agent;
    const char *const *headers; /* name, value, name, value ... */
    size_t n_headers;
} ss_client_head;

/* One unary call. Borrowed from begin to finish. */
typedef struct ss_client_call {
    ss_signal signal;
    ss_encoding encoding;
    const uint8_t *message;
    size_t length;
    uint64_t timeout_ns; /* told to the server; UINT64_MAX: none */
} ss_client_call;

typedef struct ss_client_session ss_client_session;

/* NULL without memory. Borrows head. The connection preface is the first pending output. */
ss_client_session *ss_client_session_new(const ss_client_head *head);
void ss_client_session_free(ss_client_session *session);

/* False once the peer said GOAWAY, broke the protocol, or stream numbers have run out. */
bool ss_client_session_is_usable(ss_client_session *session);

/* True once the connection has ended for HTTP/2: nothing more to read, nothing more to write. */
bool ss_client_session_is_over(ss_client_session *session);

/* Start a call. REQUIRES: none is running. Borrows call. */
ss_status ss_client_session_begin(ss_client_session *session, const ss_client_call *call);
/* Take bytes from the peer. SS_ERR_IO: it broke HTTP/2 or a limit, the connection is of no more use. */
ss_status ss_client_session_receive(ss_client_session *session, const uint8_t *bytes, size_t length);
/* Show the next bytes for the peer; length 0 when there are none now. Valid until the next call on session. */
ss_status ss_client_session_pending(ss_client_session *session, const uint8_t **bytes, size_t *length);
/* The peer was sent the first length pending bytes. */
void ss_client_session_sent(ss_client_session *session, size_t length);
/* True once the response has ended, whatever it was. */
bool ss_client_session_is_done(const ss_client_session *session);
/* True while the server cannot have acted on the call: nothing came back, or it said so (REFUSED_STREAM, GOAWAY). */
bool ss_client_session_is_unprocessed(const ss_client_session *session);
/* Fill result, transport_status SS_OK, from a call that is done, and cancel what is left of the call. */
void ss_client_session_finish(ss_client_session *session, ss_client_result *result);

#endif
