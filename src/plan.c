/* Planning: backend, tile and task sizes, workspace map.
 * May know: backends as tables, cache sizes in general.  Must not know: instruction sets, how a task computes.
 * Nothing decided here changes a bit of a result: blocks of keys are a constant, everything else is only speed. */
#include "plan.h"

#include "cpu.h"
#include "mask.h"

#include <stdio.h>
#include <string.h>

enum {
    /* Rows of a task: enough to stream a panel of keys from L1 many times, few enough that their scores (96 x 272 floats) stay
     * in a 256 KiB L2 beside a block of keys. */
    ROWS_WANTED = 96,
    /* Tasks a wave should have for each thread, so that the last one to finish is waited for little. */
    TASKS_A_THREAD = 16,
    /* Stretches of keys for each thread, where keys are split: each costs a pass over partial results. */
    SPLITS_A_THREAD = 8,
    /* Tasks a thread has, of a kv head or of all of a sequence, when keys need not be split. */
    HEADS_A_THREAD = 4,
    /* Of heads that are taken together: how many, bytes of a token, bytes of a strip of tokens.  A strip, the next, and what a worker
     * keeps for each head stay in L2. */
    TOGETHER_HEADS = 64,
    TOGETHER_TOKEN = 16384,
    TOGETHER_STRIP = 131072
};

heed_status heed_choose(
    const heed_options *options, int exp_default, const heed_backend **backend, int *exp, heed_error *error)
{
    const heed_backend *chosen = heed_backend_find(options->isa);
    if (!chosen)
        return heed_fail(error, HEED_ERROR_UNSUPPORTED, "options.isa: backend %s (%d) is not in this build",
            heed_isa_name(options->isa), (int)options->isa);
    if (!heed_backend_usable(chosen, heed_cpu()))
        return heed_fail(error, HEED_ERROR_UNSUPPORTED, "options.isa: this CPU or its system cannot run %s",
            heed_isa_name(options->isa));
    const int sleef = heed_backend_sleef_usable(chosen, heed_cpu());
    if ((int)options->exp < HEED_EXP_DEFAULT || (int)options->exp > HEED_EXP_SLEEF)
        return heed_fail(error, HEED_ERROR_INVALID, "options.exp is %d, not a value of heed_exp", (int)options->exp);
    if (options->exp == HEED_EXP_SLEEF && !sleef)
        return heed_fail(error, HEED_ERROR_UNSUPPORTED, "options.exp: SLEEF %s",
            chosen->has_sleef ? "needs FMA, which this CPU lacks" : "is not in this build");
    *backend = chosen;
    *exp = exp_default;
    if (options->exp != HEED_EXP_DEFAULT)
        *exp = options->exp == HEED_EXP_SLEEF ? HEED_KERNEL_SLEEF : HEED_KERNEL_BUILTIN;
    if (*exp == HEED_KERNEL_SLEEF && !sleef)
        *exp = HEED_KERNEL_BUILTIN;
    return HEED_OK;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Decode waits for memory, not for multiply-adds: a key or value costs as much as this many multiply-adds. */
static double work_of(const heed_plan *plan, double keys)
{
    const heed_attention *a = &plan->attention;
    const double least = 16.0, rows = (double)plan->rows;
    return keys * (rows > least ? rows : least) * (double)(a->head_dim + a->head_dim_v);
}

int32_t heed_plan_workers(const heed_plan *plan, double keys)
{
    return heed_threads_for(
        &plan->threads, work_of(plan, keys), plan->kv_heads / plan->together * plan->blocks_q * plan->splits);
}

/* Waves of the same number of heads, where that is possible: a short last one would be waited for as long as the others. */
static void cut_into_waves(heed_plan *plan)
{
    plan->wave = plan->kv_heads;
    if (!plan->packs_shared)
        return;
    const int64_t wanted = divide_up((int64_t)TASKS_A_THREAD * plan->workers, plan->blocks_q);
    const int64_t waves = plan->workers == 1 ? plan->kv_heads : plan->kv_heads / wanted;
    plan->wave = divide_up(plan->kv_heads, waves < 1 ? 1 : waves);
}

/* 1 if the heads of a token lie side by side, and nothing else between one token and the next. */
static int side_by_side(const heed_strides *s, int64_t heads, int64_t dim, size_t size)
{
    return heads <= TOGETHER_HEADS && dim <= TOGETHER_TOKEN && s->head == dim && s->seq == heads * dim &&
           (size_t)s->seq * size <= TOGETHER_TOKEN;
}

/* Tokens of a strip: whole units of keys. */
static int32_t strip_tokens(const heed_strides *s, size_t size)
{
    const size_t fit = TOGETHER_STRIP / ((size_t)s->seq * size) / HEED_LANES * HEED_LANES;
    return (int32_t)(fit < HEED_LANES ? HEED_LANES : fit > HEED_STRIP_KV ? HEED_STRIP_KV : fit);
}

/* A head alone would read a piece of every row, at half of the speed of rows in order: one task takes all heads of a sequence, if that
 * leaves tasks enough.  Narrow vectors are slower than memory. */
static void choose_together(heed_plan *plan)
{
    const heed_attention *a = &plan->attention;
    const int64_t heads = a->num_kv_heads;
    const size_t size_k = heed_type_size(a->type_k), size_v = heed_type_size(a->type_v);
    const int fits = side_by_side(&a->strides_k, heads, a->head_dim, size_k) &&
                     side_by_side(&a->strides_v, heads, a->head_dim_v, size_v);
    const int64_t threads = plan->threads.num_threads;
    const int enough = threads == 1 || plan->blocks_kv >= divide_up(HEADS_A_THREAD * threads, a->batch);
    plan->together = 1;
    if (!fits || !enough || a->page_size || plan->rows > HEED_FEW || plan->backend->lanes < 4)
        return;
    plan->together = heads;
    plan->together_keys = strip_tokens(&a->strides_k, size_k);
    plan->together_values = strip_tokens(&a->strides_v, size_v);
}

/* Splitting costs a pass over partial results, a hundredth of the keys' and values' bytes. */
static void split_keys(heed_plan *plan)
{
    plan->splits = 1;
    plan->split_blocks = plan->blocks_kv;
    const int64_t threads = plan->threads.num_threads, tasks = plan->kv_heads / plan->together;
    if (plan->packs_shared || threads == 1 || plan->blocks_kv < 2 || tasks >= HEADS_A_THREAD * threads)
        return;
    const int64_t wanted = divide_up(SPLITS_A_THREAD * threads, tasks);
    plan->split_blocks = divide_up(plan->blocks_kv, wanted);
    plan->splits = divide_up(plan->blocks_kv, plan->split_blocks);
}

static void cut_into_tasks(heed_plan *plan)
{
    const heed_attention *a = &plan->attention;
    const int64_t mr = plan->backend->mr, nr = plan->backend->nr;
    plan->group = a->num_heads / a->num_kv_heads;
    plan->rows = plan->group * a->seq_len_q;
    plan->blocks_q = divide_up(plan->rows, ROWS_WANTED / mr * mr);
    plan->block_rows = divide_up(divide_up(plan->rows, plan->blocks_q), mr) * mr;
    plan->blocks_q = divide_up(plan->rows, plan->block_rows);
    plan->blocks_kv = divide_up(a->seq_len_kv, HEED_BLOCK_KV);
    plan->kv_heads = a->batch * a->num_kv_heads;
    plan->packs_shared = plan->blocks_q > 1;
    plan->strip = (size_t)(nr > HEED_STRIP_KV ? nr : HEED_STRIP_KV);
    plan->width_v = heed_round_up((size_t)a->head_dim_v, (size_t)nr);
    choose_together(plan);
    split_keys(plan);
    plan->workers = heed_plan_workers(plan, (double)plan->kv_heads * (double)a->seq_len_kv);
    if (plan->workers == 1)
        plan->splits = 1;
    cut_into_waves(plan);
}

size_t heed_packed_columns(const heed_backend *backend, size_t keys)
{
    return heed_round_up(keys, backend->nr > HEED_LANES ? (size_t)backend->nr : HEED_LANES);
}

/* count rows of `width` floats. */
static int place_rows(size_t *size, size_t *offset, size_t count, size_t width)
{
    size_t floats;
    return heed_multiply(count, width, &floats) && heed_place(size, offset, floats, sizeof(float));
}

static int map_scratch(heed_plan *plan)
{
    heed_scratch_map *map = &plan->map;
    const size_t rows = (size_t)plan->block_rows, padded = heed_round_up(rows, HEED_LANES);
    const size_t d = (size_t)plan->attention.head_dim, heads = (size_t)plan->together, wanted = HEED_SCORE_ROWS / heads;
    map->size = 0;
    plan->score_rows = rows > wanted ? rows : wanted;
    return place_rows(&map->size, &map->q, heads * rows, d) &&
           place_rows(&map->size, &map->scores, heads * plan->score_rows, HEED_LD_SCORES) &&
           place_rows(&map->size, &map->factors, heads * 2 * HEED_BLOCKS_TOGETHER, padded) &&
           place_rows(&map->size, &map->out, heads * rows, plan->width_v) &&
           place_rows(&map->size, &map->sums, heads * rows, plan->width_v) &&
           place_rows(&map->size, &map->state, heads * 6, padded) &&
           heed_place(&map->size, &map->ranges, heads * HEED_BLOCKS_TOGETHER * padded, sizeof(heed_range)) &&
           heed_place(&map->size, &map->used, heads * HEED_BLOCKS_TOGETHER, 1) &&
           heed_place(&map->size, &map->asks, padded, sizeof(uintptr_t)) &&
           heed_place(&map->size, &map->mask_row, 1, sizeof(heed_mask_row)) &&
           place_rows(&map->size, &map->scales, 2, HEED_BLOCK_KV + HEED_LANES) &&
           heed_place(&map->size, &map->strip_ranges, padded, sizeof(heed_range)) &&
           place_rows(&map->size, &map->packed_k, plan->strip, heed_round_up(d, HEED_LANES)) &&
           place_rows(&map->size, &map->packed_v, plan->strip, plan->width_v);
}

/* What the tasks of a wave share: packed keys and values, or partial results. */
static int map_wave(heed_plan *plan, size_t *size)
{
    const size_t keys = heed_packed_columns(plan->backend, (size_t)plan->attention.seq_len_kv);
    const size_t wave = (size_t)plan->wave, rows = (size_t)plan->block_rows;
    size_t blocks;
    if (!plan->packs_shared && plan->splits == 1)
        return 1;
    if (!heed_multiply(wave, (size_t)plan->blocks_kv, &blocks) || !heed_place(size, &plan->finite, blocks, 1))
        return 0;
    if (!plan->packs_shared)
        return heed_multiply(rows, plan->width_v, &plan->partial) &&
               heed_add(&plan->partial, 2 * heed_round_up(rows, HEED_LANES)) &&
               place_rows(size, &plan->partials, blocks, plan->partial);
    return heed_multiply(keys, (size_t)plan->attention.head_dim, &plan->panels_k) &&
           heed_multiply(keys, plan->width_v, &plan->panels_v) &&
           place_rows(size, &plan->packed_k, wave, plan->panels_k) &&
           place_rows(size, &plan->packed_v, wave, plan->panels_v);
}

static int map_workspace(heed_plan *plan)
{
    size_t size = 0;
    if (!map_scratch(plan) || !map_wave(plan, &size) ||
        !heed_place(&size, &plan->scratch, (size_t)plan->workers, plan->map.size) ||
        !heed_add(&size, HEED_ALIGNMENT - 1))
        return 0;
    plan->workspace_size = size;
    return size <= PTRDIFF_MAX;
}

heed_status heed_plan_init(
    heed_plan *plan, const heed_attention *attention, const heed_options *options, heed_error *error)
{
    heed_options o;
    memset(plan, 0, sizeof *plan);
    heed_status status = heed_copy_options(&o, options, error);
    if (status == HEED_OK)
        status = heed_attention_resolve(&plan->attention, attention, error);
    if (status == HEED_OK)
        status = heed_choose(&o, HEED_KERNEL_BUILTIN, &plan->backend, &plan->exp, error);
    if (status != HEED_OK)
        return status;
    plan->threads = heed_threads_of(&o);
    plan->allocator = heed_allocator_of(&o);
    const heed_attention *a = &plan->attention;
    if (a->batch == 0 || a->num_heads == 0 || a->seq_len_q == 0)
        return heed_succeed(error); /* nothing to do: no tasks, no workspace */
    cut_into_tasks(plan);
    if (!map_workspace(plan))
        return heed_fail(error, HEED_ERROR_OVERFLOW, "workspace: its size does not fit the address space");
    return heed_succeed(error);
}

heed_status heed_plan_create(
    heed_plan **plan, const heed_attention *attention, const heed_options *options, heed_error *error)
{
    if (!plan)
        return heed_fail(error, HEED_ERROR_INVALID, "plan is NULL");
    *plan = NULL;
    heed_plan made;
    const heed_status status = heed_plan_init(&made, attention, options, error);
    if (status != HEED_OK)
        return status;
    heed_plan *copy = heed_allocate(&made.allocator, sizeof *copy);
    if (!copy)
        return heed_fail(error, HEED_ERROR_OUT_OF_MEMORY, "plan: no memory for %zu bytes", sizeof *copy);
    *copy = made;
    *plan = copy;
    return HEED_OK;
}

void heed_plan_destroy(heed_plan *plan)
{
    if (!plan)
        return;
    const heed_allocator allocator = plan->allocator;
    heed_release(&allocator, plan);
}

size_t heed_plan_workspace_size(const heed_plan *plan)
{
    return plan->workspace_size;
}

heed_isa heed_plan_isa(const heed_plan *plan)
{
    return plan->backend->isa;
}

size_t heed_plan_describe(const heed_plan *plan, char *text, size_t size)
{
    const heed_backend *b = plan->backend;
    const int length = snprintf(text, size,
        "backend: %s (%d lanes)\n"
        "tile: %d rows x %d columns\n"
        "exp: %s\n"
        "blocks: %lld rows x %d keys\n"
        "tasks: %lld kv heads x %lld blocks of rows x %lld stretches of keys\n"
        "packing: %s\n"
        "threads: %d of at most %d, %s\n"
        "workspace: %zu bytes\n",
        heed_isa_name(b->isa), (int)b->lanes, (int)b->mr, (int)b->nr,
        plan->exp == HEED_KERNEL_SLEEF ? "sleef" : "builtin", (long long)plan->block_rows, HEED_BLOCK_KV,
        (long long)plan->kv_heads, (long long)plan->blocks_q, (long long)plan->splits,
        plan->packs_shared   ? "once a kv head, shared by its tasks"
        : plan->together > 1 ? "strip by strip inside each task, which takes all kv heads of a sequence"
                             : "strip by strip inside each task",
        (int)plan->workers, (int)plan->threads.num_threads,
        plan->threads.executor.parallel_for ? "the caller's executor"
        : heed_has_openmp()                 ? "OpenMP"
                                            : "single-threaded",
        plan->workspace_size);
    return length < 0 ? 0 : (size_t)length;
}
