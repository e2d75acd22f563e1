/* Rows between f32 and the 16-bit storage types: queries on their way in, results on their way out, new tokens of a cache.
 * May know: the vector layer, storage types.  Must not know: instruction sets, tensors.
 * ../convert.h defines each element's bits; 16-bit queries and results in its plain C cost a fifth of the time of 512 keys. */
#ifndef HEED_KERNELS_CONVERT_H
#define HEED_KERNELS_CONVERT_H

#include <string.h>

INLINE void convert_widen(const heed_type type, float *to, const char *from, size_t n)
{
    size_t j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES)
        vf_store(to + j, pack_load(type, from + j * pack_size(type)));
    if (j < n)
        vf_store_n(to + j, pack_load_n(type, from + j * pack_size(type), n - j), n - j);
}

static void HEED_FN(widen_row)(heed_type type, float *to, const void *from, size_t n)
{
    switch (type) {
    case HEED_TYPE_F16: convert_widen(HEED_TYPE_F16, to, from, n); break;
    case HEED_TYPE_BF16: convert_widen(HEED_TYPE_BF16, to, from, n); break;
    default: memcpy(to, from, n * sizeof *to); break;
    }
}

INLINE void convert_store(const heed_type type, uint16_t *to, vf x)
{
    if (type == HEED_TYPE_F16)
        vf_store_f16(to, x);
    else
        vf_store_bf16(to, x);
}

INLINE void convert_narrow(const heed_type type, uint16_t *to, const float *from, size_t n)
{
    size_t j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES)
        convert_store(type, to + j, vf_load(from + j));
    if (j < n) {
        uint16_t last[VEC_LANES];
        convert_store(type, last, vf_load_n(from + j, n - j));
        for (size_t i = 0; j + i < n; i++)
            to[j + i] = last[i];
    }
}

static void HEED_FN(narrow_row)(heed_type type, uint16_t *to, const float *from, size_t n)
{
    if (type == HEED_TYPE_F16)
        convert_narrow(HEED_TYPE_F16, to, from, n);
    else
        convert_narrow(HEED_TYPE_BF16, to, from, n);
}

#endif
