/* The client's byte stream to a server, in plain text or over TLS. Non-blocking, waited for with poll. */
#ifndef SS_CLIENT_SOCKET_H
#define SS_CLIENT_SOCKET_H

#include "net/tls.h"
#include "spansieve.h"

typedef struct ss_client_socket {
    int fd; /* -1: none */
    ss_tls_stream *tls;
    uint8_t *sealed; /* what was read last, where there is tls */
    bool has_more;   /* tls may hold bytes that came with those */
} ss_client_socket;

/* Where to connect, and how long and for what a wait may last. */
typedef struct ss_client_wait {
    uint64_t deadline_ns; /* monotonic; UINT64_MAX: none */
    int wake_fd;          /* readable once the client is closed */
    int cancel_fd;        /* readable once the call is not wanted any more; -1: never */
} ss_client_wait;

/* Try each address of host until one accepts, each with its share of the time left. A host that begins with a slash
 * is the path of a unix socket. With tls, which is borrowed, shake hands. On failure message says what failed. */
ss_status ss_client_socket_connect(ss_client_socket *socket, const char *host, uint16_t port, ss_tls *tls,
                                   const ss_client_wait *wait, char *message, size_t message_size);
void ss_client_socket_close(ss_client_socket *socket);

/* SS_OK with *n bytes moved, 0 when that would block. SS_ERR_IO: closed by the peer, or broken. Never blocks. */
ss_status ss_client_socket_read(ss_client_socket *socket, uint8_t *bytes, size_t room, size_t *n);
ss_status ss_client_socket_write(ss_client_socket *socket, const uint8_t *bytes, size_t length, size_t *n);
/* Send what was taken and could not be sent yet; *is_blocked: it still cannot. */
ss_status ss_client_socket_flush(ss_client_socket *socket, bool *is_blocked);
/* Say what has failed, where it was TLS; else leave message as it is. */
void ss_client_socket_explain(const ss_client_socket *socket, char *message, size_t message_size);

/* Wait until the socket can be read or, when wants_write, written. SS_ERR_TIMEOUT, SS_ERR_CLOSED,
 * SS_ERR_CANCELLED, SS_ERR_IO. */
ss_status ss_client_socket_wait(const ss_client_socket *socket, bool wants_write, const ss_client_wait *wait);

#endif
