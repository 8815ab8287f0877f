/* The memory account, for those below the plan that keeps it. */
#ifndef SS_ACCOUNT_H
#define SS_ACCOUNT_H

#include "spansieve.h"

/* Add bytes (negative: give back) to the account of what is held. Any thread. */
void ss_runtime_account(ss_runtime *runtime, int64_t bytes);

/* Memory in use as far as known now: the greater of what is accounted and the RSS sample plus what came since. */
uint64_t ss_runtime_usage(const ss_runtime *runtime);

/* Add bytes to the account where the lowest limit of memory leaves room for them. SS_ERR_NO_MEMORY: not now.
 * SS_ERR_LIMIT: never, for with the held ones of the same request they are more than a process at rest has left. Any
 * thread. */
ss_status ss_runtime_take(ss_runtime *runtime, uint64_t bytes, uint64_t held);

/* A limit of memory; its owner's. */
typedef struct ss_memory_limit {
    uint64_t bytes;
    struct ss_memory_limit *next;
} ss_memory_limit;

/* Set a limit for what comes from now on, and take it back. Any thread. */
void ss_runtime_add_limit(ss_runtime *runtime, ss_memory_limit *limit); /* borrows limit, and keeps the runtime */
void ss_runtime_remove_limit(ss_runtime *runtime, ss_memory_limit *limit);

/* The lowest limit of memory; UINT64_MAX: there is none. */
uint64_t ss_runtime_limit(const ss_runtime *runtime);
/* How much more may be held below the limit of the process; UINT64_MAX less what is: it has none. */
uint64_t ss_runtime_room(const ss_runtime *runtime);

#endif
