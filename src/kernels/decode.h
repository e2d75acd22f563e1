/* Products for one to four query rows, with keys and values read where they are stored: no panel is written, so that a cache streams
 * through the registers.
 * May know: the vector layer, storage types.  Must not know: instruction sets, caches, pages, masks.
 * The same chains as tile.h's: one per output element, ascending.  Rows of keys are transposed in registers; keys that are stored
 * transposed need no such step. */
#ifndef HEED_KERNELS_DECODE_H
#define HEED_KERNELS_DECODE_H

enum {
    /* Sums kept at once: what a square of keys leaves of the registers, and no more than hide the latency of a multiply-add. */
    FEW_ROOM = VEC_REGISTERS - VEC_LANES - 3,
    FEW_SUMS = FEW_ROOM < 4    ? 4
               : FEW_ROOM < 16 ? FEW_ROOM
                               : 16,
    FEW_UNIT = HEED_LANES / VEC_LANES, /* vectors of a unit of 16 transposed keys */
    FEW_WIDE = VEC_REGISTERS >= 32 ? 16 : 8,
    /* Sums of the smallest piece of transposed keys, one unit: with fewer than 4 lanes more than fit registers. */
    FEW_MOST = (int)HEED_FEW * (int)FEW_UNIT < 16 ? 16 : (int)HEED_FEW * (int)FEW_UNIT
};

/* A square that lies only partly within the keys: the rest is 0. */
NOINLINE void HEED_FN(few_copy_square)(float *to, const float *from, ptrdiff_t ld, size_t rows, size_t cols)
{
    for (size_t i = 0; i < VEC_LANES; i++)
        vf_store(to + i * VEC_LANES,
            i < rows ? pack_load_n(HEED_TYPE_F32, (const char *)(from + (ptrdiff_t)i * ld), cols) : vf_zero());
}

/* r[c] holds dimension c of VEC_LANES keys. */
INLINE void few_load_square(vf r[VEC_LANES], const float *k, ptrdiff_t ld, size_t rows, size_t cols)
{
    float copy[VEC_LANES * VEC_LANES];
    if (rows < VEC_LANES || cols < VEC_LANES) {
        HEED_FN(few_copy_square)(copy, k, ld, rows, cols);
        k = copy;
        ld = VEC_LANES;
    }
    UNROLL
    for (int i = 0; i < VEC_LANES; i++)
        r[i] = vf_load(k + i * ld);
    vf_transpose(r);
}

/* The last dimensions, fewer than a square has. */
INLINE void few_tail(
    const int m, vf *acc, const int step, const vf r[VEC_LANES], const float *q, size_t ldq, size_t cols)
{
    float square[VEC_LANES * VEC_LANES];
    UNROLL
    for (int i = 0; i < VEC_LANES; i++)
        vf_store(square + i * VEC_LANES, r[i]);
    for (size_t i = 0; i < cols; i++) {
        UNROLL
        for (int row = 0; row < m; row++)
            acc[row * step] =
                vf_fma(vf_set1(q[(size_t)row * ldq + i]), vf_load(square + i * VEC_LANES), acc[row * step]);
    }
}

/* m rows' sums for `groups` vectors of keys, over one square of dimensions from p on; m and groups are constants at each call. */
INLINE void few_square(const int m, const int groups, vf *acc, const heed_few *t, const float *k, size_t rows, size_t p)
{
    const size_t cols = pack_left(t->d, p), line = p * sizeof(float) % PACK_LINE;
    const float *q = t->rows + p;
    UNROLL
    for (int g = 0; g < groups; g++) {
        vf r[VEC_LANES];
        const float *from = k + g * VEC_LANES * t->ld;
        const size_t left = pack_left(rows, (size_t)g * VEC_LANES);
        if (left == 0)
            continue;
        for (size_t i = 0; line == 0 && i < left; i++)
            pack_prefetch((const char *)(from + (ptrdiff_t)i * t->ld), 1, t->ahead);
        few_load_square(r, from, t->ld, left, cols);
        if (cols < VEC_LANES) {
            few_tail(m, acc + g, groups, r, q, t->ld_rows, cols);
            continue;
        }
        UNROLL
        for (int i = 0; i < VEC_LANES; i++) {
            UNROLL
            for (int row = 0; row < m; row++)
                acc[row * groups + g] = vf_fma(vf_set1(q[(size_t)row * t->ld_rows + i]), r[i], acc[row * groups + g]);
        }
    }
}

INLINE void few_rows(const int m, const int groups, const heed_few *t)
{
    const size_t step = (size_t)groups * VEC_LANES;
    const float *k = t->from;
    for (size_t j = 0; j < t->n; j += step, k += (ptrdiff_t)step * t->ld) {
        vf acc[16];
        UNROLL
        for (int i = 0; i < m * groups; i++)
            acc[i] = vf_zero();
        for (size_t p = 0; p < t->d; p += VEC_LANES)
            few_square(m, groups, acc, t, k + p, t->n - j, p);
        UNROLL
        for (int row = 0; row < m; row++) {
            UNROLL
            for (int g = 0; g < groups; g++) {
                if (j + (size_t)g * VEC_LANES < t->n)
                    vf_store(t->to + (size_t)row * t->ld_to + j + (size_t)g * VEC_LANES,
                        vf_mul(vf_set1(t->scale), acc[row * groups + g]));
            }
        }
    }
}

/* Groups of keys that the registers hold for m rows. */
INLINE int few_groups(const int m)
{
    return m * 4 <= FEW_SUMS ? 4 : m * 2 <= FEW_SUMS ? 2 : 1;
}

/* C's template: instances for the numbers of rows. */
static void HEED_FN(qk_few)(const heed_few *t)
{
    switch (t->m) {
    case 1: few_rows(1, few_groups(1), t); break;
    case 2: few_rows(2, few_groups(2), t); break;
    case 3: few_rows(3, few_groups(3), t); break;
    default: few_rows(4, few_groups(4), t); break;
    }
}

INLINE void unpack(const heed_type type, float *to, size_t ld_to, const char *from, ptrdiff_t row_bytes, size_t n,
    size_t d, uintptr_t ahead)
{
    const size_t whole = d / VEC_LANES * VEC_LANES, size = pack_size(type);
    for (size_t j = 0; j < n; j++, from += row_bytes, to += ld_to) {
        pack_prefetch(from, d * size, ahead);
        for (size_t c = 0; c < whole; c += VEC_LANES)
            vf_store(to + c, pack_load(type, from + c * size));
        if (whole < d)
            vf_store(to + whole, pack_load_n(type, from + whole * size, d - whole));
    }
}

/* Rows of a narrow type as f32; the transposition then is that of qk_few. */
static void HEED_FN(unpack_rows)(
    heed_type type, float *to, size_t ld_to, const void *from, ptrdiff_t ld, size_t n, size_t d, uintptr_t ahead)
{
    switch (type) {
    case HEED_TYPE_F16: unpack(HEED_TYPE_F16, to, ld_to, from, ld * 2, n, d, ahead); break;
    case HEED_TYPE_BF16: unpack(HEED_TYPE_BF16, to, ld_to, from, ld * 2, n, d, ahead); break;
    case HEED_TYPE_I8: unpack(HEED_TYPE_I8, to, ld_to, from, ld, n, d, ahead); break;
    default: unpack(HEED_TYPE_F32, to, ld_to, from, ld * 4, n, d, ahead); break;
    }
}

/* ---- Keys stored transposed, in units of 16 ---- */

INLINE void few_units(const heed_type type, const int m, const int units, const heed_few *t, size_t first)
{
    const size_t row_bytes = (size_t)t->ld * pack_size(type);
    const char *k[4];
    uintptr_t ahead[4];
    vf acc[FEW_MOST];
    UNROLL
    for (int u = 0; u < units; u++) {
        k[u] = t->units[first + (size_t)u];
        ahead[u] = t->units_ahead[first + (size_t)u];
    }
    UNROLL
    for (int i = 0; i < m * units * FEW_UNIT; i++)
        acc[i] = vf_zero();
    for (size_t p = 0; p < t->d; p++) {
        UNROLL
        for (int u = 0; u < units; u++) {
            if ((p * row_bytes) % PACK_LINE < row_bytes)
                pack_prefetch(k[u], 1, ahead[u]);
            UNROLL
            for (int w = 0; w < FEW_UNIT; w++) {
                const vf x = pack_load(type, k[u] + (size_t)w * VEC_LANES * pack_size(type));
                UNROLL
                for (int row = 0; row < m; row++) {
                    const int i = (row * units + u) * FEW_UNIT + w;
                    acc[i] = vf_fma(vf_set1(t->rows[(size_t)row * t->ld_rows + p]), x, acc[i]);
                }
            }
            k[u] += row_bytes;
        }
    }
    UNROLL
    for (int i = 0; i < m * units * FEW_UNIT; i++) {
        const int row = i / (units * FEW_UNIT), column = i % (units * FEW_UNIT) * VEC_LANES;
        vf_store(
            t->to + (size_t)row * t->ld_to + first * HEED_LANES + (size_t)column, vf_mul(vf_set1(t->scale), acc[i]));
    }
}

/* As many units at once as there are registers for. */
INLINE void few_units_m(const heed_type type, const int m, const heed_few *t)
{
    enum { MOST = FEW_WIDE / FEW_UNIT < 1 ? 1 : FEW_WIDE / FEW_UNIT };
    const int together = m * 4 <= MOST ? 4 : m * 2 <= MOST ? 2 : 1;
    const size_t units = (t->n + HEED_LANES - 1) / HEED_LANES;
    size_t u = 0;
    for (; together > 1 && u + (size_t)together <= units; u += (size_t)together)
        few_units(type, m, together, t, u);
    for (; u < units; u++)
        few_units(type, m, 1, t, u);
}

INLINE void few_keys_transposed(const heed_type type, const heed_few *t)
{
    switch (t->m) {
    case 1: few_units_m(type, 1, t); break;
    case 2: few_units_m(type, 2, t); break;
    case 3: few_units_m(type, 3, t); break;
    default: few_units_m(type, 4, t); break;
    }
}

static void HEED_FN(qk_few_t)(heed_type type, const heed_few *t)
{
    switch (type) {
    case HEED_TYPE_F16: few_keys_transposed(HEED_TYPE_F16, t); break;
    case HEED_TYPE_BF16: few_keys_transposed(HEED_TYPE_BF16, t); break;
    case HEED_TYPE_I8: few_keys_transposed(HEED_TYPE_I8, t); break;
    default: few_keys_transposed(HEED_TYPE_F32, t); break;
    }
}

/* ---- Values ---- */

/* `vecs` vectors of columns from c on, over all keys; a single one may be cut short.  Each pass asks for the lines it will want
 * itself: all lines of a row at once would fill the queue of outstanding ones and stop the work. */
INLINE void few_columns(const heed_type type, const int m, const int vecs, const heed_few *t, size_t c, size_t cols)
{
    const size_t size = pack_size(type), first_line = (c * size + PACK_LINE - 1) / PACK_LINE * PACK_LINE;
    const size_t end = (c + (size_t)vecs * VEC_LANES) * size, lines = end > first_line ? end - first_line : 0;
    const ptrdiff_t row_bytes = t->ld * (ptrdiff_t)size;
    const char *row = t->from;
    const float *weights = t->rows;
    vf acc[16];
    UNROLL
    for (int i = 0; i < m * vecs; i++)
        acc[i] = vf_load(t->to + (size_t)(i / vecs) * t->ld_to + c + (size_t)(i % vecs) * VEC_LANES);
    for (size_t j = 0; j < t->n; j++, row += row_bytes, weights++) {
        pack_prefetch(row + first_line, lines, t->ahead);
        UNROLL
        for (int g = 0; g < vecs; g++) {
            const char *from = row + (c + (size_t)g * VEC_LANES) * size;
            const vf x = vecs > 1 ? pack_load(type, from) : pack_load_n(type, from, cols);
            UNROLL
            for (int i = 0; i < m; i++)
                acc[i * vecs + g] = vf_fma(vf_set1(weights[(size_t)i * t->ld_rows]), x, acc[i * vecs + g]);
        }
    }
    UNROLL
    for (int i = 0; i < m * vecs; i++)
        vf_store(t->to + (size_t)(i / vecs) * t->ld_to + c + (size_t)(i % vecs) * VEC_LANES, acc[i]);
}

INLINE void few_values_m(const heed_type type, const int m, const heed_few *t)
{
    const int vecs = FEW_WIDE / m < 8 ? FEW_WIDE / m : 8;
    size_t c = 0;
    for (; vecs > 1 && c + (size_t)vecs * VEC_LANES <= t->d; c += (size_t)vecs * VEC_LANES)
        few_columns(type, m, vecs, t, c, VEC_LANES);
    for (; c < t->d; c += VEC_LANES)
        few_columns(type, m, 1, t, c, pack_left(t->d, c));
}

INLINE void few_values(const heed_type type, const heed_few *t)
{
    switch (t->m) {
    case 1: few_values_m(type, 1, t); break;
    case 2: few_values_m(type, 2, t); break;
    case 3: few_values_m(type, 3, t); break;
    default: few_values_m(type, 4, t); break;
    }
}

static void HEED_FN(pv_few)(heed_type type, const heed_few *t)
{
    switch (type) {
    case HEED_TYPE_F16: few_values(HEED_TYPE_F16, t); break;
    case HEED_TYPE_BF16: few_values(HEED_TYPE_BF16, t); break;
    case HEED_TYPE_I8: few_values(HEED_TYPE_I8, t); break;
    default: few_values(HEED_TYPE_F32, t); break;
    }
}

#endif
