/* Products for one to four query rows, with keys and values read where they are stored: no panel is written, so that a cache streams
 * through the registers.
 * May know: the vector layer, storage types.  Must not know: instruction sets, caches, pages, masks.
 * The same chains as tile.h's: one per output element, ascending.  Rows of keys are transposed in registers; keys that are stored
 * transposed need no such step. */
#ifndef HEED_KERNELS_DECODE_H
#define HEED_KERNELS_DECODE_H

enum {
    /* Sums kept at once: what a square of keys leaves of the registers, and no more than hide the latency of a multiply-add. */
    FEW_ROOM = VEC_REGISTERS - VEC_COLUMNS - 3,
    FEW_SUMS = FEW_ROOM < 4   ? 4
               : FEW_ROOM < 8 ? FEW_ROOM
                              : 8,
    FEW_UNIT = HEED_LANES / VEC_LANES, /* vectors of a unit of 16 transposed keys */
    FEW_WIDE = VEC_REGISTERS >= 32 ? 16 : 8,
    FEW_MOST = 16 /* sums of any instance */
};
_Static_assert(VEC_LANES < 4 || (int)HEED_FEW * (int)FEW_UNIT <= (int)FEW_MOST, "all rows of a unit fit the sums");

/* What makes no whole square: the last keys, or the last dimensions.  Continues the sums that t->to holds for `rows` keys from j on,
 * over the dimensions from p on, and scales them. */
NOINLINE void HEED_FN(few_rest)(const heed_few *t, size_t j, size_t rows, size_t p)
{
    float square[VEC_LANES * VEC_LANES], *to = t->to + j;
    vf r[VEC_LANES];
    for (; p < t->d; p += VEC_LANES) {
        const float *k = (const float *)t->from + (ptrdiff_t)j * t->ld + p;
        const size_t cols = pack_left(t->d, p);
        for (int i = 0; i < VEC_LANES; i++)
            r[i] = (size_t)i < rows ? pack_load_n(HEED_TYPE_F32, (const char *)(k + i * t->ld), cols) : vf_zero();
        vf_transpose(r);
        for (int i = 0; i < VEC_LANES; i++)
            vf_store(square + i * VEC_LANES, r[i]);
        for (size_t row = 0; row < t->m; row++) {
            vf sum = vf_load(to + row * t->ld_to);
            for (size_t i = 0; i < cols; i++)
                sum = vf_fma(vf_set1(t->rows[row * t->ld_rows + p + i]), vf_load(square + i * VEC_LANES), sum);
            vf_store(to + row * t->ld_to, sum);
        }
    }
    for (size_t row = 0; row < t->m; row++)
        vf_store(to + row * t->ld_to, vf_mul(vf_set1(t->scale), vf_load(to + row * t->ld_to)));
}

/* A line of each of these keys. */
INLINE void few_prefetch(const heed_few *t, const float *k, const int keys)
{
    UNROLL
    for (int i = 0; i < keys; i++)
        pack_prefetch_line((const char *)(k + i * t->ld), t->ahead);
}

/* The same for m rows and `groups` vectors of keys, over one square of dimensions; m and groups are constants at each call.  One row's
 * elements fit registers and serve all groups; those of more are read anew for each. */
INLINE void few_square(
    const int m, const int groups, vf *acc, const heed_few *t, const float *k, const float *q, int line)
{
    UNROLL
    for (int g = 0; g < groups; g++) {
        vf r[VEC_COLUMNS];
        const float *from = k + g * VEC_LANES * t->ld;
        if (line && VEC_LANES > 8)
            few_prefetch(t, from, VEC_LANES);
        q = m * VEC_COLUMNS <= 4 ? q : fresh(q);
        vf_load_columns(r, from, t->ld);
        UNROLL
        for (int i = 0; i < VEC_COLUMNS; i++) {
            UNROLL
            for (int row = 0; row < m; row++)
                acc[row * groups + g] =
                    vf_fma(vf_set1(q[(size_t)row * t->ld_rows + (size_t)i]), r[i], acc[row * groups + g]);
        }
    }
}

/* Keys from j on as long as there are `groups` vectors of them; returns the first that is left. */
INLINE size_t few_keys(const int m, const int groups, const heed_few *t, size_t j)
{
    const int step = groups * VEC_LANES;
    const size_t whole = t->d / VEC_COLUMNS * VEC_COLUMNS;
    for (; j + (size_t)step <= t->n; j += (size_t)step) {
        const float *k = (const float *)t->from + (ptrdiff_t)j * t->ld;
        const vf scale = vf_set1(whole == t->d ? t->scale : 1.0f);
        vf acc[FEW_MOST];
        UNROLL
        for (int i = 0; i < m * groups; i++)
            acc[i] = vf_zero();
        for (size_t p = 0; p < whole; p += VEC_COLUMNS) {
            const int line = t->ahead && p * sizeof(float) % PACK_LINE == 0;
            if (line && VEC_LANES <= 8) /* 64 lines at once, with more lanes, would stop the work */
                few_prefetch(t, k + p, step);
            few_square(m, groups, acc, t, k + p, t->rows + p, line);
        }
        UNROLL
        for (int i = 0; i < m * groups; i++)
            vf_store(
                t->to + (size_t)(i / groups) * t->ld_to + j + (size_t)(i % groups) * VEC_LANES, vf_mul(scale, acc[i]));
        for (int g = 0; whole < t->d && g < groups; g++)
            HEED_FN(few_rest)(t, j + (size_t)g * VEC_LANES, VEC_LANES, whole);
    }
    return j;
}

/* Groups of keys that the registers hold for m rows; with long vectors two have work enough between one sum and the next. */
INLINE int few_groups(const int m)
{
    return m * 4 <= FEW_SUMS && VEC_LANES < 16 ? 4 : m * 2 <= FEW_SUMS ? 2 : 1;
}

INLINE void few_rows(const int m, const heed_few *t)
{
    size_t j = 0;
    if (few_groups(m) > 1)
        j = few_keys(m, few_groups(m), t, j);
    for (j = few_keys(m, 1, t, j); j < t->n; j += VEC_LANES) {
        for (int row = 0; row < m; row++)
            vf_store(t->to + (size_t)row * t->ld_to + j, vf_zero());
        HEED_FN(few_rest)(t, j, pack_left(t->n, j), 0);
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

/* ---- Values ---- */

/* The last columns, fewer than a vector has. */
INLINE void few_last_columns(const heed_type type, const heed_few *t, size_t c)
{
    const ptrdiff_t row_bytes = t->ld * (ptrdiff_t)pack_size(type);
    const char *row = (const char *)t->from + c * pack_size(type);
    vf acc[HEED_FEW];
    for (size_t i = 0; i < t->m; i++)
        acc[i] = vf_load(t->to + i * t->ld_to + c);
    for (size_t j = 0; j < t->n; j++, row += row_bytes) {
        const vf x = pack_load_n(type, row, t->d - c);
        for (size_t i = 0; i < t->m; i++)
            acc[i] = vf_fma(vf_set1(t->rows[i * t->ld_rows + j]), x, acc[i]);
    }
    for (size_t i = 0; i < t->m; i++)
        vf_store(t->to + i * t->ld_to + c, acc[i]);
}

NOINLINE void HEED_FN(few_last)(heed_type type, const heed_few *t, size_t c)
{
    switch (type) {
    case HEED_TYPE_F16: few_last_columns(HEED_TYPE_F16, t, c); break;
    case HEED_TYPE_BF16: few_last_columns(HEED_TYPE_BF16, t, c); break;
    case HEED_TYPE_I8: few_last_columns(HEED_TYPE_I8, t, c); break;
    default: few_last_columns(HEED_TYPE_F32, t, c); break;
    }
}

/* `vecs` vectors of columns from c on, over all keys.  Each pass asks for the lines it will want itself: all lines of a row at once
 * would fill the queue of outstanding ones and stop the work. */
INLINE void few_columns(const heed_type type, const int m, const int vecs, const heed_few *t, size_t c)
{
    const size_t size = pack_size(type);
    const ptrdiff_t row_bytes = t->ld * (ptrdiff_t)size;
    const char *row = (const char *)t->from + c * size;
    const float *weights = t->rows;
    vf acc[FEW_MOST];
    UNROLL
    for (int i = 0; i < m * vecs; i++)
        acc[i] = vf_load(t->to + (size_t)(i / vecs) * t->ld_to + c + (size_t)(i % vecs) * VEC_LANES);
    for (size_t j = t->n; j; j--, row += row_bytes, weights++) {
        UNROLL
        for (int b = 0; b < vecs * VEC_LANES * (int)size; b += PACK_LINE)
            pack_prefetch_line(row + b, t->ahead);
        UNROLL
        for (int g = 0; g < vecs; g++) {
            const vf x = pack_load(type, row + (size_t)g * VEC_LANES * size);
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
        few_columns(type, m, vecs, t, c);
    for (; c + VEC_LANES <= t->d; c += VEC_LANES)
        few_columns(type, m, 1, t, c);
    if (c < t->d)
        HEED_FN(few_last)(type, t, c);
}

/* ---- Instances ---- */

enum { FEW_KEYS, FEW_TRANSPOSED, FEW_VALUES };

INLINE void few_instance(const int kind, const heed_type type, const int m, const heed_few *t)
{
    if (kind == FEW_KEYS)
        few_rows(m, t);
    else if (kind == FEW_TRANSPOSED)
        few_units_m(type, m, t);
    else
        few_values_m(type, m, t);
}

/* Rows that share a pass: four, two or one.  An instance for each number of rows and type would be half of the library; narrow
 * vectors (scalar) gain nothing from more than one. */
INLINE size_t few_together(size_t m)
{
    return VEC_LANES < 4 || m == 1 ? 1 : m < 4 ? 2 : 4;
}

/* C's template: all rows, by instances for the numbers of rows that share a pass. */
INLINE void few_all(const int kind, const heed_type type, const heed_few *t)
{
    heed_few part = *t;
    for (size_t i = 0; i < t->m; i += part.m) {
        part.m = few_together(t->m - i);
        part.rows = t->rows + i * t->ld_rows;
        part.to = t->to + i * t->ld_to;
        switch (VEC_LANES < 4 ? 1 : part.m) {
        case 1: few_instance(kind, type, 1, &part); break;
        case 2: few_instance(kind, type, 2, &part); break;
        default: few_instance(kind, type, 4, &part); break;
        }
    }
}

INLINE void few_of(const int kind, heed_type type, const heed_few *t)
{
    switch (type) {
    case HEED_TYPE_F16: few_all(kind, HEED_TYPE_F16, t); break;
    case HEED_TYPE_BF16: few_all(kind, HEED_TYPE_BF16, t); break;
    case HEED_TYPE_I8: few_all(kind, HEED_TYPE_I8, t); break;
    default: few_all(kind, HEED_TYPE_F32, t); break;
    }
}

static void HEED_FN(qk_few)(const heed_few *t)
{
    few_all(FEW_KEYS, HEED_TYPE_F32, t);
}

static void HEED_FN(qk_few_t)(heed_type type, const heed_few *t)
{
    few_of(FEW_TRANSPOSED, type, t);
}

static void HEED_FN(pv_few)(heed_type type, const heed_few *t)
{
    few_of(FEW_VALUES, type, t);
}

#endif
