/* One thread that moves bytes between sockets and protocols with epoll. */
#ifndef SS_LOOP_H
#define SS_LOOP_H

#include "net/connection.h"

typedef struct ss_loop ss_loop;

/* Make a loop; it borrows service and listeners. */
ss_loop *ss_loop_new(ss_service *service, uint32_t index, ss_listener *listeners, size_t n_listeners);
/* REQUIRES: not started, or joined. */
void ss_loop_free(ss_loop *loop);

/* Start the thread. The loop accepts from its listeners and deals the connections out to loops, in turn; an array of
 * which it is a member itself. Loops that accept nothing have no peers. */
ss_status ss_loop_start(ss_loop *loop, ss_loop *const *peers, size_t n_peers);
/* Drain until deadline_ns of the monotonic clock, then end. An accepting loop stops its peers. Any thread. */
void ss_loop_stop(ss_loop *loop, uint64_t deadline_ns);
/* Wait for the end; true when every connection had ended before the deadline. */
bool ss_loop_join(ss_loop *loop);

/* Deliver a reply to the connection that waits for it; copies. Any thread. */
ss_status ss_loop_reply(ss_loop *loop, uint64_t token, int http_status, const char *content_type, const uint8_t *body,
                        size_t length);

/* Add this loop's counters to stats. Any thread. */
void ss_loop_read_stats(const ss_loop *loop, ss_server_stats *stats);

#endif
