/* The register tile and the three products made of it: scores (qk), weighted values (pv), projections (gemm).
 * May know: the vector layer and the packed panels.  Must not know: instruction sets, masks beyond row ranges, threads.
 *
 * A panel holds NR = TILE_V vectors of columns for each step of k.  Each output element is one chain of fused
 * multiply-adds in ascending order, whatever m and the blocking are: lanes hold different elements. */
#ifndef HEED_KERNELS_TILE_H
#define HEED_KERNELS_TILE_H

enum { NR = TILE_V * VEC_LANES };
_Static_assert(TILE_M *TILE_V + TILE_V + 1 <= VEC_REGISTERS, "the tile does not fit the register file");
_Static_assert(TILE_M <= 16, "tile_rows() lists at most 16 rows");
_Static_assert(HEED_BLOCK_KV % NR == 0, "panels must not straddle blocks of keys");

/* Panels side by side for tiles of one and of two rows, 64 columns or what the registers hold: so few rows in one panel have
 * too few chains to hide the latency of a multiply-add. */
enum {
    TILE_COLUMNS = 64,
    TILE_P1 = (int)NR >= (int)TILE_COLUMNS      ? 1
              : (int)TILE_COLUMNS / NR < TILE_M ? (int)TILE_COLUMNS / NR
                                                : TILE_M,
    TILE_P2 = TILE_P1 >= 2 ? TILE_P1 / 2 : 1
};

/* What happens around the chain: scale it (qk), blend it into the output (pv), start it from a bias or from c (gemm). */
enum { TILE_QK, TILE_PV, TILE_GEMM };
enum { TILE_STEPS = 16 };

typedef struct tile_args {
    float *c;
    size_t ldc;
    const float *a;
    size_t lda;
    const float *b; /* k rows of NR columns */
    size_t panel;   /* floats from one panel to the next, where several are taken at once */
    size_t k;
    float scale;             /* qk */
    const float *keep, *add; /* pv: one a row */
    const float *bias;       /* gemm: NR floats, or NULL to continue the chain in c */
    uintptr_t ahead;         /* gemm: asked for meanwhile, `ask` bytes every TILE_STEPS steps; 0: nothing */
    size_t ask;
} tile_args;

INLINE vf tile_start(const int kind, const tile_args *t, int i, int j)
{
    if (kind != TILE_GEMM)
        return vf_zero();
    if (t->bias)
        return vf_load(t->bias + j * VEC_LANES);
    return vf_load(t->c + (size_t)i * t->ldc + j * VEC_LANES);
}

INLINE void tile_finish(const int kind, const tile_args *t, int i, int j, vf acc)
{
    float *c = t->c + (size_t)i * t->ldc + j * VEC_LANES;
    if (kind == TILE_QK)
        vf_store(c, vf_mul(vf_set1(t->scale), acc));
    else if (kind == TILE_PV)
        vf_store(c, vf_fma(acc, vf_set1(t->add[i]), vf_mul(vf_load(c), vf_set1(t->keep[i]))));
    else
        vf_store(c, acc);
}

/* One step of k for m rows and `wide` vectors of one panel. */
INLINE void tile_step(const int m, const int wide, vf *acc, const float *a, const size_t *row, const float *b)
{
    vf bv[TILE_V];
    UNROLL
    for (int j = 0; j < wide; j++)
        bv[j] = vf_load(b + j * VEC_LANES);
    UNROLL
    for (int i = 0; i < m; i++) {
        const vf av = vf_load1(a + row[i]);
        UNROLL
        for (int j = 0; j < wide; j++)
            acc[i * wide + j] = vf_fma(av, bv[j], acc[i * wide + j]);
    }
}

/* The same for one or two rows and several panels: there are not registers enough for all vectors of b. */
INLINE void tile_wide_step(
    const int m, const int wide, vf *acc, const float *a, const size_t *row, const float *b, size_t panel)
{
    vf av[2];
    UNROLL
    for (int i = 0; i < m; i++)
        av[i] = vf_load1(a + row[i]);
    UNROLL
    for (int j = 0; j < wide; j++) {
        const vf bv = vf_load(b + (size_t)(j / TILE_V) * panel + j % TILE_V * VEC_LANES);
        UNROLL
        for (int i = 0; i < m; i++)
            acc[i * wide + j] = vf_fma(av[i], bv, acc[i * wide + j]);
    }
}

/* m rows by `wide` vectors: a panel's, several panels', or the first of one.  m, wide and kind are constants at each call: the loops
 * unroll and acc lives in registers. */
INLINE void tile(const int m, const int wide, const int kind, const tile_args *t)
{
    vf acc[TILE_M * TILE_V];
    UNROLL
    for (int i = 0; i < m; i++) {
        UNROLL
        for (int j = 0; j < wide; j++)
            acc[i * wide + j] = tile_start(kind, t, i, j);
    }
    const float *a = t->a, *b = t->b;
    const size_t panel = t->panel;
    size_t row[TILE_M] = { 0 };
    UNROLL
    for (int i = 1; i < m; i++)
        row[i] = opaque((size_t)i * t->lda);
    size_t asked = 0, ask = 0;
    for (size_t left = t->k, steps = left; left; left -= steps) {
        if (kind == TILE_GEMM && t->ask) {
            steps = left < TILE_STEPS ? left : TILE_STEPS;
            for (ask += t->ask; asked < ask; asked += CACHE_LINE)
                __builtin_prefetch((const void *)(t->ahead + asked), 0, 2);
        }
        for (size_t p = steps; p; p--, a++, b += NR) {
            if (wide > TILE_V)
                tile_wide_step(m, wide, acc, a, row, b, panel);
            else
                tile_step(m, wide, acc, a, row, b);
        }
    }
    UNROLL
    for (int i = 0; i < m; i++) {
        UNROLL
        for (int j = 0; j < wide; j++)
            tile_finish(kind, t, i, j, acc[i * wide + j]);
    }
}

/* C's template: one instance for each number of rows a backend has, none beyond TILE_M. */
INLINE void tile_of(const int rows, const int kind, const tile_args *t)
{
    if (rows <= TILE_M)
        tile(rows, TILE_V, kind, t);
}

INLINE void tile_rows(size_t m, const int kind, const tile_args *t)
{
    switch (m) {
    case 1: tile_of(1, kind, t); break;
    case 2: tile_of(2, kind, t); break;
    case 3: tile_of(3, kind, t); break;
    case 4: tile_of(4, kind, t); break;
    case 5: tile_of(5, kind, t); break;
    case 6: tile_of(6, kind, t); break;
    case 7: tile_of(7, kind, t); break;
    case 8: tile_of(8, kind, t); break;
    case 9: tile_of(9, kind, t); break;
    case 10: tile_of(10, kind, t); break;
    case 11: tile_of(11, kind, t); break;
    case 12: tile_of(12, kind, t); break;
    case 13: tile_of(13, kind, t); break;
    case 14: tile_of(14, kind, t); break;
    case 15: tile_of(15, kind, t); break;
    case 16: tile_of(16, kind, t); break;
    default: break;
    }
}

/* The panels a tile of so few rows takes at once. */
INLINE size_t tile_panels(size_t m)
{
    return m == 1 ? TILE_P1 : m == 2 ? TILE_P2 : 1;
}

INLINE void tile_few(size_t m, const int kind, const tile_args *t)
{
    if (m == 1)
        tile(1, TILE_P1 * TILE_V, kind, t);
    else if (2 <= TILE_M)
        tile(2, TILE_P2 * TILE_V, kind, t);
}

NOINLINE void HEED_FN(tile_qk_few)(size_t m, const tile_args *t)
{
    tile_few(m, TILE_QK, t);
}

NOINLINE void HEED_FN(tile_gemm_few)(size_t m, const tile_args *t)
{
    tile_few(m, TILE_GEMM, t);
}

NOINLINE void HEED_FN(tile_qk)(size_t m, const tile_args *t)
{
    tile_rows(m, TILE_QK, t);
}

NOINLINE void HEED_FN(tile_pv)(size_t m, const tile_args *t)
{
    tile_rows(m, TILE_PV, t);
}

NOINLINE void HEED_FN(tile_gemm)(size_t m, const tile_args *t)
{
    tile_rows(m, TILE_GEMM, t);
}

/* Several whole tiles below one another, without a call and a choice of height for each. */
INLINE void tile_column(size_t tiles, const int wide, const int kind, const tile_args *first)
{
    tile_args t = *first;
    for (; tiles; tiles--) {
        tile(TILE_M, wide, kind, &t);
        t.c += TILE_M * t.ldc;
        t.a += TILE_M * t.lda;
        if (kind == TILE_PV) {
            t.keep += TILE_M;
            t.add += TILE_M;
        }
    }
}

NOINLINE void HEED_FN(tile_qk_column)(size_t tiles, const tile_args *t)
{
    tile_column(tiles, TILE_V, TILE_QK, t);
}

NOINLINE void HEED_FN(tile_pv_column)(size_t tiles, const tile_args *t)
{
    tile_column(tiles, TILE_V, TILE_PV, t);
}

/* The first half of a panel, where a head has no more columns: with AVX-512 16 of 32 (head_dim 80: 1.1 of the speed). */
enum { TILE_HALF = TILE_V > 1 ? TILE_V / 2 : 1 };

NOINLINE void HEED_FN(tile_pv_half_column)(size_t tiles, const tile_args *t)
{
    tile_column(tiles, TILE_HALF, TILE_PV, t);
}

INLINE size_t tile_height(size_t m, size_t i)
{
    return m - i < TILE_M ? m - i : TILE_M;
}

/* The keys that any of m rows sees; hi = 0 when none does. */
INLINE heed_range tile_union(const heed_range *rows, size_t m)
{
    heed_range all = { HEED_BLOCK_KV, 0 };
    for (size_t i = 0; i < m; i++)
        if (rows[i].lo < rows[i].hi) {
            all.lo = rows[i].lo < all.lo ? rows[i].lo : all.lo;
            all.hi = rows[i].hi > all.hi ? rows[i].hi : all.hi;
        }
    return all;
}

/* 1 if all rows see the same keys, as they do away from causal and window edges: then no tile need be asked what it sees (2 % of
 * qk_tile at head_dim 64). */
INLINE int tile_uniform(const heed_range *rows, size_t m)
{
    int differ = 0;
    for (size_t i = 1; i < m; i++)
        differ |= (rows[i].lo ^ rows[0].lo) | (rows[i].hi ^ rows[0].hi);
    return !differ;
}

/* Asks for the bias of m rows and one panel's columns.  Not a part of the tiles, which have no register for it. */
NOINLINE void HEED_FN(qk_ask)(const heed_ask *ask, size_t i, size_t m, size_t j)
{
    const size_t first = j * ask->blocks * sizeof(float), bytes = NR * ask->blocks * sizeof(float);
    for (const uintptr_t *row = ask->rows + i; m; m--, row++)
        for (size_t x = first; x < first + bytes; x += CACHE_LINE)
            __builtin_prefetch((const void *)(*row + x), 0, 2);
}

/* Whole tiles of a column, and after every few of them some lines of the bias: many at once fill the processor's buffers (all of a row
 * when it is wanted: 1.14 of the time without a bias, 2048 x 2048, head_dim 64; so 1.10). */
INLINE void qk_whole_tiles(size_t tiles, const tile_args *first, const heed_ask *ask, size_t j)
{
    enum { TOGETHER = 12 * 32 / (TILE_M * (int)NR) > 1 ? 12 * 32 / (TILE_M * (int)NR) : 1 };
    tile_args t = *first;
    for (size_t i = 0, n; i < tiles; i += n) {
        n = ask && tiles - i > TOGETHER ? TOGETHER : tiles - i;
        HEED_FN(tile_qk_column)(n, &t);
        if (ask)
            HEED_FN(qk_ask)(ask, i * TILE_M, n * TILE_M, j);
        t.c += n * TILE_M * t.ldc;
        t.a += n * TILE_M * t.lda;
    }
}

/* Panels outside, rows inside: a panel stays in L1 while all rows pass over it. */
static void HEED_FN(qk_tile)(float *s, size_t lds, const float *q, size_t ldq, const float *panels,
    const heed_range *rows, size_t m, size_t d, float scale, const heed_ask *ask)
{
    const heed_range all = tile_union(rows, m);
    const int uniform = tile_uniform(rows, m);
    const size_t few = tile_panels(m) * NR;
    size_t j = (size_t)all.lo / NR * NR;
    tile_args t = { .c = s, .ldc = lds, .a = q, .lda = ldq, .b = panels, .panel = NR * d, .k = d, .scale = scale };
    for (; few > NR && j + few < (size_t)all.hi + NR; j += few) {
        t.c = s + j;
        t.b = panels + j * d;
        HEED_FN(tile_qk_few)(m, &t);
    }
    const size_t whole = uniform ? m / TILE_M : 0;
    for (; j < (size_t)all.hi; j += NR) {
        t.b = panels + j * d;
        t.c = s + j;
        t.a = q;
        if (whole)
            qk_whole_tiles(whole, &t, ask, j);
        for (size_t i = whole * TILE_M; i < m; i += TILE_M) {
            const size_t height = tile_height(m, i);
            if (!uniform) {
                const heed_range seen = tile_union(rows + i, height);
                if ((size_t)seen.hi <= j || (size_t)seen.lo >= j + NR)
                    continue;
            }
            t.c = s + i * lds + j;
            t.a = q + i * ldq;
            HEED_FN(tile_qk)(height, &t);
        }
    }
}

/* One row against one panel with values that are not all finite: a hidden key must not take part even with weight 0. */
INLINE void pv_row_careful(const int kind, const tile_args *t, size_t i)
{
    const float *p = t->a + i * t->lda;
    vf acc[TILE_V];
    UNROLL
    for (int j = 0; j < TILE_V; j++)
        acc[j] = tile_start(kind, t, (int)i, j);
    for (size_t key = 0; key < t->k; key++) {
        if (p[key] == 0.0f && 1.0f / p[key] < 0.0f)
            continue;
        UNROLL
        for (int j = 0; j < TILE_V; j++) {
            acc[j] = vf_fma(vf_set1(p[key]), vf_load(t->b + key * NR + j * VEC_LANES), acc[j]);
        }
    }
    UNROLL
    for (int j = 0; j < TILE_V; j++)
        tile_finish(kind, t, (int)i, j, acc[j]);
}

NOINLINE void HEED_FN(pv_rows_careful)(const tile_args *t, size_t m)
{
    for (size_t i = 0; i < m; i++) {
        if (t->keep)
            pv_row_careful(TILE_PV, t, i);
        else
            pv_row_careful(TILE_GEMM, t, i);
    }
}

static void HEED_FN(pv_tile)(float *o, size_t ldo, const float *p, size_t ldp, const float *panels, size_t ld,
    const heed_range *rows, size_t m, size_t d, int v_is_finite, const float *keep, const float *add)
{
    const size_t few = v_is_finite && !keep ? tile_panels(m) * NR : NR;
    const heed_range all = tile_union(rows, m);
    const int uniform = tile_uniform(rows, m);
    for (size_t c = 0; c < d;) {
        const int is_few = few > NR && c + few < d + NR;
        const size_t whole = uniform && v_is_finite && keep && all.hi ? m / TILE_M : 0;
        if (whole) {
            const tile_args t = { .c = o + c,
                .ldc = ldo,
                .a = p + all.lo,
                .lda = ldp,
                .b = panels + c * ld + (size_t)all.lo * NR,
                .k = (size_t)(all.hi - all.lo),
                .keep = keep,
                .add = add };
            if (d - c <= TILE_HALF * VEC_LANES)
                HEED_FN(tile_pv_half_column)(whole, &t);
            else
                HEED_FN(tile_pv_column)(whole, &t);
        }
        for (size_t i = whole * TILE_M; i < m; i += TILE_M) {
            const size_t height = tile_height(m, i);
            const heed_range seen = uniform ? all : tile_union(rows + i, height);
            if (seen.hi == 0)
                continue;
            const size_t lo = (size_t)seen.lo;
            const tile_args t = { .c = o + i * ldo + c,
                .ldc = ldo,
                .a = p + i * ldp + lo,
                .lda = ldp,
                .b = panels + c * ld + lo * NR,
                .panel = ld * NR,
                .k = (size_t)seen.hi - lo,
                .keep = keep ? keep + i : NULL,
                .add = add ? add + i : NULL };
            if (!v_is_finite)
                HEED_FN(pv_rows_careful)(&t, height);
            else if (is_few)
                HEED_FN(tile_gemm_few)(height, &t);
            else if (keep)
                HEED_FN(tile_pv)(height, &t);
            else
                HEED_FN(tile_gemm)(height, &t);
        }
        c += is_few ? few : NR;
    }
}

/* o = o * keep + add * x, the blend of tile_finish() for a sum that was gathered apart. */
static void HEED_FN(blend_row)(float *o, const float *x, float keep, float add, size_t n)
{
    for (size_t c = 0; c < n; c += VEC_LANES)
        vf_store(o + c, vf_fma(vf_load(x + c), vf_set1(add), vf_mul(vf_load(o + c), vf_set1(keep))));
}

/* The last panel may have fewer columns than c has room for: the tile then works on a copy. */
INLINE void gemm_last_columns(size_t m, size_t n, const tile_args *of)
{
    float copy[TILE_M * NR];
    tile_args t = *of;
    t.c = copy;
    t.ldc = NR;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < NR; j++)
            copy[i * NR + j] = j < n && !t.bias ? of->c[i * of->ldc + j] : 0.0f;
    HEED_FN(tile_gemm)(m, &t);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            of->c[i * of->ldc + j] = copy[i * NR + j];
}

enum { GEMM_L1 = 16 * 1024 /* bytes of a panel that stays there */, GEMM_FIRST = 8 /* rows */ };

/* The panel behind this one is what the caller will want next: each row tile asks for its share of it, little by little, so that it
 * comes from memory while this one is at work (6 x 4096 x 4096: 6.8 to 4.1 ms, 16 rows 8.8 to 7.0).  Fewer rows than a tile's wait for
 * memory all the time, and the hardware, left alone, streams better; so it does for panels beyond L1. */
INLINE size_t gemm_share(size_t m, size_t bytes)
{
    return m < TILE_M || bytes > GEMM_L1 ? 0 : bytes / ((m + TILE_M - 1) / TILE_M);
}

/* A panel beyond L1 comes from memory under its first tile, of at most 8 rows where that makes a difference: the next lines are then
 * near enough for the processor to see (12 rows: 7.4 to 5.4 ms). */
INLINE size_t gemm_height(size_t m, size_t i, size_t share)
{
    const size_t height = tile_height(m, i);
    return i == 0 && !share && m < 4 * TILE_M && height > GEMM_FIRST ? GEMM_FIRST : height;
}

INLINE void gemm_panel(float *c, size_t ldc, const float *a, size_t lda, const float *panel, size_t m, size_t n,
    size_t k, const float *bias)
{
    const size_t bytes = k * NR * sizeof(float), share = gemm_share(m, bytes);
    uintptr_t ahead = (uintptr_t)panel + bytes; /* no address: there may be nothing */
    for (size_t i = 0, height; i < m; i += height, ahead += share) {
        height = gemm_height(m, i, share);
        const tile_args t = { .c = c + i * ldc,
            .ldc = ldc,
            .a = a + i * lda,
            .lda = lda,
            .b = panel,
            .k = k,
            .bias = bias,
            .ahead = ahead,
            .ask = share * TILE_STEPS / k };
        if (n == NR)
            HEED_FN(tile_gemm)(height, &t);
        else
            gemm_last_columns(height, n, &t);
    }
}

static void HEED_FN(gemm_tile)(float *c, size_t ldc, const float *a, size_t lda, const float *panels, size_t m,
    size_t n, size_t k, const float *bias)
{
    for (size_t j = 0; j < n; j += NR)
        gemm_panel(c + j, ldc, a, lda, panels + j * k, m, n - j < NR ? n - j : NR, k, bias ? bias + j : NULL);
}

#endif
