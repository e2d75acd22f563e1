/* Tiles of one block that continue a chain or take several panels at once, and the row kernels beside them: bits against loops
 * written here, on every backend.
 * May know: src/backend.h, kernels.h, check.h.
 * Must not know: plans, problems, how a kernel is written. */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = HEED_BLOCK_KV, LD = HEED_LD_SCORES, MOST_ROWS = 20 };

static const heed_backend *const *usable; /* scalar first */

/* Row ranges within n keys: all, causal, random ones, some of them empty. */
static void make_ranges(check_rng *rng, heed_range *rows, size_t m, size_t n, size_t kind)
{
    for (size_t i = 0; i < m; i++) {
        rows[i].lo = kind == 2 ? (int32_t)check_between(rng, 0, (int64_t)n - 1) : 0;
        rows[i].hi = kind == 0 ? (int32_t)n : (int32_t)check_between(rng, kind == 1, (int64_t)n);
    }
}

/* Panels of nr columns from a matrix of `width` columns and k rows, zero beyond: panels[c/nr][p][c%nr], ld rows a panel. */
static const float *make_panels(
    const float *x, size_t row, size_t column, size_t width, size_t k, size_t nr, size_t ld, float beyond)
{
    const size_t columns = kernels_up(width, nr), size = columns * ld;
    float *panels = check_floats(size);
    for (size_t c = 0; c < columns; c++)
        for (size_t p = 0; p < ld; p++)
            panels[c / nr * nr * ld + p * nr + c % nr] = c < width && p < k ? x[c * column + p * row]
                                                         : p < k            ? 0.0f
                                                                            : beyond;
    const float *input = check_input(panels, size, CHECK_GUARD_BEHIND);
    free(panels);
    return input;
}

/* ---- Scores ---- */

static void score_case(check_rng *rng, size_t m, size_t n, size_t d, size_t kind)
{
    heed_range rows[MOST_ROWS];
    make_ranges(rng, rows, m, n, kind);
    const size_t ldq = d + n % 3;
    const float scale = check_normal(rng);
    float *q = kernels_random(rng, m * ldq), *k = kernels_random(rng, n * d), *want = check_floats(m * n);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = 0.0f;
            for (size_t p = 0; p < d; p++)
                sum = fmaf(q[i * ldq + p], k[j * d + p], sum);
            want[i * n + j] = scale * sum;
        }
    uintptr_t nowhere[MOST_ROWS]; /* what is only asked for need not be readable */
    for (size_t i = 0; i < m; i++)
        nowhere[i] = i % 2 ? UINTPTR_MAX - 4096 * i : 4096 * i;
    const heed_ask ask = { nowhere, 1 + n % 2 };
    for (size_t i = 0; usable[i]; i++) {
        const size_t nr = (size_t)usable[i]->nr, width = kernels_up(n, nr);
        check_case("%s m %zu n %zu d %zu kind %zu", heed_isa_name(usable[i]->isa), m, n, d, kind);
        float *s = check_output((m - 1) * LD + width, CHECK_GUARD_BEHIND);
        usable[i]->qk_tile(s, LD, check_input(q, (m - 1) * ldq + d, CHECK_GUARD_BEHIND), ldq,
            make_panels(k, 1, d, n, d, nr, d, 0.0f), rows, m, d, scale, d % 2 ? &ask : NULL);
        for (size_t row = 0; row < m; row++) {
            if (rows[row].hi > rows[row].lo)
                check_same(s + row * LD + rows[row].lo, want + row * n + rows[row].lo,
                    (size_t)(rows[row].hi - rows[row].lo), "qk_tile");
            if (row + 1 < m)
                check_untouched(s + row * LD + width, LD - width, "qk_tile: behind a row");
        }
        check_free_all();
    }
    free(q);
    free(k);
    free(want);
}

static void scores(void)
{
    check_rng rng = check_rng_named("chains of scores");
    for (size_t m = 1; m <= MOST_ROWS; m += m < 3 ? 1 : 5)
        for (size_t n = 1; n <= BLOCK; n += 1 + n % (m < 3 ? 4 : 31))
            if (check_keep(n, 11))
                score_case(&rng, m, n, 1 + check_next(&rng) % 40, n % 3);
}

/* ---- Sums of values that continue ---- */

typedef struct chain_case {
    size_t m, n, d, ldp, more; /* more: keys of room between panels */
    int finite;
    heed_range rows[MOST_ROWS];
    float *p, *v, *start, *want;
} chain_case;

/* Weights outside a row's range are -0, and some within too: hidden keys.  Values that are not finite lie where no row or only
 * some of them may see them. */
static chain_case make_chain(check_rng *rng, size_t m, size_t n, size_t d, size_t kind)
{
    chain_case t = { .m = m, .n = n, .d = d, .ldp = n + 3, .more = n % 3 * 7, .finite = kind < 3 };
    make_ranges(rng, t.rows, m, n, kind % 3);
    t.p = kernels_random(rng, m * t.ldp);
    t.v = kernels_random(rng, n * d);
    t.start = kernels_random(rng, m * d);
    t.want = check_floats(m * d);
    static const float odd[] = { NAN, INFINITY, -INFINITY };
    for (size_t x = 0; x < n * d && !t.finite; x++)
        if (check_next(rng) % 16 == 0)
            t.v[x] = odd[check_next(rng) % 3];
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < t.ldp; j++) {
            const int seen = (int32_t)j >= t.rows[i].lo && (int32_t)j < t.rows[i].hi && check_next(rng) % 5;
            const int zero = check_next(rng) % 9 == 0; /* +0 is a weight like others */
            t.p[i * t.ldp + j] = !seen ? -0.0f : zero ? 0.0f : fabsf(t.p[i * t.ldp + j]);
        }
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < d; c++) {
            float sum = t.start[i * d + c];
            for (size_t j = 0; j < n; j++)
                if (!signbit(t.p[i * t.ldp + j]))
                    sum = fmaf(t.p[i * t.ldp + j], t.v[j * d + c], sum);
            t.want[i * d + c] = sum;
        }
    return t;
}

/* Rows that see nothing keep what is there, whether or not their tile is computed. */
static void run_chain(const heed_backend *b, const chain_case *t, int finite)
{
    const size_t nr = (size_t)b->nr, width = kernels_up(t->d, nr), ldo = width + nr;
    float *o = check_output((t->m - 1) * ldo + width, CHECK_GUARD_BEHIND);
    for (size_t i = 0; i < t->m; i++) {
        memset(o + i * ldo, 0, width * sizeof(float));
        memcpy(o + i * ldo, t->start + i * t->d, t->d * sizeof(float));
    }
    b->pv_tile(o, ldo, check_input(t->p, (t->m - 1) * t->ldp + t->n, CHECK_GUARD_BEHIND), t->ldp,
        make_panels(t->v, t->d, 1, t->d, t->n, nr, t->n + t->more, NAN), t->n + t->more, t->rows, t->m, t->d, finite,
        NULL, NULL);
    for (size_t i = 0; i < t->m; i++) {
        check_same(o + i * ldo, t->want + i * t->d, t->d, "pv_tile without keep");
        if (i + 1 < t->m)
            check_untouched(o + i * ldo + width, ldo - width, "pv_tile: behind a row");
    }
    check_free_all();
}

static void chains(void)
{
    check_rng rng = check_rng_named("chains of values");
    for (size_t m = 1; m <= MOST_ROWS; m += m < 3 ? 1 : 5)
        for (size_t d = 1; d <= 300; d += 1 + d % (m < 3 ? 5 : 17))
            for (size_t kind = 0; kind < 6; kind++) {
                if (!check_keep(d * 6 + kind, 29))
                    continue;
                chain_case t = make_chain(&rng, m, 1 + check_next(&rng) % HEED_STRIP_KV, d, kind);
                for (size_t i = 0; usable[i]; i++)
                    for (int finite = t.finite; finite >= 0; finite--) { /* the careful path gives the same */
                        check_case("%s m %zu n %zu d %zu kind %zu finite %d", heed_isa_name(usable[i]->isa), m, t.n, d,
                            kind, finite);
                        run_chain(usable[i], &t, finite);
                    }
                float *const done[] = { t.p, t.v, t.start, t.want };
                for (size_t i = 0; i < 4; i++)
                    free(done[i]);
            }
}

/* ---- Rows ---- */

/* o * keep + add * x with one rounding of the product and one of the rest, over a multiple of nr. */
static void blending(void)
{
    check_rng rng = check_rng_named("blending");
    for (size_t panels = 1; panels <= 20; panels++)
        for (size_t i = 0; usable[i]; i++) {
            const size_t n = panels * (size_t)usable[i]->nr;
            const float keep = panels % 4 ? fabsf(check_normal(&rng)) : 0.0f, add = fabsf(check_normal(&rng));
            float *x = kernels_random(&rng, n), *start = kernels_random(&rng, n), *want = check_floats(n);
            if (panels % 5 == 0)
                x[n / 2] = NAN;
            for (size_t c = 0; c < n; c++)
                want[c] = fmaf(x[c], add, start[c] * keep);
            check_case("%s n %zu keep %g", heed_isa_name(usable[i]->isa), n, (double)keep);
            float *o = check_output(n, CHECK_GUARD_BEHIND);
            memcpy(o, start, n * sizeof(float));
            usable[i]->blend_row(o, check_input(x, n, CHECK_GUARD_BEHIND), keep, add, n);
            check_same(o, want, n, "blend_row");
            check_free_all();
            free(x);
            free(start);
            free(want);
        }
}

static void scaling(void)
{
    check_rng rng = check_rng_named("scaling");
    for (size_t n = 1; n <= 100; n++) {
        float *p = kernels_random(&rng, n), *factor = kernels_random(&rng, n), *want = check_floats(n);
        p[n / 2] = n % 3 ? -0.0f : p[n / 2]; /* a hidden key's weight, whose sign must stay with a factor >= 0 */
        factor[n / 2] = n % 7 ? fabsf(factor[n / 2]) : NAN;
        for (size_t j = 0; j < n; j++)
            want[j] = p[j] * factor[j];
        for (size_t i = 0; usable[i]; i++) {
            check_case("%s n %zu", heed_isa_name(usable[i]->isa), n);
            float *got = check_output(n, CHECK_GUARD_BEHIND);
            memcpy(got, p, n * sizeof(float));
            usable[i]->scale_row(got, check_input(factor, n, CHECK_GUARD_BEHIND), n);
            check_same(got, want, n, "scale_row");
            for (size_t j = 0; j < n; j++)
                if (!isnan(want[j]) && signbit(want[j]) != signbit(got[j]))
                    CHECK(false, "scale_row: element %zu lost its sign", j);
            check_free_all();
        }
        free(p);
        free(factor);
        free(want);
    }
}

/* The factor of each key comes first: what follows sees scores as if its key had been f32. */
static void scaled_scores(void)
{
    check_rng rng = check_rng_named("scaled scores");
    for (size_t n = 1; n <= 120; n++)
        for (int bias = 0; bias < 2; bias++) {
            const size_t lo = n % 3 ? (size_t)check_between(&rng, 0, 80) : 0, hi = lo + n;
            const size_t readable = hi + HEED_LANES - 1; /* a vector from the last column on */
            float *x = kernels_random(&rng, LD), *scales = kernels_random(&rng, readable), *want = check_floats(LD);
            float *add = kernels_random(&rng, hi);
            for (size_t j = lo; j < hi; j++) {
                const float scaled = x[j] * scales[j];
                want[j] = bias ? scaled + add[j] : scaled;
            }
            for (size_t i = 0; usable[i]; i++) {
                check_case("%s columns %zu .. %zu bias %d", heed_isa_name(usable[i]->isa), lo, hi, bias);
                heed_score op = { .key_scale = check_input(scales, readable, CHECK_GUARD_BEHIND) };
                op.bias = bias ? check_input(add, hi, CHECK_GUARD_BEHIND) : NULL;
                float *s = check_output(LD, CHECK_GUARD_BEHIND);
                memcpy(s, x, LD * sizeof(float));
                usable[i]->score_row(s, lo, hi, &op);
                check_same(s + lo, want + lo, hi - lo, "score_row with key_scale");
                check_same(s, x, lo / HEED_LANES * HEED_LANES, "score_row: before the first group");
                check_free_all();
            }
            float *const done[] = { x, scales, want, add };
            for (size_t i = 0; i < 4; i++)
                free(done[i]);
        }
}

int main(int argc, char **argv)
{
    const kernel_tables all = kernels_usable();
    usable = all.list;
    static const check_test tests[] = { { "scores", scores }, { "chains", chains }, { "blending", blending },
        { "scaling", scaling }, { "scaled_scores", scaled_scores } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
