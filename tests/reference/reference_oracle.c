/* The tests' own oracle against PyTorch, both in f64: all other tests trust it, here it answers for itself.
 * May know: reference_test.h, oracle.h.
 * Must not know: heed beyond the values of heed_causal that the cases carry. */
#include "oracle.h"
#include "reference_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The oracle knows lengths, strides and causal; cases with more than that are heed's alone. */
static bool oracle_knows(const reference_case *c)
{
    static const char *const tensors[] = { "bias", "mask", "block_mask", "slopes", "sinks", "offsets_q" };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        if (reference_find(c, tensors[i]))
            return false;
    return reference_get(c, "softcap") == 0.0 && reference_get(c, "window_left") < 0.0 &&
           reference_get(c, "window_right") < 0.0;
}

static oracle_attention problem_of(const reference_case *c)
{
    static const oracle_causal causal[] = { ORACLE_SEE_ALL, ORACLE_BOTTOM_RIGHT, ORACLE_TOP_LEFT, ORACLE_OFFSET };
    oracle_attention p = { .batch = reference_size(c, "batch"),
        .num_heads = reference_size(c, "heads"),
        .num_kv_heads = reference_size(c, "kv_heads"),
        .seq_len_q = reference_size(c, "lq"),
        .seq_len_kv = reference_size(c, "lk"),
        .head_dim = reference_size(c, "dk"),
        .head_dim_v = reference_size(c, "dv"),
        .scale = reference_get(c, "scale"),
        .causal = causal[reference_size(c, "causal")],
        .causal_offset = reference_size(c, "offset"),
        .q = reference_f32(c, "q"),
        .k = reference_f32(c, "k"),
        .v = reference_f32(c, "v"),
        .lengths_q = reference_i32_or_null(c, "lengths_q"),
        .lengths_kv = reference_i32_or_null(c, "lengths_kv") };
    oracle_set_packed(&p);
    return p;
}

static void visit_oracle(const reference_case *c)
{
    if (reference_size(c, "bshd") || !oracle_knows(c))
        return;
    oracle_attention problem = problem_of(c);
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

void test_oracle(void)
{
    each_case("attention", visit_oracle);
}
