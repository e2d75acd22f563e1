/* Single kernels of a backend made ready: the tiles, packing, exp.
 * May know: shapes, the table of a backend.  Must not know: instruction sets, how it is measured.
 * The data of a call fits the first two cache levels and is the same at every call. */
#include "work.h"

#include "backend.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct kernel_work {
    bench_work base; /* first */
    const heed_backend *backend;
    int exp;
    size_t m, k, n; /* rows; head_dim or in_features; columns of a tile, or elements */
    float *a, *b, *c, *state;
    heed_rows rows;
    heed_range *ranges;
} kernel_work;

static kernel_work *kernel_of(bench_work *base)
{
    return (kernel_work *)base;
}

static heed_status run_pack_k(bench_work *base, heed_error *error)
{
    const kernel_work *w = kernel_of(base);
    (void)error;
    w->backend->pack_k(HEED_TYPE_F32, w->c, w->a, (ptrdiff_t)w->k, w->m, w->k, 0);
    return HEED_OK;
}

static heed_status run_pack_v(bench_work *base, heed_error *error)
{
    const kernel_work *w = kernel_of(base);
    (void)error;
    w->backend->pack_v(HEED_TYPE_F32, w->c, w->m, w->a, (ptrdiff_t)w->k, w->m, w->k, 0);
    return HEED_OK;
}

static heed_status run_qk(bench_work *base, heed_error *error)
{
    const kernel_work *w = kernel_of(base);
    (void)error;
    w->backend->qk_tile(w->c, HEED_LD_SCORES, w->a, w->k, w->b, w->ranges, w->m, w->k, 0.125f, NULL);
    return HEED_OK;
}

/* Works in place: from the second call on the scores are weights in (0, 1], which costs the same. */
static heed_status run_softmax(bench_work *base, heed_error *error)
{
    const kernel_work *w = kernel_of(base);
    (void)error;
    w->backend->softmax_tile[w->exp](w->rows.block_max, w->rows.block_sum, w->c, HEED_LD_SCORES, w->ranges, w->m, 0);
    w->backend->merge_rows[w->exp](&w->rows, w->m);
    return HEED_OK;
}

static heed_status run_pv(bench_work *base, heed_error *error)
{
    const kernel_work *w = kernel_of(base);
    (void)error;
    w->backend->pv_tile(
        w->c, w->n, w->a, HEED_LD_SCORES, w->b, HEED_BLOCK_KV, w->ranges, w->m, w->k, 1, w->rows.keep, w->rows.add);
    return HEED_OK;
}

static heed_status run_gemm(bench_work *base, heed_error *error)
{
    const kernel_work *w = kernel_of(base);
    (void)error;
    w->backend->gemm_tile(w->c, w->n, w->a, w->k, w->b, w->m, w->n, w->k, w->state);
    return HEED_OK;
}

static heed_status run_exp(bench_work *base, heed_error *error)
{
    const kernel_work *w = kernel_of(base);
    (void)error;
    w->backend->exp[w->exp](w->c, w->a, w->n);
    return HEED_OK;
}

static size_t round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Rows that have seen a block already and see all keys of this one. */
static int fill_rows(kernel_work *w)
{
    const size_t padded = round_up(w->m, HEED_LANES);
    float *state = work_floats(&w->base, 6 * padded, 0.5f);
    w->state = state;
    w->ranges = (heed_range *)(void *)work_floats(&w->base, padded * sizeof(heed_range) / sizeof(float), 0.0f);
    if (!state || !w->ranges)
        return 0;
    const heed_rows rows = { state, state + padded, state + 2 * padded, state + 3 * padded, state + 4 * padded,
        state + 5 * padded };
    w->rows = rows;
    for (size_t i = 0; i < padded; i++) {
        const heed_range all = { 0, HEED_BLOCK_KV };
        w->ranges[i] = all;
        rows.keep[i] = 0.5f; /* what pv_tile adds up over many calls stays finite */
        rows.add[i] = 1.0f;
    }
    return 1;
}

static void count(kernel_work *w, double flops, double elements, double floats)
{
    w->base.flops = flops;
    w->base.elements = elements;
    w->base.bytes = floats * sizeof(float);
}

static int fill_tile(kernel_work *w, shape_kind kind)
{
    const size_t nr = (size_t)w->backend->nr, wide = round_up(w->k, nr), m = w->m;
    const double flops = 2.0 * (double)m * HEED_BLOCK_KV * (double)w->k;
    const double panels = (double)HEED_BLOCK_KV * (double)w->k, scores = (double)m * HEED_BLOCK_KV;
    const double vectors = (double)m * (double)w->k;
    if (kind == SHAPE_QK_TILE) {
        w->base.run = run_qk;
        count(w, flops, 0.0, panels + scores + vectors);
        w->a = work_floats(&w->base, m * w->k, 1.0f);
        w->b = work_floats(&w->base, HEED_BLOCK_KV * w->k, 1.0f);
        w->c = work_floats(&w->base, m * HEED_LD_SCORES, 0.0f);
    } else if (kind == SHAPE_PV_TILE) {
        w->base.run = run_pv;
        w->n = wide;
        count(w, flops, 0.0, panels + scores + 2.0 * vectors);
        w->a = work_floats(&w->base, m * HEED_LD_SCORES, 1.0f);
        w->b = work_floats(&w->base, HEED_BLOCK_KV * wide, 1.0f);
        w->c = work_floats(&w->base, m * wide, 1.0f);
    } else {
        w->base.run = run_softmax;
        count(w, 0.0, scores, 2.0 * scores);
        w->a = w->b = w->c = work_floats(&w->base, m * HEED_LD_SCORES, 5.0f);
    }
    return fill_rows(w) && w->a && w->b && w->c;
}

static int fill_gemm(kernel_work *w)
{
    const size_t nr = (size_t)w->backend->nr;
    w->base.run = run_gemm;
    w->n = nr;
    count(w, 2.0 * (double)w->m * (double)w->k * (double)nr, 0.0, (double)(w->m * w->k + w->k * nr + w->m * nr));
    w->a = work_floats(&w->base, w->m * w->k, 1.0f);
    w->b = work_floats(&w->base, 2 * w->k * nr, 1.0f); /* and the panel behind, which the kernel may prefetch */
    w->c = work_floats(&w->base, w->m * nr, 0.0f);
    w->state = work_floats(&w->base, nr, 1.0f);
    return w->a && w->b && w->c && w->state;
}

static int fill_pack(kernel_work *w, shape_kind kind)
{
    const size_t nr = (size_t)w->backend->nr;
    w->base.run = kind == SHAPE_PACK_K ? run_pack_k : run_pack_v;
    count(w, 0.0, (double)(w->m * w->k), 2.0 * (double)(w->m * w->k));
    w->a = work_floats(&w->base, w->m * w->k, 1.0f);
    w->c = work_floats(&w->base, round_up(w->m, nr) * round_up(w->k, nr), 0.0f);
    return w->a && w->c;
}

static int fill_exp(kernel_work *w, const bench_shape *shape)
{
    w->base.run = run_exp;
    w->n = (size_t)shape->field[SHAPE_COLS];
    count(w, 0.0, (double)w->n, 2.0 * (double)w->n);
    w->a = work_floats(&w->base, w->n, 43.0f);
    w->c = work_floats(&w->base, w->n, 0.0f);
    for (size_t i = 0; w->a && i < w->n; i++)
        w->a[i] -= 43.0f; /* to [-86, 0] */
    return w->a && w->c;
}

static int fill_kernel(kernel_work *w, const bench_shape *shape)
{
    switch (shape->kind) {
    case SHAPE_EXP: return fill_exp(w, shape);
    case SHAPE_PACK_K:
    case SHAPE_PACK_V: return fill_pack(w, shape->kind);
    case SHAPE_GEMM_TILE: return fill_gemm(w);
    default: return fill_tile(w, shape->kind);
    }
}

bench_work *work_kernel(const bench_shape *shape, const work_options *options, heed_error *error)
{
    const int sleef = shape->field[SHAPE_EXP_KIND] == HEED_EXP_SLEEF;
    if (sleef && !heed_sleef_usable(options->isa)) {
        snprintf(
            error->message, sizeof error->message, "SLEEF is not usable with %s here", heed_isa_name(options->isa));
        return NULL;
    }
    kernel_work *w = (kernel_work *)work_new(sizeof *w, shape, options);
    if (!w)
        return NULL;
    w->backend = heed_backend_find(options->isa);
    w->exp = sleef ? HEED_KERNEL_SLEEF : HEED_KERNEL_BUILTIN;
    w->m = (size_t)shape->field[SHAPE_ROWS];
    w->k = (size_t)(shape->kind == SHAPE_GEMM_TILE ? shape->field[SHAPE_IN] : shape->field[SHAPE_DIM]);
    if (fill_kernel(w, shape))
        return &w->base;
    work_destroy(&w->base);
    return NULL;
}
