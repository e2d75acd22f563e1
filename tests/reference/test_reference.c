/* heed against what PyTorch answered in f64 (cases.bin, made by generate.py), on every usable backend.
 * May know: the public header, check.h, oracle.h, reference_file.h.
 * Must not know: anything under src/.
 *
 * Bounds.  u = 2^-24 is the rounding of f32; everything else a run may err by is a small multiple of it.
 *   attention  u * (6 + magnitude / 4) * max|v|.  A score's rounding grows with magnitude, the largest
 *              |scale| * sum|q k| of the case, and a weight errs relatively as its score does absolutely; 6 is exp, row
 *              sum, division and the sum over values, seen alone where the scores are exact (magnitude 0).  Measured:
 *              the notes that the test prints, where PyTorch and ONNX Runtime in f32 stand beside heed.
 *   weights    the same with 1 for max|v|.
 *   lse        u * (6 + magnitude / 4 + max|lse|): the last term is the rounding of the result itself.
 *   softmax    per value, u * (8 + |x - max| + cols / 16) of it: exp and division, the subtraction, the sum in 16
 *              lanes; values below 2^-126 may be 0.
 *   linear     u * magnitude * sqrt(k) / 2: k roundings of either sign, each at most u * magnitude, the largest sum of
 *              absolute products.
 *   layer      u * magnitude, the largest sum of absolute products on the way to one output. */
#include "check.h"
#include "oracle.h"
#include "reference_file.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static reference_file reference;

static const double unit = 0x1p-24;

static double largest(const float *values, size_t count)
{
    double result = 0.0;
    for (size_t i = 0; i < count; i++)
        result = fmax(result, fabs((double)values[i]));
    return result;
}

static double largest_finite(const double *values, size_t count)
{
    double result = 0.0;
    for (size_t i = 0; i < count; i++)
        result = isfinite(values[i]) ? fmax(result, fabs(values[i])) : result;
    return result;
}

static double largest_error(const float *got, const double *want, size_t count)
{
    return check_errors(got, want, count).max_abs;
}

/* Calls visit for every case of this kind, on every backend with every exp it has. */
static void each(const char *kind, void (*visit)(const reference_case *c, const heed_options *options))
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t b = 0; b < count; b++) {
        for (size_t i = 0; i < reference.num_cases; i++) {
            const reference_case *c = &reference.cases[i];
            if (strcmp(c->kind, kind) != 0)
                continue;
            for (int e = HEED_EXP_BUILTIN; e <= (heed_sleef_usable(list[b]) ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN); e++) {
                heed_options options = check_options(list[b], (heed_exp)e, 1 + (int32_t)(i % 3));
                check_case("%s %s exp %d", c->name, heed_isa_name(list[b]), e);
                visit(c, &options);
                check_free_all();
            }
        }
    }
    check_case("%s", "");
}

static const float *input(const reference_case *c, const char *name)
{
    return check_input(reference_f32(c, name), reference_find(c, name)->count, CHECK_GUARD_BEHIND);
}

static const int32_t *input_lengths(const reference_case *c, const char *name)
{
    const reference_tensor *t = reference_find(c, name);
    return t ? check_lengths(t->i32, t->count) : NULL;
}

/* Memory for an output that the case has, else NULL. */
static float *output(const reference_case *c, const char *name)
{
    const reference_tensor *t = reference_find(c, name);
    return t ? check_output(t->count, CHECK_GUARD_BEHIND) : NULL;
}

static void compare(const reference_case *c, const char *name, const float *got, double bound)
{
    if (got)
        check_close(got, reference_f64(c, name), reference_find(c, name)->count, bound, name);
}

/* ---- Attention ---- */

static heed_attention attention_of(const reference_case *c)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = reference_size(c, "batch");
    a.num_heads = reference_size(c, "heads");
    a.num_kv_heads = reference_size(c, "kv_heads");
    a.seq_len_q = reference_size(c, "lq");
    a.seq_len_kv = reference_size(c, "lk");
    a.head_dim = reference_size(c, "dk");
    a.head_dim_v = reference_size(c, "dv");
    a.scale = (float)reference_get(c, "scale");
    a.causal = (heed_causal)reference_size(c, "causal");
    a.causal_offset = reference_size(c, "offset");
    a.layout = reference_size(c, "bshd") ? HEED_LAYOUT_BSHD : HEED_LAYOUT_BHSD;
    return a;
}

static double attention_bound(const reference_case *c)
{
    return unit * (6.0 + reference_get(c, "magnitude") / 4.0);
}

enum { ISA_COUNT = HEED_ISA_NEON + 1 };

/* The largest error of heed over all cases as a part of the bound, per instruction set. */
static double worst_attention[ISA_COUNT];

static void visit_attention(const reference_case *c, const heed_options *options)
{
    heed_attention attention = attention_of(c);
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = input(c, "q");
    tensors.k = input(c, "k");
    tensors.v = input(c, "v");
    tensors.out = output(c, "out");
    tensors.lse = output(c, "lse");
    tensors.weights = output(c, "weights");
    tensors.lengths_q = input_lengths(c, "lengths_q");
    tensors.lengths_kv = input_lengths(c, "lengths_kv");
    heed_error error = { "" };
    heed_status status = heed_attend(&attention, &tensors, options, &error);
    if (!CHECK(status == HEED_OK, "status %d: %s", (int)status, error.message))
        return;

    double size_v = largest(reference_f32(c, "v"), reference_find(c, "v")->count), bound = attention_bound(c);
    const reference_tensor *out = reference_find(c, "out"), *lse = reference_find(c, "lse");
    compare(c, "out", tensors.out, bound * size_v);
    compare(c, "lse", tensors.lse, bound + unit * largest_finite(lse->f64, lse->count));
    compare(c, "weights", tensors.weights, bound);
    double part = largest_error(tensors.out, out->f64, out->count) / (bound * size_v);
    worst_attention[options->isa] = fmax(worst_attention[options->isa], part);
}

/* How much of the bound each implementation in f32 needs, over all cases. */
static void note_attention(void)
{
    double by_torch = 0.0, by_onnxruntime = 0.0;
    for (size_t i = 0; i < reference.num_cases; i++) {
        const reference_case *c = &reference.cases[i];
        if (strcmp(c->kind, "attention") != 0)
            continue;
        by_torch = fmax(by_torch, reference_get(c, "torch_f32") / attention_bound(c));
        by_onnxruntime = fmax(by_onnxruntime, reference_get(c, "onnxruntime_f32") / attention_bound(c));
    }
    for (int isa = HEED_ISA_SCALAR; isa < ISA_COUNT; isa++)
        if (worst_attention[isa] > 0.0)
            check_note(
                "%s: worst error %.0f %% of the bound", heed_isa_name((heed_isa)isa), 100 * worst_attention[isa]);
    check_note("PyTorch in f32: %.0f %%, ONNX Runtime in f32: %.0f %%", 100 * by_torch, 100 * by_onnxruntime);
}

static void test_attention(void)
{
    each("attention", visit_attention);
    note_attention();
}

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
    each("softmax", visit_softmax);
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
    desc.bias = reference_find(c, "b") ? input(c, "b") : NULL;
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
    each("linear", visit_linear);
}

/* ---- The layer ---- */

static heed_layer_desc layer_of(const reference_case *c)
{
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    desc.model_dim = reference_size(c, "width");
    desc.num_heads = desc.num_kv_heads = reference_size(c, "heads");
    desc.head_dim = desc.model_dim / desc.num_heads;
    desc.causal = (heed_causal)reference_size(c, "causal");
    desc.weight_q = input(c, "wq");
    desc.weight_k = input(c, "wk");
    desc.weight_v = input(c, "wv");
    desc.weight_o = input(c, "wo");
    desc.bias_q = input(c, "bq");
    desc.bias_k = input(c, "bk");
    desc.bias_v = input(c, "bv");
    desc.bias_o = input(c, "bo");
    return desc;
}

static void visit_layer(const reference_case *c, const heed_options *options)
{
    heed_layer_desc desc = layer_of(c);
    int64_t batch = reference_size(c, "batch"), length = reference_size(c, "length");
    heed_layer *layer = NULL;
    heed_error error = { "" };
    size_t size = 0;
    heed_status status = heed_layer_create(&layer, &desc, options, &error);
    if (!CHECK(status == HEED_OK, "create: status %d: %s", (int)status, error.message))
        return;
    status = heed_layer_workspace_size(layer, batch, length, &size, &error);
    if (CHECK(status == HEED_OK, "workspace: status %d: %s", (int)status, error.message)) {
        heed_layer_tensors tensors = HEED_LAYER_TENSORS_INIT;
        tensors.x = input(c, "x");
        tensors.y = output(c, "y");
        tensors.weights = output(c, "weights");
        tensors.lengths = input_lengths(c, "lengths");
        void *workspace = check_alloc(size, CHECK_GUARD_BEHIND);
        status = heed_layer_run(layer, batch, length, &tensors, workspace, size, &error);
        if (CHECK(status == HEED_OK, "run: status %d: %s", (int)status, error.message)) {
            double bound = unit * reference_get(c, "magnitude");
            compare(c, "y", tensors.y, bound);
            compare(c, "weights", tensors.weights, bound);
        }
    }
    heed_layer_destroy(layer);
}

static void test_layer(void)
{
    each("layer", visit_layer);
}

/* ---- The tests' own oracle ---- */

static void oracle_attention_case(const reference_case *c)
{
    heed_attention a = attention_of(c);
    oracle_attention problem = { .batch = a.batch,
        .num_heads = a.num_heads,
        .num_kv_heads = a.num_kv_heads,
        .seq_len_q = a.seq_len_q,
        .seq_len_kv = a.seq_len_kv,
        .head_dim = a.head_dim,
        .head_dim_v = a.head_dim_v,
        .scale = (double)a.scale,
        .causal_offset = a.causal_offset,
        .q = reference_f32(c, "q"),
        .k = reference_f32(c, "k"),
        .v = reference_f32(c, "v"),
        .lengths_q = reference_i32_or_null(c, "lengths_q"),
        .lengths_kv = reference_i32_or_null(c, "lengths_kv") };
    static const oracle_causal causal[] = { ORACLE_SEE_ALL, ORACLE_BOTTOM_RIGHT, ORACLE_TOP_LEFT, ORACLE_OFFSET };
    problem.causal = causal[a.causal];
    oracle_set_packed(&problem);
    const reference_tensor *out = reference_find(c, "out"), *lse = reference_find(c, "lse");
    double *got_out = check_malloc(out->count * sizeof *got_out), *got_lse = check_malloc(lse->count * sizeof *got_lse);
    CHECK(oracle_attend(&problem, got_out, got_lse, NULL), "out of memory");
    double worst = 0.0;
    for (size_t i = 0; i < out->count; i++)
        worst = fmax(worst, fabs(got_out[i] - out->f64[i]));
    for (size_t i = 0; i < lse->count; i++)
        worst = got_lse[i] == lse->f64[i] ? worst : fmax(worst, fabs(got_lse[i] - lse->f64[i]) / fabs(lse->f64[i]));
    CHECK(worst < 1e-12, "oracle and PyTorch, both in f64, differ by %.3g", worst);
    free(got_out);
    free(got_lse);
}

/* All other tests trust the oracle; here it answers for itself. */
static void test_oracle(void)
{
    for (size_t i = 0; i < reference.num_cases; i++) {
        const reference_case *c = &reference.cases[i];
        if (strcmp(c->kind, "attention") != 0 || reference_size(c, "bshd"))
            continue;
        check_case("%s", c->name);
        oracle_attention_case(c);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "oracle", test_oracle },
        { "attention", test_attention },
        { "softmax", test_softmax },
        { "linear", test_linear },
        { "layer", test_layer },
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
