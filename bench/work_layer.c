/* A whole self-attention layer made ready.
 * May know: shapes, heed's layer.  Must not know: backends, how it is measured. */
#include "work.h"

#include <stdlib.h>

typedef struct layer_work {
    bench_work base; /* first */
    heed_layer *layer;
    int64_t batch, seq_len;
    heed_layer_tensors tensors;
    void *workspace;
} layer_work;

static heed_status run_layer(bench_work *base, heed_error *error)
{
    layer_work *w = (layer_work *)base;
    return heed_layer_run(w->layer, w->batch, w->seq_len, &w->tensors, w->workspace, base->workspace, error);
}

static void release_layer(bench_work *base)
{
    heed_layer_destroy(((layer_work *)base)->layer);
}

/* The weights are released again: heed keeps packed ones. */
static heed_status create_layer(layer_work *w, const bench_shape *shape, const work_options *options, heed_error *error)
{
    const int64_t *f = shape->field;
    const heed_options o = work_heed_options(options, HEED_EXP_DEFAULT);
    heed_layer_desc d = HEED_LAYER_DESC_INIT;
    d.model_dim = f[SHAPE_MODEL];
    d.num_heads = f[SHAPE_HEADS];
    d.num_kv_heads = f[SHAPE_KV_HEADS];
    d.head_dim = f[SHAPE_DIM];
    d.causal = f[SHAPE_CAUSAL] ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
    const size_t q = (size_t)(d.model_dim * d.num_heads * d.head_dim);
    const size_t kv = (size_t)(d.model_dim * d.num_kv_heads * d.head_dim);
    const int first = w->base.num_blocks;
    d.weight_q = work_floats(&w->base, q, 0.05f);
    d.weight_k = work_floats(&w->base, kv, 0.05f);
    d.weight_v = work_floats(&w->base, kv, 0.05f);
    d.weight_o = work_floats(&w->base, q, 0.05f);
    const int complete = d.weight_q && d.weight_k && d.weight_v && d.weight_o;
    const heed_status status = complete ? heed_layer_create(&w->layer, &d, &o, error) : HEED_ERROR_OUT_OF_MEMORY;
    while (w->base.num_blocks > first)
        free(w->base.blocks[--w->base.num_blocks]);
    return status;
}

static void count_layer(layer_work *w, const bench_shape *shape)
{
    const int64_t *f = shape->field;
    const double rows = (double)(w->batch * w->seq_len), model = (double)f[SHAPE_MODEL], dim = (double)f[SHAPE_DIM];
    const double heads = (double)f[SHAPE_HEADS], kv_heads = (double)f[SHAPE_KV_HEADS];
    const double weights = model * dim * (2.0 * heads + 2.0 * kv_heads);
    w->base.flops = 2.0 * rows * weights + 4.0 * (double)w->batch * heads * shape_visible(shape) * dim;
    w->base.bytes = (weights + 2.0 * rows * model) * sizeof(float);
}

bench_work *work_layer(const bench_shape *shape, const work_options *options, heed_error *error)
{
    static const heed_layer_tensors no_tensors = HEED_LAYER_TENSORS_INIT;
    layer_work *w = (layer_work *)work_new(sizeof *w, shape, options);
    if (!w)
        return NULL;
    w->batch = shape->field[SHAPE_BATCH];
    w->seq_len = shape->field[SHAPE_SEQ];
    w->tensors = no_tensors;
    w->base.run = run_layer;
    w->base.release = release_layer;
    if (create_layer(w, shape, options, error) == HEED_OK &&
        heed_layer_workspace_size(w->layer, w->batch, w->seq_len, &w->base.workspace, error) == HEED_OK) {
        const size_t elements = (size_t)(w->batch * w->seq_len * shape->field[SHAPE_MODEL]);
        count_layer(w, shape);
        w->tensors.x = work_floats(&w->base, elements, 1.0f);
        w->tensors.y = work_floats(&w->base, elements, 0.0f);
        w->workspace = work_floats(&w->base, w->base.workspace / sizeof(float) + 1, 0.0f);
        if (w->tensors.x && w->tensors.y && w->workspace)
            return &w->base;
    }
    work_destroy(&w->base);
    return NULL;
}
