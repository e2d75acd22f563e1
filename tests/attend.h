/* One attention problem run through the public API in guarded memory, in any storage order, and its oracle.
 * May know: the public header, check.h, oracle.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_ATTEND_H
#define HEED_TESTS_ATTEND_H

#include "check.h"
#include "oracle.h"

/* How the tensors lie in memory. */
typedef enum attend_storage {
    ATTEND_BHSD,
    ATTEND_BSHD,
    ATTEND_GAPS,      /* explicit strides, NaN between rows, heads and batch entries */
    ATTEND_SCRAMBLED, /* another order of dimensions for each tensor, with gaps */
    ATTEND_STORAGE_COUNT,
    ATTEND_BROADCAST = ATTEND_STORAGE_COUNT /* stride 0 for batch and head of k and v; needs equal_kv */
} attend_storage;

typedef struct attend_case {
    heed_attention shape; /* layout and strides are set by the run */
    const int32_t *lengths_q, *lengths_kv;
    const float *bias;   /* with shape.strides_bias; the oracle does not know it */
    const uint8_t *mask; /* with shape.strides_mask; neither */
    bool lse, weights, in_place;
    bool equal_kv; /* k and v are the same in every batch entry and head */
} attend_case;

/* Everything packed [batch][head][seq][dim]. */
typedef struct attend_data {
    float *q, *k, *v;
} attend_data;

typedef struct attend_result {
    float *out, *lse, *weights; /* lse and weights NULL when not asked for */
} attend_result;

/* Tensors of these pointers and nothing else. */
heed_tensors attend_tensors(const float *q, const float *k, const float *v, float *out);

/* How a case is run. */
typedef struct attend_run {
    heed_options options;
    attend_storage storage;
    check_side side;
    bool odd_workspace; /* an odd address, with a canary instead of a page behind */
} attend_run;

/* A case of these sizes with everything else at its default. */
attend_case attend_make(int64_t batch, int64_t num_heads, int64_t num_kv_heads, int64_t seq_len_q, int64_t seq_len_kv,
    int64_t head_dim, int64_t head_dim_v);

size_t attend_size_out(const attend_case *c);
size_t attend_size_lse(const attend_case *c);
size_t attend_size_weights(const attend_case *c);

/* Random values; rows beyond the lengths are NaN and Inf, which must never matter. */
attend_data attend_fill(const attend_case *c, check_rng *rng, check_values kind);
void attend_free_data(attend_data *data);

attend_run attend_plain(heed_isa isa);

/* Runs the case in guarded memory with NaN-filled outputs and a NaN-filled workspace of exactly the stated size, checks
 * statuses, gaps and canaries, and returns the outputs packed.  Frees what check_alloc and its like gave out. */
attend_result attend_execute(const attend_case *c, const attend_data *data, const attend_run *run);
void attend_free_result(attend_result *result);

bool attend_same(const attend_case *c, const attend_result *got, const attend_result *want);

/* Checks a result against the oracle with the bound derived in attend.c. */
void attend_check_oracle(const attend_case *c, const attend_data *data, const attend_result *got);

/* The scalar backend against the oracle, then every usable backend in this storage against the scalar bits. */
void attend_verify(const attend_case *c, const attend_data *data, const attend_run *run);

oracle_attention attend_oracle(const attend_case *c, const attend_data *data);

/* check_case with every field of the case. */
void attend_describe(const attend_case *c, const attend_run *run);

#endif /* HEED_TESTS_ATTEND_H */
