/* The exporting side of gRPC: a pool of connections, and the blocking call. Source: gRPC over HTTP2. */
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "net/client_session.h"
#include "net/client_socket.h"
#include "spansieve.h"

enum { READ_BYTES = 16 * 1024 };

typedef struct connection {
    struct connection *next; /* idle list */
    ss_client_socket socket;
    ss_client_session *session;
    bool is_reused;
} connection;

struct ss_client {
    char *host;
    uint16_t port;
    uint32_t max_connections;
    uint64_t connect_timeout_ns;
    ss_tls *tls;
    ss_client_head head;
    char *authority;
    char *user_agent;
    char **headers;
    int wake_fd;                         /* readable from close on: ends every poll */
    uint64_t n_accepted[SS_N_ENCODINGS]; /* atomic */

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a call ended, or close */
    /* guarded by mutex */
    connection *idle; /* last used first, so that a quiet pool uses few connections */
    uint32_t n_calls;
    uint32_t n_waiting;
    bool is_closed;
};

static char *copy_string(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

/* host:port, with brackets around an IPv6 literal. */
static char *make_authority(const char *host, uint16_t port) {
    if (host[0] == '/') {
        return copy_string("localhost");
    }
    size_t n = strlen(host);
    bool is_ipv6 = strchr(host, ':') != NULL;
    char *authority = calloc(1, n + sizeof "[]:65535");
    if (!authority) {
        return NULL;
    }
    char *out = authority;
    if (is_ipv6) {
        *out++ = '[';
    }
    memcpy(out, host, n);
    out += n;
    if (is_ipv6) {
        *out++ = ']';
    }
    *out++ = ':';
    bool has_digit = false;
    for (unsigned scale = 10000; scale; scale /= 10) {
        if (has_digit || port >= scale || scale == 1) {
            *out++ = (char)('0' + port / scale % 10);
            has_digit = true;
        }
    }
    return authority;
}

static bool is_valid_value(const char *value) {
    return nghttp2_check_header_value((const uint8_t *)value, strlen(value));
}

/* What a server would answer with a reset stream is said before any is sent. */
static const char *find_problem(const ss_client_config *config) {
    if (!config->host || !config->host[0]) {
        return "host is empty";
    }
    if (config->max_connections == 0) {
        return "max_connections must be positive";
    }
    if (!config->user_agent || !is_valid_value(config->user_agent)) {
        return "user_agent is no header value";
    }
    if (config->authority && !is_valid_value(config->authority)) {
        return "authority is no header value";
    }
    if (config->n_headers % 2) {
        return "headers are not pairs";
    }
    for (size_t i = 0; i < config->n_headers; i += 2) {
        const char *name = config->headers[i];
        if (name[0] == ':' || !nghttp2_check_header_name((const uint8_t *)name, strlen(name))) {
            return "a header has an invalid name";
        }
        if (!is_valid_value(config->headers[i + 1])) {
            return "a header has an invalid value";
        }
    }
    return NULL;
}

static bool copy_config(ss_client *client, const ss_client_config *config) {
    client->host = copy_string(config->host);
    client->port = config->port;
    client->max_connections = config->max_connections;
    client->connect_timeout_ns = config->connect_timeout_ns;
    client->tls = config->tls;
    client->user_agent = copy_string(config->user_agent);
    client->authority = config->authority ? copy_string(config->authority) : make_authority(config->host, config->port);
    client->headers = calloc(config->n_headers + 1, sizeof *client->headers);
    if (!client->host || !client->user_agent || !client->authority || !client->headers) {
        return false;
    }
    for (size_t i = 0; i < config->n_headers; i++) {
        client->headers[i] = copy_string(config->headers[i]);
        if (!client->headers[i]) {
            return false;
        }
    }
    client->head = (ss_client_head){
        .authority = client->authority,
        .user_agent = client->user_agent,
        .headers = (const char *const *)client->headers,
        .n_headers = config->n_headers,
    };
    return true;
}

static void free_config(ss_client *client) {
    for (size_t i = 0; client->headers && client->headers[i]; i++) {
        free(client->headers[i]);
    }
    free(client->headers);
    free(client->authority);
    free(client->user_agent);
    free(client->host);
}

static void init_locks(ss_client *client) {
    pthread_condattr_t attributes;
    pthread_mutex_init(&client->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&client->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

ss_client *ss_client_new(const ss_client_config *config, ss_error *error) {
    const char *problem = find_problem(config);
    *error = (ss_error){.code = problem ? SS_ERR_ARGUMENT : SS_OK, .reason = problem};
    if (problem) {
        return NULL;
    }
    ss_client *client = calloc(1, sizeof *client);
    if (client && copy_config(client, config)) {
        client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (client->wake_fd >= 0) {
            init_locks(client);
            return client;
        }
        *error = (ss_error){.code = SS_ERR_IO, .reason = "no file descriptor is left"};
    } else {
        *error = (ss_error){.code = SS_ERR_NO_MEMORY};
    }
    if (client) {
        free_config(client);
        free(client);
    }
    return NULL;
}

static void free_connection(connection *conn) {
    if (conn) {
        ss_client_socket_close(&conn->socket);
        ss_client_session_free(conn->session);
        free(conn);
    }
}

void ss_client_close(ss_client *client) {
    pthread_mutex_lock(&client->mutex);
    connection *idle = client->idle;
    client->idle = NULL;
    client->is_closed = true;
    ssize_t written = write(client->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* fails only when the counter is full, and then it is readable already */
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->mutex);
    while (idle) {
        connection *next = idle->next;
        free_connection(idle);
        idle = next;
    }
}

void ss_client_free(ss_client *client) {
    if (!client) {
        return;
    }
    ss_client_close(client);
    pthread_mutex_lock(&client->mutex);
    while (client->n_calls || client->n_waiting) {
        pthread_cond_wait(&client->changed, &client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->mutex);
    close(client->wake_fd);
    free_config(client);
    free(client);
}

/* ------------------------------------------------------------------ the pool */

/* Wait for one of the max_connections places. */
static ss_status enter(ss_client *client, uint64_t deadline_ns) {
    struct timespec deadline = ss_clock_timespec(deadline_ns);
    pthread_mutex_lock(&client->mutex);
    client->n_waiting++;
    int failure = 0;
    while (!client->is_closed && client->n_calls >= client->max_connections && failure == 0) {
        failure = deadline_ns == UINT64_MAX ? pthread_cond_wait(&client->changed, &client->mutex)
                                            : pthread_cond_timedwait(&client->changed, &client->mutex, &deadline);
    }
    client->n_waiting--;
    ss_status status = client->is_closed                            ? SS_ERR_CLOSED
                       : client->n_calls >= client->max_connections ? SS_ERR_TIMEOUT
                                                                    : SS_OK;
    if (status == SS_OK) {
        client->n_calls++;
    } else {
        pthread_cond_broadcast(&client->changed); /* ss_client_free counts those who wait */
    }
    pthread_mutex_unlock(&client->mutex);
    return status;
}

static void leave(ss_client *client) {
    pthread_mutex_lock(&client->mutex);
    client->n_calls--;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->mutex);
}

static connection *take_idle(ss_client *client) {
    pthread_mutex_lock(&client->mutex);
    connection *conn = client->idle;
    if (conn) {
        client->idle = conn->next;
        conn->next = NULL;
        conn->is_reused = true;
    }
    pthread_mutex_unlock(&client->mutex);
    return conn;
}

static void put_idle(ss_client *client, connection *conn) {
    pthread_mutex_lock(&client->mutex);
    if (!client->is_closed) {
        conn->next = client->idle;
        client->idle = conn;
        conn = NULL;
    }
    pthread_mutex_unlock(&client->mutex);
    free_connection(conn);
}

/* Write what the session has to say, as far as the socket takes it. */
static ss_status flush(connection *conn, uint64_t *n_written, bool *is_blocked) {
    *is_blocked = false;
    for (;;) {
        const uint8_t *bytes;
        size_t length, n;
        ss_status status = ss_client_session_pending(conn->session, &bytes, &length);
        if (status != SS_OK || length == 0) {
            return status != SS_OK ? status : ss_client_socket_flush(&conn->socket, is_blocked);
        }
        status = ss_client_socket_write(&conn->socket, bytes, length, &n);
        if (status != SS_OK) {
            return status;
        }
        if (n == 0) {
            *is_blocked = true;
            return SS_OK;
        }
        ss_client_session_sent(conn->session, n);
        *n_written += n;
    }
}

/* Take in what arrived while the connection was idle (SETTINGS, PING, GOAWAY, the end). False: not to be used. */
static bool refresh(connection *conn) {
    uint8_t bytes[READ_BYTES];
    for (int reads = 0; reads < 16; reads++) { /* a peer that talks without end is not waited for */
        size_t n;
        if (ss_client_socket_read(&conn->socket, bytes, sizeof bytes, &n) != SS_OK) {
            return false;
        }
        if (n == 0) {
            uint64_t written = 0;
            bool is_blocked;
            return flush(conn, &written, &is_blocked) == SS_OK && !is_blocked &&
                   ss_client_session_is_usable(conn->session);
        }
        if (ss_client_session_receive(conn->session, bytes, n) != SS_OK) {
            return false;
        }
    }
    return false;
}

static ss_status dial(ss_client *client, const ss_client_wait *wait, connection **out, ss_client_result *result) {
    connection *conn = calloc(1, sizeof *conn);
    if (!conn) {
        return SS_ERR_NO_MEMORY;
    }
    conn->socket.fd = -1; /* its close may come before its connect */
    conn->session = ss_client_session_new(&client->head);
    ss_status status = conn->session ? SS_OK : SS_ERR_NO_MEMORY;
    if (status == SS_OK) {
        uint64_t limit_ns = ss_clock_deadline(client->connect_timeout_ns);
        ss_client_wait connect_wait = *wait;
        connect_wait.deadline_ns = limit_ns < wait->deadline_ns ? limit_ns : wait->deadline_ns;
        status = ss_client_socket_connect(&conn->socket, client->host, client->port, client->tls, &connect_wait,
                                          result->message, sizeof result->message);
    }
    if (status != SS_OK) {
        free_connection(conn);
        return status;
    }
    *out = conn;
    return SS_OK;
}

static ss_status check_out(ss_client *client, const ss_client_wait *wait, connection **out, ss_client_result *result) {
    for (connection *conn; (conn = take_idle(client));) {
        if (refresh(conn)) {
            *out = conn;
            return SS_OK;
        }
        free_connection(conn);
    }
    return dial(client, wait, out, result);
}

/* ------------------------------------------------------------------ the call */

/* Move bytes both ways until the response has ended: a large message waits for window updates, and a server may
 * answer before it has read everything. */
static ss_status exchange(connection *conn, const ss_client_wait *wait, ss_client_result *result) {
    uint8_t bytes[READ_BYTES];
    bool is_write_broken = false; /* what the server said before it closed may still be unread */
    for (;;) {
        bool is_blocked = false;
        if (!is_write_broken) {
            ss_status status = flush(conn, &result->bytes_sent, &is_blocked);
            is_write_broken = status == SS_ERR_IO;
            if (status != SS_OK && status != SS_ERR_IO) {
                return status;
            }
            if (ss_client_session_is_over(conn->session)) {
                return SS_ERR_IO;
            }
        }
        ss_status status = ss_client_socket_wait(&conn->socket, is_blocked, wait);
        if (status != SS_OK) {
            return status;
        }
        size_t n;
        status = ss_client_socket_read(&conn->socket, bytes, sizeof bytes, &n);
        if (status == SS_OK && n) {
            status = ss_client_session_receive(conn->session, bytes, n);
        }
        if (ss_client_session_is_done(conn->session)) {
            return SS_OK;
        }
        if (status != SS_OK) {
            return status;
        }
    }
}

static void say(ss_client_result *result, const char *text) {
    ss_client_copy_text(result->message, sizeof result->message, (const uint8_t *)text, strlen(text));
}

/* Run call on conn and give conn back or free it. True: the server cannot have acted on it, try another connection. */
static bool run_call(ss_client *client, connection *conn, ss_client_call *call, const ss_client_wait *wait,
                     ss_client_result *result) {
    if (wait->deadline_ns != UINT64_MAX) {
        uint64_t now = ss_clock_ns(); /* connecting, or waiting for a place, has taken its share */
        call->timeout_ns = now < wait->deadline_ns ? wait->deadline_ns - now : 0;
    }
    ss_status status = ss_client_session_begin(conn->session, call);
    if (status == SS_OK) {
        status = exchange(conn, wait, result);
    }
    bool is_stale =
        conn->is_reused && (status == SS_OK || status == SS_ERR_IO) && ss_client_session_is_unprocessed(conn->session);
    if (is_stale || (status != SS_OK && status != SS_ERR_CANCELLED)) {
        result->transport_status = status;
        say(result, status == SS_ERR_IO ? "the server closed the connection or broke HTTP/2" : ss_status_text(status));
        ss_client_socket_explain(&conn->socket, result->message, sizeof result->message);
        free_connection(conn);
        return is_stale;
    }
    ss_client_session_finish(conn->session, result); /* a cancelled call is reset */
    if (status == SS_ERR_CANCELLED) {
        result->transport_status = status;
        say(result, ss_status_text(status));
    } else if (result->grpc_status == SS_CODE_OK || result->is_answer_unreadable) {
        __atomic_fetch_add(&client->n_accepted[call->encoding], 1, __ATOMIC_RELAXED);
    }
    bool is_blocked;
    bool is_clean = flush(conn, &result->bytes_sent, &is_blocked) == SS_OK && !is_blocked;
    if (is_clean && ss_client_session_is_usable(conn->session)) {
        put_idle(client, conn);
    } else {
        free_connection(conn);
    }
    return false;
}

void ss_client_export(ss_client *client, ss_signal signal, ss_encoding encoding, const uint8_t *message, size_t length,
                      uint64_t timeout_ns, int cancel_fd, ss_client_result *result) {
    *result = (ss_client_result){.transport_status = SS_OK};
    ss_client_wait wait = {ss_clock_deadline(timeout_ns), client->wake_fd, cancel_fd};
    ss_client_call call = {signal, encoding, message, length, UINT64_MAX};
    ss_status status = enter(client, wait.deadline_ns);
    if (status != SS_OK) {
        result->transport_status = status;
        say(result, status == SS_ERR_TIMEOUT ? "all connections are in use" : ss_status_text(status));
        return;
    }
    connection *conn;
    status = check_out(client, &wait, &conn, result);
    if (status == SS_OK && run_call(client, conn, &call, &wait, result)) {
        status = dial(client, &wait, &conn, result);
        if (status == SS_OK) {
            run_call(client, conn, &call, &wait, result);
        }
    }
    if (status != SS_OK) {
        result->transport_status = status;
        if (!result->message[0]) {
            say(result, ss_status_text(status));
        }
    }
    leave(client);
}

uint64_t ss_client_accepted(const ss_client *client, ss_encoding encoding) {
    return __atomic_load_n(&client->n_accepted[encoding], __ATOMIC_RELAXED);
}
