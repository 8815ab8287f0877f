/* Durations in buckets whose width is less than 1 % of their value: any number of them in 60 KB. */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_STEP_BITS = 7, HISTOGRAM_STEPS = 1 << HISTOGRAM_STEP_BITS };

/* Zero-initialised is empty. */
typedef struct load_histogram {
    uint64_t n, min, max; /* exact */
    double sum;
    uint64_t counts[(64 - HISTOGRAM_STEP_BITS + 1) * HISTOGRAM_STEPS];
} load_histogram;

void histogram_add(load_histogram *histogram, uint64_t value);
/* The value that a share of all does not exceed: the middle of its bucket; 0 when there are none. */
double histogram_quantile(const load_histogram *histogram, double share);

#endif
