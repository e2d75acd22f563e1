/* The vector layer of a stand-in backend: 2 to 16 lanes in an array and any register tile, without an instruction set.
 * May know: baseline C, the geometry and the names that CMake sets (STANDIN_*, HEED_ISA_SUFFIX, VEC_ISA).
 * Must not know: an algorithm, an instruction set.
 * Written for plainness; src/kernels/vec.md says what each function must do. */
#ifndef HEED_VEC_H
#define HEED_VEC_H

#include "../../src/convert.h"
#include "../../src/kernels/common.h"
#include "../../src/kernels/deal.h"
#include "../../src/kernels/fma.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Arrays need no unrolling, and a compiler takes minutes over unrolled loops of arrays. */
#undef UNROLL
#define UNROLL

enum {
    VEC_LANES = STANDIN_LANES,
    TILE_M = STANDIN_ROWS,
    TILE_V = STANDIN_VECTORS,
    VEC_COLUMNS = VEC_LANES < 4 ? VEC_LANES : 4,
    VEC_REGISTERS = TILE_M * TILE_V + TILE_V + 1, /* an array never spills */
    VEC_REQUIRES = 0,
#if defined(__x86_64__) || defined(__i386__)
    VEC_SLEEF_REQUIRES = HEED_CPU_AVX2 | HEED_CPU_FMA /* SLEEF's purecfma functions contain FMA instructions */
#else
    VEC_SLEEF_REQUIRES = 0
#endif
};

typedef struct vf {
    float lane[VEC_LANES];
} vf;

INLINE vf vf_set1(float x)
{
    vf r;
    for (int i = 0; i < VEC_LANES; i++)
        r.lane[i] = x;
    return r;
}
INLINE vf vf_zero(void)
{
    return vf_set1(0.0f);
}
INLINE vf vf_load1(const float *p)
{
    return vf_set1(*p);
}
INLINE vf vf_load(const float *p)
{
    vf r;
    memcpy(r.lane, p, sizeof r.lane);
    return r;
}
INLINE vf vf_load_f16(const uint16_t *p)
{
    vf r;
    for (int i = 0; i < VEC_LANES; i++)
        r.lane[i] = heed_from_f16(p[i]);
    return r;
}
INLINE vf vf_load_bf16(const uint16_t *p)
{
    vf r;
    for (int i = 0; i < VEC_LANES; i++)
        r.lane[i] = heed_from_bf16(p[i]);
    return r;
}
INLINE vf vf_load_i8(const int8_t *p)
{
    vf r;
    for (int i = 0; i < VEC_LANES; i++)
        r.lane[i] = (float)p[i];
    return r;
}
INLINE void vf_store(float *p, vf a)
{
    memcpy(p, a.lane, sizeof a.lane);
}
INLINE void vf_store_f16(uint16_t *p, vf a)
{
    for (int i = 0; i < VEC_LANES; i++)
        p[i] = heed_to_f16(a.lane[i]);
}
INLINE void vf_store_bf16(uint16_t *p, vf a)
{
    for (int i = 0; i < VEC_LANES; i++)
        p[i] = heed_to_bf16(a.lane[i]);
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    vf r = vf_zero();
    for (size_t i = 0; i < n; i++)
        r.lane[i] = p[i];
    return r;
}
INLINE void vf_store_n(float *p, vf a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = a.lane[i];
}
INLINE vf vf_add(vf a, vf b)
{
    for (int i = 0; i < VEC_LANES; i++)
        a.lane[i] = a.lane[i] + b.lane[i];
    return a;
}
INLINE vf vf_sub(vf a, vf b)
{
    for (int i = 0; i < VEC_LANES; i++)
        a.lane[i] = a.lane[i] - b.lane[i];
    return a;
}
INLINE vf vf_mul(vf a, vf b)
{
    for (int i = 0; i < VEC_LANES; i++)
        a.lane[i] = a.lane[i] * b.lane[i];
    return a;
}
INLINE vf vf_div(vf a, vf b)
{
    for (int i = 0; i < VEC_LANES; i++)
        a.lane[i] = a.lane[i] / b.lane[i];
    return a;
}
/* Called, not inlined, for the compiler's sake. */
NOINLINE vf vf_fma(vf a, vf b, vf c)
{
    for (int i = 0; i < VEC_LANES; i++)
        c.lane[i] = fma_once(a.lane[i], b.lane[i], c.lane[i]);
    return c;
}
INLINE vf vf_max(vf a, vf b)
{
    for (int i = 0; i < VEC_LANES; i++)
        b.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return b;
}
INLINE vf vf_select_below(vf x, float bound, vf a, vf b)
{
    for (int i = 0; i < VEC_LANES; i++)
        b.lane[i] = x.lane[i] < bound ? a.lane[i] : b.lane[i];
    return b;
}
INLINE vf vf_zero_below(vf x, float bound, vf y)
{
    return vf_select_below(x, bound, vf_zero(), y);
}
INLINE vf vf_abs(vf a)
{
    for (int i = 0; i < VEC_LANES; i++)
        a.lane[i] = fabsf(a.lane[i]);
    return a;
}
INLINE vf vf_signed(vf a, vf x)
{
    for (int i = 0; i < VEC_LANES; i++)
        a.lane[i] = copysignf(a.lane[i], x.lane[i]);
    return a;
}
INLINE vf vf_hide(vf s, const uint8_t *visible)
{
    for (int i = 0; i < VEC_LANES; i++)
        s.lane[i] = visible[i] ? s.lane[i] : -INFINITY;
    return s;
}
INLINE vf vf_bits_shl23(vf a)
{
    uint32_t bits[VEC_LANES];
    memcpy(bits, a.lane, sizeof bits);
    for (int i = 0; i < VEC_LANES; i++)
        bits[i] <<= 23;
    memcpy(a.lane, bits, sizeof bits);
    return a;
}
INLINE float vf_reduce_add(vf a)
{
    for (int w = VEC_LANES / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            a.lane[i] = a.lane[i] + a.lane[i + w];
    return a.lane[0];
}
INLINE float vf_reduce_max(vf a)
{
    float max = a.lane[0];
    for (int i = 1; i < VEC_LANES; i++)
        max = a.lane[i] > max ? a.lane[i] : max;
    return max;
}
INLINE void vf_transpose(vf r[VEC_LANES])
{
    for (int i = 0; i < VEC_LANES; i++)
        for (int j = 0; j < i; j++) {
            const float x = r[i].lane[j];
            r[i].lane[j] = r[j].lane[i];
            r[j].lane[i] = x;
        }
}
INLINE void vf_load_columns(vf r[VEC_COLUMNS], const float *p, ptrdiff_t ld)
{
    for (int c = 0; c < VEC_COLUMNS; c++)
        for (int i = 0; i < VEC_LANES; i++)
            r[c].lane[i] = p[i * ld + c];
}

#ifdef HEED_WITH_SLEEF
/* <sleef.h> declares it only in files compiled with FMA. */
float Sleef_finz_expf1_u10purecfma(float);
INLINE vf vf_exp_sleef(vf x)
{
    for (int i = 0; i < VEC_LANES; i++)
        x.lane[i] = Sleef_finz_expf1_u10purecfma(x.lane[i]);
    return x;
}
#endif

#endif
