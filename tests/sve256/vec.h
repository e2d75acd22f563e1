/* The vector layer for SVE with vectors of 256 bits; what each function must do is in src/kernels/vec.md.
 * May know: SVE intrinsics.  Must not know: an algorithm.
 * Registers: 32.  5 x 4 accumulators + 4 of B + 1 broadcast of A = 25. */
#ifndef HEED_VEC_H
#define HEED_VEC_H

#if !defined(__ARM_FEATURE_SVE_BITS) || __ARM_FEATURE_SVE_BITS != 256
#error "compile sve256 with -march=armv8.2-a+sve -msve-vector-bits=256"
#endif

#include "../../src/kernels/common.h"
#include "../../src/kernels/deal.h"

#include <arm_sve.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#ifdef HEED_WITH_SLEEF
#include <sleef.h>
#endif

#define HEED_ISA_SUFFIX sve256
#ifndef VEC_ISA
#define VEC_ISA HEED_ISA_SVE256
#endif
enum {
    VEC_LANES = 8,
    VEC_REGISTERS = 32,
    TILE_M = 5,
    TILE_V = 4,
    VEC_COLUMNS = 8,
    VEC_REQUIRES = HEED_CPU_NEON | HEED_CPU_SVE,
    VEC_SLEEF_REQUIRES = VEC_REQUIRES
};

/* Only the form of fixed length can be an element of an array. */
typedef svfloat32_t vf __attribute__((arm_sve_vector_bits(256)));

INLINE vf vf_zero(void)
{
    return svdup_n_f32(0.0f);
}
INLINE vf vf_set1(float x)
{
    return svdup_n_f32(x);
}
INLINE vf vf_load1(const float *p)
{
    return vf_set1(*p);
}
INLINE vf vf_load(const float *p)
{
    return svld1_f32(svptrue_b32(), p);
}
INLINE vf vf_load_f16(const uint16_t *p)
{
    return svcvt_f32_f16_x(svptrue_b32(), svreinterpret_f16_u32(svld1uh_u32(svptrue_b32(), p)));
}
INLINE vf vf_load_bf16(const uint16_t *p)
{
    return svreinterpret_f32_u32(svlsl_n_u32_x(svptrue_b32(), svld1uh_u32(svptrue_b32(), p), 16));
}
INLINE vf vf_load_i8(const int8_t *p)
{
    return svcvt_f32_s32_x(svptrue_b32(), svld1sb_s32(svptrue_b32(), p));
}
INLINE void vf_store(float *p, vf a)
{
    svst1_f32(svptrue_b32(), p, a);
}
INLINE void vf_store_f16(uint16_t *p, vf a)
{
    svst1h_u32(svptrue_b32(), p, svreinterpret_u32_f16(svcvt_f16_f32_x(svptrue_b32(), a)));
}
/* The upper half, plus one where the lower is more than a half, or is a half and the upper odd; NaN without rounding. */
INLINE void vf_store_bf16(uint16_t *p, vf a)
{
    const svbool_t all = svptrue_b32();
    const svuint32_t bits = svreinterpret_u32_f32(a), upper = svlsr_n_u32_x(all, bits, 16);
    const svuint32_t sum = svadd_u32_x(all, bits, svadd_n_u32_x(all, svand_n_u32_x(all, upper, 1), 0x7fff));
    const svuint32_t quiet = svorr_n_u32_x(all, upper, 0x40);
    svst1h_u32(all, p, svsel_u32(svcmpeq_f32(all, a, a), svlsr_n_u32_x(all, sum, 16), quiet));
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    return svld1_f32(svwhilelt_b32_u64(0, n), p);
}
INLINE void vf_store_n(float *p, vf a, size_t n)
{
    svst1_f32(svwhilelt_b32_u64(0, n), p, a);
}
INLINE vf vf_add(vf a, vf b)
{
    return svadd_f32_x(svptrue_b32(), a, b);
}
INLINE vf vf_sub(vf a, vf b)
{
    return svsub_f32_x(svptrue_b32(), a, b);
}
INLINE vf vf_mul(vf a, vf b)
{
    return svmul_f32_x(svptrue_b32(), a, b);
}
INLINE vf vf_div(vf a, vf b)
{
    return svdiv_f32_x(svptrue_b32(), a, b);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return svmla_f32_x(svptrue_b32(), c, a, b);
}
INLINE vf vf_max(vf a, vf b)
{
    return svsel_f32(
        svcmpgt_f32(svptrue_b32(), a, b), a, b); /* fmax would propagate NaN, fmaxnm drop it from either side */
}
INLINE vf vf_select_below(vf x, float bound, vf a, vf b)
{
    return svsel_f32(svcmplt_n_f32(svptrue_b32(), x, bound), a, b);
}
INLINE vf vf_zero_below(vf x, float bound, vf y)
{
    return vf_select_below(x, bound, vf_zero(), y);
}
INLINE vf vf_abs(vf a)
{
    return svabs_f32_x(svptrue_b32(), a);
}
INLINE vf vf_signed(vf a, vf x)
{
    const svuint32_t sign = svand_n_u32_x(svptrue_b32(), svreinterpret_u32_f32(x), 0x80000000u);
    return svreinterpret_f32_u32(svorr_u32_x(svptrue_b32(), svreinterpret_u32_f32(a), sign));
}
INLINE vf vf_hide(vf s, const uint8_t *visible)
{
    const svbool_t hidden = svcmpeq_n_u32(svptrue_b32(), svld1ub_u32(svptrue_b32(), visible), 0);
    return svsel_f32(hidden, svdup_n_f32(-INFINITY), s);
}
INLINE vf vf_bits_shl23(vf a)
{
    return svreinterpret_f32_u32(svlsl_n_u32_x(svptrue_b32(), svreinterpret_u32_f32(a), 23));
}
INLINE float vf_reduce_add(vf a)
{
    a = vf_add(a, svext_f32(a, a, 4));
    a = vf_add(a, svext_f32(a, a, 2));
    a = vf_add(a, svext_f32(a, a, 1));
    return svlasta_f32(svpfalse_b(), a); /* after no active lane comes the first */
}
INLINE float vf_reduce_max(vf a)
{
    return svmaxv_f32(svptrue_b32(), a); /* never sees a NaN: vf_max from -inf has dropped them */
}

/* 8 x 8: dealing the rows of the lower and the upper half alternately, three times. */
INLINE void vf_transpose(vf r[VEC_LANES])
{
    vf t[8];
    UNROLL
    for (int round = 0; round < 3; round++) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            t[2 * i] = svzip1_f32(r[i], r[i + 4]);
            t[2 * i + 1] = svzip2_f32(r[i], r[i + 4]);
        }
        UNROLL
        for (int i = 0; i < 8; i++)
            r[i] = t[i];
    }
}
INLINE void vf_load_columns(vf r[VEC_COLUMNS], const float *p, ptrdiff_t ld)
{
    UNROLL
    for (int i = 0; i < VEC_LANES; i++)
        r[i] = vf_load(p + i * ld);
    vf_transpose(r);
}

#ifdef HEED_WITH_SLEEF
#if defined(__clang__)
/* clang 14 forgets it: without the mark the dynamic linker loses the upper lanes of the first call while it binds the name. */
__asm__(".variant_pcs Sleef_finz_expfx_u10sve");
#endif
INLINE vf vf_exp_sleef(vf x)
{
    return Sleef_finz_expfx_u10sve(x);
}
#endif

#endif
