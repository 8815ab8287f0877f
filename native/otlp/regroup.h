/* A batch with each resource once. */
#ifndef SS_REGROUP_H
#define SS_REGROUP_H

#include "spansieve.h"

/* Append a request of any signal to out so that resources that are equal byte for byte, with their schema URLs, stand
 * once, and so do the scopes of each; items keep their order within a scope. *is_done: whether it was worth it; out is
 * untouched where little would be saved, or where the request has fields that are not known. It never becomes longer.
 */
ss_status ss_regroup(const uint8_t *bytes, size_t length, ss_buffer *out, bool *is_done);

#endif
