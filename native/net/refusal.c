#include "net/refusal.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void write_client(int fd, char *out, size_t size) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[INET6_ADDRSTRLEN] = "";
    out[0] = 0;
    if (fd < 0 || getpeername(fd, (struct sockaddr *)&address, &length) != 0) {
        return;
    }
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&address;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(out, size, "%s:%u", host, ntohs(in->sin_port));
    } else if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&address;
        (void)inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        snprintf(out, size, "[%s]:%u", host, ntohs(in->sin6_port));
    }
}

static void count(ss_scratch *scratch, ss_transport transport, ss_refusal refusal) {
    ss_count(&scratch->stats.refused[transport][refusal], 1);
}

static bool wants_note(const ss_refusals *refusals, ss_transport transport, ss_refusal refusal) {
    return !__atomic_load_n(&refusals->has_note[transport][refusal], __ATOMIC_ACQUIRE);
}

static void keep_note(ss_refusals *refusals, ss_transport transport, ss_refusal refusal, const ss_refusal_note *note) {
    pthread_mutex_lock(&refusals->lock);
    refusals->notes[transport][refusal] = *note;
    __atomic_store_n(&refusals->has_note[transport][refusal], true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&refusals->lock);
}

void ss_refuse_request(ss_connection *connection, ss_refusal refusal, const char *format, ...) {
    ss_refusals *refusals = &connection->scratch->service->refusals;
    ss_transport transport = connection->listener->config.transport;
    count(connection->scratch, transport, refusal);
    if (!wants_note(refusals, transport, refusal)) {
        return;
    }
    ss_refusal_note note;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(note.text, sizeof note.text, format, arguments);
    va_end(arguments);
    write_client(connection->carrier ? connection->carrier->fd : connection->fd, note.client, sizeof note.client);
    keep_note(refusals, transport, refusal, &note);
}

void ss_refuse_connection(ss_scratch *scratch, ss_listener *listener, ss_refusal refusal, int fd) {
    ss_refusals *refusals = &scratch->service->refusals;
    ss_transport transport = listener->config.transport;
    count(scratch, transport, refusal);
    if (wants_note(refusals, transport, refusal)) {
        ss_refusal_note note = {.text = ""};
        write_client(fd, note.client, sizeof note.client);
        keep_note(refusals, transport, refusal, &note);
    }
}

void ss_refusals_init(ss_refusals *refusals) {
    *refusals = (ss_refusals){0};
    pthread_mutex_init(&refusals->lock, NULL);
}

bool ss_refusals_take(ss_refusals *refusals, ss_transport transport, ss_refusal refusal, ss_refusal_note *note) {
    if (wants_note(refusals, transport, refusal)) {
        return false;
    }
    pthread_mutex_lock(&refusals->lock);
    bool has_note = refusals->has_note[transport][refusal];
    *note = refusals->notes[transport][refusal];
    __atomic_store_n(&refusals->has_note[transport][refusal], false, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&refusals->lock);
    return has_note;
}

void ss_refusals_release(ss_refusals *refusals) {
    pthread_mutex_destroy(&refusals->lock);
}
