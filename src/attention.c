/* The tasks of a run: packing a block of keys and values, and one task = (batch, kv head, block of query rows).
 * May know: plans, the backend table, masks as row ranges.  Must not know: instruction sets, lanes, OpenMP.
 *
 * For each block of keys: scores, softmax within the block, weighted values, merged into the rows' state in ascending order of
 * blocks.  Threads decide who computes a task, never where blocks begin: docs/numerics.md. */
#include "attention.h"

#include "log.h"
#include "mask.h"

#include <math.h>
#include <string.h>

typedef struct task {
    const heed_run_state *run;
    heed_sequence seq;
    int64_t kv_head;   /* within its batch entry */
    int64_t wave_head; /* within the wave */
    int64_t first_row; /* stacked row the task begins with */
    size_t m;          /* rows */
    float *q, *scores, *out;
    heed_rows state;
    heed_range *ranges;
    heed_mask_row *mask_row;
    float *packed_k, *packed_v; /* this task's own, when not shared */
} task;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t block_keys(const heed_sequence *s, int64_t block)
{
    return (size_t)min64(s->len_kv - block * HEED_BLOCK_KV, HEED_BLOCK_KV);
}

/* Element offset of a row; with varlen sequences follow one another along seq, without a batch dimension. */
static int64_t row_offset(const heed_plan *p, const heed_strides *s, int64_t batch, int64_t head, int64_t row)
{
    return (p->attention.varlen ? 0 : batch * s->batch) + head * s->head + row * s->seq;
}

/* ---- Packing, once a kv head ---- */

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
           (size_t)block * HEED_BLOCK_KV * heed_round_up((size_t)p->attention.head_dim_v, (size_t)p->backend->nr);
}

static char *shared_finite(const heed_run_state *r, int64_t wave_head, int64_t block)
{
    return r->workspace + r->plan->finite + wave_head * r->plan->blocks_kv + block;
}

static int pack_block(
    const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t block, float *keys, float *values)
{
    const heed_plan *p = r->plan;
    const heed_attention *a = &p->attention;
    const int64_t row = s->first_kv + block * HEED_BLOCK_KV;
    const size_t n = block_keys(s, block);
    p->backend->pack_k(keys, r->tensors->k + row_offset(p, &a->strides_k, s->batch, kv_head, row),
        (ptrdiff_t)a->strides_k.seq, n, (size_t)a->head_dim);
    return p->backend->pack_v(values, r->tensors->v + row_offset(p, &a->strides_v, s->batch, kv_head, row),
        (ptrdiff_t)a->strides_v.seq, n, (size_t)a->head_dim_v);
}

/* Blocks of keys that queries first .. last of a sequence see between them; others are not read. */
static heed_span blocks_seen(const heed_sequence *s, int64_t first, int64_t last)
{
    const heed_span keys = heed_visible_to(s, first, last);
    const heed_span blocks = { keys.lo / HEED_BLOCK_KV, (keys.hi + HEED_BLOCK_KV - 1) / HEED_BLOCK_KV };
    return blocks;
}

void heed_pack_task(void *argument, int64_t index, int32_t worker)
{
    (void)worker;
    const heed_run_state *r = argument;
    const heed_plan *p = r->plan;
    const int64_t wave_head = index / p->blocks_kv, block = index % p->blocks_kv;
    const int64_t head = r->first_head + wave_head;
    const heed_sequence s = heed_sequence_of(p, r->tensors, head / p->attention.num_kv_heads);
    const heed_span seen = blocks_seen(&s, 0, p->attention.seq_len_q - 1);
    const int64_t kv_head = head % p->attention.num_kv_heads;
    if (block >= seen.lo && block < seen.hi && heed_mask_needs_block(p, r->tensors, &s, kv_head, block))
        *shared_finite(r, wave_head, block) = (char)pack_block(
            r, &s, kv_head, block, shared_keys(r, wave_head, block), shared_values(r, wave_head, block));
}

/* ---- One task ---- */

static int64_t query_head(const task *t, size_t i)
{
    const int64_t group = t->run->plan->group;
    return t->kv_head * group + (t->first_row + (int64_t)i) % group;
}

static int64_t query_position(const task *t, size_t i)
{
    return (t->first_row + (int64_t)i) / t->run->plan->group;
}

static void task_begin(task *t, const heed_run_state *r, int64_t index, int32_t worker)
{
    const heed_plan *p = r->plan;
    char *scratch = r->workspace + p->scratch + (size_t)worker * p->map.size;
    const size_t padded = heed_round_up((size_t)p->block_rows, HEED_LANES);
    t->run = r;
    t->wave_head = index / p->blocks_q;
    const int64_t head = r->first_head + t->wave_head;
    t->kv_head = head % p->attention.num_kv_heads;
    t->seq = heed_sequence_of(p, r->tensors, head / p->attention.num_kv_heads);
    /* The last rows see the most keys under causal: long tasks first, so that short ones fill the end. */
    t->first_row = (p->blocks_q - 1 - index % p->blocks_q) * p->block_rows;
    t->m = (size_t)min64(p->rows - t->first_row, p->block_rows);
    if (p->attention.varlen) { /* rows beyond the sequence do not exist */
        const int64_t left = t->seq.len_q * p->group - t->first_row;
        t->m = left < 0 ? 0 : (size_t)min64((int64_t)t->m, left);
    }
    t->q = (float *)(scratch + p->map.q);
    t->scores = (float *)(scratch + p->map.scores);
    t->out = (float *)(scratch + p->map.out);
    float *state = (float *)(scratch + p->map.state);
    const heed_rows rows = { state, state + padded, state + 2 * padded, state + 3 * padded, state + 4 * padded,
        state + 5 * padded };
    t->state = rows;
    t->ranges = (heed_range *)(scratch + p->map.ranges);
    t->mask_row = (heed_mask_row *)(scratch + p->map.mask_row);
    t->packed_k = (float *)(scratch + p->map.packed_k);
    t->packed_v = (float *)(scratch + p->map.packed_v);
}

static float *weights_of(const task *t, size_t i)
{
    const heed_attention *a = &t->run->plan->attention;
    const int64_t row = (t->seq.batch * a->num_heads + query_head(t, i)) * a->seq_len_q + query_position(t, i);
    return t->run->tensors->weights + row * a->seq_len_kv;
}

/* Queries side by side, whatever their strides: also what lets out be q. */
static void task_gather(task *t)
{
    const heed_plan *p = t->run->plan;
    const heed_strides *s = &p->attention.strides_q;
    const size_t d = (size_t)p->attention.head_dim;
    for (size_t i = 0; i < t->m; i++) {
        const int64_t row = t->seq.first_q + query_position(t, i);
        memcpy(t->q + i * d, t->run->tensors->q + row_offset(p, s, t->seq.batch, query_head(t, i), row),
            d * sizeof(float));
    }
}

/* Nothing seen yet. */
static void task_reset(task *t)
{
    const heed_plan *p = t->run->plan;
    const heed_attention *a = &p->attention;
    const size_t padded = heed_round_up(t->m, HEED_LANES);
    for (size_t i = 0; i < padded; i++) {
        t->state.max[i] = t->state.block_max[i] = -INFINITY;
        t->state.sum[i] = t->state.block_sum[i] = 0.0f;
        t->state.keep[i] = t->state.add[i] = 0.0f;
    }
    memset(t->out, 0, t->m * heed_round_up((size_t)a->head_dim_v, (size_t)p->backend->nr) * sizeof(float));
    for (size_t i = 0; t->run->tensors->weights && i < t->m; i++) {
        float *w = weights_of(t, i);
        for (int64_t j = 0; j < a->seq_len_kv; j++)
            w[j] = -INFINITY;
    }
    for (int32_t j = 0; t->run->masks_scores && j < HEED_BLOCK_KV + HEED_LANES; j++)
        t->mask_row->count[j] = (float)j;
}

/* Every row's visible keys within the block; returns 0 if no row sees any.  Heads and positions are counted along, because
 * this is asked for each row of each block and two divisions a row are half a percent of a short problem. */
static int task_ranges(task *t, int64_t block)
{
    const heed_run_state *r = t->run;
    const int64_t group = r->plan->group, last_head = (t->kv_head + 1) * group - 1;
    int64_t head = query_head(t, 0), position = query_position(t, 0);
    int any = 0;
    for (size_t i = 0; i < t->m; i++) {
        t->ranges[i] = heed_mask_range(r->plan, r->tensors, &t->seq, head, position, block);
        any |= t->ranges[i].hi > t->ranges[i].lo;
        if (head++ == last_head) {
            head -= group;
            position++;
        }
    }
    return any;
}

static void task_mask(task *t, int64_t block)
{
    const heed_plan *p = t->run->plan;
    for (size_t i = 0; i < t->m; i++) {
        const heed_range range = t->ranges[i];
        if (range.lo >= range.hi)
            continue;
        const heed_score op = heed_mask_score(p, t->run->tensors, &t->seq, query_head(t, i), query_position(t, i),
            block * HEED_BLOCK_KV, range, t->mask_row);
        p->backend->score_row(t->scores + i * HEED_LD_SCORES, (size_t)range.lo, (size_t)range.hi, &op);
    }
}

/* The scores wait in the weights' own memory until the row's maximum and sum are known. */
static void task_keep_scores(const task *t, int64_t block)
{
    for (size_t i = 0; i < t->m; i++) {
        const size_t lo = (size_t)t->ranges[i].lo, hi = (size_t)t->ranges[i].hi;
        memcpy(weights_of(t, i) + block * HEED_BLOCK_KV + lo, t->scores + i * HEED_LD_SCORES + lo,
            (hi - lo) * sizeof(float));
    }
}

static void task_block(task *t, int64_t block)
{
    const heed_plan *p = t->run->plan;
    const size_t d = (size_t)p->attention.head_dim, dv = (size_t)p->attention.head_dim_v,
                 n = block_keys(&t->seq, block);
    const float *k = t->packed_k, *v = t->packed_v;
    int finite;
    if (p->packs_shared) {
        k = shared_keys(t->run, t->wave_head, block);
        v = shared_values(t->run, t->wave_head, block);
        finite = *shared_finite(t->run, t->wave_head, block);
    } else {
        finite = pack_block(t->run, &t->seq, t->kv_head, block, t->packed_k, t->packed_v);
    }
    p->backend->qk_tile(t->scores, HEED_LD_SCORES, t->q, d, k, t->ranges, t->m, d, p->attention.scale);
    if (t->run->masks_scores)
        task_mask(t, block);
    if (t->run->tensors->weights)
        task_keep_scores(t, block);
    p->backend->softmax_tile[p->exp](&t->state, t->scores, HEED_LD_SCORES, t->ranges, t->m);
    for (size_t i = 0; !finite && t->run->masks_scores && i < t->m; i++)
        heed_mask_mark(p, t->run->tensors, &t->seq, query_head(t, i), query_position(t, i), block * HEED_BLOCK_KV,
            t->ranges[i], t->scores + i * HEED_LD_SCORES);
    p->backend->pv_tile(t->out, heed_round_up(dv, (size_t)p->backend->nr), t->scores, HEED_LD_SCORES, v, t->ranges,
        t->m, n, dv, finite, t->state.keep, t->state.add);
}

/* A sink is one more block: its score is the maximum, its sum 1, and it has no value. */
static void task_sinks(task *t)
{
    for (size_t i = 0; i < t->m; i++) {
        t->state.block_max[i] = t->run->tensors->sinks[query_head(t, i)];
        t->state.block_sum[i] = 1.0f;
    }
    t->run->plan->backend->merge_rows[t->run->plan->exp](&t->state, t->m);
}

static float *lse_of(const task *t, size_t i)
{
    const heed_attention *a = &t->run->plan->attention;
    const heed_tensors *x = t->run->tensors;
    const int64_t head = query_head(t, i), position = query_position(t, i);
    if (a->varlen)
        return x->lse + head * x->offsets_q[a->batch] + t->seq.first_q + position;
    return x->lse + (t->seq.batch * a->num_heads + head) * a->seq_len_q + position;
}

static void task_finish(task *t)
{
    const heed_plan *p = t->run->plan;
    const heed_attention *a = &p->attention;
    const heed_tensors *x = t->run->tensors;
    const size_t dv = (size_t)a->head_dim_v, width = heed_round_up(dv, (size_t)p->backend->nr);
    if (x->sinks)
        task_sinks(t);
    for (size_t i = 0; i < t->m; i++) {
        const float max = t->state.max[i], sum = t->state.sum[i], keep = x->sinks ? t->state.keep[i] : 1.0f;
        const int64_t row = t->seq.first_q + query_position(t, i);
        p->backend->finish_row(x->out + row_offset(p, &a->strides_out, t->seq.batch, query_head(t, i), row),
            t->out + i * width, keep, sum, dv);
        if (x->lse)
            *lse_of(t, i) = heed_lse(max, sum);
        if (x->weights && a->seq_len_kv)
            p->backend->weights_row[p->exp](weights_of(t, i), (size_t)a->seq_len_kv, max, sum);
    }
}

/* Weights of queries that a varlen sequence does not have. */
static void task_clear_weights(const task *t)
{
    const heed_plan *p = t->run->plan;
    const size_t all = (size_t)min64(p->rows - t->first_row, p->block_rows);
    for (size_t i = t->m; t->run->tensors->weights && i < all; i++)
        memset(weights_of(t, i), 0, (size_t)p->attention.seq_len_kv * sizeof(float));
}

void heed_query_task(void *argument, int64_t index, int32_t worker)
{
    const heed_run_state *r = argument;
    task t;
    task_begin(&t, r, index, worker);
    task_clear_weights(&t);
    if (t.m == 0)
        return;
    task_reset(&t);
    const heed_span seen = blocks_seen(&t.seq, query_position(&t, 0), query_position(&t, t.m - 1));
    if (seen.lo < seen.hi)
        task_gather(&t);
    for (int64_t block = seen.lo; block < seen.hi; block++)
        if (task_ranges(&t, block))
            task_block(&t, block);
    task_finish(&t);
}
