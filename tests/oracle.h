/* The reference the library is measured against: plain double-precision loops, and a plain f32 softmax attention.
 * May know: the C library.
 * Must not know: any header or code of heed; what it computes is written down here independently. */
#ifndef HEED_TESTS_ORACLE_H
#define HEED_TESTS_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum oracle_causal {
    ORACLE_SEE_ALL,
    ORACLE_BOTTOM_RIGHT, /* key j <= query i + own keys - own queries */
    ORACLE_TOP_LEFT,     /* j <= i */
    ORACLE_OFFSET        /* j <= i + causal_offset */
} oracle_causal;

typedef struct oracle_strides {
    int64_t batch, head, seq; /* in elements; the last dimension is contiguous */
} oracle_strides;

typedef struct oracle_attention {
    int64_t batch, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, head_dim_v;
    double scale; /* 0 means 1/sqrt(head_dim) */
    oracle_causal causal;
    int64_t causal_offset;
    const float *q, *k, *v;
    oracle_strides strides_q, strides_k, strides_v;
    const int32_t *lengths_q, *lengths_kv; /* per batch entry; NULL: all */
} oracle_attention;

/* Sets the strides of [batch][head][seq][dim] storage without gaps. */
void oracle_set_packed(oracle_attention *problem);

/* Writes out [batch][num_heads][seq_len_q][head_dim_v], lse [batch][num_heads][seq_len_q] and weights
 * [batch][num_heads][seq_len_q][seq_len_kv]; each may be NULL.  Hidden keys are never looked at.  A visible score of
 * -inf has weight 0; NaN or +inf makes the row NaN; a row without a score above -inf is 0 with lse -inf, as are rows
 * beyond the query length.  False when memory runs out. */
bool oracle_attend(const oracle_attention *problem, double *out, double *lse, double *weights);

/* The same in f32, the usual three passes (scores and maximum; exponentials and their sum; weighted values): what a
 * straightforward implementation without tricks achieves.  out only. */
bool oracle_three_pass(const oracle_attention *problem, float *out);

/* y[r][o] = bias[o] + sum over i of x[r][i] w[i * stride_in + o * stride_out]; y packed, bias may be NULL. */
typedef struct oracle_linear {
    int64_t in_features, out_features;
    const float *weight;
    int64_t stride_in, stride_out;
    const float *bias;
} oracle_linear;

void oracle_project(const oracle_linear *linear, int64_t rows, const float *x, int64_t stride_x, double *y);

/* x -> q, k, v -> attention -> output projection, everything in double.  weight_*: [out][in], or [in][out] when in_out. */
typedef struct oracle_layer {
    int64_t batch, seq_len, model_dim, out_dim, num_heads, num_kv_heads, head_dim, head_dim_v;
    double scale;
    oracle_causal causal;
    int64_t causal_offset;
    bool in_out;
    const float *x; /* [batch][seq_len][model_dim] */
    const float *weight_q, *weight_k, *weight_v, *weight_o;
    const float *bias_q, *bias_k, *bias_v, *bias_o; /* each may be NULL */
    const int32_t *lengths;                         /* may be NULL */
} oracle_layer;

/* y [batch][seq_len][out_dim]; lse and weights as in oracle_attend, may be NULL. */
bool oracle_run_layer(const oracle_layer *layer, double *y, double *lse, double *weights);

/* y[r][c] packed = softmax of the first lengths[r] values of row r, 0 beyond; lengths may be NULL (all cols). */
void oracle_softmax(int64_t rows, int64_t cols, const float *x, int64_t stride_x, const int32_t *lengths, double *y);

/* exp of a float, rounded correctly but for about one value in 2^28. */
double oracle_exp(float x);

#endif /* HEED_TESTS_ORACLE_H */
