/* Attention for many query rows: keys and values of a kv head are packed once and shared by all of its blocks of rows.
 * May know: plans, row blocks, the backend table.  Must not know: instruction sets, lanes, masks, OpenMP.
 *
 * For each block of keys: scores, softmax within the block, weighted values, merged into the rows' state in ascending order of
 * blocks.  Threads decide who computes a task, never where blocks begin: docs/numerics.md. */
#include "decode.h"
#include "keys.h"

/* Where a block's panels lie.  Every block but the last is full, so its panels begin at a multiple of HEED_BLOCK_KV keys. */
static float *shared_keys(const heed_run_state *r, int64_t wave_head, int64_t block)
{
    const heed_plan *p = r->plan;
    return (float *)(r->workspace + p->packed_k) + (size_t)wave_head * p->panels_k +
           (size_t)block * HEED_BLOCK_KV * (size_t)p->attention.head_dim;
}

static float *shared_values(const heed_run_state *r, int64_t wave_head, int64_t block)
{
    const heed_plan *p = r->plan;
    return (float *)(r->workspace + p->packed_v) + (size_t)wave_head * p->panels_v +
           (size_t)block * HEED_BLOCK_KV * p->width_v;
}

static char *shared_finite(const heed_run_state *r, int64_t wave_head, int64_t block)
{
    return r->workspace + r->plan->finite + wave_head * r->plan->blocks_kv + block;
}

void heed_pack_task(void *argument, int64_t index, int32_t worker)
{
    (void)worker;
    const heed_run_state *r = argument;
    const heed_plan *p = r->plan;
    const int64_t wave_head = index / p->blocks_kv, block = index % p->blocks_kv;
    const int64_t head = r->first_head + wave_head, kv_head = head % p->attention.num_kv_heads;
    const heed_sequence s = heed_sequence_of(p, r->tensors, head / p->attention.num_kv_heads);
    const heed_span seen = heed_blocks_seen(&s, 0, p->attention.seq_len_q - 1);
    if (heed_is_short(p, &s) || block < seen.lo || block >= seen.hi ||
        !heed_mask_needs_block(p, r->tensors, &s, kv_head, block))
        return;
    const size_t n = heed_block_keys(&s, block);
    heed_pack_keys(r, &s, kv_head, block * HEED_BLOCK_KV, n, shared_keys(r, wave_head, block));
    *shared_finite(r, wave_head, block) =
        (char)heed_pack_values(r, &s, kv_head, block * HEED_BLOCK_KV, n, n, shared_values(r, wave_head, block));
}

static void shared_block(heed_row_block *t, int64_t wave_head, int64_t block, const heed_ask *ask)
{
    const heed_run_state *r = t->run;
    const heed_plan *p = r->plan;
    const size_t d = (size_t)p->attention.head_dim, dv = (size_t)p->attention.head_dim_v;
    const int finite = *shared_finite(r, wave_head, block);
    p->backend->qk_tile(t->scores, HEED_LD_SCORES, t->q, d, shared_keys(r, wave_head, block), t->ranges, t->m, d,
        p->attention.scale, ask);
    heed_rows_softmax(t, &t->state, block);
    if (!finite)
        heed_rows_mark_hidden(t, block);
    p->backend->pv_tile(t->out, p->width_v, t->scores, HEED_LD_SCORES, shared_values(r, wave_head, block),
        heed_block_keys(&t->seq, block), t->ranges, t->m, dv, finite, t->state.keep, t->state.add);
}

/* The bias is asked for a block ahead, because finding what a row sees of a block reads of it already; that of the first block during
 * its own product. */
static void shared_blocks(heed_row_block *t, int64_t wave_head, heed_span seen)
{
    for (int64_t block = seen.lo; block < seen.hi; block++) {
        const heed_span wanted = { block == seen.lo ? block : block + 1, block + 2 < seen.hi ? block + 2 : seen.hi };
        heed_ask ask;
        if (heed_rows_ranges(t, block))
            shared_block(t, wave_head, block, heed_rows_ask(t, &ask, wanted) ? &ask : NULL);
    }
}

/* Long tasks first, so that short ones fill the end: under causal the last rows see the most keys, else the last block may have fewer
 * rows. */
static int64_t rows_of_task(const heed_plan *p, int64_t index)
{
    return heed_mask_is_causal(&p->attention) ? p->blocks_q - 1 - index : index;
}

void heed_query_task(void *argument, int64_t index, int32_t worker)
{
    const heed_run_state *r = argument;
    const heed_plan *p = r->plan;
    const int64_t wave_head = index / p->blocks_q;
    heed_row_block t;
    heed_rows_begin(&t, r, r->first_head + wave_head * p->together, (size_t)p->together,
        rows_of_task(p, index % p->blocks_q), worker);
    heed_rows_clear_weights(&t);
    if (t.m == 0)
        return;
    heed_rows_hide_weights(&t, 0, p->blocks_kv);
    heed_rows_reset(&t);
    const heed_span seen = heed_rows_blocks(&t);
    if (heed_is_short(p, &t.seq))
        heed_short_blocks(&t, seen);
    else
        shared_blocks(&t, wave_head, seen);
    heed_rows_finish(&t);
}
