/* What is refused at the door, where no pipeline has seen it: each kind is counted by its loop, and one of it described
 * for whoever reads the log. */
#ifndef SS_REFUSAL_H
#define SS_REFUSAL_H

#include "net/connection.h"

/* Count a request of connection as refused. The rest says, as for printf, what its client did; it is made into a note
 * only where the last note of this kind has been taken, so that a flood of refusals costs a counter each. */
void ss_refuse_request(ss_connection *connection, ss_refusal refusal, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Count a connection that listener does not take. */
void ss_refuse_connection(ss_scratch *scratch, ss_listener *listener, ss_refusal refusal, int fd);

#endif
