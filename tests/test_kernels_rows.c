/* The row kernels of every backend: bits against scalar, a plain f64 formula, all tails, guard pages.
 * May know: src/backend.h, kernels.h, check.h.
 * Must not know: plans, problems, how a kernel is written. */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const heed_backend *const *usable; /* scalar first */

static const float *padded_row(const float *x, size_t n, size_t multiple)
{
    float *padded = check_floats(kernels_up(n, multiple));
    memcpy(padded, x, n * sizeof *x);
    const float *input = check_input(padded, kernels_up(n, multiple), CHECK_GUARD_BEHIND);
    free(padded);
    return input;
}

static void rows(void)
{
    check_rng rng = check_rng_named("rows");
    static const float sums[] = { 1.0f, 3.0f, 0.0f, 1e-3f };
    for (size_t n = 1; n <= 100; n++)
        for (size_t which = 0; which < 4; which++) {
            if (!check_keep(n, 9))
                continue;
            float *x = kernels_random(&rng, n), *want = check_floats(n), max = n % 7 ? 2.5f : -INFINITY;
            for (size_t j = 0; j < n && which == 2; j++)
                x[j] = j % 2 ? -0.0f : 0.0f;
            int sleef = n % 2 && kernels_have_sleef();
            for (int kind = 0; kind < 3; kind++) /* finish_row, weights_row, softmax_row */
                for (size_t i = 0; usable[i]; i++) {
                    check_case("%s n %zu sum %g kind %d", heed_isa_name(usable[i]->isa), n, (double)sums[which], kind);
                    float *y = check_output(n, CHECK_GUARD_BEHIND);
                    const float *in = check_input(x, n, CHECK_GUARD_BEHIND);
                    if (kind == 0) /* rows of pv_tile's out, which are padded to nr */
                        usable[i]->finish_row(y, padded_row(x, n, (size_t)usable[i]->nr), 1.0f, sums[which], n);
                    else if (kind == 2)
                        usable[i]->softmax_row[sleef](y, in, n);
                    else
                        usable[i]->weights_row[sleef](memcpy(y, x, n * sizeof *y), n, max, sums[which]);
                    for (size_t j = 0; j < n; j++) {
                        double s = (double)(sums[which] == 0.0f ? 1.0f : sums[which]),
                               m = isfinite(max) ? (double)max : 0.0;
                        double value = kind ? exp((double)x[j] - m) / s : (double)x[j] / s;
                        if (kind < 2 && fabs((double)y[j] - value) > 16.0 * 0x1p-24 * fabs(value))
                            CHECK(false, "element %zu: %g, want %g", j, (double)y[j], value);
                        if (kind == 0 && check_bits(y[j]) == 0x80000000u)
                            CHECK(false, "element %zu is -0", j);
                    }
                    if (i == 0)
                        memcpy(want, y, n * sizeof *y);
                    check_same(y, want, n, "against scalar");
                    check_free_all();
                }
            free(x);
            free(want);
        }
}

/* ---- Storage types ---- */

/* Patterns of all kinds become f32 and, whether those are exact or not, 16 bits again. */
static void conversions_of(check_rng *rng, heed_type type, size_t n)
{
    const int exponent = type == HEED_TYPE_F16 ? 5 : 8;
    uint16_t *patterns = malloc(n * sizeof *patterns), *want = malloc(n * sizeof *want);
    float *x = kernels_random(rng, n);
    for (size_t j = 0; j < n; j++)
        patterns[j] = (uint16_t)check_next(rng);
    for (size_t i = 0; usable[i]; i++) {
        check_case("%s %s n %zu", heed_isa_name(usable[i]->isa), kernels_type_name(type), n);
        uint16_t *from = check_alloc(n * sizeof *from, CHECK_GUARD_BEHIND);
        uint16_t *to = check_alloc(n * sizeof *to, i % 2 ? CHECK_GUARD_BEFORE : CHECK_GUARD_BEHIND);
        float *wide = check_output(n, CHECK_GUARD_BEHIND);
        memcpy(from, patterns, n * sizeof *from);
        usable[i]->widen_row(type, wide, from, n);
        usable[i]->narrow_row(type, to, wide, n);
        for (size_t j = 0; j < n; j++) {
            const double value = check_narrow(patterns[j], exponent, 15 - exponent);
            CHECK(isnan(value) ? isnan(wide[j]) : (double)wide[j] == value, "element %zu: %04x becomes %g, want %g", j,
                (unsigned)patterns[j], (double)wide[j], value);
            CHECK(isnan(value) || to[j] == patterns[j], "element %zu: %04x there and back is %04x", j,
                (unsigned)patterns[j], (unsigned)to[j]);
        }
        usable[i]->narrow_row(type, to, check_input(x, n, CHECK_GUARD_BEHIND), n);
        if (i == 0)
            memcpy(want, to, n * sizeof *want);
        CHECK(memcmp(to, want, n * sizeof *want) == 0, "rounded otherwise than by scalar");
        check_free_all();
    }
    free(patterns);
    free(want);
    free(x);
}

static void conversions(void)
{
    check_rng rng = check_rng_named("conversions");
    for (int type = HEED_TYPE_F16; type <= HEED_TYPE_BF16; type++)
        for (size_t n = 1; n <= 100; n++)
            conversions_of(&rng, (heed_type)type, n);
}

/* ---- Scores between product and softmax ---- */

typedef struct score_case {
    size_t lo, hi;
    heed_score op;
    float scores[HEED_LD_SCORES], bias[HEED_BLOCK_KV], count[HEED_LD_SCORES];
    uint8_t visible[HEED_BLOCK_KV];
} score_case;

/* Bit b of which turns on softcap, ALiBi, bias, mask. */
static score_case make_scores(check_rng *rng, size_t which, size_t lo, size_t hi)
{
    score_case c = { .lo = lo, .hi = hi };
    check_fill(rng, c.scores, 1, HEED_LD_SCORES, CHECK_NORMAL);
    check_fill(rng, c.bias, 1, HEED_BLOCK_KV, CHECK_NORMAL);
    for (size_t j = 0; j < HEED_LD_SCORES; j++) {
        c.scores[j] *= j % 5 == 0 ? 40.0f : 2.0f; /* tanh near its ends too */
        c.count[j] = (float)j;
    }
    for (size_t j = 0; j < HEED_BLOCK_KV; j++) {
        c.bias[j] = check_next(rng) % 6 ? c.bias[j] : -INFINITY;
        c.visible[j] = check_next(rng) % 4 ? (uint8_t)(1 + check_next(rng) % 255) : 0;
    }
    c.op.softcap = which & 1 ? 5.0f : 0.0f;
    c.op.inverse_softcap = which & 1 ? 1.0f / 5.0f : 0.0f;
    c.op.slope = which & 2 ? 0.25f : 0.0f;
    c.op.distance = which & 2 ? -31.0f : 0.0f;
    return c;
}

/* What the softmax behind it relies on: the maximum of what is visible, and columns around it in its groups of lanes at -inf. */
static void check_ends(const heed_backend *b, const float *s, const float *scores, size_t lo, size_t hi, float max)
{
    const size_t first = lo / HEED_LANES * HEED_LANES;
    float want = -INFINITY;
    for (size_t j = lo; j < hi; j++)
        want = s[j] > want ? s[j] : want; /* drops NaN */
    CHECK(max == want, "%s columns %zu .. %zu: maximum %g, want %g", heed_isa_name(b->isa), lo, hi, (double)max,
        (double)want);
    for (size_t j = first; j < kernels_up(hi, HEED_LANES); j++)
        if ((j < lo || j >= hi) && s[j] != -INFINITY)
            CHECK(false, "%s columns %zu .. %zu: column %zu is %g", heed_isa_name(b->isa), lo, hi, j, (double)s[j]);
    check_same(s, scores, first, "columns before the first group");
}

/* Pointers indexed by column of which only [lo, hi) may be touched: everything outside is a guard page or NaN. */
static void run_scores(const heed_backend *b, const score_case *c, size_t which, float *s)
{
    heed_score op = c->op;
    op.count = c->count;
    op.bias = which & 4 ? check_input(c->bias, c->hi, CHECK_GUARD_BEHIND) : NULL;
    uint8_t *visible = check_alloc(c->hi, CHECK_GUARD_BEHIND);
    memcpy(visible, c->visible, c->hi);
    op.visible = which & 8 ? visible : NULL;
    memcpy(s, c->scores, sizeof c->scores);
    const float max = b->score_row(s, c->lo, c->hi, &op);
    check_ends(b, s, c->scores, c->lo, c->hi, max);
    check_free_all();
}

static double expected_score(const score_case *c, size_t which, size_t j)
{
    double s = (double)c->scores[j];
    if (which & 1)
        s = 5.0 * tanh(s / 5.0);
    if (which & 2)
        s += 0.25 * ((double)j - 31.0);
    if (which & 4)
        s += (double)c->bias[j];
    return which & 8 && !c->visible[j] ? -INFINITY : s;
}

/* Errors: tanh a few units of its last place, then one rounding a step. */
static void scores(void)
{
    check_rng rng = check_rng_named("scores");
    for (size_t which = 0; which < 16; which++)
        for (size_t n = 0; n < 120; n++) {
            if (!check_keep(n, 11))
                continue;
            size_t lo = n % 3 ? (size_t)check_between(&rng, 0, 80) : 0, hi = lo + 1 + n;
            score_case c = make_scores(&rng, which, lo, hi);
            float first[HEED_LD_SCORES], s[HEED_LD_SCORES];
            for (size_t i = 0; usable[i]; i++) {
                check_case("%s which %zu columns %zu .. %zu", heed_isa_name(usable[i]->isa), which, lo, hi);
                run_scores(usable[i], &c, which, i ? s : first);
                if (i)
                    check_same(s + lo, first + lo, hi - lo, "against scalar");
            }
            for (size_t j = lo; j < hi; j++) {
                double want = expected_score(&c, which, j), got = (double)first[j];
                double size = fabs((double)c.scores[j]) + 5.0 + 0.25 * 256.0 + 5.0;
                if (isfinite(want) ? !(fabs(got - want) <= 8.0 * 0x1p-24 * size) : got != want)
                    CHECK(false, "which %zu column %zu: %.9g, want %.9g", which, j, got, want);
            }
        }
}

/* A hidden score is -inf whatever it was; NaN and +inf in a visible one survive every step. */
static void special_scores(void)
{
    for (size_t i = 0; usable[i]; i++)
        for (size_t which = 0; which < 16; which++)
            for (int hidden = 0; hidden < 2; hidden++) {
                check_rng rng = check_rng_named("special scores");
                score_case c = make_scores(&rng, which, 0, 40);
                for (size_t j = 0; j < 40; j++) {
                    c.scores[j] = j % 2 ? NAN : INFINITY;
                    c.bias[j] = hidden ? -INFINITY : 1.0f;
                    c.visible[j] = !hidden;
                }
                float s[HEED_LD_SCORES];
                run_scores(usable[i], &c, which, s);
                for (size_t j = 0; j < 40; j++) {
                    double want = hidden && (which & 12) ? -INFINITY : expected_score(&c, which, j), got = (double)s[j];
                    bool right = isnan(want) ? isnan(got) : got == want || fabs(got - want) < 1e-5;
                    if (!right)
                        CHECK(false, "%s which %zu hidden %d column %zu: %g, want %g", heed_isa_name(usable[i]->isa),
                            which, hidden, j, got, want);
                }
                CHECK(true, "special scores");
            }
}

/* ---- Merging ---- */

/* Two parts of which none, one or both saw something. */
static void merging(void)
{
    check_rng rng = check_rng_named("merging");
    for (size_t m = 1; m <= 50; m++)
        for (int kind = 0; kind <= kernels_have_sleef(); kind++) {
            size_t padded = kernels_up(m, HEED_LANES);
            float *start[6], first[6][64];
            for (size_t a = 0; a < 6; a++)
                start[a] = kernels_random(&rng, padded);
            for (size_t r = 0; r < padded; r++)
                for (size_t part = 0; part < 2; part++) { /* max and sum, block_max and block_sum */
                    bool empty = (r + part) % 3 == 0;
                    start[4 * part][r] = empty ? -INFINITY : 20.0f * start[4 * part][r];
                    start[4 * part + 1][r] = empty ? 0.0f : 1.0f + fabsf(start[4 * part + 1][r]);
                }
            for (size_t i = 0; usable[i]; i++) {
                float *state[6];
                for (size_t a = 0; a < 6; a++)
                    state[a] = memcpy(
                        check_alloc(padded * sizeof(float), CHECK_GUARD_BEHIND), start[a], padded * sizeof(float));
                heed_rows rows_state = { state[0], state[1], state[2], state[3], state[4], state[5] };
                usable[i]->merge_rows[kind](&rows_state, m);
                for (size_t a = 0; a < 4; a++) {
                    if (i == 0)
                        memcpy(first[a], state[a], m * sizeof(float));
                    check_same(state[a], first[a], m, "against scalar");
                }
                for (size_t r = 0; r < m; r++) {
                    double max = fmax((double)start[0][r], (double)start[4][r]), shift = isfinite(max) ? max : 0.0;
                    double keep = exp((double)start[0][r] - shift), add = exp((double)start[4][r] - shift);
                    double sum = (double)start[1][r] * keep + (double)start[5][r] * add;
                    bool right = (double)state[0][r] == max &&
                                 fabs((double)state[1][r] - sum) <= 64.0 * 0x1p-24 * sum &&
                                 fabs((double)state[2][r] - keep) <= 64.0 * 0x1p-24 &&
                                 fabs((double)state[3][r] - add) <= 64.0 * 0x1p-24;
                    if (!right)
                        CHECK(
                            false, "row %zu: max %g sum %g, want %g", r, (double)state[0][r], (double)state[1][r], sum);
                }
                check_free_all();
            }
            for (size_t a = 0; a < 6; a++)
                free(start[a]);
        }
}

int main(int argc, char **argv)
{
    const kernel_tables all = kernels_usable();
    usable = all.list;
    static const check_test tests[] = { { "rows", rows }, { "conversions", conversions }, { "scores", scores },
        { "special_scores", special_scores }, { "merging", merging } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
