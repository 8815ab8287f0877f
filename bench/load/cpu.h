/* What the tools report of their own cost. */
#ifndef LOAD_CPU_H
#define LOAD_CPU_H

#include <time.h>

/* CPU time of this process so far, user and system. */
static inline double load_cpu_seconds(void) {
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (double)spent.tv_sec + (double)spent.tv_nsec / 1e9;
}

#endif
