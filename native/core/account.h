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

/* Why what is never to be held is refused. One object, by which it is known. */
extern const char ss_reason_memory[];

/* A limit of memory; its owner's. */
typedef struct ss_memory_limit {
    uint64_t bytes;
    struct ss_memory_limit *next;
} ss_memory_limit;

/* Set a limit for what comes from now on, and take it back. Any thread. */
void ss_runtime_add_limit(ss_runtime *runtime, ss_memory_limit *limit); /* borrows limit, and keeps the runtime */
void ss_runtime_remove_limit(ss_runtime *runtime, ss_memory_limit *limit);

/* What one owner holds of memory for the request at hand: counted before it is taken, but for as much as is kept from
 * one request to the next, so that small requests touch no account. One thread at a time. */
typedef struct ss_holding {
    ss_runtime *runtime; /* NULL: nothing is counted */
    size_t held;         /* bytes */
    size_t counted;      /* of them, in the account */
} ss_holding;

enum { SS_HOLDING_KEPT = 4 << 20 };

/* Before so many bytes are allocated. SS_ERR_NO_MEMORY, SS_ERR_LIMIT: as ss_runtime_take. */
ss_status ss_holding_take(ss_holding *holding, size_t bytes);
/* After they have been freed. */
void ss_holding_give(ss_holding *holding, size_t bytes);
/* ss_buffer_reserve and ss_buffer_free, counted; holding NULL: not. */
ss_status ss_holding_reserve(ss_holding *holding, ss_buffer *buffer, size_t extra);
void ss_holding_free(ss_holding *holding, ss_buffer *buffer);

/* The capacity that ss_buffer_reserve would give a buffer; SIZE_MAX: there is no such size. */
size_t ss_buffer_capacity_with(const ss_buffer *buffer, size_t extra);
/* The lowest limit of memory; UINT64_MAX: there is none. */
uint64_t ss_runtime_limit(const ss_runtime *runtime);
/* How much more may be held below the limit of the process; UINT64_MAX less what is: it has none. */
uint64_t ss_runtime_room(const ss_runtime *runtime);

#endif
