/* A projection made ready: packed weights, rows of input.
 * May know: shapes, heed's projections.  Must not know: backends, how it is measured. */
#include "work.h"

#include <stdlib.h>

enum { MOST_LINEARS = 256 };

typedef struct linear_work {
    bench_work base; /* first */
    heed_linear *linears[MOST_LINEARS];
    size_t copies, next; /* of the packed weights, used in turn */
    int64_t rows, in, out;
    const float *x;
    float *y;
    void *workspace;
} linear_work;

static heed_status run_linear(bench_work *base, heed_error *error)
{
    linear_work *w = (linear_work *)base;
    const heed_linear *linear = w->linears[w->next];
    w->next = (w->next + 1) % w->copies;
    return heed_linear_run(linear, w->rows, w->x, w->in, w->y, w->out, w->workspace, base->workspace, error);
}

/* A heed_linear is one allocation, most of it packed weights. */
static const void *streamed_weights(bench_work *base, size_t bytes)
{
    linear_work *w = (linear_work *)base;
    const size_t size = (size_t)w->in * (size_t)w->out * sizeof(float);
    return w->copies > 1 && size >= bytes ? w->linears[(w->next + w->copies / 2) % w->copies] : NULL;
}

static void release_linear(bench_work *base)
{
    linear_work *w = (linear_work *)base;
    for (size_t i = 0; i < w->copies; i++)
        heed_linear_destroy(w->linears[i]);
}

static heed_status pack(linear_work *w, const work_options *options, heed_error *error)
{
    const float *weight = work_floats(&w->base, (size_t)w->in * (size_t)w->out, 0.5f);
    const heed_options o = work_heed_options(options, HEED_EXP_DEFAULT);
    heed_linear_desc desc = HEED_LINEAR_DESC_INIT;
    desc.in_features = w->in;
    desc.out_features = w->out;
    desc.weight = weight;
    desc.stride_in = 1;
    desc.stride_out = w->in;
    heed_status status = weight ? HEED_OK : HEED_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < w->copies && status == HEED_OK; i++)
        status = heed_linear_create(&w->linears[i], &desc, &o, error);
    if (weight)
        free(w->base.blocks[--w->base.num_blocks]); /* heed has its own copy */
    return status;
}

bench_work *work_linear(const bench_shape *shape, const work_options *options, heed_error *error)
{
    linear_work *w = (linear_work *)work_new(sizeof *w, shape, options);
    if (!w)
        return NULL;
    w->rows = shape->field[SHAPE_ROWS];
    w->in = shape->field[SHAPE_IN];
    w->out = shape->field[SHAPE_OUT];
    const double rows = (double)w->rows, in = (double)w->in, out = (double)w->out;
    w->base.run = run_linear;
    w->base.release = release_linear;
    w->base.streamed = streamed_weights;
    w->base.flops = 2.0 * rows * in * out;
    w->base.bytes = (in * out + rows * (in + out)) * sizeof(float);
    w->copies = w->base.stream ? work_copies(options, in * out * sizeof(float)) : 1;
    w->copies = w->copies < MOST_LINEARS ? w->copies : MOST_LINEARS;
    if (pack(w, options, error) == HEED_OK) {
        w->base.workspace = heed_linear_workspace_size(w->linears[0], w->rows);
        w->x = work_floats(&w->base, (size_t)w->rows * (size_t)w->in, 1.0f);
        w->y = work_floats(&w->base, (size_t)w->rows * (size_t)w->out, 0.0f);
        w->workspace = work_floats(&w->base, w->base.workspace / sizeof(float) + 1, 0.0f);
        if (w->x && w->y && w->workspace)
            return &w->base;
    }
    work_destroy(&w->base);
    return NULL;
}
