/*
 * spansieve-load: sends OTLP requests as fast as they are answered, or at a steady rate, and says how that went.
 *
 * One thread. Each turn it starts the calls that are due on channels that are free, writes, and waits for answers. In
 * a closed loop a call is always due; in an open loop at a fixed time, from which its latency counts even when it had
 * to wait for a free stream, so that a server that stalls is not asked less.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bodies.h"
#include "channel.h"
#include "core/clock.h"
#include "cpu.h"
#include "histogram.h"

enum {
    EVENTS_AT_ONCE = 64,
    READ_BYTES = 64 * 1024,
    TICK_MS = 100,     /* how soon a timeout or a lost connection is noticed */
    RETRY_TICK_MS = 1, /* the same while refused requests wait */
    RETRY_MS = 20,     /* from a refusal to the next try */
    RECONNECT_MS = 50, /* from a lost connection to the next try */
    CONNECT_MS = 2000,
    LATE_US = 1000,     /* sent so long after it was due: late */
    OVERSLEPT_US = 100, /* the same where a stream was free: that is our own fault */
    POLL_US = 100,      /* so long before a request is due, polling begins: longer than a sleeping core takes to wake */
    POLL_PERCENT = 40,  /* of all time at most: the rest is the sink's, which has the same core */
    CODES = 600,        /* gRPC codes and HTTP statuses are below */
    CHANNELS_MAX = 16384,
    MESSAGE_BYTES = 512
};

static const uint64_t ms_ns = 1000000, us_ns = 1000;
static const double second_ns = 1e9;

typedef struct load_options {
    char *host;
    uint16_t port;
    const char *authority;
    const char *bodies;
    ss_transport transport;
    ss_signal signal;
    ss_encoding encoding;
    size_t n_connections, n_streams;
    double duration_s, warm_up_s, timeout_s;
    uint64_t n_requests; /* 0: as many as the duration allows */
    double items_per_s;  /* 0: closed loop */
    uint64_t seed;
    bool keep_ids, retries, polls, logs_drain;
} load_options;

/* Of what was due after the warm-up, but for total_*. */
typedef struct load_counts {
    uint64_t requests, items, payload_bytes, ok, partial, rejected_items, ok_items, failed, retries;
    uint64_t late, overslept, unsent;
    uint64_t refused[CODES];
    uint64_t total_items, total_ok_items, total_answers;
} load_counts;

typedef struct load_engine {
    load_options options;
    load_target target;
    load_bodies bodies;
    ss_codec *codec;
    load_channel *channels;
    size_t n_channels, next_channel, n_connected;
    size_t n_running, n_retrying;
    int epoll_fd, timer_fd, signal_fd;
    uint64_t start_ns, measure_ns, end_ns; /* end_ns: UINT64_MAX with a number of requests */
    double due_ns;                         /* open loop: of the next request */
    uint64_t free_ns;                      /* open loop: when a due request last found a stream after it had to wait */
    uint64_t armed_ns;                     /* what the timer is set to; 0: nothing */
    uint64_t polled_ns;                    /* spent in vain looks for events */
    uint64_t quiet_ns;                     /* end of the last one, when nothing has happened since; else 0 */
    uint64_t n_started;                    /* after the warm-up */
    uint64_t connected_ns;                 /* when there was last a connection */
    bool is_blocked;                       /* a request is due, and no stream is free */
    bool is_stopped;                       /* nothing new is started */
    bool is_measuring;
    double cpu_before_s;
    uint64_t polled_before_ns;
    uint64_t written_before;
    load_counts counts;
    load_histogram latency, service; /* from when it was due; from when it was sent */
    uint8_t input[READ_BYTES];
} load_engine;

static uint64_t written_bytes(const load_engine *e) {
    uint64_t n = 0;
    for (size_t i = 0; i < e->n_channels; i++) {
        n += e->channels[i].n_written;
    }
    return n;
}

/* ------------------------------------------------------------------ answers */

static void make_idle(load_call *c) {
    c->next_idle = c->channel->idle;
    c->channel->idle = c;
}

static bool is_retryable(const load_engine *e, int code) {
    if (e->options.transport == SS_TRANSPORT_HTTP) {
        return code == 429 || (code >= 502 && code <= 504);
    }
    /* Source: OTLP specification, "Failures" of OTLP/gRPC; RESOURCE_EXHAUSTED only with RetryInfo, which a load does
     * not wait for. */
    return code == 1 || code == 4 || code == 10 || code == 11 || code == 14 || code == 15;
}

void engine_answered(load_engine *e, load_call *c, const load_outcome *outcome) {
    load_counts *n = &e->counts;
    uint64_t now = ss_clock_ns();
    uint64_t ok_items = outcome->rejected_items < c->body->n_items ? c->body->n_items - outcome->rejected_items : 0;
    n->total_answers += outcome->kind != OUTCOME_FAILED;
    if (outcome->kind == OUTCOME_OK) {
        n->total_ok_items += ok_items;
    }
    if (c->is_measured) {
        switch (outcome->kind) {
        case OUTCOME_OK:
            *(outcome->rejected_items ? &n->partial : &n->ok) += 1;
            n->rejected_items += outcome->rejected_items;
            n->ok_items += ok_items;
            histogram_add(&e->latency, now - c->due_ns);
            histogram_add(&e->service, now - c->sent_ns);
            break;
        case OUTCOME_REFUSED: n->refused[(unsigned)outcome->code < CODES ? outcome->code : CODES - 1]++; break;
        case OUTCOME_FAILED: n->failed++; break;
        }
    }
    c->is_running = false;
    c->channel->n_running--;
    e->n_running--;
    if (outcome->kind == OUTCOME_REFUSED && e->options.retries && is_retryable(e, outcome->code)) {
        c->retry_ns = now + RETRY_MS * ms_ns;
        e->n_retrying++;
    } else {
        make_idle(c);
    }
}

/* ------------------------------------------------------------------ channels */

static void watch(load_engine *e, load_channel *c, uint32_t events) {
    if (c->events == events) {
        return;
    }
    struct epoll_event event = {.events = events, .data.ptr = c};
    epoll_ctl(e->epoll_fd, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &event);
    c->events = events;
}

/* The connection is of no more use: its calls have failed. */
static void lose(load_engine *e, load_channel *c) {
    if (c->fd < 0) {
        return;
    }
    channel_disconnect(c);
    e->n_connected--;
    e->connected_ns = ss_clock_ns();
    c->retry_ns = e->connected_ns + RECONNECT_MS * ms_ns;
    const load_outcome failed = {.kind = OUTCOME_FAILED};
    for (size_t i = 0; i < c->n_calls; i++) {
        if (c->calls[i].is_running) {
            engine_answered(e, &c->calls[i], &failed);
        }
    }
}

static bool connect_channel(load_engine *e, load_channel *c, uint64_t timeout_ns, char *message) {
    c->is_touched = true;
    if (!channel_connect(c, timeout_ns, message, MESSAGE_BYTES)) {
        channel_disconnect(c);
        c->retry_ns = ss_clock_ns() + RECONNECT_MS * ms_ns;
        return false;
    }
    e->n_connected++;
    watch(e, c, EPOLLIN);
    return true;
}

/* Write what has come up, and wait for what is to come. */
static void advance(load_engine *e, load_channel *c) {
    if (c->fd < 0 || !c->is_touched) {
        return;
    }
    c->is_touched = false;
    if (!c->protocol->produce(c) || !channel_write(c) || (!c->n_running && !c->protocol->may_begin(c))) {
        lose(e, c);
        return;
    }
    watch(e, c, c->is_full ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void read_channel(load_engine *e, load_channel *c) {
    ssize_t n = recv(c->fd, e->input, sizeof e->input, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 || !c->protocol->receive(c, e->input, (size_t)n)) {
        lose(e, c);
    }
}

static void on_channel(load_engine *e, load_channel *c, uint32_t events) {
    if (c->fd < 0) {
        return; /* lost in this turn */
    }
    c->is_touched = true;
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        read_channel(e, c);
    }
}

/* ------------------------------------------------------------------ calls */

static void begin(load_engine *e, load_call *c) {
    load_channel *channel = c->channel;
    e->quiet_ns = 0;
    c->is_running = true;
    c->sent_ns = ss_clock_ns();
    channel->n_running++;
    channel->is_touched = true;
    e->n_running++;
    if (!channel->protocol->begin(channel, c)) {
        lose(e, channel);
    }
}

/* Give an idle call its next body. */
static bool prepare(load_engine *e, load_call *c, uint64_t due_ns) {
    if (c->body) {
        c->body->is_taken = false;
    }
    const load_body *body = c->body = bodies_take(&e->bodies, e->options.keep_ids);
    c->bytes = body->bytes;
    c->length = body->length;
    if (e->options.encoding != SS_ENCODING_IDENTITY) {
        c->packed.length = 0;
        if (ss_compress(e->codec, e->options.encoding, 1, body->bytes, body->length, &c->packed) != SS_OK) {
            return false;
        }
        c->bytes = c->packed.data;
        c->length = c->packed.length;
    }
    c->due_ns = due_ns;
    c->is_measured = due_ns >= e->measure_ns;
    e->counts.total_items += body->n_items;
    if (c->is_measured) {
        if (!e->is_measuring) {
            e->is_measuring = true;
            e->cpu_before_s = load_cpu_seconds();
            e->polled_before_ns = e->polled_ns;
            e->written_before = written_bytes(e);
        }
        e->n_started++;
        e->counts.requests++;
        e->counts.items += body->n_items;
        e->counts.payload_bytes += body->length;
    }
    return true;
}

/* What an earlier turn could not write may be of the very body that the next call changes. */
static bool may_begin(const load_channel *c) {
    return c->fd >= 0 && !c->is_full && c->protocol->may_begin(c);
}

/* A channel that can start a call now, each in its turn; NULL: none. */
static load_channel *free_channel(load_engine *e) {
    for (size_t i = 0; i < e->n_channels; i++) {
        load_channel *c = &e->channels[e->next_channel];
        e->next_channel = e->next_channel + 1 == e->n_channels ? 0 : e->next_channel + 1;
        if (c->idle && may_begin(c)) {
            return c;
        }
    }
    return NULL;
}

/* When the next request is due: in a closed loop now. */
static uint64_t next_due(const load_engine *e, uint64_t now) {
    return e->options.items_per_s > 0 ? (uint64_t)e->due_ns : now;
}

/* Open loop: the time that the rate gives a request. */
static double ns_of(const load_engine *e, const load_body *body) {
    return (double)body->n_items / e->options.items_per_s * second_ns;
}

static bool has_more(const load_engine *e, uint64_t due_ns) {
    bool is_enough = e->options.n_requests && e->n_started >= e->options.n_requests;
    return !e->is_stopped && !is_enough && due_ns < e->end_ns;
}

/* Open loop: a request has gone out, and the next one is due. */
static void note_sending(load_engine *e, const load_call *call) {
    uint64_t due_ns = call->due_ns;
    uint64_t could_ns = e->free_ns > due_ns ? e->free_ns : due_ns;
    e->due_ns += ns_of(e, call->body);
    if (call->is_measured) {
        e->counts.late += call->sent_ns - due_ns > LATE_US * us_ns;
        e->counts.overslept += call->sent_ns > could_ns + OVERSLEPT_US * us_ns;
    }
}

static void start_calls(load_engine *e) {
    uint64_t now = ss_clock_ns();
    for (;;) {
        uint64_t due_ns = next_due(e, now);
        if (due_ns > now || !has_more(e, due_ns)) {
            return;
        }
        load_channel *c = free_channel(e);
        if (!c) {
            e->is_blocked = true;
            return;
        }
        if (e->is_blocked) {
            e->is_blocked = false;
            e->free_ns = now;
        }
        load_call *call = c->idle;
        c->idle = call->next_idle;
        if (!prepare(e, call, due_ns)) {
            e->is_stopped = true;
            return;
        }
        begin(e, call);
        if (e->options.items_per_s > 0) {
            note_sending(e, call);
        } else {
            call->due_ns = call->sent_ns;
        }
        now = ss_clock_ns();
    }
}

static void start_retries(load_engine *e) {
    uint64_t now = ss_clock_ns();
    for (size_t i = 0; i < e->n_channels && e->n_retrying; i++) {
        load_channel *c = &e->channels[i];
        for (size_t k = 0; k < c->n_calls; k++) {
            load_call *call = &c->calls[k];
            if (call->retry_ns && call->retry_ns <= now && may_begin(c)) {
                call->retry_ns = 0;
                e->n_retrying--;
                e->counts.retries += call->is_measured;
                begin(e, call);
            }
        }
    }
}

/* ------------------------------------------------------------------ time */

/* Now and then: calls that take too long, and connections that were lost. */
static void tick(load_engine *e) {
    char message[MESSAGE_BYTES];
    uint64_t now = ss_clock_ns();
    uint64_t timeout_ns = (uint64_t)(e->options.timeout_s * second_ns);
    for (size_t i = 0; i < e->n_channels; i++) {
        load_channel *c = &e->channels[i];
        for (size_t k = 0; k < c->n_calls; k++) {
            load_call *call = &c->calls[k];
            if (!call->is_running || now - call->sent_ns < timeout_ns) {
                continue;
            }
            const load_outcome failed = {.kind = OUTCOME_FAILED};
            bool is_usable = c->protocol->cancel(c, call);
            engine_answered(e, call, &failed);
            c->is_touched = true;
            if (!is_usable) {
                lose(e, c);
            }
        }
        if (c->fd < 0 && !e->is_stopped && now >= c->retry_ns) {
            connect_channel(e, c, CONNECT_MS * ms_ns, message);
        }
    }
    if (e->n_connected == 0 && now - e->connected_ns > timeout_ns) {
        e->is_stopped = true;
    }
}

static void arm(load_engine *e, uint64_t at_ns) {
    if (at_ns == e->armed_ns) {
        return;
    }
    const struct itimerspec spec = {.it_value = ss_clock_timespec(at_ns)};
    timerfd_settime(e->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    e->armed_ns = at_ns;
}

static int wait_ms(const load_engine *e, uint64_t now) {
    uint64_t most = e->n_retrying ? RETRY_TICK_MS : TICK_MS;
    uint64_t left_ms = e->end_ns > now ? (e->end_ns - now) / ms_ns + 1 : most;
    return (int)(left_ms < most ? left_ms : most);
}

/* Open loop: until when nothing can be started; UINT64_MAX: until an answer. */
static uint64_t pause_end(const load_engine *e) {
    bool is_open = e->options.items_per_s > 0 && !e->is_blocked && has_more(e, (uint64_t)e->due_ns);
    return is_open ? (uint64_t)e->due_ns : UINT64_MAX;
}

/* Look for events. All time from one vain look to the next is polling, if nothing has been sent in between. */
static int poll_events(load_engine *e, struct epoll_event *events, uint64_t now) {
    int n = epoll_wait(e->epoll_fd, events, EVENTS_AT_ONCE, 0);
    if (n) {
        e->quiet_ns = 0;
        return n;
    }
    uint64_t end_ns = ss_clock_ns();
    e->polled_ns += end_ns - (e->quiet_ns ? e->quiet_ns : now);
    e->quiet_ns = end_ns;
    return 0;
}

/* Wait until something may be read, or the next request is due: asleep, or with --poll awake where that matters and
 * there is time for it, so that a latency does not hold how long a core takes to wake. */
static int wait_for_events(load_engine *e, struct epoll_event *events) {
    uint64_t now = ss_clock_ns(), end_ns = pause_end(e);
    if (end_ns <= now) { /* it has become due since the last look */
        return epoll_wait(e->epoll_fd, events, EVENTS_AT_ONCE, 0);
    }
    bool may_poll = e->options.polls && e->polled_ns < (now - e->start_ns) / 100 * POLL_PERCENT;
    if (may_poll && (e->n_running || end_ns - now <= POLL_US * us_ns)) {
        return poll_events(e, events, now);
    }
    e->quiet_ns = 0;
    if (end_ns != UINT64_MAX) {
        arm(e, may_poll ? end_ns - POLL_US * us_ns : end_ns);
    }
    return epoll_wait(e->epoll_fd, events, EVENTS_AT_ONCE, wait_ms(e, now));
}

static void wait_and_read(load_engine *e) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int n = wait_for_events(e, events);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == &e->timer_fd) {
            uint64_t count;
            (void)!read(e->timer_fd, &count, sizeof count);
        } else if (events[i].data.ptr == &e->signal_fd) {
            struct signalfd_siginfo info;
            (void)!read(e->signal_fd, &info, sizeof info);
            e->is_stopped = true;
        } else {
            on_channel(e, events[i].data.ptr, events[i].events);
        }
    }
}

static void run(load_engine *e) {
    uint64_t next_tick_ns = 0;
    uint64_t now = ss_clock_ns();
    e->start_ns = e->connected_ns = now;
    e->due_ns = (double)now;
    e->measure_ns = now + (uint64_t)(e->options.warm_up_s * second_ns);
    e->end_ns = e->options.n_requests ? UINT64_MAX : e->measure_ns + (uint64_t)(e->options.duration_s * second_ns);
    for (;;) {
        start_calls(e);
        if (e->n_retrying) {
            start_retries(e);
        }
        for (size_t i = 0; i < e->n_channels; i++) {
            advance(e, &e->channels[i]);
        }
        now = ss_clock_ns();
        if (!has_more(e, e->options.items_per_s > 0 ? now : next_due(e, now))) {
            return;
        }
        wait_and_read(e);
        if (now >= next_tick_ns) {
            tick(e);
            next_tick_ns = now + TICK_MS * ms_ns;
        }
    }
}

/* Wait for what is on its way; nothing new is started. */
static void drain(load_engine *e) {
    uint64_t began_ns = ss_clock_ns();
    size_t n_waiting = e->n_running;
    while (e->options.items_per_s > 0 && !e->options.n_requests && !e->is_stopped && e->due_ns < (double)e->end_ns) {
        /* Due before the end, but never sent: no stream was free. */
        const load_body *body = &e->bodies.all[e->bodies.next];
        e->bodies.next = (e->bodies.next + 1) % e->bodies.n;
        e->due_ns += ns_of(e, body);
        e->counts.unsent++;
    }
    e->is_stopped = true;
    while (e->n_running) {
        wait_and_read(e);
        tick(e); /* the timeout ends what is not answered */
        for (size_t i = 0; i < e->n_channels; i++) {
            advance(e, &e->channels[i]);
        }
    }
    if (e->options.logs_drain) {
        fprintf(stderr, "spansieve-load: %zu requests were on their way at the end; waited %.1f ms for them\n",
                n_waiting, (double)(ss_clock_ns() - began_ns) / (double)ms_ns);
    }
}

/* ------------------------------------------------------------------ the command */

static void print_usage(void) {
    fputs(
        "usage: spansieve-load --target HOST:PORT --protocol grpc|http --signal traces|metrics|logs --bodies FILE\n"
        "  --encoding none|gzip|zstd   of requests; default none\n"
        "  --connections N             default 4\n"
        "  --streams M                 calls at once on each connection; with http, M times N connections; default 1\n"
        "  --duration S | --requests N how much is measured; default 10 s\n"
        "  --warmup S                  before that; default 0\n"
        "  --rate ITEMS_PER_S          open loop; default: closed loop, the next request upon the answer\n"
        "  --timeout S                 for an answer; default 30\n"
        "  --seed K                    of ids and times; default 1\n"
        "  --keep-ids                  send requests as they are in the file\n"
        "  --retry                     send what is refused for now again after 20 ms\n"
        "  --poll                      wait awake for what is near, and before all other programs where that is "
        "permitted\n"
        "  --drain-log                 say on stderr what was on its way at the end\n"
        "FILE: [length, 4 bytes, big-endian][Export*ServiceRequest], repeated\n",
        stderr);
}

static bool fail(const char *what, const char *why) {
    fprintf(stderr, "spansieve-load: %s: %s\n", what, why);
    return false;
}

static bool parse_number(const char *name, const char *text, double least, double most, double *value) {
    char *end;
    *value = strtod(text, &end);
    return (end != text && !*end && *value >= least && *value <= most) || fail(name, "is out of range, or no number");
}

static bool parse_count(const char *name, const char *text, uint64_t least, uint64_t most, uint64_t *value) {
    double number;
    if (!parse_number(name, text, (double)least, (double)most, &number)) {
        return false;
    }
    *value = (uint64_t)number;
    return number == floor(number) || fail(name, "must be a whole number");
}

/* Index of text among n names. */
static bool parse_choice(const char *name, const char *text, const char *const *names, int n, int *value) {
    for (*value = 0; *value < n; (*value)++) {
        if (strcmp(text, names[*value]) == 0) {
            return true;
        }
    }
    return fail(name, "is none of the choices");
}

/* HOST:PORT, with an IPv6 host in brackets. */
static bool parse_target(load_options *o, const char *text) {
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (!colon || !parse_count("--target", colon + 1, 1, UINT16_MAX, &port)) {
        return fail("--target", "must be HOST:PORT");
    }
    bool is_bracketed = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
    free(o->host); /* of an earlier --target */
    o->authority = text;
    o->port = (uint16_t)port;
    o->host = is_bracketed ? strndup(text + 1, (size_t)(colon - text) - 2) : strndup(text, (size_t)(colon - text));
    return o->host;
}

static bool parse_options(load_options *o, int argc, char **argv) {
    static const char *const protocols[] = {"grpc", "http"};
    static const char *const signals[] = {"traces", "metrics", "logs"};
    static const char *const encodings[] = {"none", "gzip", "zstd"}; /* as in ss_encoding */
    enum {
        TARGET,
        PROTOCOL,
        SIGNAL,
        BODIES,
        ENCODING,
        CONNECTIONS,
        STREAMS,
        DURATION,
        REQUESTS,
        WARM_UP,
        RATE,
        TIMEOUT,
        SEED,
        KEEP_IDS,
        RETRY,
        POLL,
        DRAIN_LOG,
        HELP
    };
    static const struct option known[] = {{"target", required_argument, NULL, TARGET},
                                          {"protocol", required_argument, NULL, PROTOCOL},
                                          {"signal", required_argument, NULL, SIGNAL},
                                          {"bodies", required_argument, NULL, BODIES},
                                          {"encoding", required_argument, NULL, ENCODING},
                                          {"connections", required_argument, NULL, CONNECTIONS},
                                          {"streams", required_argument, NULL, STREAMS},
                                          {"duration", required_argument, NULL, DURATION},
                                          {"requests", required_argument, NULL, REQUESTS},
                                          {"warmup", required_argument, NULL, WARM_UP},
                                          {"rate", required_argument, NULL, RATE},
                                          {"timeout", required_argument, NULL, TIMEOUT},
                                          {"seed", required_argument, NULL, SEED},
                                          {"keep-ids", no_argument, NULL, KEEP_IDS},
                                          {"retry", no_argument, NULL, RETRY},
                                          {"poll", no_argument, NULL, POLL},
                                          {"drain-log", no_argument, NULL, DRAIN_LOG},
                                          {"help", no_argument, NULL, HELP},
                                          {0}};
    enum { SECONDS_MAX = 1000000, CALLS_MAX = 1 << 20 };
    bool is_good = true;
    int choice = 0, protocol = -1, signal = -1, option;
    uint64_t count = 0;
    *o = (load_options){.n_connections = 4, .n_streams = 1, .timeout_s = 30, .seed = 1};
    while (is_good && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case TARGET: is_good = parse_target(o, optarg); break;
        case PROTOCOL: is_good = parse_choice("--protocol", optarg, protocols, 2, &protocol); break;
        case SIGNAL: is_good = parse_choice("--signal", optarg, signals, 3, &signal); break;
        case BODIES: o->bodies = optarg; break;
        case ENCODING:
            is_good = parse_choice("--encoding", optarg, encodings, 3, &choice);
            o->encoding = (ss_encoding)choice;
            break;
        case CONNECTIONS:
            is_good = parse_count("--connections", optarg, 1, CHANNELS_MAX, &count);
            o->n_connections = count;
            break;
        case STREAMS:
            is_good = parse_count("--streams", optarg, 1, CHANNELS_MAX, &count);
            o->n_streams = count;
            break;
        case DURATION: is_good = parse_number("--duration", optarg, 0.001, SECONDS_MAX, &o->duration_s); break;
        case REQUESTS: is_good = parse_count("--requests", optarg, 1, UINT64_C(1) << 50, &o->n_requests); break;
        case WARM_UP: is_good = parse_number("--warmup", optarg, 0, SECONDS_MAX, &o->warm_up_s); break;
        case RATE: is_good = parse_number("--rate", optarg, 0.001, 1e12, &o->items_per_s); break;
        case TIMEOUT: is_good = parse_number("--timeout", optarg, 0.001, SECONDS_MAX, &o->timeout_s); break;
        case SEED: is_good = parse_count("--seed", optarg, 0, UINT64_C(1) << 50, &o->seed); break;
        case KEEP_IDS: o->keep_ids = true; break;
        case RETRY: o->retries = true; break;
        case POLL: o->polls = true; break;
        case DRAIN_LOG: o->logs_drain = true; break;
        default: print_usage(); return false;
        }
    }
    if (!is_good) {
        return false;
    }
    if (optind < argc || !o->host || protocol < 0 || signal < 0 || !o->bodies) {
        print_usage();
        return false;
    }
    if (o->duration_s > 0 && o->n_requests) {
        return fail("--duration, --requests", "only one of them");
    }
    if (o->n_connections * o->n_streams > CALLS_MAX) {
        return fail("--connections, --streams", "too many at once");
    }
    if (o->duration_s == 0) {
        o->duration_s = 10;
    }
    o->transport = (ss_transport)protocol;
    o->signal = (ss_signal)signal;
    return true;
}

static void set_path(load_target *target, ss_transport transport, ss_signal signal) {
    static const char *const names[SS_N_SIGNALS][3] = {
        {"traces", "trace", "Trace"}, {"metrics", "metrics", "Metrics"}, {"logs", "logs", "Logs"}};
    const char *const *name = names[signal];
    if (transport == SS_TRANSPORT_HTTP) {
        snprintf(target->path, sizeof target->path, "/v1/%s", name[0]);
    } else {
        snprintf(target->path, sizeof target->path, "/opentelemetry.proto.collector.%s.v1.%sService/Export", name[1],
                 name[2]);
    }
}

static bool make_channels(load_engine *e) {
    load_options *o = &e->options;
    bool is_grpc = o->transport == SS_TRANSPORT_GRPC;
    size_t n_calls = is_grpc ? o->n_streams : 1;
    e->target = (load_target){
        .host = o->host, .port = o->port, .authority = o->authority, .encoding = o->encoding, .engine = e};
    set_path(&e->target, o->transport, o->signal);
    e->n_channels = o->n_connections * o->n_streams / n_calls;
    e->channels = calloc(e->n_channels, sizeof *e->channels);
    for (size_t i = 0; e->channels && i < e->n_channels; i++) {
        load_channel *c = &e->channels[i];
        *c = (load_channel){.target = &e->target, .protocol = is_grpc ? &grpc_protocol : &http_protocol, .fd = -1};
        c->calls = calloc(n_calls, sizeof *c->calls);
        if (!c->calls) {
            return fail("connections", "no memory");
        }
        c->n_calls = n_calls;
        for (size_t k = 0; k < n_calls; k++) {
            c->calls[k].channel = c;
            make_idle(&c->calls[k]);
        }
    }
    return e->channels || fail("connections", "no memory");
}

/* With --poll. Without the right to it, a turn may come late; `overslept` says how often. */
static void go_first(void) {
    const struct sched_param least = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_FIFO, &least);
}

static bool open_waiting(load_engine *e) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    e->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    e->signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    struct epoll_event on_timer = {.events = EPOLLIN, .data.ptr = &e->timer_fd};
    struct epoll_event on_signal = {.events = EPOLLIN, .data.ptr = &e->signal_fd};
    return (e->epoll_fd >= 0 && epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, e->timer_fd, &on_timer) == 0 &&
            epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, e->signal_fd, &on_signal) == 0) ||
           fail("epoll", strerror(errno));
}

static bool connect_channels(load_engine *e) {
    char message[MESSAGE_BYTES];
    for (size_t i = 0; i < e->n_channels; i++) {
        if (!connect_channel(e, &e->channels[i], CONNECT_MS * ms_ns, message)) {
            return fail(e->options.authority, message);
        }
    }
    return true;
}

static void print_histogram(const char *name, const load_histogram *h) {
    const double us = 1000;
    printf("\"%s\": {\"min\": %.1f, \"mean\": %.1f, \"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p99_9\": %.1f, "
           "\"max\": %.1f}",
           name, (double)h->min / us, h->n ? h->sum / (double)h->n / us : 0, histogram_quantile(h, 0.5) / us,
           histogram_quantile(h, 0.9) / us, histogram_quantile(h, 0.99) / us, histogram_quantile(h, 0.999) / us,
           (double)h->max / us);
}

static void print_result(const load_engine *e, double seconds, double cpu) {
    const load_counts *n = &e->counts;
    printf("{\"requests\": %llu, \"items\": %llu, \"payload_bytes\": %llu, \"wire_bytes\": %llu, ",
           (unsigned long long)n->requests, (unsigned long long)n->items, (unsigned long long)n->payload_bytes,
           (unsigned long long)(e->is_measuring ? written_bytes(e) - e->written_before : 0));
    printf("\"ok\": %llu, \"partial\": %llu, \"rejected_items\": %llu, \"refused\": {", (unsigned long long)n->ok,
           (unsigned long long)n->partial, (unsigned long long)n->rejected_items);
    const char *comma = "";
    for (int code = 0; code < CODES; code++) {
        if (n->refused[code]) {
            printf("%s\"%d\": %llu", comma, code, (unsigned long long)n->refused[code]);
            comma = ", ";
        }
    }
    printf("}, \"failed\": %llu, \"retries\": %llu, \"ok_items\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.6f, ",
           (unsigned long long)n->failed, (unsigned long long)n->retries, (unsigned long long)n->ok_items, seconds,
           cpu);
    printf("\"polled_seconds\": %.6f, \"late\": %llu, \"overslept\": %llu, \"unsent\": %llu, ",
           (double)(e->polled_ns - e->polled_before_ns) / second_ns, (unsigned long long)n->late,
           (unsigned long long)n->overslept, (unsigned long long)n->unsent);
    printf("\"total_items\": %llu, \"total_ok_items\": %llu, ", (unsigned long long)n->total_items,
           (unsigned long long)n->total_ok_items);
    print_histogram("latency_us", &e->latency);
    printf(", ");
    print_histogram("service_us", &e->service);
    printf("}\n");
}

static void engine_free(load_engine *e) {
    for (size_t i = 0; e->channels && i < e->n_channels; i++) {
        channel_free(&e->channels[i]);
    }
    free(e->channels);
    bodies_free(&e->bodies);
    ss_codec_free(e->codec);
    free(e->options.host);
    free(e);
}

int main(int argc, char **argv) {
    load_engine *e = calloc(1, sizeof *e);
    if (!e) {
        return 1;
    }
    if (!parse_options(&e->options, argc, argv)) {
        engine_free(e);
        return 2;
    }
    char message[MESSAGE_BYTES];
    const load_options *o = &e->options;
    bool is_ready = bodies_read(&e->bodies, o->bodies, o->signal, o->n_connections * o->n_streams, o->seed, message,
                                sizeof message) ||
                    fail("--bodies", message);
    is_ready = is_ready && ((e->codec = ss_codec_new()) || fail("codec", "no memory"));
    is_ready = is_ready && make_channels(e) && open_waiting(e) && connect_channels(e);
    if (is_ready) {
        if (o->polls) {
            go_first();
        }
        run(e);
        drain(e);
        uint64_t now = ss_clock_ns();
        double seconds = now > e->measure_ns ? (double)(now - e->measure_ns) / second_ns : 0;
        print_result(e, seconds, e->is_measuring ? load_cpu_seconds() - e->cpu_before_s : 0);
        is_ready = e->counts.total_answers || fail(o->authority, "no request was answered");
    }
    engine_free(e);
    return is_ready ? 0 : 1;
}
