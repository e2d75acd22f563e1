/* The fused multiply-add of binary32 for vector layers without an instruction for it.
 * May know: baseline C.  Must not know: an algorithm, an instruction set. */
#ifndef HEED_KERNELS_FMA_H
#define HEED_KERNELS_FMA_H

#include "common.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#if !defined(FP_FAST_FMAF) && !defined(__aarch64__)
/* Rounds the double sum to odd (Boldo & Melquiond 2008), then to float: one rounding in all. */
static __attribute__((noinline, cold)) float fma_to_odd(double product, double c)
{
    double sum = product + c;
    const double from_c = sum - product;
    const double error = (product - (sum - from_c)) + (c - from_c);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if ((error > 0 || error < 0) && !(bits & 1)) { /* false for NaN: infinities and NaN pass through */
        bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}
#endif

/* One rounding of a*b + c.  libm's fmaf without an FMA instruction is exact but slow; the product of two floats is exact in
 * double, and only a sum that looks like a tie between two floats, or that becomes a subnormal one, can round twice. */
INLINE float fma_once(float a, float b, float c)
{
#if defined(FP_FAST_FMAF) || defined(__aarch64__)
    return fmaf(a, b, c);
#else
    const double product = (double)a * b, sum = product + c;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    const int tie = (bits & 0x1fffffff) == 0x10000000, subnormal = fabs(sum) < 0x1p-126 && sum != 0.0;
    return tie || subnormal ? fma_to_odd(product, c) : (float)sum;
#endif
}

#endif
