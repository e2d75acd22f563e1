/* Transposition of 16-bit and 8-bit rows with AVX2, for both x86 folders: 256 bits are a row of what ../kernels/vec.md asks for.
 * May know: AVX2 intrinsics.  Must not know: an algorithm. */
#ifndef HEED_DEAL_H
#define HEED_DEAL_H

#include "../kernels/common.h"

#include <immintrin.h>
#include <stddef.h>

INLINE __m256i vec_pair(const char *low, const char *high)
{
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)low);
    const __m128i y = _mm_loadu_si128((const __m128i *)(const void *)high);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(x), y, 1);
}
/* Rows i and i + 8, respectively i + 16, side by side; then the rows of the lower and the upper half are dealt alternately until each
 * holds one element of all keys. */
INLINE void vf_deal_16(char *to, const char *from, ptrdiff_t distance)
{
    __m256i r[8], t[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = vec_pair(from + i * distance, from + (i + 8) * distance);
    UNROLL
    for (int round = 0; round < 3; round++) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            t[2 * i] = _mm256_unpacklo_epi16(r[i], r[i + 4]);
            t[2 * i + 1] = _mm256_unpackhi_epi16(r[i], r[i + 4]);
        }
        UNROLL
        for (int i = 0; i < 8; i++)
            r[i] = t[i];
    }
    UNROLL
    for (int i = 0; i < 8; i++)
        _mm256_storeu_si256((__m256i *)(void *)(to + 32 * i), r[i]);
}
INLINE void vf_deal_8(char *to, const char *from, ptrdiff_t distance)
{
    __m256i r[16], t[16];
    UNROLL
    for (int i = 0; i < 16; i++)
        r[i] = vec_pair(from + i * distance, from + (i + 16) * distance);
    UNROLL
    for (int round = 0; round < 4; round++) {
        UNROLL
        for (int i = 0; i < 8; i++) {
            t[2 * i] = _mm256_unpacklo_epi8(r[i], r[i + 8]);
            t[2 * i + 1] = _mm256_unpackhi_epi8(r[i], r[i + 8]);
        }
        UNROLL
        for (int i = 0; i < 16; i++)
            r[i] = t[i];
    }
    UNROLL
    for (int i = 0; i < 16; i++)
        _mm256_storeu_si256((__m256i *)(void *)(to + 32 * i), r[i]);
}

#endif
