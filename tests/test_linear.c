/* heed_linear on every backend: bits against the scalar one, accuracy against the oracle, shapes, strides, stale outputs.
 * May know: the public header, check.h, oracle.h.
 * Must not know: anything under src/. */
#include "check.h"
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct linear_case {
    int64_t rows, in, out, stride_x, stride_y;
    bool transposed, bias; /* transposed: stored [out][in] */
    int64_t pad;           /* added to the outer stride of the weight */
} linear_case;

typedef struct linear_data {
    float *x, *weight, *bias; /* x packed, weight with its strides */
} linear_data;

static int64_t stride_in(const linear_case *c)
{
    return c->transposed ? 1 : c->out + c->pad;
}

static int64_t stride_out(const linear_case *c)
{
    return c->transposed ? c->in + c->pad : 1;
}

static size_t weight_span(const linear_case *c)
{
    return (size_t)((c->in - 1) * stride_in(c) + (c->out - 1) * stride_out(c) + 1);
}

static linear_data fill(const linear_case *c, check_rng *rng, check_values kind)
{
    linear_data d = { check_floats((size_t)(c->rows * c->in)), check_floats(weight_span(c)),
        check_floats((size_t)c->out) };
    check_fill(rng, d.x, (size_t)c->rows, (size_t)c->in, kind);
    check_fill(rng, d.bias, 1, (size_t)c->out, kind);
    memset(d.weight, 0xff, weight_span(c) * sizeof *d.weight);
    for (int64_t i = 0; i < c->in; i++)
        for (int64_t o = 0; o < c->out; o++)
            check_fill(rng, d.weight + i * stride_in(c) + o * stride_out(c), 1, 1, kind);
    return d;
}

static void free_data(linear_data *d)
{
    free(d->x);
    free(d->weight);
    free(d->bias);
}

static heed_linear *create(const linear_case *c, const linear_data *d, const heed_options *options)
{
    heed_linear_desc desc = HEED_LINEAR_DESC_INIT;
    desc.in_features = c->in;
    desc.out_features = c->out;
    desc.weight = check_input(d->weight, weight_span(c), CHECK_GUARD_BEHIND);
    desc.stride_in = stride_in(c);
    desc.stride_out = stride_out(c);
    desc.bias = c->bias ? check_input(d->bias, (size_t)c->out, CHECK_GUARD_BEHIND) : NULL;
    heed_linear *linear = NULL;
    heed_error error = { "" };
    heed_status status = heed_linear_create(&linear, &desc, options, &error);
    CHECK(status == HEED_OK && linear, "heed_linear_create: %d %s", (int)status, error.message);
    check_free_all(); /* the caller's weights are not kept */
    return linear;
}

/* Runs the case on guarded memory and returns y packed. */
static float *run(const linear_case *c, const linear_data *d, const heed_options *options, check_side side)
{
    check_case("rows %lld in %lld out %lld strides %lld %lld transposed %d bias %d pad %lld %s threads %d",
        (long long)c->rows, (long long)c->in, (long long)c->out, (long long)c->stride_x, (long long)c->stride_y,
        c->transposed, c->bias, (long long)c->pad, heed_isa_name(options->isa), (int)options->num_threads);
    float *packed = check_floats((size_t)(c->rows * c->out));
    heed_linear *linear = create(c, d, options);
    size_t size_x = (size_t)((c->rows - 1) * c->stride_x + c->in),
           size_y = (size_t)((c->rows - 1) * c->stride_y + c->out);
    float *spread = check_floats(size_x);
    memset(spread, 0xff, size_x * sizeof *spread);
    for (int64_t r = 0; r < c->rows; r++)
        memcpy(spread + r * c->stride_x, d->x + (c->stride_x ? r * c->in : 0), (size_t)c->in * sizeof *spread);
    const float *x = check_input(spread, size_x, side);
    free(spread);
    float *y = check_output(size_y, side);
    size_t size = heed_linear_workspace_size(linear, c->rows);
    heed_error error = { "" };
    heed_status status = heed_linear_run(
        linear, c->rows, x, c->stride_x, y, c->stride_y, check_alloc(size, CHECK_GUARD_BEHIND), size, &error);
    CHECK(status == HEED_OK, "heed_linear_run: %d %s", (int)status, error.message);
    heed_linear_destroy(linear);
    for (int64_t r = 0; r < c->rows; r++)
        check_take(y + r * c->stride_y, packed + r * c->out, (size_t)c->out);
    check_untouched(y, size_y, "gaps of y");
    check_free_all();
    return packed;
}

/* One chain of n fused multiply-adds errs by at most n u (|b| + sum |x w|), u = 2^-24, plus n rounded subnormals. */
static void against_oracle(const linear_case *c, const linear_data *d, const float *y)
{
    oracle_linear linear = { c->in, c->out, d->weight, stride_in(c), stride_out(c), c->bias ? d->bias : NULL };
    double *want = check_malloc((size_t)(c->rows * c->out) * sizeof *want), worst = 0.0, at = 0.0;
    oracle_project(&linear, c->rows, d->x, c->stride_x ? c->in : 0, want);
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t o = 0; o < c->out; o++) {
            double size = c->bias ? fabs((double)d->bias[o]) : 0.0;
            for (int64_t i = 0; i < c->in; i++)
                size += fabs((double)d->x[(c->stride_x ? r * c->in : 0) + i] *
                             (double)d->weight[i * stride_in(c) + o * stride_out(c)]);
            double error = fabs((double)y[r * c->out + o] - want[r * c->out + o]);
            double ratio = error / ((double)c->in * (0x1p-24 * size + 0x1p-150));
            if (!(ratio <= worst)) {
                worst = ratio;
                at = (double)(r * c->out + o);
            }
        }
    CHECK(worst <= 1.0, "error is %.3g times the bound at %.0f", worst, at);
    free(want);
}

/* The scalar backend against the oracle, all backends against the scalar bits. */
static void verify(const linear_case *c, check_rng *rng, check_values kind, int32_t threads)
{
    linear_data d = fill(c, rng, kind);
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    heed_options options = check_options(HEED_ISA_SCALAR, HEED_EXP_DEFAULT, 1);
    float *scalar = run(c, &d, &options, CHECK_GUARD_BEHIND);
    against_oracle(c, &d, scalar);
    for (size_t i = 0; i < count; i++) {
        options = check_options(list[i], HEED_EXP_DEFAULT, threads);
        float *y = run(c, &d, &options, CHECK_GUARD_BEFORE);
        check_same(y, scalar, (size_t)(c->rows * c->out), "y against scalar");
        free(y);
    }
    free(scalar);
    free_data(&d);
}

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
                    verify(&c, &rng, CHECK_NORMAL, 1 + (int32_t)(index % 3));
            }
}

/* Sizes beyond the cache blocks, few rows, model-like shapes. */
static void blocks(void)
{
    static const int64_t sizes[][3] = { { 1, 96, 256 }, { 1, 256, 96 }, { 2, 257, 95 }, { 4, 255, 97 }, { 5, 1023, 33 },
        { 1, 5000, 17 }, { 3, 17, 5000 }, { 130, 384, 384 }, { 500, 40, 40 }, { 7, 2049, 300 }, { 1, 1, 1000 },
        { 1000, 1, 1 }, { 64, 768, 130 } };
    check_rng rng = check_rng_named("linear blocks");
    for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
        linear_case c = make(sizes[index][0], sizes[index][1], sizes[index][2], index);
        if (check_keep(index, 4))
            verify(&c, &rng, CHECK_NORMAL, 2);
    }
}

static void values(void)
{
    check_rng rng = check_rng_named("linear values");
    for (int kind = 0; kind < CHECK_VALUES_COUNT; kind++) {
        linear_case c = make(9, 70, 45, (size_t)kind);
        verify(&c, &rng, (check_values)kind, 1);
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
            linear_data d = fill(&c, &rng, CHECK_NORMAL);
            heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
            float *one = run(&c, &d, &options, CHECK_GUARD_BEHIND);
            for (int32_t threads = 0; threads <= 16; threads++) {
                options.num_threads = threads;
                float *y = run(&c, &d, &options, CHECK_GUARD_BEHIND);
                check_same(y, one, (size_t)(c.rows * c.out), "threads");
                free(y);
            }
            linear_case single = c, repeated = c;
            single.rows = 1;
            repeated.stride_x = 0;
            for (int64_t r = 0; r < c.rows; r += 1 + c.rows / 5) {
                linear_data row = { d.x + r * c.in, d.weight, d.bias };
                float *y = run(&single, &row, &options, CHECK_GUARD_BEHIND);
                check_same(y, one + r * c.out, (size_t)c.out, "a row alone");
                free(y);
            }
            float *y = run(&repeated, &d, &options, CHECK_GUARD_BEHIND);
            for (int64_t r = 0; r < c.rows; r++)
                check_same(y + r * c.out, one, (size_t)c.out, "row stride 0");
            free(y);
            free(one);
            free_data(&d);
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
            linear_data d = fill(&c, &rng, CHECK_NORMAL);
            heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
            float *clean = run(&c, &d, &options, CHECK_GUARD_BEHIND);
            d.x[at * 20 + 5] = NAN;
            d.weight[7 * 20 + at] = at % 2 ? INFINITY : NAN;
            float *y = run(&c, &d, &options, CHECK_GUARD_BEHIND);
            for (int64_t r = 0; r < 20; r++)
                for (int64_t o = 0; o < 20; o++)
                    if (r == at || o == at)
                        CHECK(!isfinite(y[r * 20 + o]), "%lld, %lld lost the NaN", (long long)r, (long long)o);
                    else
                        check_same(y + r * 20 + o, clean + r * 20 + o, 1, "beside a NaN");
            free(y);
            free(clean);
            free_data(&d);
        }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "tails", tails }, { "blocks", blocks }, { "values", values },
        { "contract", contract }, { "isolation", isolation } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
