/* heed_linear on every backend: bits against the scalar one, accuracy against the oracle, shapes, strides, stale outputs.
 * May know: the public header, linear_case.h.
 * Must not know: anything under src/. */
#include "linear_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static linear_case make(int64_t rows, int64_t in, int64_t out, size_t index)
{
    linear_case c = { rows, in, out, in + (int64_t)(index % 3), out + (int64_t)(index % 4), index % 2 == 0,
        index / 2 % 2 == 0, (int64_t)(index % 5) };
    return c;
}

/* Every combination of row, in and out tails around the tiles. */
static void tails(void)
{
    static const int64_t sizes[] = { 1, 2, 3, 7, 15, 16, 17, 19, 23, 31, 33, 65 };
    check_rng rng = check_rng_named("linear tails");
    size_t index = 0, count = sizeof sizes / sizeof sizes[0];
    for (size_t m = 0; m < count; m++)
        for (size_t k = 0; k < count; k++)
            for (size_t n = 0; n < count; n++, index++) {
                linear_case c = make(sizes[m], sizes[k], sizes[n], index);
                if (check_keep(index, 37))
                    linear_verify(&c, &rng, CHECK_NORMAL, 1 + (int32_t)(index % 3));
            }
}

/* Sizes beyond the cache blocks, few rows, model-like shapes. */
static void blocks(void)
{
    static const int64_t sizes[][3] = { { 1, 96, 256 }, { 1, 256, 96 }, { 2, 257, 95 }, { 4, 255, 97 }, { 5, 1023, 33 },
        { 1, 5000, 17 }, { 3, 17, 5000 }, { 130, 384, 384 }, { 500, 40, 40 }, { 7, 2049, 300 }, { 1, 1, 1000 },
        { 1000, 1, 1 }, { 64, 768, 130 }, { 100, 1100, 70 } };
    check_rng rng = check_rng_named("linear blocks");
    for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
        linear_case c = make(sizes[index][0], sizes[index][1], sizes[index][2], index);
        if (check_keep(index, 4))
            linear_verify(&c, &rng, CHECK_NORMAL, 2);
    }
}

static void values(void)
{
    check_rng rng = check_rng_named("linear values");
    for (int kind = 0; kind < CHECK_VALUES_COUNT; kind++) {
        linear_case c = make(9, 70, 45, (size_t)kind);
        linear_verify(&c, &rng, (check_values)kind, 1);
    }
}

/* The same bits for every number of threads, for every row alone, and for one row repeated by stride 0 (case F05). */
static void contract(void)
{
    check_rng rng = check_rng_named("linear contract");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    static const int64_t sizes[][3] = { { 33, 56, 444 }, { 130, 300, 70 }, { 2, 600, 2000 } };
    for (size_t s = 0; s < 3; s++)
        for (size_t i = 0; i < count && check_keep(s, 3); i++) {
            linear_case c = make(sizes[s][0], sizes[s][1], sizes[s][2], s);
            linear_data d = linear_fill(&c, &rng, CHECK_NORMAL);
            heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
            float *one = linear_run(&c, &d, &options, CHECK_GUARD_BEHIND);
            for (int32_t threads = 0; threads <= 16; threads++) {
                options.num_threads = threads;
                float *y = linear_run(&c, &d, &options, CHECK_GUARD_BEHIND);
                check_same(y, one, (size_t)(c.rows * c.out), "threads");
                free(y);
            }
            linear_case single = c, repeated = c;
            single.rows = 1;
            repeated.stride_x = 0;
            for (int64_t r = 0; r < c.rows; r += 1 + c.rows / 5) {
                linear_data row = { d.x + r * c.in, d.weight, d.bias };
                float *y = linear_run(&single, &row, &options, CHECK_GUARD_BEHIND);
                check_same(y, one + r * c.out, (size_t)c.out, "a row alone");
                free(y);
            }
            float *y = linear_run(&repeated, &d, &options, CHECK_GUARD_BEHIND);
            for (int64_t r = 0; r < c.rows; r++)
                check_same(y + r * c.out, one, (size_t)c.out, "row stride 0");
            free(y);
            free(one);
            linear_free(&d);
        }
}

/* NaN and Inf stay in their row (of x) and column (of the weight). */
static void isolation(void)
{
    check_rng rng = check_rng_named("linear isolation");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++)
        for (int64_t at = 0; at < 20; at += 3) {
            linear_case c = { 20, 20, 20, 20, 20, false, true, 0 };
            linear_data d = linear_fill(&c, &rng, CHECK_NORMAL);
            heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
            float *clean = linear_run(&c, &d, &options, CHECK_GUARD_BEHIND);
            d.x[at * 20 + 5] = NAN;
            d.weight[7 * 20 + at] = at % 2 ? INFINITY : NAN;
            float *y = linear_run(&c, &d, &options, CHECK_GUARD_BEHIND);
            for (int64_t r = 0; r < 20; r++)
                for (int64_t o = 0; o < 20; o++)
                    if (r == at || o == at)
                        CHECK(!isfinite(y[r * 20 + o]), "%lld, %lld lost the NaN", (long long)r, (long long)o);
                    else
                        check_same(y + r * 20 + o, clean + r * 20 + o, 1, "beside a NaN");
            free(y);
            free(clean);
            linear_free(&d);
        }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "tails", tails }, { "blocks", blocks }, { "values", values },
        { "contract", contract }, { "isolation", isolation } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
