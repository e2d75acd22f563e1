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
/* Rows i and i + n, n = 16 / size, side by side; then the rows of the lower and the upper half are dealt alternately until each holds one
 * element, of `size` bytes, of all keys. */
INLINE void vec_deal(const int size, char *to, const char *from, ptrdiff_t distance)
{
    const int n = 16 / size;
    __m256i r[16], t[16];
    UNROLL
    for (int i = 0; i < n; i++)
        r[i] = vec_pair(from + i * distance, from + (i + n) * distance);
    UNROLL
    for (int half = n / 2; half; half /= 2) {
        UNROLL
        for (int i = 0; i < n / 2; i++) {
            const __m256i a = r[i], b = r[i + n / 2];
            t[2 * i] = size == 2 ? _mm256_unpacklo_epi16(a, b) : _mm256_unpacklo_epi8(a, b);
            t[2 * i + 1] = size == 2 ? _mm256_unpackhi_epi16(a, b) : _mm256_unpackhi_epi8(a, b);
        }
        UNROLL
        for (int i = 0; i < n; i++)
            r[i] = t[i];
    }
    UNROLL
    for (int i = 0; i < n; i++)
        _mm256_storeu_si256((__m256i *)(void *)(to + 32 * i), r[i]);
}
INLINE void vf_deal_16(char *to, const char *from, ptrdiff_t distance)
{
    vec_deal(2, to, from, distance);
}
INLINE void vf_deal_8(char *to, const char *from, ptrdiff_t distance)
{
    vec_deal(1, to, from, distance);
}

#endif
