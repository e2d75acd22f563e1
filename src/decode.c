/* Attention for few query rows: each strip of keys and values is packed just before it is used, so that a cache is read once and
 * nothing of it is written back; keys may be split over threads.
 * May know: plans, row blocks, the backend table.  Must not know: instruction sets, lanes, masks, OpenMP.
 *
 * A block of keys gives a partial result (maximum, sum, weighted sum of values), merged in ascending order of blocks: at once, or,
 * where stretches of blocks are computed by different threads, when all are there.  Both are the same operations. */
#include "decode.h"

#include "keys.h"

#include <string.h>

int heed_is_short(const heed_plan *plan, const heed_sequence *s)
{
    const int64_t rows = s->len_q < plan->attention.seq_len_q ? s->len_q : plan->attention.seq_len_q;
    return rows * plan->group <= plan->block_rows;
}

static size_t width_v(const heed_plan *p)
{
    return heed_round_up((size_t)p->attention.head_dim_v, (size_t)p->backend->nr);
}

/* The rows' ranges within a strip of the block; 0 if no row sees any of it. */
static int strip_ranges(const heed_row_block *t, int32_t first, int32_t n, heed_range *strip)
{
    int any = 0;
    for (size_t i = 0; i < t->m; i++) {
        const int32_t lo = t->ranges[i].lo - first, hi = t->ranges[i].hi - first;
        strip[i].lo = lo < 0 ? 0 : lo;
        strip[i].hi = hi > n ? n : hi;
        if (strip[i].lo >= strip[i].hi)
            strip[i].lo = strip[i].hi = 0;
        any |= strip[i].hi;
    }
    return any;
}

/* 1 if few rows have the same ranges, so that one pass over those keys serves all. */
static int share_pass(const heed_row_block *t, const heed_range *ranges)
{
    int same = t->m <= HEED_FEW;
    for (size_t i = 1; i < t->m; i++)
        same &= ranges[i].lo == ranges[0].lo && ranges[i].hi == ranges[0].hi;
    return same;
}

/* The same for values, which must not be multiplied by where they are hidden: a weight of 0 changes no sum, unless the value is not
 * finite. */
static int share_values(const heed_row_block *t, const heed_range *ranges)
{
    return (t->takes_finite || !heed_mask_hides_keys(t->run->tensors)) && share_pass(t, ranges);
}

/* Few rows read f32 rows where they are, so what all see is one strip: fewer pauses in the stream.  Narrow types gain nothing, nor do
 * pages. */
static int32_t strip_keys(const heed_row_block *t, int values)
{
    const heed_plan *p = t->run->plan;
    const heed_type type = values ? p->attention.type_v : p->attention.type_k;
    const int whole = type == HEED_TYPE_F32 && !p->attention.page_size &&
                      (values ? share_values(t, t->ranges) : share_pass(t, t->ranges));
    return whole ? HEED_BLOCK_KV : (int32_t)p->strip;
}

/* Each strip of the block that a row sees, in ascending order: keys into scores, or weights into sums of values. */
static void for_strips(heed_row_block *t, int64_t block,
    void (*visit)(heed_row_block *t, int64_t block, int32_t first, size_t n, const heed_range *strip, float *sums),
    float *sums)
{
    const heed_plan *p = t->run->plan;
    heed_range *strip = (heed_range *)(t->scratch + p->map.strip_ranges);
    const int32_t keys = (int32_t)heed_block_keys(&t->seq, block), step = strip_keys(t, sums != NULL);
    for (int32_t first = 0; first < keys; first += step) {
        const int32_t n = keys - first < step ? keys - first : step;
        if (strip_ranges(t, first, n, strip))
            visit(t, block, first, (size_t)n, strip, sums);
    }
}

static void strip_scores(
    heed_row_block *t, int64_t block, int32_t first, size_t n, const heed_range *strip, float *sums)
{
    (void)sums;
    const heed_plan *p = t->run->plan;
    const size_t d = (size_t)p->attention.head_dim;
    float *panels = (float *)(t->scratch + p->map.packed_k);
    if (t->m <= HEED_FEW) {
        heed_few_scores(
            t->run, &t->seq, t->kv_head, block * HEED_BLOCK_KV + first, n, t->q, t->m, t->scores + first, panels);
        return;
    }
    heed_pack_keys(t->run, &t->seq, t->kv_head, block * HEED_BLOCK_KV + first, n, panels);
    p->backend->qk_tile(t->scores + first, HEED_LD_SCORES, t->q, d, panels, strip, t->m, d, p->attention.scale, NULL);
}

static void strip_values(
    heed_row_block *t, int64_t block, int32_t first, size_t n, const heed_range *strip, float *sums)
{
    const heed_plan *p = t->run->plan;
    if (share_values(t, strip)) {
        const size_t lo = (size_t)strip[0].lo;
        heed_few_values(t->run, &t->seq, t->kv_head, block * HEED_BLOCK_KV + first + strip[0].lo,
            (size_t)strip[0].hi - lo, t->scores + first + lo, t->m, sums, width_v(p));
        return;
    }
    float *panels = (float *)(t->scratch + p->map.packed_v);
    const int finite =
        heed_pack_values(t->run, &t->seq, t->kv_head, block * HEED_BLOCK_KV + first, n, p->strip, panels);
    if (!finite)
        heed_rows_mark_hidden(t, block);
    p->backend->pv_tile(sums, width_v(p), t->scores + first, HEED_LD_SCORES, panels, p->strip, strip, t->m,
        (size_t)p->attention.head_dim_v, finite, NULL, NULL);
}

/* ---- Partial results, where keys are split over threads ---- */

/* The partial result of a block of a wave's kv head: maxima, sums, then the weighted values. */
static float *partial_of(const heed_run_state *r, int64_t wave_head, int64_t block)
{
    const heed_plan *p = r->plan;
    return (float *)(r->workspace + p->partials) + (size_t)(wave_head * p->blocks_kv + block) * p->partial;
}

static char *partial_used(const heed_run_state *r, int64_t wave_head, int64_t block)
{
    return r->workspace + r->plan->finite + wave_head * r->plan->blocks_kv + block;
}

/* A state whose block results are the partial result's memory. */
static heed_rows state_of_partial(const heed_row_block *t, float *partial)
{
    const size_t padded = heed_round_up((size_t)t->run->plan->block_rows, HEED_LANES);
    heed_rows state = t->state;
    state.block_max = partial;
    state.block_sum = partial + padded;
    return state;
}

static float *sums_of_partial(const heed_row_block *t, float *partial)
{
    return partial + 2 * heed_round_up((size_t)t->run->plan->block_rows, HEED_LANES);
}

/* ---- Several blocks: keys of all, softmax of all, values of all, so that each is read in long pieces without a pause ---- */

/* A block of those at work: its scores and ranges, and where the softmax leaves the factors of what it merges. */
static void take_slot(heed_row_block *t, size_t slot)
{
    const heed_plan *p = t->run->plan;
    const size_t padded = heed_round_up((size_t)p->block_rows, HEED_LANES);
    float *factors = (float *)(t->scratch + p->map.factors) + slot * 2 * padded;
    t->scores = (float *)(t->scratch + p->map.scores) + slot * t->m * HEED_LD_SCORES;
    t->ranges = (heed_range *)(t->scratch + p->map.ranges) + slot * padded;
    t->state.keep = factors;
    t->state.add = factors + padded;
}

static int64_t num_slots(const heed_row_block *t)
{
    const int64_t slots = (int64_t)(t->run->plan->score_rows / t->m);
    return slots < HEED_BLOCKS_TOGETHER ? slots : HEED_BLOCKS_TOGETHER;
}

/* A block's scores into the slot; 0 if no row sees any key. */
static int block_scores(heed_row_block *t, int64_t block)
{
    if (!heed_rows_ranges(t, block))
        return 0;
    for_strips(t, block, strip_scores, NULL);
    return 1;
}

/* n is a multiple of HEED_LANES. */
static int has_nan(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += HEED_LANES) {
        int nan = 0;
        for (size_t j = i; j < i + HEED_LANES; j++)
            nan |= x[j] != x[j];
        if (nan)
            return 1;
    }
    return 0;
}

/* Of a block that has weights: its weighted values.  Where a mask hides keys one by one, first as if all values were finite, which is true but
 * for what a hidden key may hold; a NaN tells, and then hidden keys are left out. */
static void block_values(heed_row_block *t, int64_t block, float *sums)
{
    const size_t n = t->m * width_v(t->run->plan);
    t->takes_finite = heed_mask_hides_keys(t->run->tensors);
    memset(sums, 0, n * sizeof(float));
    for_strips(t, block, strip_values, sums);
    if (!t->takes_finite || !has_nan(sums, n))
        return;
    t->takes_finite = 0;
    memset(sums, 0, n * sizeof(float));
    for_strips(t, block, strip_values, sums);
}

/* After the maxima and sums have been merged into the rows' state. */
static void blend_sums(heed_row_block *t, const float *sums)
{
    const size_t width = width_v(t->run->plan);
    for (size_t i = 0; i < t->m; i++)
        t->run->plan->backend->blend_row(
            t->out + i * width, sums + i * width, t->state.keep[i], t->state.add[i], width);
}

/* Blocks that fit the slots together: merged into the rows' state at once, or, where a wave's kv head is given, left as partial
 * results. */
static void take_blocks(heed_row_block *t, heed_span blocks, int64_t wave_head)
{
    const heed_run_state *r = t->run;
    const int64_t n = blocks.hi - blocks.lo;
    char used[HEED_BLOCKS_TOGETHER];
    for (int64_t i = 0; i < n; i++) {
        take_slot(t, (size_t)i);
        used[i] = (char)block_scores(t, blocks.lo + i);
    }
    for (int64_t i = 0; i < n; i++) {
        if (!used[i])
            continue;
        take_slot(t, (size_t)i);
        const heed_rows state = wave_head < 0 ? t->state : state_of_partial(t, partial_of(r, wave_head, blocks.lo + i));
        heed_rows_softmax(t, &state, blocks.lo + i);
    }
    for (int64_t i = 0; i < n; i++) {
        if (!used[i])
            continue;
        take_slot(t, (size_t)i);
        float *sums = wave_head < 0 ? (float *)(t->scratch + r->plan->map.sums)
                                    : sums_of_partial(t, partial_of(r, wave_head, blocks.lo + i));
        block_values(t, blocks.lo + i, sums);
        if (wave_head < 0)
            blend_sums(t, sums);
    }
    if (wave_head >= 0)
        memcpy(partial_used(r, wave_head, blocks.lo), used, (size_t)n);
}

static void take_all_blocks(heed_row_block *t, heed_span blocks, int64_t wave_head)
{
    const int64_t together = num_slots(t);
    for (; blocks.lo < blocks.hi; blocks.lo += together) {
        const heed_span part = { blocks.lo, blocks.hi - blocks.lo < together ? blocks.hi : blocks.lo + together };
        take_blocks(t, part, wave_head);
    }
}

void heed_short_blocks(heed_row_block *t, heed_span blocks)
{
    take_all_blocks(t, blocks, -1);
}

/* ---- Split over threads ---- */

void heed_split_task(void *argument, int64_t index, int32_t worker)
{
    const heed_run_state *r = argument;
    const heed_plan *p = r->plan;
    const int64_t wave_head = index / p->splits, first = index % p->splits * p->split_blocks;
    const int64_t end = first + p->split_blocks < p->blocks_kv ? first + p->split_blocks : p->blocks_kv;
    heed_row_block t;
    heed_rows_begin(&t, r, r->first_head + wave_head, 0, worker);
    heed_rows_hide_weights(&t, first, end);
    memset(partial_used(r, wave_head, first), 0, (size_t)(end - first));
    heed_span seen = heed_rows_blocks(&t);
    seen.lo = seen.lo < first ? first : seen.lo;
    seen.hi = seen.hi > end ? end : seen.hi;
    if (seen.lo >= seen.hi)
        return;
    heed_rows_reset(&t);
    take_all_blocks(&t, seen, wave_head);
}

void heed_merge_task(void *argument, int64_t index, int32_t worker)
{
    const heed_run_state *r = argument;
    const heed_plan *p = r->plan;
    heed_row_block t;
    heed_rows_begin(&t, r, r->first_head + index, 0, worker);
    heed_rows_clear_weights(&t);
    if (t.m == 0)
        return;
    heed_rows_reset(&t);
    for (int64_t block = 0; block < p->blocks_kv; block++) {
        if (!*partial_used(r, index, block))
            continue;
        float *partial = partial_of(r, index, block);
        const heed_rows state = state_of_partial(&t, partial);
        p->backend->merge_rows[p->exp](&state, t.m);
        blend_sums(&t, sums_of_partial(&t, partial));
    }
    heed_rows_finish(&t);
}
