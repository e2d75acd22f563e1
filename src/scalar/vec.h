/* The vector layer for one lane: the readable definition of every backend's bits, and the fallback of every CPU.
 * May know: baseline C.  Must not know: an algorithm, an instruction set.
 * Registers are not counted: 4 x 2 accumulators + 2 of B + 1 of A fit the 16 of x86-64 and the 32 of AArch64. */
#ifndef HEED_VEC_H
#define HEED_VEC_H

#include "../convert.h"
#include "../kernels/common.h"
#include "../kernels/deal.h"
#include "../kernels/fma.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One lane has nothing that must stay in vector registers; unrolled by hand the library is 8 kB larger, for 1 % fewer instructions. */
#undef UNROLL
#define UNROLL

#define HEED_ISA_SUFFIX scalar
#define VEC_ISA HEED_ISA_SCALAR
enum {
    VEC_LANES = 1,
    VEC_REGISTERS = 16,
    TILE_M = 4,
    TILE_V = 2,
    VEC_COLUMNS = 1,
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
INLINE vf vf_load1(const float *p)
{
    return vf_set1(*p);
}
INLINE vf vf_load(const float *p)
{
    return *p;
}
INLINE vf vf_load_f16(const uint16_t *p)
{
    return heed_from_f16(*p);
}
INLINE vf vf_load_bf16(const uint16_t *p)
{
    return heed_from_bf16(*p);
}
INLINE vf vf_load_i8(const int8_t *p)
{
    return (float)*p;
}
INLINE void vf_store(float *p, vf a)
{
    *p = a;
}
INLINE void vf_store_f16(uint16_t *p, vf a)
{
    *p = heed_to_f16(a);
}
INLINE void vf_store_bf16(uint16_t *p, vf a)
{
    *p = heed_to_bf16(a);
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
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return fma_once(a, b, c);
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
INLINE vf vf_abs(vf a)
{
    return fabsf(a);
}
/* a, which has no sign, with that of x. */
INLINE vf vf_signed(vf a, vf x)
{
    return copysignf(a, x);
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
INLINE void vf_load_columns(vf r[VEC_COLUMNS], const float *p, ptrdiff_t ld)
{
    (void)ld;
    r[0] = *p;
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
