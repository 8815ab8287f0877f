#include "spansieve.h"

#include <sys/resource.h>

uint64_t ss_raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 0;
    }
    if (limit.rlim_cur != limit.rlim_max) {
        const struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        limit.rlim_cur = setrlimit(RLIMIT_NOFILE, &raised) == 0 ? limit.rlim_max : limit.rlim_cur;
    }
    return limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur;
}
