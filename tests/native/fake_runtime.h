/* A runtime for tests of the transport: the account of bytes held, and workers that are nothing. Weak, so that they can
 * stand beside the real ones. Include in one file of a program. */
#ifndef SS_FAKE_RUNTIME_H
#define SS_FAKE_RUNTIME_H

#include "plan/runtime.h"
#include "spansieve.h"

#include <stdlib.h>

static int64_t fake_held_bytes;

__attribute__((weak)) ss_worker *ss_worker_new(ss_runtime *runtime) {
    (void)runtime;
    return malloc(1);
}

__attribute__((weak)) void ss_worker_free(ss_worker *worker) {
    free(worker);
}

__attribute__((weak)) void ss_runtime_account(ss_runtime *runtime, int64_t bytes) {
    (void)runtime;
    __atomic_fetch_add(&fake_held_bytes, bytes, __ATOMIC_RELAXED);
}

#endif
