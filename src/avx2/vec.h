/* The vector layer for AVX2 + FMA; what each function must do is in ../kernels/vec.md.
 * May know: AVX2 and FMA intrinsics.  Must not know: an algorithm.
 * Registers: 16.  6 x 2 accumulators + 2 of B + 1 broadcast of A = 15. */
#ifndef HEED_VEC_H
#define HEED_VEC_H

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "compile src/avx2 with -mavx2 -mfma -mf16c"
#endif

#include "../kernels/common.h"
#include "deal.h"

#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#ifdef HEED_WITH_SLEEF
#include <sleef.h>
#endif

#define HEED_ISA_SUFFIX avx2
#define VEC_ISA HEED_ISA_AVX2
enum {
    VEC_LANES = 8,
    VEC_REGISTERS = 16,
    TILE_M = 6,
    TILE_V = 2,
    VEC_COLUMNS = 4,
    VEC_REQUIRES = HEED_CPU_AVX2 | HEED_CPU_FMA | HEED_CPU_F16C,
    VEC_SLEEF_REQUIRES = VEC_REQUIRES
};

typedef __m256 vf;

/* The first n lanes, n in [0, 8], as a mask for the masked loads and stores. */
INLINE __m256i vec_first(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}
INLINE vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}
INLINE vf vf_load1(const float *p)
{
    return vf_set1(*p);
}
INLINE vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INLINE vf vf_load_bf16(const uint16_t *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
INLINE vf vf_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
INLINE void vf_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a);
}
INLINE void vf_store_f16(uint16_t *p, vf a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
/* The upper half, plus one where the lower is more than a half, or is a half and the upper odd; NaN without rounding. */
INLINE void vf_store_bf16(uint16_t *p, vf a)
{
    const __m256i bits = _mm256_castps_si256(a), upper = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    const __m256i words = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
    const __m256i pairs = _mm256_packus_epi32(words, words); /* each half twice in its own lane */
    _mm_storeu_si128(
        (__m128i *)(void *)p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, _MM_SHUFFLE(3, 1, 2, 0))));
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, vec_first(n));
}
INLINE void vf_store_n(float *p, vf a, size_t n)
{
    _mm256_maskstore_ps(p, vec_first(n), a);
}
INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
INLINE vf vf_zero_below(vf x, float bound, vf y)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(bound), _CMP_LT_OQ), y);
}
INLINE vf vf_select_below(vf x, float bound, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, _mm256_set1_ps(bound), _CMP_LT_OQ));
}
INLINE vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
/* a, which has no sign, with that of x. */
INLINE vf vf_signed(vf a, vf x)
{
    return _mm256_or_ps(a, _mm256_and_ps(_mm256_set1_ps(-0.0f), x));
}
INLINE vf vf_hide(vf s, const uint8_t *visible)
{
    const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)visible));
    const __m256i hidden = _mm256_cmpeq_epi32(bytes, _mm256_setzero_si256());
    return _mm256_blendv_ps(s, _mm256_set1_ps(-INFINITY), _mm256_castsi256_ps(hidden));
}
INLINE vf vf_bits_shl23(vf a)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
}
INLINE float vf_reduce_add(vf a)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
INLINE float vf_reduce_max(vf a)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* 8 x 8: pairs, then quads, then halves. */
INLINE void vf_transpose(vf r[VEC_LANES])
{
    vf t[8], u[8];
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}
/* Four columns: eight 8 x 8 would leave no register for sums.  Keys 4 to 7 come into the upper halves from memory, so that two
 * shuffles are left for each vector. */
INLINE void vf_load_columns(vf r[VEC_COLUMNS], const float *p, ptrdiff_t ld)
{
    vf rows[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        const vf low = _mm256_castps128_ps256(_mm_loadu_ps(p + i * ld));
        rows[i] = _mm256_insertf128_ps(low, _mm_loadu_ps(p + (i + 4) * ld), 1);
    }
    const vf low01 = _mm256_unpacklo_ps(rows[0], rows[1]), low23 = _mm256_unpacklo_ps(rows[2], rows[3]);
    const vf high01 = _mm256_unpackhi_ps(rows[0], rows[1]), high23 = _mm256_unpackhi_ps(rows[2], rows[3]);
    r[0] = _mm256_shuffle_ps(low01, low23, 0x44);
    r[1] = _mm256_shuffle_ps(low01, low23, 0xee);
    r[2] = _mm256_shuffle_ps(high01, high23, 0x44);
    r[3] = _mm256_shuffle_ps(high01, high23, 0xee);
}

#ifdef HEED_WITH_SLEEF
INLINE vf vf_exp_sleef(vf x)
{
    return Sleef_finz_expf8_u10avx2(x);
}
#endif

#endif
