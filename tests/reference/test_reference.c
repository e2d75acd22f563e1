/* heed against what PyTorch answered in f64 (cases.bin, made by generate.py), on every usable backend: softmax and
 * projections; attention, layers and RoPE are in reference_*.c.
 * May know: the public header, reference_test.h.
 * Must not know: anything under src/.
 *
 * Bounds.  u = 2^-24 is the rounding of f32; everything else a run may err by is a small multiple of it.
 *   softmax    per value, u * (8 + |x - max| + cols / 16) of it: exp and division, the subtraction, the sum in 16
 *              lanes; values below 2^-126 may be 0.
 *   linear     u * magnitude * sqrt(k) / 2: k roundings of either sign, each at most u * magnitude, the largest sum of
 *              absolute products. */
#include "reference_test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Softmax ---- */

static void check_softmax_row(const float *x, const float *y, const double *want, int64_t cols)
{
    double max = -INFINITY;
    for (int64_t i = 0; i < cols; i++)
        max = fmax(max, (double)x[i]);
    double worst = 0.0;
    int64_t at = 0;
    for (int64_t i = 0; i < cols; i++) {
        double error = fabs((double)y[i] - want[i]);
        double bound =
            want[i] > 0.0 ? want[i] * unit * (8.0 + max - (double)x[i] + (double)cols / 16.0) + FLT_MIN : 0.0;
        if (!(error <= bound) && !(error - bound <= worst)) {
            worst = error - bound;
            at = i;
        }
    }
    CHECK(worst == 0.0, "column %lld: %.9g instead of %.9g", (long long)at, (double)y[at], want[at]);
}

static void visit_softmax(const reference_case *c, const heed_options *options)
{
    int64_t rows = reference_size(c, "rows"), cols = reference_size(c, "cols");
    const float *x = input(c, "x");
    const int32_t *lengths = input_lengths(c, "lengths");
    float *y = output(c, "y");
    heed_error error = { "" };
    heed_status status = heed_softmax(rows, cols, x, cols, y, cols, lengths, options, &error);
    if (!CHECK(status == HEED_OK, "status %d: %s", (int)status, error.message))
        return;
    for (int64_t r = 0; r < rows; r++) {
        int64_t end = lengths ? lengths[r] : cols;
        check_softmax_row(x + r * cols, y + r * cols, reference_f64(c, "y") + r * cols, end);
        for (int64_t i = end; i < cols; i++)
            CHECK(y[r * cols + i] == 0.0f, "row %lld column %lld beyond the length", (long long)r, (long long)i);
    }
}

static void test_softmax(void)
{
    each_run("softmax", visit_softmax);
}

/* ---- Projections ---- */

static void visit_linear(const reference_case *c, const heed_options *options)
{
    int64_t m = reference_size(c, "m"), k = reference_size(c, "k"), n = reference_size(c, "n");
    heed_linear_desc desc = HEED_LINEAR_DESC_INIT;
    desc.in_features = k;
    desc.out_features = n;
    desc.weight = input(c, "w");
    desc.stride_in = 1;
    desc.stride_out = k;
    desc.bias = input_or_null(c, "b");
    heed_linear *linear = NULL;
    heed_error error = { "" };
    heed_status status = heed_linear_create(&linear, &desc, options, &error);
    if (!CHECK(status == HEED_OK, "create: status %d: %s", (int)status, error.message))
        return;
    size_t size = heed_linear_workspace_size(linear, m);
    float *y = output(c, "y");
    status = heed_linear_run(linear, m, input(c, "x"), k, y, n, check_alloc(size, CHECK_GUARD_BEHIND), size, &error);
    if (CHECK(status == HEED_OK, "run: status %d: %s", (int)status, error.message))
        compare(c, "y", y, unit * reference_get(c, "magnitude") * sqrt((double)k) / 2.0);
    heed_linear_destroy(linear);
}

static void test_linear(void)
{
    each_run("linear", visit_linear);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "oracle", test_oracle },
        { "attention", test_attention },
        { "softmax", test_softmax },
        { "linear", test_linear },
        { "layer", test_layer },
        { "rope_table", test_rope_table },
        { "rope_apply", test_rope_apply },
        { "rope_then_attention", test_rope_attention },
    };
    if (!reference_open(&reference, HEED_REFERENCE_FILE)) {
        reference_close(&reference);
        return 1;
    }
    printf("%zu cases by %s\n", reference.num_cases, reference.versions);
    int result = check_main(argc, argv, tests, sizeof tests / sizeof *tests);
    reference_close(&reference);
    return result;
}
