/* The little statistics of the samples.
 * May know: numbers.  Must not know: what they measure. */
#include "statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double statistics_median(double *values, size_t n)
{
    if (n == 0)
        return (double)NAN;
    qsort(values, n, sizeof *values, compare);
    return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}
