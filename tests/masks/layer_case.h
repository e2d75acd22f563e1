/* One self-attention layer run through the public API in guarded memory, from its parts, and its oracle.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_LAYER_CASE_H
#define HEED_TESTS_LAYER_CASE_H

#include "check.h"

typedef struct layer_case {
    int64_t batch, seq, model, out, heads, kv_heads, dim, dim_v;
    heed_causal causal;
    heed_rope_pairs rope;
    int64_t rope_dim, window_left, window_right;
    float softcap;
    int64_t bias_heads; /* 0: no bias */
    bool in_out, with_lengths;
} layer_case;

/* x, weights, biases, tables of rotation, bias of the scores. */
/* clang-format off */
enum {
    LAYER_X, LAYER_WQ, LAYER_WK, LAYER_WV, LAYER_WO, LAYER_BQ, LAYER_BK, LAYER_BV, LAYER_BO,
    LAYER_COSINES, LAYER_SINES, LAYER_SCORES, LAYER_PARTS
};
/* clang-format on */

typedef struct layer_data {
    float *part[LAYER_PARTS];
    size_t size[LAYER_PARTS];
    int32_t lengths[4];
} layer_data;

typedef struct layer_result {
    float *y, *lse, *weights;
} layer_result;

/* Random values of about 1, weights of variance 1/inputs; a table from position 1000 on. */
layer_data layer_fill(const layer_case *c, check_rng *rng);
void layer_free(layer_data *d);

/* In guarded memory. */
layer_result layer_run(const layer_case *c, const layer_data *d, const heed_options *options);

/* Projections, rotations and attention one after another. */
layer_result layer_run_parts(const layer_case *c, const layer_data *d, const heed_options *options);
void layer_free_result(layer_result *r);

void layer_check_oracle(const layer_case *c, const layer_data *d, const layer_result *got);
void layer_same(const layer_case *c, const layer_result *got, const layer_result *want);

#endif
