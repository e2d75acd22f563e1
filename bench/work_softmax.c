/* The row softmax made ready.
 * May know: shapes, heed's softmax.  Must not know: backends, how it is measured. */
#include "work.h"

typedef struct softmax_work {
    bench_work base; /* first */
    heed_options options;
    int64_t rows, cols;
    const float *x;
    float *y;
} softmax_work;

static heed_status run_softmax(bench_work *base, heed_error *error)
{
    softmax_work *w = (softmax_work *)base;
    return heed_softmax(w->rows, w->cols, w->x, w->cols, w->y, w->cols, NULL, &w->options, error);
}

bench_work *work_softmax(const bench_shape *shape, const work_options *options, heed_error *error)
{
    softmax_work *w = (softmax_work *)work_new(sizeof *w, shape, options);
    (void)error;
    if (!w)
        return NULL;
    w->rows = shape->field[SHAPE_ROWS];
    w->cols = shape->field[SHAPE_COLS];
    w->options = work_heed_options(options, shape->field[SHAPE_EXP_KIND]);
    w->base.run = run_softmax;
    w->base.elements = (double)w->rows * (double)w->cols;
    w->base.bytes = 2.0 * w->base.elements * sizeof(float);
    w->x = work_floats(&w->base, (size_t)(w->rows * w->cols), 10.0f);
    w->y = work_floats(&w->base, (size_t)(w->rows * w->cols), 0.0f);
    if (w->x && w->y)
        return &w->base;
    work_destroy(&w->base);
    return NULL;
}
