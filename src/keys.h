/* Keys and values of a sequence where they are stored, tensors or pages of any type, on their way into f32 panels.
 * May know: plans, the pack kernels.  Must not know: rows, tasks, masks. */
#ifndef HEED_KEYS_H
#define HEED_KEYS_H

#include "mask.h"
#include "run.h"

/* Keys first .. first + n of the sequence, first a multiple of HEED_STRIP_KV, into panels that begin with them. */
void heed_pack_keys(
    const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t first, size_t n, float *panels);

/* The same for values; ld keys lie between panels.  Returns 1 if all are finite. */
int heed_pack_values(const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t first, size_t n,
    size_t ld, float *panels);

/* The same keys and values times at most HEED_FEW rows, straight from where they are: scores [m][n] with HEED_LD_SCORES between
 * rows, respectively sums that continue.  room: HEED_STRIP_KV x head_dim rounded up to HEED_LANES. */
void heed_few_scores(const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t first, size_t n,
    const float *q, size_t m, float *scores, float *room);
void heed_few_values(const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t first, size_t n,
    const float *weights, size_t m, float *sums, size_t ld_sums);

/* The scales of a block of keys, side by side, where there are any: HEED_BLOCK_KV + HEED_LANES floats each. */
void heed_gather_scales(
    const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t block, float *scales_k, float *scales_v);

/* Keys of a block that the sequence has. */
size_t heed_block_keys(const heed_sequence *s, int64_t block);

#endif
