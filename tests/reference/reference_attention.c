/* The attention cases of cases.bin, with every option, and the tests' own oracle against them.
 * May know: the public header, reference_test.h, oracle.h.
 * Must not know: anything under src/.
 *
 * Bounds.
 *   out      u * (6 + magnitude / 4) * max|v|.  A score's rounding grows with magnitude, the largest
 *            |scale| * sum|q k| + |ALiBi| + |bias| of the case, and a weight errs relatively as its score does absolutely; 6
 *            is exp, row sum, division and the sum over values, seen alone where the scores are exact (magnitude 0).
 *            Measured: the notes that the test prints, where PyTorch and ONNX Runtime in f32 stand beside heed.
 *   weights  the same with 1 for max|v|.
 *   lse      u * (6 + magnitude / 4 + max|lse|): the last term is the rounding of the result itself.  With softcap
 *            u * 3 max|lse| more: s / softcap, tanh and its product with softcap round scores that are as large as the lse, and
 *            all of a row may err to the same side, which cancels in out. */
#include "oracle.h"
#include "reference_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ISA_COUNT = HEED_ISA_NEON + 1 };

/* Part of the bound that the worst case takes. */
static double worst_attention[ISA_COUNT];

static int32_t number(const reference_case *c, const char *name)
{
    return (int32_t)reference_get(c, name);
}

/* Strides of a bias or a mask stored packed as [batch][head][query][key], or with key and query exchanged, where a dimension
 * of 1 is broadcast. */
static heed_mask_strides mask_strides(const reference_case *c, const char *name)
{
    heed_mask_strides strides = { 0, 0, 0, 0 };
    const reference_tensor *t = reference_find(c, name);
    if (!t)
        return strides;
    bool transposed = number(c, "transposed");
    int64_t *by_dimension[REFERENCE_DIMS] = { &strides.batch, &strides.head, transposed ? &strides.key : &strides.query,
        transposed ? &strides.query : &strides.key };
    int64_t inside = 1;
    for (int d = REFERENCE_DIMS - 1; d >= 0; d--) {
        *by_dimension[d] = t->shape[d] > 1 ? inside : 0;
        inside *= (int64_t)t->shape[d];
    }
    return strides;
}

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
    a.window_left = reference_size(c, "window_left");
    a.window_right = reference_size(c, "window_right");
    a.softcap = (float)reference_get(c, "softcap");
    a.strides_bias = mask_strides(c, "bias");
    a.strides_mask = mask_strides(c, "mask");
    a.block_mask_q = reference_size(c, "block_q");
    a.block_mask_kv = reference_size(c, "block_kv");
    a.varlen = number(c, "varlen");
    return a;
}

static heed_tensors tensors_of(const reference_case *c)
{
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = input(c, "q");
    t.k = input(c, "k");
    t.v = input(c, "v");
    t.out = output(c, "out");
    t.lse = output(c, "lse");
    t.weights = output(c, "weights");
    t.lengths_q = input_lengths(c, "lengths_q");
    t.lengths_kv = input_lengths(c, "lengths_kv");
    t.bias = input_or_null(c, "bias");
    t.mask = input_bytes(c, "mask");
    t.alibi_slopes = input_or_null(c, "slopes");
    t.sinks = input_or_null(c, "sinks");
    t.block_mask = input_bytes(c, "block_mask");
    t.offsets_q = input_lengths(c, "offsets_q");
    t.offsets_kv = input_lengths(c, "offsets_kv");
    return t;
}

static double attention_bound(const reference_case *c)
{
    return unit * (6.0 + reference_get(c, "magnitude") / 4.0);
}

static double largest_finite(const double *values, size_t count)
{
    double result = 0.0;
    for (size_t i = 0; i < count; i++)
        result = isfinite(values[i]) ? fmax(result, fabs(values[i])) : result;
    return result;
}

static void visit_attention(const reference_case *c, const heed_options *options)
{
    heed_attention attention = attention_of(c);
    heed_tensors tensors = tensors_of(c);
    heed_error error = { "" };
    heed_status status = heed_attend(&attention, &tensors, options, &error);
    if (!CHECK(status == HEED_OK, "status %d: %s", (int)status, error.message))
        return;
    double size_v = largest(reference_f32(c, "v"), reference_find(c, "v")->count), bound = attention_bound(c);
    const reference_tensor *lse = reference_find(c, "lse");
    double part = compare(c, "out", tensors.out, bound * size_v);
    double roundings = attention.softcap != 0.0f ? 4.0 : 1.0;
    compare(c, "lse", tensors.lse, bound + roundings * unit * largest_finite(lse->f64, lse->count));
    compare(c, "weights", tensors.weights, bound);
    worst_attention[options->isa] = fmax(worst_attention[options->isa], part);
}

/* How much of the bound each implementation in f32 needs, over all cases that it can compute. */
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

void test_attention(void)
{
    each_run("attention", visit_attention);
    note_attention();
}
