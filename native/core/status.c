#include "spansieve.h"

const char *ss_status_text(ss_status status) {
    switch (status) {
    case SS_OK: return "ok";
    case SS_ERR_MALFORMED: return "malformed input";
    case SS_ERR_LIMIT: return "limit exceeded";
    case SS_ERR_REFUSED: return "refused";
    case SS_ERR_NO_MEMORY: return "out of memory";
    case SS_ERR_ARGUMENT: return "invalid argument";
    case SS_ERR_UNSUPPORTED: return "unsupported";
    case SS_ERR_IO: return "i/o error";
    case SS_ERR_TIMEOUT: return "timed out";
    case SS_ERR_CLOSED: return "closed";
    case SS_ERR_CANCELLED: return "cancelled";
    }
    return "unknown status";
}

bool ss_has_net(void) {
#ifdef SPANSIEVE_HAVE_NET
    return true;
#else
    return false;
#endif
}
