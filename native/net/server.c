#include "core/clock.h"
#include "net/cors.h"
#include "net/loop.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of the file descriptors, a share is kept from connections: for exporters, files, and the next server at a reload. */
enum { KEPT_SHARE = 4, KEPT_MAX = 256 };
enum { MAX_LOOPS = 1 << SS_ADMIN_LOOP_BITS, DEFAULT_CONCURRENT_STREAMS = 200, DEFAULT_WINDOW_BYTES = 2 << 20 };

struct ss_server {
    ss_service service;
    ss_listener *listeners;
    size_t n_listeners;
    ss_loop **loops;
    size_t n_loops;
    bool is_running; /* every loop has started */
    bool is_shut_down;
};

/* ------------------------------------------------------------------ admin requests */

ss_status ss_server_next_request(ss_server *server, ss_admin_request *request) {
    return ss_admin_pop(&server->service.admin, request) ? SS_OK : SS_ERR_TIMEOUT;
}

int ss_server_request_fd(const ss_server *server) {
    return server->service.admin.fd;
}

ss_status ss_server_reply(ss_server *server, uint64_t token, int http_status, const char *content_type,
                          const uint8_t *body, size_t body_length) {
    size_t index = token & (MAX_LOOPS - 1);
    if (index >= server->n_loops || http_status < 200 || http_status > 599) {
        return SS_ERR_ARGUMENT;
    }
    for (const char *c = content_type; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            return SS_ERR_ARGUMENT; /* it would end the header line */
        }
    }
    return ss_loop_reply(server->loops[index], token, http_status, content_type, body, body_length);
}

/* ------------------------------------------------------------------ life */

static ss_server *fail(ss_server *server, ss_error *error, ss_status code, const char *reason) {
    *error = (ss_error){.code = code, .reason = reason};
    ss_server_free(server);
    return NULL;
}

static const char *check(const ss_server_config *config) {
    if (config->n_listeners == 0) {
        return "a server needs a listener";
    }
    if (config->n_event_loops > MAX_LOOPS) {
        return "n_event_loops: at most 256";
    }
    for (size_t i = 0; i < config->n_listeners; i++) {
        const ss_listener_config *listener = &config->listeners[i];
        if (listener->is_admin && listener->transport != SS_TRANSPORT_HTTP) {
            return "an admin listener speaks HTTP";
        }
        if (!listener->is_admin && (!config->accept || !config->has_signal)) {
            return "accept and has_signal: needed by listeners for OTLP";
        }
        if (listener->initial_window_bytes > INT32_MAX) {
            return "initial_window_bytes: at most 2^31 - 1";
        }
        for (int signal = 0; signal < SS_N_SIGNALS; signal++) {
            if (listener->paths[signal] && listener->paths[signal][0] != '/') {
                return "paths: each begins with a slash";
            }
        }
        for (size_t name = 0; name < listener->n_metadata_names; name++) {
            if (strlen(listener->metadata_names[name]) > SS_METADATA_NAME_MAX) {
                return "metadata_names: at most 255 bytes each";
            }
        }
        if (listener->max_message_bytes > UINT32_MAX) {
            return "max_message_bytes: at most 2^32 - 1";
        }
    }
    return NULL;
}

static ss_status open_listener(ss_listener *listener, const ss_listener_config *config) {
    static const char *const default_paths[SS_N_SIGNALS] = {"/v1/traces", "/v1/metrics", "/v1/logs"};
    listener->config = *config;
    listener->config.max_concurrent_streams =
        config->max_concurrent_streams ? config->max_concurrent_streams : DEFAULT_CONCURRENT_STREAMS;
    listener->config.initial_window_bytes =
        config->initial_window_bytes ? config->initial_window_bytes : DEFAULT_WINDOW_BYTES;
    listener->config.fd = fcntl(config->fd, F_DUPFD_CLOEXEC, 0);
    listener->config.response_headers = strdup(config->response_headers ? config->response_headers : "");
    bool has_memory = listener->config.response_headers;
    if (config->cors && config->cors->n_origins) {
        listener->cors = ss_cors_new(config->cors);
        has_memory = has_memory && listener->cors;
    }
    has_memory = has_memory &&
                 ss_names_copy(&listener->metadata_names, config->metadata_names, config->n_metadata_names) == SS_OK;
    for (int i = 0; i < SS_N_SIGNALS; i++) {
        listener->config.paths[i] = strdup(config->paths[i] ? config->paths[i] : default_paths[i]);
        has_memory = has_memory && listener->config.paths[i];
    }
    if (!has_memory) {
        return SS_ERR_NO_MEMORY;
    }
    /* Of the connections that it accepts: who is gone without a word is found out, as by Go's servers. */
    const int on = 1, idle_s = 15, probes = 9;
    (void)setsockopt(listener->config.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(listener->config.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(listener->config.fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    (void)setsockopt(listener->config.fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    int flags = listener->config.fd < 0 ? -1 : fcntl(listener->config.fd, F_GETFL);
    return flags >= 0 && fcntl(listener->config.fd, F_SETFL, flags | O_NONBLOCK) == 0 ? SS_OK : SS_ERR_ARGUMENT;
}

/* Connections have lower descriptors than this; 0: no limit. Operators' pages may use half of what is kept. */
static int find_max_fd(bool is_admin) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= INT_MAX) {
        return 0;
    }
    int all = (int)limit.rlim_cur;
    int kept = all / KEPT_SHARE < KEPT_MAX ? all / KEPT_SHARE : KEPT_MAX;
    return all - (is_admin ? kept / 2 : kept);
}

ss_server *ss_server_new(ss_runtime *runtime, const ss_server_config *config, ss_error *error) {
    const char *problem = check(config);
    if (problem) {
        return fail(NULL, error, SS_ERR_ARGUMENT, problem);
    }
    size_t n_loops = config->n_event_loops ? config->n_event_loops : 1;
    ss_server *server = calloc(1, sizeof *server);
    if (!server) {
        return fail(NULL, error, SS_ERR_NO_MEMORY, "no memory for the server");
    }
    server->service = (ss_service){
        .runtime = runtime, .accept = config->accept, .has_signal = config->has_signal, .receiver = config->receiver};
    server->service.max_held_bytes = config->max_held_bytes;
    ss_admin_init(&server->service.admin);
    ss_refusals_init(&server->service.refusals);
    server->listeners = calloc(config->n_listeners, sizeof *server->listeners);
    server->loops = calloc(n_loops, sizeof *server->loops);
    if (!server->listeners || !server->loops) {
        return fail(server, error, SS_ERR_NO_MEMORY, "no memory for the server");
    }
    bool has_admin = false;
    for (size_t i = 0; i < config->n_listeners; i++) {
        server->n_listeners++;
        ss_status status = open_listener(&server->listeners[i], &config->listeners[i]);
        if (status != SS_OK) {
            return fail(server, error, status, "no memory or file descriptor for a listener");
        }
        has_admin = has_admin || config->listeners[i].is_admin;
    }
    server->service.max_fd = find_max_fd(has_admin);
    if (has_admin && ss_admin_open(&server->service.admin) != SS_OK) {
        return fail(server, error, SS_ERR_IO, "no file descriptor for admin requests");
    }
    for (; server->n_loops < n_loops; server->n_loops++) {
        uint32_t index = (uint32_t)server->n_loops;
        ss_loop *loop = ss_loop_new(&server->service, index, server->listeners, server->n_listeners);
        if (!loop) {
            return fail(server, error, SS_ERR_NO_MEMORY, "no memory or file descriptor for an event loop");
        }
        server->loops[index] = loop;
    }
    for (size_t i = n_loops; i-- > 0;) { /* the accepting one last, when its peers are there */
        if (ss_loop_start(server->loops[i], i == 0 ? server->loops : NULL, n_loops) != SS_OK) {
            return fail(server, error, SS_ERR_NO_MEMORY, "an event loop's thread cannot start");
        }
    }
    server->is_running = true;
    return server;
}

ss_status ss_server_shutdown(ss_server *server, uint64_t timeout_ns) {
    uint64_t now = ss_clock_ns();
    uint64_t deadline = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    bool all_ended = true;
    for (size_t i = 0; i < (server->is_running ? 1 : server->n_loops); i++) {
        ss_loop_stop(server->loops[i], deadline);
    }
    for (size_t i = 0; i < server->n_loops; i++) {
        all_ended = ss_loop_join(server->loops[i]) && all_ended;
    }
    for (size_t i = 0; i < server->n_listeners; i++) {
        if (server->listeners[i].config.fd >= 0) { /* its loop was never started */
            close(server->listeners[i].config.fd);
            server->listeners[i].config.fd = -1;
        }
    }
    server->is_shut_down = true;
    return all_ended ? SS_OK : SS_ERR_TIMEOUT;
}

void ss_server_free(ss_server *server) {
    if (!server) {
        return;
    }
    if (!server->is_shut_down) {
        (void)ss_server_shutdown(server, 0);
    }
    for (size_t i = 0; i < server->n_loops; i++) {
        ss_loop_free(server->loops[i]);
    }
    for (size_t i = 0; i < server->n_listeners; i++) {
        for (int signal = 0; signal < SS_N_SIGNALS; signal++) {
            free((char *)server->listeners[i].config.paths[signal]);
        }
        free((char *)server->listeners[i].config.response_headers);
        ss_cors_free(server->listeners[i].cors);
        ss_names_free(&server->listeners[i].metadata_names);
    }
    ss_admin_release(&server->service.admin);
    ss_refusals_release(&server->service.refusals);
    free(server->loops);
    free(server->listeners);
    free(server);
}

void ss_server_read_stats(const ss_server *server, ss_server_stats *stats) {
    *stats = (ss_server_stats){0};
    for (size_t i = 0; i < server->n_loops; i++) {
        ss_loop_read_stats(server->loops[i], stats);
    }
}

bool ss_server_take_refusal(ss_server *server, ss_transport transport, ss_refusal refusal, ss_refusal_note *note) {
    return (unsigned)transport < SS_N_TRANSPORTS && (unsigned)refusal < SS_N_REFUSALS &&
           ss_refusals_take(&server->service.refusals, transport, refusal, note);
}
