/* The little statistics of the samples.
 * May know: numbers.  Must not know: what they measure. */
#ifndef HEED_BENCH_STATISTICS_H
#define HEED_BENCH_STATISTICS_H

#include <stddef.h>

/* The median of n values, which are sorted by this; NaN of none. */
double statistics_median(double *values, size_t n);

#endif
