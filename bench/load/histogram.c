#include "histogram.h"

/* Values below HISTOGRAM_STEPS have a bucket each; above, every power of two has HISTOGRAM_STEPS buckets. */
static unsigned shift_of(uint64_t value) {
    return value < HISTOGRAM_STEPS ? 0 : (unsigned)(63 - HISTOGRAM_STEP_BITS - __builtin_clzll(value));
}

void histogram_add(load_histogram *histogram, uint64_t value) {
    unsigned shift = shift_of(value);
    histogram->counts[shift * HISTOGRAM_STEPS + (value >> shift)]++;
    histogram->min = histogram->n && histogram->min < value ? histogram->min : value;
    histogram->max = histogram->max > value ? histogram->max : value;
    histogram->sum += (double)value;
    histogram->n++;
}

double histogram_quantile(const load_histogram *histogram, double share) {
    double wanted = share * (double)histogram->n;
    uint64_t seen = 0;
    for (unsigned i = 0; i < sizeof histogram->counts / sizeof *histogram->counts; i++) {
        seen += histogram->counts[i];
        if (seen && (double)seen >= wanted) {
            unsigned shift = i < 2 * HISTOGRAM_STEPS ? 0 : i / HISTOGRAM_STEPS - 1;
            uint64_t first = (uint64_t)(i - shift * HISTOGRAM_STEPS) << shift;
            double middle = (double)first + (double)((UINT64_C(1) << shift) - 1) / 2;
            return middle > (double)histogram->max ? (double)histogram->max : middle;
        }
    }
    return 0;
}
