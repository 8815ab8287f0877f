/*
 * Level-triggered epoll: one wait, one read and one write for a request that fits. A connection whose output does not
 * fit into its socket is only written to until it does, so that a peer which does not read is not read from.
 *
 * The first loop accepts and deals connections out in turn. What other threads want of a loop (a new connection, a
 * reply, the end) goes through its inbox, a locked list with an eventfd.
 */
#define _GNU_SOURCE /* accept4 */
#include "net/loop.h"

#include "core/account.h"
#include "core/clock.h"
#include "net/refusal.h"
#include "net/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_AT_ONCE = 64,
    ACCEPTS_AT_ONCE = 64, /* so that a storm of connections does not starve those that are open */
    CLOSE_MS = 5000,      /* to write the last output */
    LINGER_MS = 1000,     /* then, for the peer to close */
    PAUSE_MS = 100,       /* without accepting, when file descriptors have run out */
    TICK_MAX_MS = 1000,
    TICK_MIN_MS = 10,
    TICKS_PER_TIMEOUT = 4,
    DRAIN_TICK_MS = 20,
    HANDSHAKE_MS = 10000, /* by default */
    /* What connections are counted as that hold nothing else. The resident set grows by less with each that is idle. */
    HTTP1_BYTES = 4 * 1024,  /* 2 KiB */
    HTTP2_BYTES = 32 * 1024, /* 16 KiB, and the first streams that it has, see http2.c */
    TLS_BYTES = 48 * 1024,   /* 18 to 28 KiB, and a record of which half has come */
    OPENED_BYTES = SS_READ_BYTES + SS_TLS_CARRY_BYTES
};

_Static_assert(2 * SS_KEPT_OUTPUT_BYTES <= HTTP1_BYTES, "what an idle connection keeps is in what it is counted as");

static const uint64_t ms_ns = 1000000;

typedef enum letter_kind { LETTER_CONNECTION, LETTER_REPLY, LETTER_VERDICT } letter_kind;

typedef struct letter {
    ss_reply reply; /* LETTER_VERDICT; first */
    struct letter *next;
    letter_kind kind;
    int fd; /* LETTER_CONNECTION; else -1 */
    ss_listener *listener;
    uint64_t token; /* LETTER_REPLY */
    int http_status;
    char content_type[128];
    ss_buffer body;
    struct postbox *postbox; /* LETTER_VERDICT */
    ss_verdict verdict;
} letter;

/* Outlives its loop while someone may still write to it. */
typedef struct postbox {
    uint64_t n_holders;   /* atomic */
    int wake_fd;          /* the holders' */
    pthread_mutex_t lock; /* guards what follows */
    letter *first, *last;
} postbox;

struct ss_loop {
    ss_scratch scratch;
    ss_listener *listeners;
    size_t n_listeners;
    ss_loop *const *peers;
    size_t n_peers;
    size_t next_peer;
    int epoll_fd;
    postbox *inbox;
    ss_connection *answered; /* while the inbox is read: those that answers were for */
    pthread_t thread;
    bool is_started;
    bool is_draining;
    bool was_cut;          /* connections were ended by the deadline */
    bool listeners_paused; /* no file descriptors left: accept again at the next tick */
    uint64_t tick_ns;      /* interval */
    uint64_t next_tick_ns;
    ss_connection *connections;
    ss_connection *dead;
    uint64_t stop_ns; /* atomic: deadline of the drain; 0: run */
    uint8_t *read_buffer;
    uint8_t *opened; /* what was read, without TLS; made for the first connection that has it */
};

/* ------------------------------------------------------------------ connections */

/* Nothing more comes from or goes to the protocol; what is in output is still to be sent. */
static void close_soon(ss_loop *loop, ss_connection *c) {
    if (c->state == SS_CONNECTION_OPEN) {
        c->state = SS_CONNECTION_CLOSING;
        c->close_by_ns = loop->scratch.now_ns + CLOSE_MS * ms_ns;
    }
}

static size_t base_bytes(const ss_listener *listener) {
    size_t bytes = listener->config.transport == SS_TRANSPORT_GRPC ? HTTP2_BYTES : HTTP1_BYTES;
    return bytes + (listener->config.tls ? TLS_BYTES : 0);
}

/* A connection of listener is over. */
static void check_out(ss_loop *loop, ss_listener *listener) {
    __atomic_fetch_sub(&listener->n_connections, 1, __ATOMIC_RELAXED);
    ss_release_bytes(&loop->scratch, base_bytes(listener));
}

/* What waits for the peer counts as held. */
static void count_output(ss_loop *loop, ss_connection *c, size_t bytes) {
    ss_release_bytes(&loop->scratch, c->counted_output);
    ss_count_bytes(&loop->scratch, bytes);
    c->counted_output = bytes;
}

static void kill_connection(ss_loop *loop, ss_connection *c) {
    if (c->state == SS_CONNECTION_DEAD) {
        return;
    }
    if (c->counted_output) {
        count_output(loop, c, 0);
    }
    c->state = SS_CONNECTION_DEAD;
    check_out(loop, c->listener); /* first: who sees the end finds the room that it leaves */
    close(c->fd);
    c->fd = -1;
    *(c->previous ? &c->previous->next : &loop->connections) = c->next;
    if (c->next) {
        c->next->previous = c->previous;
    }
    c->next = loop->dead; /* an event of this turn may still name it */
    loop->dead = c;
    ss_count(&loop->scratch.connections_closed, 1);
}

static void bury(ss_loop *loop) {
    for (ss_connection *c; (c = loop->dead);) {
        loop->dead = c->next;
        ss_buffer_free(&c->output);
        ss_tls_stream_free(c->tls);
        c->protocol->free(c);
        if (!loop->connections) {
            ss_scratch_trim(&loop->scratch); /* no tick comes until there is a connection again */
        }
    }
}

static void watch(ss_loop *loop, ss_connection *c, uint32_t events) {
    if (c->events == events) {
        return;
    }
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, c->fd, &event) != 0) {
        kill_connection(loop, c);
        return;
    }
    c->events = events;
}

/* Write what the socket takes; false: the connection is gone. */
static bool write_output(ss_loop *loop, ss_connection *c) {
    ss_buffer *output = &c->output;
    while (c->output_sent < output->length) {
        ssize_t n = send(c->fd, output->data + c->output_sent, output->length - c->output_sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN || errno == EWOULDBLOCK) {
                return true;
            }
            kill_connection(loop, c);
            return false;
        }
        ss_count(&loop->scratch.stats.bytes_written, (uint64_t)n);
        c->output_sent += (size_t)n;
    }
    c->output_sent = 0;
    c->output_sealed = 0;
    c->stuck_ns = 0;
    if (c->counted_output) {
        count_output(loop, c, 0);
    }
    if (output->capacity > SS_KEPT_OUTPUT_BYTES) {
        ss_buffer_free(output);
    }
    output->length = 0;
    return true;
}

static bool is_shaking_hands(const ss_connection *c) {
    return c->tls && !ss_tls_stream_is_ready(c->tls);
}

/* Seal what the protocol has appended to output, behind what TLS has to say for itself. */
static bool seal_output(ss_connection *c) {
    ss_buffer *output = &c->output, *sealed = ss_tls_stream_output(c->tls);
    size_t n_plain = output->length - c->output_sealed;
    if (n_plain && ss_tls_stream_write(c->tls, output->data + c->output_sealed, n_plain) != SS_OK) {
        return false;
    }
    if (c->state == SS_CONNECTION_CLOSING) {
        ss_tls_stream_end(c->tls);
    }
    output->length = c->output_sealed;
    ss_status status = ss_buffer_append(output, ss_bytes_of(sealed), sealed->length);
    c->output_sealed = output->length;
    sealed->length = 0;
    if (sealed->capacity > SS_KEPT_OUTPUT_BYTES) {
        ss_buffer_free(sealed);
    }
    return status == SS_OK;
}

/* The peer has not taken all: it is waited for, but not for ever, and not where memory is short. */
static void wait_for_peer(ss_loop *loop, ss_connection *c) {
    c->stuck_ns = c->stuck_ns ? c->stuck_ns : loop->scratch.now_ns;
    if (c->counted_output != c->output.capacity) {
        count_output(loop, c, c->output.capacity);
        if (!ss_hold_bytes(&loop->scratch, 0)) {
            ss_refuse_request(c, SS_REFUSAL_MEMORY, "an answer that is not taken");
            kill_connection(loop, c);
            return;
        }
    }
    watch(loop, c, EPOLLOUT);
}

/* After anything happened on a connection: send what there is to send, and wait for what is to come. */
static void advance(ss_loop *loop, ss_connection *c) {
    do { /* again where an answer that has gone makes room for the next */
        if (c->state == SS_CONNECTION_OPEN && !is_shaking_hands(c) && !c->protocol->produce(c)) {
            close_soon(loop, c);
        }
        if (c->tls && !seal_output(c)) {
            kill_connection(loop, c);
        }
        if (c->state == SS_CONNECTION_DEAD || !write_output(loop, c)) {
            return;
        }
        if (c->output.length > 0) {
            wait_for_peer(loop, c);
            return;
        }
    } while (c->has_more && c->state == SS_CONNECTION_OPEN);
    if (c->state == SS_CONNECTION_CLOSING) {
        c->state = SS_CONNECTION_LINGERING;
        c->close_by_ns = loop->scratch.now_ns + LINGER_MS * ms_ns;
        shutdown(c->fd, SHUT_WR);
    }
    uint32_t hang_up = c->has_hung_up ? 0 : EPOLLRDHUP;
    watch(loop, c, c->admin_token ? 0 : c->is_paused ? hang_up : EPOLLIN);
}

/* Who does not begin with a handshake record comes without TLS; over HTTP it is told so, as Go's servers do. */
static bool is_plain_text(ss_connection *c, const uint8_t *bytes) {
    static const char answer[] = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    enum { HANDSHAKE_RECORD = 22 };
    if (bytes[0] == HANDSHAKE_RECORD || c->has_read) {
        return false;
    }
    ss_count_stranger(c, SS_STRANGER_PLAIN);
    if (c->listener->config.transport == SS_TRANSPORT_HTTP &&
        ss_buffer_append(&c->output, (const uint8_t *)answer, sizeof answer - 1) == SS_OK) {
        c->output_sealed = c->output.length;
    }
    return true;
}

/* TLS has agreed on HTTP/2 for a connection that was made for HTTP/1.1, and has read nothing yet: the one that takes
 * its place; NULL: no memory. */
static ss_connection *become_http2(ss_loop *loop, ss_connection *c) {
    ss_connection *next = ss_http2_new(&loop->scratch, c->listener);
    if (!next) {
        return NULL;
    }
    next->output = c->output;
    next->output_sent = c->output_sent;
    next->output_sealed = c->output_sealed;
    next->fd = c->fd;
    next->tls = c->tls;
    next->has_read = c->has_read;
    next->handshake_by_ns = c->handshake_by_ns;
    next->stuck_ns = c->stuck_ns;
    next->counted_output = c->counted_output;
    next->events = c->events;
    next->state = c->state;
    next->previous = c->previous;
    next->next = c->next;
    *(next->previous ? &next->previous->next : &loop->connections) = next;
    if (next->next) {
        next->next->previous = next;
    }
    struct epoll_event event = {.events = next->events, .data.ptr = next};
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, next->fd, &event); /* cannot fail: no event is added */
    c->protocol->free(c);
    if (loop->is_draining) {
        (void)next->protocol->drain(next);
    }
    return next;
}

/* As a protocol's receive, for bytes of the read buffer that are sealed. *connection may be replaced. */
static bool receive_sealed(ss_loop *loop, ss_connection **connection, size_t length) {
    ss_connection *c = *connection;
    bool was_shaking_hands = is_shaking_hands(c);
    size_t n = 0;
    ss_status status = SS_ERR_IO;
    if (!is_plain_text(c, loop->read_buffer)) {
        c->has_read = true;
        status = ss_tls_stream_feed(c->tls, loop->read_buffer, length);
        if (status == SS_OK) {
            status = ss_tls_stream_read(c->tls, loop->opened, OPENED_BYTES, &n);
        }
    }
    if (status != SS_OK && was_shaking_hands && !n) {
        ss_count(&loop->scratch.stats.protocol_errors, 1);
    }
    if (was_shaking_hands && ss_tls_stream_has_http2(c->tls) && c->listener->config.transport == SS_TRANSPORT_HTTP) {
        *connection = become_http2(loop, c);
        if (!*connection) {
            *connection = c;
            return false;
        }
        c = *connection;
    }
    bool goes_on = n == 0 || c->protocol->receive(c, loop->opened, n);
    return status == SS_OK && goes_on;
}

/* *connection may be replaced. */
static void read_input(ss_loop *loop, ss_connection **connection) {
    ss_connection *c = *connection;
    ssize_t n;
    do {
        n = recv(c->fd, loop->read_buffer, SS_READ_BYTES, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return;
    }
    if (n <= 0) {
        kill_connection(loop, c);
        return;
    }
    ss_count(&loop->scratch.stats.bytes_read, (uint64_t)n);
    if (c->state != SS_CONNECTION_OPEN) {
        return;
    }
    if (!(c->tls ? receive_sealed(loop, connection, (size_t)n)
                 : c->protocol->receive(c, loop->read_buffer, (size_t)n))) {
        close_soon(loop, *connection);
    }
}

static void on_connection(ss_loop *loop, ss_connection *c, uint32_t events) {
    if (c->state == SS_CONNECTION_DEAD) {
        return;
    }
    if (events & (EPOLLERR | EPOLLHUP)) {
        kill_connection(loop, c);
        return;
    }
    if (events & EPOLLIN) {
        read_input(loop, &c);
    } else if (events & EPOLLRDHUP && c->is_paused) { /* else its answer has come in the same turn */
        c->has_hung_up = true;
        if (c->protocol->hang_up) {
            c->protocol->hang_up(c);
        }
    }
    if (c->state != SS_CONNECTION_DEAD) {
        advance(loop, c);
    }
}

/* End a connection that has nothing to finish. */
static void dismiss(ss_loop *loop, ss_connection *c) {
    if (c->tls) {
        close_soon(loop, c);
        (void)(seal_output(c) && write_output(loop, c)); /* goodbye, as far as it goes */
    }
    kill_connection(loop, c);
}

static void start_drain(ss_loop *loop, ss_connection *c) {
    if (c->state == SS_CONNECTION_OPEN && (is_shaking_hands(c) || !c->protocol->drain(c))) {
        dismiss(loop, c);
        return;
    }
    if (c->state == SS_CONNECTION_OPEN) {
        advance(loop, c);
    }
}

static bool secure(ss_loop *loop, ss_connection *c) {
    uint64_t limit_ns = c->listener->config.handshake_timeout_ns;
    c->handshake_by_ns = loop->scratch.now_ns + (limit_ns ? limit_ns : HANDSHAKE_MS * ms_ns);
    loop->opened = loop->opened ? loop->opened : malloc(OPENED_BYTES);
    c->tls = loop->opened ? ss_tls_stream_new(c->listener->config.tls) : NULL;
    return c->tls;
}

/* Take over fd, whether it works or not. */
static void adopt(ss_loop *loop, int fd, ss_listener *listener) {
    ss_scratch *scratch = &loop->scratch;
    ss_connection *c = listener->config.transport == SS_TRANSPORT_GRPC ? ss_http2_new(scratch, listener)
                                                                       : ss_http1_new(scratch, listener);
    if (c && listener->config.tls && !secure(loop, c)) {
        ss_buffer_free(&c->output);
        c->protocol->free(c);
        c = NULL;
    }
    if (!c) {
        close(fd);
        check_out(loop, listener);
        return;
    }
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* a unix socket has none, and needs none */
    if (listener->config.ping_after_ns) { /* a peer that is gone is not sent to for longer than it is waited for */
        uint64_t timeout_ms = listener->config.ping_timeout_ns / ms_ns;
        unsigned timeout = timeout_ms > INT32_MAX ? INT32_MAX : (unsigned)timeout_ms;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    }
    c->fd = fd;
    c->events = EPOLLIN;
    c->next = loop->connections;
    if (c->next) {
        c->next->previous = c;
    }
    if (!loop->connections) {
        loop->next_tick_ns = scratch->now_ns + loop->tick_ns;
    }
    loop->connections = c;
    ss_count(&scratch->stats.connections_opened, 1);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        kill_connection(loop, c);
    } else if (loop->is_draining) {
        start_drain(loop, c);
    }
}

/* ------------------------------------------------------------------ listeners */

static bool is_listener(const ss_loop *loop, const void *source) {
    for (size_t i = 0; loop->peers && i < loop->n_listeners; i++) {
        if (source == &loop->listeners[i]) {
            return true;
        }
    }
    return false;
}

static void watch_listeners(ss_loop *loop, int operation) {
    for (size_t i = 0; loop->peers && i < loop->n_listeners; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &loop->listeners[i]};
        (void)epoll_ctl(loop->epoll_fd, operation, loop->listeners[i].config.fd, &event);
    }
}

static void wake(postbox *box) {
    uint64_t one = 1;
    (void)!write(box->wake_fd, &one, sizeof one);
}

/* Who finds letters there need not wake the loop: who brought the first of them does. */
static void post(postbox *box, letter *l) {
    pthread_mutex_lock(&box->lock);
    bool is_first = !box->first;
    *(box->last ? &box->last->next : &box->first) = l;
    box->last = l;
    pthread_mutex_unlock(&box->lock);
    if (is_first) {
        wake(box);
    }
}

static void deal_out(ss_loop *loop, int fd, ss_listener *listener) {
    ss_loop *peer = loop->peers[loop->next_peer];
    loop->next_peer = (loop->next_peer + 1) % loop->n_peers;
    letter *l = peer == loop ? NULL : calloc(1, sizeof *l);
    if (!l) {
        adopt(loop, fd, listener);
        return;
    }
    l->kind = LETTER_CONNECTION;
    l->fd = fd;
    l->listener = listener;
    post(peer->inbox, l);
}

/* By themselves, connections may use half of what there is: who finds memory short is answered so, and comes again,
 * but too many idle ones would leave no room for anything else. */
static bool has_room_for_connections(const ss_loop *loop) {
    const ss_service *service = loop->scratch.service;
    uint64_t bytes = 0, most = ss_runtime_limit(service->runtime);
    if (service->max_held_bytes && service->max_held_bytes < most) {
        most = service->max_held_bytes;
    }
    for (size_t i = 0; i < loop->n_listeners; i++) {
        bytes += __atomic_load_n(&loop->listeners[i].n_connections, __ATOMIC_RELAXED) * base_bytes(&loop->listeners[i]);
    }
    return bytes < most / 2;
}

/* Count a connection in; false: it is not taken. */
static bool check_in(ss_loop *loop, ss_listener *listener, int fd) {
    ss_scratch *scratch = &loop->scratch;
    const ss_listener_config *config = &listener->config;
    ss_refusal refusal = SS_N_REFUSALS;
    if (config->max_connections &&
        __atomic_load_n(&listener->n_connections, __ATOMIC_RELAXED) >= config->max_connections) {
        refusal = SS_REFUSAL_CONNECTIONS;
    } else if (scratch->service->max_fd &&
               fd >= scratch->service->max_fd) { /* the system gives the lowest that is free */
        refusal = SS_REFUSAL_DESCRIPTORS;
    } else if (!has_room_for_connections(loop)) {
        refusal = SS_REFUSAL_CONNECTION_MEMORY;
    }
    if (refusal != SS_N_REFUSALS) {
        ss_refuse_connection(scratch, listener, refusal, fd);
        return false;
    }
    ss_count_bytes(scratch, base_bytes(listener));
    __atomic_fetch_add(&listener->n_connections, 1, __ATOMIC_RELAXED);
    return true;
}

static void accept_from(ss_loop *loop, ss_listener *listener) {
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int fd = accept4(listener->config.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                ss_refuse_connection(&loop->scratch, listener, SS_REFUSAL_DESCRIPTORS, -1);
                watch_listeners(loop, EPOLL_CTL_DEL);
                loop->listeners_paused = true;
                loop->next_tick_ns = loop->scratch.now_ns + PAUSE_MS * ms_ns;
            }
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            return;
        }
        if (check_in(loop, listener, fd)) {
            deal_out(loop, fd, listener);
        } else {
            close(fd);
        }
    }
}

/* Whoever waits already is taken, whoever comes later refused by the system: in its queue they would wait for nobody.
 * Never shutdown(): another server may listen on the same socket. */
static void close_listeners(ss_loop *loop) {
    watch_listeners(loop, EPOLL_CTL_DEL);
    for (size_t i = 0; loop->peers && i < loop->n_listeners; i++) {
        accept_from(loop, &loop->listeners[i]);
        close(loop->listeners[i].config.fd);
        loop->listeners[i].config.fd = -1;
    }
}

/* ------------------------------------------------------------------ inbox */

static void deliver_reply(ss_loop *loop, const letter *l) {
    for (ss_connection *c = loop->connections; c; c = c->next) {
        if (c->admin_token == l->token && c->state == SS_CONNECTION_OPEN) {
            if (!ss_http1_reply(c, l->http_status, l->content_type, l->body.data, l->body.length)) {
                close_soon(loop, c);
            }
            advance(loop, c);
            return;
        }
    }
}

static void deliver_verdict(ss_loop *loop, letter *l) {
    ss_connection *c = ss_reply_take(&l->reply);
    if (!c || c->state == SS_CONNECTION_DEAD) {
        return;
    }
    c->has_hung_up = false; /* who has is found out again by the next request, if there is one */
    if (c->state == SS_CONNECTION_OPEN && !c->protocol->answer(c, l->reply.stream, &l->verdict)) {
        close_soon(loop, c);
    }
    if (!c->is_answered) {
        c->is_answered = true;
        c->next_answered = loop->answered;
        loop->answered = c;
    }
}

/* Write all answers of a connection that have come at once by one call. */
static void advance_answered(ss_loop *loop) {
    for (ss_connection *c; (c = loop->answered);) {
        loop->answered = c->next_answered;
        c->is_answered = false;
        if (c->state != SS_CONNECTION_DEAD) {
            advance(loop, c);
        }
    }
}

static letter *take_letters(postbox *box) {
    pthread_mutex_lock(&box->lock);
    letter *first = box->first;
    box->first = box->last = NULL;
    pthread_mutex_unlock(&box->lock);
    return first;
}

static void letter_free(letter *l) {
    if (l->reply.promise) {
        ss_promise_release(l->reply.promise);
    }
    ss_buffer_free(&l->body);
    free(l);
}

static postbox *postbox_new(void) {
    postbox *box = calloc(1, sizeof *box);
    if (!box) {
        return NULL;
    }
    box->n_holders = 1;
    box->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (box->wake_fd < 0) {
        free(box);
        return NULL;
    }
    pthread_mutex_init(&box->lock, NULL);
    return box;
}

static void postbox_release(postbox *box) {
    if (__atomic_sub_fetch(&box->n_holders, 1, __ATOMIC_ACQ_REL) != 0) {
        return;
    }
    for (letter *l = take_letters(box), *next; l; l = next) { /* came after the end */
        next = l->next;
        if (l->fd >= 0) {
            close(l->fd);
        }
        letter_free(l);
    }
    close(box->wake_fd);
    pthread_mutex_destroy(&box->lock);
    free(box);
}

/* The letter is made now, so that the answer cannot fail for want of memory. */
static void *open_reply(ss_reply_route *route, ss_promise *promise) {
    letter *l = calloc(1, sizeof *l);
    if (l) {
        l->reply.promise = promise;
        l->kind = LETTER_VERDICT;
        l->fd = -1;
        l->postbox = route->context;
        __atomic_fetch_add(&l->postbox->n_holders, 1, __ATOMIC_RELAXED);
    }
    return l;
}

static void send_reply(void *slip, const ss_verdict *verdict) {
    letter *l = slip;
    postbox *box = l->postbox;
    l->verdict = *verdict;
    post(box, l);
    postbox_release(box);
}

static void read_inbox(ss_loop *loop) {
    uint64_t stop_ns = __atomic_load_n(&loop->stop_ns, __ATOMIC_ACQUIRE); /* first: what was posted before is taken */
    uint64_t count;
    (void)!read(loop->inbox->wake_fd, &count, sizeof count);
    for (letter *l = take_letters(loop->inbox), *next; l; l = next) {
        next = l->next;
        switch (l->kind) {
        case LETTER_CONNECTION: adopt(loop, l->fd, l->listener); break;
        case LETTER_REPLY: deliver_reply(loop, l); break;
        case LETTER_VERDICT: deliver_verdict(loop, l); break;
        }
        letter_free(l);
    }
    advance_answered(loop);
    if (stop_ns && !loop->is_draining) {
        close_listeners(loop);
        loop->is_draining = true;
        for (size_t i = 0; i < loop->n_peers; i++) {
            if (loop->peers[i] != loop) {
                ss_loop_stop(loop->peers[i], stop_ns); /* not before: they take what was dealt out to them */
            }
        }
        for (ss_connection *c = loop->connections, *after; c; c = after) {
            after = c->next;
            start_drain(loop, c);
        }
        loop->next_tick_ns = loop->scratch.now_ns + DRAIN_TICK_MS * ms_ns;
    }
}

/* ------------------------------------------------------------------ the loop */

static void tick_connection(ss_loop *loop, ss_connection *c) {
    uint64_t now = loop->scratch.now_ns;
    uint64_t write_ns = c->listener->config.write_timeout_ns;
    if (is_shaking_hands(c) && now >= c->handshake_by_ns) {
        kill_connection(loop, c);
    } else if (c->stuck_ns && write_ns && now - c->stuck_ns > write_ns) {
        ss_refuse_request(c, SS_REFUSAL_TIMEOUT, "an answer that is not taken");
        kill_connection(loop, c);
    } else if (c->state == SS_CONNECTION_OPEN) {
        if (!is_shaking_hands(c) && !c->protocol->tick(c)) {
            close_soon(loop, c);
        }
        advance(loop, c);
    } else if (now >= c->close_by_ns) {
        kill_connection(loop, c);
    }
}

static void tick(ss_loop *loop) {
    ss_scratch *scratch = &loop->scratch;
    uint64_t now = scratch->now_ns;
    loop->next_tick_ns = now + (loop->is_draining ? DRAIN_TICK_MS * ms_ns : loop->tick_ns);
    ss_scratch_trim(scratch);
    if (loop->listeners_paused && !loop->is_draining) {
        loop->listeners_paused = false;
        watch_listeners(loop, EPOLL_CTL_ADD);
    }
    for (ss_connection *c = loop->connections, *next; c; c = next) {
        next = c->next;
        tick_connection(loop, c);
    }
}

/* The tick of those that want it now. */
static void wake_connections(ss_loop *loop) {
    ss_scratch *scratch = &loop->scratch;
    scratch->wake_ns = UINT64_MAX;
    for (ss_connection *c = loop->connections, *next; c; c = next) {
        next = c->next;
        if (c->wake_ns <= scratch->now_ns) {
            c->wake_ns = UINT64_MAX;
            tick_connection(loop, c);
        } else if (c->wake_ns < scratch->wake_ns) {
            scratch->wake_ns = c->wake_ns;
        }
    }
}

static int wait_ms(const ss_loop *loop) {
    if (!loop->connections && !loop->listeners_paused && !loop->is_draining) {
        return -1;
    }
    uint64_t now = loop->scratch.now_ns, wake_ns = loop->scratch.wake_ns;
    uint64_t next_ns = loop->next_tick_ns < wake_ns ? loop->next_tick_ns : wake_ns;
    return next_ns > now ? (int)((next_ns - now) / ms_ns) + 1 : 0;
}

static bool is_over(ss_loop *loop) {
    if (!loop->is_draining) {
        return false;
    }
    if (!loop->connections) {
        return true;
    }
    loop->was_cut = loop->scratch.now_ns >= __atomic_load_n(&loop->stop_ns, __ATOMIC_RELAXED);
    return loop->was_cut;
}

static void *run(void *argument) {
    ss_loop *loop = argument;
    struct epoll_event events[EVENTS_AT_ONCE];
    loop->scratch.now_ns = ss_clock_ns();
    while (!is_over(loop)) {
        int n = epoll_wait(loop->epoll_fd, events, EVENTS_AT_ONCE, wait_ms(loop));
        loop->scratch.now_ns = ss_clock_ns();
        for (int i = 0; i < n; i++) {
            void *source = events[i].data.ptr;
            if (source == loop) {
                read_inbox(loop);
            } else if (is_listener(loop, source)) {
                accept_from(loop, source);
            } else {
                on_connection(loop, source, events[i].events);
            }
        }
        if (loop->scratch.now_ns >= loop->next_tick_ns) {
            tick(loop);
        }
        if (loop->scratch.now_ns >= loop->scratch.wake_ns) {
            wake_connections(loop);
        }
        bury(loop);
    }
    while (loop->connections) {
        kill_connection(loop, loop->connections);
    }
    bury(loop);
    return NULL;
}

static uint64_t tick_interval(const ss_listener *listeners, size_t n_listeners) {
    uint64_t interval = TICK_MAX_MS * ms_ns;
    for (size_t i = 0; i < n_listeners; i++) {
        const ss_listener_config *config = &listeners[i].config;
        const uint64_t timeouts[] = {config->idle_timeout_ns,  config->read_timeout_ns, config->header_timeout_ns,
                                     config->write_timeout_ns, config->max_age_ns,      config->max_age_grace_ns,
                                     config->ping_after_ns,    config->ping_timeout_ns, config->handshake_timeout_ns};
        for (size_t t = 0; t < sizeof timeouts / sizeof timeouts[0]; t++) {
            if (timeouts[t] && timeouts[t] / TICKS_PER_TIMEOUT < interval) {
                interval = timeouts[t] / TICKS_PER_TIMEOUT;
            }
        }
    }
    return interval < TICK_MIN_MS * ms_ns ? TICK_MIN_MS * ms_ns : interval;
}

ss_loop *ss_loop_new(ss_service *service, uint32_t index, ss_listener *listeners, size_t n_listeners) {
    ss_loop *loop = calloc(1, sizeof *loop);
    if (!loop) {
        return NULL;
    }
    loop->listeners = listeners;
    loop->n_listeners = n_listeners;
    loop->tick_ns = tick_interval(listeners, n_listeners);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->inbox = postbox_new();
    loop->read_buffer = malloc(SS_READ_BYTES);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = loop};
    if (ss_scratch_init(&loop->scratch, service, index) != SS_OK || !loop->read_buffer || loop->epoll_fd < 0 ||
        !loop->inbox || epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->inbox->wake_fd, &event) != 0) {
        ss_loop_free(loop);
        return NULL;
    }
    loop->scratch.route = (ss_reply_route){.open = open_reply, .send = send_reply, .context = loop->inbox};
    return loop;
}

void ss_loop_free(ss_loop *loop) {
    if (!loop) {
        return;
    }
    ss_scratch_release(&loop->scratch);
    if (loop->epoll_fd >= 0) {
        close(loop->epoll_fd);
    }
    if (loop->inbox) {
        postbox_release(loop->inbox);
    }
    free(loop->read_buffer);
    free(loop->opened);
    free(loop);
}

ss_status ss_loop_start(ss_loop *loop, ss_loop *const *peers, size_t n_peers) {
    loop->peers = peers;
    loop->n_peers = peers ? n_peers : 0;
    watch_listeners(loop, EPOLL_CTL_ADD);
    /* Signals belong to the threads of the host program. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&loop->thread, NULL, run, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    loop->is_started = result == 0;
    return loop->is_started ? SS_OK : SS_ERR_NO_MEMORY;
}

void ss_loop_stop(ss_loop *loop, uint64_t deadline_ns) {
    __atomic_store_n(&loop->stop_ns, deadline_ns ? deadline_ns : 1, __ATOMIC_RELEASE);
    wake(loop->inbox);
}

bool ss_loop_join(ss_loop *loop) {
    if (loop->is_started) {
        pthread_join(loop->thread, NULL);
        loop->is_started = false;
    }
    return !loop->was_cut;
}

ss_status ss_loop_reply(ss_loop *loop, uint64_t token, int http_status, const char *content_type, const uint8_t *body,
                        size_t length) {
    letter *l = calloc(1, sizeof *l);
    if (!l || ss_buffer_append(&l->body, body, length) != SS_OK) {
        free(l);
        return SS_ERR_NO_MEMORY;
    }
    l->kind = LETTER_REPLY;
    l->fd = -1;
    l->token = token;
    l->http_status = http_status;
    snprintf(l->content_type, sizeof l->content_type, "%s", content_type);
    post(loop->inbox, l);
    return SS_OK;
}

static uint64_t read_counter(const uint64_t *counter) {
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void ss_loop_read_stats(const ss_loop *loop, ss_server_stats *stats) {
    const ss_server_stats *own = &loop->scratch.stats;
    uint64_t closed = read_counter(&loop->scratch.connections_closed); /* first: never more than opened */
    uint64_t opened = read_counter(&own->connections_opened);
    stats->connections_opened += opened;
    stats->connections_open += opened - closed;
    stats->requests += read_counter(&own->requests);
    stats->bytes_read += read_counter(&own->bytes_read);
    stats->bytes_written += read_counter(&own->bytes_written);
    stats->protocol_errors += read_counter(&own->protocol_errors);
    for (size_t transport = 0; transport < SS_N_TRANSPORTS; transport++) {
        for (size_t i = 0; i < SS_N_REFUSALS; i++) {
            stats->refused[transport][i] += read_counter(&own->refused[transport][i]);
        }
        for (size_t i = 0; i < 4; i++) {
            stats->misdirected[transport][i] += read_counter(&own->misdirected[transport][i]);
        }
    }
}
