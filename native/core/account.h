/* The memory account, for those below the plan that keeps it. */
#ifndef SS_ACCOUNT_H
#define SS_ACCOUNT_H

#include "spansieve.h"

/* Add bytes (negative: give back) to the account of what is held. Any thread. */
void ss_runtime_account(ss_runtime *runtime, int64_t bytes);

/* Memory in use as far as known now: the greater of what is accounted and the RSS sample plus what came since. */
uint64_t ss_runtime_usage(const ss_runtime *runtime);

#endif
