/* The RoPE cases of cases.bin: tables of transformers' ROPE_INIT_FUNCTIONS in f64, rotations, and rotation before attention.
 * May know: the public header, reference_test.h.
 * Must not know: anything under src/.
 *
 * Bounds.
 *   table      u * |value|: one rounding of a value computed in double; and 1e-14 of the angle, in which two computations in
 *              double differ (base^(-2i/dim) by a few units in the last place).
 *   rotation   3 u * (|a| + |b|) max(|cosine|, |sine|) of a pair, taken for the whole case: two products and their sum.
 *   attention  u * (6 + magnitude) * max|v|: as in reference_attention.c with the rotations' roundings, which grow with
 *              magnitude too. */
#include "reference_rope.h"
#include "reference_test.h"

#include <math.h>
#include <string.h>

static double worst_attention, worst_table;

void reference_rope_table(const reference_case *c, int64_t positions, float *cosines, float *sines)
{
    heed_rope_desc desc = HEED_ROPE_DESC_INIT;
    desc.dim = reference_size(c, "dim");
    desc.base = reference_get(c, "base");
    desc.scaling = (heed_rope_scaling)reference_size(c, "scaling");
    desc.factor = reference_get(c, "factor");
    desc.low_freq_factor = reference_get(c, "low");
    desc.high_freq_factor = reference_get(c, "high");
    desc.beta_slow = reference_get(c, "beta_slow");
    desc.beta_fast = reference_get(c, "beta_fast");
    desc.attention_factor = reference_get(c, "attention_factor");
    desc.original_positions = reference_size(c, "original");
    heed_error error = { "" };
    heed_status status = heed_rope_table(&desc, reference_size(c, "first"), positions, cosines, sines, &error);
    CHECK(status == HEED_OK, "heed_rope_table: status %d: %s", (int)status, error.message);
}

static void compare_table(const reference_case *c, const char *name, const float *got)
{
    const reference_tensor *want = reference_find(c, name);
    double angle = 1.0 + reference_get(c, "first") + reference_get(c, "positions");
    for (size_t i = 0; i < want->count; i++) {
        double bound = unit * fabs(want->f64[i]) + 1e-14 * angle, off = fabs((double)got[i] - want->f64[i]);
        CHECK(off <= bound, "%s[%zu]: %.9g instead of %.9g", name, i, (double)got[i], want->f64[i]);
        worst_table = fmax(worst_table, off / bound);
    }
}

static void visit_table(const reference_case *c)
{
    float *cosines = output(c, "cosines"), *sines = output(c, "sines");
    reference_rope_table(c, reference_size(c, "positions"), cosines, sines);
    compare_table(c, "cosines", cosines);
    compare_table(c, "sines", sines);
}

void test_rope_table(void)
{
    each_case("rope_table", visit_table);
    check_note("worst error %.0f %% of the bound", 100 * worst_table);
}

/* Rotates x [batch][heads][length][head_dim], packed, in place. */
static void rotate(const reference_case *c, float *x, int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
    int64_t dim, int64_t row)
{
    heed_strides strides = { heads * length * head_dim, length * head_dim, head_dim };
    heed_error error = { "" };
    heed_status status = heed_rope_apply((heed_rope_pairs)reference_size(c, "pairs"), dim, batch, heads, length, x,
        strides, input(c, "cosines"), input(c, "sines"), row, &error);
    CHECK(status == HEED_OK, "heed_rope_apply: status %d: %s", (int)status, error.message);
}

/* A copy that may be written. */
static float *writable(const reference_case *c, const char *name)
{
    const reference_tensor *t = reference_find(c, name);
    float *x = check_alloc(t->count * sizeof *x, CHECK_GUARD_BEHIND);
    memcpy(x, reference_f32(c, name), t->count * sizeof *x);
    return x;
}

static void visit_apply(const reference_case *c)
{
    float *x = writable(c, "x");
    int64_t head_dim = reference_size(c, "head_dim"), dim = reference_size(c, "dim");
    rotate(c, x, reference_size(c, "batch"), reference_size(c, "heads"), reference_size(c, "length"), head_dim, dim,
        reference_size(c, "row"));
    const reference_tensor *y = reference_find(c, "y");
    compare(c, "y", x, 3.0 * unit * 2.0 * largest(reference_f32(c, "x"), y->count));
    for (size_t i = 0; i < y->count; i++)
        if ((int64_t)i % head_dim >= dim)
            CHECK(x[i] == reference_f32(c, "x")[i], "element %zu is not rotated, but changed", i);
}

void test_rope_apply(void)
{
    each_case("rope", visit_apply);
}

static void visit_attention(const reference_case *c, const heed_options *options)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = reference_size(c, "batch");
    a.num_heads = reference_size(c, "heads");
    a.num_kv_heads = reference_size(c, "kv_heads");
    a.seq_len_q = reference_size(c, "lq");
    a.seq_len_kv = reference_size(c, "lk");
    a.head_dim = reference_size(c, "dk");
    a.causal = (heed_causal)reference_size(c, "causal");
    a.window_left = reference_size(c, "window_left");
    float *q = writable(c, "q"), *k = writable(c, "k");
    rotate(c, q, a.batch, a.num_heads, a.seq_len_q, a.head_dim, a.head_dim, a.seq_len_kv - a.seq_len_q);
    rotate(c, k, a.batch, a.num_kv_heads, a.seq_len_kv, a.head_dim, a.head_dim, 0);
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = q;
    tensors.k = k;
    tensors.v = input(c, "v");
    tensors.out = output(c, "out");
    tensors.lse = output(c, "lse");
    heed_error error = { "" };
    heed_status status = heed_attend(&a, &tensors, options, &error);
    if (!CHECK(status == HEED_OK, "status %d: %s", (int)status, error.message))
        return;
    double bound = unit * (6.0 + reference_get(c, "magnitude"));
    double size_v = largest(reference_f32(c, "v"), reference_find(c, "v")->count);
    worst_attention = fmax(worst_attention, compare(c, "out", tensors.out, bound * size_v));
    compare(c, "lse", tensors.lse, 2.0 * bound);
}

void test_rope_attention(void)
{
    each_run("rope_attention", visit_attention);
    check_note("worst error %.0f %% of the bound", 100 * worst_attention);
}
