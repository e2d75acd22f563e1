/* Attention made ready: a plan, its workspace, tensors in [batch][head][seq][dim] order.
 * May know: shapes, heed's attention.  Must not know: backends, how it is measured. */
#include "work.h"

#include <string.h>

typedef struct attention_work {
    bench_work base; /* first */
    heed_plan *plan;
    heed_tensors tensors;
    float *k, *v; /* of all copies */
    size_t size_k, size_v;
    size_t copies, next; /* of keys and values, used in turn */
    void *workspace;
} attention_work;

static heed_status run_attention(bench_work *base, heed_error *error)
{
    attention_work *w = (attention_work *)base;
    w->tensors.k = w->k + w->next * w->size_k;
    w->tensors.v = w->v + w->next * w->size_v;
    w->next = (w->next + 1) % w->copies;
    return heed_run(w->plan, &w->tensors, w->workspace, base->workspace, error);
}

static void release_attention(bench_work *base)
{
    heed_plan_destroy(((attention_work *)base)->plan);
}

static int fill_attention(attention_work *w, const bench_shape *shape, const work_options *options)
{
    const int64_t *f = shape->field;
    const size_t batch = (size_t)f[SHAPE_BATCH], heads = (size_t)f[SHAPE_HEADS], kv_heads = (size_t)f[SHAPE_KV_HEADS];
    const size_t rows = batch * heads * (size_t)f[SHAPE_SEQ_Q], keys = batch * kv_heads * (size_t)f[SHAPE_SEQ_KV];
    const size_t dim = (size_t)f[SHAPE_DIM], dim_v = (size_t)f[SHAPE_DIM_V];
    w->size_k = keys * dim;
    w->size_v = keys * dim_v;
    w->copies = w->base.stream ? work_copies(options, (double)(w->size_k + w->size_v) * sizeof(float)) : 1;
    w->base.flops = 2.0 * (double)(batch * heads) * shape_visible(shape) * (double)(dim + dim_v);
    w->base.bytes = (double)(rows * (dim + dim_v) + w->size_k + w->size_v) * sizeof(float);
    w->tensors.q = work_floats(&w->base, rows * dim, 2.0f);
    w->tensors.out = work_floats(&w->base, rows * dim_v, 0.0f);
    w->k = work_floats(&w->base, w->copies * w->size_k, 2.0f);
    w->v = work_floats(&w->base, w->copies * w->size_v, 1.0f);
    w->base.workspace = heed_plan_workspace_size(w->plan);
    w->workspace = work_floats(&w->base, w->base.workspace / sizeof(float) + 1, 0.0f);
    return w->tensors.q && w->tensors.out && w->k && w->v && w->workspace;
}

/* What the scores go through; 0 if there is no memory. */
static int fill_mask(attention_work *w, const bench_shape *shape)
{
    const size_t heads = (size_t)shape->field[SHAPE_HEADS];
    const size_t pairs = (size_t)shape->field[SHAPE_SEQ_Q] * (size_t)shape->field[SHAPE_SEQ_KV];
    switch ((shape_mask)shape->field[SHAPE_MASK]) {
    case SHAPE_BIAS: return (w->tensors.bias = work_floats(&w->base, pairs, 1.0f)) != NULL;
    case SHAPE_BOOLEAN: { /* bytes of ones, in memory for floats */
        float *room = work_floats(&w->base, pairs / sizeof(float) + 1, 0.0f);
        w->tensors.mask = room ? memset(room, 1, pairs) : NULL;
        return room != NULL;
    }
    case SHAPE_ALIBI: return (w->tensors.alibi_slopes = work_floats(&w->base, heads, 0.01f)) != NULL;
    case SHAPE_SOFTCAP:
    case SHAPE_NO_MASK: break;
    }
    return 1;
}

bench_work *work_attention(const bench_shape *shape, const work_options *options, heed_error *error)
{
    static const heed_tensors no_tensors = HEED_TENSORS_INIT;
    attention_work *w = (attention_work *)work_new(sizeof *w, shape, options);
    if (!w)
        return NULL;
    const int64_t *f = shape->field;
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = f[SHAPE_BATCH];
    a.num_heads = f[SHAPE_HEADS];
    a.num_kv_heads = f[SHAPE_KV_HEADS];
    a.seq_len_q = f[SHAPE_SEQ_Q];
    a.seq_len_kv = f[SHAPE_SEQ_KV];
    a.head_dim = f[SHAPE_DIM];
    a.head_dim_v = f[SHAPE_DIM_V];
    a.causal = f[SHAPE_CAUSAL] ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
    if (f[SHAPE_WINDOW])
        a.window_left = f[SHAPE_WINDOW] - 1;
    if (f[SHAPE_MASK] == SHAPE_SOFTCAP)
        a.softcap = 30.0f;
    a.strides_bias.query = a.strides_mask.query = f[SHAPE_SEQ_KV]; /* one for all heads */
    a.strides_bias.key = a.strides_mask.key = 1;
    const heed_options o = work_heed_options(options, f[SHAPE_EXP_KIND]);
    w->base.run = run_attention;
    w->base.release = release_attention;
    w->tensors = no_tensors;
    if (heed_plan_create(&w->plan, &a, &o, error) == HEED_OK && fill_attention(w, shape, options) &&
        fill_mask(w, shape))
        return &w->base;
    work_destroy(&w->base);
    return NULL;
}
