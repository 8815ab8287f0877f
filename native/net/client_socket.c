#include "net/client_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/clock.h"
#include "net/client_response.h"

enum { NS_PER_MS = 1000000, SEALED_BYTES = 16 * 1024 };

/* Milliseconds for poll, rounded up so that a wait never ends before its deadline; -1: no limit. */
static int poll_timeout(uint64_t deadline_ns) {
    if (deadline_ns == UINT64_MAX) {
        return -1;
    }
    uint64_t now = ss_clock_ns();
    uint64_t left_ms = deadline_ns > now ? (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static ss_status wait_for(int fd, short events, const ss_client_wait *wait) {
    struct pollfd fds[] = {{.fd = fd, .events = events},
                           {.fd = wait->wake_fd, .events = POLLIN},
                           {.fd = wait->cancel_fd, .events = POLLIN}};
    for (;;) {
        int timeout_ms = poll_timeout(wait->deadline_ns);
        int ready = poll(fds, sizeof fds / sizeof fds[0], timeout_ms);
        if (ready < 0 && errno != EINTR) {
            return SS_ERR_IO;
        }
        if (ready > 0) {
            /* An answer that is there is not thrown away. */
            return fds[1].revents ? SS_ERR_CLOSED : fds[0].revents ? SS_OK : SS_ERR_CANCELLED;
        }
        if (timeout_ms == 0) {
            return SS_ERR_TIMEOUT;
        }
    }
}

ss_status ss_client_socket_wait(const ss_client_socket *socket, bool wants_write, const ss_client_wait *wait) {
    return socket->has_more ? SS_OK : wait_for(socket->fd, (short)(wants_write ? POLLIN | POLLOUT : POLLIN), wait);
}

static void say(char *message, size_t size, const char *what, const char *why) {
    size_t n = strlen(what);
    ss_client_copy_text(message, size, (const uint8_t *)what, n);
    n = strlen(message);
    ss_client_copy_text(message + n, size - n, (const uint8_t *)why, strlen(why));
}

static void say_error(char *message, size_t size, int error) {
    say(message, size, "connect: ", strerror(error));
}

/* Connect one socket. On failure it is closed and message set. */
static ss_status connect_address(ss_client_socket *client, const struct sockaddr *address, socklen_t length,
                                 const ss_client_wait *wait, char *message, size_t message_size) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        say_error(message, message_size, errno);
        return SS_ERR_IO;
    }
    if (address->sa_family != AF_UNIX) {
        int yes = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    ss_status status = SS_OK;
    int error = connect(fd, address, length) ? errno : 0;
    if (error == EINPROGRESS) {
        status = wait_for(fd, POLLOUT, wait);
        socklen_t size = sizeof error;
        if (status == SS_OK && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size)) {
            error = errno;
        }
    }
    if (status == SS_OK && error == 0) {
        client->fd = fd;
        return SS_OK;
    }
    close(fd);
    if (status == SS_OK) {
        say_error(message, message_size, error);
        return SS_ERR_IO;
    }
    say(message, message_size, "connect: ", ss_status_text(status));
    return status;
}

static ss_status connect_unix(ss_client_socket *client, const char *path, const ss_client_wait *wait, char *message,
                              size_t message_size) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        say(message, message_size, "connect: ", "the path of the unix socket is too long");
        return SS_ERR_IO;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect_address(client, (const struct sockaddr *)&address, sizeof address, wait, message, message_size);
}

/* The deadline for the next of n_left addresses: one that drops packets must leave time for the others. */
static uint64_t share_of(uint64_t deadline_ns, unsigned n_left) {
    uint64_t now = ss_clock_ns();
    return deadline_ns == UINT64_MAX || deadline_ns <= now ? deadline_ns : now + (deadline_ns - now) / n_left;
}

static ss_status connect_host(ss_client_socket *client, const char *host, uint16_t port, const ss_client_wait *wait,
                              char *message, size_t message_size) {
    char service[6] = {0};
    size_t n = 0;
    for (unsigned scale = 10000; scale; scale /= 10) {
        if (n || port >= scale || scale == 1) {
            service[n++] = (char)('0' + port / scale % 10);
        }
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *addresses = NULL;
    int failure = getaddrinfo(host, service, &hints, &addresses);
    if (failure) {
        say(message, message_size, "resolve: ", gai_strerror(failure));
        return SS_ERR_IO;
    }
    unsigned n_left = 0;
    for (const struct addrinfo *address = addresses; address; address = address->ai_next) {
        n_left++;
    }
    ss_status status = SS_ERR_IO;
    for (const struct addrinfo *address = addresses; address; address = address->ai_next) {
        ss_client_wait share = *wait;
        share.deadline_ns = share_of(wait->deadline_ns, n_left--);
        status = connect_address(client, address->ai_addr, address->ai_addrlen, &share, message, message_size);
        if (status == SS_OK || status == SS_ERR_CLOSED || status == SS_ERR_CANCELLED) {
            break;
        }
    }
    freeaddrinfo(addresses);
    return status;
}

static ss_status moved(ssize_t result, size_t *n) {
    if (result >= 0) {
        *n = (size_t)result;
        return SS_OK;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? SS_OK : SS_ERR_IO;
}

/* SS_OK with *n 0: nothing is there. */
static ss_status receive(const ss_client_socket *client, uint8_t *bytes, size_t room, size_t *n) {
    *n = 0;
    ssize_t result = recv(client->fd, bytes, room, 0);
    return result == 0 ? SS_ERR_IO : moved(result, n);
}

static ss_status transmit(const ss_client_socket *client, const uint8_t *bytes, size_t length, size_t *n) {
    *n = 0;
    return moved(send(client->fd, bytes, length, MSG_NOSIGNAL), n); /* a closed peer is an error, not SIGPIPE */
}

/* ------------------------------------------------------------------ TLS */

ss_status ss_client_socket_flush(ss_client_socket *client, bool *is_blocked) {
    *is_blocked = false;
    if (!client->tls) {
        return SS_OK;
    }
    ss_buffer *output = ss_tls_stream_output(client->tls);
    while (output->length) {
        size_t n;
        ss_status status = transmit(client, output->data, output->length, &n);
        if (status != SS_OK) {
            return status;
        }
        if (n == 0) {
            *is_blocked = true;
            return SS_OK;
        }
        output->length -= n;
        memmove(output->data, output->data + n, output->length);
    }
    return SS_OK;
}

/* Open what came with the last bytes, then what comes now. */
static ss_status read_tls(ss_client_socket *client, uint8_t *bytes, size_t room, size_t *n) {
    ss_status status = SS_OK;
    *n = 0;
    if (client->has_more) {
        status = ss_tls_stream_read(client->tls, bytes, room, n);
    }
    if (status == SS_OK && *n == 0) {
        size_t n_sealed;
        status = receive(client, client->sealed, SEALED_BYTES, &n_sealed);
        if (status == SS_OK && n_sealed) {
            status = ss_tls_stream_feed(client->tls, client->sealed, n_sealed);
            if (status == SS_OK) {
                status = ss_tls_stream_read(client->tls, bytes, room, n);
            }
        }
    }
    client->has_more =
        status == SS_OK ? *n == room : *n > 0; /* a failure after bytes is found again by the next read */
    return *n ? SS_OK : status == SS_ERR_CLOSED ? SS_ERR_IO : status;
}

static ss_status shake_hands(ss_client_socket *client, const ss_client_wait *wait) {
    for (;;) {
        /* The server speaks first in HTTP/2, but not before it knows that we have its part of the handshake. */
        size_t n;
        bool is_blocked;
        ss_status status = ss_tls_stream_read(client->tls, NULL, 0, &n);
        ss_status flushed = ss_client_socket_flush(client, &is_blocked); /* an alert tells the server why */
        if (status != SS_OK || flushed != SS_OK) {
            return status != SS_OK ? status : flushed;
        }
        if (ss_tls_stream_is_ready(client->tls)) {
            client->has_more = true; /* what followed the handshake */
            return SS_OK;
        }
        status = wait_for(client->fd, (short)(is_blocked ? POLLIN | POLLOUT : POLLIN), wait);
        if (status == SS_OK) {
            status = receive(client, client->sealed, SEALED_BYTES, &n);
        }
        if (status == SS_OK && n) {
            status = ss_tls_stream_feed(client->tls, client->sealed, n);
        }
        if (status != SS_OK) {
            return status;
        }
    }
}

void ss_client_socket_explain(const ss_client_socket *client, char *message, size_t message_size) {
    if (client->tls && ss_tls_stream_reason(client->tls)[0]) {
        say(message, message_size, "tls: ", ss_tls_stream_reason(client->tls));
    }
}

static ss_status secure(ss_client_socket *client, ss_tls *tls, const ss_client_wait *wait, char *message,
                        size_t message_size) {
    client->tls = ss_tls_stream_new(tls);
    client->sealed = malloc(SEALED_BYTES);
    if (!client->tls || !client->sealed) {
        return SS_ERR_NO_MEMORY;
    }
    ss_status status = shake_hands(client, wait);
    if (status != SS_OK) {
        say(message, message_size, "tls: ",
            status == SS_ERR_IO ? "the server closed the connection during the handshake" : ss_status_text(status));
        ss_client_socket_explain(client, message, message_size);
    }
    return status;
}

ss_status ss_client_socket_connect(ss_client_socket *client, const char *host, uint16_t port, ss_tls *tls,
                                   const ss_client_wait *wait, char *message, size_t message_size) {
    *client = (ss_client_socket){.fd = -1};
    ss_status status = host[0] == '/' ? connect_unix(client, host, wait, message, message_size)
                                      : connect_host(client, host, port, wait, message, message_size);
    return status == SS_OK && tls ? secure(client, tls, wait, message, message_size) : status;
}

void ss_client_socket_close(ss_client_socket *client) {
    if (client->tls && client->fd >= 0) {
        bool is_blocked;
        ss_tls_stream_end(client->tls);
        (void)ss_client_socket_flush(client, &is_blocked); /* as far as it goes: nothing depends on it */
    }
    ss_tls_stream_free(client->tls);
    free(client->sealed);
    if (client->fd >= 0) {
        close(client->fd);
    }
    *client = (ss_client_socket){.fd = -1};
}

ss_status ss_client_socket_read(ss_client_socket *client, uint8_t *bytes, size_t room, size_t *n) {
    return client->tls ? read_tls(client, bytes, room, n) : receive(client, bytes, room, n);
}

ss_status ss_client_socket_write(ss_client_socket *client, const uint8_t *bytes, size_t length, size_t *n) {
    if (!client->tls) {
        return transmit(client, bytes, length, n);
    }
    *n = 0;
    bool is_blocked;
    ss_status status = ss_client_socket_flush(client, &is_blocked);
    if (status != SS_OK || is_blocked) {
        return status;
    }
    size_t taken = length < SS_TLS_RECORD_BYTES ? length : SS_TLS_RECORD_BYTES;
    status = ss_tls_stream_write(client->tls, bytes, taken);
    if (status == SS_OK) {
        *n = taken;
        status = ss_client_socket_flush(client, &is_blocked);
    }
    return status;
}
