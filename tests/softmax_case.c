/* Row softmax and its oracle (see softmax_case.h).
 * May know: the public header, check.h, oracle.h.
 * Must not know: anything under src/. */
#include "softmax_case.h"

#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t softmax_span(int64_t rows, int64_t stride, int64_t cols)
{
    return rows ? (size_t)((rows - 1) * stride + cols) : 0;
}

float *softmax_run(const softmax_case *c, const float *x, heed_isa isa, heed_exp exp, check_side side)
{
    size_t size_x = softmax_span(c->rows, c->stride_x, c->cols), size_y = softmax_span(c->rows, c->stride_y, c->cols);
    float *y = check_output(size_y, side), *packed = check_floats((size_t)(c->rows * c->cols));
    const float *input = c->in_place ? y : check_input(x, size_x, side);
    for (int64_t r = 0; r < c->rows && c->in_place; r++)
        memcpy(y + r * c->stride_y, x + r * c->stride_x, (size_t)c->cols * sizeof *y);
    heed_options options = check_options(isa, exp, 1);
    heed_error error = { "" };
    heed_status status = heed_softmax(c->rows, c->cols, input, c->in_place ? c->stride_y : c->stride_x, y, c->stride_y,
        check_lengths(c->lengths, (size_t)c->rows), &options, &error);
    CHECK(status == HEED_OK, "status %d %s", (int)status, error.message);
    for (int64_t r = 0; r < c->rows; r++)
        check_take(y + r * c->stride_y, packed + r * c->cols, (size_t)c->cols);
    check_untouched(y, size_y, "gaps of y");
    check_free_all();
    return packed;
}

/* Relative error of a weight exp(-t) / sum in units of u = 2^-24: t from rounding x - max, 2 from exp, 1 from the
 * division; the sum has n / 16 + 4 additions in its longest chain, and its terms err like the weight: their t averages
 * at most log n + 1 (the entropy).  Weights below 2^-126 may become 0 or subnormal. */
static bool row_close(const float *y, const double *want, int64_t cols)
{
    double largest = 0.0, fixed = (double)cols / 16.0 + 4.0 + log((double)cols) + 1.0 + 2.0 + 2.0 + 1.0;
    for (int64_t j = 0; j < cols; j++)
        largest = fmax(largest, want[j]);
    for (int64_t j = 0; j < cols; j++) {
        double t = want[j] > 0.0 ? log(largest / want[j]) : 0.0, got = (double)y[j];
        double bound = want[j] * (fixed + t) * 0x1p-24 + (want[j] < 0x1p-125 ? 0x1p-126 : 0.0);
        bool ok = isnan(want[j]) ? isnan(got) : got >= 0.0 && fabs(got - want[j]) <= bound;
        if (!ok)
            return CHECK(false, "column %lld: got %.9g, want %.9g, bound %.3g", (long long)j, got, want[j], bound);
    }
    return CHECK(true, "row");
}

void softmax_check_oracle(const softmax_case *c, const float *x, const float *y)
{
    double *want = check_malloc((size_t)(c->rows * c->cols + 1) * sizeof *want);
    oracle_softmax(c->rows, c->cols, x, c->stride_x, c->lengths, want);
    for (int64_t r = 0; r < c->rows; r++)
        row_close(y + r * c->cols, want + r * c->cols, c->cols);
    free(want);
}

void softmax_verify(const softmax_case *c, const float *x, heed_exp exp, check_side side)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    float *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (exp == HEED_EXP_SLEEF && !heed_sleef_usable(list[i]))
            continue;
        check_case("rows %lld cols %lld strides %lld %lld in-place %d lengths %d %s exp %d", (long long)c->rows,
            (long long)c->cols, (long long)c->stride_x, (long long)c->stride_y, c->in_place, c->lengths != NULL,
            heed_isa_name(list[i]), (int)exp);
        float *y = softmax_run(c, x, list[i], exp, side);
        if (!first) {
            softmax_check_oracle(c, x, y);
            first = y;
            continue;
        }
        check_same(y, first, (size_t)(c->rows * c->cols), "y against the first backend");
        free(y);
    }
    free(first);
}

void softmax_verify_all(const softmax_case *c, const float *x, check_side side)
{
    softmax_verify(c, x, HEED_EXP_BUILTIN, side);
    softmax_verify(c, x, HEED_EXP_SLEEF, side);
    softmax_verify(c, x, HEED_EXP_DEFAULT, side);
}
