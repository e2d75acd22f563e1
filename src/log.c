/* The natural logarithm for LSE, from IEEE-754 double operations only.
 * May know: nothing.  Must not know: anything.
 * x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m-1)/(m+1)) by its series: |s| <= 0.1716, so the term after s^21
 * is below 1e-18. */
#include "log.h"

#include <math.h>

double heed_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2.0;
        exponent--;
    }
    const double s = (m - 1.0) / (m + 1.0), square = s * s;
    double series = 0.0;
    for (int k = 21; k >= 1; k -= 2)
        series = series * square + 1.0 / k;
    /* ln 2 in two parts: the first has trailing zeros, so its product with the exponent is exact. */
    return exponent * 0x1.62e42fefa38p-1 + (2.0 * s * series + exponent * 0x1.ef35793c7673p-45);
}

float heed_lse(float max, float sum)
{
    if (sum == 0.0f)
        return -INFINITY;
    if (!(sum < INFINITY) || !isfinite(max)) /* a NaN or +inf score */
        return NAN;
    return (float)((double)max + heed_log((double)sum));
}
