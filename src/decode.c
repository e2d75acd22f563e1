/* Attention for few query rows: each strip of keys and values is packed just before it is used, so that a cache is read once and
 * nothing of it is written back; keys may be split over threads.
 * May know: plans, row blocks, the backend table.  Must not know: instruction sets, lanes, masks, OpenMP.
 *
 * A task has one kv head, or, where the heads of a token lie side by side, all of a sequence (plan->together): strip by strip, each head
 * in turn, so that memory is read in its own order.
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

/* ---- Partial results, where keys are split over threads ---- */

/* Of a block of the wave's kv head at work. */
static int64_t partial_index(const heed_row_block *t, int64_t block)
{
    return (t->wave_head + (int64_t)t->head) * t->run->plan->blocks_kv + block;
}

/* Maxima, sums, then the weighted values. */
static float *partial_of(const heed_row_block *t, int64_t block)
{
    const heed_plan *p = t->run->plan;
    return (float *)(t->run->workspace + p->partials) + (size_t)partial_index(t, block) * p->partial;
}

static char *partial_used(const heed_row_block *t, int64_t block)
{
    return t->run->workspace + t->run->plan->finite + partial_index(t, block);
}

/* The rows' state; its block results are the partial result's memory, if one is wanted. */
static heed_rows state_of(const heed_row_block *t, int64_t block)
{
    heed_rows state = t->state;
    if (t->wave_head >= 0) {
        state.block_max = partial_of(t, block);
        state.block_sum = state.block_max + heed_round_up((size_t)t->run->plan->block_rows, HEED_LANES);
    }
    return state;
}

/* A block's weighted values, of all rows. */
static float *sums_of(const heed_row_block *t, int64_t block)
{
    const heed_plan *p = t->run->plan;
    const size_t rows = (size_t)p->block_rows;
    if (t->wave_head < 0)
        return (float *)(t->scratch + p->map.sums) + t->head * rows * p->width_v;
    return partial_of(t, block) + 2 * heed_round_up(rows, HEED_LANES);
}

static void strip_scores(heed_row_block *t, int64_t block, int32_t first, size_t n, const heed_range *strip)
{
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

static void strip_values(heed_row_block *t, int64_t block, int32_t first, size_t n, const heed_range *strip)
{
    const heed_plan *p = t->run->plan;
    float *sums = sums_of(t, block);
    if (share_values(t, strip)) {
        const size_t lo = (size_t)strip[0].lo;
        heed_few_values(t->run, &t->seq, t->kv_head, block * HEED_BLOCK_KV + first + strip[0].lo,
            (size_t)strip[0].hi - lo, t->scores + first + lo, t->m, sums, p->width_v);
        return;
    }
    float *panels = (float *)(t->scratch + p->map.packed_v);
    const int finite =
        heed_pack_values(t->run, &t->seq, t->kv_head, block * HEED_BLOCK_KV + first, n, p->strip, panels);
    if (!finite)
        heed_rows_mark_hidden(t, block);
    p->backend->pv_tile(sums, p->width_v, t->scores + first, HEED_LD_SCORES, panels, p->strip, strip, t->m,
        (size_t)p->attention.head_dim_v, finite, NULL, NULL);
}

/* ---- Strips of a block, and the task's kv heads side by side ---- */

/* Of the task's kv heads. */
typedef struct head_span {
    size_t lo, hi;
} head_span;

/* Few rows read f32 rows where they are, so what all see is one strip: fewer pauses in the stream.  Narrow types gain nothing, nor do
 * pages.  Heads that are taken together go through few keys each at a time. */
static int32_t strip_keys(const heed_row_block *t, int values)
{
    const heed_plan *p = t->run->plan;
    const heed_type type = values ? p->attention.type_v : p->attention.type_k;
    if (t->heads > 1)
        return values ? p->together_values : p->together_keys;
    const int whole = type == HEED_TYPE_F32 && !p->attention.page_size &&
                      (values ? share_values(t, t->ranges) : share_pass(t, t->ranges));
    return whole ? HEED_BLOCK_KV : (int32_t)p->strip;
}

/* A block of those at work, of one of the task's kv heads: its scores and ranges, and where the softmax leaves the factors of what it
 * merges. */
static void take_slot(heed_row_block *t, size_t head, size_t slot)
{
    if (t->head == head && t->slot == slot)
        return;
    const heed_plan *p = t->run->plan;
    const size_t padded = heed_round_up((size_t)p->block_rows, HEED_LANES);
    const size_t place = head * HEED_BLOCKS_TOGETHER + slot;
    float *factors = (float *)(t->scratch + p->map.factors) + place * 2 * padded;
    heed_rows_take_head(t, head);
    t->slot = slot;
    t->scores = (float *)(t->scratch + p->map.scores) + (head * p->score_rows + slot * t->m) * HEED_LD_SCORES;
    t->ranges = (heed_range *)(t->scratch + p->map.ranges) + place * padded;
    t->state.keep = factors;
    t->state.add = factors + padded;
}

/* 1 if a row of the head at work sees a key of the slot's block. */
static char *used_of(const heed_row_block *t, size_t slot)
{
    return t->scratch + t->run->plan->map.used + t->head * HEED_BLOCKS_TOGETHER + slot;
}

/* The same as take_slot(); 0 if there is nothing to do for it. */
static int take_used(heed_row_block *t, size_t head, size_t slot)
{
    take_slot(t, head, slot);
    return *used_of(t, slot);
}

/* Each strip of the block that a row of these heads sees, in ascending order: keys into scores, or weights into sums of values. */
static void for_strips(heed_row_block *t, int64_t block, size_t slot, head_span heads, int values)
{
    heed_range *strip = (heed_range *)(t->scratch + t->run->plan->map.strip_ranges);
    take_slot(t, heads.lo, slot);
    const int32_t keys = (int32_t)heed_block_keys(&t->seq, block), step = strip_keys(t, values);
    for (int32_t first = 0; first < keys; first += step)
        for (size_t head = heads.lo; head < heads.hi; head++) {
            const int32_t n = keys - first < step ? keys - first : step;
            if (!take_used(t, head, slot) || !strip_ranges(t, first, n, strip))
                continue;
            if (values)
                strip_values(t, block, first, (size_t)n, strip);
            else
                strip_scores(t, block, first, (size_t)n, strip);
        }
}

/* ---- Several blocks: keys of all, softmax of all, values of all, so that each is read in long pieces without a pause ---- */

static int64_t num_slots(const heed_row_block *t)
{
    const int64_t slots = (int64_t)(t->run->plan->score_rows / t->m);
    return slots < HEED_BLOCKS_TOGETHER ? slots : HEED_BLOCKS_TOGETHER;
}

static void block_scores(heed_row_block *t, int64_t block, size_t slot)
{
    for (size_t head = 0; head < t->heads; head++) {
        take_slot(t, head, slot);
        *used_of(t, slot) = (char)heed_rows_ranges(t, block);
    }
    for_strips(t, block, slot, (head_span){ 0, t->heads }, 0);
}

static void block_softmax(heed_row_block *t, int64_t block, size_t slot)
{
    for (size_t head = 0; head < t->heads; head++)
        if (take_used(t, head, slot)) {
            const heed_rows state = state_of(t, block);
            heed_rows_softmax(t, &state, block);
        }
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

static void heads_values(heed_row_block *t, int64_t block, size_t slot, head_span heads)
{
    for (size_t head = heads.lo; head < heads.hi; head++)
        if (take_used(t, head, slot))
            memset(sums_of(t, block), 0, t->m * t->run->plan->width_v * sizeof(float));
    for_strips(t, block, slot, heads, 1);
}

/* The block's weighted values.  Where a mask hides keys one by one, first as if all values were finite, which is true but for what a
 * hidden key may hold; a NaN tells, and then hidden keys are left out. */
static void block_values(heed_row_block *t, int64_t block, size_t slot)
{
    t->takes_finite = heed_mask_hides_keys(t->run->tensors);
    heads_values(t, block, slot, (head_span){ 0, t->heads });
    if (!t->takes_finite)
        return;
    t->takes_finite = 0;
    for (size_t head = 0; head < t->heads; head++)
        if (take_used(t, head, slot) && has_nan(sums_of(t, block), t->m * t->run->plan->width_v))
            heads_values(t, block, slot, (head_span){ head, head + 1 });
}

/* After the maxima and sums have been merged into the rows' state. */
static void blend_sums(heed_row_block *t, int64_t block)
{
    const size_t width = t->run->plan->width_v;
    const float *sums = sums_of(t, block);
    for (size_t i = 0; i < t->m; i++)
        t->run->plan->backend->blend_row(
            t->out + i * width, sums + i * width, t->state.keep[i], t->state.add[i], width);
}

/* Merged into the rows' state, or left as a partial result. */
static void keep_block(heed_row_block *t, int64_t block, size_t slot)
{
    for (size_t head = 0; head < t->heads; head++) {
        const int used = take_used(t, head, slot);
        if (t->wave_head >= 0)
            *partial_used(t, block) = (char)used;
        else if (used)
            blend_sums(t, block);
    }
}

/* Blocks that fit the slots together. */
static void take_blocks(heed_row_block *t, heed_span blocks)
{
    const int64_t n = blocks.hi - blocks.lo;
    for (int64_t i = 0; i < n; i++)
        block_scores(t, blocks.lo + i, (size_t)i);
    for (int64_t i = 0; i < n; i++)
        block_softmax(t, blocks.lo + i, (size_t)i);
    for (int64_t i = 0; i < n; i++) {
        block_values(t, blocks.lo + i, (size_t)i);
        keep_block(t, blocks.lo + i, (size_t)i);
    }
}

void heed_short_blocks(heed_row_block *t, heed_span blocks)
{
    const int64_t together = num_slots(t);
    for (; blocks.lo < blocks.hi; blocks.lo += together) {
        const heed_span part = { blocks.lo, blocks.hi - blocks.lo < together ? blocks.hi : blocks.lo + together };
        take_blocks(t, part);
    }
}

/* ---- Split over threads ---- */

void heed_split_task(void *argument, int64_t index, int32_t worker)
{
    const heed_run_state *r = argument;
    const heed_plan *p = r->plan;
    const int64_t wave_head = index / p->splits * p->together, first = index % p->splits * p->split_blocks;
    const int64_t end = first + p->split_blocks < p->blocks_kv ? first + p->split_blocks : p->blocks_kv;
    heed_row_block t;
    heed_rows_begin(&t, r, r->first_head + wave_head, (size_t)p->together, 0, worker);
    t.wave_head = wave_head;
    heed_rows_hide_weights(&t, first, end);
    for (size_t head = 0; head < t.heads; head++) {
        heed_rows_take_head(&t, head);
        memset(partial_used(&t, first), 0, (size_t)(end - first));
    }
    heed_span seen = heed_rows_blocks(&t);
    seen.lo = seen.lo < first ? first : seen.lo;
    seen.hi = seen.hi > end ? end : seen.hi;
    if (seen.lo >= seen.hi)
        return;
    heed_rows_reset(&t);
    heed_short_blocks(&t, seen);
}

void heed_merge_task(void *argument, int64_t index, int32_t worker)
{
    const heed_run_state *r = argument;
    const heed_plan *p = r->plan;
    heed_row_block t;
    heed_rows_begin(&t, r, r->first_head + index, 1, 0, worker);
    heed_rows_clear_weights(&t);
    if (t.m == 0)
        return;
    t.wave_head = index;
    heed_rows_reset(&t);
    for (int64_t block = 0; block < p->blocks_kv; block++) {
        if (!*partial_used(&t, block))
            continue;
        const heed_rows state = state_of(&t, block);
        p->backend->merge_rows[p->exp](&state, t.m);
        blend_sums(&t, block);
    }
    heed_rows_finish(&t);
}
