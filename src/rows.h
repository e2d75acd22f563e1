/* A block of query rows of one kv head at work: what the shared and the direct way of reading keys have in common.
 * May know: plans, masks, the backend table.  Must not know: where keys and values come from, who runs a task. */
#ifndef HEED_ROWS_H
#define HEED_ROWS_H

#include "mask.h"
#include "run.h"

typedef struct heed_row_block {
    const heed_run_state *run;
    heed_sequence seq;
    int64_t kv_head;   /* at work, within its batch entry */
    size_t heads;      /* of the task: all below is of the one at work, where the task has more */
    size_t head;       /* which of them that is */
    size_t slot;       /* decode: which of its blocks at work, HEED_BLOCKS_TOGETHER: none */
    int64_t wave_head; /* decode: the first of them within the wave, if partial results are wanted, else -1 */
    int64_t first_row; /* stacked row it begins with */
    size_t m;          /* rows */
    float *q, *scores, *out;
    heed_rows state;
    heed_range *ranges;
    heed_mask_row *mask_row;
    float *scales_k, *scales_v; /* of the block of keys at work, int8 only */
    char *scratch;              /* this worker's, at the offsets of plan->map */
    int takes_finite;           /* decode: values of keys hidden one by one are taken for finite, until a sum is NaN */
} heed_row_block;

/* Row block `index` (of plan->blocks_q) of `heads` kv heads of a sequence from `head` on, numbered over the whole batch. */
void heed_rows_begin(
    heed_row_block *t, const heed_run_state *r, int64_t head, size_t heads, int64_t index, int32_t worker);

/* Goes on with another of the task's kv heads.  What follows and speaks of all heads leaves any of them at work. */
void heed_rows_take_head(heed_row_block *t, size_t head);

/* Of all heads: queries side by side as f32, and a state that has seen nothing. */
void heed_rows_reset(heed_row_block *t);

/* Blocks of keys that the rows see between them. */
heed_span heed_rows_blocks(const heed_row_block *t);

/* Every row's visible keys within the block, into ranges; 0 if no row sees any. */
int heed_rows_ranges(heed_row_block *t, int64_t block);

/* Where the rows' bias for these blocks is; 0 if there is nothing to ask for. */
int heed_rows_ask(const heed_row_block *t, heed_ask *ask, heed_span blocks);

/* Scores as qk_tile left them into weights: scales, masks, softmax merged into state, hidden keys marked where values are not finite. */
void heed_rows_softmax(heed_row_block *t, const heed_rows *state, int64_t block);
void heed_rows_mark_hidden(heed_row_block *t, int64_t block);

/* Output, LSE and weights of all rows of all heads. */
void heed_rows_finish(heed_row_block *t);

/* The weights of all heads, if wanted, before any score: these blocks of keys are hidden; rows that a packed sequence does not have are 0. */
void heed_rows_hide_weights(heed_row_block *t, int64_t first_block, int64_t end_block);
void heed_rows_clear_weights(heed_row_block *t);

#endif
