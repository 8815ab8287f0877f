/* The server on real sockets: threads, limits of connections, slow peers, admin replies, shutdown. */
#include "check.h"
#include "net/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST                                                                                                        \
    "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 5\r\n\r\nhello"
#define ANSWER "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n"

static const uint64_t second_ns = 1000000000;
enum { PATIENCE_MS = 60000 };

enum { WAITING_MAX = 4 };

typedef struct receiver {
    uint64_t n_accepted; /* atomic */
    uint64_t n_bytes;
    ss_receiver *counter; /* NULL: answers come at once; else those to the first WAITING_MAX requests come later */
    ss_pledge pledges[WAITING_MAX];
    uint64_t n_cancelled; /* atomic: requests whose clients have gone */
    uint64_t stops_at;    /* after so many requests the loop goes on only once it is free; 0: it never stops */
    uint64_t is_free;     /* atomic */
} receiver;

static void wait_for(const uint64_t *counter, uint64_t n) {
    for (int i = 0; i < PATIENCE_MS && __atomic_load_n(counter, __ATOMIC_ACQUIRE) < n; i++) {
        poll(NULL, 0, 1);
    }
    CHECK_EQUAL(n, __atomic_load_n(counter, __ATOMIC_ACQUIRE));
}

static receiver *cancelling; /* that of the test that runs */

/* Too late: the answer is told nevertheless. */
static bool withdraw(ss_pledge *pledge) {
    (void)pledge;
    __atomic_fetch_add(&cancelling->n_cancelled, 1, __ATOMIC_RELEASE);
    return false;
}

static bool await(receiver *r, const ss_request *request) {
    ss_promise_slot slot = {.route = request->route};
    ss_pledge *pledge = &r->pledges[r->n_accepted];
    pledge->withdraw = withdraw;
    if (!ss_promise_join(&slot, pledge)) {
        return false;
    }
    ss_promise_seal(slot.promise, &(ss_outcome){.receiver = r->counter}, &(ss_verdict){0});
    return true;
}

static void accept_request(void *context, ss_worker *worker, const ss_request *request, ss_verdict *verdict) {
    (void)worker;
    receiver *r = context;
    __atomic_fetch_add(&r->n_bytes, request->length, __ATOMIC_RELAXED);
    if (r->counter) {
        verdict->is_pending = await(r, request);
    }
    if (__atomic_add_fetch(&r->n_accepted, 1, __ATOMIC_RELEASE) == r->stops_at) {
        wait_for(&r->is_free, 1);
    }
}

static bool has_signal(const void *context, ss_signal signal) {
    (void)context;
    return signal != SS_SIGNAL_LOGS;
}

static int listen_local(uint16_t *port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    CHECK_EQUAL(0, bind(fd, (struct sockaddr *)&address, size));
    CHECK_EQUAL(0, listen(fd, 128));
    CHECK_EQUAL(0, getsockname(fd, (struct sockaddr *)&address, &size));
    *port = ntohs(address.sin_port);
    return fd;
}

static void connect_local(int fd, uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQUAL(0, connect(fd, (struct sockaddr *)&address, sizeof address));
}

static int dial(uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connect_local(fd, port);
    return fd;
}

static void say(int fd, const char *text) {
    CHECK_EQUAL((long)strlen(text), (long)send(fd, text, strlen(text), MSG_NOSIGNAL));
}

static bool readable(int fd, int timeout_ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

/* Read exactly what is expected. */
static bool hears(int fd, const char *expected) {
    char buffer[1024];
    size_t length = strlen(expected), got = 0;
    while (got < length && readable(fd, PATIENCE_MS)) {
        ssize_t n = recv(fd, buffer + got, length - got, 0);
        if (n <= 0) {
            break;
        }
        got += (size_t)n;
    }
    return got == length && memcmp(buffer, expected, length) == 0;
}

/* The peer has closed its side, or reset; whatever came before is skipped. */
static bool hears_end(int fd) {
    char buffer[4096];
    while (readable(fd, PATIENCE_MS)) {
        if (recv(fd, buffer, sizeof buffer, 0) <= 0) {
            return true;
        }
    }
    return false;
}

typedef struct setup {
    ss_runtime *runtime;
    receiver receiver;
    int fds[3];
    uint16_t grpc_port, http_port, admin_port;
    ss_listener_config listeners[3];
    ss_server_config config;
} setup;

static void prepare(setup *s, uint32_t n_event_loops) {
    *s = (setup){.runtime = ss_runtime_new()};
    s->fds[0] = listen_local(&s->grpc_port);
    s->fds[1] = listen_local(&s->http_port);
    s->fds[2] = listen_local(&s->admin_port);
    s->listeners[0] =
        (ss_listener_config){.fd = s->fds[0], .transport = SS_TRANSPORT_GRPC, .max_message_bytes = 4 << 20};
    s->listeners[1] =
        (ss_listener_config){.fd = s->fds[1], .transport = SS_TRANSPORT_HTTP, .max_message_bytes = 20 << 20};
    s->listeners[2] = (ss_listener_config){.fd = s->fds[2], .transport = SS_TRANSPORT_HTTP, .is_admin = true};
    s->config = (ss_server_config){.listeners = s->listeners,
                                   .n_listeners = 3,
                                   .n_event_loops = n_event_loops,
                                   .accept = accept_request,
                                   .has_signal = has_signal,
                                   .receiver = &s->receiver};
}

static ss_server *start(setup *s) {
    ss_error error = {0};
    ss_server *server = ss_server_new(s->runtime, &s->config, &error);
    CHECK(server != NULL);
    return server;
}

static void finish(setup *s, ss_server *server) {
    ss_server_free(server);
    for (int i = 0; i < 3; i++) {
        close(s->fds[i]);
    }
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s->runtime));
    ss_runtime_free(s->runtime);
}

static ss_server_stats stats_of(const ss_server *server) {
    ss_server_stats stats;
    ss_server_read_stats(server, &stats);
    return stats;
}

/* ------------------------------------------------------------------ many clients */

enum { CLIENTS = 8, REQUESTS = 200 };

static void *run_client(void *argument) {
    const setup *s = argument;
    size_t failures = 0;
    for (int round = 0; round < 4; round++) {
        int fd = dial(s->http_port);
        for (int i = 0; i < REQUESTS / 4; i++) {
            say(fd, REQUEST);
            failures += !hears(fd, ANSWER);
        }
        close(fd);
    }
    return (void *)failures;
}

static void test_many_clients(void) {
    setup s;
    prepare(&s, 3);
    ss_server *server = start(&s);
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        pthread_create(&threads[i], NULL, run_client, &s);
    }
    for (int i = 0; i < CLIENTS; i++) {
        void *failures;
        pthread_join(threads[i], &failures);
        CHECK(failures == NULL);
    }
    CHECK_EQUAL(CLIENTS * REQUESTS, s.receiver.n_accepted);
    CHECK_EQUAL(CLIENTS * REQUESTS * 5, s.receiver.n_bytes);
    CHECK_EQUAL(SS_OK, ss_server_shutdown(server, 10 * second_ns));
    CHECK_EQUAL(SS_OK, ss_server_shutdown(server, 0)); /* once more does no harm */
    ss_server_stats stats = stats_of(server);
    CHECK_EQUAL(CLIENTS * 4, stats.connections_opened);
    CHECK_EQUAL(0, stats.connections_open);
    CHECK_EQUAL(CLIENTS * REQUESTS, stats.requests);
    CHECK_EQUAL(CLIENTS * REQUESTS * (sizeof REQUEST - 1), stats.bytes_read);
    CHECK_EQUAL(CLIENTS * REQUESTS * (sizeof ANSWER - 1), stats.bytes_written);
    CHECK_EQUAL(0, stats.protocol_errors);
    finish(&s, server);
}

static void test_large_body(void) {
    enum { LENGTH = 8 << 20 };
    setup s;
    prepare(&s, 1);
    ss_server *server = start(&s);
    int fd = dial(s.http_port);
    char head[200], *body = calloc(1, LENGTH);
    snprintf(
        head, sizeof head,
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n",
        LENGTH);
    say(fd, head);
    for (size_t sent = 0; sent < LENGTH;) {
        ssize_t n = send(fd, body + sent, LENGTH - sent, MSG_NOSIGNAL);
        CHECK(n > 0);
        sent += (size_t)n;
    }
    CHECK(hears(fd, ANSWER));
    CHECK_EQUAL(LENGTH, s.receiver.n_bytes);
    free(body);
    close(fd);
    finish(&s, server);
}

/* ------------------------------------------------------------------ limits */

static void write_address(int fd, char *out, size_t size) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    CHECK_EQUAL(0, getsockname(fd, (struct sockaddr *)&address, &length));
    snprintf(out, size, "127.0.0.1:%u", ntohs(address.sin_port));
}

static void test_max_connections(void) {
    setup s;
    prepare(&s, 2);
    s.listeners[1].max_connections = 2;
    ss_server *server = start(&s);
    int first = dial(s.http_port), second = dial(s.http_port);
    say(first, REQUEST);
    CHECK(hears(first, ANSWER));
    say(second, REQUEST);
    CHECK(hears(second, ANSWER));
    int third = dial(s.http_port);
    char address[64];
    write_address(third, address, sizeof address);
    CHECK(hears_end(third)); /* at once, not left to hang */
    close(third);
    ss_refusal_note note;
    CHECK_EQUAL(1, stats_of(server).refused[SS_TRANSPORT_HTTP][SS_REFUSAL_CONNECTIONS]);
    CHECK(ss_server_take_refusal(server, SS_TRANSPORT_HTTP, SS_REFUSAL_CONNECTIONS, &note));
    CHECK(strcmp(address, note.client) == 0 && note.text[0] == 0);
    CHECK(!ss_server_take_refusal(server, SS_TRANSPORT_HTTP, SS_REFUSAL_CONNECTIONS, &note));
    close(first);
    for (;;) { /* once the server has seen the end of the first, there is room again */
        int fourth = dial(s.http_port);
        (void)!send(fourth, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL);
        bool is_served = hears(fourth, ANSWER);
        close(fourth);
        if (is_served) {
            break;
        }
    }
    close(second);
    finish(&s, server);
}

/* A peer that sends and sends, and reads nothing, is not read from; once it reads, every answer comes. */
static void test_peer_that_does_not_read(void) {
    setup s;
    prepare(&s, 1);
    ss_server *server = start(&s);
    int fd = dial(s.http_port);
    CHECK_EQUAL(0, fcntl(fd, F_SETFL, O_NONBLOCK));
    size_t sent = 0;
    const size_t most = 512u << 20;
    for (struct pollfd p = {.fd = fd, .events = POLLOUT}; sent < most && poll(&p, 1, 300) == 1;) {
        size_t offset = sent % (sizeof REQUEST - 1);
        ssize_t n = send(fd, REQUEST + offset, sizeof REQUEST - 1 - offset, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
        }
    }
    CHECK(sent < most);
    size_t whole = sent / (sizeof REQUEST - 1);
    size_t expected = whole * (sizeof ANSWER - 1), got = 0;
    char buffer[65536];
    while (got < expected && readable(fd, PATIENCE_MS)) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        CHECK(n > 0);
        got += n > 0 ? (size_t)n : expected;
    }
    CHECK_EQUAL(expected, got);
    CHECK_EQUAL(whole, s.receiver.n_accepted);
    close(fd);
    finish(&s, server);
}

/* How much waits in the kernel is the test's choice here, and little: a client that never reads has the server stuck
 * long before it has answered all. */
static void keep_kernel_buffers_small(int listener) {
    const int least = 1;
    CHECK_EQUAL(0, setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &least, sizeof least));
}

/* Send more than the server can answer without being read from. */
static int dial_and_stuff(uint16_t port) {
    enum { LENGTH = 256 * 1024 };
    const int least = 1, length = LENGTH;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(0, setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least));
    CHECK_EQUAL(0, setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &length, sizeof length));
    connect_local(fd, port);
    CHECK_EQUAL(0, fcntl(fd, F_SETFL, O_NONBLOCK));
    while (send(fd, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL) > 0) {
    }
    return fd;
}

/* What clients that never read make the server hold is little, and counted; they are given up after a while, or once
 * they hold more than all may. */
static void test_clients_that_never_read(void) {
    enum { N = 8, MOST = N * (SS_READ_BYTES + 64 * 1024) };
    setup s;
    prepare(&s, 2);
    keep_kernel_buffers_small(s.fds[1]);
    ss_server *server = start(&s);
    int fds[N];
    fds[0] = dial(s.http_port);
    say(fds[0], REQUEST);
    CHECK(hears(fds[0], ANSWER));
    uint64_t alone = ss_runtime_in_flight_bytes(s.runtime); /* of a connection that holds nothing else */
    close(fds[0]);
    for (int i = 0; i < N; i++) {
        fds[i] = dial_and_stuff(s.http_port);
    }
    uint64_t held = 0;
    for (int waited_ms = 0; waited_ms < PATIENCE_MS && held <= N * alone; waited_ms += 10) {
        (void)poll(NULL, 0, 10);
        held = ss_runtime_in_flight_bytes(s.runtime);
        CHECK(held < MOST);
    }
    CHECK(held > N * alone);
    ss_server_free(server);
    CHECK_EQUAL(0, ss_runtime_in_flight_bytes(s.runtime));
    for (int i = 0; i < N; i++) {
        close(fds[i]);
    }
    s.listeners[1].write_timeout_ns = second_ns / 10;
    server = start(&s);
    for (int i = 0; i < N; i++) {
        fds[i] = dial_and_stuff(s.http_port);
    }
    for (int waited_ms = 0;
         waited_ms < PATIENCE_MS && stats_of(server).refused[SS_TRANSPORT_HTTP][SS_REFUSAL_TIMEOUT] < N;
         waited_ms += 10) {
        (void)poll(NULL, 0, 10); /* who reads meanwhile is not given up */
    }
    CHECK_EQUAL(N, stats_of(server).refused[SS_TRANSPORT_HTTP][SS_REFUSAL_TIMEOUT]);
    for (int i = 0; i < N; i++) {
        CHECK(hears_end(fds[i]));
        close(fds[i]);
    }
    ss_server_free(server);
    s.listeners[1].write_timeout_ns = 0;
    s.config.max_held_bytes = 2; /* as good as nothing, and a connection is taken: half of it is free */
    server = start(&s);
    int fd = dial_and_stuff(s.http_port);
    CHECK(hears_end(fd));
    CHECK(stats_of(server).refused[SS_TRANSPORT_HTTP][SS_REFUSAL_MEMORY] > 0);
    close(fd);
    fd = dial(s.http_port);
    say(fd, REQUEST);
    CHECK(hears(fd, ANSWER));
    close(fd);
    finish(&s, server);
}

/* Connections leave some of the process's descriptors for others. */
static void test_descriptors_are_kept(void) {
    enum { ALL = 100, N = 60 };
    struct rlimit before;
    CHECK_EQUAL(0, getrlimit(RLIMIT_NOFILE, &before));
    const struct rlimit few = {.rlim_cur = ALL, .rlim_max = before.rlim_max};
    CHECK_EQUAL(0, setrlimit(RLIMIT_NOFILE, &few));
    setup s;
    prepare(&s, 2);
    ss_server *server = start(&s);
    int fds[N], n = 0;
    while (n < N && stats_of(server).refused[SS_TRANSPORT_HTTP][SS_REFUSAL_DESCRIPTORS] == 0) {
        fds[n] = dial(s.http_port);
        say(fds[n], REQUEST);
        (void)readable(fds[n], PATIENCE_MS);
        n++;
    }
    CHECK(n > 10 && n < N);
    CHECK(hears_end(fds[n - 1]));
    for (int i = 0; i < 5; i++) { /* the pages use them, too */
        fds[n++] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        CHECK(fds[n - 1] >= 0);
    }
    ss_refusal_note note;
    CHECK(ss_server_take_refusal(server, SS_TRANSPORT_HTTP, SS_REFUSAL_DESCRIPTORS, &note));
    CHECK(note.client[0]);
    while (n) {
        close(fds[--n]);
    }
    finish(&s, server);
    CHECK_EQUAL(before.rlim_max == RLIM_INFINITY ? 0 : before.rlim_max, ss_raise_descriptor_limit());
    CHECK_EQUAL(0, setrlimit(RLIMIT_NOFILE, &before));
}

static void test_timeouts(void) {
    setup s;
    prepare(&s, 1);
    s.listeners[1].read_timeout_ns = second_ns / 10;
    s.listeners[0].idle_timeout_ns = second_ns / 10;
    ss_server *server = start(&s);
    int slow = dial(s.http_port), idle = dial(s.grpc_port);
    say(slow, "POST /v1/tra");
    CHECK(hears(slow, "HTTP/1.1 408 Request Timeout\r\n"));
    CHECK(hears_end(slow));
    CHECK(hears_end(idle));
    close(slow);
    close(idle);
    finish(&s, server);
}

/* The end of an unfinished request's connection gives its memory back. */
static void test_disconnect_mid_body(void) {
    setup s;
    prepare(&s, 1);
    ss_server *server = start(&s);
    for (int i = 0; i < 20; i++) {
        int fd = dial(s.http_port);
        say(fd, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
                "500\r\n\r\n{\"resourc");
        close(fd);
    }
    CHECK_EQUAL(SS_OK, ss_server_shutdown(server, 10 * second_ns));
    CHECK_EQUAL(0, stats_of(server).connections_open);
    CHECK_EQUAL(0, s.receiver.n_accepted);
    finish(&s, server);
}

static void test_wrong_protocols(void) {
    setup s;
    prepare(&s, 1);
    ss_server *server = start(&s);
    int fd = dial(s.grpc_port);
    say(fd, "POST /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(hears(fd, "HTTP/1.1 400 Bad Request\r\n"));
    CHECK(hears_end(fd));
    close(fd);
    fd = dial(s.http_port);
    say(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    CHECK(hears_end(fd));
    close(fd);
    CHECK_EQUAL(1, stats_of(server).misdirected[SS_TRANSPORT_GRPC][SS_STRANGER_HTTP1]);
    CHECK_EQUAL(1, stats_of(server).misdirected[SS_TRANSPORT_HTTP][SS_STRANGER_HTTP2]);
    CHECK_EQUAL(2, stats_of(server).protocol_errors);
    finish(&s, server);
}

/* ------------------------------------------------------------------ admin */

static void *serve_admin(void *argument) {
    ss_server *server = argument;
    int n_replies = 0;
    while (n_replies < 20 && readable(ss_server_request_fd(server), PATIENCE_MS)) {
        ss_admin_request request;
        while (ss_server_next_request(server, &request) == SS_OK) {
            CHECK(strcmp("GET", request.method) == 0 && strcmp("/metrics", request.path) == 0);
            CHECK_EQUAL(SS_OK, ss_server_reply(server, request.token, 200, "text/plain", (const uint8_t *)"up 1\n", 5));
            n_replies++;
        }
    }
    return NULL;
}

static void test_admin(void) {
    setup s;
    prepare(&s, 3);
    ss_server *server = start(&s);
    ss_admin_request request;
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_server_next_request(server, &request));
    CHECK(!readable(ss_server_request_fd(server), 0));
    pthread_t thread;
    pthread_create(&thread, NULL, serve_admin, server);
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = dial(s.admin_port);
    }
    for (int i = 0; i < 20; i++) {
        say(fds[i % 4], "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK(hears(fds[i % 4], "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nup 1\n"));
    }
    pthread_join(thread, NULL);
    say(fds[0], "GET /gone HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(readable(ss_server_request_fd(server), PATIENCE_MS));
    CHECK_EQUAL(SS_OK, ss_server_next_request(server, &request));
    close(fds[0]);
    CHECK_EQUAL(SS_OK, ss_server_reply(server, request.token, 200, "text/plain", (const uint8_t *)"", 0));
    CHECK_EQUAL(SS_OK, ss_server_reply(server, 12345 << 8, 200, "text/plain", (const uint8_t *)"", 0));
    CHECK_EQUAL(SS_ERR_ARGUMENT, ss_server_reply(server, 255, 200, "text/plain", (const uint8_t *)"", 0));
    CHECK_EQUAL(SS_ERR_ARGUMENT, ss_server_reply(server, request.token, 99, "text/plain", (const uint8_t *)"", 0));
    CHECK_EQUAL(SS_ERR_ARGUMENT, ss_server_reply(server, request.token, 200, "a\r\nb", (const uint8_t *)"", 0));
    for (int i = 1; i < 4; i++) {
        close(fds[i]);
    }
    finish(&s, server);
}

/* ------------------------------------------------------------------ shutdown and reload */

typedef struct shutdown_call {
    ss_server *server;
    ss_status status;
} shutdown_call;

static void *shut_down(void *argument) {
    shutdown_call *call = argument;
    call->status = ss_server_shutdown(call->server, 10 * second_ns);
    return NULL;
}

static void test_shutdown_finishes_what_is_in_flight(void) {
    setup s;
    prepare(&s, 2);
    ss_server *server = start(&s);
    int idle = dial(s.http_port), busy = dial(s.http_port);
    say(idle, REQUEST);
    CHECK(hears(idle, ANSWER));
    say(busy, REQUEST
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 5\r\n\r\nhe");
    CHECK(hears(busy, ANSWER));
    shutdown_call call = {.server = server};
    pthread_t thread;
    pthread_create(&thread, NULL, shut_down, &call);
    CHECK(hears_end(idle)); /* the drain has begun */
    say(busy, "llo");
    CHECK(hears(busy, "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nConnection: close\r\n"));
    CHECK(hears_end(busy));
    close(busy);
    close(idle);
    pthread_join(thread, NULL);
    CHECK_EQUAL(SS_OK, call.status);
    CHECK_EQUAL(3, s.receiver.n_accepted);
    finish(&s, server);
}

static void test_shutdown_ends_at_its_deadline(void) {
    setup s;
    prepare(&s, 2);
    ss_server *server = start(&s);
    int fd = dial(s.http_port);
    say(fd, REQUEST "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n");
    CHECK(hears(fd, ANSWER));
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_server_shutdown(server, second_ns / 10));
    CHECK(hears_end(fd));
    close(fd);
    finish(&s, server);
}

static void prepare_to_wait(setup *s) {
    prepare(s, 1);
    s->receiver.counter = ss_receiver_new(NULL, SS_INVALID_REJECT_ITEM);
    cancelling = &s->receiver;
}

static void finish_waiting(setup *s, ss_server *server) {
    finish(s, server);
    ss_receiver_free(s->receiver.counter);
}

/* An answer goes to who asked: in the order of the requests, to nobody where the client or the server has gone. */
static void test_answers_that_come_later(void) {
    const ss_verdict good = {0};
    setup s;
    prepare_to_wait(&s);
    receiver *r = &s.receiver;
    ss_server *server = start(&s);
    int gone = dial(s.http_port);
    say(gone, REQUEST);
    wait_for(&r->n_accepted, 1);
    close(gone);
    wait_for(&r->n_cancelled, 1);
    int patient = dial(s.http_port);
    say(patient, REQUEST REQUEST);
    wait_for(&r->n_accepted, 2);
    ss_promise_tell(&r->pledges[0], &good);
    CHECK(!readable(patient, 50)); /* the answer was another's */
    CHECK_EQUAL(2, __atomic_load_n(&r->n_accepted, __ATOMIC_ACQUIRE));
    ss_promise_tell(&r->pledges[1], &good);
    CHECK(hears(patient, ANSWER));
    wait_for(&r->n_accepted, 3);
    CHECK_EQUAL(1, __atomic_load_n(&r->n_cancelled, __ATOMIC_ACQUIRE));
    CHECK_EQUAL(SS_ERR_TIMEOUT, ss_server_shutdown(server, second_ns / 10));
    CHECK_EQUAL(2, __atomic_load_n(&r->n_cancelled, __ATOMIC_ACQUIRE));
    CHECK(hears_end(patient));
    close(patient);
    ss_promise_tell(&r->pledges[2], &good); /* to nobody: its loop has ended */
    finish_waiting(&s, server);
}

static size_t put_frame(uint8_t *out, uint8_t type, uint8_t flags, uint8_t stream, const void *payload, size_t length) {
    const uint8_t head[9] = {0, (uint8_t)(length >> 8), (uint8_t)length, type, flags, 0, 0, 0, stream};
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, payload, length);
    return sizeof head + length;
}

static size_t put_header(uint8_t *out, const char *name, const char *value) {
    return (size_t)sprintf((char *)out, "%c%c%s%c%s", 16, (int)strlen(name), name, (int)strlen(value), value);
}

/* A gRPC request of 5 bytes. */
static size_t put_call(uint8_t *out, uint8_t stream) {
    uint8_t headers[512];
    size_t n = put_header(headers, ":method", "POST");
    n += put_header(headers + n, ":scheme", "http");
    n += put_header(headers + n, ":path", "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    n += put_header(headers + n, ":authority", "x");
    n += put_header(headers + n, "content-type", "application/grpc");
    n += put_header(headers + n, "te", "trailers");
    n = put_frame(out, 1, 4, stream, headers, n);
    return n + put_frame(out + n, 0, 1, stream, "\0\0\0\0\5hello", 10);
}

/* How many of the answers of gRPC end in what one call of send() wrote. */
static int count_ends(const uint8_t *bytes, ssize_t length) {
    int n_ends = 0;
    for (ssize_t at = 0; at + 9 <= length; at += 9 + bytes[at + 1] * 256 + bytes[at + 2]) {
        n_ends += bytes[at + 3] == 1 && (bytes[at + 4] & 1);
    }
    return n_ends;
}

/* Start with a unix socket of this type as the first listener, *fd, and connect *peer to it. */
static ss_server *start_at_unix_socket(setup *s, int type, int *fd, int *peer) {
    struct sockaddr_un address = {.sun_family = AF_UNIX}; /* an abstract name, chosen by the kernel */
    socklen_t size = sizeof address;
    *fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(0, bind(*fd, (struct sockaddr *)&address, sizeof(sa_family_t)));
    CHECK_EQUAL(0, listen(*fd, 8));
    CHECK_EQUAL(0, getsockname(*fd, (struct sockaddr *)&address, &size));
    s->listeners[0].fd = *fd;
    ss_server *server = start(s);
    *peer = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(0, connect(*peer, (struct sockaddr *)&address, size));
    return server;
}

/* Answers to one connection that come at once cost one call of send(), which is one record here. */
static void test_answers_that_come_at_once(void) {
    enum { N_TOLD = WAITING_MAX - 1 };
    setup s;
    prepare_to_wait(&s);
    receiver *r = &s.receiver;
    r->stops_at = WAITING_MAX;
    int fd, peer;
    ss_server *server = start_at_unix_socket(&s, SOCK_SEQPACKET, &fd, &peer);
    uint8_t bytes[4096] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    size_t n = 24 + put_frame(bytes + 24, 4, 0, 0, "", 0);
    for (int i = 0; i < WAITING_MAX; i++) {
        n += put_call(bytes + n, (uint8_t)(2 * i + 1));
    }
    CHECK_EQUAL((ssize_t)n, send(peer, bytes, n, MSG_NOSIGNAL));
    wait_for(&r->n_accepted, WAITING_MAX);
    for (int i = 0; i < N_TOLD; i++) {
        ss_promise_tell(&r->pledges[i], &(ss_verdict){0});
    }
    __atomic_store_n(&r->is_free, 1, __ATOMIC_RELEASE);
    int n_ends = 0;
    while (!n_ends && readable(peer, PATIENCE_MS)) {
        n_ends = count_ends(bytes, recv(peer, bytes, sizeof bytes, 0));
    }
    CHECK_EQUAL(N_TOLD, n_ends);
    ss_promise_tell(&r->pledges[N_TOLD], &(ss_verdict){0});
    close(peer);
    close(fd);
    finish_waiting(&s, server);
}

/* Who goes while a request waits is noticed at once: a reset, an end, half of one, which is still told the outcome. */
static void test_clients_that_go(void) {
    static const ss_verdict late = {.code = SS_CODE_CANCELLED};
    setup s;
    prepare_to_wait(&s);
    receiver *r = &s.receiver;
    ss_server *server = start(&s);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = dial(s.http_port);
        say(fds[i], REQUEST);
        wait_for(&r->n_accepted, (uint64_t)i + 1);
    }
    CHECK_EQUAL(0, setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)));
    close(fds[0]);
    wait_for(&r->n_cancelled, 1);
    close(fds[1]);
    wait_for(&r->n_cancelled, 2);
    shutdown(fds[2], SHUT_WR);
    wait_for(&r->n_cancelled, 3);
    for (int i = 0; i < 3; i++) {
        ss_promise_tell(&r->pledges[i], &late);
    }
    CHECK(hears(fds[2], "HTTP/1.1 503 "));
    CHECK(hears_end(fds[2]));
    CHECK_EQUAL(3, __atomic_load_n(&r->n_cancelled, __ATOMIC_ACQUIRE));
    close(fds[2]);
    finish_waiting(&s, server);
}

/* A reload: the next server listens on the same socket before the old one goes, and no connection is refused. */
static void test_two_servers_on_one_socket(void) {
    setup s;
    prepare(&s, 2);
    ss_server *old = start(&s);
    int before = dial(s.http_port);
    say(before, REQUEST);
    CHECK(hears(before, ANSWER));
    ss_server *new = start(&s);
    CHECK_EQUAL(SS_OK, ss_server_shutdown(old, 10 * second_ns));
    ss_server_free(old);
    CHECK(hears_end(before));
    close(before);
    for (int i = 0; i < 10; i++) {
        int fd = dial(s.http_port);
        say(fd, REQUEST);
        CHECK(hears(fd, ANSWER));
        close(fd);
    }
    finish(&s, new);
}

/* ------------------------------------------------------------------ gRPC bytes, unix socket, arguments */

static void test_grpc_over_a_unix_socket(void) {
    setup s;
    prepare(&s, 1);
    int fd, peer;
    ss_server *server = start_at_unix_socket(&s, SOCK_STREAM, &fd, &peer);
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    CHECK_EQUAL(33, send(peer, preface, 33, MSG_NOSIGNAL));
    uint8_t head[9];
    CHECK(readable(peer, PATIENCE_MS));
    CHECK_EQUAL(9, recv(peer, head, 9, MSG_WAITALL));
    CHECK_EQUAL(4, head[3]); /* SETTINGS */
    close(peer);
    close(fd);
    finish(&s, server);
}

static void test_arguments(void) {
    setup s;
    prepare(&s, 1);
    ss_error error = {0};
    ss_server_config config = s.config;
    config.n_listeners = 0;
    CHECK(ss_server_new(s.runtime, &config, &error) == NULL);
    CHECK_EQUAL(SS_ERR_ARGUMENT, error.code);
    config = s.config;
    config.accept = NULL;
    CHECK(ss_server_new(s.runtime, &config, &error) == NULL);
    s.listeners[0].fd = -1;
    CHECK(ss_server_new(s.runtime, &s.config, &error) == NULL);
    CHECK_EQUAL(SS_ERR_ARGUMENT, error.code);
    s.listeners[0].fd = s.fds[0];
    s.listeners[0].is_admin = true;
    CHECK(ss_server_new(s.runtime, &s.config, &error) == NULL);
    s.listeners[0].is_admin = false;
    s.config.n_event_loops = 257;
    CHECK(ss_server_new(s.runtime, &s.config, &error) == NULL);
    s.config.n_event_loops = 0;
    s.config.n_listeners = 2;
    ss_server *server = start(&s);
    CHECK_EQUAL(-1, ss_server_request_fd(server));
    finish(&s, server);
    ss_server_free(NULL);
}

int main(void) {
    test_many_clients();
    test_large_body();
    test_max_connections();
    test_peer_that_does_not_read();
    test_clients_that_never_read();
    test_descriptors_are_kept();
    test_timeouts();
    test_disconnect_mid_body();
    test_wrong_protocols();
    test_admin();
    test_shutdown_finishes_what_is_in_flight();
    test_shutdown_ends_at_its_deadline();
    test_answers_that_come_later();
    test_answers_that_come_at_once();
    test_clients_that_go();
    test_two_servers_on_one_socket();
    test_grpc_over_a_unix_socket();
    test_arguments();
    return check_finish();
}
