#include "net/connection.h"

#include "core/account.h"
#include "net/grpc.h"
#include "plan/runtime.h"

#include <stdlib.h>
#include <string.h>

enum {
    NO_ROOM_RETRY_MS = 1000,
    UNCOUNTED_INFLATED_BYTES = 64 * 1024, /* of which there is one message a loop at most */
    BODY_TRUST = 4                        /* a stated length is believed up to this many times what has arrived */
};

ss_status ss_scratch_init(ss_scratch *scratch, ss_service *service, uint32_t loop_index) {
    *scratch = (ss_scratch){.service = service, .loop_index = loop_index, .wake_ns = UINT64_MAX};
    scratch->codec = ss_codec_new();
    scratch->worker = ss_worker_new(service->runtime);
    return scratch->codec && scratch->worker ? SS_OK : SS_ERR_NO_MEMORY;
}

void ss_scratch_release(ss_scratch *scratch) {
    ss_http2_shared_free(scratch->http2);
    ss_worker_free(scratch->worker);
    ss_codec_free(scratch->codec);
    ss_buffer_free(&scratch->inflated);
    ss_buffer_free(&scratch->answer);
    while (scratch->n_spare_bodies) {
        ss_buffer_free(&scratch->spare_bodies[--scratch->n_spare_bodies]);
    }
}

ss_reply_route *ss_connection_route(ss_connection *connection, uint64_t deadline_ns) {
    ss_reply_route *route = &connection->scratch->route;
    route->deadline_ns = deadline_ns;
    return route->open ? route : NULL;
}

void ss_connection_await(ss_connection *connection, void *stream, ss_reply **holder) {
    ss_reply *reply = connection->scratch->route.slip;
    reply->connection = connection->carrier ? connection->carrier : connection;
    reply->stream = connection->carrier ? connection->carrier_stream : stream;
    reply->holder = holder;
    *holder = reply;
}

ss_connection *ss_reply_take(ss_reply *reply) {
    if (reply->connection) {
        *reply->holder = NULL;
    }
    return reply->connection;
}

void ss_reply_abandon(ss_reply *reply) {
    if (reply) {
        reply->connection = NULL;
        ss_promise_cancel(reply->promise);
    }
}

void ss_connection_wake(ss_connection *connection, uint64_t wake_ns) {
    uint64_t *first = &connection->scratch->wake_ns;
    connection->wake_ns = wake_ns;
    *first = wake_ns < *first ? wake_ns : *first;
}

void ss_count_stranger(ss_connection *connection, ss_stranger stranger) {
    ss_count(&connection->scratch->stats.misdirected[connection->listener->config.transport][stranger], 1);
}

void ss_scratch_trim(ss_scratch *scratch) {
    if (scratch->inflated.capacity > SS_KEPT_SCRATCH_BYTES) {
        ss_buffer_free(&scratch->inflated);
    }
}

void ss_count_bytes(ss_scratch *scratch, size_t bytes) {
    __atomic_fetch_add(&scratch->service->held_bytes, bytes, __ATOMIC_RELAXED);
    ss_runtime_account(scratch->service->runtime, (int64_t)bytes);
}

bool ss_hold_bytes(ss_scratch *scratch, size_t bytes) {
    const ss_service *service = scratch->service;
    ss_count_bytes(scratch, bytes);
    uint64_t held = __atomic_load_n(&service->held_bytes, __ATOMIC_RELAXED);
    if ((service->max_held_bytes && held > service->max_held_bytes) || !ss_runtime_room(service->runtime)) {
        ss_release_bytes(scratch, bytes);
        return false;
    }
    return true;
}

void ss_release_bytes(ss_scratch *scratch, size_t bytes) {
    __atomic_fetch_sub(&scratch->service->held_bytes, bytes, __ATOMIC_RELAXED);
    ss_runtime_account(scratch->service->runtime, -(int64_t)bytes);
}

ss_status ss_inflate(ss_scratch *scratch, ss_encoding encoding, const uint8_t *bytes, size_t length, size_t limit,
                     ss_error *error) {
    uint64_t room = ss_runtime_room(scratch->service->runtime);
    size_t most = room < limit ? (size_t)room : limit;
    scratch->inflated.length = 0;
    ss_status status = ss_decompress(scratch->codec, encoding, bytes, length, most, &scratch->inflated, error);
    if (status == SS_OK && scratch->inflated.length > UNCOUNTED_INFLATED_BYTES) {
        scratch->counted_inflated = scratch->inflated.length;
        ss_runtime_account(scratch->service->runtime, (int64_t)scratch->counted_inflated);
    }
    return status == SS_ERR_LIMIT && most < limit ? SS_ERR_REFUSED : status;
}

void ss_inflated_done(ss_scratch *scratch) {
    if (scratch->counted_inflated) {
        ss_runtime_account(scratch->service->runtime, -(int64_t)scratch->counted_inflated);
        scratch->counted_inflated = 0;
    }
}

void ss_verdict_no_room(ss_verdict *verdict) {
    ss_verdict_fail(verdict, SS_CODE_UNAVAILABLE, "data refused due to high memory usage");
    verdict->has_retry_delay = true;
    verdict->retry_delay_ms = NO_ROOM_RETRY_MS;
}

ss_status ss_body_hold(ss_scratch *scratch, ss_body *body, const uint8_t *bytes, size_t length, size_t expected) {
    ss_buffer *held = &body->held;
    if (!ss_hold_bytes(scratch, length)) {
        return SS_ERR_REFUSED;
    }
    if (!held->data && scratch->n_spare_bodies) {
        *held = scratch->spare_bodies[--scratch->n_spare_bodies];
    }
    size_t arrived = held->length + length;
    size_t room = length;
    if (expected > arrived) {
        size_t trusted = arrived > SIZE_MAX / BODY_TRUST ? SIZE_MAX : arrived * BODY_TRUST;
        room = (expected < trusted ? expected : trusted) - held->length;
    }
    ss_status status = ss_buffer_reserve(held, room);
    if (status != SS_OK) {
        ss_release_bytes(scratch, length);
        return status;
    }
    memcpy(held->data + held->length, bytes, length);
    held->length += length;
    return SS_OK;
}

ss_status ss_body_append(ss_scratch *scratch, ss_body *body, const uint8_t *bytes, size_t length, size_t expected) {
    if (length == 0) {
        return SS_OK;
    }
    if (!body->borrowed && body->held.length == 0) {
        body->borrowed = bytes;
        body->borrowed_length = length;
        return SS_OK;
    }
    ss_status status = ss_body_settle(scratch, body, expected);
    return status == SS_OK ? ss_body_hold(scratch, body, bytes, length, expected) : status;
}

ss_status ss_body_settle(ss_scratch *scratch, ss_body *body, size_t expected) {
    if (!body->borrowed) {
        return SS_OK;
    }
    const uint8_t *bytes = body->borrowed;
    body->borrowed = NULL;
    return ss_body_hold(scratch, body, bytes, body->borrowed_length, expected);
}

void ss_body_release(ss_scratch *scratch, ss_body *body) {
    body->borrowed = NULL;
    if (!body->held.data) {
        return;
    }
    ss_release_bytes(scratch, body->held.length);
    if (body->held.capacity <= SS_SPARE_BODY_BYTES && scratch->n_spare_bodies < SS_SPARE_BODIES) {
        body->held.length = 0;
        scratch->spare_bodies[scratch->n_spare_bodies++] = body->held;
        body->held = (ss_buffer){0};
    } else {
        ss_buffer_free(&body->held);
    }
}
