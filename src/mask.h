/* Which keys a row sees, and what is done to its scores.
 * May know: plans, the caller's tensors.  Must not know: tasks, kernels beyond their argument structs. */
#ifndef HEED_MASK_H
#define HEED_MASK_H

#include "plan.h"

/* One batch entry of a run: its lengths, where its rows begin, and the position of its first query. */
typedef struct heed_sequence {
    int64_t batch;
    int64_t len_q, len_kv;     /* its own */
    int64_t entry_q, entry_kv; /* its index along the batch dimension: 0 where sequences are packed */
    int64_t first_q, first_kv; /* rows along the seq dimension that precede it (varlen) */
    int64_t offset;            /* position of query 0 */
    int64_t left, right;       /* of the window and causal; INT64_MAX / 2: unlimited */
} heed_sequence;

heed_sequence heed_sequence_of(const heed_plan *plan, const heed_tensors *tensors, int64_t batch);

/* Keys lo <= j < hi pass length, causal and window for query i; lo = hi = 0 when none does.  Both ends grow with i. */
typedef struct heed_span {
    int64_t lo, hi;
} heed_span;
heed_span heed_visible(const heed_sequence *s, int64_t i);

/* All that queries first .. last see between them. */
heed_span heed_visible_to(const heed_sequence *s, int64_t first, int64_t last);

/* Blocks of keys that queries first .. last see between them; others are not read. */
heed_span heed_blocks_seen(const heed_sequence *s, int64_t first, int64_t last);

/* 1 if no query sees keys beyond its position. */
int heed_mask_is_causal(const heed_attention *attention);

/* 1 if keys may be hidden one by one. */
int heed_mask_hides_keys(const heed_tensors *tensors);

/* 1 if scores must be changed, or keys hidden one by one. */
int heed_mask_scores(const heed_plan *plan, const heed_tensors *tensors);

/* Asks memory for what heed_mask_range() looks at: rows of masks lie far apart, and their ends would be waited for. */
void heed_mask_ask(
    const heed_plan *plan, const heed_tensors *tensors, const heed_sequence *s, int64_t head, int64_t i, int64_t block);

/* The bias of query i of a head and key j. */
const float *heed_mask_bias(
    const heed_plan *plan, const heed_tensors *tensors, const heed_sequence *s, int64_t head, int64_t i, int64_t j);

/* The keys of a block that query i of a head sees: what length, causal and window leave, narrowed by the groups of 16 keys that
 * mask, bias and block mask hide at its ends; lo = hi = 0 when there are none. */
heed_range heed_mask_range(
    const heed_plan *plan, const heed_tensors *tensors, const heed_sequence *s, int64_t head, int64_t i, int64_t block);

/* 0 if mask, bias or block mask hide that block from every query of the kv head's group: it need not be read. */
int heed_mask_needs_block(
    const heed_plan *plan, const heed_tensors *tensors, const heed_sequence *s, int64_t kv_head, int64_t block);

/* Room for a row whose bias or mask cannot be read where it is. */
typedef struct heed_mask_row {
    float count[HEED_BLOCK_KV + HEED_LANES]; /* 0, 1, 2, ... */
    float bias[HEED_BLOCK_KV];
    uint8_t visible[HEED_BLOCK_KV];
} heed_mask_row;

/* The steps for scores as far as they are the same for all rows, and what one row changes of them. */
heed_score heed_mask_steps(const heed_plan *plan, const heed_mask_row *row);
void heed_mask_score(heed_score *steps, const heed_plan *plan, const heed_tensors *tensors, const heed_sequence *s,
    int64_t head, int64_t i, int64_t first, heed_range range, heed_mask_row *row);

/* Marks hidden keys (weight 0) of that row with -0, for values that are not finite. */
void heed_mask_mark(const heed_plan *plan, const heed_tensors *tensors, const heed_sequence *s, int64_t head, int64_t i,
    int64_t first, heed_range range, float *weights);

#endif
