/* The vector layer for one lane: the readable definition of every backend's bits, and the fallback of every CPU.
 * May know: baseline C.  Must not know: an algorithm, an instruction set.
 * Registers are not counted: 4 x 2 accumulators + 2 of B + 1 of A fit the 16 of x86-64 and the 32 of AArch64. */
#ifndef HEED_VEC_H
#define HEED_VEC_H

#include "../kernels/common.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HEED_ISA_SUFFIX scalar
#define VEC_ISA HEED_ISA_SCALAR
enum {
    VEC_LANES = 1,
    VEC_REGISTERS = 16,
    TILE_M = 4,
    TILE_V = 2,
    VEC_REQUIRES = 0,
#if defined(__x86_64__) || defined(__i386__)
    /* SLEEF's purecfma functions contain FMA instructions. */
    VEC_SLEEF_REQUIRES = HEED_CPU_AVX2 | HEED_CPU_FMA
#else
    VEC_SLEEF_REQUIRES = 0
#endif
};

typedef float vf;

INLINE vf vf_zero(void)
{
    return 0.0f;
}
INLINE vf vf_set1(float x)
{
    return x;
}
INLINE vf vf_load(const float *p)
{
    return *p;
}
INLINE void vf_store(float *p, vf a)
{
    *p = a;
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    return n ? *p : 0.0f;
}
INLINE void vf_store_n(float *p, vf a, size_t n)
{
    if (n)
        *p = a;
}
INLINE vf vf_add(vf a, vf b)
{
    return a + b;
}
INLINE vf vf_sub(vf a, vf b)
{
    return a - b;
}
INLINE vf vf_mul(vf a, vf b)
{
    return a * b;
}
INLINE vf vf_div(vf a, vf b)
{
    return a / b;
}

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
INLINE vf vf_fma(vf a, vf b, vf c)
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
INLINE vf vf_max(vf a, vf b)
{
    return a > b ? a : b;
}
INLINE vf vf_zero_below(vf x, float bound, vf y)
{
    return x < bound ? 0.0f : y;
}
INLINE vf vf_select_below(vf x, float bound, vf a, vf b)
{
    return x < bound ? a : b;
}
INLINE vf vf_hide(vf s, const uint8_t *visible)
{
    return *visible ? s : -INFINITY;
}
INLINE vf vf_bits_shl23(vf a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits <<= 23;
    memcpy(&a, &bits, sizeof a);
    return a;
}
INLINE float vf_reduce_add(vf a)
{
    return a;
}
INLINE float vf_reduce_max(vf a)
{
    return a;
}
INLINE void vf_transpose(vf r[VEC_LANES])
{
    (void)r;
}

#ifdef HEED_WITH_SLEEF
/* <sleef.h> declares it only in files compiled with FMA. */
float Sleef_finz_expf1_u10purecfma(float);
INLINE vf vf_exp_sleef(vf x)
{
    return Sleef_finz_expf1_u10purecfma(x);
}
#endif

#endif
