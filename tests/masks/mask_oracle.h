/* A double-precision reference of attention with every step from product to weight, and what f32 arithmetic may err.
 * May know: the C library.
 * Must not know: any header or code of heed; what it computes is written down here independently. */
#ifndef HEED_TESTS_MASK_ORACLE_H
#define HEED_TESTS_MASK_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where query i of a sequence stands among its keys. */
typedef enum mask_oracle_align {
    MASK_ORACLE_END,   /* i + own keys - own queries */
    MASK_ORACLE_START, /* i */
    MASK_ORACLE_OFFSET /* i + offset */
} mask_oracle_align;

typedef struct mask_oracle_strides {
    int64_t batch, head, query, key; /* in elements, 0 repeats */
} mask_oracle_strides;

typedef struct mask_oracle {
    int64_t batch, num_heads, num_kv_heads, queries, keys, dim, dim_v;
    double scale;   /* 0: 1/sqrt(dim) */
    double softcap; /* 0: none */
    mask_oracle_align align;
    int64_t offset;
    bool causal;                       /* keys behind the query's position are hidden */
    int64_t window_left, window_right; /* -1: no limit */
    const float *q, *k, *v;            /* packed [batch][head][row][dim] */
    const int32_t *lengths_q, *lengths_kv;
    const float *bias;
    mask_oracle_strides bias_strides;
    const uint8_t *mask;
    mask_oracle_strides mask_strides;
    const float *slopes, *sinks; /* one a head */
    const uint8_t *blocks;       /* [queries in blocks of block_q][keys in blocks of block_kv] */
    int64_t block_q, block_kv;
    double score_error; /* how far off the scores are before any arithmetic: widens the bounds */
} mask_oracle;

/* [batch][num_heads][queries] rows: out of dim_v elements, lse, weights of keys elements; and for each of them the
 * greatest difference that f32 arithmetic explains (derived in mask_oracle.c). */
typedef struct mask_oracle_result {
    double *out, *lse, *weights, *out_bound, *lse_bound, *weights_bound;
} mask_oracle_result;

/* Whether the row sees the key.  Looks at no value but the bias. */
bool mask_oracle_sees(const mask_oracle *p, int64_t batch, int64_t head, int64_t query, int64_t key);

/* Hidden keys are never looked at.  A visible score of -inf weighs 0; NaN or +inf makes the row NaN (weights of hidden
 * keys and of scores of -inf stay 0).  A row without a score above -inf is 0 with lse -inf.  A sink is a score that
 * every row sees and that has no value.  False when memory runs out. */
bool mask_oracle_run(const mask_oracle *p, mask_oracle_result *result);
void mask_oracle_free(mask_oracle_result *result);

#endif /* HEED_TESTS_MASK_ORACLE_H */
