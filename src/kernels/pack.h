/* Packing of keys (transposed) and values, from any storage type, into f32 panels of NR columns as qk_tile and pv_tile stream them.
 * May know: the vector layer and the panel layout.  Must not know: instruction sets, caches, pages.
 * For many query rows done once per key/value head and shared by all of them, for few (decode) strip by strip just before the
 * strip is used. */
#ifndef HEED_KERNELS_PACK_H
#define HEED_KERNELS_PACK_H

/* type is a constant at each call. */
INLINE size_t pack_size(const heed_type type)
{
    return type == HEED_TYPE_F32 ? 4 : type == HEED_TYPE_I8 ? 1 : 2;
}

INLINE vf pack_load(const heed_type type, const char *p)
{
    switch (type) {
    case HEED_TYPE_F16: return vf_load_f16((const uint16_t *)(const void *)p);
    case HEED_TYPE_BF16: return vf_load_bf16((const uint16_t *)(const void *)p);
    case HEED_TYPE_I8: return vf_load_i8((const int8_t *)(const void *)p);
    default: return vf_load((const float *)(const void *)p);
    }
}

/* Of narrow types: so many bytes, +0 beyond. */
NOINLINE vf HEED_FN(pack_load_bytes)(heed_type type, const char *p, size_t bytes)
{
    _Alignas(4) char copy[VEC_LANES * 2] = { 0 };
    ROLLED
    for (size_t i = 0; i < bytes; i++)
        copy[i] = p[i];
    switch (type) {
    case HEED_TYPE_F16: return pack_load(HEED_TYPE_F16, copy);
    case HEED_TYPE_BF16: return pack_load(HEED_TYPE_BF16, copy);
    default: return pack_load(HEED_TYPE_I8, copy);
    }
}

/* n elements, +0 beyond; all of a vector is the common case. */
INLINE vf pack_load_n(const heed_type type, const char *p, size_t n)
{
    if (n == VEC_LANES)
        return pack_load(type, p);
    if (n == 0)
        return vf_zero();
    if (type == HEED_TYPE_F32)
        return vf_load_n((const float *)(const void *)p, n);
    return HEED_FN(pack_load_bytes)(type, p, n * pack_size(type));
}

/* Asks for what lies `ahead` bytes behind a row's piece: decode streams a cache once, and works on what it has packed between
 * one strip and the next.  Prefetching is no access, but the address must not be made by pointer arithmetic. */
INLINE void pack_prefetch_line(const char *p, uintptr_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)p + ahead), 0, 2);
}

INLINE void pack_prefetch(const char *row, size_t bytes, uintptr_t ahead)
{
    for (size_t i = 0; ahead && i < bytes; i += CACHE_LINE)
        pack_prefetch_line(row + i, ahead);
}

INLINE size_t pack_left(size_t n, size_t done)
{
    return n <= done ? 0 : n - done < VEC_LANES ? n - done : VEC_LANES;
}

/* A square that lies only partly within the keys: the rest is 0. */
RARE void HEED_FN(pack_copy_square)(
    char *to, const char *from, ptrdiff_t row_bytes, size_t rows, size_t bytes, size_t to_bytes)
{
    for (size_t i = 0; i < VEC_LANES; i++)
        for (size_t j = 0; j < to_bytes; j++)
            to[i * to_bytes + j] = i < rows && j < bytes ? from[(ptrdiff_t)i * row_bytes + (ptrdiff_t)j] : 0;
}

/* VEC_LANES keys x VEC_LANES dimensions, transposed in registers; keys beyond rows are 0, dimensions beyond cols not stored. */
INLINE void pack_square(
    const heed_type type, float *panel, const char *k, ptrdiff_t row_bytes, size_t rows, size_t cols)
{
    _Alignas(4) char copy[VEC_LANES * VEC_LANES * sizeof(float)];
    vf r[VEC_LANES];
    if (rows < VEC_LANES || cols < VEC_LANES) {
        HEED_FN(pack_copy_square)(copy, k, row_bytes, rows, cols * pack_size(type), VEC_LANES * pack_size(type));
        k = copy;
        row_bytes = (ptrdiff_t)(VEC_LANES * pack_size(type));
    }
    UNROLL
    for (int i = 0; i < VEC_LANES; i++)
        r[i] = pack_load(type, k + i * row_bytes);
    vf_transpose(r);
    UNROLL
    for (int i = 0; i < VEC_LANES; i++) {
        if ((size_t)i < cols)
            vf_store(panel + (size_t)i * NR, r[i]);
    }
}

INLINE void pack_rows(
    const heed_type type, float *panels, const char *k, ptrdiff_t row_bytes, size_t n, size_t d, uintptr_t ahead)
{
    for (size_t j = 0; j < n; j += NR)
        for (size_t g = 0; g < NR; g += VEC_LANES) {
            const size_t rows = pack_left(n, j + g);
            const char *from = rows ? k + (ptrdiff_t)(j + g) * row_bytes : k;
            for (size_t i = 0; i < rows; i++)
                pack_prefetch(from + (ptrdiff_t)i * row_bytes, d * pack_size(type), ahead);
            for (size_t p = 0; p < d; p += VEC_LANES)
                pack_square(
                    type, panels + j * d + p * NR + g, from + p * pack_size(type), row_bytes, rows, pack_left(d, p));
        }
}

static void HEED_FN(pack_k)(
    heed_type type, float *panels, const void *k, ptrdiff_t ldk, size_t n, size_t d, uintptr_t ahead)
{
    switch (type) {
    case HEED_TYPE_F16: pack_rows(HEED_TYPE_F16, panels, k, ldk * 2, n, d, ahead); break;
    case HEED_TYPE_BF16: pack_rows(HEED_TYPE_BF16, panels, k, ldk * 2, n, d, ahead); break;
    case HEED_TYPE_I8: pack_rows(HEED_TYPE_I8, panels, k, ldk, n, d, ahead); break;
    default: pack_rows(HEED_TYPE_F32, panels, k, ldk * 4, n, d, ahead); break;
    }
}

/* Keys that are stored transposed need only be spread over the panels. */
INLINE void pack_columns(const heed_type type, float *panels, size_t j, size_t width, const char *k, size_t ldk,
    size_t n, size_t d, uintptr_t ahead)
{
    const size_t row_bytes = ldk * pack_size(type);
    for (size_t p = 0; p < d; p++, k += row_bytes) {
        pack_prefetch(k, n * pack_size(type), ahead);
        for (size_t g = 0; g < width; g += VEC_LANES) {
            const size_t column = j + g;
            vf_store(panels + column / NR * NR * d + p * NR + column % NR,
                pack_load_n(type, k + g * pack_size(type), pack_left(n, g)));
        }
    }
}

static void HEED_FN(pack_kt)(heed_type type, float *panels, size_t j, size_t width, const void *k, size_t ldk, size_t n,
    size_t d, uintptr_t ahead)
{
    switch (type) {
    case HEED_TYPE_F16: pack_columns(HEED_TYPE_F16, panels, j, width, k, ldk, n, d, ahead); break;
    case HEED_TYPE_BF16: pack_columns(HEED_TYPE_BF16, panels, j, width, k, ldk, n, d, ahead); break;
    case HEED_TYPE_I8: pack_columns(HEED_TYPE_I8, panels, j, width, k, ldk, n, d, ahead); break;
    default: pack_columns(HEED_TYPE_F32, panels, j, width, k, ldk, n, d, ahead); break;
    }
}

/* ld: keys between the panels of `panels`. */
INLINE int pack_values(const heed_type type, float *panels, size_t ld, const char *v, ptrdiff_t row_bytes, size_t n,
    size_t d, uintptr_t ahead)
{
    vf probe[TILE_V]; /* 0 * x + 0 is 0 for finite x only */
    UNROLL
    for (int g = 0; g < TILE_V; g++)
        probe[g] = vf_zero();
    for (size_t j = 0; j < n; j++) {
        const char *row = v + (ptrdiff_t)j * row_bytes;
        pack_prefetch(row, d * pack_size(type), ahead);
        for (size_t c = 0; c < d; c += NR) {
            float *to = panels + c * ld + j * NR;
            UNROLL
            for (int g = 0; g < TILE_V; g++) {
                const size_t first = c + (size_t)g * VEC_LANES;
                const vf x = pack_load_n(type, row + first * pack_size(type), pack_left(d, first));
                if (type != HEED_TYPE_I8)
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

static int HEED_FN(pack_v)(
    heed_type type, float *panels, size_t ld, const void *v, ptrdiff_t ldv, size_t n, size_t d, uintptr_t ahead)
{
    switch (type) {
    case HEED_TYPE_F16: return pack_values(HEED_TYPE_F16, panels, ld, v, ldv * 2, n, d, ahead);
    case HEED_TYPE_BF16: return pack_values(HEED_TYPE_BF16, panels, ld, v, ldv * 2, n, d, ahead);
    case HEED_TYPE_I8: return pack_values(HEED_TYPE_I8, panels, ld, v, ldv, n, d, ahead);
    default: return pack_values(HEED_TYPE_F32, panels, ld, v, ldv * 4, n, d, ahead);
    }
}

#endif
