/* The histogram of the load generator: exact ends, quantiles within half a bucket. */
#include "check.h"
#include "histogram.h"

#include <math.h>
#include <string.h>

static load_histogram h;

static void check_near(double expected, double actual) {
    CHECK(fabs(actual - expected) <= expected * 0.005);
}

static void test_empty(void) {
    memset(&h, 0, sizeof h);
    CHECK_EQUAL(0, histogram_quantile(&h, 0.5));
    CHECK_EQUAL(0, h.min);
    CHECK_EQUAL(0, h.max);
}

/* One value of each size up to the greatest: whatever it is, the bucket is found again. */
static void test_every_size(void) {
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int step = -1; step <= 1; step++) {
            uint64_t value = (UINT64_C(1) << bit) + (uint64_t)step;
            memset(&h, 0, sizeof h);
            histogram_add(&h, value);
            check_near((double)value, histogram_quantile(&h, 0));
            check_near((double)value, histogram_quantile(&h, 1));
            CHECK(h.min == value && h.max == value);
        }
    }
    memset(&h, 0, sizeof h);
    histogram_add(&h, UINT64_MAX);
    check_near((double)UINT64_MAX, histogram_quantile(&h, 0.5));
}

static void test_quantiles(void) {
    memset(&h, 0, sizeof h);
    for (uint64_t value = 1; value <= 100000; value++) {
        histogram_add(&h, value * 10);
    }
    check_near(500000, histogram_quantile(&h, 0.5));
    check_near(900000, histogram_quantile(&h, 0.9));
    check_near(999000, histogram_quantile(&h, 0.999));
    CHECK_EQUAL(10, h.min);
    CHECK_EQUAL(1000000, h.max);
    CHECK_EQUAL(500005, h.sum / (double)h.n);
}

int main(void) {
    test_empty();
    test_every_size();
    test_quantiles();
    return check_finish();
}
