/* The monotonic clock in nanoseconds, and deadlines on it. */
#ifndef SS_CLOCK_H
#define SS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ss_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time timeout_ns after start_ns; a timeout of no end has none. */
static inline uint64_t ss_clock_after(uint64_t start_ns, uint64_t timeout_ns) {
    uint64_t end_ns;
    return __builtin_add_overflow(start_ns, timeout_ns, &end_ns) ? UINT64_MAX : end_ns;
}

static inline uint64_t ss_clock_deadline(uint64_t timeout_ns) {
    return ss_clock_after(ss_clock_ns(), timeout_ns);
}

static inline struct timespec ss_clock_timespec(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

#endif
