#include "channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/clock.h"
#include "net/client_socket.h"

enum {
    FIRST_SEGMENTS = 32,
    SEGMENTS_AT_ONCE = 64,
    COPIED_BYTES = 4096 /* up to here, copying costs less than one more piece to write */
};

static load_segment *add_segment(load_queue *queue) {
    if (queue->n == queue->capacity) {
        size_t capacity = queue->capacity ? 2 * queue->capacity : FIRST_SEGMENTS;
        load_segment *segments = realloc(queue->segments, capacity * sizeof *segments);
        if (!segments) {
            return NULL;
        }
        queue->segments = segments;
        queue->capacity = capacity;
    }
    return &queue->segments[queue->n++];
}

bool queue_text(load_queue *queue, const void *bytes, size_t length) {
    if (length == 0) {
        return true;
    }
    size_t offset = queue->text.length;
    if (ss_buffer_append(&queue->text, bytes, length) != SS_OK) {
        return false;
    }
    load_segment *last = queue->n > queue->first ? &queue->segments[queue->n - 1] : NULL;
    if (last && !last->data && last->offset + last->length == offset) {
        last->length += length;
        return true;
    }
    load_segment *added = add_segment(queue);
    if (added) {
        *added = (load_segment){.offset = offset, .length = length};
    }
    return added;
}

bool queue_body(load_queue *queue, const uint8_t *bytes, size_t length) {
    if (length <= COPIED_BYTES) {
        return queue_text(queue, bytes, length);
    }
    load_segment *added = add_segment(queue);
    if (added) {
        *added = (load_segment){.data = bytes, .length = length};
    }
    return added;
}

static void queue_clear(load_queue *queue) {
    queue->text.length = 0;
    queue->n = queue->first = 0;
}

static void queue_advance(load_queue *queue, size_t n_written) {
    while (n_written) {
        load_segment *first = &queue->segments[queue->first];
        size_t n = n_written < first->length ? n_written : first->length;
        first->data = first->data ? first->data + n : NULL;
        first->offset += n;
        first->length -= n;
        n_written -= n;
        queue->first += first->length == 0;
    }
    if (queue->first == queue->n) {
        queue_clear(queue);
    }
}

bool channel_write(load_channel *channel) {
    load_queue *queue = &channel->queue;
    channel->is_full = false;
    while (queue->n) {
        struct iovec pieces[SEGMENTS_AT_ONCE];
        size_t n_pieces = 0;
        for (size_t i = queue->first; i < queue->n && n_pieces < SEGMENTS_AT_ONCE; i++) {
            const load_segment *s = &queue->segments[i];
            const uint8_t *data = s->data ? s->data : queue->text.data + s->offset;
            pieces[n_pieces++] = (struct iovec){(void *)(uintptr_t)data, s->length};
        }
        const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = n_pieces};
        ssize_t n = sendmsg(channel->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            channel->is_full = errno == EAGAIN || errno == EWOULDBLOCK;
            return channel->is_full;
        }
        if (n > 0) {
            channel->n_written += (size_t)n;
            queue_advance(queue, (size_t)n);
        }
    }
    return true;
}

bool channel_connect(load_channel *channel, uint64_t timeout_ns, char *message, size_t message_size) {
    const ss_client_wait wait = {.deadline_ns = ss_clock_deadline(timeout_ns), .wake_fd = -1, .cancel_fd = -1};
    ss_client_socket made;
    const load_target *target = channel->target;
    if (ss_client_socket_connect(&made, target->host, target->port, NULL, &wait, message, message_size) != SS_OK) {
        return false;
    }
    channel->fd = made.fd;
    channel->events = 0;
    channel->is_full = false;
    queue_clear(&channel->queue);
    return channel->protocol->open(channel);
}

void channel_disconnect(load_channel *channel) {
    if (channel->state) {
        channel->protocol->close(channel);
        channel->state = NULL;
    }
    if (channel->fd >= 0) {
        close(channel->fd);
        channel->fd = -1;
    }
}

void channel_free(load_channel *channel) {
    channel_disconnect(channel);
    ss_buffer_free(&channel->queue.text);
    free(channel->queue.segments);
    for (size_t i = 0; i < channel->n_calls; i++) {
        ss_buffer_free(&channel->calls[i].packed);
        ss_client_response_free(&channel->calls[i].response);
    }
    free(channel->calls);
}
