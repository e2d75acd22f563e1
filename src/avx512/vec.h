/* The vector layer for AVX-512 F, DQ, BW and VL; what each function must do is in ../kernels/vec.md.
 * May know: AVX-512 intrinsics.  Must not know: an algorithm.
 * Registers: 32.  12 x 2 accumulators + 2 of B + 1 broadcast of A = 27 (compilers fold the broadcast into the product). */
#ifndef HEED_VEC_H
#define HEED_VEC_H

#if !defined(__AVX512F__) || !defined(__AVX512DQ__) || !defined(__AVX512BW__) || !defined(__AVX512VL__)
#error "compile src/avx512 with -mavx512f -mavx512dq -mavx512bw -mavx512vl"
#endif

#include "../avx2/deal.h"
#include "../kernels/common.h"

#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#ifdef HEED_WITH_SLEEF
#include <sleef.h>
#endif

#define HEED_ISA_SUFFIX avx512
#define VEC_ISA HEED_ISA_AVX512
enum {
    VEC_LANES = 16,
    VEC_REGISTERS = 32,
    TILE_M = 12,
    TILE_V = 2,
    VEC_COLUMNS = 8,
    VEC_REQUIRES = HEED_CPU_AVX512F | HEED_CPU_AVX512DQ | HEED_CPU_AVX512BW | HEED_CPU_AVX512VL | HEED_CPU_AVX2 |
                   HEED_CPU_FMA | HEED_CPU_F16C,
    VEC_SLEEF_REQUIRES = VEC_REQUIRES
};

typedef __m512 vf;

/* The first n lanes, n in [0, 16]. */
INLINE __mmask16 vec_first(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}
INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
INLINE vf vf_load1(const float *p)
{
    return vf_set1(*p);
}
INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
INLINE vf vf_load_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
INLINE vf vf_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
INLINE void vf_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}
INLINE void vf_store_f16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
/* The upper half, plus one where the lower is more than a half, or is a half and the upper odd; NaN without rounding. */
INLINE void vf_store_bf16(uint16_t *p, vf a)
{
    const __m512i bits = _mm512_castps_si512(a), upper = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_epi32(upper, _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    const __m512i words = _mm512_mask_or_epi32(_mm512_srli_epi32(sum, 16), nan, upper, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(words));
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(vec_first(n), p);
}
INLINE void vf_store_n(float *p, vf a, size_t n)
{
    _mm512_mask_storeu_ps(p, vec_first(n), a);
}
INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
INLINE vf vf_zero_below(vf x, float bound, vf y)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(bound), _CMP_NLT_UQ), y);
}
INLINE vf vf_select_below(vf x, float bound, vf a, vf b)
{
    return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(x, _mm512_set1_ps(bound), _CMP_LT_OQ), a);
}
INLINE vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}
/* a, which has no sign, with that of x. */
INLINE vf vf_signed(vf a, vf x)
{
    enum { A_OR_X_AND_SIGN = 0xF8 };
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        _mm512_castps_si512(a), _mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN), A_OR_X_AND_SIGN));
}
INLINE vf vf_hide(vf s, const uint8_t *visible)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)visible);
    return _mm512_mask_mov_ps(s, _mm_cmpeq_epi8_mask(bytes, _mm_setzero_si128()), _mm512_set1_ps(-INFINITY));
}
INLINE vf vf_bits_shl23(vf a)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23));
}
INLINE float vf_reduce_add(vf a)
{
    const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
INLINE float vf_reduce_max(vf a)
{
    const __m256 y = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* 16 x 16: pairs, quads, then the 4 x 4 matrix of 128-bit lanes. */
INLINE void vf_transpose(vf r[VEC_LANES])
{
    vf t[16], u[16];
    UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 16; i += 4) {
        u[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        const vf low0 = _mm512_shuffle_f32x4(u[i], u[i + 4], 0x44), high0 = _mm512_shuffle_f32x4(u[i], u[i + 4], 0xee);
        const vf low1 = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0x44);
        const vf high1 = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0xee);
        r[i] = _mm512_shuffle_f32x4(low0, low1, 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(low0, low1, 0xdd);
        r[i + 8] = _mm512_shuffle_f32x4(high0, high1, 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(high0, high1, 0xdd);
    }
}
/* Eight columns: 16 x 16 would leave too few registers for sums.  Keys 4 to 7 and 12 to 15 come into the upper halves from memory,
 * so that three shuffles are left for each vector. */
INLINE void vf_load_columns(vf r[VEC_COLUMNS], const float *p, ptrdiff_t ld)
{
    vf part[8]; /* column c, then c + 4, of keys 0 to 7, respectively 8 to 15 */
    UNROLL
    for (int half = 0; half < 2; half++) {
        const float *from = p + 8 * half * ld;
        vf rows[4];
        UNROLL
        for (int i = 0; i < 4; i++) {
            const __m512d low = _mm512_castpd256_pd512(_mm256_castps_pd(_mm256_loadu_ps(from + i * ld)));
            rows[i] =
                _mm512_castpd_ps(_mm512_insertf64x4(low, _mm256_castps_pd(_mm256_loadu_ps(from + (i + 4) * ld)), 1));
        }
        const vf low01 = _mm512_unpacklo_ps(rows[0], rows[1]), low23 = _mm512_unpacklo_ps(rows[2], rows[3]);
        const vf high01 = _mm512_unpackhi_ps(rows[0], rows[1]), high23 = _mm512_unpackhi_ps(rows[2], rows[3]);
        part[4 * half] = _mm512_shuffle_ps(low01, low23, 0x44);
        part[4 * half + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
        part[4 * half + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
        part[4 * half + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
    }
    UNROLL
    for (int c = 0; c < 4; c++) {
        r[c] = _mm512_shuffle_f32x4(part[c], part[c + 4], 0x88);
        r[c + 4] = _mm512_shuffle_f32x4(part[c], part[c + 4], 0xdd);
    }
}

#ifdef HEED_WITH_SLEEF
INLINE vf vf_exp_sleef(vf x)
{
    return Sleef_finz_expf16_u10avx512f(x);
}
#endif

#endif
