/* One projection and its oracle (see linear_case.h).
 * May know: the public header, check.h, oracle.h.
 * Must not know: anything under src/. */
#include "linear_case.h"

#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

linear_data linear_fill(const linear_case *c, check_rng *rng, check_values kind)
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

void linear_free(linear_data *d)
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

float *linear_run(const linear_case *c, const linear_data *d, const heed_options *options, check_side side)
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
void linear_check_oracle(const linear_case *c, const linear_data *d, const float *y)
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

void linear_verify(const linear_case *c, check_rng *rng, check_values kind, int32_t threads)
{
    linear_data d = linear_fill(c, rng, kind);
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    heed_options options = check_options(HEED_ISA_SCALAR, HEED_EXP_DEFAULT, 1);
    float *scalar = linear_run(c, &d, &options, CHECK_GUARD_BEHIND);
    linear_check_oracle(c, &d, scalar);
    for (size_t i = 0; i < count; i++) {
        options = check_options(list[i], HEED_EXP_DEFAULT, threads);
        float *y = linear_run(c, &d, &options, CHECK_GUARD_BEFORE);
        check_same(y, scalar, (size_t)(c->rows * c->out), "y against scalar");
        free(y);
    }
    free(scalar);
    linear_free(&d);
}
