/* The vector layer for AArch64 Advanced SIMD; what each function must do is in ../kernels/vec.md.
 * May know: Advanced SIMD intrinsics.  Must not know: an algorithm.
 * Registers: 32.  5 x 4 accumulators + 4 of B + 1 broadcast of A = 25; gcc 12 spills at 24 accumulators (6 x 4). */
#ifndef HEED_VEC_H
#define HEED_VEC_H

#if !defined(__aarch64__)
#error "src/neon is for AArch64"
#endif

#include "../kernels/common.h"

#include <arm_neon.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef HEED_WITH_SLEEF
#include <sleef.h>
#endif

#define HEED_ISA_SUFFIX neon
#define VEC_ISA HEED_ISA_NEON
enum {
    VEC_LANES = 4,
    VEC_REGISTERS = 32,
    TILE_M = 5,
    TILE_V = 4,
    VEC_COLUMNS = 4,
    VEC_REQUIRES = HEED_CPU_NEON,
    VEC_SLEEF_REQUIRES = VEC_REQUIRES
};

typedef float32x4_t vf;

INLINE vf vf_zero(void)
{
    return vdupq_n_f32(0.0f);
}
INLINE vf vf_set1(float x)
{
    return vdupq_n_f32(x);
}
/* ldr and products by element: ld1r, which compilers choose, also takes a slot of the vector pipes. */
INLINE vf vf_load1(const float *p)
{
    float x = *p;
    __asm__("" : "+w"(x));
    return vdupq_n_f32(x);
}
INLINE vf vf_load(const float *p)
{
    return vld1q_f32(p);
}
INLINE vf vf_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
INLINE vf vf_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16));
}
INLINE vf vf_load_i8(const int8_t *p)
{
    uint32_t four; /* an 8-byte load would read too far */
    memcpy(&four, p, sizeof four);
    const int16x4_t wide = vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four))));
    return vcvtq_f32_s32(vmovl_s16(wide));
}
INLINE void vf_store(float *p, vf a)
{
    vst1q_f32(p, a);
}
INLINE void vf_store_f16(uint16_t *p, vf a)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}
/* The upper half, plus one where the lower is more than a half, or is a half and the upper odd; NaN without rounding. */
INLINE void vf_store_bf16(uint16_t *p, vf a)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(a), upper = vshrq_n_u32(bits, 16);
    const uint32x4_t odd = vandq_u32(upper, vdupq_n_u32(1));
    const uint32x4_t sum = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(upper, vdupq_n_u32(0x40));
    vst1_u16(p, vmovn_u32(vbslq_u32(vceqq_f32(a, a), vshrq_n_u32(sum, 16), quiet)));
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    float lanes[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    for (size_t i = 0; i < 4 && i < n; i++)
        lanes[i] = p[i];
    return vld1q_f32(lanes);
}
INLINE void vf_store_n(float *p, vf a, size_t n)
{
    float lanes[4];
    vst1q_f32(lanes, a);
    for (size_t i = 0; i < 4 && i < n; i++)
        p[i] = lanes[i];
}
INLINE vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}
INLINE vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}
INLINE vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}
INLINE vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}
INLINE vf vf_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b); /* fmax would propagate NaN, fmaxnm drop it from either side */
}
INLINE vf vf_zero_below(vf x, float bound, vf y)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(y), vcltq_f32(x, vdupq_n_f32(bound))));
}
INLINE vf vf_select_below(vf x, float bound, vf a, vf b)
{
    return vbslq_f32(vcltq_f32(x, vdupq_n_f32(bound)), a, b);
}
INLINE vf vf_abs(vf a)
{
    return vabsq_f32(a);
}
/* a, which has no sign, with that of x. */
INLINE vf vf_signed(vf a, vf x)
{
    return vbslq_f32(vdupq_n_u32(0x80000000u), x, a);
}
INLINE vf vf_hide(vf s, const uint8_t *visible)
{
    const uint32_t lanes[4] = { visible[0], visible[1], visible[2], visible[3] };
    return vbslq_f32(vceqzq_u32(vld1q_u32(lanes)), vdupq_n_f32(-INFINITY), s);
}
INLINE vf vf_bits_shl23(vf a)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(a), 23));
}
INLINE float vf_reduce_add(vf a)
{
    const float32x2_t x = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(x, 0) + vget_lane_f32(x, 1);
}
INLINE float vf_reduce_max(vf a)
{
    return vmaxvq_f32(a); /* never sees a NaN: vf_max from -inf has dropped them */
}

/* 4 x 4: pairs, then halves. */
INLINE void vf_transpose(vf r[VEC_LANES])
{
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1])),
                      b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3])),
                      d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}
INLINE void vf_load_columns(vf r[VEC_COLUMNS], const float *p, ptrdiff_t ld)
{
    UNROLL
    for (int i = 0; i < VEC_LANES; i++)
        r[i] = vf_load(p + i * ld);
    vf_transpose(r);
}
/* The rows of the lower and the upper half dealt alternately until each holds one element of all keys; 8 keys of 16 bits, 16 of 8, fill
 * half a row of the result. */
INLINE void vf_deal_16(char *to, const char *from, ptrdiff_t distance)
{
    for (int half = 0; half < 2; half++, from += 8 * distance) {
        uint16x8_t r[8], t[8];
        UNROLL
        for (int i = 0; i < 8; i++)
            r[i] = vreinterpretq_u16_u8(vld1q_u8((const uint8_t *)from + i * distance));
        UNROLL
        for (int round = 0; round < 3; round++) {
            UNROLL
            for (int i = 0; i < 4; i++) {
                t[2 * i] = vzip1q_u16(r[i], r[i + 4]);
                t[2 * i + 1] = vzip2q_u16(r[i], r[i + 4]);
            }
            UNROLL
            for (int i = 0; i < 8; i++)
                r[i] = t[i];
        }
        UNROLL
        for (int i = 0; i < 8; i++)
            vst1q_u8((uint8_t *)to + 32 * i + 16 * half, vreinterpretq_u8_u16(r[i]));
    }
}
INLINE void vf_deal_8(char *to, const char *from, ptrdiff_t distance)
{
    for (int half = 0; half < 2; half++, from += 16 * distance) {
        uint8x16_t r[16], t[16];
        UNROLL
        for (int i = 0; i < 16; i++)
            r[i] = vld1q_u8((const uint8_t *)from + i * distance);
        UNROLL
        for (int round = 0; round < 4; round++) {
            UNROLL
            for (int i = 0; i < 8; i++) {
                t[2 * i] = vzip1q_u8(r[i], r[i + 8]);
                t[2 * i + 1] = vzip2q_u8(r[i], r[i + 8]);
            }
            UNROLL
            for (int i = 0; i < 16; i++)
                r[i] = t[i];
        }
        UNROLL
        for (int i = 0; i < 16; i++)
            vst1q_u8((uint8_t *)to + 32 * i + 16 * half, r[i]);
    }
}

#ifdef HEED_WITH_SLEEF
INLINE vf vf_exp_sleef(vf x)
{
    return Sleef_finz_expf4_u10advsimd(x);
}
#endif

#endif
