/* A block of query rows of one kv head at work: queries, ranges, masks, softmax, and what is written at the end.
 * May know: plans, masks, the backend table, storage types of q and out.  Must not know: where keys and values come from. */
#include "rows.h"

#include "convert.h"
#include "keys.h"
#include "log.h"

#include <math.h>
#include <string.h>

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t query_head(const heed_row_block *t, size_t i)
{
    const int64_t group = t->run->plan->group;
    return t->kv_head * group + (t->first_row + (int64_t)i) % group;
}

static int64_t query_position(const heed_row_block *t, size_t i)
{
    return (t->first_row + (int64_t)i) / t->run->plan->group;
}

/* What the head at work has for itself. */
static void find_head(heed_row_block *t)
{
    const heed_plan *p = t->run->plan;
    const size_t rows = (size_t)p->block_rows, padded = heed_round_up(rows, HEED_LANES);
    t->q = (float *)(t->scratch + p->map.q) + t->head * rows * (size_t)p->attention.head_dim;
    t->out = (float *)(t->scratch + p->map.out) + t->head * rows * p->width_v;
    float *state = (float *)(t->scratch + p->map.state) + t->head * 6 * padded;
    t->state = (heed_rows){ state, state + padded, state + 2 * padded, state + 3 * padded, state + 4 * padded,
        state + 5 * padded };
    t->slot = HEED_BLOCKS_TOGETHER;
}

void heed_rows_take_head(heed_row_block *t, size_t head)
{
    if (t->head == head)
        return;
    t->kv_head += (int64_t)head - (int64_t)t->head;
    t->head = head;
    find_head(t);
}

void heed_rows_begin(
    heed_row_block *t, const heed_run_state *r, int64_t head, size_t heads, int64_t index, int32_t worker)
{
    const heed_plan *p = r->plan;
    t->run = r;
    t->scratch = r->workspace + p->scratch + (size_t)worker * p->map.size;
    t->kv_head = head % p->attention.num_kv_heads;
    t->heads = heads;
    t->head = 0;
    t->wave_head = -1;
    t->seq = heed_sequence_of(p, r->tensors, head / p->attention.num_kv_heads);
    t->first_row = index * p->block_rows;
    t->m = (size_t)min64(p->rows - t->first_row, p->block_rows);
    if (p->attention.varlen) { /* rows beyond the sequence do not exist */
        const int64_t left = t->seq.len_q * p->group - t->first_row;
        t->m = left < 0 ? 0 : (size_t)min64((int64_t)t->m, left);
    }
    find_head(t);
    t->scores = (float *)(t->scratch + p->map.scores);
    t->ranges = (heed_range *)(t->scratch + p->map.ranges);
    t->mask_row = (heed_mask_row *)(t->scratch + p->map.mask_row);
    t->scales_k = (float *)(t->scratch + p->map.scales);
    t->scales_v = t->scales_k + HEED_BLOCK_KV + HEED_LANES;
}

/* Element offset of a row of q or out. */
static int64_t row_offset(const heed_row_block *t, const heed_strides *s, size_t i)
{
    return t->seq.entry_q * s->batch + query_head(t, i) * s->head + (t->seq.first_q + query_position(t, i)) * s->seq;
}

static float *weights_of(const heed_row_block *t, size_t i)
{
    const heed_attention *a = &t->run->plan->attention;
    const int64_t row = (t->seq.batch * a->num_heads + query_head(t, i)) * a->seq_len_q + query_position(t, i);
    return t->run->tensors->weights + row * a->seq_len_kv;
}

/* Queries side by side, whatever their strides and type: also what lets out be q. */
static void gather_queries(heed_row_block *t)
{
    const heed_attention *a = &t->run->plan->attention;
    const size_t d = (size_t)a->head_dim;
    for (size_t i = 0; i < t->m; i++) {
        const int64_t offset = row_offset(t, &a->strides_q, i) * (int64_t)heed_type_size(a->type_q);
        t->run->plan->backend->widen_row(a->type_q, t->q + i * d, (const char *)t->run->tensors->q + offset, d);
    }
}

static void reset_head(heed_row_block *t)
{
    const heed_plan *p = t->run->plan;
    const size_t padded = heed_round_up(t->m, HEED_LANES);
    for (size_t i = 0; i < padded; i++) {
        t->state.max[i] = t->state.block_max[i] = -INFINITY;
        t->state.sum[i] = t->state.block_sum[i] = 0.0f;
        t->state.keep[i] = t->state.add[i] = 0.0f;
    }
    memset(t->out, 0, t->m * p->width_v * sizeof(float));
    const heed_span seen = heed_rows_blocks(t);
    if (seen.lo < seen.hi)
        gather_queries(t);
}

void heed_rows_reset(heed_row_block *t)
{
    for (int32_t j = 0; t->run->masks_scores && j < HEED_BLOCK_KV + HEED_LANES; j++)
        t->mask_row->count[j] = (float)j;
    for (size_t head = 0; head < t->heads; head++) {
        heed_rows_take_head(t, head);
        reset_head(t);
    }
}

heed_span heed_rows_blocks(const heed_row_block *t)
{
    return t->m ? heed_blocks_seen(&t->seq, query_position(t, 0), query_position(t, t->m - 1)) : (heed_span){ 0, 0 };
}

/* Heads and positions counted along the rows, because this is asked for each row of each block and two divisions a row are half
 * a percent of a short problem. */
typedef struct place {
    int64_t head, position, last_head, group;
} place;

static place place_of(const heed_row_block *t, size_t row)
{
    const int64_t group = t->run->plan->group;
    const place p = { query_head(t, row), query_position(t, row), (t->kv_head + 1) * group - 1, group };
    return p;
}

static void next_place(place *p)
{
    if (p->head++ == p->last_head) {
        p->head -= p->group;
        p->position++;
    }
}

enum { ROWS_AHEAD = 8 /* whose masks are asked for */ };

int heed_rows_ranges(heed_row_block *t, int64_t block)
{
    const heed_run_state *r = t->run;
    const size_t asking =
        heed_mask_hides_keys(r->tensors) && t->m > ROWS_AHEAD ? t->m - ROWS_AHEAD : 0; /* rows with one so far ahead */
    place at = place_of(t, 0), ahead = asking ? place_of(t, ROWS_AHEAD) : at;
    int any = 0;
    for (size_t i = 0; i < t->m; i++, next_place(&at)) {
        if (i < asking) {
            heed_mask_ask(r->plan, r->tensors, &t->seq, ahead.head, ahead.position, block);
            next_place(&ahead);
        }
        t->ranges[i] = heed_mask_range(r->plan, r->tensors, &t->seq, at.head, at.position, block);
        any |= t->ranges[i].hi > t->ranges[i].lo;
    }
    return any;
}

int heed_rows_ask(const heed_row_block *t, heed_ask *ask, heed_span blocks)
{
    const heed_plan *p = t->run->plan;
    uintptr_t *rows = (uintptr_t *)(t->scratch + p->map.asks);
    if (!t->run->tensors->bias || p->attention.strides_bias.key != 1 || blocks.lo >= blocks.hi)
        return 0;
    place at = place_of(t, 0);
    for (size_t i = 0; i < t->m; i++, next_place(&at))
        rows[i] =
            (uintptr_t)heed_mask_bias(p, t->run->tensors, &t->seq, at.head, at.position, blocks.lo * HEED_BLOCK_KV);
    ask->rows = rows;
    ask->blocks = (size_t)(blocks.hi - blocks.lo);
    return 1;
}

/* Also finds the rows' maxima. */
static void mask_scores(heed_row_block *t, int64_t block, size_t first, size_t end, float *block_max)
{
    const heed_plan *p = t->run->plan;
    heed_score op = heed_mask_steps(p, t->mask_row);
    if (p->attention.type_k == HEED_TYPE_I8)
        op.key_scale = t->scales_k;
    place at = place_of(t, first);
    for (size_t i = first; i < end; i++, next_place(&at)) {
        const heed_range range = t->ranges[i];
        block_max[i] = -INFINITY;
        if (range.lo >= range.hi)
            continue;
        heed_mask_score(
            &op, p, t->run->tensors, &t->seq, at.head, at.position, block * HEED_BLOCK_KV, range, t->mask_row);
        block_max[i] = p->backend->score_row(t->scores + i * HEED_LD_SCORES, (size_t)range.lo, (size_t)range.hi, &op);
    }
}

static void hide_weights(const heed_row_block *t, int64_t first, int64_t end)
{
    for (size_t i = 0; i < t->m; i++) {
        float *w = weights_of(t, i);
        for (int64_t j = first; j < end; j++)
            w[j] = -INFINITY;
    }
}

void heed_rows_hide_weights(heed_row_block *t, int64_t first_block, int64_t end_block)
{
    const int64_t end = min64(end_block * HEED_BLOCK_KV, t->run->plan->attention.seq_len_kv);
    for (size_t head = 0; t->run->tensors->weights && head < t->heads; head++) {
        heed_rows_take_head(t, head);
        hide_weights(t, first_block * HEED_BLOCK_KV, end);
    }
}

static void clear_weights(const heed_row_block *t)
{
    const heed_plan *p = t->run->plan;
    const size_t all = (size_t)min64(p->rows - t->first_row, p->block_rows);
    for (size_t i = t->m; i < all; i++)
        memset(weights_of(t, i), 0, (size_t)p->attention.seq_len_kv * sizeof(float));
}

void heed_rows_clear_weights(heed_row_block *t)
{
    for (size_t head = 0; t->run->tensors->weights && head < t->heads; head++) {
        heed_rows_take_head(t, head);
        clear_weights(t);
    }
}

/* The scores wait in the weights' own memory until the row's maximum and sum are known. */
static void keep_scores(const heed_row_block *t, int64_t block, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        const size_t lo = (size_t)t->ranges[i].lo, hi = (size_t)t->ranges[i].hi;
        memcpy(weights_of(t, i) + block * HEED_BLOCK_KV + lo, t->scores + i * HEED_LD_SCORES + lo,
            (hi - lo) * sizeof(float));
    }
}

/* int8 values: each weight times its value's scale.  Where keys are hidden one by one their weight becomes -0 first and stays so,
 * whatever their scale is; outside a row's range weights are -0 already. */
static void scale_weights(heed_row_block *t, int64_t block)
{
    const int hides = heed_mask_hides_keys(t->run->tensors);
    if (hides)
        heed_rows_mark_hidden(t, block);
    for (size_t i = 0; i < t->m; i++) {
        const size_t lo = (size_t)t->ranges[i].lo, hi = (size_t)t->ranges[i].hi;
        float *w = t->scores + i * HEED_LD_SCORES;
        if (lo < hi && !hides)
            t->run->plan->backend->scale_row(w + lo, t->scales_v + lo, hi - lo);
        for (size_t j = lo; hides && j < hi; j++)
            if (heed_bits_of(w[j]) != 0x80000000u)
                w[j] *= t->scales_v[j];
    }
}

void heed_rows_softmax(heed_row_block *t, const heed_rows *state, int64_t block)
{
    const heed_plan *p = t->run->plan;
    heed_gather_scales(t->run, &t->seq, t->kv_head, block, t->scales_k, t->scales_v);
    /* A tile of rows at a time: what masks have done to its scores is still in L1 when the softmax reads them. */
    for (size_t i = 0; i < t->m; i += (size_t)p->backend->mr) {
        const size_t end = t->m - i < (size_t)p->backend->mr ? t->m : i + (size_t)p->backend->mr;
        if (t->run->masks_scores)
            mask_scores(t, block, i, end, state->block_max);
        if (t->run->tensors->weights)
            keep_scores(t, block, i, end);
        p->backend->softmax_tile[p->exp](state->block_max + i, state->block_sum + i, t->scores + i * HEED_LD_SCORES,
            HEED_LD_SCORES, t->ranges + i, end - i, t->run->masks_scores);
    }
    p->backend->merge_rows[p->exp](state, t->m);
    if (p->attention.type_v == HEED_TYPE_I8)
        scale_weights(t, block);
}

void heed_rows_mark_hidden(heed_row_block *t, int64_t block)
{
    for (size_t i = 0; t->run->masks_scores && i < t->m; i++)
        heed_mask_mark(t->run->plan, t->run->tensors, &t->seq, query_head(t, i), query_position(t, i),
            block * HEED_BLOCK_KV, t->ranges[i], t->scores + i * HEED_LD_SCORES);
}

/* A sink is one more block: its score is the maximum, its sum 1, and it has no value. */
static void merge_sinks(heed_row_block *t)
{
    for (size_t i = 0; i < t->m; i++) {
        t->state.block_max[i] = t->run->tensors->sinks[query_head(t, i)];
        t->state.block_sum[i] = 1.0f;
    }
    t->run->plan->backend->merge_rows[t->run->plan->exp](&t->state, t->m);
}

static float *lse_of(const heed_row_block *t, size_t i)
{
    const heed_attention *a = &t->run->plan->attention;
    const heed_tensors *x = t->run->tensors;
    const int64_t head = query_head(t, i), position = query_position(t, i);
    if (a->varlen)
        return x->lse + head * x->offsets_q[a->batch] + t->seq.first_q + position;
    return x->lse + (t->seq.batch * a->num_heads + head) * a->seq_len_q + position;
}

static void finish_row(heed_row_block *t, size_t i, float keep, float sum)
{
    const heed_plan *p = t->run->plan;
    const heed_attention *a = &p->attention;
    const size_t dv = (size_t)a->head_dim_v;
    const int64_t offset = row_offset(t, &a->strides_out, i);
    float *row = t->out + i * p->width_v;
    if (a->type_out == HEED_TYPE_F32) {
        p->backend->finish_row((float *)t->run->tensors->out + offset, row, keep, sum, dv);
        return;
    }
    p->backend->finish_row(row, row, keep, sum, dv);
    p->backend->narrow_row(a->type_out, (uint16_t *)t->run->tensors->out + offset, row, dv);
}

static void finish_head(heed_row_block *t)
{
    const heed_plan *p = t->run->plan;
    const heed_tensors *x = t->run->tensors;
    if (x->sinks)
        merge_sinks(t);
    for (size_t i = 0; i < t->m; i++) {
        const float max = t->state.max[i], sum = t->state.sum[i];
        finish_row(t, i, x->sinks ? t->state.keep[i] : 1.0f, sum);
        if (x->lse)
            *lse_of(t, i) = heed_lse(max, sum);
        if (x->weights && p->attention.seq_len_kv)
            p->backend->weights_row[p->exp](weights_of(t, i), (size_t)p->attention.seq_len_kv, max, sum);
    }
}

void heed_rows_finish(heed_row_block *t)
{
    for (size_t head = 0; head < t->heads; head++) {
        heed_rows_take_head(t, head);
        finish_head(t);
    }
}
