#include "net/client_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "net/client_response.h"

enum { NS_PER_MS = 1000000 };

uint64_t ss_client_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Milliseconds for poll, rounded up so that a wait never ends before its deadline; -1: no limit. */
static int poll_timeout(uint64_t deadline_ns) {
    if (deadline_ns == UINT64_MAX) {
        return -1;
    }
    uint64_t now = ss_client_now_ns();
    uint64_t left_ms = deadline_ns > now ? (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static ss_status wait_for(int fd, short events, const ss_client_wait *wait) {
    struct pollfd fds[] = {{.fd = fd, .events = events}, {.fd = wait->wake_fd, .events = POLLIN}};
    for (;;) {
        int timeout_ms = poll_timeout(wait->deadline_ns);
        int ready = poll(fds, 2, timeout_ms);
        if (ready < 0 && errno != EINTR) {
            return SS_ERR_IO;
        }
        if (ready > 0) {
            return fds[1].revents ? SS_ERR_CLOSED : SS_OK;
        }
        if (timeout_ms == 0) {
            return SS_ERR_TIMEOUT;
        }
    }
}

ss_status ss_client_socket_wait(const ss_client_socket *socket, bool wants_write, const ss_client_wait *wait) {
    return wait_for(socket->fd, (short)(wants_write ? POLLIN | POLLOUT : POLLIN), wait);
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
    uint64_t now = ss_client_now_ns();
    return deadline_ns == UINT64_MAX || deadline_ns <= now ? deadline_ns : now + (deadline_ns - now) / n_left;
}

ss_status ss_client_socket_connect(ss_client_socket *client, const char *host, uint16_t port,
                                   const ss_client_wait *wait, char *message, size_t message_size) {
    client->fd = -1;
    if (host[0] == '/') {
        return connect_unix(client, host, wait, message, message_size);
    }
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
        ss_client_wait share = {.deadline_ns = share_of(wait->deadline_ns, n_left--), .wake_fd = wait->wake_fd};
        status = connect_address(client, address->ai_addr, address->ai_addrlen, &share, message, message_size);
        if (status == SS_OK || status == SS_ERR_CLOSED) {
            break;
        }
    }
    freeaddrinfo(addresses);
    return status;
}

void ss_client_socket_close(ss_client_socket *client) {
    if (client->fd >= 0) {
        close(client->fd);
        client->fd = -1;
    }
}

static ss_status moved(ssize_t result, size_t *n) {
    if (result >= 0) {
        *n = (size_t)result;
        return SS_OK;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? SS_OK : SS_ERR_IO;
}

ss_status ss_client_socket_read(ss_client_socket *client, uint8_t *bytes, size_t room, size_t *n) {
    *n = 0;
    ssize_t result = recv(client->fd, bytes, room, 0);
    return result == 0 ? SS_ERR_IO : moved(result, n);
}

ss_status ss_client_socket_write(ss_client_socket *client, const uint8_t *bytes, size_t length, size_t *n) {
    *n = 0;
    return moved(send(client->fd, bytes, length, MSG_NOSIGNAL), n); /* a closed peer is an error, not SIGPIPE */
}
