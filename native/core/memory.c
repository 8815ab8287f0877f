#include "spansieve.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

void ss_runtime_release_memory(ss_runtime *runtime) {
    (void)runtime; /* the allocator's free memory belongs to no runtime in particular */
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}
