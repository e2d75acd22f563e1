/* Packing of keys (transposed) and values into panels of NR columns, as qk_tile and pv_tile stream them.
 * May know: the vector layer and the panel layout.  Must not know: instruction sets.
 * Done once per key/value head and shared by all query blocks and the whole GQA group. */
#ifndef HEED_KERNELS_PACK_H
#define HEED_KERNELS_PACK_H

/* VEC_LANES keys x VEC_LANES dimensions, transposed in registers; keys beyond rows are 0, dimensions beyond cols not stored. */
INLINE void pack_square(float *panel, const float *k, ptrdiff_t ldk, size_t rows, size_t cols)
{
    vf r[VEC_LANES];
    if (rows == VEC_LANES && cols == VEC_LANES) {
        UNROLL
        for (int i = 0; i < VEC_LANES; i++)
            r[i] = vf_load(k + i * ldk);
    } else {
        UNROLL
        for (int i = 0; i < VEC_LANES; i++) {
            r[i] = (size_t)i < rows ? vf_load_n(k + i * ldk, cols) : vf_zero();
        }
    }
    vf_transpose(r);
    UNROLL
    for (int i = 0; i < VEC_LANES; i++) {
        if ((size_t)i < cols)
            vf_store(panel + (size_t)i * NR, r[i]);
    }
}

INLINE size_t pack_left(size_t n, size_t done)
{
    return n <= done ? 0 : n - done < VEC_LANES ? n - done : VEC_LANES;
}

/* Keys and values this many rows further on are asked for while packing: decode streams a cache once, and works on what it has
 * packed between one block and the next (one query, 8192 keys, 8 heads: 6.8 to 10.6 GB/s with AVX2, 8.1 to 13.1 with AVX-512,
 * where a plain sum reads 15.3).  Nearer or further (16 to 128 rows) changes little. */
enum { PACK_AHEAD = 64, PACK_LINE = 16 /* floats */ };

/* The line may lie beyond the tensor: prefetching is no access, but the address must not be made by pointer arithmetic. */
INLINE void pack_prefetch(const float *row, ptrdiff_t ld, size_t column)
{
    const uintptr_t offset = (uintptr_t)(PACK_AHEAD * ld) * sizeof(float);
    __builtin_prefetch((const void *)((uintptr_t)(row + column) + offset), 0, 2);
}

static void HEED_FN(pack_k)(float *panels, const float *k, ptrdiff_t ldk, size_t n, size_t d)
{
    for (size_t j = 0; j < n; j += NR)
        for (size_t g = 0; g < NR; g += VEC_LANES) {
            const size_t rows = pack_left(n, j + g);
            const float *from = rows ? k + (ptrdiff_t)(j + g) * ldk : k;
            for (size_t p = 0; p < d; p += VEC_LANES) {
                for (size_t i = 0; p % PACK_LINE == 0 && i < rows; i++)
                    pack_prefetch(from + (ptrdiff_t)i * ldk, ldk, p);
                pack_square(panels + j * d + p * NR + g, from + p, ldk, rows, pack_left(d, p));
            }
        }
}

static int HEED_FN(pack_v)(float *panels, const float *v, ptrdiff_t ldv, size_t n, size_t d)
{
    vf probe[TILE_V]; /* 0 * x + 0 is 0 for finite x only */
    UNROLL
    for (int g = 0; g < TILE_V; g++)
        probe[g] = vf_zero();
    for (size_t j = 0; j < n; j++) {
        const float *row = v + (ptrdiff_t)j * ldv;
        for (size_t c = 0; c < d; c += PACK_LINE)
            pack_prefetch(row, ldv, c);
        for (size_t c = 0; c < d; c += NR) {
            float *to = panels + c * n + j * NR;
            UNROLL
            for (int g = 0; g < TILE_V; g++) {
                const size_t first = c + (size_t)g * VEC_LANES;
                const size_t cols = pack_left(d, first);
                const vf x = cols == VEC_LANES ? vf_load(row + first) : cols ? vf_load_n(row + first, cols) : vf_zero();
                probe[g] = vf_fma(x, vf_zero(), probe[g]);
                vf_store(to + g * VEC_LANES, x);
            }
        }
    }
    UNROLL
    for (int g = 1; g < TILE_V; g++)
        probe[0] = vf_add(probe[0], probe[g]);
    return vf_reduce_add(probe[0]) == 0.0f;
}

#endif
