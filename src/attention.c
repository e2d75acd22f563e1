/* Running a plan: packing, and one task = (batch, kv head, block of query rows) after another.
 * May know: plans, the backend table, masks as row ranges.  Must not know: instruction sets, lanes, OpenMP.
 *
 * For each block of keys: scores, softmax within the block, weighted values, merged into the rows' state in ascending order of
 * blocks.  Threads decide who computes a task, never where blocks begin: docs/numerics.md. */
#include "plan.h"

#include "log.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct run {
    const heed_plan *plan;
    const heed_tensors *tensors;
    char *workspace;    /* aligned */
    int64_t first_head; /* kv head (over the whole batch) that the wave begins with */
} run;

/* The lengths of one sequence and where its causal diagonal lies. */
typedef struct sequence {
    int64_t len_q, len_kv, offset;
    int causal;
} sequence;

typedef struct task {
    const run *run;
    sequence seq;
    int64_t batch, kv_head; /* kv_head within its batch entry */
    int64_t wave_head;      /* within the wave */
    int64_t first_row;      /* stacked row the task begins with */
    size_t m;               /* rows */
    float *q, *scores, *out;
    heed_rows state;
    heed_range *ranges;
    float *packed_k, *packed_v; /* this task's own, when not shared */
} task;

static sequence sequence_of(const run *r, int64_t batch)
{
    const heed_attention *a = &r->plan->attention;
    sequence s = { a->seq_len_q, a->seq_len_kv, 0, a->causal != HEED_CAUSAL_NONE };
    if (r->tensors->lengths_q)
        s.len_q = r->tensors->lengths_q[batch];
    if (r->tensors->lengths_kv)
        s.len_kv = r->tensors->lengths_kv[batch];
    if (a->causal == HEED_CAUSAL_BOTTOM_RIGHT)
        s.offset = s.len_kv - s.len_q;
    else if (a->causal == HEED_CAUSAL_OFFSET)
        s.offset = a->causal_offset;
    return s;
}

/* Query i sees the keys before this one. */
static int64_t visible_end(const sequence *s, int64_t i)
{
    if (i >= s->len_q)
        return 0;
    if (!s->causal)
        return s->len_kv;
    const int64_t end = i + s->offset + 1;
    return end < 0 ? 0 : end < s->len_kv ? end : s->len_kv;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t block_keys(int64_t keys, int64_t block)
{
    return (size_t)min64(keys - block * HEED_BLOCK_KV, HEED_BLOCK_KV);
}

static const float *key_row(const run *r, int64_t batch, int64_t kv_head, int64_t key)
{
    const heed_strides *s = &r->plan->attention.strides_k;
    return r->tensors->k + batch * s->batch + kv_head * s->head + key * s->seq;
}

static const float *value_row(const run *r, int64_t batch, int64_t kv_head, int64_t key)
{
    const heed_strides *s = &r->plan->attention.strides_v;
    return r->tensors->v + batch * s->batch + kv_head * s->head + key * s->seq;
}

/* ---- Packing, once a kv head ---- */

/* Where a block's panels lie.  Every block but the last is full, so its panels begin at a multiple of HEED_BLOCK_KV keys. */
static float *shared_keys(const run *r, int64_t wave_head, int64_t block)
{
    const heed_plan *p = r->plan;
    return (float *)(r->workspace + p->packed_k) + (size_t)wave_head * p->panels_k +
           (size_t)block * HEED_BLOCK_KV * (size_t)p->attention.head_dim;
}

static float *shared_values(const run *r, int64_t wave_head, int64_t block)
{
    const heed_plan *p = r->plan;
    return (float *)(r->workspace + p->packed_v) + (size_t)wave_head * p->panels_v +
           (size_t)block * HEED_BLOCK_KV * heed_round_up((size_t)p->attention.head_dim_v, (size_t)p->backend->nr);
}

static char *shared_finite(const run *r, int64_t wave_head, int64_t block)
{
    return r->workspace + r->plan->finite + wave_head * r->plan->blocks_kv + block;
}

static int pack_block(const run *r, int64_t batch, int64_t kv_head, int64_t block, size_t n, float *keys, float *values)
{
    const heed_attention *a = &r->plan->attention;
    const int64_t key = block * HEED_BLOCK_KV;
    r->plan->backend->pack_k(
        keys, key_row(r, batch, kv_head, key), (ptrdiff_t)a->strides_k.seq, n, (size_t)a->head_dim);
    return r->plan->backend->pack_v(
        values, value_row(r, batch, kv_head, key), (ptrdiff_t)a->strides_v.seq, n, (size_t)a->head_dim_v);
}

/* Keys that some query of the sequence sees: no others are read. */
static int64_t keys_needed(const run *r, const sequence *s)
{
    const int64_t last = min64(s->len_q, r->plan->attention.seq_len_q) - 1;
    return last < 0 ? 0 : visible_end(s, last);
}

static void pack_task(void *argument, int64_t index, int32_t worker)
{
    (void)worker;
    const run *r = argument;
    const heed_plan *p = r->plan;
    const int64_t wave_head = index / p->blocks_kv, block = index % p->blocks_kv;
    const int64_t head = r->first_head + wave_head, batch = head / p->attention.num_kv_heads;
    const sequence s = sequence_of(r, batch);
    const int64_t keys = keys_needed(r, &s);
    if (block * HEED_BLOCK_KV < keys)
        *shared_finite(r, wave_head, block) = (char)pack_block(r, batch, head % p->attention.num_kv_heads, block,
            block_keys(keys, block), shared_keys(r, wave_head, block), shared_values(r, wave_head, block));
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

static void task_begin(task *t, const run *r, int64_t index, int32_t worker)
{
    const heed_plan *p = r->plan;
    char *scratch = r->workspace + p->scratch + (size_t)worker * p->map.size;
    const size_t padded = heed_round_up((size_t)p->block_rows, HEED_LANES);
    t->run = r;
    t->wave_head = index / p->blocks_q;
    const int64_t head = r->first_head + t->wave_head;
    t->batch = head / p->attention.num_kv_heads;
    t->kv_head = head % p->attention.num_kv_heads;
    t->seq = sequence_of(r, t->batch);
    /* The last rows see the most keys under causal: long tasks first, so that short ones fill the end. */
    t->first_row = (p->blocks_q - 1 - index % p->blocks_q) * p->block_rows;
    t->m = (size_t)min64(p->rows - t->first_row, p->block_rows);
    t->q = (float *)(scratch + p->map.q);
    t->scores = (float *)(scratch + p->map.scores);
    t->out = (float *)(scratch + p->map.out);
    float *state = (float *)(scratch + p->map.state);
    const heed_rows rows = { state, state + padded, state + 2 * padded, state + 3 * padded, state + 4 * padded,
        state + 5 * padded };
    t->state = rows;
    t->ranges = (heed_range *)(scratch + p->map.ranges);
    t->packed_k = (float *)(scratch + p->map.packed_k);
    t->packed_v = (float *)(scratch + p->map.packed_v);
}

/* Queries side by side, whatever their strides: also what lets out be q. */
static void task_gather(task *t)
{
    const heed_attention *a = &t->run->plan->attention;
    const size_t d = (size_t)a->head_dim;
    const float *base = t->run->tensors->q + t->batch * a->strides_q.batch;
    for (size_t i = 0; i < t->m; i++)
        memcpy(t->q + i * d, base + query_head(t, i) * a->strides_q.head + query_position(t, i) * a->strides_q.seq,
            d * sizeof(float));
    for (size_t i = 0; i < heed_round_up(t->m, HEED_LANES); i++) {
        t->state.max[i] = t->state.block_max[i] = -INFINITY;
        t->state.sum[i] = t->state.block_sum[i] = 0.0f;
    }
    const size_t width = heed_round_up((size_t)a->head_dim_v, (size_t)t->run->plan->backend->nr);
    memset(t->out, 0, t->m * width * sizeof(float));
}

/* Row i's visible keys within the block; returns 0 if no row sees any. */
static int task_ranges(task *t, int64_t block)
{
    const int64_t first = block * HEED_BLOCK_KV;
    int any = 0;
    for (size_t i = 0; i < t->m; i++) {
        const int64_t end = visible_end(&t->seq, query_position(t, i)) - first;
        t->ranges[i].lo = 0;
        t->ranges[i].hi = end < 0 ? 0 : (int32_t)min64(end, HEED_BLOCK_KV);
        any |= t->ranges[i].hi > 0;
    }
    return any;
}

static float *weights_of(const task *t, size_t i)
{
    const heed_attention *a = &t->run->plan->attention;
    const int64_t row = (t->batch * a->num_heads + query_head(t, i)) * a->seq_len_q + query_position(t, i);
    return t->run->tensors->weights + row * a->seq_len_kv;
}

/* The scores wait in the weights' own memory until the row's maximum and sum are known. */
static void task_keep_scores(const task *t, int64_t block)
{
    for (size_t i = 0; i < t->m; i++)
        memcpy(weights_of(t, i) + block * HEED_BLOCK_KV, t->scores + i * HEED_LD_SCORES,
            (size_t)t->ranges[i].hi * sizeof(float));
}

static void task_block(task *t, int64_t block, int64_t keys)
{
    const heed_plan *p = t->run->plan;
    const size_t d = (size_t)p->attention.head_dim, dv = (size_t)p->attention.head_dim_v, n = block_keys(keys, block);
    const float *k = t->packed_k, *v = t->packed_v;
    int finite;
    if (p->packs_shared) {
        k = shared_keys(t->run, t->wave_head, block);
        v = shared_values(t->run, t->wave_head, block);
        finite = *shared_finite(t->run, t->wave_head, block);
    } else {
        finite = pack_block(t->run, t->batch, t->kv_head, block, n, t->packed_k, t->packed_v);
    }
    p->backend->qk_tile(t->scores, HEED_LD_SCORES, t->q, d, k, t->ranges, t->m, d, p->attention.scale);
    if (t->run->tensors->weights)
        task_keep_scores(t, block);
    p->backend->softmax_tile[p->exp](&t->state, t->scores, HEED_LD_SCORES, t->ranges, t->m);
    p->backend->pv_tile(t->out, heed_round_up(dv, (size_t)p->backend->nr), t->scores, HEED_LD_SCORES, v, t->ranges,
        t->m, n, dv, finite, t->state.keep, t->state.add);
}

static float row_lse(float max, float sum)
{
    if (sum == 0.0f)
        return -INFINITY;
    if (!(sum < INFINITY) || !isfinite(max)) /* a NaN or +inf score */
        return NAN;
    return (float)((double)max + heed_log((double)sum));
}

static void task_finish(const task *t)
{
    const heed_plan *p = t->run->plan;
    const heed_attention *a = &p->attention;
    const heed_tensors *x = t->run->tensors;
    const size_t dv = (size_t)a->head_dim_v, width = heed_round_up(dv, (size_t)p->backend->nr);
    float *base = x->out + t->batch * a->strides_out.batch;
    for (size_t i = 0; i < t->m; i++) {
        const int64_t head = query_head(t, i), position = query_position(t, i);
        const float max = t->state.max[i], sum = t->state.sum[i];
        p->backend->finish_row(
            base + head * a->strides_out.head + position * a->strides_out.seq, t->out + i * width, sum, dv);
        if (x->lse)
            x->lse[(t->batch * a->num_heads + head) * a->seq_len_q + position] = row_lse(max, sum);
        if (x->weights) {
            float *w = weights_of(t, i);
            const size_t end = (size_t)visible_end(&t->seq, position);
            if (end)
                p->backend->weights_row[p->exp](w, end, max, sum);
            memset(w + end, 0, ((size_t)a->seq_len_kv - end) * sizeof(float));
        }
    }
}

static void query_task(void *argument, int64_t index, int32_t worker)
{
    const run *r = argument;
    task t;
    task_begin(&t, r, index, worker);
    task_gather(&t);
    const int64_t keys = keys_needed(r, &t.seq);
    for (int64_t block = 0; block * HEED_BLOCK_KV < keys; block++)
        if (task_ranges(&t, block))
            task_block(&t, block, keys);
    task_finish(&t);
}

/* ---- The call ---- */

heed_status heed_check_lengths(const char *name, const int32_t *lengths, int64_t batch, int64_t most, heed_error *error)
{
    for (int64_t b = 0; lengths && b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > most)
            return heed_fail(error, HEED_ERROR_INVALID, "%s[%lld] is %d, must be in 0 .. %lld", name, (long long)b,
                (int)lengths[b], (long long)most);
    return HEED_OK;
}

static heed_status check_tensors(const heed_plan *plan, const heed_tensors *x, heed_error *error)
{
    const heed_attention *a = &plan->attention;
    const int needs_kv = a->seq_len_kv > 0;
    const struct {
        const char *name;
        int missing;
    } pointers[] = { { "q", !x->q && needs_kv }, { "k", !x->k && needs_kv }, { "v", !x->v && needs_kv },
        { "out", !x->out } };
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++)
        if (pointers[i].missing)
            return heed_fail(error, HEED_ERROR_INVALID, "tensors.%s is NULL", pointers[i].name);
    const heed_status status = heed_check_lengths("tensors.lengths_q", x->lengths_q, a->batch, a->seq_len_q, error);
    return status == HEED_OK ? heed_check_lengths("tensors.lengths_kv", x->lengths_kv, a->batch, a->seq_len_kv, error)
                             : status;
}

heed_status heed_check_workspace(const void *workspace, size_t size, size_t needed, heed_error *error)
{
    if (needed && !workspace)
        return heed_fail(error, HEED_ERROR_INVALID, "workspace is NULL, %zu bytes are needed", needed);
    if (size < needed)
        return heed_fail(error, HEED_ERROR_WORKSPACE, "workspace has %zu bytes, %zu are needed", size, needed);
    return HEED_OK;
}

heed_status heed_run(
    const heed_plan *plan, const heed_tensors *tensors, void *workspace, size_t workspace_size, heed_error *error)
{
    if (!plan || !tensors)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", plan ? "tensors" : "plan");
    heed_tensors x = HEED_TENSORS_INIT;
    heed_status status = heed_copy_struct(&x, sizeof x, tensors, "tensors", error);
    if (status != HEED_OK)
        return status;
    if (plan->blocks_q == 0)
        return heed_succeed(error);
    status = check_tensors(plan, &x, error);
    if (status == HEED_OK)
        status = heed_check_workspace(workspace, workspace_size, plan->workspace_size, error);
    if (status != HEED_OK)
        return status;
    run r = { plan, &x, heed_align(workspace), 0 };
    for (; r.first_head < plan->kv_heads; r.first_head += plan->wave) {
        const int64_t heads = min64(plan->wave, plan->kv_heads - r.first_head);
        if (plan->packs_shared)
            heed_parallel(&plan->threads, plan->workers, heads * plan->blocks_kv, pack_task, &r);
        heed_parallel(&plan->threads, plan->workers, heads * plan->blocks_q, query_task, &r);
    }
    return heed_succeed(error);
}

heed_status heed_attend(
    const heed_attention *attention, const heed_tensors *tensors, const heed_options *options, heed_error *error)
{
    heed_plan plan;
    heed_status status = heed_plan_init(&plan, attention, options, error);
    if (status != HEED_OK)
        return status;
    const size_t size = plan.workspace_size;
    void *workspace = size ? heed_allocate(&plan.allocator, size) : NULL;
    if (size && !workspace)
        return heed_fail(error, HEED_ERROR_OUT_OF_MEMORY, "workspace: no memory for %zu bytes", size);
    status = heed_run(&plan, tensors, workspace, size, error);
    heed_release(&plan.allocator, workspace);
    return status;
}
