/* heed_softmax on every backend: bits against the scalar one, accuracy against the oracle, strides, lengths, special values.
 * May know: the public header, softmax_case.h.
 * Must not know: anything under src/. */
#include "softmax_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void tails(void)
{
    check_rng rng = check_rng_named("softmax tails");
    for (int64_t cols = 1; cols <= 300; cols++) {
        if (!check_keep((size_t)cols, 17))
            continue;
        softmax_case c = { 3, cols, cols + cols % 3, cols + cols % 4, false, NULL };
        float *x = check_floats(softmax_span(3, c.stride_x, cols));
        memset(x, 0xff, softmax_span(3, c.stride_x, cols) * sizeof *x);
        for (int64_t r = 0; r < 3; r++)
            check_fill(&rng, x + r * c.stride_x, 1, (size_t)cols, (check_values)((cols + r) % CHECK_VALUES_COUNT));
        softmax_verify_all(&c, x, cols % 2 ? CHECK_GUARD_BEHIND : CHECK_GUARD_BEFORE);
        c.in_place = true;
        softmax_verify_all(&c, x, CHECK_GUARD_BEHIND);
        free(x);
    }
}

/* Lengths 0 .. cols; what lies beyond a length may be anything and becomes 0. */
static void lengths(void)
{
    check_rng rng = check_rng_named("softmax lengths");
    for (size_t n = 0; n < 60; n++) {
        int64_t cols = check_between(&rng, 1, 90), rows = check_between(&rng, 1, 9);
        int32_t list[9];
        float *x = check_floats((size_t)(rows * cols));
        check_fill(&rng, x, (size_t)rows, (size_t)cols, CHECK_NORMAL);
        for (int64_t r = 0; r < rows; r++) {
            list[r] = (int32_t)(r == 1 ? 0 : r == 2 ? cols : check_between(&rng, 0, cols));
            for (int64_t j = list[r]; j < cols; j++)
                x[r * cols + j] = j % 2 ? NAN : INFINITY;
        }
        softmax_case c = { rows, cols, cols, cols + 2, n % 3 == 0, list };
        if (check_keep(n, 6))
            softmax_verify_all(&c, x, CHECK_GUARD_BEHIND);
        free(x);
    }
}

static void long_rows(void)
{
    check_rng rng = check_rng_named("softmax long rows");
    for (int kind = 0; kind < CHECK_VALUES_COUNT; kind++) {
        if (!check_keep((size_t)kind, 3))
            continue;
        softmax_case c = { 2, 100003, 100003, 100003, false, NULL };
        float *x = check_floats(2 * 100003);
        check_fill(&rng, x, 2, 100003, (check_values)kind);
        softmax_verify_all(&c, x, CHECK_GUARD_BEHIND);
        free(x);
    }
}

/* Stride 0 on the input: one row for all; many rows on several threads give the bits of one. */
static void broadcast(void)
{
    check_rng rng = check_rng_named("softmax broadcast");
    float x[50];
    check_fill(&rng, x, 1, 50, CHECK_NORMAL);
    softmax_case c = { 40, 50, 0, 50, false, NULL };
    softmax_verify_all(&c, x, CHECK_GUARD_BEHIND);
    for (int32_t threads = 0; threads <= 5; threads++) {
        float y[40 * 50], one[50];
        heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, threads);
        CHECK(heed_softmax(1, 50, x, 50, one, 50, NULL, NULL, NULL) == HEED_OK, "one row");
        CHECK(heed_softmax(40, 50, x, 0, y, 50, NULL, &options, NULL) == HEED_OK, "40 rows");
        for (size_t r = 0; r < 40; r++)
            check_same(y + r * 50, one, 50, "threads");
    }
}

static const float I = INFINITY, N = NAN, M = -INFINITY;

/* Values that are exact, or NaN, at every row width: the special value stands at each place that starts or ends a vector. */
static void special(void)
{
    static const int64_t places[] = { 0, 1, 7, 8, 15, 16, 31, 32, 63 };
    for (int64_t cols = 1; cols <= 64; cols++)
        for (size_t p = 0; p < sizeof places / sizeof places[0] && places[p] < cols; p++) {
            if (!check_keep((size_t)cols, 9))
                continue;
            float rows[6][64], special_values[6] = { N, I, M, 1e30f, -1e30f, 500.0f };
            for (size_t r = 0; r < 6; r++) {
                for (int64_t j = 0; j < cols; j++)
                    rows[r][j] = r == 5 ? M : (float)(j % 3);
                rows[r][places[p]] = special_values[r];
            }
            softmax_case c = { 6, cols, 64, cols, false, NULL };
            softmax_verify_all(&c, rows[0], CHECK_GUARD_BEHIND);
        }
}

/* Exact results by hand: all -inf gives 0, one value gives 1, equal values 1/n correctly rounded. */
static void exact(void)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++)
        for (int64_t cols = 1; cols <= 70; cols++) {
            float x[3 * 70], want[3 * 70];
            for (int64_t j = 0; j < cols; j++) {
                x[j] = M;
                x[cols + j] = j == cols - 1 ? -3e38f : M;
                x[2 * cols + j] = -1e4f;
                want[j] = 0.0f;
                want[cols + j] = j == cols - 1 ? 1.0f : 0.0f;
                want[2 * cols + j] = 1.0f / (float)cols;
            }
            softmax_case c = { 3, cols, cols, cols, false, NULL };
            check_case("%s cols %lld", heed_isa_name(list[i]), (long long)cols);
            float *y = softmax_run(&c, x, list[i], HEED_EXP_DEFAULT, CHECK_GUARD_BEHIND);
            check_same(y, want, (size_t)(3 * cols), "exact rows");
            free(y);
        }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "tails", tails }, { "lengths", lengths }, { "long_rows", long_rows },
        { "broadcast", broadcast }, { "special", special }, { "exact", exact } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
