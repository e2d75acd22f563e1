/* The public calls that run a plan: checks, then waves of packing and tasks.
 * May know: plans, tensors, the parallel loop.  Must not know: kernels, masks, OpenMP. */
#include "run.h"

#include "mask.h"

#include <assert.h>

heed_status heed_check_lengths(const char *name, const int32_t *lengths, int64_t batch, int64_t most, heed_error *error)
{
    for (int64_t b = 0; lengths && b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > most)
            return heed_fail(error, HEED_ERROR_INVALID, "%s[%lld] is %d, must be in 0 .. %lld", name, (long long)b,
                (int)lengths[b], (long long)most);
    return HEED_OK;
}

heed_status heed_check_offsets(const char *name, const int32_t *offsets, int64_t batch, int64_t most, heed_error *error)
{
    if (!offsets)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL, varlen needs it", name);
    if (offsets[0] < 0)
        return heed_fail(error, HEED_ERROR_INVALID, "%s[0] is %d, must be at least 0", name, (int)offsets[0]);
    for (int64_t b = 0; b < batch; b++)
        if (offsets[b + 1] < offsets[b] || (int64_t)offsets[b + 1] - offsets[b] > most)
            return heed_fail(error, HEED_ERROR_INVALID, "%s[%lld] is %d after %d, a sequence has 0 .. %lld rows", name,
                (long long)b + 1, (int)offsets[b + 1], (int)offsets[b], (long long)most);
    return HEED_OK;
}

/* With varlen queries are packed; keys and values either too, or they are a cache that lengths_kv measures. */
static heed_status check_varlen(const heed_attention *a, const heed_tensors *x, heed_error *error)
{
    if (!a->varlen) {
        if (x->offsets_q || x->offsets_kv)
            return heed_fail(error, HEED_ERROR_INVALID, "tensors.%s is given without varlen",
                x->offsets_q ? "offsets_q" : "offsets_kv");
        return HEED_OK;
    }
    if (x->lengths_q)
        return heed_fail(error, HEED_ERROR_INVALID, "tensors.lengths_q is given with varlen");
    if (x->lengths_kv && x->offsets_kv)
        return heed_fail(error, HEED_ERROR_INVALID, "tensors.lengths_kv is given with varlen and offsets_kv");
    if (a->page_size && x->offsets_kv)
        return heed_fail(
            error, HEED_ERROR_INVALID, "tensors.offsets_kv is given with page_size: pages have lengths_kv");
    heed_status status = heed_check_offsets("tensors.offsets_q", x->offsets_q, a->batch, a->seq_len_q, error);
    if (status == HEED_OK)
        status = heed_check_strides_q(a, 1, x->offsets_q[a->batch], 1, error);
    const heed_kv_cache cache = heed_cache_of(a);
    if (status == HEED_OK && x->lengths_kv)
        return heed_cache_check(&cache, a->batch, a->seq_len_kv, error);
    if (status == HEED_OK)
        status = heed_check_offsets("tensors.offsets_kv", x->offsets_kv, a->batch, a->seq_len_kv, error);
    if (status != HEED_OK)
        return status;
    assert(x->offsets_kv);
    return heed_cache_check(&cache, 1, x->offsets_kv[a->batch], error);
}

/* Pages of blocks of keys that length, causal and window leave to some query: those before a window may have been given back. */
static heed_status check_pages(const heed_plan *plan, const heed_tensors *x, heed_error *error)
{
    const heed_attention *a = &plan->attention;
    if (!a->page_size)
        return HEED_OK;
    const heed_kv_cache cache = heed_cache_of(a);
    for (int64_t b = 0; b < a->batch; b++) {
        const heed_sequence s = heed_sequence_of(plan, x, b);
        const heed_span seen = heed_blocks_seen(&s, 0, (s.len_q < a->seq_len_q ? s.len_q : a->seq_len_q) - 1);
        const int64_t first = seen.lo * HEED_BLOCK_KV, end = seen.hi * HEED_BLOCK_KV;
        const heed_status status =
            heed_cache_check_pages(&cache, x->page_table, b, first, end < s.len_kv ? end : s.len_kv, error);
        if (status != HEED_OK)
            return status;
    }
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
        { "out", !x->out }, { "scales_k", !x->scales_k && needs_kv && a->type_k == HEED_TYPE_I8 },
        { "scales_v", !x->scales_v && needs_kv && a->type_v == HEED_TYPE_I8 },
        { "page_table", !x->page_table && needs_kv && a->page_size } };
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++)
        if (pointers[i].missing)
            return heed_fail(error, HEED_ERROR_INVALID, "tensors.%s is NULL", pointers[i].name);
    if (x->block_mask && (a->block_mask_q < 1 || a->block_mask_kv < 1))
        return heed_fail(error, HEED_ERROR_INVALID, "tensors.block_mask is given, but %s is 0",
            a->block_mask_q < 1 ? "block_mask_q" : "block_mask_kv");
    heed_status status = check_varlen(a, x, error);
    if (status == HEED_OK)
        status = heed_check_lengths("tensors.lengths_q", x->lengths_q, a->batch, a->seq_len_q, error);
    if (status == HEED_OK)
        status = heed_check_lengths("tensors.lengths_kv", x->lengths_kv, a->batch, a->seq_len_kv, error);
    return status == HEED_OK ? check_pages(plan, x, error) : status;
}

heed_status heed_check_workspace(const void *workspace, size_t size, size_t needed, heed_error *error)
{
    if (needed && !workspace)
        return heed_fail(error, HEED_ERROR_INVALID, "workspace is NULL, %zu bytes are needed", needed);
    if (size < needed)
        return heed_fail(error, HEED_ERROR_WORKSPACE, "workspace has %zu bytes, %zu are needed", size, needed);
    return HEED_OK;
}

/* Threads for the keys that there are: a cache's plan is made for its capacity. */
static int32_t workers_for(const heed_plan *plan, const heed_tensors *x)
{
    double keys = 0.0;
    for (int64_t b = 0; b < plan->attention.batch; b++)
        keys += (double)heed_sequence_of(plan, x, b).len_kv;
    const int32_t workers = heed_plan_workers(plan, keys * (double)plan->attention.num_kv_heads);
    return workers < plan->workers ? workers : plan->workers;
}

static void run_waves(heed_run_state r)
{
    const heed_plan *p = r.plan;
    const int32_t workers = workers_for(p, r.tensors);
    for (; r.first_head < p->kv_heads; r.first_head += p->wave) {
        const int64_t heads = p->kv_heads - r.first_head < p->wave ? p->kv_heads - r.first_head : p->wave;
        if (p->splits > 1) {
            heed_parallel(
                &p->threads, workers, (heed_tasks){ 1, heads / p->together * p->splits }, heed_split_task, &r);
            heed_parallel(&p->threads, workers, (heed_tasks){ 1, heads }, heed_merge_task, &r);
            continue;
        }
        if (p->packs_shared)
            heed_parallel(&p->threads, workers, (heed_tasks){ heads, p->blocks_kv }, heed_pack_task, &r);
        heed_parallel(&p->threads, workers, (heed_tasks){ heads / p->together, p->blocks_q }, heed_query_task, &r);
    }
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
    const heed_run_state r = { plan, &x, heed_align(workspace), 0, heed_mask_scores(plan, &x) };
    run_waves(r);
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
