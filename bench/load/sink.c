/*
 * spansieve-sink: a backend that counts what it is sent, and can be slow, stop, or refuse.
 *
 * One thread on the protocols of the product's own server; sockets, delays and commands are here. SIGTERM prints the
 * report and ends.
 */
#define _GNU_SOURCE /* accept4 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "cpu.h"
#include "message.h"
#include "net/connection.h"
#include "net/grpc.h"

enum {
    EVENTS_AT_ONCE = 64,
    BACKLOG = 1024,
    MESSAGE_BYTES_MAX = 256 << 20,
    STREAMS_MAX = 10000,
    WINDOW_BYTES = 8 << 20,
    TICK_MS = 1000, /* of the protocols */
    SENT_BYTES_MAX = 64 * 1024,
    LINE_BYTES = 256,
    DELAY_MS_MAX = 3600000,
    CODE_MAX = 16 /* of google.rpc.Code */
};

static const uint64_t ms_ns = 1000000;

/* Output up to an offset that may leave at a time. */
typedef struct release {
    uint64_t at_ns;
    size_t end;
} release;

typedef struct peer {
    ss_connection *connection;
    release *releases; /* oldest first; none: all output may leave */
    size_t n_releases, capacity;
    bool is_closing; /* the output is to be written, then no more */
    bool is_gone;    /* closed; freed at the end of the turn */
    struct peer *previous, *next;
} peer;

typedef struct counts {
    uint64_t requests, refused, items[SS_N_SIGNALS], payload_bytes, wire_bytes, encodings[SS_N_ENCODINGS], connections;
    double cpu_seconds; /* at the time of the last reset */
} counts;

typedef struct sink {
    ss_runtime *runtime;
    ss_service service;
    ss_scratch scratch;
    ss_listener listeners[SS_N_TRANSPORTS];
    size_t n_listeners;
    int epoll_fd, signal_fd;
    peer *peers;
    uint64_t delay_ns;
    uint64_t next_tick_ns;
    ss_verdict refusal; /* code OK: requests are taken */
    bool is_stopped, is_ended;
    bool reads_commands;
    char line[LINE_BYTES];
    size_t line_length;
    FILE *record;
    ss_buffer converted; /* a JSON request, as protobuf */
    counts counts;
    uint8_t input[SS_READ_BYTES];
} sink;

static bool fail(const char *what, const char *why) {
    fprintf(stderr, "spansieve-sink: %s: %s\n", what, why);
    return false;
}

/* ------------------------------------------------------------------ requests */

/* A record: the signal, one byte; the length, four bytes, big-endian; the request. */
static bool write_record(sink *s, ss_signal signal, const uint8_t *bytes, size_t length) {
    const uint8_t head[] = {(uint8_t)signal, (uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8),
                            (uint8_t)length};
    return fwrite(head, 1, sizeof head, s->record) == sizeof head && fwrite(bytes, 1, length, s->record) == length;
}

static void take(void *receiver, ss_worker *worker, const ss_request *request, ss_verdict *verdict) {
    (void)worker;
    sink *s = receiver;
    if (s->refusal.code != SS_CODE_OK) {
        s->counts.refused++;
        *verdict = s->refusal;
        return;
    }
    const uint8_t *bytes = request->bytes;
    size_t length = request->length;
    if (request->payload == SS_PAYLOAD_JSON) {
        ss_error error;
        s->converted.length = 0;
        if (ss_json_to_otlp(request->signal, bytes, length, &s->converted, &error) != SS_OK) {
            ss_verdict_fail(verdict, SS_CODE_INVALID_ARGUMENT, "%s", error.reason);
            return;
        }
        bytes = ss_bytes_of(&s->converted);
        length = s->converted.length;
    }
    uint64_t n_items;
    if (!message_count_items(request->signal, bytes, length, &n_items)) {
        ss_verdict_fail(verdict, SS_CODE_INVALID_ARGUMENT, "the bytes are no such request");
        return;
    }
    if (s->record && !write_record(s, request->signal, bytes, length)) {
        ss_verdict_fail(verdict, SS_CODE_INTERNAL, "the record cannot be written");
        return;
    }
    s->counts.requests++;
    s->counts.items[request->signal] += n_items;
    s->counts.payload_bytes += length;
    s->counts.encodings[request->encoding]++;
}

static bool has_signal(const void *receiver, ss_signal signal) {
    (void)receiver, (void)signal;
    return true;
}

/* ------------------------------------------------------------------ connections */

static void hang_up(sink *s, peer *p) {
    if (!p->is_gone) {
        p->is_gone = true;
        close(p->connection->fd);
        s->counts.connections--;
    }
}

static void bury(sink *s) {
    for (peer *p = s->peers, *next; p; p = next) {
        next = p->next;
        if (!p->is_gone) {
            continue;
        }
        *(p->previous ? &p->previous->next : &s->peers) = next;
        if (next) {
            next->previous = p->previous;
        }
        ss_buffer_free(&p->connection->output);
        p->connection->protocol->free(p->connection);
        free(p->releases);
        free(p);
    }
}

/* All output so far may leave when the delay has passed. */
static bool hold_back(const sink *s, peer *p) {
    size_t end = p->connection->output.length;
    size_t last = p->n_releases ? p->releases[p->n_releases - 1].end : p->connection->output_sent;
    if (end == last || (s->delay_ns == 0 && p->n_releases == 0)) {
        return true;
    }
    if (p->n_releases == p->capacity) {
        size_t capacity = p->capacity ? 2 * p->capacity : 16;
        release *releases = realloc(p->releases, capacity * sizeof *releases);
        if (!releases) {
            return false;
        }
        p->releases = releases;
        p->capacity = capacity;
    }
    p->releases[p->n_releases++] = (release){s->scratch.now_ns + s->delay_ns, end};
    return true;
}

/* Where the output ends that may leave now. */
static size_t released(const sink *s, peer *p) {
    size_t n = 0, end = p->connection->output_sent;
    while (n < p->n_releases && p->releases[n].at_ns <= s->scratch.now_ns) {
        end = p->releases[n++].end;
    }
    if (n == p->n_releases) {
        p->n_releases = 0;
        return p->connection->output.length;
    }
    if (n) { /* the last that has passed stays, for what of it the socket does not take */
        p->n_releases -= n - 1;
        memmove(p->releases, p->releases + n - 1, p->n_releases * sizeof *p->releases);
    }
    return end;
}

/* With answers always on their way, the output would never be empty and only grow. */
static void forget_sent(peer *p) {
    ss_connection *c = p->connection;
    c->output.length -= c->output_sent;
    memmove(c->output.data, c->output.data + c->output_sent, c->output.length);
    for (size_t i = 0; i < p->n_releases; i++) {
        p->releases[i].end -= c->output_sent < p->releases[i].end ? c->output_sent : p->releases[i].end;
    }
    c->output_sent = 0;
}

static bool write_output(sink *s, peer *p) {
    ss_connection *c = p->connection;
    size_t end = released(s, p);
    while (c->output_sent < end) {
        ssize_t n = send(c->fd, c->output.data + c->output_sent, end - c->output_sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return errno == EAGAIN || errno == EWOULDBLOCK;
        }
        c->output_sent += n > 0 ? (size_t)n : 0;
    }
    if (c->output_sent && (c->output_sent == c->output.length || c->output_sent >= SENT_BYTES_MAX)) {
        forget_sent(p);
    }
    return true;
}

/* Send what there is to send, and wait for what is to come. */
static void advance(sink *s, peer *p) {
    ss_connection *c = p->connection;
    p->is_closing = p->is_closing || !c->protocol->produce(c);
    if (!hold_back(s, p) || !write_output(s, p) || (p->is_closing && c->output.length == 0)) {
        hang_up(s, p);
        return;
    }
    uint32_t events = EPOLLIN;
    if (c->output.length) { /* read on only when it has left, unless it is we who keep it */
        events = p->n_releases ? EPOLLIN : EPOLLOUT;
    }
    if (events != c->events) {
        struct epoll_event event = {.events = events, .data.ptr = p};
        c->events = events;
        epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
    }
}

static void on_peer(sink *s, peer *p, uint32_t events) {
    ss_connection *c = p->connection;
    if (p->is_gone) {
        return;
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        ssize_t n = recv(c->fd, s->input, sizeof s->input, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            hang_up(s, p);
            return;
        }
        if (n > 0) {
            s->counts.wire_bytes += (uint64_t)n;
            p->is_closing = p->is_closing || !c->protocol->receive(c, s->input, (size_t)n);
        }
    }
    advance(s, p);
}

static void accept_peer(sink *s, ss_listener *listener) {
    int fd = accept4(listener->config.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    peer *p = calloc(1, sizeof *p);
    ss_connection *c = NULL;
    if (p) {
        c = listener->config.transport == SS_TRANSPORT_GRPC ? ss_http2_new(&s->scratch, listener)
                                                            : ss_http1_new(&s->scratch, listener);
    }
    if (!c) {
        free(p);
        close(fd);
        return;
    }
    c->fd = fd;
    c->events = EPOLLIN;
    p->connection = c;
    p->next = s->peers;
    if (p->next) {
        p->next->previous = p;
    }
    s->peers = p;
    s->counts.connections++;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        hang_up(s, p);
        return;
    }
    advance(s, p);
}

/* ------------------------------------------------------------------ commands */

static void print_report(const sink *s) {
    static const char *const encodings[SS_N_ENCODINGS] = {"identity", "gzip",          "zstd", "snappy",
                                                          "deflate",  "snappy-framed", "lz4"};
    const counts *n = &s->counts;
    printf("{\"requests\": %llu, \"items\": {\"traces\": %llu, \"metrics\": %llu, \"logs\": %llu}, ",
           (unsigned long long)n->requests, (unsigned long long)n->items[SS_SIGNAL_TRACES],
           (unsigned long long)n->items[SS_SIGNAL_METRICS], (unsigned long long)n->items[SS_SIGNAL_LOGS]);
    printf("\"refused\": %llu, \"payload_bytes\": %llu, \"wire_bytes\": %llu, \"encodings\": {",
           (unsigned long long)n->refused, (unsigned long long)n->payload_bytes, (unsigned long long)n->wire_bytes);
    const char *comma = "";
    for (int i = 0; i < SS_N_ENCODINGS; i++) {
        if (n->encodings[i]) {
            printf("%s\"%s\": %llu", comma, encodings[i], (unsigned long long)n->encodings[i]);
            comma = ", ";
        }
    }
    printf("}, \"cpu_seconds\": %.6f, \"connections\": %llu}\n", load_cpu_seconds() - n->cpu_seconds,
           (unsigned long long)n->connections);
    fflush(stdout);
    if (s->record) {
        fflush(s->record);
    }
}

static bool parse_word(const char *word, long least, long most, long *value) {
    char *end;
    *value = word ? strtol(word, &end, 10) : least - 1;
    return word && end != word && !*end && *value >= least && *value <= most;
}

static void run_command(sink *s, char *line) {
    char *rest = NULL;
    const char *name = strtok_r(line, " \t\r", &rest);
    const char *first = strtok_r(NULL, " \t\r", &rest);
    const char *second = strtok_r(NULL, " \t\r", &rest);
    long value = 0, retry_ms = 0;
    if (!name) {
        return;
    }
    if (strcmp(name, "ok") == 0) {
        s->is_stopped = false;
        s->delay_ns = 0;
        s->refusal = (ss_verdict){0};
    } else if (strcmp(name, "slow") == 0 && parse_word(first, 0, DELAY_MS_MAX, &value)) {
        s->delay_ns = (uint64_t)value * ms_ns;
    } else if (strcmp(name, "stop") == 0) {
        s->is_stopped = true;
    } else if (strcmp(name, "refuse") == 0 && parse_word(first, 1, CODE_MAX, &value) &&
               (!second || parse_word(second, 0, DELAY_MS_MAX, &retry_ms))) {
        ss_verdict_fail(&s->refusal, (ss_code)value, "the sink was told to refuse");
        s->refusal.has_retry_delay = second;
        s->refusal.retry_delay_ms = (uint32_t)retry_ms;
    } else if (strcmp(name, "report") == 0) {
        print_report(s);
    } else if (strcmp(name, "reset") == 0) {
        s->counts = (counts){.connections = s->counts.connections, .cpu_seconds = load_cpu_seconds()};
    } else {
        fail(name, "no such command, or not so; known: ok, slow MS, stop, refuse CODE [RETRY_MS], report, reset");
    }
}

/* False once there will be no more. */
static bool read_commands(sink *s) {
    ssize_t n = read(STDIN_FILENO, s->line + s->line_length, sizeof s->line - 1 - s->line_length);
    if (n <= 0) {
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    s->line_length += (size_t)n;
    char *start = s->line, *end;
    while ((end = memchr(start, '\n', s->line_length - (size_t)(start - s->line)))) {
        *end = '\0';
        run_command(s, start);
        start = end + 1;
    }
    s->line_length -= (size_t)(start - s->line);
    memmove(s->line, start, s->line_length);
    if (s->line_length == sizeof s->line - 1) {
        s->line_length = 0; /* no command is so long */
        fail("command", "too long");
    }
    return true;
}

/* ------------------------------------------------------------------ the loop */

static int wait_ms(const sink *s) {
    uint64_t now = s->scratch.now_ns, at = s->next_tick_ns;
    for (const peer *p = s->peers; p; p = p->next) {
        for (size_t i = 0; i < p->n_releases && i < 2; i++) { /* the first may have passed already */
            if (p->releases[i].at_ns > now) {
                at = p->releases[i].at_ns < at ? p->releases[i].at_ns : at;
                break;
            }
        }
    }
    return at > now ? (int)((at - now + ms_ns - 1) / ms_ns) : 0;
}

static void look_after_peers(sink *s) {
    bool is_tick = s->scratch.now_ns >= s->next_tick_ns;
    if (is_tick) {
        s->next_tick_ns = s->scratch.now_ns + TICK_MS * ms_ns;
    }
    for (peer *p = s->peers; p; p = p->next) {
        if (!p->is_gone && is_tick) {
            p->is_closing = p->is_closing || !p->connection->protocol->tick(p->connection);
        }
        if (!p->is_gone && (is_tick || p->n_releases)) {
            advance(s, p);
        }
    }
    bury(s);
}

/* While stopped, only commands and the end are looked at: bytes pile up where they are. */
static void wait_for_command(sink *s) {
    struct pollfd fds[] = {{.fd = s->signal_fd, .events = POLLIN},
                           {.fd = s->reads_commands ? STDIN_FILENO : -1, .events = POLLIN}};
    poll(fds, 2, -1);
    s->scratch.now_ns = ss_clock_ns();
    s->is_ended = fds[0].revents;
    if (fds[1].revents) {
        s->reads_commands = read_commands(s);
    }
}

static void run_turn(sink *s) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int n = epoll_wait(s->epoll_fd, events, EVENTS_AT_ONCE, wait_ms(s));
    s->scratch.now_ns = ss_clock_ns();
    for (int i = 0; i < n && !s->is_stopped; i++) { /* what a stop leaves is shown again */
        void *source = events[i].data.ptr;
        if (source == &s->signal_fd) {
            s->is_ended = true;
        } else if (source == s->line) {
            s->reads_commands = read_commands(s);
            if (!s->reads_commands) {
                epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
            }
        } else if (source == &s->listeners[0] || source == &s->listeners[1]) {
            accept_peer(s, source);
        } else {
            on_peer(s, source, events[i].events);
        }
    }
    if (!s->is_stopped) {
        look_after_peers(s);
    }
}

/* ------------------------------------------------------------------ the command */

static bool split_address(char *address, char **host, char **port) {
    char *colon = strrchr(address, ':');
    if (!colon) {
        return fail(address, "must be HOST:PORT");
    }
    *colon = '\0';
    *host = address;
    *port = colon + 1;
    if (address[0] == '[' && colon > address + 1 && colon[-1] == ']') {
        colon[-1] = '\0';
        *host = address + 1;
    }
    return true;
}

static bool listen_at(sink *s, char *address, ss_transport transport, int *port) {
    char *host, *service;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (!split_address(address, &host, &service)) {
        return false;
    }
    int failure = getaddrinfo(*host ? host : NULL, service, &hints, &found);
    if (failure) {
        return fail(host, gai_strerror(failure));
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    bool is_open = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                   bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    freeaddrinfo(found);
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    if (!is_open || getsockname(fd, (struct sockaddr *)&own, &size) != 0) {
        fail(host, strerror(errno));
        close(fd);
        return false;
    }
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                            : ((struct sockaddr_in *)&own)->sin_port);
    ss_listener *listener = &s->listeners[s->n_listeners++];
    listener->config = (ss_listener_config){.fd = fd,
                                            .transport = transport,
                                            .max_message_bytes = MESSAGE_BYTES_MAX,
                                            .max_concurrent_streams = STREAMS_MAX,
                                            .initial_window_bytes = WINDOW_BYTES,
                                            .paths = {"/v1/traces", "/v1/metrics", "/v1/logs"}};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 || fail(host, strerror(errno));
}

static bool open_control(sink *s) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    struct epoll_event on_signal = {.events = EPOLLIN, .data.ptr = &s->signal_fd};
    struct epoll_event on_command = {.events = EPOLLIN, .data.ptr = s->line};
    if (s->epoll_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->signal_fd, &on_signal) != 0) {
        return fail("epoll", strerror(errno));
    }
    /* A file cannot be waited for, and has nothing to say here: /dev/null is the usual one. */
    s->reads_commands = epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &on_command) == 0;
    return true;
}

static bool start(sink *s) {
    s->runtime = ss_runtime_new();
    s->service = (ss_service){.runtime = s->runtime, .accept = take, .has_signal = has_signal, .receiver = s};
    ss_admin_init(&s->service.admin);
    if (!s->runtime || ss_scratch_init(&s->scratch, &s->service, 0) != SS_OK) {
        return fail("start", "no memory");
    }
    s->scratch.now_ns = ss_clock_ns();
    return open_control(s);
}

static void finish(sink *s) {
    for (peer *p = s->peers; p; p = p->next) {
        hang_up(s, p);
    }
    bury(s);
    for (size_t i = 0; i < s->n_listeners; i++) {
        close(s->listeners[i].config.fd);
    }
    ss_scratch_release(&s->scratch);
    ss_admin_release(&s->service.admin);
    ss_runtime_free(s->runtime);
    ss_buffer_free(&s->converted);
    if (s->record && fclose(s->record) != 0) {
        fail("--record", strerror(errno));
    }
    free(s);
}

int main(int argc, char **argv) {
    enum { LISTEN, HTTP, RECORD };
    static const struct option known[] = {{"listen", required_argument, NULL, LISTEN},
                                          {"http", required_argument, NULL, HTTP},
                                          {"record", required_argument, NULL, RECORD},
                                          {0}};
    char *addresses[SS_N_TRANSPORTS] = {NULL, NULL};
    const char *record = NULL;
    bool is_good = true;
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case LISTEN: addresses[SS_TRANSPORT_GRPC] = optarg; break;
        case HTTP: addresses[SS_TRANSPORT_HTTP] = optarg; break;
        case RECORD: record = optarg; break;
        default: is_good = false;
        }
    }
    if (!is_good || optind != argc || !addresses[SS_TRANSPORT_GRPC]) {
        fputs("usage: spansieve-sink --listen HOST:PORT [--http HOST:PORT] [--record FILE]\n"
              "  port 0: any; prints \"listening PORT HTTP_PORT\", 0 for no HTTP\n"
              "  --record: append [signal, 1 byte][length, 4 bytes, big-endian][request] of each request taken\n"
              "commands, a line each: ok, slow MS, stop, refuse CODE [RETRY_MS], report, reset\n",
              stderr);
        return 2;
    }
    sink *s = calloc(1, sizeof *s);
    if (!s) {
        return 1;
    }
    int ports[SS_N_TRANSPORTS] = {0, 0};
    bool is_ready = start(s) && listen_at(s, addresses[SS_TRANSPORT_GRPC], SS_TRANSPORT_GRPC, &ports[0]);
    if (is_ready && addresses[SS_TRANSPORT_HTTP]) {
        is_ready = listen_at(s, addresses[SS_TRANSPORT_HTTP], SS_TRANSPORT_HTTP, &ports[1]);
    }
    if (is_ready && record) {
        is_ready = (s->record = fopen(record, "ab")) || fail(record, strerror(errno));
    }
    if (is_ready) {
        printf("listening %d %d\n", ports[0], ports[1]);
        fflush(stdout);
        while (!s->is_ended) {
            if (s->is_stopped) {
                wait_for_command(s);
            } else {
                run_turn(s);
            }
        }
        print_report(s);
    }
    finish(s);
    return is_ready ? 0 : 1;
}
