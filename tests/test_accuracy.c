/* Accuracy against f64: the library errs no more than a plain three-pass softmax attention in f32 on the same inputs.
 * May know: the public header, attend.h, check.h, oracle.h.
 * Must not know: anything under src/. */
#include "attend.h"

#include <math.h>
#include <stdlib.h>

typedef struct total {
    double square, count, max_abs, relative;
    double better; /* rows in which this one errs less than the other */
} total;

static void add(total *t, const check_error *e)
{
    t->square += e->square;
    t->count += (double)e->count;
    t->max_abs = fmax(t->max_abs, e->max_abs);
    t->relative = fmax(t->relative, e->relative);
}

/* Adds the errors of both for one case. */
static void measure(const attend_case *c, const attend_data *data, const attend_run *run, total *ours, total *plain)
{
    attend_result result = attend_execute(c, data, run);
    oracle_attention p = attend_oracle(c, data);
    size_t count = attend_size_out(c), width = (size_t)p.head_dim_v;
    double *want = check_malloc(count * sizeof *want);
    float *three = check_floats(count);
    if (!oracle_attend(&p, want, NULL, NULL) || !oracle_three_pass(&p, three))
        check_fatal("no memory for the oracle");
    for (size_t at = 0; at < count; at += width) {
        check_error e = check_errors(result.out + at, want + at, width),
                    other = check_errors(three + at, want + at, width);
        CHECK(!e.mismatch && !other.mismatch, "NaN or Inf on one side only");
        add(ours, &e);
        add(plain, &other);
        ours->better += e.square < other.square;
        plain->better += other.square < e.square;
    }
    attend_free_result(&result);
    free(want);
    free(three);
}

/* Two comparisons.  In the count of rows that err less, three passes may not lead by more than chance allows: three
 * standard deviations of fair coins.  And the root mean square may not be larger, unless the rounding of large scores
 * makes nearly all of the error: that is the same for both, and a few rows with nearly equal scores decide. */
static void verdict(const char *name, const char *exp, const total *ours, const total *plain, bool by_scores)
{
    double rms = sqrt(ours->square / ours->count), other = sqrt(plain->square / plain->count);
    check_note(
        "%-12s exp %-8s rms %.3g, max %.3g, relative %.3g, better in %.0f rows | three passes %.3g, %.3g, %.3g, %.0f",
        name, exp, rms, ours->max_abs, ours->relative, ours->better, other, plain->max_abs, plain->relative,
        plain->better);
    CHECK(plain->better - ours->better <= 3.0 * sqrt(ours->better + plain->better),
        "%s: three passes err less in %.0f rows, more in %.0f", name, plain->better, ours->better);
    if (!by_scores)
        CHECK(rms <= other, "%s: root mean square error %.4g, three passes %.4g", name, rms, other);
}

typedef struct size {
    int64_t heads, kv_heads, queries, keys, dim;
} size;

static void compare(const char *name, const size *sizes, size_t count, check_values kind, heed_causal causal)
{
    check_rng rng = check_rng_named(name);
    total ours[2] = { { 0 } }, plain[2] = { { 0 } };
    bool sleef = heed_sleef_usable(heed_isa_default());
    for (size_t s = 0; s < count; s++) {
        if (!check_keep(s, 2))
            continue;
        attend_case c =
            attend_make(1, sizes[s].heads, sizes[s].kv_heads, sizes[s].queries, sizes[s].keys, sizes[s].dim, 0);
        c.shape.causal = causal;
        attend_data data = attend_fill(&c, &rng, kind);
        for (int e = 0; e <= sleef; e++) {
            attend_run run = attend_plain(HEED_ISA_AUTO);
            run.options.exp = e ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN;
            measure(&c, &data, &run, &ours[e], &plain[e]);
        }
        attend_free_data(&data);
    }
    bool by_scores = kind == CHECK_LARGE || kind == CHECK_HEAVY || kind == CHECK_CONSTANT;
    verdict(name, "built-in", &ours[0], &plain[0], by_scores);
    if (sleef)
        verdict(name, "SLEEF", &ours[1], &plain[1], by_scores);
}

static const size ordinary[] = { { 2, 1, 64, 64, 64 }, { 2, 2, 16, 129, 33 }, { 2, 1, 48, 512, 64 },
    { 1, 1, 64, 257, 128 }, { 1, 1, 32, 2048, 64 }, { 2, 2, 5, 1000, 80 } };
/* More rows: only those with nearly equal largest scores show an error. */
static const size many_rows[] = { { 2, 1, 1500, 64, 64 }, { 1, 1, 1500, 257, 32 }, { 2, 2, 400, 129, 80 } };
enum { ORDINARY = sizeof ordinary / sizeof ordinary[0], MANY_ROWS = sizeof many_rows / sizeof many_rows[0] };

static void normal(void)
{
    compare("normal", ordinary, ORDINARY, CHECK_NORMAL, HEED_CAUSAL_NONE);
}

static void causal(void)
{
    compare("causal", ordinary, ORDINARY, CHECK_NORMAL, HEED_CAUSAL_BOTTOM_RIGHT);
}

static void large(void)
{
    compare("large", many_rows, MANY_ROWS, CHECK_LARGE, HEED_CAUSAL_NONE);
}

static void heavy(void)
{
    compare("heavy-tailed", many_rows, MANY_ROWS, CHECK_HEAVY, HEED_CAUSAL_NONE);
}

static void one_hot(void)
{
    compare("one-hot", ordinary, ORDINARY, CHECK_ONE_HOT, HEED_CAUSAL_NONE);
}

static void constant(void)
{
    compare("constant", many_rows, MANY_ROWS, CHECK_CONSTANT, HEED_CAUSAL_NONE);
}

static void denormal(void)
{
    compare("denormal", ordinary, ORDINARY, CHECK_DENORMAL, HEED_CAUSAL_NONE);
}

static void long_rows(void)
{
    static const size sizes[] = { { 1, 1, 4, 100000, 16 }, { 2, 1, 1, 65537, 8 } };
    compare("long rows", sizes, 2, CHECK_NORMAL, HEED_CAUSAL_NONE);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "normal", normal }, { "causal", causal }, { "large", large },
        { "heavy", heavy }, { "one_hot", one_hot }, { "constant", constant }, { "denormal", denormal },
        { "long_rows", long_rows } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
