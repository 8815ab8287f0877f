/* Shorthand for filling an ss_verdict. */
#ifndef SS_VERDICT_H
#define SS_VERDICT_H

#include <stdio.h>

#include "spansieve.h"

/* A refusal that the client shall retry: overload of ours, with the delay that we ask for. */
static inline ss_status ss_refuse(ss_verdict *verdict, const char *message, uint32_t retry_delay_ms) {
    verdict->code = SS_CODE_UNAVAILABLE;
    verdict->has_retry_delay = true;
    verdict->retry_delay_ms = retry_delay_ms;
    snprintf(verdict->message, sizeof verdict->message, "%s", message);
    return SS_ERR_REFUSED;
}

/* A failure that a retry cannot mend. */
static inline ss_status ss_reject(ss_verdict *verdict, ss_status status, ss_code code, const char *message) {
    verdict->code = code;
    snprintf(verdict->message, sizeof verdict->message, "%s", message);
    return status;
}

#endif
