/* The tables of all backends, their packing, tiles and projections: bits against scalar, a plain f64 loop, guard pages.
 * May know: src/backend.h, check.h.
 * Must not know: plans, problems, how a kernel is written. */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = HEED_BLOCK_KV, LD = HEED_LD_SCORES, MOST_ROWS = 40 };

static const heed_backend *const *usable; /* scalar first */

static void tables(void)
{
    CHECK(usable[0] && usable[0]->isa == HEED_ISA_SCALAR, "scalar is missing");
    for (size_t i = 0; heed_backends[i]; i++) {
        const heed_backend *b = heed_backends[i];
        check_case("%s", heed_isa_name(b->isa));
        CHECK(b->pack_k && b->pack_v && b->qk_tile && b->pv_tile && b->finish_row && b->gemm_tile && b->score_row,
            "a NULL entry");
        for (int e = 0; e < HEED_EXP_KINDS; e++)
            CHECK(b->softmax_tile[e] && b->weights_row[e] && b->softmax_row[e] && b->exp[e] && b->merge_rows[e],
                "a NULL entry for exp %d", e);
        CHECK(b->lanes > 0 && HEED_LANES % b->lanes == 0 && b->mr > 0 && b->nr % b->lanes == 0 && BLOCK % b->nr == 0,
            "lanes %d, tile %d x %d", (int)b->lanes, (int)b->mr, (int)b->nr);
        CHECK((b->sleef_requires_cpu & b->requires_cpu) == b->requires_cpu, "SLEEF asks for less than the backend");
        CHECK(!i || heed_backends[i - 1]->isa != b->isa, "listed twice");
    }
}

/* ---- Packing ---- */

static void check_pack_k(const heed_backend *b, const float *k, size_t ldk, size_t n, size_t d)
{
    size_t nr = (size_t)b->nr, size = kernels_up(n, nr) * d;
    float *panels = check_output(size, CHECK_GUARD_BEHIND);
    b->pack_k(HEED_TYPE_F32, panels, check_input(k, (n - 1) * ldk + d, CHECK_GUARD_BEHIND), (ptrdiff_t)ldk, n, d, 256);
    for (size_t j = 0; j < kernels_up(n, nr); j++)
        for (size_t p = 0; p < d; p++) {
            float got = panels[j / nr * nr * d + p * nr + j % nr], want = j < n ? k[j * ldk + p] : 0.0f;
            if (check_bits(got) != check_bits(want))
                CHECK(false, "key %zu dimension %zu: %g, want %g", j, p, (double)got, (double)want);
        }
}

static void check_pack_v(const heed_backend *b, const float *v, size_t ldv, size_t n, size_t d, int finite)
{
    size_t nr = (size_t)b->nr, size = kernels_up(d, nr) * n;
    float *panels = check_output(size, CHECK_GUARD_BEHIND);
    int got_finite = b->pack_v(
        HEED_TYPE_F32, panels, n, check_input(v, (n - 1) * ldv + d, CHECK_GUARD_BEHIND), (ptrdiff_t)ldv, n, d, 256);
    CHECK(got_finite == finite, "finite: %d, want %d", got_finite, finite);
    for (size_t c = 0; c < kernels_up(d, nr); c++)
        for (size_t j = 0; j < n; j++) {
            float got = panels[c / nr * nr * n + j * nr + c % nr], want = c < d ? v[j * ldv + c] : 0.0f;
            if (!check_equal_bits(got, want))
                CHECK(false, "key %zu dimension %zu: %g, want %g", j, c, (double)got, (double)want);
        }
}

static void packing(void)
{
    check_rng rng = check_rng_named("packing");
    for (size_t n = 1; n <= 70; n++)
        for (size_t d = 1; d <= 70; d += 1 + n % 3)
            for (size_t i = 0; usable[i] && check_keep(n * 70 + d, 41); i++) {
                check_case("%s n %zu d %zu", heed_isa_name(usable[i]->isa), n, d);
                size_t ld = d + n % 5;
                float *x = kernels_random(&rng, n * ld);
                for (size_t j = 0; j < n; j++) /* gaps are not read */
                    for (size_t c = d; c < ld; c++)
                        x[j * ld + c] = NAN;
                check_pack_k(usable[i], x, ld, n, d);
                check_pack_v(usable[i], x, ld, n, d, 1);
                static const float odd[] = { NAN, INFINITY, -INFINITY, 3.4e38f };
                size_t kind = check_next(&rng) % 4;
                x[check_next(&rng) % n * ld + check_next(&rng) % d] = odd[kind];
                check_pack_v(usable[i], x, ld, n, d, kind == 3);
                check_free_all();
                free(x);
            }
}

/* ---- Score tiles ---- */

typedef struct tile_case {
    size_t m, n, d, dv;
    float scale;
    heed_range rows[MOST_ROWS];
    float *q, *k, *v; /* packed */
} tile_case;

/* Row ranges as causal masks, windows, full rows and rows that see nothing give them. */
static tile_case make_tile(check_rng *rng, size_t index)
{
    tile_case t = { .m = 1 + index % MOST_ROWS,
        .n = 1 + (size_t)check_between(rng, 0, index % 3 ? 60 : BLOCK - 1),
        .d = 1 + index % 37,
        .dv = 1 + (index * 7) % 75,
        .scale = check_normal(rng) };
    for (size_t i = 0; i < t.m; i++) {
        int64_t n = (int64_t)t.n, lo = 0, hi = n;
        if (index % 4 == 1)
            hi = (int64_t)i < n ? (int64_t)i : n; /* causal: the first row sees nothing */
        else if (index % 4 > 1)
            lo = check_between(rng, 0, n - 1);
        if (index % 4 == 3)
            hi = check_between(rng, 0, n); /* may be empty, lo >= hi */
        t.rows[i].lo = (int32_t)lo;
        t.rows[i].hi = (int32_t)hi;
    }
    t.q = kernels_random(rng, t.m * t.d);
    t.k = kernels_random(rng, t.n * t.d);
    t.v = kernels_random(rng, t.n * t.dv);
    return t;
}

typedef struct tile_result {
    float *scores, *weights; /* m x LD, defined where visible */
    float state[6][MOST_ROWS + HEED_LANES];
    float *out; /* m x dv */
} tile_result;

/* As score_row leaves a row: its maximum, and -inf around it in its groups of lanes. */
static void find_maximum(float *s, heed_range row, float *max)
{
    *max = -INFINITY;
    for (int32_t j = row.lo; j < row.hi; j++)
        *max = s[j] > *max ? s[j] : *max;
    for (int32_t j = row.lo / HEED_LANES * HEED_LANES;
         row.lo < row.hi && j < (int32_t)kernels_up((size_t)row.hi, HEED_LANES); j++)
        if (j < row.lo || j >= row.hi)
            s[j] = -INFINITY;
}

/* qk, softmax and pv of one block on a state that already holds something in every third row.  known: the softmax is given the rows'
 * maxima. */
static tile_result run_tile(const heed_backend *b, const tile_case *t, int exp, int finite, int known)
{
    size_t nr = (size_t)b->nr, padded = kernels_up(t->m, HEED_LANES), ldo = kernels_up(t->dv, nr) + nr;
    size_t size_s = (t->m - 1) * LD + BLOCK, size_o = (t->m - 1) * ldo + kernels_up(t->dv, nr);
    tile_result r = { check_floats(t->m * LD), check_floats(t->m * LD), { { 0 } }, check_floats(t->m * t->dv) };
    float *panels_k = check_alloc(kernels_up(t->n, nr) * t->d * sizeof(float), CHECK_GUARD_BEHIND);
    float *panels_v = check_alloc(kernels_up(t->dv, nr) * t->n * sizeof(float), CHECK_GUARD_BEHIND);
    b->pack_k(HEED_TYPE_F32, panels_k, t->k, (ptrdiff_t)t->d, t->n, t->d, 0);
    b->pack_v(HEED_TYPE_F32, panels_v, t->n, t->v, (ptrdiff_t)t->dv, t->n, t->dv, 0);
    float *s = check_output(size_s, CHECK_GUARD_BEHIND), *o = check_output(size_o, CHECK_GUARD_BEHIND), *arrays[6];
    b->qk_tile(
        s, LD, check_input(t->q, t->m * t->d, CHECK_GUARD_BEHIND), t->d, panels_k, t->rows, t->m, t->d, t->scale, NULL);
    for (size_t i = 0; i < t->m; i++)
        memcpy(r.scores + i * LD, s + i * LD, BLOCK * sizeof(float));
    for (size_t a = 0; a < 6; a++)
        arrays[a] = check_alloc(padded * sizeof(float), CHECK_GUARD_BEHIND);
    for (size_t i = 0; i < padded; i++) {
        arrays[0][i] = i % 3 ? -INFINITY : 0.25f * (float)i;
        arrays[1][i] = i % 3 ? 0.0f : 1.5f;
        arrays[4][i] = -INFINITY;
        arrays[5][i] = 0.0f;
    }
    heed_rows state = { arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5] };
    for (size_t i = 0; known && i < t->m; i++)
        find_maximum(s + i * LD, t->rows[i], &state.block_max[i]);
    b->softmax_tile[exp](state.block_max, state.block_sum, s, LD, t->rows, t->m, known);
    b->merge_rows[exp](&state, t->m);
    for (size_t i = 0; i < t->m; i++)
        memcpy(r.weights + i * LD, s + i * LD, BLOCK * sizeof(float));
    for (size_t a = 0; a < 6; a++)
        memcpy(r.state[a], arrays[a], t->m * sizeof(float));
    for (size_t i = 0; i < t->m; i++)
        for (size_t c = 0; c < kernels_up(t->dv, nr); c++)
            o[i * ldo + c] = c < t->dv && i % 3 == 0 ? 0.5f * (float)(c % 7) : 0.0f;
    b->pv_tile(o, ldo, s, LD, panels_v, t->n, t->rows, t->m, t->dv, finite, arrays[2], arrays[3]);
    for (size_t i = 0; i < t->m; i++) {
        memcpy(r.out + i * t->dv, o + i * ldo, t->dv * sizeof(float));
        for (size_t c = kernels_up(t->dv, nr); c < ldo && i + 1 < t->m; c++)
            check_untouched(o + i * ldo + c, 1, "behind a row of out");
    }
    check_free_all();
    return r;
}

static void free_tile_result(tile_result *r)
{
    free(r->scores);
    free(r->weights);
    free(r->out);
}

/* Bits of what is visible; the state of all rows.  Rows that nobody in any tile sees keep their out. */
static void same_tile(const tile_case *t, const tile_result *got, const tile_result *want)
{
    for (size_t i = 0; i < t->m; i++) {
        size_t lo = (size_t)t->rows[i].lo,
               n = t->rows[i].hi > t->rows[i].lo ? (size_t)(t->rows[i].hi - t->rows[i].lo) : 0;
        check_same(got->scores + i * LD + lo, want->scores + i * LD + lo, n, "scores");
        check_same(got->weights + i * LD + lo, want->weights + i * LD + lo, n, "weights");
        check_same(got->out + i * t->dv, want->out + i * t->dv, t->dv, "out");
    }
    for (size_t a = 0; a < 4; a++)
        check_same(got->state[a], want->state[a], t->m, "state");
}

/* The formulas in double, with the error bounds of the chains: d, n and 16 + n / 16 additions, u = 2^-24 each. */
static void tile_oracle(const tile_case *t, const tile_result *r)
{
    for (size_t i = 0; i < t->m; i++) {
        double s[BLOCK], old = i % 3 ? -INFINITY : 0.25 * (double)i, max = -INFINITY, sum = 0.0, worst = 0.0;
        size_t lo = (size_t)t->rows[i].lo, hi = t->rows[i].hi > t->rows[i].lo ? (size_t)t->rows[i].hi : lo;
        for (size_t j = lo; j < hi; j++) {
            double size = 0.0;
            s[j] = 0.0;
            for (size_t p = 0; p < t->d; p++) {
                s[j] += (double)t->q[i * t->d + p] * (double)t->k[j * t->d + p];
                size += fabs((double)t->q[i * t->d + p] * (double)t->k[j * t->d + p]);
            }
            s[j] *= (double)t->scale;
            worst = fmax(worst, ((double)t->d + 1.0) * 0x1p-24 * size * fabs((double)t->scale));
            max = fmax(max, s[j]);
            if (fabs((double)r->scores[i * LD + j] - s[j]) > worst)
                CHECK(false, "score %zu %zu: %g, want %g", i, j, (double)r->scores[i * LD + j], s[j]);
        }
        double total = fmax(max, old), keep = old == -INFINITY ? 0.0 : exp(old - total),
               add = hi > lo ? exp(max - total) : 0.0;
        double factor = expm1(4.0 * worst) + 300.0 * 0x1p-24;
        for (size_t j = lo; j < hi; j++) {
            sum += exp(s[j] - max);
            if (fabs((double)r->weights[i * LD + j] - exp(s[j] - max)) > factor)
                CHECK(false, "weight %zu %zu", i, j);
        }
        double want = (i % 3 ? 0.0 : 1.5 * keep) + sum * add;
        CHECK(fabs((double)r->state[1][i] - want) <= (want + 1.0) * factor, "sum %zu: %g, want %g", i,
            (double)r->state[1][i], want);
        for (size_t c = 0; c < t->dv; c++) {
            double o = (i % 3 ? 0.0 : 0.5 * (double)(c % 7)) * keep, size = fabs(o);
            for (size_t j = lo; j < hi; j++) {
                o += exp(s[j] - max) * add * (double)t->v[j * t->dv + c];
                size += exp(s[j] - max) * add * fabs((double)t->v[j * t->dv + c]);
            }
            if (!(fabs((double)r->out[i * t->dv + c] - o) <= (size + 1e-30) * factor))
                CHECK(false, "out %zu %zu: %g, want %g", i, c, (double)r->out[i * t->dv + c], o);
        }
    }
}

static void score_tiles(void)
{
    check_rng rng = check_rng_named("score tiles");
    for (size_t index = 0; index < 640; index++) {
        tile_case t = make_tile(&rng, index);
        int exp = index % 2 && kernels_have_sleef() ? HEED_KERNEL_SLEEF : HEED_KERNEL_BUILTIN;
        for (int finite = 1; finite >= 0 && check_keep(index, 31); finite--) { /* 0: the careful path, the same bits */
            tile_result scalar = run_tile(usable[0], &t, exp, 1, 0);
            tile_oracle(&t, &scalar);
            for (size_t i = finite ? 1 : 0; usable[i]; i++) {
                check_case("%s case %zu m %zu n %zu d %zu dv %zu finite %d exp %d", heed_isa_name(usable[i]->isa),
                    index, t.m, t.n, t.d, t.dv, finite, exp);
                tile_result r = run_tile(usable[i], &t, exp, finite, index % 3 == 0);
                same_tile(&t, &r, &scalar);
                free_tile_result(&r);
            }
            free_tile_result(&scalar);
        }
        free(t.q);
        free(t.k);
        free(t.v);
    }
}

/* ---- Projections ---- */

/* Rows first .. end of a matrix in panels of the backend's width, one behind the other. */
static const float *gemm_panels(const float *w, size_t n, size_t first, size_t end, size_t nr)
{
    const size_t columns = kernels_up(n, nr), k = end - first;
    float *panels = check_alloc(columns * k * sizeof(float), CHECK_GUARD_BEHIND);
    for (size_t j = 0; j < columns; j++)
        for (size_t p = 0; p < k; p++)
            panels[j / nr * nr * k + p * nr + j % nr] = j < n ? w[(first + p) * n + j] : 0.0f;
    return panels;
}

/* A whole matrix of n columns, panel by panel or all at once, k in one piece or cut in two. */
static float *run_gemm(const heed_backend *b, const float *a, const float *w, const float *bias, size_t m, size_t n,
    size_t k, size_t cut, int together)
{
    const size_t nr = (size_t)b->nr, ldc = n + 3, columns = kernels_up(n, nr), step = together ? columns : nr;
    float *c = check_output((m - 1) * ldc + n, CHECK_GUARD_BEHIND), *result = check_floats(m * n);
    float *start = check_alloc(columns * sizeof(float), CHECK_GUARD_BEHIND);
    for (size_t j = 0; j < columns; j++)
        start[j] = j < n ? bias[j] : 0.0f;
    const float *left = check_input(a, m * k, CHECK_GUARD_BEHIND);
    const float *upper = gemm_panels(w, n, 0, cut, nr), *lower = cut < k ? gemm_panels(w, n, cut, k, nr) : NULL;
    for (size_t j = 0; j < n; j += step) {
        const size_t width = n - j < step ? n - j : step;
        b->gemm_tile(c + j, ldc, left, k, upper + j * cut, m, width, cut, start + j);
        if (lower)
            b->gemm_tile(c + j, ldc, left + cut, k, lower + j * (k - cut), m, width, k - cut, NULL);
    }
    for (size_t i = 0; i < m; i++)
        check_take(c + i * ldc, result + i * n, n);
    check_untouched(c, (m - 1) * ldc + n, "gaps of c");
    check_free_all();
    return result;
}

static void projections(void)
{
    check_rng rng = check_rng_named("projections");
    for (size_t index = 0; index < 600; index++) {
        size_t m = 1 + index % 29,
               n = 1 + (size_t)check_between(&rng, 0, m == 1 ? 450 : 80), /* many panels, and a part of one */
            k = 1 + (size_t)check_between(&rng, 0, index % 8 ? 70 : 270); /* of panels within 16 KiB, and longer */
        size_t cut = index % 2 ? 1 + check_next(&rng) % k : k;
        float *a = kernels_random(&rng, m * k), *w = kernels_random(&rng, k * n), *bias = kernels_random(&rng, n);
        float *scalar = NULL;
        for (size_t i = 0; usable[i] && check_keep(index, 23); i++) {
            check_case("%s m %zu n %zu k %zu cut %zu", heed_isa_name(usable[i]->isa), m, n, k, cut);
            float *c = run_gemm(usable[i], a, w, bias, m, n, k, i ? cut : k, i && index % 3);
            for (size_t at = 0; at < m * n && i == 0; at++) {
                double sum = (double)bias[at % n], size = fabs(sum);
                for (size_t p = 0; p < k; p++) {
                    sum += (double)a[at / n * k + p] * (double)w[p * n + at % n];
                    size += fabs((double)a[at / n * k + p] * (double)w[p * n + at % n]);
                }
                if (fabs((double)c[at] - sum) > (double)k * 0x1p-24 * size)
                    CHECK(false, "element %zu: %g, want %g", at, (double)c[at], sum);
            }
            if (i == 0)
                scalar = c;
            check_same(c, scalar, m * n, "against scalar in one piece");
            if (i)
                free(c);
        }
        float *const done[] = { scalar, a, w, bias };
        for (size_t i = 0; i < 4; i++)
            free(done[i]);
    }
}

int main(int argc, char **argv)
{
    const kernel_tables all = kernels_usable();
    usable = all.list;
    static const check_test tests[] = { { "tables", tables }, { "packing", packing }, { "score_tiles", score_tiles },
        { "projections", projections } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
