/* One attention problem with any of the steps and masks: made at random, run in any storage in guarded memory, checked.
 * May know: the public header, check.h, mask_oracle.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_MASKED_H
#define HEED_TESTS_MASKED_H

#include "check.h"
#include "mask_oracle.h"

/* shape: sizes and options; a run sets layout, strides of tensors and varlen.  All pointers are the problem's own;
 * NULL is what the problem does not have. */
typedef struct masked {
    heed_attention shape;
    float *q, *k, *v; /* packed [batch][head][row][dim] */
    float *bias;
    uint8_t *mask;
    size_t bias_count, mask_count; /* elements from the first to the last, at shape.strides_bias and strides_mask */
    uint8_t *blocks;
    float *slopes, *sinks;
    int32_t *lengths_q, *lengths_kv;
    bool weights;
} masked;

/* How tensors lie in memory.  With varlen the sequences' own rows follow one another. */
typedef enum masked_storage {
    MASKED_BHSD,
    MASKED_BSHD,
    MASKED_SCRAMBLED, /* another order of dimensions for each tensor, with gaps */
    MASKED_VARLEN,
    MASKED_VARLEN_SCRAMBLED,
    MASKED_STORAGE_COUNT
} masked_storage;

typedef struct masked_run {
    heed_isa isa;
    heed_exp exp;
    int32_t threads;
    masked_storage storage;
    check_side side;
    bool odd_workspace; /* an odd address, with a canary instead of a page behind */
    bool in_place;      /* out is q; needs equal head sizes */
    bool executor;      /* threads of the test's own instead of OpenMP */
} masked_run;

/* Packed whatever the storage was; rows beyond a sequence's queries hold what the contract says of them. */
typedef struct masked_result {
    float *out, *lse, *weights; /* weights NULL when not asked for */
} masked_result;

/* ---- Problems (masked_make.c, masked_part.c) ---- */

/* Normal values, nothing masked. */
masked masked_make(check_rng *rng, int64_t batch, int64_t num_heads, int64_t num_kv_heads, int64_t queries,
    int64_t keys, int64_t dim, int64_t dim_v);

/* Sizes, options, strides and values drawn together.  More than one task and block of keys when large. */
masked masked_random(check_rng *rng, bool large);

/* Random contents for one step; broadcast: bit 8 batch, 4 head, 2 query, 1 key.  The dimensions lie in memory in random
 * order, sometimes with gaps. */
void masked_add_bias(masked *m, check_rng *rng, unsigned broadcast);
void masked_add_mask(masked *m, check_rng *rng, unsigned broadcast);
void masked_add_blocks(masked *m, check_rng *rng, int64_t block_q, int64_t block_kv);
void masked_add_slopes(masked *m, check_rng *rng);
void masked_add_sinks(masked *m, check_rng *rng);
void masked_add_lengths(masked *m, check_rng *rng, bool queries, bool keys);

/* A full, packed [batch][head][query][key] bias or mask of zeros in place of any other. */
void masked_full_bias(masked *m);
void masked_full_mask(masked *m);
int64_t masked_place(const masked *m, int64_t batch, int64_t head, int64_t query, int64_t key); /* its elements */

/* Batch entry, queries and keys first .. beyond of a problem as a problem of its own. */
typedef struct masked_range {
    int64_t batch, first_q, end_q, first_kv, end_kv;
} masked_range;

/* The part alone: every row sees there what it saw of these keys.  Ranges begin at the borders of mask blocks. */
masked masked_part(const masked *m, const masked_range *range);
masked_range masked_sequence(const masked *m, int64_t batch); /* its own queries and keys */

masked masked_copy(const masked *m);
void masked_free(masked *m);

int64_t masked_rows(const masked *m); /* batch x num_heads x seq_len_q */

/* Element of bias or mask. */
int64_t masked_at(const heed_mask_strides *s, int64_t batch, int64_t head, int64_t query, int64_t key);

/* ---- Runs (masked.c) ---- */

masked_run masked_plain(heed_isa isa);

/* A storage, side, executor and so on at random; what the problem does not allow is left out. */
masked_run masked_random_run(check_rng *rng, const masked *m, heed_isa isa, heed_exp exp, int32_t threads);

/* check_case with every field. */
void masked_describe(const masked *m, const masked_run *run);

/* Runs in guarded memory with NaN-filled outputs and a workspace of exactly the stated size, checks statuses, gaps and
 * canaries.  Frees what check_alloc and its like gave out. */
masked_result masked_execute(const masked *m, const masked_run *run);
void masked_free_result(masked_result *result);

/* Workers of the plan with that many threads. */
int masked_workers(const masked *m, const masked_run *run);

/* Bias, mask, blocks, slopes and sinks in guarded memory, for a run of other tensors. */
void masked_place_masks(const masked *m, check_side side, heed_attention *shape, heed_tensors *t);

/* LSE of rows that varlen does not have: what it is of padding, without a key but the sink. */
void masked_fill_missing(const masked *m, masked_result *r);

/* ---- Comparison (masked_check.c) ---- */

mask_oracle masked_oracle(const masked *m);
bool masked_sees(const masked *m, int64_t batch, int64_t head, int64_t query, int64_t key);

/* Against the oracle within its bounds; *worst becomes the greatest difference in units of the bound, if that is
 * greater. */
bool masked_check_oracle(const masked *m, const masked_result *got, double *worst);

/* The same where the scores were off by that much before any arithmetic. */
bool masked_check_near(const masked *m, const masked_result *got, double score_error);

bool masked_same(const masked *m, const masked_result *got, const masked_result *want);

/* One row of each. */
bool masked_same_row(const masked *m, const masked_result *got, const masked_result *want, int64_t row);

/* Rows of a part against those of the whole: out and lse, and weights of a part that begins at the first key. */
bool masked_same_part(const masked *whole, const masked_result *all, const masked *part, const masked_result *got,
    const masked_range *range);

/* Runs both on every backend and expects equal bits. */
void masked_both(const masked *a, const masked *b);

#endif /* HEED_TESTS_MASKED_H */
