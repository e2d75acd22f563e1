/* Every step between product and weights, alone and together, against the oracle; every backend against scalar's bits.
 * May know: the public header, masked.h, check.h, mask_oracle.h.
 * Must not know: anything under src/. */
#include "masked.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double worst; /* difference from the oracle, in units of the bound */
static size_t threaded;

/* Scalar against the oracle, then every backend with 1 and 3 threads in storage at random against scalar's bits. */
static void verify_exp(const masked *m, check_rng *rng, heed_exp exp)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    masked_run plain = masked_plain(HEED_ISA_SCALAR);
    plain.exp = exp;
    masked_result scalar = masked_execute(m, &plain);
    masked_check_oracle(m, &scalar, &worst);
    for (size_t i = 0; i < 2 * count; i++) {
        if (list[i / 2] == HEED_ISA_SCALAR && i % 2 == 0)
            continue; /* what was just run */
        const masked_run run = masked_random_run(rng, m, list[i / 2], exp, i % 2 ? 3 : 1);
        threaded += masked_workers(m, &run) > 1;
        masked_result r = masked_execute(m, &run);
        masked_same(m, &r, &scalar);
        masked_free_result(&r);
    }
    masked_free_result(&scalar);
}

static void verify(const masked *m, check_rng *rng)
{
    verify_exp(m, rng, HEED_EXP_BUILTIN);
    if (heed_sleef_usable(HEED_ISA_SCALAR))
        verify_exp(m, rng, HEED_EXP_SLEEF);
}

/* ---- One step at a time, at every edge of vectors, register tiles, tasks and blocks of keys ---- */

static void step_none(masked *m, check_rng *rng)
{
    (void)m;
    (void)rng;
}

static void step_scale(masked *m, check_rng *rng)
{
    m->shape.scale = check_normal(rng);
}

static void step_causal_offset(masked *m, check_rng *rng)
{
    m->shape.causal = HEED_CAUSAL_OFFSET;
    m->shape.causal_offset = check_between(rng, -3, m->shape.seq_len_kv);
}

static void step_top_left(masked *m, check_rng *rng)
{
    (void)rng;
    m->shape.causal = HEED_CAUSAL_TOP_LEFT;
}

static void step_window_left(masked *m, check_rng *rng)
{
    m->shape.window_left = check_between(rng, 0, 20);
}

static void step_window(masked *m, check_rng *rng)
{
    m->shape.window_left = check_between(rng, 0, 20);
    m->shape.window_right = check_between(rng, 0, 20);
}

static void step_softcap(masked *m, check_rng *rng)
{
    m->shape.softcap = (float)check_uniform(rng) * 4.0f;
    m->shape.scale = 2.0f;
}

static void step_slopes(masked *m, check_rng *rng)
{
    masked_add_slopes(m, rng);
}

static void step_bias(masked *m, check_rng *rng)
{
    masked_add_bias(m, rng, 0);
}

static void step_mask(masked *m, check_rng *rng)
{
    masked_add_mask(m, rng, 0);
}

static void step_blocks(masked *m, check_rng *rng)
{
    masked_add_blocks(m, rng, check_between(rng, 1, 9), check_between(rng, 1, 40));
}

static void step_sinks(masked *m, check_rng *rng)
{
    masked_add_sinks(m, rng);
}

static void step_lengths(masked *m, check_rng *rng)
{
    masked_add_lengths(m, rng, true, true);
}

static void single_steps(void)
{
    static void (*const steps[])(masked * m, check_rng * rng) = { step_none, step_scale, step_causal_offset,
        step_top_left, step_window_left, step_window, step_softcap, step_slopes, step_bias, step_mask, step_blocks,
        step_sinks, step_lengths };
    static const int64_t keys[] = { 1, 7, 8, 9, 16, 17, 31, 256, 257, 300 }, queries[] = { 1, 3, 8, 50 };
    check_rng rng = check_rng_named("single steps");
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++)
        for (size_t n = 0; n < 10; n++) {
            const size_t which = (s + n) % 4;
            const int64_t lq = keys[n] > 200 && which == 3 ? 13 : queries[which];
            masked m = masked_make(&rng, 1 + (int64_t)(n % 2), 2, 1, lq, keys[n], 5 + (int64_t)n, 3 + (int64_t)s);
            m.weights = n % 3 == 0;
            steps[s](&m, &rng);
            if (check_keep(s * 10 + n, 7))
                verify(&m, &rng);
            masked_free(&m);
        }
}

/* ---- Everything together ---- */

static void random_small(void)
{
    check_rng rng = check_rng_named("random masks");
    const int count = check_quick() ? 12 : 600;
    for (int n = 0; n < count; n++) {
        masked m = masked_random(&rng, false);
        verify(&m, &rng);
        masked_free(&m);
    }
    check_note("greatest difference from the oracle: %.3f of the bound", worst);
}

/* Several tasks, blocks of keys and threads. */
static void random_large(void)
{
    check_rng rng = check_rng_named("large random masks");
    const int count = check_quick() ? 1 : 16;
    threaded = 0;
    for (int n = 0; n < count; n++) {
        masked m = masked_random(&rng, true);
        verify_exp(&m, &rng, n % 2 && heed_sleef_usable(HEED_ISA_SCALAR) ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN);
        masked_free(&m);
    }
    CHECK(threaded > 0, "no run used more than one thread");
    check_note("greatest difference from the oracle: %.3f of the bound; %zu runs on several threads", worst, threaded);
}

/* Scores of hundreds: the bound grows with them, and weights fall below the smallest number. */
static void large_scores(void)
{
    check_rng rng = check_rng_named("large scores");
    for (int n = 0; n < 12; n++) {
        masked m = masked_random(&rng, false);
        const float factor = n % 2 ? 16.0f : 300.0f;
        for (int64_t i = 0; i < masked_rows(&m) * m.shape.head_dim; i++)
            m.q[i] *= factor;
        for (size_t i = 0; m.bias && i < m.bias_count && n % 3; i++)
            m.bias[i] *= 100.0f;
        if (check_keep((size_t)n, 6))
            verify(&m, &rng);
        masked_free(&m);
    }
    check_note("greatest difference from the oracle: %.3f of the bound", worst);
}

/* Caps so small that their reciprocal overflows, or so large that it is subnormal; some scores are exactly 0. */
static void extreme_caps(void)
{
    static const float caps[] = { 0x1p-149f, 1e-39f, FLT_MIN, 1e-30f, 1e30f, 1e38f, FLT_MAX };
    check_rng rng = check_rng_named("extreme caps");
    for (size_t n = 0; n < 14; n++) {
        masked m = masked_random(&rng, false);
        m.shape.softcap = caps[n % 7];
        for (int64_t row = 0; row < masked_rows(&m); row += 3)
            memset(m.q + row * m.shape.head_dim, 0, (size_t)m.shape.head_dim * sizeof *m.q);
        if (check_keep(n, 3))
            verify(&m, &rng);
        masked_free(&m);
    }
}

/* No keys at all, with everything that could refer to them: every row is 0, its LSE -inf or the sink. */
static void no_keys(void)
{
    check_rng rng = check_rng_named("no keys");
    for (int n = 0; n < 16; n++) {
        masked m = masked_make(&rng, 2, 4, 2, n < 8 ? 3 : 60, 0, 5, 4);
        masked_full_bias(&m);
        masked_full_mask(&m);
        masked_add_blocks(&m, &rng, 2, 7);
        masked_add_slopes(&m, &rng);
        if (n & 1)
            masked_add_sinks(&m, &rng);
        masked_add_lengths(&m, &rng, (n & 2) != 0, (n & 2) != 0);
        m.shape.causal = (heed_causal)(n / 2 % 4);
        m.shape.window_left = 3;
        m.weights = true;
        verify(&m, &rng);
        masked_free(&m);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "single_steps", single_steps }, { "random_small", random_small },
        { "random_large", random_large }, { "large_scores", large_scores }, { "extreme_caps", extreme_caps },
        { "no_keys", no_keys } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
