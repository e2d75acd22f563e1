/* Attention made ready: a plan, its workspace, tensors in [batch][head][seq][dim] order or a cache of pages.
 * May know: shapes, heed's attention.  Must not know: backends, how it is measured. */
#include "work.h"

#include <stdint.h>
#include <string.h>

static const size_t type_sizes[] = { 4, 2, 2, 1 }; /* of a heed_type */

typedef struct attention_work {
    bench_work base; /* first */
    heed_plan *plan;
    heed_attention problem;
    heed_tensors tensors;
    char *k, *v; /* of all copies */
    float *scales_k, *scales_v;
    size_t size_k, size_v; /* bytes of a copy */
    size_t num_scales;
    size_t copies, next; /* of keys and values, used in turn */
    int turn;            /* of streamed_cache: keys, then values */
    void *workspace;
} attention_work;

static heed_status run_attention(bench_work *base, heed_error *error)
{
    attention_work *w = (attention_work *)base;
    w->tensors.k = w->k + w->next * w->size_k;
    w->tensors.v = w->v + w->next * w->size_v;
    if (w->scales_k) {
        w->tensors.scales_k = w->scales_k + w->next * w->num_scales;
        w->tensors.scales_v = w->scales_v + w->next * w->num_scales;
    }
    w->next = (w->next + 1) % w->copies;
    return heed_run(w->plan, &w->tensors, w->workspace, base->workspace, error);
}

/* From keys and values in turn. */
static const void *streamed_cache(bench_work *base, size_t bytes)
{
    attention_work *w = (attention_work *)base;
    const size_t size = w->turn ? w->size_v : w->size_k, all = w->copies * size;
    const char *from = w->turn ? w->v : w->k;
    w->turn = !w->turn;
    if (all < 2 * bytes)
        return NULL;
    const size_t at = (w->next * size + all / 2) % all / 4096 * 4096;
    return from + (at <= all - bytes ? at : all - bytes);
}

static void release_attention(bench_work *base)
{
    heed_plan_destroy(((attention_work *)base)->plan);
}

/* Pages in any order, as a cache that has been in use for a while has them; 0 if there is no memory. */
static int fill_table(attention_work *w)
{
    const size_t pages = (size_t)w->problem.num_pages;
    int32_t *table = pages ? work_bytes(&w->base, pages * sizeof *table) : NULL;
    uint64_t bits = UINT64_C(88172645463325252);
    for (size_t i = 0; table && i < pages; i++) {
        bits = bits * UINT64_C(6364136223846793005) + 1;
        const size_t other = (size_t)(bits >> 33) % (i + 1);
        table[i] = table[other];
        table[other] = (int32_t)i;
    }
    w->tensors.page_table = table;
    return table || !pages;
}

/* Fills every copy as an engine would: by heed_kv_append, from f32.  0 if there is no memory. */
static int append(attention_work *w, size_t tokens)
{
    const heed_attention *a = &w->problem;
    heed_kv_cache cache = HEED_KV_CACHE_INIT;
    cache.batch = a->batch;
    cache.num_kv_heads = a->num_kv_heads;
    cache.head_dim = a->head_dim;
    cache.head_dim_v = a->head_dim_v;
    cache.capacity = a->seq_len_kv;
    cache.type_k = a->type_k;
    cache.type_v = a->type_v;
    cache.layout = a->layout;
    cache.page_size = a->page_size;
    cache.num_pages = a->num_pages;
    cache.page_table = w->tensors.page_table;
    heed_kv_tokens new = HEED_KV_TOKENS_INIT;
    float *k = work_floats(&w->base, tokens * (size_t)a->head_dim, 2.0f);
    float *v = k ? work_floats(&w->base, tokens * (size_t)a->head_dim_v, 1.0f) : NULL;
    int ok = v != NULL;
    new.seq_len = a->seq_len_kv;
    new.k = k;
    new.v = v;
    for (size_t i = 0; ok && i < w->copies; i++) {
        cache.k = w->k + i * w->size_k;
        cache.v = w->v + i * w->size_v;
        cache.scales_k = w->scales_k ? w->scales_k + i * w->num_scales : NULL;
        cache.scales_v = w->scales_v ? w->scales_v + i * w->num_scales : NULL;
        ok = heed_kv_append(&cache, &new, NULL) == HEED_OK;
    }
    if (v)
        work_drop(&w->base);
    if (k)
        work_drop(&w->base);
    return ok;
}

/* Keys and values in their type, in pages or not; 0 if there is no memory. */
static int fill_cache(attention_work *w, const work_options *options)
{
    const heed_attention *a = &w->problem;
    const size_t size = type_sizes[a->type_k], kv_heads = (size_t)a->num_kv_heads;
    const size_t tokens = (size_t)a->batch * kv_heads * (size_t)a->seq_len_kv;
    const size_t stored = a->page_size ? (size_t)(a->num_pages * a->page_size) * kv_heads : tokens;
    const int has_scales = a->type_k == HEED_TYPE_I8;
    w->size_k = stored * (size_t)a->head_dim * size;
    w->size_v = stored * (size_t)a->head_dim_v * size;
    w->num_scales = has_scales ? stored : 0;
    w->copies = w->base.stream ? work_copies(options, (double)(w->size_k + w->size_v)) : 1;
    if (a->type_k == HEED_TYPE_F32 && !a->page_size) {
        w->k = (char *)work_floats(&w->base, w->copies * stored * (size_t)a->head_dim, 2.0f);
        w->v = (char *)work_floats(&w->base, w->copies * stored * (size_t)a->head_dim_v, 1.0f);
        return w->k && w->v;
    }
    w->k = work_bytes(&w->base, w->copies * w->size_k);
    w->v = work_bytes(&w->base, w->copies * w->size_v);
    w->scales_k = has_scales ? work_floats(&w->base, w->copies * stored, 0.0f) : NULL;
    w->scales_v = has_scales ? work_floats(&w->base, w->copies * stored, 0.0f) : NULL;
    return w->k && w->v && (!has_scales || (w->scales_k && w->scales_v)) && fill_table(w) && append(w, tokens);
}

/* Bytes of the keys and values that are there, scales too. */
static double cache_bytes(const bench_shape *shape, const heed_attention *a)
{
    double keys = 0.0;
    for (int64_t entry = 0; entry < a->batch; entry++)
        keys += (double)shape_keys(shape, entry);
    const double scales = a->type_k == HEED_TYPE_I8 ? 2.0 * sizeof(float) : 0.0;
    return keys * (double)a->num_kv_heads *
           ((double)(a->head_dim + a->head_dim_v) * (double)type_sizes[a->type_k] + scales);
}

/* Queries in their type: the patterns of 16-bit numbers near 1 and of both signs. */
static const void *queries(attention_work *w, size_t n)
{
    if (w->problem.type_q == HEED_TYPE_F32)
        return work_floats(&w->base, n, 2.0f);
    uint16_t *q = work_bytes(&w->base, n * sizeof *q);
    const uint32_t one = w->problem.type_q == HEED_TYPE_F16 ? 0x3c00 : 0x3f80;
    for (size_t i = 0; q && i < n; i++)
        q[i] = (uint16_t)(one + i * 37 % 128 + (i % 3 ? 0 : 0x8000));
    return q;
}

static int fill_attention(attention_work *w, const bench_shape *shape, const work_options *options)
{
    const heed_attention *a = &w->problem;
    const size_t rows = (size_t)(a->batch * a->num_heads * a->seq_len_q), width = (size_t)(a->head_dim + a->head_dim_v);
    w->base.flops = 2.0 * (double)(a->batch * a->num_heads) * shape_visible(shape) * (double)width;
    w->base.bytes = (double)(rows * width) * (double)type_sizes[a->type_q] + cache_bytes(shape, a);
    w->tensors.q = queries(w, rows * (size_t)a->head_dim);
    w->tensors.out = work_bytes(&w->base, rows * (size_t)a->head_dim_v * type_sizes[a->type_out]);
    w->base.workspace = heed_plan_workspace_size(w->plan);
    w->workspace = work_floats(&w->base, w->base.workspace / sizeof(float) + 1, 0.0f);
    int32_t *lengths = shape->field[SHAPE_RAGGED] ? work_bytes(&w->base, (size_t)a->batch * sizeof *lengths) : NULL;
    for (int64_t entry = 0; lengths && entry < a->batch; entry++)
        lengths[entry] = (int32_t)shape_keys(shape, entry);
    w->tensors.lengths_kv = lengths;
    return w->tensors.q && w->tensors.out && w->workspace && (lengths || !shape->field[SHAPE_RAGGED]) &&
           fill_cache(w, options);
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
    a.type_k = a.type_v = (heed_type)f[SHAPE_TYPE];
    a.layout = (heed_layout)f[SHAPE_LAYOUT];
    a.type_q = a.type_out = (heed_type)f[SHAPE_IO];
    a.page_size = shape_page_size(shape);
    a.num_pages = a.page_size ? a.batch * ((a.seq_len_kv + a.page_size - 1) / a.page_size) : 0;
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
    w->base.streamed = streamed_cache;
    w->tensors = no_tensors;
    w->problem = a;
    if (heed_plan_create(&w->plan, &a, &o, error) == HEED_OK && fill_attention(w, shape, options) &&
        fill_mask(w, shape))
        return &w->base;
    work_destroy(&w->base);
    return NULL;
}
