/* The whole C test framework: CHECK counts and reports, check_finish turns the count into an exit code. */
#ifndef SS_CHECK_H
#define SS_CHECK_H

#include <stdio.h>

static int check_failures;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition);                              \
            check_failures++;                                                                                          \
        }                                                                                                              \
    } while (0)

#define CHECK_EQUAL(expected, actual)                                                                                  \
    do {                                                                                                               \
        long long check_e = (long long)(expected), check_a = (long long)(actual);                                      \
        if (check_e != check_a) {                                                                                      \
            fprintf(stderr, "%s:%d: expected %s = %lld, got %lld\n", __FILE__, __LINE__, #actual, check_e, check_a);   \
            check_failures++;                                                                                          \
        }                                                                                                              \
    } while (0)

static inline int check_finish(void) {
    return check_failures ? 1 : 0;
}

#endif
