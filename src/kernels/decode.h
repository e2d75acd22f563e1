/* Products for a few query rows, at most four at once, with keys and values read where they are stored: no panel is written, so that
 * a cache streams through the registers.
 * May know: the vector layer, storage types.  Must not know: instruction sets, caches, pages, masks.
 * The same chains as tile.h's: one per output element, ascending.  Rows of keys are transposed in registers; keys that are stored
 * transposed need no such step. */
#ifndef HEED_KERNELS_DECODE_H
#define HEED_KERNELS_DECODE_H

#include <string.h>

enum {
    FEW_ROWS = 4,                      /* that share a pass */
    FEW_MANY = 8,                      /* that share the transposition of f32 keys */
    FEW_UNIT = HEED_LANES / VEC_LANES, /* vectors of a unit of 16 transposed keys */
    FEW_WIDE = VEC_LANES < 4         ? 4
               : VEC_REGISTERS >= 32 ? 16
                                     : 8,
    FEW_MOST = 16,  /* sums of any instance */
    FEW_PAGE = 4096 /* bytes of rows that are worked on at once */
};
_Static_assert(VEC_LANES < 4 || (int)FEW_ROWS * (int)FEW_UNIT <= (int)FEW_MOST, "all rows of a unit fit the sums");

/* Reads bytes of each line, in the order of memory, before the lines are used in another: so the processor sees a stream, and reads
 * ahead better than any prefetching here.  It learns by instruction: two loads a line bring 90 % of what can be read, one 70, four lines
 * in one turn of the loop 40 to 58 (docs/design.md). */
ALONE void HEED_FN(few_touch)(const char *from, size_t bytes)
{
    size_t b = 0;
    ROLLED
    for (; b + CACHE_LINE <= bytes; b += CACHE_LINE) {
        (void)*(const volatile char *)(from + b);
        (void)*(const volatile char *)(from + b + CACHE_LINE / 2);
    }
    if (b < bytes)
        (void)*(const volatile char *)(from + b);
}

INLINE size_t few_page_rows(size_t row_bytes)
{
    return row_bytes < FEW_PAGE ? FEW_PAGE / row_bytes : 1;
}

/* Rows that are about to be read all at once: touched if they lie one behind the other, else what lies `ahead` of each is asked for. */
INLINE void few_announce(const char *from, ptrdiff_t row_bytes, size_t rows, size_t bytes, uintptr_t ahead)
{
    if (row_bytes == (ptrdiff_t)bytes)
        HEED_FN(few_touch)(from, rows * bytes);
    else
        for (size_t i = 0; i < rows; i++)
            pack_prefetch(from + (ptrdiff_t)i * row_bytes, bytes, ahead);
}

/* 1 if t's rows lie one behind the other. */
INLINE int few_in_order(const heed_few *t)
{
    return t->ld == (ptrdiff_t)t->d;
}

/* ---- Keys stored as rows, f32: transposed in registers ---- */

/* What makes no whole square: the last keys, or the last dimensions.  Continues the sums that t->to holds for `rows` keys from j on,
 * over the dimensions from p on, and scales them. */
RARE void HEED_FN(few_rest)(const heed_few *t, size_t j, size_t rows, size_t p)
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

/* m rows and `groups` vectors of keys; both are constants at each call. */
INLINE void few_square(
    const int m, const int groups, vf *acc, const heed_few *t, const float *k, const float *const *q, size_t p)
{
    UNROLL
    for (int g = 0; g < groups; g++) {
        vf r[VEC_COLUMNS];
        vf_load_columns(r, k + g * VEC_LANES * t->ld, t->ld);
        UNROLL
        for (int i = 0; i < VEC_COLUMNS; i++) {
            UNROLL
            for (int row = 0; row < m; row++)
                acc[row * groups + g] = vf_fma(vf_set1(q[row][p + (size_t)i]), r[i], acc[row * groups + g]);
        }
    }
}

/* What is asked for while keys from j on are multiplied: every line from t->next on, or every second one of the keys that follow, or
 * queries, which are there. */
INLINE const char *few_asked(const heed_few *t, size_t j, size_t keys)
{
    const size_t row_bytes = t->d * sizeof(float);
    if (t->next)
        return (const char *)(t->next + j * row_bytes);
    if (keys && few_in_order(t))
        return (const char *)((uintptr_t)t->from + (j + keys) * row_bytes);
    return (const char *)t->rows;
}

/* Keys from j on as long as there are `groups` vectors of them; returns the first that is left.  Of m rows the last is taken again and
 * again where t has fewer. */
INLINE size_t few_keys(const int m, const int groups, const heed_few *t, size_t j)
{
    const float *q[FEW_MOST];
    size_t to[FEW_MOST];
    UNROLL
    for (int row = 0; row < m; row++) {
        const size_t i = (size_t)row < t->m ? (size_t)row : t->m - 1;
        q[row] = t->rows + i * t->ld_rows;
        to[row] = i * t->ld_to;
    }
    const size_t step = (size_t)groups * VEC_LANES, whole = t->d / VEC_COLUMNS * VEC_COLUMNS;
    const int square = groups * VEC_LANES * VEC_COLUMNS * (int)sizeof(float), wide = square >= 2 * CACHE_LINE;
    const size_t second = t->next ? CACHE_LINE : 0;
    const vf scale = vf_set1(whole == t->d ? t->scale : 1.0f);
    for (; j + step <= t->n; j += step) {
        const float *k = (const float *)t->from + (ptrdiff_t)j * t->ld;
        const char *next = few_asked(t, j, wide ? step : 0);
        vf acc[FEW_MOST];
        few_announce((const char *)k, t->ld * (ptrdiff_t)sizeof *k, step, t->d * sizeof *k, t->ahead);
        UNROLL
        for (int i = 0; i < m * groups; i++)
            acc[i] = vf_zero();
        for (size_t p = 0; p < whole; p += VEC_COLUMNS, next += square) {
            /* Every second line of what is read next, and the others of a share; more rows leave no register for these, and more groups
             * are for keys in order. */
            UNROLL
            for (int b = 0; b + CACHE_LINE <= square; b += 2 * CACHE_LINE) {
                if (wide || m <= FEW_ROWS)
                    pack_prefetch_line(next + b, 0);
                if (wide && m <= FEW_ROWS && groups == 1)
                    pack_prefetch_line(next + b, second);
            }
            few_square(m, groups, acc, t, k + p, q, p);
        }
        UNROLL
        for (int i = 0; i < m * groups; i++)
            vf_store(t->to + to[i / groups] + j + (size_t)(i % groups) * VEC_LANES, vf_mul(scale, acc[i]));
        for (int g = 0; whole < t->d && g < groups; g++)
            HEED_FN(few_rest)(t, j + (size_t)g * VEC_LANES, VEC_LANES, whole);
    }
    return j;
}

/* One row of queries has work enough between one sum and the next only with 16 keys; that many long ones would be half of L1, and that
 * many that lie a power of two apart share its sets (8 kv heads of 128 side by side, AVX2: 50 % of the read bandwidth, with 8 keys 75). */
INLINE void few_rows(const int m, const heed_few *t)
{
    size_t j = 0;
    if (m == 1 && FEW_UNIT > 1 && !t->next && t->d * sizeof(float) * HEED_LANES <= 2 * FEW_PAGE)
        j = few_keys(m, 2, t, j);
    for (j = few_keys(m, 1, t, j); j < t->n; j += VEC_LANES) {
        for (size_t row = 0; row < t->m; row++)
            vf_store(t->to + row * t->ld_to + j, vf_zero());
        HEED_FN(few_rest)(t, j, pack_left(t->n, j), 0);
    }
}

/* ---- Keys stored transposed, in units of 16 ---- */

INLINE void few_units(const heed_type type, const int m, const int units, const heed_few *t, size_t first)
{
    const int vecs = units * FEW_UNIT;
    const size_t row_bytes = (size_t)t->ld * pack_size(type);
    const uintptr_t next = first || !t->next ? (uintptr_t)t->units[first] : t->next;
    const char *k[4];
    uintptr_t ahead[4];
    vf acc[FEW_MOST];
    UNROLL
    for (int u = 0; u < units; u++) {
        k[u] = t->units[first + (size_t)u];
        ahead[u] = t->units_ahead[first + (size_t)u];
    }
    UNROLL
    for (int i = 0; i < m * vecs; i++)
        acc[i] = vf_zero();
    for (size_t p = 0; p < t->d; p++) {
        if (type == HEED_TYPE_I8 || (type != HEED_TYPE_F32 && p % 2 == 0))
            pack_prefetch_line((const char *)next, p * t->next_step);
        UNROLL
        for (int u = 0; u < units; u++) {
            if ((p * row_bytes) % CACHE_LINE < row_bytes)
                pack_prefetch(k[u], 1, ahead[u]);
            UNROLL
            for (int w = 0; w < FEW_UNIT; w++) {
                const vf x = pack_load(type, k[u] + (size_t)w * VEC_LANES * pack_size(type));
                UNROLL
                for (int row = 0; row < m; row++) {
                    const int i = row * vecs + u * FEW_UNIT + w;
                    acc[i] = vf_fma(vf_set1(t->rows[(size_t)row * t->ld_rows + p]), x, acc[i]);
                }
            }
            k[u] += row_bytes;
        }
    }
    UNROLL
    for (int i = 0; i < m * vecs; i++)
        vf_store(t->to + (size_t)(i / vecs) * t->ld_to + first * HEED_LANES + (size_t)(i % vecs) * VEC_LANES,
            vf_mul(vf_set1(t->scale), acc[i]));
}

/* As many units at once as there are registers for, then one by one.  Four are for one row, which has no other chains, and for four rows
 * of narrow types, which wait for the loads of their queries; 16 bits come by two from few_dealt(). */
INLINE void few_units_m(const heed_type type, const int m, const heed_few *t)
{
    enum { FIT = FEW_WIDE / FEW_UNIT };
    const int most = FIT / m >= 4 && (m == 1 || (m == FEW_ROWS && type != HEED_TYPE_F32)) ? 4 : FIT / m >= 2 ? 2 : 1;
    const size_t units = (t->n + HEED_LANES - 1) / HEED_LANES;
    size_t u = 0;
    for (; most > 1 && u + (size_t)most <= units; u += (size_t)most)
        few_units(type, m, most, t, u);
    for (; most > 2 && pack_size(type) == 2 && u + 2 <= units; u += 2)
        few_units(type, m, 2, t, u);
    for (; u < units; u++)
        few_units(type, m, 1, t, u);
}

/* ---- Values ---- */

/* The last columns, fewer than a vector has. */
INLINE void few_last_columns(const heed_type type, const heed_few *t, size_t c)
{
    const ptrdiff_t row_bytes = t->ld * (ptrdiff_t)pack_size(type);
    const char *row = (const char *)t->from + c * pack_size(type);
    vf acc[FEW_ROWS];
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

RARE void HEED_FN(few_last)(heed_type type, const heed_few *t, size_t c)
{
    switch (type) {
    case HEED_TYPE_F16: few_last_columns(HEED_TYPE_F16, t, c); break;
    case HEED_TYPE_BF16: few_last_columns(HEED_TYPE_BF16, t, c); break;
    case HEED_TYPE_I8: few_last_columns(HEED_TYPE_I8, t, c); break;
    default: few_last_columns(HEED_TYPE_F32, t, c); break;
    }
}

/* `vecs` vectors of columns over n keys, from the first one's elements at `row` and sums at `to` on; memory is asked for what lies at
 * `asked`, which moves on by t->next_step. */
INLINE void few_columns(const heed_type type, const int m, const int vecs, const heed_few *t, float *to,
    const char *row, const char *asked, const float *weights, size_t n)
{
    const ptrdiff_t row_bytes = t->ld * (ptrdiff_t)pack_size(type);
    const size_t next_step = t->next_step;
    vf acc[FEW_MOST];
    UNROLL
    for (int i = 0; i < m * vecs; i++)
        acc[i] = vf_load(to + (size_t)(i / vecs) * t->ld_to + (size_t)(i % vecs) * VEC_LANES);
    for (size_t j = n; j; j--, row += row_bytes, asked += next_step, weights++) {
        UNROLL
        for (int b = 0; b < vecs * VEC_LANES * (int)pack_size(type); b += CACHE_LINE)
            pack_prefetch_line(asked + b, 0);
        UNROLL
        for (int g = 0; g < vecs; g++) {
            const vf x = pack_load(type, row + (size_t)g * VEC_LANES * pack_size(type));
            UNROLL
            for (int i = 0; i < m; i++)
                acc[i * vecs + g] = vf_fma(vf_set1(weights[(size_t)i * t->ld_rows]), x, acc[i * vecs + g]);
        }
    }
    UNROLL
    for (int i = 0; i < m * vecs; i++)
        vf_store(to + (size_t)(i / vecs) * t->ld_to + (size_t)(i % vecs) * VEC_LANES, acc[i]);
}

/* Rows of values whose columns are passed over before the next rows'.  Sums are loaded and stored for each pass, so that long rows are taken
 * more than a page at a time where those are many (AVX-512, f32, head_dim 256, 4 rows: 38 to 50 % of the read bandwidth) or where two pages
 * are no more than a page's touching reaches (one row of AVX2, head_dim 128: 87 to 88). */
INLINE size_t few_pass_rows(int m, size_t row_bytes)
{
    const size_t rows = few_page_rows(row_bytes);
    return (VEC_LANES == 16 && m > 1 && rows < 8) || (VEC_LANES < 16 && m == 1 && rows == 8) ? 16 : rows;
}

/* How all columns of some rows of values are passed over, then of the next. */
typedef struct few_passes {
    size_t rows, touched; /* 1: their lines are touched before */
} few_passes;

/* A page at a time: in long passes over a part of every row the processor does not see that all is read, so does nothing ahead.  Where
 * there are more than two passes, or few rows in a page, all lines are touched before; of a paged cache, whose pages begin a new stream each,
 * half a page at a time where one row does little with it. */
NOINLINE few_passes HEED_FN(few_passes_of)(const heed_few *t, size_t size, int m, size_t wide, size_t narrow)
{
    const size_t bytes = t->d * size, page = few_pass_rows(m, bytes);
    const int in_order = few_in_order(t);
    if (m == 1 && size > 1 && t->ahead && in_order)
        return (few_passes){ (page + 1) / 2, 1 };
    if (t->d == wide || t->d == narrow)
        return (few_passes){ t->n, 0 };
    return (few_passes){ page, in_order && (t->d > 2 * wide || few_page_rows(bytes) <= 8) };
}

/* int8, on which one works longer than it takes to read it, is asked for two pages ahead where a pass does not see all of a row. */
INLINE uintptr_t few_pages_ahead(const heed_type type, const heed_few *t, size_t wide)
{
    return type == HEED_TYPE_I8 && !t->ahead && few_in_order(t) && t->d > wide ? 2 * FEW_PAGE : 0;
}

INLINE void few_values_m(const heed_type type, const int m, const heed_few *t)
{
    const int vecs = FEW_WIDE / m < 8 ? FEW_WIDE / m : 8, half = vecs == 8 ? 4 : vecs;
    const size_t wide = (size_t)vecs * VEC_LANES, narrow = (size_t)half * VEC_LANES, size = pack_size(type);
    const few_passes passes = HEED_FN(few_passes_of)(t, size, m, wide, narrow);
    const char *row = t->from, *asked = (const char *)(t->next + few_pages_ahead(type, t, wide));
    for (size_t first = 0; first < t->n; first += passes.rows) {
        const size_t n = t->n - first < passes.rows ? t->n - first : passes.rows;
        const float *weights = t->rows + first;
        size_t c = 0;
        if (passes.touched)
            HEED_FN(few_touch)(row, n * t->d * size);
        for (; vecs > 1 && c + wide <= t->d; c += wide)
            few_columns(type, m, vecs, t, t->to + c, row + c * size, asked + c * size, weights, n);
        for (; half < vecs && c + narrow <= t->d; c += narrow)
            few_columns(type, m, half, t, t->to + c, row + c * size, asked + c * size, weights, n);
        for (; c + VEC_LANES <= t->d; c += VEC_LANES)
            few_columns(type, m, 1, t, t->to + c, row + c * size, asked + c * size, weights, n);
        row += (ptrdiff_t)n * t->ld * (ptrdiff_t)size;
        asked += n * t->next_step;
    }
    if (t->d % VEC_LANES)
        HEED_FN(few_last)(type, t, t->d / VEC_LANES * VEC_LANES);
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
 * vectors (scalar) gain nothing from more than one.  Where f32 keys are transposed for each pass, five to eight share one too. */
INLINE size_t few_together(const int kind, size_t m)
{
    if (kind == FEW_KEYS && VEC_LANES >= 4 && m > FEW_ROWS)
        return m < FEW_MANY ? m : FEW_MANY;
    return VEC_LANES < 4 || m == 1 ? 1 : m < FEW_ROWS ? 2 : FEW_ROWS;
}

/* C's template: all rows, by instances for the numbers of rows that share a pass. */
INLINE void few_all(const int kind, const heed_type type, const heed_few *t)
{
    heed_few part = *t;
    for (size_t i = 0; i < t->m; i += part.m) {
        part.m = few_together(kind, t->m - i);
        part.rows = t->rows + i * t->ld_rows;
        part.to = t->to + i * t->ld_to;
        switch (VEC_LANES < 4 ? 1 : part.m) {
        case 1: few_instance(kind, type, 1, &part); break;
        case 2: few_instance(kind, type, 2, &part); break;
        case 4: few_instance(kind, type, 4, &part); break;
        default:
            if (kind == FEW_KEYS)
                few_rows(VEC_LANES < 4 ? 1 : FEW_MANY, &part);
            break;
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

static void HEED_FN(qk_few_t)(heed_type type, const heed_few *t)
{
    few_of(FEW_TRANSPOSED, type, t);
}

/* ---- Keys stored as rows, narrow: transposed as they are into the workspace, then like pages ---- */

enum {
    DEAL_BYTES = 16, /* of a key at once */
    DEAL_ROW = 32    /* bytes of transposed keys, of one dimension, side by side: 16 or 32 keys */
};

/* A piece of a block of keys that lies only partly within them; the rest becomes 0. */
RARE void HEED_FN(few_deal_rest)(
    char *to, const char *from, ptrdiff_t row_bytes, size_t keys, size_t bytes, const size_t size)
{
    _Alignas(DEAL_BYTES) char copy[DEAL_ROW * DEAL_BYTES] = { 0 };
    for (size_t i = 0; i < keys; i++)
        memcpy(copy + i * DEAL_BYTES, from + (ptrdiff_t)i * row_bytes, bytes);
    if (size == 2)
        vf_deal_16(to, copy, DEAL_BYTES);
    else
        vf_deal_8(to, copy, DEAL_BYTES);
}

/* DEAL_ROW / size keys, of which there may be fewer, as DEAL_ROW bytes for each dimension.  Of what lies at `next` half as much is asked
 * for as is dealt, 0: nothing. */
INLINE void few_deal(
    const size_t size, char *to, const char *from, ptrdiff_t row_bytes, size_t keys, size_t d, uintptr_t next)
{
    const size_t all = DEAL_ROW / size, bytes = d * size, whole = keys < all ? 0 : bytes / DEAL_BYTES * DEAL_BYTES;
    const size_t half = all * DEAL_BYTES / 2;
    for (size_t done = 0; done < bytes; done += DEAL_BYTES, to += DEAL_ROW * DEAL_BYTES / size) {
        const size_t left = bytes - done < DEAL_BYTES ? bytes - done : DEAL_BYTES;
        for (size_t b = 0; next && b < half; b += CACHE_LINE)
            pack_prefetch_line((const char *)next, done / DEAL_BYTES * half + b);
        if (done < whole && size == 2)
            vf_deal_16(to, from + done, row_bytes);
        else if (done < whole)
            vf_deal_8(to, from + done, row_bytes);
        else
            HEED_FN(few_deal_rest)(to, from + done, row_bytes, keys, left, size);
    }
}

/* Two blocks of keys at a time, or one of long ones, dealt into t->room: they and the dealt ones fit L1, and memory does not idle for long
 * while they are multiplied.  Meanwhile the next ones are asked for, spread over the work, because the processor waits for few lines at a
 * time: 16 bits, from two pages on, one half while keys are dealt; less, every second line with the products; 8 bits, whose products take
 * twice as long, every line with these (docs/design.md). */
INLINE void few_dealt(heed_type type, const heed_few *t)
{
    const size_t size = pack_size(type), keys = DEAL_ROW / size, bytes = t->d * size;
    const size_t together = bytes * keys > 2 * FEW_PAGE ? keys : 2 * keys, room = heed_deal_bytes(t->d, size);
    const ptrdiff_t row_bytes = t->ld * (ptrdiff_t)size;
    heed_few part = *t;
    part.ld = (ptrdiff_t)keys;
    for (size_t j = 0; j < together; j += HEED_LANES) {
        part.units[j / HEED_LANES] = (char *)t->room + j / keys * room + j % keys * size;
        part.units_ahead[j / HEED_LANES] = 0;
    }
    for (size_t j = 0; j < t->n; j += part.n, part.to += part.n) {
        const char *from = (const char *)t->from + (ptrdiff_t)j * row_bytes;
        part.n = t->n - j < together ? t->n - j : together;
        const size_t all = few_in_order(t) || t->next ? part.n * bytes : 0,
                     half = size == 2 && all >= 2 * FEW_PAGE ? all / 2 : 0;
        const uintptr_t next = t->next ? t->next + j * bytes : (uintptr_t)from + all;
        part.next = next + half;
        part.next_step = (all - half) / t->d;
        for (size_t i = 0; i < part.n; i += keys) {
            const char *block = from + (ptrdiff_t)i * row_bytes;
            char *to = (char *)t->room + i / keys * room;
            const size_t count = part.n - i < keys ? part.n - i : keys;
            few_announce(block, row_bytes, count, bytes, t->ahead);
            if (size == 2)
                few_deal(2, to, block, row_bytes, count, t->d, half ? next + i * bytes / 2 : 0);
            else
                few_deal(1, to, block, row_bytes, count, t->d, 0);
        }
        HEED_FN(qk_few_t)(type, &part);
    }
}

static void HEED_FN(qk_few)(heed_type type, const heed_few *t)
{
    if (type == HEED_TYPE_F32)
        few_all(FEW_KEYS, HEED_TYPE_F32, t);
    else
        few_dealt(type, t);
}

static void HEED_FN(pv_few)(heed_type type, const heed_few *t)
{
    few_of(FEW_VALUES, type, t);
}

#endif
